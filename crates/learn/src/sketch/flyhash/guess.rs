//! Estimates a sum that about the wanted number of rows of M exceed, so that few rows must be examined
//! before winners are known.
//!
//! A row of M is a sample of s of the D entries of a point, without replacement. So the mean, variance and
//! skewness of its sum are known (Cochran, *Sampling Techniques*, chapter 2), and its excess kurtosis nearly.
//! The quantile follows from the expansion of Cornish and Fisher (1938). The result is only a guess, and no
//! winner depends on it: if fewer than `rho` rows are above the guess, the point is searched again without a
//! guess. (If nearly all entries are large, as in black-and-white images, the guess is too high for most
//! points. This shows after an eighth of the rows of M.)

use super::levels::Extent;

/// Number of rows per winner that should be above the guess. Because it is above 1, the tail may be several
/// times thinner than estimated before too few rows are above the guess.
const WANTED: f64 = 4.0;
/// Number of rows that should be above the guess in addition to [`WANTED`] for each winner.
const SPARE: f64 = 16.0;
/// Largest share of the rows of M for which a guess is worth its cost.
const LARGEST_SHARE: f64 = 0.05;

/// Finds guesses for points of D entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess {
    ones: f64,
    dimension: f64,
    /// Quantile of the normal distribution for the wanted share of rows.
    quantile: f64,
}

impl Guess {
    /// Prepares guesses for `rows` rows of M with `ones` ones in `dimension` columns. Returns `None` if
    /// winners are too large a share of the rows.
    pub(super) fn new(rows: usize, ones: usize, dimension: usize, rho: usize) -> Option<Self> {
        let share = (WANTED * rho as f64 + SPARE) / rows as f64;
        let known = share <= LARGEST_SHARE && dimension > 2 && ones < dimension;
        known.then(|| Self {
            ones: ones as f64,
            dimension: dimension as f64,
            quantile: normal_quantile(share),
        })
    }

    /// Returns the guess for one point, or negative infinity without a guess.
    #[inline(always)]
    pub(super) fn of(&self, point: &[f32], extent: Extent) -> f32 {
        let Self { ones, dimension, quantile } = *self;
        let (lo, range) = extent.lo_and_range();
        if range <= 0.0 {
            return f32::NEG_INFINITY;
        }
        let raw = powers(point, lo as f32, (1.0 / range) as f32).map(|sum| f64::from(sum) / dimension);
        let (mean, square) = (raw[0], raw[0] * raw[0]);
        let variance = raw[1] - square;
        if variance <= 0.0 {
            return f32::NEG_INFINITY;
        }
        let third = raw[2] - mean * (3.0 * raw[1] - 2.0 * square);
        let fourth = raw[3] - mean * (4.0 * raw[2] - 6.0 * mean * raw[1] + 3.0 * mean * square);
        // Moments of the sum.
        let left = dimension - ones;
        let deviation = (ones * variance * left / (dimension - 1.0)).sqrt();
        let shrunk = (left - ones) / (dimension - 2.0) * ((dimension - 1.0) / (ones * left)).sqrt();
        let skewness = (third / variance.powf(1.5) * shrunk).clamp(-1.0, 1.0);
        let excess = ((fourth / (variance * variance) - 3.0) / ones).clamp(-1.0, 1.0);
        let z = quantile;
        let quantile = z + (z * z - 1.0) * skewness / 6.0 + z * (z * z - 3.0) * excess / 24.0
            - z * (2.0 * z * z - 5.0) * skewness * skewness / 36.0;
        let guess = ones * mean + quantile * deviation;
        // No sum exceeds s times the largest entry, and many rows may have this sum.
        if guess >= ones {
            return f32::NEG_INFINITY;
        }
        let guess = ones * lo + guess * range;
        // From one whole number to the next, the share of rows may drop sharply.
        let guess = if extent.is_whole() { guess.floor() - 1.0 } else { guess } as f32;
        if guess.is_finite() { guess } else { f32::NEG_INFINITY }
    }
}

