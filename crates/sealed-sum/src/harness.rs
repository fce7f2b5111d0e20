//! Simulated networks for tests: whole nodes in virtual time, with faults, liars and switches for
//! deviating behaviour.

pub mod network;
pub mod numbers;
