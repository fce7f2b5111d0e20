//! What the result of a session is worth if all rows are at hand, as in a simulation and in `flyswarm demo`:
//! a task compares it with the same computation in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use super::{Aggregate, History, Outcome, Rows, Task};
use crate::data::Dataset;
use crate::session::{Peer, Session};

/// The rows of a run.
#[derive(Clone, Debug)]
pub struct DealtRows {
    /// All rows to train on.
    pub train: Dataset,
    /// The rows to measure accuracy with.
    pub test: Dataset,
    /// Each peer's part of the rows to train on.
    pub parts: Vec<Rows>,
    /// A line on how columns were guessed, where they were.
    pub guessed: Option<String>,
}

/// A run that has ended, for its task to judge.
#[derive(Debug)]
pub struct Ended<'a> {
    pub(crate) session: &'a Session,
    pub(crate) plan: &'a [Aggregate],
    pub(crate) rows: &'a DealtRows,
    /// Every peer's task.
    pub(crate) tasks: &'a [Arc<dyn Task>],
    /// For each peer 32 bytes that its task takes as known to nobody else.
    pub(crate) secrets: Vec<Zeroizing<[u8; 32]>>,
    /// What the peers that have the result have opened.
    pub(crate) finished: BTreeMap<Peer, &'a History>,
}

impl Ended<'_> {
    /// The first peer that has the result, with what was opened.
    pub(crate) fn first(&self) -> Option<(Peer, &History)> {
        self.finished.first_key_value().map(|(&peer, &history)| (peer, history))
    }

    /// The result of a peer, as its task makes it, or why it has none; `None` if it is not finished.
    pub(crate) fn outcome(&self, peer: Peer) -> Option<Result<Outcome, String>> {
        Some(self.tasks[peer.index()].outcome(self.finished.get(&peer)?, 0))
    }
}

/// What the results of a run are worth. A task may have none of these.
#[derive(Debug, Default)]
pub struct Worth {
    pub(crate) accuracy: Option<Accuracy>,
    pub(crate) ranking: Option<Ranking>,
    /// The figures of rows that the session held out.
    pub(crate) evaluation: Option<Value>,
}

/// Accuracy on the rows that no peer trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Of the model that the peers have.
    pub swarm: f64,
    /// Of the model of all peers' rows in one place, under the same seed.
    pub pooled: f64,
    /// Of the model of the peer with the most rows.
    pub alone: f64,
    /// Rows that were predicted; of the task `xclp` by all peers together.
    #[serde(default)]
    pub rows: u64,
    /// Whether the result is the same at every peer, and equal to the pooled one bit for bit.
    pub equal: bool,
    /// First 16 digits of the model's SHA-256.
    pub digest: String,
}

/// The peers with rows by the distance of their rows from all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Spearman's rank correlation of distance and total variation.
    pub spearman: f64,
    /// Whether the opened sketch is that of all members' rows in one place, and the published distances those
    /// of each member's rows from it, bit for bit.
    pub equal: bool,
    /// Peer, rows, distance (mean over rows of the sketch), total variation of its class mix from that of
    /// all.
    pub peers: Vec<(u16, usize, f64, f64)>,
    /// The peers that were drawn, in the order of drawing.
    pub chosen: Vec<u16>,
}
