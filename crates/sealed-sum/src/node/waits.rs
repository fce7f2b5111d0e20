//! The present wait of a node, for display.

use serde::Serialize;

use crate::protocol::Time;
use crate::session::Peer;

/// Kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Awaited {
    /// The peers of the roster, before the first view. On time-out, the view begins with the connected peers.
    Roster,
    /// Enough peers. On time-out, this peer gives up.
    Enough,
    /// A view, which the committee proposes. On time-out, this peer gives up.
    View,
    /// Other peers, which continue without this one.
    Others,
    /// Connections that the view needs. On time-out, the view fails.
    Connections,
    /// A message of a neighbour in the tree. On time-out, the view fails.
    Word,
    /// The messages of an exchange, which has its own time-outs.
    Exchange,
    /// This peer's own computation. On time-out, this peer gives up.
    Computation,
    /// The results of the other peers. On time-out, this peer leaves.
    Results,
}

/// Wait of a node: its kind, the awaited peers and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Kind of the wait.
    pub what: Awaited,
    /// Peers that must act, ascending; may be empty.
    pub peers: Vec<Peer>,
    /// Time at which the node stops waiting.
    pub until: Option<Time>,
}

impl Waits {
    pub(super) fn new(what: Awaited, peers: Vec<Peer>, until: Time) -> Self {
        Self { what, peers, until: Some(until) }
    }
}
