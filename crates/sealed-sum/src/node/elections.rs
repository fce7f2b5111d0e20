//! The election: which peer proposes a view, and when (spec, section "Elections").
//!
//! Committee members propose, the one of rank r after r x `proposal_backoff_ms` without progress, rank
//! counted among those that are reachable; whoever has led a view in vain comes after the others. No peer
//! proposes before the whole roster is there or `start_wait_ms` have passed. Members and tree follow from the
//! promises; a promise is a lease, in which no other proposer gets one.

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
use crate::protocol::{Action, Time};
use crate::session::Peer;
use standing::{SETTLE_MS, Standing};
pub(super) use votes::{Shares, Votes};

pub(super) struct Elections {
    ctx: Arc<Context>,
    votes: Votes,
    standing: Standing,
    started: Time,
    gathered: bool,
    /// Since when nothing has gone on.
    idle_since: Time,
    /// Since when there has been no view, here or anywhere this peer knows of; attempts to begin one do not
    /// count.
    without_view: Time,
    /// When this peer was last in a view or committed a slot; words of others do not count.
    went_on: Time,
    /// Highest ballot counter seen.
    seen: u64,
    proposal: Option<Proposal>,
    obligation: Option<Duty>,
    blocked: Option<Blocked>,
    /// Whether that is for want of peers, not by a rule of the task.
    alone: bool,
    /// Until when no peer is asked for a slot again.
    fetch_again: Time,
    /// Views entered since a slot was committed.
    views: u64,
    /// When this peer entered its last view, and whether a slot was committed since.
    entered: (Time, bool),
}

struct Proposal {
    ballot: Ballot,
    promises: BTreeMap<Peer, Signed<Promised>>,
    refused: BTreeSet<Peer>,
    /// Until when more promises than a quorum are awaited, if they may matter.
    more: Time,
    /// Until when the leases last that it got.
    leased: Time,
    until: Time,
}

/// A view is impossible.
struct Blocked {
    since: Time,
    why: String,
    /// How many peers were reachable when that was written, the most since then: who gives up a moment before
    /// the others must not be missing in what they say. 0 where a rule of the task forbids it.
    reached: usize,
}

/// What an election looks at.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) now: Time,
    pub(super) presence: &'a Presence,
    pub(super) slots: &'a Slots,
    pub(super) transfer: &'a Transfer,
}

