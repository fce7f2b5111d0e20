//! The exchange of a view: where a quantity's vector is not a peer's own work, but comes from messages
//! between the members. The task supplies the machine ([`crate::task::exchange`]); the node carries its
//! messages unread.
//!
//! It begins when the view wants the vector and this peer is connected to every other that has a part;
//! earlier messages of the others are kept. It ends with the vector, or ends the view.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{Ending, Event, Job, Message, Node, Record, Timer};
use crate::protocol::all_reduce::{SumId, WINDOW};
use crate::protocol::message::Content;
use crate::protocol::view::Reason;
use crate::protocol::{Action, Fault, Input, Step, Time};
use crate::session::Peer;
use crate::task::exchange::{Exchange, Output, Seat, Source, Vocabulary};

/// Most short messages that a peer may send before the exchange begins here: more than there are.
const EARLY: usize = 256;

/// The exchange of the present view.
#[derive(Default)]
pub(super) struct Talk {
    running: Option<(SumId, Box<dyn Exchange>)>,
    /// The slot for which it makes the vector.
    slot: Option<u32>,
    /// The exchange that has not begun, and the time until which this peer waits for connections.
    pending: Option<(SumId, Box<dyn Exchange>, Time)>,
    early: Vec<(Peer, SumId, Content)>,
    finished: bool,
}

impl Talk {
    /// Whether the vector of this slot comes from an exchange that is under way.
    pub(super) fn wanted(&self, slot: u32) -> bool {
        self.slot == Some(slot)
    }

    /// Whether others must wait for this peer's part.
    pub(super) fn goes_on(&self) -> bool {
        !self.finished && (self.running.is_some() || self.pending.is_some())
    }

    /// The exchange that is under way.
    pub(super) fn sum(&self) -> Option<SumId> {
        self.running.as_ref().map(|(sum, _)| *sum)
    }

    /// The peers of an exchange that has not begun, and the time until which this peer waits for them.
    pub(super) fn lacks(&self) -> Option<(Vec<Peer>, Time)> {
        self.pending.as_ref().map(|(_, exchange, until)| (exchange.peers(), *until))
    }

    /// The peers of the exchange that is under way.
    pub(super) fn partners(&self) -> Option<Vec<Peer>> {
        self.running.as_ref().filter(|_| !self.finished).map(|(_, exchange)| exchange.peers())
    }

    /// Ends the exchange of a slot that is frozen; messages of the next one's exchange are kept.
    pub(super) fn end(&mut self) {
        *self = Self { early: std::mem::take(&mut self.early), ..Self::default() };
    }
}

impl Node {
    /// Prepares the exchange that `slot` needs; false where it needs none.
    pub(super) fn exchanges(&mut self, now: Time, slot: u32, step: &mut Step<Self>) -> bool {
        let seed = self.fresh_seed();
        let Some(view) = &self.view else { return false };
        let sum = SumId { ballot: view.ballot(), slot };
        let timing = self.ctx.session.timing;
        let seat = Seat {
            session: self.ctx.id.0,
            sum,
            me: self.ctx.me,
            members: view.members().to_vec(),
            keys: view.keys().cloned().unwrap_or_default(),
            seed,
            patience_ms: timing.view_timeout_ms,
            longest_ms: timing.compute_ms,
        };
        let source = match self.task.exchange(slot, self.archive.history(), seat) {
            Ok(Source::Own) => return false,
            Ok(source) => source,
            Err(text) => {
                self.end(Ending::Own(text), step);
                return true;
            }
        };
        self.talk.slot = Some(slot);
        if let Source::Exchange(exchange) = source {
            for peer in exchange.peers().into_iter().filter(|peer| !self.greeted.contains_key(peer)) {
                step.output(Event::NeedsConnection(peer));
            }
            self.talk.pending = Some((sum, exchange, now.plus_ms(timing.view_timeout_ms)));
        } else {
            self.exchanged(Bytes::new(), now, step);
        }
        true
    }

    /// Begins the exchange as soon as all peers in it are connected.
    pub(super) fn begin_exchange(&mut self, now: Time, step: &mut Step<Self>) {
        let Some((_, exchange, until)) = &self.talk.pending else { return };
        let missing = exchange.peers().into_iter().find(|peer| !self.greeted.contains_key(peer));
        if let Some(missing) = missing {
            if now >= *until {
                self.fail_view(now, Reason::Lost, Some(missing), None, step);
            }
            return;
        }
        let roles = exchange.roles();
        if !roles.is_empty() {
            step.output(Event::Exchange(roles));
        }
        self.talk.running = self.talk.pending.take().map(|(sum, exchange, _)| (sum, exchange));
        self.converse(now, Input::Start, step);
        let running = self.talk.sum();
        for (from, sum, message) in std::mem::take(&mut self.talk.early) {
            if Some(sum) == running {
                self.converse(now, Input::Message { from, message }, step);
            } else if Some(sum) > running {
                self.talk.early.push((from, sum, message));
            }
        }
    }

