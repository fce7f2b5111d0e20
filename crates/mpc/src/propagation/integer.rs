//! Cross-client label propagation on integers: the reference that the computation on shares
//! (`flyswarm::tasks::xclp::shares`) equals bit for bit (Scott, Yeo & Lampert, *Cross-client Label
//! Propagation*, TMLR 2023, Algorithm 1, lines 6 to 10 and 15).
//!
//! Let W = B + B^T, where row i of B holds the weights of i's k nearest points, and let D be the degrees.
//! The scores (I - alpha D^-1/2 W D^-1/2)^-1 y are D^1/2 times sum_j c_j a_j, with
//!
//! ```text
//! a_0 = D^-1/2 y,   a_1 = P a_0,   a_(j+1) = 2 P a_j - a_(j-1),   P = D^-1 W
//! ```
//!
//! and the coefficients c_j of the Chebyshev series of 1 / (1 - alpha x) ([`Plan::coefficients`]). The
//! factor D^1/2 is left out: it changes no label and no row-normalised score, and it would reveal degrees.
//!
//! **Degrees in integers.** r is floor(2^G / d) or a little less, never more, so that P stays within
//! the unit ball. The shortfall c = 2^G - d r is given back to the point itself: P a = (r W a + c a) /
//! 2^G has rows that sum to exactly 1. A hub of degree d then changes D^-1/2 times the scores by at
//! most about 2 d / 2^G of the largest, for any alpha. Without c, the change would be d / 2^G / (1 -
//! alpha).
//!
//! **Balanced classes** are an option that Algorithm 1 does not have. Each label counts as sqrt(n) divided
//! by the number of labels of its class; the factor sqrt(n) keeps more digits. Scores are linear in
//! labels, so the scores of a class are multiplied at the end ([`Plan::balance`]), and no earlier stage
//! loses precision.
//!
//! **Ranges** follow from public numbers. D^1/2 a_j keeps its norm, at most sqrt(n), and no degree except
//! 0 is below the smallest weight, 1/16. So |P a_j| <= 4 sqrt(n). [`Plan::new`] refuses settings that do
//! not fit, with the reason.

pub mod reference;

use std::f64::consts::PI;

/// Fractional bits of a weight; weights are at most 2^12.
pub const WEIGHT_BITS: u32 = 12;
/// Weights below 1/16 are 0.
pub const LEAST_WEIGHT: u64 = 1 << (WEIGHT_BITS - 4);
/// Fractional bits of a propagated value, F.
pub const VALUE_BITS: u32 = 21;
/// Fractional bits of a reciprocal, G.
pub const RECIPROCAL_BITS: u32 = 32;
/// Fractional bits of a coefficient of the series.
pub const COEFFICIENT_BITS: u32 = 20;
/// Fractional bits of the factor of the scores of a class, if classes are balanced.
pub const BALANCE_BITS: u32 = COEFFICIENT_BITS;
/// Fractional bits inside Newton's iterations. Degrees are shifted to this number of bits.
pub const NEWTON_BITS: u32 = 28;
/// Newton steps, for 1/m and for 1/sqrt(m): they reduce an error of 0.086, or 0.056, to below 3e-9.
pub const NEWTON_STEPS: usize = 3;
/// Start of Newton's iteration for 1/m on [1/2, 1): 2.9142 - 2 m.
pub const INVERSE_START: u64 = 782_274_605;
/// Start of Newton's iteration for 1/sqrt(m): 1.945 - m.
pub const ROOT_START: u64 = 522_106_962;
/// Largest excess of Newton's 1/m, in units of 2^-28. It is subtracted, so that the result is never too
/// large.
pub const INVERSE_EXCESS: u64 = 2;
/// Fractional bits of an output score: a multiple of 2^-6 of its row's sum.
pub const COARSE_BITS: u32 = 6;
/// Limit of an exact truncation: it is exact for values of smaller magnitude.
pub const TRUNCATION_LIMIT: f64 = (1u64 << 62) as f64;
/// Largest tolerance that a plan may have, relative to the largest score.
pub const MOST_TOLERANCE: f64 = 1.0 / 32.0;
/// Smallest and largest code length in bits.
pub const CODE_BITS: std::ops::RangeInclusive<u32> = 64..=16_384;
/// Largest number of classes.
pub const MOST_CLASSES: usize = 1024;
/// Largest number of steps.
pub const MOST_STEPS: usize = 1000;

