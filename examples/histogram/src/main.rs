//! The command line of flyswarm with one more task: `histogram`. CONTRIBUTING.md explains the task step by
//! step.
//!
//! `cargo run --package flyswarm-histogram -- join --session counts.toml --data rows.csv`

mod histogram;

use std::process::ExitCode;

fn main() -> ExitCode {
    flyswarm::cli::main_with(&[&histogram::KIND])
}
