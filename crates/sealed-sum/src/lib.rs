//! The sealed sum: its cryptography, its protocol as state machines without clock, socket or disk, and
//! the node that runs a task on them. It depends on no particular task, session file or rows. This is an
//! internal package: programs use `flyswarm`, and nothing here is a stable interface.
//!
//! Imports go one way: `crypto < session < protocol < task < node < engine`. `files` and `buffers` are
//! below all others. The feature `harness` is for tests only: it adds simulated networks of whole
//! nodes, and switches that make nodes deviate.

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
