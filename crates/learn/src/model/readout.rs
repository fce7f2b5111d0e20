//! The readout turns the counts of a point's winners into scores of the classes. It acts only at
//! prediction, so the same exact sum of counts serves every readout.
//!
//! The novelty of class l for a point is the sum, over the point's winners i ascending, of `w_l(c[l][i])` in
//! f64. The class with the lowest novelty is predicted, or the first of them in a tie.
//!
//! | score | w_l(c) |
//! | --- | --- |
//! | `decay` | gamma^c: the paper's (Ram & Sinha, Algorithm 1, line 12) |
//! | `balanced-decay` | gamma^(c r_l) |
//! | `log` | -ln(c + 1 - gamma) |
//! | `balanced-log` | -ln((c + 1 - gamma) r_l), infinite for a class without rows |
//!
//! r_l = S / (K s_l), where s_l is the sum of the counts of class l (rho for each of its rows) and S is the
//! sum of the counts of all classes. K is the number of classes with rows. r_l is 0 for a class without rows.
//! The factor r_l keeps a class with few rows from looking novel. With the paper's score, the larger of two
//! overlapping classes wins nearly always, and balanced accuracy stays near 1 / K. The logarithm is naive
//! Bayes on the winners (`balanced-log` with equal priors, smoothed by 1 - gamma). It counts every further
//! row that shares a winner, while gamma^c soon approaches 0. Balanced and logarithmic scores are our
//! extension; measurements are in `docs/quality.md`.
//!
//! **gamma^c** is a product that starts at 1.0. Its factors are g_k for the set bits k of c in ascending
//! order, where g_0 = gamma and g_(k+1) = g_k g_k. If gamma is 0, gamma^c is 1 for c = 0 and otherwise 0. The
//! other scores use `exp` and `log` of the crate `libm`, which give the same result on every machine: gamma^x
//! = exp(x log(gamma)), and for gamma = 0 the same rule as before.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::bloom::Counts;

/// Weights of counts below this number are stored in a table.
const TABLE: usize = 4096;

/// Formula that turns counts into a novelty; the module describes the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// The paper's score.
    #[default]
    Decay,
    /// The paper's score, with counts divided by the size of the class.
    BalancedDecay,
    /// Logarithms of counts.
    Log,
    /// Logarithms of counts divided by the size of the class.
    BalancedLog,
}

impl Score {
    /// All scores.
    pub const ALL: [Self; 4] = [Self::Decay, Self::BalancedDecay, Self::Log, Self::BalancedLog];

