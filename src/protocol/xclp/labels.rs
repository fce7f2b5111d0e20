//! The second stage: owners give labels as two shares, propagators spread them over the graph that was
//! decided, owners get their rows' scores.
//!
//! Owners of points of the graph who are not in this view count as having no labels (paper, section 5,
//! "Robustness"). A propagator of the graph's view who is not in this one is replaced by a witness that was
//! in nobody's ring, who gets the graph from the other and holds it against the digest that was decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::desk::{Desk, Made, Task};
use super::propagator::{Edges, graph_digest};
use super::{Body, Exchange, Known, Outcome, ParcelKind, Setup, shares};
use crate::model::propagation::graph::Graph;
use crate::model::propagation::series::{LARGEST, Series};
use crate::protocol::{Fault, Step};
use crate::session::Peer;

/// The part of a peer with rows.
pub(super) struct Owner {
    labels: Arc<Vec<Option<u16>>>,
    mask: Zeroizing<[u8; 32]>,
    scores: BTreeMap<Peer, Vec<i128>>,
}

impl Owner {
    /// `mask` is 32 new secret bytes.
    pub(super) fn new(labels: Arc<Vec<Option<u16>>>, mask: [u8; 32]) -> Self {
        Self { labels, mask: Zeroizing::new(mask), scores: BTreeMap::new() }
    }

    pub(super) fn start(&mut self, desk: &mut Desk, step: &mut Step<Exchange>) {
        let [one, two] = desk.setup.roles.propagators;
        desk.tell([two], &Body::Mask(*self.mask), step);
        let labels = shares::masked(&self.labels, desk.setup.classes, &self.mask);
        desk.parcel((one, ParcelKind::Labels, shares::to_bytes(&labels).into()), step);
    }

    pub(super) fn parcel(&mut self, from: Peer, what: ParcelKind, data: &Bytes) -> Result<(), Fault> {
        match what {
            ParcelKind::Scores => drop(self.scores.insert(from, shares::from_bytes(data))),
            _ => return Err(Fault::OutOfOrder("parcel")),
        }
        Ok(())
    }

    /// The scores, when both propagators have sent theirs.
    pub(super) fn outcome(&self, setup: &Setup, known: &Known) -> Option<Result<Outcome, String>> {
        let [one, two] = setup.roles.propagators.map(|peer| self.scores.get(&peer));
        let opened = shares::opened(one?, two?, setup.classes, setup.roles.points());
        let planes = known.before.planes;
        Some(opened.map(|(scores, counts)| Outcome { scores, counts, planes, ..Outcome::default() }))
    }

    /// The peer that this one waits for, and the step.
    pub(super) fn waits(&self, desk: &Desk) -> Option<(u32, Peer)> {
        desk.setup
            .roles
            .propagators
            .into_iter()
            .find(|peer| !self.scores.contains_key(peer))
            .map(|peer| (8, peer))
    }
}

/// The part of a witness who spreads a share of the labels.
#[derive(Default)]
pub(super) struct Propagator {
    graph: Option<Arc<Graph>>,
    labels: BTreeMap<Peer, Vec<i128>>,
    masks: BTreeMap<Peer, [u8; 32]>,
    /// The scores have gone.
    pub(super) finished: bool,
}

impl Propagator {
    /// A propagator that knows the graph makes it ready, and gives it to the other if that one does not.
    pub(super) fn start(desk: &mut Desk, known: &Known, step: &mut Step<Exchange>) {
        let setup = desk.setup.clone();
        if !known.knowers.contains(&setup.me) {
            return;
        }
        let other = setup.roles.other_propagator(setup.me);
        if !known.knowers.contains(&other) {
            desk.parcel((other, ParcelKind::Edges, known.before.edges.clone()), step);
        }
        Self::prepare(desk, known, (setup.me, known.before.edges.clone()), step);
    }

    /// Makes the graph of the edges that `from` has given.
    fn prepare(desk: &Desk, known: &Known, (from, bytes): (Peer, Bytes), step: &mut Step<Exchange>) {
        let (setup, ballot, decided) = (desk.setup.clone(), known.ballot, known.digest);
        desk.compute(64 * bytes.len(), step, move || {
            let points = setup.roles.points();
            let edges = Edges::from_bytes(&bytes, points, setup.bits);
            let edges = edges.filter(|edges| graph_digest(&setup.session, ballot, edges) == decided);
            let wrong = || (from, "the graph that it gives is not the one that was decided".to_owned());
            let graph = edges.map(|edges| Graph::new(points, setup.bits, setup.rule.power, &edges.edges));
            Made::Graph(graph.map(Arc::new).ok_or_else(wrong))
        });
    }

