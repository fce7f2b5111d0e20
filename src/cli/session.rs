//! `flyswarm session`: makes, checks and shows session files.

#[cfg(feature = "net")]
pub(in crate::cli) mod collect;
pub(in crate::cli) mod forecast;
mod new;
mod next;
mod parse;
#[cfg(feature = "net")]
pub(in crate::cli) mod typed;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::{Failure, kind, print};
use crate::memory;
use crate::session::show::Shown;
use crate::session::{Session, SessionError};

/// Make, check and show session files.
#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// Write a session file
    New(Box<new::NewArguments>),
    Next(Box<next::NextArguments>),
    Forecast(forecast::ForecastArguments),
    /// Check a session file, and print the session id or the first error
    Check {
        /// The session file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show all settings of a session file: sizes, committee, timing
    Show {
        /// The session file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl SessionCommand {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::New(arguments) => arguments.run(out),
            Self::Next(arguments) => arguments.run(out),
            Self::Forecast(arguments) => arguments.run(out),
            Self::Check { file, json } => {
                let id = checked(&file)?.id();
                let text = match json {
                    true => json!({"ok": true, "session": id.to_string()}).to_string(),
                    false => format!("ok: session {id}"),
                };
                print(out, &(text + "\n"))
            }
            Self::Show { file, json } => print(out, &shown(&file, json)?),
        }
    }
}

/// Reads a session file. If the file is of another kind that this program writes, the error names the kind.
pub(super) fn load(file: &Path) -> Result<Session, Failure> {
    Session::load(file).map_err(|error| {
        let other = match &error {
            SessionError::File { source, .. } => matches!(
                **source,
                SessionError::Syntax { .. } | SessionError::NotText | SessionError::TooLarge { .. }
            ),
            _ => false,
        };
        let kind = kind::of(file).filter(|&kind| other && kind != kind::SESSION);
        match kind {
            Some(kind) => {
                Failure::Input(format!("{}: this is {kind}; a session file is expected", file.display()))
            }
            None => error.into(),
        }
    })
}

/// Reads a session file, and checks that this machine has the memory that the session needs.
pub(super) fn checked(file: &Path) -> Result<Session, Failure> {
    let session = load(file)?;
    match (session.task.kind().memory_refusal)(&session, None, memory::available()) {
        Some(refusal) => Err(Failure::Environment(format!("{}: {refusal}", file.display()))),
        None => Ok(session),
    }
}

/// Returns the contents of a session file, with every default filled in.
pub(super) fn shown(file: &Path, json: bool) -> Result<String, Failure> {
    let session = load(file)?;
    if json { as_json(&session) } else { Ok(Shown::new(&session).to_string()) }
}

/// Returns the contents of a session as JSON, with every default filled in.
pub(super) fn as_json(session: &Session) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(&Shown::new(session))
        .map_err(|error| Failure::Environment(format!("cannot be written as JSON: {error}")))?;
    Ok(text + "\n")
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let text = error.to_string();
        let there = |source: &io::Error| source.kind() != io::ErrorKind::NotFound;
        let disk = |error: &SessionError| matches!(error, SessionError::Read(source) if there(source));
        match &error {
            SessionError::File { source, .. } if disk(source) => Self::Environment(text),
            other if disk(other) => Self::Environment(text),
            _ => Self::Input(text),
        }
    }
}

#[cfg(test)]
mod tests;
