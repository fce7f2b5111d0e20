//! Ballots number views: (counter, proposer), compared in that order (Lamport, "Paxos Made Simple", section
//! 2.2).

use serde::{Deserialize, Serialize};

use crate::session::Peer;

/// Number of a view. `Ballot::default()` (0, peer 0) is below every ballot that a peer can propose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Counter. It starts at 1. A proposer uses the highest counter that it has seen plus one.
    pub counter: u64,
    /// Peer that proposed the ballot and so leads the view.
    pub proposer: Peer,
}

impl Ballot {
    /// Highest counter that is accepted from a peer or proposed. No session can reach it with its
    /// proposals, and it is far below an overflow of the counter.
    pub const LAST: u64 = 1 << 48;
    /// Largest step above all known counters that a peer accepts. Other peers cannot have proposed that
    /// many ballots while it was away, and the step is too small to use up the counters.
    pub const JUMP: u64 = 1 << 20;

    /// Returns 10 bytes: counter and proposer, little-endian. They are part of every key derivation and
    /// signature of a view.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        let mut out = [0; 10];
        out[..8].copy_from_slice(&self.counter.to_le_bytes());
        out[8..].copy_from_slice(&self.proposer.0.to_le_bytes());
        out
    }

    /// Returns a ballot of `proposer` above every ballot with this counter, or `None` at the highest
    /// counter.
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
