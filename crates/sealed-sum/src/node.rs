//! One participant: connections, elections, views, decisions and transfers, until every aggregate of the plan
//! is frozen.
//!
//! The node is itself a [`Machine`]. `net` drives it over libp2p, the tests and the simulator over an event
//! queue. It knows nothing of the task but the [`Task`] trait: what is summed, how this peer's vector is
//! made, and whether the session may go on after a result. See spec, section "The node", for its rules in
//! prose.

mod archive;
mod council;
mod election;
mod event;
mod exchange;
mod job;
mod slots;
mod views;
mod waits;

#[cfg(test)]
mod tests;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use chacha20::rand_core::{Rng as _, SeedableRng};

use archive::Archive;
pub use archive::{Record, RestoreError};
pub use event::{Ending, Event};
pub use job::{Done, Job};
pub use waits::Awaited;

use crate::protocol::all_reduce::SumId;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::council::Acceptor;
use crate::protocol::message::{Message, Trace, VERSION};
use crate::protocol::promise::Duty;
use crate::protocol::record::Record as SumRecord;
use crate::protocol::transfer::{self, Transfer};
use crate::protocol::view::{self, Reason, Rng, View};
use crate::protocol::{Action, Fault, Input, Machine, Never, Parent, Step, Time};
use crate::session::Peer;
use crate::task::Task;
use council::Votes;
use election::Election;
use exchange::Talk;

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

/// A participant of a session, as a machine.
pub struct Node {
    ctx: Arc<Context>,
    task: Arc<dyn Task>,
    rng: Rng,
    /// Connected peers that have said hello with the same session, and the number of slots that each has
    /// frozen.
    greeted: BTreeMap<Peer, u32>,
    /// Those of them that are in a view, by their last status.
    in_view: BTreeSet<Peer>,
    refused: BTreeMap<Peer, Vec<String>>,
    acceptor: Acceptor<[u8; 32]>,
    votes: Votes,
    joined: Ballot,
    archive: Archive,
    election: Election,
    view: Option<View>,
    round: Round,
    transfer: Transfer,
    /// This peer's vectors of slots that are not frozen yet, so that a repeated view need not compute them
    /// again.
    inputs: BTreeMap<u32, Bytes>,
    computing: Option<(u32, Time)>,
    opening: Option<u32>,
    talk: Talk,
    /// Results of exchanges for slots that are not frozen.
    exchanged: BTreeMap<SumId, Bytes>,
    armed: Option<Time>,
    over: Over,
}

/// The state of this node within its view.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Whether a slot was frozen since the view began.
    froze: bool,
    /// The view waits for this peer's vector.
    wanted: Option<u32>,
    /// Number of slots that the leader had frozen when the view began.
    frozen: u32,
    /// The obligation that follows from the promises with which it began.
    duty: Option<Duty>,
    /// The sealed total that this view made, and its digest.
    total: Option<([u8; 32], Bytes)>,
    /// A value that waits for its total, or for slots before it.
    accept: Option<SumRecord>,
    /// This council member's shares of the pads of the value it acknowledged.
    shares: Vec<(Peer, [u8; 32])>,
    /// Children to which the view's beginning could not be sent yet, and the time until which this peer
    /// tries.
    unreached: Option<(BTreeSet<Peer>, Message, Time)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    No,
    /// The result is there; this node serves others until this time.
    Lingering(Time),
    Stopped,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node {{ me: {}, frozen: {}, view: {:?} }}", self.ctx.me, self.archive.len(), self.view)
    }
}

