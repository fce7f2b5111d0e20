//! Label propagation from labelled points to their neighbours, in one process: the reference computation of
//! the task `xclp` in integers.

use flyswarm_data::Dataset;
use flyswarm_data::scaling::Scaler;
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::Reference;
use flyswarm_mpc::propagation::integer::{Plan, Settings, enough_steps};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::value;
use crate::model::named_scaling;

/// The code, label and scores of each point, and the scaler and hash seed for new points.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct Propagation {
    plan: Plan,
    scaler: Scaler,
    seed: [u8; 32],
    codes: Codes,
    /// Scores of each point, n x classes, in units of 1/64 of the sum of its row.
    coarse: Vec<u8>,
    labels: Vec<Option<u16>>,
}

#[pymethods]
impl Propagation {
    /// Spreads `labels` (the index of a class, or None) over the points `x`.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "all by name")]
    #[pyo3(signature = (x, labels, *, classes, bits, k, alpha, steps, power, balance, scaling, bins, seed))]
    fn new(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f32>,
        labels: Vec<Option<u16>>,
        classes: usize,
        bits: u32,
        k: usize,
        alpha: f64,
        steps: Option<usize>,
        power: u8,
        balance: bool,
        scaling: &str,
        bins: u16,
        seed: [u8; 32],
    ) -> PyResult<Self> {
        let data = dataset(&x)?;
        if labels.len() != data.rows() {
            return Err(value(format!("{} labels for {} points", labels.len(), data.rows())));
        }
        if labels.iter().flatten().any(|&label| usize::from(label) >= classes) {
            return Err(value(format!("a label is none of {classes} classes")));
        }
        let steps = steps.unwrap_or_else(|| enough_steps(alpha));
        let plan = Plan::new(data.rows(), classes, Settings { k, bits, alpha, steps, power, balance })
            .map_err(value)?;
        let scaler =
            Scaler::fit(&named_scaling(scaling, bins, Vec::new(), Vec::new(), data.features())?, &data)
                .map_err(value)?;
        py.detach(|| {
            let codes = codes(&scaler, &data, &seed, bits)?;
            let output = Reference::new(&plan, &codes, &labels).output;
            Ok(Self { plan, scaler, seed, codes, coarse: output.coarse, labels: output.labels })
        })
    }

    /// The class of each point; None if no label reaches it.
    #[getter]
    fn labels(&self) -> Vec<Option<u16>> {
        self.labels.clone()
    }

    /// Scores, points x classes, as shares of the sum of each row; 0 if no label reaches the point.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let scores = self.coarse.iter().map(|&score| f64::from(score) / 64.0).collect();
        self.shaped(py, self.codes.rows(), scores)
    }

    /// Returns the scores of new points: the weighted scores of their nearest fitted points. Each row sums to
    /// 1, or to 0 if no neighbour has a label.
    fn extend<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let data = dataset(&x)?;
        let (n, classes) = (self.plan.points(), self.plan.classes());
        if data.features() != self.scaler.features() {
            let (found, expected) = (data.features(), self.scaler.features());
            return Err(value(format!("{found} features, expected {expected}")));
        }
        let scores = py.detach(|| {
            let others = codes(&self.scaler, &data, &self.seed, self.plan.settings().bits)?;
            let table = self.plan.weights();
            let mut scores = Vec::with_capacity(data.rows() * classes);
            for row in others.distances(&self.codes).chunks_exact(n) {
                let mut near: Vec<usize> = (0..n).collect();
                near.sort_by_key(|&point| (row[point], point));
                let mut sums = vec![0u64; classes];
                for &point in near.iter().take(self.plan.k()) {
                    let weight = table.get(usize::from(row[point])).copied().unwrap_or(0);
                    let said = &self.coarse[point * classes..][..classes];
                    sums.iter_mut().zip(said).for_each(|(sum, &score)| *sum += weight * u64::from(score));
                }
                let all = sums.iter().sum::<u64>().max(1) as f64;
                scores.extend(sums.into_iter().map(|sum| sum as f64 / all));
            }
            Ok::<_, PyErr>(scores)
        })?;
        self.shaped(py, data.rows(), scores)
    }
}

impl Propagation {
    fn shaped<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        scores: Vec<f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let shaped = Array2::from_shape_vec((rows, self.plan.classes()), scores);
        Ok(shaped.map_err(value)?.into_pyarray(py))
    }
}

fn dataset(x: &PyReadonlyArray2<'_, f32>) -> PyResult<Dataset> {
    let values = x.as_slice().map_err(|_| value("expected rows in C order"))?.to_vec();
    Dataset::new(x.shape()[1], values, Vec::new(), Vec::new()).map_err(value)
}

fn codes(scaler: &Scaler, data: &Dataset, seed: &[u8], bits: u32) -> PyResult<Codes> {
    let scaled = scaler.transform(data);
    Codes::of(&scaled, seed, bits as usize).ok_or_else(|| value(format!("codes of {bits} bits")))
}
