//! The tasks of a session: what is summed, how a peer makes its vector, and what may not be opened.
//!
//! One file a task. [`crate::node`] knows the trait alone.

pub mod flynn;
mod holders;
pub mod sketch;
pub mod tune;
pub mod xclp;

use std::fmt::Debug;

use bytes::Bytes;

use crate::protocol::context::Quantity;
use crate::protocol::record::Value;
use crate::protocol::view::Rng;
use crate::protocol::xclp as exchange;
use crate::session::Peer;

/// A task: quantities that are summed and opened one after another, each of which may depend on those before
/// it.
///
/// `opened[0]` is the session's seed (32 bytes), `opened[q]` the opened words of slot q, little-endian. Of a
/// row sum those who make a vector ([`Task::contribution`], [`Task::draw`]) are given this peer's own block,
/// empty where it has none ([`Event::Rows`](crate::node::Event::Rows) says why); those who judge for all
/// ([`Task::allows`], [`Task::check`], [`Task::exchange`]) what all hold of it, which tells nobody anything.
pub trait Task: Debug + Send + Sync {
    /// The quantities in order; the first is [`Quantity::coin`].
    fn plan(&self) -> Vec<Quantity>;

    /// This peer's vector for `slot`, of the plan's length; called on a worker thread. The text of an error
    /// ends the session for this peer.
    fn contribution(&self, slot: u32, opened: &[Bytes]) -> Result<Bytes, String>;

    /// This peer's vector for a slot that is drawn at random ([`Quantity::drawn`]), as [`Task::contribution`]
    /// for others. Called once in a session, also where that is interrupted.
    fn draw(&self, _slot: u32, _opened: &[Bytes], _rng: &mut Rng) -> Result<Bytes, String> {
        Err("this task draws nothing".into())
    }

    /// What this peer has drawn for a slot, now or before it was interrupted: told before the vector of any
    /// later slot is asked for.
    fn drawn(&self, _slot: u32, _vector: &Bytes) {}

    /// What this peer knows of the exchange that its vector for `slot` comes from, given what was opened over
    /// whom, and what the exchange of the slot before gave it, if it had a part in that; `None` where the
    /// vector is made by this peer alone. An error ends the session for this peer.
    fn exchange(
        &self,
        _slot: u32,
        _opened: (&[Value], &[Bytes]),
        _members: &[Peer],
        _before: Option<&exchange::Outcome>,
    ) -> Result<Option<exchange::Part>, String> {
        Ok(None)
    }

    /// This peer's vector for a slot with an exchange, given what that gave it.
    fn exchanged(&self, _slot: u32, _outcome: &exchange::Outcome) -> Result<Bytes, String> {
        Err("this task has no exchange".into())
    }

    /// Whether a new sum of `slot` may be started over `members`, given what was opened over whom; says why
    /// not.
    fn allows(&self, slot: u32, values: &[Value], opened: &[Bytes], members: &[Peer]) -> Result<(), String>;

    /// Looks at what has just been opened; an error ends the session for everybody, for all find it alike.
    fn check(&self, slot: u32, values: &[Value], opened: &[Bytes]) -> Result<(), String>;
}
