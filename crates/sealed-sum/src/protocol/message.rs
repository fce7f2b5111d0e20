//! Messages between nodes (spec, section "Messages").

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ballot::Ballot;
use super::context::Context;
use super::failure::Failure;
use super::pairwise::ViewKey;
use super::promise::{Begun, Promised};
use super::signed::Signed;
use super::sum_id::SumId;
use super::{all_reduce, transfer, view};
use crate::session::Peer;

/// Version of the messages. A peer with another version is refused.
pub const VERSION: u16 = 5;

/// Message between nodes. The order of the variants is their number on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First message on a connection, in both directions.
    Hello {
        /// Version, see [`VERSION`].
        version: u16,
        /// Id of the sender's session file.
        session: [u8; 32],
        /// Number of slots that the sender has committed.
        committed: u32,
        /// Item that the receiver has signed. It proves the highest ballot in which the sender has seen
        /// the receiver take part.
        trace: Option<Trace>,
    },
    /// Answer to a `Hello` of another session: name and truncated hash of every field of the sender's
    /// file.
    Fields(Vec<(String, [u8; 8])>),
    /// Progress of the sender.
    Status {
        /// Number of slots that the sender has committed.
        committed: u32,
        /// True if the sender is in a view.
        in_view: bool,
    },
    /// Request of a proposer for a committee member's promise.
    Prepare(Ballot),
    /// Promise.
    Promise(Signed<Promised>),
    /// Refusal of a promise for the first ballot. The acceptor is in a view of the second ballot, has
    /// promised the second ballot, or does not promise to this proposer now.
    Refuse(Ballot, Ballot),
    /// Start of a view, forwarded down its tree. Every member computes members and tree from its promises,
    /// and checks that the leader fulfils the obligation that follows from them.
    Begin(Signed<Begun>),
    /// End of a view, forwarded as signed by the peer that ended it.
    Failed(Signed<Failure>),
    /// Message within a view.
    View(view::Message),
    /// Message of the transfer of records, between any two peers.
    Transfer(transfer::Message),
    /// Message between two members of a view whose task has an exchange for the slot. The node does not
    /// read it.
    Exchange {
        /// View and slot.
        sum: SumId,
        /// Message of the task's machine.
        content: Content,
    },
}

/// Message between two machines of an exchange, which only the task reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// On the control channel.
    Short(Bytes),
    /// On the bulk channel: a header, and raw bytes next to it.
    Bulk {
        /// Header, which describes the bytes.
        header: Bytes,
        /// Raw bytes.
        #[serde(skip)]
        data: Bytes,
    },
}

impl Content {
    /// Returns the number of bytes.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Bulk { header, data } => header.len() + data.len(),
        }
    }
}

/// Signed item that proves that its author took part in a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trace {
    /// The author has promised the ballot.
    Promise(Signed<Promised>),
    /// The author was in the view of the ballot.
    Key(Signed<ViewKey>),
}

impl Trace {
    /// Returns the ballot.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        match self {
            Self::Promise(signed) => signed.item.ballot,
            Self::Key(signed) => signed.item.ballot,
        }
    }

    /// Returns the author, if the signature verifies.
    #[must_use]
    pub fn author(&self, ctx: &Context) -> Option<Peer> {
        match self {
            Self::Promise(signed) => signed.verify(ctx).then_some(signed.author),
            Self::Key(signed) => signed.verify(ctx).then_some(signed.author),
        }
    }
}

/// Ordered streams between each pair of peers. The two streams are not ordered against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Channel {
    /// Stream of short messages.
    Control,
    /// Stream of chunks of vectors.
    Bulk,
}

impl Message {
    /// Returns the channel of this message.
    #[must_use]
    pub fn channel(&self) -> Channel {
        match self {
            Self::View(view::Message::Reduce(all_reduce::Message::Chunk { .. }))
            | Self::Transfer(transfer::Message::Head(..) | transfer::Message::Piece { .. })
            | Self::Exchange { content: Content::Bulk { .. }, .. } => Channel::Bulk,
            _ => Channel::Control,
        }
    }

    /// Returns the raw bytes that travel next to the header.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        match self {
            Self::View(view::Message::Reduce(all_reduce::Message::Chunk { data, .. }))
            | Self::Transfer(transfer::Message::Piece { data, .. })
            | Self::Exchange { content: Content::Bulk { data, .. }, .. } => data.clone(),
            _ => Bytes::new(),
        }
    }

    /// Returns the place for the payload of a decoded message, or `None` for a message without a payload.
    pub(super) fn payload_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            Self::View(view::Message::Reduce(all_reduce::Message::Chunk { data, .. }))
            | Self::Transfer(transfer::Message::Piece { data, .. })
            | Self::Exchange { content: Content::Bulk { data, .. }, .. } => Some(data),
            _ => None,
        }
    }
}
