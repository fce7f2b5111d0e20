//! The cost of differential privacy: accuracy against epsilon and T (Ram & Sinha, Figures 3, 7 and 8,
//! appendix D.8).
//!
//! The setting is that of the paper: made-up rows in R^30, 2 classes of 5 clusters each, dealt evenly to 2
//! peers, 1,000 rows to score on, four settings of FlyNN. The counts of every peer are made once for each
//! repetition. Only the mechanism is drawn again for each epsilon, T and mode.

use std::fmt;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use flyswarm_data::scaling::Scaling;
use flyswarm_learn::model::readout::Readout;
use flyswarm_learn::privacy::Ratio;
use flyswarm_learn::privacy::mechanism::Mechanism;
use flyswarm_learn::sketch::Parameters;
use flyswarm_learn::synthetic::{Clusters, clusters};
use flyswarm_learn::tuning::noisy::Noisy;
use flyswarm_sealed_sum::crypto::mask::{self, Word};
use flyswarm_sealed_sum::crypto::stream::derive;

use crate::synthetic::{StudyError, paper};

/// Number of rows to score on.
const TEST_ROWS: usize = 1000;

/// Parameters of a study.
#[derive(Debug, Clone)]
pub struct Study {
    /// Number of training rows over all peers.
    pub rows: usize,
    /// Number of peers. All have the same number of rows.
    pub parties: usize,
    /// m and rho; s is 3 and gamma 0.9.
    pub settings: Vec<(usize, usize)>,
    /// Budgets.
    pub epsilons: Vec<Ratio>,
    /// Numbers of counts in a release.
    pub tops: Vec<u32>,
    /// Number of repetitions. Each has new data, a new matrix and new noise.
    pub repetitions: u64,
}

impl Study {
    /// Returns the paper's study with `rows` rows: 10^4 or 10^5.
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

/// Balanced accuracy of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Number of bits of a hash.
    pub m: usize,
    /// Number of set bits of a hash.
    pub rho: usize,
    /// Number of the repetition, from 0.
    pub repetition: u64,
    /// The mode, epsilon and T; `None` for the model without noise.
    pub private: Option<(Mode, Ratio, u32)>,
    /// Accuracy on rows that were not used for training, 0 to 1.
    pub accuracy: f64,
}

/// Sources of the noise, as `privacy.mode` of a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each peer adds noise, with its part of the budget.
    PerParty,
    /// Each peer adds noise, with the whole budget.
    Parallel,
    /// All peers together add noise, in shares.
    Central,
}

impl Mode {
    const ALL: [Self; 3] = [Self::PerParty, Self::Parallel, Self::Central];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerParty => "per-party",
            Self::Parallel => "parallel",
            Self::Central => "central",
        })
    }
}

/// Returns the mechanism of a mode for `parties` peers. One of them may be curious.
///
/// # Panics
/// If epsilon / parties is out of range.
fn mechanism(mode: Mode, epsilon: Ratio, top: u32, rho: usize, parties: usize) -> Mechanism {
    let parties = u32::try_from(parties).unwrap_or(u32::MAX);
    let each =
        || epsilon.over(parties.into()).unwrap_or_else(|| panic!("epsilon {epsilon} for {parties} parties"));
    let most = u32::try_from(mask::capacity(Word::W32, parties.into())).unwrap_or(u32::MAX);
    match mode {
        Mode::PerParty => Mechanism::Release { epsilon: each(), top, most },
        Mode::Parallel => Mechanism::Release { epsilon, top, most },
        Mode::Central => Mechanism::Shares {
            epsilon,
            top,
            weight: u32::try_from(rho).unwrap_or(u32::MAX),
            parties: (parties - 1).max(1),
        },
    }
}

/// Computes every point of a study. `tell` is called after each repetition. The same seed gives the same
/// points.
///
/// # Errors
/// [`StudyError`] if the sizes do not give data or a model.
pub fn study(study: &Study, seed: u64, tell: &mut dyn FnMut(u64)) -> Result<Vec<Point>, StudyError> {
    let mut points = Vec::new();
    for repetition in 0..study.repetitions {
        let place =
            [seed.to_le_bytes(), (study.rows as u64).to_le_bytes(), repetition.to_le_bytes()].concat();
        // Appendix D.2 requires "No labelling noise".
        let shape = Clusters { classes: 2, clusters: 5, flip_y: 0.0, ..paper(study.rows + TEST_ROWS, 30) };
        let all = clusters(&shape, &place)?;
        let (train, test) = (
            all.subset(&(0..study.rows).collect::<Vec<_>>()),
            all.subset(&(study.rows..all.rows()).collect::<Vec<_>>()),
        );
        for &(m, rho) in &study.settings {
            let seed = *derive(&place, "study/matrix", &[]);
            let d = train.features();
            let parameters = Parameters { d, m, s: 3, rho, seed, densify: false, scaling: Scaling::None };
            let round = Noisy::new(&train, &test, study.parties, parameters, Readout::from(0.9))?;
            let point = |private, accuracy| Point { m, rho, repetition, private, accuracy };
            points.push(point(None, round.plain()?));
            let mut rng =
                ChaCha20Rng::from_seed(*derive(&place, "study/noise", format!("{m} {rho}").as_bytes()));
            for mode in Mode::ALL {
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
        for mode in Mode::ALL {
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
