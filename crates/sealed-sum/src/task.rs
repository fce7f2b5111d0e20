//! Interface between a node and the computation that it runs: the trait [`Task`], its inputs and
//! outputs.

pub mod exchange;
mod history;
mod outcome;

use std::fmt::Debug;

use bytes::Bytes;
use serde_json::{Map, Value};

pub use history::History;
pub use outcome::Outcome;

use crate::protocol::context::Aggregate;
use crate::protocol::marks::Marks;
use crate::protocol::view::Rng;
use crate::session::Peer;
use exchange::{Seat, Source};

/// Members of a view and the marks in its promises.
pub type Crowd<'a> = (&'a [Peer], &'a Marks);

/// Task: aggregates that are summed and opened one after another. Each may depend on those before it.
///
/// An error of [`Task::contribution`], [`Task::noisy_contribution`], [`Task::exchange`] or
/// [`Task::contribution_from_exchange`] ends the session for this peer, with the error's text.
/// [`Task::allows`] and [`Task::check`] must return the same verdict at every peer, so they may only use
/// data that all peers hold.
pub trait Task: Debug + Send + Sync {
    /// Returns the aggregates in order. The first is [`Aggregate::coin`].
    fn plan(&self) -> Vec<Aggregate>;

    /// Makes this peer's vector for `slot`, of the plan's length. Called on a worker thread.
    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String>;

    /// Makes this peer's vector for a slot with noise ([`Aggregate::is_noised`]). Called on a worker
    /// thread, once in a session, even if the session is interrupted.
    fn noisy_contribution(&self, _slot: u32, _history: &History, _rng: &mut Rng) -> Result<Bytes, String> {
        Err("this task has no noise".into())
    }

    /// Restores the vector that [`Task::noisy_contribution`] made, now or before an interruption. Called
    /// before the vector of any later slot is requested.
    fn restore_noisy(&self, _slot: u32, _vector: &Bytes) {}

    /// Returns how this peer gets its vector for a slot with an exchange ([`Aggregate::with_exchange`]).
    fn exchange(&self, _slot: u32, _history: &History, _seat: Seat) -> Result<Source, String> {
        Ok(Source::Own)
    }

    /// Makes this peer's vector for a slot with an exchange from the result of the exchange. The result
    /// of a bystander is empty.
    fn contribution_from_exchange(&self, _slot: u32, _result: &Bytes) -> Result<Bytes, String> {
        Err("this task has no exchange".into())
    }

    /// Checks that these `members` may start a new sum of `slot`. The error is the reason why they may
    /// not. By default, any members may.
    fn allows(&self, _slot: u32, _history: &History, _members: &[Peer]) -> Result<(), String> {
        Ok(())
    }

    /// Checks whether a new sum of `slot` over these members can succeed in spite of these marks. In a view,
    /// the marks are those of its promises, so that all members return the same verdict. A leader begins no
    /// sum that cannot succeed, and a member does not contribute to it. A peer ends the session if the sum
    /// cannot succeed over the whole roster with the accusations that this peer knows.
    fn can_continue(&self, _slot: u32, _history: &History, _crowd: Crowd<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Checks the slot that was opened last. An error ends the session for all peers. By default, any
    /// sum is accepted.
    fn check(&self, _slot: u32, _history: &History) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether the opened vector of `slot` is still needed when `committed` slots are committed.
    /// A vector that is not needed is never needed again. The answer depends only on the session. A peer
    /// that arrives later does not receive the vector.
    fn needed_by_plan(&self, _slot: u32, _committed: u32) -> bool {
        true
    }

    /// Returns whether the vector of `slot` is still needed after the committed slots, for tasks in
    /// which the opened vectors decide this in addition to [`Task::needed_by_plan`]. The vector counts
    /// as needed as long as the opened vectors cannot decide it, for example while one of them must be
    /// fetched again.
    fn still_needed(&self, slot: u32, history: &History) -> bool {
        self.needed_by_plan(slot, history.committed())
    }

    /// Returns whether the task ends after the committed slots although the plan has more slots. All
    /// peers that hold the vectors required by [`Task::still_needed`] return the same verdict.
    fn ends(&self, _history: &History) -> bool {
        false
    }

    /// Returns metrics of the task's progress from the slot that was opened last, such as the loss of a
    /// round, for people and programs. The map may be empty.
    fn metrics(&self, _slot: u32, _history: &History) -> Map<String, Value> {
        Map::new()
    }

    /// Returns whether this peer's vector in the committed sum of `slot` contains anything of its rows.
    /// The peer was a member of that sum. The answer depends only on the session, this peer's rows and the
    /// data that all peers hold. So it is the same after any restart, even if the peer's disk was lost.
    fn row_use(&self, _slot: u32, _history: &History) -> RowUse {
        RowUse::Included
    }

    /// Returns the indices, from 0, of this peer's rows that the result was trained on, when every slot
    /// is committed. Returns `None` if the result does not predict rows.
    fn learnt_rows(&self, _history: &History) -> Option<Vec<usize>> {
        None
    }

    /// Returns the result when every slot is committed. The error is the reason why this peer has no
    /// result. `unix` is the time in seconds since 1970. A file may state it as its date. The digest does
    /// not depend on it.
    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String>;

    /// Returns the work of this peer's [`Task::contribution`] for `slot`. The simulator's clock uses it.
    fn work(&self, slot: u32, history: &History) -> Work;
}

/// Use of a member's rows in its vector for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// The vector is made from rows.
    Included,
    /// The vector contains no rows, for this reason: a clause such as "this peer was not drawn".
    LeftOut(&'static str),
    /// The vector contains no rows, and neither does any other member's: the sum is not made from rows.
    NotUsed,
}

/// Counted work. The simulator divides each count by a rate of its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Number of entries of lifting matrices that are drawn.
    pub matrix: f64,
    /// Number of additions and multiplications.
    pub lift: f64,
    /// Number of values that a selection looks at.
    pub select: f64,
}

impl Work {
    /// Returns the work to draw a lifting matrix of m x s entries and to hash `rows` rows with it.
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