    /// Returns the name of the score in session files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Decay => "decay",
            Self::BalancedDecay => "balanced-decay",
            Self::Log => "log",
            Self::BalancedLog => "balanced-log",
        }
    }

    fn is_balanced(self) -> bool {
        matches!(self, Self::BalancedDecay | Self::BalancedLog)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Score {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|score| score.name() == text)
            .ok_or_else(|| format!("expected {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// A score and its gamma, from 0 to below 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Readout {
    /// Formula of the score.
    pub score: Score,
    /// Decay rate. `log` scores add 1 - gamma to counts.
    pub gamma: f64,
}

impl Readout {
    /// Returns whether it is the paper's score.
    #[must_use]
    pub fn is_published(self) -> bool {
        self.score == Score::Decay
    }
}

/// Makes the paper's score from a gamma.
impl From<f64> for Readout {
    fn from(gamma: f64) -> Self {
        Self { score: Score::Decay, gamma }
    }
}

/// A readout for given counts: their weights, by class, in tables.
#[derive(Debug)]
pub struct Scorer {
    readout: Readout,
    squares: [f64; 32],
    /// r_l of each class. All are 1 if the score is not balanced.
    ratios: Vec<f64>,
    /// Weights of the counts from 0 on: one table per class.
    tables: Vec<Vec<f64>>,
}

impl Scorer {
    /// Makes a scorer from the counts of training rows. The counts give the class sizes and the largest count
    /// of each class.
    #[must_use]
    pub fn new(readout: Readout, counts: &Counts, classes: usize) -> Self {
        let sums: Vec<u64> =
            (0..classes).map(|l| counts.class(l).iter().map(|&c| u64::from(c)).sum()).collect();
        let total: u64 = sums.iter().sum();
        let held = sums.iter().filter(|&&sum| sum > 0).count() as u64;
        let ratio = |&sum: &u64| match sum {
            _ if !readout.score.is_balanced() => 1.0,
            0 => 0.0,
            // The product is exact in u128. Both numbers are rounded once.
            _ => total as f64 / (u128::from(held) * u128::from(sum)) as f64,
        };
        let mut squares = [readout.gamma; 32];
        for k in 1..32 {
            squares[k] = squares[k - 1] * squares[k - 1];
        }
        let mut scorer =
            Self { readout, squares, ratios: sums.iter().map(ratio).collect(), tables: Vec::new() };
        scorer.tables = (0..classes)
            .map(|l| {
                let largest = counts.class(l).iter().copied().max().unwrap_or(0) as usize;
                (0..=largest.min(TABLE - 1) as u32).map(|c| scorer.compute(l, c)).collect()
            })
            .collect();
        scorer
    }

    /// Returns the novelty of class `l` for a point whose winners have these counts, ascending by winner.
    #[must_use]
    pub fn novelty(&self, l: usize, counts: &[u32]) -> f64 {
        let table = &self.tables[l];
        let weight = |c: u32| table.get(c as usize).copied().unwrap_or_else(|| self.compute(l, c));
        counts.iter().fold(0.0, |sum, &c| sum + weight(c))
    }

    /// Writes the novelty of every class into `scores`, which has one element for each. `gathered` is
    /// scratch.
    pub fn novelties(&self, counts: &Counts, winners: &[u32], gathered: &mut Vec<u32>, scores: &mut [f64]) {
        for (l, score) in scores.iter_mut().enumerate() {
            gather(counts, l, winners, gathered);
            *score = self.novelty(l, gathered);
        }
    }

    fn compute(&self, l: usize, c: u32) -> f64 {
        let Readout { score, gamma } = self.readout;
        match score {
            Score::Decay => power(&self.squares, c),
            Score::BalancedDecay if gamma == 0.0 => f64::from(u8::from(c == 0)),
            Score::BalancedDecay => libm::exp(f64::from(c) * self.ratios[l] * libm::log(gamma)),
            Score::Log => -libm::log(f64::from(c) + (1.0 - gamma)),
            Score::BalancedLog => -libm::log((f64::from(c) + (1.0 - gamma)) * self.ratios[l]),
        }
    }
}

/// Writes the counts of class `l` at the winners into `gathered`.
pub fn gather(counts: &Counts, l: usize, winners: &[u32], gathered: &mut Vec<u32>) {
    let filter = counts.class(l);
    gathered.clear();
    gathered.extend(winners.iter().map(|&i| filter[i as usize]));
}

/// Returns the index of the lowest novelty, the first in a tie.
#[must_use]
pub fn lowest(novelties: &[f64]) -> u16 {
    let mut best = (f64::INFINITY, 0);
    for (class, &novelty) in (0u16..).zip(novelties) {
        if novelty < best.0 {
            best = (novelty, class);
        }
    }
    best.1
}

fn power(squares: &[f64; 32], count: u32) -> f64 {
    squares.iter().enumerate().filter(|&(k, _)| count >> k & 1 == 1).fold(1.0, |product, (_, g)| product * g)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns counts: class 0 has 30 rows, class 1 has 10, class 2 none; rho = 1, m = 4.
    fn counts() -> Counts {
        Counts::from_values(vec![12, 12, 6, 0, 0, 5, 4, 1, 0, 0, 0, 0], 3, 4).unwrap()
    }

    fn weights(score: Score, gamma: f64) -> impl Fn(usize, u32) -> f64 {
        let scorer = Scorer::new(Readout { score, gamma }, &counts(), 3);
        move |l, c| scorer.novelty(l, &[c])
    }

    #[test]
    fn decay_is_a_power_and_for_gamma_0_an_empty_place() {
        let half = weights(Score::Decay, 0.5);
        assert_eq!([0, 1, 2, 10].map(|c| half(0, c)), [1.0, 0.5, 0.25, 1.0 / 1024.0]);
        for score in [Score::Decay, Score::BalancedDecay] {
            let zero = weights(score, 0.0);
            assert_eq!([0, 1, 2, u32::MAX].map(|c| zero(1, c)), [1.0, 0.0, 0.0, 0.0]);
        }
        let slow = weights(Score::Decay, 0.999);
        for c in [4095, 4096, 5000] {
            assert!((slow(0, c) / f64::powf(0.999, f64::from(c)) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn balanced_scores_see_the_same_share_of_a_class_as_the_same() {
        // The mean of the classes that have rows is 20 rows, so r = 2/3 and 2.
        let decay = weights(Score::BalancedDecay, 0.5);
        assert!((decay(0, 6) - 0.0625).abs() < 1e-12 && (decay(1, 2) - 0.0625).abs() < 1e-12);
        let log = weights(Score::BalancedLog, 0.9);
        assert!((log(0, 6) + (6.1f64 * 2.0 / 3.0).ln()).abs() < 1e-12);
        assert!((log(1, 2) + (2.1f64 * 2.0).ln()).abs() < 1e-12);
        assert!((weights(Score::Log, 0.9)(1, 2) + 2.1f64.ln()).abs() < 1e-12);
        assert_eq!(log(2, 0), f64::INFINITY, "a class without rows");
    }

    #[test]
    fn counts_beyond_the_tables_have_weights() {
        let weight = weights(Score::BalancedLog, 0.5);
        assert!((weight(0, u32::MAX) - -((f64::from(u32::MAX) + 0.5) / 1.5).ln()).abs() < 1e-12);
    }

    #[test]
    fn the_lowest_novelty_wins_of_equal_ones_the_lowest_class() {
        assert_eq!(lowest(&[2.0, 1.0, 1.0]), 1);
    }

    #[test]
    fn names_are_read_back() {
        for score in Score::ALL {
            assert_eq!(score.name().parse(), Ok(score));
        }
        assert!("gamma".parse::<Score>().unwrap_err().ends_with("log, balanced-log"));
    }
}
