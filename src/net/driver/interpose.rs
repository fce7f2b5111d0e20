//! A hook for checks of other programs: what a node sends may be changed on its way out.

use std::fmt::Debug;

use crate::protocol::message::Message;
use crate::protocol::wire::Frame;
use crate::session::Peer;

/// Changes what a node sends, so that it deviates from the protocol.
pub trait Tamper: Debug + Send {
    /// What is sent in place of `message`; `None` where it is sent as it is.
    fn send(&mut self, to: Peer, message: &Message) -> Option<Sent>;

    /// The most bytes that are written at once, where that is another number than usual.
    fn piece(&self) -> Option<usize>;
}

/// What is sent in place of a message.
#[derive(Debug)]
pub struct Sent {
    /// To whom, and what.
    pub frames: Vec<(Peer, Frame)>,
    /// Whom the node begins to deviate towards, the first time.
    pub begins: Option<Peer>,
}
