//! `flyswarm-lab compare`: prints the changes between two results of `flyswarm simulate`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Failure;

/// Print the changes between two results of `flyswarm simulate`
///
/// Runs are matched by name. Prints one line for each difference.
#[derive(Debug, Args)]
pub struct Compare {
    /// The result.json of the first run
    before: PathBuf,
    /// The result.json of the second run
    after: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Numbers of a run: name, place, decimals.
const NUMBERS: [(&str, &str, usize); 11] = [
    ("seed", "/seed", 0),
    ("peers", "/peers", 0),
    ("finished", "/finished", 0),
    ("result after, ms", "/finished_ms", 0),
    ("ended after, ms", "/ended_ms", 0),
    ("frames", "/sent/messages", 0),
    ("bytes", "/sent/bytes", 0),
    ("accuracy", "/accuracy/swarm", 4),
    ("accuracy, pooled", "/accuracy/pooled", 4),
    ("rank correlation", "/ranking/spearman", 4),
    ("longest computation, ms", "/training/slowest_ms", 1),
];

/// Texts of a run: name and place.
const TEXTS: [(&str, &str); 4] = [
    ("trace", "/trace_hash"),
    ("model", "/accuracy/digest"),
    ("equals the pooled model", "/accuracy/equal"),
    ("distances equal the pooled ones", "/ranking/equal"),
];

/// Lists of a run that are compared by length: name and place.
const LENGTHS: [(&str, &str); 2] = [("views", "/views"), ("failed checks", "/violations")];

/// One difference between two results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Change {
    run: String,
    what: String,
    before: String,
    after: String,
    /// Relative change, such as "+1.5 %"; may be empty.
    by: String,
}

impl Compare {
    /// Returns the text to print.
    ///
    /// # Errors
    /// [`Failure`] if a file is not a result of a simulation.
    pub fn run(&self) -> Result<String, Failure> {
        let (before, after) = (load(&self.before)?, load(&self.after)?);
        let changes = changes(&before, &after);
        if self.json {
            let traces = json!({"before": before["trace_hash"], "after": after["trace_hash"]});
            return Ok(format!("{}\n", json!({"traces": traces, "changes": changes})));
        }
        if changes.is_empty() {
            return Ok(format!("no change: both have the trace {}\n", text(&after, "/trace_hash")));
        }
        let mut out = format!("{:<20} {:<32} {:>20} {:>20} change\n", "run", "value", "before", "after");
        for Change { run, what, before, after, by } in &changes {
            out += format!("{run:<20} {what:<32} {before:>20} {after:>20} {by}").trim_end();
            out.push('\n');
        }
        Ok(out)
    }
}

fn load(path: &Path) -> Result<Value, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| Failure(format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if value["runs"].is_array() {
        return Ok(value);
    }
    Err(wrong(&"not a result of `flyswarm simulate --out`: it has no list `runs`"))
}

/// Returns all differences, run by run.
fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    for (name, place) in [("scenario", "/scenario"), ("version", "/version")] {
        changed("(file)", name, text(before, place), text(after, place), "", &mut found);
    }
    let runs = |results: &Value| results["runs"].as_array().cloned().unwrap_or_default();
    let named = |runs: &[Value], name: &str| runs.iter().find(|run| run["name"] == name).cloned();
    let (first, second) = (runs(before), runs(after));
    for (from, others, side) in [(&first, &second, "gone"), (&second, &first, "new")] {
        for run in from.iter().map(|run| text(run, "/name")).filter(|name| named(others, name).is_none()) {
            let (before, after) = if side == "gone" { (run, "-".into()) } else { ("-".into(), run) };
            changed("(file)", "run", before, after, side, &mut found);
        }
    }
    for run in &first {
        if let Some(other) = named(&second, &text(run, "/name")) {
            compare_runs(run, &other, &mut found);
        }
    }
    found
}

