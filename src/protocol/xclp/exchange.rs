//! One peer's part in one exchange, as a machine.

use std::ops::RangeInclusive;
use std::sync::Arc;

use chacha20::rand_core::{Rng as _, SeedableRng};

use super::custodian::Custodian;
use super::desk::{Desk, Done, Job, Made};
use super::owner::Owner;
use super::propagator::{EDGE, Propagator, SHORT};
use super::{Body, Known, Message, Outcome, ParcelKind, Setup, Stage, hamming, labels};
use crate::protocol::all_reduce::SumId;
use crate::protocol::view::{HEARTBEAT_MS, Reason, Rng};
use crate::protocol::{Action, Fault, Input, Machine, Never, Step, Time};
use crate::session::Peer;

/// Comes back every [`HEARTBEAT_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(pub SumId);

/// A report of an exchange to the node.
#[derive(Debug)]
pub enum Output {
    /// This peer has done its part, with this result.
    Finished(Outcome),
    /// The exchange cannot go on, because of this peer if one is named.
    Failed(Reason, Option<Peer>),
}

/// See the module. A stage's parts are there in that stage alone.
pub struct Exchange {
    desk: Desk,
    owner: Option<Owner>,
    custodian: Option<Custodian>,
    propagator: Option<Propagator>,
    labels: Option<Labels>,
    rng: Rng,
    started: Time,
    /// The time of the last message, and the number of jobs under way.
    heard: Time,
    jobs: usize,
    /// Whether anything has moved here since the last heartbeat.
    moved: bool,
    over: bool,
}

/// The parts of the second stage.
struct Labels {
    known: Known,
    owner: Option<labels::Owner>,
    propagator: Option<labels::Propagator>,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exchange({:?})", self.desk.setup)
    }
}

impl Machine for Exchange {
    type Message = Message;
    type Timer = Timer;
    type Job = Job;
    type Done = Done;
    type Record = Never;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        match input {
            Input::Start => self.start(now, &mut step),
            Input::Message { from, message } => {
                self.heard = now;
                self.moved |= message.body != Body::Working;
                if let Err(fault) = self.message(from, message.body, &mut step) {
                    step.blame(from, fault);
                    self.fail(Reason::Fault, Some(from), &mut step);
                }
            }
            Input::Done(Done { made, .. }) => {
                self.heard = now;
                self.moved = true;
                self.jobs -= 1;
                self.made(made, &mut step);
            }
            Input::Timer(Timer(sum)) if sum == self.desk.setup.sum && !self.over => self.tick(now, &mut step),
            Input::PeerLost(peer) if !self.over && self.neighbours().any(|each| each == peer) => {
                self.fail(Reason::Lost, Some(peer), &mut step);
            }
            Input::Timer(_) | Input::PeerUp(_) | Input::PeerLost(_) => {}
        }
        self.advance(&mut step);
        self.jobs += step.0.iter().filter(|action| matches!(action, Action::Compute(_))).count();
        step
    }
}

impl Exchange {
    /// A part that has not started; `seed` is 32 fresh secret bytes.
    #[must_use]
    pub fn new(setup: Setup, seed: [u8; 32]) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut fresh = || {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let propagates = setup.roles.propagators.contains(&setup.me);
        let (mut owner, mut custodian, mut propagator, mut labels) = (None, None, None, None);
        match &setup.stage {
            Stage::Graph => {
                owner = setup.rows.clone().map(|rows| Owner::new(rows, &setup, &mut fresh));
                custodian = setup.roles.ring.contains(&setup.me).then(Custodian::default);
                propagator = propagates.then(Propagator::default);
            }
            Stage::Labels(known) => {
                labels = Some(Labels {
                    known: known.clone(),
                    owner: setup.rows.clone().map(|rows| labels::Owner::new(rows.labels, fresh())),
                    propagator: propagates.then(labels::Propagator::default),
                });
            }
        }
        Self {
            owner,
            custodian,
            propagator,
            labels,
            desk: Desk::new(Arc::new(setup)),
            rng,
            started: Time::default(),
            heard: Time::default(),
            jobs: 0,
            moved: false,
            over: false,
        }
    }

