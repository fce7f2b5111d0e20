//! The world around the nodes of a scenario: paths, processors, faults and tampering. It also records the
//! actions of the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::checks::{Check, Checks};
use super::cost::Costs;
use super::links::{Paths, micros};
use super::participants::{Participants, randomness};
use super::rows::DealtRows;
use super::scenario::{Connections, Fault, Kind, Scenario, Tamper};
use super::tally::Tally;
use super::tamper::{self, Poisoned};
use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::node::{Done, Ending, Event, Job, Node, Record};
use crate::protocol::Time;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::message::Message;
use crate::protocol::record::Value;
use crate::protocol::tree::Tree;
use crate::protocol::wire::Frame;
use crate::session::{Peer, Session};
use crate::tasks::{History, Outcome, Task};
use flyswarm_sealed_sum::engine::{Carriage, Engine, Notice, World};

/// Events that the swarm schedules for itself.
#[derive(Debug)]
pub enum Doing {
    /// Apply a fault of the timeline, by its number.
    Apply(usize),
    /// Undo that fault.
    Undo(usize),
    /// Close the connections of a paused peer.
    Silent(Peer),
}

/// A fault, or its end, for the report.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Virtual time.
    pub at: Time,
    /// Peers that it concerns.
    pub peers: Vec<Peer>,
    /// Description of the fault.
    pub text: String,
}

/// The end of a peer.
#[derive(Clone, Debug)]
pub struct End {
    /// Time at which its process ended.
    pub at: Time,
    /// Reason why it has no result, or `None` if it has one.
    pub reason: Option<Ending>,
}

/// A peer that has the result.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Time at which the peer had the result.
    pub at: Time,
    /// Everything that the session has opened, and this peer's own results.
    pub history: Arc<History>,
}

impl Finished {
    /// Returns the opened vectors of the plan.
    #[must_use]
    pub fn opened(&self) -> &[Bytes] {
        self.history.vectors()
    }

    /// Returns the value of each slot: the view in which it was summed, and the members.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        self.history.values()
    }
}

/// Receives an event of a node with its time and peer.
type Watch = dyn FnMut(Time, Peer, &Event) + Send;

/// Receiver of the events of all nodes.
pub(crate) struct Watcher(pub(crate) Box<Watch>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}

/// The world around the nodes of a run.
#[derive(Debug)]
pub struct Swarm {
    /// The session.
    pub session: Arc<Session>,
    /// Constants of the node of peer 0. Those of the other peers differ only in the identity.
    pub ctx: Arc<Context>,
    /// Receiver of the events.
    pub(crate) watcher: Option<Watcher>,
    /// Constants for peers with another session file.
    other: Arc<Context>,
    identities: Vec<Identity>,
    tasks: Vec<Arc<dyn Task>>,
    connections: Connections,
    silence: u64,
    seed: u64,
    /// Number of starts of each peer.
    starts: Vec<u32>,
    pub(super) noise: Stream,
    paths: Paths,
    /// Processors of the peers.
    pub costs: Costs,
    /// Checks of the run.
    pub checks: Checks,
    /// Counts of frames and stages.
    pub tally: Tally,
    trace: blake3::Hasher,
    /// Number of frames sent, and their bytes.
    pub sent: (u64, u64),
    /// Timeline of faults.
    faults: Vec<Fault>,
    /// Faults that wait until a peer reaches a stage, by number.
    waiting: BTreeSet<usize>,
    pub(super) tampering: BTreeMap<Peer, (Tamper, u64, u64)>,
    banned: BTreeSet<(Peer, Peer)>,
    /// Peers whose process a fault has ended, and that have not started again.
    pub down: BTreeSet<Peer>,
    /// Time of the last fault, or of its end.
    pub last_fault: Time,
    /// Connections from outside the roster that were refused.
    pub refused: u64,
    /// Faults and their ends, for the report.
    pub marks: Vec<Mark>,
    /// Peers that have ended.
    pub ends: BTreeMap<Peer, End>,
    /// Peers that have the result.
    pub finished: BTreeMap<Peer, Finished>,
    /// Rows that the scenario dealt, if any.
    pub rows: Option<DealtRows>,
    /// Views that began: their members, and the time at which the first of them entered.
    pub views: BTreeMap<Ballot, (Arc<Tree>, Time)>,
    /// Views that failed, and the reason of the first member that left.
    pub failed: BTreeMap<Ballot, String>,
}

