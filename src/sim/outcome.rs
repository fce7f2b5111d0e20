//! Results of a run, in the format of `result.json`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::checks::Violation;
use super::tally::{Count, Purpose, Span};
use crate::html::time;
use crate::protocol::view::Stage;
pub use crate::tasks::compare::{Accuracy, Ranking};

/// Maximum number of peers whose stages and bytes are listed; if there are more, only the first ones are
/// listed.
pub const SHOWN: usize = 64;

/// All runs of a scenario file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Name of the file without its extension.
    pub scenario: String,
    /// Description of the scenario in one line.
    pub about: String,
    /// Version of the program.
    pub version: String,
    /// SHA-256 over the trace hashes of the runs.
    pub trace_hash: String,
    /// Runs that were left out because their data set is missing, each with the name of the data set.
    #[serde(default)]
    pub left_out: Vec<(String, String)>,
    /// Reports of the runs.
    pub runs: Vec<RunReport>,
}

/// The report of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// Name of the variant, or of the scenario.
    pub name: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Number of peers in the roster.
    pub peers: u16,
    /// Hash over all frames; see `simulations/README.md`.
    pub trace_hash: String,
    /// Virtual milliseconds until the last peer had the result.
    pub finished_ms: u64,
    /// Virtual milliseconds until the last peer ended.
    pub ended_ms: u64,
    /// Milliseconds after the last fault by which all peers must have ended.
    pub bound_ms: u64,
    /// Time of the last fault, virtual milliseconds.
    pub last_fault_ms: u64,
    /// Number of peers that have the result.
    pub finished: u16,
    /// Peers that ended without the result, with the reason.
    pub unfinished: Vec<(u16, String)>,
    /// Views in their order.
    pub views: Vec<View>,
    /// Aggregates of the plan.
    pub slots: Vec<Slot>,
    /// Digest of the result; see [`digest`].
    #[serde(default)]
    pub result: Option<String>,
    /// Accuracy of the result, if it can be measured.
    pub accuracy: Option<Accuracy>,
    /// Distances of the peers, compared with the differences of their class shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Ranking>,
    /// Description of how the columns of the set were guessed, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guessed: Option<String>,
    /// Figures that `[evaluate]` opened, as in receipts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Value>,
    /// Time of training, if the task trains.
    pub training: Option<Training>,
    /// Total number of frames sent, and their bytes.
    pub sent: Count,
    /// Frames sent, by purpose.
    pub purposes: Vec<PurposeRow>,
    /// Frames sent and time spent, by stage.
    pub stages: Vec<StageRow>,
    /// The first peers, one entry each.
    pub hosts: Vec<Host>,
    /// Faults and their ends.
    pub marks: Vec<Mark>,
    /// Peers that were blamed.
    pub blames: Vec<Blame>,
    /// Connections from outside the roster that were refused.
    pub strangers_refused: u64,
    /// Number of checks that ran.
    pub checked: u64,
    /// Checks that failed.
    pub violations: Vec<Violation>,
}

/// Returns SHA-256 over the opened vectors of the plan, each after its length as LE u64, in hexadecimal.
#[must_use]
pub fn digest(opened: &[Bytes]) -> String {
    let mut hash = Sha256::new();
    for vector in opened {
        hash.update((vector.len() as u64).to_le_bytes());
        hash.update(vector);
    }
    hex::encode(hash.finalize())
}

/// A view of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// Ballot: number and leader.
    pub ballot: (u64, u16),
    /// Number of members.
    pub members: usize,
    /// Time at which the first member entered, virtual milliseconds.
    pub began_ms: u64,
    /// Reason of its failure, if it failed.
    pub failed: Option<String>,
}

/// One aggregate of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Name of the aggregate.
    pub name: String,
    /// Size of the vector in bytes.
    pub bytes: u64,
    /// Number of members of the opened sum, or `None` if it was not opened.
    pub members: Option<usize>,
}

/// Time of training, computed with the rates of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Time that one peer with all rows would need, in milliseconds.
    pub alone_ms: f64,
    /// Part of this time in which the lifting matrix is drawn. It does not depend on the number of rows.
    #[serde(default)]
    pub matrix_ms: f64,
    /// Time of the longest computation of a peer, in milliseconds.
    pub slowest_ms: f64,
    /// Time from the first view to the last result, in milliseconds.
    pub session_ms: f64,
}

impl RunReport {
    /// Returns the mean time of a peer in these stages, over all aggregates, in milliseconds.
    #[must_use]
    pub fn spent_ms(&self, stages: &[Stage]) -> f64 {
        let rows = self.stages.iter().filter(|row| row.stage.is_some_and(|stage| stages.contains(&stage)));
        rows.map(|row| row.mean_ms).sum()
    }

    /// Formats the speed-up, in total and without the matrix: `3.72 x faster`, `2.13 x slower`. Returns `-`
    /// if the run had faults, because the session then mostly waits for peers that are gone.
    fn paces(&self, training: &Training) -> [String; 2] {
        [training.speed_up(), training.of_rows()].map(|speed_up| match speed_up {
            _ if !self.marks.is_empty() => "-".to_owned(),
            _ if speed_up >= 1.0 => format!("{speed_up:.2} x faster"),
            _ => format!("{:.2} x slower", 1.0 / speed_up),
        })
    }

