//! Runs one [`Node`] over libp2p: its thread, clock, timers, jobs and disk.
//!
//! The calling thread runs the node's state machine. The network has its own threads, and jobs run on those
//! of rayon. So neither computing nor writing delays a ping. The state machine takes its inputs one by one:
//! finished jobs first, then due timers, then events of the network.

mod addresses;
mod clock;
mod interpose;
mod others;
mod trace;
mod usage;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use libp2p::{Multiaddr, PeerId};

use super::{
    Command, Config, Event as NetEvent, Events, Frame, NetError, Network, NetworkKey, Waker, is_relayed, log,
};
use crate::node::{Awaited, Done, Ending, Event, Job, Node, Record, RestoreError, Timer};
use crate::protocol::about::{About, Role};
use crate::protocol::context::Context;
use crate::protocol::message::{Channel, Message};
use crate::protocol::view::{HEARTBEAT_MS, Stage};
use crate::protocol::{Action, Fault, Input, Machine, Step, Time, wire};
use crate::session::{Peer, Session};
use crate::store::{Store, StoreError};
use crate::tasks::Task;
pub use addresses::peer_id;
pub(crate) use addresses::{relays, roster};
use clock::{Clock, beside, now_instant};
pub use interpose::{Interpose, Sent};
pub use trace::Trace;
pub use usage::{Spent, Usage};

/// Longest time for which a leaving node waits until its last frames have been read.
const FLUSH: Duration = Duration::from_secs(2);

/// Larger records, in bytes, are written on another thread. Even slow disks write this within a heartbeat.
const LARGE: usize = 4 << 20;

/// Interval between two snapshots of a watched node.
const LOOK: Duration = Duration::from_millis(500);

/// The node to run.
#[derive(Debug)]
pub struct NodeConfig {
    /// Session.
    pub session: Arc<Session>,
    /// Context: identity and plan of aggregates.
    pub ctx: Arc<Context>,
    /// Task.
    pub task: Arc<dyn Task>,
    /// Random seed of 32 bytes from the operating system.
    pub seed: [u8; 32],
    /// Folder of the state; see [`Store`].
    pub state: PathBuf,
    /// File next to the key, apart from the state, that records the progress of this identity in the
    /// session; see [`Store::keep_mark`].
    pub mark: Option<PathBuf>,
    /// Addresses to listen on.
    pub listen: Vec<Multiaddr>,
    /// True to look for peers by mDNS.
    pub mdns: bool,
    /// Network key; see [`Config::network_key`].
    pub network_key: Option<NetworkKey>,
    /// True to report [`Report::Now`] twice a second.
    pub watched: bool,
    /// Trace that records all frames, if any.
    pub trace: Option<Arc<Trace>>,
    /// Layer between the node and its network, if any.
    pub interpose: Option<Box<dyn Interpose>>,
    /// Peers without a result when this peer left. If there are any, this run only serves them.
    pub serves: Vec<Peer>,
    /// Returns the reason for the other peers' logs if this peer cannot finish the session.
    pub farewell: fn(&Session, &Ending) -> Option<String>,
    /// Flag that makes the node leave. Set it, then wake the driver.
    pub stop: Arc<AtomicBool>,
}

