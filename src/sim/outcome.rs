//! The results of a run, as `result.json` holds them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::checks::Violation;
use super::tally::{Count, Purpose, Span};
use crate::html::time;
use crate::protocol::view::Stage;
pub use crate::tasks::compare::{Accuracy, Ranking};

/// The most peers whose stages and bytes are listed one by one; of more, the first.
pub const SHOWN: usize = 64;

/// All runs of a scenario file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The file's name without its ending.
    pub scenario: String,
    /// The scenario in one line.
    pub about: String,
    /// The program's version.
    pub version: String,
    /// SHA-256 over the trace hashes of the runs.
    pub trace_hash: String,
    /// Runs that were left out because their data are not there, with the data.
    #[serde(default)]
    pub left_out: Vec<(String, String)>,
    /// The runs.
    pub runs: Vec<RunReport>,
}

/// The report of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The variant's name, or the scenario's.
    pub name: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// Peers in the roster.
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
    /// Peers that ended without it, with the reason.
    pub unfinished: Vec<(u16, String)>,
    /// The views, in their order.
    pub views: Vec<View>,
    /// The aggregates of the plan.
    pub slots: Vec<Slot>,
    /// The digest of the result; see [`digest`].
    #[serde(default)]
    pub result: Option<String>,
    /// The accuracy of the result, where it can be measured.
    pub accuracy: Option<Accuracy>,
    /// The peers' distances beside the distances of their class mixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Ranking>,
    /// How the columns of the set were guessed, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guessed: Option<String>,
    /// What `[evaluate]` opened, as receipts have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Value>,
    /// The time of training, where the task trains.
    pub training: Option<Training>,
    /// Frames sent in all, and their bytes.
    pub sent: Count,
    /// Frames sent, by purpose.
    pub purposes: Vec<PurposeRow>,
    /// Frames sent and time spent, by stage.
    pub stages: Vec<StageRow>,
    /// The first peers one by one.
    pub hosts: Vec<Host>,
    /// The faults and their ends.
    pub marks: Vec<Mark>,
    /// The peers that were blamed.
    pub blames: Vec<Blame>,
    /// Connections from outside the roster that were refused.
    pub strangers_refused: u64,
    /// Number of times that a check looked at something.
    pub checked: u64,
    /// The checks that failed.
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
    /// Ballot: number and leader.
    pub ballot: (u64, u16),
    /// Number of members.
    pub members: usize,
    /// Time at which the first member entered, virtual milliseconds.
    pub began_ms: u64,
    /// The reason of its failure, if it failed.
    pub failed: Option<String>,
}

/// One aggregate of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Name.
    pub name: String,
    /// Bytes of the vector.
    pub bytes: u64,
    /// Members of the opened sum; `None` where it was not opened.
    pub members: Option<usize>,
}

/// The time of training, by the scenario's rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Time of one party with all rows, milliseconds.
    pub alone_ms: f64,
    /// Of that, the time to draw the lifting matrix, which every party does whatever the number of its rows.
    #[serde(default)]
    pub matrix_ms: f64,
    /// Time of the longest computation of a peer, milliseconds.
    pub slowest_ms: f64,
    /// Time from the first view to the last result, milliseconds.
    pub session_ms: f64,
}

impl RunReport {
    /// Mean time of a peer in these stages, over all aggregates, milliseconds.
    #[must_use]
    pub fn spent_ms(&self, stages: &[Stage]) -> f64 {
        let rows = self.stages.iter().filter(|row| row.stage.is_some_and(|stage| stages.contains(&stage)));
        rows.map(|row| row.mean_ms).sum()
    }

    /// The speed-up in words, all in all and without the matrix: `3.72 x faster`, `2.13 x slower`. `-` where
    /// the run had faults: then the session mostly waits for peers that are gone.
    fn paces(&self, training: &Training) -> [String; 2] {
        [training.speed_up(), training.of_rows()].map(|speed_up| match speed_up {
            _ if !self.marks.is_empty() => "-".to_owned(),
            _ if speed_up >= 1.0 => format!("{speed_up:.2} x faster"),
            _ => format!("{:.2} x slower", 1.0 / speed_up),
        })
    }

    /// Where the session took longer than one party with all rows would, without a fault: what its time went
    /// to.
    fn why_slower(&self) -> Option<String> {
        let training = self.training.as_ref().filter(|training| training.speed_up() < 1.0)?;
        if !self.marks.is_empty() {
            return None;
        }
        let sums = self.spent_ms(&[Stage::Keys, Stage::Sum]);
        let committee = self.spent_ms(&[Stage::Accept, Stage::Release, Stage::Open]);
        let rest = (training.session_ms - training.slowest_ms - sums - committee).max(0.0);
        Some(format!(
            "{} is slower than one party with all rows, which needs {} and so leaves little to divide. Of the {} of the \
             session the longest computation of a peer took {}, sums {}, the committee {}, and waiting for others {}.",
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

/// The heads of [`training`].
pub(crate) const TRAINING: [&str; 9] = [
    "training",
    "one party",
    "of it M",
    "session",
    "own part",
    "sums",
    "committee",
    "all in all",
    "without M",
];

/// Training by all against training by one party, with everything that a session does and without drawing the
/// matrix M: a row of texts for each run, and what there is to be said.
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

/// What a session is for where it is slower.
const SLOWER: &str =
    "Few rows are not worth dividing for speed; what a session is for is that nobody shows its rows.";
/// Why a run has no factor.
const FAULTS: &str = "Runs with faults have no factor (-): their time is mostly waiting for whoever is gone.";

impl Training {
    /// The time of one party divided by that of the session; below 1 the session is slower.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        self.alone_ms / self.session_ms.max(0.001)
    }

    /// The same without the time to draw the matrix, which is subtracted from both.
    #[must_use]
    pub fn of_rows(&self) -> f64 {
        (self.alone_ms - self.matrix_ms) / (self.session_ms - self.matrix_ms).max(0.001)
    }
}

/// The frames that were sent for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PurposeRow {
    /// The purpose.
    pub purpose: Purpose,
    /// Sent by all peers.
    pub total: Count,
    /// Sent by the peer that sent the most bytes for it.
    pub most: Count,
}

/// One stage of one aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// The aggregate; `None` outside views.
    pub slot: Option<String>,
    /// The stage; `None` outside views.
    pub stage: Option<Stage>,
    /// Mean time over the peers that were in it, milliseconds.
    pub mean_ms: f64,
    /// Sent by all peers.
    pub sent: Count,
}

/// One peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Number.
    pub peer: u16,
    /// Whether the peer is in the committee.
    pub committee: bool,
    /// Number of rows.
    pub rows: usize,
    /// Frames sent in each stage: slot, stage, count.
    pub stages: Vec<(u32, Option<Stage>, Count)>,
    /// Bytes that were sent to it.
    pub received: u64,
    /// The stages, in their order.
    pub spans: Vec<Span>,
    /// Time at which the peer had the result, virtual milliseconds.
    pub finished_ms: Option<u64>,
    /// Parent in the tree of the last view.
    pub parent: Option<u16>,
    /// Whether the peer was a member of the last view.
    pub member: bool,
}

/// A fault, or its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// Time, virtual milliseconds.
    pub at_ms: u64,
    /// The peers that it concerns.
    pub peers: Vec<u16>,
    /// Description.
    pub text: String,
}

/// A peer that was blamed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blame {
    /// The peer.
    pub peer: u16,
    /// The way in which it broke the protocol.
    pub tampers: Option<String>,
    /// Names of the faults that it was blamed with.
    pub with: Vec<String>,
    /// Number of peers that blamed it.
    pub by: usize,
}
