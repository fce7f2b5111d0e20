//! What a file of this program is, told by its beginning, for whoever names the wrong one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flyswarm_learn::learner::Classifier;
use flyswarm_learn::personal::PersonalModel;

use crate::model::file::MAGIC;

/// How much of a file is looked at, bytes: a receipt of 1,024 peers is longer, but what tells is at its top.
const LOOK: u64 = 1 << 16;

/// A network that the task `fedavg` has trained.
pub(super) const NETWORK: &str = "a network";
/// What `personalise` has made of one.
pub(super) const PERSONAL: &str = "a personal model";

/// `a receipt`, `a model` and so on; `None` where it is nothing that this program writes.
pub(super) fn of(path: &Path) -> Option<&'static str> {
    let mut bytes = Vec::new();
    // A pipe would be emptied, and a device waited for.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    File::open(path).ok()?.take(LOOK).read_to_end(&mut bytes).ok()?;
    if bytes.starts_with(MAGIC) {
        return Some("a model");
    }
    if Classifier::looks_like(&bytes) {
        return Some(NETWORK);
    }
    if PersonalModel::looks_like(&bytes) {
        return Some(PERSONAL);
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
            ("a receipt", &["\"bytes_received\"", "\"counted\""]),
            ("a result of simulate", &["\"scenario\"", "\"runs\""]),
            ("a sketch's result", &["\"distances\"", "\"session\""]),
        ]
        .into_iter()
        .find_map(|(kind, keys)| has(keys).then_some(kind));
    }
    let line = |word: &str| text.lines().any(|line| line.trim_start().starts_with(word));
    if line("[[roster]]") {
        return Some("a session file");
    }
    if ["[rates]", "[network]", "[[fault]]", "[[variant]]", "[expect]"].into_iter().any(line) {
        return Some("a scenario");
    }
    start.starts_with("label,confidence").then_some("labels that a session gave")
}

/// "this is a receipt; `inspect` takes a model or a session file", if the file is one of this program's.
pub(super) fn advice(path: &Path, taken: &str) -> Option<String> {
    of(path).map(|kind| format!("{}: this is {kind}; {taken}", path.display()))
}
