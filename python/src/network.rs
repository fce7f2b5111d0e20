//! The network that a session of the task `fedavg` trains.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flyswarm::cli;
use flyswarm_data::{Contents, LabelColumn};
use flyswarm_learn::learner::Classifier;
use numpy::ndarray::ArrayView2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::value;
use crate::model::{Table, prepared};
use crate::session::{failed, label_column};

/// Features, class indices and group indices of rows.
type Labelled<'py> = (Numbers<'py>, Bound<'py, PyArray1<u16>>, Option<Bound<'py, PyArray1<u32>>>);

/// Numbers in rows.
type Numbers<'py> = Bound<'py, PyArray2<f32>>;

/// Lists the tensors of a safetensors file for a session, as JSON, and returns its digest.
#[pyfunction]
pub(crate) fn declare(py: Python<'_>, file: &[u8]) -> PyResult<(String, String)> {
    py.detach(|| flyswarm::cli::declare(file)).map_err(value)
}

/// A user's own model that a session of the task `fedavg` has trained, as the session writes it.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct OwnModel(flyswarm::tasks::OwnModel);

#[pymethods]
impl OwnModel {
    /// Reads a model's bytes.
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let read = py.detach(|| flyswarm::tasks::OwnModel::decode(bytes));
        read.map(Self).map_err(|error| value(format!("the file {error}")))
    }

    /// Scales rows as the session has scaled the training rows. Returns rows x inputs.
    fn scale<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (rows, scaler) = (x.as_array(), &self.0.scaler);
        if rows.ncols() != scaler.features() {
            let text = format!("rows have {} features, the model takes {}", rows.ncols(), scaler.features());
            return Err(value(text));
        }
        let mut scaled = numpy::ndarray::Array2::zeros((rows.nrows(), scaler.width()));
        for (from, mut to) in rows.rows().into_iter().zip(scaled.rows_mut()) {
            scaler.apply(&from.to_vec(), to.as_slice_mut().unwrap_or_default());
        }
        Ok(scaled.into_pyarray(py))
    }

    /// Names of the classes, in the order of their indices.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.0.classes.clone()
    }

    /// SHA-256 of the file, in hexadecimal digits.
    #[getter]
    fn digest(&self) -> String {
        self.0.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A network with its weights, as a session writes it.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct Layers(Classifier);

#[pymethods]
impl Layers {
    /// Reads a network's bytes.
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| Classifier::decode(bytes)).map(Self).map_err(value)
    }

    /// Returns the bytes of the network's file.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.encode()))
    }

    /// Returns scores (logits), rows x classes. The class with the highest score is the prediction.
    fn scores<'py>(&self, py: Python<'py>, x: PyReadonlyArray2<'_, f32>) -> PyResult<Numbers<'py>> {
        let rows: ArrayView2<'_, f32> = x.as_array();
        Ok(py.detach(|| self.0.scores(rows)).map_err(value)?.into_pyarray(py))
    }

    /// Returns the values before the last layer, rows x units; for logistic regression the scaled rows.
    fn represent<'py>(&self, py: Python<'py>, x: PyReadonlyArray2<'_, f32>) -> PyResult<Numbers<'py>> {
        let rows: ArrayView2<'_, f32> = x.as_array();
        Ok(py.detach(|| self.0.represent(rows)).map_err(value)?.0.into_pyarray(py))
    }

    /// True if the session describes how the columns of a table become features.
    #[getter]
    fn described(&self) -> bool {
        self.0.preparation().is_some()
    }

    /// Returns the features of a table, rows x features.
    fn prepare<'py>(&self, py: Python<'py>, table: Table<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        prepared(py, self.0.preparation(), self.0.columns(), table)
    }

    /// Reads labelled rows from a file, with the arguments of `SessionRows.read`. Returns the features, the
    /// class index and, if the rows have groups, the group index of each row.
    #[pyo3(signature = (file, label, contents, map=None, drop=Vec::new()))]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        file: PathBuf,
        #[pyo3(from_py_with = label_column)] label: Option<LabelColumn>,
        contents: Option<&[u8]>,
        map: Option<String>,
        drop: Vec<String>,
    ) -> PyResult<Labelled<'py>> {
        let contents = contents.map(|bytes| Contents::from(bytes.to_vec()));
        let rows = py
            .detach(|| cli::network_rows(&self.0, &file, label.as_ref(), contents, map.as_deref(), &drop))
            .map_err(failed)?;
        let groups = rows.groups().map(|groups| {
            let known: BTreeMap<_, _> = groups.iter().zip(0u32..).collect();
            PyArray1::from_iter(py, groups.iter().map(|group| known[group]))
        });
        let labels = PyArray1::from_slice(py, rows.labels());
        Ok((rows.view().to_owned().into_pyarray(py), labels, groups))
    }

    /// Names of the classes, in the order of their indices.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    /// Names of the features; empty if they have no names.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns().to_vec()
    }

    /// Number of features in a row.
    #[getter]
    fn features(&self) -> usize {
        self.0.scaler().features()
    }

    /// SHA-256 of the network's file, in hexadecimal digits.
    #[getter]
    fn digest(&self) -> String {
        self.0.digest().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
