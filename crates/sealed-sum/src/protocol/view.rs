//! One view: a fixed set of members processes the plan's aggregates in rounds on the tree (spec, section
//! "Views").
//!
//! The leader sends an order down. Every member acts on it and reports up. A report is complete when it
//! contains the reports of the whole subtree:
//!
//! | order (down)          | report (up)                                  |
//! | --------------------- | -------------------------------------------- |
//! | (the view begins)     | `Keys`: every member's signed key            |
//! | `Keys`: all of them   | above 64 members `Reveal`: parts of the draw |
//! | `Reveal`: all of them |                                              |
//! | `Sum`: of a slot      | chunks; then `TotalReady`: total's digest, deals   |
//! | `Accept`: the record  | `Acknowledge`: the committee's acknowledgements |
//! | `Decide`: all of them | `Release`: the committee's shares of the pads  |
//! | `Open`: all of them   |                                              |
//!
//! A value that an earlier view left acknowledged starts at `Accept`. No shares are released before a
//! quorum of acknowledgements has arrived. The node decides whether this peer acknowledges; the view
//! only transports the acknowledgement. A member checks an order before it forwards it. So if a member
//! cannot follow an order, the liar is its parent, or a peer that changed the forwarded data.

mod keys;
mod message;
mod progress;
mod reports;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chacha20::rand_core::SeedableRng;

use super::all_reduce::{self, AllReduce, Total};
use super::ballot::Ballot;
use super::context::{Context, FULL_MESH};
use super::convergecast::Convergecast;
use super::deal::{self, Deal, Opening, Pad, Release};
use super::pairwise::{self, Mask, Masks, Reveal, ViewKey, ViewKeys};
use super::record::{self, Acknowledgement, Committed, Record};
use super::signed::Signed;
use super::sum_id::SumId;
use super::tree::{Place, Tree};
use super::{Action, Fault, Input, Machine, Never, Parent, Step, Time};
use crate::crypto::agreement::{EphemeralSecret, SharedKey};
use crate::crypto::mask::Sign;
use crate::session::Peer;
use progress::Clock;

pub use message::{Message, Order, Reason, Report, Stage};

/// Generator of a node's secrets, seeded once from the operating system.
pub type Rng = chacha20::ChaCha20Rng;

/// Interval at which a member sends keep-alive messages and checks its deadlines, in milliseconds.
pub const HEARTBEAT_MS: u64 = 1000;

/// Timer of a view, every [`HEARTBEAT_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(pub Ballot);

/// Report to the node.
#[derive(Debug)]
pub enum Output {
    /// A stage began.
    Stage(u32, Stage),
    /// Leader only: the keys of all members have arrived, and slots may start.
    Ready,
    /// The keys of all members have arrived. They prove which peers took part.
    Keys(Vec<Signed<ViewKey>>),
    /// A sum starts; answer with [`View::contribute`].
    Sum(u32),
    /// This peer holds the sealed total of the running sum.
    Total(Total),
    /// A value is to be acknowledged; answer with [`View::acknowledge`] when its total is held.
    Accept(Record),
    /// A value is decided; answer with [`View::release`].
    Decided(Record, Vec<Signed<Acknowledgement>>),
    /// The pads are known.
    Opened(Committed),
    /// The view is over.
    Failed(Reason, Option<Peer>),
}

#[derive(Debug)]
struct Round {
    slot: u32,
    reduce: Option<AllReduce>,
    /// True if the whole total has arrived.
    whole: bool,
    pad: Option<Pad>,
    own_deals: Vec<Signed<Deal>>,
    deals: Convergecast<Signed<Deal>>,
    total: Option<[u8; 32]>,
    child_totals: Vec<(Peer, [u8; 32])>,
    record: Option<Record>,
    acknowledge: Convergecast<Signed<Acknowledgement>>,
    acknowledgements: Vec<Signed<Acknowledgement>>,
    release: Convergecast<Signed<Release>>,
    opened: bool,
}

/// Machine of one member in one view.
pub struct View {
    ctx: Arc<Context>,
    ballot: Ballot,
    /// Digest of the beginning of this view.
    begun: [u8; 32],
    tree: Arc<Tree>,
    place: Place,
    /// Peers of this subtree, each with the child of this peer whose subtree contains it.
    below: BTreeMap<Peer, Peer>,
    /// Reported keys of this subtree.
    keys_below: BTreeMap<Peer, Signed<ViewKey>>,
    /// Distance of this peer, and of the farthest peer, from the root.
    depth: (u32, u32),
    rng: Rng,
    secret: Option<EphemeralSecret>,
    keys_report: Convergecast<Signed<ViewKey>>,
    /// Keys of all members, as shown by the leader.
    fixed: Option<ViewKeys>,
    /// This committee member's part of the draw of the mask graph, until it is revealed.
    part: Option<[u8; 32]>,
    reveals: Convergecast<Signed<Reveal>>,
    keys: Option<BTreeMap<Peer, SharedKey>>,
    round: Option<Round>,
    /// Order that waits for this peer's node before it is forwarded.
    held: Option<Order>,
    /// True if a slot was opened in this view.
    opened: bool,
    clock: Clock,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "View {{ ballot: {}, members: {:?}, slot: {:?} }}",
            self.ballot,
            self.members(),
            self.slot()
        )
    }
}