fn compare_runs(before: &Value, after: &Value, found: &mut Vec<Change>) {
    let run = &text(before, "/name");
    for (what, place) in TEXTS {
        if before.pointer(place).is_some() && after.pointer(place).is_some() {
            let short = |value| text(value, place).chars().take(16).collect();
            changed(run, what, short(before), short(after), "", found);
        }
    }
    for (what, place, digits) in NUMBERS {
        let number = |run: &Value| run.pointer(place).and_then(Value::as_f64);
        if let (Some(before), Some(after)) = (number(before), number(after)) {
            numbers(run, what, before, after, digits, found);
        }
    }
    for (what, place) in LENGTHS {
        let [before, after] = [before, after].map(|run| list(run, place).len() as f64);
        numbers(run, what, before, after, 0, found);
    }
    let failed = |run| list(run, "/views").iter().filter(|view| !view["failed"].is_null()).count() as f64;
    numbers(run, "failed views", failed(before), failed(after), 0, found);
    let purposes: BTreeSet<String> = [before, after]
        .iter()
        .flat_map(|run| list(run, "/purposes"))
        .map(|row| text(row, "/purpose"))
        .collect();
    for purpose in purposes {
        for (unit, place) in [("frames", "/total/messages"), ("bytes", "/total/bytes")] {
            let [before, after] = [before, after].map(|run| {
                let row = list(run, "/purposes").iter().find(|row| text(row, "/purpose") == purpose);
                row.and_then(|row| row.pointer(place)).and_then(Value::as_f64).unwrap_or(0.0)
            });
            numbers(run, &format!("{}, {unit}", purpose.to_lowercase()), before, after, 0, found);
        }
    }
    let blamed =
        |run| list(run, "/blames").iter().map(|blame| text(blame, "/peer")).collect::<Vec<_>>().join(" ");
    changed(run, "blamed", blamed(before), blamed(after), "", found);
}

/// Returns the text or number at a place; empty if there is none.
fn text(value: &Value, place: &str) -> String {
    match value.pointer(place) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn list<'a>(value: &'a Value, place: &str) -> &'a [Value] {
    value.pointer(place).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds two numbers if they differ, with the change in percent.
fn numbers(run: &str, what: &str, before: f64, after: f64, digits: usize, found: &mut Vec<Change>) {
    let by =
        if before == 0.0 { "new".into() } else { format!("{:+.1} %", 100.0 * (after - before) / before) };
    if before != after {
        changed(run, what, format!("{before:.digits$}"), format!("{after:.digits$}"), &by, found);
    }
}

fn changed(run: &str, what: &str, before: String, after: String, by: &str, found: &mut Vec<Change>) {
    if before != after {
        found.push(Change { run: run.into(), what: what.into(), before, after, by: by.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(seed: u64, finished_ms: u64, trace: &str) -> Value {
        json!({
            "scenario": "s", "version": "0.1.0", "trace_hash": trace,
            "runs": [{
                "name": "s", "seed": seed, "peers": 3, "finished": 2, "finished_ms": finished_ms, "ended_ms": 9,
                "trace_hash": trace, "views": [{"failed": null}, {"failed": "lost"}], "violations": [],
                "sent": {"messages": 4, "bytes": 100}, "blames": [], "accuracy": null,
                "purposes": [{"purpose": "Chunks", "total": {"messages": 4, "bytes": 100}}],
            }],
        })
    }

    #[test]
    fn equal_results_have_no_change_and_json_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.json", "b.json"].map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::write(path, result(1, 5, "abc").to_string()).unwrap();
        }
        let [before, after] = paths;
        let compare = Compare { before, after, json: true };
        let value: Value = serde_json::from_str(&compare.run().unwrap()).unwrap();
        assert_eq!(value, json!({"traces": {"before": "abc", "after": "abc"}, "changes": []}));
    }

    #[test]
    fn changes_have_the_run_both_values_and_percent() {
        let found = changes(&result(1, 5, "abc"), &result(77, 10, "def"));
        let of = |what: &str| found.iter().find(|change| change.what == what).unwrap();
        assert_eq!((&*of("seed").after, &*of("result after, ms").by), ("77", "+100.0 %"));
        assert!(found.iter().all(|change| change.run == "s") && found.len() == 3, "{found:?}");
        let mut other = result(1, 5, "abc");
        other["runs"][0]["name"] = "t".into();
        let found = changes(&result(1, 5, "abc"), &other);
        assert_eq!(found.iter().map(|change| &*change.by).collect::<Vec<_>>(), ["gone", "new"]);
    }

    #[test]
    fn a_file_that_is_not_a_result_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "{}").unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("a.json: not a result of `flyswarm simulate --out`"), "{error}");
    }
}
