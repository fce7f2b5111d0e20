//! SBFC, the paper's ablation (Ram & Sinha, section 4 and Appendix D.5): SimHash instead of FlyHash, and
//! binary Bloom filters. It is a baseline.
//!
//! Bit i of a row is 1 if its product with a Gaussian vector g_i is above 0. The filter of a class has all
//! bits that any row of the class has. A point's novelty for a class is the number of its bits that the
//! filter lacks. The class with the lowest novelty wins, and in a tie the lowest class (the authors draw one
//! of them). About half the bits of a hash are set, so filters of many rows are soon full. The comparison is
//! meant to show this.

use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rayon::prelude::*;

use flyswarm_data::Dataset;
use flyswarm_learn::model::ModelError;
use flyswarm_learn::sketch::flyhash::FeatureError;
use flyswarm_sealed_sum::crypto::stream::derive;

/// Number of bits of a word.
const WORD: usize = 64;

/// Trains on rows that have labels and predicts the classes of others, once with the first n bits for each
/// n of `sizes`. All sizes share one projection. The rows are not scaled here; scale them first.
///
/// # Errors
/// [`ModelError::Features`], [`ModelError::Unlabelled`].
pub fn predict(
    train: &Dataset,
    test: &Dataset,
    sizes: &[usize],
    seed: &[u8],
) -> Result<Vec<Vec<u16>>, ModelError> {
    if train.labels().is_empty() {
        return Err(ModelError::Unlabelled);
    }
    let features = train.features();
    if test.features() != features {
        return Err(FeatureError { what: "the data", found: test.features(), expected: features }.into());
    }
    let words = sizes.iter().max().map_or(0, |most| most.div_ceil(WORD));
    let gaussians = gaussians(features * words * WORD, seed);
    let hash = |row: &[f32]| bits(row, &gaussians, words);
    let hashes: Vec<Vec<u64>> = (0..train.rows()).into_par_iter().map(|i| hash(train.row(i))).collect();
    let mut filters = vec![vec![0; words]; train.classes().len()];
    for (hash, &label) in hashes.iter().zip(train.labels()) {
        filters[usize::from(label)].iter_mut().zip(hash).for_each(|(filter, word)| *filter |= word);
    }
    let predicted: Vec<Vec<u16>> = (0..test.rows())
        .into_par_iter()
        .map(|i| {
            let hash = hash(test.row(i));
            sizes.iter().map(|&size| nearest(&hash, &filters, size)).collect()
        })
        .collect();
    Ok((0..sizes.len()).map(|k| predicted.iter().map(|row| row[k]).collect()).collect())
}

/// Returns entry j of every g_i next to each other, for j from 0. The first bits depend on the number of
/// bits, so all sizes of one call must share the vectors.
fn gaussians(entries: usize, seed: &[u8]) -> Vec<f32> {
    let mut rng = chacha20::ChaCha8Rng::from_seed(*derive(seed, "evaluate", b"simhash"));
    (0..entries).map(|_| rng.sample(StandardNormal)).collect()
}

fn bits(row: &[f32], gaussians: &[f32], words: usize) -> Vec<u64> {
    let mut sums = vec![0.0f32; words * WORD];
    for (x, g) in row.iter().zip(gaussians.chunks_exact((words * WORD).max(1))) {
        sums.iter_mut().zip(g).for_each(|(sum, g)| *sum += x * g);
    }
    let pack = |sums: &[f32; WORD]| sums.iter().rev().fold(0, |word, &sum| word << 1 | u64::from(sum > 0.0));
    sums.as_chunks().0.iter().map(pack).collect()
}

/// Returns the class whose filter lacks the fewest of the first `size` bits.
fn nearest(hash: &[u64], filters: &[Vec<u64>], size: usize) -> u16 {
    let (whole, rest) = (size / WORD, size % WORD);
    let lacking = |filter: &Vec<u64>| {
        let missing = |at: usize| hash[at] & !filter[at];
        let last = if rest > 0 { (missing(whole) & ((1 << rest) - 1)).count_ones() } else { 0 };
        last + (0..whole).map(|at| missing(at).count_ones()).sum::<u32>()
    };
    (0u16..)
        .zip(filters)
        .min_by_key(|&(class, filter)| (lacking(filter), class))
        .map_or(0, |(class, _)| class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm_data::digits::digits;
    use flyswarm_data::scaling::{Scaler, Scaling};

    #[test]
    fn opposite_rows_share_no_bit() {
        let classes = vec!["a".to_owned(), "b".to_owned()];
        let train = Dataset::new(2, vec![1.0, 2.0, -1.0, -2.0], vec![0, 1], classes.clone()).unwrap();
        let test = Dataset::new(2, vec![2.0, 4.0, -3.0, -6.0], vec![0, 1], classes).unwrap();
        assert_eq!(predict(&train, &test, &[1, 63, 64, 65, 300], b"seed").unwrap()[1..], vec![vec![0, 1]; 4]);
        let gaussians = gaussians(2 * 128, b"seed");
        let [one, other] = [[1.0, 2.0], [-1.0, -2.0]].map(|row| bits(&row, &gaussians, 2));
        assert!(one.iter().zip(&other).all(|(a, b)| a ^ b == u64::MAX));
    }

    #[test]
    fn full_filters_tell_nothing() {
        // After centering, the rows of every digit are on both sides of any plane.
        let data = Scaler::fit(&Scaling::Center, &digits()).unwrap().transform(&digits());
        let predicted = predict(&data, &data, &[4], b"seed").unwrap().remove(0);
        assert!(predicted.iter().all(|&class| class == 0), "every class has all four bits");
    }
}