/// Reason why an order cannot be followed, with the peer that caused it if that is not the parent.
type Refusal = (Reason, Option<Peer>);

const DISAGREEMENT: Refusal = (Reason::Disagreement, None);

impl Machine for View {
    crate::protocol::machine_types!(Message, Timer, all_reduce::Job => all_reduce::Done, Never, Output);

    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        match input {
            Input::Start => self.start(now, &mut step),
            Input::Message { from, message } => {
                if self.place.neighbours().any(|peer| peer == from) {
                    self.clock.heard(now, from);
                    if let Err(fault) = self.message(now, from, message, &mut step) {
                        step.blame(from, fault);
                        step.output(Output::Failed(Reason::Fault, Some(from)));
                    }
                }
                // Other peers use a different tree: a leader that shows two trees must not make honest
                // peers blame each other.
            }
            Input::Timer(Timer(ballot)) if ballot == self.ballot => self.tick(now, &mut step),
            Input::Done(done) => {
                if let Some(reduce) = self.reduce(done.sum) {
                    let child = reduce.handle(now, Input::Done(done));
                    self.reduced(now, child, &mut step);
                }
            }
            Input::PeerLost(peer) => {
                if self.place.neighbours().any(|neighbour| neighbour == peer) {
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
    /// Makes the view with this ballot, this digest of its beginning and this tree. Returns `None` if this
    /// peer is not a member.
    #[must_use]
    pub fn new(
        ctx: Arc<Context>,
        (ballot, begun): (Ballot, [u8; 32]),
        tree: Arc<Tree>,
        seed: [u8; 32],
    ) -> Option<Self> {
        let place = tree.place(ctx.me)?;
        Some(Self {
            keys_report: Convergecast::new(&place.children),
            keys_below: BTreeMap::new(),
            fixed: None,
            part: None,
            reveals: Convergecast::new(&place.children),
            below: tree.below(ctx.me),
            depth: (tree.depth(ctx.me), tree.height()),
            ballot,
            begun,
            tree,
            place,
            rng: Rng::from_seed(seed),
            secret: None,
            keys: None,
            round: None,
            held: None,
            opened: false,
            clock: Clock::default(),
            ctx,
        })
    }

    /// Returns the ballot.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Returns the members, ascending.
    #[must_use]
    pub fn members(&self) -> &[Peer] {
        self.tree.members()
    }

    /// Returns the tree.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Returns whether a slot was opened in this view.
    #[must_use]
    pub fn has_opened(&self) -> bool {
        self.opened
    }

    /// Returns this peer's neighbours.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the slot of the current round, or of the last one.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.round.as_ref().map(|round| round.slot)
    }

    /// Returns the keys that this peer shares with its partners (all members in views of up to
    /// [`super::context::FULL_MESH`] members), once they are agreed on.
    #[must_use]
    pub fn keys(&self) -> Option<&BTreeMap<Peer, SharedKey>> {
        self.keys.as_ref()
    }

    /// Returns whether this peer leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.place.parent.is_none()
    }

    /// Leader: sums `slot` over the members.
    pub fn sum(&mut self, now: Time, slot: u32) -> Step<Self> {
        let mut step = Step::none();
        self.order(now, Order::Sum(slot), &mut step);
        step
    }

    /// Leader: finishes a value that an earlier view left acknowledged.
    pub fn resume(&mut self, now: Time, record: Record) -> Step<Self> {
        let mut step = Step::none();
        self.order(now, Order::Accept(record), &mut step);
        step
    }

    /// Forwards the order that [`Output::Sum`] or [`Output::Accept`] reported, because this peer
    /// follows the order.
    pub fn pass_on(&mut self) -> Step<Self> {
        let mut step = Step::none();
        if let Some(order) = self.held.take() {
            self.send_down(&order, &mut step);
        }
        step
    }

    /// Sets this peer's own vector for the slot of [`Output::Sum`].
    pub fn contribute(&mut self, now: Time, slot: u32, vector: Bytes) -> Step<Self> {
        let mut step = Step::none();
        let sum = self.sum_id(slot);
        let (Some(keys), Some(round)) = (&self.keys, &mut self.round) else { return step };
        if round.slot != slot {
            return step;
        }
        let Some(reduce) = &mut round.reduce else { return step };
        step.output(Output::Stage(slot, Stage::Sum));
        let aggregate = &self.ctx.plan[slot as usize];
        let mut masks =
            if aggregate.plain() { Vec::new() } else { pairwise::pair_masks(self.ctx.me, keys, sum) };
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(super::context::Bug::ForgottenMask) {
            masks.pop();
        }
        if let Some(pad) = &round.pad {
            masks.push(Mask::new(Arc::new(pad.clone()), "pad", sum, Sign::Add));
        }
        let child = reduce.contribute(vector, Arc::new(Masks { word: aggregate.word(), masks }));
        self.reduced(now, child, &mut step);
        step
    }

    /// Answers [`Output::Accept`]. A committee member sends its acknowledgement. If it does not vote,
    /// it acknowledges no value.
    pub fn acknowledge(&mut self, now: Time, slot: u32, item: Option<Signed<Acknowledgement>>) -> Step<Self> {
        let mut step = Step::none();
        if let Some(round) = self.round.as_mut().filter(|round| round.slot == slot) {
            round.acknowledge.own(item.into_iter().collect());
            self.report_acknowledgements(now, &mut step);
        }
        step
    }

    /// Answers [`Output::Decided`]. A committee member sends its shares.
    pub fn release(&mut self, now: Time, slot: u32, item: Option<Signed<Release>>) -> Step<Self> {
        let mut step = Step::none();
        if let Some(round) = self.round.as_mut().filter(|round| round.slot == slot) {
            round.release.own(item.into_iter().collect());
            self.report_releases(now, &mut step);
        }
        step
    }

    fn sum_id(&self, slot: u32) -> SumId {
        SumId { ballot: self.ballot, slot }
    }

    fn reduce(&mut self, sum: SumId) -> Option<&mut AllReduce> {
        let expected = self.sum_id(sum.slot);
        self.round.as_mut().filter(|round| sum == expected && round.slot == sum.slot)?.reduce.as_mut()
    }

    fn message(&mut self, now: Time, from: Peer, said: Message, step: &mut Step<Self>) -> Result<(), Fault> {
        let downward = self.place.parent == Some(from);
        match said {
            Message::Up(ballot, report) if ballot == self.ballot => {
                if downward {
                    return Err(Fault::OutOfOrder("report"));
                }
                self.report(now, from, report, step)
            }
            Message::Down(ballot, order) if ballot == self.ballot => {
                if !downward {
                    return Err(Fault::OutOfOrder("order"));
                }
                // An honest parent does not forward such an order.
                if !order.has_lengths(&self.ctx) {
                    return Err(Fault::Inconsistent("an order has a wrong length".into()));
                }
                self.order(now, order, step);
                Ok(())
            }
            Message::Reduce(message) => {
                let (all_reduce::Message::Chunk { sum, .. } | all_reduce::Message::Credit { sum, .. }) =
                    &message;
                if let Some(reduce) = self.reduce(*sum) {
                    let child = reduce.handle(now, Input::Message { from, message });
                    self.reduced(now, child, step);
                }
                Ok(())
            }
            Message::Up(..) | Message::Down(..) | Message::KeepAlive(_) => Ok(()),
        }
    }

    fn reduced(&mut self, now: Time, child: Step<AllReduce>, step: &mut Step<Self>) {
        if let Some(round) = &mut self.round
            && !std::mem::replace(&mut round.whole, round.reduce.as_ref().is_some_and(AllReduce::is_whole))
            && round.whole
        {
            self.clock.summed(now, round.slot, &self.ctx);
        }
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
            self.report_hold(now, step);
        }
        if let Some(peer) = faulty {
            step.output(Output::Failed(Reason::Fault, Some(peer)));
        }
    }

