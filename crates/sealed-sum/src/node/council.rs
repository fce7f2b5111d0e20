//! This peer as a member of the council, and its checks of a leader: promises and their obligations,
//! releases that are final, and traces of members that were in a view and no longer know it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, Message, Node, Record};
use crate::protocol::ballot::Ballot;
use crate::protocol::message::Trace;
use crate::protocol::pairwise::ViewKey;
use crate::protocol::promise::{self, Duty, Promised};
use crate::protocol::record::{Acknowledgement, Record as SumRecord};
use crate::protocol::signed::Signed;
use crate::protocol::view::Reason;
use crate::protocol::{Action, Fault, Step, Time, deal};
use crate::session::Peer;

/// This peer's memory of its own votes beside its acceptor, and of the others'.
#[derive(Debug, Default)]
pub(super) struct Votes {
    /// The acknowledgements that decided the value for which it has released shares.
    pub(super) decision: Vec<Signed<Acknowledgement>>,
    /// The highest ballot that each council member has shown itself in.
    pub(super) traces: BTreeMap<Peer, Trace>,
    /// It was in a view that its disk does not have: it does not vote in this session any more.
    pub(super) silent: bool,
}

impl Votes {
    fn saw(&mut self, peer: Peer, trace: Trace) {
        if self.traces.get(&peer).is_none_or(|known| known.ballot() < trace.ballot()) {
            self.traces.insert(peer, trace);
        }
    }
}

impl Node {
    /// This peer's place in the council, if it votes.
    pub(super) fn vote(&self) -> Option<usize> {
        self.ctx.council_index(self.ctx.me).filter(|_| !self.votes.silent)
    }

    pub(super) fn prepare(
        &mut self,
        now: Time,
        from: Peer,
        ballot: Ballot,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let councillors = self.ctx.council_index(self.ctx.me).and(self.ctx.council_index(from));
        if ballot.proposer != from || councillors.is_none() {
            return Err(Fault::OutOfOrder("prepare"));
        }
        self.near(ballot)?;
        self.election.saw(ballot);
        if self.votes.silent {
            return Ok(());
        }
        let outside = self.view.as_ref().filter(|view| !view.members().contains(&from));
        if let Some(current) = outside.map(|view| view.ballot()) {
            step.send(from, Message::Refuse(ballot, current));
            return Ok(());
        }
        if self.election.waits_for_others(now, from) {
            step.send(from, Message::Refuse(ballot, self.acceptor.promised));
            return Ok(());
        }
        match self.promise(ballot) {
            Err(promised) => step.send(from, Message::Refuse(ballot, promised)),
            Ok(promise) => {
                step.0.push(Action::Persist(Record::Promised(ballot)));
                if self.view.is_some() {
                    self.election.interrupted(now, from, self.ctx.session.timing.proposal_backoff_ms);
                }
                self.fail_view(now, Reason::Superseded, None, None, step);
                self.election.give_up(now.plus_ms(self.ctx.session.timing.proposal_backoff_ms));
                step.send(from, Message::Promise(promise));
            }
        }
        Ok(())
    }

    /// Promises the ballot, which must then be put on disk; `Err` with the one that stands against it.
    pub(super) fn promise(&mut self, ballot: Ballot) -> Result<Signed<Promised>, Ballot> {
        let promise = self.acceptor.prepare(ballot).map_err(|_| self.acceptor.promised)?;
        let decision = if promise.released { self.votes.decision.clone() } else { Vec::new() };
        Ok(Signed::new(&self.ctx, Promised { ballot, promise, decision }))
    }

    /// Refuses a ballot whose counter no peer can have reached by proposing: it would leave no higher one for
    /// the others.
    pub(super) fn near(&self, ballot: Ballot) -> Result<(), Fault> {
        let known = self.acceptor.promised.max(self.joined).counter.max(self.election.seen());
        if ballot.counter > known.saturating_add(Ballot::JUMP).min(Ballot::LAST) {
            return Err(Fault::Inconsistent(format!("ballot {ballot}, far above every one before")));
        }
        Ok(())
    }

    pub(super) fn promised(
        &mut self,
        from: Peer,
        signed: Signed<Promised>,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let Promised { ballot, promise, .. } = &signed.item;
        self.possible(promise.frozen)?;
        self.knows(from, promise.frozen);
        if signed.author != from || self.election.proposed() != Some(*ballot) {
            return Ok(());
        }
        promise::check(&self.ctx, *ballot, &signed)?;
        self.convict(std::slice::from_ref(&signed), step);
        self.votes.saw(from, Trace::Promise(signed.clone()));
        self.election.promised(from, signed);
        Ok(())
    }

    /// Notes that a council member does not promise this one's ballot, but has promised `other`.
    pub(super) fn refused(&mut self, now: Time, from: Peer, other: Ballot) {
        let until = now.plus_ms(self.ctx.session.timing.proposal_backoff_ms / 2);
        let (greeted, council, quorum) = (&self.greeted, &self.ctx.council, self.ctx.quorum);
        let enough = |refused: &BTreeSet<Peer>| {
            let open = |peer: &&Peer| **peer == self.ctx.me || greeted.contains_key(peer);
            council.iter().filter(open).filter(|peer| !refused.contains(peer)).count() >= quorum
        };
        self.election.refuse(until, from, other, enough);
    }

