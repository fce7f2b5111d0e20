//! Simulated network in which tests run whole nodes, built on the simulator's engine: random delays,
//! crashes at any action, cut links and restarts.
//!
//! The seed determines everything. After each run [`Network::check`] checks the safety properties for
//! all data that was sent and opened.

mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;

use super::numbers::{Numbers, Session, session};
use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::engine::{Carriage, Engine, Notice, World};
use crate::node::{Awaited, Event, Job, Node, Record};
use crate::protocol::Time;
use crate::protocol::all_reduce::{self, Direction};
use crate::protocol::ballot::Ballot;
use crate::protocol::context::{Bug, Context, OpeningRule};
use crate::protocol::message::Message;
use crate::protocol::pairwise::Mask;
use crate::protocol::promise::Begun;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{self, Order, Report, Stage};
use crate::protocol::wire::{self, Frame};
use crate::session::{Peer, Settings, Timing};
use crate::task::Task;

/// Action of a test on the network at a point in time.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The process ends.
    Crash(Peer),
    /// The process starts, if it does not run.
    Restart(Peer),
    /// The process ends, and its disk is erased.
    Wipe(Peer),
    /// The link is cut.
    Cut(Peer, Peer),
    /// The link is healed.
    Heal(Peer, Peer),
    /// Every link is healed, every peer runs, and messages are quick again.
    HealAll,
}

/// Name of a stream: key, label, params.
pub type Name = ([u8; 32], &'static str, [u8; 14]);

/// Rule that stops messages: `(sender, receiver, message)`.
pub type Hold = Box<dyn Fn(Peer, Peer, &Message) -> bool>;

/// Rule that replaces messages: `(sender, receiver, message)`.
pub type Rewrite = Box<dyn FnMut(Peer, Peer, &Message) -> Option<Message>>;

/// Everything around the nodes, and the log of their actions.
pub struct Lab {
    identities: Vec<Identity>,
    session: Arc<Settings>,
    words: Vec<u64>,
    /// Task of each peer. If empty, every peer sums fixed numbers.
    tasks: Vec<Arc<dyn Task>>,
    random: Stream,
    /// Shortest and longest delay of any message, job or notice, in microseconds.
    pub delay_us: (u32, u32),
    /// Peer to kill, and the number of the action at which it dies; this action is not carried out.
    pub kill_after: Option<(Peer, u64)>,
    /// Link (lower, higher) to cut, and the number of messages that it carries before.
    pub cut_after: Option<((Peer, Peer), u64)>,
    /// Peer to kill when it reaches this slot and stage.
    pub kill_at: Option<(Peer, u32, Stage)>,
    /// Faults to inject, each with the number of frames that are sent before it.
    pub after_frames: Vec<(u64, Fault)>,
    /// Stops a matching message and all later ones of its stream, until the connection is
    /// re-established.
    pub hold: Option<Hold>,
    /// Rule that decides when an opening begins.
    pub rule: OpeningRule,
    /// Deviations of nodes that start from now on.
    pub bugs: BTreeMap<Peer, Bug>,
    /// Replaces messages of liars.
    pub rewrite: Option<Rewrite>,
    /// Events that nodes reported.
    pub events: Vec<(Time, Peer, Event)>,
    /// Places of the events with which peers end, and the last view that began. Tests ask for them often.
    ends: Vec<usize>,
    view: Option<Ballot>,
    /// Blames: the accusing peer, the accused peer and the fault.
    pub blames: Vec<(Peer, Peer, String)>,
    /// Peers that do not follow the protocol: honest peers may blame them, and their own blames do not count.
    pub liars: BTreeSet<Peer>,
    /// True if a peer that has lost its disk finds the mark next to its key, as with a real driver.
    pub marked: bool,
    lost: BTreeSet<Peer>,
    /// Peer whose frames are damaged: one bit in about every eighth frame.
    pub garble: Option<Peer>,
    /// Chunks that were sent: from, to, sum, direction, words.
    pub travelled: Vec<(Peer, Peer, SumId, Direction, Bytes)>,
    /// Masks that each peer added to each vector.
    streams_used: BTreeMap<(Peer, SumId), Vec<Mask>>,
    /// Beginnings of views that were sent. A liar may send several for one ballot.
    pub begun: BTreeMap<Ballot, Vec<Begun>>,
    /// Committee members that have sent their shares of the pads of a sum.
    releases: BTreeMap<SumId, BTreeSet<Peer>>,
    /// Vectors that each stream masked.
    masks: BTreeMap<Name, BTreeSet<(Peer, SumId)>>,
    /// Number of actions of each peer.
    pub actions: BTreeMap<Peer, u64>,
    /// Number of frames that were sent.
    pub frames: u64,
}

/// Whole nodes with everything around them.
pub struct Network(Engine<Lab>);

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lab {{ events: {}, frames: {} }}", self.events.len(), self.frames)
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for Network {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.0.world
    }
}

