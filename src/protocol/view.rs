//! One view: a fixed set of members goes through the plan's quantities in rounds on the tree (spec, section "Views").
//!
//! The leader sends an order down, every member acts on it and reports up, and a report is complete when the whole subtree
//! has spoken:
//!
//! | order (down)          | report (up)                                  |
//! | --------------------- | -------------------------------------------- |
//! | (the view begins)     | `Keys`: every member's signed key            |
//! | `Keys`: all of them   |                                              |
//! | `Sum`: of a slot      | chunks; then `Hold`: total's digest, deals   |
//! | `Accept`: the record  | `Acknowledge`: the council's acknowledgements |
//! | `Decide`: all of them | `Release`: the council's shares of the pads  |
//! | `Open`: all of them   |                                              |
//!
//! A value that an earlier view left acknowledged starts at `Accept`. Nothing is released before a majority of
//! acknowledgements has been seen, and whether this peer acknowledges is its node's to say: the view only carries.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chacha20::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use super::all_reduce::{self, AllReduce, SumId, Total};
use super::ballot::Ballot;
use super::context::Context;
use super::deal::{self, Deal, Opening, Pad, Release};
use super::gather::Gather;
use super::pairwise::{self, Mask, Masks, ViewKey};
use super::record::{self, Acknowledgement, Frozen, Record};
use super::signed::{Item, Signed};
use super::tree::{self, Place};
use super::{Action, Fault, Input, Machine, Never, Parent, Step, Time};
use crate::crypto::agreement::EphemeralSecret;
use crate::crypto::mask::Sign;
use crate::session::Peer;

/// The generator of a node's secrets, seeded once from the operating system.
pub type Rng = chacha20::ChaCha20Rng;

/// How often a member says that it is still computing, and looks whether the view stands still, milliseconds.
pub const HEARTBEAT_MS: u64 = 1000;

/// What travels on the tree's edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To the parent: what this subtree has to say.
    Up(Ballot, Report),
    /// To the children: what the leader has decided.
    Down(Ballot, Order),
    /// A part of the running sum.
    Reduce(all_reduce::Message),
    /// Somebody in this subtree (to the parent) or anywhere (to the children) is computing.
    Working(Ballot),
}

/// One subtree's part of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Every member's key.
    Keys(Vec<Signed<ViewKey>>),
    /// The whole subtree holds the total of this digest; the dealers' deals.
    Hold {
        /// The quantity.
        slot: u8,
        /// See `all_reduce::total_digest`.
        total: [u8; 32],
        /// Of dealers in the subtree.
        deals: Vec<Signed<Deal>>,
    },
    /// The council's acknowledgements.
    Acknowledge(u8, Vec<Signed<Acknowledgement>>),
    /// The council's shares of the pads.
    Release(u8, Vec<Signed<Release>>),
}

/// What the leader tells everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Every member's key.
    Keys(Vec<Signed<ViewKey>>),
    /// Sum this slot.
    Sum(u8),
    /// Acknowledge this value.
    Accept(Record),
    /// A majority has acknowledged it.
    Decide(u8, Vec<Signed<Acknowledgement>>),
    /// The shares that open it.
    Open(u8, Vec<Signed<Release>>),
}

/// Comes back every [`HEARTBEAT_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(pub Ballot);

/// Where a view stands, for people and for tests that stop a node there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Exchanging the keys of the view.
    Keys,
    /// Making this peer's own vector.
    Compute,
    /// Summing.
    Sum,
    /// Acknowledging the sealed total.
    Accept,
    /// Releasing the shares of the pads.
    Release,
    /// Opening the total.
    Open,
}

/// Why a view ended without having gone through the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// A connection that the view needs is gone.
    Lost,
    /// No progress for `stall_ms`.
    Stalled,
    /// A peer broke a rule.
    Fault,
    /// A peer left on purpose.
    Left,
    /// A proposer with a higher ballot has its majority.
    Superseded,
    /// The members are too few for a new sum.
    TooFew,
    /// A peer's totals, keys or shares do not fit together, and it cannot be said whose fault it is.
    Disagreement,
}

