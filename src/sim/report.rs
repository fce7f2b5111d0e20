//! One self-contained HTML page for a result: numbers, and pictures drawn as inline SVG. It loads nothing
//! from anywhere.

mod axis;
mod bars;
mod time_line;
mod tree;

use std::fmt::Write as _;

use flyswarm_learn::model::figures::Share;

pub use crate::html::bytes;
use crate::html::{WIDTH, escape, percent, svg, table, time};

use super::outcome::{FAULTS, Results, RunReport, SHOWN, SLOWER};
use crate::html;
use crate::protocol::view::Stage;
use crate::report::figures;

/// The stages with their colours (Okabe and Ito's palette, which colour-blind people can tell apart).
const STAGES: [(Stage, &str, &str); 6] = [
    (Stage::Keys, "keys", "#7f8c9b"),
    (Stage::Compute, "compute", "#e69f00"),
    (Stage::Sum, "sum", "#0072b2"),
    (Stage::Accept, "accept", "#009e73"),
    (Stage::Release, "release", "#cc79a7"),
    (Stage::Open, "open", "#56b4e9"),
];

fn colour(stage: Stage) -> &'static str {
    STAGES.iter().find(|(each, ..)| *each == stage).map_or("#999999", |(.., colour)| colour)
}

fn stage_name(stage: Stage) -> &'static str {
    STAGES.iter().find(|(each, ..)| *each == stage).map_or("", |(_, name, _)| name)
}

/// Writes the page: what was learnt, what went wrong, and then what it cost.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut out = html::head("flyswarm simulation", &results.scenario, &results.about);
    let failed: usize = results.runs.iter().map(|run| run.violations.len()).sum();
    let checked: u64 = results.runs.iter().map(|run| run.checked).sum();
    let (class, verdict) = if failed == 0 {
        ("good", format!("All checks held: {checked} openings, results and accusations were looked at."))
    } else {
        ("bad", format!("{failed} checks failed."))
    };
    let _ = writeln!(out, "<p class=\"verdict {class}\">{verdict}</p>");
    out.push_str(&learnt(results));
    for run in &results.runs {
        if let Some(found) = &run.evaluation {
            let title = match results.runs.len() {
                1 => "How good the model is, by the swarm's own figures".to_owned(),
                _ => format!("How good the model of {} is, by the swarm's own figures", run.name),
            };
            out.push_str(&figures::pooled(found, &title));
        }
    }
    out.push_str(&cost(results));
    out.push_str("<section><h2>What happened in each run</h2>");
    for run in &results.runs {
        out.push_str(&section(run, results.runs.len() == 1));
    }
    out.push_str("</section>\n");
    let footer = format!(
        "flyswarm {}, trace <code>{}</code>. The same scenario and seed give the same trace on every machine.",
        escape(&results.version),
        results.trace_hash
    );
    out + &html::foot(&footer)
}

/// What came out: results, how good they are, whether they are those of the rows in one place, and failures.
fn learnt(results: &Results) -> String {
    let mut out = String::from("<section><h2>What was learnt</h2>");
    let measured = results.runs.iter().any(|run| run.accuracy.is_some());
    if measured {
        out.push_str(
            "<p>Accuracy is that on rows that nobody trained on, with its 95 % interval. <b>In one \
             place</b>: the model of all peers' rows together. <b>Largest alone</b>: the model of the \
             peer with the most rows (of the task xclp: its labels for its own rows). <b>Same as in \
             one place</b>: added up without a protocol, the members' parts give the same bits.</p>",
        );
    }
    let share = |share: f64, rows: u64| {
        let interval = Share::of((share * rows as f64).round() as u64, rows);
        interval.map_or_else(|| percent(share), figures::shown)
    };
    let rows = results.runs.iter().map(|run| {
        let mut cells = vec![escape(&run.name), format!("{} of {}", run.finished, run.peers)];
        if measured {
            cells.extend(match &run.accuracy {
                Some(found) => [found.swarm, found.pooled, found.alone].map(|each| share(each, found.rows)),
                None => ["-", "-", "-"].map(str::to_owned),
            });
        }
        cells.extend([agreement(run), failures(run)]);
        cells
    });
    let mut columns = vec!["run", "have a result"];
    if measured {
        columns.extend(["accuracy", "in one place", "largest alone"]);
    }
    columns.extend(["same as in one place", "failures"]);
    out.push_str(&table("Results of every run", &columns, rows));
    if measured {
        out.push_str(&scrolled("Accuracy of every run", &bars::accuracy(&results.runs)));
    }
    for (run, ranking) in results.runs.iter().filter_map(|run| Some((run, run.ranking.as_ref()?))) {
        let _ = write!(
            out,
            "<p>{}: the distances of {} peers rank them as the total variation of their classes does, with a \
             correlation (Spearman) of {:.3}.</p>",
            escape(&run.name),
            ranking.peers.len(),
            ranking.spearman
        );
    }
    let mut guesses: Vec<&str> = results.runs.iter().filter_map(|run| run.guessed.as_deref()).collect();
    guesses.dedup();
    for line in guesses {
        let _ = write!(out, "<p>{}.</p>", escape(line));
    }
    for (name, set) in &results.left_out {
        let _ = write!(out, "<p>{} was left out: {} is not there.</p>", escape(name), escape(set));
    }
    out + "</section>\n"
}

