//! Computes the contribution of a row to the sums of a round.
//!
//! All columns are whole numbers of steps of a grid. A row is rounded only in its weight (to 2^-44), its
//! residual (to 2^-48) and its scalars (to 2^-40). Products with columns and sums are exact.
//! `exp` and `log` are those of the crate `libm`, which give the same bits on every machine.

use super::totals::SCALARS;

/// Number of fraction bits of a weight.
pub(super) const WEIGHT_BITS: i32 = 44;
/// Number of fraction bits of a residual.
pub(super) const RESIDUAL_BITS: i32 = 48;
/// Number of fraction bits of a scalar.
pub(super) const SCALAR_BITS: i32 = 40;
/// Largest number of steps of a column, an outcome or an offset, in absolute terms.
pub const MOST_STEPS: i64 = 1 << 20;
/// Largest weight.
pub const MOST_WEIGHT: f64 = 1024.0;
/// Largest count times weight of the family `poisson`.
pub const MOST_COUNT: f64 = 262_144.0;
/// Largest offset of a family other than `linear`.
pub const MOST_OFFSET: f64 = 1000.0;
/// The largest weight of a row in a matrix is 2 to the power of this number, in units.
const MATRIX_BITS: i32 = 63;
/// Largest linear predictor that the family `poisson` uses: e^13 is about 442,000.
const MOST_PREDICTOR: f64 = 13.0;
/// Number of bits of the sum of squares of the residuals in a sandwich matrix.
const SANDWICH_BITS: i32 = 62;

/// Family of a model, with its canonical link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Normal errors, identity.
    Linear,
    /// An outcome of 0 or 1, logit.
    Logistic,
    /// Counts, logarithm.
    Poisson,
}

/// Kind of a round: the numbers that it sums.
#[derive(Clone, Debug, PartialEq)]
pub enum Round {
    /// Weighted least squares of starting values. Scalars: rows, weights, weighted outcomes; weighted squares
    /// of outcomes (`linear`) or weighted y log y; and a term of the likelihood that does not depend on the
    /// coefficients.
    First,
    /// Matrix and gradient at these coefficients, which are per step of a column. Scalars: rows, deviance,
    /// squares of weighted residuals, 0, 0.
    At(Vec<f64>),
    /// Matrix of squared weighted residuals at these coefficients, in units of 2^-shift. Scalars: rows.
    Sandwich(Vec<f64>, i32),
}

/// Returns a number in units of 2^-bits, rounded.
#[expect(clippy::cast_possible_truncation, reason = "saturates, and callers bound the number")]
fn fixed(x: f64, bits: i32) -> i128 {
    (x * libm::scalbn(1.0, bits)).round_ties_even() as i128
}

/// Returns the weight of a row in a matrix in units of 2^-bits, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 2^63, and no weight is negative"
)]
fn in_matrix(x: f64, bits: i32) -> u64 {
    (x * libm::scalbn(1.0, bits)).round_ties_even().min(libm::scalbn(1.0, MATRIX_BITS)) as u64
}

/// Returns the factor of a row with this weight in the matrix of the first round.
#[must_use]
pub fn first_weight(weight: f64) -> u64 {
    in_matrix(weight, WEIGHT_BITS)
}

/// Returns the shift of a sandwich matrix, given the sum of the squares of weighted residuals.
pub(super) fn sandwich_shift(squares: f64) -> i32 {
    let (_, exponent) = libm::frexp(squares.max(1e-30));
    (SANDWICH_BITS - exponent).clamp(0, 120)
}

/// Returns x log x, 0 for 0.
fn x_log_x(x: f64) -> f64 {
    if x > 0.0 { x * libm::log(x) } else { 0.0 }
}

/// Returns the logarithm of k!: added up from 2, or for large k by Stirling's series.
fn log_factorial(k: f64) -> f64 {
    if k >= 64.0 {
        let half_log_two_pi = 0.918_938_533_204_672_7;
        let inverse = 1.0 / (k * k);
        let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse / 1260.0)) / k;
        return (k + 0.5) * libm::log(k) - k + half_log_two_pi + series;
    }
    let (mut sum, mut at) = (0.0, 2.0);
    while at <= k {
        sum += libm::log(at);
        at += 1.0;
    }
    sum
}

