//! What bindings of other languages call: commands in this process, and the checks of `join` for rows that
//! are in memory.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::data::{DataArguments, Reading};
use super::{Arguments, Failure, SAID, join, one_line, run};
use crate::data::LabelColumn;
use crate::peer::{self, Builder, Peer};
use crate::session::Session;
use crate::task::{self, Rows};
use crate::{Identity, cli};

/// Runs a command in this process, such as `["session", "check", "wards.toml"]`; `out` gets what it prints on
/// standard output, `said` the lines beside it.
///
/// # Errors
/// [`Failure`], as the command ends with; also where the arguments are none of a command.
pub fn call(arguments: &[OsString], out: &mut dyn Write, said: &mut Vec<String>) -> Result<(), Failure> {
    SAID.set(Some(Vec::new()));
    let result = called(arguments, out);
    said.extend(SAID.take().into_iter().flatten());
    result
}

fn called(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let words = std::iter::once("flyswarm".into()).chain(arguments.iter().cloned());
    let parsed = Arguments::try_parse_from::<_, OsString>(words).map_err(|error| {
        let text = error.to_string();
        // The rest is on usage.
        let said = text.split("\n\n").next().unwrap_or_default();
        Failure::Input(one_line(said.strip_prefix("error: ").unwrap_or(said)))
    })?;
    run(parsed.command, out)
}

/// Reads the rows that the session's task wants of a file, as `join` does; the label is the last column where
/// the task looks at labels. Also gives what is to be said of how the columns were taken.
///
/// # Errors
/// [`Failure::Input`] where the file does not suit the session, [`Failure::Machine`] where it cannot be read.
pub fn rows(
    session: &Session,
    file: &Path,
    label: Option<&LabelColumn>,
) -> Result<(Rows, Option<String>), Failure> {
    let kind = task::built_in(session).ok_or_else(|| peer::not_built_in(session))?;
    join::load(session, &kind, &DataArguments::new(file.to_owned(), Reading::default()), label)
}

/// A peer of a session with the key of a file, checked as `join` checks it. A private session of `rows` rows
/// whose forecast is of little use ends before it is entered in the ledger, unless `yes`.
///
/// # Errors
/// [`Failure`], as `join` ends with.
pub fn builder(session: Session, key: PathBuf, rows: usize, yes: bool) -> Result<Builder, Failure> {
    let identity = Identity::load(&key)?;
    let asked = session.clone();
    let ask = move || if yes { Ok(()) } else { Ok(cli::join::ask::worth(&asked, rows)?) };
    Ok(Peer::builder(session, identity).key_file(key).before_charge(ask))
}
