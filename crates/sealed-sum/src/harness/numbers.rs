//! A task that only sums vectors, and its session.

use bytes::Bytes;
use sha2::Digest;

use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::protocol::context::Aggregate;
use crate::session::{Faults, Member, Peer, SessionId, Settings, Timing, committee};
use crate::task::{History, Outcome, Task, Work};

/// Sums a fixed vector for each slot: slot q of peer i has `words[q - 1]` words, drawn from (i, q).
#[derive(Debug)]
pub struct Numbers {
    /// This peer.
    pub me: Peer,
    /// Number of words of each slot after the coin.
    pub words: Vec<u64>,
}

impl Numbers {
    /// Returns a peer's vector of a slot.
    pub fn vector(peer: Peer, slot: u32, words: u64) -> Vec<u32> {
        let mut stream = Stream::new(&peer.0.to_le_bytes(), "numbers", &[slot as u8]);
        (0..words).map(|_| stream.next_u32()).collect()
    }
}

impl Task for Numbers {
    fn plan(&self) -> Vec<Aggregate> {
        let sums =
            self.words.iter().map(|&words| Aggregate::exact("numbers", 4, words, "numbers", "their sum"));
        std::iter::once(Aggregate::coin()).chain(sums).collect()
    }
    fn contribution(&self, slot: u32, _: &History) -> Result<Bytes, String> {
        let words = self.words[slot as usize - 1];
        Ok(Self::vector(self.me, slot, words).into_iter().flat_map(u32::to_le_bytes).collect())
    }
    fn outcome(&self, _: &History, _unix: u64) -> Result<Outcome, String> {
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }
    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
    fn allows(&self, _: u32, _: &History, _: &[Peer]) -> Result<(), String> {
        Ok(())
    }
    fn check(&self, _: u32, _: &History) -> Result<(), String> {
        Ok(())
    }
}

/// Committee of a session, and the fault model for it.
#[derive(Debug, Clone, Default)]
pub struct Voting {
    /// Faults of members that the session tolerates.
    pub faults: Faults,
    /// Names of the members; empty if the session id draws them.
    pub members: Vec<String>,
}

/// A session that tests may change before it begins.
#[derive(Debug, Clone)]
pub struct Session {
    /// The peers.
    pub roster: Vec<Member>,
    /// The committee.
    pub voting: Voting,
    /// Smallest number of members of a view.
    pub min_peers: u16,
    /// Time-outs.
    pub timing: Timing,
}

impl Session {
    /// Returns the settings that nodes get. An altered session has another id.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let id = tagged_hash("session").chain_update(format!("{self:?}")).finalize();
        let (id, named) = (SessionId(id.into()), &self.voting.members);
        let candidates = (0u16..).map(Peer).zip(&self.roster);
        let candidates = candidates.filter(|(_, member)| named.is_empty() || named.contains(&member.name));
        let committee = committee(id, candidates.map(|(peer, member)| (peer, member.key)));
        Settings {
            id,
            roster: self.roster.clone(),
            quorum: self.voting.faults.quorum(committee.len()),
            committee,
            min_peers: self.min_peers,
            collusion_threshold: 1.0 / 3.0,
            timing: self.timing,
            fields: vec![("name".into(), [7; 8])],
        }
    }
}

/// Returns a session of these identities, in the order of their public keys.
#[must_use]
pub fn session(identities: &[Identity], timing: Timing) -> Session {
    let member =
        |(i, identity): (usize, &Identity)| Member { key: identity.public(), name: format!("peer-{i}") };
    let roster: Vec<_> = identities.iter().enumerate().map(member).collect();
    let min_peers = u16::try_from(roster.len() / 2 + 1).unwrap_or(u16::MAX).max(3);
    Session { roster, voting: Voting::default(), min_peers, timing }
}

/// Returns short time-outs. Virtual time costs nothing, but fewer events make shorter runs.
pub fn timing() -> Timing {
    Timing {
        start_wait_ms: 2_000,
        proposal_backoff_ms: 500,
        view_timeout_ms: 3_000,
        no_quorum_timeout_ms: 20_000,
        compute_ms: 60_000,
        linger_ms: 30_000,
        regroup_interval_ms: 30_000,
        max_views: 40,
    }
}
