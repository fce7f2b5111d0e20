//! What a file of this program is, told by its beginning, for whoever names the wrong one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Failure, output::for_io};
use crate::tasks::{self, Contents, ResultFile};

/// How much of a file is looked at, bytes: a receipt of 1,024 peers is longer, but what tells is at its top.
const LOOK: u64 = 1 << 16;

/// A session file.
pub(super) const SESSION: &str = "a session file";

/// The first bytes of a file; `None` if it cannot be read. A pipe would be emptied, and a device waited for.
pub(super) fn start(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    File::open(path).ok()?.take(LOOK).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The kind of result that begins so, if a task writes such files.
fn result(start: &[u8]) -> Option<&'static ResultFile> {
    tasks::kinds().flat_map(|kind| kind.results).find(|file| (file.recognised)(start))
}

/// The contents of a file that a task writes; `None` if no task does, or if it is plain text.
pub(super) fn contents(path: &Path) -> Result<Option<Contents>, Failure> {
    let file = start(path).as_deref().and_then(result);
    let Some(contents) = file.and_then(|file| file.contents) else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| for_io(&error, wrong(&error)))?;
    contents(&bytes).map(Some).map_err(|error| Failure::Input(wrong(&error)))
}

/// `a receipt`, `a model` and so on; `None` where it is nothing that this program writes.
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
        // The first line of a ledger is an object of its own.
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

/// "this is a receipt; `inspect` takes a model or a session file", if the file is one of this program's.
pub(super) fn advice(path: &Path, taken: &str) -> Option<String> {
    of(path).map(|kind| format!("{}: this is {kind}; {taken}", path.display()))
}
