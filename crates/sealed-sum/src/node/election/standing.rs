//! What a peer remembers of elections: ballots, who failed whom, who is waited for and who is not.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::Time;
use crate::protocol::ballot::Ballot;
use crate::protocol::promise::{Duty, Promised};
use crate::protocol::signed::Signed;
use crate::protocol::view::Reason;
use crate::session::Peer;

/// Wait after a failed view before the first proposes the next, milliseconds: news of the failure overtakes
/// the proposal.
const SETTLE_MS: u64 = 100;
#[derive(Clone, Debug, Default)]
pub(in crate::node) struct Election {
    pub(super) started: Time,
    pub(super) gathered: bool,
    /// Since when nothing has gone on.
    pub(super) idle_since: Time,
    /// Since when there has been no view, here or anywhere this peer knows of; attempts to begin one do not
    /// count.
    pub(super) without_view: Time,
    /// When this peer was last in a view or froze a slot; words of others do not count.
    pub(super) went_on: Time,
    /// Highest ballot counter seen.
    pub(super) seen: u64,
    pub(super) proposal: Option<Proposal>,
    pub(super) obligation: Option<Duty>,
    pub(super) blocked: Option<Blocked>,
    /// Whether that is for want of peers, not by a rule of the task.
    pub(super) alone: bool,
    pub(super) blamed: BTreeSet<Peer>,
    /// (who says so, who is suspected), since the last view began.
    pub(super) reports: Vec<(Peer, Peer)>,
    pub(super) losses: BTreeMap<Peer, u32>,
    /// Peer -> ballot counter up to which it is left out.
    pub(super) skipped: BTreeMap<Peer, u64>,
    /// Peers that have once said that they have everything.
    pub(super) finished: BTreeSet<Peer>,
    /// Those before: a view that somebody refused to join clears nothing up.
    pub(super) reports_before: Vec<(Peer, Peer)>,
    /// How often a peer did not give what it said it had, and until when it is not asked again.
    pub(super) fetch_failures: BTreeMap<Peer, (u32, Time)>,
    /// Until when nobody is asked again.
    pub(super) fetch_again: Time,
    /// How often a view was left for a proposal of this peer or failed under its lead, and until when it is
    /// not promised anything, so that others get their turn.
    pub(super) led: BTreeMap<Peer, (u32, Time)>,
    /// How often this peer has ended a view and named nobody.
    pub(super) enders: BTreeMap<Peer, u32>,
    /// How often this peer has refused in a row.
    pub(super) refusals: BTreeMap<Peer, u32>,
    /// Peers for whose sake this one has refused a view that left them out.
    pub(in crate::node) excused: BTreeSet<Peer>,
    /// The members of the last view.
    pub(super) members: Vec<Peer>,
    /// Views entered since a slot was frozen.
    pub(in crate::node) views: u64,
    /// When this peer entered its last view.
    pub(super) entered_at: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) ballot: Ballot,
    pub(super) promises: BTreeMap<Peer, Signed<Promised>>,
    pub(super) refused: BTreeSet<Peer>,
    pub(super) until: Time,
}

/// A view is impossible.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    pub(super) since: Time,
    pub(super) why: String,
    /// How many peers were reachable when that was written, the most since then: who gives up a moment before
    /// the others must not be missing in what they say. 0 where a rule of the task forbids it.
    pub(super) reached: usize,
}

impl Election {
    pub(in crate::node) fn start(&mut self, now: Time) {
        self.started = now;
        self.idle_since = now;
        self.went_on = now;
    }

    pub(in crate::node) fn saw(&mut self, ballot: Ballot) {
        self.seen = self.seen.max(ballot.counter);
    }

    pub(in crate::node) fn greeted(&mut self, now: Time, peer: Peer) {
        // Who was gone and is back was lost as a peer: the reports were not about an edge between two.
        self.reports.retain(|&(a, b)| a != peer && b != peer);
        self.reports_before.retain(|&(a, b)| a != peer && b != peer);
        // A newcomer may make possible what was not; it deserves a fresh look at once, but no later turn for
        // anybody.
        if self.blocked.is_some() {
            self.idle_since = now;
        }
    }

    pub(in crate::node) fn lost(&mut self, peer: Peer) {
        if let Some(proposal) = &mut self.proposal {
            proposal.promises.remove(&peer);
        }
    }

