//! The end of a view, as who ended it has signed it: passed on unchanged, so that nobody ends a view in
//! another's name.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;
use super::context::Context;
use super::signed::Item;
use super::view::Reason;
use crate::session::Peer;

/// Why a member's part in a view is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The view.
    pub ballot: Ballot,
    /// Why.
    pub reason: Reason,
    /// The peer that was lost, stalled or broke a rule, as far as the author knows.
    pub suspect: Option<Peer>,
}

impl Item for Failure {
    const TAG: &'static str = "failure";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}
