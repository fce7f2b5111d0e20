//! One participant: connections, elections, views, decisions and transfers, until every quantity of the plan is frozen.
//!
//! The node is itself a [`Machine`]. `net` drives it over libp2p, the tests and the simulator over an event queue. It knows
//! nothing of the task but the [`Task`] trait: what is summed, how this peer's vector is made, and whether a result may be
//! gone on with. See spec, section "The node", for its rules in prose.

mod archive;
mod election;
pub mod flynn;
mod job;
mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use chacha20::rand_core::{Rng as _, SeedableRng};

use archive::{Archive, Sealed};
pub use archive::{Record, RestoreError};
pub use job::{Done, Job};
pub use task::Task;

use crate::protocol::all_reduce::SumId;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::{Context, SMALLEST_SUM};
use crate::protocol::council::Acceptor;
use crate::protocol::message::{Message, VERSION};
use crate::protocol::record::{Acknowledgement, Frozen, Record as SumRecord, Value};
use crate::protocol::signed::Signed;
use crate::protocol::transfer::{self, Held, Transfer, Want};
use crate::protocol::view::{self, Reason, Rng, Stage, View};
use crate::protocol::{Action, Fault, Input, Machine, Never, Parent, Step, Time, deal};
use crate::session::Peer;
use election::Election;

/// What a node's timers bring back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Look at the deadlines.
    Wake,
    /// A view's.
    View(view::Timer),
    /// A transfer's.
    Transfer(transfer::Timer),
}

/// What a node tells its user.
#[derive(Clone, Debug)]
pub enum Event {
    /// A peer is connected and has the same session.
    Joined(Peer),
    /// Its connection is gone.
    Lost(Peer),
    /// A peer has another protocol version or session file; the fields that differ.
    Refused(Peer, Vec<String>),
    /// A view began, with these members.
    ViewBegan(Ballot, Vec<Peer>),
    /// It ended before its time.
    ViewFailed(Ballot, Reason, Option<Peer>),
    /// A stage of a slot began.
    Stage(u8, Stage),
    /// A quantity is frozen; where and over whom it was summed.
    Opened(Value),
    /// Every quantity is frozen: the opened vectors of the plan, the first of them the seed, and what they stand on.
    Finished(Vec<Bytes>, Vec<Value>),
    /// Nobody needs this node any more; the driver may stop.
    Done,
    /// The session cannot be finished here; the driver must stop.
    Ended(Ending),
}

/// Why a node gives up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// Too few peers for too long.
    #[error("{0}")]
    TooFew(String),
    /// `max_views` views have failed.
    #[error("{0} views have failed; the last one because {1}")]
    TooManyViews(u64, String),
    /// The rules of the session forbid going on.
    #[error("{0}")]
    Refused(String),
    /// This peer's own data or computation failed.
    #[error("{0}")]
    Own(String),
    /// A decided sum cannot be opened.
    #[error("{0}")]
    Unopenable(String),
}

/// A node.

pub struct Node {
    ctx: Arc<Context>,
    task: Arc<dyn Task>,
    rng: Rng,
    /// Connected peers that have said hello with the same session, and how many slots each has frozen.
    greeted: BTreeMap<Peer, u8>,
    /// Those of them that are in a view, as far as they have said.
    in_view: BTreeSet<Peer>,
    refused: BTreeMap<Peer, Vec<String>>,
    acceptor: Acceptor<[u8; 32]>,
    joined: Ballot,
    archive: Archive,
    election: Election,
    view: Option<View>,
    round: Round,
    transfer: Transfer,
    /// This peer's vectors of slots that are not frozen yet, so that a repeated view need not compute them again.
    inputs: BTreeMap<u8, Bytes>,
    computing: Option<(u8, Time)>,
    opening: Option<u8>,
    armed: Option<Time>,
    over: Over,
}