/// Whether the result is that of the rows in one place.
fn agreement(run: &RunReport) -> String {
    let accuracy = run.accuracy.as_ref().map(|found| found.equal);
    let equal = [accuracy, run.ranking.as_ref().map(|found| found.equal)];
    match equal.into_iter().flatten().reduce(|one, other| one && other) {
        Some(true) => "<span class=\"good\">bit for bit</span>".to_owned(),
        Some(false) => "<span class=\"bad\">no</span>".to_owned(),
        None => "-".to_owned(),
    }
}

/// What went wrong in a run, in a few words.
fn failures(run: &RunReport) -> String {
    let views = run.views.iter().filter(|view| view.failed.is_some()).count();
    let found = [
        (run.violations.len(), "check", "checks failed"),
        (views, "view", "views failed"),
        (run.unfinished.len(), "peer without a result", "peers without a result"),
        (run.blames.len(), "peer blamed", "peers blamed"),
    ];
    let told = found.into_iter().filter(|(count, ..)| *count > 0).map(|(count, one, more)| {
        let one = if ["check", "view"].contains(&one) { format!("{one} failed") } else { one.to_owned() };
        if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
    });
    let told: Vec<_> = told.collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

/// What it cost: bytes, then time.
fn cost(results: &Results) -> String {
    let mut out = String::from("<section><h2>What it cost</h2>");
    let rows = results.runs.iter().map(|run| {
        vec![
            escape(&run.name),
            run.peers.to_string(),
            bytes(run.sent.bytes as f64),
            bytes(run.sent.bytes as f64 / f64::from(run.peers)),
            run.sent.messages.to_string(),
            run.views.len().to_string(),
            time(run.finished_ms as f64),
        ]
    });
    out.push_str(&table(
        "Bytes, frames, views and time of every run",
        &["run", "peers", "sent", "per peer", "frames", "views", "result after"],
        rows,
    ));
    if results.runs.iter().any(|run| run.training.is_some()) {
        out.push_str(&training(results));
    }
    out + "</section>\n"
}

fn training(results: &Results) -> String {
    let mut out = String::from(
        "<h3>Against one party with all rows</h3><p>By the rates of the scenario: one party that has all rows, against \
         the session from its first view to the last result. <b>M</b>: drawing the lifting matrix, which \
         every party does.</p>",
    );
    let rows = results.runs.iter().filter_map(|run| {
        let training = run.training.as_ref()?;
        let sums = run.spent_ms(&[Stage::Keys, Stage::Sum]);
        let council = run.spent_ms(&[Stage::Accept, Stage::Release, Stage::Open]);
        let times =
            [training.alone_ms, training.matrix_ms, training.session_ms, training.slowest_ms, sums, council];
        Some(std::iter::once(escape(&run.name)).chain(times.map(time)).chain(run.paces(training)).collect())
    });
    out.push_str(&table(
        "Time of the session beside that of one party",
        &[
            "run",
            "one party",
            "of it M",
            "session",
            "slowest's own part",
            "sums",
            "council",
            "all in all",
            "without M",
        ],
        rows,
    ));
    let mut why: Vec<_> = results.runs.iter().filter_map(RunReport::why_slower).collect();
    why.extend((!why.is_empty()).then(|| SLOWER.to_owned()));
    why.extend(results.runs.iter().any(|run| !run.marks.is_empty()).then(|| FAULTS.to_owned()));
    why.iter().fold(out, |out, why| out + "<p>" + &escape(why) + "</p>")
}

/// A picture that keeps its size where there is less room, and is scrolled.
fn scrolled(label: &str, picture: &str) -> String {
    format!(
        "<div class=\"wide broad\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{picture}</div>",
        escape(label)
    )
}

fn legend() -> String {
    let items: String = STAGES
        .iter()
        .map(|(_, name, colour)| format!("<span><i style=\"background:{colour}\"></i>{name}</span>"))
        .collect();
    format!("<p class=\"legend\">{items}</p>")
}

fn section(run: &RunReport, open: bool) -> String {
    let mut out = format!(
        "<details{}><summary>{}<small>{} peers, seed {}</small></summary>\n",
        if open { " open" } else { "" },
        escape(&run.name),
        run.peers,
        run.seed
    );
    for violation in &run.violations {
        let _ = write!(
            out,
            "<p class=\"verdict bad\">{:?} at {}: {}</p>",
            violation.check,
            time(violation.at_ms as f64),
            escape(&violation.text)
        );
    }
    let shown = if usize::from(run.peers) > SHOWN {
        format!(" The first {SHOWN} of {} peers.", run.peers)
    } else {
        String::new()
    };
    let _ = write!(
        out,
        "<h3>Stages</h3><p>What each peer was doing; a dot marks the council, a tick the result, a number what went wrong. \
         Times in which nobody was in a view are cut short.{shown}</p>{}",
        legend()
    );
    out.push_str(&scrolled(&format!("Stages of {}", run.name), &time_line::draw(run)));
    out.push_str(&marks(run));
    let _ = write!(
        out,
        "<h3>Bytes sent by peer and stage</h3><p>Header and payload of every frame.{shown}</p>{}",
        legend()
    );
    out.push_str(&scrolled(&format!("Bytes of {}", run.name), &bars::stages(run)));
    out.push_str("<h3>What the bytes were for</h3>");
    out.push_str(&bars::purposes(run));
    if usize::from(run.peers) <= SHOWN && !run.views.is_empty() {
        out.push_str(
            "<h3>Tree of the last view</h3><p>Sums travel up, totals down. Ringed: the council. The fuller, the more a peer sent.</p>",
        );
        out.push_str(&scrolled(&format!("Tree of {}", run.name), &tree::draw(run)));
    }
    out.push_str(&people(run));
    let _ = writeln!(out, "<p class=\"trace\">trace <code>{}</code></p></details>", run.trace_hash);
    out
}

/// The list of faults, numbered as in the picture.
fn marks(run: &RunReport) -> String {
    if run.marks.is_empty() && run.views.iter().all(|view| view.failed.is_none()) {
        return String::new();
    }
    let mut out = String::from("<ol class=\"marks\">");
    for mark in &run.marks {
        let peers: Vec<_> = mark.peers.iter().take(12).map(u16::to_string).collect();
        let more = if mark.peers.len() > 12 { ", ..." } else { "" };
        let whom = match mark.peers.len() {
            0 => String::new(),
            1 => format!(", peer {}", peers[0]),
            _ => format!(", peers {}{more}", peers.join(", ")),
        };
        let _ = write!(out, "<li>{}: {}{whom}</li>", time(mark.at_ms as f64), escape(&mark.text));
    }
    out.push_str("</ol>");
    for view in &run.views {
        if let Some(why) = &view.failed {
            let _ = write!(
                out,
                "<p class=\"failed\">The view of {} members that peer {} led from {} on failed: {}.</p>",
                view.members,
                view.ballot.1,
                time(view.began_ms as f64),
                escape(why)
            );
        }
    }
    out
}

/// The lists of peers that were blamed, and of peers without a result.
fn people(run: &RunReport) -> String {
    let mut out = String::new();
    for blame in &run.blames {
        let how = blame.tampers.as_deref().unwrap_or("honest");
        let _ = write!(
            out,
            "<p>Peer {} ({}) was blamed by {} with {}.</p>",
            blame.peer,
            escape(how),
            blame.by,
            escape(&blame.with.join(", "))
        );
    }
    if run.strangers_refused > 0 {
        let _ =
            write!(out, "<p>{} connections from outside the roster were refused.</p>", run.strangers_refused);
    }
    for (peer, why) in run.unfinished.iter().take(12) {
        let _ = write!(out, "<p>Peer {peer} has no result: {}.</p>", escape(why));
    }
    out
}

#[cfg(test)]
mod tests;
