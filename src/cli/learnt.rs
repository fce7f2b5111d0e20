//! Warning before figures on rows that a model was trained on. A file next to the model lists these rows
//! ([`flyswarm_learn::learnt`]). A model from elsewhere has no such file, and then there is no warning.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flyswarm_learn::learnt::{BEGINNING, LearntRows, Overlap};
use rand::TryRng;
use rand::rngs::SysRng;

use super::output::{self, for_io};
use super::{Failure, say};
use crate::data::Dataset;

/// Largest file that is read: a file of 2^23 rows is smaller.
const LIMIT: u64 = 1 << 28;

/// Reads the list of rows that the result in the file `result` was trained on.
pub(super) fn read(result: &Path, digest: [u8; 32]) -> Result<Option<LearntRows>, Failure> {
    let path = LearntRows::beside(result);
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = Vec::new();
    match File::open(&path).and_then(|file| file.take(LIMIT).read_to_end(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| for_io(&error, wrong(&error)))?,
    };
    let found = LearntRows::parse(&text);
    let found = found.map_err(|error| {
        Failure::Input(wrong(&format!("{error}; without this file, training rows are not found")))
    })?;
    if found.result() == digest {
        return Ok(Some(found));
    }
    say(&format!("{}: belongs to another model and is ignored", path.display()));
    Ok(None)
}

/// Counts the rows that the result was trained on, if the list exists; warns if there are any.
pub(super) fn overlap(found: Option<&LearntRows>, rows: &Dataset) -> Overlap {
    let overlap = found.map(|found| found.overlap(rows)).unwrap_or_default();
    if let Some(warning) = overlap.warning() {
        say(&format!("warning: {warning}"));
    }
    overlap
}

/// Writes the list of rows that `made` was trained on, including those of `data`, next to the result in
/// the file `result`.
pub(super) fn write(
    result: &Path,
    made: [u8; 32],
    before: Option<LearntRows>,
    data: &Dataset,
) -> Result<(), Failure> {
    let mut learnt = match before {
        Some(before) => before.with_result(made),
        None => {
            let mut key = [0; 32];
            SysRng.try_fill_bytes(&mut key).map_err(|error| {
                Failure::Environment(format!("the system gives no random bytes: {error}"))
            })?;
            LearntRows::new(made, key)
        }
    };
    learnt.add(data, |row| data.labels().get(row).copied(), &(0..data.rows()).collect::<Vec<_>>());
    keep(result, &learnt.to_text(), false)
}

/// Checks that the file next to `result` may be written: none exists, or this program wrote it.
pub(super) fn check(result: &Path, force: bool) -> Result<(), Failure> {
    let path = LearntRows::beside(result);
    output::check(&path, force || output::begins(&path, BEGINNING))
}

/// Writes the file next to `result`, as [`check`] allows it.
pub(super) fn keep(result: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let path = LearntRows::beside(result);
    output::write_private(&path, text.as_bytes(), force || output::begins(&path, BEGINNING))
}
