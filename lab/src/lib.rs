//! Research on flyswarm that is not shipped: methods for comparison, nested evaluation over many data
//! sets, and studies of the cost of differential privacy. `lab/README.md` lists the commands.

pub mod benchmark;
pub mod compare;
pub mod nested;
pub mod private;
pub mod sbfc;
pub mod simhash;
pub mod statistics;
pub mod synthetic;

/// An error in one line: the problem, its place, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);