    pub(super) fn mask(&mut self, desk: &Desk, from: Peer, seed: [u8; 32]) -> Result<(), Fault> {
        let second = desk.setup.roles.propagators[1] == desk.setup.me && desk.setup.roles.gives_labels(from);
        if second && self.masks.insert(from, seed).is_none() {
            Ok(())
        } else {
            Err(Fault::OutOfOrder("mask of labels"))
        }
    }

    pub(super) fn parcel(
        &mut self,
        desk: &Desk,
        known: &Known,
        (from, what, data): (Peer, ParcelKind, Bytes),
        step: &mut Step<Exchange>,
    ) -> Result<(), Fault> {
        match what {
            ParcelKind::Labels => {
                let labels = shares::from_bytes(&data);
                if labels.iter().any(|x| x.unsigned_abs() >= LARGEST.unsigned_abs()) {
                    return Err(Fault::Inconsistent("its masked labels are too large".into()));
                }
                self.labels.insert(from, labels);
            }
            ParcelKind::Edges => Self::prepare(desk, known, (from, data), step),
            _ => return Err(Fault::OutOfOrder("parcel")),
        }
        Ok(())
    }

    pub(super) fn made(&mut self, graph: Arc<Graph>) {
        self.graph = Some(graph);
    }

    #[cfg(test)]
    pub(super) fn graph(&self) -> Option<&Graph> {
        self.graph.as_deref()
    }

    pub(super) fn advance(&mut self, desk: &mut Desk, step: &mut Step<Exchange>) {
        let setup = desk.setup.clone();
        let Some(graph) = self.graph.clone() else { return };
        let first = setup.roles.propagators[0] == setup.me;
        let given = if first { self.labels.len() } else { self.masks.len() };
        if given < setup.roles.givers().count() || !desk.first(Task::Propagate) {
            return;
        }
        let (labels, masks) = (std::mem::take(&mut self.labels), std::mem::take(&mut self.masks));
        let steps = Series::new(setup.rule.alpha, setup.rule.tolerance, graph.points());
        desk.compute(steps.steps() * graph.entries() * setup.classes * 4, step, move || {
            let share: Vec<i128> = setup
                .roles
                .owners()
                .flat_map(|owner| {
                    let entries = setup.roles.rows_of(owner) * setup.classes;
                    match (labels.get(&owner), masks.get(&owner)) {
                        (Some(labels), _) => labels.clone(),
                        (None, Some(seed)) => shares::mask(seed, entries),
                        // It is not in this view.
                        (None, None) => vec![0; entries],
                    }
                })
                .collect();
            Made::Scores(scores(&setup, &graph, &steps, &share))
        });
    }

    /// The peer that this one waits for, and the step.
    pub(super) fn waits(&self, desk: &Desk) -> Option<(u32, Peer)> {
        let roles = &desk.setup.roles;
        if self.graph.is_none() {
            return Some((6, roles.other_propagator(desk.setup.me)));
        }
        let has = |owner: &Peer| self.labels.contains_key(owner) || self.masks.contains_key(owner);
        roles.givers().find(|owner| !desk.has_begun(Task::Propagate) && !has(owner)).map(|owner| (7, owner))
    }
}

/// The propagated share, for each owner in this view its rows.
fn scores(setup: &Setup, graph: &Graph, series: &Series, share: &[i128]) -> Vec<(Peer, ParcelKind, Bytes)> {
    let classes = setup.classes;
    let sums: Vec<i128> = (0..classes)
        .map(|class| share.iter().skip(class).step_by(classes).fold(0i128, |sum, x| sum.wrapping_add(*x)))
        .collect();
    let all = series.apply(graph, share, classes);
    let Some(pair) = setup.keys.get(&setup.roles.other_propagator(setup.me)) else {
        return Vec::new();
    };
    let of = |owner: Peer| {
        let first = setup.roles.first_point(owner) * classes;
        let rows = &all[first..][..setup.roles.rows_of(owner) * classes];
        let result = shares::result(pair, setup.sum.ballot, owner, rows, &sums);
        (owner, ParcelKind::Scores, shares::to_bytes(&result).into())
    };
    setup.roles.givers().map(of).collect()
}
