//! The picture of the stages of every peer over time, with the faults.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{WIDTH, colour, escape, stage_name, svg, time};
use crate::html::step;
use crate::protocol::view::Stage;
use crate::sim::outcome::RunReport;

const LEFT: f64 = 58.0;
const TOP: f64 = 34.0;

pub(super) fn draw(run: &RunReport) -> String {
    let row = if run.hosts.len() <= 16 { 22.0 } else { 13.0 };
    let bottom = TOP + row * run.hosts.len() as f64;
    let axis = Axis::new(run, LEFT, WIDTH - 12.0);
    let mut out = svg(bottom + 26.0, "stages of every peer over time");
    for stretch in &axis.0 {
        if stretch.idle {
            let _ = write!(
                out,
                "<rect class=\"break\" x=\"{:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text class=\"mid\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                stretch.left,
                stretch.right - stretch.left,
                bottom - TOP,
                f64::midpoint(stretch.left, stretch.right),
                bottom + 22.0,
                time((stretch.to - stretch.from) as f64 / 1000.0)
            );
            continue;
        }
        let (from, to) = (stretch.from as f64 / 1000.0, stretch.to as f64 / 1000.0);
        let step = step(to - from, ((stretch.right - stretch.left) / 90.0).max(1.0));
        let mut at = (from / step).ceil() * step;
        while at <= to {
            let x = stretch.left + (stretch.right - stretch.left) * (at - from) / (to - from).max(1e-9);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
                 <text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 12.0,
                time(at)
            );
            at += step;
        }
    }
    for (i, host) in run.hosts.iter().enumerate() {
        let y = TOP + row * i as f64;
        let middle = y + row / 2.0;
        let _ = write!(
            out,
            "<text class=\"end ink\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 16.0,
            middle + 4.0,
            host.peer
        );
        if host.council {
            let _ = write!(
                out,
                "<circle class=\"council\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2.5\"/>",
                LEFT - 8.0
            );
        }
        for span in &host.spans {
            let Some(stage) = span.stage else { continue };
            let (from, to) = (axis.x(span.from), axis.x(span.to.max(span.from)));
            let slot = run.slots.get(span.slot as usize).map_or("", |slot| slot.name.as_str());
            let _ = write!(
                out,
                "<rect x=\"{from:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{}\"><title>peer {}: {}, {}, {} from {}</title></rect>",
                y + 2.0,
                (to - from).max(0.6),
                row - 4.0,
                colour(stage),
                host.peer,
                escape(slot),
                stage_name(stage),
                time((span.to - span.from) as f64 / 1000.0),
                time(span.from as f64 / 1000.0)
            );
        }
        if let Some(ms) = host.finished_ms {
            let opened =
                host.spans.iter().filter(|span| span.stage.is_some()).map(|span| span.to).max().unwrap_or(0);
            let x = axis.x(opened.max(ms * 1000)) + 2.0;
            let _ = write!(
                out,
                "<path class=\"tick\" d=\"M{x:.1} {middle:.1} l3 3 l5 -7\"><title>peer {} has the result after {}</title></path>",
                host.peer,
                time(ms as f64)
            );
        }
    }
    slots(run, &axis, &mut out);
    marks(run, &axis, row, bottom, &mut out);
    out.push_str("</svg>");
    out
}

/// The names of the quantities, where the first peer that goes through them begins each.
fn slots(run: &RunReport, axis: &Axis, out: &mut String) {
    let whole = |host: &&crate::sim::outcome::Host| {
        host.spans.iter().any(|span| span.slot as usize + 1 == run.slots.len())
    };
    let Some(host) = run.hosts.iter().find(whole) else { return };
    let mut free = 0.0;
    let mut before = None;
    for span in host.spans.iter().filter(|span| span.stage.is_some_and(|stage| stage != Stage::Keys)) {
        if before.replace(span.slot) == Some(span.slot) {
            continue;
        }
        let x = axis.x(span.from);
        let name = run.slots.get(span.slot as usize).map_or("", |slot| slot.name.as_str());
        if x >= free {
            let _ = write!(out, "<text x=\"{x:.1}\" y=\"{:.1}\">{}</text>", TOP - 3.0, escape(name));
            free = x + 6.5 * name.len() as f64 + 8.0;
        }
    }
}

fn marks(run: &RunReport, axis: &Axis, row: f64, bottom: f64, out: &mut String) {
    let mut taken: Vec<f64> = Vec::new();
    for (number, mark) in (1..).zip(&run.marks) {
        let x = axis.x(mark.at_ms * 1000);
        // Badges that would lie on each other go a little to the right.
        let mut badge = x;
        while taken.iter().any(|other| (other - badge).abs() < 17.0) {
            badge += 17.0;
        }
        taken.push(badge);
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>\
             <circle class=\"badge\" cx=\"{badge:.1}\" cy=\"14\" r=\"8\"><title>{}: {}</title></circle>\
             <text class=\"badge-text\" x=\"{badge:.1}\" y=\"17.5\">{number}</text>",
            TOP - 8.0,
            time(mark.at_ms as f64),
            escape(&mark.text)
        );
        for &peer in &mark.peers {
            let Some(i) = run.hosts.iter().position(|host| host.peer == peer) else { continue };
            let y = TOP + row * (i as f64 + 0.5);
            let (l, r, t, b) = (x - 4.0, x + 4.0, y - 4.0, y + 4.0);
            let _ = write!(
                out,
                "<path class=\"cross\" d=\"M{l:.1} {t:.1} L{r:.1} {b:.1} M{l:.1} {b:.1} L{r:.1} {t:.1}\"/>"
            );
        }
    }
}
