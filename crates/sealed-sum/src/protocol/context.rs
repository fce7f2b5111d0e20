//! What every machine of a node knows and never changes: the session, the committee, this peer's identity and
//! the plan.

use std::sync::Arc;

use crate::crypto::identity::Identity;
use crate::crypto::mask::Word;
use crate::session::{MOST_SLOTS, Peer, SessionId, Settings};

/// Members from which on the mask graph is sparse.
pub const FULL_MESH: usize = 64;
/// Members that a view needs to start a new sum: with two, each could subtract its own part.
pub const SMALLEST_SUM: usize = 3;

/// One vector that the session sums and opens. Slot 0 of every plan is the coin, whose vector is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// For people and receipts, such as "coin", "holders", "moments", "counts".
    pub name: String,
    /// Bytes per word of the vector: 4 or 8.
    pub word_bytes: u8,
    /// Words in the vector.
    pub words: u64,
    /// What is put in, and how it travels.
    pub kind: Kind,
    /// Whether a peer's vector comes from an exchange with other members ([`crate::task::Task::exchange`]).
    /// No message of an exchange is taken for other aggregates.
    pub exchange: bool,
    /// A few words that say what the sum is, such as "rows in all". They stand in every receipt.
    pub is: &'static str,
    /// What the opened sum tells every member, such as "how many rows all members have together". It stands
    /// in every receipt, where "with noise" is added if the vectors have noise in them.
    pub reveals: &'static str,
}

/// How the vectors of an aggregate are made and added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Of the rows alone; masked, opened by pads.
    #[default]
    Exact,
    /// With noise that is drawn once in a session; masked and opened like the others.
    Noised,
    /// A differentially private release, drawn once in a session. What a peer puts in is no secret: no masks
    /// and no pads, and few words that are not 0, so chunks travel as pairs of place and value. Words have 4
    /// bytes.
    Released,
}

impl Aggregate {
    /// The coin: no words, a pad of every committee member in the view.
    #[must_use]
    pub fn coin() -> Self {
        let is = "a random number that no peer can choose";
        Self::exact("coin", 4, 0, is, "nothing about any rows: it is random")
    }

    /// A sum of what the rows give, with what it is and what it reveals.
    #[must_use]
    pub fn exact(name: &str, word_bytes: u8, words: u64, is: &'static str, reveals: &'static str) -> Self {
        Self { name: name.into(), word_bytes, words, kind: Kind::Exact, exchange: false, is, reveals }
    }

    /// The same, with vectors that come from an exchange.
    #[must_use]
    pub fn with_exchange(self) -> Self {
        Self { exchange: true, ..self }
    }

    /// What the opened sum tells every member, in a sentence without a full stop.
    #[must_use]
    pub fn told(&self) -> String {
        let noise = if self.is_noised() { "; with noise" } else { "" };
        format!("{}{noise}", self.reveals)
    }

    /// Whether a peer's vector has noise in it: it is made once, and never again.
    #[must_use]
    pub fn is_noised(&self) -> bool {
        matches!(self.kind, Kind::Noised | Kind::Released)
    }

    /// Whether vectors travel without masks, as pairs.
    #[must_use]
    pub fn plain(&self) -> bool {
        self.kind == Kind::Released
    }

    /// The ring that its words are added in.
    #[must_use]
    pub fn word(&self) -> Word {
        if self.word_bytes == 8 { Word::W64 } else { Word::W32 }
    }

    /// Length of the vector in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.words).unwrap_or(usize::MAX).saturating_mul(usize::from(self.word_bytes))
    }

    /// Whether there is no vector (the coin).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }
}

/// Test only: the rule by which an opening is begun.
#[cfg(any(test, feature = "harness"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpeningRule {
    /// As it is: promises first, and what was acknowledged is finished.
    Decided,
    /// Every view sums anew, without promises, and opens when it has the shares.
    Naive,
}

/// Test only: a bug put back, which a check of the simulator must find.
#[cfg(any(test, feature = "harness"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// One of a peer's masks is left out.
    ForgottenMask,
    /// A message of a view that is over is held against its sender.
    StaleBlame,
    /// A wrong share is passed over in silence.
    NoBlame,
    /// Deadlines are not watched.
    NoAlarm,
    /// A leader sums anew whatever the promises say.
    IgnoresPromises,
    /// A leader sums over however few.
    AnyCrowd,
    /// A server leaves out every vector.
    ServesBare,
    /// A leader takes only these peers as members, one bit each.
    Picks(u16),
}

/// Constants of one node in one session.
#[derive(Debug)]
pub struct Context {
    /// The session; nodes of one process may share it.
    pub session: Arc<Settings>,
    /// Its id.
    pub id: SessionId,
    /// The committee, in its order.
    pub committee: Vec<Peer>,
    /// Committee members that decide, and shares that open.
    pub quorum: usize,
    /// This peer.
    pub me: Peer,
    /// Its identity.
    pub identity: Identity,
    /// What is summed and opened, in order.
    pub plan: Vec<Aggregate>,
    /// Test only: the rule by which an opening is begun.
    #[cfg(any(test, feature = "harness"))]
    pub rule: OpeningRule,
    /// Test only: how the node deviates.
    #[cfg(any(test, feature = "harness"))]
    pub bug: Option<Bug>,
}

impl Context {
    /// The constants of peer `me` in `session`.
    ///
    /// # Panics
    /// If the plan has more than [`MOST_SLOTS`] slots: the task made it wrongly.
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

    /// The same for another peer of the session.
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

    /// Whether the vectors of `slot` come from an exchange.
    #[must_use]
    pub fn exchanges(&self, slot: u32) -> bool {
        self.plan.get(slot as usize).is_some_and(|aggregate| aggregate.exchange)
    }

    /// A peer's place in the committee.
    #[must_use]
    pub fn committee_index(&self, peer: Peer) -> Option<usize> {
        self.committee.iter().position(|&member| member == peer)
    }

    /// How many of `peers` are in the committee.
    #[must_use]
    pub fn committee_count(&self, peers: &[Peer]) -> usize {
        self.committee.iter().filter(|peer| peers.contains(peer)).count()
    }

    /// Whether a view may have these members: at least `min_peers`, and a quorum of the committee.
    #[must_use]
    pub fn suffice(&self, members: &[Peer]) -> bool {
        members.len() >= usize::from(self.session.min_peers) && self.committee_count(members) >= self.quorum
    }

    /// Whether this member of a view has a part in the draw of its mask graph: the committee's members do, in
    /// views of more than [`FULL_MESH`].
    #[must_use]
    pub fn draws(&self, peer: Peer, members: &[Peer]) -> bool {
        members.len() > FULL_MESH && self.committee_index(peer).is_some()
    }

    /// Number of peers in the roster.
    #[must_use]
    pub fn peers(&self) -> u16 {
        u16::try_from(self.session.roster.len())
            .unwrap_or_else(|_| unreachable!("BUG: rosters have at most 1024 peers"))
    }

    /// The peers whose pads hide `slot` in a view of `members`: every committee member there, so that fewer
    /// than a quorum of the committee never take all pads off a total; nobody if nothing is hidden.
    #[must_use]
    pub fn dealers(&self, slot: u32, members: &[Peer]) -> Vec<Peer> {
        if self.plan.get(slot as usize).is_some_and(Aggregate::plain) {
            return Vec::new();
        }
        self.committee.iter().copied().filter(|peer| members.contains(peer)).collect()
    }
}
