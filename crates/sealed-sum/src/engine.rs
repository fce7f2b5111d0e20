//! Virtual time for whole nodes: encoded frames, connections that come and go, hosts that crash and return.
//!
//! The engine decides nothing by itself. The [`World`] around the nodes sets the durations, changes
//! frames, chooses when faults happen, and keeps the records. Nothing here reads a clock or draws a
//! random number, so a run is a function of its world.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc;

use bytes::Bytes;

use crate::node::{Done, Event, Job, Node, Record, Timer};
use crate::protocol::message::{Channel, Message};
use crate::protocol::wire::{self, Frame};
use crate::protocol::{Action, Fault, Input, Machine, Step, Time};
use crate::session::Peer;

/// Headers of at least LONG bytes are stored once; the last RECENT of them are remembered.
const LONG: usize = 8 * 1024;
const RECENT: usize = 4;

/// Reason for a change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The connection is established.
    Up,
    /// The other side closed the connection, or its process died and the operating system reports that.
    Closed,
    /// No more data arrives, and nothing reports it.
    Silent,
}

/// Treatment of a frame that a node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// Deliver the frame.
    Carry,
    /// Deliver the frame and then a copy of it.
    Twice,
    /// Hold the frame and all later frames of its stream until the connection is re-established.
    Hold,
}

/// Surroundings of the nodes: times, faults, records. Methods that take the engine may cut, crash and
/// restart hosts at once.
pub trait World: Sized {
    /// Events that the world puts into the queue for itself.
    type Event;

    /// Makes the node of `peer` with its stored records. Called at each start.
    fn node(&mut self, peer: Peer, stored: Vec<Record>) -> Node;

    /// Returns whether the two peers keep a connection while both run and nothing cuts it.
    fn connects(&self, _a: Peer, _b: Peer) -> bool {
        true
    }

    /// Returns the time when `peer` learns of a change of its connection to `other` that happens `now`.
    fn learns(&mut self, now: Time, peer: Peer, other: Peer, notice: Notice) -> Time;

    /// Returns the arrival time of a frame that leaves at `at`.
    fn arrives(&mut self, at: Time, from: Peer, to: Peer, frame: &Frame) -> Time;

    /// Returns the time when a job that begins `now` is done.
    fn finishes(&mut self, now: Time, peer: Peer, job: &Job) -> Time;

    /// Returns how many microseconds the node's own thread is busy with a message.
    fn handling_us(&mut self, _peer: Peer, _message: &Message) -> u64 {
        0
    }

    /// Called before each action of a node. If it returns `false`, the host crashes instead of acting.
    fn acts(&mut self, _peer: Peer) -> bool {
        true
    }

    /// Called when a node sends a message. The world may change the frame.
    fn sends(&mut self, now: Time, from: Peer, to: Peer, message: &Message, frame: &mut Frame) -> Carriage;

    /// Called when a frame has left; it will arrive at `at`.
    fn sent(_engine: &mut Engine<Self>, _at: Time, _from: Peer, _to: Peer, _frame: &Frame) {}

    /// Called when a frame does not decode because of `fault`.
    fn malformed(engine: &mut Engine<Self>, to: Peer, from: Peer, fault: &Fault);

    /// Called when a node reports an event. If it returns `false`, the host crashes at this point.
    fn says(engine: &mut Engine<Self>, peer: Peer, event: Event) -> bool;

    /// Called when a node blames another peer.
    fn blames(engine: &mut Engine<Self>, by: Peer, who: Peer, fault: &Fault);

    /// Called when a job begins.
    fn begins(&mut self, _peer: Peer, _job: &Job) {}

    /// Called when a job is done.
    fn done(&mut self, _peer: Peer, done: Done, _now: Time) -> Done {
        done
    }

    /// Called when one of the world's own events is due.
    fn happens(engine: &mut Engine<Self>, event: Self::Event);
}

enum Happening<E> {
    Frame { from: Peer, to: Peer, epoch: u64, frame: Frame },
    Timer { peer: Peer, life: u32, timer: Timer },
    Done { peer: Peer, life: u32, done: Pending },
    Up { peer: Peer, other: Peer, epoch: u64 },
    Lost { peer: Peer, other: Peer },
    World(E),
}

