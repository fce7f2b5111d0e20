//! Rows in memory.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::{DataError, Group, MAX_FEATURES, MAX_ROWS, magnitude_ok};

/// Rows of features. Either every row has a class, or no row has one.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    pub(super) features: usize,
    pub(super) values: Vec<f32>,
    pub(super) labels: Vec<u16>,
    pub(super) classes: Vec<String>,
    pub(super) groups: Option<Vec<Group>>,
}

impl Dataset {
    /// Makes a data set. `values` is row-major, rows x `features`; `labels` is empty or has an index into
    /// `classes` for each row.
    ///
    /// # Errors
    /// [`DataError::Shape`] if lengths do not match, there are no rows, a label is not below
    /// `classes.len()`, or a number is not finite or not below [`crate::MAX_MAGNITUDE`].
    pub fn new(
        features: usize,
        values: Vec<f32>,
        labels: Vec<u16>,
        classes: Vec<String>,
    ) -> Result<Self, DataError> {
        let rows = Borrowed::new(features, &values)?.rows();
        check_labels(rows, &labels, classes.len())?;
        Ok(Self { features, values, labels, classes, groups: None })
    }

    /// Makes a data set from an array. `features` is rows x features; `labels` is empty or has an index
    /// into `classes` for each row.
    ///
    /// # Errors
    /// As [`Dataset::new`].
    pub fn from_arrays(
        features: Array2<f32>,
        labels: Vec<u16>,
        classes: Vec<String>,
    ) -> Result<Self, DataError> {
        let width = features.ncols();
        let values = if features.is_standard_layout() {
            features.into_raw_vec_and_offset().0
        } else {
            features.iter().copied().collect()
        };
        Self::new(width, values, labels, classes)
    }

    /// Returns the same rows with a group for each row.
    ///
    /// # Errors
    /// [`DataError::Shape`] if the number of groups differs from the number of rows.
    pub fn with_groups(self, groups: Vec<Group>) -> Result<Self, DataError> {
        if groups.len() != self.rows() {
            return Err(DataError::Shape(format!("{} groups for {} rows", groups.len(), self.rows())));
        }
        Ok(Self { groups: Some(groups), ..self })
    }

    /// Returns the same rows and groups with these labels and classes; see [`Dataset::new`].
    ///
    /// # Errors
    /// [`DataError::Shape`] as for [`Dataset::new`], but a data set without rows is accepted.
    pub fn with_labels(self, labels: Vec<u16>, classes: Vec<String>) -> Result<Self, DataError> {
        check_labels(self.rows(), &labels, classes.len())?;
        Ok(Self { labels, classes, ..self })
    }

    /// Appends the rows of `other`. The classes of `self` are kept; groups are kept if both have them.
    ///
    /// # Errors
    /// [`DataError::Shape`] if the numbers of features differ, or if only one of the two has labels.
    pub fn followed_by(mut self, other: &Self) -> Result<Self, DataError> {
        if self.features != other.features {
            let problem = format!("rows of {} and of {} features", self.features, other.features);
            return Err(DataError::Shape(problem));
        }
        self.values.extend(&other.values);
        self.labels.extend(&other.labels);
        check_labels(self.rows(), &self.labels, self.classes.len())?;
        self.groups = match (self.groups, &other.groups) {
            (Some(groups), Some(more)) => Some([&groups[..], more].concat()),
            _ => None,
        };
        Ok(self)
    }

