//! Measures the cost of noise on the counts of several peers: balanced accuracy with and without noise.

use chacha20::ChaCha20Rng;
use flyswarm_data::Dataset;
use flyswarm_data::scaling::Scaler;

use super::search::TrialError;
use crate::model::ModelError;
use crate::model::bloom::{self, Counts};
use crate::model::readout::{Readout, Scorer, lowest};
use crate::model::score::Confusion;
use crate::privacy::mechanism::Mechanism;
use crate::sketch::Parameters;
use crate::sketch::flyhash::FlyHash;

/// Counts of several peers, and test rows for the model of their sum.
#[derive(Debug)]
pub struct Noisy {
    classes: usize,
    m: usize,
    readout: Readout,
    parts: Vec<Counts>,
    test: Dataset,
    winners: Vec<Vec<u32>>,
}

impl Noisy {
    /// Deals the rows of `train` to `parties` peers. The scaling of `parameters` must not need moments.
    ///
    /// # Errors
    /// [`TrialError`] if the sizes do not form a model.
    pub fn new(
        train: &Dataset,
        test: &Dataset,
        parties: usize,
        parameters: Parameters,
        readout: Readout,
    ) -> Result<Self, TrialError> {
        let (d, m, rho) = (parameters.d, parameters.m, parameters.rho);
        let classes = train.classes().len();
        let scaling = parameters.scaling.clone();
        let hash = FlyHash::new(&parameters.check(classes)?);
        let scaler = Scaler::new(&scaling, d, None)
            .unwrap_or_else(|_| unreachable!("BUG: this scaling needs no moments"));
        let deal = |party: usize| (party..train.rows()).step_by(parties).collect::<Vec<_>>();
        let parts = (0..parties)
            .map(|party| bloom::fit(&hash, &scaler, &train.subset(&deal(party)), classes))
            .collect::<Result<_, _>>()?;
        let winners = hash.winners(&scaler, test, 0..test.rows()).map_err(ModelError::from)?;
        let winners = winners.chunks_exact(rho).map(<[u32]>::to_vec).collect();
        Ok(Self { classes, m, readout, parts, test: test.clone(), winners })
    }

    /// Returns the balanced accuracy of the model of the exact counts.
    ///
    /// # Errors
    /// [`TrialError`] if the sizes do not form a model.
    pub fn plain(&self) -> Result<f64, TrialError> {
        self.accuracy(self.parts.iter().map(|part| part.values().to_vec()), <[u32]>::to_vec)
    }

    /// Returns the balanced accuracy of the model of the counts after the mechanism.
    ///
    /// # Errors
    /// [`TrialError`] if the sizes do not form a model.
    pub fn private(&self, mechanism: &Mechanism, rng: &mut ChaCha20Rng) -> Result<f64, TrialError> {
        let sent = self.parts.iter().map(|part| mechanism.draw(part.values(), rng));
        self.accuracy(sent, |total| mechanism.read(total))
    }

    /// Returns the balanced accuracy of the model of the sum of the peers' words.
    fn accuracy(
        &self,
        sent: impl Iterator<Item = Vec<u32>>,
        read: impl Fn(&[u32]) -> Vec<u32>,
    ) -> Result<f64, TrialError> {
        let mut total = vec![0u32; self.classes * self.m];
        for words in sent {
            total.iter_mut().zip(words).for_each(|(total, word)| *total = total.wrapping_add(word));
        }
        let counts = Counts::from_values(read(&total), self.classes, self.m).map_err(ModelError::from)?;
        let scorer = Scorer::new(self.readout, &counts, self.classes);
        let (mut gathered, mut scores) = (Vec::new(), vec![0.0; self.classes]);
        let mut predict = |winners: &Vec<u32>| {
            scorer.novelties(&counts, winners, &mut gathered, &mut scores);
            lowest(&scores)
        };
        let predicted: Vec<u16> = self.winners.iter().map(&mut predict).collect();
        Ok(Confusion::new(self.test.classes(), self.test.labels(), &predicted).balanced_accuracy())
    }
}
