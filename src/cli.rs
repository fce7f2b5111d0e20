//! Command line: arguments are parsed low-level by clap, checked into meaning by each command, and run.
//!
//! Results go to standard output, everything else to standard error. Errors are one line.

mod id;
mod session;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a command ends with; see [`Failure::code`] for the exit codes.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file, a field or an argument is wrong: exit code 2. Nothing was written.
    #[error("{0}")]
    Input(String),
    /// The session could not be finished (no quorum, too many views, refused by the rules): exit code 3.
    #[error("{0}")]
    Session(String),
    /// The disk or the network of this machine failed: exit code 4.
    #[error("{0}")]
    Machine(String),
    /// The user ended the run (Ctrl-C, SIGTERM): exit code 130.
    #[error("interrupted: {0}")]
    Interrupted(String),
}

impl Failure {
    /// Exit codes: 2 bad input (clap uses it too), 3 session failed, 4 machine failed, 130 interrupted.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Session(_) => 3,
            Self::Machine(_) => 4,
            Self::Interrupted(_) => 130,
        }
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "flyswarm",
    version,
    about = "Federated learning with no central aggregator",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the peer id of this user's key; make the key if there is none
    Id(id::IdArguments),
    /// Make, check and show session files
    #[command(subcommand)]
    Session(session::SessionCommand),
}

/// Parses the arguments of this process, runs the command, prints its error on one line.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("flyswarm: {}", failure.to_string().replace('\n', " "));
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Id(arguments) => arguments.run(),
        Command::Session(command) => command.run(),
    }
}

/// Writes a result to standard output. A reader that has gone away (`| head`) is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Machine(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
