//! End of a view, signed by the peer that ended it. It is forwarded unchanged, so no peer can end a view
//! in another peer's name.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;
use super::context::Context;
use super::marks::Mark;
use super::signed::{Item, Signed};
use super::view::Reason;
use crate::session::Peer;

/// Reason why a member's part in a view is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// View.
    pub ballot: Ballot,
    /// Number of slots that were committed in the view.
    pub slot: u32,
    /// Reason.
    pub reason: Reason,
    /// Member that caused the failure, or `None` if the leader ends its own view.
    pub suspect: Option<Peer>,
}

impl Item for Failure {
    const TAG: &'static str = "failure";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

impl Signed<Failure> {
    /// Returns the mark between the author and the suspect, if the failure names another peer.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        let Failure { ballot, slot, suspect, .. } = self.item;
        let author = self.author;
        suspect.filter(|suspect| *suspect != author).map(|suspect| Mark { ballot, author, suspect, slot })
    }

    /// Returns the author and the suspect, if the author claims in an exchange that the suspect broke a rule
    /// or disagrees with it.
    #[must_use]
    pub fn accusation(&self, ctx: &Context) -> Option<(Peer, Peer)> {
        let accuses = matches!(self.item.reason, Reason::Fault | Reason::Disagreement);
        let mark = self.mark().filter(|mark| accuses && ctx.exchanges(mark.slot))?;
        Some((mark.author, mark.suspect))
    }
}
