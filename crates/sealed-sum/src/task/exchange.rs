//! A state machine that a task supplies for one slot, where a peer's vector is not its own work but comes
//! from an exchange with other members of the view.
//!
//! The node starts it, carries its messages unread, and stores its result before the vector made of it
//! leaves.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use crate::protocol::message::Content;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::Reason;
use crate::protocol::{Input, Machine, Never, Step, Time};
use crate::session::Peer;

/// One peer's part in the exchange of one slot in one view.
pub trait Exchange: Send {
    /// The other peers of the exchange. It starts when all of them are connected.
    fn peers(&self) -> Vec<Peer>;

    /// Each role and who has it, for events and receipts; empty where that was said before.
    fn roles(&self) -> Roles;

    /// Takes one input. Messages come from members of the view only.
    fn handle(&mut self, now: Time, input: Input<Vocabulary>) -> Step<Vocabulary>;
}

/// Names of roles, each with its peers.
pub type Roles = Vec<(&'static str, Vec<Peer>)>;

/// How a peer gets its vector for a slot.
pub enum Source {
    /// It makes the vector alone ([`super::Task::contribution`]).
    Own,
    /// The vector follows from this exchange ([`super::Task::contribution_from_exchange`]).
    Exchange(Box<dyn Exchange>),
    /// Others exchange; this peer has no part in it, and its result is empty.
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

/// What the node gives an exchange.
pub struct Seat {
    /// The session's id.
    pub session: [u8; 32],
    /// The view and the slot.
    pub sum: SumId,
    /// This peer.
    pub me: Peer,
    /// The view's members, ascending.
    pub members: Vec<Peer>,
    /// The key of the view that this peer shares with each other member.
    pub keys: BTreeMap<Peer, Arc<[u8; 32]>>,
    /// 32 fresh secret bytes.
    pub seed: [u8; 32],
    /// How long nothing may come from a peer that is waited for, milliseconds.
    pub patience_ms: u64,
    /// How long the whole may last, milliseconds.
    pub longest_ms: u64,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({}, {:?}, <redacted>)", self.me, self.sum)
    }
}

/// The types that every exchange speaks in. No machine of its own: it has no values.
#[derive(Clone, Copy, Debug)]
pub enum Vocabulary {}

impl Machine for Vocabulary {
    type Message = Content;
    type Timer = u64;
    type Job = Job;
    type Done = Done;
    type Record = Never;
    type Output = Output;

    fn handle(&mut self, _: Time, _: Input<Self>) -> Step<Self> {
        match *self {}
    }
}

/// What an exchange tells the node.
#[derive(Debug)]
pub enum Output {
    /// This peer has done its part; its result, as it is stored.
    Finished(Bytes),
    /// The exchange cannot go on, because of this peer if one is named.
    Failed(Reason, Option<Peer>),
}

/// Long work of an exchange.
#[derive(Clone)]
pub struct Job {
    /// Additions and multiplications, about; the simulator's clock goes by them.
    pub operations: u64,
    /// Whether it takes no longer than to hand it to another thread.
    pub brief: bool,
    run: Arc<dyn Fn() -> Done + Send + Sync>,
}

/// The result of a [`Job`], for the machine that gave it.
pub type Done = Arc<dyn Any + Send + Sync>;

impl Job {
    /// Work of so many operations.
    #[must_use]
    pub fn new(operations: u64, run: impl Fn() -> Done + Send + Sync + 'static) -> Self {
        Self { operations, brief: false, run: Arc::new(run) }
    }

    /// Carries it out.
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
