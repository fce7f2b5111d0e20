//! Counts the frames and bytes that each peer sends, by purpose and by stage, and records the stages of
//! each peer.

use serde::{Deserialize, Serialize};

use crate::protocol::message::Message;
use crate::protocol::view::{self, Order, Report, Stage};
use crate::protocol::{Time, all_reduce};
use crate::session::Peer;

/// Purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Hellos and lists of differing fields.
    Greeting,
    /// The number of committed slots, sent to peers outside the view.
    Status,
    /// Proposals, promises and refusals, and the beginning and failure of views.
    Election,
    /// View keys up and down the tree.
    Keys,
    /// Orders to sum, and reports that a subtree holds the total, with the deals of the pads.
    Deals,
    /// Chunks, up and down.
    Chunks,
    /// Credits for chunks.
    Credits,
    /// The value to be decided, and the committee's acknowledgements, up and down.
    Decision,
    /// The committee's shares of the pads, up and down.
    Shares,
    /// Reports that a peer is still computing.
    Working,
    /// Vectors and records that a peer fetches from another one.
    Transfer,
    /// Messages of an exchange (task `xclp`).
    Exchange,
}

/// All purposes, in display order.
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
    /// Returns the purpose of `message`.
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
                view::Message::Up(_, Report::Keys(_) | Report::Reveal(_))
                | view::Message::Down(_, Order::Keys(_) | Order::Reveal(_)) => Self::Keys,
                view::Message::Up(_, Report::TotalReady { .. }) | view::Message::Down(_, Order::Sum(_)) => {
                    Self::Deals
                }
                view::Message::Up(_, Report::Acknowledge(..))
                | view::Message::Down(_, Order::Accept(_) | Order::Decide(..)) => Self::Decision,
                view::Message::Up(_, Report::Release(..)) | view::Message::Down(_, Order::Open(..)) => {
                    Self::Shares
                }
                view::Message::Reduce(all_reduce::Message::Chunk { .. }) => Self::Chunks,
                view::Message::Reduce(all_reduce::Message::Credit { .. }) => Self::Credits,
                view::Message::KeepAlive(_) => Self::Working,
            },
        }
    }
}

/// A number of messages and of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the frames, headers and payloads.
    pub bytes: u64,
}

impl Count {
    /// Adds a message of this size.
    pub fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// A period that a peer spent in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Beginning, in virtual microseconds.
    pub from: u64,
    /// End, in virtual microseconds.
    pub to: u64,
    /// Slot.
    pub slot: u32,
    /// The stage, or `None` outside views.
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

/// Counts of all peers.
#[derive(Clone, Debug)]
pub struct Tally {
    hosts: Vec<Host>,
}

impl Tally {
    /// Makes counts for this number of peers, all 0.
    #[must_use]
    pub fn new(peers: u16) -> Self {
        Self { hosts: vec![Host::default(); usize::from(peers)] }
    }

    /// Counts a frame that `from` sends.
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

    /// Counts a frame that is sent to this peer.
    pub fn received(&mut self, to: Peer, bytes: usize) {
        self.hosts[to.index()].received += bytes as u64;
    }

    /// Records that a peer enters a stage, or leaves its view (`None`).
    pub fn enters(&mut self, now: Time, peer: Peer, slot: u32, stage: Option<Stage>) {
        let spans = &mut self.hosts[peer.index()].spans;
        if let Some(last) = spans.last_mut() {
            last.to = now.0;
        }
        spans.push(Span { from: now.0, to: now.0, slot, stage });
    }

    /// Records that a peer's process ends.
    pub fn ends(&mut self, now: Time, peer: Peer) {
        self.enters(now, peer, 0, None);
    }

    /// Returns the stages of a peer, in their order.
    #[must_use]
    pub fn spans(&self, peer: Peer) -> &[Span] {
        &self.hosts[peer.index()].spans
    }

    /// Returns the frames that a peer has sent, by purpose in the order of [`PURPOSES`].
    #[must_use]
    pub fn purposes(&self, peer: Peer) -> &[Count; PURPOSES.len()] {
        &self.hosts[peer.index()].purposes
    }

    /// Returns the frames that a peer has sent in each stage.
    #[must_use]
    pub fn stages(&self, peer: Peer) -> &[((u32, Option<Stage>), Count)] {
        &self.hosts[peer.index()].stages
    }

    /// Returns the bytes that were sent to a peer.
    #[must_use]
    pub fn bytes_received(&self, peer: Peer) -> u64 {
        self.hosts[peer.index()].received
    }
}