    /// All numbers, rows x features.
    #[must_use]
    pub fn view(&self) -> ArrayView2<'_, f32> {
        ArrayView2::from_shape((self.rows(), self.features), &self.values)
            .unwrap_or_else(|_| unreachable!("BUG: the values fill the rows"))
    }

    /// Number of features in a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of rows. It is at least 1, unless the data set is an empty [`Dataset::subset`].
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() / self.features
    }

    /// The features of row `i`, counted from 0.
    ///
    /// # Panics
    /// If `i` is not below [`Dataset::rows`].
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.features..(i + 1) * self.features]
    }

    /// All numbers, row-major, rows x features.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The class index of each row; empty if the data was loaded without labels.
    #[must_use]
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// The group of each row; `None` if the rows have no groups.
    #[must_use]
    pub fn groups(&self) -> Option<&[Group]> {
        self.groups.as_deref()
    }

    /// Names of the classes, in the order of their indices.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the rows with these indices, in this order. An index may occur several times.
    ///
    /// # Panics
    /// If an index is not below [`Dataset::rows`].
    #[must_use]
    pub fn subset(&self, rows: &[usize]) -> Self {
        let mut values = Vec::with_capacity(rows.len() * self.features);
        for &i in rows {
            values.extend_from_slice(self.row(i));
        }
        let labels =
            if self.labels.is_empty() { Vec::new() } else { rows.iter().map(|&i| self.labels[i]).collect() };
        let groups = self.groups.as_ref().map(|groups| rows.iter().map(|&i| groups[i]).collect());
        Self { features: self.features, values, labels, classes: self.classes.clone(), groups }
    }

    /// Returns a data set with the same labels and with new rows of `features` numbers. `f(row, place)`
    /// writes the new row into `place` and must keep the numbers finite.
    pub(crate) fn map_rows(&self, features: usize, f: impl Fn(&[f32], &mut [f32])) -> Self {
        let mut values = vec![0.0; self.rows() * features];
        let rows = self.values.chunks_exact(self.features);
        rows.zip(values.chunks_exact_mut(features)).for_each(|(row, place)| f(row, place));
        let (labels, classes, groups) = (self.labels.clone(), self.classes.clone(), self.groups.clone());
        Self { features, values, labels, classes, groups }
    }

    /// Returns the number of rows of each class, for `classes` classes. Labels at or above `classes` are
    /// not counted.
    #[must_use]
    pub fn class_counts(&self, classes: usize) -> Vec<u64> {
        let mut counts = vec![0; classes];
        for &label in &self.labels {
            if let Some(count) = counts.get_mut(usize::from(label)) {
                *count += 1;
            }
        }
        counts
    }
}

/// Checks that there are either no labels or one for each row, and that each is an index into the classes.
fn check_labels(rows: usize, labels: &[u16], classes: usize) -> Result<(), DataError> {
    let refuse = |problem: String| Err(DataError::Shape(problem));
    if !labels.is_empty() && labels.len() != rows {
        return refuse(format!("{} labels for {rows} rows", labels.len()));
    }
    match labels.iter().find(|&&label| usize::from(label) >= classes) {
        Some(label) => refuse(format!("label {label} with {classes} classes")),
        None => Ok(()),
    }
}

/// Rows of features owned elsewhere, with the same checks as the rows of a [`Dataset`].
#[derive(Debug, Clone, Copy)]
pub struct Borrowed<'a> {
    features: usize,
    values: &'a [f32],
}

impl<'a> Borrowed<'a> {
    /// Checks and borrows rows. `values` is row-major, rows x `features`.
    ///
    /// # Errors
    /// [`DataError::Shape`] if the length does not match, there are no rows, there are too many rows or
    /// features, or a number is not finite or not below [`crate::MAX_MAGNITUDE`].
    pub fn new(features: usize, values: &'a [f32]) -> Result<Self, DataError> {
        let refuse = |problem: String| Err(DataError::Shape(problem));
        if features == 0 || features > MAX_FEATURES {
            return refuse(format!("{features} features, expected 1 to {MAX_FEATURES}"));
        }
        if values.is_empty() || !values.len().is_multiple_of(features) {
            return refuse(format!("{} values do not fill rows of {features}", values.len()));
        }
        let rows = values.len() / features;
        if rows > MAX_ROWS {
            return refuse(format!("{rows} rows, limit {MAX_ROWS}"));
        }
        if let Some(at) = values.iter().position(|&x| !magnitude_ok(x)) {
            return refuse(format!(
                "row {}, feature {} is {}, expected a number below 2^80",
                at / features,
                at % features,
                values[at]
            ));
        }
        Ok(Self { features, values })
    }

    /// Number of features in a row.
    #[must_use]
    pub fn features(self) -> usize {
        self.features
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(self) -> usize {
        self.values.len() / self.features
    }

    /// The features of row `i`, counted from 0.
    ///
    /// # Panics
    /// If `i` is not below [`Borrowed::rows`].
    #[must_use]
    pub fn row(self, i: usize) -> &'a [f32] {
        &self.values[i * self.features..(i + 1) * self.features]
    }
}

impl<'a> From<&'a Dataset> for Borrowed<'a> {
    fn from(data: &'a Dataset) -> Self {
        Self { features: data.features, values: &data.values }
    }
}

impl<'a> From<&'a Arc<Dataset>> for Borrowed<'a> {
    fn from(data: &'a Arc<Dataset>) -> Self {
        Self::from(&**data)
    }
}
