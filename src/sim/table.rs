//! Formats results as text.

use std::fmt::Write as _;

use crate::sim::outcome::{self, PurposeRow, Results, RunReport, TRAINING};
use crate::sim::report::bytes;
use crate::sim::tally::{PURPOSES, Purpose};

/// Formats rows in aligned columns. The first column is left-aligned.
#[must_use]
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            let _ = if i == 0 { write!(line, "{cell}{pad}") } else { write!(line, "  {pad}{cell}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

/// Formats the table of all runs and, if there is only one run, its details.
pub(crate) fn render(results: &Results) -> String {
    let mut out = String::new();
    if !results.about.is_empty() {
        let _ = writeln!(out, "{}\n", results.about);
    }
    let accuracy = results.runs.iter().any(|run| run.accuracy.is_some());
    let mut head = strings(&[
        "run",
        "peers",
        "finished",
        "views",
        "result at",
        "ended at",
        "frames",
        "sent",
        "per peer",
    ]);
    if accuracy {
        head.extend(strings(&["accuracy", "pooled", "alone"]));
    }
    head.push("checks".into());
    let mut rows = vec![head];
    rows.extend(results.runs.iter().map(|run| row(run, accuracy)));
    out.push_str(&columns(&rows));
    out.push('\n');
    if accuracy {
        out.push_str(&training(&results.runs));
    }
    for (run, found) in results.runs.iter().filter_map(|run| Some((run, run.evaluation.as_ref()?))) {
        let told = found["headline"].as_str().unwrap_or("no accuracy on held-out rows");
        let _ = writeln!(out, "{}: {told}", run.name);
    }
    for (run, ranking) in results.runs.iter().filter_map(|run| Some((run, run.ranking.as_ref()?))) {
        let pooled = if ranking.equal { "the same as in one place" } else { "NOT the same as in one place" };
        let _ = writeln!(
            out,
            "{}: distances are {pooled}; they rank {} peers as the total variation of their classes does, Spearman {:.3}",
            run.name,
            ranking.peers.len(),
            ranking.spearman
        );
    }
    let mut guesses: Vec<&str> = results.runs.iter().filter_map(|run| run.guessed.as_deref()).collect();
    guesses.dedup();
    guesses.iter().for_each(|line| {
        let _ = writeln!(out, "{}", crate::session::one_line(line));
    });
    for (name, set) in &results.left_out {
        let _ = writeln!(out, "{name} was skipped: data set {set} not found");
    }
    match &results.runs[..] {
        [run] => out.push_str(&details(run)),
        runs => out.push_str(&shares(runs)),
    }
    let _ = writeln!(out, "\ntrace {}", results.trace_hash);
    out
}

fn row(run: &RunReport, accuracy: bool) -> Vec<String> {
    let seconds = |ms: u64| format!("{:.2} s", ms as f64 / 1000.0);
    let mut row = vec![
        run.name.clone(),
        run.peers.to_string(),
        run.finished.to_string(),
        run.views.len().to_string(),
        seconds(run.finished_ms),
        seconds(run.ended_ms),
        run.sent.messages.to_string(),
        bytes(run.sent.bytes as f64),
        bytes(run.sent.bytes as f64 / f64::from(run.peers)),
    ];
    if accuracy {
        match &run.accuracy {
            Some(found) => {
                let equal = if found.equal { "=" } else { "" };
                row.push(format!("{:.4}", found.swarm));
                row.push(format!("{equal}{:.4}", found.pooled));
                row.push(format!("{:.4}", found.alone));
            }
            None => row.extend(strings(&["-", "-", "-"])),
        }
    }
    row.push(match run.violations.len() {
        0 => format!("{} ok", run.checked),
        failed => format!("{failed} FAILED"),
    });
    row
}

/// Formats the comparison of training by all peers with training by one peer that has all rows.
fn training(runs: &[RunReport]) -> String {
    let (rows, why) = outcome::training(runs);
    let rows: Vec<_> = std::iter::once(strings(&TRAINING)).chain(rows).collect();
    why.iter().fold(columns(&rows) + "\n", |out, why| out + why + "\n\n")
}

fn name(purpose: Purpose) -> String {
    format!("{purpose:?}").to_lowercase()
}

/// Formats the average frames and bytes sent per peer, by purpose, for each run.
fn shares(runs: &[RunReport]) -> String {
    let mut rows = vec![vec!["frames, bytes per peer".to_owned()]];
    rows[0].extend(runs.iter().map(|run| run.name.clone()));
    for purpose in PURPOSES {
        let cell = |run: &RunReport| {
            let row = run.purposes.iter().find(|row| row.purpose == purpose)?;
            let peers = f64::from(run.peers);
            Some(format!(
                "{:.1}, {}",
                row.total.messages as f64 / peers,
                bytes(row.total.bytes as f64 / peers)
            ))
        };
        let cells: Vec<_> = runs.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into()));
            rows.push(std::iter::once(name(purpose)).chain(cells).collect());
        }
    }
    let sum = |run: &RunReport| {
        let peers = f64::from(run.peers);
        let total =
            |count: fn(&PurposeRow) -> u64| run.purposes.iter().map(count).sum::<u64>() as f64 / peers;
        format!("{:.1}, {}", total(|row| row.total.messages), bytes(total(|row| row.total.bytes)))
    };
    rows.push(std::iter::once("all".to_owned()).chain(runs.iter().map(sum)).collect());
    columns(&rows)
}

fn details(run: &RunReport) -> String {
    let peers = f64::from(run.peers);
    let mut rows = vec![strings(&["what", "frames per peer", "bytes per peer", "most of one peer"])];
    for each in &run.purposes {
        rows.push(vec![
            name(each.purpose),
            format!("{:.1}", each.total.messages as f64 / peers),
            bytes(each.total.bytes as f64 / peers),
            bytes(each.most.bytes as f64),
        ]);
    }
    let mut out = columns(&rows);
    for (i, view) in run.views.iter().enumerate().filter(|(_, view)| view.failed.is_some()) {
        let why = view.failed.as_deref().unwrap_or_default();
        let _ = writeln!(
            out,
            "\nview {} of {} members, led by peer {}, failed: {why}",
            i + 1,
            view.members,
            view.ballot.1
        );
    }
    for mark in &run.marks {
        let peers: Vec<_> = mark.peers.iter().take(8).map(u16::to_string).collect();
        let more = if mark.peers.len() > 8 { " ..." } else { "" };
        let _ =
            writeln!(out, "{:>9.3} s  {} ({}{more})", mark.at_ms as f64 / 1000.0, mark.text, peers.join(" "));
    }
    for blame in &run.blames {
        let how = blame.tampers.as_deref().unwrap_or("honest");
        let _ = writeln!(
            out,
            "peer {} ({how}) was blamed by {} with {}",
            blame.peer,
            blame.by,
            blame.with.join(", ")
        );
    }
    for (peer, why) in run.unfinished.iter().take(8) {
        let _ = writeln!(out, "peer {peer} has no result: {why}");
    }
    if run.unfinished.len() > 8 {
        let _ = writeln!(out, "and {} more have none", run.unfinished.len() - 8);
    }
    out
}
