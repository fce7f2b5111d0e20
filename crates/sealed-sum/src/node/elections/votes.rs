//! This peer as a committee member, and its checks of a leader: promises and their obligations, final
//! releases, and traces of members that were in a view and no longer know it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Elections;
use crate::node::presence::Presence;
use crate::node::{Event, Out, Record};
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::Acceptor;
use crate::protocol::marks::Marks;
use crate::protocol::members;
use crate::protocol::message::{Message, Trace};
use crate::protocol::pairwise::ViewKey;
use crate::protocol::promise::{self, Basis, Begun, Duty, Promised};
use crate::protocol::record::{Acknowledgement, NO_VALUE, Record as SumRecord};
use crate::protocol::signed::Signed;
use crate::protocol::view::{Reason, View};
use crate::protocol::{Action, Fault, Time, deal};
use crate::session::Peer;

/// An acknowledgement. The flag is false if it acknowledges no value, because its author does not vote.
pub(in crate::node) type Vote = (Signed<Acknowledgement>, bool);

/// This peer's memory of its own votes and of those of other peers, as stored on its disk.
#[derive(Debug, Default)]
pub(in crate::node) struct Votes {
    pub(in crate::node) acceptor: Acceptor<[u8; 32]>,
    /// Highest view that this peer has joined.
    pub(in crate::node) joined: Ballot,
    /// Acknowledgements that decided the value for which this peer has released shares.
    pub(in crate::node) decision: Vec<Signed<Acknowledgement>>,
    /// Signed item of the highest ballot that each committee member has taken part in.
    pub(in crate::node) traces: BTreeMap<Peer, Trace>,
    /// True if this peer was in a view that its disk does not have. It does not vote in this session any
    /// more.
    pub(in crate::node) silent: bool,
}

impl Votes {
    fn saw(&mut self, peer: Peer, trace: Trace) {
        if self.traces.get(&peer).is_none_or(|known| known.ballot() < trace.ballot()) {
            self.traces.insert(peer, trace);
        }
    }

    /// Returns the highest ballot that this peer has promised or joined.
    pub(super) fn highest(&self) -> Ballot {
        self.acceptor.promised.max(self.joined)
    }
}

impl Elections {
    /// Returns whether this peer has lost its state and so does not vote.
    pub(in crate::node) fn is_silent(&self) -> bool {
        self.votes.silent
    }

    /// Returns the highest view that this peer has joined.
    pub(in crate::node) fn joined(&self) -> Ballot {
        self.votes.joined
    }

    /// Answers a proposer. If this returns a promise, the caller gives up its own proposal and sends the
    /// promise.
    pub(in crate::node) fn prepare(
        &mut self,
        now: Time,
        from: Peer,
        ballot: Ballot,
        view: Option<&View>,
        presence: &Presence,
        step: &mut Out,
    ) -> Result<Option<Signed<Promised>>, Fault> {
        let committee_members = self.ctx.committee_index(self.ctx.me).and(self.ctx.committee_index(from));
        if ballot.proposer != from || committee_members.is_none() {
            return Err(Fault::OutOfOrder("prepare"));
        }
        self.near(ballot)?;
        self.saw(ballot);
        if self.votes.silent {
            return Ok(None);
        }
        let lease_ms = self.ctx.session.timing.proposal_backoff_ms;
        let busy = view.map(View::ballot).or_else(|| {
            let free = self.standing.may_promise(now, from, lease_ms) && !self.bars(from, presence);
            (!free).then_some(self.votes.acceptor.promised)
        });
        let promise = match busy {
            Some(other) => Err(other),
            None => self.promise(ballot, presence),
        };
        match promise {
            Err(other) => {
                step.send(from, Message::Refuse(ballot, other));
                Ok(None)
            }
            Ok(promise) => {
                step.0.push(Action::Persist(Record::Promised(ballot)));
                self.standing.promised(now, ballot, lease_ms);
                Ok(Some(promise))
            }
        }
    }

    /// Returns whether the marks that this peer knows bar the other peer from leading.
    pub(in crate::node) fn bars(&self, peer: Peer, presence: &Presence) -> bool {
        let acceptor = &self.votes.acceptor;
        let known = self.standing.marks_before(Ballot { counter: u64::MAX, proposer: peer });
        let known: BTreeSet<_> = known.map(|(mark, _)| *mark).collect();
        let marks = Marks::living(self.ctx.session.roster.len(), &known, acceptor.committed);
        members::barred(&self.ctx.session, &marks, &presence.reachable().into_iter().collect())
            .contains(&peer)
    }

