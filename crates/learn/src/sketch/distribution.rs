//! One-pass distribution sketches: R rows of B counters each. Every record increments one counter in each
//! row, chosen by the row's locality-sensitive hash (Liu, Xu, Coleman & Shrivastava, *One-Pass
//! Distribution Sketch for Measuring Data Heterogeneity in Federated Learning*, NeurIPS 2023, Algorithm
//! 1; a RACE sketch).
//!
//! The counters of two data sets add up to those of their union, so a sum over peers is the sketch of all
//! their records. A sketch gives:
//!
//! - the kernel density of the records at a point, with the collision probability of the hash as the
//!   kernel ([`DistributionSketch::density`], Algorithm 4);
//! - the distance of two data sets ([`DistributionSketch::distance`], section 3 and Algorithm 3).
//!
//! Hashes ([`RowHashes`]) are signs of random projections ([`srp`]) for dense records, and [`minhash`]
//! for sets. [`private`] adds noise, so that a sketch may be shown.

pub mod minhash;
pub mod private;
pub mod srp;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use flyswarm_data::Dataset;

/// Smallest and largest number of counters of a row, B.
pub const RANGE: std::ops::RangeInclusive<usize> = 2..=1 << 16;
/// Largest number of counters of a sketch, R x B, so that a sum stays below 64 MiB.
pub const MAX_COUNTERS: usize = 1 << 24;

/// One hash function for every row of a sketch.
pub trait RowHashes: fmt::Debug + Send + Sync {
    /// Returns the number of rows, the paper's R.
    fn rows(&self) -> usize;

    /// Returns the number of counters of a row, the paper's B.
    fn range(&self) -> usize;

    /// Returns the number of values of a record.
    fn features(&self) -> usize;

    /// Returns the counter that a record increments in each row: one number below [`range`](Self::range) for
    /// each row.
    fn buckets(&self, record: &[f32]) -> Vec<u16>;

    /// Increments the counters (rows x range) of each record. `records` is row-major. The result equals that
    /// of [`buckets`](Self::buckets) for each record, but is computed faster.
    fn count(&self, records: &[f32], counters: &mut [u32]);
}

/// Family of hash functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Signs of random projections: the kernel is (1 - angle / pi)^p.
    Srp,
    /// MinHash of the features above 0: the kernel is the Jaccard similarity plus the collisions by chance.
    Minhash,
}

impl Family {
    /// Makes the hash functions of a seed, for records of `features` numbers.
    ///
    /// # Errors
    /// [`SketchError::Shape`] if a size is out of range.
    pub fn hashes(
        self,
        seed: &[u8],
        rows: usize,
        range: usize,
        features: usize,
    ) -> Result<Box<dyn RowHashes>, SketchError> {
        Ok(match self {
            Self::Srp => Box::new(srp::Srp::new(seed, rows, range, features)?),
            Self::Minhash => Box::new(minhash::MinHash::new(seed, rows, range, features)?),
        })
    }

    /// Returns the name in session files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Srp => "srp",
            Self::Minhash => "minhash",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Srp, Self::Minhash]
            .into_iter()
            .find(|family| family.name() == text)
            .ok_or_else(|| format!("{text:?} is neither srp nor minhash"))
    }
}

/// Reason why a sketch cannot be made. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SketchError {
    /// A size is out of its range.
    #[error("{what} is {value}, expected {expected}")]
    Shape {
        /// Name of the size.
        what: &'static str,
        /// Value found.
        value: usize,
        /// Valid values.
        expected: String,
    },
    /// Two sketches, or a sketch and its hashes, differ in shape.
    #[error("a sketch of {} x {} counters, expected {} x {}", found.0, found.1, expected.0, expected.1)]
    Mismatch {
        /// Rows and range that were given.
        found: (usize, usize),
        /// Rows and range that are needed.
        expected: (usize, usize),
    },
    /// A counter could overflow.
    #[error("{0} records, at most 4294967295")]
    Records(u64),
    /// The words do not form a sketch of any records.
    #[error("row {0} of the sketch does not count every record once")]
    Inconsistent(usize),
}

