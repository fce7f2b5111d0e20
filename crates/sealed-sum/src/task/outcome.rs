//! What a finished session gives a peer.

use serde_json::{Map, Value};

/// The result of a session at one peer: one file, and what receipts and people are told of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The file's bytes.
    pub file: Vec<u8>,
    /// The result's digest: the same at every peer, but for labels of a peer's own rows.
    pub digest: [u8; 32],
    /// One line for people; may be empty.
    pub summary: String,
    /// Entries of the receipt that only this task has.
    pub details: Map<String, Value>,
    /// Warnings for the user of the result, a sentence each.
    pub warnings: Vec<String>,
    /// What only this peer may know, for its report; it is in no receipt.
    pub own: Option<Value>,
    /// A file for this peer alone, which says which of its rows the result has learnt from.
    pub learnt_rows: Option<String>,
}

impl Outcome {
    /// An outcome with no more to say.
    #[must_use]
    pub fn new(file: Vec<u8>, digest: [u8; 32]) -> Self {
        let (summary, details) = (String::new(), Map::new());
        Self { file, digest, summary, details, warnings: Vec::new(), own: None, learnt_rows: None }
    }

    /// The same with a line for people.
    #[must_use]
    pub fn with_summary(self, summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..self }
    }
}
