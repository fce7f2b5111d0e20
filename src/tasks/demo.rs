//! The parts of `flyswarm demo` that tasks bring: the rows of each peer, its session, and how to judge what
//! the peers have.

#![allow(missing_debug_implementations)]

use std::path::PathBuf;

use serde_json::Value;

use super::{Hamming, Select};
use crate::data::Dataset;
use crate::session::{NoiseSpec, Peer, Privacy, Scaling, Session, TaskSpec};

/// Holders of each class among the peers.
pub(crate) const HOLDERS: usize = 3;
/// Share of the rows that nobody trains on, percent.
pub(crate) const TEST_PERCENT: u32 = 25;
/// Peers that are drawn.
pub(crate) const CHOSEN: u16 = 3;
/// If some are drawn: concentration of the first peer's class mix and of the last one's.
pub(crate) const ALPHAS: (f64, f64) = (0.1, 10.0);
/// What a task's scene is made for. A scene takes the options that it has; one that is left is refused.
pub struct Wish {
    /// Number of peers, if it was given.
    pub(crate) peers: Option<usize>,
    /// Of splitting and dealing.
    pub(crate) seed: [u8; 8],
    pub(crate) noise: Option<NoiseSpec>,
    pub(crate) select: Option<Select>,
    pub(crate) hamming: Option<Hamming>,
}

impl Wish {
    /// The option that no scene has taken.
    pub(crate) fn left(&self) -> Option<&'static str> {
        let left = [
            ("--select", self.select.is_some()),
            ("--hamming", self.hamming.is_some()),
            ("--epsilon", self.noise.is_some()),
        ];
        left.into_iter().find_map(|(option, left)| left.then_some(option))
    }
}

/// Makes the scene of a task.
pub(crate) type MakeScene = fn(&mut Wish) -> Result<Scene, String>;

/// The rows of a peer.
#[derive(Clone)]
pub(crate) struct Part {
    /// All of them with their true labels.
    pub(crate) rows: Dataset,
    /// The labels that the peer has; empty if the task looks at none.
    pub(crate) labels: Vec<Option<u16>>,
}

/// A task's part of the demo.
pub struct Scene {
    pub(crate) task: TaskSpec,
    pub(crate) scaling: Scaling,
    pub(crate) privacy: Privacy,
    pub(crate) parts: Vec<Part>,
    pub(crate) judge: Judge,
}

/// Compares what the peers have with the computation in one place; gives one line as its error.
pub(crate) type Judge = Box<dyn FnOnce(&Session, &[Ended]) -> Result<Verdict, String>>;

/// What came out.
pub(crate) struct Verdict {
    /// Whether all peers have what they must have.
    pub(crate) equal: bool,
    /// That in a sentence.
    pub(crate) says: String,
    /// Fields of the result.
    pub(crate) fields: Value,
    /// Fields of each peer.
    pub(crate) peers: Vec<Value>,
    /// The peers whose rows are in it, if not those of the last sum.
    pub(crate) members: Option<Value>,
    /// More columns of the table of peers: their heads, and a line of cells for each peer.
    pub(crate) heads: &'static [&'static str],
    pub(crate) cells: Vec<Vec<String>>,
    /// Lines below the table.
    pub(crate) notes: Vec<String>,
}

/// A peer that has ended well.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) peer: Peer,
    pub(crate) part: Part,
    /// The file with its result.
    pub(crate) file: PathBuf,
    pub(crate) receipt: Value,
    /// What the session's coin has given, and what this peer alone knows.
    pub(crate) coin: Option<[u8; 32]>,
    pub(crate) secret: [u8; 32],
}

impl Part {
    /// Rows whose labels are all known.
    pub(crate) fn labelled(rows: Dataset) -> Self {
        let labels = rows.labels().iter().copied().map(Some).collect();
        Self { rows, labels }
    }

    /// As CSV: the label last, empty if it is not known.
    pub(crate) fn csv(&self) -> String {
        let mut text = String::new();
        for row in 0..self.rows.rows() {
            let mut fields: Vec<String> = self.rows.row(row).iter().map(ToString::to_string).collect();
            if let Some(label) = self.labels.get(row) {
                fields.push(
                    label.map_or(String::new(), |label| self.rows.classes()[usize::from(label)].clone()),
                );
            }
            text += &(fields.join(",") + "\n");
        }
        text
    }
}

/// The rows of several peers as one set.
pub(crate) fn together(parts: &[&Dataset]) -> Result<Dataset, String> {
    let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
    let (features, classes) = parts.first().map_or((0, &[][..]), |part| (part.features(), part.classes()));
    Dataset::new(features, values, labels, classes.to_vec()).map_err(|error| error.to_string())
}

/// An error as one line.
pub(crate) fn line(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn percent(part: f64) -> String {
    format!("{:.1}%", 100.0 * part)
}

/// The peers whose rows were drawn, in the order of the draw; none if all peers' were taken.
pub(crate) fn drawn(ended: &[Ended]) -> Vec<String> {
    let chosen = ended.first().and_then(|ended| ended.receipt["selection"]["chosen"].as_array());
    chosen.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
