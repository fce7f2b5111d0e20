//! Result of a finished session at one peer.

use serde_json::{Map, Value};

/// Result of a session at one peer: one file, and its description for receipts and people.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes of the file.
    pub file: Vec<u8>,
    /// Digest of the result. It is the same at every peer, except for labels of a peer's own rows.
    pub digest: [u8; 32],
    /// One line for people; may be empty.
    pub summary: String,
    /// Entries of the receipt that only this task has.
    pub details: Map<String, Value>,
    /// Warnings for the user of the result, a sentence each.
    pub warnings: Vec<String>,
    /// Data for this peer's report only; it is in no receipt.
    pub own: Option<Value>,
    /// File for this peer alone that lists its rows that the result was trained on.
    pub learnt_rows: Option<String>,
}

impl Outcome {
    /// Makes an outcome with only a file and its digest.
    #[must_use]
    pub fn new(file: Vec<u8>, digest: [u8; 32]) -> Self {
        let (summary, details) = (String::new(), Map::new());
        Self { file, digest, summary, details, warnings: Vec::new(), own: None, learnt_rows: None }
    }

    /// Adds a line for people.
    #[must_use]
    pub fn with_summary(self, summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..self }
    }
}
