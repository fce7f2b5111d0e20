//! Session parameters of the machines: peers, committee, limits and times. The caller makes these
//! [`Settings`] from its own description of the session.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::Digest;

use crate::crypto::identity::PublicKey;
use crate::crypto::tagged_hash;

/// Number of peers that vote, hold shares and make the coin. A decision has at most 15 x 15 shares.
pub const COMMITTEE: usize = 15;

/// Largest number of slots of a session's plan.
pub const MOST_SLOTS: u32 = 100_000;

/// Peer: its index in the roster, from 0. The roster is ordered by public key.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer(pub u16);

impl Peer {
    /// Returns the place in the roster as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// SHA-256 of a session's canonical encoding. Printed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 32]);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// Deviations by committee members that do not harm the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faults {
    /// Any minority may crash, be cut off and return. All members follow the protocol. Quorums are
    /// majorities.
    #[default]
    Crash,
    /// f = floor((n - 1) / 3) of n members may behave arbitrarily. Two quorums of ceil((n + f + 1) / 2)
    /// share a member that follows the protocol. At least n - f members must be present. At least four
    /// members.
    Byzantine,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Crash => "crash",
            Self::Byzantine => "byzantine",
        })
    }
}

impl Faults {
    /// Returns how many of `n` members may deviate without opening an aggregate twice.
    #[must_use]
    pub fn deviating(self, n: usize) -> usize {
        match self {
            Self::Crash => 0,
            Self::Byzantine => n.saturating_sub(1) / 3,
        }
    }

    /// Returns how many of `n` members decide. The same number of shares opens a sum.
    #[must_use]
    pub fn quorum(self, n: usize) -> usize {
        match self {
            Self::Crash => n / 2 + 1,
            Self::Byzantine => (n + self.deviating(n) + 1).div_ceil(2),
        }
    }

    /// Returns how many of `n` members may be absent without stopping the others.
    #[must_use]
    pub fn away(self, n: usize) -> usize {
        n - self.quorum(n)
    }
}

/// Timeouts, in milliseconds. The defaults are guesses for a LAN. The ranges are repeated in the
/// comments of a session file and in the errors for other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Wait for the whole roster before starting with the peers that are present. 0 to 3,600,000,
    /// default 10,000.
    pub start_wait_ms: u64,
    /// Backoff of proposals: the peer of rank r proposes a view after r times this time without
    /// progress. 1 to 3,600,000, default 2,000.
    pub proposal_backoff_ms: u64,
    /// Time without progress after which a view has failed. 3,000 to 3,600,000, default 10,000.
    pub view_timeout_ms: u64,
    /// Time after which a peer gives up if too few peers are reachable. 1 to 86,400,000, default 60,000.
    pub no_quorum_timeout_ms: u64,
    /// Longest computation that still counts as progress. 1 to 86,400,000, default 600,000.
    pub compute_ms: u64,
    /// Time for which a finished peer stays to serve the others. 0 to 86,400,000, default 30,000.
    pub linger_ms: u64,
    /// Shortest time between two enlargements of a view by waiting peers, at the end of a slot. 0 to
    /// 86,400,000, default 30,000.
    pub regroup_interval_ms: u64,
    /// Number of failed views after which the session ends with an error. 24 to 1,000, default 40,
    /// because four liars of 15 peers can end 30 views in a row.
    pub max_views: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            start_wait_ms: 10_000,
            proposal_backoff_ms: 2_000,
            view_timeout_ms: 10_000,
            no_quorum_timeout_ms: 60_000,
            compute_ms: 600_000,
            linger_ms: 30_000,
            regroup_interval_ms: 30_000,
            max_views: 40,
        }
    }
}

/// Member of the roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Identity, different from all others.
    pub key: PublicKey,
    /// Name, for errors and events.
    pub name: String,
}

/// Dotted name of a field of a session, and 8 bytes of the hash of its value.
pub type FieldDigest = (String, [u8; 8]);