impl Machine for Node {
    type Message = Message;
    type Timer = Timer;
    type Job = Job;
    type Done = Done;
    type Record = Record;
    type Output = Event;

    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        if self.over == Over::Stopped {
            return step;
        }
        match input {
            Input::Start => {
                self.election.start(now);
                if self.votes.silent {
                    step.output(Event::StateLost(None));
                }
                self.finish_complete(now, &mut step);
            }
            Input::PeerUp(peer) => {
                let hello = Message::Hello {
                    version: VERSION,
                    session: self.ctx.id.0,
                    frozen: self.told(),
                    trace: self.trace_of(peer),
                };
                step.send(peer, hello);
            }
            Input::PeerLost(peer) => self.lost(now, peer, &mut step),
            Input::Message { from, message } => {
                if let Err(fault) = self.message(now, from, message, &mut step) {
                    step.blame(from, fault);
                }
            }
            // One that was set before an earlier one has nothing to say; or there would be ever more of them.
            Input::Timer(Timer::Wake) => {
                self.armed.take_if(|armed| *armed <= now);
            }
            Input::Timer(Timer::View(timer)) => self.drive(now, Input::Timer(timer), &mut step),
            Input::Timer(Timer::Transfer(timer)) => {
                let child = self.transfer.handle(now, Input::Timer(timer));
                self.transferred(now, child, &mut step);
            }
            Input::Timer(Timer::Exchange(sum, timer)) => {
                if self.talk.sum() == Some(sum) {
                    self.converse(now, Input::Timer(timer), &mut step);
                }
            }
            Input::Done(done) => self.done(now, done, &mut step),
        }
        self.note_blamed(now, &mut step);
        self.proceed(now, &mut step);
        step
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
    /// Makes a node that goes on from its stored records of this session. `seed` is 32 fresh bytes from the
    /// operating system.
    pub fn new(
        ctx: Arc<Context>,
        task: Arc<dyn Task>,
        seed: [u8; 32],
        stored: Vec<Record>,
    ) -> Result<Self, archive::RestoreError> {
        let mut restored = archive::restore(&ctx, stored)?;
        restored.noised.iter().for_each(|(&slot, vector)| task.restore_noisy(slot, vector));
        let frozen = restored.archive.frozen();
        restored.noised.retain(|&slot, _| slot >= frozen);
        Ok(Self {
            transfer: Transfer::new(ctx.clone()),
            ctx,
            task,
            rng: Rng::from_seed(seed),
            greeted: BTreeMap::new(),
            in_view: BTreeSet::new(),
            refused: BTreeMap::new(),
            acceptor: restored.acceptor,
            votes: restored.votes,
            joined: restored.joined,
            archive: restored.archive,
            election: Election::default(),
            view: None,
            round: Round::default(),
            inputs: restored.noised,
            computing: None,
            opening: None,
            talk: Talk::default(),
            exchanged: restored.exchanged,
            armed: None,
            over: Over::No,
        })
    }

    /// Leaves on purpose: the others of the view are told.
    pub fn leave(&mut self) -> Step<Self> {
        let mut step = Step::none();
        if let Some(view) = self.view.take() {
            let failed = self.failure(view.ballot(), Reason::Left, Some(self.ctx.me));
            for peer in view.place().neighbours() {
                step.send(peer, Message::Failed(failed.clone()));
            }
        }
        self.over = Over::Stopped;
        step
    }

    /// What the neighbours in the view are to hear while this peer is held up outside of the machine, as by
    /// its disk: that it is at work.
    #[must_use]
    pub fn beat(&self) -> Vec<(Peer, Message)> {
        let view = self.view.iter().flat_map(View::beat);
        let wrapped = view.map(|(to, message)| (to, Message::View(message)));
        wrapped.filter(|(to, _)| self.greeted.contains_key(to)).collect()
    }

    fn lost(&mut self, now: Time, peer: Peer, step: &mut Step<Self>) {
        if self.greeted.remove(&peer).is_some() {
            step.output(Event::Lost(peer));
        }
        self.in_view.remove(&peer);
        self.election.lost(peer);
        let child = self.transfer.handle(now, Input::PeerLost(peer));
        self.transferred(now, child, step);
        self.drive(now, Input::PeerLost(peer), step);
        self.converse(now, Input::PeerLost(peer), step);
    }