/// What the node must know or do.
#[derive(Debug)]
pub enum Output {
    /// A stage began.
    Stage(u8, Stage),
    /// Leader only: every member's key is there, slots may start.
    Ready,
    /// Answer with [`View::contribute`].
    Sum(u8),
    /// This peer holds the sealed total of the running sum.
    Total(Total),
    /// Answer with [`View::acknowledge`], once its total is held.
    Accept(Record),
    /// Answer with [`View::release`].
    Decided(Record, Vec<Signed<Acknowledgement>>),
    /// The pads are known.
    Opened(Frozen),
    /// The view is over.
    Failed(Reason, Option<Peer>),
}

#[derive(Debug)]
struct Round {
    slot: u8,
    reduce: Option<AllReduce>,
    pad: Option<Pad>,
    own_deals: Vec<Signed<Deal>>,
    deals: Gather<Signed<Deal>>,
    total: Option<[u8; 32]>,
    child_totals: Vec<[u8; 32]>,
    record: Option<Record>,
    acknowledge: Gather<Signed<Acknowledgement>>,
    acknowledgements: Vec<Signed<Acknowledgement>>,
    release: Gather<Signed<Release>>,
}

/// The machine of one member in one view.
pub struct View {
    ctx: Arc<Context>,
    ballot: Ballot,
    members: Vec<Peer>,
    place: Place,
    rng: Rng,
    secret: Option<EphemeralSecret>,
    keys_report: Gather<Signed<ViewKey>>,
    keys: Option<BTreeMap<Peer, Arc<[u8; 32]>>>,
    round: Option<Round>,
    progress: Time,
    working: bool,
    child_working: bool,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View {{ ballot: {}, members: {:?}, slot: {:?} }}", self.ballot, self.members, self.slot())
    }
}

/// Why an order cannot be followed, and whose fault that is, if anybody's.
type Refusal = (Reason, Option<Peer>);

impl Machine for View {
    type Message = Message;
    type Timer = Timer;
    type Job = all_reduce::Job;
    type Done = all_reduce::Done;
    type Record = Never;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        match input {
            Input::Start => self.start(now, &mut step),
            Input::Message { from, message } => {
                if self.place.neighbours().any(|peer| peer == from) {
                    self.progress = now;
                    if let Err(fault) = self.message(now, from, message, &mut step) {
                        step.blame(from, fault);
                        step.output(Output::Failed(Reason::Fault, Some(from)));
                    }
                }
                // Others have another tree in mind: a leader that shows two of them must not make honest peers blame each other.
            }
            Input::Timer(Timer(ballot)) if ballot == self.ballot => self.tick(now, &mut step),
            Input::Done(done) => {
                self.progress = now;
                if let Some(reduce) = self.reduce(done.sum) {
                    let child = reduce.handle(now, Input::Done(done));
                    self.reduced(child, &mut step);
                }
            }
            Input::PeerLost(peer) => {
                let needed = self.place.neighbours().any(|neighbour| neighbour == peer)
                    || (self.place.parent.is_none() && self.members.contains(&peer));
                if needed {
                    step.output(Output::Failed(Reason::Lost, Some(peer)));
                }
            }
            Input::Timer(_) | Input::PeerUp(_) => {}
        }
        step
    }
}

impl Parent<AllReduce> for View {
    fn message(message: all_reduce::Message) -> Message {
        Message::Reduce(message)
    }
    fn timer(timer: Never) -> Timer {
        match timer {}
    }
    fn job(job: all_reduce::Job) -> all_reduce::Job {
        job
    }
    fn record(record: Never) -> Never {
        record
    }
}

impl View {
    /// A view of `ballot` with `members` (ascending), led by the ballot's proposer. `None` if this peer is no member.
    #[must_use]
    pub fn new(ctx: Arc<Context>, ballot: Ballot, members: Vec<Peer>, seed: [u8; 32]) -> Option<Self> {
        let order = tree::order(&ctx.session, &ctx.id, ballot, &members);
        let place = tree::place(&order, ctx.me)?;
        Some(Self {
            keys_report: Gather::new(&place.children),
            ballot,
            members,
            place,
            rng: Rng::from_seed(seed),
            secret: None,
            keys: None,
            round: None,
            progress: Time::default(),
            working: false,
            child_working: false,
            ctx,
        })
    }

