//! What each peer was sent in a run, put together, and the runs that the audit looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;
use std::sync::{Arc, LazyLock};

use super::super::{Net, pass};
use super::attacks::{Row, unit};
use crate::crypto::stream::Stream;
use crate::data::deal::shuffle;
use crate::data::digits::digits;
use crate::model::propagation::Propagation;
use crate::model::propagation::graph::WEIGHT_BITS;
use crate::protocol::xclp::roles::Roles;
use crate::protocol::xclp::{Body, Outcome, ParcelKind, Rows, dealer};
use crate::session::{Hamming, Peer};
use crate::sketch::lsh::Codes;

pub(super) const BITS: usize = 4096;
pub(super) const CLASSES: usize = 10;
pub(super) const RULE: Propagation =
    Propagation { k: 5, alpha: 0.99, power: 1, balance: false, tolerance: 1e-5 };
/// Rows of each owner.
pub(super) const ROWS: usize = 100;
pub(super) const OWNERS: u16 = 5;
/// Of so many rows one has a label.
const EVERY: usize = 3;

/// One run and what was seen in it.
pub(super) struct Run {
    pub(super) hamming: Hamming,
    pub(super) roles: Roles,
    pub(super) rows: BTreeMap<Peer, Rows>,
    /// The kinds of messages that a peer was sent, and by whom.
    pub(super) kinds: BTreeMap<Peer, BTreeSet<(&'static str, Peer)>>,
    /// (receiver, sender, parcel).
    pub(super) parcels: BTreeMap<(Peer, Peer, ParcelKind), Vec<u8>>,
    /// The seeds that owners sent the second propagator.
    pub(super) masks: BTreeMap<Peer, [u8; 32]>,
    pub(super) outcomes: BTreeMap<Peer, Outcome>,
    /// N of all points, as the propagators have it.
    pub(super) graph: Vec<Row>,
}

/// Five owners and two witnesses, the same session's coin in each of ten views: the same roles and the same
/// order of the rows, fresh planes, triples and keys.
pub(super) static VIEWS: LazyLock<Vec<Run>> =
    LazyLock::new(|| (1..=10).map(|seed| Run::of(rows(), OWNERS + 2, [3, seed])).collect());

/// Rows of digits in an order of no meaning, [`ROWS`] for each owner.
pub(super) fn rows() -> BTreeMap<Peer, Rows> {
    let order = order();
    let data = digits();
    let of = |peer: u16| {
        let data = data.subset(&order[usize::from(peer) * ROWS..][..ROWS]);
        let labels =
            data.labels().iter().enumerate().map(|(i, &label)| (i % EVERY == 0).then_some(label)).collect();
        (Peer(peer), Rows { data: Arc::new(data), labels: Arc::new(labels) })
    };
    (0..OWNERS).map(of).collect()
}

/// As many rows that nobody has.
pub(super) fn public() -> Vec<Row> {
    let data = digits().subset(&order()[usize::from(OWNERS) * ROWS..][..ROWS]);
    (0..ROWS).map(|i| direction(data.row(i))).collect()
}

fn order() -> Vec<usize> {
    let mut order: Vec<usize> = (0..digits().rows()).collect();
    shuffle(&mut order, &mut Stream::new(b"audit", "test", b"rows"));
    order
}

/// Codes tell a row's direction and nothing of its length.
pub(super) fn direction(row: &[f32]) -> Row {
    unit(&row.iter().map(|&x| f64::from(x)).collect::<Row>())
}

/// The cosine that a distance stands for.
pub(super) fn cosine_of(distance: u16) -> f64 {
    (PI * f64::from(distance) / BITS as f64).cos()
}

impl Run {
    /// A whole exchange in memory, every message recorded.
    pub(super) fn of(rows: BTreeMap<Peer, Rows>, members: u16, seeds: [u8; 2]) -> Self {
        Self::by(Hamming::Dealer, rows, members, seeds)
    }

    /// The same, with shares of distances by any backend.
    pub(super) fn by(hamming: Hamming, rows: BTreeMap<Peer, Rows>, members: u16, seeds: [u8; 2]) -> Self {
        let mut net = Net::with(rows, members, RULE, (BITS, hamming), seeds);
        net.run(&mut pass);
        assert!(net.failed.is_empty() && net.blamed.is_empty(), "{:?} {:?}", net.failed, net.blamed);
        let mut kinds: BTreeMap<Peer, BTreeSet<_>> = BTreeMap::new();
        let mut parcels: BTreeMap<_, Vec<u8>> = BTreeMap::new();
        let mut masks = BTreeMap::new();
        for (to, from, body) in &net.seen {
            kinds.entry(*to).or_default().insert((kind(body), *from));
            match body {
                Body::Part { what, data, .. } => parcels.entry((*to, *from, *what)).or_default().extend(data),
                Body::Mask(seed) => drop(masks.insert(*from, *seed)),
                _ => {}
            }
        }
        let n = net.roles.points();
        let mut graph = vec![vec![0.0; n]; n];
        if let Some(known) = net.peers.get(&net.roles.propagators[0]).and_then(|peer| peer.graph()) {
            for (i, row) in graph.iter_mut().enumerate() {
                let weight = |weight: u64| weight as f64 / (1u64 << WEIGHT_BITS) as f64;
                known.row(i).iter().for_each(|&(j, w)| row[j as usize] = weight(w));
            }
        }
        Self {
            hamming,
            roles: net.roles,
            rows: net.rows,
            kinds,
            parcels,
            masks,
            outcomes: net.outcomes,
            graph,
        }
    }

