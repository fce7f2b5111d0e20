//! An in-memory network for whole nodes: virtual time, encoded bytes, delays, crashes at any action, cuts, restarts.
//!
//! Everything follows from the seed. After each run [`Network::check`] holds the safety properties against what was sent
//! and opened, whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::numbers::{Numbers, session};
use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::node::{Done, Ending, Event, Job, Node, Record, Task, Timer};
use crate::protocol::all_reduce::{self, Direction, SumId};
use crate::protocol::ballot::Ballot;
use crate::protocol::context::{Context, OpeningRule};
use crate::protocol::message::{Channel, Message};
use crate::protocol::pairwise::Mask;
use crate::protocol::record::Value;
use crate::protocol::view::{self, Order, Report, Stage};
use crate::protocol::wire::{self, Frame};
use crate::protocol::{Action, Input, Machine, Step, Time};
use crate::session::{Peer, Session, Timing};

#[derive(Debug)]
enum Happening {
    Frame { from: Peer, to: Peer, epoch: u64, frame: Frame },
    Timer { peer: Peer, life: u32, timer: Timer },
    Done { peer: Peer, life: u32, done: Done },
    Up { peer: Peer, other: Peer, epoch: u64 },
    Lost { peer: Peer, other: Peer },
    Fault(Fault),
}

/// What a test does to the network at a point in time.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Crash(Peer),
    Restart(Peer),
    Cut(Peer, Peer),
    Heal(Peer, Peer),
    /// Every link is healed, everybody runs, and messages are quick again.
    HealAll,
}

