//! The slots of one peer: its own vectors, acknowledged values, values that it opens, and committed slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::archive::{Archive, Sealed};
use super::job::Noise;
use super::waits::{Awaited, Waits};
use super::{Ending, Event, Job, Out, Record};
use crate::protocol::context::{Aggregate, Context, SMALLEST_SUM};
use crate::protocol::failure::Failure;
use crate::protocol::marks::Marks;
use crate::protocol::record::{Committed, Record as SumRecord};
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{Held, Served, Want};
use crate::protocol::{Action, Fault, Time};
use crate::session::Peer;
use crate::task::exchange::{Seat, Source};
use crate::task::{Crowd, History, Task};

pub(super) struct Slots {
    ctx: Arc<Context>,
    task: Arc<dyn Task>,
    archive: Archive,
    /// This peer's vectors of slots that are not committed yet, so that a repeated view need not compute them
    /// again.
    inputs: BTreeMap<u32, Bytes>,
    /// Slot whose vector is being made, and the time since which it is being made.
    computing: Option<(u32, Time)>,
    opening: Option<u32>,
    /// Results of exchanges for slots that are not committed.
    exchanged: BTreeMap<SumId, Bytes>,
    /// Accusations that count for this peer.
    accusations: Marks,
}

/// This peer's vector for a slot.
pub(super) enum Contribution {
    /// The vector cannot be made yet, or is being made.
    Later,
    /// No honest leader sums this slot with these members.
    Refused,
    Vector(Bytes),
    /// An exchange or a computation must make the vector.
    Missing,
}

/// Outcome of a request for a slot.
pub(super) enum Fetched {
    Nothing,
    /// The peer did not send what it claimed to have.
    Failed,
    /// A decided slot whose vector no later slot needs.
    Bare(Box<Committed>),
    /// A value that may be acknowledged.
    Offered,
}

impl Slots {
    pub(super) fn new(
        ctx: Arc<Context>,
        task: Arc<dyn Task>,
        archive: Archive,
        inputs: BTreeMap<u32, Bytes>,
        exchanged: BTreeMap<SumId, Bytes>,
    ) -> Self {
        Self {
            ctx,
            task,
            archive,
            inputs,
            computing: None,
            opening: None,
            exchanged,
            accusations: Marks::default(),
        }
    }

    /// Returns the number of committed slots, as messages state it.
    pub(super) fn committed(&self) -> u32 {
        self.archive.committed()
    }

    /// Returns the slots opened so far.
    pub(super) fn history(&self) -> &Arc<History> {
        self.archive.history()
    }

    /// Returns the slot of a vector that this peer lacks and the next slot needs.
    pub(super) fn lacks(&self) -> Option<u32> {
        self.archive.lacks(&*self.task)
    }

    /// Returns the number of slots that this peer claims to have committed. It is one fewer while the
    /// peer lacks a vector that it needs: other peers would otherwise regard it as finished, and leave.
    pub(super) fn announced(&self) -> u32 {
        self.committed() - u32::from(self.lacks().is_some())
    }

    /// Returns whether every slot that the session sums is committed, with all vectors that must be kept.
    pub(super) fn is_complete(&self) -> bool {
        self.committed() as usize == self.ctx.plan.len()
            || (self.task.ends(self.history()) && self.lacks().is_none())
    }

    pub(super) fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Checks that these `members` may start a new sum of the next slot. The error is the reason why
    /// they may not.
    pub(super) fn may_sum(&self, members: &[Peer]) -> Result<(), String> {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(crate::protocol::context::Bug::AnyCrowd) {
            return Ok(());
        }
        if members.len() < SMALLEST_SUM {
            return Err(format!("a sum needs {SMALLEST_SUM} members, there are {}", members.len()));
        }
        self.task.allows(self.committed(), self.history(), members)
    }

    /// Checks that a leader may begin a new sum of the next slot over `members`.
    pub(super) fn may_begin(&self, crowd: Crowd<'_>) -> Result<(), String> {
        self.may_sum(crowd.0)?;
        self.task.can_continue(self.committed(), self.history(), crowd)
    }

    /// Returns the accusations that count for this peer.
    pub(super) const fn accusations(&self) -> &Marks {
        &self.accusations
    }

    /// Notes a failure that counts.
    pub(super) fn view_failed(&mut self, signed: &Signed<Failure>) {
        let accusation = signed.accusation(&self.ctx);
        accusation.into_iter().for_each(|(author, suspect)| self.accusations.accuse(author, suspect));
    }

    /// Notes the marks of a view that this peer enters.
    pub(super) fn view_began(&mut self, marks: &Marks) {
        self.accusations.add_accusations(marks);
    }

    /// Returns the reason if no members of the roster can sum the next slot any more.
    pub(super) fn stuck(&self) -> Option<Ending> {
        if self.accusations.accused().is_empty() {
            return None;
        }
        let everybody: Vec<Peer> = self.ctx.session.peers().collect();
        let verdict =
            self.task.can_continue(self.committed(), self.history(), (&everybody, &self.accusations));
        verdict.err().map(Ending::Refused)
    }