impl DerefMut for Network {
    fn deref_mut(&mut self) -> &mut Lab {
        &mut self.0.world
    }
}

impl Lab {
    /// Returns a random number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        self.random.below(n)
    }

    fn task(&self, peer: Peer) -> Arc<dyn Task> {
        let numbers = || Arc::new(Numbers { me: peer, words: self.words.clone() }) as Arc<dyn Task>;
        self.tasks.get(peer.index()).cloned().unwrap_or_else(numbers)
    }

    /// Returns the peer's context, with its signing identity.
    pub fn context(&self, peer: Peer) -> Context {
        let identity = self.identities[peer.index()].clone();
        let mut ctx = Context::new(self.session.clone(), peer, identity, self.task(peer).plan());
        ctx.rule = self.rule;
        ctx
    }

    fn later(&mut self, now: Time) -> Time {
        let (low, high) = self.delay_us;
        Time(now.0 + u64::from(low + self.random.below(high - low)))
    }
}

impl World for Lab {
    type Event = Fault;

    fn node(&mut self, peer: Peer, mut stored: Vec<Record>) -> Node {
        stored.extend(self.lost.contains(&peer).then_some(Record::Silent));
        let task = self.task(peer);
        let mut ctx = self.context(peer);
        ctx.bug = self.bugs.get(&peer).copied();
        let mut seed = [0; 32];
        self.random.fill(&mut seed);
        Node::new(Arc::new(ctx), task, seed, stored).unwrap()
    }

    fn learns(&mut self, now: Time, _: Peer, _: Peer, _: Notice) -> Time {
        self.later(now)
    }

    fn arrives(&mut self, at: Time, _: Peer, _: Peer, _: &Frame) -> Time {
        self.later(at)
    }

    fn finishes(&mut self, now: Time, _: Peer, _: &Job) -> Time {
        self.later(now)
    }

    fn acts(&mut self, peer: Peer) -> bool {
        let count = self.actions.entry(peer).or_default();
        *count += 1;
        self.kill_after != Some((peer, *count))
    }

