//! Draws the stages of every peer over time, with the faults.

use maud::{Markup, html};

use super::axis::Axis;
use super::{WIDTH, colour, picture, px, stage_name, time};
use crate::html::step;
use crate::protocol::view::Stage;
use crate::sim::outcome::{Host, RunReport};

const LEFT: f64 = 58.0;
const TOP: f64 = 34.0;

pub(super) fn draw(run: &RunReport) -> Markup {
    let row = if run.hosts.len() <= 16 { 22.0 } else { 13.0 };
    let bottom = TOP + row * run.hosts.len() as f64;
    let axis = Axis::new(run, LEFT, WIDTH - 12.0);
    let parts = html! {
        (scale(&axis, bottom))
        @for (i, host) in run.hosts.iter().enumerate() {
            (stages(run, host, &axis, TOP + row * i as f64, row))
        }
        (slots(run, &axis))
        (marks(run, &axis, row, bottom))
    };
    picture(bottom + 26.0, "stages of every peer over time", parts)
}

/// Draws the grid with its times, and the shortened periods.
fn scale(axis: &Axis, bottom: f64) -> Markup {
    html! {
        @for stretch in &axis.0 {
            @let (left, width) = (stretch.left, stretch.right - stretch.left);
            @let (from, to) = (stretch.from as f64 / 1000.0, stretch.to as f64 / 1000.0);
            @if stretch.idle {
                rect.break x=(px(left)) y=(TOP) width=(px(width)) height=(bottom - TOP) {}
                text.mid x=(px(left + width / 2.0)) y=(bottom + 22.0) { (time(to - from)) }
            } @else {
                @let step = step(to - from, (width / 90.0).max(1.0));
                @let marks = (0..).map(|k| ((from / step).ceil() + f64::from(k)) * step);
                @for at in marks.take_while(|at| *at <= to) {
                    @let x = px(left + width * (at - from) / (to - from).max(1e-9));
                    line.grid x1=(x) x2=(x) y1=(TOP) y2=(bottom) {}
                    text.mid x=(x) y=(bottom + 12.0) { (time(at)) }
                }
            }
        }
    }
}

/// Draws the row of a peer.
fn stages(run: &RunReport, host: &Host, axis: &Axis, y: f64, row: f64) -> Markup {
    let middle = y + row / 2.0;
    let spans = host.spans.iter().filter_map(|span| Some((span, span.stage?)));
    let opened = spans.clone().map(|(span, _)| span.to).max().unwrap_or(0);
    html! {
        text.end.ink x=(LEFT - 16.0) y=(middle + 4.0) { (host.peer) }
        @if host.committee { circle.committee cx=(LEFT - 8.0) cy=(middle) r="2.5" {} }
        @for (span, stage) in spans {
            @let (from, to) = (axis.x(span.from), axis.x(span.to.max(span.from)));
            rect x=(px(from)) y=(y + 2.0) width=(px((to - from).max(0.6))) height=(row - 4.0)
                fill=(colour(stage)) {
                title {
                    "peer " (host.peer) ": " (run.slots.get(span.slot as usize).map_or("", |slot| &*slot.name)) ", "
                    (stage_name(stage)) ", " (time((span.to - span.from) as f64 / 1000.0)) " from "
                    (time(span.from as f64 / 1000.0))
                }
            }
        }
        @if let Some(ms) = host.finished_ms {
            path.tick d={ "M" (px(axis.x(opened.max(ms * 1000)) + 2.0)) " " (middle) " l3 3 l5 -7" } {
                title { "peer " (host.peer) " has the result after " (time(ms as f64)) }
            }
        }
    }
}

/// Draws the name of each aggregate. Its place is the time when the aggregate begins at the first peer that
/// completes all aggregates.
fn slots(run: &RunReport, axis: &Axis) -> Markup {
    let whole = |host: &&Host| host.spans.iter().any(|span| span.slot as usize + 1 == run.slots.len());
    let mut free = 0.0;
    let mut before = None;
    let mut names = Vec::new();
    for span in run.hosts.iter().find(whole).into_iter().flat_map(|host| &host.spans) {
        let begins = span.stage.is_some_and(|stage| stage != Stage::Keys);
        if !begins || before.replace(span.slot) == Some(span.slot) {
            continue;
        }
        let x = axis.x(span.from);
        let name = run.slots.get(span.slot as usize).map_or("", |slot| slot.name.as_str());
        if x >= free {
            names.push((x, name));
            free = x + 6.5 * name.len() as f64 + 8.0;
        }
    }
    html! { @for (x, name) in names { text x=(px(x)) y=(TOP - 3.0) { (name) } } }
}

fn marks(run: &RunReport, axis: &Axis, row: f64, bottom: f64) -> Markup {
    let mut taken: Vec<f64> = Vec::new();
    let places: Vec<_> = run.marks.iter().map(|mark| px(axis.x(mark.at_ms * 1000))).collect();
    for &x in &places {
        // A badge that would overlap another one is moved to the right.
        let mut badge = x;
        while taken.iter().any(|other| (other - badge).abs() < 17.0) {
            badge += 17.0;
        }
        taken.push(badge);
    }
    let rows = |peers: &[u16]| {
        let row_of = |peer: &u16| run.hosts.iter().position(|host| host.peer == *peer);
        peers.iter().filter_map(row_of).map(|i| TOP + row * (i as f64 + 0.5)).collect::<Vec<_>>()
    };
    html! {
        @for (number, ((mark, x), badge)) in (1..).zip(run.marks.iter().zip(&places).zip(&taken)) {
            line.mark x1=(x) x2=(x) y1=(TOP - 8.0) y2=(bottom) {}
            circle.badge cx=(badge) cy="14" r="8" { title { (time(mark.at_ms as f64)) ": " (mark.text) } }
            text.badge-text x=(badge) y="17.5" { (number) }
            @for y in rows(&mark.peers) {
                path.cross d={ "M" (x - 4.0) " " (y - 4.0) " l8 8 M" (x - 4.0) " " (y + 4.0) " l8 -8" } {}
            }
        }
    }
}
