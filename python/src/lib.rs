//! The extension module `flyswarm._flyswarm`, the base of the Python package `flyswarm`. Arrays are passed
//! as NumPy arrays. The rest of the public interface is in `python/flyswarm`.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

mod error;
mod learnt;
mod model;
mod network;
mod personal;
mod propagation;
mod session;
mod training;

create_exception!(flyswarm, SessionError, PyRuntimeError, "The session could not be finished.");
create_exception!(flyswarm, LeftError, PyRuntimeError, "The peer left before it had a result.");

#[pymodule]
mod _flyswarm {
    #[pymodule_export]
    use super::learnt::LearntRows;
    #[pymodule_export]
    use super::model::{Counter, Model};
    #[pymodule_export]
    use super::network::{Layers, OwnModel, declare};
    #[pymodule_export]
    use super::personal::{Datastore, best_part, folds};
    #[pymodule_export]
    use super::propagation::Propagation;
    #[pymodule_export]
    use super::session::{Running, SessionRows, call, main, new_session, page, peer_id, settings};
    #[pymodule_export]
    use super::{LeftError, SessionError};
}
