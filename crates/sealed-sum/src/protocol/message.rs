//! Everything that one node says to another (spec, section "Messages").

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

/// Version of the messages; a peer with another one is refused.
pub const VERSION: u16 = 5;

/// One message. The variants' order is their number on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The first message on a connection, both ways.
    Hello {
        /// [`VERSION`].
        version: u16,
        /// Id of the sender's session file.
        session: [u8; 32],
        /// Number of slots that the sender has committed.
        committed: u32,
        /// The highest ballot that the sender has of the receiver's own making: proof that it was there.
        trace: Option<Trace>,
    },
    /// Answer to a `Hello` of another session: name and truncated hash of every field of the sender's file.
    Fields(Vec<(String, [u8; 8])>),
    /// The progress of the sender.
    Status {
        /// Number of slots that it has committed.
        committed: u32,
        /// Whether it is in a view.
        in_view: bool,
    },
    /// A proposer asks a committee member for its promise.
    Prepare(Ballot),
    /// The promise.
    Promise(Signed<Promised>),
    /// No promise: the acceptor is in a view of the second ballot, has promised it, or promises nothing to
    /// this proposer now.
    Refuse(Ballot, Ballot),
    /// A view begins; passed down its tree. Every member computes members and tree from its promises, and
    /// checks that the leader keeps the obligation that follows from them.
    Begin(Signed<Begun>),
    /// The view is over; passed on as who ended it has signed it.
    Failed(Signed<Failure>),
    /// Within a view.
    View(view::Message),
    /// Between any two peers.
    Transfer(transfer::Message),
    /// Between two members of a view whose task has an exchange for the slot. The node does not read it.
    Exchange {
        /// The view and the slot.
        sum: SumId,
        /// The message of the task's machine.
        content: Content,
    },
}

/// A message of one machine of an exchange to another, which the task reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Control channel.
    Short(Bytes),
    /// Bulk channel: a header, and raw bytes beside it.
    Bulk {
        /// The header, which says what the bytes are.
        header: Bytes,
        /// The bytes.
        #[serde(skip)]
        data: Bytes,
    },
}

impl Content {
    /// Its bytes.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Bulk { header, data } => header.len() + data.len(),
        }
    }
}

/// A signed item that shows that its author was in a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trace {
    /// It has promised it.
    Promise(Signed<Promised>),
    /// It was in its view.
    Key(Signed<ViewKey>),
}

impl Trace {
    /// The ballot.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        match self {
            Self::Promise(signed) => signed.item.ballot,
            Self::Key(signed) => signed.item.ballot,
        }
    }

    /// The author, if the signature verifies.
    #[must_use]
    pub fn author(&self, ctx: &Context) -> Option<Peer> {
        match self {
            Self::Promise(signed) => signed.verify(ctx).then_some(signed.author),
            Self::Key(signed) => signed.verify(ctx).then_some(signed.author),
        }
    }
}

/// Two ordered streams between each pair, with no order between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Channel {
    /// Short messages.
    Control,
    /// Chunks of vectors.
    Bulk,
}

impl Message {
    /// The channel that this message travels on.
    #[must_use]
    pub fn channel(&self) -> Channel {
        match self {
            Self::View(view::Message::Reduce(all_reduce::Message::Chunk { .. }))
            | Self::Transfer(transfer::Message::Head(..) | transfer::Message::Piece { .. })
            | Self::Exchange { content: Content::Bulk { .. }, .. } => Channel::Bulk,
            _ => Channel::Control,
        }
    }

    /// The raw bytes that travel beside the header.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        match self {
            Self::View(view::Message::Reduce(all_reduce::Message::Chunk { data, .. }))
            | Self::Transfer(transfer::Message::Piece { data, .. })
            | Self::Exchange { content: Content::Bulk { data, .. }, .. } => data.clone(),
            _ => Bytes::new(),
        }
    }

    /// Where a decoded message wants its payload; `None` for one that has none.
    pub(super) fn payload_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            Self::View(view::Message::Reduce(all_reduce::Message::Chunk { data, .. }))
            | Self::Transfer(transfer::Message::Piece { data, .. })
            | Self::Exchange { content: Content::Bulk { data, .. }, .. } => Some(data),
            _ => None,
        }
    }
}
