//! Fly Bloom filters as counts: `c[l][i]` is the number of rows of class l that have winner i (Ram &
//! Sinha, Algorithm 1, line 6; the power of gamma is applied at prediction). [`readout`](super::readout)
//! turns counts into scores of a point.

use crate::sketch::flyhash::FlyHash;
use flyswarm_data::scaling::Scaler;
use flyswarm_data::{Borrowed, Dataset};

use super::ModelError;

/// Number of rows that are hashed at a time, so that their winners need little memory.
pub(super) const BLOCK: usize = 1024;

/// Reason why counts or labels are refused. Nothing was changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountsError {
    /// The number of classes or of rows of M differs.
    #[error("counts of {found} numbers, expected {classes} classes x {m}")]
    Shape {
        /// Number of values found.
        found: usize,
        /// Number of classes expected.
        classes: usize,
        /// Number of rows of M expected.
        m: usize,
    },
    /// The number of bytes is not a multiple of 4.
    #[error("{0} bytes of counts, expected a multiple of 4")]
    Bytes(usize),
    /// A sum does not fit 32 bits.
    #[error("count {i} of class {class} would exceed 2^32 - 1")]
    Overflow {
        /// Index of the class.
        class: usize,
        /// Row of M.
        i: usize,
    },
    /// A label is not a class.
    #[error("row {row} has class {label}, expected below {classes}")]
    Label {
        /// Index of the row, from 0.
        row: usize,
        /// Its label.
        label: u16,
        /// Number of classes.
        classes: usize,
    },
}

/// `c[l][i]`, row-major, classes x m.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    classes: usize,
    m: usize,
    values: Vec<u32>,
}

/// Counts the rows of `data`, `classes` x m (`TrainFLYNN`). Labels are class indices below `classes`.
///
/// # Errors
/// [`ModelError`] if features or labels do not fit, or if the rows have no labels.
pub fn fit(hash: &FlyHash, scaler: &Scaler, data: &Dataset, classes: usize) -> Result<Counts, ModelError> {
    let mut counts = Counts::zero(classes, hash.m());
    if data.rows() > 0 {
        count(&mut counts, hash, scaler, (data.into(), data.labels()))?;
    }
    Ok(counts)
}

/// Adds rows with their class indices to the counts (classes x m).
///
/// # Errors
/// [`ModelError`] if features or labels do not fit, if there is not one label for each row, or if a count
/// might exceed 32 bits.
pub fn add(
    counts: &mut Counts,
    hash: &FlyHash,
    scaler: &Scaler,
    data: Borrowed<'_>,
    labels: &[u16],
) -> Result<(), ModelError> {
    counts.expect_shape(counts.classes, hash.m())?;
    // A row adds at most 1 to a count.
    let room = u32::MAX - data.rows() as u32;
    if let Some(at) = counts.values.iter().position(|&count| count > room) {
        return Err(CountsError::Overflow { class: at / counts.m, i: at % counts.m }.into());
    }
    count(counts, hash, scaler, (data, labels))
}

