//! A layer between a node and its network. This program does not use one; the conformance kit does.

use std::fmt::Debug;

use crate::protocol::message::Message;
use crate::protocol::view::Stage;
use crate::protocol::wire::Frame;
use crate::session::Peer;

/// A layer between a node and its network: it sees each message before the message is sent, and each stage.
pub trait Interpose: Debug + Send {
    /// Returns the frames that replace `message`, or `None` to send it unchanged.
    fn send(&mut self, to: Peer, message: &Message) -> Option<Sent> {
        let _ = (to, message);
        None
    }

    /// Returns whether the node stops at this stage. It then does nothing until it is asked to leave, but
    /// keeps its connections.
    fn stops_at(&self, slot: u32, stage: Stage) -> bool {
        let _ = (slot, stage);
        false
    }

    /// Returns the maximum number of bytes that are written at once, or `None` for the default.
    fn piece(&self) -> Option<usize> {
        None
    }

    /// Returns the seed of all random values of the node, or `None` if the operating system draws it.
    fn seed(&self) -> Option<[u8; 32]> {
        None
    }
}

/// The frames that replace a message.
#[derive(Debug)]
pub struct Sent {
    /// Frames, each with its receiver.
    pub frames: Vec<(Peer, Frame)>,
    /// Peer that is treated differently from now on. It is set only once.
    pub begins: Option<Peer>,
}