/// What this node is in the middle of, within its view.
#[derive(Clone, Debug, Default)]
struct Round {
    /// The view waits for this peer's vector.
    wanted: Option<u8>,
    /// How many slots were frozen somewhere when the view began.
    frozen: u8,
    /// The sealed total that this view made, and its digest.
    total: Option<([u8; 32], Bytes)>,
    /// A value that waits for its total, or for slots before it.
    accept: Option<SumRecord>,
    /// This council member's shares of the pads of the value it acknowledged.
    shares: Vec<(Peer, [u8; 32])>,
    /// Children that the view's beginning could not be sent to yet, and until when.
    unreached: Option<(BTreeSet<Peer>, Message, Time)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    No,
    /// The result is there; this node serves others until then.
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
                if self.archive.len() == self.ctx.plan.len() {
                    self.finish(now, &mut step);
                }
            }
            Input::PeerUp(peer) => {
                let hello = Message::Hello { version: VERSION, session: self.ctx.id.0, frozen: self.archive.frozen() };
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
    /// A node that goes on from what it had stored in this session. `seed` is 32 fresh bytes from the operating system.
    pub fn new(
        ctx: Arc<Context>,
        task: Arc<dyn Task>,
        seed: [u8; 32],
        stored: Vec<Record>,
    ) -> Result<Self, archive::RestoreError> {
        let restored = archive::restore(&ctx, stored)?;
        Ok(Self {
            transfer: Transfer::new(ctx.clone()),
            ctx,
            task,
            rng: Rng::from_seed(seed),
            greeted: BTreeMap::new(),
            in_view: BTreeSet::new(),
            refused: BTreeMap::new(),
            acceptor: restored.acceptor,
            joined: restored.joined,
            archive: restored.archive,
            election: Election::default(),
            view: None,
            round: Round::default(),
            inputs: BTreeMap::new(),
            computing: None,
            opening: None,
            armed: None,
            over: Over::No,
        })
    }

    /// Leaves on purpose: the others of the view are told.
    pub fn leave(&mut self) -> Step<Self> {
        let mut step = Step::none();
        if let Some(view) = self.view.take() {
            let failed = Message::Failed { ballot: view.ballot(), reason: Reason::Left, suspect: Some(self.ctx.me) };
            for peer in view.place().neighbours() {
                step.send(peer, failed.clone());
            }
        }
        self.over = Over::Stopped;
        step
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
    }

    fn message(&mut self, now: Time, from: Peer, message: Message, step: &mut Step<Self>) -> Result<(), Fault> {
        match message {
            Message::Hello { version, session, frozen } => {
                self.possible(frozen)?;
                if self.greeted.contains_key(&from) {
                    return Err(Fault::OutOfOrder("hello"));
                }
                self.hello(now, from, version, session, frozen, step);
                return Ok(());
            }
            Message::Fields(theirs) => {
                if self.greeted.contains_key(&from) {
                    return Err(Fault::OutOfOrder("fields"));
                }
                let mut differing = differing_fields(&self.ctx.session.fields(), &theirs);
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
                self.greeted.insert(from, frozen);
                if in_view {
                    self.in_view.insert(from);
                } else {
                    self.in_view.remove(&from);
                }
            }
            Message::Prepare(ballot) => self.prepare(now, from, ballot, step)?,
            Message::Promise(ballot, promise) => {
                self.possible(promise.frozen)?;
                self.greeted.insert(from, promise.frozen);
                self.promised(from, ballot, promise);
            }
            Message::Refuse(ballot, other) => {
                Self::sane(other)?;
                if self.ctx.council_index(from).is_none() {
                    return Err(Fault::OutOfOrder("refusal"));
                }
                let again_ms = self.ctx.session.timing.propose_ms / 2;
                self.election.refuse(now, again_ms, ballot, other);
            }
            Message::Begin { ballot, members, frozen } => self.begun(now, from, ballot, members, frozen, step)?,
            Message::Failed { ballot, reason, suspect } => {
                if suspect.is_some_and(|peer| peer.0 >= self.ctx.peers()) {
                    return Err(Fault::Inconsistent("names a peer outside the roster".into()));
                }
                let current = self.view.as_ref().filter(|view| view.ballot() == ballot);
                if current.is_some_and(|view| view.members().contains(&from)) {
                    self.fail_view(now, reason, suspect, Some(from), step);
                } else if self.view.is_none() && ballot == self.joined {
                    self.election.report(from, reason, suspect);
                }
            }
            Message::View(message) => {
                let current = self.view.as_ref().is_some_and(|view| view.ballot() == ballot_of(&message));
                if current {
                    self.drive(now, Input::Message { from, message }, step);
                }
            }
            Message::Transfer(message) => {
                let child = self.transfer.handle(now, Input::Message { from, message });
                self.transferred(now, child, step);
            }
        }
        Ok(())
    }

    fn possible(&self, frozen: u8) -> Result<(), Fault> {
        if usize::from(frozen) > self.ctx.plan.len() {
            return Err(Fault::Inconsistent(format!("{frozen} frozen slots of {}", self.ctx.plan.len())));
        }
        Ok(())
    }

    fn hello(&mut self, now: Time, from: Peer, version: u16, session: [u8; 32], frozen: u8, step: &mut Step<Self>) {
        if version != VERSION || session != self.ctx.id.0 {
            self.refused.entry(from).or_default();
            step.send(from, Message::Fields(self.ctx.session.fields()));
            return;
        }
        if let Err(fault) = self.possible(frozen) {
            step.blame(from, fault);
            return;
        }
        self.refused.remove(&from);
        self.greeted.insert(from, frozen);
        step.output(Event::Joined(from));
        if self.view.as_ref().is_some_and(|view| !view.members().contains(&from)) {
            step.send(from, Message::Status { frozen: self.archive.frozen(), in_view: true });
        }
        if let Some((unreached, begin, _)) = &mut self.round.unreached {
            if unreached.remove(&from) {
                step.send(from, begin.clone());
            }
        }
        self.election.greeted(now);
    }

    /// Joins the view that a majority of the council has promised its leader.
    fn begun(
        &mut self,
        now: Time,
        from: Peer,
        ballot: Ballot,
        members: Vec<Peer>,
        frozen: u8,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        let sound = members.is_sorted_by(|a, b| a < b)
            && members.last().is_some_and(|last| last.0 < self.ctx.peers())
            && members.contains(&self.ctx.me)
            && members.contains(&ballot.proposer)
            && ballot.proposer != self.ctx.me
            && self.ctx.council_index(ballot.proposer).is_some()
            && self.enough(&members)
            && usize::from(frozen) <= self.ctx.plan.len();
        if !sound {
            return Err(Fault::Inconsistent("view with wrong members".into()));
        }
        Self::sane(ballot)?;
        self.election.saw(ballot);
        if ballot == self.joined {
            return Ok(());
        }
        if ballot < self.joined || ballot < self.acceptor.promised || self.over != Over::No {
            // Without this peer the view cannot go on: its leader need not wait to find out.
            let failed = Message::Failed { ballot, reason: Reason::Superseded, suspect: None };
            self.tell(&[from], step);
            step.send(from, failed);
            return Ok(());
        }
        let view = View::new(self.ctx.clone(), ballot, members, self.fresh_seed())
            .unwrap_or_else(|| unreachable!("BUG: this peer is a member"));
        if view.place().parent != Some(from) {
            return Err(Fault::OutOfOrder("begin"));
        }
        if let Some(known) = self.greeted.get_mut(&ballot.proposer) {
            *known = (*known).max(frozen);
        }
        self.enter(now, view, frozen, step);
        Ok(())
    }

    /// Enters a view as its leader or as a member.
    fn enter(&mut self, now: Time, view: View, frozen: u8, step: &mut Step<Self>) {
        let ballot = view.ballot();
        self.joined = ballot;
        self.acceptor.promised = self.acceptor.promised.max(ballot);
        step.0.push(Action::Persist(Record::Joined(ballot)));
        self.election.entered(ballot);
        self.round = Round { frozen, ..Round::default() };
        step.output(Event::ViewBegan(ballot, view.members().to_vec()));
        let begin = Message::Begin { ballot, members: view.members().to_vec(), frozen };
        let mut unreached = BTreeSet::new();
        for &child in &view.place().children {
            if self.greeted.contains_key(&child) {
                step.send(child, begin.clone());
            } else {
                unreached.insert(child);
            }
        }
        if !unreached.is_empty() {
            self.round.unreached = Some((unreached, begin, now.plus_ms(self.ctx.session.timing.propose_ms)));
        }
        let outsiders: Vec<_> = self.greeted.keys().copied().filter(|peer| !view.members().contains(peer)).collect();
        self.view = Some(view);
        self.tell(&outsiders, step);
        self.drive(now, Input::Start, step);
    }

    /// Tells these peers how far this one is.
    fn tell(&self, peers: &[Peer], step: &mut Step<Self>) {
        for &peer in peers {
            step.send(peer, Message::Status { frozen: self.archive.frozen(), in_view: self.view.is_some() });
        }
    }

    fn tell_all(&self, step: &mut Step<Self>) {
        self.tell(&self.greeted.keys().copied().collect::<Vec<_>>(), step);
    }

    /// Ends this peer's part in the view, and tells the neighbours but `from`.
    fn fail_view(
        &mut self,
        now: Time,
        reason: Reason,
        suspect: Option<Peer>,
        from: Option<Peer>,
        step: &mut Step<Self>,
    ) {
        let Some(view) = self.view.take() else { return };
        let ballot = view.ballot();
        let mut told: BTreeSet<_> = view.place().neighbours().collect();
        told.insert(ballot.proposer);
        for peer in told {
            if Some(peer) != from && self.greeted.contains_key(&peer) {
                step.send(peer, Message::Failed { ballot, reason, suspect });
            }
        }
        self.round = Round::default();
        self.election.failed(now, from.unwrap_or(self.ctx.me), reason, suspect);
        step.output(Event::ViewFailed(ballot, reason, suspect));
        self.tell_all(step);
        if self.election.views >= self.ctx.session.timing.max_views {
            let why = self.reason_text(reason, suspect);
            self.end(Ending::TooManyViews(self.election.views, why), step);
        }
    }

    fn reason_text(&self, reason: Reason, suspect: Option<Peer>) -> String {
        let name = suspect.map_or("a member", |peer| self.ctx.session.name(peer));
        match reason {
            Reason::Lost => format!("the connection to {name} was lost"),
            Reason::Stalled => format!("nothing came from {name}"),
            Reason::Fault => format!("{name} broke a rule"),
            Reason::Left => format!("{name} left"),
            Reason::Disagreement => "its members disagree on what they hold".into(),
            Reason::Superseded => "another view took its place".into(),
            Reason::TooFew => "it has too few members for a new sum".into(),
        }
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

    /// Gives the view an input and does what it says.
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
                view::Output::Sum(slot) => {
                    self.round.wanted = Some(slot);
                    self.round.accept = None;
                    self.contribute(now, step);
                }
                view::Output::Total(total) => self.round.total = Some((total.digest, total.bytes)),
                view::Output::Accept(record) => {
                    self.round.accept = Some(record);
                    self.accept(now, step);
                }
                view::Output::Decided(record, _) => {
                    let slot = record.value.sum.slot;
                    let shares = std::mem::take(&mut self.round.shares);
                    let item = (!shares.is_empty())
                        .then(|| Signed::new(&self.ctx, deal::Release { sum: record.value.sum, shares }));
                    if let Some(view) = &mut self.view {
                        let child = view.release(slot, item);
                        self.viewed(now, child, step);
                    }
                }
                view::Output::Opened(frozen) => {
                    let accepted = self.archive.accepted.as_ref();
                    if let Some(sealed) = accepted.filter(|sealed| sealed.record.value == frozen.record.value) {
                        let total = sealed.total.clone();
                        self.open(frozen, total, step);
                    }
                }
                view::Output::Failed(reason, suspect) => self.fail_view(now, reason, suspect, None, step),
            }
        }
    }

    /// Leader: starts or resumes the next slot.
    fn next_slot(&mut self, now: Time, step: &mut Step<Self>) {
        if !self.view.as_ref().is_some_and(View::leads) {
            return;
        }
        let slot = self.archive.frozen();
        let Ok(resume) = self.take_resume(slot) else {
            self.fail_view(now, Reason::Disagreement, None, None, step);
            return;
        };
        let allowed = self.view.as_ref().is_some_and(|view| self.may_sum(view.members()).is_ok());
        if resume.is_none() && !allowed {
            self.fail_view(now, Reason::TooFew, None, None, step);
        } else if let Some(view) = &mut self.view {
            let child = match resume {
                Some(record) => view.resume(record),
                None => view.sum(slot),
            };
            self.viewed(now, child, step);
        }
    }

    /// Whether a new sum of the next slot may be started over `members`; says why not.
    fn may_sum(&self, members: &[Peer]) -> Result<(), String> {
        if members.len() < SMALLEST_SUM {
            return Err(format!("a sum needs {SMALLEST_SUM} members, there are {}", members.len()));
        }
        self.task.allows(self.archive.frozen(), self.archive.values(), self.archive.opened(), members)
    }

    /// Makes this peer's vector when the view wants it and everything it depends on is there.
    fn contribute(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(slot) = self.round.wanted else { return };
        if self.archive.frozen() > slot {
            return self.ahead(now, step);
        }
        if self.archive.frozen() != slot || self.opening.is_some() {
            return;
        }
        if let Some(vector) = self.inputs.get(&slot).cloned() {
            self.round.wanted = None;
            if let Some(view) = &mut self.view {
                let child = view.contribute(now, slot, vector);
                self.viewed(now, child, step);
            }
        } else if self.computing.is_none() {
            self.computing = Some((slot, now));
            let (task, opened) = (self.task.clone(), self.archive.opened().to_vec());
            step.0.push(Action::Compute(Job::Contribution { slot, task, opened }));
        }
    }

    /// Acknowledges the value that the view proposes, as soon as its total and every slot before it are here.
    fn accept(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(record) = &self.round.accept else { return };
        let slot = record.value.sum.slot;
        if self.archive.frozen() > slot {
            return self.ahead(now, step);
        }
        if self.archive.frozen() != slot || self.opening.is_some() {
            return;
        }
        let Some(ballot) = self.view.as_ref().map(View::ballot) else { return };
        let digest = record.digest(&self.ctx);
        let held = self.archive.sealed(&digest).map(|sealed| &sealed.total);
        let made = self.round.total.as_ref().filter(|(made, _)| *made == record.value.total).map(|(_, total)| total);
        let Some(total) = held.or(made).cloned() else {
            if !self.transfer.fetching() {
                let child = self.transfer.fetch(now, ballot.proposer, slot, Want::Accepted(digest));
                self.transferred(now, child, step);
            }
            return;
        };
        let record = record.clone();
        self.round.accept = None;
        self.round.total = None;
        let mut item = None;
        if let Some(index) = self.ctx.council_index(self.ctx.me) {
            match deal::own_shares(&self.ctx, index, &record.deals) {
                Ok(shares) => self.round.shares = shares,
                Err((dealer, fault)) => {
                    step.blame(dealer, fault);
                    self.fail_view(now, Reason::Fault, Some(dealer), None, step);
                    return;
                }
            }
            if self.acceptor.accept(ballot, slot, digest).is_err() {
                self.fail_view(now, Reason::Disagreement, None, None, step);
                return;
            }
            step.0.push(Action::Persist(Record::Accepted(ballot, record.clone(), total.clone())));
            item = Some(Signed::new(&self.ctx, Acknowledgement { ballot, value: digest }));
        }
        self.archive.accepted = Some(Sealed { record, digest, total });
        if let Some(view) = &mut self.view {
            let child = view.acknowledge(slot, item);
            self.viewed(now, child, step);
        }
    }

    /// The view wants what is open here already: its leader must fetch that first, and now learns it.
    fn ahead(&mut self, now: Time, step: &mut Step<Self>) {
        self.fail_view(now, Reason::Superseded, None, None, step);
    }

    fn open(&mut self, frozen: Frozen, total: Bytes, step: &mut Step<Self>) {
        let SumId { slot, .. } = frozen.record.value.sum;
        if slot != self.archive.frozen() || self.opening.is_some() {
            return;
        }
        if slot > 0 {
            let unsound = frozen.pads.iter().position(Option::is_none);
            if let Some(deal) = unsound.and_then(|i| frozen.record.deals.get(i)) {
                let name = self.ctx.session.name(deal.author);
                let text = format!("the pad dealt by {name} is inconsistent: the decided sum cannot be opened");
                self.end(Ending::Unopenable(text), step);
                return;
            }
        }
        self.opening = Some(slot);
        step.0.push(Action::Compute(Job::Open { ctx: self.ctx.clone(), frozen, total }));
    }

    fn done(&mut self, now: Time, done: Done, step: &mut Step<Self>) {
        match done {
            Done::Mask(done) => self.drive(now, Input::Done(done), step),
            Done::Contribution(slot, result) => {
                self.computing = None;
                match result {
                    Ok(vector) if slot >= self.archive.frozen() => {
                        self.inputs.insert(slot, vector);
                        self.contribute(now, step);
                    }
                    Ok(_) => self.contribute(now, step),
                    Err(text) => self.end(Ending::Own(text), step),
                }
            }
            Done::Open { frozen, total, opened } => {
                self.opening = None;
                self.freeze(now, frozen, total, opened, step);
            }
        }
    }

    fn freeze(&mut self, now: Time, frozen: Frozen, total: Bytes, opened: Bytes, step: &mut Step<Self>) {
        let value = frozen.record.value.clone();
        let slot = value.sum.slot;
        step.0.push(Action::Persist(Record::Frozen(frozen.clone(), total.clone())));
        self.acceptor.freeze(slot);
        self.archive.freeze(frozen, total, opened);
        self.inputs.remove(&slot);
        step.output(Event::Opened(value));
        if let Err(text) = self.task.check(slot, self.archive.opened()) {
            self.end(Ending::Refused(text), step);
            return;
        }
        if self.archive.len() == self.ctx.plan.len() {
            self.finish(now, step);
            return;
        }
        let members: Vec<_> = self.view.as_ref().map_or(Vec::new(), |view| view.members().to_vec());
        let outsiders: Vec<_> = self.greeted.keys().copied().filter(|peer| !members.contains(peer)).collect();
        self.tell(&outsiders, step);
        self.next_slot(now, step);
        self.contribute(now, step);
        self.accept(now, step);
    }

    fn finish(&mut self, now: Time, step: &mut Step<Self>) {
        self.view = None;
        self.round = Round::default();
        self.over = Over::Lingering(now.plus_ms(self.ctx.session.timing.linger_ms));
        step.output(Event::Finished(self.archive.opened().to_vec(), self.archive.values().to_vec()));
        self.tell_all(step);
    }

    fn transferred(&mut self, now: Time, child: Step<Transfer>, step: &mut Step<Self>) {
        for output in step.lift(child) {
            match output {
                transfer::Output::Wanted(peer, slot, want) => {
                    let held = self.archive.held(slot, want);
                    let child = self.transfer.serve(peer, slot, held);
                    self.transferred(now, child, step);
                }
                transfer::Output::Fetched(slot, held, total) => match *held {
                    Held::Frozen(frozen) => self.open(frozen, total, step),
                    Held::Accepted(record) => {
                        if slot == self.archive.frozen() {
                            let digest = record.digest(&self.ctx);
                            // Held to be served and acknowledged in the view to come; not an acknowledgement by itself.
                            self.archive.offered = Some(Sealed { record, digest, total });
                            self.accept(now, step);
                        }
                    }
                },
                transfer::Output::Failed(from, _) => self.election.fetch_failed(now, from),
            }
        }
    }

    /// Peers that a step blames are not proposed as members again.
    fn note_blamed(&mut self, now: Time, step: &mut Step<Self>) {
        let blamed: Vec<_> = step
            .0
            .iter()
            .filter_map(|action| match action {
                Action::Blame { peer, .. } => Some(*peer),
                _ => None,
            })
            .collect();
        for peer in blamed {
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
        view::Message::Up(ballot, _) | view::Message::Down(ballot, _) | view::Message::Working(ballot) => *ballot,
        view::Message::Reduce(Reduce::Chunk { sum, .. } | Reduce::Credit { sum, .. }) => sum.ballot,
    }
}

/// Names of the fields whose hashes differ or that the other side lacks. A name that only the other side has is not
/// repeated: it is the other's to choose.
fn differing_fields(ours: &[(String, [u8; 8])], theirs: &[(String, [u8; 8])]) -> Vec<String> {
    let theirs: BTreeMap<_, _> = theirs.iter().map(|(name, hash)| (name, hash)).collect();
    let ours: BTreeMap<_, _> = ours.iter().map(|(name, hash)| (name, hash)).collect();
    let unknown = theirs.keys().any(|name| !ours.contains_key(name));
    let differing =
        ours.iter().filter(|(name, hash)| theirs.get(*name) != Some(*hash)).map(|(name, _)| (*name).clone());
    differing.chain(unknown.then(|| "fields unknown here".to_owned())).collect()
}