    /// The time at which the exchange looks again whether all its peers are connected.
    pub(super) fn exchange_alarm(&self) -> Option<Time> {
        self.talk.pending.as_ref().map(|(.., until)| *until)
    }

    /// Takes a message of an exchange; those of other views and of slots that are frozen are dropped.
    pub(super) fn hear(
        &mut self,
        now: Time,
        from: Peer,
        sum: SumId,
        content: Content,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let Some(view) = self.view.as_ref().filter(|view| view.ballot() == sum.ballot) else { return Ok(()) };
        if sum.slot < self.archive.frozen() {
            return Ok(());
        }
        if !view.members().contains(&from) {
            return Err(Fault::OutOfOrder("message of a view that it is not in"));
        }
        if self.talk.sum() == Some(sum) {
            self.converse(now, Input::Message { from, message: content }, step);
            return Ok(());
        }
        let bulk = |content: &Content| matches!(content, Content::Bulk { .. });
        let same = |each: &&(Peer, SumId, Content)| {
            each.0 == from && each.1 == sum && bulk(&each.2) == bulk(&content)
        };
        let limit = if bulk(&content) { WINDOW } else { EARLY };
        let known = (sum.slot as usize) < self.ctx.plan.len();
        if !known || self.talk.early.iter().filter(same).count() >= limit {
            return Err(Fault::OutOfOrder("message of an exchange"));
        }
        self.talk.early.push((from, sum, content));
        Ok(())
    }

    /// Gives an input to the exchange and carries out its actions.
    pub(super) fn converse(&mut self, now: Time, input: Input<Vocabulary>, step: &mut Step<Self>) {
        let Some((sum, exchange)) = &mut self.talk.running else { return };
        let sum = *sum;
        for action in exchange.handle(now, input).0 {
            match action {
                Action::Send { to, message } => step.send(to, Message::Exchange { sum, content: message }),
                Action::SetTimer { at, timer } => {
                    step.0.push(Action::SetTimer { at, timer: Timer::Exchange(sum, timer) });
                }
                Action::Compute(job) => step.0.push(Action::Compute(Job::Exchange(sum, job))),
                Action::Persist(never) => match never {},
                Action::WriteEarly(early) => step.0.push(Action::WriteEarly(early)),
                Action::Blame { peer, fault } => step.blame(peer, fault),
                Action::Output(Output::Finished(result)) => self.exchanged(result, now, step),
                Action::Output(Output::Failed(reason, suspect)) => {
                    self.fail_view(now, reason, suspect, None, step);
                }
            }
        }
    }

    /// Stores the result of the exchange, before the vector that follows from it leaves.
    fn exchanged(&mut self, result: Bytes, now: Time, step: &mut Step<Self>) {
        let (Some(slot), Some(view)) = (self.talk.slot, &self.view) else { return };
        let sum = SumId { ballot: view.ballot(), slot };
        self.talk.finished = true;
        let digest = Sha256::digest(&result).into();
        step.0.push(Action::Persist(Record::Exchanged(sum, digest, result.clone())));
        self.exchanged.insert(sum, result.clone());
        match self.task.exchanged(slot, &result) {
            Ok(vector) => {
                self.inputs.insert(slot, vector);
                self.contribute(now, step);
            }
            Err(text) => self.end(Ending::Own(text), step),
        }
    }

    /// Tells the exchange of a view that fails because of whom, before it is dropped: the view may know it
    /// first. What the exchange would still do has no place any more.
    pub(super) fn exchange_loses(&mut self, now: Time, reason: Reason, suspect: Option<Peer>) {
        let because = matches!(reason, Reason::Lost | Reason::Stalled | Reason::Fault | Reason::Left);
        if let (Some(peer), Some((_, exchange))) = (suspect.filter(|_| because), &mut self.talk.running) {
            drop(exchange.handle(now, Input::PeerLost(peer)));
        }
    }

    /// Drops the exchange of a view that is over: the next one has other members, and its own exchange.
    pub(super) fn forget_exchange(&mut self) {
        if let Some(slot) = std::mem::take(&mut self.talk).slot {
            self.inputs.remove(&slot);
        }
    }
}