    fn message(
        &mut self,
        now: Time,
        from: Peer,
        message: Message,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        match message {
            Message::Hello { version, session, frozen, trace } => {
                if self.greeted.contains_key(&from) {
                    return Err(Fault::OutOfOrder("hello"));
                }
                if version == VERSION && session == self.ctx.id.0 {
                    self.possible(frozen)?;
                }
                self.hello(now, from, (version, session, frozen), trace.as_ref(), step);
                return Ok(());
            }
            // It has been told once.
            Message::Fields(_) if self.refused.get(&from).is_some_and(|fields| !fields.is_empty()) => {
                return Ok(());
            }
            Message::Fields(theirs) => {
                if self.greeted.contains_key(&from) {
                    return Err(Fault::OutOfOrder("fields"));
                }
                let mut differing = self.ctx.session.differing_fields(&theirs);
                if differing.is_empty() {
                    differing.push("protocol version".into());
                }
                self.refused.insert(from, differing.clone());
                step.output(Event::Refused(from, differing));
                return Ok(());
            }
            _ if !self.greeted.contains_key(&from) => {
                // A peer that was refused may not know it yet.
                return if self.refused.contains_key(&from) {
                    Ok(())
                } else {
                    Err(Fault::OutOfOrder("message before hello"))
                };
            }
            Message::Status { frozen, in_view } => {
                self.possible(frozen)?;
                self.knows(from, frozen);
                if in_view {
                    self.in_view.insert(from);
                } else {
                    self.in_view.remove(&from);
                }
            }
            Message::Prepare(ballot) => self.prepare(now, from, ballot, step)?,
            Message::Promise(signed) => self.promised(from, signed, step)?,
            Message::Refuse(ballot, other) => {
                if self.ctx.council_index(from).is_none() || ballot.proposer != self.ctx.me {
                    return Err(Fault::OutOfOrder("refusal"));
                }
                if self.election.proposed() == Some(ballot) {
                    self.near(other)?;
                    self.refused(now, from, other);
                }
            }
            Message::Begin { ballot, members, frozen, promises } => {
                self.begun(now, from, (ballot, members, frozen, promises), step)?
            }
            Message::Failed(signed) => self.heard_failure(now, from, signed, step)?,
            Message::View(message) => {
                let current = self.view.as_ref().is_some_and(|view| view.ballot() == ballot_of(&message));
                if current {
                    self.drive(now, Input::Message { from, message }, step);
                }
                #[cfg(any(test, feature = "harness"))]
                if !current && self.ctx.bug == Some(crate::protocol::context::Bug::StaleBlame) {
                    return Err(Fault::OutOfOrder("message of a view that is over"));
                }
            }
            Message::Transfer(message) => {
                let child = self.transfer.handle(now, Input::Message { from, message });
                self.transferred(now, child, step);
            }
            Message::Exchange { sum, content } => self.hear(now, from, sum, content, step)?,
        }
        Ok(())
    }

    /// Notes that a peer that has said hello has frozen so many slots.
    fn knows(&mut self, peer: Peer, frozen: u32) {
        self.greeted.insert(peer, frozen);
        let finished = matches!(self.over, Over::Lingering(_)) && frozen >= self.archive.frozen();
        if finished || frozen as usize == self.ctx.plan.len() {
            self.election.finished(peer);
        }
    }

    /// How many slots this peer says that it has frozen: one fewer while it lacks a vector that it needs, or
    /// others would take it for done and leave.
    fn told(&self) -> u32 {
        self.archive.frozen() - u32::from(self.archive.lacks(&*self.task).is_some())
    }

    fn possible(&self, frozen: u32) -> Result<(), Fault> {
        if frozen as usize > self.ctx.plan.len() {
            return Err(Fault::Inconsistent(format!("{frozen} frozen slots of {}", self.ctx.plan.len())));
        }
        Ok(())
    }

    fn hello(
        &mut self,
        now: Time,
        from: Peer,
        (version, session, frozen): (u16, [u8; 32], u32),
        trace: Option<&Trace>,
        step: &mut Step<Self>,
    ) {
        if version != VERSION || session != self.ctx.id.0 {
            self.refused.entry(from).or_default();
            step.send(from, Message::Fields(self.ctx.session.fields.clone()));
            return;
        }
        self.refused.remove(&from);
        if let Some(trace) = trace {
            self.shown(from, trace, step);
        }
        self.knows(from, frozen);
        step.output(Event::Joined(from));
        if self.view.as_ref().is_some_and(|view| !view.members().contains(&from)) {
            step.send(from, Message::Status { frozen: self.told(), in_view: true });
        }
        if let Some((unreached, begin, _)) = &mut self.round.unreached
            && unreached.remove(&from)
        {
            step.send(from, begin.clone());
        }
        self.election.greeted(now, from);
    }

