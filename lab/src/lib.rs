//! Research on flyswarm that is not shipped: methods to compare with, nested evaluation over many data sets,
//! and studies of what differential privacy costs. `lab/README.md` lists the commands.

pub mod benchmark;
pub mod compare;
pub mod nested;
pub mod private;
pub mod sbfc;
pub mod simhash;
pub mod statistics;
pub mod synthetic;

/// One line: what is wrong, where, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);