    /// Promises the ballot; the caller must then store the promise on disk. Returns `Err` with the ballot
    /// that prevents the promise.
    pub(super) fn promise(
        &mut self,
        ballot: Ballot,
        presence: &Presence,
    ) -> Result<Signed<Promised>, Ballot> {
        let acceptor = &mut self.votes.acceptor;
        let promise = acceptor.prepare(ballot).map_err(|_| acceptor.promised)?;
        let decision = if promise.released { self.votes.decision.clone() } else { Vec::new() };
        let reached = presence.unserved();
        #[cfg(any(test, feature = "harness"))]
        let reached: Vec<_> = match self.ctx.bug {
            Some(crate::protocol::context::Bug::Picks(bits)) => {
                reached.into_iter().filter(|peer| bits & 1 << peer.0 != 0).collect()
            }
            _ => reached,
        };
        let reached = promise::bits_of(self.ctx.peers(), reached);
        let marks = self.standing.marks_before(ballot).map(|(_, signed)| signed.clone()).collect();
        Ok(Signed::new(&self.ctx, Promised { ballot, promise, decision, reached, marks }))
    }

    /// Refuses a ballot whose counter no peer can have reached by proposing. Such a ballot would leave
    /// the other peers no higher ballot.
    fn near(&self, ballot: Ballot) -> Result<(), Fault> {
        if ballot.counter > self.highest().saturating_add(Ballot::JUMP).min(Ballot::LAST) {
            return Err(Fault::Inconsistent(format!("ballot {ballot}, far above every one before")));
        }
        Ok(())
    }

    /// Takes a promise for this peer's own ballot.
    pub(in crate::node) fn promised(
        &mut self,
        from: Peer,
        signed: Signed<Promised>,
        step: &mut Out,
    ) -> Result<(), Fault> {
        let ballot = signed.item.ballot;
        let dropped = self.dropped.filter(|&(dropped, _)| dropped == ballot);
        if signed.author != from || (self.proposed() != Some(ballot) && dropped.is_none()) {
            return Ok(());
        }
        promise::check(&self.ctx, ballot, &signed)?;
        if let Some((_, leased)) = dropped {
            // This promise came after the proposal was dropped. Its author counts a proposal that began
            // nothing, so this peer counts it too.
            self.dropped = None;
            self.count_dropped(leased);
            return Ok(());
        }
        self.convict(std::slice::from_ref(&signed), step);
        self.votes.saw(from, Trace::Promise(signed.clone()));
        signed.item.marks.iter().for_each(|mark| self.standing.note(mark));
        self.standing.refusals.remove(&from);
        if let Some(proposal) = &mut self.proposal {
            proposal.promises.insert(from, signed);
        }
        Ok(())
    }

    /// Notes that a committee member does not promise this peer's ballot, but has promised `other`. The
    /// first two refusals of a member in a row end the proposal. Later refusals end it only if too few
    /// members are left that have not refused. Otherwise one member could end every proposal.
    pub(in crate::node) fn refused(
        &mut self,
        now: Time,
        from: Peer,
        (ballot, other): (Ballot, Ballot),
        presence: &Presence,
    ) -> Result<(), Fault> {
        if self.ctx.committee_index(from).is_none() || ballot.proposer != self.ctx.me {
            return Err(Fault::OutOfOrder("refusal"));
        }
        if self.proposed() != Some(ballot) {
            return Ok(());
        }
        self.near(other)?;
        self.saw(other);
        let until = now.plus_ms(self.ctx.session.timing.proposal_backoff_ms / 2);
        let Some(proposal) = &mut self.proposal else { return Ok(()) };
        if !proposal.refused.insert(from) {
            return Ok(());
        }
        let times = self.standing.refusals.entry(from).or_default();
        *times += 1;
        let open = presence.committee().filter(|peer| !proposal.refused.contains(peer)).count();
        if *times <= 2 || open < self.ctx.quorum {
            self.withdraw();
            // A member that refuses is busy: asking again at once would only make every member write to disk.
            self.idle_since = until;
        }
        Ok(())
    }

    /// Returns the basis that follows from the promises of a view, and the obligation of its leader.
    pub(in crate::node) fn justified(
        &mut self,
        begun: &Begun,
        step: &mut Out,
    ) -> Result<(Basis, Option<Duty>), Fault> {
        let Begun { ballot, promises } = begun;
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.rule == crate::protocol::context::OpeningRule::Naive {
            let basis = promise::basis(&self.ctx, *ballot, promises);
            return basis.map(|basis| (basis, None)).ok_or(Fault::OutOfOrder("begin"));
        }
        let basis = promise::justify(&self.ctx, *ballot, promises)?;
        self.convict(promises, step);
        for signed in promises {
            self.votes.saw(signed.author, Trace::Promise(signed.clone()));
            signed.item.marks.iter().for_each(|mark| self.standing.note(mark));
        }
        let duty = basis.duty.clone();
        Ok((basis, Some(duty)))
    }

