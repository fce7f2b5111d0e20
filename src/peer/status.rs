//! The present status of a peer. It has data that the peer's events do not have, such as bytes and waiting
//! times.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tokio::sync::watch;

use crate::net::driver::{Report, Snapshot};
use crate::net::metrics::stage_name;
use crate::node::{Awaited, Event};
use crate::protocol::all_reduce::{self, CHUNK, Direction};
use crate::protocol::context::Context;
use crate::protocol::message::Message;
use crate::protocol::view;
use crate::session::Peer;

/// Status of a peer. Names are those of the session file.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Status {
    /// All other peers of the roster.
    pub(crate) peers: Vec<Other>,
    /// Members of the view, each with its parent in the tree. A parent is listed before its children. Empty
    /// if there is no view.
    pub(crate) tree: Vec<(String, Option<String>)>,
    /// Present or last sum.
    pub(crate) sum: Option<Sum>,
    /// Bytes of messages by stage, in the order in which the stages were first entered.
    pub(crate) stages: Vec<Moved>,
    /// Event that the peer waits for, or `None` after the peer has ended.
    pub(crate) waits: Option<Waits>,
}

/// Another peer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Other {
    pub(crate) name: String,
    pub(crate) link: Link,
    /// Round trip of the last ping, in milliseconds.
    pub(crate) round_trip_ms: Option<f64>,
    /// True if the connection uses a relay.
    pub(crate) relayed: bool,
    /// Bytes of frames sent to it and received from it.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// State of another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    /// The peer was not seen yet.
    Unseen,
    Connected,
    Lost,
    /// The peer has another session file.
    Refused,
    /// The peer broke a rule.
    Blamed,
}

/// Progress of the sum of an aggregate. It counts the bytes that are done, out of `size`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sum {
    pub(crate) aggregate: String,
    pub(crate) number: u32,
    pub(crate) up: usize,
    pub(crate) down: usize,
    pub(crate) size: usize,
}

/// Bytes of messages in a stage.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Moved {
    pub(crate) stage: &'static str,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Event that the peer waits for.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Waits {
    pub(crate) what: Awaited,
    /// Peers that it waits for. The list may be empty.
    pub(crate) peers: Vec<String>,
    /// Remaining time.
    pub(crate) seconds: Option<f64>,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = match &self.peers[..] {
            many @ [_, _, _, _, ..] => format!("{}, {} and {} others", many[0], many[1], many.len() - 2),
            few => few.join(", "),
        };
        let (what, then) = match self.what {
            Awaited::Roster if names.is_empty() => return f.write_str("all peers are connected"),
            Awaited::Roster => (format!("waits for {names}"), "begins without them in"),
            Awaited::Enough => (format!("too few peers: waits for {names}"), "gives up in"),
            Awaited::View => ("waits for a view".to_owned(), "gives up in"),
            Awaited::Others => return write!(f, "{names} continue without this peer"),
            Awaited::Connections => (format!("waits for connections to {names}"), "the view fails in"),
            Awaited::Word if names.is_empty() => return f.write_str("sums with its neighbours"),
            Awaited::Word => (format!("waits for {names}"), "the view fails in"),
            Awaited::Exchange => return write!(f, "exchanges messages with {names}"),
            Awaited::Computation => ("computes".to_owned(), "may take at most"),
            Awaited::Results => (format!("waits until {names} have their results"), "leaves in"),
        };
        f.write_str(&what)?;
        match self.seconds {
            Some(seconds) => write!(f, "; {then} {:.0} s", seconds.ceil()),
            None => Ok(()),
        }
    }
}

/// Keeps a peer's status and sends it to its watchers.
#[derive(Debug)]
pub(crate) struct Watched {
    status: Status,
    /// Index of each peer in the list.
    places: BTreeMap<Peer, usize>,
    stage: &'static str,
    told: watch::Sender<Status>,
}

impl Watched {
    pub(super) fn new(ctx: &Context) -> (Self, watch::Receiver<Status>) {
        Self::of(ctx, ctx.me)
    }

    /// Makes the status of peer `me`. This may be another peer than that of the context.
    pub(crate) fn of(ctx: &Context, me: Peer) -> (Self, watch::Receiver<Status>) {
        let others: Vec<_> = ctx.session.peers().filter(|peer| *peer != me).collect();
        let other = |peer: &Peer| Other {
            name: ctx.session.name(*peer).to_owned(),
            link: Link::Unseen,
            round_trip_ms: None,
            relayed: false,
            sent: 0,
            received: 0,
        };
        let status = Status { peers: others.iter().map(other).collect(), ..Status::default() };
        let (told, receiver) = watch::channel(status.clone());
        let places = others.into_iter().zip(0..).collect();
        (Self { status, places, stage: "connect", told }, receiver)
    }

