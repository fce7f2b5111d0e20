//! What a run has used, and whom it has left without a result.

use super::Driver;
use crate::protocol::view::Stage;
use crate::session::Peer;

/// Bytes and seconds of one stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Time this node was in the stage.
    pub seconds: f64,
    /// Frame bytes it sent meanwhile.
    pub bytes: u64,
}

/// Time and bytes that a finished run used.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// (slot, stage) in order of first entry; before the first view: `None`.
    pub stages: Vec<(Option<(u32, Stage)>, Spent)>,
    /// Frame bytes sent in all.
    pub bytes_sent: u64,
    /// Frame bytes received in all.
    pub bytes_received: u64,
    /// Peers that have not said that they have the result; of those that the run was to serve, if it was.
    pub(crate) unfinished: Vec<Peer>,
}

impl Driver<'_> {
    /// Peers that have not said that they have the result; of those that this run is to serve, if it is.
    pub(super) fn unfinished(&self) -> Vec<Peer> {
        let asked = |peer: &Peer| self.serves.is_empty() || self.serves.contains(peer);
        self.node.unfinished().into_iter().filter(asked).collect()
    }

    /// Whether this run is to serve certain peers, and has.
    pub(super) fn has_served(&self) -> bool {
        self.finished && !self.serves.is_empty() && self.unfinished().is_empty()
    }
}
