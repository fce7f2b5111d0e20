//! Bar charts: accuracy of every run, bytes of every peer by stage, bytes by purpose.

use maud::{Markup, html};

use super::{STAGES, WIDTH, bytes, colour, picture, px};
use crate::html::{cells, percent, step, table};
use crate::protocol::view::Stage;
use crate::sim::outcome::{Host, RunReport};

const LEFT: f64 = 58.0;

pub(super) fn accuracy(runs: &[RunReport]) -> Markup {
    let known: Vec<_> = runs.iter().filter_map(|run| Some((run, run.accuracy.as_ref()?))).collect();
    let (label, row, right) = (150.0, 58.0, WIDTH - 60.0);
    let (height, full) = (row * known.len() as f64 + 6.0, right - label - 90.0);
    let bar = |y: f64, name: &str, value: f64, colour: &str, note: &str| {
        let width = px(full * value);
        html! {
            text.end x=(label - 6.0) y=(y + 10.0) { (name) }
            rect.track x=(label) y=(y) width=(full) height="12" {}
            rect x=(label) y=(y) width=(width) height="12" fill=(colour) {}
            text.ink x=(px(label + width + 6.0)) y=(y + 10.0) { (format!("{:.2} %{note}", 100.0 * value)) }
        }
    };
    let parts = html! {
        @for (i, (run, found)) in known.into_iter().enumerate() {
            @let top = row * i as f64;
            text.end.ink x=(label - 62.0) y=(top + 18.0) { (run.name) }
            (bar(top + 6.0, "swarm", found.swarm, "#0072b2", if found.equal { " = bit for bit" } else { "" }))
            (bar(top + 22.0, "pooled", found.pooled, "#56b4e9", ""))
            (bar(top + 38.0, "alone", found.alone, "#e69f00", ""))
        }
    };
    picture(height, "accuracy of every run", parts)
}

pub(super) fn stages(run: &RunReport) -> Markup {
    // Returns the bytes of a peer in a stage, over all aggregates. `None` is the time outside views.
    let of = |host: &Host, stage: Option<Stage>| -> u64 {
        host.stages.iter().filter(|(_, each, _)| *each == stage).map(|(.., count)| count.bytes).sum()
    };
    let total = |host: &Host| host.stages.iter().map(|(.., count)| count.bytes).sum::<u64>() as f64;
    let most = run.hosts.iter().map(total).fold(1.0, f64::max);
    let row = if run.hosts.len() <= 16 { 20.0 } else { 12.0 };
    let bottom = row * run.hosts.len() as f64 + 4.0;
    let scale = (WIDTH - LEFT - 80.0) / most;
    let step = step(most, 6.0);
    let ticks = std::iter::successors(Some(0.0), |at| Some(at + step)).take_while(|at| *at <= most);
    let parts_of = |host: &Host| {
        let stages = STAGES.iter().map(|(stage, name, _)| (Some(*stage), *name));
        let mut x = LEFT;
        let place = |(stage, name)| {
            let (count, left) = (of(host, stage), x);
            x += count as f64 * scale;
            (count, left, stage.map_or("#b9c2cb", colour), name)
        };
        stages.chain([(None, "outside views")]).map(place).filter(|part| part.0 > 0).collect::<Vec<_>>()
    };
    let parts = html! {
        @for at in ticks {
            @let x = px(LEFT + at * scale);
            line.grid x1=(x) x2=(x) y1="0" y2=(bottom) {}
            text.mid x=(x) y=(bottom + 14.0) { (bytes(at)) }
        }
        @for (i, host) in run.hosts.iter().enumerate() {
            @let (y, middle) = (2.0 + row * i as f64, 6.0 + row * (i as f64 + 0.5));
            text.end.ink x=(LEFT - 8.0) y=(middle) { (host.peer) }
            @for (count, x, colour, name) in parts_of(host) {
                rect x=(px(x)) y=(y + 2.0) width=(px(count as f64 * scale)) height=(row - 4.0) fill=(colour) {
                    title { "peer " (host.peer) ", " (name) ": " (bytes(count as f64)) }
                }
            }
            text x=(px(LEFT + total(host) * scale + 6.0)) y=(middle) { (bytes(total(host))) }
        }
    };
    picture(bottom + 20.0, "bytes sent by every peer in each stage", parts)
}

pub(super) fn purposes(run: &RunReport) -> Markup {
    let peers = f64::from(run.peers);
    let most = run.purposes.iter().map(|row| row.total.bytes).max().unwrap_or(1).max(1) as f64;
    let all = run.sent.bytes.max(1) as f64;
    let rows = run.purposes.iter().map(|row| {
        let total = row.total.bytes as f64;
        // The bar is hidden from screen readers, because the number next to it has the same value.
        let bar = html! {
            svg.spark viewBox="0 0 150 10" aria-hidden="true" {
                rect.track width="150" height="10" {}
                rect.s0 width=(px(150.0 * total / most)) height="10" {}
            }
        };
        cells![
            format!("{:?}", row.purpose).to_lowercase(),
            bar,
            percent((total / all).min(1.0)),
            bytes(total / peers),
            bytes(row.most.bytes as f64),
            format!("{:.1}", row.total.messages as f64 / peers),
        ]
    });
    table(
        &format!("Bytes and frames of {} by purpose", run.name),
        &["what", "bytes", "share", "bytes per peer", "most of one peer", "frames per peer"],
        rows,
    )
}
