//! Warning before figures on rows that a model was trained on. A file next to the model lists these rows
//! ([`flyswarm_learn::learnt`]). If the file is missing, the warning says that the training rows are not
//! known.

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

/// Rows that a result was trained on, or the reason why they are not known.
pub(super) type Known = Result<LearntRows, String>;

/// Reads the list of rows that the result in the file `result` was trained on.
pub(super) fn read(result: &Path, digest: [u8; 32]) -> Result<Known, Failure> {
    let path = LearntRows::beside(result);
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = Vec::new();
    match File::open(&path).and_then(|file| file.take(LIMIT).read_to_end(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Err(format!("{} is not next to it", path.display())));
        }
        read => read.map_err(|error| for_io(&error, wrong(&error)))?,
    };
    let found = LearntRows::parse(&text)
        .map_err(|error| Failure::Input(wrong(&format!("{error}; copy it again, or remove it"))))?;
    Ok(match found.result() == digest {
        true => Ok(found),
        false => Err(format!("{} is of another model", path.display())),
    })
}

/// Result of comparing rows with the training rows of a model.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    /// Number of equal rows, if the list exists.
    pub(super) overlap: Option<Overlap>,
    /// Warning that is shown before any figures on the rows.
    pub(super) warning: Option<String>,
}

/// Compares rows with the training rows of a model, and makes a warning if it is needed.
pub(super) fn compare(known: &Known, rows: &Dataset) -> Compared {
    let overlap = known.as_ref().map(|learnt| learnt.overlap(rows));
    let warning = match &overlap {
        Ok(overlap) => overlap.warning(),
        Err(why) => {
            Some(format!("it is unknown whether this model has learnt from these rows, because {why}"))
        }
    };
    if let Some(warning) = &warning {
        say(&format!("warning: {warning}"));
    }
    Compared { overlap: overlap.ok(), warning }
}

/// Writes a list of training rows next to the file `result`, whose digest is `made`. The list has the rows
/// `before` of the original result, and those of `data`.
pub(super) fn write(result: &Path, made: [u8; 32], before: Known, data: &Dataset) -> Result<(), Failure> {
    let mut learnt = match before {
        Ok(before) => before.with_result(made),
        Err(_) => {
            let mut key = [0; 32];
            SysRng.try_fill_bytes(&mut key).map_err(|error| {
                Failure::Environment(format!("the system gives no random bytes: {error}"))
            })?;
            LearntRows::new(made, key).with_unknown()
        }
    };
    learnt.add(data, |row| data.labels().get(row).copied(), &(0..data.rows()).collect::<Vec<_>>());
    keep(result, &learnt.to_text(), false)
}

/// Checks that the file next to `result` may be written: either it does not exist, or this program has
/// written it.
pub(super) fn check(result: &Path, force: bool) -> Result<(), Failure> {
    let path = LearntRows::beside(result);
    output::check(&path, force || output::begins(&path, BEGINNING))
}

/// Writes the file next to `result`, if [`check`] allows this.
pub(super) fn keep(result: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let path = LearntRows::beside(result);
    output::write_private(&path, text.as_bytes(), force || output::begins(&path, BEGINNING))
}
