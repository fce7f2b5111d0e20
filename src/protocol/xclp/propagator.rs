//! The part of the two witnesses who know the graph and propagate a share of the labels each.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::Digest;

use super::custody::Blinding;
use super::desk::{Desk, Made, Task};
use super::{Body, Exchange, Setup, What, shares};
use crate::crypto::tagged_hash;
use crate::model::propagation::graph::{Edge, Graph, nearest};
use crate::model::propagation::series::{LARGEST, Series};
use crate::protocol::ballot::Ballot;
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Step};
use crate::session::Peer;

/// Bytes of a short distance.
pub(super) const SHORT: usize = 12;

/// A sender and what it has sent of the named owner's rows.
type Sent = ((Peer, Peer), Bytes);

#[derive(Default)]
pub(super) struct Propagator {
    keys: BTreeMap<Peer, Vec<(Peer, [u8; 32])>>,
    /// By owner of the rows and sender.
    short: BTreeMap<(Peer, Peer), Bytes>,
    graph: Option<(Arc<Graph>, [u8; 32])>,
    theirs: Option<[u8; 32]>,
    labels: BTreeMap<Peer, Vec<i128>>,
    masks: BTreeMap<Peer, [u8; 32]>,
    /// The scores have gone.
    pub(super) finished: bool,
}

impl Propagator {
    pub(super) fn keys(&mut self, desk: &Desk, from: Peer, keys: Vec<(Peer, [u8; 32])>) -> Result<(), Fault> {
        let roles = &desk.setup.roles;
        let expected = roles.owners().filter(|&other| other != from);
        let right = roles.rows.contains_key(&from) && keys.iter().map(|(peer, _)| *peer).eq(expected);
        if right && self.keys.insert(from, keys).is_none() { Ok(()) } else { Err(Fault::OutOfOrder("blinding keys")) }
    }

    pub(super) fn mask(&mut self, desk: &Desk, from: Peer, seed: [u8; 32]) -> Result<(), Fault> {
        let second = desk.setup.roles.propagators[1] == desk.setup.me && desk.setup.roles.rows.contains_key(&from);
        if second && self.masks.insert(from, seed).is_none() {
            Ok(())
        } else {
            Err(Fault::OutOfOrder("mask of labels"))
        }
    }

    pub(super) fn theirs(&mut self, desk: &Desk, from: Peer, digest: [u8; 32]) -> Result<(), Fault> {
        if !desk.setup.roles.propagators.contains(&from) || self.theirs.replace(digest).is_some() {
            return Err(Fault::OutOfOrder("digest of the graph"));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref().map(|(graph, _)| &**graph)
    }

    pub(super) fn parcel(&mut self, from: Peer, what: What, data: Bytes) -> Result<(), Fault> {
        match what {
            What::Short(owner) => drop(self.short.insert((owner, from), data)),
            What::Labels => {
                let labels = shares::from_bytes(&data);
                if labels.iter().any(|x| x.unsigned_abs() >= LARGEST.unsigned_abs()) {
                    return Err(Fault::Inconsistent("its masked labels are too large".into()));
                }
                self.labels.insert(from, labels);
            }
            _ => return Err(Fault::OutOfOrder("parcel")),
        }
        Ok(())
    }

    pub(super) fn made(&mut self, desk: &Desk, graph: Arc<Graph>, digest: [u8; 32], step: &mut Step<Exchange>) {
        self.graph = Some((graph, digest));
        desk.tell(desk.setup.roles.propagators, &Body::Graph(digest), step);
    }

    pub(super) fn advance(&mut self, desk: &mut Desk, step: &mut Step<Exchange>) -> Result<(), Reason> {
        let setup = desk.setup.clone();
        let owners = setup.roles.rows.len();
        let senders: usize = setup.roles.owners().map(|owner| 1 + setup.roles.custodians_of(owner).len()).sum();
        if self.keys.len() == owners && self.short.len() == senders && desk.first(Task::Graph) {
            let (keys, short) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.short));
            let setup = setup.clone();
            let work = short.values().map(|bytes| bytes.len()).sum::<usize>() + setup.roles.points();
            desk.compute(work * 64, step, move || {
                Made::Graph(edges(&setup, &keys, short.iter().map(|(who, bytes)| (*who, bytes.clone()))).map(|edges| {
                    let graph = Graph::new(setup.roles.points(), setup.bits, setup.rule.power, &edges);
                    (Arc::new(graph), graph_digest(&setup.session, setup.ballot, &edges))
                }))
            });
        }
        let (Some((graph, digest)), Some(theirs)) = (&self.graph, &self.theirs) else { return Ok(()) };
        if digest != theirs {
            return Err(Reason::Disagreement);
        }
        let first = setup.roles.propagators[0] == setup.me;
        let ready = if first { self.labels.len() } else { self.masks.len() } == owners;
        if ready && desk.first(Task::Propagate) {
            let graph = graph.clone();
            let (labels, masks) = (std::mem::take(&mut self.labels), std::mem::take(&mut self.masks));
            let steps = Series::new(setup.rule.alpha, setup.rule.tolerance, graph.points());
            desk.compute(steps.steps() * graph.entries() * setup.classes * 4, step, move || {
                let share: Vec<i128> = setup
                    .roles
                    .owners()
                    .flat_map(|owner| match (labels.get(&owner), masks.get(&owner)) {
                        (Some(labels), _) => labels.clone(),
                        (None, Some(seed)) => shares::mask(seed, setup.roles.rows_of(owner) * setup.classes),
                        (None, None) => Vec::new(),
                    })
                    .collect();
                Made::Scores(scores(&setup, &graph, &steps, &share))
            });
        }
        Ok(())
    }

    /// Whom this peer waits for, and at which step.
    pub(super) fn waits(&self, desk: &Desk) -> Option<(u32, Peer)> {
        let roles = &desk.setup.roles;
        if !desk.has_begun(Task::Graph) {
            let missing = roles.owners().find(|owner| !self.keys.contains_key(owner)).map(|owner| (6, owner));
            return missing.or_else(|| {
                roles.owners().find_map(|owner| {
                    let mut senders = roles.custodians_of(owner).into_iter().chain([owner]);
                    senders.find(|&from| !self.short.contains_key(&(owner, from))).map(|from| (6, from))
                })
            });
        }
        let [one, two] = roles.propagators;
        let other = if one == desk.setup.me { two } else { one };
        if self.graph.is_some() && self.theirs.is_none() {
            return Some((7, other));
        }
        let has = |owner: &Peer| self.labels.contains_key(owner) || self.masks.contains_key(owner);
        roles.owners().find(|owner| !desk.has_begun(Task::Propagate) && !has(owner)).map(|owner| (7, owner))
    }
}

