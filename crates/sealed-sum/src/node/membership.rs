//! This peer's part in the present view: the view itself, its leader's obligation, and the events that
//! this peer waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::presence::Presence;
use super::waits::{Awaited, Waits};
use super::{Event, Message, Out};
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::failure::Failure;
use crate::protocol::promise::{Basis, Begun, Duty};
use crate::protocol::record::Record as SumRecord;
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{Reason, View};
use crate::protocol::{Fault, Time};
use crate::session::Peer;
use crate::task::Crowd;
use crate::task::exchange::Seat;

pub(super) struct Membership {
    ctx: Arc<Context>,
    view: Option<View>,
    part: Part,
    /// Slot of the last view at its end.
    last: u32,
    /// Ballot and basis of the present view, or of the last one.
    basis: Option<(Ballot, Basis)>,
}

/// The state of this peer within its view.
#[derive(Default)]
struct Part {
    /// Slot for which the view waits for this peer's vector.
    wanted: Option<u32>,
    /// Number of committed slots according to the promises of the view.
    committed: u32,
    /// Obligation that follows from these promises; `None` if none is enforced.
    duty: Option<Duty>,
    /// Sealed total that this view made, and its digest.
    total: Option<([u8; 32], Bytes)>,
    /// Value that waits for its total, or for earlier slots.
    accept: Option<SumRecord>,
    /// True if this committee member has acknowledged the record in this view.
    acknowledged: bool,
    /// Children that could not get the view's beginning yet, the message, and the time until which this
    /// peer tries.
    unreached: Option<(BTreeSet<Peer>, Message, Time)>,
    /// Beginning of the view.
    begun: Option<Signed<Begun>>,
}

impl Membership {
    pub(super) fn new(ctx: Arc<Context>) -> Self {
        Self { ctx, view: None, part: Part::default(), basis: None, last: 0 }
    }

    pub(super) fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    pub(super) fn view_mut(&mut self) -> Option<&mut View> {
        self.view.as_mut()
    }

    pub(super) fn ballot(&self) -> Option<Ballot> {
        self.view.as_ref().map(View::ballot)
    }

    /// Returns the members; empty if this peer is in no view.
    pub(super) fn members(&self) -> &[Peer] {
        self.view.as_ref().map_or(&[], |view| view.members())
    }

    /// Checks the beginning of a view that another peer leads, except its promises.
    pub(super) fn check(&self, begun: &Signed<Begun>) -> Result<(), Fault> {
        let (ctx, ballot) = (&self.ctx, begun.item.ballot);
        let sound = ballot.proposer != ctx.me
            && begun.author == ballot.proposer
            && ctx.committee_index(ballot.proposer).is_some();
        if !sound {
            return Err(Fault::Inconsistent("view of a wrong leader".into()));
        }
        if ballot.counter > Ballot::LAST {
            return Err(Fault::Inconsistent(format!("ballot {ballot}, the last one is {}", Ballot::LAST)));
        }
        if begun.verify(ctx) { Ok(()) } else { Err(Fault::BadSignature("begin")) }
    }

    /// Shows the neighbours that the leader has begun one view in two ways, so that they end the view
    /// for this reason too. Otherwise they might mark this peer for ending the view: if an earlier mark
    /// already keeps this peer apart from the leader, this peer's own mark does not count.
    pub(super) fn show(&self, beginnings: &[Signed<Begun>; 2], presence: &Presence, step: &mut Out) {
        let neighbours = self.view.iter().flat_map(|view| view.place().neighbours());
        for peer in neighbours.filter(|&peer| presence.has(peer)) {
            beginnings.iter().for_each(|begun| step.send(peer, Message::Begin(begun.clone())));
        }
    }

    /// Returns the beginning of the present view.
    pub(super) fn begun(&self) -> Option<&Signed<Begun>> {
        self.part.begun.as_ref()
    }

    /// Enters a view as its leader or as a member, and passes its beginning on to the children.
    pub(super) fn enter(
        &mut self,
        now: Time,
        mut view: View,
        begun: Signed<Begun>,
        (basis, duty): (Basis, Option<Duty>),
        presence: &Presence,
        step: &mut Out,
    ) {
        let ballot = view.ballot();
        step.output(Event::ViewBegan(ballot, view.tree().clone()));
        let begin = Message::Begin(begun.clone());
        let mut unreached = BTreeSet::new();
        for child in view.place().children.clone() {
            if presence.has(child) {
                step.send(child, begin.clone());
            } else {
                view.unreached(child);
                unreached.insert(child);
            }
        }
        unreached.iter().for_each(|&child| step.output(Event::NeedsConnection(child)));
        // Wait as long as for a silent member: a dial after back-off takes longer than
        // `proposal_backoff_ms`.
        let until = now.plus_ms(self.ctx.session.timing.view_timeout_ms);
        let unreached = (!unreached.is_empty()).then_some((unreached, begin, until));
        let committed = basis.duty.committed;
        self.part = Part { committed, duty, unreached, begun: Some(begun), ..Part::default() };
        self.basis = Some((ballot, basis));
        self.view = Some(view);
    }

