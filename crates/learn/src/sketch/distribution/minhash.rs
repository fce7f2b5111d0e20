//! MinHash (paper, Definition A.2) with a keyed hash instead of a permutation, folded to the range.
//!
//! A record is the set of its features that are above 0, numbered from 1. In row r feature j has the value
//!
//! ```text
//! g_r(j) = mix(key_r + j 0x9e3779b97f4a7c15)  mod 2^64
//! ```
//!
//! where key_r is the r-th word of 8 bytes (little-endian) of `Stream(seed, "sketch/minhash", "")` and `mix`
//! is the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014). `mix` is a bijection, so no two
//! features of a row have the same value. The record's number is the smallest value of its features, mod B. A
//! record without features has the value of feature 0.
//!
//! Two records collide in a row if the feature with the smallest value is the same. This has the probability
//! J, their Jaccard similarity. Otherwise they collide because of mod B, with probability 1 / B. So the
//! kernel is J + (1 - J) / B. The *value* is folded by mod B, not the number of the feature, so that chance
//! collisions are independent from row to row.

use rayon::prelude::*;

use super::{RowHashes, SketchError, check_shape};
use flyswarm_data::MAX_FEATURES;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Number of records whose features are listed at a time.
const BATCH: usize = 256;

/// MinHash functions; see the module.
pub struct MinHash {
    keys: Vec<u64>,
    range: usize,
    features: usize,
}

impl std::fmt::Debug for MinHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MinHash({} rows, range {}, d = {})", self.keys.len(), self.range, self.features)
    }
}

impl MinHash {
    /// Draws the keys from a seed.
    ///
    /// # Errors
    /// [`SketchError::Shape`].
    pub fn new(seed: &[u8], rows: usize, range: usize, features: usize) -> Result<Self, SketchError> {
        check_shape(rows, range)?;
        if !(1..=MAX_FEATURES).contains(&features) {
            let expected = format!("1 to {MAX_FEATURES}");
            return Err(SketchError::Shape { what: "features", value: features, expected });
        }
        let mut bytes = vec![0; rows * 8];
        Stream::new(seed, "sketch/minhash", &[]).fill(&mut bytes);
        let keys = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        Ok(Self { keys, range, features })
    }

    fn bucket(&self, key: u64, set: &[u64]) -> u16 {
        let least = set.iter().map(|&feature| value(key, feature)).min().unwrap_or_else(|| value(key, 0));
        // The range is at most 2^16.
        (least % self.range as u64) as u16
    }
}

/// Returns the features of a record that are above 0, numbered from 1.
fn set(record: &[f32]) -> Vec<u64> {
    (1..).zip(record).filter(|&(_, &x)| x > 0.0).map(|(feature, _)| feature).collect()
}

fn value(key: u64, feature: u64) -> u64 {
    let mut z = key.wrapping_add(feature.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl RowHashes for MinHash {
    fn rows(&self) -> usize {
        self.keys.len()
    }

    fn range(&self) -> usize {
        self.range
    }

    fn features(&self) -> usize {
        self.features
    }

    fn buckets(&self, record: &[f32]) -> Vec<u16> {
        let set = set(record);
        self.keys.iter().map(|&key| self.bucket(key, &set)).collect()
    }

    fn count(&self, records: &[f32], counters: &mut [u32]) {
        for records in records.chunks(BATCH * self.features) {
            let sets: Vec<_> = records.chunks_exact(self.features).map(set).collect();
            counters.par_chunks_exact_mut(self.range).zip(&self.keys).for_each(|(counters, &key)| {
                sets.iter().for_each(|set| counters[usize::from(self.bucket(key, set))] += 1);
            });
        }
    }
}
