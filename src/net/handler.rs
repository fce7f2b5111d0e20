//! Handles one connection: opens and accepts its substreams, writes and reads frames, and checks that the
//! peer is alive.
//!
//! A handler runs in the task of its connection and goes through these phases:
//!
//! - `SetUp` until two substreams for sending and two for receiving are open. The peer that chooses
//!   connections opens its two first. The other peer opens its own when it has seen one of these
//!   ([`super::behaviour`] explains the order).
//! - `Standing`: the handler has reported this to the behaviour, which sends `PeerUp` to the caller and then
//!   answers with [`Tell::Go`].
//! - `Open`: frames are sent and received. While the received frames of a substream fill their account, it is
//!   not read, and Yamux stops the sender. Control is written and read before bulk.
//! - `Done`: a fault was reported. Nothing is written, read or reported any more.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{AsyncRead, AsyncWrite, FutureExt};
use libp2p::Stream;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};
use libp2p::swarm::handler::{
    ConnectionEvent, ConnectionHandler, ConnectionHandlerEvent, FullyNegotiatedInbound,
    FullyNegotiatedOutbound,
};
use libp2p::swarm::{StreamUpgradeError, SubstreamProtocol};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::Channel;
use super::events::EventSender;
use super::farewell::{self, Farewell};
use super::frame::{ReadError, Reader, Writer};
use super::link::{Link, cost};
use super::ping::{self, Ping};
use super::probe::{self, Answers, Questions};
use crate::buffers::Buffers;

/// Time limit from the connection to four open substreams (guess; opening them takes three round trips).
const SET_UP: Duration = Duration::from_secs(10);
/// If the peer has ended one substream, the other may be silent for this time (guess).
const FAREWELL: Duration = Duration::from_secs(30);
/// Interval at which these times, and those of the ping, are checked.
const TICK: Duration = Duration::from_millis(250);

/// Purpose of a substream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Frames(Channel),
    Ping,
    Probe,
    Leave,
}

impl AsRef<str> for Purpose {
    fn as_ref(&self) -> &str {
        match self {
            Self::Frames(channel) => channel.protocol(),
            Self::Ping => "/ipfs/ping/1.0.0",
            Self::Probe => probe::PROTOCOL,
            Self::Leave => farewell::PROTOCOL,
        }
    }
}

/// Negotiates one of these purposes, and returns the substream itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Negotiate(&'static [Purpose]);

const ACCEPTED: &[Purpose] = &[
    Purpose::Frames(Channel::Control),
    Purpose::Frames(Channel::Bulk),
    Purpose::Ping,
    Purpose::Probe,
    Purpose::Leave,
];
const CONTROL: &[Purpose] = &[Purpose::Frames(Channel::Control)];
const BULK: &[Purpose] = &[Purpose::Frames(Channel::Bulk)];
const PING: &[Purpose] = &[Purpose::Ping];
const PROBE: &[Purpose] = &[Purpose::Probe];
const LEAVE: &[Purpose] = &[Purpose::Leave];

impl UpgradeInfo for Negotiate {
    type Info = Purpose;
    type InfoIter = std::iter::Copied<std::slice::Iter<'static, Purpose>>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.iter().copied()
    }
}

impl InboundUpgrade<Stream> for Negotiate {
    type Output = (Purpose, Stream);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, purpose: Purpose) -> Self::Future {
        ready(Ok((purpose, stream)))
    }
}

impl OutboundUpgrade<Stream> for Negotiate {
    type Output = (Purpose, Stream);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, purpose: Purpose) -> Self::Future {
        ready(Ok((purpose, stream)))
    }
}

/// A message of the behaviour to a handler.
#[derive(Debug)]
pub(super) enum Tell {
    /// `PeerUp` is in the caller's queue, so frames may now be sent and received.
    Go,
    /// The behaviour has chosen this connection after a delay. The handler now opens its substreams.
    Choose,
    /// Sends these questions to the peer.
    Probe(Questions),
    /// Sends this reason to the peer before the end.
    Leave(String),
}

/// A message of a handler to the behaviour.
#[derive(Debug)]
pub(super) enum Report {
    /// All four substreams are open.
    Standing,
    /// The connection must be closed. `malformed` is true if the peer broke the rules.
    Fault { malformed: bool, reason: String },
    /// Result of a probe.
    Probed(Result<Answers, String>),
    /// The peer has asked its last question.
    WasProbed,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    SetUp,
    Standing,
    Open,
    Done,
}

