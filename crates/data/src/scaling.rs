//! Puts features on one scale, the same at every peer.
//!
//! | mode | a row x becomes |
//! | --- | --- |
//! | `none` | x |
//! | `unit-norm` | x / \|x\| (the authors' choice for real data) |
//! | `range` | (x - lo) / (hi - lo), limited to 0 to 1 |
//! | `center` | x - mean, then unit norm |
//! | `standard` | (x - mean) / deviation, 0 for a constant feature, then unit norm |
//! | `soft-bins` | B numbers for each feature: its share in each of B overlapping bins |
//!
//! A row of norm 0 stays 0. The arithmetic is f64 in ascending feature order, and the result is rounded to
//! f32.
//!
//! **Soft bins** are our extension. Let z = (x - mean) / deviation (0 for a constant feature). Then u =
//! 1/2 + z / (2 sqrt(z^2 + 2)) is between 0 and 1. It is the distribution function of Student's t with two
//! degrees of freedom, so outliers do little harm. With p = u (B - 1), bin b = 0..B-1 gets max(0, 1 - |p -
//! b|). A row becomes d B numbers; those of a feature follow each other. They sum to 1, and at most two of
//! them are positive.
//!
//! FlyHash keeps the rows of M with the largest sums. Without soft bins, a bit can only say that some
//! features are *large*, so all rows with small values look alike. With soft bins, a bit can ask for
//! small, middling or large values. B = 2 is the pair (1 - u, u).
//!
//! Means and deviations over all peers come from one exact sum: [`mod@moments`].

pub mod moments;
pub mod sums;

pub use self::moments::{Moments, moments};
pub use self::sums::ColumnSums;
use crate::{Dataset, MAX_FEATURES, MAX_ROWS};
pub use flyswarm_sealed_sum::crypto::mask::Wide;

/// Most soft bins of a feature. An estimate: 8 bins already resolve more than the best settings need.
pub const MAX_BINS: u16 = 64;
/// Most numbers of a scaled row.
const WIDEST: usize = MAX_FEATURES;

/// A parameter that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, expected {expected}")]
pub struct ParameterError {
    /// The field as it is spelled in a session file.
    pub field: &'static str,
    /// The value found.
    pub value: String,
    /// The allowed values.
    pub expected: String,
}

/// Method that puts features on one scale; see the module for the formulas.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// No scaling.
    None,
    /// Rows of length 1.
    UnitNorm,
    /// Maps the given bounds to 0 and 1 and limits values outside; one pair for all features, or one for
    /// each.
    Range {
        /// Lower bounds, 1 or d of them.
        lo: Vec<f32>,
        /// Upper bounds, the same number.
        hi: Vec<f32>,
    },
    /// The mean over all peers is removed, then rows get length 1.
    Center,
    /// The mean over all peers is removed, features get deviation 1, then rows get length 1.
    Standard,
    /// Each feature becomes this number of overlapping bins, 2 to [`MAX_BINS`].
    SoftBins(u16),
}

impl Scaling {
    /// The name in session files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::UnitNorm => "unit-norm",
            Self::Range { .. } => "range",
            Self::Center => "center",
            Self::Standard => "standard",
            Self::SoftBins(_) => "soft-bins",
        }
    }

    /// Returns `Some` if the scaling needs sums over all peers first. The value is true if it needs
    /// squares too.
    #[must_use]
    pub fn needs_moments(&self) -> Option<bool> {
        match self {
            Self::None | Self::UnitNorm | Self::Range { .. } => None,
            Self::Center => Some(false),
            Self::Standard | Self::SoftBins(_) => Some(true),
        }
    }

    /// Returns the number of entries in a scaled row of `d` features.
    #[must_use]
    pub fn width(&self, d: usize) -> usize {
        match self {
            Self::SoftBins(bins) => d * usize::from(*bins),
            _ => d,
        }
    }

    /// Checks bins and bounds for `d` features.
    ///
    /// # Errors
    /// [`ParameterError`] for the first parameter that is out of its range.
    pub fn check(&self, d: usize) -> Result<(), ParameterError> {
        if let Self::SoftBins(bins) = self {
            let most = usize::from(MAX_BINS).min(WIDEST / d.max(1));
            if !(2..=most).contains(&usize::from(*bins)) {
                let expected = format!("2 to {most} (d x bins is at most 2^20)");
                return Err(ParameterError { field: "bins", value: bins.to_string(), expected });
            }
        }
        let Self::Range { lo, hi } = self else { return Ok(()) };
        if lo.len() != hi.len() || (lo.len() != 1 && lo.len() != d) {
            return Err(ParameterError {
                field: "range",
                value: format!("{} lower and {} upper bounds", lo.len(), hi.len()),
                expected: format!("1 or {d} of both"),
            });
        }
        match lo.iter().zip(hi).find(|(lo, hi)| !(lo.is_finite() && hi.is_finite() && lo < hi)) {
            None => Ok(()),
            Some((lo, hi)) => Err(ParameterError {
                field: "range",
                value: format!("{lo} to {hi}"),
                expected: "finite bounds, the lower one first".into(),
            }),
        }
    }
}

