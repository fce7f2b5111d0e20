//! Means and deviations over all peers, from one exact sum.
//!  Peers add words of 512 bits ([`Wide`]), in two's complement. Let Q = round(x 2^40), with halves rounded
//! away from zero. The words are:
//!
//! | words | of each feature | content |
//! | --- | --- | --- |
//! | 1 | | n, the number of rows |
//! | d | sum | a peer's sum of Q |
//! | d, not for `center` | squares | its sum of Q^2 |
//!
//! Each number is one word, so the total shows the sum over all peers and nothing else. The words depend
//! only on the rows, not on their owners.
//!
//! *Capacity*: every value of a [`Dataset`](crate::Dataset) is below 2^80, so |Q| < 2^120 and Q^2 < 2^240.
//! With n < 2^23 rows in all, sums are below 2^263. So every feature has a mean, however large it is.
//! *Resolution*: 2^-40. An f32 of 2^-17 or more, or any multiple of 2^-40, is added exactly. Smaller features
//! are rounded to about 12 decimal places. A feature that is within 2^-41 of 0 in all rows counts as
//! constant.
//! as constant.

use num_bigint::{BigInt, BigUint};
use num_traits::{Signed, ToPrimitive};

use super::ScalingError;
use crate::{Borrowed, MAX_MAGNITUDE, MAX_ROWS};
use flyswarm_sealed_sum::crypto::mask::Wide;

/// Number of bits of Q after the binary point: Q = x 2^40.
const FRACTION_BITS: u32 = 40;
/// Number of bits of |Q|.
const BITS: u32 = 80 + FRACTION_BITS;
/// Number of bits of a limb while rows are added.
const LIMB_BITS: u32 = 40;
/// Number of limbs of Q.
const SUM_LIMBS: usize = (BITS / LIMB_BITS) as usize;
/// Number of limbs of Q^2.
const SQUARE_LIMBS: usize = 2 * SUM_LIMBS;
const LIMB: u128 = (1 << LIMB_BITS) - 1;

const _CAPACITY: () = {
    assert!(MAX_MAGNITUDE == (1u128 << 80) as f32 && BITS.is_multiple_of(LIMB_BITS));
    // Sums of limbs are below 2^63, and sums of squares below 2^511.
    assert!(MAX_ROWS as u64 <= 1 << (63 - LIMB_BITS) && MAX_ROWS.ilog2() < 511 - 2 * BITS);
    // n^2 is exact in binary64.
    assert!((MAX_ROWS as u128).pow(2) < 1 << 53);
};

/// Returns the words that a peer with these rows adds to the sum, [`Moments::words`] of them.
#[must_use]
pub fn moments<'a>(data: impl Into<Borrowed<'a>>, with_squares: bool) -> Vec<Wide> {
    let data = data.into();
    let d = data.features();
    let mut sums = vec![[0u64; SUM_LIMBS]; d];
    let mut squares = vec![[0u64; SQUARE_LIMBS]; if with_squares { d } else { 0 }];
    for row in 0..data.rows() {
        for (feature, (&x, sums)) in data.row(row).iter().zip(&mut sums).enumerate() {
            // The product is exact in binary64, and the rounded value is below 2^120.
            let q = (f64::from(x) * (1u64 << FRACTION_BITS) as f64).round() as i128;
            if q == 0 {
                continue;
            }
            let low =
                [q.cast_unsigned() & LIMB, (q >> LIMB_BITS).cast_unsigned() & LIMB].map(|limb| limb as u64);
            let high = ((q >> (2 * LIMB_BITS)) as i64).cast_unsigned();
            sums.iter_mut().zip([low[0], low[1], high]).for_each(|(sum, limb)| *sum = sum.wrapping_add(limb));
            if let Some(squares) = squares.get_mut(feature) {
                // Q has at most 24 significant bits, so its square is a number below 2^50, shifted.
                let magnitude = q.unsigned_abs();
                let zeros = magnitude.trailing_zeros();
                let (limb, shift) = (2 * zeros / LIMB_BITS, 2 * zeros % LIMB_BITS);
                let mut square = (magnitude >> zeros).pow(2) << shift;
                for sum in &mut squares[limb as usize..] {
                    *sum += (square & LIMB) as u64;
                    square >>= LIMB_BITS;
                }
            }
        }
    }
    let sums = sums.iter().map(|limbs| wide(limbs));
    let squares = squares.iter().map(|limbs| wide(limbs));
    std::iter::once(Wide::from(data.rows() as u64)).chain(sums).chain(squares).collect()
}

/// Joins sums of limbs, the lowest first.
fn wide(limbs: &[u64]) -> Wide {
    number(limbs.iter().rev().fold(BigInt::ZERO, |high, limb| (high << LIMB_BITS) + limb.cast_signed()))
}

/// Returns the word of a number of fewer than 512 bits.
fn number(number: BigInt) -> Wide {
    let bytes = number.to_signed_bytes_le();
    let mut word = [if number.is_negative() { u8::MAX } else { 0 }; 64];
    word.iter_mut().zip(bytes).for_each(|(word, byte)| *word = byte);
    Wide::from_le_bytes(word)
}

