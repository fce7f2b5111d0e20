//! The classifier: a [`Counter`] counts rows, and a [`Model`] predicts.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use flyswarm_data::prepare::TableSchema;
use flyswarm_data::prepare::read::Dialect;
use flyswarm_data::scaling::{Moments, Scaler, Scaling, Wide, moments};
use flyswarm_data::split::Rows;
use flyswarm_data::{Borrowed, Contents, Expected, Group, LabelColumn, NamedBy, load_named};
use flyswarm_learn::model::bloom::{self, Counts};
use flyswarm_learn::model::file::FileError;
use flyswarm_learn::model::readout::{Readout, Score};
use flyswarm_learn::model::{self as kernel, ModelError};
use flyswarm_learn::sketch::flyhash::FlyHash;
use flyswarm_learn::sketch::{Parameters, Sketch};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::error::{disk, value};

/// Borrows and checks rows of float32 in C order; nothing is copied.
pub(crate) fn rows<'a>(x: &'a PyReadonlyArray2<'_, f32>) -> PyResult<Borrowed<'a>> {
    let values = x.as_slice().map_err(|_| value("expected rows in C order"))?;
    Borrowed::new(x.shape()[1], values).map_err(value)
}

/// Texts of groups, and for each row the index of its group.
pub(crate) type GivenGroups<'a> = (Vec<String>, PyReadonlyArray1<'a, u32>);

/// Returns the group of each of `count` rows.
pub(crate) fn groups_of(given: Option<GivenGroups<'_>>, count: usize) -> PyResult<Option<Vec<Group>>> {
    let Some((texts, codes)) = given else { return Ok(None) };
    let texts: Vec<Group> = texts.iter().map(|text| Group::of(text)).collect();
    let codes = codes.as_slice().map_err(|_| value("expected groups as one contiguous array"))?;
    let groups: Option<Vec<_>> = codes.iter().map(|&code| texts.get(code as usize).copied()).collect();
    match groups {
        Some(groups) if groups.len() == count => Ok(Some(groups)),
        _ => Err(value(format!("expected a group for each of {count} rows"))),
    }
}

/// Returns the scaling with this name. `bins` is used for "soft-bins", `lo` and `hi` for "range".
pub(crate) fn named_scaling(
    name: &str,
    bins: u16,
    lo: Vec<f32>,
    hi: Vec<f32>,
    features: usize,
) -> PyResult<Scaling> {
    let scaling = match name {
        "none" => Scaling::None,
        "unit-norm" => Scaling::UnitNorm,
        "range" => Scaling::Range { lo, hi },
        "center" => Scaling::Center,
        "standard" => Scaling::Standard,
        "soft-bins" => Scaling::SoftBins(bins),
        other => {
            let all = "none, unit-norm, range, center, standard or soft-bins";
            return Err(value(format!("scaling is {other:?}, expected {all}")));
        }
    };
    scaling.check(features).map_err(value)?;
    Ok(scaling)
}

/// A table as text with commas between columns: the path of a file, or the contents of a file.
#[derive(Debug, FromPyObject)]
pub(crate) enum Table<'py> {
    Contents(Bound<'py, PyBytes>),
    File(PathBuf),
}

/// Returns the features of a described table, rows x features. A level that the description does not have
/// counts as no level.
pub(crate) fn prepared<'py>(
    py: Python<'py>,
    preparation: Option<&TableSchema>,
    columns: &[String],
    table: Table<'py>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (file, contents) = match table {
        Table::Contents(bytes) => (PathBuf::from("X"), Some(Contents::from(bytes.as_bytes().to_vec()))),
        Table::File(file) => (file, None),
    };
    let expected = Expected {
        features: Some(columns.len()),
        columns,
        preparation,
        lenient: true,
        named_by: NamedBy::Model,
        label: LabelColumn::None,
        dialect: Dialect { delimiter: Some(b','), decimal_comma: Some(false) },
        contents: contents.as_ref(),
        ..Expected::default()
    };
    let data = py.detach(|| load_named(&file, &expected)).map_err(value)?.data;
    let shape = (data.rows(), data.features());
    Ok(Array2::from_shape_vec(shape, data.values().to_vec()).map_err(value)?.into_pyarray(py))
}

/// Counts of rows, and the parameters that they are counted with.
#[pyclass(module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct Counter {
    sketch: Sketch,
    readout: Readout,
    classes: Vec<String>,
    hash: Arc<FlyHash>,
    /// Sums for means and deviations, if the scaling needs them.
    words: Vec<Wide>,
    scaler: Option<Scaler>,
    counts: Counts,
}