/// Reason why moments or a scaler could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScalingError {
    /// The number of words does not match the number of features.
    #[error("{found} words of moments, expected {plain} or {squared} for {features} features")]
    Words {
        /// Number of words given.
        found: usize,
        /// Number of words for sums alone.
        plain: usize,
        /// Number of words for sums and squares.
        squared: usize,
        /// Number of features.
        features: usize,
    },
    /// The number of rows is 0, or too large for the words.
    #[error("{0} rows in all, expected 1 to {MAX_ROWS} to compute means")]
    Rows(String),
    /// The words cannot be the sums of any rows, because some peer sent other words.
    #[error("the sums for feature {0} cannot come from rows")]
    Inconsistent(usize),
    /// The scaling needs moments, and none were given.
    #[error("scaling {0} needs means{1} over all peers")]
    Missing(&'static str, &'static str),
    /// The moments have a different number of features.
    #[error("moments of {found} features, expected {expected}")]
    Features {
        /// Number of features in the moments.
        found: usize,
        /// Number of features of the scaler.
        expected: usize,
    },
}

/// A [`Scaling`] with its numbers. It scales rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaler {
    features: usize,
    scaling: Scaling,
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Scaler {
    /// Makes the scaler from the opened words of the moments (LE u64). The words are ignored unless the
    /// scaling needs moments.
    ///
    /// # Errors
    /// As [`Scaler::new`], and if the words are not valid moments.
    pub fn opened(scaling: &Scaling, features: usize, moments: Option<&[u8]>) -> Result<Self, ScalingError> {
        let words = moments.filter(|_| scaling.needs_moments().is_some()).map(Wide::all);
        let moments = words.map(|words| Moments::from_words(sums::parts(&words, features).0, features));
        Self::new(scaling, features, moments.transpose()?.as_ref())
    }

    /// Makes the scaler for `features` features. `center`, `standard` and `soft-bins` need `moments`; the
    /// others ignore them.
    ///
    /// # Errors
    /// [`ScalingError::Missing`] or [`ScalingError::Features`].
    pub fn new(scaling: &Scaling, features: usize, moments: Option<&Moments>) -> Result<Self, ScalingError> {
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        if let Some(squares) = scaling.needs_moments() {
            let missing =
                || ScalingError::Missing(scaling.name(), if squares { " and variances" } else { "" });
            let moments = moments.ok_or_else(missing)?;
            means.clone_from(&moments.means);
            if squares {
                deviations =
                    moments.variances.as_ref().ok_or_else(missing)?.iter().map(|v| v.sqrt()).collect();
            }
        }
        Self::from_parts(scaling.clone(), features, means, deviations)
    }

    /// Makes the scaler from the moments of these rows alone. The sealed sum of all owners of the rows
    /// would give the same scaler.
    ///
    /// # Errors
    /// [`ScalingError::Rows`] if moments are needed and there are no rows.
    pub fn fit(scaling: &Scaling, data: &Dataset) -> Result<Self, ScalingError> {
        let moments = match scaling.needs_moments() {
            Some(squares) => Some(Moments::from_words(&moments(data, squares), data.features())?),
            None => None,
        };
        Self::new(scaling, data.features(), moments.as_ref())
    }

    /// Makes a scaler from stored numbers. `center`, `standard` and `soft-bins` have `means`; the last two
    /// also have `deviations`; otherwise both are empty.
    #[doc(hidden)]
    pub fn from_parts(
        scaling: Scaling,
        features: usize,
        means: Vec<f64>,
        deviations: Vec<f64>,
    ) -> Result<Self, ScalingError> {
        let squares = scaling.needs_moments();
        for (needed, found) in [(squares.is_some(), means.len()), (squares == Some(true), deviations.len())] {
            let expected = if needed { features } else { 0 };
            if found != expected {
                return Err(ScalingError::Features { found, expected });
            }
        }
        // The means of real rows are below 2^80, and their deviations are 0 or from 2^-63 to 2^80. The same
        // bounds for stored numbers keep `apply` finite.
        let bounds = 2f64.powi(-64)..2f64.powi(80);
        let bad = means.iter().position(|x| x.is_nan() || x.abs() >= bounds.end);
        let bad = bad.or_else(|| deviations.iter().position(|x| *x != 0.0 && !bounds.contains(x)));
        match bad {
            Some(feature) => Err(ScalingError::Inconsistent(feature + 1)),
            None => Ok(Self { features, scaling, means, deviations }),
        }
    }

    /// Number of features in a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of entries in a scaled row: the number of features, or with soft bins a multiple of it.
    #[must_use]
    pub fn width(&self) -> usize {
        self.scaling.width(self.features)
    }

    /// The scaling of this scaler.
    #[must_use]
    pub fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// Means of the features; empty unless the scaling is `center`, `standard` or `soft-bins`.
    #[must_use]
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// Deviations of the features; empty unless the scaling is `standard` or `soft-bins`.
    #[must_use]
    pub fn deviations(&self) -> &[f64] {
        &self.deviations
    }

    /// Scales one row of [`Scaler::features`] into `out`, which has [`Scaler::width`] entries.
    ///
    /// # Panics
    /// If `row` or `out` has a wrong length.
    pub fn apply(&self, row: &[f32], out: &mut [f32]) {
        assert_eq!(
            (row.len(), out.len()),
            (self.features, self.width()),
            "a row and its place must match the scaler"
        );
        match &self.scaling {
            Scaling::None => out.copy_from_slice(row),
            Scaling::Range { lo, hi } => {
                let bounds = lo.iter().zip(hi).cycle();
                for ((&x, out), (&lo, &hi)) in row.iter().zip(out).zip(bounds) {
                    let part = (f64::from(x) - f64::from(lo)) / (f64::from(hi) - f64::from(lo));
                    *out = part.clamp(0.0, 1.0) as f32;
                }
            }
            Scaling::UnitNorm => unit_norm(row, out, |_, x| x),
            Scaling::Center => unit_norm(row, out, |j, x| x - self.means[j]),
            Scaling::Standard => unit_norm(row, out, |j, x| self.standardised(j, x)),
            Scaling::SoftBins(bins) => {
                let last = f64::from(bins - 1);
                for ((j, &x), out) in row.iter().enumerate().zip(out.chunks_exact_mut((*bins).into())) {
                    let z = self.standardised(j, f64::from(x));
                    let u = 0.5 + z / (2.0 * (z * z + 2.0).sqrt());
                    let p = u * last;
                    for (b, out) in (0u16..).zip(out) {
                        *out = (1.0 - (p - f64::from(b)).abs()).max(0.0) as f32;
                    }
                }
            }
        }
    }

    /// Returns (x - mean) / deviation of feature j; 0 for a constant feature.
    fn standardised(&self, j: usize, x: f64) -> f64 {
        match self.deviations[j] {
            0.0 => 0.0,
            deviation => (x - self.means[j]) / deviation,
        }
    }

    /// Scales all rows; labels and classes stay the same.
    ///
    /// # Panics
    /// If the data has a different number of features.
    #[must_use]
    pub fn transform(&self, data: &Dataset) -> Dataset {
        data.map_rows(self.width(), |row, out| self.apply(row, out))
    }
}

