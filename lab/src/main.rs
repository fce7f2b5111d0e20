//! The command `flyswarm-lab`: tables of the papers, and changes between two simulations.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flyswarm_lab::Failure;
use flyswarm_lab::benchmark::Benchmark;
use flyswarm_lab::compare::Compare;

#[derive(Debug, Parser)]
#[command(
    name = "flyswarm-lab",
    about = "Research on flyswarm that is not shipped",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Benchmark(Benchmark),
    Compare(Compare),
}

fn run(command: &Command) -> Result<(), Failure> {
    let text = match command {
        Command::Benchmark(benchmark) => benchmark.run(),
        Command::Compare(compare) => compare.run(),
    }?;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure(format!("standard output: {error}"))),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flyswarm-lab: {error}");
            ExitCode::from(2)
        }
    }
}
