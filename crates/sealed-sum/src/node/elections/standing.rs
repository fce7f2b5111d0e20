//! What a peer remembers of the others' part in views that failed: who failed whom, who is waited for and who
//! is not.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::Time;
use crate::protocol::view::Reason;
use crate::session::Peer;

/// Wait after a failed view before the first proposes the next, milliseconds: news of the failure overtakes
/// the proposal.
pub(super) const SETTLE_MS: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct Standing {
    /// (who says so, who is suspected), since the last view began.
    reports: Vec<(Peer, Peer)>,
    /// Those before: a view that somebody refused to join clears nothing up.
    reports_before: Vec<(Peer, Peer)>,
    losses: BTreeMap<Peer, u32>,
    /// Peer -> ballot counter up to which it is left out.
    skipped: BTreeMap<Peer, u64>,
    /// How often a peer did not give what it said it had, and until when it is not asked again.
    fetch_failures: BTreeMap<Peer, (u32, Time)>,
    /// How often a view was left for a proposal of this peer or failed under its lead, and until when it is
    /// not promised anything, so that others get their turn.
    led: BTreeMap<Peer, (u32, Time)>,
    /// How often this peer has ended a view and named nobody.
    enders: BTreeMap<Peer, u32>,
    /// How often this peer has refused in a row.
    pub(super) refusals: BTreeMap<Peer, u32>,
}

impl Standing {
    /// A peer was gone and is back. It was lost as a peer: the reports were not about an edge between two.
    pub(super) fn greeted(&mut self, peer: Peer) {
        self.reports.retain(|&(a, b)| a != peer && b != peer);
        self.reports_before.retain(|&(a, b)| a != peer && b != peer);
    }

    /// A view began.
    pub(super) fn entered(&mut self) {
        self.reports_before = std::mem::take(&mut self.reports);
    }

    /// A slot is committed: what went wrong before it is forgiven.
    pub(super) fn committed(&mut self) {
        self.losses.clear();
        self.skipped.clear();
        self.led.clear();
        self.enders.clear();
        self.refusals.clear();
    }

    /// A view has failed; `seen` is the highest ballot counter.
    pub(super) fn failed(&mut self, seen: u64, author: Peer, reason: Reason, suspect: Option<Peer>) {
        if reason == Reason::Omitted {
            self.reports.append(&mut self.reports_before);
        }
        if matches!(reason, Reason::Superseded | Reason::Disagreement | Reason::TooFew) {
            let times = self.enders.entry(author).or_default();
            *times += 1;
            if *times >= 3 {
                let views = 1u64 << (*times - 2).min(16);
                self.skipped.insert(author, seen.saturating_add(views));
            }
        }
        self.report(seen, author, reason, suspect);
    }

    pub(super) fn report(&mut self, seen: u64, reporter: Peer, reason: Reason, suspect: Option<Peer>) {
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
                self.skipped.insert(suspect, seen.saturating_add(views));
            }
        }
        self.reports.push((reporter, suspect));
    }

    /// Whether this peer is left out while `seen` is the highest ballot counter.
    pub(super) fn skips(&self, seen: u64, peer: Peer) -> bool {
        self.skipped.get(&peer).is_some_and(|&until| seen <= until)
    }

    /// A view ended for a proposal of `peer`, or under its lead.
    pub(super) fn interrupted(&mut self, now: Time, peer: Peer, propose_ms: u64) {
        let (times, until) = self.led.entry(peer).or_default();
        *times += 1;
        if *times >= 3 {
            *until = now.plus_ms(propose_ms << (*times - 2).min(8));
        }
    }

    /// Whether others than `peer`, for whom views have ended again and again, have their turn now.
    pub(super) fn waits_for_others(&self, now: Time, peer: Peer) -> bool {
        self.led.get(&peer).is_some_and(|&(_, until)| now < until)
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
        let mut standing = Standing::default();
        for peer in [victim, far] {
            standing.report(0, reporter, Reason::Lost, Some(peer));
        }
        assert_eq!(standing.dropped(me, &candidates), BTreeSet::from([reporter]));
        standing.greeted(victim);
        // The other edge is still reported dead: at a tie the later end goes.
        assert_eq!(standing.dropped(me, &candidates), BTreeSet::from([far]));
        standing.greeted(far);
        assert_eq!(standing.dropped(me, &candidates), BTreeSet::new());
    }
}
