//! Recognises the kind of a file of this program by its beginning. Errors about a wrong file name its kind.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Failure, output::for_io};
use crate::tasks::{self, Contents, ResultFile};

/// Number of bytes of a file that are read. A receipt of 1,024 peers is longer, but its beginning is enough.
const LOOK: u64 = 1 << 16;

/// Kind of a session file.
pub(super) const SESSION: &str = "a session file";

/// Returns the first bytes of a file, or `None` if it cannot be read. Pipes and devices are not read, because
/// a pipe would lose its data and a device may block.
pub(super) fn start(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    File::open(path).ok()?.take(LOOK).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the kind of a result file with this beginning, if a task writes such files.
fn result(start: &[u8]) -> Option<&'static ResultFile> {
    tasks::kinds().flat_map(|kind| kind.results).find(|file| (file.recognised)(start))
}

/// Returns the contents of a file that a task writes, or `None` if no task writes such files, or if the file
/// is plain text.
pub(super) fn contents(path: &Path) -> Result<Option<Contents>, Failure> {
    let file = start(path).as_deref().and_then(result);
    let Some(contents) = file.and_then(|file| file.contents) else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| for_io(&error, wrong(&error)))?;
    contents(&bytes).map(Some).map_err(|error| Failure::Input(wrong(&error)))
}

/// Returns the tables of a result file as CSV, or `None` if it has none.
pub(super) fn csv(path: &Path) -> Result<Option<String>, Failure> {
    let start = start(path).unwrap_or_default();
    let written = |kind: &&crate::tasks::TaskKind| kind.results.iter().any(|file| (file.recognised)(&start));
    let Some(csv) = tasks::kinds().find(written).and_then(|kind| kind.csv) else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| for_io(&error, wrong(&error)))?;
    csv(&bytes).map(Some).map_err(|error| Failure::Input(wrong(&error)))
}

/// Returns the kind of a file, such as `a receipt`, or `None` if this program does not write such files.
pub(super) fn of(path: &Path) -> Option<&'static str> {
    let bytes = start(path)?;
    if let Some(file) = result(&bytes) {
        return Some(file.name);
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return Some("an NPZ archive");
    }
    let text = String::from_utf8_lossy(&bytes);
    let start = text.trim_start();
    let has = |keys: &[&str]| keys.iter().all(|key| text.contains(key));
    if start.starts_with("flyswarm-identity") {
        return Some("an identity key");
    }
    if start.starts_with("/key/swarm/psk/") {
        return Some("a network key");
    }
    if start.starts_with('{') {
        // A ledger has one JSON object per line. Only its first line is read here.
        return [
            ("a ledger", &["\"dataset\"", "\"epsilon\"", "\"session\""][..]),
            ("a receipt", &["\"aggregates\"", "\"peer_id\""]),
            ("a receipt", &["\"bytes_received\"", "\"own_rows\""]),
            ("a result of simulate", &["\"scenario\"", "\"runs\""]),
        ]
        .into_iter()
        .find_map(|(kind, keys)| has(keys).then_some(kind));
    }
    let line = |word: &str| text.lines().any(|line| line.trim_start().starts_with(word));
    if line("[[roster]]") {
        return Some(SESSION);
    }
    let scenario = ["[rates]", "[network]", "[[fault]]", "[[variant]]", "[expect]"].into_iter().any(line);
    scenario.then_some("a scenario")
}

/// If the file is of a kind that this program writes, returns a text such as "this is a receipt; `inspect`
/// takes a model or a session file".
pub(super) fn advice(path: &Path, taken: &str) -> Option<String> {
    of(path).map(|kind| format!("{}: this is {kind}; {taken}", path.display()))
}