/// Adds rows as [`add`] does, without its check that no count can exceed 32 bits. The caller must be sure of
/// that.
fn count(
    counts: &mut Counts,
    hash: &FlyHash,
    scaler: &Scaler,
    (data, labels): (Borrowed<'_>, &[u16]),
) -> Result<(), ModelError> {
    let classes = counts.classes;
    if labels.len() != data.rows() {
        return Err(ModelError::Unlabelled);
    }
    if let Some((row, &label)) = labels.iter().enumerate().find(|&(_, &label)| usize::from(label) >= classes)
    {
        return Err(CountsError::Label { row, label, classes }.into());
    }
    for from in (0..data.rows()).step_by(BLOCK) {
        let rows = from..data.rows().min(from + BLOCK);
        let winners = hash.winners(scaler, data, rows.clone())?;
        for (&label, winners) in labels[rows].iter().zip(winners.chunks_exact(hash.rho())) {
            let filter = &mut counts.values[usize::from(label) * counts.m..][..counts.m];
            winners.iter().for_each(|&i| filter[i as usize] += 1);
        }
    }
    Ok(())
}

impl Counts {
    /// Returns counts that are all zero.
    #[must_use]
    pub fn zero(classes: usize, m: usize) -> Self {
        Self { classes, m, values: vec![0; classes * m] }
    }

    /// Makes counts from numbers in row-major order, such as a sum over all peers.
    ///
    /// # Errors
    /// [`CountsError::Shape`].
    pub fn from_values(values: Vec<u32>, classes: usize, m: usize) -> Result<Self, CountsError> {
        if classes.checked_mul(m) != Some(values.len()) {
            return Err(CountsError::Shape { found: values.len(), classes, m });
        }
        Ok(Self { classes, m, values })
    }

    /// Reads little-endian bytes, 4 for each number.
    ///
    /// # Errors
    /// [`CountsError::Bytes`] or [`CountsError::Shape`].
    pub fn from_le_bytes(bytes: &[u8], classes: usize, m: usize) -> Result<Self, CountsError> {
        let (words, []) = bytes.as_chunks::<4>() else { return Err(CountsError::Bytes(bytes.len())) };
        if classes.checked_mul(m) != Some(words.len()) {
            return Err(CountsError::Shape { found: words.len(), classes, m });
        }
        Ok(Self { classes, m, values: words.iter().map(|&word| u32::from_le_bytes(word)).collect() })
    }

    /// Returns little-endian bytes, 4 for each number.
    #[must_use]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        self.values.iter().flat_map(|c| c.to_le_bytes()).collect()
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns all numbers, row-major, classes x m.
    #[must_use]
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// Returns the m counts of class `l`.
    ///
    /// # Panics
    /// If `l` is not a class.
    #[must_use]
    pub fn class(&self, l: usize) -> &[u32] {
        assert!(l < self.classes, "class {l} of {}", self.classes);
        &self.values[l * self.m..(l + 1) * self.m]
    }

    /// Adds other counts of the same shape.
    ///
    /// # Errors
    /// [`CountsError::Shape`] or [`CountsError::Overflow`]. After an error the counts are unchanged.
    pub fn merge(&mut self, other: &Self) -> Result<(), CountsError> {
        other.expect_shape(self.classes, self.m)?;
        let overflows = |(a, b): (&u32, &u32)| a.checked_add(*b).is_none();
        if let Some(at) = self.values.iter().zip(&other.values).position(overflows) {
            return Err(CountsError::Overflow { class: at / self.m, i: at % self.m });
        }
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a += b);
        Ok(())
    }

    /// Subtracts other counts of the same shape, such as those of some of the counted rows. Returns
    /// `None` if a count would be below 0.
    #[must_use]
    pub fn without(&self, other: &Self) -> Option<Self> {
        other.expect_shape(self.classes, self.m).ok()?;
        let left = self.values.iter().zip(&other.values).map(|(a, b)| a.checked_sub(*b));
        left.collect::<Option<_>>().map(|values| Self { values, ..*self })
    }

    pub(super) fn expect_shape(&self, classes: usize, m: usize) -> Result<(), CountsError> {
        if (self.classes, self.m) == (classes, m) {
            return Ok(());
        }
        Err(CountsError::Shape { found: self.values.len(), classes, m })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_refuses_other_shapes_and_overflow_and_changes_nothing() {
        let mut counts = Counts::from_values(vec![1, 2, u32::MAX, 4], 2, 2).unwrap();
        let before = counts.clone();
        assert_eq!(counts.merge(&Counts::zero(1, 4)), Err(CountsError::Shape { found: 4, classes: 2, m: 2 }));
        let one = Counts::from_values(vec![1; 4], 2, 2).unwrap();
        assert_eq!(counts.merge(&one), Err(CountsError::Overflow { class: 1, i: 0 }));
        assert_eq!(counts, before);
        assert_eq!(Counts::from_le_bytes(&counts.to_le_bytes(), 2, 2), Ok(before));
        assert_eq!(Counts::from_le_bytes(&[0; 15], 2, 2), Err(CountsError::Bytes(15)));
        assert!(Counts::from_values(vec![0; 3], 2, 2).is_err());
    }
}