/// Sums the first four powers of the entries, scaled to 0..1.
#[inline(always)]
fn powers(point: &[f32], lo: f32, inverse: f32) -> [f32; 4] {
    const LANES: usize = 16;
    let mut sums = [[0.0; LANES]; 4];
    let (chunks, rest) = point.as_chunks::<LANES>();
    let mut last = [lo; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for chunk in chunks.iter().chain([&last]) {
        let [first, second, third, fourth] = &mut sums;
        for ((((first, second), third), fourth), x) in
            first.iter_mut().zip(second).zip(third).zip(fourth).zip(chunk)
        {
            let x = (x - lo) * inverse;
            *first += x;
            *second += x * x;
            *third += x * x * x;
            *fourth += (x * x) * (x * x);
        }
    }
    sums.map(|lanes| lanes.iter().sum())
}

/// Returns the number that a standard normal variable exceeds with probability `p`, which is below a half.
/// The error is at most 5e-4 (Abramowitz and Stegun, 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    t - (2.515_517 + t * (0.802_853 + t * 0.010_328))
        / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm_sealed_sum::crypto::stream::Stream;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (p, expected) in [(0.05, 1.644_854), (0.01, 2.326_348), (0.001, 3.090_232), (1e-5, 4.264_891)] {
            assert!((normal_quantile(p) - expected).abs() < 5e-4, "{p}");
        }
    }

    /// Checks that half to eight times the wanted number of sums are above the guess, for flat, skewed and
    /// two-valued entries.
    #[test]
    fn about_as_many_sums_are_above_the_guess_as_wanted() {
        let mut stream = Stream::new(b"guess", "a test", &[]);
        let (d, ones, rows, rho) = (300, 12, 60_000, 10);
        let wanted = WANTED * rho as f64 + SPARE;
        for kind in ["flat", "mostly low", "two values"] {
            let value = |x: u32| match kind {
                "flat" => x as f32,
                "mostly low" => {
                    if x.is_multiple_of(5) {
                        x as f32
                    } else {
                        0.0
                    }
                }
                _ => (x % 2) as f32,
            };
            let point: Vec<f32> = (0..d).map(|_| value(stream.below(1000)) - 300.0).collect();
            let guess = Guess::new(rows, ones, d, rho).unwrap().of(&point, Extent::new(&point));
            let mut places: Vec<usize> = (0..d).collect();
            let mut above = 0;
            for _ in 0..rows {
                for i in 0..ones {
                    places.swap(i, i + stream.below((d - i) as u32) as usize);
                }
                above += usize::from(places[..ones].iter().map(|&place| point[place]).sum::<f32>() > guess);
            }
            assert!(
                (0.5 * wanted..8.0 * wanted).contains(&(above as f64)),
                "{kind}: {above} above, {wanted} wanted"
            );
        }
    }

    #[test]
    fn there_is_no_guess_where_nothing_is_known() {
        assert!(Guess::new(1000, 5, 20, 100).is_none(), "too many winners");
        assert!(Guess::new(1 << 20, 20, 20, 1).is_none(), "all sums are equal");
        let guess = Guess::new(1 << 20, 5, 20, 1).unwrap();
        for x in [0.0, -0.3, 1e-45, 1e24] {
            assert_eq!(guess.of(&[x; 20], Extent::new(&[x; 20])), f32::NEG_INFINITY);
        }
        // One row in ten has the largest possible sum.
        let point: Vec<f32> = (0..20).map(|i| if i < 12 { 1.0 } else { 0.0 }).collect();
        assert!(guess.of(&point, Extent::new(&point)) < 5.0);
        let most = flyswarm_data::MAX_MAGNITUDE.next_down();
        let point: Vec<f32> = (0..20).map(|i| if i % 2 == 0 { most } else { -most }).collect();
        assert!(guess.of(&point, Extent::new(&point)) < f32::INFINITY);
        let least: Vec<f32> = (0..20u32).map(f32::from_bits).collect();
        assert!(!guess.of(&least, Extent::new(&least)).is_nan());
    }
}
