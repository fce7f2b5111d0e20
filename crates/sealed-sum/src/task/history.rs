//! Slots that a session has opened so far, as one peer holds them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::session::Peer;

/// Committed slots of a session, in order from slot 0 (the coin).
///
/// All peers hold the same values and vectors. A vector that no later slot needs
/// ([`super::Task::needed_by_plan`]) is forgotten. Its value, with the members of the sum, stays.
/// Results of exchanges belong to this peer alone.
#[derive(Clone, Debug, Default)]
pub struct History {
    values: Vec<Value>,
    /// Vectors of the slots, empty if forgotten.
    vectors: Vec<Bytes>,
    /// Slots whose vector is held.
    held: BTreeSet<u32>,
    exchanged: BTreeMap<u32, Bytes>,
}

impl History {
    /// Makes a history of these slots, for tests of tasks.
    #[must_use]
    pub fn of(slots: impl IntoIterator<Item = (Value, Bytes)>) -> Self {
        let mut history = Self::default();
        for (value, vector) in slots {
            history.push(value, Some(vector));
        }
        history
    }

    /// Makes a history of slots with these opened words and no members, for tests of tasks.
    #[must_use]
    pub fn of_vectors(vectors: &[Bytes]) -> Self {
        Self::over(&[], vectors)
    }

    /// Makes a history of `vectors`; the first slots have these `values`, the others have no members.
    #[must_use]
    pub fn over(values: &[Value], vectors: &[Bytes]) -> Self {
        let nobody = |slot| Value {
            sum: SumId { ballot: Ballot::default(), slot },
            members: Vec::new(),
            total: [0; 32],
            deals: [0; 32],
        };
        let value = |slot: u32| values.get(slot as usize).cloned().unwrap_or_else(|| nobody(slot));
        Self::of((0u32..).map(value).zip(vectors.iter().cloned()))
    }

    /// Returns the number of committed slots.
    #[must_use]
    pub fn committed(&self) -> u32 {
        u32::try_from(self.values.len()).unwrap_or_else(|_| unreachable!("BUG: the session bounds the plan"))
    }

    /// Returns the session's seed: the opened words of the coin.
    #[must_use]
    pub fn seed(&self) -> Option<[u8; 32]> {
        self.vectors.first()?[..].try_into().ok()
    }

    /// Returns the value of each slot: its sum, its members and the digest of its sealed total.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the value of one slot.
    #[must_use]
    pub fn value(&self, slot: u32) -> Option<&Value> {
        self.values.get(slot as usize)
    }

    /// Returns the members of the sum of one slot, ascending. Empty if the slot is not committed.
    #[must_use]
    pub fn members(&self, slot: u32) -> &[Peer] {
        self.value(slot).map_or(&[], |value| &value.members)
    }

    /// Returns the opened words of each slot, little-endian. Empty if forgotten.
    #[must_use]
    pub fn vectors(&self) -> &[Bytes] {
        &self.vectors
    }

    /// Returns the opened words of one slot, unless the slot is not committed or its vector is
    /// forgotten.
    #[must_use]
    pub fn vector(&self, slot: u32) -> Option<&Bytes> {
        self.vectors.get(slot as usize).filter(|_| self.held.contains(&slot))
    }

    /// Returns the result of this peer's exchange for a slot, if the peer took part in it.
    #[must_use]
    pub fn exchanged(&self, slot: u32) -> Option<&Bytes> {
        self.exchanged.get(&slot)
    }

    /// Returns the committed slots whose vector is held.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        self.held.iter().copied()
    }

    /// Adds the next slot.
    pub fn push(&mut self, value: Value, vector: Option<Bytes>) {
        if vector.is_some() {
            self.held.insert(self.committed());
        }
        self.values.push(value);
        self.vectors.push(vector.unwrap_or_default());
    }

    /// Adds the result of this peer's exchange for a slot.
    pub fn set_exchanged(&mut self, slot: u32, result: Bytes) {
        self.exchanged.insert(slot, result);
    }

    /// Returns a copy of this history without `count` slots from `first` on. The slots after them are
    /// renumbered.
    pub fn without(&self, first: u32, count: u32) -> Self {
        let hidden = first..first.saturating_add(count);
        self.only((0..self.committed()).filter(|slot| !hidden.contains(slot)))
    }

    /// Returns a copy of this history with these slots only, ascending, numbered from 0. Slots that are
    /// not committed are left out.
    pub fn only(&self, slots: impl IntoIterator<Item = u32>) -> Self {
        let mut seen = Self::default();
        for slot in slots {
            let Some(value) = self.value(slot) else { break };
            let at = seen.committed();
            seen.push(value.clone(), self.vector(slot).cloned());
            if let Some(result) = self.exchanged.get(&slot) {
                seen.set_exchanged(at, result.clone());
            }
        }
        seen
    }

    /// Drops the vector of a committed slot.
    pub fn forget(&mut self, slot: u32) {
        if self.held.remove(&slot) {
            self.vectors[slot as usize] = Bytes::new();
            self.exchanged.remove(&slot);
        }
    }

    /// Restores a vector that was fetched again.
    pub fn recall(&mut self, slot: u32, vector: Bytes) {
        if let Some(place) = self.vectors.get_mut(slot as usize) {
            *place = vector;
            self.held.insert(slot);
        }
    }
}