/// Writes `f(j, x_j)` of every entry, divided by the length of the result. A result of only zeros stays
/// zero.
fn unit_norm(row: &[f32], out: &mut [f32], f: impl Fn(usize, f64) -> f64) {
    let entry = |(j, &x): (usize, &f32)| f(j, f64::from(x));
    let squares = row.iter().enumerate().map(entry).fold(0.0, |sum, x| sum + x * x);
    let norm = f64::sqrt(squares);
    for (x, out) in row.iter().enumerate().zip(out) {
        *out = if norm > 0.0 { (entry(x) / norm) as f32 } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(features: usize, values: &[f32]) -> Dataset {
        Dataset::new(features, values.to_vec(), Vec::new(), Vec::new()).unwrap()
    }

    fn scaled(scaling: &Scaling, data: &Dataset) -> Vec<f32> {
        let total = scaling.needs_moments().map(|squares| moments(data, squares));
        let moments = total.map(|words| Moments::from_words(&words, data.features()).unwrap());
        Scaler::new(scaling, data.features(), moments.as_ref()).unwrap().transform(data).values().to_vec()
    }

    #[test]
    fn each_mode_does_what_its_row_in_the_table_says() {
        let rows = data(2, &[3.0, 4.0, 0.0, 0.0]);
        assert_eq!(scaled(&Scaling::None, &rows), [3.0, 4.0, 0.0, 0.0]);
        assert_eq!(scaled(&Scaling::UnitNorm, &rows), [0.6, 0.8, 0.0, 0.0]);
        let range = Scaling::Range { lo: vec![1.0, 0.0], hi: vec![2.0, 8.0] };
        assert_eq!(scaled(&range, &rows), [1.0, 0.5, 0.0, 0.0]);
        let center = scaled(&Scaling::Center, &rows);
        assert_eq!(center, [0.6, 0.8, -0.6, -0.8]);
        // The second feature is constant.
        assert_eq!(scaled(&Scaling::Standard, &data(2, &[1.0, 7.0, 3.0, 7.0])), [-1.0, 0.0, 1.0, 0.0]);
        // z = -1 and 1, u = 1/2 -+ 1 / (2 sqrt 3).
        let u = 0.5 + 0.5 / 3f64.sqrt();
        let two = [u, 1.0 - u, 0.5, 0.5, 1.0 - u, u, 0.5, 0.5].map(|x| x as f32);
        assert_eq!(scaled(&Scaling::SoftBins(2), &data(2, &[1.0, 7.0, 3.0, 7.0])), two);
        let three = [2.0 * u - 1.0, 2.0 - 2.0 * u, 0.0, 0.0, 1.0, 0.0].map(|x| x as f32);
        assert_eq!(scaled(&Scaling::SoftBins(3), &data(2, &[1.0, 7.0, 3.0, 7.0]))[..6], three);
    }

    #[test]
    fn soft_bins_of_any_value_are_shares_of_1() {
        let values = [-1e6, -3.0, -0.5, 0.0, 0.25, 2.0, 1e6];
        for bins in [2, 3, 8, MAX_BINS] {
            for row in scaled(&Scaling::SoftBins(bins), &data(1, &values)).chunks_exact(bins.into()) {
                assert!(row.iter().all(|&x| (0.0..=1.0).contains(&x)), "{row:?}");
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
            }
        }
        for (bins, d, most) in [(1, 3, 64), (65, 3, 64), (3, 1 << 19, 2)] {
            let error = Scaling::SoftBins(bins).check(d).unwrap_err();
            assert_eq!(
                (error.field, error.expected),
                ("bins", format!("2 to {most} (d x bins is at most 2^20)"))
            );
        }
    }

    #[test]
    fn scaling_that_lacks_its_moments_is_refused() {
        let plain = Moments::from_words(&moments(&data(1, &[1.0]), false), 1).unwrap();
        assert!(matches!(Scaler::new(&Scaling::Center, 1, None), Err(ScalingError::Missing("center", ""))));
        assert!(matches!(Scaler::new(&Scaling::Standard, 1, Some(&plain)), Err(ScalingError::Missing(..))));
        assert!(matches!(Scaler::new(&Scaling::Center, 2, Some(&plain)), Err(ScalingError::Features { .. })));
    }

    /// Checks that every scaling gives finite numbers for the largest features next to ordinary ones, and
    /// that no feature hides another.
    #[test]
    fn huge_features_scale_like_others() {
        let huge = 2f32.powi(79);
        let rows = data(2, &[huge, 1.0, -huge, 2.0, huge, 4.0]);
        for scaling in [Scaling::Center, Scaling::Standard, Scaling::SoftBins(4)] {
            assert!(scaled(&scaling, &rows).iter().all(|x| x.is_finite()), "{scaling:?}");
        }
        let small = data(2, &[1.0, 1.0, -1.0, 2.0, 1.0, 4.0]);
        assert_eq!(scaled(&Scaling::SoftBins(4), &rows), scaled(&Scaling::SoftBins(4), &small));
    }
}
