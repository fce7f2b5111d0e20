//! All integration tests in one binary: each would link the whole program once more.
//! `cargo test --test all lan::` runs those of one file.
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

/// Says that a test is skipped: a line that is seen although the test passes, for it goes past the harness.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}
