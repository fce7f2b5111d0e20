//! Settings of FlyNN to try: parameters of the sketch, and readouts, which need no further counting.

use std::fmt;

use rand::{Rng, RngExt};

use crate::model::readout::{Readout, Score};
use crate::sketch::{MAX_COUNTS, Parameters};
use crate::synthetic::generator;
use flyswarm_data::scaling::Scaling;

/// Sketch to try, without its seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Number of rows of M.
    pub m: usize,
    /// Number of ones in each row of M.
    pub s: usize,
    /// Number of winners.
    pub rho: usize,
    /// True if rows are rotated.
    pub densify: bool,
    /// Scaling of the features.
    pub scaling: Scaling,
}

impl Candidate {
    /// Returns the sketch's parameters for rows of `d` features.
    #[must_use]
    pub fn parameters(&self, d: usize, seed: [u8; 32]) -> Parameters {
        let Self { m, s, rho, densify, ref scaling } = *self;
        Parameters { d, m, s, rho, seed, densify, scaling: scaling.clone() }
    }

    /// Returns whether the candidate is the published method: rows of length 1 (the authors' code), with
    /// or without its "densify".
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.scaling == Scaling::UnitNorm
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m {}, s {}, rho {}, {}", self.m, self.s, self.rho, self.scaling.name())?;
        if let Scaling::SoftBins(bins) = self.scaling {
            write!(f, " {bins}")?;
        }
        f.write_str(if self.densify { ", densify" } else { "" })
    }
}

/// Ranges that candidates are drawn from. The paper (section 4, "FlyNN hyper-parameter search") has m in
/// 2d..2048d, s in 2..0.5d and rho in 8..256.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    /// Number of features.
    pub d: usize,
    /// Number of classes.
    pub classes: usize,
    /// Upper limit for m, in addition to the paper's 2048 d, to bound time and memory.
    pub max_m: usize,
}

/// Number of ones in a row of M: a number, or a share of d. With `densify` d is first padded. Soft bins do
/// not multiply d.
#[derive(Debug, Clone, Copy)]
enum Ones {
    Number(usize),
    Share(f64),
}

/// Setting that was good on some kind of data. Its m is as large as allowed.
#[derive(Debug)]
struct KnownSetting {
    scaling: Scaling,
    densify: bool,
    s: Ones,
    rho: usize,
}

const fn known(scaling: Scaling, densify: bool, s: Ones, rho: usize) -> KnownSetting {
    KnownSetting { scaling, densify, s, rho }
}

/// Settings that are tried before random candidates.
static PORTFOLIO: [KnownSetting; 12] = [
    known(Scaling::UnitNorm, false, Ones::Share(0.3), 64),
    known(Scaling::Center, false, Ones::Share(0.3), 32),
    known(Scaling::Center, false, Ones::Share(0.3), 128),
    known(Scaling::Standard, false, Ones::Share(0.3), 64),
    known(Scaling::SoftBins(2), false, Ones::Number(4), 64),
    known(Scaling::SoftBins(2), false, Ones::Share(0.3), 128),
    known(Scaling::SoftBins(4), false, Ones::Share(0.3), 128),
    known(Scaling::SoftBins(8), false, Ones::Number(2), 128),
    known(Scaling::UnitNorm, true, Ones::Share(0.3), 64),
    known(Scaling::Center, true, Ones::Share(0.3), 64),
    known(Scaling::Standard, true, Ones::Share(0.3), 64),
    known(Scaling::SoftBins(8), false, Ones::Share(0.1), 256),
];

/// Scalings that are tried in addition to the paper's.
const EXTENDED: [Scaling; 5] =
    [Scaling::Center, Scaling::Standard, Scaling::SoftBins(2), Scaling::SoftBins(4), Scaling::SoftBins(8)];

impl Ranges {
    /// Returns our default setting (if m may be large enough for it), then known good settings, then random
    /// ones. Every third random setting is one of the published method. These are 1 + `count` in total, minus
    /// those that the data does not allow.
    #[must_use]
    pub fn draw(&self, count: usize, seed: &[u8]) -> Vec<Candidate> {
        let rng = &mut generator(seed, "candidates");
        let portfolio: Vec<_> = PORTFOLIO.iter().filter_map(|known| self.known(known)).take(count).collect();
        let count = count - portfolio.len();
        let random = (0..count).filter_map(|i| {
            let extended = EXTENDED[rng.random_range(0..EXTENDED.len())].clone();
            let scaling = if i % 3 == 0 { Scaling::UnitNorm } else { extended };
            self.random(scaling, rng)
        });
        let random: Vec<_> = random.collect();
        preset(self.d, self.max_m).into_iter().chain(portfolio).chain(random).collect()
    }

    /// Returns the number of columns of M.
    fn dimension(&self, scaling: &Scaling, densify: bool) -> usize {
        let width = scaling.width(self.d);
        if densify { width.next_power_of_two() } else { width }
    }

