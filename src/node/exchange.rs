//! The exchange of a view: where a quantity's vector is not a peer's own work, but what it got from the others (task `xclp`).
//!
//! It begins when the view wants the vector and this peer is connected to every other that has a part; what the others say before that is kept.
//! It ends with the vector, or ends the view.

use sha2::{Digest, Sha256};

use super::{Ending, Event, Job, Node, Record, Timer};
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::view::{Reason, View};
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
    slot: Option<u8>,
    /// Not begun yet, and until when this peer waits for connections.
    pending: Option<(Box<Exchange>, Time)>,
    early: Vec<(Peer, xclp::Message)>,
    finished: bool,
}

impl Talk {
    /// Whether the vector of this slot comes from an exchange that is under way.
    pub(super) fn wanted(&self, slot: u8) -> bool {
        self.slot == Some(slot)
    }

    /// Whether others must wait for this peer's part.
    pub(super) fn goes_on(&self) -> bool {
        !self.finished && (self.running.is_some() || self.pending.is_some())
    }

    /// The view of the exchange that is under way.
    pub(super) fn ballot(&self) -> Option<Ballot> {
        self.running.as_ref().map(|exchange| exchange.ballot())
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
    pub(super) fn exchanges(&mut self, now: Time, slot: u8, step: &mut Step<Self>) -> bool {
        let Some(view) = &self.view else { return false };
        let (values, opened) = (self.archive.values(), self.archive.opened());
        let part = match self.task.exchange(slot, values, opened, view.members()) {
            Ok(Some(part)) => part,
            Ok(None) => return false,
            Err(text) => {
                self.end(Ending::Own(text), step);
                return true;
            }
        };
        self.talk.slot = Some(slot);
        let Part { roles, rule, bits, hamming, classes, coin, rows } = part;
        let Some(roles) = roles else {
            self.exchanged(now, Outcome::none(), step);
            return true;
        };
        let setup = Setup {
            session: self.ctx.id.0,
            ballot: view.ballot(),
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
        step.output(Event::Exchange(exchange.roles().clone()));
        self.talk.running = self.talk.pending.take().map(|(exchange, _)| exchange);
        self.converse(now, Input::Start, step);
        for (from, message) in std::mem::take(&mut self.talk.early) {
            self.converse(now, Input::Message { from, message }, step);
        }
    }

    /// When the exchange looks again whether everybody is there.
    pub(super) fn exchange_alarm(&self) -> Option<Time> {
        self.talk.pending.as_ref().map(|(_, until)| *until)
    }

    /// Takes a message of an exchange; those of other views are of no use any more.
    pub(super) fn hear(
        &mut self,
        now: Time,
        from: Peer,
        message: xclp::Message,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let Some(view) = self.view.as_ref().filter(|view| view.ballot() == message.ballot) else { return Ok(()) };
        if !view.members().contains(&from) {
            return Err(Fault::OutOfOrder("message of a view that it is not in"));
        }
        if self.talk.running.is_some() {
            self.converse(now, Input::Message { from, message }, step);
            return Ok(());
        }
        let parts = |message: &xclp::Message| matches!(message.body, Body::Part { .. });
        let same = |each: &&(Peer, xclp::Message)| each.0 == from && parts(&each.1) == parts(&message);
        let limit = if parts(&message) { WINDOW } else { EARLY };
        if self.talk.early.iter().filter(same).count() >= limit {
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
        let (Some(slot), Some(ballot)) = (self.talk.slot, self.view.as_ref().map(View::ballot)) else { return };
        self.talk.finished = true;
        let bytes = outcome.to_bytes();
        let digest = Sha256::digest(&bytes).into();
        step.0.push(Action::Persist(Record::Outcome(ballot, digest, bytes.clone())));
        self.outcome = Some((ballot, bytes));
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

    /// What the exchange of the last quantity's view gave.
    pub(super) fn tell_outcome(&self, step: &mut Step<Self>) {
        let Some(Value { sum, members, .. }) = self.archive.values().last() else { return };
        let Some((ballot, bytes)) = &self.outcome else { return };
        let own = *ballot == sum.ballot && members.contains(&self.ctx.me);
        step.output(Event::Exchanged(own.then(|| Outcome::from_bytes(bytes)).flatten()));
    }
}
