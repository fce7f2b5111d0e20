//! The sealed sum: its cryptography, its protocol as machines without clock, socket or disk, and the node
//! that runs a task on them. It knows no particular task, no session file and no rows.
//! An internal package: programs use `flyswarm`, and nothing here is kept stable.
//!
//! Imports go one way: `crypto < session < protocol < task < node < engine`. `files` and `buffers` stand
//! below all. The feature `harness` is for tests alone: the laboratory around whole nodes, and the switches
//! by which they deviate.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod buffers;
pub mod crypto;
pub mod engine;
#[doc(hidden)]
pub mod files;
#[cfg(any(test, feature = "harness"))]
pub mod harness;
pub mod node;
pub mod protocol;
pub mod session;
pub mod task;
