//! The command line of flyswarm with one additional task: `histogram`, the worked example of
//! CONTRIBUTING.md.
//!
//! `cargo run --package flyswarm-histogram -- join --session counts.toml --data rows.csv`

mod histogram;

use std::process::ExitCode;

fn main() -> ExitCode {
    flyswarm::cli::main_with(&[&histogram::KIND])
}