/// Number of rows, means and, if squares were summed, variances (divisor n) over all peers.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Rows in all, 1 to [`MAX_ROWS`].
    pub rows: u64,
    /// The mean of each feature.
    pub means: Vec<f64>,
    /// The variance of each feature, if known.
    pub variances: Option<Vec<f64>>,
}

impl Moments {
    /// Returns the number of words that [`moments`] gives for `d` features.
    #[must_use]
    pub const fn words(d: usize, with_squares: bool) -> usize {
        1 + d * if with_squares { 2 } else { 1 }
    }

    /// Computes the moments from the total of all peers' [`moments`] for `d` features. All numbers are
    /// exact integers until the one division.
    ///
    /// # Errors
    /// [`ScalingError`] if the words are not such a total.
    pub fn from_words(words: &[Wide], d: usize) -> Result<Self, ScalingError> {
        let (plain, squared) = (Self::words(d, false), Self::words(d, true));
        let found = words.len();
        if found != plain && found != squared {
            return Err(ScalingError::Words { found, plain, squared, features: d });
        }
        let rows = whole(&words[0]);
        let rows = match rows.to_u64() {
            Some(rows) if (1..=MAX_ROWS as u64).contains(&rows) => rows,
            _ => return Err(ScalingError::Rows(rows.to_string())),
        };
        let (sums, squares) = words[1..].split_at(d);
        let mut moments =
            Self { rows, means: Vec::with_capacity(d), variances: (found == squared).then(Vec::new) };
        for (feature, sum) in sums.iter().enumerate() {
            let inconsistent = || ScalingError::Inconsistent(feature + 1);
            let within = |number: BigInt, bits: u32| {
                (*number.magnitude() <= BigUint::from(rows) << bits)
                    .then_some(number)
                    .ok_or_else(inconsistent)
            };
            let sum = within(whole(sum), BITS)?;
            // Rounded once: the divisors are exact, because n < 2^23 and the other factor is a power of
            // two.
            moments.means.push(rounded(&sum) / (rows as f64 * 2f64.powi(FRACTION_BITS as i32)));
            if let (Some(variances), Some(squares)) = (&mut moments.variances, squares.get(feature)) {
                let numerator = within(whole(squares), 2 * BITS)? * rows - &sum * &sum;
                if numerator.is_negative() {
                    return Err(inconsistent());
                }
                variances
                    .push(rounded(&numerator) / ((rows * rows) as f64 * 2f64.powi(2 * FRACTION_BITS as i32)));
            }
        }
        Ok(moments)
    }
}

/// Returns the number in a word.
fn whole(word: &Wide) -> BigInt {
    BigInt::from_signed_bytes_le(&word.to_le_bytes())
}