/// Result of a job. It depends only on the job, so the time when the job is carried out does not matter.
enum Pending {
    Here(Box<Done>),
    Away(mpsc::Receiver<Done>),
}

struct Host {
    node: Option<Node>,
    life: u32,
    disk: BTreeMap<String, Record>,
    /// Connected peers, as far as this host knows, with the epochs of the connections.
    seen: BTreeMap<Peer, u64>,
    /// Time until which the host's thread is busy.
    free: Time,
    /// Queue numbers of the events that came while the host was paused.
    paused: Option<Vec<u64>>,
}

/// Connection between two peers, the lower one first.
struct Link {
    epoch: u64,
    /// Time of the last delivery on each stream, which keeps each stream in order. Indexed by [to the
    /// higher peer, to the lower peer][control, bulk].
    last: [[Time; 2]; 2],
    held: [[bool; 2]; 2],
}

/// Nodes in virtual time.
pub struct Engine<W: World> {
    /// Surroundings of the nodes.
    pub world: W,
    hosts: Vec<Host>,
    now: Time,
    queue: BTreeMap<(Time, u64), Happening<W::Event>>,
    /// Events that wait for paused hosts, by queue number.
    parked: BTreeMap<u64, Happening<W::Event>>,
    sequence: u64,
    links: BTreeMap<(Peer, Peer), Link>,
    cut: BTreeSet<(Peer, Peer)>,
    /// (from, to) -> connection that `from` closed after it had finished. Frames that it had sent before
    /// still arrive.
    drained: BTreeMap<(Peer, Peer), u64>,
    /// (peer, other) -> time when the peer learns that its last connection to the other is gone.
    lost: BTreeMap<(Peer, Peer), Time>,
    /// Number of running hosts, and number of the world's own events that are still to come.
    running: usize,
    planned: usize,
    /// Long headers that were sent recently. A header that many peers forward is stored once.
    recent: VecDeque<Bytes>,
    /// Last long header that was decoded, with its message, because many peers receive the same header.
    decoded: Option<(Bytes, Message)>,
    /// True if jobs run on other threads.
    parallel: bool,
}

impl<W: World> std::fmt::Debug for Engine<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hosts, queue) = (self.hosts.len(), self.queue.len());
        write!(f, "Engine {{ hosts: {hosts}, now: {:?}, queue: {queue} }}", self.now)
    }
}

fn pair(a: Peer, b: Peer) -> (Peer, Peer) {
    (a.min(b), a.max(b))
}

fn side(from: Peer, to: Peer) -> usize {
    usize::from(from > to)
}

fn number(channel: Channel) -> usize {
    match channel {
        Channel::Control => 0,
        Channel::Bulk => 1,
    }
}

impl<W: World> Engine<W> {
    /// Makes an engine with `peers` hosts, all of them stopped. With `parallel`, jobs run on other
    /// threads, and the run is the same.
    pub fn new(world: W, peers: u16, parallel: bool) -> Self {
        let host = || Host {
            node: None,
            life: 0,
            disk: BTreeMap::new(),
            seen: BTreeMap::new(),
            free: Time(0),
            paused: None,
        };
        Self {
            world,
            hosts: (0..peers).map(|_| host()).collect(),
            now: Time(0),
            queue: BTreeMap::new(),
            parked: BTreeMap::new(),
            sequence: 0,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            drained: BTreeMap::new(),
            lost: BTreeMap::new(),
            running: 0,
            planned: 0,
            recent: VecDeque::new(),
            decoded: None,
            parallel,
        }
    }

