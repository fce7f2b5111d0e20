//! The `flyswarm` command: parse, run, print the error chain on one line, exit with a documented code.

use std::process::ExitCode;

fn main() -> ExitCode {
    flyswarm::cli::main()
}