    fn sends(&mut self, _: Time, from: Peer, to: Peer, message: &Message, frame: &mut Frame) -> Carriage {
        let mut other = None;
        if self.liars.contains(&from) {
            other = self.rewrite.as_mut().and_then(|rewrite| rewrite(from, to, message));
        }
        if let Some(other) = &other {
            *frame = wire::encode(other);
        }
        if let Message::Begin(begun) = other.as_ref().unwrap_or(message) {
            let of = self.begun.entry(begun.item.ballot).or_default();
            if !of.contains(&begun.item) {
                of.push(begun.item.clone());
            }
        }
        if let Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) = message
        {
            for item in items {
                self.releases.entry(item.item.sum).or_default().insert(item.author);
            }
        }
        if let Message::View(view::Message::Reduce(all_reduce::Message::Chunk {
            sum, direction, data, ..
        })) = message
        {
            self.travelled.push((from, to, *sum, *direction, data.clone()));
        }
        if self.garble == Some(from) && self.below(8) == 0 {
            let mut bytes = frame.header.to_vec();
            let at = self.below(u32::try_from(bytes.len()).unwrap()) as usize;
            bytes[at] ^= 1 << self.below(8);
            frame.header = bytes.into();
        }
        self.frames += 1;
        let hold = self.hold.as_ref().is_some_and(|hold| hold(from, to, message));
        if hold { Carriage::Hold } else { Carriage::Carry }
    }

    fn sent(engine: &mut Engine<Self>, _: Time, from: Peer, to: Peer, _: &Frame) {
        let now = engine.now();
        let lab = &mut engine.world;
        let due: Vec<_> = lab.after_frames.extract_if(.., |(count, _)| *count <= lab.frames).collect();
        let pair = (from.min(to), from.max(to));
        let mut cut = false;
        if let Some((which, left)) = &mut lab.cut_after
            && *which == pair
        {
            *left -= 1;
            cut = *left == 0;
        }
        for (_, fault) in due {
            // The fault comes directly after the current step, never in the middle of it.
            engine.at(now, fault);
        }
        if cut {
            engine.world.cut_after = None;
            Self::happens(engine, Fault::Cut(pair.0, pair.1));
        }
    }

    fn malformed(engine: &mut Engine<Self>, _: Peer, from: Peer, _: &crate::protocol::Fault) {
        assert!(engine.world.liars.contains(&from), "a frame of an honest peer does not decode");
    }

    fn says(engine: &mut Engine<Self>, peer: Peer, event: Event) -> bool {
        let now = engine.now();
        let lab = &mut engine.world;
        let killed = matches!(event, Event::Stage(slot, stage) if lab.kill_at == Some((peer, slot, stage)));
        match event {
            Event::Finished(..) | Event::Ended(..) => lab.ends.push(lab.events.len()),
            Event::ViewBegan(ballot, _) => lab.view = Some(ballot),
            _ => {}
        }
        lab.events.push((now, peer, event));
        if killed {
            lab.kill_at = None;
        }
        !killed
    }

    fn blames(engine: &mut Engine<Self>, by: Peer, who: Peer, fault: &crate::protocol::Fault) {
        engine.world.blames.push((by, who, fault.to_string()));
    }

    fn begins(&mut self, peer: Peer, job: &Job) {
        if let Job::Mask(job) = job {
            for Mask { key, label, params, .. } in &job.masks.masks {
                self.masks.entry((***key, label, *params)).or_default().insert((peer, job.sum));
            }
            self.streams_used.insert((peer, job.sum), job.masks.masks.clone());
        }
    }

    fn happens(engine: &mut Engine<Self>, fault: Fault) {
        match fault {
            Fault::Crash(peer) => engine.crash(peer),
            Fault::Wipe(peer) => {
                engine.crash(peer);
                if engine.world.marked && !engine.disk(peer).is_empty() {
                    engine.world.lost.insert(peer);
                }
                engine.wipe(peer);
            }
            Fault::Restart(peer) => engine.restart(peer),
            Fault::Cut(a, b) => engine.cut(a, b, Notice::Silent),
            Fault::Heal(a, b) => engine.heal(a, b),
            Fault::HealAll => {
                let lab = &mut engine.world;
                lab.hold = None;
                lab.rewrite = None;
                lab.after_frames.clear();
                (lab.kill_after, lab.cut_after, lab.kill_at) = (None, None, None);
                lab.delay_us = (100, 20_000);
                engine.uncut();
                for a in engine.peers() {
                    engine.restart(a);
                    for b in engine.peers().filter(|&b| b < a) {
                        engine.connect(a, b);
                    }
                }
            }
        }
    }
}

impl Network {
    /// Makes peers that sum vectors with these numbers of words, one vector per slot.
    pub fn new(peers: u8, words: &[u64], timing: Timing, seed: u64) -> Self {
        Self::with_rule(peers, words, timing, seed, OpeningRule::Decided)
    }

    /// Makes the network of [`Self::new`] with this rule for openings.
    pub fn with_rule(peers: u8, words: &[u64], timing: Timing, seed: u64, rule: OpeningRule) -> Self {
        let mut identities: Vec<_> = (0..peers).map(|i| Identity::from_seed([i + 1; 32])).collect();
        identities.sort_by_key(Identity::public);
        let session = session(&identities, timing).settings();
        Self::of(identities, session, words, Vec::new(), seed, rule)
    }

    /// Makes the network of [`Self::new`] with an altered session file, which may break the rules of a
    /// session.
    pub fn altered(
        peers: u8,
        words: &[u64],
        timing: Timing,
        seed: u64,
        alter: impl FnOnce(&mut Session),
    ) -> Self {
        let mut identities: Vec<_> = (0..peers).map(|i| Identity::from_seed([i + 1; 32])).collect();
        identities.sort_by_key(Identity::public);
        let mut session = session(&identities, timing);
        alter(&mut session);
        Self::of(identities, session.settings(), words, Vec::new(), seed, OpeningRule::Decided)
    }

    /// Makes peers with one task each.
    pub fn with_tasks(
        identities: Vec<Identity>,
        session: Settings,
        tasks: Vec<Arc<dyn Task>>,
        seed: u64,
    ) -> Self {
        Self::of(identities, session, &[], tasks, seed, OpeningRule::Decided)
    }

