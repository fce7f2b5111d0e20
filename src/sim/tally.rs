//! Who sent how much of what, and which stages each peer went through when.

use serde::{Deserialize, Serialize};

use crate::protocol::message::Message;
use crate::protocol::view::{self, Order, Report, Stage};
use crate::protocol::{Time, all_reduce};
use crate::session::Peer;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Hellos, lists of differing fields.
    Greeting,
    /// How far a peer is, to those outside its view.
    Status,
    /// Proposals, promises, refusals, the beginning and the failure of views.
    Election,
    /// View keys up and down the tree.
    Keys,
    /// Orders to sum, and what each subtree holds, with the deals of the pads.
    Deals,
    /// Chunks, up and down.
    Chunks,
    /// Credits for chunks.
    Credits,
    /// The value to be decided, and the council's acknowledgements, up and down.
    Decision,
    /// The council's shares of the pads, up and down.
    Shares,
    /// Word that somebody is computing.
    Working,
    /// What is fetched from another peer.
    Transfer,
    /// Of an exchange (task `xclp`).
    Exchange,
}

/// All of them, in the order in which they are shown.
pub const PURPOSES: [Purpose; 12] = [
    Purpose::Greeting,
    Purpose::Status,
    Purpose::Election,
    Purpose::Keys,
    Purpose::Deals,
    Purpose::Chunks,
    Purpose::Credits,
    Purpose::Decision,
    Purpose::Shares,
    Purpose::Working,
    Purpose::Transfer,
    Purpose::Exchange,
];

impl Purpose {
    /// Of a message.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        match message {
            Message::Hello { .. } | Message::Fields(_) => Self::Greeting,
            Message::Status { .. } => Self::Status,
            Message::Prepare(_)
            | Message::Promise(..)
            | Message::Refuse(..)
            | Message::Begin { .. }
            | Message::Failed { .. } => Self::Election,
            Message::Transfer(_) => Self::Transfer,
            Message::Exchange { .. } => Self::Exchange,
            Message::View(message) => match message {
                view::Message::Up(_, Report::Keys(_)) | view::Message::Down(_, Order::Keys(_)) => Self::Keys,
                view::Message::Up(_, Report::Hold { .. }) | view::Message::Down(_, Order::Sum(_)) => {
                    Self::Deals
                }
                view::Message::Up(_, Report::Acknowledge(..))
                | view::Message::Down(_, Order::Accept(_) | Order::Decide(..)) => Self::Decision,
                view::Message::Up(_, Report::Release(..)) | view::Message::Down(_, Order::Open(..)) => {
                    Self::Shares
                }
                view::Message::Reduce(all_reduce::Message::Chunk { .. }) => Self::Chunks,
                view::Message::Reduce(all_reduce::Message::Credit { .. }) => Self::Credits,
                view::Message::Working(_) => Self::Working,
            },
        }
    }
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub messages: u64,
    /// Header and payload of their frames.
    pub bytes: u64,
}

impl Count {
    /// One more.
    pub fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// A time that a peer spent in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// From, microseconds.
    pub from: u64,
    /// To, microseconds.
    pub to: u64,
    /// The quantity.
    pub slot: u32,
    /// The stage; none outside views.
    pub stage: Option<Stage>,
}

#[derive(Clone, Debug, Default)]
struct Host {
    purposes: [Count; PURPOSES.len()],
    received: u64,
    spans: Vec<Span>,
    /// Bytes sent in each (slot, stage).
    stages: Vec<((u32, Option<Stage>), Count)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Tally {
    hosts: Vec<Host>,
}

impl Tally {
    /// Of so many peers.
    #[must_use]
    pub fn new(peers: u16) -> Self {
        Self { hosts: vec![Host::default(); usize::from(peers)] }
    }

    /// A frame leaves.
    pub fn sent(&mut self, from: Peer, message: &Message, bytes: usize) {
        let host = &mut self.hosts[from.index()];
        let bytes = bytes as u64;
        host.purposes[Purpose::of(message) as usize].add(bytes);
        let place = host.spans.last().map_or((0, None), |span| (span.slot, span.stage));
        match host.stages.iter_mut().find(|(stage, _)| *stage == place) {
            Some((_, count)) => count.add(bytes),
            None => host.stages.push((place, Count { messages: 1, bytes })),
        }
    }

    /// A frame is on its way to this peer.
    pub fn received(&mut self, to: Peer, bytes: usize) {
        self.hosts[to.index()].received += bytes as u64;
    }

    /// A peer enters a stage, or with `None` leaves its view.
    pub fn enters(&mut self, now: Time, peer: Peer, slot: u32, stage: Option<Stage>) {
        let spans = &mut self.hosts[peer.index()].spans;
        if let Some(last) = spans.last_mut() {
            last.to = now.0;
        }
        spans.push(Span { from: now.0, to: now.0, slot, stage });
    }

    /// A peer's process ends.
    pub fn ends(&mut self, now: Time, peer: Peer) {
        self.enters(now, peer, 0, None);
    }

    /// The stages that a peer went through.
    #[must_use]
    pub fn spans(&self, peer: Peer) -> &[Span] {
        &self.hosts[peer.index()].spans
    }

    /// What a peer has sent, by purpose.
    #[must_use]
    pub fn purposes(&self, peer: Peer) -> &[Count; PURPOSES.len()] {
        &self.hosts[peer.index()].purposes
    }

    /// What a peer has sent in each stage.
    #[must_use]
    pub fn stages(&self, peer: Peer) -> &[((u32, Option<Stage>), Count)] {
        &self.hosts[peer.index()].stages
    }

    /// Bytes that were sent to a peer.
    #[must_use]
    pub fn bytes_received(&self, peer: Peer) -> u64 {
        self.hosts[peer.index()].received
    }
}
