//! Joining a view, leaving it, and hearing that others have.

use std::collections::BTreeSet;

use super::exchange::Talk;
use super::{Ending, Event, Message, Node, Over, Record, Round};
use crate::protocol::ballot::Ballot;
use crate::protocol::failure::Failure;
use crate::protocol::promise::{Duty, Promised};
use crate::protocol::signed::Signed;
use crate::protocol::view::{Reason, View};
use crate::protocol::{Action, Fault, Input, Step, Time};
use crate::session::Peer;

impl Node {
    /// Joins the view that a quorum of the council has promised its leader.
    pub(super) fn begun(
        &mut self,
        now: Time,
        from: Peer,
        (ballot, members, frozen, promises): (Ballot, Vec<Peer>, u32, Vec<Signed<Promised>>),
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let sound = members.is_sorted_by(|a, b| a < b)
            && members.last().is_some_and(|last| last.0 < self.ctx.peers())
            && members.contains(&self.ctx.me)
            && members.contains(&ballot.proposer)
            && ballot.proposer != self.ctx.me
            && self.ctx.council_index(ballot.proposer).is_some()
            && self.enough(&members)
            && (frozen as usize) <= self.ctx.plan.len();
        if !sound {
            return Err(Fault::Inconsistent("view with wrong members".into()));
        }
        if ballot.counter > Ballot::LAST {
            return Err(Fault::Inconsistent(format!("ballot {ballot}, the last one is {}", Ballot::LAST)));
        }
        if ballot == self.joined {
            return Ok(());
        }
        if ballot < self.joined || ballot < self.acceptor.promised || self.over != Over::No {
            // Without this peer the view cannot go on: its leader need not wait to find out.
            let failed = self.failure(ballot, Reason::Superseded, None);
            self.tell(&[from], step);
            step.send(from, Message::Failed(failed));
            return Ok(());
        }
        let view = View::new(self.ctx.clone(), ballot, members, self.fresh_seed())
            .unwrap_or_else(|| unreachable!("BUG: this peer is a member"));
        if view.place().parent != Some(from) {
            return Err(Fault::OutOfOrder("begin"));
        }
        let duty = self.justified(ballot, frozen, &promises, step)?;
        self.election.saw(ballot);
        let omitted = self.omitted(view.members());
        self.enter(now, view, frozen, (promises, duty), step);
        if omitted.is_some() {
            // Its children have been told, so that all say at once whom they miss.
            self.fail_view(now, Reason::Omitted, omitted, None, step);
        }
        Ok(())
    }

    /// Enters a view as its leader or as a member.
    pub(super) fn enter(
        &mut self,
        now: Time,
        view: View,
        frozen: u32,
        (promises, duty): (Vec<Signed<Promised>>, Option<Duty>),
        step: &mut Step<Self>,
    ) {
        let ballot = view.ballot();
        self.joined = ballot;
        self.acceptor.promised = self.acceptor.promised.max(ballot);
        step.0.push(Action::Persist(Record::Joined(ballot)));
        self.election.entered(now, ballot, view.members());
        self.round = Round { frozen, duty, ..Round::default() };
        self.talk = Talk::default();
        step.output(Event::ViewBegan(ballot, view.members().to_vec()));
        let begin = Message::Begin { ballot, members: view.members().to_vec(), frozen, promises };
        let mut unreached = BTreeSet::new();
        for &child in &view.place().children {
            if self.greeted.contains_key(&child) {
                step.send(child, begin.clone());
            } else {
                unreached.insert(child);
            }
        }
        if !unreached.is_empty() {
            unreached.iter().for_each(|&child| step.output(Event::NeedsConnection(child)));
            // As long as a silent member is given: a dial after back-off takes longer than `proposal_backoff_ms`.
            self.round.unreached =
                Some((unreached, begin, now.plus_ms(self.ctx.session.timing.view_timeout_ms)));
        }
        let outsiders: Vec<_> =
            self.greeted.keys().copied().filter(|peer| !view.members().contains(peer)).collect();
        self.view = Some(view);
        self.tell(&outsiders, step);
        self.drive(now, Input::Start, step);
    }

    pub(super) fn failure(&self, ballot: Ballot, reason: Reason, suspect: Option<Peer>) -> Signed<Failure> {
        Signed::new(&self.ctx, Failure { ballot, reason, suspect })
    }

    /// Takes the news that a member has ended a view; `from` passes it on.
    pub(super) fn heard_failure(
        &mut self,
        now: Time,
        from: Peer,
        signed: Signed<Failure>,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let Failure { ballot, reason, suspect } = signed.item;
        if suspect.is_some_and(|peer| peer.0 >= self.ctx.peers()) {
            return Err(Fault::Inconsistent("names a peer outside the roster".into()));
        }
        let current = self.view.as_ref().is_some_and(|view| view.ballot() == ballot);
        let over = self.view.is_none() && ballot == self.joined;
        let members = self.election.was_member(from) && self.election.was_member(signed.author);
        if !(current || over) || !members || signed.author == self.ctx.me {
            return Ok(());
        }
        if !signed.verify(&self.ctx) {
            return Err(Fault::BadSignature("failure"));
        }
        if over {
            self.election.report(signed.author, reason, suspect);
        } else {
            self.fail_view(now, reason, suspect, Some((from, signed)), step);
        }
        Ok(())
    }

    /// Ends this peer's part in the view, and tells the neighbours except the one that passed the news on.
    pub(super) fn fail_view(
        &mut self,
        now: Time,
        reason: Reason,
        suspect: Option<Peer>,
        heard: Option<(Peer, Signed<Failure>)>,
        step: &mut Step<Self>,
    ) {
        let Some(view) = self.view.take() else { return };
        let ballot = view.ballot();
        let from = heard.as_ref().map(|(from, _)| *from);
        let failed = heard.map_or_else(|| self.failure(ballot, reason, suspect), |(_, signed)| signed);
        let author = failed.author;
        let mut told: BTreeSet<_> = view.place().neighbours().collect();
        told.insert(ballot.proposer);
        for peer in told {
            if Some(peer) != from && self.greeted.contains_key(&peer) {
                step.send(peer, Message::Failed(failed.clone()));
            }
        }
        self.round = Round::default();
        self.exchange_loses(now, reason, suspect);
        self.forget_exchange();
        self.election.failed(now, author, reason, suspect);
        if matches!(reason, Reason::Disagreement | Reason::TooFew) && ballot.proposer != self.ctx.me {
            self.election.interrupted(now, ballot.proposer, self.ctx.session.timing.proposal_backoff_ms);
        }
        step.output(Event::ViewFailed(ballot, reason, suspect));
        self.tell_all(step);
        if self.election.views >= self.ctx.session.timing.max_views {
            let why = self.reason_text(reason, suspect);
            self.end(Ending::TooManyViews(self.election.views, why), step);
        }
    }

    pub(super) fn reason_text(&self, reason: Reason, suspect: Option<Peer>) -> String {
        let name = suspect.map_or("a member", |peer| self.ctx.session.name(peer));
        match reason {
            Reason::Lost => format!("the connection to {name} was lost"),
            Reason::Stalled => format!("nothing came from {name}"),
            Reason::Fault => format!("{name} broke a rule"),
            Reason::Left => format!("{name} left"),
            Reason::Disagreement => "its members disagree on what they hold".into(),
            Reason::Superseded => "another view took its place".into(),
            Reason::TooFew => "it has too few members for a new sum".into(),
            Reason::Enlarged => "a larger one takes its place".into(),
            Reason::Omitted => format!("it left out {name}, to whom a member is connected"),
        }
    }
}
