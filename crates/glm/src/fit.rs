//! Computes the next round from the opened sums, and at the end the estimates.
//!
//! [`Model::next`] depends on the opened sums alone, so every peer gets the same result. The steps of
//! Newton's method are solved in about 106 bits and rounded to 40 bits. So an implementation that solves them
//! exactly rounds to the same numbers.

use super::family::{Family, RESIDUAL_BITS, Round, SCALAR_BITS, WEIGHT_BITS, sandwich_shift};
use super::tails::{factor, normal_p, student_p};
use super::totals::Totals;
use super::wide::{Factor, Triangle, Wide, place};

/// Squared length of a Newton step, in units of the standard errors, below which the fit has converged.
const CONVERGED: f64 = 1e-20;
/// Squared length of a Newton step below which steps must shrink fast. If they do not, the outcome is
/// separated.
const NEAR: f64 = 1e-3;
/// Largest number of halvings of one step.
const MOST_HALVINGS: u32 = 10;

/// A column of the design.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, such as `sex=m`.
    pub name: String,
    /// Size of a step of the grid.
    pub step: f64,
}

/// A model, without its rows.
#[derive(Clone, Debug)]
pub struct Model {
    /// Family.
    pub family: Family,
    /// Columns of the design. The first is the intercept.
    pub columns: Vec<Column>,
    /// Size of a step of the outcome; 1 unless the family is `linear`.
    pub outcome_step: f64,
    /// True if rows have offsets. Then there is no null deviance.
    pub offset: bool,
    /// True if rows have weights.
    pub weighted: bool,
    /// True if the standard errors are robust (HC1).
    pub robust: bool,
    /// Largest number of rounds after the first, without the sandwich.
    pub rounds: usize,
    /// Level of the confidence intervals.
    pub level: f64,
}

/// Result of the opened sums so far.
#[derive(Clone, Debug)]
pub enum Next {
    /// Another round.
    Round(Round),
    /// The fit is complete.
    Done(Box<Fit>),
    /// The fit ends without a result: one line for the user.
    Failed(String),
}

/// A coefficient.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficient {
    /// Name of its column.
    pub name: String,
    /// Estimate.
    pub estimate: f64,
    /// Standard error of the model.
    pub model_error: f64,
    /// Robust standard error (HC1), if asked for.
    pub robust_error: Option<f64>,
    /// Estimate divided by the standard error, the robust one if there is one.
    pub statistic: f64,
    /// Two-sided p value.
    pub p: f64,
    /// Confidence interval.
    pub interval: (f64, f64),
    /// Odds ratio or rate ratio with its interval; `None` for the family `linear`.
    pub ratio: Option<[f64; 3]>,
}

/// A complete fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Coefficients, in the order of the columns.
    pub coefficients: Vec<Coefficient>,
    /// Number of rows.
    pub rows: u64,
    /// Residual degrees of freedom.
    pub freedom: u64,
    /// Residual deviance.
    pub deviance: f64,
    /// Deviance of the model with an intercept only; `None` with offsets.
    pub null_deviance: Option<f64>,
    /// Akaike's criterion, as R's `glm` defines it.
    pub aic: f64,
    /// Dispersion: the residual variance of `linear`, otherwise 1.
    pub dispersion: f64,
    /// Number of rounds in which a matrix was opened.
    pub rounds: usize,
}

/// Returns sums in units of 2^-bits as numbers.
fn wide(numbers: &[i128], bits: i32) -> Triangle {
    let unit = Wide::from(libm::scalbn(1.0, -bits));
    numbers.iter().map(|&number| Wide::from(number) * unit).collect()
}

fn scalar(totals: &Totals, at: usize) -> f64 {
    wide(&totals.scalars[at..=at], SCALAR_BITS)[0].value()
}

fn dot(a: &[Wide], b: &[Wide]) -> Wide {
    a.iter().zip(b).fold(Wide::default(), |sum, (&a, &b)| sum + a * b)
}

impl Model {
    /// Returns the largest number of rounds that may be opened.
    #[must_use]
    pub fn most_rounds(&self) -> usize {
        1 + usize::from(self.robust) + if self.family == Family::Linear { 0 } else { self.rounds }
    }

    /// Computes the result of the opened sums of all rounds, in order.
    #[must_use]
    pub fn next(&self, opened: &[Totals]) -> Next {
        self.follow(opened).unwrap_or_else(Next::Failed)
    }

