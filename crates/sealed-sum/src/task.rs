//! What a node knows of what it computes: the trait [`Task`], and what it gets and gives.

pub mod exchange;
mod history;
mod outcome;

use std::fmt::Debug;

use bytes::Bytes;
use serde_json::{Map, Value};

pub use history::History;
pub use outcome::Outcome;

use crate::protocol::context::Aggregate;
use crate::protocol::view::Rng;
use crate::session::Peer;
use exchange::{Seat, Source};

/// A task: aggregates that are summed and opened one after another, each of which may depend on those before
/// it.
///
/// The text of an error of [`Task::contribution`], [`Task::noisy_contribution`], [`Task::exchange`] and
/// [`Task::contribution_from_exchange`] ends the session for this peer. [`Task::allows`] and [`Task::check`]
/// must come to the same verdict at every peer: they may look at what all peers hold, and at nothing else.
pub trait Task: Debug + Send + Sync {
    /// The aggregates in order; the first is [`Aggregate::coin`].
    fn plan(&self) -> Vec<Aggregate>;

    /// Makes this peer's vector for `slot`, of the plan's length. Called on a worker thread.
    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String>;

    /// Makes this peer's vector for a slot with noise ([`Aggregate::is_noised`]). Called on a worker thread,
    /// once in a session, also where that is interrupted.
    fn noisy_contribution(&self, _slot: u32, _history: &History, _rng: &mut Rng) -> Result<Bytes, String> {
        Err("this task has no noise".into())
    }

    /// Takes back the vector that [`Task::noisy_contribution`] made, now or before an interruption: before
    /// the vector of any later slot is asked for.
    fn restore_noisy(&self, _slot: u32, _vector: &Bytes) {}

    /// Says how this peer gets its vector for a slot with an exchange ([`Aggregate::with_exchange`]).
    fn exchange(&self, _slot: u32, _history: &History, _seat: Seat) -> Result<Source, String> {
        Ok(Source::Own)
    }

    /// Makes this peer's vector for a slot with an exchange, from the exchange's result, which is empty for a
    /// bystander.
    fn contribution_from_exchange(&self, _slot: u32, _result: &Bytes) -> Result<Bytes, String> {
        Err("this task has no exchange".into())
    }

    /// Checks whether a new sum of `slot` may be started over `members`; says why not. A task that does not
    /// say otherwise allows any.
    fn allows(&self, _slot: u32, _history: &History, _members: &[Peer]) -> Result<(), String> {
        Ok(())
    }

    /// Checks the slot that was opened last. An error ends the session for everybody. A task that does not
    /// say otherwise takes any sum.
    fn check(&self, _slot: u32, _history: &History) -> Result<(), String> {
        Ok(())
    }

    /// Whether the opened vector of `slot` is still needed when `committed` slots are committed. Once it is
    /// not, it never is again. The answer follows from the session alone; peers that come later are not given
    /// it.
    fn needed_by_plan(&self, _slot: u32, _committed: u32) -> bool {
        true
    }

    /// As [`Task::needed_by_plan`], if the opened vectors themselves say more: whether that of `slot` is
    /// needed after those that are committed. While they do not tell yet, as with a vector that is to be
    /// fetched again, it is needed.
    fn still_needed(&self, slot: u32, history: &History) -> bool {
        self.needed_by_plan(slot, history.committed())
    }

    /// Whether nothing is summed after the slots that are committed, although the plan goes on. All peers
    /// that hold the vectors which [`Task::still_needed`] says come to the same verdict.
    fn ends(&self, _history: &History) -> bool {
        false
    }

    /// What the slot that was opened last says of the task's progress, for people and programs, such as the
    /// loss of a round; may be empty.
    fn metrics(&self, _slot: u32, _history: &History) -> Map<String, Value> {
        Map::new()
    }

    /// Says whether this peer's vector in the committed sum of `slot`, of which it was a member, has anything
    /// of its rows in it. The answer follows from the session, this peer's rows and what all peers hold, so
    /// that it is the same after any restart, also after that of a peer whose disk is lost.
    fn row_use(&self, _slot: u32, _history: &History) -> RowUse {
        RowUse::Included
    }

    /// The rows of this peer that the result has learnt from, from 0, when every slot is committed. `None` if
    /// the result is not one that predicts rows.
    fn learnt_rows(&self, _history: &History) -> Option<Vec<usize>> {
        None
    }

    /// The result, when every slot is committed. An error says why this peer has none. `unix` is the time in
    /// seconds since 1970, for a file that says when it was made; the digest does not depend on it.
    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String>;

    /// The work of this peer's [`Task::contribution`] for `slot`, for the simulator's clock.
    fn work(&self, slot: u32, history: &History) -> Work;
}

/// What a member's vector for a slot has of the member's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// Something that is made of them.
    Included,
    /// Nothing, for this reason: a clause such as "this peer was not drawn".
    LeftOut(&'static str),
    /// Nothing, and no other member's vector has any: the sum is not made of rows.
    NotUsed,
}

/// Counted work; the simulator divides each count by a rate of its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Entries of lifting matrices that are drawn.
    pub matrix: f64,
    /// Additions and multiplications.
    pub lift: f64,
    /// Numbers that a selection looks at.
    pub select: f64,
}

impl Work {
    /// Drawing a lifting matrix of m x s entries and hashing so many rows by it.
    #[must_use]
    pub fn training(m: f64, s: f64, rows: f64) -> Self {
        Self { matrix: m * s, lift: rows * m * s, select: rows * m }
    }
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.matrix += other.matrix;
        self.lift += other.lift;
        self.select += other.select;
    }
}
