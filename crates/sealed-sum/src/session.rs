//! What the machines know of a session: its peers, who votes, the limits and times. Whoever runs them makes
//! these [`Settings`] of whatever describes a session there.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::Digest;

use crate::crypto::identity::PublicKey;
use crate::crypto::tagged_hash;

/// The number of peers that vote, hold shares and make the coin. A decision has at most 15 x 15 shares.
pub const COMMITTEE: usize = 15;

/// The most slots of a session's plan.
pub const MOST_SLOTS: u32 = 100_000;

/// A peer: its place in the roster, from 0. The roster is in the order of the public keys.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer(pub u16);

impl Peer {
    /// The place as an index.
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

/// SHA-256 of a session's canonical encoding; see the module documentation. Printed as 64 hexadecimal digits.
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

/// What committee members may do without harming the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faults {
    /// Any minority may crash, be cut off and return; all follow the protocol. Quorums are majorities.
    #[default]
    Crash,
    /// f = floor((n - 1) / 3) of n members may do whatever they like. Quorums of ceil((n + f + 1) / 2) meet
    /// in a member that follows the protocol; n - f members must be there. At least four members.
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
    /// How many of `n` members may deviate without opening an aggregate twice.
    #[must_use]
    pub fn deviating(self, n: usize) -> usize {
        match self {
            Self::Crash => 0,
            Self::Byzantine => n.saturating_sub(1) / 3,
        }
    }

    /// Members that decide, and shares that open.
    #[must_use]
    pub fn quorum(self, n: usize) -> usize {
        match self {
            Self::Crash => n / 2 + 1,
            Self::Byzantine => (n + self.deviating(n) + 1).div_ceil(2),
        }
    }

    /// How many of `n` members may be away without stopping the others.
    #[must_use]
    pub fn away(self, n: usize) -> usize {
        n - self.quorum(n)
    }
}

/// Time-outs, in milliseconds. The defaults are guesses for a LAN. The ranges also stand in the comments of a
/// session file and in the errors that refuse other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// How long to wait for the whole roster before going on with those present. 0 to 3,600,000, default
    /// 10,000.
    pub start_wait_ms: u64,
    /// The peer of rank r proposes a view after r times this without progress. 1 to 3,600,000, default 2,000.
    pub proposal_backoff_ms: u64,
    /// A view without progress for this long has failed. 3,000 to 3,600,000, default 10,000.
    pub view_timeout_ms: u64,
    /// A peer gives up when too few peers have been reachable for this long. 1 to 86,400,000, default 60,000.
    pub no_quorum_timeout_ms: u64,
    /// The longest computation that still counts as progress. 1 to 86,400,000, default 600,000.
    pub compute_ms: u64,
    /// How long a finished peer stays to serve the others. 0 to 86,400,000, default 30,000.
    pub linger_ms: u64,
    /// A view is enlarged by waiting peers at most once per this time, when a slot ends. 0 to 86,400,000,
    /// default 30,000.
    pub regroup_interval_ms: u64,
    /// After so many failed views the session ends with an error (a number, not a time). 24 to 1,000, default
    /// 40: four liars of 15 peers can end 30 in a row.
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

/// A peer of the roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its identity, different from all others.
    pub key: PublicKey,
    /// The name, for errors and events.
    pub name: String,
}

/// The dotted name of a field of a session and 8 bytes of the hash of its value.
pub type FieldDigest = (String, [u8; 8]);

/// A session, as the machines know it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The id: peers with another one have nothing to say to each other.
    pub id: SessionId,
    /// The peers, in the order of their public keys: `roster[p]` is [`Peer`] p.
    pub roster: Vec<Member>,
    /// The peers that vote, in their order.
    pub committee: Vec<Peer>,
    /// Members of the committee that decide, and shares that open.
    pub quorum: usize,
    /// The fewest members of a view.
    pub min_peers: u16,
    /// The share of the roster that may collude without learning a single peer's part.
    pub collusion_threshold: f64,
    /// Time-outs.
    pub timing: Timing,
    /// Digests of all that the peers must agree on, by which two peers find what differs.
    pub fields: Vec<FieldDigest>,
}

impl Settings {
    /// All peers, in order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Peer> + use<> {
        (0..u16::try_from(self.roster.len()).unwrap_or(u16::MAX)).map(Peer)
    }

    /// The peer with this key, if it is in the roster.
    #[must_use]
    pub fn peer(&self, key: &PublicKey) -> Option<Peer> {
        let index = self.roster.binary_search_by(|entry| entry.key.cmp(key)).ok()?;
        u16::try_from(index).ok().map(Peer)
    }

    /// The public key of a peer.
    ///
    /// # Panics
    /// If there is no such peer.
    #[must_use]
    pub fn key(&self, peer: Peer) -> PublicKey {
        self.roster[peer.index()].key
    }

    /// The name of a peer.
    ///
    /// # Panics
    /// If there is no such peer.
    #[must_use]
    pub fn name(&self, peer: Peer) -> &str {
        &self.roster[peer.index()].name
    }

    /// Names of the fields that differ from those of another peer; see [`differing`].
    #[must_use]
    pub fn differing_fields(&self, theirs: &[FieldDigest]) -> Vec<String> {
        differing(&self.fields, theirs)
    }
}

/// Names of the fields whose hashes differ from those of another peer, or are missing there. Names that only
/// the other peer has come from outside and are not repeated: they show as one entry, "fields unknown here".
#[must_use]
pub fn differing(ours: &[FieldDigest], theirs: &[FieldDigest]) -> Vec<String> {
    let theirs: BTreeMap<_, _> = theirs.iter().map(|(name, hash)| (name, hash)).collect();
    let ours: BTreeMap<_, _> = ours.iter().map(|(name, hash)| (name, hash)).collect();
    let unknown = theirs.keys().any(|name| !ours.contains_key(name));
    let differing =
        ours.iter().filter(|(name, hash)| theirs.get(*name) != Some(*hash)).map(|(name, _)| (*name).clone());
    differing.chain(unknown.then(|| "fields unknown here".to_owned())).collect()
}

/// The committee drawn of these candidates, in its order: the first [`COMMITTEE`] by SHA-256(tag "council" ||
/// session id || public key).
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

    /// The smallest committee, and the largest.
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
