//! State machine that a task supplies for one slot. The peer's vector for the slot then comes from an
//! exchange with other members of the view, instead of from its own work alone.
//!
//! The node starts the machine, carries its messages without reading them, and stores its result before
//! the vector made from the result leaves.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::crypto::agreement::SharedKey;
use crate::protocol::context::Context;
use crate::protocol::marks::Marks;
pub use crate::protocol::message::Content;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::Reason;
use crate::protocol::{Input, Machine, Never, Step, Time};
use crate::session::Peer;

/// Part of one peer in the exchange of one slot in one view.
pub trait Exchange: Send {
    /// Returns the other peers of the exchange. The exchange starts when all of them are connected.
    fn peers(&self) -> Vec<Peer>;

    /// Returns each role with its peers, for events and receipts. Empty if the roles were reported
    /// before.
    fn roles(&self) -> Roles;

    /// Takes one input. Messages come only from members of the view.
    fn handle(&mut self, now: Time, input: Input<Vocabulary>) -> Step<Vocabulary>;
}

/// Names of roles, each with its peers.
pub type Roles = Vec<(&'static str, Vec<Peer>)>;

/// Source of a peer's vector for a slot.
pub enum Source {
    /// The peer makes the vector alone ([`super::Task::contribution`]).
    Own,
    /// The vector is made from the result of this exchange
    /// ([`super::Task::contribution_from_exchange`]).
    Exchange(Box<dyn Exchange>),
    /// Other peers exchange. This peer does not take part, and its result is empty.
    Bystander,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "Own",
            Self::Exchange(_) => "Exchange",
            Self::Bystander => "Bystander",
        })
    }
}

/// Inputs of an exchange from the node.
pub struct Seat {
    /// Constants of the node, to sign and to verify.
    pub ctx: Arc<Context>,
    /// View and slot.
    pub sum: SumId,
    /// Members of the view, ascending.
    pub members: Vec<Peer>,
    /// Marks in the promises of the view. All members have the same.
    pub marks: Marks,
    /// Key of the view that this peer shares with each other member.
    pub keys: BTreeMap<Peer, SharedKey>,
    /// 32 fresh secret bytes.
    pub seed: [u8; 32],
    /// Longest silence of a peer that is waited for, in milliseconds.
    pub patience_ms: u64,
    /// Longest duration of the whole exchange, in milliseconds.
    pub longest_ms: u64,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({}, {:?}, <redacted>)", self.ctx.me, self.sum)
    }
}

/// Types that every exchange uses. It has no values and is not a machine itself.
#[derive(Clone, Copy, Debug)]
pub enum Vocabulary {}

impl Machine for Vocabulary {
    crate::protocol::machine_types!(Content, u64, Job => Done, Never, Output);

    fn handle(&mut self, _: Time, _: Input<Self>) -> Step<Self> {
        match *self {}
    }
}

/// Reports of an exchange to the node.
#[derive(Debug)]
pub enum Output {
    /// This peer has done its part. Contains its result in the form that is stored.
    Finished(Bytes),
    /// Signed statements show that one of these peers deviates. A third party can check them.
    Named(Vec<Peer>, Bytes),
    /// The exchange cannot continue, because of this peer if one is named.
    Failed(Reason, Option<Peer>),
}

/// Long work of an exchange.
#[derive(Clone)]
pub struct Job {
    /// Approximate number of additions and multiplications. The simulator's clock uses it.
    pub operations: u64,
    /// True if the job takes no longer than handing it to another thread.
    pub brief: bool,
    run: Arc<dyn Fn() -> Done + Send + Sync>,
}

/// Result of a [`Job`]. It goes to the machine that issued the job.
pub type Done = Arc<dyn Any + Send + Sync>;

impl Job {
    /// Makes a job of `operations` operations.
    #[must_use]
    pub fn new(operations: u64, run: impl Fn() -> Done + Send + Sync + 'static) -> Self {
        Self { operations, brief: false, run: Arc::new(run) }
    }

    /// Carries out the job.
    #[must_use]
    pub fn run(self) -> Done {
        (self.run)()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({} operations)", self.operations)
    }
}
