//! A peer's memory of the other peers' conduct in elections: known marks, proposers that began nothing,
//! and peers that did not send what they claimed to have. A proposer *began nothing* if no view of its
//! ballot began in time, or if it ended its view before a slot was committed.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::Time;
use crate::protocol::ballot::Ballot;
use crate::protocol::failure::Failure;
use crate::protocol::marks::Mark;
use crate::protocol::promise::MOST_MARKS;
use crate::protocol::signed::Signed;
use crate::session::Peer;

/// Wait between a failed view and the first proposal for the next one, in milliseconds. News of the
/// failure arrives before the proposal.
pub(super) const SETTLE_MS: u64 = 100;
/// Largest number of marks of one author that are kept.
const MOST_OF_ONE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Known marks, the oldest first.
    marks: BTreeMap<Mark, Signed<Failure>>,
    /// Ballot that was promised last, and the time until which no other proposer gets a promise.
    lease: Option<(Ballot, Time)>,
    /// Number of times that each proposer began nothing, and the time until which it gets no promise.
    idle: BTreeMap<Peer, (u32, Time)>,
    /// Number of views without a committed slot that each peer has led, since the last slot was committed.
    in_vain: BTreeMap<Peer, u32>,
    /// Number of failures of each peer to send what it claimed to have, and the time until which it is
    /// not asked.
    fetch_failures: BTreeMap<Peer, (u32, Time)>,
    /// Number of refusals in a row by each peer.
    pub(super) refusals: BTreeMap<Peer, u32>,
}

impl Standing {
    /// Forgives all proposers, because a slot is committed.
    pub(super) fn committed(&mut self) {
        self.idle.clear();
        self.in_vain.clear();
        self.refusals.clear();
    }

    /// Keeps a mark whose signature was checked. If its author has too many marks, the oldest of them
    /// is dropped. If there are too many marks in all, the author with the most marks loses its oldest
    /// one.
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

    /// Returns the marks of views before this ballot.
    pub(super) fn marks_before(&self, ballot: Ballot) -> impl Iterator<Item = (&Mark, &Signed<Failure>)> {
        self.marks.iter().filter(move |(mark, _)| mark.ballot < ballot)
    }

    /// Returns whether this proposer may get a promise now: no other proposer has a lease, and the
    /// proposer does not have to wait because it began nothing.
    pub(super) fn may_promise(&mut self, now: Time, proposer: Peer, lease_ms: u64) -> bool {
        if let Some((ballot, until)) = self.lease.take_if(|(_, until)| *until <= now) {
            self.began_nothing(until, ballot.proposer, lease_ms);
        }
        let free = self.lease.is_none_or(|(ballot, _)| ballot.proposer == proposer);
        free && self.idle_until(proposer) <= now
    }

    /// Returns the time until which this proposer gets no promise.
    pub(super) fn idle_until(&self, proposer: Peer) -> Time {
        self.idle.get(&proposer).map(|&(_, until)| until).unwrap_or_default()
    }

    /// Notes that the ballot was promised.
    pub(super) fn promised(&mut self, now: Time, ballot: Ballot, lease_ms: u64) {
        let until = self.lease.map_or_else(|| now.plus_ms(lease_ms), |(_, until)| until);
        self.lease = Some((ballot, until));
    }

    /// Notes that a view began.
    pub(super) fn entered(&mut self) {
        self.lease = None;
    }

    /// Notes that this proposer began nothing, and that its lease ended at `end`. After the k-th time
    /// in a row it gets no promise for 2^k leases, at most 16.
    pub(super) fn began_nothing(&mut self, end: Time, proposer: Peer, lease_ms: u64) {
        let (times, until) = self.idle.entry(proposer).or_default();
        *times += 1;
        *until = end.plus_ms(lease_ms << (*times).min(4));
    }

    /// Notes that a view of this leader has failed without a committed slot.
    pub(super) fn led_in_vain(&mut self, leader: Peer) {
        *self.in_vain.entry(leader).or_default() += 1;
    }

    /// Returns the number of views that this peer has led in vain.
    pub(super) fn in_vain(&self, leader: Peer) -> u32 {
        self.in_vain.get(&leader).copied().unwrap_or_default()
    }

    /// Records a transfer that failed, and returns the number of failures of this peer. The peer is asked
    /// again after longer and longer waits, and other peers are asked first.
    pub(super) fn fetch_failed(&mut self, now: Time, from: Peer) -> u32 {
        let (times, again) = self.fetch_failures.entry(from).or_default();
        *times += 1;
        *again = now.plus_ms(SETTLE_MS << (*times).min(8));
        *times
    }

    /// Returns how often this peer did not send what it claimed to have.
    pub(super) fn failures(&self, peer: Peer) -> u32 {
        self.fetch_failures.get(&peer).map_or(0, |&(times, _)| times)
    }

    /// Returns whether this peer's claims are ignored now: at least `often` times it did not send what
    /// it claimed to have, and its waiting time has not ended.
    pub(super) fn set_aside(&self, now: Time, peer: Peer, often: u32) -> bool {
        self.fetch_failures.get(&peer).is_some_and(|&(times, again)| times >= often && now < again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE_MS: u64 = 500;
    const ONE: Peer = Peer(1);
    const OTHER: Peer = Peer(2);

    fn at(ms: u64) -> Time {
        Time::default().plus_ms(ms)
    }

    /// Returns the memory of a peer that has promised two ballots of [`ONE`], at 0 and 400 ms.
    fn promised() -> Standing {
        let mut standing = Standing::default();
        for (counter, ms) in [(1, 0), (2, 400)] {
            assert!(standing.may_promise(at(ms), ONE, LEASE_MS));
            standing.promised(at(ms), Ballot { counter, proposer: ONE }, LEASE_MS);
        }
        standing
    }

    #[test]
    fn a_second_promise_does_not_extend_the_lease_of_a_proposer() {
        let mut standing = promised();
        assert!(!standing.may_promise(at(LEASE_MS - 1), OTHER, LEASE_MS));
        assert!(standing.may_promise(at(LEASE_MS), OTHER, LEASE_MS));
    }

    /// If no peer asks for a promise for a while, this peer notices late that a lease has ended.
    #[test]
    fn the_wait_after_a_lease_counts_from_its_end_whenever_it_is_noticed() {
        let end = 3 * LEASE_MS;
        for noticed in [LEASE_MS, end - 1] {
            let mut standing = promised();
            assert!(standing.may_promise(at(noticed), OTHER, LEASE_MS));
            assert!(!standing.may_promise(at(end - 1), ONE, LEASE_MS), "noticed at {noticed}");
            assert!(standing.may_promise(at(end), ONE, LEASE_MS), "noticed at {noticed}");
        }
        assert!(promised().may_promise(at(end), ONE, LEASE_MS), "the proposer itself asks first");
    }
}
