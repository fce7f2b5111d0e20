//! The state that all roles of a peer share: its constants, its parcels, and the way to begin work.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::hamming::{Checked, Got};
use super::parcels::Parcels;
use super::{Body, Edges, Exchange, Message, ParcelKind, Setup};
use crate::model::propagation::graph::Graph;
use crate::protocol::all_reduce::SumId;
use crate::protocol::{Action, Step};
use crate::session::Peer;
use crate::sketch::lsh::Codes;

/// A parcel that work has made.
pub(super) type Parcel = (Peer, ParcelKind, Bytes);

/// Long work of an exchange.
#[derive(Clone)]
pub struct Job {
    /// Additions and multiplications, about.
    pub operations: u64,
    run: Arc<dyn Fn() -> Done + Send + Sync>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Job({} operations)", self.operations)
    }
}

impl Job {
    /// Carries it out.
    #[must_use]
    pub fn run(self) -> Done {
        (self.run)()
    }
}

/// The result of a job.
#[derive(Clone)]
pub struct Done {
    /// The exchange that it is of.
    pub sum: SumId,
    pub(super) made: Made,
}

#[derive(Clone)]
pub(super) enum Made {
    /// This peer's codes, and the distances between its own rows.
    Codes(Arc<Codes>, Arc<Vec<u16>>),
    /// Parcels to be sent, and nothing else.
    Parcels(Vec<Parcel>),
    /// The result of work for the block with another owner, and the parcels to send.
    Pair(Peer, Checked<Got>, Vec<Parcel>),
    /// The distances of a block in custody; `None` if they are none.
    Block((Peer, Peer), Option<Arc<Vec<u16>>>),
    /// The edges of the graph and their digest, or who has sent something wrong.
    Edges(Result<(Arc<Edges>, [u8; 32]), (Peer, String)>),
    /// The graph of the edges that were decided, or who has given others.
    Graph(Result<Arc<Graph>, (Peer, String)>),
    /// Scores for all owners, to be sent.
    Scores(Vec<Parcel>),
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done(<redacted>)")
    }
}

/// Work that is begun once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Encode,
    Limits,
    Combine(Peer, Peer),
    Smallest(Peer),
    Short(Peer),
    Graph,
    Propagate,
}

/// The shared state of the roles.
pub(super) struct Desk {
    pub(super) setup: Arc<Setup>,
    pub(super) parcels: Parcels,
    begun: BTreeSet<Task>,
}

impl Desk {
    pub(super) fn new(setup: Arc<Setup>) -> Self {
        Self { parcels: Parcels::new(setup.sum), setup, begun: BTreeSet::new() }
    }

    /// Whether this is the first time that `task` may be begun.
    pub(super) fn first(&mut self, task: Task) -> bool {
        self.begun.insert(task)
    }

    pub(super) fn has_begun(&self, task: Task) -> bool {
        self.begun.contains(&task)
    }

    pub(super) fn compute(
        &self,
        operations: usize,
        step: &mut Step<Exchange>,
        run: impl Fn() -> Made + Send + Sync + 'static,
    ) {
        let sum = self.setup.sum;
        let job = Job { operations: operations as u64, run: Arc::new(move || Done { sum, made: run() }) };
        step.0.push(Action::Compute(job));
    }

    pub(super) fn parcel(&mut self, (to, what, data): Parcel, step: &mut Step<Exchange>) {
        self.parcels.send(to, what, data, step);
    }

    pub(super) fn tell(&self, peers: impl IntoIterator<Item = Peer>, body: &Body, step: &mut Step<Exchange>) {
        for peer in peers {
            if peer != self.setup.me {
                step.send(peer, Message { sum: self.setup.sum, body: body.clone() });
            }
        }
    }
}