/// Reason why a computation is refused: it would not be exact, or not as precise as required.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Fewer than two points.
    #[error("{0} points: at least 2 are needed")]
    FewPoints(usize),
    /// Products would need more than 62 bits.
    #[error("{points} points and {steps} steps: a product may reach 2^{bits:.1}, the limit is 2^62")]
    Range {
        /// Number of points.
        points: usize,
        /// Number of steps.
        steps: usize,
        /// Binary logarithm of the largest value.
        bits: f64,
    },
    /// The number of classes is 0 or too large.
    #[error("{0} classes: from 1 to {MOST_CLASSES}")]
    Classes(usize),
    /// The code length is not a power of two, or is out of range.
    #[error("codes of {0} bits: a power of two from 64 to 16384 is needed")]
    CodeBits(u32),
    /// The number of neighbours is 0, or the power of the similarity is 0 or above 16.
    #[error("k = {k}, power = {power}: k is at least 1 and the power from 1 to 16")]
    Graph {
        /// Neighbours of a point.
        k: usize,
        /// Power of the cosine.
        power: u8,
    },
    /// Alpha is out of range.
    #[error("alpha = {0}: above 0 and at most 0.999")]
    Alpha(f64),
    /// There are too few steps for alpha, or too many points for the reciprocals of their degrees.
    #[error(
        "alpha = {alpha} with {steps} steps and {points} points: scores are right to {tolerance:.3} of the \
         largest, {MOST_TOLERANCE:.3} is the limit ({})",
        advice(*enough)
    )]
    Imprecise {
        /// Strength of the propagation.
        alpha: f64,
        /// Number of steps.
        steps: usize,
        /// Number of points.
        points: usize,
        /// Tolerance of the scores.
        tolerance: f64,
        /// Sufficient number of steps, if there is one.
        enough: Option<usize>,
    },
}

fn advice(enough: Option<usize>) -> String {
    match enough {
        Some(steps) => format!("{steps} steps are enough for this alpha"),
        None => "no number of steps is precise enough: use a smaller alpha or fewer points".into(),
    }
}

/// Settings that all members agree on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Neighbours of a point. If there are fewer than k other points, all of them.
    pub k: usize,
    /// Bits of a code, L: a power of two.
    pub bits: u32,
    /// Strength of the propagation.
    pub alpha: f64,
    /// Terms of the series after the first, K.
    pub steps: usize,
    /// Power of the cosine in the weights.
    pub power: u8,
    /// True if each label counts as 1 / (labels of its class).
    pub balance: bool,
}

/// Computation whose intermediate values all fit. Public numbers alone guarantee that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    points: usize,
    classes: usize,
    settings: Settings,
}

impl Plan {
    /// Makes a plan for `points` points of all owners together and `classes` classes.
    ///
    /// # Errors
    /// If a setting is out of range, if a value might leave the range of exact truncation, or if the error
    /// of scores would exceed [`MOST_TOLERANCE`] of the largest score.
    pub fn new(points: usize, classes: usize, settings: Settings) -> Result<Self, Refusal> {
        let Settings { k, bits, alpha, steps, power, .. } = settings;
        if points < 2 {
            return Err(Refusal::FewPoints(points));
        }
        if !(1..=MOST_CLASSES).contains(&classes) {
            return Err(Refusal::Classes(classes));
        }
        if !CODE_BITS.contains(&bits) || !bits.is_power_of_two() {
            return Err(Refusal::CodeBits(bits));
        }
        if k == 0 || !(1..=16).contains(&power) {
            return Err(Refusal::Graph { k, power });
        }
        if !(alpha > 0.0 && alpha <= 0.999) {
            return Err(Refusal::Alpha(alpha));
        }
        let plan = Self { points, classes, settings: Settings { k: k.min(points - 1), ..settings } };
        let largest = plan.largest_product().max(plan.largest_sum());
        if largest >= TRUNCATION_LIMIT || !(1..=MOST_STEPS).contains(&steps) {
            return Err(Refusal::Range { points, steps, bits: largest.log2() });
        }
        let tolerance = plan.tolerance(plan.largest_degree());
        if tolerance > MOST_TOLERANCE {
            let fits = |steps: &usize| {
                let plan = Self { settings: Settings { steps: *steps, ..plan.settings }, ..plan };
                plan.largest_product().max(plan.largest_sum()) < TRUNCATION_LIMIT
                    && plan.tolerance(plan.largest_degree()) <= MOST_TOLERANCE
            };
            // Rounding errors grow with the steps, so a smaller number of steps than the usual one may
            // fit.
            let enough = std::iter::once(enough_steps(alpha)).chain(1..=MOST_STEPS).find(fits);
            return Err(Refusal::Imprecise { alpha, steps, points, tolerance, enough });
        }
        Ok(plan)
    }

