//! One participant: connections, elections, views, decisions and transfers, until every aggregate of the
//! plan is committed.
//!
//! The node is itself a [`Machine`]. `net` drives it over libp2p; the tests and the simulator drive it
//! over an event queue. It sees the task only through the [`Task`] trait: the aggregates to sum, this
//! peer's vectors, and whether the session may continue after a result. Section "The node" of the
//! specification describes the node's rules in prose.

mod archive;
mod elections;
mod event;
mod exchange;
mod job;
mod membership;
mod presence;
mod routes;
mod slots;
mod waits;

#[cfg(test)]
mod tests;
use std::sync::Arc;

use chacha20::rand_core::SeedableRng;

pub use archive::{Record, RestoreError};
pub use event::{Ending, Event};
pub use job::{Done, Job};
pub use waits::{Awaited, Waits};

use crate::protocol::context::Context;
use crate::protocol::failure::Failure;
use crate::protocol::message::{Message, VERSION};
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{self, Transfer, Want};
use crate::protocol::view::{self, Reason, Rng, View};
use crate::protocol::{Action, Input, Machine, Never, Parent, Step, Time};
use crate::session::Peer;
use crate::task::Task;
use elections::{Around, Elections, Move};
use exchange::ExchangeState;
use membership::Membership;
use presence::Presence;
use slots::Slots;

/// A timer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Look at the deadlines.
    Wake,
    /// A timer of the view.
    View(view::Timer),
    /// A timer of a transfer.
    Transfer(transfer::Timer),
    /// A timer of the exchange for this sum.
    Exchange(SumId, u64),
}

type Out = Step<Node>;

/// A participant of a session, as a machine. Its state is the state of the machines below. It only
/// passes inputs to these machines, and passes the outputs of one machine to the others.
pub struct Node {
    ctx: Arc<Context>,
    rng: Rng,
    /// Time of the present input, and the actions that follow from the input.
    now: Time,
    out: Out,
    presence: Presence,
    elections: Elections,
    membership: Membership,
    slots: Slots,
    exchange: ExchangeState,
    transfer: Transfer,
    armed: Option<Time>,
    lifecycle: Lifecycle,
    /// Reason why the task refuses to continue after the last committed slot. Every peer finds the same
    /// reason.
    refusal: Option<Ending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifecycle {
    Running,
    /// The last slot to sum is committed; this node serves others until this time.
    Lingering(Time),
    Stopped,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (committed, view) = (self.slots.committed(), self.membership.view());
        write!(f, "Node {{ me: {}, committed: {committed}, view: {view:?} }}", self.ctx.me)
    }
}

impl Machine for Node {
    crate::protocol::machine_types!(Message, Timer, Job => Done, Record, Event);

    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self> {
        if self.lifecycle == Lifecycle::Stopped {
            return Step::none();
        }
        self.now = now;
        match input {
            Input::Start => {
                self.elections.start(now);
                if self.elections.is_silent() {
                    self.out.output(Event::StateLost(None));
                }
                if !self.finish_complete()
                    && let Err(refusal) = self.slots.check_last()
                {
                    self.refuse(refusal);
                }
            }
            Input::PeerUp(peer) => {
                let (session, committed) = (self.ctx.id.0, self.slots.announced());
                let trace = self.elections.trace_of(peer);
                self.presence.greets(peer, committed);
                self.out.send(peer, Message::Hello { version: VERSION, session, committed, trace });
            }
            Input::PeerLost(peer) => self.lost(peer),
            Input::Message { from, message } => {
                if let Err(fault) = self.hear(from, message) {
                    self.out.blame(from, fault);
                }
            }
            // Ignore superseded wake-ups; otherwise there would be more and more of them.
            Input::Timer(Timer::Wake) => drop(self.armed.take_if(|armed| *armed <= now)),
            Input::Timer(Timer::View(timer)) => self.drive(Input::Timer(timer)),
            Input::Timer(Timer::Transfer(timer)) => self.carry(Input::Timer(timer)),
            Input::Timer(Timer::Exchange(sum, timer)) => {
                if self.exchange.runs(sum) {
                    self.converse(Input::Timer(timer));
                }
            }
            Input::Done(done) => self.done(done),
        }
        self.note_blamed();
        self.proceed();
        std::mem::take(&mut self.out)
    }
}

impl Parent<View> for Node {
    fn message(message: view::Message) -> Message {
        Message::View(message)
    }
    fn timer(timer: view::Timer) -> Timer {
        Timer::View(timer)
    }
    fn job(job: crate::protocol::all_reduce::Job) -> Job {
        Job::Mask(job)
    }
    fn record(record: Never) -> Record {
        match record {}
    }
}

impl Parent<Transfer> for Node {
    fn message(message: transfer::Message) -> Message {
        Message::Transfer(message)
    }
    fn timer(timer: transfer::Timer) -> Timer {
        Timer::Transfer(timer)
    }
    fn job(job: Never) -> Job {
        match job {}
    }
    fn record(record: Never) -> Record {
        match record {}
    }
}