fn pair(a: Peer, b: Peer) -> (Peer, Peer) {
    (a.min(b), a.max(b))
}

impl Swarm {
    /// Makes the world of a scenario with these participants and faults.
    #[must_use]
    pub fn new(scenario: &Scenario, cast: Participants, faults: Vec<Fault>) -> Self {
        let seed = scenario.seed.to_le_bytes();
        let ctx = Arc::new(cast.context(Peer(0)));
        let other = Session { name: "another session".into(), ..cast.session.clone() };
        let other =
            Arc::new(Context::new(other.settings(), Peer(0), cast.identities[0].clone(), cast.plan()));
        let mut checks = Checks::default();
        let mut tasks = cast.tasks;
        for fault in &faults {
            let peers =
                fault.peers.as_ref().map_or(Vec::new(), |peers| peers.of(&ctx.committee, scenario.peers));
            if fault.kind == Kind::OtherSession {
                checks.strangers.extend(&peers);
            }
            if fault.how == Some(Tamper::Poison) {
                for peer in peers {
                    tasks[peer.index()] = Arc::new(Poisoned(tasks[peer.index()].clone()));
                }
            }
        }
        Self {
            paths: Paths::new(scenario, &ctx.committee, scenario.seed),
            costs: Costs::new(scenario, &ctx),
            checks,
            tally: Tally::new(scenario.peers),
            connections: scenario.network.connections,
            silence: micros(scenario.network.silence_ms),
            seed: scenario.seed,
            starts: vec![0; usize::from(scenario.peers)],
            noise: Stream::new(&seed, "simulation/tamper", &[]),
            trace: blake3::Hasher::new(),
            sent: (0, 0),
            waiting: BTreeSet::new(),
            faults,
            tampering: BTreeMap::new(),
            banned: BTreeSet::new(),
            down: BTreeSet::new(),
            last_fault: Time(0),
            refused: 0,
            marks: Vec::new(),
            ends: BTreeMap::new(),
            watcher: None,
            finished: BTreeMap::new(),
            rows: cast.rows,
            session: Arc::new(cast.session),
            views: BTreeMap::new(),
            failed: BTreeMap::new(),
            ctx,
            other,
            identities: cast.identities,
            tasks,
        }
    }

    /// Starts every peer, and puts the timeline into the queue.
    pub(crate) fn start(engine: &mut Engine<Self>) {
        for i in 0..engine.world.faults.len() {
            match engine.world.faults[i].at_s {
                Some(seconds) => engine.at(Time(micros(seconds * 1000.0)), Doing::Apply(i)),
                None => drop(engine.world.waiting.insert(i)),
            }
        }
        for peer in engine.peers() {
            engine.restart(peer);
        }
    }

    /// Returns BLAKE3 over every frame in the order of sending: LE u64 time of arrival, LE u16 sender,
    /// LE u16 receiver, LE u32 length of header, LE u32 length of payload, header, payload.
    #[must_use]
    pub fn trace_hash(&self) -> String {
        self.trace.finalize().to_hex().to_string()
    }

    /// Returns every peer's task.
    pub(super) fn tasks(&self) -> &[Arc<dyn Task>] {
        &self.tasks
    }

    /// Returns the result of a finished peer, or the reason why it has none. Returns `None` if the peer is
    /// not finished.
    #[must_use]
    pub fn outcome(&self, peer: Peer) -> Option<Result<Outcome, String>> {
        let finished = self.finished.get(&peer)?;
        Some(self.tasks[peer.index()].outcome(&finished.history, 0))
    }

    /// Returns the time after which a silent connection is closed, in milliseconds.
    #[must_use]
    pub fn silence_ms(&self) -> u64 {
        self.silence / 1000
    }

    /// Returns the peers that have broken the protocol, with their kind of tampering.
    #[must_use]
    pub fn tampered(&self) -> Vec<(Peer, Tamper)> {
        self.tampering
            .iter()
            .filter(|(_, (.., done))| *done > 0)
            .map(|(&peer, &(how, ..))| (peer, how))
            .collect()
    }