    /// Returns the number of points of all owners, n.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns the number of classes, C.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of neighbours of a point: at most n - 1.
    #[must_use]
    pub fn k(&self) -> usize {
        self.settings.k
    }

    /// Returns the agreed settings, with k limited to n - 1.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns log2 of the code length.
    #[must_use]
    pub fn key_bits(&self) -> u32 {
        self.settings.bits.trailing_zeros()
    }

    /// Returns the upper bound on a degree: k edges leave a point and n - 1 reach it.
    #[must_use]
    pub fn largest_degree(&self) -> u64 {
        ((self.points - 1 + self.settings.k) as u64) << WEIGHT_BITS
    }

    /// Returns the number of bits of the largest degree, DB.
    #[must_use]
    pub fn degree_bits(&self) -> u32 {
        self.largest_degree().ilog2() + 1
    }

    /// Returns the integer weight of each Hamming distance below L / 2: cos(pi H / L)^power with
    /// [`WEIGHT_BITS`] fractional bits, or 0 if that is below [`LEAST_WEIGHT`]. From L / 2 on it is 0.
    #[must_use]
    pub fn weights(&self) -> Vec<u64> {
        let one = f64::from(1u32 << WEIGHT_BITS);
        (0..self.settings.bits / 2)
            .map(|h| {
                let cosine = libm::cos(PI * f64::from(h) / f64::from(self.settings.bits));
                let similarity = (1..self.settings.power).fold(cosine, |product, _| product * cosine);
                Some((similarity * one).round() as u64).filter(|&w| w >= LEAST_WEIGHT).unwrap_or(0)
            })
            .collect()
    }

    /// Returns c_0 = 1 / s and c_j = 2 q^j / s with s = sqrt(1 - alpha^2), q = (1 - s) / alpha, each with
    /// [`COEFFICIENT_BITS`] fractional bits (Rivlin, *Chebyshev Polynomials*, section 1.4).
    #[must_use]
    pub fn coefficients(&self) -> Vec<u64> {
        let (s, q) = series(self.settings.alpha);
        let one = f64::from(1u32 << COEFFICIENT_BITS);
        let mut powers = std::iter::successors(Some(2.0), |power| Some(power * q));
        let rest = powers.by_ref().skip(1).take(self.settings.steps);
        std::iter::once(1.0).chain(rest).map(|c| (c / s * one).round() as u64).collect()
    }

    /// Returns floor(sqrt(2^(64 - e))) for each bit length e of a degree, from 1 on. It is the factor that
    /// turns 1/sqrt(m) into 1/sqrt(d), where m = d / 2^e.
    #[must_use]
    pub fn roots(&self) -> Vec<u64> {
        (1..=self.degree_bits()).map(|e| (1u128 << (64 - e)).isqrt() as u64).collect()
    }

    /// Returns the factors of the scores of a class with 0, 1, .., n labels, with [`BALANCE_BITS`]
    /// fractional bits, if classes are balanced. A factor is floor(sqrt(n)) / labels, to the nearest,
    /// halves up; 0 without labels. So the norm of a class's labels, sqrt(labels), becomes sqrt(n /
    /// labels). It is at most sqrt(n), the bound without balancing.
    #[must_use]
    pub fn balance(&self) -> Option<Vec<u64>> {
        let twice = (self.points.isqrt() as u64) << (BALANCE_BITS + 1);
        let weight = |labels: u64| if labels == 0 { 0 } else { (twice + labels) / (2 * labels) };
        self.settings.balance.then(|| (0..=self.points as u64).map(weight).collect())
    }

    /// Returns two parts of a bound on any |P a_j|, in units of 2^-F: one from the norm of a column of
    /// labels, and one for the rounding errors of all steps.
    fn largest_parts(&self) -> [f64; 2] {
        let (n, k, steps) = (self.points as f64, self.settings.k as f64, self.settings.steps as f64);
        let lowest = (LEAST_WEIGHT as f64 / f64::from(1u32 << WEIGHT_BITS)).sqrt();
        let one = f64::from(1u32 << VALUE_BITS);
        // The factor 1.01 covers two errors: 1/sqrt(d) is rounded, and 2^G / r may exceed d by 2^-7 of
        // d.
        [1.01 * one * n.sqrt() / lowest, steps * steps * (8.0 * n * k).sqrt()]
    }