    fn of(
        identities: Vec<Identity>,
        session: Settings,
        words: &[u64],
        tasks: Vec<Arc<dyn Task>>,
        seed: u64,
        rule: OpeningRule,
    ) -> Self {
        crate::protocol::memo::begin();
        let peers = u16::try_from(identities.len()).unwrap();
        let lab = Lab {
            session: Arc::new(session),
            identities,
            words: words.to_vec(),
            tasks,
            random: Stream::new(&seed.to_le_bytes(), "network", &[]),
            delay_us: (100, 20_000),
            kill_after: None,
            cut_after: None,
            kill_at: None,
            after_frames: Vec::new(),
            hold: None,
            rule,
            bugs: BTreeMap::new(),
            rewrite: None,
            events: Vec::new(),
            ends: Vec::new(),
            view: None,
            blames: Vec::new(),
            liars: BTreeSet::new(),
            marked: false,
            lost: BTreeSet::new(),
            garble: None,
            travelled: Vec::new(),
            streams_used: BTreeMap::new(),
            begun: BTreeMap::new(),
            releases: BTreeMap::new(),
            masks: BTreeMap::new(),
            actions: BTreeMap::new(),
            frames: 0,
        };
        let mut out = Self(Engine::new(lab, peers, false));
        for peer in out.peers() {
            out.0.restart(peer);
        }
        out
    }

    /// Returns all peers.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + use<> {
        self.0.peers()
    }

    /// Returns the stored records of a peer, by name.
    pub fn disk(&self, peer: Peer) -> &BTreeMap<String, Record> {
        self.0.disk(peer)
    }

    /// Returns the committee, in its order.
    pub fn committee(&self) -> Vec<Peer> {
        self.session.committee.clone()
    }

    /// Returns what a running node waits for: the kind, the peers and the end of the wait.
    pub fn waits(&self, peer: Peer) -> Option<(Awaited, Vec<Peer>, Option<Time>)> {
        let waits = self.0.node(peer)?.waits(self.0.now())?;
        Some((waits.what, waits.peers, waits.until))
    }

    /// Returns the virtual time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.0.now().0 / 1000
    }

    /// Plans a fault.
    pub fn at_ms(&mut self, ms: u64, fault: Fault) {
        self.0.at(Time(ms * 1000), fault);
    }

    /// Runs until no event is left or `ms` have passed, and then checks the safety properties.
    pub fn run(&mut self, ms: u64) {
        self.run_unchecked(ms, |_| false);
        self.check();
    }

    /// Runs until `stop` returns true, or to time `ms`.
    pub fn run_unchecked(&mut self, ms: u64, stop: impl Fn(&Self) -> bool) {
        let mut steps = 0u64;
        while self.0.next().is_some_and(|at| at.0 <= ms * 1000) && !stop(self) {
            self.0.step();
            steps += 1;
            assert!(
                steps < 2_000_000,
                "endless at {:?}; events {:?}",
                self.0.now(),
                &self.events[self.events.len().saturating_sub(30)..]
            );
        }
    }

    /// Checks the safety properties, which hold at any time and after any faults.
    pub fn check(&self) {
        let honest = |peer: &Peer| !self.liars.contains(peer);
        let wrong: Vec<_> = self.blames.iter().filter(|(by, who, _)| honest(by) && honest(who)).collect();
        assert!(wrong.is_empty(), "an honest peer was blamed: {wrong:?}");
        let openable = self.openable();
        assert!(
            openable.values().all(|sums| sums.len() == 1),
            "one aggregate can be opened twice: {openable:?}"
        );
        let mut values: BTreeMap<u32, Value> = BTreeMap::new();
        for (_, peer, event) in &self.events {
            if let Event::Opened(value) = event {
                let first = values.entry(value.sum.slot).or_insert_with(|| value.clone());
                assert_eq!(first, value, "peer {peer} opened another value");
            }
        }
        for (_, peer, event) in &self.events {
            if let Event::Finished(history) = event {
                let opened = history.vectors();
                for (slot, value) in (0u32..).zip(history.values()).skip(1) {
                    assert!(value.members.len() >= 3);
                    if !self.tasks.is_empty() {
                        continue;
                    }
                    let words = self.words[slot as usize - 1];
                    let mut expected = vec![0u32; usize::try_from(words).unwrap()];
                    for &member in &value.members {
                        for (sum, x) in expected.iter_mut().zip(Numbers::vector(member, slot, words)) {
                            *sum = sum.wrapping_add(x);
                        }
                    }
                    let expected: Vec<u8> = expected.into_iter().flat_map(u32::to_le_bytes).collect();
                    assert!(
                        opened[slot as usize] == expected,
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
            assert!(
                vectors.iter().map(|(_, sum)| sum).collect::<BTreeSet<_>>().len() == 1,
                "{label} on {vectors:?}"
            );
        }
    }
}
