//! What differential privacy costs: accuracy against epsilon and T (Ram & Sinha, Figures 3, 7 and 8, appendix
//! D.8).
//!
//! The paper's setting: made-up rows in R^30, 2 classes of 5 clusters each, dealt evenly to 2 parties, 1,000
//! rows to score on, four settings of FlyNN. The counts of every party are made once for each repetition;
//! only the mechanism is drawn anew for each epsilon, T and mode.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;

use crate::crypto::mask::{self, Word};
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::model::bloom::{self, Counts};
use crate::model::readout::{Readout, Scorer, lowest};
use crate::model::score::Confusion;
use crate::privacy::Ratio;
use crate::privacy::mechanism::Mechanism;
use crate::session::NoiseMode;
use crate::sketch::Parameters;
use crate::sketch::flyhash::FlyHash;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::synthetic::{Clusters, SyntheticError, clusters};

/// Rows to score on.
const TEST_ROWS: usize = 1000;

/// What is tried.
#[derive(Debug, Clone)]
pub struct Study {
    /// Rows to train on, over all parties.
    pub rows: usize,
    /// Parties with equally many of them.
    pub parties: usize,
    /// m and rho; s is 3 and gamma 0.9.
    pub settings: Vec<(usize, usize)>,
    /// Budgets.
    pub epsilons: Vec<Ratio>,
    /// Counts in a release.
    pub tops: Vec<u32>,
    /// New data, a new matrix and new noise each time.
    pub repetitions: u64,
}

impl Study {
    /// The paper's, with so many rows: 10^4 or 10^5.
    #[must_use]
    pub fn paper(rows: usize) -> Self {
        let quarters = |&quarters: &u64| Ratio::new(quarters, 4);
        Self {
            rows,
            parties: 2,
            settings: vec![(300, 15), (300, 30), (600, 15), (600, 30)],
            epsilons: [1, 2, 3, 4, 6, 8].iter().filter_map(quarters).collect(),
            tops: vec![4, 8, 16, 32, 64, 100, 150, 200, 300, 400, 500, 600],
            repetitions: 10,
        }
    }
}

/// One model's balanced accuracy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Bits of a hash.
    pub m: usize,
    /// Bits that are set in it.
    pub rho: usize,
    /// From 0.
    pub repetition: u64,
    /// The mode, epsilon and T; none of the model without noise.
    pub private: Option<(NoiseMode, Ratio, u32)>,
    /// On rows that nobody trained on, 0 to 1.
    pub accuracy: f64,
}