    /// Returns a bound on the products before the truncation of a step.
    #[must_use]
    pub fn largest_product(&self) -> f64 {
        self.largest_parts().iter().sum::<f64>() * 2f64.powi(RECIPROCAL_BITS as i32)
    }

    /// Returns a bound on the sums of the series and on the balanced scores before their truncation. The
    /// coefficients add up to 1 / (1 - alpha).
    #[must_use]
    pub fn largest_sum(&self) -> f64 {
        self.largest_score() * 2f64.powi(COEFFICIENT_BITS as i32)
    }

    fn largest_score(&self) -> f64 {
        let ([labels, roundings], steps) = (self.largest_parts(), self.settings.steps as f64);
        let sum = 1.0 / (1.0 - self.settings.alpha);
        if !self.settings.balance {
            return (labels + roundings) * 1.001 * sum + steps;
        }
        // A class with one label has the largest factor, which also multiplies the rounding errors of its
        // scores.
        let most = self.points.isqrt() as f64;
        (labels + most * roundings) * 1.002 * sum + most * steps + 1.0
    }

    /// Returns the number of bits, with sign, of a difference of two scores.
    #[must_use]
    pub fn score_bits(&self) -> u32 {
        self.largest_score().log2().ceil() as u32 + 2
    }

    /// Returns the number of bits, with sign, of every value in the division of a score by its row's sum.
    #[must_use]
    pub fn quotient_bits(&self) -> u32 {
        let largest = self.largest_score() * (self.classes as f64 * 2.0 + 2.0) * 64.0 * 2.0;
        largest.log2().ceil() as u32 + 1
    }

    /// Returns the estimated error of a score against the exact solution in real numbers, relative to the
    /// largest of all scores, with no degree above `degree`. It has three parts: twice the truncated rest
    /// of the series, twice the rounding error of the reciprocal of the largest degree, and K^2 2^-25 for
    /// all other rounding errors, which add up over the steps. If classes are balanced, the largest score
    /// may be that of a class with one label. A hub's rounding errors then count up to sqrt(d) times as
    /// much, so the third part is multiplied by that. In addition, twice the relative rounding error of
    /// the smallest weight of a class is added.
    ///
    /// This is an estimate, not a bound. The second part is a bound only for scores divided by sqrt(d),
    /// relative to the largest of those; the first is relative to 1 / (1 - alpha); the third is fitted. It
    /// is checked against the exact solution by `scores_are_those_of_the_exact_solve_to_the_tolerance`.
    /// One case is known to exceed it: ten hubs among 2,500 points at alpha = 0.999 and 190 steps, where a
    /// numpy model measured 6.9e-3 instead of 6.3e-3.
    #[must_use]
    pub fn tolerance(&self, degree: u64) -> f64 {
        let hub = 2.0 * degree as f64 / 2f64.powi(RECIPROCAL_BITS as i32);
        let roundings = (self.settings.steps as f64).powi(2) / 2f64.powi(25);
        let most = self.points.isqrt() as f64 * f64::from(1u32 << BALANCE_BITS);
        let weights = self.points as f64 / most;
        let root = (degree as f64 / f64::from(1u32 << WEIGHT_BITS)).sqrt().max(1.0);
        let others = if self.settings.balance { roundings * root + weights } else { roundings };
        2.0 * cut_off(self.settings.alpha, self.settings.steps) + hub + others
    }
}

/// Returns sqrt(1 - alpha^2) and the ratio of the series.
fn series(alpha: f64) -> (f64, f64) {
    let s = (1.0 - alpha * alpha).sqrt();
    (s, (1.0 - s) / alpha)
}

/// Returns the rest of the series after `steps` steps, relative to its sum 1 / (1 - alpha).
fn cut_off(alpha: f64, steps: usize) -> f64 {
    let (s, q) = series(alpha);
    2.0 * libm::pow(q, steps as f64 + 1.0) / ((1.0 - q) * s) * (1.0 - alpha)
}

/// Returns the smallest number of steps that cut off at most 2e-4 of the series: 60 for alpha = 0.99.
#[must_use]
pub fn enough_steps(alpha: f64) -> usize {
    (1..MOST_STEPS).find(|&steps| cut_off(alpha, steps) <= 2e-4).unwrap_or(MOST_STEPS)
}