    /// Directions of a peer's rows.
    pub(super) fn rows_of(&self, peer: Peer) -> Vec<Row> {
        let data = &self.rows[&peer].data;
        (0..data.rows()).map(|i| direction(data.row(i))).collect()
    }

    /// Directions of all points.
    pub(super) fn points(&self) -> Vec<Row> {
        self.roles.owners().flat_map(|owner| self.rows_of(owner)).collect()
    }

    /// Of all points the class of the label, where there is one.
    pub(super) fn labels(&self) -> Vec<Option<u16>> {
        self.rows.values().flat_map(|rows| rows.labels.iter().copied()).collect()
    }

    /// A peer's points among all.
    pub(super) fn range(&self, peer: Peer) -> std::ops::Range<usize> {
        let first = self.roles.first_point(peer);
        first..first + self.roles.rows_of(peer)
    }

    /// Points that are the neighbours of most others, a tenth of all.
    pub(super) fn hubs(&self) -> BTreeSet<usize> {
        let degree = |i: usize| self.graph[i].iter().filter(|weight| **weight > 0.0).count();
        let mut order: Vec<usize> = (0..self.graph.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(degree(i)), i));
        order.into_iter().take(self.graph.len() / 10).collect()
    }

    /// The codes of a peer's rows under this run's planes, which owners know.
    pub(super) fn codes(&self, peer: Peer) -> Codes {
        Codes::of(&self.rows[&peer].data, &self.outcomes[&peer].planes, BITS).unwrap()
    }

    /// All distances between the rows of two peers, by a row of the first: what nobody sees.
    pub(super) fn distances(&self, one: Peer, other: Peer) -> Vec<Vec<u16>> {
        let width = self.roles.rows_of(other);
        self.codes(one).distances(&self.codes(other)).chunks(width).map(<[u16]>::to_vec).collect()
    }

    /// What a custodian got of a block: for each row of the owner its distances, in an order of their own.
    /// From the two shares that it was sent.
    pub(super) fn block(&self, custodian: Peer, owner: Peer, other: Peer) -> Vec<Vec<u16>> {
        let share = |from: Peer| {
            dealer::from_bytes(&self.parcels[&(custodian, from, ParcelKind::Share(owner, other))])
        };
        let sums: Vec<u16> = share(owner).iter().zip(share(other)).map(|(a, b)| a.wrapping_add(b)).collect();
        sums.chunks(self.roles.rows_of(other)).map(<[u16]>::to_vec).collect()
    }

    /// What a custodian was told to be the limits of an owner's rows.
    pub(super) fn limits(&self, custodian: Peer, owner: Peer) -> Vec<u16> {
        dealer::from_bytes(&self.parcels[&(custodian, owner, ParcelKind::Limits)])
    }
}

/// A message's kind, by the name of the parcel.
fn kind(body: &Body) -> &'static str {
    match body {
        Body::Commit(_) => "Commit",
        Body::Reveal(_) => "Reveal",
        Body::Keys(_) => "Keys",
        Body::Mask(_) => "Mask",
        Body::Graph(_) => "Graph",
        Body::Credit => "Credit",
        Body::Working => "Working",
        Body::Part { what, .. } => match what {
            ParcelKind::Triple(_) => "Triple",
            ParcelKind::Dealt(_) => "Dealt",
            ParcelKind::Hidden => "Hidden",
            ParcelKind::Base => "Base",
            ParcelKind::Choices => "Choices",
            ParcelKind::Columns(_) => "Columns",
            ParcelKind::Strings(_) => "Strings",
            ParcelKind::Key => "Key",
            ParcelKind::Ciphertext(_) => "Ciphertext",
            ParcelKind::Answer(_) => "Answer",
            ParcelKind::Share(..) => "Share",
            ParcelKind::Smallest => "Smallest",
            ParcelKind::Limits => "Limits",
            ParcelKind::Short(_) => "Short",
            ParcelKind::Edges => "Edges",
            ParcelKind::Labels => "Labels",
            ParcelKind::Scores => "Scores",
        },
    }
}
