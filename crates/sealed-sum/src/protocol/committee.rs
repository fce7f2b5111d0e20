//! How the committee decides which sealed sum of an aggregate is opened: single-decree Paxos for each
//! slot, with one ballot for all slots (Lamport, "Paxos Made Simple", sections 2.2 and 3).
//!
//! A view's proposer collects promises from a majority before it starts anything. A promise states how
//! many slots the acceptor has committed, and the value of the next slot that it has acknowledged.
//! Slots are decided in order: an acceptor acknowledges slot q only when its slots below q are
//! committed. So the highest number of committed slots in a majority of promises bounds the decided
//! slots. In the slot after these, a promise may have an acknowledged value. Then only the value of the
//! highest ballot may be opened in this slot.
//!
//! An acceptor that has released shares for a value never acknowledges or releases another value of that
//! slot. Two quorums share a member. If a shared member follows this rule ([`crate::session::Faults`]), no
//! two members that follow the protocol open different values of a slot, even with a lying proposer.
//!
//! Nothing here depends on vectors, keys or sockets, so a test can walk every interleaving.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;

/// Value that an acceptor has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Accepted<V> {
    /// Ballot of the last acknowledgement.
    pub ballot: Ballot,
    /// Aggregate.
    pub slot: u32,
    /// Value.
    pub value: V,
}

/// Promise of an acceptor to a proposer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Promise<V> {
    /// Number of slots that the acceptor has committed.
    pub committed: u32,
    /// Value that the acceptor has acknowledged in slot `committed`, if any.
    pub accepted: Option<Accepted<V>>,
    /// True if the acceptor has seen that value decided and released shares for it. It then never
    /// acknowledges another value.
    pub released: bool,
}

/// Reason why an acceptor refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The acceptor has promised a higher ballot.
    Promised(Ballot),
    /// The slot is not the next one after the acceptor's committed slots.
    Slot,
    /// The acceptor has released shares for another value of the slot.
    Released,
}

/// State of one committee member. All of it is on disk before any answer that depends on it leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Acceptor<V> {
    /// Promised ballot: lower ballots are not acknowledged any more.
    pub promised: Ballot,
    /// Number of slots that are decided and opened here.
    pub committed: u32,
    /// Last acknowledged value. It matters as long as its slot is not committed.
    pub accepted: Option<Accepted<V>>,
    /// Value of slot `committed` that the member has released shares for. Final.
    pub released: Option<V>,
}

impl<V> Default for Acceptor<V> {
    fn default() -> Self {
        Self { promised: Ballot::default(), committed: 0, accepted: None, released: None }
    }
}

impl<V: Clone + PartialEq> Acceptor<V> {
    /// Promises `ballot` if it is above every earlier promise.
    pub fn prepare(&mut self, ballot: Ballot) -> Result<Promise<V>, Refusal> {
        if ballot <= self.promised {
            return Err(Refusal::Promised(self.promised));
        }
        self.promised = ballot;
        Ok(Promise {
            committed: self.committed,
            accepted: self.accepted.clone().filter(|a| a.slot == self.committed),
            released: self.released.is_some(),
        })
    }

    /// Acknowledges `value` for `slot` in `ballot`, unless a higher ballot was promised.
    pub fn accept(&mut self, ballot: Ballot, slot: u32, value: V) -> Result<(), Refusal> {
        if ballot < self.promised {
            return Err(Refusal::Promised(self.promised));
        }
        if slot != self.committed {
            return Err(Refusal::Slot);
        }
        if self.released.as_ref().is_some_and(|released| *released != value) {
            return Err(Refusal::Released);
        }
        self.promised = ballot;
        self.accepted = Some(Accepted { ballot, slot, value });
        Ok(())
    }

    /// Records that the acknowledged value is decided and that shares for it are about to leave. Returns
    /// `false` if the acknowledged value is not `value`.
    #[must_use]
    pub fn release(&mut self, slot: u32, value: &V) -> bool {
        let same = self.accepted.as_ref().is_some_and(|a| a.slot == slot && a.value == *value);
        if same && slot == self.committed {
            self.released = Some(value.clone());
        }
        same && slot == self.committed
    }

    /// Records that `slot` is decided and open. Its acknowledged value no longer matters.
    pub fn commit(&mut self, slot: u32) {
        if slot == self.committed {
            self.committed += 1;
            self.accepted = None;
            self.released = None;
        }
    }
}

/// Obligation of a proposer that follows from a majority of promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation<K, V> {
    /// Highest number of committed slots in a promise. The proposer must fetch them before it starts
    /// anything.
    pub committed: u32,
    /// Peer that has all these slots.
    pub holder: K,
    /// Value that must be finished in slot `committed`, with the peer that holds it. With `None`, a new
    /// sum may be started.
    pub resume: Option<(K, Accepted<V>)>,
}

/// Returns the obligation that follows from promises, each with its author. Returns `None` without
/// promises.
#[must_use]
pub fn oblige<'a, K: Copy + Ord + 'a, V: Clone + 'a>(
    promises: impl Iterator<Item = (K, &'a Promise<V>)> + Clone,
) -> Option<Obligation<K, V>> {
    let (holder, committed) = promises
        .clone()
        .map(|(key, promise)| (key, promise.committed))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let resume = promises
        .filter_map(|(key, promise)| Some((key, promise.accepted.clone()?, promise.released)))
        .filter(|(_, accepted, _)| accepted.slot == committed)
        // A released value is decided: a promise with a higher ballot cannot undo that. The order of
        // the promises does not matter: every member computes the leader's choice.
        .max_by_key(|(key, accepted, released)| (*released, accepted.ballot, Reverse(*key)))
        .map(|(key, accepted, _)| (key, accepted));
    Some(Obligation { committed, holder, resume })
}

#[cfg(test)]
mod explore;
