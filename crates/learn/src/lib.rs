//! Everything that learns from rows: sketches, models, networks, privacy, personal models. This is an
//! internal package without a stable interface: programs use `flyswarm`.
//!
//! A module imports only modules on its left: `privacy < sketch < synthetic, model < learner, tuning <
//! personal`.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod learner;
pub mod learnt;
pub mod model;
pub mod personal;
pub mod privacy;
pub mod sketch;
pub mod synthetic;
pub mod tuning;
