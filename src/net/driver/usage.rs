//! The time and bytes that a run has used, and the peers that had no result when it ended.

use super::Driver;
use crate::protocol::view::Stage;
use crate::session::Peer;

/// Bytes and seconds of one stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Seconds that this node spent in the stage.
    pub seconds: f64,
    /// Bytes of frames that this node sent in the stage.
    pub bytes: u64,
}

/// Time and bytes that a finished run used.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Each stage of a slot with its cost, in the order in which the stages were last entered; `None` is the
    /// time before the first view.
    pub stages: Vec<(Option<(u32, Stage)>, Spent)>,
    /// Bytes of frames sent in total.
    pub bytes_sent: u64,
    /// Bytes of frames received in total.
    pub bytes_received: u64,
    /// Peers that have not confirmed the result. If the run serves only certain peers, only these are listed.
    pub(crate) unfinished: Vec<Peer>,
}

impl Driver<'_> {
    /// Returns the peers that have not confirmed the result. If this run serves only certain peers, only
    /// these are listed.
    pub(super) fn unfinished(&self) -> Vec<Peer> {
        let asked = |peer: &Peer| self.serves.is_empty() || self.serves.contains(peer);
        self.node.unfinished().into_iter().filter(asked).collect()
    }

    /// Returns whether this run serves certain peers and has served them all.
    pub(super) fn has_served(&self) -> bool {
        self.finished && !self.serves.is_empty() && self.unfinished().is_empty()
    }
}