    /// Acts on an order and forwards it, if it can be followed.
    fn order(&mut self, now: Time, order: Order, step: &mut Step<Self>) {
        self.clock.ordered(now, &order, self.ballot, &self.ctx);
        let waits = matches!(order, Order::Sum(_) | Order::Accept(_));
        let passed = (!waits).then(|| order.clone());
        self.held = waits.then(|| order.clone());
        // This peer's messages about the order must come after the order.
        let mut acted = Step::none();
        match self.act(now, order, &mut acted) {
            Ok(()) => {
                if let Some(order) = passed {
                    self.send_down(&order, step);
                }
                step.0.append(&mut acted.0);
            }
            Err((reason, peer)) => {
                step.0.append(&mut acted.0);
                step.output(Output::Failed(reason, peer));
            }
        }
    }

    fn send_down(&self, order: &Order, step: &mut Step<Self>) {
        for &child in &self.place.children {
            step.send(child, Message::Down(self.ballot, order.clone()));
        }
    }

    fn act(&mut self, now: Time, order: Order, step: &mut Step<Self>) -> Result<(), Refusal> {
        match order {
            Order::Keys(items) => self.fix(now, items, step)?,
            Order::Reveal(items) => self.drawn(&items, step)?,
            Order::Sum(slot) => {
                let aggregate = self.ctx.plan.get(slot as usize).ok_or(DISAGREEMENT)?.clone();
                // A leader that skips the opening would let this peer's children wait for an order that this
                // peer can pass on only once it has the earlier slot.
                let skipped = self.round.as_ref().is_some_and(|round| !round.opened);
                if self.keys.is_none() || skipped || self.slot().is_some_and(|before| before >= slot) {
                    return Err(DISAGREEMENT);
                }
                let sum = self.sum_id(slot);
                let mut round = self.new_round(slot);
                if self.ctx.dealers(slot, self.members()).contains(&self.ctx.me) {
                    let (pad, deal) = deal::make(&self.ctx, sum, &mut self.rng);
                    (round.pad, round.own_deals) = (Some(pad), vec![deal]);
                }
                let place = self.place.clone();
                round.reduce = Some(AllReduce::new(&self.ctx.id.0, sum, &aggregate, place));
                self.round = Some(round);
                step.output(Output::Stage(slot, Stage::Compute));
                step.output(Output::Sum(slot));
            }
            Order::Accept(record) => {
                if record.check(&self.ctx).is_err() {
                    // A deal has its dealer's signature. The parent is at fault too, because it passed
                    // the deal on.
                    deal::liars(&self.ctx, &record.deals).for_each(|peer| step.blame(peer, Fault::BadDeal));
                    return Err(DISAGREEMENT);
                }
                let slot = record.value.sum.slot;
                if record.value.sum.ballot == self.ballot {
                    let round = self.round.as_ref().filter(|round| round.slot == slot).ok_or(DISAGREEMENT)?;
                    if round.total != Some(record.value.total) || record.value.members != self.tree.members()
                    {
                        return Err(DISAGREEMENT);
                    }
                } else if record.value.sum.ballot > self.ballot
                    || self.slot().is_some_and(|before| before >= slot)
                {
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
                if !record::decided(&self.ctx, slot, &record.digest(&self.ctx), &acknowledgements) {
                    return Err(DISAGREEMENT);
                }
                round.acknowledgements.clone_from(&acknowledgements);
                step.output(Output::Stage(slot, Stage::Release));
                step.output(Output::Decided(record.clone(), acknowledgements));
            }
            Order::Open(slot, releases) => {
                let round = self.round.as_mut().filter(|round| round.slot == slot).ok_or(DISAGREEMENT)?;
                if round.acknowledgements.is_empty() || releases.len() > self.ctx.committee.len() {
                    return Err(DISAGREEMENT);
                }
                let record = round.record.as_ref().ok_or(DISAGREEMENT)?;
                let (sum, value) = (record.value.sum, record.digest(&self.ctx));
                let mut opening = Opening::default();
                let mut used = Vec::new();
                let due = if record.deals.is_empty() { 0 } else { self.ctx.quorum };
                for release in &releases {
                    // A release for another value is not a fault if its author saw that other value.
                    let fits = release.item.sum == sum && release.item.value == value;
                    if !fits || !release.verify(&self.ctx) {
                        return Err(DISAGREEMENT);
                    }
                    // A wrong share is signed by its author. The other shares may still be enough.
                    if let Err(fault) = opening.add(&self.ctx, &record.deals, release) {
                        #[cfg(any(test, feature = "harness"))]
                        if self.ctx.bug == Some(super::context::Bug::NoBlame) {
                            continue;
                        }
                        step.blame(release.author, fault);
                    } else if opening.members() > used.len() && used.len() < due {
                        used.push(release.clone());
                    }
                }
                let pads = opening.pads(&self.ctx, &record.deals).ok_or(DISAGREEMENT)?;
                let committed = Committed {
                    releases: used,
                    record: record.clone(),
                    acknowledgements: round.acknowledgements.clone(),
                    pads: pads.into_iter().map(|pad| *pad).collect(),
                };
                (self.opened, round.opened) = (true, true);
                step.output(Output::Stage(slot, Stage::Open));
                step.output(Output::Opened(committed));
            }
        }
        Ok(())
    }

    fn new_round(&self, slot: u32) -> Round {
        let children = &self.place.children;
        Round {
            slot,
            reduce: None,
            whole: false,
            pad: None,
            own_deals: Vec::new(),
            deals: Convergecast::new(children),
            total: None,
            child_totals: Vec::new(),
            record: None,
            acknowledge: Convergecast::new(children),
            acknowledgements: Vec::new(),
            release: Convergecast::new(children),
            opened: false,
        }
    }
}
