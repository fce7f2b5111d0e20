//! All integration tests in one binary, because each binary links the whole program. `cargo test --test all
//! lan::` runs the tests of one file.
#![allow(missing_docs)]

mod cli;
mod examples;
mod export;
mod front_door;
mod garbage;
mod lan;
mod processes;
mod sim;
mod toy;

/// Prints that a test is skipped. The line goes past the test harness, so that it is visible although the
/// test passes.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}