    /// The first of the peers that this one is connected to and that are not members of a view, once for
    /// each. All of them have had their refusal then: views without them are joined from now on.
    pub(super) fn omitted(&mut self, members: &[Peer]) -> Option<Peer> {
        let missing: Vec<_> = self
            .greeted
            .keys()
            .copied()
            .filter(|peer| !members.contains(peer) && !self.election.excused.contains(peer))
            .filter(|peer| !self.election.has_blamed(*peer))
            .collect();
        self.election.excused.extend(missing.iter().copied());
        missing.first().copied()
    }

    /// The obligation of a leader that follows from the promises of its view.
    pub(super) fn justified(
        &mut self,
        ballot: Ballot,
        frozen: u32,
        promises: &[Signed<Promised>],
        step: &mut Step<Self>,
    ) -> Result<Option<Duty>, Fault> {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.rule == crate::protocol::context::OpeningRule::Naive {
            return Ok(None);
        }
        let duty = promise::justify(&self.ctx, ballot, promises)?;
        if frozen < duty.frozen {
            return Err(Fault::Inconsistent("view that begins before what its promises have frozen".into()));
        }
        self.convict(promises, step);
        for signed in promises {
            self.votes.saw(signed.author, Trace::Promise(signed.clone()));
        }
        Ok(Some(duty))
    }

    /// Blames a peer that has acknowledged two values in one ballot, as signed items show.
    fn convict(&self, promises: &[Signed<Promised>], step: &mut Step<Self>) {
        let shown = promises.iter().flat_map(|signed| &signed.item.decision);
        if let Some(peer) = promise::equivocator(&self.ctx, shown.chain(&self.votes.decision)) {
            step.blame(peer, Fault::TwoValues);
        }
    }

    /// Whether the promises of this view allow a new sum of `slot`, or this record to be acknowledged.
    pub(super) fn allowed(&self, slot: u32, record: Option<&SumRecord>) -> bool {
        let Some(duty) = &self.round.duty else { return true };
        let obliged = duty.resume.as_ref().filter(|_| duty.frozen == slot).map(|(_, accepted)| accepted);
        let fresh = || {
            let ballot = self.view.as_ref().map(|view| view.ballot());
            record.is_none_or(|record| Some(record.value.sum.ballot) == ballot)
        };
        match (obliged, record) {
            _ if slot < duty.frozen => false,
            (Some(accepted), Some(record)) => record.digest(&self.ctx) == accepted.value,
            (Some(_), None) => false,
            (None, _) => fresh(),
        }
    }

    /// Releases this peer's shares of the pads of a record that a quorum has acknowledged, if it votes. That
    /// it has released them is on disk before they leave, and final.
    pub(super) fn decided(
        &mut self,
        record: &SumRecord,
        decision: Vec<Signed<Acknowledgement>>,
        step: &mut Step<Self>,
    ) -> Option<Signed<deal::Release>> {
        let shares = std::mem::take(&mut self.round.shares);
        let (sum, value) = (record.value.sum, record.digest(&self.ctx));
        if shares.is_empty() || self.vote().is_none() {
            return None;
        }
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.rule == crate::protocol::context::OpeningRule::Naive {
            return Some(Signed::new(&self.ctx, deal::Release { sum, value, shares }));
        }
        if !self.acceptor.release(sum.slot, &value) {
            return None;
        }
        step.0.push(Action::Persist(Record::Released(sum.slot, value, decision.clone())));
        self.votes.decision = decision;
        Some(Signed::new(&self.ctx, deal::Release { sum, value, shares }))
    }

    /// Keeps the keys of the council as proof that its members were in this view.
    pub(super) fn witness(&mut self, keys: Vec<Signed<ViewKey>>, step: &mut Step<Self>) {
        for key in keys {
            // Those of others than the partners were not looked at.
            let other = key.author != self.ctx.me && self.ctx.council_index(key.author).is_some();
            if other && key.verify(&self.ctx) {
                self.votes.saw(key.author, Trace::Key(key));
            }
        }
        let traces = self.votes.traces.values().cloned().collect();
        step.0.push(Action::Persist(Record::Traces(traces)));
    }

    /// The item that shows the highest ballot in which this peer knows another one, for the greeting.
    pub(super) fn trace_of(&self, peer: Peer) -> Option<Trace> {
        self.votes.traces.get(&peer).cloned()
    }

    /// Takes an item that shows a ballot in which this peer was: if its own disk does not have it, it has
    /// lost its state, and its votes could contradict those that it has given.
    pub(super) fn shown(&mut self, from: Peer, trace: &Trace, step: &mut Step<Self>) {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(crate::protocol::context::Bug::IgnoresPromises) {
            return;
        }
        let known = self.acceptor.promised.max(self.joined);
        let lost = trace.ballot() > known && trace.author(&self.ctx) == Some(self.ctx.me);
        if lost && !std::mem::replace(&mut self.votes.silent, true) {
            step.0.push(Action::Persist(Record::Silent));
            step.output(Event::StateLost(Some(from)));
            self.election.give_up(Time::default());
        }
    }
}
