//! Measures the quality of a session's result. This needs the rows of all peers, so it is done in simulations
//! and in `flyswarm demo`. A task compares its result with the same computation on all rows in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use super::{Aggregate, History, Outcome, Rows, Task};
use crate::data::Dataset;
use crate::session::{Peer, Session};

/// The rows of all peers in a simulated session.
#[derive(Clone, Debug)]
pub struct DealtRows {
    /// All training rows.
    pub train: Dataset,
    /// Rows to measure accuracy with.
    pub test: Dataset,
    /// Each peer's part of the training rows.
    pub parts: Vec<Rows>,
    /// Line that says how the columns were guessed, if they were.
    pub guessed: Option<String>,
}

/// A simulated session that has ended. Its task measures the result.
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

    /// Returns a peer's result, or the reason why the peer has no result; `None` if the peer is not finished.
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
    /// Accuracy of a model that was trained on all peers' rows in one place, with the same seed.
    pub pooled: f64,
    /// Accuracy of a model that was trained only on the rows of the peer with the most rows.
    pub alone: f64,
    /// Number of predicted rows. With the task `xclp`, each peer predicts a part of them.
    #[serde(default)]
    pub rows: u64,
    /// True if every peer has the same result, and the result equals that of the pooled rows bit for bit.
    pub equal: bool,
    /// First 16 digits of the model's SHA-256.
    pub digest: String,
}

/// Peers with rows, ranked by the distance of their rows from all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Spearman's rank correlation between the distance and the total variation.
    pub spearman: f64,
    /// True if two things hold bit for bit: the opened sketch equals the sketch of all members' rows in one
    /// place, and each published distance equals the distance of that member's rows from this sketch.
    pub equal: bool,
    /// For each peer: its index, its number of rows, its distance (mean over the rows of the sketch), and the
    /// total variation between its class shares and those of all peers.
    pub peers: Vec<(u16, usize, f64, f64)>,
    /// Drawn peers, in the order of drawing.
    pub chosen: Vec<u16>,
}
