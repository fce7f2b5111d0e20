//! The events of a node.

use std::sync::Arc;

use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::tree::Tree;
use crate::protocol::view::{Reason, Stage};
use crate::session::{Peer, Settings};
use crate::task::History;
use crate::task::exchange::Roles;

/// An event that a node reports to its user.
#[derive(Clone, Debug)]
pub enum Event {
    /// A peer is connected and has the same session.
    Joined(Peer),
    /// The connection to a peer is gone.
    Lost(Peer),
    /// A peer has another protocol version or session file; the fields that differ.
    Refused(Peer, Vec<String>),
    /// This peer has lost its stored state of this session, as another one (named) has shown by its
    /// signature, or as its own mark beside the key says: it takes part, and does not vote.
    StateLost(Option<Peer>),
    /// A view began, with these members in this tree.
    ViewBegan(Ballot, Arc<Tree>),
    /// A view failed: by whose word, for which reason, and because of whom, if anybody.
    ViewFailed(Ballot, Peer, Reason, Option<Peer>),
    /// The view waits for a connection to this peer: the driver should make one at once.
    NeedsConnection(Peer),
    /// A stage of a slot began.
    Stage(u32, Stage),
    /// A slot is committed: the view in which it was summed, and the members.
    Opened(Value),
    /// What the task says of its progress, by the slot that is committed.
    Figures(u32, serde_json::Map<String, serde_json::Value>),
    /// The exchange of the view begins, with these roles.
    Exchange(Roles),
    /// Every slot is committed.
    Finished(Arc<History>),
    /// No peer needs this node any more; the driver may stop.
    Done,
    /// The session cannot be finished here; the driver must stop.
    Ended(Ending),
}

/// The reason why a node gives up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// Too few peers were reachable for too long.
    #[error("{0}")]
    TooFew(String),
    /// `max_views` views have failed.
    #[error("{0} views have failed; the last one because {1}")]
    TooManyViews(u64, String),
    /// The rules of the session forbid going on.
    #[error("{0}")]
    Refused(String),
    /// This peer's own data or computation failed.
    #[error("{0}")]
    Own(String),
    /// A decided sum cannot be opened.
    #[error("{0}")]
    Unopenable(String),
}

/// Why a view failed, for [`Ending::TooManyViews`]. One word stands against another.
pub(super) fn reason_text(session: &Settings, author: Peer, reason: Reason, suspect: Option<Peer>) -> String {
    let Some(suspect) = suspect else { return format!("its leader {} ended it", session.name(author)) };
    let (author, suspect) = (session.name(author), session.name(suspect));
    let said = match reason {
        Reason::Lost => format!("that its connection to {suspect} was lost"),
        Reason::Stalled => format!("that nothing came from {suspect}"),
        Reason::Fault => format!("that {suspect} broke a rule"),
        Reason::Disagreement => format!("that it holds something else than {suspect}"),
        Reason::Left | Reason::Ended => return format!("{author} left"),
    };
    format!("{author} said {said}")
}