/// Why there are no points.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// No data.
    #[error(transparent)]
    Data(#[from] SyntheticError),
    /// Sizes that make no FlyHash.
    #[error(transparent)]
    Parameter(#[from] crate::sketch::ParameterError),
    /// Sizes that make no model.
    #[error(transparent)]
    Model(#[from] crate::model::ModelError),
}

/// The mechanism of a mode for `parties` parties, one of which may be curious.
///
/// # Panics
/// If epsilon / parties is out of range.
#[must_use]
pub(crate) fn mechanism(mode: NoiseMode, epsilon: Ratio, top: u32, rho: usize, parties: usize) -> Mechanism {
    let parties = u32::try_from(parties).unwrap_or(u32::MAX);
    let each =
        || epsilon.over(parties.into()).unwrap_or_else(|| panic!("epsilon {epsilon} for {parties} parties"));
    let most = u32::try_from(mask::capacity(Word::W32, parties.into())).unwrap_or(u32::MAX);
    match mode {
        NoiseMode::PerParty => Mechanism::Release { epsilon: each(), top, most },
        NoiseMode::Parallel => Mechanism::Release { epsilon, top, most },
        NoiseMode::Central | NoiseMode::Member => Mechanism::Shares {
            epsilon,
            top,
            weight: u32::try_from(rho).unwrap_or(u32::MAX),
            parties: (parties - 1).max(1),
        },
    }
}

/// One repetition.
pub(super) struct Round {
    classes: usize,
    m: usize,
    readout: Readout,
    parts: Vec<Counts>,
    test: Dataset,
    winners: Vec<Vec<u32>>,
}

impl Round {
    /// `parameters` scale by nothing that needs moments.
    pub(super) fn new(
        train: &Dataset,
        test: &Dataset,
        parties: usize,
        parameters: Parameters,
        readout: Readout,
    ) -> Result<Self, StudyError> {
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
        let winners = hash.winners(&scaler, test, 0..test.rows()).map_err(crate::model::ModelError::from)?;
        let winners = winners.chunks_exact(rho).map(<[u32]>::to_vec).collect();
        Ok(Self { classes, m, readout, parts, test: test.clone(), winners })
    }

    /// Of the exact counts.
    pub(super) fn plain(&self) -> Result<f64, StudyError> {
        self.accuracy(self.parts.iter().map(|part| part.values().to_vec()), <[u32]>::to_vec)
    }

    /// Of what the mechanism makes of them.
    pub(super) fn private(&self, mechanism: &Mechanism, rng: &mut ChaCha20Rng) -> Result<f64, StudyError> {
        let sent = self.parts.iter().map(|part| mechanism.draw(part.values(), rng));
        self.accuracy(sent, |total| mechanism.read(total))
    }

    /// Of the sum of what the parties send.
    fn accuracy(
        &self,
        sent: impl Iterator<Item = Vec<u32>>,
        read: impl Fn(&[u32]) -> Vec<u32>,
    ) -> Result<f64, StudyError> {
        let mut total = vec![0u32; self.classes * self.m];
        for words in sent {
            total.iter_mut().zip(words).for_each(|(total, word)| *total = total.wrapping_add(word));
        }
        let counts = Counts::from_values(read(&total), self.classes, self.m)
            .map_err(crate::model::ModelError::from)?;
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

/// Every point of a study; `tell` hears of each repetition that is done. The same seed gives the same points.
///
/// # Errors
/// [`StudyError`] when the sizes make no data or no model.
pub fn study(study: &Study, seed: u64, tell: &mut dyn FnMut(u64)) -> Result<Vec<Point>, StudyError> {
    const MODES: [NoiseMode; 3] = [NoiseMode::PerParty, NoiseMode::Parallel, NoiseMode::Central];
    let mut points = Vec::new();
    for repetition in 0..study.repetitions {
        let place =
            [seed.to_le_bytes(), (study.rows as u64).to_le_bytes(), repetition.to_le_bytes()].concat();
        // "No labelling noise", says appendix D.2.
        let shape =
            Clusters { classes: 2, clusters: 5, flip_y: 0.0, ..Clusters::paper(study.rows + TEST_ROWS, 30) };
        let all = clusters(&shape, &place)?;
        let (train, test) = (
            all.subset(&(0..study.rows).collect::<Vec<_>>()),
            all.subset(&(study.rows..all.rows()).collect::<Vec<_>>()),
        );
        for &(m, rho) in &study.settings {
            let seed = *derive(&place, "study/matrix", &[]);
            let d = train.features();
            let parameters = Parameters { d, m, s: 3, rho, seed, densify: false, scaling: Scaling::None };
            let round = Round::new(&train, &test, study.parties, parameters, Readout::from(0.9))?;
            let point = |private, accuracy| Point { m, rho, repetition, private, accuracy };
            points.push(point(None, round.plain()?));
            let mut rng =
                ChaCha20Rng::from_seed(*derive(&place, "study/noise", format!("{m} {rho}").as_bytes()));
            for mode in MODES {
                for &epsilon in &study.epsilons {
                    for &top in &study.tops {
                        let mechanism = mechanism(mode, epsilon, top, rho, study.parties);
                        let accuracy = round.private(&mechanism, &mut rng)?;
                        points.push(point(Some((mode, epsilon, top)), accuracy));
                    }
                }
            }
        }
        tell(repetition);
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_costs_little_with_much_budget_and_everything_with_none() {
        let epsilons = ["100", "0.001"].map(|text| text.parse().unwrap()).to_vec();
        let small = Study {
            settings: vec![(300, 15)],
            epsilons,
            tops: vec![200],
            repetitions: 2,
            ..Study::paper(4000)
        };
        let points = study(&small, 1, &mut |_| {}).unwrap();
        assert_eq!(points.len(), 2 * (1 + 3 * 2));
        let mean = |wanted: &dyn Fn(&Point) -> bool| {
            let found: Vec<f64> =
                points.iter().filter(|point| wanted(point)).map(|point| point.accuracy).collect();
            found.iter().sum::<f64>() / found.len() as f64
        };
        let plain = mean(&|point| point.private.is_none());
        for mode in [NoiseMode::PerParty, NoiseMode::Parallel, NoiseMode::Central] {
            let with = |epsilon: &str| {
                let epsilon: Ratio = epsilon.parse().unwrap();
                mean(&|point| matches!(point.private, Some((of, at, _)) if of == mode && at == epsilon))
            };
            let (much, none) = (with("100"), with("0.001"));
            assert!(much > plain - 0.15 && much > none, "{mode}: {much} and {none}, {plain} without noise");
            assert!(none < 0.65, "{mode}: {none}");
        }
    }
}
