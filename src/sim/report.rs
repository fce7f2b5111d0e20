//! One self-contained HTML page for a result: numbers, and pictures drawn as inline SVG. It loads no
//! other file.

mod axis;
mod bars;
mod time_line;
mod tree;

use flyswarm_learn::model::figures::Share;
use maud::{Markup, html};

pub use crate::html::bytes;
use crate::html::{WIDTH, cells, page, percent, px, table, time};

use super::outcome::{self, Results, RunReport, SHOWN, TRAINING};
use crate::protocol::view::Stage;
use crate::report::figures;

/// Stages with their colours. They are from the palette of Okabe and Ito, which colour-blind people can
/// distinguish.
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

/// Writes the page: first the results, then the failures, then the costs.
#[must_use]
pub fn render(results: &Results) -> String {
    let failed: usize = results.runs.iter().map(|run| run.violations.len()).sum();
    let checked: u64 = results.runs.iter().map(|run| run.checked).sum();
    let title = |run: &RunReport| match results.runs.len() {
        1 => "Quality of the model on held-out rows".to_owned(),
        _ => format!("Quality of the model of {} on held-out rows", run.name),
    };
    let sections = html! {
        @if failed == 0 {
            p.verdict.good {
                "All checks held: " (checked) " openings, results and accusations were checked."
            }
        } @else {
            p.verdict.bad { (failed) " checks failed." }
        }
        (learnt(results))
        @for run in &results.runs {
            @if let Some(found) = &run.evaluation { (figures::pooled(found, &title(run))) }
        }
        (cost(results))
        section {
            h2 { "Each run" }
            @for run in &results.runs { (section(run, results.runs.len() == 1)) }
        }
    };
    let foot = html! {
        "flyswarm " (results.version) ", trace " code { (results.trace_hash) }
        ". The same scenario and seed give the same trace on every machine."
    };
    let about = html! { p.about { (results.about) } };
    page("flyswarm simulation", &results.scenario, about, sections, foot)
}

/// Makes the section on results: their quality, whether they equal the results of all rows in one place, and
/// failures.
fn learnt(results: &Results) -> Markup {
    let measured = results.runs.iter().any(|run| run.accuracy.is_some());
    let share = |share: f64, rows: u64| {
        let interval = Share::of((share * rows as f64).round() as u64, rows);
        let interval = interval.map(|of| format!("({:.1} to {:.1})", 100.0 * of.low, 100.0 * of.high));
        html! { (percent(share)) @if let Some(interval) = interval { " " small { (interval) } } }
    };
    let rows = results.runs.iter().map(|run| {
        let mut row = cells![run.name, format!("{} of {}", run.finished, run.peers)];
        if measured {
            row.extend(match &run.accuracy {
                Some(found) => [found.swarm, found.pooled, found.alone].map(|each| share(each, found.rows)),
                None => ["-"; 3].map(|none| html! { (none) }),
            });
        }
        row.extend(cells![agreement(run), failures(run)]);
        row
    });
    let mut columns = vec!["run", "have a result"];
    if measured {
        columns.extend(["accuracy", "in one place", "largest alone"]);
    }
    columns.extend(["same as in one place", "failures"]);
    let ranked = results.runs.iter().filter_map(|run| Some((run, run.ranking.as_ref()?)));
    let mut guesses: Vec<&str> = results.runs.iter().filter_map(|run| run.guessed.as_deref()).collect();
    guesses.dedup();
    html! {
        section {
            h2 { "Results" }
            @if measured {
                p {
                    "Accuracy on rows that no model was trained on, with a 95 % interval. " b { "In one place" }
                    ": the model of all peers' rows together. " b { "Largest alone" } ": the model of the peer with the \
                     most rows (of the task xclp: its labels for its own rows). " b { "Same as in one place" }
                    ": the members' parts, added without a protocol, give the same bits."
                }
            }
            (table("Results of every run", &columns, rows))
            @if measured { (scrolled("Accuracy of every run", &bars::accuracy(&results.runs))) }
            @for (run, ranking) in ranked {
                p {
                    (run.name) ": the rank correlation (Spearman) between the distances of " (ranking.peers.len()) " peers and \
                     the total variation of their classes is " (format!("{:.3}", ranking.spearman)) "."
                }
            }
            @for line in guesses { p { (line) "." } }
            @for (name, set) in &results.left_out { p { (name) " was skipped: data set " (set) " not found." } }
        }
    }
}

/// Describes whether the result equals that of all rows in one place.
fn agreement(run: &RunReport) -> Markup {
    let accuracy = run.accuracy.as_ref().map(|found| found.equal);
    let equal = [accuracy, run.ranking.as_ref().map(|found| found.equal)];
    match equal.into_iter().flatten().reduce(|one, other| one && other) {
        Some(true) => html! { span.good { "bit for bit" } },
        Some(false) => html! { span.bad { "no" } },
        None => html! { "-" },
    }
}

/// Describes the failures of a run in a few words.
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

