//! Errors of the library as Python exceptions.

use std::fmt::Display;

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// A wrong argument: `ValueError` with the library's text.
pub(crate) fn value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A failed disk operation: `OSError`.
pub(crate) fn disk(error: impl Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}
