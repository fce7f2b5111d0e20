//! What came out of a run, as `result.json` holds it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::checks::Violation;
use super::tally::{Count, Purpose, Span};
use crate::protocol::view::Stage;

/// Peers of whom the stages and bytes are told one by one; of more, the first.
pub const SHOWN: usize = 64;

/// All runs of a scenario file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The file's name without its ending.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// The program's version.
    pub version: String,
    /// SHA-256 over the trace hashes of the runs.
    pub trace_hash: String,
    /// Runs that were left out because their data are not there, and which.
    #[serde(default)]
    pub left_out: Vec<(String, String)>,
    /// The runs.
    pub runs: Vec<RunReport>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The variant's name, or the scenario's.
    pub name: String,
    /// What everything random followed from.
    pub seed: u64,
    /// Peers in the roster.
    pub peers: u16,
    /// Over every frame; see `simulations/README.md`.
    pub trace_hash: String,
    /// Virtual milliseconds until the last peer had the result.
    pub finished_ms: u64,
    /// Virtual milliseconds until the last peer ended.
    pub ended_ms: u64,
    /// Milliseconds after the last fault by which all must have ended, and when the last fault was.
    pub bound_ms: u64,
    /// Virtual milliseconds of the last fault.
    pub last_fault_ms: u64,
    /// Peers that have the result.
    pub finished: u16,
    /// Peers that ended without it, and why.
    pub unfinished: Vec<(u16, String)>,
    /// Views, in their order.
    pub views: Vec<View>,
    /// The quantities.
    pub slots: Vec<Slot>,
    /// The digest of the result; see [`digest`].
    #[serde(default)]
    pub result: Option<String>,
    /// What the model is worth.
    pub accuracy: Option<Accuracy>,
    /// How the peers' distances compare with what is known of their classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Ranking>,
    /// Training, in virtual time.
    pub training: Option<Training>,
    /// Sent in all: frames and their bytes.
    pub sent: Count,
    /// Sent by purpose.
    pub purposes: Vec<PurposeRow>,
    /// Sent and spent by stage.
    pub stages: Vec<StageRow>,
    /// The first peers one by one.
    pub hosts: Vec<Host>,
    /// What went wrong.
    pub marks: Vec<Mark>,
    /// Who was blamed by how many, with what.
    pub blames: Vec<Blame>,
    /// Connections from outside the roster that were refused.
    pub strangers_refused: u64,
    /// How often a check looked at something.
    pub checked: u64,
    /// What failed.
    pub violations: Vec<Violation>,
}

/// SHA-256 over the opened vectors of the plan, each after its length as LE u64, in hexadecimal.
#[must_use]
pub fn digest(opened: &[Bytes]) -> String {
    let mut hash = Sha256::new();
    for vector in opened {
        hash.update((vector.len() as u64).to_le_bytes());
        hash.update(vector);
    }
    hex::encode(hash.finalize())
}

/// One view.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// Its ballot: number and leader.
    pub ballot: (u64, u16),
    /// How many members.
    pub members: usize,
    /// When the first entered, virtual milliseconds.
    pub began_ms: u64,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

/// One quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// Bytes of its vector.
    pub bytes: u64,
    /// How many members the opened sum is over; none: not opened.
    pub members: Option<usize>,
}

/// Accuracy on the rows that nobody trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Of the model that the peers have.
    pub swarm: f64,
    /// Of the model of all peers' rows in one place, under the same seed.
    pub pooled: f64,
    /// Of the model of the peer with the most rows.
    pub alone: f64,
    /// The same at every peer, and equal to the pooled one bit for bit.
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
    /// Who was drawn, in the order of drawing.
    pub chosen: Vec<u16>,
}

/// How long training takes, by the scenario's rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// One party with all rows, milliseconds.
    pub alone_ms: f64,
    /// Of that, drawing the lifting matrix, which every party has to do whatever the number of its rows.
    #[serde(default)]
    pub matrix_ms: f64,
    /// The slowest peer's own part, milliseconds.
    pub slowest_ms: f64,
    /// From the first view to the last result, milliseconds.
    pub session_ms: f64,
}

impl RunReport {
    /// How long the peers were in these stages, of all quantities together, on average, milliseconds.
    #[must_use]
    pub fn spent_ms(&self, stages: &[Stage]) -> f64 {
        let rows = self.stages.iter().filter(|row| row.stage.is_some_and(|stage| stages.contains(&stage)));
        rows.map(|row| row.mean_ms).sum()
    }
}

impl Training {
    /// How many times faster the session is than one party, all things counted.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        self.alone_ms / self.session_ms.max(0.001)
    }

    /// The same but for drawing the matrix, which is taken off both.
    #[must_use]
    pub fn of_rows(&self) -> f64 {
        (self.alone_ms - self.matrix_ms) / (self.session_ms - self.matrix_ms).max(0.001)
    }
}

/// What was sent for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PurposeRow {
    /// Which.
    pub purpose: Purpose,
    /// By all peers.
    pub total: Count,
    /// By the peer that sent the most bytes for it.
    pub most: Count,
}

/// One stage of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// The quantity; none: outside views.
    pub slot: Option<String>,
    /// The stage.
    pub stage: Option<Stage>,
    /// Mean over the peers that were in it, milliseconds.
    pub mean_ms: f64,
    /// Sent by all peers.
    pub sent: Count,
}

/// One peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its number.
    pub peer: u16,
    /// Whether it is in the council.
    pub council: bool,
    /// Rows that it holds.
    pub rows: usize,
    /// What it sent in each stage: quantity, stage, count.
    pub stages: Vec<(u32, Option<Stage>, Count)>,
    /// Bytes that were sent to it.
    pub received: u64,
    /// The stages that it went through.
    pub spans: Vec<Span>,
    /// When it had the result, virtual milliseconds.
    pub finished_ms: Option<u64>,
    /// Its parent in the tree of the last view.
    pub parent: Option<u16>,
    /// Whether it was a member of the last view.
    pub member: bool,
}

/// Something that went wrong, or was put right.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// Virtual milliseconds.
    pub at_ms: u64,
    /// Whom it befell.
    pub peers: Vec<u16>,
    /// What.
    pub text: String,
}

/// Who was blamed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blame {
    /// Who.
    pub peer: u16,
    /// How it broke the protocol.
    pub tampers: Option<String>,
    /// What it was blamed with.
    pub with: Vec<String>,
    /// By how many peers.
    pub by: usize,
}
