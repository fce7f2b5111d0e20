//! Neighbours among a user's own rows, and their mixture with the predictions of a classifier (kNN-Per).

use flyswarm_data::split;
use flyswarm_learn::personal::{self, LAMBDAS, Mixture, Tally};
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::error::value;
use crate::model::{GivenGroups, groups_of};

/// Keys (representations of rows), each with a class.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct Datastore(personal::Datastore);

#[pymethods]
impl Datastore {
    /// Makes a store from keys, one in each row, and the class index of each key.
    #[new]
    fn new(
        keys: PyReadonlyArray2<'_, f32>,
        labels: PyReadonlyArray1<'_, u16>,
        classes: usize,
    ) -> PyResult<Self> {
        let labels =
            labels.as_slice().map_err(|_| value("expected labels as one contiguous array"))?.to_vec();
        personal::Datastore::new(keys.as_array().to_owned(), labels, classes).map(Self).map_err(value)
    }

    /// Returns the predictions from the `k` nearest keys, rows x classes. Each row sums to 1.
    fn said<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f32>,
        k: usize,
        scale: f64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let mixture = Mixture { k, scale, lambda: 0.0 };
        let rows = rows.as_array();
        let said = py.detach(|| mixture.neighbours(&self.0, rows)).map_err(value)?;
        Ok(said.into_pyarray(py))
    }
}

/// Returns the weight of the neighbours that gives the most right predictions, among the weights of the
/// paper.
#[pyfunction]
pub(crate) fn best_part(
    neighbours: PyReadonlyArray2<'_, f64>,
    network: PyReadonlyArray2<'_, f64>,
    labels: PyReadonlyArray1<'_, u16>,
) -> PyResult<f64> {
    let (near, network, labels) = (neighbours.as_array(), network.as_array(), labels.as_array());
    if near.dim() != network.dim() || near.nrows() != labels.len() {
        return Err(value("probabilities and labels do not belong together"));
    }
    let mut tally = Tally::default();
    for ((near, network), label) in near.rows().into_iter().zip(network.rows()).zip(labels) {
        tally.count(near, network, *label);
    }
    Ok(LAMBDAS[tally.best()])
}

/// Returns the rows of each of `count` folds. Every fold has about the same share of each class. The rows of
/// a group are in one fold.
#[pyfunction]
#[pyo3(signature = (labels, count, seed, groups=None))]
pub(crate) fn folds(
    labels: PyReadonlyArray1<'_, u16>,
    count: usize,
    seed: [u8; 32],
    groups: Option<GivenGroups<'_>>,
) -> PyResult<Vec<Vec<usize>>> {
    if count < 2 {
        return Err(value(format!("{count} folds, at least 2 are needed")));
    }
    let labels = labels.as_slice().map_err(|_| value("expected labels as one contiguous array"))?;
    let groups = groups_of(groups, labels.len())?;
    let rows = split::Rows::new(labels, groups.as_deref());
    Ok(split::folds(rows, count, &seed).into_iter().map(|split| split.test).collect())
}
