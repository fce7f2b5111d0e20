//! Protocols as sans-IO machines.
//!
//! A machine receives the time and one [`Input`], and answers with a [`Step`]: the list of [`Action`]s
//! that its driver must carry out in order. It has no clock and no socket, and its only source of
//! randomness is the seed that it was made with. So `net` and `sim` drive the very same code. Long work
//! leaves as `Compute` and comes back as `Done`. Data that must survive a crash leaves as `Persist`, and
//! is on disk before any later action of the step is carried out.
//!
//! Three kinds of errors are kept apart: a wrong call by this program is an `Err`, a peer's breach of a
//! rule is `Blame`, and an impossible state is `unreachable!("BUG: ...")`.

pub mod about;
pub mod all_reduce;
pub mod ballot;
pub mod committee;
pub mod context;
pub(crate) mod convergecast;
pub mod deal;
pub mod failure;
pub mod marks;
pub mod members;
pub mod memo;
pub mod message;
pub mod pairwise;
pub mod promise;
pub mod record;
pub mod signed;
pub mod sparse;
pub mod sum_id;
pub mod transfer;
pub mod tree;
pub mod view;
pub mod wire;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::session::Peer;
use sum_id::SumId;

/// Microseconds since the start of the driver's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Returns the time `ms` milliseconds later.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Returns the milliseconds from `earlier` to this time, or 0 if `earlier` is not earlier.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }
}

