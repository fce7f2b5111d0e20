//! Test vectors of `protocol-spec.md`, valid and invalid ones: `tests/vectors/*.json`.
//!
//! The code in `crates/conform/src/vectors/*.rs` makes the files. This test fails if the output differs
//! from the committed files. A maker of invalid vectors fails if one of them is accepted.
//! `scripts/check-vectors.py` recomputes the files from the specification alone.
//!
//! `FLYSWARM_WRITE_VECTORS=1 cargo test --locked -p flyswarm-conform vectors::` rewrites them. This
//! explicitly approves a new format, and so a new protocol version.

/// First lines of a session of this task, with the features and classes if they are given.
macro_rules! head {
    ($task:literal) => {
        concat!("name = \"vectors\"\ntask = \"", $task, "\"\n[data]\n")
    };
    ($task:literal, $features:literal, $classes:literal) => {
        concat!(head!($task), "features = ", $features, "\nclasses = [", $classes, "]\n")
    };
}

/// A column of a table: its name, its kind, and its other lines.
macro_rules! column {
    ($name:literal, $kind:literal $(, $line:literal)*) => {
        concat!("[[table.column]]\nname = \"", $name, "\"\nkind = \"", $kind, "\"\n" $(, $line, "\n")*)
    };
}

/// The section of the task `flynn` in the sessions of this folder.
macro_rules! flynn {
    () => {
        "[flynn]\nm = 16\ns = 2\nrho = 3\ngamma = 0.5\n"
    };
}

mod answers;
mod bad;
mod faults;
mod fedavg;
mod fedavg_xclp;
mod flynn;
mod glm;
mod items;
mod messages;
mod ot;
mod phe;
mod primitives;
mod private;
mod run;
mod sessions;
mod sketch;
mod statements;
mod summary;
mod tables;
mod trees;
mod xclp;

use std::convert::Infallible;
use std::path::Path;

use chacha20::rand_core::{TryCryptoRng, TryRng};
use flyswarm_sealed_sum::crypto::identity::Identity;
use flyswarm_sealed_sum::crypto::stream::Stream;
use serde_json::Value;

type Maker = fn() -> Value;

/// Names of the files, with the functions that make them.
const FILES: [(&str, Maker); 28] = [
    ("encoding", primitives::encoding),
    ("identity", primitives::identities),
    ("stream", primitives::stream),
    ("agreement", primitives::agreement),
    ("mask", primitives::mask),
    ("sharing", primitives::sharing),
    ("session", sessions::session),
    ("tree", trees::tree),
    ("members", trees::members),
    ("items", items::items),
    ("messages", messages::messages),
    ("bad", bad::bad),
    ("sum", run::sum),
    ("faults", faults::faults),
    ("answers", answers::answers),
    ("flynn", flynn::flynn),
    ("evaluate", flynn::evaluate),
    ("tune", flynn::tune),
    ("xclp", xclp::xclp),
    ("statements", statements::statements),
    ("ot", ot::ot),
    ("phe", phe::phe),
    ("sketch", sketch::sketch),
    ("fedavg", fedavg::fedavg),
    ("fedavg-xclp", fedavg_xclp::fedavg_xclp),
    ("private", private::private),
    ("summary", summary::summary),
    ("glm", glm::glm),
];

#[test]
fn the_committed_vectors_are_those_that_the_code_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    for (name, make) in FILES {
        let path = folder.join(name).with_extension("json");
        let text = serde_json::to_string_pretty(&make()).unwrap() + "\n";
        if std::env::var_os("FLYSWARM_WRITE_VECTORS").is_some() {
            std::fs::write(&path, text).unwrap();
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        let line = committed.lines().zip(text.lines()).position(|(a, b)| a != b);
        let first = line.map_or("the length".into(), |n| format!("line {}", n + 1));
        assert!(
            committed == text,
            "{} is not what the code makes ({first} differs); if the format is meant to change, raise its version and \
             run FLYSWARM_WRITE_VECTORS=1 cargo test --locked -p flyswarm-conform vectors::",
            path.display()
        );
    }
}

/// Writes bytes as hexadecimal digits for a vector.
fn hex(bytes: impl AsRef<[u8]>) -> Value {
    Value::String(hex::encode(bytes))
}

/// Returns `N` bytes that follow from a label alone.
fn bytes<const N: usize>(label: &str) -> [u8; N] {
    let mut out = [0; N];
    Stream::new(b"flyswarm test vectors", label, &[]).fill(&mut out);
    out
}

/// Returns an identity that follows from its number alone.
fn identity(number: usize) -> Identity {
    Identity::from_seed(bytes(&format!("identity {number}")))
}

/// A source of "randomness" that returns exactly its given bytes, so that a vector can show them.
struct Given(std::collections::VecDeque<u8>);

impl Given {
    fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().collect())
    }
}

impl TryRng for Given {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut word = [0; 4];
        self.try_fill_bytes(&mut word)?;
        Ok(u32::from_le_bytes(word))
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut word = [0; 8];
        self.try_fill_bytes(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.fill_with(|| self.0.pop_front().expect("the vector gives enough random bytes"));
        Ok(())
    }
}

impl TryCryptoRng for Given {}