    fn follow(&self, opened: &[Totals]) -> Result<Next, String> {
        let Some(first) = opened.first() else { return Ok(Next::Round(Round::First)) };
        let size = self.columns.len();
        let fits = |totals: &Totals| totals.vector.len() == size && totals.scalars[0] == first.scalars[0];
        if !opened.iter().all(fits) {
            return Err(
                "the rounds count different numbers of rows, so a peer does not follow the protocol".into()
            );
        }
        let matrix = wide(&first.matrix, WEIGHT_BITS);
        let factored = Factor::of(size, &matrix).map_err(|at| self.dependent(at, &matrix))?;
        let half = factored.forward(&wide(&first.vector, RESIDUAL_BITS));
        let explained = dot(&half, &half);
        let step: Vec<f64> = factored.backward(half).into_iter().map(Wide::rounded).collect();
        if self.family == Family::Linear {
            let squares = wide(&first.scalars[3..=3], SCALAR_BITS)[0] - explained;
            let deviance = squares.value().max(0.0);
            let bound = if self.weighted { deviance * super::family::MOST_WEIGHT } else { deviance };
            return Ok(self.last(step, &factored, (first, &opened[1..]), deviance, bound, 1));
        }
        let mut at = step;
        let mut accepted: Option<(Vec<f64>, f64)> = None;
        let (mut halvings, mut slow, mut before) = (0, 0, f64::INFINITY);
        for round in 1..=self.rounds {
            let Some(totals) = opened.get(round) else { return Ok(Next::Round(Round::At(at))) };
            let deviance = scalar(totals, 1);
            if let Some((good, least)) = &accepted
                && deviance > least + 1e-9 * (least.abs() + 0.1)
            {
                halvings += 1;
                if halvings > MOST_HALVINGS {
                    return Err(self.no_end(round));
                }
                at = at.iter().zip(good).map(|(a, b)| 0.5 * (a + b)).collect();
                continue;
            }
            halvings = 0;
            let matrix = wide(&totals.matrix, WEIGHT_BITS);
            let factored = Factor::of(size, &matrix).map_err(|_| self.separated(&at, first, round))?;
            let half = factored.forward(&wide(&totals.vector, RESIDUAL_BITS));
            let length = dot(&half, &half).value();
            let step: Vec<f64> = factored.backward(half).into_iter().map(Wide::rounded).collect();
            let next: Vec<f64> = at.iter().zip(&step).map(|(a, b)| a + b).collect();
            if length <= CONVERGED {
                let squares = scalar(totals, 2);
                let rest = (first, &opened[round + 1..]);
                return Ok(self.last(next, &factored, rest, deviance, squares, round + 1));
            }
            slow = if before < NEAR && length > 0.1 * before { slow + 1 } else { 0 };
            if slow == 2 {
                return Err(self.separated(&step, first, round));
            }
            before = length;
            accepted = Some((at, deviance));
            at = next;
        }
        Err(self.no_end(self.rounds))
    }