    /// No view is possible, since now if it was before; see [`Blocked`].
    pub(super) fn block(&mut self, now: Time, why: String, reached: usize) {
        let since = self.blocked.as_ref().map_or(now, |blocked| blocked.since);
        self.blocked = Some(Blocked { since, why, reached });
    }

    /// A peer has said that it has everything.
    pub(in crate::node) fn finished(&mut self, peer: Peer) {
        self.finished.insert(peer);
    }

    /// Whether this peer has said that it has everything.
    pub(in crate::node) fn has_finished(&self, peer: Peer) -> bool {
        self.finished.contains(&peer)
    }

    /// When this peer began to wait for the roster.
    pub(in crate::node) fn began(&self) -> Time {
        self.started
    }

    /// Whether that wait is over.
    pub(in crate::node) fn has_gathered(&self) -> bool {
        self.gathered
    }

    /// Whether no view is possible, and since when there has been none.
    pub(in crate::node) fn stands_still_since(&self) -> (bool, Time) {
        match &self.blocked {
            Some(blocked) => (true, blocked.since),
            None => (false, self.without_view),
        }
    }

    pub(in crate::node) fn has_blamed(&self, peer: Peer) -> bool {
        self.blamed.contains(&peer)
    }

    pub(in crate::node) fn blame(&mut self, peer: Peer) {
        self.blamed.insert(peer);
    }

    /// Whether this peer was in the last view.
    pub(in crate::node) fn was_member(&self, peer: Peer) -> bool {
        self.members.contains(&peer)
    }

    /// The highest counter seen.
    pub(in crate::node) fn seen(&self) -> u64 {
        self.seen
    }

    /// The ballot that this peer asks promises for.
    pub(in crate::node) fn proposed(&self) -> Option<Ballot> {
        self.proposal.as_ref().map(|proposal| proposal.ballot)
    }

    pub(in crate::node) fn promised(&mut self, from: Peer, promise: Signed<Promised>) {
        self.refusals.remove(&from);
        if let Some(proposal) = &mut self.proposal {
            proposal.promises.insert(from, promise);
        }
    }

    /// Gives the own proposal up; others have the word until `idle`.
    pub(in crate::node) fn give_up(&mut self, idle: Time) {
        self.proposal = None;
        self.idle_since = self.idle_since.max(idle);
    }

    /// A view ended for a proposal of `peer`, or under its lead.
    pub(in crate::node) fn interrupted(&mut self, now: Time, peer: Peer, proposal_backoff_ms: u64) {
        let (times, until) = self.led.entry(peer).or_default();
        *times += 1;
        if *times >= 3 {
            *until = now.plus_ms(proposal_backoff_ms << (*times - 2).min(8));
        }
    }

    /// Whether others than `peer`, for whom views have ended again and again, have their turn now.
    pub(in crate::node) fn waits_for_others(&self, now: Time, peer: Peer) -> bool {
        self.led.get(&peer).is_some_and(|&(_, until)| now < until)
    }

    /// A slot is frozen: what went wrong before it is forgiven.
    pub(in crate::node) fn froze(&mut self, now: Time) {
        self.went_on = now;
        self.views = 0;
        self.losses.clear();
        self.skipped.clear();
        self.led.clear();
        self.enders.clear();
        self.refusals.clear();
    }

    pub(in crate::node) fn entered(&mut self, now: Time, ballot: Ballot, members: &[Peer]) {
        self.entered_at = now;
        self.went_on = now;
        self.members = members.to_vec();
        self.saw(ballot);
        self.proposal = None;
        self.blocked = None;
        self.reports_before = std::mem::take(&mut self.reports);
        self.views += 1;
    }

    /// A council member does not promise. Its word alone ends a proposal twice; then it only does not count,
    /// or one could end them all. `others` are the council members that may still promise.
    pub(in crate::node) fn refuse(
        &mut self,
        until: Time,
        from: Peer,
        other: Ballot,
        others: impl Fn(&BTreeSet<Peer>) -> bool,
    ) {
        self.saw(other);
        let Some(proposal) = &mut self.proposal else { return };
        if !proposal.refused.insert(from) {
            return;
        }
        let times = self.refusals.entry(from).or_default();
        *times += 1;
        if *times <= 2 || !others(&proposal.refused) {
            self.proposal = None;
            // Whoever refuses is busy: asking again at once would only make everybody write to disk.
            self.idle_since = until;
        }
    }