#[pymethods]
impl Counter {
    /// Makes a counter without rows. `lo` and `hi` are the bounds for the `scaling` "range"; `bins` is the
    /// number of bins for "soft-bins".
    #[new]
    #[allow(clippy::too_many_arguments, reason = "all by name")]
    #[pyo3(signature = (*, features, classes, m, s, rho, seed, densify, scaling, bins, lo, hi, score, gamma))]
    fn new(
        py: Python<'_>,
        features: usize,
        classes: Vec<String>,
        m: usize,
        s: usize,
        rho: usize,
        seed: [u8; 32],
        densify: bool,
        scaling: &str,
        bins: u16,
        lo: Vec<f32>,
        hi: Vec<f32>,
        score: &str,
        gamma: f64,
    ) -> PyResult<Self> {
        let scaling = named_scaling(scaling, bins, lo, hi, features)?;
        let score: Score = score.parse().map_err(|error| value(format!("readout is {score:?}, {error}")))?;
        kernel::check_classes(&classes).map_err(value)?;
        let words = scaling.needs_moments().map_or(0, |squares| Moments::words(features, squares));
        let parameters = Parameters { d: features, m, s, rho, seed, densify, scaling };
        let sketch = parameters.check(classes.len()).map_err(value)?;
        let counts = Counts::zero(classes.len(), m);
        let hash = Arc::new(py.detach(|| FlyHash::new(&sketch)));
        let readout = Readout { score, gamma };
        let found = Self {
            sketch,
            readout,
            classes,
            hash,
            words: vec![Wide::default(); words],
            scaler: None,
            counts,
        };
        if words == 0 { found.scaled() } else { Ok(found) }
    }

    /// Adds rows to the means and deviations. Must come before any rows are counted.
    fn measure(&mut self, py: Python<'_>, x: PyReadonlyArray2<'_, f32>) -> PyResult<()> {
        let Some(squares) = self.sketch.parameters().scaling.needs_moments() else { return Ok(()) };
        let rows = rows(&x)?;
        self.expect_features(rows)?;
        let added = py.detach(|| moments(rows, squares));
        self.words.iter_mut().zip(added).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        Ok(())
    }

    /// Counts rows; `y` has the index of each row's class.
    fn add(
        &mut self,
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f32>,
        y: PyReadonlyArray1<'_, u16>,
    ) -> PyResult<()> {
        let rows = rows(&x)?;
        self.expect_features(rows)?;
        if self.scaler.is_none() {
            self.scaler = Some(self.measured()?);
        }
        let Some(scaler) = &self.scaler else { unreachable!("BUG: made above") };
        let labels = y.as_slice().map_err(|_| value("expected labels as one contiguous array"))?;
        let (counts, hash) = (&mut self.counts, &self.hash);
        py.detach(|| bloom::add(counts, hash, scaler, rows, labels)).map_err(value)
    }

    /// Makes a model from the counts. `columns` names the features, or is empty.
    fn model(&self, columns: Vec<String>) -> PyResult<Model> {
        let scaler = match &self.scaler {
            Some(scaler) => scaler.clone(),
            None => self.measured()?,
        };
        let (sketch, classes) = (self.sketch.clone(), self.classes.clone());
        let model = kernel::Model::new(sketch, self.readout, classes, scaler, self.counts.clone())
            .and_then(|model| model.with_columns(columns))
            .map_err(value)?;
        Ok(Model { model, hash: self.hash.clone().into() })
    }
}

impl Counter {
    /// Returns the scaler if the scaling needs no measured rows.
    fn scaled(mut self) -> PyResult<Self> {
        self.scaler = Some(self.measured()?);
        Ok(self)
    }

    /// Returns the scaler of the measured rows.
    fn measured(&self) -> PyResult<Scaler> {
        let parameters = self.sketch.parameters();
        let moments = (!self.words.is_empty()).then(|| Moments::from_words(&self.words, parameters.d));
        let moments = moments.transpose().map_err(value)?;
        Scaler::new(&parameters.scaling, parameters.d, moments.as_ref()).map_err(value)
    }

    fn expect_features(&self, rows: Borrowed<'_>) -> PyResult<()> {
        let (found, expected) = (rows.features(), self.sketch.parameters().d);
        if found == expected { Ok(()) } else { Err(value(format!("{found} features, expected {expected}"))) }
    }
}

/// A trained classifier, as a session writes it. `FlyNNClassifier.from_model` turns it into an estimator.
///
/// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
/// >>> model.classes, model.features, model.counts.shape
/// (['high', 'low'], 1, (2, 64))
/// >>> Model.decode(model.encode()).digest == model.digest
/// True
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct Model {
    model: kernel::Model,
    /// The lifting matrix, drawn at its first use.
    hash: OnceLock<Arc<FlyHash>>,
}

impl Model {
    pub(crate) fn of(model: kernel::Model) -> Self {
        Self { model, hash: OnceLock::new() }
    }