    /// Returns the fit, or the round of the sandwich.
    fn last(
        &self,
        coefficients: Vec<f64>,
        factored: &Factor,
        (first, rest): (&Totals, &[Totals]),
        deviance: f64,
        squares: f64,
        rounds: usize,
    ) -> Next {
        let shift = sandwich_shift(squares);
        let sandwich = match rest.first() {
            _ if !self.robust => None,
            Some(totals) => Some(wide(&totals.matrix, shift)),
            None => return Next::Round(Round::Sandwich(coefficients, shift)),
        };
        let (n, p) = (first.scalars[0] as f64, coefficients.len() as f64);
        let freedom = (n - p).max(1.0);
        let linear = self.family == Family::Linear;
        let dispersion = if linear { deviance / freedom } else { 1.0 };
        let tail = |t: f64| if linear { student_p(t, freedom) } else { normal_p(t) };
        let reach = factor(self.level, tail);
        let coefficient = |(at, column): (usize, &Column)| {
            let unit = self.outcome_step / column.step;
            let inverse = factored.inverse_column(at);
            let model_error = (inverse[at].value().max(0.0) * dispersion).sqrt() * unit;
            let robust_error = sandwich.as_ref().map(|sandwich| {
                let row = |i: usize| {
                    (0..inverse.len()).fold(Wide::default(), |sum, j| {
                        sum + sandwich[place(inverse.len(), i, j)] * inverse[j]
                    })
                };
                let rows: Vec<Wide> = (0..inverse.len()).map(row).collect();
                (dot(&inverse, &rows).value().max(0.0) * n / freedom).sqrt() * unit
            });
            let estimate = coefficients[at] * unit;
            let error = robust_error.unwrap_or(model_error);
            let statistic = estimate / error;
            let interval = (estimate - reach * error, estimate + reach * error);
            let name = column.name.clone();
            let ratio = (!linear).then(|| [estimate, interval.0, interval.1].map(libm::exp));
            let p = tail(statistic);
            Coefficient { name, estimate, model_error, robust_error, statistic, p, interval, ratio }
        };
        let square = self.outcome_step * self.outcome_step;
        let deviance = if linear { deviance * square } else { deviance };
        let constant = scalar(first, 4);
        let aic = match self.family {
            Family::Linear => {
                let log = libm::log(2.0 * std::f64::consts::PI * deviance / n);
                n * (log + 1.0) - constant + 2.0 * (p + 1.0)
            }
            Family::Logistic => deviance + 2.0 * p,
            Family::Poisson => deviance - 2.0 * constant + 2.0 * p,
        };
        Next::Done(Box::new(Fit {
            coefficients: self.columns.iter().enumerate().map(coefficient).collect(),
            rows: n as u64,
            freedom: freedom as u64,
            deviance,
            null_deviance: (!self.offset).then(|| self.null_deviance(first)),
            aic,
            dispersion: if linear { dispersion * square } else { 1.0 },
            rounds: rounds + usize::from(self.robust),
        }))
    }

    fn null_deviance(&self, first: &Totals) -> f64 {
        let [weights, outcomes, third] = [1, 2, 3].map(|at| scalar(first, at));
        let mean = outcomes / weights;
        let part = |x: f64, of: f64| if x > 0.0 { x * libm::log(of) } else { 0.0 };
        match self.family {
            Family::Linear => {
                let [weights, outcomes, squares] =
                    [1, 2, 3].map(|at| wide(&first.scalars[at..=at], SCALAR_BITS)[0]);
                (squares - outcomes * outcomes / weights).value() * self.outcome_step * self.outcome_step
            }
            Family::Logistic => -2.0 * (part(outcomes, mean) + part(weights - outcomes, 1.0 - mean)),
            Family::Poisson => 2.0 * (third - part(outcomes, mean)),
        }
    }

    fn dependent(&self, at: usize, matrix: &[Wide]) -> String {
        let name = &self.columns[at].name;
        let diagonal = matrix[place(self.columns.len(), at, at)].value();
        match () {
            () if diagonal == 0.0 => format!("column {name:?} of the model is 0 in all rows; leave it out"),
            () if diagonal < 0.0 || diagonal.is_nan() => {
                format!(
                    "the opened sum of squares of column {name:?} cannot come from rows, so a peer does not follow the protocol"
                )
            }
            () => format!(
                "column {name:?} of the model is a linear combination of the columns before it; leave it or one of \
                 them out"
            ),
        }
    }

    /// Names the columns that change the linear predictor most.
    fn separated(&self, step: &[f64], first: &Totals, round: usize) -> String {
        let weights = scalar(first, 1).max(1e-300);
        let diagonal = wide(&first.matrix, WEIGHT_BITS);
        let size = self.columns.len();
        let change = |at: usize| step[at].abs() * (diagonal[place(size, at, at)].value() / weights).sqrt();
        let most = (0..size).map(change).fold(0.0, f64::max);
        let named = (0..size).filter(|&at| change(at) >= 0.1 * most && (at > 0 || size == 1));
        let named: Vec<_> = named.map(|at| format!("{:?}", self.columns[at].name)).collect();
        format!(
            "the estimates grow without end (round {round}): a combination of {} separates the outcome, so that no \
             finite estimates exist; leave columns out or join levels",
            if named.is_empty() { "columns".to_owned() } else { named.join(", ") }
        )
    }

    fn no_end(&self, round: usize) -> String {
        format!(
            "the fit has not converged after {round} rounds; allow more with glm.rounds, or leave columns out: a \
             separated outcome has no finite estimates"
        )
    }
}
