//! The messages on a view's tree, and the names of its stages and ends.

use serde::{Deserialize, Serialize};

use crate::protocol::all_reduce;
use crate::protocol::ballot::Ballot;
use crate::protocol::deal::{Deal, Release};
use crate::protocol::pairwise::{Reveal, ViewKey};
use crate::protocol::record::{Acknowledgement, Record};
use crate::protocol::signed::Signed;

/// A message on an edge of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The report of a subtree, to the parent.
    Up(Ballot, Report),
    /// An order of the leader, to the children.
    Down(Ballot, Order),
    /// A part of the running sum.
    Reduce(all_reduce::Message),
    /// A peer in this subtree (to the parent) or anywhere (to the children) is computing.
    KeepAlive(Ballot),
}

impl Message {
    /// The view to which it belongs.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        use all_reduce::Message as Reduce;
        match self {
            Self::Up(ballot, _) | Self::Down(ballot, _) | Self::KeepAlive(ballot) => *ballot,
            Self::Reduce(Reduce::Chunk { sum, .. } | Reduce::Credit { sum, .. }) => sum.ballot,
        }
    }
}

/// One subtree's part of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Every member's key.
    Keys(Vec<Signed<ViewKey>>),
    /// The whole subtree holds the total of this digest; the dealers' deals.
    TotalReady {
        /// The slot.
        slot: u32,
        /// See `all_reduce::total_digest`.
        total: [u8; 32],
        /// The deals of the dealers in the subtree.
        deals: Vec<Signed<Deal>>,
    },
    /// The committee's acknowledgements.
    Acknowledge(u32, Vec<Signed<Acknowledgement>>),
    /// The committee's shares of the pads.
    Release(u32, Vec<Signed<Release>>),
    /// Large views: the committee's parts of the draw of the mask graph.
    Reveal(Vec<Signed<Reveal>>),
}

/// An order of the leader to all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Every member's key.
    Keys(Vec<Signed<ViewKey>>),
    /// Sum this slot.
    Sum(u32),
    /// Acknowledge this value.
    Accept(Record),
    /// A majority has acknowledged it.
    Decide(u32, Vec<Signed<Acknowledgement>>),
    /// The shares that open it.
    Open(u32, Vec<Signed<Release>>),
    /// Large views: what the mask graph is drawn from.
    Reveal(Vec<Signed<Reveal>>),
}

/// The stages of a slot, for people and for tests that stop a node there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Exchanging the keys of the view.
    Keys,
    /// Making this peer's own vector.
    Compute,
    /// Summing.
    Sum,
    /// Acknowledging the sealed total.
    Accept,
    /// Releasing the shares of the pads.
    Release,
    /// Opening the total.
    Open,
}

/// Why a view ended without having gone through the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// A connection that the view needs is gone.
    Lost,
    /// No progress for `stall_ms`.
    Stalled,
    /// A peer broke a rule.
    Fault,
    /// A peer left on purpose.
    Left,
    /// A proposer with a higher ballot has its majority.
    Superseded,
    /// The members are too few for a new sum.
    TooFew,
    /// A peer's totals, keys or shares do not fit together, and it cannot be said whose fault it is.
    Disagreement,
    /// A slot is committed and peers outside the view wait: the leader proposes a larger one.
    Enlarged,
    /// The members lack a peer that one of them is connected to.
    Omitted,
}