/// A stream: key, label, params.
pub(super) type Name = ([u8; 32], &'static str, [u8; 11]);

/// What a message is stopped by: `(sender, receiver, message)`.
pub(super) type Hold = Box<dyn Fn(Peer, Peer, &Message) -> bool>;

struct Host {
    identity: Identity,
    node: Option<Node>,
    life: u32,
    disk: BTreeMap<String, Record>,
    /// Connected peers, as far as this one has been told, and the epochs of the connections.
    seen: BTreeMap<Peer, u64>,
}

pub(super) struct Network {
    hosts: Vec<Host>,
    session: Session,
    words: Vec<u64>,
    now: Time,
    queue: BTreeMap<(Time, u64), Happening>,
    sequence: u64,
    /// Pairs (lower first) with a connection, and its epoch.
    links: BTreeMap<(Peer, Peer), u64>,
    cut: BTreeSet<(Peer, Peer)>,
    /// (peer, other) -> when the peer hears that its last connection to the other is gone.
    lost: BTreeMap<(Peer, Peer), Time>,
    /// Last delivery time on each stream, so that it stays in order.
    streams: BTreeMap<(Peer, Peer, Channel), Time>,
    random: Stream,
    pub(super) delay_us: (u32, u32),
    /// Kill this peer when it has carried out so many actions.
    pub(super) kill_after: Option<(Peer, u64)>,
    /// Cut the link (lower, higher) once it has carried so many messages.
    pub(super) cut_after: Option<((Peer, Peer), u64)>,
    /// Kill this peer when it reaches the stage.
    pub(super) kill_at: Option<(Peer, u8, Stage)>,
    /// Faults that come once so many frames have been sent.
    pub(super) after_frames: Vec<(u64, Fault)>,
    /// A message that matches is stopped, and all after it on its stream, until the connection is made anew.
    pub(super) hold: Option<Hold>,
    held: BTreeSet<(Peer, Peer, Channel)>,
    pub(super) rule: OpeningRule,
    pub(super) events: Vec<(Time, Peer, Event)>,
    /// Who blames whom for what.
    pub(super) blames: Vec<(Peer, Peer, String)>,
    /// Peers that do not follow the protocol: they may be blamed, and what they blame counts for nothing.
    pub(super) liars: BTreeSet<Peer>,
    /// One byte in every eighth frame of this peer is changed.
    pub(super) garble: Option<Peer>,
    /// Every chunk that was sent: from, to, sum, direction, words.
    pub(super) travelled: Vec<(Peer, Peer, SumId, Direction, Bytes)>,
    /// What each peer masked each vector with.
    streams_used: BTreeMap<(Peer, SumId), Vec<Mask>>,
    /// sum -> council members whose shares of its pads have left.
    releases: BTreeMap<SumId, BTreeSet<Peer>>,
    /// (key, label, params) -> vectors masked with it.
    masks: BTreeMap<Name, BTreeSet<(Peer, SumId)>>,
    pub(super) actions: BTreeMap<Peer, u64>,
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

impl Network {
    pub(super) fn new(peers: u8, words: &[u64], timing: Timing, seed: u64) -> Self {
        Self::with_rule(peers, words, timing, seed, OpeningRule::Decided)
    }

    pub(super) fn with_rule(peers: u8, words: &[u64], timing: Timing, seed: u64, rule: OpeningRule) -> Self {
        let mut identities: Vec<_> = (0..peers).map(|i| Identity::from_seed([i + 1; 32])).collect();
        identities.sort_by_key(Identity::public);
        let session = session(&identities, timing);
        let hosts = identities
            .into_iter()
            .map(|identity| Host { identity, node: None, life: 0, disk: BTreeMap::new(), seen: BTreeMap::new() })
            .collect();
        let mut out = Self {
            hosts,
            session,
            words: words.to_vec(),
            now: Time(0),
            queue: BTreeMap::new(),
            sequence: 0,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            lost: BTreeMap::new(),
            streams: BTreeMap::new(),
            random: Stream::new(&seed.to_le_bytes(), "network", &[]),
            delay_us: (100, 20_000),
            kill_after: None,
            cut_after: None,
            kill_at: None,
            after_frames: Vec::new(),
            hold: None,
            held: BTreeSet::new(),
            rule,
            events: Vec::new(),
            blames: Vec::new(),
            liars: BTreeSet::new(),
            garble: None,
            travelled: Vec::new(),
            streams_used: BTreeMap::new(),
            releases: BTreeMap::new(),
            masks: BTreeMap::new(),
            actions: BTreeMap::new(),
            frames: 0,
            bytes: 0,
        };
        for i in 0..u16::from(peers) {
            out.restart(Peer(i));
        }
        out
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..u16::try_from(self.hosts.len()).unwrap()).map(Peer)
    }

    pub(super) fn below(&mut self, n: u32) -> u32 {
        self.random.below(n)
    }

    pub(super) fn council(&self) -> Vec<Peer> {
        self.session.council()
    }

    fn push(&mut self, at: Time, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now.0 / 1000
    }

    pub(super) fn at_ms(&mut self, ms: u64, fault: Fault) {
        self.push(Time(ms * 1000), Happening::Fault(fault));
    }

    fn delay(&mut self) -> u64 {
        let (low, high) = self.delay_us;
        u64::from(low + self.random.below(high - low))
    }

    fn restart(&mut self, peer: Peer) {
        let host = &mut self.hosts[peer.index()];
        if host.node.is_some() {
            return;
        }
        host.life += 1;
        host.seen.clear();
        let task = Arc::new(Numbers { me: peer, words: self.words.clone() });
        let mut ctx = Context::new(self.session.clone(), peer, host.identity.clone(), task.plan());
        ctx.rule = self.rule;
        let ctx = Arc::new(ctx);
        let mut seed = [0; 32];
        self.random.fill(&mut seed);
        let stored = host.disk.values().cloned().collect();
        host.node = Some(Node::new(ctx, task, seed, stored).unwrap());
        self.input(peer, Input::Start);
        for other in self.peers().filter(|&other| other != peer) {
            self.connect(peer, other);
        }
    }

    fn pair(a: Peer, b: Peer) -> (Peer, Peer) {
        (a.min(b), a.max(b))
    }

    fn connect(&mut self, a: Peer, b: Peer) {
        let pair = Self::pair(a, b);
        let alive = |peer: Peer| self.hosts[peer.index()].node.is_some();
        if !alive(a) || !alive(b) || self.cut.contains(&pair) || self.links.contains_key(&pair) {
            return;
        }
        self.sequence += 1;
        let epoch = self.sequence;
        self.links.insert(pair, epoch);
        for (peer, other) in [(a, b), (b, a)] {
            // The loss of the old connection is told before the new one.
            let lost = self.lost.get(&(peer, other)).map_or(0, |at| at.0 + 1);
            let at = Time((self.now.0 + self.delay()).max(lost));
            for channel in [Channel::Control, Channel::Bulk] {
                self.streams.insert((other, peer, channel), at);
            }
            self.held.retain(|&(from, to, _)| Self::pair(from, to) != pair);
            self.push(at, Happening::Up { peer, other, epoch });
        }
    }

    fn disconnect(&mut self, a: Peer, b: Peer) {
        if self.links.remove(&Self::pair(a, b)).is_some() {
            for (peer, other) in [(a, b), (b, a)] {
                let at = Time(self.now.0 + self.delay());
                self.lost.insert((peer, other), at);
                self.push(at, Happening::Lost { peer, other });
            }
        }
    }

    fn crash(&mut self, peer: Peer) {
        self.hosts[peer.index()].node = None;
        for other in self.peers() {
            self.disconnect(peer, other);
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(peer) => self.crash(peer),
            Fault::Restart(peer) => self.restart(peer),
            Fault::Cut(a, b) => {
                self.cut.insert(Self::pair(a, b));
                self.disconnect(a, b);
            }
            Fault::Heal(a, b) => {
                self.cut.remove(&Self::pair(a, b));
                self.connect(a, b);
            }
            Fault::HealAll => {
                self.cut.clear();
                self.hold = None;
                self.after_frames.clear();
                (self.kill_after, self.cut_after, self.kill_at) = (None, None, None);
                self.delay_us = (100, 20_000);
                for a in self.peers() {
                    self.restart(a);
                    for b in self.peers().filter(|&b| b < a) {
                        self.connect(a, b);
                    }
                }
            }
        }
    }

    fn input(&mut self, peer: Peer, input: Input<Node>) {
        let now = self.now;
        if let Some(node) = &mut self.hosts[peer.index()].node {
            let step = node.handle(now, input);
            self.carry_out(peer, step);
        }
    }

    fn carry_out(&mut self, peer: Peer, step: Step<Node>) {
        let life = self.hosts[peer.index()].life;
        for action in step.0 {
            let count = self.actions.entry(peer).or_default();
            *count += 1;
            if self.kill_after == Some((peer, *count)) {
                self.crash(peer);
                return;
            }
            match action {
                Action::Send { to, message } => self.send(peer, to, &message),
                Action::SetTimer { at, timer } => {
                    assert!(at > self.now, "a timer in the past would spin");
                    self.push(at, Happening::Timer { peer, life, timer });
                }
                Action::Compute(job) => {
                    self.record_masks(peer, &job);
                    let at = Time(self.now.0 + self.delay());
                    self.push(at, Happening::Done { peer, life, done: job.run() });
                }
                Action::Persist(record) => {
                    self.hosts[peer.index()].disk.insert(record.name(), record);
                }
                Action::Output(event) => {
                    let stopped = matches!(event, Event::Done | Event::Ended(_));
                    let killed =
                        matches!(event, Event::Stage(slot, stage) if self.kill_at == Some((peer, slot, stage)));
                    self.events.push((self.now, peer, event));
                    if killed {
                        self.kill_at = None;
                    }
                    if stopped || killed {
                        self.crash(peer);
                        return;
                    }
                }
                Action::Blame { peer: blamed, fault } => {
                    self.blames.push((peer, blamed, fault.to_string()));
                }
            }
        }
    }

    fn send(&mut self, from: Peer, to: Peer, message: &Message) {
        assert_ne!(from, to);
        if let Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) = message
        {
            for item in items {
                self.releases.entry(item.item.sum).or_default().insert(item.author);
            }
        }
        if let Message::View(view::Message::Reduce(all_reduce::Message::Chunk { sum, direction, data, .. })) = message {
            self.travelled.push((from, to, *sum, *direction, data.clone()));
        }
        let mut frame = wire::encode(message);
        if self.garble == Some(from) && self.below(8) == 0 {
            let mut bytes = frame.header.to_vec();
            let at = self.below(u32::try_from(bytes.len()).unwrap()) as usize;
            bytes[at] ^= 1 << self.below(8);
            frame.header = bytes.into();
        }
        self.frames += 1;
        self.bytes += (frame.header.len() + frame.payload.len()) as u64;
        assert!(frame.header.len() + frame.payload.len() <= wire::MAX_FRAME);
        let pair = Self::pair(from, to);
        // Into a connection that is gone: the sender may not know it yet.
        let told = self.hosts[from.index()].seen.get(&to);
        let Some(&epoch) = self.links.get(&pair).filter(|epoch| told == Some(epoch)) else { return };
        let stream = (from, to, frame.channel);
        if self.hold.as_ref().is_some_and(|hold| hold(from, to, message)) {
            self.held.insert(stream);
        }
        if self.held.contains(&stream) {
            return;
        }
        let last = self.streams.get(&stream).copied().unwrap_or_default();
        let at = Time((self.now.0 + self.delay()).max(last.0 + 1));
        self.streams.insert(stream, at);
        self.push(at, Happening::Frame { from, to, epoch, frame });
        let (now, later) = self.after_frames.drain(..).partition(|&(count, _)| count <= self.frames);
        self.after_frames = later;
        let due: Vec<(u64, Fault)> = now;
        for (_, fault) in due {
            // Not in the middle of a step: at once after it.
            self.push(self.now, Happening::Fault(fault));
        }
        if let Some((which, left)) = &mut self.cut_after
            && *which == pair
        {
            *left -= 1;
            if *left == 0 {
                self.cut_after = None;
                self.fault(Fault::Cut(pair.0, pair.1));
            }
        }
    }

    fn record_masks(&mut self, peer: Peer, job: &Job) {
        if let Job::Mask(job) = job {
            for Mask { key, label, params, .. } in &job.masks.masks {
                self.masks.entry((**key, label, *params)).or_default().insert((peer, job.sum));
            }
            self.streams_used.insert((peer, job.sum), job.masks.masks.clone());
        }
    }

    fn step(&mut self) -> bool {
        let Some(((at, _), happening)) = self.queue.pop_first() else { return false };
        self.now = at;
        match happening {
            Happening::Frame { from, to, epoch, frame } => {
                if self.links.get(&Self::pair(from, to)) == Some(&epoch) {
                    match wire::decode(frame.channel, &frame.header, frame.payload) {
                        Ok(message) => self.input(to, Input::Message { from, message }),
                        Err(_) => assert!(self.liars.contains(&from), "a frame of an honest peer does not decode"),
                    }
                }
            }
            Happening::Timer { peer, life, timer } => {
                if self.hosts[peer.index()].life == life {
                    self.input(peer, Input::Timer(timer));
                }
            }
            Happening::Done { peer, life, done } => {
                if self.hosts[peer.index()].life == life {
                    self.input(peer, Input::Done(done));
                }
            }
            Happening::Up { peer, other, epoch } => {
                if self.links.get(&Self::pair(peer, other)) == Some(&epoch) {
                    self.hosts[peer.index()].seen.insert(other, epoch);
                    self.input(peer, Input::PeerUp(other));
                }
            }
            Happening::Lost { peer, other } => {
                if self.hosts[peer.index()].seen.remove(&other).is_some() {
                    self.input(peer, Input::PeerLost(other));
                }
            }
            Happening::Fault(fault) => self.fault(fault),
        }
        true
    }

    /// Runs until nothing happens any more or `ms` have passed; then checks.
    pub(super) fn run(&mut self, ms: u64) {
        self.run_unchecked(ms, |_| false);
        self.check();
    }

    /// Runs until `stop`, at the latest `ms`.
    pub(super) fn run_unchecked(&mut self, ms: u64, stop: impl Fn(&Self) -> bool) {
        let mut steps = 0u64;
        while self.queue.first_key_value().is_some_and(|((at, _), _)| at.0 <= ms * 1000) && !stop(self) {
            self.step();
            steps += 1;
            assert!(
                steps < 2_000_000,
                "endless at {:?}; events {:?}",
                self.now,
                &self.events[self.events.len().saturating_sub(30)..]
            );
        }
    }

    /// Safety: holds at any time, after any faults.
    pub(super) fn check(&self) {
        let honest = |peer: &Peer| !self.liars.contains(peer);
        let wrong: Vec<_> = self.blames.iter().filter(|(by, who, _)| honest(by) && honest(who)).collect();
        assert!(wrong.is_empty(), "an honest peer was blamed: {wrong:?}");
        let openable = self.openable();
        assert!(openable.values().all(|sums| sums.len() == 1), "two openings of one quantity: {openable:?}");
        let mut values: BTreeMap<u8, Value> = BTreeMap::new();
        for (_, peer, event) in &self.events {
            if let Event::Opened(value) = event {
                let first = values.entry(value.sum.slot).or_insert_with(|| value.clone());
                assert_eq!(first, value, "peer {peer} opened another value");
            }
        }
        for (_, peer, event) in &self.events {
            if let Event::Finished(opened, finished) = event {
                for (slot, value) in (0u8..).zip(finished).skip(1) {
                    assert!(value.members.len() >= 3);
                    let words = self.words[usize::from(slot) - 1];
                    let mut expected = vec![0u32; usize::try_from(words).unwrap()];
                    for &member in &value.members {
                        for (sum, x) in expected.iter_mut().zip(Numbers::vector(member, slot, words)) {
                            *sum = sum.wrapping_add(x);
                        }
                    }
                    let expected: Vec<u8> = expected.into_iter().flat_map(u32::to_le_bytes).collect();
                    assert!(
                        opened[usize::from(slot)] == expected,
                        "peer {peer}: slot {slot} is not the sum of {:?}",
                        value.members
                    );
                }
                assert!(opened[0] == self.seed().unwrap(), "two seeds");
            }
        }
        for ((_, label, _), vectors) in &self.masks {
            let most = if *label == "mask" { 2 } else { 1 };
            assert!(vectors.len() <= most, "a {label} stream was used on {vectors:?}");
            assert!(vectors.iter().map(|(_, sum)| sum).collect::<BTreeSet<_>>().len() == 1, "{label} on {vectors:?}");
        }
    }

    /// For each slot the sums of whose pads a majority has released shares.
    pub(super) fn openable(&self) -> BTreeMap<u8, Vec<SumId>> {
        let majority = self.session.majority();
        let mut out: BTreeMap<u8, Vec<SumId>> = BTreeMap::new();
        for (sum, authors) in &self.releases {
            if authors.len() >= majority {
                out.entry(sum.slot).or_default().push(*sum);
            }
        }
        out
    }

    /// A message out of the blue, as its encoding gives it.
    pub(super) fn say(&mut self, from: Peer, to: Peer, message: Message) {
        let frame = wire::encode(&message);
        let alive = |peer: Peer| self.hosts[peer.index()].node.is_some();
        if !alive(from) || !alive(to) || !self.links.contains_key(&Self::pair(from, to)) {
            return;
        }
        if let Ok(message) = wire::decode(frame.channel, &frame.header, frame.payload) {
            self.input(to, Input::Message { from, message });
        }
    }

    /// The last view that began.
    pub(super) fn current(&self) -> Option<Ballot> {
        self.events.iter().rev().find_map(|(_, _, event)| match event {
            Event::ViewBegan(ballot, _) => Some(*ballot),
            _ => None,
        })
    }

    pub(super) fn members_of(&self, ballot: Ballot) -> Vec<Peer> {
        let began = self.events.iter().find_map(|(_, _, event)| match event {
            Event::ViewBegan(other, members) if *other == ballot => Some(members.clone()),
            _ => None,
        });
        began.unwrap()
    }

    pub(super) fn streams_of(&self, peer: Peer, sum: SumId) -> &[Mask] {
        self.streams_used.get(&(peer, sum)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn sums_of(&self, peer: Peer) -> BTreeSet<SumId> {
        self.streams_used.keys().filter(|(other, _)| *other == peer).map(|(_, sum)| *sum).collect()
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The sums of `slot` that somebody has on disk as acknowledged.
    pub(super) fn acknowledged(&self, slot: u8) -> Vec<SumId> {
        let disks = self.hosts.iter().filter_map(|host| host.disk.get("accepted"));
        let sums = disks.filter_map(|record| match record {
            Record::Accepted(_, record, _) => Some(record.value.sum),
            _ => None,
        });
        sums.filter(|sum| sum.slot == slot).collect()
    }

    fn seed(&self) -> Option<Bytes> {
        self.events.iter().find_map(|(_, _, event)| match event {
            Event::Finished(opened, _) => Some(opened[0].clone()),
            _ => None,
        })
    }

    pub(super) fn finished_count(&self) -> usize {
        let finished = self.events.iter().filter(|(_, _, event)| matches!(event, Event::Finished(..)));
        finished.map(|(_, peer, _)| *peer).collect::<BTreeSet<_>>().len()
    }

    /// Peers that have finished, and with which members in each slot.
    pub(super) fn finished(&self) -> BTreeMap<Peer, Vec<Value>> {
        self.events
            .iter()
            .filter_map(|(_, peer, event)| match event {
                Event::Finished(_, values) => Some((*peer, values.clone())),
                _ => None,
            })
            .collect()
    }

    pub(super) fn endings(&self) -> BTreeMap<Peer, Ending> {
        self.events
            .iter()
            .filter_map(|(_, peer, event)| match event {
                Event::Ended(ending) => Some((*peer, ending.clone())),
                _ => None,
            })
            .collect()
    }

    pub(super) fn when_finished(&self) -> Option<Time> {
        self.events.iter().filter(|(_, _, event)| matches!(event, Event::Finished(..))).map(|(at, ..)| *at).max()
    }
}