    /// Returns whether the slots before this one are open, and this one is neither open nor being opened.
    pub(super) fn is_next(&self, slot: u32) -> bool {
        self.committed() == slot && !self.is_opening()
    }

    /// Returns this peer's vector for `slot` in a view, if everything that the vector depends on is here.
    pub(super) fn contribution(&self, slot: u32, crowd: Option<Crowd<'_>>) -> Contribution {
        if self.committed() > slot {
            return Contribution::Refused;
        }
        if !self.is_next(slot) || self.lacks().is_some() {
            return Contribution::Later;
        }
        // The leader has checked this too, but each member that contributes checks it itself.
        if crowd.is_some_and(|crowd| self.may_begin(crowd).is_err()) {
            return Contribution::Refused;
        }
        self.inputs.get(&slot).map_or(Contribution::Missing, |vector| Contribution::Vector(vector.clone()))
    }

    /// Returns the digest of the value that was committed in `slot`.
    pub(super) fn committed_value(&self, slot: u32) -> Option<[u8; 32]> {
        self.archive.value(&self.ctx, slot)
    }

    /// Makes this peer's vector, unless one is being made already. `seed` gives fresh bytes for noise.
    pub(super) fn compute(&mut self, now: Time, slot: u32, seed: impl FnOnce() -> [u8; 32], step: &mut Out) {
        if self.computing.is_some() {
            return;
        }
        self.computing = Some((slot, now));
        let (task, history) = (self.task.clone(), self.history().clone());
        let noise = self.is_noised(slot).then(|| Noise::new(seed()));
        step.0.push(Action::Compute(Job::Contribution { slot, task, history, noise }));
    }

    fn is_noised(&self, slot: u32) -> bool {
        self.ctx.plan.get(slot as usize).is_some_and(Aggregate::is_noised)
    }

    /// Takes the vector that was made.
    pub(super) fn computed(
        &mut self,
        slot: u32,
        result: Result<Bytes, String>,
        step: &mut Out,
    ) -> Result<(), Ending> {
        self.computing = None;
        let vector = result.map_err(Ending::Own)?;
        if slot < self.committed() {
            return Ok(());
        }
        if self.is_noised(slot) {
            // The vector is on disk before any message that depends on it leaves: drawing its noise a
            // second time would reveal more than the privacy budget allows.
            let digest = Sha256::digest(&vector).into();
            step.0.push(Action::Persist(Record::Noised(slot, digest, vector.clone())));
            self.task.restore_noisy(slot, &vector);
        }
        self.inputs.insert(slot, vector);
        Ok(())
    }

