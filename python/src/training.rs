//! Calls a trainer written in Python, from a thread of the node.

use std::sync::{Arc, Mutex};

use flyswarm_data::Dataset;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

/// The exception that a trainer has raised, if any.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// New weights as the contents of a file, and the mean loss and accuracy of the rows if the trainer returns
/// them.
type Answer = (Vec<u8>, Option<(f64, f64)>);

/// Rows and their class indices, as arrays.
type Arrays = (Py<PyArray2<f32>>, Py<PyArray1<i64>>);

/// Returns a function that calls `trainer(order, x, y, weights)`. Its arguments are the description of the
/// round as JSON, the scaled rows, their class indices, and the round's first weights as the contents of a
/// file.
pub(crate) fn calls(
    trainer: Py<PyAny>,
    raised: Raised,
) -> impl Fn(&str, &Dataset, &[u8]) -> Result<Answer, String> + Send + Sync + 'static {
    // The arrays are the same in every round.
    let kept: PyOnceLock<Arrays> = PyOnceLock::new();
    move |order, rows, weights| {
        Python::attach(|py| {
            let call = || -> PyResult<Answer> {
                let (x, y) = kept.get_or_try_init(py, || arrays(py, rows))?;
                let weights = PyBytes::new(py, weights);
                trainer.call1(py, (order, x, y, weights))?.extract(py)
            };
            call().map_err(|error| {
                let text = format!("raised {error}");
                if let Ok(mut raised) = raised.lock() {
                    *raised = Some(error);
                }
                text
            })
        })
    }
}

fn arrays(py: Python<'_>, rows: &Dataset) -> PyResult<Arrays> {
    let x = PyArray1::from_slice(py, rows.values()).reshape([rows.rows(), rows.features()])?;
    let y = PyArray1::from_iter(py, rows.labels().iter().map(|&label| i64::from(label)));
    Ok((x.unbind(), y.unbind()))
}
