//! What a node waits for now, for people who look at it.

use serde::Serialize;

use crate::protocol::Time;
use crate::session::Peer;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Awaited {
    /// The peers of the roster, before the first view; then it begins with those that are there.
    Roster,
    /// Enough peers; then this peer gives up.
    Enough,
    /// A view, which the committee proposes; then this peer gives up.
    View,
    /// Others, who go on without this peer.
    Others,
    /// Connections that the view needs; then it fails.
    Connections,
    /// A word of a neighbour in the tree; then the view fails.
    Word,
    /// The messages of an exchange, which has time-outs of its own.
    Exchange,
    /// This peer's own computation; then it gives up.
    Computation,
    /// The others' results; then this peer leaves.
    Results,
}

/// What a node waits for: whom, ascending and possibly nobody, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// What is awaited.
    pub what: Awaited,
    /// The peers that must act.
    pub peers: Vec<Peer>,
    /// When the node stops waiting.
    pub until: Option<Time>,
}

impl Waits {
    pub(super) fn new(what: Awaited, peers: Vec<Peer>, until: Time) -> Self {
        Self { what, peers, until: Some(until) }
    }
}