    /// Returns whether this view ends, or ended, if one of the two peers accuses the other. This is so
    /// if they are neighbours in the tree. It is also so if no mark kept them apart when the view
    /// began, and they have other work in common: one of them leads, both are in the committee, or the
    /// slot has an exchange. In an exchange, two peers that a mark keeps apart may still work together. So
    /// there the first accusation between the two ends the view.
    pub(super) fn concerns(
        &self,
        (ballot, slot): (Ballot, u32),
        author: Peer,
        suspect: Peer,
        accuses: bool,
    ) -> bool {
        let Some((_, basis)) = self.basis.as_ref().filter(|(of, _)| *of == ballot) else { return false };
        let (tree, marks, leader, ctx) = (&basis.tree, &basis.marks, ballot.proposer, &self.ctx);
        let votes = |peer| ctx.committee_index(peer).is_some();
        let other = || {
            author == leader || suspect == leader || (votes(author) && votes(suspect)) || ctx.exchanges(slot)
        };
        let first = || accuses && !marks.accuses(author, suspect);
        tree.contains(author)
            && tree.contains(suspect)
            && (tree.adjacent(author, suspect) || (!marks.parts(author, suspect) && other()) || first())
    }

    /// Returns whether this peer is in this view, or this was its last one.
    pub(super) fn was_in(&self, ballot: Ballot) -> bool {
        self.basis.as_ref().is_some_and(|(of, _)| *of == ballot)
    }

    /// Returns whether the peer is, or was, a member of this view.
    pub(super) fn was_member(&self, ballot: Ballot, peer: Peer) -> bool {
        self.basis.as_ref().is_some_and(|(of, basis)| *of == ballot && basis.tree.contains(peer))
    }

    /// Returns the slot that the view works on, or its last slot if it is over.
    pub(super) fn slot(&self) -> u32 {
        let slot = |view: &View| view.slot().unwrap_or(self.part.committed);
        self.view.as_ref().map_or(self.last, slot)
    }

    /// Ends this peer's part in the view, and returns the view.
    pub(super) fn leave(&mut self) -> Option<View> {
        self.last = self.slot();
        self.part = Part::default();
        self.view.take()
    }

    /// Notes that a peer has greeted. If the peer is a child without the view's beginning, it now gets
    /// the beginning.
    pub(super) fn greeted(&mut self, now: Time, peer: Peer, step: &mut Out) {
        if let Some((unreached, begin, _)) = &mut self.part.unreached
            && unreached.remove(&peer)
        {
            step.send(peer, begin.clone());
            if let Some(view) = &mut self.view {
                view.reached(now, peer);
            }
        }
    }

    fn unreached(&self) -> Option<(&BTreeSet<Peer>, Time)> {
        let unreached = self.part.unreached.as_ref().filter(|(peers, ..)| !peers.is_empty());
        unreached.map(|(peers, _, until)| (peers, *until))
    }

