//! The end of a view, as who ended it has signed it: passed on unchanged, so that nobody ends a view in
//! another's name.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;
use super::context::Context;
use super::marks::Mark;
use super::signed::{Item, Signed};
use super::view::Reason;
use crate::session::Peer;

/// Why a member's part in a view is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The view.
    pub ballot: Ballot,
    /// The number of slots that were committed in it.
    pub slot: u32,
    /// Why.
    pub reason: Reason,
    /// The member because of which; `None` if the leader ends its own view.
    pub suspect: Option<Peer>,
}

impl Item for Failure {
    const TAG: &'static str = "failure";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

impl Signed<Failure> {
    /// What it says of two peers, if it names one.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        let Failure { ballot, slot, suspect, .. } = self.item;
        let author = self.author;
        suspect.filter(|suspect| *suspect != author).map(|suspect| Mark { ballot, author, suspect, slot })
    }
}