    /// Returns the deadline of the computation.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.computing.map(|(_, since)| since.plus_ms(self.ctx.session.timing.compute_ms))
    }

    pub(super) fn overdue(&self, now: Time) -> Option<Ending> {
        let limit = self.ctx.session.timing.compute_ms;
        let text = || format!("the computation took longer than compute_ms = {limit} ms");
        self.deadline().filter(|until| now >= *until).map(|_| Ending::Own(text()))
    }

    pub(super) fn waits(&self) -> Option<Waits> {
        self.deadline().map(|until| Waits::new(Awaited::Computation, Vec::new(), until))
    }

    /// Returns the source of this peer's vector for `slot`.
    pub(super) fn source(&self, slot: u32, seat: Seat) -> Result<Source, Ending> {
        if !self.ctx.exchanges(slot) {
            return Ok(Source::Own);
        }
        self.task.exchange(slot, self.history(), seat).map_err(Ending::Own)
    }

    /// Stores the result of an exchange, before the vector that is made from it leaves.
    pub(super) fn exchanged(&mut self, sum: SumId, result: Bytes, step: &mut Out) -> Result<(), Ending> {
        let digest = Sha256::digest(&result).into();
        step.0.push(Action::Persist(Record::Exchanged(sum, digest, result.clone())));
        let vector = self.task.contribution_from_exchange(sum.slot, &result);
        self.exchanged.insert(sum, result);
        self.inputs.insert(sum.slot, vector.map_err(Ending::Own)?);
        Ok(())
    }

    /// Drops the vector of an exchange that is over.
    pub(super) fn forget_input(&mut self, slot: u32) {
        self.inputs.remove(&slot);
    }

    /// Returns the value of this digest, acknowledged or fetched.
    pub(super) fn sealed(&self, digest: &[u8; 32]) -> Option<&Sealed> {
        self.archive.sealed(digest)
    }

    /// Holds the value of the next slot, which this peer acknowledges.
    pub(super) fn accept(&mut self, record: SumRecord, total: Bytes) {
        let digest = record.digest(&self.ctx);
        self.archive.accept(Sealed { record, digest, total });
    }

    /// Opens the acknowledged value, now that its pads are known.
    pub(super) fn open_accepted(&mut self, committed: Committed, step: &mut Out) {
        if let Some(total) = self.archive.accepted_total(&committed.record) {
            self.open(committed, total, step);
        }
    }

    /// Removes the pads. The decision and the sealed total are already on disk: a peer that crashes
    /// here opens the slot after its restart.
    fn open(&mut self, committed: Committed, total: Bytes, step: &mut Out) {
        let SumId { slot, .. } = committed.record.value.sum;
        let lacked = self.lacks() == Some(slot);
        if (slot != self.committed() && !lacked) || self.is_opening() {
            return;
        }
        self.opening = Some(slot);
        if !lacked {
            self.archive.decide();
            step.0.push(Action::Persist(Record::Committed(committed.clone(), total.clone())));
        }
        step.0.push(Action::Compute(Job::Open { ctx: self.ctx.clone(), committed, total }));
    }

    /// Takes an opened vector. The vector of the next slot is returned for the commit. The missing
    /// vector of an earlier slot is kept here.
    pub(super) fn opened(&mut self, committed: Committed, opened: Bytes) -> Option<(Committed, Bytes)> {
        self.opening = None;
        let slot = committed.record.value.sum.slot;
        if slot >= self.committed() {
            return Some((committed, opened));
        }
        self.archive.recall(slot, opened);
        None
    }

    /// Commits the next slot. `opened` is `None` if no later slot needs the vector.
    pub(super) fn commit(
        &mut self,
        committed: Committed,
        opened: Option<Bytes>,
        step: &mut Out,
    ) -> Result<(), Ending> {
        let value = committed.record.value.clone();
        let slot = value.sum.slot;
        let bare = opened.is_none();
        let exchanged = self.exchanged.remove(&value.sum);
        self.exchanged.retain(|sum, _| sum.slot != slot);
        self.archive.commit(&self.ctx, committed, opened, exchanged);
        self.inputs.remove(&slot);
        step.output(Event::Opened(value));
        // Without its vector, this peer cannot check the slot; the peers that opened it have checked
        // it.
        if !bare {
            self.task.check(slot, self.history()).map_err(Ending::Refused)?;
        }
        let figures = self.task.metrics(slot, self.history());
        if !figures.is_empty() {
            step.output(Event::Figures(slot, figures));
        }
        for over in self.archive.forget(&*self.task) {
            step.0.push(Action::Persist(Record::Bare(over)));
        }
        Ok(())
    }

    /// Checks that the task continues after the last committed slot, as [`Self::commit`] has checked before.
    pub(super) fn check_last(&self) -> Result<(), Ending> {
        let last = self.committed().checked_sub(1).filter(|&slot| self.history().vector(slot).is_some());
        last.map_or(Ok(()), |slot| self.task.check(slot, self.history()).map_err(Ending::Refused))
    }

    /// Returns the members of the last committed sum.
    pub(super) fn last_members(&self) -> &[Peer] {
        self.history().values().last().map_or(&[], |value| &value.members)
    }

    /// Returns the slot to fetch, if there is one. It is the slot of a missing vector, or the next slot,
    /// unless the view is about to open that one. `behind` is true if a peer has committed more slots
    /// than this one; `reached` is the view's slot.
    pub(super) fn missing(&self, behind: bool, reached: Option<u32>) -> Option<u32> {
        // Other peers that are ahead may have dropped the missing vector: fetch the slots that they have
        // first.
        let lacked = self.lacks().filter(|_| !behind);
        let due = reached.is_none_or(|reached| reached > self.committed());
        lacked.or(due.then(|| self.committed()))
    }

    /// Returns the answer to another peer that fetches, if this peer has it.
    pub(super) fn held(&self, slot: u32, want: Want) -> Option<(Held, Served)> {
        self.archive.held(&self.ctx, slot, want)
    }

    /// Takes a slot that another peer has sent.
    pub(super) fn fetched(
        &mut self,
        (from, slot): (Peer, u32),
        held: Held,
        total: Bytes,
        step: &mut Out,
    ) -> Fetched {
        match held {
            Held::Committed(committed) => {
                self.open(committed, total, step);
                Fetched::Nothing
            }
            Held::Bare(_) if self.task.needed_by_plan(slot, self.ctx.plan.len() as u32) => {
                // No honest peer drops a vector that is needed to the end.
                step.blame(from, Fault::BadRecord("a vector that is needed is left out".into()));
                Fetched::Failed
            }
            Held::Bare(committed) if self.is_next(slot) => {
                self.archive.decide();
                step.0.push(Action::Persist(Record::Bare(committed.clone())));
                Fetched::Bare(Box::new(committed))
            }
            Held::Bare(_) => Fetched::Failed,
            Held::Accepted(_) if slot != self.committed() => Fetched::Nothing,
            Held::Accepted(record) => {
                let digest = record.digest(&self.ctx);
                // The value is held for a future view, in which this peer can serve and acknowledge it.
                // Holding it is not an acknowledgement.
                self.archive.offer(Sealed { record, digest, total });
                Fetched::Offered
            }
        }
    }
}