struct Outgoing {
    stream: Stream,
    /// Maximum number of bytes that are given to the substream at once.
    piece: usize,
    /// Frame that is being written, its cost in the queue and its bytes.
    writing: Option<(Writer, usize, usize)>,
    /// True if data was written since the last flush.
    dirty: bool,
    /// True if this node ended the substream.
    ended: bool,
}

struct Incoming {
    stream: Stream,
    reader: Reader,
    /// True if the peer ended the substream.
    ended: bool,
}

/// The questions of the peer and of this node (see [`probe`]).
#[derive(Default)]
struct Probes {
    /// Number of substreams that were answered.
    answered: u32,
    answering: Option<BoxFuture<'static, io::Result<()>>>,
    /// Questions that wait for their substream.
    to_ask: Option<Questions>,
    asking: Option<BoxFuture<'static, Result<Answers, String>>>,
}

/// Handler of one connection.
pub(super) struct Handler {
    link: Arc<Link>,
    events: EventSender,
    max_frame: usize,
    /// Maximum number of bytes that are given to a substream at once.
    piece: usize,
    buffers: Buffers,
    phase: Phase,
    /// Time at which the connection was made; after it is open, time at which data was last read from it.
    since: Instant,
    to_open: VecDeque<&'static [Purpose]>,
    opened: bool,
    outgoing: [Option<Outgoing>; 2],
    incoming: [Option<Incoming>; 2],
    ping: Ping,
    probes: Probes,
    farewell: Farewell,
    about: Bytes,
    remote: Option<IpAddr>,
    tick: Interval,
    reports: VecDeque<Report>,
}

impl Handler {
    pub(super) fn new(
        link: Arc<Link>,
        events: EventSender,
        (max_frame, piece): (usize, usize),
        buffers: Buffers,
        opens_first: bool,
        (about, remote): (Bytes, Option<IpAddr>),
    ) -> Self {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let now = Instant::now();
        let mut handler = Self {
            link,
            events,
            max_frame,
            piece,
            buffers,
            phase: Phase::SetUp,
            since: now,
            to_open: VecDeque::from([PING]),
            opened: false,
            outgoing: [None, None],
            incoming: [None, None],
            ping: Ping::new(now),
            probes: Probes::default(),
            farewell: Farewell::default(),
            about,
            remote,
            tick,
            reports: VecDeque::new(),
        };
        if opens_first {
            handler.open_ours();
        }
        handler
    }

    fn open_ours(&mut self) {
        if !self.opened {
            self.opened = true;
            self.to_open.extend([CONTROL, BULK]);
        }
    }

    fn fault(&mut self, malformed: bool, reason: impl Into<String>) {
        if self.phase != Phase::Done {
            self.phase = Phase::Done;
            self.reports.push_back(Report::Fault { malformed, reason: reason.into() });
        }
    }

    fn stands(&mut self) {
        if self.phase == Phase::SetUp
            && self.outgoing.iter().all(Option::is_some)
            && self.incoming.iter().all(Option::is_some)
        {
            self.phase = Phase::Standing;
            self.reports.push_back(Report::Standing);
        }
    }

    fn accepted(&mut self, purpose: Purpose, stream: Stream) {
        let channel = match purpose {
            Purpose::Frames(channel) => channel,
            Purpose::Ping => return self.ping.accepted(stream),
            Purpose::Leave => return self.farewell.accepted(stream),
            Purpose::Probe => {
                // A second substream at the same time, or one above the limit, is dropped, which resets it.
                if self.probes.answering.is_none() && self.probes.answered < probe::MAX_PROBES {
                    self.probes.answered += 1;
                    self.probes.answering =
                        Some(probe::answer(stream, self.about.clone(), self.remote).boxed());
                }
                return;
            }
        };
        let slot = &mut self.incoming[channel.index()];
        if slot.is_some() {
            return self.fault(true, format!("second {channel} stream on one connection"));
        }
        let reader = Reader::new(channel, self.max_frame, self.buffers.clone());
        *slot = Some(Incoming { stream, reader, ended: false });
        self.open_ours();
        self.stands();
    }

