//! What a session has opened so far, as one peer holds it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::session::Peer;

/// The committed slots of a session, in order from slot 0 (the coin).
///
/// All peers hold the same values and vectors. A vector that no later slot needs ([`super::Task::retains`])
/// is forgotten; its value, which says over whom it was summed, stays. Results of exchanges are this
/// peer's own.
#[derive(Clone, Debug, Default)]
pub struct History {
    values: Vec<Value>,
    /// Empty where forgotten.
    vectors: Vec<Bytes>,
    /// Slots whose vector is here.
    held: BTreeSet<u32>,
    exchanged: BTreeMap<u32, Bytes>,
}

impl History {
    /// A history of these slots, for tests of tasks.
    #[must_use]
    pub fn of(slots: impl IntoIterator<Item = (Value, Bytes)>) -> Self {
        let mut history = Self::default();
        for (value, vector) in slots {
            history.push(value, Some(vector));
        }
        history
    }

    /// A history of slots that were opened to these words over nobody, for tests of tasks.
    #[must_use]
    pub fn of_vectors(vectors: &[Bytes]) -> Self {
        Self::over(&[], vectors)
    }

    /// The same over the members of these values, as far as they go.
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

    /// How many slots are committed.
    #[must_use]
    pub fn committed(&self) -> u32 {
        u32::try_from(self.values.len()).unwrap_or_else(|_| unreachable!("BUG: the session bounds the plan"))
    }

    /// The session's seed: what the coin opened to.
    #[must_use]
    pub fn seed(&self) -> Option<[u8; 32]> {
        self.vectors.first()?[..].try_into().ok()
    }

    /// Where each slot was summed, over whom, and the digest of its sealed total.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value of one slot.
    #[must_use]
    pub fn value(&self, slot: u32) -> Option<&Value> {
        self.values.get(slot as usize)
    }

    /// The members of the sum of one slot, ascending; nobody where it is not committed.
    #[must_use]
    pub fn members(&self, slot: u32) -> &[Peer] {
        self.value(slot).map_or(&[], |value| &value.members)
    }

    /// The opened words of each slot, little-endian; empty where forgotten.
    #[must_use]
    pub fn vectors(&self) -> &[Bytes] {
        &self.vectors
    }

    /// The opened words of one slot, unless it is not committed or forgotten.
    #[must_use]
    pub fn vector(&self, slot: u32) -> Option<&Bytes> {
        self.vectors.get(slot as usize).filter(|_| self.held.contains(&slot))
    }

    /// The result of this peer's exchange for a slot, if it had a part in it.
    #[must_use]
    pub fn exchanged(&self, slot: u32) -> Option<&Bytes> {
        self.exchanged.get(&slot)
    }

    /// Committed slots whose vector is here.
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

    /// The same as a task sees it from which `count` slots from `first` on are hidden: those behind them
    /// count on from there.
    pub fn without(&self, first: u32, count: u32) -> Self {
        let hidden = first..first.saturating_add(count);
        self.only((0..self.committed()).filter(|slot| !hidden.contains(slot)))
    }

    /// The same as a part of a task sees it that knows these slots alone, ascending, and counts them from 0.
    /// Those that are not committed are left out.
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

    /// Puts a vector back that was fetched again.
    pub fn recall(&mut self, slot: u32, vector: Bytes) {
        if let Some(place) = self.vectors.get_mut(slot as usize) {
            *place = vector;
            self.held.insert(slot);
        }
    }
}
