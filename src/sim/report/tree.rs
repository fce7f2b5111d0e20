//! Draws the tree of the last view.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{WIDTH, bytes, picture, px};
use crate::sim::outcome::{Host, RunReport};

/// Height of a level.
const LEVEL: f64 = 56.0;

pub(super) fn draw(run: &RunReport) -> Markup {
    let (members, outside): (Vec<_>, Vec<_>) = run.hosts.iter().partition(|host| host.member);
    let mut children: BTreeMap<Option<u16>, Vec<u16>> = BTreeMap::new();
    members.iter().for_each(|host| children.entry(host.parent).or_default().push(host.peer));
    let Some(&root) = children.get(&None).and_then(|roots| roots.first()) else { return html! {} };
    // For each peer, its position in order and its level.
    let mut places = BTreeMap::new();
    place(root, 0, &children, &mut places);
    let levels = places.values().map(|place| place.1).max().unwrap_or(0);
    let gap = (WIDTH - 60.0) / places.len().max(1) as f64;
    let spot = |peer: u16| {
        let (order, level) = places.get(&peer).copied().unwrap_or((0, 0));
        (px(30.0 + gap * (order as f64 + 0.5)), 24.0 + LEVEL * level as f64)
    };
    let bottom = 24.0 + LEVEL * levels as f64 + 24.0;
    let height = if outside.is_empty() { bottom } else { bottom + 34.0 };
    let sent = |host: &Host| host.stages.iter().map(|(.., count)| count.bytes).sum::<u64>() as f64;
    let most = run.hosts.iter().map(sent).fold(1.0, f64::max);
    let node = |host: &Host, (x, y): (f64, f64)| {
        let fill = if host.member { "#0072b2" } else { "#999999" };
        let full = format!("{:.2}", 0.12 + 0.5 * sent(host) / most);
        html! {
            circle cx=(x) cy=(y) r="12" style="fill:var(--card)" {}
            circle.node.committee-ring[host.committee] cx=(x) cy=(y) r="12" fill=(fill) fill-opacity=(full) {
                title {
                    "peer " (host.peer) ": " (host.rows) " rows, " (bytes(sent(host))) " sent, "
                    (bytes(host.received as f64)) " received"
                }
            }
            text.mid.ink x=(x) y=(y + 4.0) { (host.peer) }
        }
    };
    let parts = html! {
        @for host in &members {
            @if let Some(parent) = host.parent {
                @let ((x1, y1), (x2, y2)) = (spot(parent), spot(host.peer));
                line.edge x1=(x1) y1=(y1) x2=(x2) y2=(y2) {}
            }
        }
        @for host in &members { (node(host, spot(host.peer))) }
        @if !outside.is_empty() { text x="30" y=(bottom + 16.0) { "not in it:" } }
        @for (i, host) in outside.iter().enumerate() {
            (node(host, (110.0 + 30.0 * i as f64, bottom + 12.0)))
        }
    };
    picture(height, "tree of the last view", parts)
}

/// Places a peer between its children. The first child is on the left, the others are on the right.
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