    fn opened(&mut self, purpose: Purpose, stream: Stream) {
        match purpose {
            Purpose::Ping => self.ping.opened(stream, Instant::now()),
            Purpose::Leave => self.farewell.opened(stream),
            Purpose::Probe => {
                if let Some(questions) = self.probes.to_ask.take() {
                    self.probes.asking = Some(probe::ask(stream, questions).boxed());
                }
            }
            Purpose::Frames(channel) => {
                self.outgoing[channel.index()] =
                    Some(Outgoing { stream, piece: self.piece, writing: None, dirty: false, ended: false });
                self.stands();
            }
        }
    }

    /// Checks all time limits.
    fn check_times(&mut self, now: Instant) {
        let waited = now.duration_since(self.since);
        let half_ended = self.incoming.iter().flatten().any(|incoming| incoming.ended);
        let reads = Channel::BOTH.iter().all(|&channel| self.link.has_room(channel));
        if self.ping.is_dead(now) {
            self.fault(false, format!("no answer to ping for {} s", ping::TIMEOUT.as_secs()));
        } else if self.phase == Phase::SetUp && waited >= SET_UP {
            self.fault(false, format!("streams not open after {} s", SET_UP.as_secs()));
        } else if half_ended && reads && waited >= FAREWELL {
            self.fault(false, format!("one stream ended, the other silent for {} s", FAREWELL.as_secs()));
        }
    }

    fn pump_probes(&mut self, cx: &mut Context<'_>) {
        if let Some(answering) = &mut self.probes.answering
            && let Poll::Ready(result) = answering.poll_unpin(cx)
        {
            self.probes.answering = None;
            match result {
                Ok(()) => self.reports.push_back(Report::WasProbed),
                Err(error) => tracing::debug!(peer = %self.link.peer, %error, "a probe ended early"),
            }
        }
        if let Some(asking) = &mut self.probes.asking
            && let Poll::Ready(result) = asking.poll_unpin(cx)
        {
            self.probes.asking = None;
            self.reports.push_back(Report::Probed(result));
        }
    }

    fn pump(&mut self, finishing: bool, cx: &mut Context<'_>) -> Result<(), ReadError> {
        for channel in Channel::BOTH {
            if let Some(outgoing) = &mut self.outgoing[channel.index()] {
                outgoing
                    .pump(&self.link, channel, finishing, cx)
                    .map_err(|error| ReadError::Broken(format!("our {channel} stream broke: {error}")))?;
            }
        }
        for channel in Channel::BOTH {
            self.pump_incoming(channel, cx)?;
        }
        let peer_ended = self.incoming.iter().flatten().all(|incoming| incoming.ended);
        let we_ended = self.outgoing.iter().flatten().all(|outgoing| outgoing.ended);
        if peer_ended && (we_ended || !finishing) {
            let reason = self.farewell.heard().map(|reason| format!("it left: {reason}"));
            return Err(ReadError::Broken(reason.unwrap_or_else(|| "closed by the peer".to_owned())));
        }
        Ok(())
    }

    fn pump_incoming(&mut self, channel: Channel, cx: &mut Context<'_>) -> Result<(), ReadError> {
        let Some(incoming) = &mut self.incoming[channel.index()] else { return Ok(()) };
        while !incoming.ended && self.link.has_room(channel) {
            let before = incoming.reader.total();
            let frame = incoming.reader.poll_frame(cx, &mut incoming.stream);
            if incoming.reader.total() > before {
                self.since = Instant::now();
                self.ping.heard(self.since);
            }
            let Poll::Ready(frame) = frame else { break };
            match frame? {
                Some(frame) => self.link.deliver(&self.events, channel, frame),
                None => {
                    incoming.ended = true;
                    self.since = Instant::now();
                }
            }
        }
        Ok(())
    }
}