/// Rounds to binary64, ties to even. All numbers here are below 2^290.
fn rounded(x: &BigInt) -> f64 {
    x.to_f64().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Dataset;
    use crate::digits::digits;

    fn data(features: usize, values: &[f32]) -> Dataset {
        Dataset::new(features, values.to_vec(), Vec::new(), Vec::new()).unwrap()
    }

    fn opened(rows: &Dataset) -> Moments {
        Moments::from_words(&moments(rows, true), rows.features()).unwrap()
    }

    fn added(a: &[Wide], b: &[Wide]) -> Vec<Wide> {
        a.iter().zip(b).map(|(a, b)| a.wrapping_add(*b)).collect()
    }

    #[test]
    fn largest_features_and_most_rows_fit_their_words() {
        let x = MAX_MAGNITUDE.next_down();
        let one = moments(&data(2, &[x, -x]), true);
        let many: Vec<Wide> = one.iter().map(|word| number(whole(word) * MAX_ROWS)).collect();
        let moments = Moments::from_words(&many, 2).unwrap();
        assert_eq!(moments.means, [f64::from(x), f64::from(-x)]);
        assert_eq!(moments.variances, Some(vec![0.0, 0.0]));
    }

    #[test]
    fn words_show_the_sums_of_a_peer_and_not_how_many_of_its_rows_are_below_zero() {
        let found = moments(&data(1, &[-3.0, -2.0, 7.5, 0.25]), false);
        assert_eq!(found, moments(&data(1, &[2.75, 0.0, 0.0, 0.0]), false));
        let squares = |values: &[f32]| moments(&data(1, values), true)[2..].to_vec();
        assert_eq!(squares(&[3.0, 4.0]), squares(&[-5.0, 0.0]));
    }

    /// Sums in binary64 would lose these numbers: 2^79 and 2^-40 in different features.
    #[test]
    fn a_huge_feature_does_not_hide_a_tiny_one() {
        let (huge, tiny) = (2f32.powi(79), 2f32.powi(-40));
        let found = opened(&data(2, &[huge, tiny, tiny, 3.0 * tiny, -huge, 2.0 * tiny]));
        assert_eq!(found.means, [f64::from(tiny) / 3.0, 2.0 * f64::from(tiny)]);
        let variances = found.variances.unwrap();
        assert_eq!(variances[1], 2.0 * f64::from(tiny).powi(2) / 3.0);
        assert!((variances[0] / (2.0 * f64::from(huge).powi(2) / 3.0) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn what_is_below_the_resolution_counts_as_a_constant() {
        let half = 2f32.powi(-41);
        let variance = |values: &[f32]| opened(&data(1, values)).variances.unwrap()[0];
        assert_eq!(variance(&[half.next_down(), 0.0, -half.next_down(), 1e-40]), 0.0);
        assert!(variance(&[half, 0.0]) > 0.0, "halves are rounded away from zero");
        assert_eq!(variance(&[1e20; 3]), 0.0);
    }

    #[test]
    fn words_of_no_rows_are_refused() {
        let words = moments(&data(1, &[1.0, 2.0, 4.0]), true);
        assert!(Moments::from_words(&words, 1).is_ok());
        assert!(matches!(Moments::from_words(&words, 4), Err(ScalingError::Words { .. })));
        let with = |at: usize, value: BigInt| {
            let mut words = words.clone();
            words[at] = number(value);
            Moments::from_words(&words, 1)
        };
        for rows in [BigInt::ZERO, BigInt::from(-1), BigInt::from(1 << 23), BigInt::from(1) << 200] {
            assert_eq!(with(0, rows.clone()), Err(ScalingError::Rows(rows.to_string())));
        }
        // The sum is too large, in either direction.
        for sum in [BigInt::from(1) << 122, BigInt::from(-1) << 122] {
            assert_eq!(with(1, BigInt::clone(&sum)), Err(ScalingError::Inconsistent(1)));
            // With squares, the variance would be below 0 too. Without squares, only the limit refuses the
            // sum.
            assert_eq!(Moments::from_words(&[words[0], number(sum)], 1), Err(ScalingError::Inconsistent(1)));
        }
        // The squares are too large, below 0, or too small for the mean.
        for squares in [BigInt::from(1) << 242, BigInt::from(-1), BigInt::ZERO] {
            assert_eq!(with(2, squares), Err(ScalingError::Inconsistent(1)));
        }
    }

    /// Any valid f32 with evenly spread exponents, so huge and tiny values occur together.
    fn values() -> impl Strategy<Value = Vec<f32>> {
        let any = (-149i32..80, 0u32..1 << 23, any::<bool>()).prop_map(|(exponent, fraction, negative)| {
            let x = ((f64::from(fraction) / f64::from(1 << 23) + 1.0) * 2f64.powi(exponent)) as f32;
            let x = if x < MAX_MAGNITUDE { x } else { MAX_MAGNITUDE.next_down() };
            if negative { -x } else { x }
        });
        prop::collection::vec(prop_oneof![any, Just(0.0)], 3..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn moments_of_any_parts_add_up_to_those_of_the_whole(
            values in values(), owners in prop::collection::vec(0usize..4, 20), squares: bool,
        ) {
            let whole = data(3, &values[..values.len() / 3 * 3]);
            let mut total = vec![Wide::default(); Moments::words(3, squares)];
            for owner in 0..4 {
                let rows: Vec<usize> = (0..whole.rows()).filter(|&i| owners[i] == owner).collect();
                total = added(&total, &moments(&whole.subset(&rows), squares));
            }
            prop_assert_eq!(&total, &moments(&whole, squares));
            prop_assert_eq!(Moments::from_words(&total, 3).unwrap().rows, whole.rows() as u64);
        }

        /// Compares with one big integer Q for each value.
        #[test]
        fn means_and_variances_are_those_of_exact_integers(values in values()) {
            let q = |x: f32| (f64::from(x) * 2f64.powi(40)).round() as i128;
            let n = BigInt::from(values.len());
            let sum: BigInt = values.iter().map(|&x| BigInt::from(q(x))).sum();
            let squares: BigInt = values.iter().map(|&x| BigInt::from(q(x)).pow(2)).sum();
            let found = opened(&data(1, &values));
            let rows = values.len() as f64;
            prop_assert_eq!(found.means[0], sum.to_f64().unwrap() / (rows * 2f64.powi(40)));
            let variance = (&n * squares - &sum * &sum).to_f64().unwrap() / (rows * rows * 2f64.powi(80));
            prop_assert_eq!(found.variances.unwrap()[0], variance);
        }

        #[test]
        fn moments_are_close_to_floating_point_ones(
            values in prop::collection::vec(-1000f32..1000.0, 2..50),
        ) {
            let found = opened(&data(1, &values));
            let n = values.len() as f64;
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
            let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((found.means[0] - mean).abs() < 1e-9);
            prop_assert!((found.variances.unwrap()[0] - variance).abs() < 1e-6);
        }
    }

    #[test]
    fn moments_of_a_set_of_images_add_up_whatever_the_cut() {
        let data = digits();
        let rows: Vec<usize> = (0..data.rows()).collect();
        for cut in [1, 17, 900, 1796] {
            let [a, b] =
                [data.subset(&rows[..cut]), data.subset(&rows[cut..])].map(|part| moments(&part, true));
            assert_eq!(Moments::from_words(&added(&a, &b), data.features()).unwrap(), opened(&data));
        }
    }
}
