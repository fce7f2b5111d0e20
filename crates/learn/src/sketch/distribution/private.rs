//! A sketch that may be shown: every counter has noise that is drawn once (paper, Theorem D.2).
//!
//! Neighbouring data sets differ in one record, which is replaced by another. The number of records is
//! public. In each of the R rows, one counter falls by 1 and one rises by 1, or none changes. So the L1
//! sensitivity is 2 R, and discrete Laplace noise of scale 2 R / epsilon on every counter is
//! epsilon-differentially private. Any computation on the release has no further cost. With more rows each
//! counter is noisier: the error is of the order of sqrt(1 / R) + sqrt(R) / (n epsilon). So R should grow in
//! proportion to n epsilon, but not faster.
//!
//! Noise makes squared distances larger by its variance. The variance is known, so it is subtracted
//! ([`PrivateSketch::distance`]).

use rand::CryptoRng;

use super::{Distance, DistributionSketch, RowHashes, SketchError, check_shape, median_of_means};
use crate::privacy::{Ratio, discrete_laplace};

/// Counters with noise, and the number of records counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateSketch {
    range: usize,
    records: u32,
    /// Number of releases in the sum, each with noise of its own.
    releases: u32,
    counters: Vec<i64>,
}

impl DistributionSketch {
    /// Returns this sketch with fresh noise. A second release of the same records costs epsilon once more. So
    /// keep the first release and show it again.
    ///
    /// # Errors
    /// [`SketchError::Shape`] if 2 R / epsilon is not a ratio of 64-bit integers.
    pub fn release(&self, epsilon: Ratio, rng: &mut impl CryptoRng) -> Result<PrivateSketch, SketchError> {
        let (rows, range) = self.shape();
        let scale = epsilon.inverse().times(2 * rows as u64).ok_or_else(|| SketchError::Shape {
            what: "rows",
            value: rows,
            expected: format!("2 rows / epsilon within 64 bits, with epsilon {epsilon}"),
        })?;
        let counters =
            self.counters.iter().map(|&count| i64::from(count).saturating_add(discrete_laplace(scale, rng)));
        Ok(PrivateSketch { range, records: self.records, releases: 1, counters: counters.collect() })
    }
}

/// Returns the variance of the noise on one counter of one release with `rows` rows. It is 1 / (2
/// sinh^2(epsilon / 4 R)), the variance of discrete Laplace noise of scale 2 R / epsilon.
#[must_use]
pub fn noise_variance(epsilon: Ratio, rows: usize) -> f64 {
    let sinh = libm::sinh(epsilon.to_f64() / (4.0 * rows as f64));
    1.0 / (2.0 * sinh * sinh)
}

