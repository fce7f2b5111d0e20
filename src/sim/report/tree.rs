//! The picture of the tree of the last view.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{WIDTH, bytes, svg};
use crate::sim::outcome::RunReport;

/// Height of a level.
const LEVEL: f64 = 56.0;

pub(super) fn draw(run: &RunReport) -> String {
    let mut children: BTreeMap<Option<u16>, Vec<u16>> = BTreeMap::new();
    for host in run.hosts.iter().filter(|host| host.member) {
        children.entry(host.parent).or_default().push(host.peer);
    }
    let Some(&root) = children.get(&None).and_then(|roots| roots.first()) else { return String::new() };
    // peer -> (place among all in order, level)
    let mut places = BTreeMap::new();
    place(root, 0, &children, &mut places);
    let levels = places.values().map(|place| place.1).max().unwrap_or(0);
    let outside: Vec<_> = run.hosts.iter().filter(|host| !host.member).collect();
    let gap = (WIDTH - 60.0) / places.len().max(1) as f64;
    let spot = |peer: u16| {
        let (order, level) = places.get(&peer).copied().unwrap_or((0, 0));
        (30.0 + gap * (order as f64 + 0.5), 24.0 + LEVEL * level as f64)
    };
    let bottom = 24.0 + LEVEL * levels as f64 + 24.0;
    let height = if outside.is_empty() { bottom } else { bottom + 34.0 };
    let mut out = svg(height, "tree of the last view");
    for host in run.hosts.iter().filter(|host| host.member) {
        if let Some(parent) = host.parent {
            let ((x1, y1), (x2, y2)) = (spot(parent), spot(host.peer));
            let _ = write!(
                out,
                "<line class=\"edge\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
            );
        }
    }
    let sent = |host: &crate::sim::outcome::Host| {
        host.stages.iter().map(|(.., count)| count.bytes).sum::<u64>() as f64
    };
    let most = run.hosts.iter().map(sent).fold(1.0, f64::max);
    let node = |host: &crate::sim::outcome::Host, x: f64, y: f64, out: &mut String| {
        let ring = if host.council { " council-ring" } else { "" };
        let fill = if host.member { "#0072b2" } else { "#999999" };
        let _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"12\" style=\"fill:var(--card)\"/>\
             <circle class=\"node{ring}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"12\" fill=\"{fill}\" fill-opacity=\"{:.2}\">\
             <title>peer {}: {} rows, {} sent, {} received</title></circle>\
             <text class=\"mid ink\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            0.12 + 0.5 * sent(host) / most,
            host.peer,
            host.rows,
            bytes(sent(host)),
            bytes(host.received as f64),
            y + 4.0,
            host.peer
        );
    };
    for host in run.hosts.iter().filter(|host| host.member) {
        let (x, y) = spot(host.peer);
        node(host, x, y, &mut out);
    }
    if !outside.is_empty() {
        let _ = write!(out, "<text x=\"30\" y=\"{:.1}\">not in it:</text>", bottom + 16.0);
        for (i, host) in outside.into_iter().enumerate() {
            node(host, 110.0 + 30.0 * i as f64, bottom + 12.0, &mut out);
        }
    }
    out.push_str("</svg>");
    out
}

/// Children left and right of their parent.
fn place(
    peer: u16,
    level: usize,
    children: &BTreeMap<Option<u16>, Vec<u16>>,
    places: &mut BTreeMap<u16, (usize, usize)>,
) {
    let mine = children.get(&Some(peer)).map_or(&[][..], Vec::as_slice);
    if let Some(&first) = mine.first() {
        place(first, level + 1, children, places);
    }
    places.insert(peer, (places.len(), level));
    for &other in mine.iter().skip(1) {
        place(other, level + 1, children, places);
    }
}
