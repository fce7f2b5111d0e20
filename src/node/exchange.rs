//! The exchange of a view: where a quantity's vector is not a peer's own work, but what it got from the
//! others (task `xclp`).
//!
//! It begins when the view wants the vector and this peer is connected to every other that has a part; what
//! the others say before that is kept. It ends with the vector, or ends the view.

use sha2::{Digest, Sha256};

use super::{Ending, Event, Job, Node, Record, Timer};
use crate::protocol::all_reduce::SumId;
use crate::protocol::record::Value;
use crate::protocol::view::Reason;
use crate::protocol::xclp::{self, Body, Exchange, Outcome, Output, Part, Setup, WINDOW};
use crate::protocol::{Action, Fault, Input, Machine as _, Never, Parent, Step, Time};
use crate::session::Peer;

/// Short messages that a peer may say before the exchange begins here, more than there are.
const EARLY: usize = 256;

/// See the module.
#[derive(Default)]
pub(super) struct Talk {
    running: Option<Box<Exchange>>,
    /// The slot whose vector it gives.
    slot: Option<u32>,
    /// Not begun yet, and until when this peer waits for connections.
    pending: Option<(Box<Exchange>, Time)>,
    early: Vec<(Peer, xclp::Message)>,
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
        self.running.as_ref().map(|exchange| exchange.sum())
    }

    /// The slot is frozen: what others have said already of the next one's exchange is kept.
    pub(super) fn end(&mut self) {
        *self = Self { early: std::mem::take(&mut self.early), ..Self::default() };
    }
}

impl Parent<Exchange> for Node {
    fn message(message: xclp::Message) -> super::Message {
        super::Message::Exchange(message)
    }
    fn timer(timer: xclp::Timer) -> Timer {
        Timer::Exchange(timer)
    }
    fn job(job: xclp::Job) -> Job {
        Job::Exchange(job)
    }
    fn record(record: Never) -> Record {
        match record {}
    }
}

impl Node {
    /// Prepares the exchange that `slot` needs; false where it needs none.
    pub(super) fn exchanges(&mut self, now: Time, slot: u32, step: &mut Step<Self>) -> bool {
        let Some(view) = &self.view else { return false };
        let opened = (self.archive.values(), self.archive.opened());
        let part = match self.task.exchange(slot, opened, view.members(), self.given().as_ref()) {
            Ok(Some(part)) => part,
            Ok(None) => return false,
            Err(text) => {
                self.end(Ending::Own(text), step);
                return true;
            }
        };
        self.talk.slot = Some(slot);
        let Part { stage, roles, rule, bits, hamming, classes, coin, rows } = part;
        let Some(roles) = roles else {
            self.exchanged(now, Outcome::default(), step);
            return true;
        };
        let setup = Setup {
            session: self.ctx.id.0,
            sum: SumId { ballot: view.ballot(), slot },
            stage,
            me: self.ctx.me,
            roles,
            rule,
            bits,
            hamming,
            classes,
            coin,
            keys: view.keys().cloned().unwrap_or_default(),
            rows,
            patience_ms: self.ctx.session.timing.stall_ms,
            longest_ms: self.ctx.session.timing.compute_ms,
        };
        let until = now.plus_ms(self.ctx.session.timing.propose_ms);
        let seed = self.fresh_seed();
        self.talk.pending = Some((Box::new(Exchange::new(setup, seed)), until));
        true
    }

    /// Begins the exchange as soon as everybody in it is connected.
    pub(super) fn begin_exchange(&mut self, now: Time, step: &mut Step<Self>) {
        let Some((exchange, until)) = &self.talk.pending else { return };
        let (missing, until) = (exchange.neighbours().find(|peer| !self.greeted.contains_key(peer)), *until);
        if let Some(missing) = missing {
            if now >= until {
                self.fail_view(now, Reason::Lost, Some(missing), None, step);
            }
            return;
        }
        if exchange.begins_anew() {
            step.output(Event::Exchange(exchange.roles().clone()));
        }
        self.talk.running = self.talk.pending.take().map(|(exchange, _)| exchange);
        self.converse(now, Input::Start, step);
        let sum = self.talk.sum();
        for (from, message) in std::mem::take(&mut self.talk.early) {
            if Some(message.sum) == sum {
                self.converse(now, Input::Message { from, message }, step);
            } else if Some(message.sum) > sum {
                self.talk.early.push((from, message));
            }
        }
    }