/// The next step of a peer that is in no view.
pub(super) enum Move {
    Wait,
    GiveUp(Ending),
    /// See [`Elections::propose`].
    Propose,
    /// Fetch a slot that the promises oblige to.
    Fetch(Peer, u32, Want),
    /// Lead the view that begins so, with what follows from its promises.
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
            went_on: Time::default(),
            seen: 0,
            proposal: None,
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
        // A newcomer may make possible what was not; it deserves a fresh look at once, but no later turn for
        // anybody.
        if self.blocked.is_some() {
            self.idle_since = now;
        }
    }

    pub(super) fn lost(&mut self, peer: Peer) {
        if let Some(proposal) = &mut self.proposal {
            proposal.promises.remove(&peer);
        }
    }

    /// The ballot that this peer asks promises for.
    pub(super) fn proposed(&self) -> Option<Ballot> {
        self.proposal.as_ref().map(|proposal| proposal.ballot)
    }

    /// Gives the own proposal up; others have the word until `idle`.
    pub(super) fn give_up(&mut self, idle: Time) {
        self.withdraw();
        self.idle_since = self.idle_since.max(idle);
    }

    /// Drops the own proposal. Who has promised it reckons it as one that began nothing, and so does this
    /// peer: it does not ask before it can get an answer from them.
    fn withdraw(&mut self) {
        if let Some(proposal) = self.proposal.take()
            && proposal.promises.len() > 1
        {
            let lease_ms = self.ctx.session.timing.proposal_backoff_ms;
            self.standing.began_nothing(proposal.leased, self.ctx.me, lease_ms);
        }
    }

    /// This peer enters a view, which its disk must have before it says a word in it.
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

    /// A view began that this peer is not in yet, or will not be: its proposer has used its promises.
    pub(super) fn began(&mut self, now: Time) {
        self.without_view = now;
        self.standing.entered();
    }

    /// A slot is committed.
    pub(super) fn committed(&mut self, now: Time, slot: u32) {
        self.votes.acceptor.commit(slot);
        self.went_on = now;
        self.entered.1 = true;
        self.views = 0;
        self.standing.committed();
    }

    /// A view has failed; the number of views since a slot was committed.
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

    /// Keeps a mark, whose signature was checked.
    pub(super) fn note(&mut self, signed: &Signed<Failure>) {
        self.standing.note(signed);
    }

    /// A transfer came to nothing.
    pub(super) fn fetch_failed(&mut self, now: Time, from: Peer) {
        self.fetch_again = now.plus_ms(SETTLE_MS);
        if self.standing.fetch_failed(now, from) <= 2 {
            self.withdraw();
            self.idle_since = now.plus_ms(SETTLE_MS);
        }
    }

    /// Whether no peer is asked for a slot now.
    pub(super) fn fetches_later(&self, now: Time) -> bool {
        now < self.fetch_again
    }

    /// Of peers that have a slot the one to ask for it.
    pub(super) fn source(&self, now: Time, holders: impl Iterator<Item = Peer>) -> Option<Peer> {
        holders
            .filter(|peer| !self.standing.set_aside(now, *peer, 0))
            .min_by_key(|peer| (self.standing.failures(*peer), *peer))
    }

    /// Leader, between two slots: whether a larger view may begin now, at most once per
    /// `regroup_interval_ms`.
    pub(super) fn may_enlarge(&self, now: Time) -> bool {
        let (entered, committed) = self.entered;
        committed && now >= entered.plus_ms(self.ctx.session.timing.regroup_interval_ms)
    }

    /// The value, by its digest, that the promises of this view oblige its leader to finish in `slot`.
    pub(super) fn take_resume(&mut self, slot: u32) -> Option<[u8; 32]> {
        let obligation = self.obligation.take().filter(|obligation| obligation.committed == slot)?;
        obligation.resume.map(|(_, accepted)| accepted.value)
    }

    fn saw(&mut self, ballot: Ballot) {
        self.seen = self.seen.max(ballot.counter);
    }

    /// The highest ballot counter that this peer knows of.
    fn highest(&self) -> u64 {
        self.votes.highest().counter.max(self.seen)
    }

    /// No view is possible, since now if it was before; see [`Blocked`].
    fn block(&mut self, now: Time, why: String, reached: usize) {
        let since = self.blocked.as_ref().map_or(now, |blocked| blocked.since);
        self.blocked = Some(Blocked { since, why, reached });
    }

    /// Until when this peer lets others hold it up who only say that they go on, or that they have what they
    /// do not give: two computations as long as they may be.
    fn patience(&self) -> Time {
        self.went_on.plus_ms(self.ctx.session.timing.compute_ms.saturating_mul(2))
    }

    /// Whether others go on without this peer, or give it what it lacks: as far as they only say so, not for
    /// ever.
    fn others_go_on(&self, at: Around<'_>) -> bool {
        let Around { now, presence, transfer, .. } = at;
        let received = transfer.asked().filter(|_| transfer.receiving());
        let given = received.is_some_and(|peer| self.standing.failures(peer) < 3);
        let said = !presence.in_view().is_empty() || transfer.fetching();
        given || (said && now < self.patience())
    }

    /// The time of this peer's turn to propose; `None` outside the committee.
    fn turn(&self, presence: &Presence) -> Option<Time> {
        let mut order: Vec<_> = presence.committee().collect();
        order.sort_by_key(|&peer| self.standing.in_vain(peer));
        let rank = order.iter().position(|&peer| peer == self.ctx.me);
        let rank = rank.filter(|_| !self.votes.silent)?;
        let since = self.idle_since.max(self.standing.idle_until(self.ctx.me));
        Some(since.plus_ms(rank as u64 * self.ctx.session.timing.proposal_backoff_ms))
    }

    /// Looks what to do next, while this peer is in no view.
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
            // Enough peers again: what was impossible is not any more, and waiting starts anew.
            self.blocked = None;
            self.idle_since = now;
            self.without_view = now;
        }
        if self.others_go_on(at) {
            // When they are done or give up they say so.
            self.without_view = now;
        } else if let Some(Blocked { since, why, .. }) = &self.blocked {
            if now >= since.plus_ms(timing.no_quorum_timeout_ms) {
                return Move::GiveUp(Ending::TooFew(why.clone() + &presence.gone_with_result()));
            }
        } else if now >= self.without_view.plus_ms(timing.no_quorum_timeout_ms) {
            let text = format!("no view began for {} s", timing.no_quorum_timeout_ms / 1000);
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

    /// Fetches the vectors that the promises of a quorum oblige to, then begins the view. `None` while too
    /// few of the promises can be relied on.
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
        // What was asked for before did not come: the proposal does not wait for it.
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
            // Others may lead one: they get the word before this peer asks again.
            self.give_up(now.plus_ms(backoff.saturating_mul(4)));
            return Some(Move::Wait);
        };
        let open = |peer: Peer| !proposal.promises.contains_key(&peer) && !proposal.refused.contains(&peer);
        if now < proposal.more && basis.gives_way(&self.ctx) && presence.committee().any(open) {
            // With more promises it may not have to.
            return None;
        }
        if resume.is_none()
            && let Err(why) = slots.may_sum(basis.tree.members())
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

    /// The times at which to look again, while this peer is in no view.
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

    /// The time at which a slot may be asked for again.
    pub(super) fn fetch_deadline(&self, now: Time) -> Option<Time> {
        Some(self.fetch_again).filter(|again| *again > now)
    }

    /// Since when no view is possible or, if one is, since when there has been none.
    fn stands_still_since(&self) -> Time {
        self.blocked.as_ref().map_or(self.without_view, |blocked| blocked.since)
    }

    /// What this peer waits for, while it is in no view.
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