/// A report of a running node.
#[derive(Debug)]
pub enum Report<'a> {
    /// The network is up; the handle adds addresses and wakes the driver.
    Started(Handle),
    /// The node listens at this address.
    Listening(&'a Multiaddr),
    /// A listener failed.
    ListenFailed(&'a Multiaddr, &'a str),
    /// Another node uses this node's identity.
    Twin(&'a Multiaddr),
    /// A peer outside the roster was refused.
    Stranger(&'a PeerId, &'a Multiaddr),
    /// A connection ended, with the reason.
    Disconnected(Peer, &'a str),
    /// A peer broke a rule of the transport or the protocol.
    Blamed(Peer, Fault),
    /// An event of the node.
    Node(&'a Event),
    /// The node sends a message; the number is the size of its frame's header and payload in bytes.
    Sent(Peer, &'a Message, u64),
    /// The node has received a message that could be decoded.
    Received(Peer, &'a Message, u64),
    /// The node stops at a stage on request of [`Interpose`].
    Held(u32, Stage),
    /// [`Interpose`] has begun to change the messages of the node to a peer.
    Deviated(Peer),
    /// Present status of a watched node.
    Now(Snapshot),
}

/// Status of a node.
#[derive(Debug)]
pub struct Snapshot {
    /// Event that the node waits for, the peers concerned, and the remaining time.
    pub(crate) waits: Option<(Awaited, Vec<Peer>, Option<Duration>)>,
    /// All other peers of the roster.
    pub(crate) links: Vec<Traffic>,
}

/// Traffic between this node and a peer so far.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) peer: Peer,
    /// Round trip of the last ping on the open connection.
    pub(crate) round_trip: Option<Duration>,
    /// True if the open connection uses a relay.
    pub(crate) relayed: bool,
    /// Bytes of frames that were sent.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// A handle for other threads. It adds addresses, and wakes the driver after `stop` was set.
#[derive(Clone, Debug)]
pub struct Handle {
    addresses: mpsc::Sender<(PeerId, Multiaddr)>,
    waker: Waker,
}

impl Handle {
    /// Adds an address of a peer.
    pub fn add_address(&self, peer: PeerId, address: Multiaddr) {
        if self.addresses.send((peer, address)).is_ok() {
            self.waker.wake();
        }
    }

    /// Makes the driver check its `stop` flag.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// Reasons why a run ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The state cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The network did not start, or has stopped.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The records on disk do not match the session.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// An address in the session file is invalid.
    #[error("address {0:?} of {1} in the session file: {2}")]
    Address(String, String, String),
    /// The session cannot be finished at this peer.
    #[error(transparent)]
    Ended(#[from] Ending),
    /// The user stopped the node.
    #[error("left the session before it was finished")]
    Stopped,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alarm(std::cmp::Reverse<(Time, u64)>);

struct Driver<'a> {
    node: Node,
    network: Network,
    events: Events,
    store: Store,
    peers: BTreeMap<PeerId, Peer>,
    ids: Vec<PeerId>,
    me: Peer,
    /// Peers that were blamed. Their frames are no longer read.
    banned: BTreeSet<Peer>,
    /// Peers that were found to have another session file.
    refused: BTreeSet<Peer>,
    /// Peers whose connection uses a relay.
    relayed: BTreeSet<Peer>,
    clock: Clock,
    alarms: BinaryHeap<Alarm>,
    timers: BTreeMap<u64, Timer>,
    sequence: u64,
    jobs: mpsc::Receiver<Done>,
    job_sender: mpsc::Sender<Done>,
    addresses: mpsc::Receiver<(PeerId, Multiaddr)>,
    stop: Arc<AtomicBool>,
    interpose: Option<Box<dyn Interpose>>,
    trace: Option<Arc<Trace>>,
    /// Time of the next snapshot of a watched node.
    look: Option<Instant>,
    usage: Usage,
    serves: Vec<Peer>,
    finished: bool,
    stage_since: Instant,
    report: &'a mut dyn FnMut(Report<'_>),
    over: Option<Result<(), DriverError>>,
}

/// Runs a node until it has finished. Before that, the result is reported as [`Event::Finished`].
///
/// # Errors
/// [`DriverError`]. Data on disk is not lost.
pub fn run(plan: NodeConfig, report: &mut dyn FnMut(Report<'_>)) -> Result<Usage, DriverError> {
    let ctx = plan.ctx.clone();
    let report = &mut |told: Report<'_>| {
        log::note(&ctx, &told);
        report(told);
    };
    let session = &*plan.session;
    let roster = roster(session)?;
    let ids: Vec<_> = roster.iter().map(|(id, _)| *id).collect();
    let (mut store, mut stored) = Store::open(&plan.state)?;
    if let Some(mark) = &plan.mark
        && store.keep_mark(mark, &stored)?
    {
        store.write(&Record::Silent)?;
        stored.push(Record::Silent);
    }
    let node = Node::new(plan.ctx.clone(), plan.task, plan.seed, stored)?;
    let mut config = Config::new(plan.ctx.identity.seed(), roster.into_iter().collect());
    config.about = About::new(&plan.ctx.session, Role::Join).encode();
    config.listen = plan.listen;
    config.mdns = plan.mdns;
    config.network_key = plan.network_key;
    config.relays = relays(session)?;
    if let Some(interpose) = &plan.interpose {
        config.piece = interpose.piece().unwrap_or(config.piece);
    }
    let (network, events) = Network::spawn(config)?;
    let (job_sender, jobs) = mpsc::channel();
    let (address_sender, addresses) = mpsc::channel();
    report(Report::Started(Handle { addresses: address_sender, waker: network.waker() }));
    let peers = ids.iter().copied().zip(session.peers()).collect();
    let started = now_instant();
    let mut driver = Driver {
        node,
        network,
        events,
        store,
        peers,
        ids,
        me: plan.ctx.me,
        banned: BTreeSet::new(),
        refused: BTreeSet::new(),
        relayed: BTreeSet::new(),
        clock: Clock::starting(started),
        alarms: BinaryHeap::new(),
        timers: BTreeMap::new(),
        sequence: 0,
        jobs,
        job_sender,
        addresses,
        stop: plan.stop,
        interpose: plan.interpose,
        trace: plan.trace,
        look: plan.watched.then_some(started),
        usage: Usage { stages: vec![(None, Spent::default())], ..Usage::default() },
        serves: plan.serves,
        finished: false,
        stage_since: started,
        report,
        over: None,
    };
    let result = driver.run();
    driver.enter_stage(None);
    driver.usage.unfinished = driver.unfinished();
    let mut usage = driver.usage;
    for id in &driver.ids {
        for channel in super::Channel::BOTH {
            usage.bytes_sent += driver.network.bytes_sent(id, channel);
            usage.bytes_received += driver.network.bytes_received(id, channel);
        }
    }
    if let Err(DriverError::Ended(ending)) = &result
        && let Some(reason) = (plan.farewell)(session, ending)
    {
        // If the network has stopped, there are no peers to tell.
        let _ = driver.network.send(Command::TellReason(reason));
    }
    // It is not an error if a peer does not read its last frames in time.
    let _ = driver.network.shutdown(FLUSH);
    result.map(|()| usage)
}

impl Driver<'_> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn run(&mut self) -> Result<(), DriverError> {
        self.input(Input::Start);
        loop {
            if let Some(over) = self.over.take() {
                return over;
            }
            if self.has_served() {
                return Ok(());
            }
            if self.stop.load(Ordering::Acquire) {
                let step = self.node.leave();
                self.carry_out(step);
                return Err(DriverError::Stopped);
            }
            self.look();
            while let Ok((peer, address)) = self.addresses.try_recv() {
                self.network.send(Command::AddAddress(peer, address))?;
            }
            if let Ok(done) = self.jobs.try_recv() {
                self.input(Input::Done(done));
            } else if let Some(timer) = self.due() {
                self.input(Input::Timer(timer));
            } else {
                self.wait()?;
            }
        }
    }

    /// Reports the status of a watched node, if this is due.
    fn look(&mut self) {
        let now = now_instant();
        if self.look.is_none_or(|look| now < look) {
            return;
        }
        self.look = Some(now + LOOK);
        let time = self.now();
        let left = |until: Time| Duration::from_micros(until.0.saturating_sub(time.0));
        let waits = self.node.waits(time).map(|waits| (waits.what, waits.peers, waits.until.map(left)));
        let links = self.peers.iter().filter(|(_, peer)| **peer != self.me).map(|(id, &peer)| {
            let sum = |count: fn(&Network, &PeerId, super::Channel) -> u64| {
                super::Channel::BOTH.iter().map(|&channel| count(&self.network, id, channel)).sum()
            };
            Traffic {
                peer,
                round_trip: self.network.round_trip(id),
                relayed: self.relayed.contains(&peer),
                sent: sum(Network::bytes_sent),
                received: sum(Network::bytes_received),
            }
        });
        let links = links.collect();
        (self.report)(Report::Now(Snapshot { waits, links }));
    }

    fn due(&mut self) -> Option<Timer> {
        let Alarm(std::cmp::Reverse((at, number))) = self.alarms.peek()?;
        if *at > self.now() {
            return None;
        }
        let number = *number;
        self.alarms.pop();
        self.timers.remove(&number)
    }

    fn wait(&mut self) -> Result<(), DriverError> {
        let until = self.alarms.peek().map_or(Duration::from_secs(1), |Alarm(std::cmp::Reverse((at, _)))| {
            Duration::from_micros(at.0.saturating_sub(self.now().0))
        });
        let look = self.look.map_or(until, |look| look.saturating_duration_since(now_instant()));
        let until = until.min(look);
        match self.events.recv_timeout(until) {
            Ok(event) => self.network_event(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(NetError::Start(std::io::Error::other("the network has stopped")).into());
            }
        }
        Ok(())
    }

    fn network_event(&mut self, event: NetEvent) {
        match event {
            // The network answers the questions of `flyswarm doctor`; a peer that is not up is dialled
            // again.
            NetEvent::Woken
            | NetEvent::Found { .. }
            | NetEvent::NotUp { .. }
            | NetEvent::Probed { .. }
            | NetEvent::WasProbed { .. } => {}
            NetEvent::Twin { address } => (self.report)(Report::Twin(&address)),
            NetEvent::Listening(address) => (self.report)(Report::Listening(&address)),
            NetEvent::ListenFailed { address, reason } => {
                (self.report)(Report::ListenFailed(&address, &reason))
            }
            NetEvent::Stranger { peer, address } => (self.report)(Report::Stranger(&peer, &address)),
            NetEvent::PeerUp { peer, address } => {
                if let Some(&peer) = self.peers.get(&peer) {
                    match is_relayed(&address) {
                        true => self.relayed.insert(peer),
                        false => self.relayed.remove(&peer),
                    };
                    self.input(Input::PeerUp(peer));
                }
            }
            NetEvent::PeerLost { peer, reason } => {
                if let Some(&peer) = self.peers.get(&peer) {
                    if !self.refused.contains(&peer) {
                        (self.report)(Report::Disconnected(peer, &reason));
                    }
                    self.input(Input::PeerLost(peer));
                }
            }
            NetEvent::Malformed { from, reason } => {
                if let Some(&peer) = self.peers.get(&from) {
                    self.blame(peer, Fault::Transport(reason));
                }
            }
            NetEvent::Frame { from, channel, frame } => {
                let Some(&from) = self.peers.get(&from).filter(|from| !self.banned.contains(from)) else {
                    return;
                };
                let bytes = (frame.header.len() + frame.payload.len()) as u64;
                let channel = from_net(channel);
                if let Some(trace) = &self.trace {
                    trace.frame(self.now(), (from, self.me), channel, (&frame.header, &frame.payload));
                }
                match wire::decode(channel, &frame.header, frame.payload) {
                    Ok(message) => {
                        (self.report)(Report::Received(from, &message, bytes));
                        self.input(Input::Message { from, message });
                    }
                    Err(fault) => self.blame(from, fault),
                }
            }
        }
    }

    fn input(&mut self, input: Input<Node>) {
        let step = self.node.handle(self.now(), input);
        self.carry_out(step);
    }

    fn carry_out(&mut self, step: Step<Node>) {
        for action in step.0 {
            match action {
                Action::Send { to, message } => self.send(to, &message),
                Action::SetTimer { at, timer } => {
                    self.sequence += 1;
                    self.timers.insert(self.sequence, timer);
                    self.alarms.push(Alarm(std::cmp::Reverse((at, self.sequence))));
                }
                Action::Compute(job) => self.compute(job),
                Action::Persist(record) => {
                    if let Err(error) = self.persist(&record) {
                        // No later message may be sent, because it may depend on the record, which was not
                        // saved.
                        self.over = Some(Err(error.into()));
                        return;
                    }
                }
                Action::WriteEarly(ahead) => self.store.write_early(ahead),
                Action::Output(event) => {
                    if self.is_news(&event) {
                        (self.report)(Report::Node(&event));
                    }
                    match event {
                        Event::Stage(slot, stage) => self.stage(slot, stage),
                        Event::NeedsConnection(peer) => {
                            let _ = self.network.send(Command::Dial(self.ids[peer.index()]));
                        }
                        Event::Finished(_) => self.finished = true,
                        Event::Done => self.over = Some(Ok(())),
                        Event::Ended(ending) => self.over = Some(Err(ending.into())),
                        _ => {}
                    }
                }
                Action::Blame { peer, fault } => self.blame(peer, fault),
            }
        }
    }

    fn send(&mut self, to: Peer, message: &Message) {
        let changed = self.interpose.as_mut().and_then(|interpose| interpose.send(to, message));
        let Some(sent) = changed else {
            return self.send_frame(to, message, wire::encode(message));
        };
        if let Some(towards) = sent.begins {
            (self.report)(Report::Deviated(towards));
        }
        sent.frames.into_iter().for_each(|(to, frame)| self.send_frame(to, message, frame));
    }

    fn send_frame(&mut self, to: Peer, message: &Message, frame: wire::Frame) {
        let bytes = (frame.header.len() + frame.payload.len()) as u64;
        if let Some((_, spent)) = self.usage.stages.last_mut() {
            spent.bytes += bytes;
        }
        if let Some(trace) = &self.trace {
            trace.frame(self.now(), (self.me, to), frame.channel, (&frame.header, &frame.payload));
        }
        (self.report)(Report::Sent(to, message, bytes));
        let channel = to_net(frame.channel);
        let frame = Frame { header: frame.header, payload: frame.payload };
        let to = self.ids[to.index()];
        if let Err(error) = self.network.send(Command::Send { to, channel, frame }) {
            unreachable!("BUG: the protocol's frames keep the limits: {error}");
        }
    }

    /// Writes a record. While a large record is written, the other peers receive heartbeats.
    fn persist(&mut self, record: &Record) -> Result<(), StoreError> {
        if let Some(trace) = &self.trace {
            trace.record(self.now(), self.me, &record.name());
        }
        if record.total().is_none_or(|(_, total)| total.len() < LARGE) {
            return self.store.write(record);
        }
        let beat = self.node.beat();
        let (store, network, ids) = (&mut self.store, &self.network, &self.ids);
        let write = || {
            beside(
                || store.write(record),
                Duration::from_millis(HEARTBEAT_MS),
                || {
                    for (to, message) in &beat {
                        let frame = wire::encode(message);
                        let channel = to_net(frame.channel);
                        let frame = Frame { header: frame.header, payload: frame.payload };
                        // An error is ignored: if the network has stopped, the next call that needs it
                        // returns the error.
                        let _ = network.send(Command::Send { to: ids[to.index()], channel, frame });
                    }
                },
            )
        };
        self.clock.stands_still(write)
    }

    fn compute(&self, job: Job) {
        if job.is_brief() {
            let _ = self.job_sender.send(job.run());
            return;
        }
        let (sender, waker) = (self.job_sender.clone(), self.network.waker());
        rayon::spawn(move || {
            // An error is ignored, because the driver may have ended.
            let _ = sender.send(job.run());
            waker.wake();
        });
    }

    fn stage(&mut self, slot: u32, stage: Stage) {
        self.enter_stage(Some((slot, stage)));
        if self.interpose.as_ref().is_some_and(|interpose| interpose.stops_at(slot, stage)) {
            (self.report)(Report::Held(slot, stage));
            while !self.stop.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn enter_stage(&mut self, stage: Option<(u32, Stage)>) {
        let now = now_instant();
        let spent = (now - self.stage_since).as_secs_f64();
        self.stage_since = now;
        if let Some((_, last)) = self.usage.stages.last_mut() {
            last.seconds += spent;
        }
        // In a repeated view a stage is entered again. The costs are added up, and the entry moves to the
        // end.
        let known = self.usage.stages.iter().position(|(known, _)| *known == stage);
        let entry = known.map_or((stage, Spent::default()), |at| self.usage.stages.remove(at));
        self.usage.stages.push(entry);
    }
}

pub(crate) fn to_net(channel: Channel) -> super::Channel {
    match channel {
        Channel::Control => super::Channel::Control,
        Channel::Bulk => super::Channel::Bulk,
    }
}

pub(crate) fn from_net(channel: super::Channel) -> Channel {
    match channel {
        super::Channel::Control => Channel::Control,
        super::Channel::Bulk => Channel::Bulk,
    }
}