impl Node {
    /// Makes a node that continues from its stored records of this session. `seed` is 32 fresh bytes from
    /// the operating system.
    pub fn new(
        ctx: Arc<Context>,
        task: Arc<dyn Task>,
        seed: [u8; 32],
        stored: Vec<Record>,
    ) -> Result<Self, RestoreError> {
        let archive::Restored { votes, archive, exchanged, mut noised } = archive::restore(&ctx, stored)?;
        noised.iter().for_each(|(&slot, vector)| task.restore_noisy(slot, vector));
        noised.retain(|&slot, _| slot >= archive.committed());
        Ok(Self {
            rng: Rng::from_seed(seed),
            now: Time::default(),
            out: Out::none(),
            presence: Presence::new(ctx.clone()),
            elections: Elections::new(ctx.clone(), votes),
            membership: Membership::new(ctx.clone()),
            slots: Slots::new(ctx.clone(), task, archive, noised, exchanged),
            exchange: ExchangeState::default(),
            transfer: Transfer::new(ctx.clone()),
            ctx,
            armed: None,
            lifecycle: Lifecycle::Running,
            refusal: None,
        })
    }

    /// Leaves on purpose, and reports the end of its view to its neighbours there.
    pub fn leave(&mut self) -> Step<Self> {
        self.stop();
        std::mem::take(&mut self.out)
    }

    fn end(&mut self, ending: Ending) {
        if self.lifecycle != Lifecycle::Stopped {
            self.stop();
            self.out.output(Event::Ended(ending));
        }
    }

    /// Finishes if every slot that the session sums is committed, with all vectors that must be kept.
    fn finish_complete(&mut self) -> bool {
        let finishes = self.lifecycle == Lifecycle::Running && self.slots.is_complete();
        if finishes {
            self.out.output(Event::Finished(self.slots.history().clone()));
            self.linger();
        }
        finishes
    }

    /// Keeps the refusal, and lingers until the members of the last sum have the slots that cause it.
    fn refuse(&mut self, refusal: Ending) {
        self.refusal = Some(refusal);
        self.linger();
    }

    /// Stops summing, and serves committed slots.
    fn linger(&mut self) {
        self.membership.leave();
        self.lifecycle = Lifecycle::Lingering(self.now.plus_ms(self.ctx.session.timing.linger_ms));
        self.presence.complete(self.slots.committed());
        self.tell(self.presence.outside(&[]));
    }

    fn stop(&mut self) {
        let neighbour = self.membership.view().and_then(|view| view.place().neighbours().next());
        let failed = self.membership.failure(Reason::Left, neighbour);
        if let (Some(view), Some(failed)) = (self.membership.leave(), failed) {
            for peer in view.place().neighbours() {
                self.out.send(peer, Message::Failed(failed.clone()));
            }
        }
        self.lifecycle = Lifecycle::Stopped;
    }

    /// Returns messages to the neighbours in the view that show that this peer still works. A driver
    /// sends them while this peer is held up outside of the machine, for example by its disk.
    #[must_use]
    pub fn beat(&self) -> Vec<(Peer, Message)> {
        let view = self.membership.view().into_iter().flat_map(View::beat);
        let wrapped = view.map(|(to, message)| (to, Message::View(message)));
        wrapped.filter(|(to, _)| self.presence.has(*to)).collect()
    }

    /// Returns what this peer waits for, or `None` once it has stopped.
    #[must_use]
    pub fn waits(&self, now: Time) -> Option<Waits> {
        let word = |view: &View| {
            let (peer, until) = view.awaits();
            Waits::new(Awaited::Word, peer.into_iter().collect(), until)
        };
        match (self.lifecycle, self.membership.view()) {
            (Lifecycle::Stopped, _) => None,
            (Lifecycle::Lingering(until), _) => {
                Some(Waits::new(Awaited::Results, self.presence.unfinished(), self.leaves_at(until)))
            }
            (Lifecycle::Running, Some(view)) => (self.membership.waits_for_connections())
                .or_else(|| self.exchange.waits_for_connections(&self.presence))
                .or_else(|| self.slots.waits())
                .or_else(|| self.exchange.waits(self.ctx.me))
                .or_else(|| Some(word(view))),
            (Lifecycle::Running, None) => Some(self.elections.waits(self.around(now))),
        }
    }