impl PrivateSketch {
    /// Returns the words of a sealed sum, to be added mod 2^32: the counters in two's complement, row
    /// after row, the number of records, and the number of releases.
    #[must_use]
    pub fn to_words(&self) -> Vec<u32> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the ring that words are added in"
        )]
        let counters = self.counters.iter().map(|&counter| counter as u32);
        counters.chain([self.records, self.releases]).collect()
    }

    /// Restores a sketch from the words of a sum.
    ///
    /// # Errors
    /// [`SketchError::Shape`] if the number of words is wrong.
    pub fn from_words(words: &[u32], rows: usize, range: usize) -> Result<Self, SketchError> {
        check_shape(rows, range)?;
        let wrong = || SketchError::Shape {
            what: "words",
            value: words.len(),
            expected: (rows * range + 2).to_string(),
        };
        let (counters, &[records, releases]) =
            words.split_last_chunk::<2>().filter(|_| words.len() == rows * range + 2).ok_or_else(wrong)?;
        let counters = counters.iter().map(|&word| word.cast_signed().into()).collect();
        Ok(Self { range, records, releases, counters })
    }

    /// Returns the number of rows and the range, R and B.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.counters.len() / self.range, self.range)
    }

    /// Returns the number of records counted.
    #[must_use]
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Returns the number of releases that were added up.
    #[must_use]
    pub fn releases(&self) -> u32 {
        self.releases
    }

    /// Returns the noisy counters, row after row. They may be negative.
    #[must_use]
    pub fn counters(&self) -> &[i64] {
        &self.counters
    }

    /// Adds another release, including its noise.
    ///
    /// # Errors
    /// [`SketchError::Mismatch`], [`SketchError::Records`].
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchError> {
        let (expected, found) = (self.shape(), other.shape());
        if found != expected {
            return Err(SketchError::Mismatch { found, expected });
        }
        let records = u64::from(self.records) + u64::from(other.records);
        self.records = u32::try_from(records).map_err(|_| SketchError::Records(records))?;
        self.releases = self.releases.saturating_add(other.releases);
        self.counters
            .iter_mut()
            .zip(&other.counters)
            .for_each(|(sum, &count)| *sum = sum.saturating_add(count));
        Ok(())
    }

    /// Computes the density as [`DistributionSketch::density`] does. With noise, the density may be below 0
    /// or above 1.
    #[must_use]
    pub fn density(&self, hashes: &dyn RowHashes, record: &[f32], groups: usize) -> f64 {
        if self.records == 0 {
            return 0.0;
        }
        let rows = self.counters.chunks_exact(self.range).zip(hashes.buckets(record));
        let counts: Vec<f64> = rows.map(|(row, bucket)| row[usize::from(bucket)] as f64).collect();
        median_of_means(&counts, groups) / f64::from(self.records)
    }

    /// Computes the distance of the records of two sums that share no release. `variance` is that of one
    /// release ([`noise_variance`]).
    ///
    /// Let S be the sum of the squared differences of the shares, and V the average amount that noise adds to
    /// S. `plain` is sqrt(max(S - V, 0)), and `row_mean` is `plain` divided by sqrt R. So `row_mean` is the
    /// root of the mean of the squares here, but the mean of the roots for exact sketches.
    ///
    /// # Errors
    /// [`SketchError::Mismatch`].
    pub fn distance(&self, other: &Self, variance: f64) -> Result<Distance, SketchError> {
        let each = |sketch: &Self| f64::from(sketch.releases) / sketch.per_record().powi(2);
        self.less_noise(other, variance * (each(self) + each(other)))
    }

    /// Computes the same distance between a single release and a sum that includes it. The noise of the
    /// release is in both and partly cancels.
    ///
    /// # Errors
    /// [`SketchError::Mismatch`].
    pub fn distance_within(&self, whole: &Self, variance: f64) -> Result<Distance, SketchError> {
        let (own, all) = (self.per_record(), whole.per_record());
        let others = f64::from(whole.releases.saturating_sub(self.releases)) / (all * all);
        self.less_noise(whole, variance * ((1.0 / own - 1.0 / all).powi(2) + others))
    }

    fn less_noise(&self, other: &Self, variance: f64) -> Result<Distance, SketchError> {
        let (expected, found) = (self.shape(), other.shape());
        if found != expected {
            return Err(SketchError::Mismatch { found, expected });
        }
        let differences = self.shares().into_iter().zip(other.shares());
        let square = differences.fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b));
        let plain = (square - variance * self.counters.len() as f64).max(0.0).sqrt();
        Ok(Distance { row_mean: plain / (expected.0 as f64).sqrt(), plain })
    }

    /// Returns the divisor of the counters.
    fn per_record(&self) -> f64 {
        f64::from(self.records.max(1))
    }

    fn shares(&self) -> Vec<f64> {
        let records = self.per_record();
        self.counters.iter().map(|&count| count as f64 / records).collect()
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;

    use super::super::{Family, srp::Srp};
    use super::*;
    use flyswarm_data::digits::digits;

    fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    fn sketch(rows: usize, range: usize) -> (Srp, DistributionSketch) {
        let hashes = Srp::new(b"private", rows, range, 64).unwrap();
        let mut sketch = DistributionSketch::new(rows, range).unwrap();
        sketch.extend(&hashes, &digits()).unwrap();
        (hashes, sketch)
    }

    #[test]
    fn one_record_replaced_moves_each_row_by_two_at_most() {
        let data = digits();
        for family in [Family::Srp, Family::Minhash] {
            let hashes = family.hashes(b"neighbours", 50, 16, 64).unwrap();
            let of = |rows: &[usize]| {
                let mut sketch = DistributionSketch::new(50, 16).unwrap();
                sketch.extend(&*hashes, &data.subset(rows)).unwrap();
                sketch
            };
            let (one, other) = (of(&[1, 2, 3, 4]), of(&[1, 2, 3, 900]));
            let moved = one
                .counters
                .iter()
                .zip(&other.counters)
                .map(|(&a, &b)| u64::from(a.abs_diff(b)))
                .sum::<u64>();
            assert!(moved > 0 && moved <= 2 * 50, "{family}: {moved}");
        }
    }

    /// Compares with the variance of discrete Laplace noise of scale t, 2 q / (1 - q)^2, q = exp(-1 / t).
    #[test]
    fn noise_has_the_scale_of_two_rows_over_epsilon() {
        let (_, sketch) = sketch(20, 64);
        let epsilon = Ratio::new(5, 2).unwrap();
        let q = (-1.0 / (2.0 * 20.0 / 2.5f64)).exp();
        let variance = 2.0 * q / (1.0 - q).powi(2);
        let (mut square, mut mean, mut draws) = (0.0, 0.0, 0.0);
        for seed in 0..20 {
            let release = sketch.release(epsilon, &mut rng(seed)).unwrap();
            for (noisy, &count) in release.counters.iter().zip(&sketch.counters) {
                let noise = (noisy - i64::from(count)) as f64;
                (square, mean, draws) = (square + noise * noise, mean + noise, draws + 1.0);
            }
        }
        // The distribution has kurtosis 6. The limits are six standard errors of a sample variance and of a
        // mean.
        assert!(
            (square / draws / variance - 1.0).abs() < 6.0 * (5.0f64 / draws).sqrt(),
            "{} {variance}",
            square / draws
        );
        assert!((mean / draws).abs() < 6.0 * (variance / draws).sqrt());
        assert_eq!(sketch.release(epsilon, &mut rng(1)), sketch.release(epsilon, &mut rng(1)));
        assert_ne!(sketch.release(epsilon, &mut rng(1)), sketch.release(epsilon, &mut rng(2)));
    }

    #[test]
    fn densities_of_a_release_are_near_those_of_the_sketch_where_the_budget_allows() {
        let (hashes, sketch) = sketch(100, 16);
        let data = digits();
        let error = |epsilon: u64| {
            let release = sketch.release(Ratio::new(epsilon, 1).unwrap(), &mut rng(9)).unwrap();
            let of = |i: usize| {
                let exact = sketch.density(&hashes, data.row(i), 1);
                (release.density(&hashes, data.row(i), 1) - exact).abs()
            };
            [3, 300, 900, 1500].into_iter().map(of).sum::<f64>() / 4.0
        };
        // This is the mean of 100 counters, each with a deviation of sqrt 2 x 200 / epsilon, over 1797
        // records.
        assert!(error(10) < 4.0 * 2f64.sqrt() * 20.0 / 10.0 / 1797.0, "{}", error(10));
        assert!(error(1) > error(1000));
    }

    #[test]
    fn releases_add_up_and_other_shapes_are_refused() {
        let (_, sketch) = sketch(10, 16);
        let epsilon = Ratio::new(1, 1).unwrap();
        let (mut sum, other) =
            (sketch.release(epsilon, &mut rng(1)).unwrap(), sketch.release(epsilon, &mut rng(2)).unwrap());
        let expected: Vec<i64> = sum.counters.iter().zip(&other.counters).map(|(a, b)| a + b).collect();
        sum.merge(&other).unwrap();
        assert_eq!((sum.counters(), sum.records()), (&expected[..], 2 * 1797));
        assert_eq!(sum.releases(), 2);
        let wrong = PrivateSketch { range: 8, ..other };
        assert!(sum.merge(&wrong).is_err() && sum.distance(&wrong, 1.0).is_err());
    }

    #[test]
    fn words_are_added_as_releases_are_and_read_back() {
        let (_, sketch) = sketch(10, 16);
        let [one, other] =
            [1, 2].map(|seed| sketch.release(Ratio::new(1, 2).unwrap(), &mut rng(seed)).unwrap());
        assert!(one.counters().iter().any(|&counter| counter < 0));
        assert_eq!(PrivateSketch::from_words(&one.to_words(), 10, 16).unwrap(), one);
        let words: Vec<u32> =
            one.to_words().iter().zip(other.to_words()).map(|(a, b)| a.wrapping_add(b)).collect();
        let mut sum = one;
        sum.merge(&other).unwrap();
        assert_eq!(PrivateSketch::from_words(&words, 10, 16).unwrap(), sum);
        assert!(PrivateSketch::from_words(&words[1..], 10, 16).is_err());
    }

    /// Checks that the mean of the squared distance over many draws is the exact squared distance. It does so
    /// for two releases, and for a release and a sum that includes it.
    #[test]
    fn the_noise_that_is_taken_off_squared_distances_is_what_it_adds_to_them() {
        let (rows, range) = (12, 16);
        let hashes = Srp::new(b"parts", rows, range, 64).unwrap();
        let of = |from: usize, to: usize| {
            let mut sketch = DistributionSketch::new(rows, range).unwrap();
            sketch.extend(&hashes, &digits().subset(&(from..to).collect::<Vec<_>>())).unwrap();
            sketch
        };
        let parts = [of(0, 150), of(150, 400), of(400, 900)];
        let mut whole = parts[0].clone();
        parts[1..].iter().for_each(|part| whole.merge(part).unwrap());
        let epsilon = Ratio::new(3, 1).unwrap();
        let (mut apart, mut within) = (0.0, 0.0);
        const DRAWS: u32 = 400;
        for draw in 0..DRAWS {
            let mut rng = ChaCha20Rng::from_seed([draw as u8; 32].map(|byte| byte ^ (draw >> 8) as u8));
            rng.set_stream(draw.into());
            let released = parts.each_ref().map(|part| part.release(epsilon, &mut rng).unwrap());
            let mut sum = released[0].clone();
            released[1..].iter().for_each(|part| sum.merge(part).unwrap());
            // With variance 0 nothing is subtracted, so no distance is raised to 0.
            apart += released[0].distance(&released[1], 0.0).unwrap().plain.powi(2) / f64::from(DRAWS);
            within += released[0].distance_within(&sum, 0.0).unwrap().plain.powi(2) / f64::from(DRAWS);
        }
        let variance = noise_variance(epsilon, rows);
        let counters = (rows * range) as f64;
        let squares = |n: [f64; 2]| variance * counters * (1.0 / (n[0] * n[0]) + 1.0 / (n[1] * n[1]));
        let exact = parts[0].distance(&parts[1]).unwrap().plain.powi(2) + squares([150.0, 250.0]);
        assert!((apart / exact - 1.0).abs() < 0.03, "{apart} {exact}");
        let added = variance * counters * ((1.0 / 150.0 - 1.0 / 900.0f64).powi(2) + 2.0 / 900.0f64.powi(2));
        let exact = parts[0].distance(&whole).unwrap().plain.powi(2) + added;
        assert!((within / exact - 1.0).abs() < 0.03, "{within} {exact}");
    }
}