    /// The ballot.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// The members, ascending.
    #[must_use]
    pub fn members(&self) -> &[Peer] {
        &self.members
    }

    /// This peer's neighbours.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The slot of the round that is under way or was the last.
    #[must_use]
    pub fn slot(&self) -> Option<u8> {
        self.round.as_ref().map(|round| round.slot)
    }

    /// Whether this peer leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.place.parent.is_none()
    }

    /// Says whether this peer is at long work, so that the others wait.
    pub fn set_working(&mut self, working: bool) {
        self.working = working;
    }

    /// Leader: sums `slot` over the members.
    pub fn sum(&mut self, slot: u8) -> Step<Self> {
        let mut step = Step::none();
        self.order(Order::Sum(slot), &mut step);
        step
    }

    /// Leader: finishes a value that an earlier view left acknowledged.
    pub fn resume(&mut self, record: Record) -> Step<Self> {
        let mut step = Step::none();
        self.order(Order::Accept(record), &mut step);
        step
    }

    /// This peer's own vector for the slot that [`Output::Sum`] named.
    pub fn contribute(&mut self, now: Time, slot: u8, vector: Bytes) -> Step<Self> {
        let mut step = Step::none();
        self.progress = now;
        let sum = self.sum_id(slot);
        let (Some(keys), Some(round)) = (&self.keys, &mut self.round) else { return step };
        if round.slot != slot {
            return step;
        }
        let Some(reduce) = &mut round.reduce else { return step };
        step.output(Output::Stage(slot, Stage::Sum));
        let mut masks = pairwise::pair_masks(self.ctx.me, keys, sum);
        if let Some(pad) = &round.pad {
            masks.push(Mask::new(Arc::new(**pad), "pad", sum, Sign::Add));
        }
        let word = self.ctx.plan[usize::from(slot)].word();
        let child = reduce.contribute(vector, Arc::new(Masks { word, masks }));
        self.reduced(child, &mut step);
        step
    }

    /// This peer's answer to [`Output::Accept`]: its acknowledgement if it is in the council.
    pub fn acknowledge(&mut self, slot: u8, item: Option<Signed<Acknowledgement>>) -> Step<Self> {
        let mut step = Step::none();
        if let Some(round) = self.round.as_mut().filter(|round| round.slot == slot) {
            round.acknowledge.own(item.into_iter().collect());
            self.report_acknowledgements(&mut step);
        }
        step
    }

    /// This peer's answer to [`Output::Decided`]: its shares if it is in the council.
    pub fn release(&mut self, slot: u8, item: Option<Signed<Release>>) -> Step<Self> {
        let mut step = Step::none();
        if let Some(round) = self.round.as_mut().filter(|round| round.slot == slot) {
            round.release.own(item.into_iter().collect());
            self.report_releases(&mut step);
        }
        step
    }

    fn sum_id(&self, slot: u8) -> SumId {
        SumId { ballot: self.ballot, slot }
    }

    fn reduce(&mut self, sum: SumId) -> Option<&mut AllReduce> {
        let expected = self.sum_id(sum.slot);
        self.round.as_mut().filter(|round| sum == expected && round.slot == sum.slot)?.reduce.as_mut()
    }

    fn start(&mut self, now: Time, step: &mut Step<Self>) {
        self.progress = now;
        step.output(Output::Stage(0, Stage::Keys));
        let secret = EphemeralSecret::generate(&mut self.rng);
        let key = Signed::new(&self.ctx, ViewKey { ballot: self.ballot, public: secret.public() });
        self.secret = Some(secret);
        self.keys_report.own(vec![key]);
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: Timer(self.ballot) });
        self.report_keys(step);
    }

    fn tick(&mut self, now: Time, step: &mut Step<Self>) {
        if self.working && !self.child_working {
            self.tell_working(now, step);
        }
        self.child_working = false;
        if now.ms_since(self.progress) >= self.ctx.session.timing.stall_ms {
            step.output(Output::Failed(Reason::Stalled, self.awaited()));
        } else {
            step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: Timer(self.ballot) });
        }
    }

    /// Says that somebody in this subtree, at the root anybody, is at long work.
    fn tell_working(&mut self, now: Time, step: &mut Step<Self>) {
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Working(self.ballot)),
            None => {
                self.progress = now;
                for &child in &self.place.children {
                    step.send(child, Message::Working(self.ballot));
                }
            }
        }
    }

    /// The neighbour whose word is missing: a child whose report has not come, else the parent.
    fn awaited(&self) -> Option<Peer> {
        let child = match &self.round {
            _ if self.keys.is_none() => self.keys_report.waiting(),
            None => None,
            Some(round) => round
                .deals
                .waiting()
                .filter(|_| round.record.is_none())
                .or_else(|| round.acknowledge.waiting().filter(|_| round.record.is_some()))
                .or_else(|| round.release.waiting().filter(|_| !round.acknowledgements.is_empty())),
        };
        child.or(self.place.parent)
    }

    fn message(&mut self, now: Time, from: Peer, message: Message, step: &mut Step<Self>) -> Result<(), Fault> {
        let downward = self.place.parent == Some(from);
        match message {
            Message::Up(ballot, report) if ballot == self.ballot => {
                if downward {
                    return Err(Fault::OutOfOrder("report"));
                }
                self.report(from, report, step)
            }
            Message::Down(ballot, order) if ballot == self.ballot => {
                if !downward {
                    return Err(Fault::OutOfOrder("order"));
                }
                self.order(order, step);
                Ok(())
            }
            Message::Reduce(message) => {
                let (all_reduce::Message::Chunk { sum, .. } | all_reduce::Message::Credit { sum, .. }) = &message;
                if let Some(reduce) = self.reduce(*sum) {
                    let child = reduce.handle(now, Input::Message { from, message });
                    self.reduced(child, step);
                }
                Ok(())
            }
            Message::Working(ballot) if ballot == self.ballot => {
                if downward {
                    for &child in &self.place.children {
                        step.send(child, Message::Working(ballot));
                    }
                } else if !std::mem::replace(&mut self.child_working, true) {
                    // The first word of each beat goes on at once: it reaches the root however deep the tree is.
                    self.tell_working(now, step);
                }
                Ok(())
            }
            Message::Up(..) | Message::Down(..) | Message::Working(_) => Ok(()),
        }
    }

    fn report(&mut self, from: Peer, report: Report, step: &mut Step<Self>) -> Result<(), Fault> {
        match report {
            Report::Keys(items) => {
                self.verify(&items, "view key", |key| key.item.ballot == self.ballot)?;
                if !self.keys_report.child(from, items) {
                    return Err(Fault::OutOfOrder("keys"));
                }
                self.report_keys(step);
            }
            Report::Hold { slot, total, deals } => {
                let (sum, dealers) = (self.sum_id(slot), self.ctx.dealers(slot, &self.members));
                self.verify(&deals, "deal", |deal| deal.item.sum == sum && dealers.contains(&deal.author))?;
                let round = self.round.as_mut().filter(|round| round.slot == slot && round.reduce.is_some());
                let round = round.ok_or(Fault::OutOfOrder("hold"))?;
                if !round.deals.child(from, deals) {
                    return Err(Fault::OutOfOrder("hold"));
                }
                round.child_totals.push(total);
                self.report_hold(step);
            }
            Report::Acknowledge(slot, items) => {
                let value = self.record().map(|record| record.digest(&self.ctx));
                self.verify(&items, "acknowledgement", |each| {
                    each.item.ballot == self.ballot
                        && Some(each.item.value) == value
                        && self.ctx.council_index(each.author).is_some()
                })?;
                let round = self.round.as_mut().filter(|round| round.slot == slot && round.record.is_some());
                if !round.ok_or(Fault::OutOfOrder("acknowledgement"))?.acknowledge.child(from, items) {
                    return Err(Fault::OutOfOrder("acknowledgement"));
                }
                self.report_acknowledgements(step);
            }
            Report::Release(slot, items) => {
                let sum = self.record().map(|record| record.value.sum);
                self.verify(&items, "release", |each| {
                    Some(each.item.sum) == sum && self.ctx.council_index(each.author).is_some()
                })?;
                let round =
                    self.round.as_mut().filter(|round| round.slot == slot && !round.acknowledgements.is_empty());
                if !round.ok_or(Fault::OutOfOrder("release"))?.release.child(from, items) {
                    return Err(Fault::OutOfOrder("release"));
                }
                self.report_releases(step);
            }
        }
        Ok(())
    }

    fn record(&self) -> Option<&Record> {
        self.round.as_ref()?.record.as_ref()
    }

    /// Every item of a report fits this round and is signed by a member, no two by the same: whoever passes on another one
    /// has not looked at it.
    fn verify<T: Item>(
        &self,
        items: &[Signed<T>],
        what: &'static str,
        fits: impl Fn(&Signed<T>) -> bool,
    ) -> Result<(), Fault> {
        for (i, item) in items.iter().enumerate() {
            let twice = items[..i].iter().any(|other| other.author == item.author);
            if !self.members.contains(&item.author) || twice || !fits(item) {
                return Err(Fault::Inconsistent(format!("{what} of {} does not belong here", item.author)));
            }
            if !item.verify(&self.ctx) {
                return Err(Fault::BadSignature(what));
            }
        }
        Ok(())
    }

    fn report_keys(&mut self, step: &mut Step<Self>) {
        let Some(items) = self.keys_report.complete() else { return };
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Keys(items))),
            None => self.order(Order::Keys(items), step),
        }
    }

    fn report_hold(&mut self, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(total) = round.total else { return };
        let Some(mut deals) = round.deals.complete() else { return };
        if round.child_totals.iter().any(|other| *other != total) {
            step.output(Output::Failed(Reason::Disagreement, None));
            return;
        }
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Hold { slot, total, deals })),
            None => {
                deals.sort_by_key(|deal| self.ctx.council_index(deal.author));
                let record = Record::new(self.sum_id(slot), self.members.clone(), total, deals);
                self.order(Order::Accept(record), step);
            }
        }
    }

    fn report_acknowledgements(&mut self, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(items) = round.acknowledge.complete() else { return };
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Acknowledge(slot, items))),
            None => self.order(Order::Decide(slot, items), step),
        }
    }

    fn report_releases(&mut self, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(items) = round.release.complete() else { return };
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Release(slot, items))),
            None => self.order(Order::Open(slot, items), step),
        }
    }

    fn reduced(&mut self, child: Step<AllReduce>, step: &mut Step<Self>) {
        let faulty = child.0.iter().find_map(|action| match action {
            Action::Blame { peer, .. } => Some(*peer),
            _ => None,
        });
        for total in step.lift(child) {
            let Some(round) = &mut self.round else { return };
            round.total = Some(total.digest);
            let own = std::mem::take(&mut round.own_deals);
            round.deals.own(own);
            step.output(Output::Total(total));
            self.report_hold(step);
        }
        if let Some(peer) = faulty {
            step.output(Output::Failed(Reason::Fault, Some(peer)));
        }
    }

    /// Passes an order on to the children and acts on it.
    fn order(&mut self, order: Order, step: &mut Step<Self>) {
        for &child in &self.place.children {
            step.send(child, Message::Down(self.ballot, order.clone()));
        }
        if let Err((reason, peer)) = self.act(order, step) {
            step.output(Output::Failed(reason, peer));
        }
    }

    fn act(&mut self, order: Order, step: &mut Step<Self>) -> Result<(), Refusal> {
        const DISAGREEMENT: Refusal = (Reason::Disagreement, None);
        match order {
            Order::Keys(items) => {
                let secret = self.secret.take().ok_or(DISAGREEMENT)?;
                let keys =
                    pairwise::collect(&self.ctx, self.ballot, &self.members, &items).map_err(|_| DISAGREEMENT)?;
                let shared = pairwise::agree(&self.ctx, self.ballot, &secret, &keys).map_err(|peer| {
                    step.blame(peer, Fault::LowOrderKey);
                    (Reason::Fault, Some(peer))
                })?;
                self.keys = Some(shared);
                if self.leads() {
                    step.output(Output::Ready);
                }
            }
            Order::Sum(slot) => {
                let quantity = self.ctx.plan.get(usize::from(slot)).ok_or(DISAGREEMENT)?.clone();
                if self.keys.is_none() || self.slot().is_some_and(|before| before >= slot) {
                    return Err(DISAGREEMENT);
                }
                let sum = self.sum_id(slot);
                let mut round = self.new_round(slot);
                if self.ctx.dealers(slot, &self.members).contains(&self.ctx.me) {
                    let (pad, deal) = deal::make(&self.ctx, sum, &mut self.rng);
                    (round.pad, round.own_deals) = (Some(pad), vec![deal]);
                }
                let place = self.place.clone();
                round.reduce = Some(AllReduce::new(&self.ctx.id.0, sum, quantity.word(), quantity.len(), place));
                self.round = Some(round);
                step.output(Output::Stage(slot, Stage::Compute));
                step.output(Output::Sum(slot));
            }
            Order::Accept(record) => {
                record.check(&self.ctx).map_err(|_| DISAGREEMENT)?;
                let slot = record.value.sum.slot;
                if record.value.sum.ballot == self.ballot {
                    let round = self.round.as_ref().filter(|round| round.slot == slot).ok_or(DISAGREEMENT)?;
                    if round.total != Some(record.value.total) || record.value.members != self.members {
                        return Err(DISAGREEMENT);
                    }
                } else if record.value.sum.ballot > self.ballot || self.slot().is_some_and(|before| before >= slot) {
                    return Err(DISAGREEMENT);
                } else {
                    self.round = Some(self.new_round(slot));
                }
                let round = self.round.as_mut().filter(|round| round.record.is_none()).ok_or(DISAGREEMENT)?;
                round.record = Some(record.clone());
                step.output(Output::Stage(slot, Stage::Accept));
                step.output(Output::Accept(record));
            }
            Order::Decide(slot, acknowledgements) => {
                let round = self.round.as_mut().filter(|round| round.slot == slot).ok_or(DISAGREEMENT)?;
                let record = round.record.as_ref().ok_or(DISAGREEMENT)?;
                if !record::decided(&self.ctx, &record.digest(&self.ctx), &acknowledgements) {
                    return Err(DISAGREEMENT);
                }
                round.acknowledgements.clone_from(&acknowledgements);
                step.output(Output::Stage(slot, Stage::Release));
                step.output(Output::Decided(record.clone(), acknowledgements));
            }
            Order::Open(slot, releases) => {
                let round = self.round.as_mut().filter(|round| round.slot == slot).ok_or(DISAGREEMENT)?;
                if round.acknowledgements.is_empty() || releases.len() > self.ctx.council.len() {
                    return Err(DISAGREEMENT);
                }
                let record = round.record.as_ref().ok_or(DISAGREEMENT)?;
                let mut opening = Opening::default();
                for release in &releases {
                    if !release.verify(&self.ctx) {
                        return Err(DISAGREEMENT);
                    }
                    // A wrong share carries its author's signature; the others may still be enough.
                    if let Err(fault) = opening.add(&self.ctx, &record.deals, release) {
                        step.blame(release.author, fault);
                    }
                }
                let pads = opening.pads(&self.ctx, &record.deals).ok_or(DISAGREEMENT)?;
                let frozen = Frozen {
                    record: record.clone(),
                    acknowledgements: round.acknowledgements.clone(),
                    pads: pads.into_iter().map(|pad| pad.map(|pad| *pad)).collect(),
                };
                step.output(Output::Stage(slot, Stage::Open));
                step.output(Output::Opened(frozen));
            }
        }
        Ok(())
    }

    fn new_round(&self, slot: u8) -> Round {
        let children = &self.place.children;
        Round {
            slot,
            reduce: None,
            pad: None,
            own_deals: Vec::new(),
            deals: Gather::new(children),
            total: None,
            child_totals: Vec::new(),
            record: None,
            acknowledge: Gather::new(children),
            acknowledgements: Vec::new(),
            release: Gather::new(children),
        }
    }
}