    /// Returns the largest number of rows of M: the minimum of the limit, the paper's 2048 d, and the
    /// capacity of a model.
    fn most(&self, width: usize) -> usize {
        (2048 * width).min(self.max_m).min(MAX_COUNTS / self.classes)
    }

    fn known(&self, known: &KnownSetting) -> Option<Candidate> {
        let &KnownSetting { ref scaling, densify, s, rho } = known;
        let m = self.most(scaling.width(self.d));
        let dimension = self.dimension(scaling, densify);
        let s = match s {
            Ones::Number(s) => s,
            Ones::Share(share) => ((share * self.dimension(&Scaling::None, densify) as f64) as usize).max(2),
        };
        (dimension >= 2).then(|| Candidate {
            m,
            s: s.min(dimension),
            rho: rho.min(m),
            densify,
            scaling: scaling.clone(),
        })
    }

    fn random(&self, scaling: Scaling, rng: &mut impl Rng) -> Option<Candidate> {
        let width = scaling.width(self.d);
        let densify = !matches!(scaling, Scaling::SoftBins(_)) && rng.random();
        let dimension = self.dimension(&scaling, densify);
        if dimension < 2 {
            return None;
        }
        // According to the paper, the largest affordable m is best. So only the upper part of its range
        // is used.
        let most = self.most(width);
        let m = log_uniform((2 * width).max(most / 4), most, rng);
        // With soft bins few ones are enough, so every octave of numbers is equally likely.
        let s = match scaling {
            Scaling::SoftBins(_) => log_uniform(2, self.d / 2, rng),
            _ => rng.random_range(2..=(dimension / 2).max(2)),
        };
        let rho = log_uniform(8, 256, rng).min(m);
        Some(Candidate { m, s, rho, densify, scaling })
    }
}

/// Draws a number from `low` to `high`, both ends included, with every octave equally likely. Returns
/// `low` if the range is empty.
fn log_uniform(low: usize, high: usize, rng: &mut impl Rng) -> usize {
    let (a, b) = ((low as f64).ln(), (high.max(low) as f64 + 1.0).ln());
    (rng.random_range(a..b).exp() as usize).clamp(low, high.max(low))
}

/// Returns the default of `session new` for `d` features; `None` if m would be smaller than rho.
#[must_use]
pub fn preset(d: usize, max_m: usize) -> Option<Candidate> {
    let width = PRESET_SCALING.width(d);
    let m = PRESET_M.min(max_m);
    let s = PRESET_S.min(width);
    (m >= PRESET_RHO).then_some(Candidate { m, s, rho: PRESET_RHO, densify: false, scaling: PRESET_SCALING })
}

/// Number of bins that is best over many data sets; see `docs/quality.md`.
pub const PRESET_BINS: u16 = 8;
const PRESET_SCALING: Scaling = Scaling::SoftBins(PRESET_BINS);
/// Number of rows of M.
pub const PRESET_M: usize = 16_384;
/// Number of ones in each row of M.
pub const PRESET_S: usize = 2;
/// Number of winners.
pub const PRESET_RHO: usize = 256;
/// Readout of the default.
pub const PRESET_READOUT: Readout = Readout { score: Score::BalancedLog, gamma: 0.9 };

/// Returns all readouts that are scored for every candidate: the default first, the paper's with gamma 0
/// and the authors' 0.1 to 0.8, and our extensions.
#[must_use]
pub fn readouts() -> Vec<Readout> {
    let grid =
        |score, gammas: &[f64]| gammas.iter().map(|&gamma| Readout { score, gamma }).collect::<Vec<_>>();
    let logarithms = [0.0, 0.5, 0.9, 0.99];
    let mut all = vec![PRESET_READOUT];
    all.extend(grid(Score::Decay, &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]));
    all.extend(grid(Score::BalancedDecay, &[0.1, 0.3, 0.5, 0.7, 0.8, 0.9]));
    all.extend(grid(Score::Log, &logarithms));
    all.extend(
        grid(Score::BalancedLog, &logarithms).into_iter().filter(|readout| *readout != PRESET_READOUT),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_makes_a_sketch_whatever_the_features() {
        for d in [1, 2, 3, 64, 3000] {
            let ranges = Ranges { d, classes: 100, max_m: 1000 };
            let candidates = ranges.draw(200, b"seed");
            assert!(d == 1 || candidates.len() >= 200);
            for candidate in &candidates {
                let sketch = candidate.parameters(d, [0; 32]).check(100);
                assert!(sketch.is_ok(), "{candidate}: {sketch:?}");
            }
            assert_eq!(candidates, ranges.draw(200, b"seed"));
        }
    }

    #[test]
    fn draws_reach_both_ends_of_their_range() {
        let rng = &mut generator(b"seed", "test");
        let draws: Vec<_> = (0..200).map(|_| log_uniform(8, 12, rng)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&8), Some(&12)));
        assert_eq!(log_uniform(5, 2, rng), 5);
    }
}