    /// Returns the node of a host, if the host runs.
    #[cfg(any(test, feature = "harness"))]
    pub fn node(&self, peer: Peer) -> Option<&Node> {
        self.hosts.get(peer.index())?.node.as_ref()
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns all hosts.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Peer> + use<W> {
        (0..u16::try_from(self.hosts.len()).unwrap_or(u16::MAX)).map(Peer)
    }

    /// Returns whether the host runs.
    pub fn alive(&self, peer: Peer) -> bool {
        self.hosts[peer.index()].node.is_some()
    }

    /// Returns whether the two hosts are connected.
    #[cfg(any(test, feature = "harness"))]
    pub fn connected(&self, a: Peer, b: Peer) -> bool {
        self.links.contains_key(&pair(a, b))
    }

    /// Returns the records on the disk of a host, by name.
    #[cfg(any(test, feature = "harness"))]
    pub fn disk(&self, peer: Peer) -> &BTreeMap<String, Record> {
        &self.hosts[peer.index()].disk
    }

    /// Removes all records from the disk of a host that does not run.
    #[cfg(any(test, feature = "harness"))]
    pub fn wipe(&mut self, peer: Peer) {
        self.hosts[peer.index()].disk.clear();
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<Time> {
        self.queue.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Returns whether no host runs and the world has not planned an event that could change that.
    pub fn over(&self) -> bool {
        self.running == 0 && self.planned == 0
    }

    /// Returns whether the world has no more planned events.
    #[must_use]
    pub fn left_alone(&self) -> bool {
        self.planned == 0
    }

    fn push(&mut self, at: Time, happening: Happening<W::Event>) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    /// Adds one of the world's own events to the queue. An event whose time has passed comes next.
    pub fn at(&mut self, at: Time, event: W::Event) {
        self.planned += 1;
        self.push(at.max(self.now), Happening::World(event));
    }

    /// Starts a host that is stopped, and connects it.
    pub fn restart(&mut self, peer: Peer) {
        let host = &mut self.hosts[peer.index()];
        if host.node.is_some() {
            return;
        }
        self.running += 1;
        host.life += 1;
        host.seen.clear();
        host.free = self.now;
        let stored = host.disk.values().cloned().collect();
        host.node = Some(self.world.node(peer, stored));
        self.input(peer, Input::Start);
        for other in self.peers().filter(|&other| other != peer) {
            if self.world.connects(peer, other) {
                self.connect(peer, other);
            }
        }
    }

    /// Connects two running hosts, unless they are cut.
    pub fn connect(&mut self, a: Peer, b: Peer) {
        let pair = pair(a, b);
        if !self.alive(a) || !self.alive(b) || self.cut.contains(&pair) || self.links.contains_key(&pair) {
            return;
        }
        self.sequence += 1;
        let epoch = self.sequence;
        let mut link = Link { epoch, last: [[Time(0); 2]; 2], held: [[false; 2]; 2] };
        for (peer, other) in [(a, b), (b, a)] {
            // A peer learns of the loss of the old connection before it learns of the new one.
            let lost = self.lost.get(&(peer, other)).map_or(0, |at| at.0 + 1);
            let at = self.world.learns(self.now, peer, other, Notice::Up).max(Time(lost));
            link.last[side(other, peer)] = [at; 2];
            self.push(at, Happening::Up { peer, other, epoch });
        }
        self.links.insert(pair, link);
    }

    /// Removes the connection. If `flushed` is set, this peer has closed the connection in good order.
    fn disconnect(&mut self, a: Peer, b: Peer, notice: Notice, flushed: Option<Peer>) {
        if let Some(link) = self.links.remove(&pair(a, b)) {
            for (peer, other) in [(a, b), (b, a)] {
                let mut at = self.world.learns(self.now, peer, other, notice);
                if flushed == Some(other) {
                    self.drained.insert((other, peer), link.epoch);
                    let last = link.last[side(other, peer)];
                    at = at.max(Time(last[0].max(last[1]).0 + 1));
                }
                // The notice of an earlier loss may not have arrived yet.
                let lost = self.lost.entry((peer, other)).or_default();
                *lost = at.max(*lost);
                self.push(at, Happening::Lost { peer, other });
            }
        }
    }

    /// Ends a host's process at once. Frames that it had sent and that have not arrived are lost.
    pub fn crash(&mut self, peer: Peer) {
        self.stop(peer, None);
    }

    fn stop(&mut self, peer: Peer, flushed: Option<Peer>) {
        let host = &mut self.hosts[peer.index()];
        self.running -= usize::from(host.node.take().is_some());
        if let Some(parked) = host.paused.take() {
            parked.iter().for_each(|number| drop(self.parked.remove(number)));
        }
        // Frames on their way to this process do not reach the next process.
        self.drained.retain(|(_, to), _| *to != peer);
        for other in self.peers() {
            self.disconnect(peer, other, Notice::Closed, flushed);
        }
    }

    /// Separates two hosts until they are healed.
    pub fn cut(&mut self, a: Peer, b: Peer, notice: Notice) {
        self.cut.insert(pair(a, b));
        self.drained.retain(|&(from, to), _| pair(from, to) != pair(a, b));
        self.disconnect(a, b, notice, None);
    }

    /// Ends the connection between two hosts. It may be re-established at any time.
    pub fn close(&mut self, a: Peer, b: Peer, notice: Notice) {
        self.disconnect(a, b, notice, None);
    }

    /// Lets two hosts connect again.
    pub fn heal(&mut self, a: Peer, b: Peer) {
        self.cut.remove(&pair(a, b));
        if self.world.connects(a, b) {
            self.connect(a, b);
        }
    }

    /// Ends all cuts. The caller makes the connections.
    pub fn uncut(&mut self) {
        self.cut.clear();
    }

    /// Stops a host from taking inputs until [`Engine::resume`]. Its events wait.
    pub fn pause(&mut self, peer: Peer) {
        let host = &mut self.hosts[peer.index()];
        if host.node.is_some() {
            host.paused.get_or_insert_default();
        }
    }

    /// Ends a pause. The events that came meanwhile happen now, in their order.
    pub fn resume(&mut self, peer: Peer) {
        for number in self.hosts[peer.index()].paused.take().unwrap_or_default() {
            if let Some(happening) = self.parked.remove(&number) {
                self.queue.insert((self.now, number), happening);
            }
        }
    }

    /// Gives a node an input now.
    pub fn input(&mut self, peer: Peer, input: Input<Node>) {
        let now = self.now;
        let busy = match &input {
            Input::Message { message, .. } => self.world.handling_us(peer, message),
            _ => 0,
        };
        let host = &mut self.hosts[peer.index()];
        host.free = Time(host.free.max(now).0 + busy);
        if let Some(node) = &mut host.node {
            let step = node.handle(now, input);
            self.carry_out(peer, step);
        }
    }

    fn carry_out(&mut self, peer: Peer, step: Step<Node>) {
        let life = self.hosts[peer.index()].life;
        for action in step.0 {
            if !self.world.acts(peer) {
                self.crash(peer);
                return;
            }
            match action {
                Action::Send { to, message } => self.send(peer, to, &message),
                Action::SetTimer { at, timer } => {
                    assert!(at > self.now, "BUG: a timer in the past would spin");
                    self.push(at, Happening::Timer { peer, life, timer });
                }
                Action::Compute(job) => {
                    self.world.begins(peer, &job);
                    let at = self.world.finishes(self.hosts[peer.index()].free, peer, &job);
                    let done = self.begin(job);
                    self.push(at, Happening::Done { peer, life, done });
                }
                Action::Persist(record) => {
                    self.hosts[peer.index()].disk.insert(record.name(), record);
                }
                // The simulated disk needs no time.
                Action::WriteEarly(_) => {}
                Action::Output(event) => {
                    let stopped = matches!(event, Event::Done | Event::Ended(_));
                    if !W::says(self, peer, event) {
                        self.crash(peer);
                        return;
                    }
                    if stopped {
                        // A real process also waits until its last frames are read.
                        self.stop(peer, Some(peer));
                        return;
                    }
                }
                Action::Blame { peer: blamed, fault } => W::blames(self, peer, blamed, &fault),
            }
            if self.hosts[peer.index()].life != life || self.hosts[peer.index()].node.is_none() {
                return;
            }
        }
    }

    fn begin(&self, job: Job) -> Pending {
        if !self.parallel {
            return Pending::Here(Box::new(job.run()));
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver is gone if the host crashed.
        rayon::spawn(move || drop(sender.send(job.run())));
        Pending::Away(receiver)
    }

    fn send(&mut self, from: Peer, to: Peer, message: &Message) {
        assert_ne!(from, to, "BUG: a node sends to itself");
        let mut frame = wire::encode(message);
        if frame.header.len() >= LONG {
            frame.header = self.once(frame.header);
        }
        let carriage = self.world.sends(self.now, from, to, message, &mut frame);
        assert!(frame.header.len() + frame.payload.len() <= wire::MAX_FRAME, "BUG: a frame above the limit");
        self.carry(from, to, &frame, carriage == Carriage::Hold);
        if carriage == Carriage::Twice {
            self.carry(from, to, &frame, false);
        }
    }

    fn once(&mut self, header: Bytes) -> Bytes {
        if let Some(known) = self.recent.iter().find(|known| **known == header) {
            return known.clone();
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(header.clone());
        header
    }

    /// Sends a frame over the current connection, unless its stream is held.
    pub fn carry(&mut self, from: Peer, to: Peer, frame: &Frame, hold: bool) {
        // The connection may be gone although the sender does not know this yet.
        let host = &self.hosts[from.index()];
        let (told, leaves) = (host.seen.get(&to), host.free.max(self.now));
        let Some(link) = self.links.get_mut(&pair(from, to)).filter(|link| told == Some(&link.epoch)) else {
            return;
        };
        let (side, channel) = (side(from, to), number(frame.channel));
        link.held[side][channel] |= hold;
        if link.held[side][channel] {
            return;
        }
        let at = self.world.arrives(leaves, from, to, frame).max(Time(link.last[side][channel].0 + 1));
        link.last[side][channel] = at;
        let epoch = link.epoch;
        self.push(at, Happening::Frame { from, to, epoch, frame: frame.clone() });
        W::sent(self, at, from, to, frame);
    }

    fn decode(&mut self, frame: Frame) -> Result<Message, Fault> {
        if frame.header.len() < LONG || !frame.payload.is_empty() {
            return wire::decode(frame.channel, &frame.header, frame.payload);
        }
        if let Some((header, message)) = &self.decoded
            && header.as_ptr() == frame.header.as_ptr()
            && header.len() == frame.header.len()
            && message.channel() == frame.channel
        {
            return Ok(message.clone());
        }
        let message = wire::decode(frame.channel, &frame.header, frame.payload)?;
        self.decoded = Some((frame.header, message.clone()));
        Ok(message)
    }

    /// Processes the next event. Returns `false` if the queue is empty.
    pub fn step(&mut self) -> bool {
        let Some(((at, number), happening)) = self.queue.pop_first() else { return false };
        self.now = at;
        let whose = match &happening {
            Happening::Frame { to, .. } => Some(*to),
            Happening::Timer { peer, .. }
            | Happening::Done { peer, .. }
            | Happening::Up { peer, .. }
            | Happening::Lost { peer, .. } => Some(*peer),
            Happening::World(_) => None,
        };
        if let Some(waiting) = whose.and_then(|peer| self.hosts[peer.index()].paused.as_mut()) {
            waiting.push(number);
            self.parked.insert(number, happening);
            return true;
        }
        match happening {
            Happening::Frame { from, to, epoch, frame } => {
                let stands = self.links.get(&pair(from, to)).is_some_and(|link| link.epoch == epoch);
                if stands || self.drained.get(&(from, to)) == Some(&epoch) {
                    match self.decode(frame) {
                        Ok(message) => self.input(to, Input::Message { from, message }),
                        Err(fault) => W::malformed(self, to, from, &fault),
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
                    let done = match done {
                        Pending::Here(done) => *done,
                        Pending::Away(receiver) => receiver
                            .recv()
                            .unwrap_or_else(|_| unreachable!("BUG: a job ended without a result")),
                    };
                    let done = self.world.done(peer, done, at);
                    self.input(peer, Input::Done(done));
                }
            }
            Happening::Up { peer, other, epoch } => {
                let stands = self.links.get(&pair(peer, other)).is_some_and(|link| link.epoch == epoch);
                // Frames that the other peer sent before it closed the connection are still delivered.
                // For this, this peer must know the connection.
                if stands || self.drained.get(&(other, peer)) == Some(&epoch) {
                    self.hosts[peer.index()].seen.insert(other, epoch);
                    self.input(peer, Input::PeerUp(other));
                }
            }
            Happening::Lost { peer, other } => {
                self.drained.remove(&(other, peer));
                if self.hosts[peer.index()].seen.remove(&other).is_some() {
                    self.input(peer, Input::PeerLost(other));
                }
            }
            Happening::World(event) => {
                self.planned -= 1;
                W::happens(self, event);
            }
        }
        true
    }
}