    /// Blames a peer if signed items show that it has acknowledged two values in one ballot.
    fn convict(&self, promises: &[Signed<Promised>], step: &mut Out) {
        let shown = promises.iter().flat_map(|signed| &signed.item.decision);
        if let Some(peer) = promise::equivocator(&self.ctx, shown.chain(&self.votes.decision)) {
            step.blame(peer, Fault::TwoValues);
        }
    }

    /// Acknowledges a value. Returns `None` if this peer is not in the committee. A committee member
    /// that does not vote, or has promised a later view, acknowledges no value. A value that this peer
    /// has committed is acknowledged again.
    pub(in crate::node) fn acknowledge(
        &mut self,
        ballot: Ballot,
        record: &SumRecord,
        total: &Bytes,
        committed: Option<[u8; 32]>,
        step: &mut Out,
    ) -> Result<Option<Vote>, (Reason, Option<Peer>)> {
        if self.ctx.committee_index(self.ctx.me).is_none() {
            return Ok(None);
        }
        let (slot, value) = (record.value.sum.slot, record.digest(&self.ctx));
        // This peer has promised a later view that has not begun: it takes part in this view without a
        // vote.
        let free = ballot >= self.votes.acceptor.promised || slot < self.votes.acceptor.committed;
        if !free || self.votes.silent {
            let item = Acknowledgement { ballot, slot, value: NO_VALUE };
            return Ok(Some((Signed::new(&self.ctx, item), false)));
        }
        if slot < self.votes.acceptor.committed {
            if committed != Some(value) {
                return Err((Reason::Disagreement, Some(ballot.proposer)));
            }
        } else {
            let accepted = self.votes.acceptor.accept(ballot, slot, value);
            accepted.map_err(|_| (Reason::Disagreement, Some(ballot.proposer)))?;
            step.0.push(Action::Persist(Record::Accepted(ballot, record.clone(), total.clone())));
        }
        Ok(Some((Signed::new(&self.ctx, Acknowledgement { ballot, slot, value }), true)))
    }

    /// Releases this peer's shares of the pads of a record that a quorum has acknowledged, if this peer
    /// has acknowledged it in this view. The release is final, and is on disk before the shares leave.
    pub(in crate::node) fn release(
        &mut self,
        record: &SumRecord,
        acknowledged: bool,
        decision: Vec<Signed<Acknowledgement>>,
        step: &mut Out,
    ) -> Option<Signed<deal::Release>> {
        let (sum, value) = (record.value.sum, record.digest(&self.ctx));
        // A sum without pads has no shares to release.
        if !acknowledged || self.votes.silent || record.deals.is_empty() {
            return None;
        }
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.rule == crate::protocol::context::OpeningRule::Naive {
            return deal::release(&self.ctx, record);
        }
        if sum.slot < self.votes.acceptor.committed {
            // This peer has acknowledged the value that it has committed.
            return deal::release(&self.ctx, record);
        }
        if !self.votes.acceptor.release(sum.slot, &value) {
            return None;
        }
        step.0.push(Action::Persist(Record::Released(sum.slot, value, decision.clone())));
        self.votes.decision = decision;
        deal::release(&self.ctx, record)
    }

    /// Keeps the keys of the committee as proof that its members were in this view.
    pub(in crate::node) fn witness(&mut self, keys: Vec<Signed<ViewKey>>, step: &mut Out) {
        for key in keys {
            // Keys of peers that are not partners were not verified before.
            let other = key.author != self.ctx.me && self.ctx.committee_index(key.author).is_some();
            if other && key.verify(&self.ctx) {
                self.votes.saw(key.author, Trace::Key(key));
            }
        }
        let traces = self.votes.traces.values().cloned().collect();
        step.0.push(Action::Persist(Record::Traces(traces)));
    }

    /// Returns the item that proves the highest ballot of `peer`. The greeting carries it.
    pub(in crate::node) fn trace_of(&self, peer: Peer) -> Option<Trace> {
        self.votes.traces.get(&peer).cloned()
    }

    /// Takes an item that proves a ballot of this peer. If this peer's disk does not have that ballot,
    /// this peer has lost its state, and its votes could contradict earlier ones.
    pub(in crate::node) fn shown(&mut self, from: Peer, trace: &Trace, step: &mut Out) {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(crate::protocol::context::Bug::IgnoresPromises) {
            return;
        }
        let lost = trace.ballot() > self.votes.highest() && trace.author(&self.ctx) == Some(self.ctx.me);
        if lost && !std::mem::replace(&mut self.votes.silent, true) {
            step.0.push(Action::Persist(Record::Silent));
            step.output(Event::StateLost(Some(from)));
            self.give_up(Time::default());
        }
    }
}