    /// When the exchange looks again whether everybody is there.
    pub(super) fn exchange_alarm(&self) -> Option<Time> {
        self.talk.pending.as_ref().map(|(_, until)| *until)
    }

    /// Takes a message of an exchange; those of other views and of slots that are frozen are of no use any
    /// more.
    pub(super) fn hear(
        &mut self,
        now: Time,
        from: Peer,
        message: xclp::Message,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let Some(view) = self.view.as_ref().filter(|view| view.ballot() == message.sum.ballot) else {
            return Ok(());
        };
        if message.sum.slot < self.archive.frozen() {
            return Ok(());
        }
        if !view.members().contains(&from) {
            return Err(Fault::OutOfOrder("message of a view that it is not in"));
        }
        if self.talk.sum() == Some(message.sum) {
            self.converse(now, Input::Message { from, message }, step);
            return Ok(());
        }
        let parts = |message: &xclp::Message| matches!(message.body, Body::Part { .. });
        let same = |each: &&(Peer, xclp::Message)| {
            each.0 == from && each.1.sum == message.sum && parts(&each.1) == parts(&message)
        };
        let limit = if parts(&message) { WINDOW } else { EARLY };
        let known = (message.sum.slot as usize) < self.ctx.plan.len();
        if !known || self.talk.early.iter().filter(same).count() >= limit {
            return Err(Fault::OutOfOrder("message of an exchange"));
        }
        self.talk.early.push((from, message));
        Ok(())
    }

    /// Gives the exchange an input and does what it says.
    pub(super) fn converse(&mut self, now: Time, input: Input<Exchange>, step: &mut Step<Self>) {
        let Some(exchange) = &mut self.talk.running else { return };
        let child = exchange.handle(now, input);
        for output in step.lift(child) {
            match output {
                Output::Finished(outcome) => self.exchanged(now, outcome, step),
                Output::Failed(reason, suspect) => self.fail_view(now, reason, suspect, None, step),
            }
        }
    }

    /// The outcome is on disk before the vector that follows from it leaves.
    fn exchanged(&mut self, now: Time, outcome: Outcome, step: &mut Step<Self>) {
        let (Some(slot), Some(view)) = (self.talk.slot, &self.view) else { return };
        let sum = SumId { ballot: view.ballot(), slot };
        self.talk.finished = true;
        let bytes = outcome.to_bytes();
        let digest = Sha256::digest(&bytes).into();
        step.0.push(Action::Persist(Record::Outcome(sum, digest, bytes.clone())));
        self.outcomes.insert(sum, bytes);
        match self.task.exchanged(slot, &outcome) {
            Ok(vector) => {
                self.inputs.insert(slot, vector);
                self.contribute(now, step);
            }
            Err(text) => self.end(Ending::Own(text), step),
        }
    }

    /// The view is over: the next one has other members, and its own exchange.
    pub(super) fn forget_exchange(&mut self) {
        if let Some(slot) = std::mem::take(&mut self.talk).slot {
            self.inputs.remove(&slot);
        }
    }

    /// What the exchange of the last opened quantity's view gave this peer, if there was one and it had a
    /// part in it.
    fn given(&self) -> Option<Outcome> {
        let Value { sum, members, .. } = self.archive.values().last()?;
        let bytes = self.outcomes.get(sum).filter(|_| members.contains(&self.ctx.me))?;
        Outcome::from_bytes(bytes)
    }

    /// Tells it, where the task has exchanges.
    pub(super) fn tell_outcome(&self, step: &mut Step<Self>) {
        if !self.outcomes.is_empty() {
            step.output(Event::Exchanged(self.given()));
        }
    }
}