    /// The view, and the slot that it is for.
    #[must_use]
    pub fn sum(&self) -> SumId {
        self.desk.setup.sum
    }

    /// The roles.
    #[must_use]
    pub fn roles(&self) -> &super::roles::Roles {
        &self.desk.setup.roles
    }

    /// Whether its roles are news: not where those who know the graph go on with it.
    #[must_use]
    pub fn begins_anew(&self) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.known.knowers != self.roles().propagators)
    }

    /// Every other peer of the exchange: it needs a connection to each.
    pub fn neighbours(&self) -> impl Iterator<Item = Peer> {
        let setup = &self.desk.setup;
        setup.roles.ring.iter().copied().chain(setup.roles.propagators).filter(|&peer| peer != setup.me)
    }

    /// A propagator's graph.
    #[cfg(test)]
    pub(super) fn graph(&self) -> Option<&crate::model::propagation::graph::Graph> {
        self.labels.as_ref()?.propagator.as_ref()?.graph()
    }

    fn start(&mut self, now: Time, step: &mut Step<Self>) {
        (self.started, self.heard) = (now, now);
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: Timer(self.sum()) });
        if let Some(labels) = &mut self.labels {
            if let Some(owner) = &mut labels.owner {
                owner.start(&mut self.desk, step);
            }
            if labels.propagator.is_some() {
                labels::Propagator::start(&mut self.desk, &labels.known, step);
            }
        }
        if let Some(owner) = &mut self.owner {
            owner.start(&self.desk, step);
        }
        if self.custodian.is_some() {
            let rng = &mut self.rng;
            let mut fresh = || {
                let mut bytes = [0; 32];
                rng.fill_bytes(&mut bytes);
                bytes
            };
            Custodian::start(&mut self.desk, &mut fresh, step);
        }
    }

    fn message(&mut self, from: Peer, body: Body, step: &mut Step<Self>) -> Result<(), Fault> {
        const NOT_MINE: Fault = Fault::OutOfOrder("message for another role");
        let desk = &mut self.desk;
        match body {
            Body::Commit(commit) => self.owner.as_mut().ok_or(NOT_MINE)?.commit(desk, from, commit),
            Body::Reveal(part) => self.owner.as_mut().ok_or(NOT_MINE)?.reveal(desk, from, part),
            Body::Keys(keys) => self.propagator.as_mut().ok_or(NOT_MINE)?.keys(desk, from, keys),
            Body::Mask(seed) => {
                let propagator = self.labels.as_mut().and_then(|labels| labels.propagator.as_mut());
                propagator.ok_or(NOT_MINE)?.mask(desk, from, seed)
            }
            Body::Graph(digest) => self.propagator.as_mut().ok_or(NOT_MINE)?.theirs(desk, from, digest),
            Body::Credit => desk.parcels.credit(from, step),
            Body::Working => Ok(()),
            Body::Part { what, length, data } => {
                let expected = match (hamming::other(from, what), &self.owner, &self.labels) {
                    (Some(other), Some(owner), _) => owner.expected(desk, other, from, what),
                    (Some(_), None, _) => None,
                    (None, _, None) => expected(&desk.setup, from, what),
                    (None, _, Some(labels)) => expected_later(&desk.setup, &labels.known, from, what),
                };
                let Some(data) = desk.parcels.part(from, (what, length, data), expected, step)? else {
                    return Ok(());
                };
                if let Some(Labels { known, owner, propagator }) = &mut self.labels {
                    return match what {
                        ParcelKind::Scores => owner.as_mut().ok_or(NOT_MINE)?.parcel(from, what, &data),
                        _ => {
                            propagator.as_mut().ok_or(NOT_MINE)?.parcel(desk, known, (from, what, data), step)
                        }
                    };
                }
                match what {
                    ParcelKind::Share(..) | ParcelKind::Limits => {
                        self.custodian.as_mut().ok_or(NOT_MINE)?.parcel(desk, from, what, data)
                    }
                    ParcelKind::Short(_) => {
                        self.propagator.as_mut().ok_or(NOT_MINE)?.parcel(from, what, data)
                    }
                    _ => self.owner.as_mut().ok_or(NOT_MINE)?.parcel(desk, from, what, data),
                }
            }
        }
    }

    fn made(&mut self, made: Made, step: &mut Step<Self>) {
        match made {
            Made::Codes(codes, distances) => {
                if let Some(owner) = &mut self.owner {
                    owner.made(codes, distances);
                }
            }
            Made::Pair(other, Ok(got), parcels) => {
                self.send(parcels, step);
                if let Some(owner) = &mut self.owner {
                    owner.got(other, got);
                }
            }
            Made::Pair(other, Err(fault), _) => {
                step.blame(other, fault);
                self.fail(Reason::Fault, Some(other), step);
            }
            Made::Block(block, distances) => {
                if let Some(Err(reason)) =
                    self.custodian.as_mut().map(|custodian| custodian.made(block, distances))
                {
                    self.fail(reason, None, step);
                }
            }
            Made::Edges(Ok((edges, digest))) => {
                if let Some(propagator) = &mut self.propagator {
                    propagator.made(&self.desk, edges, digest, step);
                }
            }
            Made::Graph(Ok(graph)) => {
                if let Some(propagator) = self.spreads() {
                    propagator.made(graph);
                }
            }
            Made::Edges(Err((peer, text))) | Made::Graph(Err((peer, text))) => {
                step.blame(peer, Fault::Inconsistent(text));
                self.fail(Reason::Fault, Some(peer), step);
            }
            Made::Parcels(parcels) => self.send(parcels, step),
            Made::Scores(parcels) => {
                self.send(parcels, step);
                if let Some(propagator) = self.spreads() {
                    propagator.finished = true;
                }
            }
        }
    }

    fn spreads(&mut self) -> Option<&mut labels::Propagator> {
        self.labels.as_mut()?.propagator.as_mut()
    }

    fn send(&mut self, parcels: Vec<super::desk::Parcel>, step: &mut Step<Self>) {
        parcels.into_iter().for_each(|parcel| self.desk.parcel(parcel, step));
    }

    fn advance(&mut self, step: &mut Step<Self>) {
        if self.over {
            return;
        }
        let desk = &mut self.desk;
        if let Some(owner) = &mut self.owner {
            owner.advance(desk, step);
        }
        if let Some(custodian) = &mut self.custodian {
            custodian.advance(desk, step);
        }
        if let Some(Err(reason)) = self.propagator.as_mut().map(|propagator| propagator.advance(desk, step)) {
            return self.fail(reason, None, step);
        }
        if let Some(propagator) = self.labels.as_mut().and_then(|labels| labels.propagator.as_mut()) {
            propagator.advance(desk, step);
        }
        let idle = self.jobs == 0 && !step.0.iter().any(|action| matches!(action, Action::Compute(_)));
        match if self.labels.is_some() { self.scores() } else { self.graph_made().map(Ok) } {
            Some(Err(_)) => self.fail(Reason::Disagreement, None, step),
            Some(Ok(outcome)) if idle => {
                self.over = true;
                step.output(Output::Finished(outcome));
            }
            _ => {}
        }
    }

    /// The result of the first stage, once this peer has done its part in it.
    fn graph_made(&self) -> Option<Outcome> {
        let kept = self.custodian.as_ref().is_none_or(|custodian| custodian.finished(&self.desk));
        let given = self.owner.is_none() || Owner::finished(&self.desk);
        let mut outcome = Outcome::default();
        if let Some(propagator) = &self.propagator {
            let (edges, digest) = propagator.finished()?;
            outcome.edges = edges.to_bytes();
            if self.desk.setup.roles.propagators[0] == self.desk.setup.me {
                outcome.digest = *digest;
            }
        }
        if let Some(owner) = &self.owner {
            outcome.planes = owner.planes(&self.desk.setup);
        }
        (kept && given).then_some(outcome)
    }

    /// The result of the second stage.
    fn scores(&self) -> Option<Result<Outcome, String>> {
        let Labels { known, owner, propagator } = self.labels.as_ref()?;
        let spread = propagator.as_ref().is_none_or(|propagator| propagator.finished);
        let outcome = owner
            .as_ref()
            .map_or(Some(Ok(Outcome::default())), |owner| owner.outcome(&self.desk.setup, known));
        outcome.filter(|_| spread)
    }

    fn fail(&mut self, reason: Reason, peer: Option<Peer>, step: &mut Step<Self>) {
        if !std::mem::replace(&mut self.over, true) {
            step.output(Output::Failed(reason, peer));
        }
    }

    /// Who waits at an earlier step speaks first: it waits for the one that does not answer, and others wait
    /// for it.
    fn tick(&mut self, now: Time, step: &mut Step<Self>) {
        let labels = self.labels.as_ref();
        let waits = [
            labels.and_then(|labels| labels.owner.as_ref()?.waits(&self.desk)),
            labels.and_then(|labels| labels.propagator.as_ref()?.waits(&self.desk)),
            self.owner.as_ref().and_then(|owner| owner.waits(&self.desk)),
            self.custodian.as_ref().and_then(|custodian| custodian.waits(&self.desk)),
            self.propagator.as_ref().and_then(|propagator| propagator.waits(&self.desk)),
        ];
        if let Some((stage, peer)) = waits.into_iter().flatten().min() {
            let patience = self.desk.setup.patience_ms + u64::from(stage) * 2 * HEARTBEAT_MS;
            let silent = self.jobs == 0 && now >= self.heard.plus_ms(patience);
            // Whoever says for ever that it works holds nobody for ever.
            if silent || now >= self.started.plus_ms(self.desk.setup.longest_ms) {
                return self.fail(Reason::Stalled, Some(peer), step);
            }
        }
        // Those who wait for what comes of this, some of whom nobody sends anything for minutes, know that it
        // goes on.
        if std::mem::take(&mut self.moved) || self.jobs > 0 {
            let others: Vec<_> = self.neighbours().collect();
            self.desk.tell(others, &Body::Working, step);
        }
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: Timer(self.sum()) });
    }
}

