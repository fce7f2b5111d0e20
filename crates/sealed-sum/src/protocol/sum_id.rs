//! Id of one sum: a view and a slot of the plan.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;

/// Id of the sum of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SumId {
    /// View.
    pub ballot: Ballot,
    /// Place of the aggregate in the plan.
    pub slot: u32,
}

impl SumId {
    /// Returns the ballot, then LE32(slot). They bind hashes and streams to one sum (spec, section 5).
    #[must_use]
    pub fn to_bytes(self) -> [u8; 14] {
        let mut bytes = [0; 14];
        bytes[..10].copy_from_slice(&self.ballot.to_bytes());
        bytes[10..].copy_from_slice(&self.slot.to_le_bytes());
        bytes
    }
}
