//! The committee's decision which sealed sum of a quantity is opened: single-decree Paxos for each slot, one
//! ballot for all (Lamport, "Paxos Made Simple", sections 2.2 and 3).
//!
//! A view's proposer collects promises from a majority before it starts anything. A promise says how many
//! slots the acceptor has committed, and which value of the next slot it has acknowledged. Slots are decided
//! in order: an acceptor acknowledges slot q only when its slots below q are committed. So the highest number
//! of committed slots in a majority of promises bounds what can have been decided, and the acknowledged value
//! of the highest ballot in the slot after it, if there is one, is the only one that may be opened there.
//!
//! An acceptor that has released shares for a value never acknowledges or releases for another one of that
//! slot. Two quorums meet, so what some of them opened nobody else opens differently, whatever a proposer
//! says, as long as they meet in a member that keeps to this ([`crate::session::Faults`]).
//!
//! Nothing here knows of vectors, keys or sockets, so that a test can walk every interleaving.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;

/// A value as an acceptor has acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Accepted<V> {
    /// The ballot in which it was acknowledged last.
    pub ballot: Ballot,
    /// The quantity.
    pub slot: u32,
    /// The value.
    pub value: V,
}

/// The promise of an acceptor to a proposer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Promise<V> {
    /// Number of slots that it has committed.
    pub committed: u32,
    /// The value that it has acknowledged in slot `committed`, if any.
    pub accepted: Option<Accepted<V>>,
    /// Whether it has seen that decided and released shares for it: then it will never acknowledge another.
    pub released: bool,
}

/// The reason why an acceptor refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has promised a higher ballot.
    Promised(Ballot),
    /// The slot is not the one after those it has committed.
    Slot,
    /// It has released shares for another value of the slot.
    Released,
}

/// One committee member's memory. All of it is on disk before any answer that depends on it leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Acceptor<V> {
    /// No lower ballot is acknowledged any more.
    pub promised: Ballot,
    /// Slots that are decided and opened here.
    pub committed: u32,
    /// The last acknowledged value; it matters while its slot is not committed.
    pub accepted: Option<Accepted<V>>,
    /// The value of slot `committed` that it has released shares for. Final.
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

    /// Notes that the acknowledged value is decided, and that shares for it are about to leave; `false` if it
    /// is not
    /// `value`.
    #[must_use]
    pub fn release(&mut self, slot: u32, value: &V) -> bool {
        let same = self.accepted.as_ref().is_some_and(|a| a.slot == slot && a.value == *value);
        if same && slot == self.committed {
            self.released = Some(value.clone());
        }
        same && slot == self.committed
    }

    /// Notes that `slot` is decided and open; its acknowledged value no longer matters.
    pub fn commit(&mut self, slot: u32) {
        if slot == self.committed {
            self.committed += 1;
            self.accepted = None;
            self.released = None;
        }
    }
}

/// The obligation of a proposer that follows from a majority of promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation<K, V> {
    /// Slots that are committed somewhere, and who has them all: this many must be fetched before anything is
    /// started.
    pub committed: u32,
    /// The peer that has them.
    pub holder: K,
    /// The value that must be finished in slot `committed`, and who holds it; with `None` a new sum may be
    /// started.
    pub resume: Option<(K, Accepted<V>)>,
}

/// The obligation from promises, each with who gave it. `None` for no promise at all.
#[must_use]
pub fn oblige<'a, K: Copy + 'a, V: Clone + 'a>(
    promises: impl Iterator<Item = (K, &'a Promise<V>)> + Clone,
) -> Option<Obligation<K, V>> {
    let (holder, committed) = promises
        .clone()
        .map(|(key, promise)| (key, promise.committed))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let resume = promises
        .filter_map(|(key, promise)| Some((key, promise.accepted.clone()?, promise.released)))
        .filter(|(_, accepted, _)| accepted.slot == committed)
        // What was released is decided: no word of a higher ballot can undo that.
        .reduce(|best, next| if (next.2, next.1.ballot) > (best.2, best.1.ballot) { next } else { best })
        .map(|(key, accepted, _)| (key, accepted));
    Some(Obligation { committed, holder, resume })
}

#[cfg(test)]
mod explore;
