//! Bar charts: accuracy of every run, bytes of every peer by stage, bytes by purpose.

use std::fmt::Write as _;

use super::{STAGES, WIDTH, bytes, colour, escape, svg};
use crate::html::{percent, step, table};
use crate::protocol::view::Stage;
use crate::sim::outcome::RunReport;

const LEFT: f64 = 58.0;

pub(super) fn accuracy(runs: &[RunReport]) -> String {
    let known: Vec<_> = runs.iter().filter_map(|run| Some((run, run.accuracy.as_ref()?))).collect();
    let (label, row, right) = (150.0, 58.0, WIDTH - 60.0);
    let mut out = svg(row * known.len() as f64 + 6.0, "accuracy of every run");
    for (i, (run, found)) in known.into_iter().enumerate() {
        let top = row * i as f64;
        let _ = write!(
            out,
            "<text class=\"end ink\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            label - 62.0,
            top + 18.0,
            escape(&run.name)
        );
        let equal = if found.equal { " = bit for bit" } else { "" };
        let bars = [
            ("swarm", found.swarm, "#0072b2", equal),
            ("pooled", found.pooled, "#56b4e9", ""),
            ("alone", found.alone, "#e69f00", ""),
        ];
        for (j, (name, value, colour, note)) in bars.into_iter().enumerate() {
            let y = top + 6.0 + 16.0 * j as f64;
            let width = (right - label - 90.0) * value;
            let _ = write!(
                out,
                "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
                 <rect class=\"track\" x=\"{label}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"12\"/>\
                 <rect x=\"{label}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"12\" fill=\"{colour}\"/>\
                 <text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\">{:.2} %{note}</text>",
                label - 6.0,
                y + 10.0,
                right - label - 90.0,
                label + width + 6.0,
                y + 10.0,
                100.0 * value
            );
        }
    }
    out.push_str("</svg>");
    out
}

pub(super) fn stages(run: &RunReport) -> String {
    // Bytes of each peer in each stage, over all quantities; last, outside views.
    let of = |host: &crate::sim::outcome::Host, stage: Option<Stage>| -> u64 {
        host.stages.iter().filter(|(_, each, _)| *each == stage).map(|(.., count)| count.bytes).sum()
    };
    let most =
        run.hosts.iter().map(|host| host.stages.iter().map(|(.., count)| count.bytes).sum::<u64>()).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let row = if run.hosts.len() <= 16 { 20.0 } else { 12.0 };
    let bottom = row * run.hosts.len() as f64 + 4.0;
    let scale = (WIDTH - LEFT - 80.0) / most;
    let mut out = svg(bottom + 20.0, "bytes sent by every peer in each stage");
    let step = step(most, 6.0);
    let mut at = 0.0;
    while at <= most {
        let x = LEFT + at * scale;
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/><text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 14.0,
            bytes(at)
        );
        at += step;
    }
    for (i, host) in run.hosts.iter().enumerate() {
        let y = 2.0 + row * i as f64;
        let _ = write!(
            out,
            "<text class=\"end ink\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + row / 2.0 + 4.0,
            host.peer
        );
        let mut x = LEFT;
        let parts =
            STAGES.iter().map(|(stage, name, _)| (Some(*stage), *name)).chain([(None, "outside views")]);
        for (stage, name) in parts {
            let count = of(host, stage);
            let width = count as f64 * scale;
            if count > 0 {
                let _ = write!(
                    out,
                    "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"{}\"><title>peer {}, {name}: {}</title></rect>",
                    y + 2.0,
                    row - 4.0,
                    stage.map_or("#b9c2cb", colour),
                    host.peer,
                    bytes(count as f64)
                );
            }
            x += width;
        }
        let total = host.stages.iter().map(|(.., count)| count.bytes).sum::<u64>();
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 6.0,
            y + row / 2.0 + 4.0,
            bytes(total as f64)
        );
    }
    out.push_str("</svg>");
    out
}

pub(super) fn purposes(run: &RunReport) -> String {
    let peers = f64::from(run.peers);
    let most = run.purposes.iter().map(|row| row.total.bytes).max().unwrap_or(1).max(1) as f64;
    let all = run.sent.bytes.max(1) as f64;
    let rows = run.purposes.iter().map(|row| {
        // The number beside it says the same.
        let bar = format!(
            "<svg class=\"spark\" viewBox=\"0 0 150 10\" aria-hidden=\"true\"><rect class=\"track\" width=\"150\" \
             height=\"10\"/><rect class=\"s0\" width=\"{:.2}\" height=\"10\"/></svg>",
            150.0 * row.total.bytes as f64 / most
        );
        vec![
            format!("{:?}", row.purpose).to_lowercase(),
            bar,
            percent((row.total.bytes as f64 / all).min(1.0)),
            bytes(row.total.bytes as f64 / peers),
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