    /// Updates the status from a report of the driver.
    pub(super) fn note(&mut self, ctx: &Context, report: &Report<'_>) {
        match report {
            Report::Sent(_, _, bytes) => self.moved().sent += bytes,
            Report::Received(_, message, bytes) => {
                self.moved().received += bytes;
                self.summed(ctx, message);
            }
            Report::Blamed(peer, _) => self.set(*peer, Link::Blamed),
            Report::Node(event) => self.event(ctx, event),
            Report::Now(snapshot) => {
                self.look(ctx, snapshot);
                self.told.send_replace(self.status.clone());
            }
            _ => {}
        }
        if let Report::Sent(_, message, _) = report {
            self.summed(ctx, message);
        }
    }

    /// Returns the present status.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// Updates the status from an event of the node.
    pub(crate) fn event(&mut self, ctx: &Context, event: &Event) {
        match event {
            Event::Joined(peer) => self.set(*peer, Link::Connected),
            Event::Lost(peer) => self.set(*peer, Link::Lost),
            Event::Refused(peer, _) => self.set(*peer, Link::Refused),
            Event::ViewBegan(_, tree) => {
                let name = |peer| ctx.session.name(peer).to_owned();
                let member = |&peer: &_| (name(peer), tree.parent(peer).map(name));
                self.status.tree = tree.order().iter().map(member).collect();
            }
            Event::ViewFailed(..) | Event::Finished(_) => self.status.tree.clear(),
            Event::Stage(slot, stage) => {
                self.stage = stage_name(*stage);
                let Some(aggregate) = ctx.plan.get(*slot as usize) else { return };
                if self.status.sum.as_ref().is_none_or(|sum| sum.number != *slot) {
                    let (aggregate, size) = (aggregate.name.clone(), aggregate.len());
                    self.status.sum = Some(Sum { aggregate, number: *slot, up: 0, down: 0, size });
                }
            }
            _ => {}
        }
        if let Event::Finished(_) = event {
            self.stage = "linger";
        }
    }

    /// Sets the state of a peer. A blamed peer stays blamed.
    fn set(&mut self, peer: Peer, link: Link) {
        if let Some(other) = self.places.get(&peer).and_then(|at| self.status.peers.get_mut(*at))
            && other.link != Link::Blamed
        {
            other.link = link;
        }
    }

    fn moved(&mut self) -> &mut Moved {
        let stages = &mut self.status.stages;
        let at = stages.iter().position(|known| known.stage == self.stage).unwrap_or_else(|| {
            stages.push(Moved { stage: self.stage, sent: 0, received: 0 });
            stages.len() - 1
        });
        &mut stages[at]
    }

    /// Updates the progress of the sum. If there are several children, the most advanced one is shown. If a
    /// sum starts again, it starts at its first chunk.
    fn summed(&mut self, ctx: &Context, message: &Message) {
        let Message::View(view::Message::Reduce(all_reduce::Message::Chunk { sum, direction, index, data })) =
            message
        else {
            return;
        };
        let Some(shown) = self.status.sum.as_mut().filter(|shown| shown.number == sum.slot) else { return };
        let Some(aggregate) = ctx.plan.get(sum.slot as usize) else { return };
        let done = (*index as usize).saturating_mul(CHUNK).saturating_add(data.len()).min(aggregate.len());
        let way = match direction {
            Direction::Up => &mut shown.up,
            Direction::Down => &mut shown.down,
        };
        if *index == 0 || *way < done {
            *way = done;
        }
    }

    fn look(&mut self, ctx: &Context, snapshot: &Snapshot) {
        for traffic in &snapshot.links {
            let at = self.places.get(&traffic.peer);
            if let Some(other) = at.and_then(|at| self.status.peers.get_mut(*at)) {
                other.round_trip_ms = traffic.round_trip.map(|time| time.as_secs_f64() * 1000.0);
                other.relayed = traffic.relayed;
                other.sent = traffic.sent;
                other.received = traffic.received;
            }
        }
        self.status.waits = snapshot.waits.as_ref().map(|(what, peers, left)| Waits {
            what: *what,
            peers: peers.iter().map(|peer| ctx.session.name(*peer).to_owned()).collect(),
            seconds: left.map(|left| left.as_secs_f64()),
        });
    }
}