    /// If a session without faults took longer than one peer with all rows would, explains how the time was
    /// spent.
    fn why_slower(&self) -> Option<String> {
        let training = self.training.as_ref().filter(|training| training.speed_up() < 1.0)?;
        if !self.marks.is_empty() {
            return None;
        }
        let sums = self.spent_ms(&[Stage::Keys, Stage::Sum]);
        let committee = self.spent_ms(&[Stage::Accept, Stage::Release, Stage::Open]);
        let rest = (training.session_ms - training.slowest_ms - sums - committee).max(0.0);
        Some(format!(
            "{} is slower than one party with all rows, which needs only {}. Of the {} of the session \
             the longest computation of a peer took {}, sums {}, the committee {}, and waiting for \
             others {}.",
            self.name,
            time(training.alone_ms),
            time(training.session_ms),
            time(training.slowest_ms),
            time(sums),
            time(committee),
            time(rest)
        ))
    }
}

/// Headings of [`training`].
pub(crate) const TRAINING: [&str; 9] = [
    "training",
    "one party",
    "of it M",
    "session",
    "own part",
    "sums",
    "committee",
    "whole session",
    "without M",
];

/// Compares training by all peers with training by one peer that has all rows, in total and without the time
/// to draw the matrix M. Returns a row of texts for each run, and remarks.
pub(crate) fn training(runs: &[RunReport]) -> (Vec<Vec<String>>, Vec<String>) {
    let row = |run: &RunReport| {
        let found = run.training.as_ref()?;
        let sums = run.spent_ms(&[Stage::Keys, Stage::Sum]);
        let committee = run.spent_ms(&[Stage::Accept, Stage::Release, Stage::Open]);
        let times =
            [found.alone_ms, found.matrix_ms, found.session_ms, found.slowest_ms, sums, committee].map(time);
        Some(std::iter::once(run.name.clone()).chain(times).chain(run.paces(found)).collect())
    };
    let mut why: Vec<_> = runs.iter().filter_map(RunReport::why_slower).collect();
    why.extend((!why.is_empty()).then(|| SLOWER.to_owned()));
    why.extend(runs.iter().any(|run| !run.marks.is_empty()).then(|| FAULTS.to_owned()));
    (runs.iter().filter_map(row).collect(), why)
}

/// Remark for slower runs: the purpose of a session.
const SLOWER: &str = "With few rows a session is not faster; its purpose is that no peer shows its rows.";
/// Reason why a run has no factor.
const FAULTS: &str = "Runs with faults have no factor (-): most of their time is waiting for absent peers.";

impl Training {
    /// Returns the time of one peer with all rows, divided by the time of the session. If it is below 1, the
    /// session is slower.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        self.alone_ms / self.session_ms.max(0.001)
    }

    /// Returns the same ratio after the time to draw the matrix was subtracted from both times.
    #[must_use]
    pub fn of_rows(&self) -> f64 {
        (self.alone_ms - self.matrix_ms) / (self.session_ms - self.matrix_ms).max(0.001)
    }
}

/// Frames that were sent for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PurposeRow {
    /// Purpose of the frames.
    pub purpose: Purpose,
    /// Count over all peers.
    pub total: Count,
    /// Count of the peer that sent the most bytes for this purpose.
    pub most: Count,
}

/// One stage of one aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// Name of the aggregate, or `None` outside views.
    pub slot: Option<String>,
    /// Stage, or `None` outside views.
    pub stage: Option<Stage>,
    /// Mean time over the peers that were in this stage, in milliseconds.
    pub mean_ms: f64,
    /// Count over all peers.
    pub sent: Count,
}

/// One peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Number of the peer.
    pub peer: u16,
    /// True if the peer is in the committee.
    pub committee: bool,
    /// Number of rows.
    pub rows: usize,
    /// Frames sent in each stage: slot, stage, count.
    pub stages: Vec<(u32, Option<Stage>, Count)>,
    /// Bytes that were sent to the peer.
    pub received: u64,
    /// Stages in their order.
    pub spans: Vec<Span>,
    /// Time at which the peer had the result, virtual milliseconds.
    pub finished_ms: Option<u64>,
    /// Parent in the tree of the last view.
    pub parent: Option<u16>,
    /// True if the peer was a member of the last view.
    pub member: bool,
}

/// A fault, or its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// Time, virtual milliseconds.
    pub at_ms: u64,
    /// Peers that it concerns.
    pub peers: Vec<u16>,
    /// Description of the fault.
    pub text: String,
}

/// A peer that was blamed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blame {
    /// Number of the peer.
    pub peer: u16,
    /// Kind of its tampering.
    pub tampers: Option<String>,
    /// Names of the faults for which it was blamed.
    pub with: Vec<String>,
    /// Number of peers that blamed it.
    pub by: usize,
}
