//! The part of the two witnesses that put the graph together, and their knowledge of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::Digest;

use super::custody::Blinding;
use super::desk::{Desk, Made, Task};
use super::{Body, Exchange, ParcelKind, Setup};
use crate::crypto::stream::derive;
use crate::crypto::tagged_hash;
use crate::model::propagation::graph::{Edge, nearest};
use crate::protocol::ballot::Ballot;
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Step};
use crate::session::Peer;

/// Bytes of a short distance.
pub(super) const SHORT: usize = 12;
/// Bytes of an edge as it travels and is kept.
pub(super) const EDGE: usize = 10;

/// A sender and what it has sent of the named owner's rows.
type Sent = ((Peer, Peer), Bytes);

/// The graph as those know it who made it: its edges, ascending by (from, distance, to), and a salt that
/// nobody else knows, without which its digest, which everybody knows, would let others try out what the
/// edges are.
#[derive(Clone, PartialEq, Eq)]
pub struct Edges {
    /// Drawn from the key of the two propagators of its view.
    pub salt: [u8; 32],
    /// See the type.
    pub edges: Vec<Edge>,
}

impl std::fmt::Debug for Edges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edges({}, <redacted>)", self.edges.len())
    }
}

impl Edges {
    /// The salt of a view's graph, from the key that its propagators share.
    #[must_use]
    pub fn salt(pair: &[u8; 32], ballot: Ballot) -> [u8; 32] {
        *derive(pair, "graph", &ballot.to_bytes())
    }

    /// The salt, then of each edge LE u32 from, LE u32 to, LE u16 distance.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = self.salt.to_vec();
        for edge in &self.edges {
            out.extend(edge.from.to_le_bytes());
            out.extend(edge.to.to_le_bytes());
            out.extend(edge.distance.to_le_bytes());
        }
        out.into()
    }

    /// As [`to_bytes`](Self::to_bytes) makes it, of a graph of so many points and bits; `None` if it is none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], points: usize, bits: usize) -> Option<Self> {
        let (salt, rest) = bytes.split_first_chunk::<32>()?;
        let (all, rest) = rest.as_chunks::<EDGE>();
        let edge = |&[f0, f1, f2, f3, t0, t1, t2, t3, d0, d1]: &[u8; EDGE]| Edge {
            from: u32::from_le_bytes([f0, f1, f2, f3]),
            to: u32::from_le_bytes([t0, t1, t2, t3]),
            distance: u16::from_le_bytes([d0, d1]),
        };
        let edges: Vec<Edge> = all.iter().map(edge).collect();
        let sound = |edge: &Edge| {
            (edge.from.max(edge.to) as usize) < points
                && edge.from != edge.to
                && 2 * usize::from(edge.distance) < bits
        };
        (rest.is_empty() && edges.iter().all(sound)).then_some(Self { salt: *salt, edges })
    }
}

#[derive(Default)]
pub(super) struct Propagator {
    keys: BTreeMap<Peer, Vec<(Peer, [u8; 32])>>,
    /// By owner of the rows and sender.
    short: BTreeMap<(Peer, Peer), Bytes>,
    edges: Option<(Arc<Edges>, [u8; 32])>,
    theirs: Option<[u8; 32]>,
}

impl Propagator {
    pub(super) fn keys(&mut self, desk: &Desk, from: Peer, keys: Vec<(Peer, [u8; 32])>) -> Result<(), Fault> {
        let roles = &desk.setup.roles;
        let expected = roles.owners().filter(|&other| other != from);
        let right = roles.rows.contains_key(&from) && keys.iter().map(|(peer, _)| *peer).eq(expected);
        if right && self.keys.insert(from, keys).is_none() {
            Ok(())
        } else {
            Err(Fault::OutOfOrder("blinding keys"))
        }
    }

    pub(super) fn theirs(&mut self, desk: &Desk, from: Peer, digest: [u8; 32]) -> Result<(), Fault> {
        if !desk.setup.roles.propagators.contains(&from) || self.theirs.replace(digest).is_some() {
            return Err(Fault::OutOfOrder("digest of the graph"));
        }
        Ok(())
    }

    pub(super) fn parcel(&mut self, from: Peer, what: ParcelKind, data: Bytes) -> Result<(), Fault> {
        match what {
            ParcelKind::Short(owner) => drop(self.short.insert((owner, from), data)),
            _ => return Err(Fault::OutOfOrder("parcel")),
        }
        Ok(())
    }

    pub(super) fn made(
        &mut self,
        desk: &Desk,
        edges: Arc<Edges>,
        digest: [u8; 32],
        step: &mut Step<Exchange>,
    ) {
        self.edges = Some((edges, digest));
        desk.tell(desk.setup.roles.propagators, &Body::Graph(digest), step);
    }

    pub(super) fn advance(&mut self, desk: &mut Desk, step: &mut Step<Exchange>) -> Result<(), Reason> {
        let setup = desk.setup.clone();
        let owners = setup.roles.rows.len();
        let senders: usize =
            setup.roles.owners().map(|owner| 1 + setup.roles.custodians_of(owner).len()).sum();
        if self.keys.len() == owners && self.short.len() == senders && desk.first(Task::Graph) {
            let (keys, short) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.short));
            let work = short.values().map(|bytes| bytes.len()).sum::<usize>() + setup.roles.points();
            desk.compute(work * 64, step, move || {
                Made::Edges(edges(&setup, &keys, short.iter().map(|(who, bytes)| (*who, bytes.clone()))).map(
                    |edges| {
                        let pair = setup.roles.propagators.iter().find_map(|peer| setup.keys.get(peer));
                        let salt = pair.map_or([0; 32], |pair| Edges::salt(pair, setup.sum.ballot));
                        let edges = Edges { salt, edges };
                        let digest = graph_digest(&setup.session, setup.sum.ballot, &edges);
                        (Arc::new(edges), digest)
                    },
                ))
            });
        }
        match (&self.edges, &self.theirs) {
            (Some((_, digest)), Some(theirs)) if digest != theirs => Err(Reason::Disagreement),
            _ => Ok(()),
        }
    }

    /// The graph that both have found, and its digest.
    pub(super) fn finished(&self) -> Option<(&Edges, &[u8; 32])> {
        let (edges, digest) = self.edges.as_ref()?;
        (self.theirs.as_ref() == Some(digest)).then_some((edges, digest))
    }

    /// The peer that this one waits for, and the step.
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
        (self.edges.is_some() && self.theirs.is_none()).then_some((7, roles.other_propagator(desk.setup.me)))
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

/// The digest that the propagators compare, and that is decided with the sum of the slot: session, view, and
/// [`Edges`] as they are kept.
#[must_use]
pub fn graph_digest(session: &[u8; 32], ballot: Ballot, edges: &Edges) -> [u8; 32] {
    let start = tagged_hash("graph of points").chain_update(session).chain_update(ballot.to_bytes());
    start.chain_update(edges.to_bytes()).finalize().into()
}