/// The edges of the graph, ascending, or who has sent something that is none.
fn edges(
    setup: &Setup,
    keys: &BTreeMap<Peer, Vec<(Peer, [u8; 32])>>,
    sent: impl Iterator<Item = Sent>,
) -> Result<Vec<Edge>, (Peer, String)> {
    let roles = &setup.roles;
    // Below 2^16 points in all.
    let mut near: Vec<Vec<(u16, u32)>> = vec![Vec::new(); roles.points()];
    for ((owner, from), bytes) in sent {
        let wrong = |text: String| (from, format!("short distances of {owner}: {text}"));
        let keys: BTreeMap<Peer, [u8; 32]> = keys.get(&owner).into_iter().flatten().copied().collect();
        let mut last = None;
        let mut columns: Option<(Peer, u32, Vec<u32>)> = None;
        let mut all: Vec<(u32, Peer, u32, u16)> = Vec::new();
        for each in bytes.as_chunks::<SHORT>().0 {
            let [a, b, r0, r1, r2, r3, p0, p1, p2, p3, d0, d1] = *each;
            let other = Peer(u16::from_le_bytes([a, b]));
            let (row, place) = (u32::from_le_bytes([r0, r1, r2, r3]), u32::from_le_bytes([p0, p1, p2, p3]));
            let distance = u16::from_le_bytes([d0, d1]);
            let whose = if from == owner {
                other == owner
            } else {
                other != owner && roles.rows.contains_key(&other) && roles.custodian(owner, other) == from
            };
            if !whose {
                return Err(wrong(format!("not its block: {other}")));
            }
            if row as usize >= roles.rows_of(owner) || place as usize >= roles.rows_of(other) {
                return Err(wrong(format!("row {row}, place {place} of {other} are out of range")));
            }
            if 2 * usize::from(distance) >= setup.bits || (from == owner && row == place) {
                return Err(wrong(format!("a distance of {distance} at row {row} is no edge")));
            }
            if last.replace((other, row, place)).is_some_and(|last| last >= (other, row, place)) {
                return Err(wrong("not in order".into()));
            }
            all.push((row, other, place, distance));
        }
        for (row, other, place, distance) in all {
            let column = match keys.get(&other) {
                None => place,
                Some(&key) => {
                    if columns.as_ref().is_none_or(|(peer, known, _)| (*peer, *known) != (other, row)) {
                        let blinding = Blinding::from_key(key, roles.rows_of(other));
                        columns = Some((other, row, blinding.columns(row)));
                    }
                    columns.as_ref().map_or(place, |(_, _, columns)| columns[place as usize])
                }
            };
            let to = roles.first_point(other) as u32 + column;
            near[roles.first_point(owner) + row as usize].push((distance, to));
        }
    }
    let edges = near.into_iter().enumerate().flat_map(|(from, points)| {
        let nearest = nearest(points, setup.rule.k, setup.bits);
        nearest.into_iter().map(move |(distance, to)| Edge { from: from as u32, to, distance })
    });
    Ok(edges.collect())
}

/// What the propagators compare: session, view, and the edges in order, each LE u32 from, LE u32 to, LE u16 distance.
#[must_use]
pub fn graph_digest(session: &[u8; 32], ballot: Ballot, edges: &[Edge]) -> [u8; 32] {
    let start = tagged_hash("graph of points").chain_update(session).chain_update(ballot.to_bytes());
    edges
        .iter()
        .fold(start, |hash, edge| {
            hash.chain_update(edge.from.to_le_bytes())
                .chain_update(edge.to.to_le_bytes())
                .chain_update(edge.distance.to_le_bytes())
        })
        .finalize()
        .into()
}

/// The propagated share, for each owner its rows.
fn scores(setup: &Setup, graph: &Graph, series: &Series, share: &[i128]) -> Vec<(Peer, What, Bytes)> {
    let classes = setup.classes;
    let sums: Vec<i128> = (0..classes)
        .map(|class| share.iter().skip(class).step_by(classes).fold(0i128, |sum, x| sum.wrapping_add(*x)))
        .collect();
    let all = series.apply(graph, share, classes);
    let other = setup.roles.propagators.iter().find(|&&peer| peer != setup.me);
    let Some(pair) = other.and_then(|peer| setup.keys.get(peer)) else {
        return Vec::new();
    };
    let of = |owner: Peer| {
        let first = setup.roles.first_point(owner) * classes;
        let rows = &all[first..][..setup.roles.rows_of(owner) * classes];
        let result = shares::result(pair, setup.ballot, owner, rows, &sums);
        (owner, What::Scores, shares::to_bytes(&result).into())
    };
    setup.roles.owners().map(of).collect()
}