impl Family {
    /// Returns the starting value of the linear predictor for an outcome.
    fn start(self, outcome: f64) -> f64 {
        match self {
            Self::Linear => outcome,
            Self::Logistic => libm::log(3.0) * (2.0 * outcome - 1.0),
            Self::Poisson => libm::log(outcome + 0.5),
        }
    }

    /// Returns the mean at a linear predictor.
    #[must_use]
    pub fn mean(self, predictor: f64) -> f64 {
        match self {
            Self::Linear => predictor,
            Self::Logistic => {
                let e = libm::exp(-predictor.abs());
                if predictor < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
            }
            Self::Poisson => libm::exp(predictor.min(MOST_PREDICTOR)),
        }
    }

    /// Returns the variance of an outcome with this mean.
    fn variance(self, predictor: f64, mean: f64) -> f64 {
        match self {
            Self::Linear => 1.0,
            // This is mean (1 - mean), and it is exact even if the mean is near 1.
            Self::Logistic => {
                let e = libm::exp(-predictor.abs());
                e / ((1.0 + e) * (1.0 + e))
            }
            Self::Poisson => mean,
        }
    }

    /// Returns the deviance of a row without its weight.
    fn deviance(self, outcome: f64, predictor: f64, mean: f64) -> f64 {
        match self {
            Self::Linear => (outcome - mean) * (outcome - mean),
            Self::Logistic => {
                // 2 log(1 + exp(-s)). Here s is the predictor if the outcome is 1, otherwise the negative
                // predictor.
                let s = if outcome > 0.5 { predictor } else { -predictor };
                2.0 * ((-s).max(0.0) + libm::log(1.0 + libm::exp(-s.abs())))
            }
            Self::Poisson => {
                2.0 * (x_log_x(outcome) - outcome * predictor.min(MOST_PREDICTOR) - (outcome - mean))
            }
        }
    }

    /// Adds the scalars of a row in a round. Returns its factors in the matrix and in the vector.
    pub(super) fn terms(
        self,
        round: &Round,
        columns: &[i32],
        [outcome, offset, weight]: [f64; 3],
        scalars: &mut [i128; SCALARS],
    ) -> (u64, i128) {
        let add = |scalar: &mut i128, x: f64| *scalar = scalar.saturating_add(fixed(x, SCALAR_BITS));
        scalars[0] += 1;
        let predictor = |coefficients: &[f64]| {
            let parts = columns.iter().zip(coefficients);
            parts.fold(offset, |sum, (&x, coefficient)| sum + f64::from(x) * coefficient)
        };
        match round {
            Round::First => {
                let start = self.start(outcome) - offset;
                let (third, constant) = match self {
                    Self::Linear => (weight * start * start, libm::log(weight)),
                    Self::Logistic => (0.0, 0.0),
                    Self::Poisson => {
                        let own = x_log_x(outcome);
                        (weight * own, weight * (own - outcome - log_factorial(outcome)))
                    }
                };
                let outcome = if self == Self::Linear { start } else { outcome };
                let all = [weight, weight * outcome, third, constant];
                scalars[1..].iter_mut().zip(all).for_each(|(scalar, x)| add(scalar, x));
                (first_weight(weight), fixed(weight * start, RESIDUAL_BITS))
            }
            Round::At(coefficients) => {
                let predictor = predictor(coefficients);
                let mean = self.mean(predictor);
                let residual = weight * (outcome - mean);
                add(&mut scalars[1], weight * self.deviance(outcome, predictor, mean));
                add(&mut scalars[2], residual * residual);
                let own = in_matrix(weight * self.variance(predictor, mean), WEIGHT_BITS);
                (own, fixed(residual, RESIDUAL_BITS))
            }
            Round::Sandwich(coefficients, shift) => {
                let residual = weight * (outcome - self.mean(predictor(coefficients)));
                (in_matrix(residual * residual, *shift), 0)
            }
        }
    }
}