/// Checks rows and range.
fn check_shape(rows: usize, range: usize) -> Result<(), SketchError> {
    if !RANGE.contains(&range) {
        let expected = format!("{} to {}", RANGE.start(), RANGE.end());
        return Err(SketchError::Shape { what: "range", value: range, expected });
    }
    if !(1..=MAX_COUNTERS / range).contains(&rows) {
        let expected = format!("1 to {} with a range of {range}", MAX_COUNTERS / range);
        return Err(SketchError::Shape { what: "rows", value: rows, expected });
    }
    Ok(())
}

/// Number of records that incremented each counter.
#[derive(Clone, PartialEq, Eq)]
pub struct DistributionSketch {
    range: usize,
    records: u32,
    /// Counters, row after row.
    counters: Vec<u32>,
}

impl fmt::Debug for DistributionSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, range) = self.shape();
        write!(f, "DistributionSketch({rows} x {range} of {} records, <redacted>)", self.records)
    }
}

/// Distance of two data sets. Each sketch is first divided by its number of records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// Mean over the rows of the L2 norm of the row's difference, 0 to sqrt 2. The authors' code uses this
    /// mean, which does not grow with R.
    pub row_mean: f64,
    /// L2 norm of the whole difference, 0 to sqrt(2 R) (paper, Algorithm 3).
    pub plain: f64,
}

impl Distance {
    /// Computes the distance of two tables of shares. Each row has `range` shares. Squares are added and rows
    /// averaged in ascending order, in binary64.
    #[must_use]
    pub fn between(range: usize, one: &[f64], other: &[f64]) -> Self {
        let rows = one.chunks_exact(range).zip(other.chunks_exact(range));
        let (mut count, mut norms, mut all) = (0u32, 0.0, 0.0);
        for (one, other) in rows {
            let square = one.iter().zip(other).fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b));
            norms += square.sqrt();
            all += square;
            count += 1;
        }
        Self { row_mean: norms / f64::from(count.max(1)), plain: all.sqrt() }
    }
}

impl DistributionSketch {
    /// Makes a sketch without records.
    ///
    /// # Errors
    /// [`SketchError::Shape`].
    pub fn new(rows: usize, range: usize) -> Result<Self, SketchError> {
        check_shape(rows, range)?;
        Ok(Self { range, records: 0, counters: vec![0; rows * range] })
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

    /// Returns the counters, row after row.
    #[must_use]
    pub fn counters(&self) -> &[u32] {
        &self.counters
    }

    /// Counts one more record.
    ///
    /// # Errors
    /// [`SketchError::Mismatch`], [`SketchError::Records`].
    pub fn add(&mut self, hashes: &dyn RowHashes, record: &[f32]) -> Result<(), SketchError> {
        self.fits((hashes.rows(), hashes.range()))?;
        self.records = self.with(1)?;
        for (row, bucket) in self.counters.chunks_exact_mut(self.range).zip(hashes.buckets(record)) {
            row[usize::from(bucket)] += 1;
        }
        Ok(())
    }

    /// Counts many records. The result equals that of [`add`](Self::add) for each record, but is computed
    /// faster.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn extend(&mut self, hashes: &dyn RowHashes, records: &Dataset) -> Result<(), SketchError> {
        self.fits((hashes.rows(), hashes.range()))?;
        self.records = self.with(records.rows() as u64)?;
        hashes.count(records.values(), &mut self.counters);
        Ok(())
    }