    /// Returns the context of a peer that runs with the session of all peers.
    fn context(&self, peer: Peer) -> Arc<Context> {
        let base = if self.checks.strangers.contains(&peer) { &self.other } else { &self.ctx };
        Arc::new(base.of(peer, self.identities[peer.index()].clone()))
    }

    fn targets(&self, fault: &Fault, scenario_peers: u16, sites: &dyn Fn(&str) -> Vec<Peer>) -> Vec<Peer> {
        let mut out =
            fault.peers.as_ref().map_or(Vec::new(), |peers| peers.of(&self.ctx.committee, scenario_peers));
        out.extend(fault.site.as_deref().map_or(Vec::new(), sites));
        out.sort_unstable();
        out.dedup();
        out
    }

    fn whom(&self, fault: &Fault) -> Vec<Peer> {
        self.targets(fault, self.ctx.peers(), &|name| self.paths.site(name))
    }

    fn mark(&mut self, at: Time, peers: &[Peer], text: String) {
        self.last_fault = self.last_fault.max(at);
        self.marks.push(Mark { at, peers: peers.to_vec(), text });
    }

    fn ban(engine: &mut Engine<Self>, by: Peer, who: Peer) {
        engine.world.banned.insert(pair(by, who));
        engine.close(by, who, Notice::Closed);
    }

    /// Makes the missing connections of `peer`.
    fn reconnect(engine: &mut Engine<Self>, peer: Peer) {
        for other in engine.peers().filter(|&other| other != peer) {
            if engine.world.connects(peer, other) {
                engine.connect(peer, other);
            }
        }
    }

    fn blamed(engine: &mut Engine<Self>, by: Peer, who: Peer, fault: &crate::protocol::Fault) {
        let name = super::scenario::fault_name(fault);
        let now = engine.now();
        engine.world.checks.blames(now, by, who, name);
        Self::ban(engine, by, who);
    }

    fn apply(engine: &mut Engine<Self>, i: usize) {
        let now = engine.now();
        let fault = engine.world.faults[i].clone();
        let peers = engine.world.whom(&fault);
        let (text, after) =
            (describe(&fault), fault.for_s.map(|seconds| Time(now.0 + micros(seconds * 1000.0))));
        engine.world.mark(now, &peers, text);
        if let Some(after) = after {
            engine.world.last_fault = after;
            engine.at(after, Doing::Undo(i));
        }
        for &peer in &peers {
            match fault.kind {
                Kind::Crash => {
                    if engine.alive(peer) {
                        engine.world.tally.ends(now, peer);
                        engine.world.down.insert(peer);
                        engine.crash(peer);
                    }
                }
                Kind::Restart => Self::start_again(engine, peer),
                Kind::Pause => {
                    engine.pause(peer);
                    let silent = Time(now.0 + engine.world.silence);
                    if after.is_some_and(|after| after > silent) {
                        engine.at(silent, Doing::Silent(peer));
                    }
                }
                Kind::Partition => {
                    for other in engine.peers().filter(|other| !peers.contains(other)) {
                        engine.cut(peer, other, Notice::Silent);
                    }
                }
                Kind::SlowLink => engine.world.paths.slow(peer, fault.latency_ms, fault.bandwidth_mbit),
                Kind::Tamper => {
                    let how = fault.how.unwrap_or(Tamper::FlipBits);
                    engine.world.checks.liars.insert(peer, how);
                    engine.world.tampering.insert(peer, (how, fault.every.unwrap_or(how.usual()), 0));
                }
                Kind::Stranger => engine.world.stranger(now, peer),
                Kind::OtherSession | Kind::Heal => {}
            }
        }
        if fault.kind == Kind::Heal {
            Self::heal(engine);
        }
    }

    fn start_again(engine: &mut Engine<Self>, peer: Peer) {
        engine.world.down.remove(&peer);
        if !engine.alive(peer) {
            engine.world.ends.remove(&peer);
            engine.restart(peer);
        }
    }

    fn heal(engine: &mut Engine<Self>) {
        engine.uncut();
        for peer in engine.peers() {
            Self::reconnect(engine, peer);
        }
    }

