//! Ballots number views: (counter, proposer), compared in that order (Lamport, "Paxos Made Simple", section
//! 2.2).

use serde::{Deserialize, Serialize};

use crate::session::Peer;

/// A view's number. `Ballot::default()` (0, peer 0) is below every ballot that is ever proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Starts at 1 and grows by one over the highest that the proposer has seen.
    pub counter: u64,
    /// The peer that proposed it, and so leads the view.
    pub proposer: Peer,
}

impl Ballot {
    /// The highest counter that is taken from a peer or proposed. Far above what any session can reach by
    /// proposing, far below where counting on would wrap.
    pub const LAST: u64 = 1 << 48;
    /// The most by which a peer takes a counter above all that it knows: far more than others can have
    /// proposed while it was away, and far too little to use the counters up.
    pub const JUMP: u64 = 1 << 20;

    /// 10 bytes: counter and proposer, little-endian. Part of every key derivation and signature of a view.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        let mut out = [0; 10];
        out[..8].copy_from_slice(&self.counter.to_le_bytes());
        out[8..].copy_from_slice(&self.proposer.0.to_le_bytes());
        out
    }

    /// A ballot of `proposer` above every one with this counter; `None` if there is none left.
    #[must_use]
    pub fn above(counter: u64, proposer: Peer) -> Option<Self> {
        (counter < Self::LAST).then(|| Self { counter: counter + 1, proposer })
    }
}

impl std::fmt::Display for Ballot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.counter, self.proposer.0)
    }
}