    /// Returns the time until which the view waits for connections.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.unreached().map(|(_, until)| until)
    }

    /// Returns a child that did not become reachable in time.
    pub(super) fn overdue(&self, now: Time) -> Option<Peer> {
        self.unreached().filter(|(_, until)| now >= *until).and_then(|(peers, _)| peers.first().copied())
    }

    /// Returns the number of slots that the view has reached, if there is a view.
    pub(super) fn reached(&self) -> Option<u32> {
        self.view.as_ref().map(|view| view.slot().unwrap_or(0).max(self.part.committed))
    }

    /// Returns whether honest members may exchange for this sum now. Its slot must be the one that the
    /// view has reached, or the next one, because other members may be quicker.
    pub(super) fn is_due(&self, sum: SumId) -> bool {
        let reached = self.reached().filter(|_| self.ballot() == Some(sum.ballot));
        reached.is_some_and(|reached| (reached..=reached.saturating_add(1)).contains(&sum.slot))
    }

    /// Returns the leader, if it should have this slot according to the promises of the view.
    pub(super) fn holder(&self, slot: u32) -> Option<Peer> {
        self.ballot().filter(|_| self.part.committed > slot).map(|ballot| ballot.proposer)
    }

    /// Returns the members of the present view and the marks in its promises.
    pub(super) fn crowd(&self) -> Option<Crowd<'_>> {
        let (_, basis) = self.basis.as_ref()?;
        Some((self.view.as_ref()?.members(), &basis.marks))
    }

    /// Returns this peer's seat in an exchange of the view.
    pub(super) fn seat(&self, slot: u32, seed: [u8; 32]) -> Option<Seat> {
        let (view, timing) = (self.view.as_ref()?, &self.ctx.session.timing);
        Some(Seat {
            ctx: Arc::clone(&self.ctx),
            sum: SumId { ballot: view.ballot(), slot },
            members: view.members().to_vec(),
            marks: self.crowd()?.1.clone(),
            keys: view.keys().cloned().unwrap_or_default(),
            seed,
            patience_ms: timing.view_timeout_ms,
            longest_ms: timing.compute_ms,
        })
    }

    /// Notes that the view waits for this peer's vector of a slot.
    pub(super) fn want(&mut self, slot: u32) {
        self.part.wanted = Some(slot);
        self.part.accept = None;
    }

    pub(super) fn wanted(&self) -> Option<u32> {
        self.part.wanted
    }

    pub(super) fn take_wanted(&mut self) {
        self.part.wanted = None;
    }

    /// Notes the sealed total that the view has made.
    pub(super) fn made(&mut self, digest: [u8; 32], total: Bytes) {
        self.part.total = Some((digest, total));
    }

    /// Notes that the view waits for this peer's acknowledgement of this record.
    pub(super) fn propose(&mut self, record: SumRecord) {
        self.part.accept = Some(record);
    }

    pub(super) fn to_accept(&self) -> Option<&SumRecord> {
        self.part.accept.as_ref()
    }

    /// Returns the sealed total of this digest, if the view has made it.
    pub(super) fn total(&self, digest: &[u8; 32]) -> Option<&Bytes> {
        self.part.total.as_ref().filter(|(made, _)| made == digest).map(|(_, total)| total)
    }

    /// Takes the value to acknowledge, once its total is here.
    pub(super) fn take_accept(&mut self) -> Option<SumRecord> {
        self.part.total = None;
        self.part.accept.take()
    }

    /// Notes whether this peer has acknowledged the record.
    pub(super) fn acknowledged(&mut self, value: bool) {
        self.part.acknowledged = value;
    }

    /// Returns whether this peer has acknowledged the record, and forgets it.
    pub(super) fn take_acknowledged(&mut self) -> bool {
        std::mem::take(&mut self.part.acknowledged)
    }

    /// Returns whether the promises of this view allow a new sum of `slot`, or the acknowledgement of
    /// this record.
    pub(super) fn allows(&self, slot: u32, record: Option<&SumRecord>) -> bool {
        let Some(duty) = &self.part.duty else { return true };
        let obliged = duty.resume.as_ref().filter(|_| duty.committed == slot).map(|(_, accepted)| accepted);
        let fresh = || record.is_none_or(|record| Some(record.value.sum.ballot) == self.ballot());
        match (obliged, record) {
            _ if slot < duty.committed => false,
            (Some(accepted), Some(record)) => record.digest(&self.ctx) == accepted.value,
            (Some(_), None) => false,
            (None, _) => fresh(),
        }
    }

    /// Signs that this peer ends its view. If `suspect` is not another member, the suspect is the parent;
    /// a leader then names no peer.
    pub(super) fn failure(&self, reason: Reason, suspect: Option<Peer>) -> Option<Signed<Failure>> {
        let view = self.view.as_ref()?;
        let member = |peer: &Peer| *peer != self.ctx.me && view.tree().contains(*peer);
        let suspect = suspect.filter(member).or(view.place().parent);
        let reason = if suspect.is_none() { Reason::Ended } else { reason };
        let failure = Failure { ballot: view.ballot(), slot: self.slot(), reason, suspect };
        Some(Signed::new(&self.ctx, failure))
    }

    /// Returns the connections that the view waits for.
    pub(super) fn waits_for_connections(&self) -> Option<Waits> {
        let (peers, until) = self.unreached()?;
        Some(Waits::new(Awaited::Connections, peers.iter().copied().collect(), until))
    }

    #[cfg(test)]
    pub(super) fn oblige(&mut self, duty: Option<Duty>) {
        self.part.duty = duty;
    }
}
