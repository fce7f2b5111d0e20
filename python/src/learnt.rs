//! The rows of this peer that were used to train the result of a session.

use flyswarm_data::Borrowed;
use flyswarm_learn::learnt::{self, Overlap};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::error::value;

/// Keyed hashes of rows. They stay in this process and are not written anywhere.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct LearntRows(learnt::LearntRows);

impl LearntRows {
    pub(crate) fn parse(text: &str) -> PyResult<Self> {
        learnt::LearntRows::parse(text.as_bytes()).map(Self).map_err(value)
    }
}

#[pymethods]
impl LearntRows {
    /// Returns how many of these rows, with these labels, were used for training, and how many were held out.
    fn overlap(
        &self,
        x: PyReadonlyArray2<'_, f32>,
        labels: PyReadonlyArray1<'_, u16>,
    ) -> PyResult<(usize, usize)> {
        let features = x.as_array().ncols();
        let rows = Borrowed::new(features, x.as_slice().map_err(value)?).map_err(value)?;
        let found = self.0.overlap_of(rows, labels.as_slice().map_err(value)?);
        Ok((found.learnt, found.held_out))
    }

    /// Returns the warning for these numbers of rows, or `None` if no warning is needed.
    #[staticmethod]
    fn warning(rows: usize, learnt: usize, held_out: usize) -> Option<String> {
        Overlap { rows, learnt, held_out, partial: false }.warning()
    }
}
