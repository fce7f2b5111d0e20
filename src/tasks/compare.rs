//! Quality of a session's result if all rows are at hand, as in a simulation and in `flyswarm demo`. A
//! task compares the result with the same computation in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use super::{Aggregate, History, Outcome, Rows, Task};
use crate::data::Dataset;
use crate::session::{Peer, Session};

/// Rows of a run.
#[derive(Clone, Debug)]
pub struct DealtRows {
    /// All training rows.
    pub train: Dataset,
    /// Rows to measure accuracy with.
    pub test: Dataset,
    /// Each peer's part of the training rows.
    pub parts: Vec<Rows>,
    /// Line on how columns were guessed, if they were.
    pub guessed: Option<String>,
}

/// Run that has ended. Its task judges it.
#[derive(Debug)]
pub struct Ended<'a> {
    pub(crate) session: &'a Session,
    pub(crate) plan: &'a [Aggregate],
    pub(crate) rows: &'a DealtRows,
    /// Task of every peer.
    pub(crate) tasks: &'a [Arc<dyn Task>],
    /// Secret of 32 bytes for each peer's task, known to no other peer.
    pub(crate) secrets: Vec<Zeroizing<[u8; 32]>>,
    /// Opened vectors of each peer that has the result.
    pub(crate) finished: BTreeMap<Peer, &'a History>,
}

impl Ended<'_> {
    /// Returns the first peer that has the result, with its opened vectors.
    pub(crate) fn first(&self) -> Option<(Peer, &History)> {
        self.finished.first_key_value().map(|(&peer, &history)| (peer, history))
    }

    /// Returns a peer's result, or the reason why it has none; `None` if the peer is not finished.
    pub(crate) fn outcome(&self, peer: Peer) -> Option<Result<Outcome, String>> {
        Some(self.tasks[peer.index()].outcome(self.finished.get(&peer)?, 0))
    }
}

/// Quality of the results of a run. A task may have none of these figures.
#[derive(Debug, Default)]
pub struct Worth {
    pub(crate) accuracy: Option<Accuracy>,
    pub(crate) ranking: Option<Ranking>,
    /// Figures of the rows that the session held out.
    pub(crate) evaluation: Option<Value>,
}

/// Accuracy on the rows that no peer trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Accuracy of the model that the peers have.
    pub swarm: f64,
    /// Accuracy of the model of all peers' rows in one place, under the same seed.
    pub pooled: f64,
    /// Accuracy of the model of the peer with the most rows.
    pub alone: f64,
    /// Number of predicted rows. With the task `xclp` all peers together predict them.
    #[serde(default)]
    pub rows: u64,
    /// True if the result is the same at every peer, and equal to the pooled one bit for bit.
    pub equal: bool,
    /// First 16 digits of the model's SHA-256.
    pub digest: String,
}

/// Peers with rows, ranked by the distance of their rows from all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Spearman's rank correlation of distance and total variation.
    pub spearman: f64,
    /// True if both hold bit for bit: the opened sketch equals that of all members' rows in one place,
    /// and the published distances equal those of each member's rows from it.
    pub equal: bool,
    /// Peer, rows, distance (mean over rows of the sketch), total variation of its class mix from that of
    /// all.
    pub peers: Vec<(u16, usize, f64, f64)>,
    /// Drawn peers, in the order of drawing.
    pub chosen: Vec<u16>,
}
