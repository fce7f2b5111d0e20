//! A layer between a node and its network. This program uses none; the conformance kit does.

use std::fmt::Debug;

use crate::protocol::message::Message;
use crate::protocol::view::Stage;
use crate::protocol::wire::Frame;
use crate::session::Peer;

/// A layer between a node and its network: it sees each message before it is sent, and each stage.
pub trait Interpose: Debug + Send {
    /// Returns the frames that replace `message`; `None` to send it unchanged.
    fn send(&mut self, to: Peer, message: &Message) -> Option<Sent> {
        let _ = (to, message);
        None
    }

    /// Returns whether the node stops at this stage until it leaves on request. Its connections stay
    /// alive.
    fn stops_at(&self, slot: u32, stage: Stage) -> bool {
        let _ = (slot, stage);
        false
    }

    /// Returns the maximum number of bytes that are written at once; `None` for the default.
    fn piece(&self) -> Option<usize> {
        None
    }

    /// Returns the seed of all random values of the node; `None` if the operating system draws it.
    fn seed(&self) -> Option<[u8; 32]> {
        None
    }
}

/// Replacement of a message.
#[derive(Debug)]
pub struct Sent {
    /// Frames, each with its receiver.
    pub frames: Vec<(Peer, Frame)>,
    /// Peer that is treated differently from now on; set once.
    pub begins: Option<Peer>,
}
