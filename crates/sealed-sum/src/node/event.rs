//! The events of a node.

use std::sync::Arc;

use bytes::Bytes;

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
    /// A peer has another protocol version or session file; these fields differ.
    Refused(Peer, Vec<String>),
    /// This peer has lost its stored state of this session. The named peer has shown this by a signature
    /// of this peer; without a name, the mark next to this peer's key has shown it. This peer takes part,
    /// and does not vote.
    StateLost(Option<Peer>),
    /// A view began, with these members in this tree.
    ViewBegan(Ballot, Arc<Tree>),
    /// A view failed: the author of the failure, its reason, and the suspect, if there is one.
    ViewFailed(Ballot, Peer, Reason, Option<Peer>),
    /// The view waits for a connection to this peer: the driver should make one at once.
    NeedsConnection(Peer),
    /// A stage of a slot began.
    Stage(u32, Stage),
    /// A slot is committed; the value has the view of the sum and its members.
    Opened(Value),
    /// Committed slot, and the task's figures of progress.
    Figures(u32, serde_json::Map<String, serde_json::Value>),
    /// The exchange of the view begins, with these roles.
    Exchange(Roles),
    /// Signed statements show that one of these peers deviates. A third party can check these
    /// statements.
    Named(Vec<Peer>, Bytes),
    /// Every slot is committed.
    Finished(Arc<History>),
    /// No peer needs this node any more; the driver may stop.
    Done,
    /// The session cannot be finished here; the driver must stop.
    Ended(Ending),
}

/// Reason why a node gives up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// Too few peers were reachable for too long.
    #[error("{0}")]
    TooFew(String),
    /// `max_views` views have failed.
    #[error("{0} views have failed; the last one because {1}")]
    TooManyViews(u64, String),
    /// The rules of the session forbid continuing.
    #[error("{0}")]
    Refused(String),
    /// This peer's own data or computation failed.
    #[error("{0}")]
    Own(String),
}

/// Returns the reason why a view failed, for [`Ending::TooManyViews`]. It is one peer's claim about another.
pub(super) fn reason_text(session: &Settings, author: Peer, reason: Reason, suspect: Option<Peer>) -> String {
    let Some(suspect) = suspect else { return format!("its leader {} ended it", session.name(author)) };
    let (author, suspect) = (session.name(author), session.name(suspect));
    let said = match reason {
        Reason::Lost => format!("that its connection to {suspect} was lost"),
        Reason::Stalled => format!("that nothing came from {suspect}"),
        Reason::Fault => format!("that {suspect} broke a rule"),
        Reason::Disagreement => format!("that its data differ from those of {suspect}"),
        Reason::Left | Reason::Ended => return format!("{author} left"),
    };
    format!("{author} said {said}")
}