/// The bytes that a parcel of the first stage from `from` to this peer may have that is none of a backend's;
/// `None` if it has no business here.
fn expected(setup: &Setup, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>> {
    let (roles, me) = (&setup.roles, setup.me);
    let rows = |peer: Peer| roles.rows_of(peer);
    let owner = |peer: Peer| roles.rows.contains_key(&peer);
    let exactly = |bytes: usize| Some(bytes..=bytes);
    match what {
        ParcelKind::Share(one, other)
            if one != other
                && owner(one)
                && owner(other)
                && (from == one || from == other)
                && roles.custodian(one, other) == me =>
        {
            exactly(2 * rows(one) * rows(other))
        }
        ParcelKind::Smallest if owner(me) && roles.custodians_of(me).contains(&from) => {
            exactly(2 * rows(me) * setup.rule.k)
        }
        ParcelKind::Limits if owner(from) && roles.custodians_of(from).contains(&me) => {
            exactly(2 * rows(from))
        }
        ParcelKind::Short(one)
            if owner(one)
                && roles.propagators.contains(&me)
                && (from == one || roles.custodians_of(one).contains(&from)) =>
        {
            Some(0..=SHORT * rows(one) * roles.points())
        }
        _ => None,
    }
}

/// The same for the second stage.
fn expected_later(
    setup: &Setup,
    known: &Known,
    from: Peer,
    what: ParcelKind,
) -> Option<RangeInclusive<usize>> {
    let (roles, me) = (&setup.roles, setup.me);
    let exactly = |bytes: usize| Some(bytes..=bytes);
    let propagates = |peer: Peer| roles.propagators.contains(&peer);
    match what {
        ParcelKind::Labels if roles.gives_labels(from) && roles.propagators[0] == me => {
            exactly(16 * roles.rows_of(from) * setup.classes)
        }
        ParcelKind::Scores if roles.gives_labels(me) && propagates(from) => {
            exactly(16 * (roles.rows_of(me) + 1) * setup.classes)
        }
        ParcelKind::Edges
            if propagates(me)
                && propagates(from)
                && known.knowers.contains(&from)
                && !known.knowers.contains(&me) =>
        {
            Some(32..=32 + EDGE * setup.rule.k * roles.points())
        }
        _ => None,
    }
}
