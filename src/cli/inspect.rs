//! `flyswarm inspect`: shows the contents of a file that this program wrote, the differences of two models,
//! or digests that peers compare.

mod compare;
mod digest;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::data::Reading;
use super::output::for_io;
use super::{Failure, kind, print, written};
use crate::data::LabelColumn;
use crate::tasks::Contents;

/// Print the contents of a file, or the differences between two models; with --digest, print digests of files
///
/// If two files have equal digests: models or networks give the same predictions, session files describe the
/// same session, NPZ archives have the same arrays, and receipts are from the same session with the same
/// sums. Digests ignore values that differ from peer to peer, such as times and addresses.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// A model, network, personal model, summary, regression or session file, or two models to compare. With
    /// --digest: any number of such files, NPZ archives and receipts
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Print one line for each file: its digest, kind and name
    #[arg(long)]
    pub(super) digest: bool,
    /// With two models: rows on which to compare the predictions of both
    #[arg(long, value_name = "ROWS", conflicts_with = "digest")]
    pub(super) data: Option<PathBuf>,
    /// Label column of these rows: its name, its number from 1, `last` or `none`
    #[arg(long, value_name = "COLUMN", default_value = "none", requires = "data")]
    pub(super) label: LabelColumn,
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print the tables of a summary or a regression as CSV
    #[arg(long, conflicts_with_all = ["json", "digest", "data"])]
    pub(super) csv: bool,
}

impl Inspect {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.digest {
            return digest::print_all(&self.files, self.json, out);
        }
        match &self.files[..] {
            [file] if self.csv => match kind::csv(file)? {
                Some(text) => print(out, &text),
                None => {
                    let text = format!(
                        "{}: --csv: this file has no tables; a summary or a regression has some",
                        file.display()
                    );
                    Err(Failure::Input(text))
                }
            },
            [file] if self.data.is_none() => {
                let text = shown(file, self.json)?;
                written(writeln!(out, "{}", text.trim_end()), "standard output")
            }
            [a, b] => print(out, &compare::compared(a, b, self)?),
            [_] => Err(Failure::Input(
                "--data compares two models on these rows, but only one file is given".into(),
            )),
            files => Err(Failure::Input(format!(
                "{} files: `inspect` takes one, or two models to compare; --digest takes any number",
                files.len()
            ))),
        }
    }
}

/// Returns the contents of one file.
fn shown(path: &Path, as_json: bool) -> Result<String, Failure> {
    let taken = "`inspect` takes a model or a session file";
    if let Some(Contents { text, json, .. }) = kind::contents(path)? {
        return Ok(if as_json { format!("{json:#}") } else { text });
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut start));
    read.map_err(|error| for_io(&error, format!("{}: {error}", path.display())))?;
    match kind::of(path) {
        Some(other) if other != kind::SESSION => {
            Err(Failure::Input(format!("{}: this is {other}; {taken}", path.display())))
        }
        _ if std::str::from_utf8(&start).is_ok() => super::session::shown(path, as_json),
        _ => Err(Failure::Input(format!("{}: neither a model nor a session file", path.display()))),
    }
}

#[cfg(test)]
mod tests;