    fn hash(&self) -> Arc<FlyHash> {
        self.hash.get_or_init(|| Arc::new(FlyHash::new(self.model.sketch()))).clone()
    }
}

#[pymethods]
impl Model {
    /// Reads the bytes of a model. Raises ValueError if they do not form a model.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> Model.decode(model.encode()).classes
    /// ['high', 'low']
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| kernel::Model::decode(bytes)).map(Self::of).map_err(value)
    }

    /// Reads the file of a model. Raises ValueError if the file is not a model, OSError if it cannot be
    /// read.
    ///
    /// >>> import tempfile
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     model.save(f"{folder}/iris.model")
    /// ...     Model.load(f"{folder}/iris.model").digest == model.digest
    /// True
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| kernel::Model::load(&path)).map(Self::of).map_err(|error| match &error {
            FileError::Bad { .. } => value(error),
            _ => disk(error),
        })
    }

    /// Returns the bytes of the model's file.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> len(model.encode()) > 2 * 64
    /// True
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.model.encode()))
    }

    /// Writes the model's file. Raises OSError if it cannot be written.
    ///
    /// >>> import os, tempfile
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     model.save(f"{folder}/iris.model")
    /// ...     os.path.getsize(f"{folder}/iris.model") == len(model.encode())
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.model.save(&path)).map_err(disk)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let decode = PyType::new::<Self>(py).getattr("decode")?;
        Ok((decode, (self.encode(py),)))
    }

    /// Returns the class index of each row, uint16 of shape (rows,). The rows are float32 in C order of
    /// shape (rows, features). Raises ValueError if the number of features differs or a number is not
    /// finite.
    ///
    /// >>> import numpy as np
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> tuple(model.predict(np.array([[8.0], [1.0]], np.float32)).tolist())
    /// (0, 1)
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray1<u16>>> {
        let rows = rows(&x)?;
        let found = py.detach(|| self.model.predictor_with(self.hash()).predict(rows)).map_err(value)?;
        Ok(found.into_pyarray(py))
    }

    /// Returns the probability of each class, float64 of shape (rows, classes). Rows and errors as in
    /// `predict`.
    ///
    /// >>> import numpy as np
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.probabilities(np.array([[8.0]], np.float32)).sum().round(9).item()
    /// 1.0
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = rows(&x)?;
        let found = py.detach(|| {
            let scores = self.model.predictor_with(self.hash()).scores(rows)?;
            Ok::<_, ModelError>(self.model.probabilities(&scores))
        });
        let shape = (rows.rows(), self.model.classes().len());
        Ok(Array2::from_shape_vec(shape, found.map_err(value)?).map_err(value)?.into_pyarray(py))
    }

    /// Returns the same model with calibrated probabilities.
    ///
    /// The probabilities are calibrated on a fifth of the model's training rows, at most 1,000. `x` and `y`
    /// are the training rows and their class indices. `groups` has texts of groups, and for each row the
    /// index of its group. The rows of a group are either all in this fifth or all outside. If the fifth has
    /// fewer than ten rows, the probabilities do not change. Raises ValueError if the model was not trained
    /// on these rows.
    ///
    /// >>> import numpy as np
    /// >>> X, y = np.arange(100, dtype=np.float32)[:, None], np.arange(100, dtype=np.uint16) // 50
    /// >>> model = FlyNNClassifier(m=64, rho=4, calibrate=False).fit(X, y).model_
    /// >>> model.calibrated, model.calibrate(X, y).calibrated
    /// (False, True)
    #[pyo3(signature = (x, y, groups=None))]
    fn calibrate(
        &self,
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f32>,
        y: PyReadonlyArray1<'_, u16>,
        groups: Option<GivenGroups<'_>>,
    ) -> PyResult<Self> {
        let rows = rows(&x)?;
        let labels = y.as_slice().map_err(|_| value("expected labels as one contiguous array"))?;
        let groups = groups_of(groups, labels.len())?;
        let labels = Rows::new(labels, groups.as_deref());
        let hash = self.hash();
        let found = py.detach(|| self.model.clone().calibrated_on(&hash, rows, labels)).map_err(value)?;
        let model = found.ok_or_else(|| value("the model has not learnt from these rows"))?;
        Ok(Self { model, hash: hash.into() })
    }

    /// True if the probabilities were calibrated, on rows that a session held out or in `calibrate`.
    /// Otherwise they are cautious.
    ///
    /// >>> FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_.calibrated
    /// False
    #[getter]
    fn calibrated(&self) -> bool {
        self.model.calibration().is_some()
    }

    /// Returns novelties, float64 of shape (rows, classes); the class with the lowest is the prediction.
    /// Rows and errors as in `predict`.
    ///
    /// >>> import numpy as np
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> tuple(model.novelties(np.array([[8.0], [1.0]], np.float32)).argmin(axis=1).tolist())
    /// (0, 1)
    fn novelties<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = rows(&x)?;
        let found = py.detach(|| self.model.predictor_with(self.hash()).scores(rows)).map_err(value)?;
        let shape = (rows.rows(), self.model.classes().len());
        Ok(Array2::from_shape_vec(shape, found).map_err(value)?.into_pyarray(py))
    }

    /// True if the session describes how the columns of a table become features.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.described
    /// False
    #[getter]
    fn described(&self) -> bool {
        self.model.preparation().is_some()
    }

    /// Returns the features of a table, float32 of shape (rows, features). The table is the path of a file
    /// with commas between columns, or the contents of such a file as bytes. Raises ValueError if the table
    /// does not have the columns that the session describes.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.prepare("missing.csv")  # doctest: +ELLIPSIS
    /// Traceback (most recent call last):
    /// ...
    /// ValueError: missing.csv...
    fn prepare<'py>(&self, py: Python<'py>, file: Table<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        prepared(py, self.model.preparation(), self.model.columns(), file)
    }

    /// Returns a counter that continues with the counts of this model and keeps its scaling.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.counter().model(model.columns).digest == model.digest
    /// True
    fn counter(&self) -> Counter {
        Counter {
            sketch: self.model.sketch().clone(),
            readout: self.model.readout(),
            classes: self.model.classes().to_vec(),
            hash: self.hash(),
            words: Vec::new(),
            scaler: Some(self.model.scaler().clone()),
            counts: self.model.counts().clone(),
        }
    }

    /// Returns the exact sum of the counts of two models with equal parameters. Raises ValueError, which
    /// names the difference, if the parameters differ.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> int(model.merge(model).counts.sum()) == 2 * int(model.counts.sum())
    /// True
    fn merge(&self, other: &Self) -> PyResult<Self> {
        let (one, two) = (&self.model, &other.model);
        let same = [
            ("sketch", one.sketch() == two.sketch()),
            ("classes", one.classes() == two.classes()),
            ("columns", one.columns() == two.columns()),
            ("readout or gamma", one.readout() == two.readout()),
            ("scale", one.scaler() == two.scaler()),
        ];
        if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
            return Err(value(format!("the models differ in their {what}: only models made alike add up")));
        }
        let mut counts = one.counts().clone();
        counts.merge(two.counts()).map_err(value)?;
        let model = kernel::Model::new(
            one.sketch().clone(),
            one.readout(),
            one.classes().to_vec(),
            one.scaler().clone(),
            counts,
        )
        .and_then(|model| model.with_columns(one.columns().to_vec()))
        .map_err(|error: ModelError| value(error))?;
        Ok(Self { model, hash: self.hash().into() })
    }

    /// The names of the classes, in the order of their indices.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.classes
    /// ['high', 'low']
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.model.classes().to_vec()
    }

    /// The names of the features; empty if they have no names.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> len(model.columns)
    /// 0
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.model.columns().to_vec()
    }

    /// The number of features in a row.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.features
    /// 1
    #[getter]
    fn features(&self) -> usize {
        self.model.sketch().parameters().d
    }

    /// The SHA-256 digest of everything that prediction depends on, in 64 hexadecimal digits.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> len(model.digest)
    /// 64
    #[getter]
    fn digest(&self) -> String {
        self.model.digest().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The counts, uint32 of shape (classes, m).
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.counts.shape
    /// (2, 64)
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u32>>> {
        let counts = self.model.counts();
        let shape = (counts.classes(), self.model.sketch().parameters().m);
        Ok(Array2::from_shape_vec(shape, counts.values().to_vec()).map_err(value)?.into_pyarray(py))
    }

    /// The settings of the model, by the names of the estimator's parameters.
    ///
    /// >>> model = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_
    /// >>> model.setting["m"], model.setting["rho"]
    /// (64, 4)
    #[getter]
    fn setting<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (parameters, readout) = (self.model.sketch().parameters(), self.model.readout());
        let out = PyDict::new(py);
        out.set_item("m", parameters.m)?;
        out.set_item("s", parameters.s)?;
        out.set_item("rho", parameters.rho)?;
        out.set_item("densify", parameters.densify)?;
        out.set_item("scaling", parameters.scaling.name())?;
        if let Scaling::SoftBins(bins) = parameters.scaling {
            out.set_item("bins", bins)?;
        }
        if let Scaling::Range { lo, hi } = &parameters.scaling {
            out.set_item("bounds", (lo.clone(), hi.clone()))?;
        }
        out.set_item("readout", readout.score.name())?;
        out.set_item("gamma", readout.gamma)?;
        out.set_item("seed", PyBytes::new(py, &parameters.seed))?;
        Ok(out)
    }
}
