//! What a peer remembers of the others' part in elections: the marks that it knows, proposers that began
//! nothing, and who did not give what it said it had.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::Time;
use crate::protocol::ballot::Ballot;
use crate::protocol::failure::Failure;
use crate::protocol::marks::Mark;
use crate::protocol::promise::MOST_MARKS;
use crate::protocol::signed::Signed;
use crate::session::Peer;

/// Wait after a failed view before the first proposes the next, milliseconds: news of the failure overtakes
/// the proposal.
pub(super) const SETTLE_MS: u64 = 100;
/// The most marks of one author that are kept.
const MOST_OF_ONE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The marks that are known, the oldest first.
    marks: BTreeMap<Mark, Signed<Failure>>,
    /// The ballot that was promised last, and until when no other proposer is promised anything.
    lease: Option<(Ballot, Time)>,
    /// How often a proposer began nothing, and until when it is not promised anything.
    idle: BTreeMap<Peer, (u32, Time)>,
    /// How many views a peer has led in which no slot was committed, since one was.
    in_vain: BTreeMap<Peer, u32>,
    /// How often a peer did not give what it said it had, and until when it is not asked again.
    fetch_failures: BTreeMap<Peer, (u32, Time)>,
    /// How often this peer has refused in a row.
    pub(super) refusals: BTreeMap<Peer, u32>,
}

impl Standing {
    /// A slot is committed: proposers are forgiven.
    pub(super) fn committed(&mut self) {
        self.idle.clear();
        self.in_vain.clear();
        self.refusals.clear();
    }

    /// Keeps a mark whose signature was checked. If there are too many, the oldest goes of whoever has the
    /// most.
    pub(super) fn note(&mut self, signed: &Signed<Failure>) {
        let Some(mark) = signed.mark() else { return };
        self.marks.insert(mark, signed.clone());
        let of = |marks: &BTreeMap<Mark, Signed<Failure>>, author: Peer| {
            marks.keys().filter(|mark| mark.author == author).count()
        };
        let crowded = self.marks.len() > MOST_MARKS;
        if of(&self.marks, mark.author) > MOST_OF_ONE || crowded {
            let authors: BTreeSet<_> = self.marks.keys().map(|mark| mark.author).collect();
            let most = authors.into_iter().max_by_key(|&author| of(&self.marks, author));
            let author = if crowded { most.unwrap_or(mark.author) } else { mark.author };
            if let Some(oldest) = self.marks.keys().find(|mark| mark.author == author).copied() {
                self.marks.remove(&oldest);
            }
        }
    }

    /// The marks of views before this ballot.
    pub(super) fn marks_before(&self, ballot: Ballot) -> impl Iterator<Item = (&Mark, &Signed<Failure>)> {
        self.marks.iter().filter(move |(mark, _)| mark.ballot < ballot)
    }

    /// Whether this proposer may be promised something now: nobody else has the word, and it has not just
    /// begun nothing.
    pub(super) fn may_promise(&mut self, now: Time, proposer: Peer, lease_ms: u64) -> bool {
        if let Some((ballot, until)) = self.lease.take_if(|(_, until)| *until <= now) {
            self.began_nothing(until, ballot.proposer, lease_ms);
        }
        let free = self.lease.is_none_or(|(ballot, _)| ballot.proposer == proposer);
        free && self.idle_until(proposer) <= now
    }

    /// Until when this proposer is promised nothing.
    pub(super) fn idle_until(&self, proposer: Peer) -> Time {
        self.idle.get(&proposer).map(|&(_, until)| until).unwrap_or_default()
    }

    /// The ballot was promised.
    pub(super) fn promised(&mut self, now: Time, ballot: Ballot, lease_ms: u64) {
        let until = self.lease.map_or_else(|| now.plus_ms(lease_ms), |(_, until)| until);
        self.lease = Some((ballot, until));
    }

    /// A view began.
    pub(super) fn entered(&mut self) {
        self.lease = None;
    }

    /// This proposer's lease was over at `end`. After the k-th time in a row 2^k leases pass before it is
    /// promised anything, at most 16.
    pub(super) fn began_nothing(&mut self, end: Time, proposer: Peer, lease_ms: u64) {
        let (times, until) = self.idle.entry(proposer).or_default();
        *times += 1;
        *until = end.plus_ms(lease_ms << (*times).min(4));
    }

    /// A view that this peer led has failed without a slot.
    pub(super) fn led_in_vain(&mut self, leader: Peer) {
        *self.in_vain.entry(leader).or_default() += 1;
    }

    /// How many views this peer has led in vain.
    pub(super) fn in_vain(&self, leader: Peer) -> u32 {
        self.in_vain.get(&leader).copied().unwrap_or_default()
    }

    /// A transfer came to nothing: the peer is asked again later and later, and others before. How often that
    /// was so.
    pub(super) fn fetch_failed(&mut self, now: Time, from: Peer) -> u32 {
        let (times, again) = self.fetch_failures.entry(from).or_default();
        *times += 1;
        *again = now.plus_ms(SETTLE_MS << (*times).min(8));
        *times
    }

    /// How often this peer did not give what it said it had.
    pub(super) fn failures(&self, peer: Peer) -> u32 {
        self.fetch_failures.get(&peer).map_or(0, |&(times, _)| times)
    }

    /// Whether what this peer says it has is not relied on now: it did not give it when it was asked this
    /// often.
    pub(super) fn set_aside(&self, now: Time, peer: Peer, often: u32) -> bool {
        self.fetch_failures.get(&peer).is_some_and(|&(times, again)| times >= often && now < again)
    }
}