impl Outgoing {
    /// Takes frames from the queue, writes them, and flushes. Ends the substream if this node is finishing.
    fn pump(
        &mut self,
        link: &Link,
        channel: Channel,
        finishing: bool,
        cx: &mut Context<'_>,
    ) -> std::io::Result<()> {
        if self.ended {
            return Ok(());
        }
        // The peer does not send on this substream. If something can be read, the substream has ended.
        if Pin::new(&mut self.stream).poll_read(cx, &mut [0]).is_ready() {
            return Err(std::io::Error::other("the peer refused it"));
        }
        loop {
            if self.writing.is_none() {
                self.writing = link.next(channel).map(|frame| {
                    let (cost, bytes) = (cost(&frame), frame.wire_length());
                    (Writer::new(frame, self.piece), cost, bytes)
                });
            }
            let Some((writer, cost, bytes)) = &mut self.writing else { break };
            self.dirty = true;
            match writer.poll_write(cx, &mut self.stream) {
                Poll::Pending => return Ok(()),
                Poll::Ready(written) => written?,
            }
            link.written(channel, *cost, *bytes);
            self.writing = None;
        }
        if self.dirty
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx)
        {
            flushed?;
            self.dirty = false;
        }
        if finishing
            && !self.dirty
            && let Poll::Ready(closed) = Pin::new(&mut self.stream).poll_close(cx)
        {
            closed?;
            self.ended = true;
        }
        Ok(())
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Tell;
    type ToBehaviour = Report;
    type InboundProtocol = Negotiate;
    type OutboundProtocol = Negotiate;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Purpose;

    fn listen_protocol(&self) -> SubstreamProtocol<Negotiate> {
        SubstreamProtocol::new(Negotiate(ACCEPTED), ())
    }

    fn connection_keep_alive(&self) -> bool {
        true
    }

    fn on_behaviour_event(&mut self, tell: Tell) {
        match tell {
            Tell::Go if self.phase == Phase::Standing => self.phase = Phase::Open,
            Tell::Go => {}
            Tell::Choose => self.open_ours(),
            Tell::Probe(questions) => {
                if self.probes.to_ask.is_some() || self.probes.asking.is_some() {
                    self.reports.push_back(Report::Probed(Err("another probe is under way".to_owned())));
                } else {
                    self.probes.to_ask = Some(questions);
                    self.to_open.push_back(PROBE);
                }
            }
            Tell::Leave(reason) => {
                self.farewell.say(reason);
                self.to_open.push_back(LEAVE);
            }
        }
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Negotiate, Negotiate, (), Purpose>) {
        if self.phase == Phase::Done {
            return;
        }
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (purpose, stream),
                ..
            }) => {
                self.accepted(purpose, stream);
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: (purpose, stream),
                ..
            }) => {
                self.opened(purpose, stream);
            }
            ConnectionEvent::DialUpgradeError(failed) => {
                let why = match failed.error {
                    StreamUpgradeError::Timeout => "no answer in time".to_owned(),
                    StreamUpgradeError::NegotiationFailed => "the peer does not speak it".to_owned(),
                    StreamUpgradeError::Io(error) => error.to_string(),
                    StreamUpgradeError::Apply(never) => match never {},
                };
                if failed.info == Purpose::Leave {
                    self.farewell.refused();
                } else if failed.info == Purpose::Probe {
                    self.probes.to_ask = None;
                    self.reports.push_back(Report::Probed(Err(why)));
                } else {
                    self.fault(false, format!("cannot open {}: {why}", failed.info.as_ref()));
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Negotiate, Purpose, Report>> {
        if self.phase != Phase::Done {
            let now = Instant::now();
            while self.tick.poll_tick(cx).is_ready() {
                self.check_times(now);
            }
            match self.ping.poll(now, cx) {
                Ok(round_trip) => round_trip.into_iter().for_each(|after| self.link.answered(after)),
                Err(reason) => self.fault(false, reason),
            }
            self.pump_probes(cx);
            self.farewell.poll(cx);
            let (verdict, finishing) = self.link.watch(cx.waker());
            let finishing = finishing && !self.farewell.is_saying();
            if let Some(reason) = verdict {
                self.fault(false, reason);
            }
            if self.phase == Phase::Open {
                match self.pump(finishing, cx) {
                    Ok(()) => {}
                    Err(ReadError::Malformed(reason)) => self.fault(true, reason),
                    Err(ReadError::Broken(reason)) => self.fault(false, reason),
                }
            }
        }
        if let Some(report) = self.reports.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(report));
        }
        if self.phase != Phase::Done
            && let Some(purposes) = self.to_open.pop_front()
            && let Some(purpose) = purposes.first()
        {
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                protocol: SubstreamProtocol::new(Negotiate(purposes), *purpose),
            });
        }
        Poll::Pending
    }
}
