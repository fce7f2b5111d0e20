//! A slot at one node: its vector, the acknowledgement of the sealed total, opening, freezing; or fetching
//! it instead.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::archive::Sealed;
use super::job::Noise;
use super::{Done, Ending, Event, Job, Node, Over, Record, Round};
use crate::protocol::all_reduce::SumId;
use crate::protocol::context::{Aggregate, SMALLEST_SUM};
use crate::protocol::record::{Acknowledgement, Frozen};
use crate::protocol::signed::Signed;
use crate::protocol::transfer::{self, Held, Transfer, Want};
use crate::protocol::view::{Reason, View};
use crate::protocol::{Action, Fault, Input, Step, Time, deal};
use crate::session::Peer;

impl Node {
    /// Leader: starts or resumes the next slot.
    pub(super) fn next_slot(&mut self, now: Time, step: &mut Step<Self>) {
        if !self.view.as_ref().is_some_and(View::leads) {
            return;
        }
        let slot = self.archive.frozen();
        if self.view.as_ref().is_some_and(|view| self.enlarges(now, view.members())) {
            self.enlarge(now, step);
            return;
        }
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
    pub(super) fn may_sum(&self, members: &[Peer]) -> Result<(), String> {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(crate::protocol::context::Bug::AnyCrowd) {
            return Ok(());
        }
        if members.len() < SMALLEST_SUM {
            return Err(format!("a sum needs {SMALLEST_SUM} members, there are {}", members.len()));
        }
        self.task.allows(self.archive.frozen(), self.archive.history(), members)
    }

    /// Makes this peer's vector when the view wants it and everything it depends on is there.
    pub(super) fn contribute(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(slot) = self.round.wanted else { return };
        if self.archive.frozen() > slot {
            return self.superseded(now, step);
        }
        if self.archive.frozen() != slot
            || self.opening.is_some()
            || self.archive.lacks(&*self.task).is_some()
        {
            return;
        }
        // The leader has looked as well; whoever puts something in looks for itself.
        if self.view.as_ref().is_some_and(|view| self.may_sum(view.members()).is_err()) {
            self.round.wanted = None;
            self.fail_view(now, Reason::TooFew, None, None, step);
            return;
        }
        if let Some(vector) = self.inputs.get(&slot).cloned() {
            self.round.wanted = None;
            if let Some(view) = &mut self.view {
                let child = view.contribute(now, slot, vector);
                self.viewed(now, child, step);
            }
        } else if self.talk.wanted(slot) || self.exchanges(now, slot, step) {
            // Its vector comes from an exchange.
        } else if self.computing.is_none() {
            self.computing = Some((slot, now));
            let (task, history) = (self.task.clone(), self.archive.history().clone());
            let noised = self.ctx.plan.get(slot as usize).is_some_and(Aggregate::is_noised);
            let noise = noised.then(|| Noise::new(self.fresh_seed()));
            step.0.push(Action::Compute(Job::Contribution { slot, task, history, noise }));
        }
    }

    /// Acknowledges the value that the view proposes, as soon as its total and every slot before it are here.
    pub(super) fn accept(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(record) = &self.round.accept else { return };
        let slot = record.value.sum.slot;
        if self.archive.frozen() > slot {
            return self.superseded(now, step);
        }
        if self.archive.frozen() != slot || self.opening.is_some() {
            return;
        }
        let Some(ballot) = self.view.as_ref().map(View::ballot) else { return };
        let digest = record.digest(&self.ctx);
        let held = self.archive.sealed(&digest).map(|sealed| &sealed.total);
        let made =
            self.round.total.as_ref().filter(|(made, _)| *made == record.value.total).map(|(_, total)| total);
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
        if let Some(index) = self.vote() {
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
            item = Some(Signed::new(&self.ctx, Acknowledgement { ballot, slot, value: digest }));
        }
        self.archive.accepted = Some(Sealed { record, digest, total });
        if let Some(view) = &mut self.view {
            let child = view.acknowledge(slot, item);
            self.viewed(now, child, step);
        }
    }

    /// Ends a view that sums a slot which is open here already: its leader must fetch that first, and now
    /// learns it.
    pub(super) fn superseded(&mut self, now: Time, step: &mut Step<Self>) {
        self.fail_view(now, Reason::Superseded, None, None, step);
    }

    /// Takes the pads off. The decision and the sealed total are on disk before: a peer that crashes here
    /// opens it when it is back.
    pub(super) fn open(&mut self, frozen: Frozen, total: Bytes, step: &mut Step<Self>) {
        let SumId { slot, .. } = frozen.record.value.sum;
        let lacked = self.archive.lacks(&*self.task) == Some(slot);
        if (slot != self.archive.frozen() && !lacked) || self.opening.is_some() {
            return;
        }
        if slot > 0 {
            let unsound = frozen.pads.iter().position(Option::is_none);
            if let Some(deal) = unsound.and_then(|i| frozen.record.deals.get(i)) {
                let name = self.ctx.session.name(deal.author);
                let text =
                    format!("the pad dealt by {name} is inconsistent: the decided sum cannot be opened");
                self.end(Ending::Unopenable(text), step);
                return;
            }
        }
        self.opening = Some(slot);
        if !lacked {
            self.archive.decide();
            step.0.push(Action::Persist(Record::Frozen(frozen.clone(), total.clone())));
        }
        step.0.push(Action::Compute(Job::Open { ctx: self.ctx.clone(), frozen, total }));
    }

    pub(super) fn done(&mut self, now: Time, done: Done, step: &mut Step<Self>) {
        match done {
            Done::Mask(done) => self.drive(now, Input::Done(done), step),
            Done::Exchange(sum, done) => {
                if self.talk.sum() == Some(sum) {
                    self.converse(now, Input::Done(done), step);
                }
            }
            Done::Contribution(slot, result) => {
                self.computing = None;
                match result {
                    Ok(vector) if slot >= self.archive.frozen() => {
                        if self.ctx.plan.get(slot as usize).is_some_and(Aggregate::is_noised) {
                            // On disk before anything that depends on it leaves: a second draw would tell
                            // more than was paid for.
                            let digest = Sha256::digest(&vector).into();
                            step.0.push(Action::Persist(Record::Noised(slot, digest, vector.clone())));
                            self.task.restore_noisy(slot, &vector);
                        }
                        self.inputs.insert(slot, vector);
                        self.contribute(now, step);
                    }
                    Ok(_) => self.contribute(now, step),
                    Err(text) => self.end(Ending::Own(text), step),
                }
            }
            Done::Open { frozen, opened } => {
                self.opening = None;
                let slot = frozen.record.value.sum.slot;
                if slot < self.archive.frozen() {
                    self.archive.recall(slot, opened);
                    if !self.finish_complete(now, step) && self.archive.lacks(&*self.task).is_none() {
                        self.tell_all(step);
                    }
                    self.contribute(now, step);
                } else {
                    self.freeze(now, frozen, Some(opened), step);
                }
            }
        }
    }

    /// Goes on to the next slot. `opened` is `None` where no later slot needs the vector.
    pub(super) fn freeze(&mut self, now: Time, frozen: Frozen, opened: Option<Bytes>, step: &mut Step<Self>) {
        let value = frozen.record.value.clone();
        let slot = value.sum.slot;
        let bare = opened.is_none();
        self.acceptor.freeze(slot);
        let exchanged = self.exchanged.remove(&value.sum);
        self.exchanged.retain(|sum, _| sum.slot != slot);
        self.archive.freeze(&self.ctx, frozen, opened, exchanged);
        self.election.froze(now);
        self.round.froze = true;
        self.inputs.remove(&slot);
        if self.talk.wanted(slot) {
            self.talk.end();
        }
        step.output(Event::Opened(value));
        // Whoever opened it has looked at it.
        if !bare && let Err(text) = self.task.check(slot, self.archive.history()) {
            self.end(Ending::Refused(text), step);
            return;
        }
        let figures = self.task.metrics(slot, self.archive.history());
        if !figures.is_empty() {
            step.output(Event::Figures(slot, figures));
        }
        for over in self.archive.forget(&*self.task) {
            step.0.push(Action::Persist(Record::Bare(over)));
        }
        if self.finish_complete(now, step) {
            return;
        }
        let members: Vec<_> = self.view.as_ref().map_or(Vec::new(), |view| view.members().to_vec());
        let outsiders: Vec<_> = self.greeted.keys().copied().filter(|peer| !members.contains(peer)).collect();
        self.tell(&outsiders, step);
        self.next_slot(now, step);
        self.contribute(now, step);
        self.accept(now, step);
    }

    /// Whether every slot is frozen that the session sums.
    pub(super) fn is_complete(&self) -> bool {
        self.archive.len() == self.ctx.plan.len() || self.task.ends(self.archive.history())
    }

    /// Finishes if every slot is frozen; a session that ended before its plan does needs what is kept of it.
    pub(super) fn finish_complete(&mut self, now: Time, step: &mut Step<Self>) -> bool {
        let whole = self.archive.len() == self.ctx.plan.len() || self.archive.lacks(&*self.task).is_none();
        let finishes = self.over == Over::No && whole && self.is_complete();
        if finishes {
            self.finish(now, step);
        }
        finishes
    }

    fn finish(&mut self, now: Time, step: &mut Step<Self>) {
        self.view = None;
        self.round = Round::default();
        self.over = Over::Lingering(now.plus_ms(self.ctx.session.timing.linger_ms));
        step.output(Event::Finished(self.archive.history().clone()));
        let others: Vec<_> = self.greeted.iter().map(|(&peer, &frozen)| (peer, frozen)).collect();
        others.into_iter().for_each(|(peer, frozen)| self.knows(peer, frozen));
        self.tell_all(step);
    }

    pub(super) fn transferred(&mut self, now: Time, child: Step<Transfer>, step: &mut Step<Self>) {
        for output in step.lift(child) {
            match output {
                transfer::Output::Wanted(peer, slot, want) => {
                    let held = self.archive.held(&self.ctx, slot, want);
                    let child = self.transfer.serve(now, peer, slot, held);
                    self.transferred(now, child, step);
                }
                transfer::Output::Fetched(from, slot, held, total) => match *held {
                    Held::Frozen(frozen) => self.open(frozen, total, step),
                    Held::Bare(_) if self.task.needed_by_plan(slot, self.ctx.plan.len() as u32) => {
                        // Nobody honest drops what is needed to the end.
                        step.blame(from, Fault::BadRecord("a vector that is needed is left out".into()));
                        self.election.fetch_failed(now, from);
                    }
                    Held::Bare(frozen) => {
                        if slot == self.archive.frozen() && self.opening.is_none() {
                            self.archive.decide();
                            step.0.push(Action::Persist(Record::Bare(frozen.clone())));
                            self.freeze(now, frozen, None, step);
                        } else {
                            self.election.fetch_failed(now, from);
                        }
                    }
                    Held::Accepted(record) => {
                        if slot == self.archive.frozen() {
                            let digest = record.digest(&self.ctx);
                            // Held to be served and acknowledged in the view to come; not an acknowledgement
                            // by itself.
                            self.archive.offered = Some(Sealed { record, digest, total });
                            self.accept(now, step);
                        }
                    }
                },
                transfer::Output::Lacks(from, slot) => {
                    // By its own word it has it; a leader's may have been another's, passed on with `Begin`.
                    if self.greeted.get(&from).is_some_and(|&frozen| frozen > slot) {
                        let text = format!("slot {slot} is not there although it says so");
                        step.blame(from, Fault::BadRecord(text));
                    }
                }
                transfer::Output::Failed(from) => self.election.fetch_failed(now, from),
            }
        }
    }
}
