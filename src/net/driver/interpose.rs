//! What may stand between a node and its network. This program puts nothing there; the conformance kit does.

use std::fmt::Debug;

use crate::protocol::message::Message;
use crate::protocol::view::Stage;
use crate::protocol::wire::Frame;
use crate::session::Peer;

/// Stands between a node and its network: it sees each message before it is sent, and each stage.
pub trait Interpose: Debug + Send {
    /// What is sent in place of `message`; `None` if it is sent as it is.
    fn send(&mut self, to: Peer, message: &Message) -> Option<Sent> {
        let _ = (to, message);
        None
    }

    /// Whether the node stops at this stage until it is told to leave. Its connections stay alive.
    fn stops_at(&self, slot: u32, stage: Stage) -> bool {
        let _ = (slot, stage);
        false
    }

    /// The most bytes that are written at once; `None` for the usual number.
    fn piece(&self) -> Option<usize> {
        None
    }

    /// The seed of everything that the node draws; `None` if the operating system draws it.
    fn seed(&self) -> Option<[u8; 32]> {
        None
    }
}

/// What is sent in place of a message.
#[derive(Debug)]
pub struct Sent {
    /// The frames, each with its receiver.
    pub frames: Vec<(Peer, Frame)>,
    /// The peer to which the node behaves differently from now on; given once.
    pub begins: Option<Peer>,
}
