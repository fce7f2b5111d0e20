//! Errors of the library as exceptions of Python.

use std::fmt::Display;

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// What was given is wrong: `ValueError` with the library's words.
pub(crate) fn value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The disk failed: `OSError`.
pub(crate) fn disk(error: impl Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}