    /// Tells these peers how many slots this one has frozen.
    fn tell(&self, peers: &[Peer], step: &mut Step<Self>) {
        for &peer in peers {
            step.send(peer, Message::Status { frozen: self.told(), in_view: self.view.is_some() });
        }
    }

    fn tell_all(&self, step: &mut Step<Self>) {
        self.tell(&self.greeted.keys().copied().collect::<Vec<_>>(), step);
    }

    fn end(&mut self, ending: Ending, step: &mut Step<Self>) {
        if self.over != Over::Stopped {
            let child = self.leave();
            step.0.extend(child.0);
            step.output(Event::Ended(ending));
        }
    }

    fn fresh_seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// Gives an input to the view and carries out its actions.
    fn drive(&mut self, now: Time, input: Input<View>, step: &mut Step<Self>) {
        if let Some(view) = &mut self.view {
            let child = view.handle(now, input);
            self.viewed(now, child, step);
        }
    }

    fn viewed(&mut self, now: Time, child: Step<View>, step: &mut Step<Self>) {
        for output in step.lift(child) {
            match output {
                view::Output::Stage(slot, stage) => step.output(Event::Stage(slot, stage)),
                view::Output::Ready => self.next_slot(now, step),
                view::Output::Keys(keys) => self.witness(keys, step),
                view::Output::Sum(slot) if !self.allowed(slot, None) => {
                    self.fail_view(now, Reason::Disagreement, None, None, step);
                }
                view::Output::Sum(slot) => {
                    self.round.wanted = Some(slot);
                    self.round.accept = None;
                    self.contribute(now, step);
                }
                view::Output::Total(total) => self.round.total = Some((total.digest, total.bytes)),
                view::Output::Accept(record) if !self.allowed(record.value.sum.slot, Some(&record)) => {
                    self.fail_view(now, Reason::Disagreement, None, None, step);
                }
                view::Output::Accept(record) => {
                    self.round.accept = Some(record);
                    self.accept(now, step);
                }
                view::Output::Decided(record, decision) => {
                    let slot = record.value.sum.slot;
                    let item = self.decided(&record, decision, step);
                    if let Some(view) = &mut self.view {
                        let child = view.release(slot, item);
                        self.viewed(now, child, step);
                    }
                }
                view::Output::Opened(frozen) => {
                    let accepted = self.archive.accepted.as_ref();
                    let sealed = accepted.filter(|sealed| sealed.record.value == frozen.record.value);
                    if let Some(total) = sealed.map(|sealed| sealed.total.clone()) {
                        self.open(frozen, total, step);
                    }
                }
                view::Output::Failed(reason, suspect) => self.fail_view(now, reason, suspect, None, step),
            }
        }
    }

    /// Notes the peers that a step blames: they are not proposed as members again.
    fn note_blamed(&mut self, now: Time, step: &mut Step<Self>) {
        let blamed: Vec<_> = step
            .0
            .iter()
            .filter_map(|action| match action {
                Action::Blame { peer, .. } => Some(*peer),
                _ => None,
            })
            .collect();
        let me = self.ctx.me;
        if blamed.contains(&me) {
            // Somebody else's doing, or this program's: no reason to keep away from oneself.
            step.0.retain(|action| !matches!(action, Action::Blame { peer, .. } if *peer == me));
            self.fail_view(now, Reason::Disagreement, None, None, step);
        }
        for peer in blamed.into_iter().filter(|&peer| peer != me) {
            self.election.blame(peer);
            if self.view.as_ref().is_some_and(|view| view.members().contains(&peer)) {
                self.fail_view(now, Reason::Fault, Some(peer), None, step);
            }
        }
    }
}

fn ballot_of(message: &view::Message) -> Ballot {
    use crate::protocol::all_reduce::Message as Reduce;
    match message {
        view::Message::Up(ballot, _) | view::Message::Down(ballot, _) | view::Message::Working(ballot) => {
            *ballot
        }
        view::Message::Reduce(Reduce::Chunk { sum, .. } | Reduce::Credit { sum, .. }) => sum.ballot,
    }
}
