//! A peer's rows as `join` has read them, and what it says of their columns.

use serde_json::json;

use crate::cli::progress::Progress;
use crate::task::Rows;

/// A peer's rows, what they are called, what is to be said of how they were read, and whether columns that
/// look wrong end the session for this peer.
pub(super) struct Given {
    pub(super) rows: Rows,
    pub(super) name: String,
    pub(super) said: Option<String>,
    pub(super) strict: bool,
}

impl Given {
    pub(super) fn new(rows: Rows, name: String, said: Option<String>, strict: bool) -> Self {
        Self { rows, name, said, strict }
    }
}

/// Tells this user, and nobody else, of a column that looks wrong.
pub(super) fn odd_columns(progress: &Progress, line: &str) {
    progress.tell(&json!({"event": "odd-columns", "message": line}), &format!("warning: {line}"));
}
