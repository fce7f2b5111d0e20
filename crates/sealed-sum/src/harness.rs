//! The laboratory of the tests: whole nodes in virtual time, with faults, liars and switches that deviate.

pub mod network;
pub mod numbers;
