//! Constants of a node that all its machines share: the session, the committee, this peer's identity and
//! the plan.

use std::sync::Arc;

use crate::crypto::identity::Identity;
use crate::crypto::mask::Word;
use crate::session::{MOST_SLOTS, Peer, SessionId, Settings};

/// Largest number of members of a view whose mask graph is complete.
pub const FULL_MESH: usize = 64;
/// Smallest number of members that can start a new sum: with two, each could subtract its own part.
pub const SMALLEST_SUM: usize = 3;

/// Vector that the session sums and opens. Slot 0 of every plan is the coin, whose vector is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// Name for people and receipts, such as "coin", "holders", "moments", "counts".
    pub name: String,
    /// Bytes per word of the vector: 4, 8 or 64.
    pub word_bytes: u8,
    /// Number of words in the vector.
    pub words: u64,
    /// Kind of the vectors, and their form on the wire.
    pub kind: Kind,
    /// True if a peer's vector comes from an exchange with other members
    /// ([`crate::task::Task::exchange`]). For other aggregates, messages of an exchange are refused.
    pub exchange: bool,
    /// Description of the sum in a few words, such as "rows in all". Every receipt contains it.
    pub is: &'static str,
    /// Information that the opened sum reveals to every member, such as "how many rows all members have
    /// together". Every receipt contains it, with "with noise" added if the vectors contain noise.
    pub reveals: &'static str,
}

/// Method for making and adding the vectors of an aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Made from the rows alone; masked, and opened with pads.
    #[default]
    Exact,
    /// With noise that is drawn once in a session; masked and opened like exact vectors.
    Noised,
    /// Differentially private release, drawn once in a session. A peer's vector is not secret, so it has
    /// no masks and no pads. Few words are not 0, so chunks travel as pairs of place and value. Words have
    /// 4 bytes.
    Released,
}

impl Aggregate {
    /// Returns the coin: no words, and a pad of every committee member in the view.
    #[must_use]
    pub fn coin() -> Self {
        let is = "a random number that no peer can choose";
        Self::exact("coin", 4, 0, is, "nothing about any rows: it is random")
    }

    /// Makes a sum of vectors that come from the rows, with its description and the information it
    /// reveals.
    #[must_use]
    pub fn exact(name: &str, word_bytes: u8, words: u64, is: &'static str, reveals: &'static str) -> Self {
        Self { name: name.into(), word_bytes, words, kind: Kind::Exact, exchange: false, is, reveals }
    }

    /// Returns this aggregate with vectors that come from an exchange.
    #[must_use]
    pub fn with_exchange(self) -> Self {
        Self { exchange: true, ..self }
    }

    /// Returns the information that the opened sum reveals to every member: a sentence without a full
    /// stop.
    #[must_use]
    pub fn told(&self) -> String {
        let noise = if self.is_noised() { "; with noise" } else { "" };
        format!("{}{noise}", self.reveals)
    }

    /// Returns whether a peer's vector contains noise. Such a vector is made only once.
    #[must_use]
    pub fn is_noised(&self) -> bool {
        matches!(self.kind, Kind::Noised | Kind::Released)
    }

    /// Returns whether vectors travel without masks, as pairs.
    #[must_use]
    pub fn plain(&self) -> bool {
        self.kind == Kind::Released
    }

    /// Returns the ring of the words.
    #[must_use]
    pub fn word(&self) -> Word {
        match self.word_bytes {
            64 => Word::W512,
            8 => Word::W64,
            _ => Word::W32,
        }
    }

    /// Returns the length of the vector in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.words).unwrap_or(usize::MAX).saturating_mul(usize::from(self.word_bytes))
    }

    /// Returns whether the vector is empty (the coin).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }
}

/// Test only: rule for starting an opening.
#[cfg(any(test, feature = "harness"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpeningRule {
    /// The real rule: promises first, and acknowledged values are finished.
    Decided,
    /// Every view sums again without promises, and opens as soon as it has the shares.
    Naive,
}

/// Test only: a bug that a check of the simulator must find.
#[cfg(any(test, feature = "harness"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A peer leaves out one of its masks.
    ForgottenMask,
    /// A peer blames the sender of a message of a view that is over.
    StaleBlame,
    /// A peer ignores a wrong share without blaming anyone.
    NoBlame,
    /// Deadlines are not checked.
    NoAlarm,
    /// A leader sums again and ignores the promises.
    IgnoresPromises,
    /// A leader sums over any number of members.
    AnyCrowd,
    /// A server leaves out every vector.
    ServesBare,
    /// A leader accepts only these peers as members, one bit each.
    Picks(u16),
}