/// Breach of a checkable rule by a peer. The text is part of the line that the user sees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A frame that does not decode.
    #[error("malformed frame: {0}")]
    Malformed(String),
    /// A message that its sender may not send at all, or not now.
    #[error("{0} out of order")]
    OutOfOrder(&'static str),
    /// A message whose peer, slot, size or member list contradicts the session.
    #[error("{0}")]
    Inconsistent(String),
    /// A signature that does not verify.
    #[error("bad signature on {0}")]
    BadSignature(&'static str),
    /// Released shares that are not those that were dealt.
    #[error("released shares that are not those that were dealt")]
    BadShare,
    /// A deal that some committee member cannot open, or whose shares do not belong to one secret.
    #[error("dealt bad shares of a pad")]
    BadDeal,
    /// Two acknowledgements for one slot in one ballot, both signed by the same committee member.
    #[error("acknowledged two values for one slot in one view")]
    TwoValues,
    /// A public key of low order.
    #[error("public key of low order")]
    LowOrderKey,
    /// A transferred total or record that does not verify.
    #[error("transferred record does not verify: {0}")]
    BadRecord(String),
    /// A frame that breaks a rule of the transport.
    #[error("{0}")]
    Transport(String),
}

/// Serialized as text, because the text of a fault is for people.
impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// State machine without its own clock, socket or disk.
pub trait Machine {
    /// Messages between peers.
    type Message;
    /// Timers.
    type Timer;
    /// Long work.
    type Job;
    /// Result of a [`Machine::Job`].
    type Done;
    /// Records that must be on disk before the actions after them are carried out.
    type Record;
    /// Reports to the parent or driver.
    type Output;

    /// Takes one input at time `now`.
    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self>;
}

/// Declares the types of a [`Machine`] in their order.
macro_rules! machine_types {
    ($message:ty, $timer:ty, $job:ty => $done:ty, $record:ty, $output:ty) => {
        type Message = $message;
        type Timer = $timer;
        type Job = $job;
        type Done = $done;
        type Record = $record;
        type Output = $output;
    };
}
pub(crate) use machine_types;

/// Input of a machine.
#[derive(Debug)]
pub enum Input<M: Machine + ?Sized> {
    /// The first input.
    Start,
    /// A connection to a peer of the roster is established in both directions.
    PeerUp(Peer),
    /// The last connection to the peer is gone. Every message that was not delivered is lost.
    PeerLost(Peer),
    /// A message from an authenticated peer.
    Message {
        /// The other end of the connection.
        from: Peer,
        /// The message.
        message: M::Message,
    },
    /// A timer that was set earlier has expired.
    Timer(M::Timer),
    /// A job has been carried out.
    Done(M::Done),
}

/// Action that a machine asks for.
#[derive(Debug)]
pub enum Action<M: Machine + ?Sized> {
    /// Send to a connected peer. The message is dropped if the connection is gone.
    Send {
        /// The receiver.
        to: Peer,
        /// The message.
        message: M::Message,
    },
    /// Return `timer` to the machine at `at` or soon after.
    SetTimer {
        /// The time.
        at: Time,
        /// The timer.
        timer: M::Timer,
    },
    /// Carry out the job outside the machine, and return its result.
    Compute(M::Job),
    /// Write the record to stable storage before any later action.
    Persist(M::Record),
    /// Begin to write bytes that a later record will hold. A driver may ignore this, and then writes
    /// them later.
    WriteEarly(EarlyWrite),
    /// Report to the parent or the user.
    Output(M::Output),
    /// A peer broke a rule.
    Blame {
        /// The peer.
        peer: Peer,
        /// The rule.
        fault: Fault,
    },
}

/// Part of a sealed total that is written as it arrives, long before the record with the total is
/// persisted.
#[derive(Clone, Debug)]
pub enum EarlyWrite {
    /// Bytes of the total of a sum, from this offset. They make any other unfinished sum unnecessary.
    /// Offset 0 restarts the total of this sum.
    Chunk(SumId, usize, Bytes),
    /// The end of the total, with its digest.
    End(SumId, [u8; 32]),
}

/// Actions of one call, in order.
#[must_use]
pub struct Step<M: Machine + ?Sized>(pub Vec<Action<M>>);

impl<M: Machine + ?Sized> std::fmt::Debug for Step<M>
where
    Action<M>: std::fmt::Debug,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<M: Machine + ?Sized> Default for Step<M> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Machine that wraps the actions of a child. It handles the child's outputs itself and passes all other
/// actions to the driver.
pub trait Parent<C: Machine>: Machine {
    /// Wraps a child's message.
    fn message(message: C::Message) -> Self::Message;
    /// Wraps a child's timer.
    fn timer(timer: C::Timer) -> Self::Timer;
    /// Wraps a child's job.
    fn job(job: C::Job) -> Self::Job;
    /// Wraps a child's record.
    fn record(record: C::Record) -> Self::Record;
}

/// Type without values, for machines that set no timers, compute nothing or store nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {}

impl<M: Machine> Step<M> {
    /// Returns an empty step.
    pub fn none() -> Self {
        Self::default()
    }

    /// Appends a `Send`.
    pub fn send(&mut self, to: Peer, message: M::Message) {
        self.0.push(Action::Send { to, message });
    }

    /// Appends an `Output`.
    pub fn output(&mut self, output: M::Output) {
        self.0.push(Action::Output(output));
    }

    /// Appends a `Blame`.
    pub fn blame(&mut self, peer: Peer, fault: Fault) {
        self.0.push(Action::Blame { peer, fault });
    }

    /// Wraps and takes over a child's actions, and returns the child's outputs.
    #[must_use]
    pub fn lift<C: Machine>(&mut self, child: Step<C>) -> Vec<C::Output>
    where
        M: Parent<C>,
    {
        let mut outputs = Vec::new();
        for action in child.0 {
            self.0.push(match action {
                Action::Send { to, message } => Action::Send { to, message: M::message(message) },
                Action::SetTimer { at, timer } => Action::SetTimer { at, timer: M::timer(timer) },
                Action::Compute(job) => Action::Compute(M::job(job)),
                Action::Persist(record) => Action::Persist(M::record(record)),
                Action::WriteEarly(ahead) => Action::WriteEarly(ahead),
                Action::Blame { peer, fault } => Action::Blame { peer, fault },
                Action::Output(output) => {
                    outputs.push(output);
                    continue;
                }
            });
        }
        outputs
    }
}
