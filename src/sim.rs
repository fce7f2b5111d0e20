//! The simulator: the nodes themselves in virtual time.

pub mod engine;
