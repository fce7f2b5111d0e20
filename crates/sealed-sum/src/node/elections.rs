//! The election: which peer proposes a view, and when (spec, section "Elections").
//!
//! Committee members propose. The member of rank r proposes after r x `proposal_backoff_ms` without
//! progress. Ranks count only reachable members, and members that have led a view in vain come last. No
//! peer proposes before the whole roster is connected or `start_wait_ms` have passed. Members and tree
//! follow from the promises. A promise is a lease: until it ends, no other proposer gets a promise.

mod standing;
mod votes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::presence::Presence;
use super::slots::Slots;
use super::waits::{Awaited, Waits};
use super::{Ending, Message, Out, Record};
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::failure::Failure;
use crate::protocol::promise::{self, Basis, Begun, Duty, Promised};
use crate::protocol::signed::Signed;
use crate::protocol::transfer::{Transfer, Want};
use crate::protocol::view::{Reason, View};
use crate::protocol::{Action, Fault, Time};
use crate::session::Peer;
use standing::{SETTLE_MS, Standing};
pub(super) use votes::Votes;

pub(super) struct Elections {
    ctx: Arc<Context>,
    votes: Votes,
    standing: Standing,
    started: Time,
    gathered: bool,
    /// Time since which this peer has seen no progress.
    idle_since: Time,
    /// Time since which no view has existed, here or at any peer that this peer knows of. Attempts to
    /// begin a view do not count.
    without_view: Time,
    /// View that has begun without this peer, until the peer hears that it is over.
    unseen: Option<Ballot>,
    /// Time at which this peer was last in a view or committed a slot; claims of other peers do not count.
    went_on: Time,
    /// Highest ballot counter seen.
    seen: u64,
    proposal: Option<Proposal>,
    /// Ballot of a proposal that was dropped before any other peer promised it, and the time when its
    /// leases end.
    dropped: Option<(Ballot, Time)>,
    obligation: Option<Duty>,
    blocked: Option<Blocked>,
    /// True if `blocked` is due to too few peers, and not to a rule of the task.
    alone: bool,
    /// Time until which this peer asks no peer for a slot again.
    fetch_again: Time,
    /// Number of views entered since a slot was committed.
    views: u64,
    /// Time at which this peer entered its last view, and whether a slot was committed since.
    entered: (Time, bool),
}

struct Proposal {
    ballot: Ballot,
    promises: BTreeMap<Peer, Signed<Promised>>,
    refused: BTreeSet<Peer>,
    /// Time until which this peer waits for more promises than a quorum, if they may matter.
    more: Time,
    /// End of the leases that the proposal got.
    leased: Time,
    until: Time,
}

/// Reason why no view is possible.
struct Blocked {
    since: Time,
    why: String,
    /// Number of reachable peers when `why` was written, the highest so far. `why` is not rewritten for
    /// fewer peers: a peer that gives up a moment before this one must not be listed as missing. 0 if a
    /// rule of the task forbids the view.
    reached: usize,
}

/// State of the other machines that an election depends on.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) now: Time,
    pub(super) presence: &'a Presence,
    pub(super) slots: &'a Slots,
    pub(super) transfer: &'a Transfer,
}

/// Next step of a peer that is in no view.
pub(super) enum Move {
    Wait,
    GiveUp(Ending),
    /// See [`Elections::propose`].
    Propose,
    /// Fetch a slot that the promises require.
    Fetch(Peer, u32, Want),
    /// Lead the view with this beginning and this basis.
    Lead(Box<(Signed<Begun>, Basis)>),
}

