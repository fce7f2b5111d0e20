//! One self-contained HTML page for a result: numbers, and pictures drawn as inline SVG. It loads nothing
//! from anywhere.

mod axis;
mod bars;
mod time_line;
mod tree;

use std::fmt::Write as _;

pub use crate::page::bytes;
use crate::page::{WIDTH, escape, svg, time};

use super::outcome::{Results, RunReport, SHOWN};
use crate::page;
use crate::protocol::view::Stage;

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

/// Writes the page.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut out = page::head("flyswarm simulation", &results.scenario, &results.about);
    let failed: usize = results.runs.iter().map(|run| run.violations.len()).sum();
    let checked: u64 = results.runs.iter().map(|run| run.checked).sum();
    let (class, verdict) = if failed == 0 {
        ("good", format!("All checks held: {checked} openings, results and accusations were looked at."))
    } else {
        ("bad", format!("{failed} checks failed."))
    };
    let _ = writeln!(out, "<p class=\"verdict {class}\">{verdict}</p>");
    out.push_str(&overview(results));
    if results.runs.iter().any(|run| run.accuracy.is_some()) {
        out.push_str(
            "<section><h2>Accuracy</h2><p>On rows that nobody trained on. <b>Pooled</b>: all rows in one place. \
                      <b>Alone</b>: the peer with the most rows.</p>",
        );
        out.push_str(&bars::accuracy(&results.runs));
        out.push_str("</section>\n");
    }
    if results.runs.iter().any(|run| run.training.is_some()) {
        out.push_str(&training(results));
    }
    for run in &results.runs {
        out.push_str(&section(run, results.runs.len() == 1));
    }
    let footer = format!(
        "flyswarm {}, trace <code>{}</code>. The same scenario and seed give the same trace on every machine.",
        escape(&results.version),
        results.trace_hash
    );
    out + &page::foot(&footer)
}

fn overview(results: &Results) -> String {
    let mut out = String::from(
        "<section><h2>Runs</h2><div class=\"wide\"><table><thead><tr><th>run</th><th>peers</th><th>finished</th><th>views</th>\
         <th>result after</th><th>frames</th><th>sent</th><th>per peer</th><th>checks</th></tr></thead><tbody>",
    );
    for run in &results.runs {
        let failed = run.views.iter().filter(|view| view.failed.is_some()).count();
        let views = match failed {
            0 => run.views.len().to_string(),
            _ => format!("{} ({failed} failed)", run.views.len()),
        };
        let checks = match run.violations.len() {
            0 => format!("<span class=\"good\">{} held</span>", run.checked),
            failed => format!("<span class=\"bad\">{failed} failed</span>"),
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{views}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{checks}</td></tr>",
            escape(&run.name),
            run.peers,
            run.finished,
            time(run.finished_ms as f64),
            run.sent.messages,
            bytes(run.sent.bytes as f64),
            bytes(run.sent.bytes as f64 / f64::from(run.peers)),
        );
    }
    out.push_str("</tbody></table></div>");
    for (name, set) in &results.left_out {
        let _ = write!(out, "<p>{} was left out: {} is not there.</p>", escape(name), escape(set));
    }
    out.push_str("</section>\n");
    out
}

fn training(results: &Results) -> String {
    let mut out = String::from(
        "<section><h2>Training</h2><p>By the rates of the scenario: one party with all rows, against the session from its first view to the \
         last result. <b>M</b>: drawing the lifting matrix, which every party does.</p><div class=\"wide\"><table><thead><tr><th>run</th>\
         <th>one party</th><th>of it M</th><th>session</th><th>slowest's own part</th><th>sums</th>\
         <th>council</th><th>speed-up</th><th>without M</th></tr></thead><tbody>",
    );
    for run in &results.runs {
        let Some(training) = &run.training else { continue };
        let sums = run.spent_ms(&[Stage::Keys, Stage::Sum]);
        let council = run.spent_ms(&[Stage::Accept, Stage::Release, Stage::Open]);
        let times =
            [training.alone_ms, training.matrix_ms, training.session_ms, training.slowest_ms, sums, council];
        let times: String = times.iter().map(|ms| format!("<td>{}</td>", time(*ms))).collect();
        let (all, rows) = (training.speed_up(), training.of_rows());
        let _ =
            write!(out, "<tr><td>{}</td>{times}<td>{all:.2}</td><td>{rows:.2}</td></tr>", escape(&run.name));
    }
    out.push_str("</tbody></table></div></section>\n");
    out
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
    out.push_str(&time_line::draw(run));
    out.push_str(&marks(run));
    let _ = write!(
        out,
        "<h3>Bytes sent by peer and stage</h3><p>Header and payload of every frame.{shown}</p>{}",
        legend()
    );
    out.push_str(&bars::stages(run));
    out.push_str("<h3>What the bytes were for</h3>");
    out.push_str(&bars::purposes(run));
    if usize::from(run.peers) <= SHOWN && !run.views.is_empty() {
        out.push_str(
            "<h3>Tree of the last view</h3><p>Sums travel up, totals down. Ringed: the council. The fuller, the more a peer sent.</p>",
        );
        out.push_str(&tree::draw(run));
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