/// Parameters of a session for the machines.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Id of the session. Peers with different ids do not exchange messages.
    pub id: SessionId,
    /// Peers, in the order of their public keys: `roster[p]` is [`Peer`] p.
    pub roster: Vec<Member>,
    /// Committee: the peers that vote, in their order.
    pub committee: Vec<Peer>,
    /// Number of committee members that decide, and of shares that open a sum.
    pub quorum: usize,
    /// Smallest number of members of a view.
    pub min_peers: u16,
    /// Share of the roster that may collude without learning a single peer's part.
    pub collusion_threshold: f64,
    /// Timeouts.
    pub timing: Timing,
    /// Digests of all fields that the peers must agree on. Two peers find their differences with them.
    pub fields: Vec<FieldDigest>,
}

impl Settings {
    /// Returns all peers, in order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Peer> + use<> {
        (0..u16::try_from(self.roster.len()).unwrap_or(u16::MAX)).map(Peer)
    }

    /// Returns the peer with this key, if it is in the roster.
    #[must_use]
    pub fn peer(&self, key: &PublicKey) -> Option<Peer> {
        let index = self.roster.binary_search_by(|entry| entry.key.cmp(key)).ok()?;
        u16::try_from(index).ok().map(Peer)
    }

    /// Returns the public key of a peer.
    ///
    /// # Panics
    /// If the peer is not in the roster.
    #[must_use]
    pub fn key(&self, peer: Peer) -> PublicKey {
        self.roster[peer.index()].key
    }

    /// Returns the name of a peer.
    ///
    /// # Panics
    /// If the peer is not in the roster.
    #[must_use]
    pub fn name(&self, peer: Peer) -> &str {
        &self.roster[peer.index()].name
    }

    /// Returns the names of the fields that differ from those of another peer; see [`differing`].
    #[must_use]
    pub fn differing_fields(&self, theirs: &[FieldDigest]) -> Vec<String> {
        differing(&self.fields, theirs)
    }
}

/// Returns the names of the fields whose hashes differ from those of another peer, or are missing there.
/// Names that only the other peer has are not trusted. They appear as one entry, "fields unknown here".
#[must_use]
pub fn differing(ours: &[FieldDigest], theirs: &[FieldDigest]) -> Vec<String> {
    let theirs: BTreeMap<_, _> = theirs.iter().map(|(name, hash)| (name, hash)).collect();
    let ours: BTreeMap<_, _> = ours.iter().map(|(name, hash)| (name, hash)).collect();
    let unknown = theirs.keys().any(|name| !ours.contains_key(name));
    let differing =
        ours.iter().filter(|(name, hash)| theirs.get(*name) != Some(*hash)).map(|(name, _)| (*name).clone());
    differing.chain(unknown.then(|| "fields unknown here".to_owned())).collect()
}

/// Draws the committee from these candidates, in its order: the first [`COMMITTEE`] by SHA-256(tag
/// "council" || session id || public key).
#[must_use]
pub fn committee(id: SessionId, candidates: impl Iterator<Item = (Peer, PublicKey)>) -> Vec<Peer> {
    let rank = |key: PublicKey| -> [u8; 32] {
        tagged_hash("council").chain_update(id.0).chain_update(key.as_bytes()).finalize().into()
    };
    let mut ranked: Vec<_> = candidates.map(|(peer, key)| (rank(key), peer)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(COMMITTEE).map(|(_, peer)| peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the smallest committee to the largest.
    const SIZES: std::ops::RangeInclusive<usize> = 3..=COMMITTEE;

    #[test]
    fn two_quorums_meet_in_one_more_than_may_deviate() {
        for faults in [Faults::Crash, Faults::Byzantine] {
            for n in SIZES {
                assert!(2 * faults.quorum(n) > n + faults.deviating(n), "{faults} of {n}");
            }
        }
    }

    #[test]
    fn those_that_do_not_deviate_are_a_quorum_and_those_that_do_are_none() {
        for n in SIZES.filter(|&n| n >= 4) {
            let f = Faults::Byzantine.deviating(n);
            assert!(f >= 1 && n - f >= Faults::Byzantine.quorum(n) && f < Faults::Byzantine.quorum(n));
            assert_eq!(Faults::Byzantine.quorum(n), (n + f + 1).div_ceil(2));
        }
        let quorums: Vec<_> = [4, 5, 7, 10, 15].map(|n| Faults::Byzantine.quorum(n)).into();
        assert_eq!(quorums, [3, 4, 5, 7, 10]);
        assert_eq!(SIZES.map(|n| Faults::Crash.away(n)).max(), Some(7));
    }
}
