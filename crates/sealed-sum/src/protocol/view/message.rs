//! Messages on a view's tree, and the names of its stages and ends.

use serde::{Deserialize, Serialize};

use crate::protocol::all_reduce;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::deal::{Deal, Release};
use crate::protocol::pairwise::{Reveal, ViewKey};
use crate::protocol::record::{Acknowledgement, Record};
use crate::protocol::signed::{Item, Signed};

/// Message on an edge of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Report of a subtree, to the parent.
    Up(Ballot, Report),
    /// Order of the leader, to the children.
    Down(Ballot, Order),
    /// Message of the running sum.
    Reduce(all_reduce::Message),
    /// Sign that the sender is in the view.
    KeepAlive(Ballot),
}

impl Message {
    /// Returns the view of the message.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        use all_reduce::Message as Reduce;
        match self {
            Self::Up(ballot, _) | Self::Down(ballot, _) | Self::KeepAlive(ballot) => *ballot,
            Self::Reduce(Reduce::Chunk { sum, .. } | Reduce::Credit { sum, .. }) => sum.ballot,
        }
    }
}

/// Part of one subtree in a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Keys of all members.
    Keys(Vec<Signed<ViewKey>>),
    /// The whole subtree holds the total of this digest. Contains the deals of the dealers.
    TotalReady {
        /// Slot.
        slot: u32,
        /// Digest, see `all_reduce::total_digest`.
        total: [u8; 32],
        /// Deals of the dealers in the subtree.
        deals: Vec<Signed<Deal>>,
    },
    /// Acknowledgements of the committee.
    Acknowledge(u32, Vec<Signed<Acknowledgement>>),
    /// Shares of the pads from the committee.
    Release(u32, Vec<Signed<Release>>),
    /// Large views: the committee's parts of the draw of the mask graph.
    Reveal(Vec<Signed<Reveal>>),
}

/// Order of the leader to all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Keys of all members.
    Keys(Vec<Signed<ViewKey>>),
    /// Sum this slot.
    Sum(u32),
    /// Acknowledge this value.
    Accept(Record),
    /// Acknowledgements of a quorum: the value is decided.
    Decide(u32, Vec<Signed<Acknowledgement>>),
    /// Shares that open the sum.
    Open(u32, Vec<Signed<Release>>),
    /// Large views: all parts of the draw of the mask graph.
    Reveal(Vec<Signed<Reveal>>),
}

impl Order {
    /// Returns whether each list has at most the length that the session allows ([`Item::has_lengths`]).
    pub(super) fn has_lengths(&self, ctx: &Context) -> bool {
        fn all<T: Item>(ctx: &Context, items: &[Signed<T>], most: usize) -> bool {
            items.len() <= most && items.iter().all(|each| each.item.has_lengths(ctx))
        }
        let (peers, committee) = (ctx.peers().into(), ctx.committee.len());
        match self {
            Self::Sum(_) => true,
            Self::Keys(items) => all(ctx, items, peers),
            Self::Reveal(items) => all(ctx, items, committee),
            Self::Accept(record) => record.value.members.len() <= peers && all(ctx, &record.deals, committee),
            Self::Decide(_, items) => all(ctx, items, committee),
            Self::Open(_, items) => all(ctx, items, committee),
        }
    }
}

/// Stages of a slot, for people and for tests that stop a node there.
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

/// Reason why a view ended before the end of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The connection to the suspect is gone.
    Lost,
    /// The suspect did not send in time the data that the author waited for.
    Stalled,
    /// The suspect broke a rule.
    Fault,
    /// The author leaves on purpose.
    Left,
    /// The suspect forwarded data that contradict the author's data.
    Disagreement,
    /// The leader ends the view, to add peers or because the members cannot continue.
    Ended,
}