    fn undo(engine: &mut Engine<Self>, i: usize) {
        let now = engine.now();
        let fault = engine.world.faults[i].clone();
        let peers = engine.world.whom(&fault);
        engine.world.mark(now, &peers, format!("{} is over", describe(&fault)));
        for &peer in &peers {
            match fault.kind {
                Kind::Crash => Self::start_again(engine, peer),
                Kind::Pause => {
                    engine.resume(peer);
                    Self::reconnect(engine, peer);
                }
                Kind::Partition => {
                    for other in engine.peers().filter(|other| !peers.contains(other)) {
                        engine.heal(peer, other);
                    }
                }
                Kind::SlowLink => engine.world.paths.quick(peer),
                Kind::Tamper => drop(engine.world.tampering.remove(&peer)),
                Kind::Restart | Kind::Heal | Kind::Stranger | Kind::OtherSession => {}
            }
        }
    }

    /// Simulates a connection of a peer with an unknown key: before any message, the listener looks the key
    /// up in the roster (spec, section 6).
    fn stranger(&mut self, now: Time, to: Peer) {
        let mut seed = [0; 32];
        self.noise.fill(&mut seed);
        match self.ctx.session.peer(&Identity::from_seed(seed).public()) {
            None => self.refused += 1,
            Some(_) => self.checks.violated(now, Check::Honest, format!("{to} lets a stranger in")),
        }
    }

    fn reaches(&mut self, peer: Peer, slot: u32, stage: crate::protocol::view::Stage) -> Vec<usize> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let name = &self.ctx.plan[slot as usize].name;
        let due = self.waiting.iter().copied().filter(|&i| {
            let fault = &self.faults[i];
            fault.at.as_ref().is_some_and(|moment| {
                let who = moment.peer.map(Peer).or_else(|| self.whom(fault).first().copied());
                who == Some(peer) && moment.stage == stage && moment.slot == *name
            })
        });
        let due: Vec<_> = due.collect();
        self.waiting.retain(|i| !due.contains(i));
        due
    }
}

/// Describes a fault for the report.
fn describe(fault: &Fault) -> String {
    match (fault.kind, fault.how) {
        (Kind::Tamper, Some(how)) => format!("tamper: {}", how.name()),
        (kind, _) => kind.name().to_owned(),
    }
}

impl World for Swarm {
    type Event = Doing;

    fn node(&mut self, peer: Peer, stored: Vec<Record>) -> Node {
        let start = &mut self.starts[peer.index()];
        let seed = randomness(self.seed, peer, *start);
        *start += 1;
        Node::new(self.context(peer), self.tasks[peer.index()].clone(), seed, stored)
            .unwrap_or_else(|error| unreachable!("BUG: what a node stored restores: {error}"))
    }

    fn connects(&self, a: Peer, b: Peer) -> bool {
        let wanted = match self.connections {
            Connections::Mesh => true,
            Connections::Committee => self.ctx.committee.contains(&a) || self.ctx.committee.contains(&b),
        };
        wanted && !self.banned.contains(&pair(a, b))
    }

    fn learns(&mut self, now: Time, peer: Peer, other: Peer, notice: Notice) -> Time {
        match notice {
            // Setting up TCP, Noise and Yamux takes three round trips.
            Notice::Up => self.paths.passes(now, peer, other, 6),
            Notice::Closed => self.paths.passes(now, peer, other, 1),
            Notice::Silent => Time(self.paths.passes(now, peer, other, 1).0 + self.silence),
        }
    }

    fn arrives(&mut self, at: Time, from: Peer, to: Peer, frame: &Frame) -> Time {
        self.paths.arrives(at, from, to, frame.header.len() + frame.payload.len())
    }

    fn finishes(&mut self, now: Time, peer: Peer, job: &Job) -> Time {
        self.costs.finishes(now, peer, job)
    }

    fn handling_us(&mut self, peer: Peer, message: &Message) -> u64 {
        self.costs.handling_us(&self.ctx, peer, message)
    }

    fn sends(&mut self, now: Time, from: Peer, to: Peer, message: &Message, frame: &mut Frame) -> Carriage {
        self.checks.sends(now, &self.ctx, message);
        let carriage = if self.tampering.contains_key(&from) {
            let identity = self.identities[from.index()].clone();
            tamper::apply(self, &identity, from, message, frame)
        } else {
            Carriage::Carry
        };
        let bytes = frame.header.len() + frame.payload.len();
        self.tally.sent(from, message, bytes);
        self.tally.received(to, bytes);
        carriage
    }

