//! Puts features on one scale, the same at every peer.
//!
//! | mode | a row x becomes |
//! | --- | --- |
//! | `none` | x |
//! | `unit-norm` | x / \|x\| (the authors' choice for real data) |
//! | `range` | (x - lo) / (hi - lo), cut off at 0 and 1 |
//! | `center` | x - mean, then unit norm |
//! | `standard` | (x - mean) / deviation, 0 for a constant feature, then unit norm |
//! | `soft-bins` | B numbers for each feature: how much it lies in each of B overlapping bins |
//!
//! A row of norm 0 stays 0. The arithmetic is f64 in ascending feature order and the result is rounded to
//! f32.
//!
//! **Soft bins**, our extension. With z = (x - mean) / deviation (0 for a constant feature), u = 1/2 + z / (2
//! sqrt(z^2 + 2)) is between 0 and 1 (the distribution function of Student's t with two degrees of freedom:
//! outliers do no harm), p = u (B - 1), and bin b = 0..B-1 gets max(0, 1 - |p - b|). A row becomes d B
//! numbers, those of a feature side by side; they sum up to 1, at most two of them not
//! 0. FlyHash keeps the rows of M with the largest sums, so without it a bit can only say that some features
//!    are *large*, and all rows with small values look alike; with it a bit can ask for values that are
//!    small, middling or large. B = 2 is the pair (1 - u, u).
//!
//! Means and deviations over all peers come from one exact sum: [`mod@moments`].

pub mod moments;
pub mod sums;

pub use self::moments::{Moments, moments};
pub use self::sums::ColumnSums;
use crate::{Dataset, MAX_FEATURES, MAX_ROWS};

/// Most soft bins of a feature. A guess: 8 already resolve more than the best settings need.
pub const MAX_BINS: u16 = 64;
/// Most numbers of a scaled row.
const WIDEST: usize = MAX_FEATURES;

/// Which parameter is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, expected {expected}")]
pub struct ParameterError {
    /// The field as it is spelled in a session file.
    pub field: &'static str,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub expected: String,
}

/// How features are put on one scale; see the module for the formulas.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Rows of length 1.
    UnitNorm,
    /// Given bounds to 0..1, values outside cut off; one pair for all features or one for each.
    Range {
        /// Lower bounds, 1 or d of them.
        lo: Vec<f32>,
        /// Upper bounds, as many.
        hi: Vec<f32>,
    },
    /// Global mean removed, then rows of length 1.
    Center,
    /// Global mean removed, deviation 1, then rows of length 1.
    Standard,
    /// Each feature spread over so many overlapping bins, 2 to [`MAX_BINS`].
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

    /// Whether a sum over all peers must come first, and if so whether it has squares.
    #[must_use]
    pub fn needs_moments(&self) -> Option<bool> {
        match self {
            Self::None | Self::UnitNorm | Self::Range { .. } => None,
            Self::Center => Some(false),
            Self::Standard | Self::SoftBins(_) => Some(true),
        }
    }

    /// Numbers of a scaled row of `d` features.
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
    /// [`ParameterError`] for the first that is out of range.
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

/// Why moments or a scaler could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScalingError {
    /// The words do not have the length for this many features.
    #[error("{found} words of moments, expected {plain} or {squared} for {features} features")]
    Words {
        /// Words given.
        found: usize,
        /// Words of sums alone.
        plain: usize,
        /// Words of sums and squares.
        squared: usize,
        /// Features.
        features: usize,
    },
    /// There are no rows, or more than the words have room for.
    #[error("{0} rows in all, expected 1 to {MAX_ROWS} to compute means")]
    Rows(u64),
    /// The words cannot be the sums of any rows: some peer sent something else.
    #[error("the sums for feature {0} are not those of any rows")]
    Inconsistent(usize),
    /// The scaling needs moments that were not given.
    #[error("scaling {0} needs means{1} over all peers")]
    Missing(&'static str, &'static str),
    /// The moments are for another number of features.
    #[error("moments of {found} features, expected {expected}")]
    Features {
        /// Features in the moments.
        found: usize,
        /// Features of the sketch.
        expected: usize,
    },
}

/// A [`Scaling`] with its numbers: row in, row out.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaler {
    features: usize,
    scaling: Scaling,
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Scaler {
    /// The scaler from the opened words of the moments (LE u64), which are looked at where the scaling needs
    /// any.
    ///
    /// # Errors
    /// As [`Scaler::new`], and where the words are no moments.
    pub fn opened(scaling: &Scaling, features: usize, moments: Option<&[u8]>) -> Result<Self, ScalingError> {
        let words = moments.filter(|_| scaling.needs_moments().is_some()).map(|bytes| {
            let (words, _) = bytes.as_chunks::<8>();
            words.iter().map(|&word| u64::from_le_bytes(word)).collect::<Vec<_>>()
        });
        let moments = words.map(|words| Moments::from_words(sums::parts(&words, features).0, features));
        Self::new(scaling, features, moments.transpose()?.as_ref())
    }

    /// The scaler of a scaling for `features` features; `moments` are needed by `center`, `standard` and
    /// `soft-bins`, others ignore them.
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

    /// The scaler of these rows alone, with their own moments: as the sealed sum of all their owners would
    /// make it.
    ///
    /// # Errors
    /// [`ScalingError::Rows`] where moments are needed and there are no rows.
    pub fn fit(scaling: &Scaling, data: &Dataset) -> Result<Self, ScalingError> {
        let moments = match scaling.needs_moments() {
            Some(squares) => Some(Moments::from_words(&moments(data, squares), data.features())?),
            None => None,
        };
        Self::new(scaling, data.features(), moments.as_ref())
    }

    /// From stored numbers: `means` for `center`, `standard` and `soft-bins`, `deviations` for the last two,
    /// else none.
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
        // Real means are below 2^80, and real deviations 0 or from 2^-63 to 2^80; stored ones are held to
        // that, which keeps `apply` finite.
        let bounds = 2f64.powi(-64)..2f64.powi(80);
        let bad = means.iter().position(|x| x.is_nan() || x.abs() >= bounds.end);
        let bad = bad.or_else(|| deviations.iter().position(|x| *x != 0.0 && !bounds.contains(x)));
        match bad {
            Some(feature) => Err(ScalingError::Inconsistent(feature + 1)),
            None => Ok(Self { features, scaling, means, deviations }),
        }
    }

    /// Features of a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Numbers of a scaled row: the features, or with soft bins a multiple of them.
    #[must_use]
    pub fn width(&self) -> usize {
        self.scaling.width(self.features)
    }

    /// The scaling it was made from.
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
    /// If one of them has another length.
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

    /// (x - mean) / deviation of feature j; 0 for a constant one.
    fn standardised(&self, j: usize, x: f64) -> f64 {
        match self.deviations[j] {
            0.0 => 0.0,
            deviation => (x - self.means[j]) / deviation,
        }
    }

    /// All rows scaled; labels and classes stay.
    ///
    /// # Panics
    /// If the data has another number of features.
    #[must_use]
    pub fn transform(&self, data: &Dataset) -> Dataset {
        data.map_rows(self.width(), |row, out| self.apply(row, out))
    }
}

/// `f(j, x_j)` of every entry, divided by the length of the result; all zero stays so.
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

    /// The largest features next to ordinary ones: every scaling gives finite numbers, and no feature hides
    /// another.
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