/// Constants of one node in one session.
#[derive(Debug)]
pub struct Context {
    /// Session. Nodes of one process may share it.
    pub session: Arc<Settings>,
    /// Id of the session.
    pub id: SessionId,
    /// Committee, in its order.
    pub committee: Vec<Peer>,
    /// Number of committee members that decide, and of shares that open a sum.
    pub quorum: usize,
    /// This peer.
    pub me: Peer,
    /// Identity of this peer.
    pub identity: Identity,
    /// Aggregates that are summed and opened, in order.
    pub plan: Vec<Aggregate>,
    /// Test only: rule for starting an opening.
    #[cfg(any(test, feature = "harness"))]
    pub rule: OpeningRule,
    /// Test only: deviation of the node.
    #[cfg(any(test, feature = "harness"))]
    pub bug: Option<Bug>,
}

impl Context {
    /// Makes the constants of peer `me` in `session`.
    ///
    /// # Panics
    /// If the plan has more than [`MOST_SLOTS`] slots, which is a bug of the task.
    #[must_use]
    pub fn new(
        session: impl Into<Arc<Settings>>,
        me: Peer,
        identity: Identity,
        plan: Vec<Aggregate>,
    ) -> Self {
        let session = session.into();
        assert!(plan.len() <= MOST_SLOTS as usize, "BUG: a plan of {} slots", plan.len());
        Self {
            id: session.id,
            quorum: session.quorum,
            committee: session.committee.clone(),
            session,
            me,
            identity,
            plan,
            #[cfg(any(test, feature = "harness"))]
            rule: OpeningRule::Decided,
            #[cfg(any(test, feature = "harness"))]
            bug: None,
        }
    }

    /// Makes the constants of another peer of the session.
    #[must_use]
    pub fn of(&self, me: Peer, identity: Identity) -> Self {
        Self {
            session: self.session.clone(),
            id: self.id,
            committee: self.committee.clone(),
            quorum: self.quorum,
            me,
            identity,
            plan: self.plan.clone(),
            #[cfg(any(test, feature = "harness"))]
            rule: self.rule,
            #[cfg(any(test, feature = "harness"))]
            bug: self.bug,
        }
    }

    /// Returns whether the vectors of `slot` come from an exchange.
    #[must_use]
    pub fn exchanges(&self, slot: u32) -> bool {
        self.plan.get(slot as usize).is_some_and(|aggregate| aggregate.exchange)
    }

    /// Returns a peer's place in the committee.
    #[must_use]
    pub fn committee_index(&self, peer: Peer) -> Option<usize> {
        self.committee.iter().position(|&member| member == peer)
    }

    /// Returns how many of `peers` are in the committee.
    #[must_use]
    pub fn committee_count(&self, peers: &[Peer]) -> usize {
        self.committee.iter().filter(|peer| peers.contains(peer)).count()
    }

    /// Returns whether a view may have these members: at least `min_peers`, and a quorum of the committee.
    #[must_use]
    pub fn suffice(&self, members: &[Peer]) -> bool {
        members.len() >= usize::from(self.session.min_peers) && self.committee_count(members) >= self.quorum
    }

    /// Returns whether this member of a view takes part in the draw of its mask graph. In views of more
    /// than [`FULL_MESH`] members, the members of the committee take part.
    #[must_use]
    pub fn draws(&self, peer: Peer, members: &[Peer]) -> bool {
        members.len() > FULL_MESH && self.committee_index(peer).is_some()
    }

    /// Returns the number of peers in the roster.
    #[must_use]
    pub fn peers(&self) -> u16 {
        u16::try_from(self.session.roster.len())
            .unwrap_or_else(|_| unreachable!("BUG: rosters have at most 1024 peers"))
    }

    /// Returns the peers whose pads hide `slot` in a view of `members`. These are all committee members in
    /// the view, so fewer than a quorum of the committee can never remove all pads from a total. Empty if
    /// the sum has no pads.
    #[must_use]
    pub fn dealers(&self, slot: u32, members: &[Peer]) -> Vec<Peer> {
        if self.plan.get(slot as usize).is_some_and(Aggregate::plain) {
            return Vec::new();
        }
        self.committee.iter().copied().filter(|peer| members.contains(peer)).collect()
    }
}
