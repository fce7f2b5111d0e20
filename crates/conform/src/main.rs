//! `flyswarm-conform`: for authors of a peer in another language.
//!
//! It reads and compares messages of peers, and checks another program among our own nodes. Some of
//! those nodes stop or deviate on purpose; `flyswarm` itself has no code for that.

mod agreement;
mod check;
mod deviation;
mod fields;
mod files;
mod frames;
mod ground;
mod join;
mod nodes;
mod play;
mod processes;
mod simulated_peer;
mod traces;
#[cfg(test)]
mod vectors;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use flyswarm::cli::{self, Failure};

/// Read and compare messages of peers, and check a peer that is written in another language
#[derive(Debug, Parser)]
#[command(name = "flyswarm-conform", version, arg_required_else_help = true)]
enum Command {
    Check(check::Check),
    Decode(traces::Decode),
    Diff(traces::Diff),
    Play(play::Play),
    Join(join::Join),
    SimulateProcesses(processes::SimulateProcesses),
    SimulatedPeer(simulated_peer::SimulatedPeer),
    /// Any other command is passed to `flyswarm`
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

fn main() -> ExitCode {
    let out = &mut io::stdout();
    let result = match Command::parse() {
        Command::Check(command) => command.run(out),
        Command::Decode(command) => command.run(out),
        Command::Diff(command) => command.run(out),
        Command::Play(command) => command.run(out),
        Command::SimulateProcesses(command) => command.run(out),
        Command::SimulatedPeer(command) => command.run(),
        Command::Join(command) => match command.run() {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Other(words) => return cli::main_of(std::iter::once("flyswarm".into()).chain(words)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("flyswarm-conform: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

/// Escapes control characters for a terminal: names in the text may come from other peers.
fn harmless(text: &str, kept: &[char]) -> String {
    let escape = |c: char| match c.is_control() && !kept.contains(&c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Writes a line that is not a result to standard error.
fn say(text: &str) {
    eprintln!("{}", harmless(&text.replace('\n', " "), &[]));
}

/// Writes a result to standard output.
fn print(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(harmless(text, &['\n', '\t']).as_bytes()).and_then(|()| out.flush());
    match written {
        // A reader that went away (`| head`) is not a failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Environment(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