    /// Returns all other peers of the roster that have not reported that they have the result.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Peer> {
        self.presence.unfinished()
    }

    /// Returns when this node stops serving others, if it lingers until `until`. If a connected peer
    /// does not have everything yet, for example after an absence, the node stays for another lingering
    /// time.
    fn leaves_at(&self, until: Time) -> Time {
        let longer = self.refusal.is_none() && self.presence.serves();
        until.plus_ms(if longer { self.ctx.session.timing.linger_ms } else { 0 })
    }

    /// Takes the steps that depend on the time and on the state, after each input.
    fn proceed(&mut self) {
        match self.lifecycle {
            Lifecycle::Stopped => return,
            Lifecycle::Lingering(until) => {
                let served = match self.refusal {
                    Some(_) => self.presence.all_have(self.slots.last_members()),
                    None => self.presence.all_finished(),
                };
                if served || self.now >= self.leaves_at(until) {
                    self.lifecycle = Lifecycle::Stopped;
                    self.out.output(self.refusal.take().map_or(Event::Done, Event::Ended));
                }
            }
            Lifecycle::Running => {
                if let Some(ending) = self.slots.overdue(self.now) {
                    self.end(ending);
                } else if let Some(suspect) = self.membership.overdue(self.now) {
                    self.fail_view(Reason::Lost, Some(suspect));
                }
                self.catch_up();
                if self.membership.view().is_none() && self.lifecycle == Lifecycle::Running {
                    match self.stuck() {
                        Some(ending) => self.end(ending),
                        None => self.elect(),
                    }
                }
            }
        }
        self.begin_exchange();
        self.arm();
    }

    /// Returns the reason if no members of the roster can sum the next slot any more. If this peer has
    /// acknowledged a value of this slot, or another peer has the slot, the sum may be decided already.
    fn stuck(&self) -> Option<Ending> {
        let slot = self.slots.committed();
        let decided = self.elections.has_acknowledged(slot) || self.presence.holders(slot).next().is_some();
        self.slots.stuck().filter(|_| self.lifecycle == Lifecycle::Running && !decided)
    }

    /// Takes a failure that counts, of a view that is over here. If this peer cannot continue because of it,
    /// all connected peers get the failure, because this peer leaves.
    fn heard_late(&mut self, failure: &Signed<Failure>) {
        self.slots.view_failed(failure);
        if self.stuck().is_some() {
            let told = self.presence.outside(&[]);
            told.into_iter().for_each(|peer| self.out.send(peer, Message::Failed(failure.clone())));
        }
    }

    /// Sets a timer for the next deadline, unless one is set for then or earlier.
    fn arm(&mut self) {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(crate::protocol::context::Bug::NoAlarm) {
            return;
        }
        let fetch = self.elections.fetch_deadline(self.now);
        let deadlines = match self.lifecycle {
            Lifecycle::Stopped => [None; 4],
            Lifecycle::Lingering(until) => [Some(self.leaves_at(until)), None, None, None],
            Lifecycle::Running if self.membership.view().is_some() => {
                [self.membership.deadline(), self.slots.deadline(), self.exchange.deadline(), fetch]
            }
            Lifecycle::Running => {
                let [end, turn] = self.elections.deadlines(self.around(self.now));
                [end, turn, None, fetch]
            }
        };
        let Some(next) = deadlines.into_iter().flatten().min() else { return };
        // A deadline in the past is checked again a little later, not at once: something else must happen
        // first.
        let next = next.max(self.now.plus_ms(10));
        if self.armed.is_none_or(|armed| next < armed || armed < self.now) {
            self.armed = Some(next);
            self.out.0.push(Action::SetTimer { at: next, timer: Timer::Wake });
        }
    }

    /// Fetches a slot that is missing here, or the total that its view waits for, from a peer that has it.
    fn catch_up(&mut self) {
        let busy = self.transfer.fetching() || self.slots.is_opening();
        if busy || self.lifecycle != Lifecycle::Running || self.elections.fetches_later(self.now) {
            return;
        }
        // A parent may not have had the requested total yet.
        self.accept();
        if self.transfer.fetching() {
            return;
        }
        let behind = self.presence.holders(self.slots.committed()).next().is_some();
        let Some(slot) = self.slots.missing(behind, self.membership.reached()) else { return };
        let leader = self.membership.holder(slot).filter(|peer| self.presence.has(*peer));
        let holders = self.presence.holders(slot).chain(leader);
        if let Some(holder) = self.elections.source(self.now, holders) {
            self.fetch(holder, slot, Want::Committed);
        }
    }

    fn around(&self, now: Time) -> Around<'_> {
        Around { now, presence: &self.presence, slots: &self.slots, transfer: &self.transfer }
    }

    fn elect(&mut self) {
        let (presence, slots, transfer) = (&self.presence, &self.slots, &self.transfer);
        match self.elections.elect(Around { now: self.now, presence, slots, transfer }) {
            Move::Wait => {}
            Move::GiveUp(ending) => self.end(ending),
            Move::Propose => self.propose(),
            Move::Fetch(peer, slot, want) => self.fetch(peer, slot, want),
            Move::Lead(lead) => {
                let (begun, basis) = *lead;
                let duty = Some(basis.duty.clone());
                self.enter(begun, basis, duty);
            }
        }
    }

    fn propose(&mut self) {
        if let Err(ending) = self.elections.propose(self.now, &self.presence, &mut self.out) {
            self.end(ending);
        }
    }
}