    pub(in crate::node) fn failed(&mut self, now: Time, author: Peer, reason: Reason, suspect: Option<Peer>) {
        self.idle_since = now.plus_ms(SETTLE_MS);
        self.without_view = now;
        self.went_on = now;
        if reason == Reason::Omitted {
            self.reports.append(&mut self.reports_before);
        }
        if matches!(reason, Reason::Superseded | Reason::Disagreement | Reason::TooFew) {
            let times = self.enders.entry(author).or_default();
            *times += 1;
            if *times >= 3 {
                let views = 1u64 << (*times - 2).min(16);
                self.skipped.insert(author, self.seen.saturating_add(views));
            }
        }
        self.report(author, reason, suspect);
    }

    pub(in crate::node) fn report(&mut self, reporter: Peer, reason: Reason, suspect: Option<Peer>) {
        let Some(suspect) =
            suspect.filter(|_| matches!(reason, Reason::Lost | Reason::Stalled | Reason::Fault))
        else {
            return;
        };
        if self.reports.contains(&(reporter, suspect)) {
            return;
        }
        if !self.reports.iter().any(|&(_, other)| other == suspect) {
            let losses = self.losses.entry(suspect).or_default();
            *losses += 1;
            if *losses >= 2 {
                let views = 1u64 << (*losses - 1).min(16);
                self.skipped.insert(suspect, self.seen.saturating_add(views));
            }
        }
        self.reports.push((reporter, suspect));
    }

    /// A transfer came to nothing: the peer is asked again later and later, and others before.
    pub(in crate::node) fn fetch_failed(&mut self, now: Time, from: Peer) {
        let (times, again) = self.fetch_failures.entry(from).or_default();
        *times += 1;
        *again = now.plus_ms(SETTLE_MS << (*times).min(8));
        self.fetch_again = now.plus_ms(SETTLE_MS);
        if *times <= 2 {
            self.proposal = None;
            self.idle_since = now.plus_ms(SETTLE_MS);
        }
    }

    /// Until when this peer lets others hold it up who only say that they go on, or that they have what they
    /// do not give: two computations as long as they may be.
    pub(super) fn patience(&self, compute_ms: u64) -> Time {
        self.went_on.plus_ms(compute_ms.saturating_mul(2))
    }

    /// How often this peer did not give what it said it had.
    pub(super) fn failures(&self, peer: Peer) -> u32 {
        self.fetch_failures.get(&peer).map_or(0, |&(times, _)| times)
    }

    /// Whether what this peer says it has is not relied on now: it did not give it when it was asked.
    pub(super) fn set_aside(&self, now: Time, peer: Peer) -> bool {
        self.fetch_failures.get(&peer).is_some_and(|&(times, again)| times >= 2 && now < again)
    }

    /// Of each reported edge between two candidates the end that more reports name goes; at a tie the later
    /// one; never `me`.
    pub(super) fn dropped(&self, me: Peer, candidates: &BTreeSet<Peer>) -> BTreeSet<Peer> {
        let named = |peer: Peer| self.reports.iter().filter(|&&(a, b)| a == peer || b == peer).count();
        self.reports
            .iter()
            .filter(|(a, b)| a != b && candidates.contains(a) && candidates.contains(b))
            .map(|&(a, b)| {
                let (low, high) = (a.min(b), a.max(b));
                match (low == me, high == me) {
                    (true, _) => high,
                    (_, true) => low,
                    _ if named(low) > named(high) => low,
                    _ => high,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_was_gone_and_is_back_costs_nobody_its_place() {
        let (me, reporter, victim, far) = (Peer(0), Peer(3), Peer(1), Peer(4));
        let candidates: BTreeSet<_> = (0..5).map(Peer).collect();
        let mut election = Election::default();
        for peer in [victim, far] {
            election.report(reporter, Reason::Lost, Some(peer));
        }
        assert_eq!(election.dropped(me, &candidates), BTreeSet::from([reporter]));
        election.greeted(Time::default(), victim);
        // The other edge is still reported dead: at a tie the later end goes.
        assert_eq!(election.dropped(me, &candidates), BTreeSet::from([far]));
        election.greeted(Time::default(), far);
        assert_eq!(election.dropped(me, &candidates), BTreeSet::new());
    }
}
