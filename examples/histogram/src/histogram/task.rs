//! The work of one peer in the task, and the file of the result.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use flyswarm::data::Dataset;
use flyswarm::session::Session;
use flyswarm::tasks::{Aggregate, History, Outcome, Task, Work};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::spec::{Column, HistogramSpec};

/// First field of the file of the result.
pub(super) const FORMAT: &str = "flyswarm histogram";
/// Slot of the counts.
const BINS: u32 = 1;

/// One peer in the task.
#[derive(Debug)]
pub(super) struct Histogram {
    session: String,
    spec: HistogramSpec,
    data: Arc<Dataset>,
    plan: Vec<Aggregate>,
    /// For each counted column, its index in a row.
    places: Vec<usize>,
}

/// File of the result.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    format: String,
    session: String,
    columns: Vec<Counted>,
}

/// The counts of one column.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    name: String,
    edges: Vec<f64>,
    below: u32,
    counts: Vec<u32>,
    above: u32,
}

impl Histogram {
    /// Makes the peer that has these rows.
    pub(super) fn new(
        session: &Session,
        spec: HistogramSpec,
        data: Arc<Dataset>,
        plan: Vec<Aggregate>,
    ) -> Result<Self, String> {
        let place = |column: &Column| session.data.columns.iter().position(|name| *name == column.name);
        let places = spec.columns.iter().map(place).collect::<Option<Vec<_>>>();
        let places = places.ok_or("a column that the session does not have")?;
        if let Some(place) = places.iter().find(|&&place| place >= data.features()) {
            return Err(format!("rows have {} features; column {place} is counted", data.features()));
        }
        Ok(Self { session: session.id().to_string(), spec, data, plan, places })
    }

    /// Returns this peer's counts.
    fn counts(&self) -> Vec<u32> {
        let mut counts = Vec::with_capacity(self.spec.bins());
        for (column, &place) in self.spec.columns.iter().zip(&self.places) {
            let first = counts.len();
            counts.resize(first + column.bins(), 0);
            for row in 0..self.data.rows() {
                counts[first + column.bin(self.data.row(row)[place].into())] += 1;
            }
        }
        counts
    }

    /// Returns the counts of each column, if they are open.
    fn opened(&self, history: &History) -> Option<Vec<Vec<u32>>> {
        let (words, _) = history.vector(BINS)?.as_chunks::<4>();
        let mut words = words.iter().map(|&word| u32::from_le_bytes(word));
        Some(self.spec.columns.iter().map(|column| words.by_ref().take(column.bins()).collect()).collect())
    }
}

impl Task for Histogram {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.clone()
    }

    fn contribution(&self, slot: u32, _history: &History) -> Result<Bytes, String> {
        match slot {
            BINS => Ok(self.counts().into_iter().flat_map(u32::to_le_bytes).collect()),
            _ => Err("no such slot".into()),
        }
    }

    fn check(&self, _slot: u32, history: &History) -> Result<(), String> {
        let Some(opened) = self.opened(history) else { return Ok(()) };
        // The counts of every column are over the same rows.
        let mut totals = opened.iter().map(|counts| counts.iter().copied().map(u64::from).sum::<u64>());
        let first = totals.next();
        match totals.all(|total| Some(total) == first) {
            true => Ok(()),
            false => Err("the opened bins do not count the same rows in every column".into()),
        }
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let opened = self.opened(history).ok_or("the bins are not open")?;
        let counted = |(column, counts): (&Column, Vec<u32>)| match &counts[..] {
            [below, counts @ .., above] => Ok(Counted {
                name: column.name.clone(),
                edges: column.edges.clone(),
                below: *below,
                counts: counts.to_vec(),
                above: *above,
            }),
            _ => Err("the opened bins are too few"),
        };
        let columns = self.spec.columns.iter().zip(opened).map(counted).collect::<Result<_, _>>()?;
        let file = File { format: FORMAT.into(), session: self.session.clone(), columns };
        let outcome = Outcome::new(format!("{:#}\n", file.json()).into_bytes(), file.digest());
        Ok(outcome.with_summary(format!("{} columns", file.columns.len())))
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let numbers = self.data.rows() * self.spec.columns.len();
        Work { lift: if slot == BINS { numbers as f64 } else { 0.0 }, ..Work::default() }
    }
}

impl File {
    /// Reads the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match file.columns.iter().all(|column| column.counts.len() + 1 == column.edges.len()) {
            true if file.format == FORMAT => Ok(file),
            _ => Err("not the counts of bins with these edges".into()),
        }
    }

    /// Returns the SHA-256 of the JSON in one line. Two results have the same SHA-256 if and only if their
    /// session, bins and counts are equal.
    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.json().to_string()).into()
    }

    /// Returns the result as JSON.
    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    /// Returns the result as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("histogram of session {}\n", self.session);
        for Counted { name, edges, below, counts, above } in &self.columns {
            let (first, last) = (edges.first().unwrap_or(&0.0), edges.last().unwrap_or(&0.0));
            let _ = writeln!(text, "{name}\n  below {first}: {below}");
            for (bin, count) in edges.windows(2).zip(counts) {
                let _ = writeln!(text, "  {} to {}: {count}", bin[0], bin[1]);
            }
            let _ = writeln!(text, "  from {last}: {above}");
        }
        text
    }
}