impl Elections {
    pub(super) fn new(ctx: Arc<Context>, votes: Votes) -> Self {
        Self {
            ctx,
            votes,
            standing: Standing::default(),
            started: Time::default(),
            gathered: false,
            idle_since: Time::default(),
            without_view: Time::default(),
            unseen: None,
            went_on: Time::default(),
            seen: 0,
            proposal: None,
            dropped: None,
            obligation: None,
            blocked: None,
            alone: false,
            fetch_again: Time::default(),
            views: 0,
            entered: (Time::default(), false),
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.started = now;
        self.idle_since = now;
        self.went_on = now;
    }

    pub(super) fn greeted(&mut self, now: Time) {
        // If no view was possible, a new peer may make one possible, so the wait for a turn starts
        // again. Otherwise a new peer does not delay any turn.
        if self.blocked.is_some() {
            self.idle_since = now;
        }
    }

    pub(super) fn lost(&mut self, peer: Peer) {
        if let Some(proposal) = &mut self.proposal {
            proposal.promises.remove(&peer);
        }
    }

    /// Returns the ballot of this peer's present proposal.
    pub(super) fn proposed(&self) -> Option<Ballot> {
        self.proposal.as_ref().map(|proposal| proposal.ballot)
    }

    /// Gives up this peer's proposal; other peers may propose until `idle`.
    pub(super) fn give_up(&mut self, idle: Time) {
        self.withdraw();
        self.idle_since = self.idle_since.max(idle);
    }

    /// Drops this peer's proposal. Peers that promised it count it as a proposal that began nothing. This
    /// peer counts it too, so that it does not ask again before they may promise.
    fn withdraw(&mut self) {
        let Some(proposal) = self.proposal.take() else { return };
        if proposal.promises.len() > 1 {
            self.count_dropped(proposal.leased);
        } else {
            self.dropped = Some((proposal.ballot, proposal.leased));
        }
    }

    fn count_dropped(&mut self, leased: Time) {
        let lease_ms = self.ctx.session.timing.proposal_backoff_ms;
        self.standing.began_nothing(leased, self.ctx.me, lease_ms);
    }

    /// Notes that this peer enters a view. This must be on disk before the peer sends a message in the
    /// view.
    pub(super) fn entered(&mut self, now: Time, view: &View, step: &mut Out) {
        let ballot = view.ballot();
        self.votes.joined = ballot;
        self.votes.acceptor.promised = self.votes.acceptor.promised.max(ballot);
        step.0.push(Action::Persist(Record::Joined(ballot)));
        self.entered = (now, false);
        self.went_on = now;
        self.saw(ballot);
        self.proposal = None;
        self.blocked = None;
        self.standing.entered();
        self.views += 1;
    }

    /// Notes a view that began without this peer, or that this peer has not entered yet. Its proposer has
    /// used its promises.
    pub(super) fn began(&mut self, now: Time, ballot: Ballot) {
        self.without_view = now;
        self.unseen = Some(ballot);
        self.standing.entered();
    }

    /// Notes that a slot is committed.
    pub(super) fn committed(&mut self, now: Time, slot: u32) {
        self.votes.acceptor.commit(slot);
        self.went_on = now;
        self.entered.1 = true;
        self.views = 0;
        self.standing.committed();
    }

    /// Notes that a view has failed. Returns the number of views since a slot was committed.
    pub(super) fn failed(&mut self, now: Time, ballot: Ballot, reason: Reason) -> u64 {
        self.idle_since = now.plus_ms(SETTLE_MS);
        self.without_view = now;
        self.went_on = now;
        if !self.entered.1 {
            self.standing.led_in_vain(ballot.proposer);
        }
        if reason == Reason::Ended && !self.entered.1 && ballot.proposer != self.ctx.me {
            self.standing.began_nothing(now, ballot.proposer, self.ctx.session.timing.proposal_backoff_ms);
        }
        self.views
    }

    /// Keeps a mark whose signature was checked.
    pub(super) fn note(&mut self, signed: &Signed<Failure>) {
        self.standing.note(signed);
    }

    /// Returns whether this peer has acknowledged a value of this slot, which is not committed here.
    pub(super) fn has_acknowledged(&self, slot: u32) -> bool {
        self.votes.acceptor.accepted.as_ref().is_some_and(|accepted| accepted.slot == slot)
    }

    /// Takes a failure of a view that this peer was not in, and keeps its mark. If this peer knows that the
    /// view began, it counts the time without a view from now on.
    pub(super) fn note_unseen(&mut self, now: Time, signed: &Signed<Failure>) -> Result<(), Fault> {
        let ends = self.unseen == Some(signed.item.ballot);
        if !ends && signed.mark().is_none() {
            return Ok(());
        }
        if !signed.verify(&self.ctx) {
            return Err(Fault::BadSignature("failure"));
        }
        if ends {
            self.unseen = None;
            self.without_view = now;
        }
        if signed.mark().is_some() {
            self.note(signed);
        }
        Ok(())
    }

    /// Notes that a transfer brought nothing.
    pub(super) fn fetch_failed(&mut self, now: Time, from: Peer) {
        self.fetch_again = now.plus_ms(SETTLE_MS);
        if self.standing.fetch_failed(now, from) <= 2 {
            self.withdraw();
            self.idle_since = now.plus_ms(SETTLE_MS);
        }
    }

    /// Returns whether this peer waits before it asks for a slot again.
    pub(super) fn fetches_later(&self, now: Time) -> bool {
        now < self.fetch_again
    }

    /// Returns the peer to ask for a slot, out of its holders.
    pub(super) fn source(&self, now: Time, holders: impl Iterator<Item = Peer>) -> Option<Peer> {
        holders
            .filter(|peer| !self.standing.set_aside(now, *peer, 0))
            .min_by_key(|peer| (self.standing.failures(*peer), *peer))
    }

    /// Returns whether a leader may begin a larger view now, between two slots. It may do so at most once
    /// per `regroup_interval_ms`.
    pub(super) fn may_enlarge(&self, now: Time) -> bool {
        let (entered, committed) = self.entered;
        committed && now >= entered.plus_ms(self.ctx.session.timing.regroup_interval_ms)
    }

    /// Returns the digest of the value that the promises of this view oblige its leader to finish in `slot`.
    pub(super) fn take_resume(&mut self, slot: u32) -> Option<[u8; 32]> {
        let obligation = self.obligation.take().filter(|obligation| obligation.committed == slot)?;
        obligation.resume.map(|(_, accepted)| accepted.value)
    }

    fn saw(&mut self, ballot: Ballot) {
        self.seen = self.seen.max(ballot.counter);
    }

    /// Returns the highest ballot counter that this peer knows of.
    fn highest(&self) -> u64 {
        self.votes.highest().counter.max(self.seen)
    }

    /// Notes that no view is possible. The time of an earlier such note is kept; see [`Blocked`].
    fn block(&mut self, now: Time, why: String, reached: usize) {
        let since = self.blocked.as_ref().map_or(now, |blocked| blocked.since);
        self.blocked = Some(Blocked { since, why, reached });
    }

    /// Returns the time until which other peers may delay this peer by mere claims: they claim to
    /// continue, or to have a slot that they then do not send. The time suffices for two computations
    /// of the longest duration.
    fn patience(&self) -> Time {
        self.went_on.plus_ms(self.ctx.session.timing.compute_ms.saturating_mul(2))
    }

    /// Returns whether other peers continue without this one, or give it the slots that it lacks. Mere
    /// claims count only for a limited time.
    fn others_go_on(&self, at: Around<'_>) -> bool {
        let Around { now, presence, transfer, .. } = at;
        let received = transfer.asked().filter(|_| transfer.receiving());
        let given = received.is_some_and(|peer| self.standing.failures(peer) < 3);
        let said = !presence.in_view().is_empty() || transfer.fetching();
        given || (said && now < self.patience())
    }

    /// Returns the time of this peer's turn to propose. `None` if it is outside the committee or does not
    /// vote.
    fn turn(&self, presence: &Presence) -> Option<Time> {
        let mut order: Vec<_> = presence.committee().collect();
        order.sort_by_key(|&peer| self.standing.in_vain(peer));
        let rank = order.iter().position(|&peer| peer == self.ctx.me);
        let rank = rank.filter(|_| !self.votes.silent)?;
        let since = self.idle_since.max(self.standing.idle_until(self.ctx.me));
        Some(since.plus_ms(rank as u64 * self.ctx.session.timing.proposal_backoff_ms))
    }

    /// Returns the next step, while this peer is in no view.
    pub(super) fn elect(&mut self, at: Around<'_>) -> Move {
        let Around { now, presence, .. } = at;
        let timing = self.ctx.session.timing;
        let gathered =
            presence.is_full() || now >= self.started.plus_ms(timing.start_wait_ms) || self.seen > 0;
        if !self.gathered && gathered {
            self.gathered = true;
            self.idle_since = now;
            self.without_view = now;
        }
        if !self.gathered {
            return Move::Wait;
        }
        let (reached, enough) = presence.reach();
        if !enough {
            self.withdraw();
            self.alone = true;
            if self.blocked.as_ref().is_none_or(|blocked| reached > blocked.reached) {
                self.block(now, presence.too_few(), reached);
            }
        } else if std::mem::take(&mut self.alone) {
            // Enough peers are reachable again: a view is possible, and the wait starts again.
            self.blocked = None;
            self.idle_since = now;
            self.without_view = now;
        }
        if self.others_go_on(at) {
            // The other peers report when they finish or give up.
            self.without_view = now;
        } else if let Some(Blocked { since, why, .. }) = &self.blocked {
            if now >= since.plus_ms(timing.no_quorum_timeout_ms) {
                return Move::GiveUp(Ending::TooFew(why.clone() + &presence.gone_with_result()));
            }
        } else if now >= self.without_view.plus_ms(timing.no_quorum_timeout_ms) {
            let mut text = format!("no view began for {} s", timing.no_quorum_timeout_ms / 1000);
            // Only a proposer notes that the task forbids a view.
            if let Err(why) = at.slots.may_begin((&presence.reachable(), at.slots.accusations())) {
                text = format!("{text}: {why}");
            }
            return Move::GiveUp(Ending::TooFew(text + &presence.gone_with_result()));
        }
        if enough { self.go_on_proposing(at) } else { Move::Wait }
    }

    fn go_on_proposing(&mut self, at: Around<'_>) -> Move {
        let Around { now, presence, slots, transfer } = at;
        let fetching = transfer.asked().is_some_and(|peer| self.standing.failures(peer) == 0)
            || transfer.receiving()
            || slots.is_opening();
        let promises = if self.is_naive() { 1 } else { self.ctx.quorum };
        if let Some(proposal) = &mut self.proposal {
            let (enough, over) = (proposal.promises.len() >= promises, now >= proposal.until);
            if fetching {
                proposal.until = now.plus_ms(self.ctx.session.timing.proposal_backoff_ms);
            } else if enough && let Some(next) = self.begin(at) {
                return next;
            } else if over {
                self.withdraw();
                self.idle_since = now;
            }
        } else if !fetching && self.turn(presence).is_some_and(|turn| now >= turn) {
            return Move::Propose;
        }
        Move::Wait
    }

    #[cfg(any(test, feature = "harness"))]
    fn is_naive(&self) -> bool {
        self.ctx.rule == crate::protocol::context::OpeningRule::Naive
    }

    #[cfg(not(any(test, feature = "harness")))]
    fn is_naive(&self) -> bool {
        false
    }

    /// Asks the committee for its promises.
    pub(super) fn propose(&mut self, now: Time, presence: &Presence, step: &mut Out) -> Result<(), Ending> {
        let ballot = Ballot::above(self.highest(), self.ctx.me)
            .ok_or_else(|| Ending::Refused("a peer has used up the numbers of views".into()))?;
        self.saw(ballot);
        let Ok(own) = self.promise(ballot, presence) else {
            unreachable!("BUG: the ballot is above every promise");
        };
        step.0.push(Action::Persist(Record::Promised(ballot)));
        let backoff = self.ctx.session.timing.proposal_backoff_ms;
        let (more, leased) = (now.plus_ms(backoff / 2), now.plus_ms(backoff));
        let promises = BTreeMap::from([(self.ctx.me, own)]);
        self.proposal =
            Some(Proposal { ballot, promises, refused: BTreeSet::new(), more, leased, until: leased });
        for peer in presence.committee().filter(|&peer| peer != self.ctx.me) {
            step.send(peer, Message::Prepare(ballot));
        }
        Ok(())
    }

    /// Fetches the slots that the promises of a quorum require, and then begins the view. Returns
    /// `None` if neither is possible now, for example because too few of the promises are reliable.
    fn begin(&mut self, at: Around<'_>) -> Option<Move> {
        let Around { now, presence, slots, transfer } = at;
        let proposal = self.proposal.as_ref()?;
        let ballot = proposal.ballot;
        let relied = proposal.promises.iter().filter(|&(&peer, _)| !self.standing.set_aside(now, peer, 2));
        let relied: Vec<_> = relied.map(|(_, signed)| signed.clone()).collect();
        let obligation = promise::duty(&relied)?;
        if relied.len() < self.ctx.quorum && !self.is_naive() {
            return None;
        }
        #[cfg(any(test, feature = "harness"))]
        let obligation = match self.ctx.bug {
            Some(crate::protocol::context::Bug::IgnoresPromises) => Duty { resume: None, ..obligation },
            _ if self.is_naive() => Duty { resume: None, ..obligation },
            _ => obligation,
        };
        let committed = slots.committed();
        // An earlier request to this peer brought nothing: the proposal does not wait for it.
        let asked = transfer.asked();
        let fetch = |holder, want| (asked != Some(holder)).then_some(Move::Fetch(holder, committed, want));
        if obligation.committed > committed {
            return fetch(obligation.holder, Want::Committed);
        }
        let resume = obligation.resume.as_ref().filter(|_| obligation.committed == committed);
        if let Some((holder, accepted)) = resume
            && slots.sealed(&accepted.value).is_none()
        {
            return fetch(*holder, Want::Accepted(accepted.value));
        }
        let backoff = self.ctx.session.timing.proposal_backoff_ms;
        let Some(basis) = promise::basis(&self.ctx, ballot, &relied) else {
            // Other peers may be able to lead a view: they may propose before this peer asks again.
            self.give_up(now.plus_ms(backoff.saturating_mul(4)));
            return Some(Move::Wait);
        };
        let open = |peer: Peer| !proposal.promises.contains_key(&peer) && !proposal.refused.contains(&peer);
        if now < proposal.more && basis.gives_way(&self.ctx) && presence.committee().any(open) {
            // With more promises, fewer marks may have to be ignored.
            return None;
        }
        if resume.is_none()
            && let Err(why) = slots.may_begin((basis.tree.members(), &basis.marks))
        {
            self.withdraw();
            self.idle_since = now.plus_ms(backoff);
            self.block(now, why, 0);
            return Some(Move::Wait);
        }
        let basis = Basis { duty: obligation.clone(), ..basis };
        self.obligation = Some(obligation);
        let begun = Signed::new(&self.ctx, Begun { ballot, promises: relied });
        Some(Move::Lead(Box::new((begun, basis))))
    }

    /// Returns the times of the next checks, while this peer is in no view.
    pub(super) fn deadlines(&self, at: Around<'_>) -> [Option<Time>; 2] {
        let Around { now, presence, .. } = at;
        let timing = &self.ctx.session.timing;
        let end = if !self.gathered {
            self.started.plus_ms(timing.start_wait_ms)
        } else if self.others_go_on(at) {
            self.patience().max(now.plus_ms(timing.view_timeout_ms))
        } else {
            self.stands_still_since().plus_ms(timing.no_quorum_timeout_ms)
        };
        let turn = match &self.proposal {
            _ if !self.gathered || !presence.reach().1 => None,
            Some(proposal) if now < proposal.more => Some(proposal.more),
            Some(proposal) => Some(proposal.until),
            None => self.turn(presence),
        };
        [Some(end), turn]
    }

    /// Returns the time at which this peer may ask for a slot again, if that time lies ahead.
    pub(super) fn fetch_deadline(&self, now: Time) -> Option<Time> {
        Some(self.fetch_again).filter(|again| *again > now)
    }

    /// Returns the time since which no view is possible or, if a view is possible, since which there has
    /// been none.
    fn stands_still_since(&self) -> Time {
        self.blocked.as_ref().map_or(self.without_view, |blocked| blocked.since)
    }

    /// Returns what this peer waits for, while it is in no view.
    pub(super) fn waits(&self, at: Around<'_>) -> Waits {
        let presence = at.presence;
        let timing = &self.ctx.session.timing;
        if !self.gathered {
            return Waits::new(
                Awaited::Roster,
                presence.absent(),
                self.started.plus_ms(timing.start_wait_ms),
            );
        }
        if self.others_go_on(at) {
            let peers = presence.in_view().iter().copied().collect();
            return Waits { what: Awaited::Others, peers, until: None };
        }
        let until = self.stands_still_since().plus_ms(timing.no_quorum_timeout_ms);
        if self.blocked.is_some() {
            Waits::new(Awaited::Enough, presence.absent(), until)
        } else {
            Waits::new(Awaited::View, Vec::new(), until)
        }
    }

    #[cfg(test)]
    pub(super) fn votes_mut(&mut self) -> &mut Votes {
        &mut self.votes
    }

    #[cfg(test)]
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }
}
