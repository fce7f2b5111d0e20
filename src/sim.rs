//! The simulator: real nodes in virtual time.
//!
//! A [`scenario`] describes the participants, their network and the faults. [`run`] builds a [`swarm`] of
//! real nodes and drives it with the [engine](flyswarm_sealed_sum::engine). Nodes exchange encoded frames,
//! time passes only in the event queue, and all randomness follows from the scenario's seed. So the same seed
//! gives the same trace hash on every machine. [`checks`] run after every event. The [`outcome`] is the
//! report of a run.

#[cfg(feature = "cli")]
pub(crate) mod calibrate;
pub(crate) mod checks;
pub(crate) mod cost;
pub(crate) mod links;
pub mod outcome;
pub mod participants;
pub mod report;
pub mod rows;
pub mod run;
pub mod scenario;
mod sum;
pub(crate) mod swarm;
pub mod table;
pub mod tally;
mod tamper;
pub mod task;
#[cfg(test)]
mod tests;
pub mod timeline;
