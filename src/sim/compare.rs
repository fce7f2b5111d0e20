//! Compares two results of the same scenario.

use serde::Serialize;

use super::outcome::{Results, RunReport};

/// One difference between two results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The run.
    pub run: String,
    /// Name of the value that differs.
    pub what: String,
    /// Its value in the first result.
    pub before: String,
    /// Its value in the second result.
    pub after: String,
    /// The change, such as "+1.5 %"; may be empty.
    pub by: String,
}

struct Comparison<'a> {
    run: &'a str,
    changes: Vec<Change>,
}

impl Comparison<'_> {
    fn push(&mut self, what: &str, before: String, after: String, by: String) {
        let run = self.run.to_owned();
        self.changes.push(Change { run, what: what.into(), before, after, by });
    }

    fn text(&mut self, what: &str, before: &str, after: &str) {
        if before != after {
            self.push(what, before.into(), after.into(), String::new());
        }
    }

    /// Adds two numbers that differ, with the change in percent.
    fn number(&mut self, what: &str, before: f64, after: f64, digits: usize) {
        if before != after {
            let by = if before == 0.0 {
                "new".into()
            } else {
                format!("{:+.1} %", 100.0 * (after - before) / before)
            };
            self.push(what, format!("{before:.digits$}"), format!("{after:.digits$}"), by);
        }
    }

    fn count(&mut self, what: &str, before: u64, after: u64) {
        self.number(what, before as f64, after as f64, 0);
    }
}

/// Lists all differences, run by run; empty where the results are equal.
#[must_use]
pub fn compare(before: &Results, after: &Results) -> Vec<Change> {
    let mut out = Vec::new();
    let mut whole = Comparison { run: "(file)", changes: Vec::new() };
    whole.text("scenario", &before.scenario, &after.scenario);
    whole.text("version", &before.version, &after.version);
    let named = |results: &Results, name: &str| results.runs.iter().find(|run| run.name == name).cloned();
    for run in &before.runs {
        if named(after, &run.name).is_none() {
            whole.push("run", run.name.clone(), "-".into(), "gone".into());
        }
    }
    for run in &after.runs {
        if named(before, &run.name).is_none() {
            whole.push("run", "-".into(), run.name.clone(), "new".into());
        }
    }
    out.append(&mut whole.changes);
    for first in &before.runs {
        if let Some(second) = named(after, &first.name) {
            out.append(&mut runs(first, &second));
        }
    }
    out
}

fn runs(a: &RunReport, b: &RunReport) -> Vec<Change> {
    let mut out = Comparison { run: &a.name, changes: Vec::new() };
    out.text(
        "trace",
        &a.trace_hash[..16.min(a.trace_hash.len())],
        &b.trace_hash[..16.min(b.trace_hash.len())],
    );
    out.count("seed", a.seed, b.seed);
    out.count("peers", a.peers.into(), b.peers.into());
    out.count("finished", a.finished.into(), b.finished.into());
    out.count("views", a.views.len() as u64, b.views.len() as u64);
    let failed = |run: &RunReport| run.views.iter().filter(|view| view.failed.is_some()).count() as u64;
    out.count("failed views", failed(a), failed(b));
    out.count("result after, ms", a.finished_ms, b.finished_ms);
    out.count("ended after, ms", a.ended_ms, b.ended_ms);
    out.count("frames", a.sent.messages, b.sent.messages);
    out.count("bytes", a.sent.bytes, b.sent.bytes);
    for row in &a.purposes {
        let other = b.purposes.iter().find(|other| other.purpose == row.purpose);
        let name = format!("{:?}", row.purpose).to_lowercase();
        out.count(&format!("{name}, frames"), row.total.messages, other.map_or(0, |row| row.total.messages));
        out.count(&format!("{name}, bytes"), row.total.bytes, other.map_or(0, |row| row.total.bytes));
    }
    for row in b.purposes.iter().filter(|row| a.purposes.iter().all(|other| other.purpose != row.purpose)) {
        out.count(&format!("{:?}, bytes", row.purpose).to_lowercase(), 0, row.total.bytes);
    }
    if let (Some(a), Some(b)) = (&a.accuracy, &b.accuracy) {
        out.number("accuracy", a.swarm, b.swarm, 4);
        out.number("accuracy, pooled", a.pooled, b.pooled, 4);
        out.text("model", &a.digest, &b.digest);
        out.text("equals the pooled model", &a.equal.to_string(), &b.equal.to_string());
    }
    if let (Some(a), Some(b)) = (&a.ranking, &b.ranking) {
        out.number("rank correlation", a.spearman, b.spearman, 4);
        out.text("distances equal the pooled ones", &a.equal.to_string(), &b.equal.to_string());
    }
    if let (Some(a), Some(b)) = (&a.training, &b.training) {
        out.number("longest computation, ms", a.slowest_ms, b.slowest_ms, 1);
    }
    let names =
        |run: &RunReport| run.blames.iter().map(|blame| blame.peer.to_string()).collect::<Vec<_>>().join(" ");
    out.text("blamed", &names(a), &names(b));
    out.count("failed checks", a.violations.len() as u64, b.violations.len() as u64);
    out.changes
}