    fn sent(engine: &mut Engine<Self>, at: Time, from: Peer, to: Peer, frame: &Frame) {
        let length = |bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        let swarm = &mut engine.world;
        swarm.sent.0 += 1;
        swarm.sent.1 += (frame.header.len() + frame.payload.len()) as u64;
        let trace = &mut swarm.trace;
        trace.update(&at.0.to_le_bytes());
        trace.update(&from.0.to_le_bytes());
        trace.update(&to.0.to_le_bytes());
        trace.update(&length(&frame.header));
        trace.update(&length(&frame.payload));
        trace.update(&frame.header);
        trace.update(&frame.payload);
    }

    fn malformed(engine: &mut Engine<Self>, to: Peer, from: Peer, fault: &crate::protocol::Fault) {
        Self::blamed(engine, to, from, fault);
    }

    fn blames(engine: &mut Engine<Self>, by: Peer, who: Peer, fault: &crate::protocol::Fault) {
        Self::blamed(engine, by, who, fault);
    }

    fn says(engine: &mut Engine<Self>, peer: Peer, event: Event) -> bool {
        let now = engine.now();
        let swarm = &mut engine.world;
        if let Some(watcher) = &mut swarm.watcher {
            (watcher.0)(now, peer, &event);
        }
        match event {
            Event::ViewBegan(ballot, tree) => {
                if swarm.connections == Connections::Committee {
                    let children = tree.place(peer).map_or(Vec::new(), |place| place.children);
                    swarm.views.entry(ballot).or_insert((tree, now));
                    for child in children {
                        if !engine.world.banned.contains(&pair(peer, child)) {
                            engine.connect(peer, child);
                        }
                    }
                } else {
                    swarm.views.entry(ballot).or_insert((tree, now));
                }
            }
            Event::ViewFailed(ballot, _, reason, suspect) => {
                let suspect = suspect.map_or(String::new(), |suspect| format!(" ({suspect})"));
                swarm.failed.entry(ballot).or_insert_with(|| format!("{reason:?}{suspect}").to_lowercase());
                swarm.tally.enters(now, peer, 0, None);
            }
            Event::Stage(slot, stage) => {
                swarm.tally.enters(now, peer, slot, Some(stage));
                for i in swarm.reaches(peer, slot, stage) {
                    let fault = &engine.world.faults[i];
                    if fault.kind == Kind::Crash && engine.world.whom(fault) == [peer] {
                        // The crash happens in the middle of the step, so no message after this stage is
                        // sent.
                        Self::apply(engine, i);
                        return false;
                    }
                    engine.at(now, Doing::Apply(i));
                }
            }
            Event::Exchange(_) | Event::Named(..) | Event::Figures(..) => {}
            Event::Opened(value) => swarm.checks.commits(now, peer, &value),
            Event::Finished(history) => {
                swarm.tally.enters(now, peer, 0, None);
                swarm.finished.insert(peer, Finished { at: now, history });
            }
            Event::Done => {
                swarm.tally.ends(now, peer);
                swarm.ends.insert(peer, End { at: now, reason: None });
            }
            Event::Ended(ending) => {
                swarm.tally.ends(now, peer);
                swarm.ends.insert(peer, End { at: now, reason: Some(ending) });
            }
            Event::NeedsConnection(_)
            | Event::Joined(_)
            | Event::Lost(_)
            | Event::Refused(..)
            | Event::StateLost(_) => {}
        }
        true
    }

    fn done(&mut self, peer: Peer, done: Done, now: Time) -> Done {
        if !self.checks.strangers.contains(&peer) {
            let ctx = self.ctx.clone();
            self.checks.done(now, &ctx, peer, &done);
        }
        done
    }

    fn happens(engine: &mut Engine<Self>, event: Doing) {
        match event {
            Doing::Apply(i) => Self::apply(engine, i),
            Doing::Undo(i) => Self::undo(engine, i),
            Doing::Silent(peer) => {
                for other in engine.peers().filter(|&other| other != peer) {
                    engine.close(peer, other, Notice::Silent);
                }
            }
        }
    }
}