    /// Adds the counts of another sketch.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchError> {
        self.fits(other.shape())?;
        self.records = self.with(other.records.into())?;
        self.counters.iter_mut().zip(&other.counters).for_each(|(sum, count)| *sum += count);
        Ok(())
    }

    /// Returns the kernel density at `record`, 0 to 1. Each row gives the share of the records in the counter
    /// that `record` would increment. The rows are divided into `groups` groups (at least 1, at most R).
    /// Groups are consecutive rows, their sizes differ by at most one, and the longer ones come first. The
    /// density is the median of the groups' mean shares. The median of an even number of means is the mean of
    /// the middle two. The density is 0 without records.
    ///
    /// `groups` = R is the paper's Algorithm 4. The mean of a row's share is the density, but the
    /// distribution of the share is skewed. On the digits, the median of single rows differs from the mean by
    /// a fifth or more, and more rows do not help (docs/sketch.md). The mean (1 group) and the median of a
    /// few means have errors that fall as R^-1/2. The median of means also tolerates single odd rows, as
    /// required by the theorem behind Algorithm 4.
    #[must_use]
    pub fn density(&self, hashes: &dyn RowHashes, record: &[f32], groups: usize) -> f64 {
        if self.records == 0 {
            return 0.0;
        }
        let buckets = hashes.buckets(record);
        let rows = self.counters.chunks_exact(self.range).zip(buckets);
        let counts: Vec<f64> = rows.map(|(row, bucket)| row[usize::from(bucket)].into()).collect();
        median_of_means(&counts, groups) / f64::from(self.records)
    }

    /// Returns every counter divided by the number of records, in binary64. All are 0 without records.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let records = f64::from(self.records.max(1));
        self.counters.iter().map(|&count| f64::from(count) / records).collect()
    }

    /// Computes the distance of two sketches.
    ///
    /// # Errors
    /// [`SketchError::Mismatch`].
    pub fn distance(&self, other: &Self) -> Result<Distance, SketchError> {
        self.fits(other.shape())?;
        Ok(Distance::between(self.range, &self.shares(), &other.shares()))
    }

    /// Returns the words of a sealed sum: the counters, row after row, then the number of records.
    #[must_use]
    pub fn to_words(&self) -> Vec<u32> {
        self.counters.iter().copied().chain([self.records]).collect()
    }

    /// Restores a sketch from the words of a sum.
    ///
    /// # Errors
    /// [`SketchError::Inconsistent`] if a row's counters do not add up to the number of records;
    /// [`SketchError::Shape`] if the number of words is wrong.
    pub fn from_words(words: &[u32], rows: usize, range: usize) -> Result<Self, SketchError> {
        check_shape(rows, range)?;
        let wrong = || SketchError::Shape {
            what: "words",
            value: words.len(),
            expected: (rows * range + 1).to_string(),
        };
        let (&records, counters) =
            words.split_last().filter(|_| words.len() == rows * range + 1).ok_or_else(wrong)?;
        let sums =
            counters.chunks_exact(range).map(|row| row.iter().map(|&count| u64::from(count)).sum::<u64>());
        if let Some(row) = sums.into_iter().position(|sum| sum != u64::from(records)) {
            return Err(SketchError::Inconsistent(row));
        }
        Ok(Self { range, records, counters: counters.to_vec() })
    }

    fn fits(&self, found: (usize, usize)) -> Result<(), SketchError> {
        let expected = self.shape();
        if found == expected { Ok(()) } else { Err(SketchError::Mismatch { found, expected }) }
    }

    /// Returns the number of records after adding `more`. No counter is above this number.
    fn with(&self, more: u64) -> Result<u32, SketchError> {
        let all = u64::from(self.records) + more;
        u32::try_from(all).map_err(|_| SketchError::Records(all))
    }
}

/// Returns the median of the means of `groups` groups of consecutive rows; see
/// [`DistributionSketch::density`].
fn median_of_means(counts: &[f64], groups: usize) -> f64 {
    let groups = groups.clamp(1, counts.len());
    let (size, longer) = (counts.len() / groups, counts.len() % groups);
    let mut rest = counts;
    let mut means: Vec<f64> = (0..groups)
        .map(|group| {
            let (own, others) = rest.split_at(size + usize::from(group < longer));
            rest = others;
            own.iter().sum::<f64>() / own.len() as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    (means[(groups - 1) / 2] + means[groups / 2]) / 2.0
}

#[cfg(test)]
mod tests;