/// Makes the section on costs: bytes, then time.
fn cost(results: &Results) -> Markup {
    let rows = results.runs.iter().map(|run| {
        let sent = run.sent.bytes as f64;
        cells![
            run.name,
            run.peers,
            bytes(sent),
            bytes(sent / f64::from(run.peers)),
            run.sent.messages,
            run.views.len(),
            time(run.finished_ms as f64),
        ]
    });
    html! {
        section {
            h2 { "Cost" }
            (table(
                "Bytes, frames, views and time of every run",
                &["run", "peers", "sent", "per peer", "frames", "views", "result after"],
                rows,
            ))
            @if results.runs.iter().any(|run| run.training.is_some()) { (training(results)) }
        }
    }
}

fn training(results: &Results) -> Markup {
    let (rows, why) = outcome::training(&results.runs);
    let rows = rows.into_iter().map(|row| row.iter().map(|text| html! { (text) }).collect());
    html! {
        h3 { "Comparison with one party that has all rows" }
        p {
            "Times at the rates of the scenario: one party that has all rows, and the session from its \
             first view to the last result. " b { "M" } ": drawing the lifting matrix, which every party does."
        }
        (table("Time of the session and of one party", &TRAINING, rows))
        @for why in why { p { (why) } }
    }
}

/// Makes a picture that keeps its size and scrolls in a narrow window.
fn scrolled(label: &str, picture: &Markup) -> Markup {
    html! { div.wide.broad role="region" tabindex="0" aria-label=(label) { (picture) } }
}

/// Makes a picture as wide as the page.
fn picture(height: f64, label: &str, parts: Markup) -> Markup {
    crate::html::picture((WIDTH, height), None, label, "", parts)
}

fn legend() -> Markup {
    html! {
        p.legend {
            @for (_, name, colour) in &STAGES { span { i style={ "background:" (colour) } {} (name) } }
        }
    }
}

fn section(run: &RunReport, open: bool) -> Markup {
    let few = usize::from(run.peers) <= SHOWN;
    let shown = if few { String::new() } else { format!(" The first {SHOWN} of {} peers.", run.peers) };
    html! {
        details open[open] {
            summary { (run.name) small { (run.peers) " peers, seed " (run.seed) } }
            @for violation in &run.violations {
                p.verdict.bad {
                    (format!("{:?}", violation.check)) " at " (time(violation.at_ms as f64)) ": " (violation.text)
                }
            }
            h3 { "Stages" }
            p {
                "Stages of each peer; a dot marks the committee, a tick the result, a number a problem. \
                 Times in which no peer was in a view are shortened." (shown)
            }
            (legend())
            (scrolled(&format!("Stages of {}", run.name), &time_line::draw(run)))
            (marks(run))
            h3 { "Bytes sent by peer and stage" }
            p { "Header and payload of every frame." (shown) }
            (legend())
            (scrolled(&format!("Bytes of {}", run.name), &bars::stages(run)))
            h3 { "Bytes by purpose" }
            (bars::purposes(run))
            @if few && !run.views.is_empty() {
                h3 { "Tree of the last view" }
                p {
                    "Sums travel up, totals travel down. Members of the committee have a ring. The more a peer has \
                     sent, the fuller is its circle."
                }
                (scrolled(&format!("Tree of {}", run.name), &tree::draw(run)))
            }
            (people(run))
            p.trace { "trace " code { (run.trace_hash) } }
        }
    }
}

/// Makes the list of faults, numbered as in the picture.
fn marks(run: &RunReport) -> Markup {
    let failed = run.views.iter().filter_map(|view| Some((view, view.failed.as_ref()?)));
    let whom = |peers: &[u16]| {
        let few: Vec<_> = peers.iter().take(12).map(u16::to_string).collect();
        let more = if peers.len() > 12 { ", ..." } else { "" };
        match peers.len() {
            0 => String::new(),
            1 => format!(", peer {}", few[0]),
            _ => format!(", peers {}{more}", few.join(", ")),
        }
    };
    html! {
        @if !run.marks.is_empty() {
            ol.marks {
                @for mark in &run.marks {
                    li { (time(mark.at_ms as f64)) ": " (mark.text) (whom(&mark.peers)) }
                }
            }
        }
        @for (view, why) in failed {
            p.failed {
                "The view of " (view.members) " members that peer " (view.ballot.1) " led from "
                (time(view.began_ms as f64)) " on failed: " (why) "."
            }
        }
    }
}

/// Makes the lists of peers that were blamed, and of peers without a result.
fn people(run: &RunReport) -> Markup {
    html! {
        @for blame in &run.blames {
            p {
                "Peer " (blame.peer) " (" (blame.tampers.as_deref().unwrap_or("honest")) ") was blamed by " (blame.by)
                " with " (blame.with.join(", ")) "."
            }
        }
        @if run.strangers_refused > 0 {
            p { (run.strangers_refused) " connections from outside the roster were refused." }
        }
        @for (peer, why) in run.unfinished.iter().take(12) {
            p { "Peer " (peer) " has no result: " (why) "." }
        }
    }
}

#[cfg(test)]
mod tests;
