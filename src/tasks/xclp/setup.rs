//! The constants of one peer's machine in the first exchange.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zeroize::Zeroizing;

use crate::crypto::agreement::SharedKey;
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::protocol::context::Context;
use crate::protocol::marks::Marks;
use crate::protocol::sum_id::SumId;
use crate::session::{Peer, Session};
use crate::tasks::History;
use crate::tasks::exchange::Seat;
use crate::tasks::xclp::computation::Computation;

/// First commitment that each owner sent this peer, even if that view failed. The map is kept for later
/// views.
pub(crate) type FirstCommitments = Arc<Mutex<BTreeMap<Peer, [u8; 32]>>>;

/// The constants of one peer's machine.
pub(crate) struct Setup {
    /// Constants of the node.
    pub ctx: Arc<Context>,
    /// The view and the slot.
    pub sum: SumId,
    /// Owners and their numbers of rows, in the order of their places.
    pub owners: Vec<(Peer, usize)>,
    /// Peers that may compute ([`super::parties::candidates`]).
    pub candidates: Vec<Peer>,
    /// The view's members.
    pub members: Vec<Peer>,
    /// The computation, with this peer's input.
    pub computation: Computation,
    /// True if the computing members prove their messages.
    pub proves: bool,
    /// The view keys that this peer shares with each other member.
    pub keys: BTreeMap<Peer, SharedKey>,
    /// 32 fresh secret bytes.
    pub seed: Zeroizing<[u8; 32]>,
    /// Marks in the promises of the view.
    pub marks: Marks,
    /// Commitments of the owners.
    pub seen: FirstCommitments,
    /// Longest silence of a peer that this one waits for, in milliseconds.
    pub patience_ms: u64,
    /// Longest duration of the exchange, in milliseconds.
    pub longest_ms: u64,
}

impl Setup {
    /// Returns the constants of this seat. `seen` has the commitments of earlier views.
    pub(crate) fn of(
        seat: Seat,
        owners: Vec<(Peer, usize)>,
        candidates: Vec<Peer>,
        computation: Computation,
        proves: bool,
        seen: &FirstCommitments,
    ) -> Self {
        Self {
            ctx: seat.ctx,
            sum: seat.sum,
            owners,
            candidates,
            members: seat.members,
            computation,
            proves,
            keys: seat.keys,
            seed: Zeroizing::new(seat.seed),
            marks: seat.marks,
            seen: Arc::clone(seen),
            patience_ms: seat.patience_ms,
            longest_ms: seat.longest_ms,
        }
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Setup({}, {:?}, {:?}, <redacted>)", self.ctx.me, self.sum, self.candidates)
    }
}

/// An owner's rows.
#[derive(Clone)]
pub(crate) struct Rows {
    /// Scaled data; its labels are not used.
    pub data: Arc<Dataset>,
    /// Class of each row, if it is known.
    pub labels: Arc<Vec<Option<u16>>>,
    /// Classes that count as having no labels in this view: the owner's commitment includes its labels of
    /// these classes, but it does not share them.
    pub without: Vec<u16>,
    /// Seed of the planes.
    pub planes: [u8; 32],
    /// Salt that makes the commitment reveal nothing.
    pub salt: Zeroizing<[u8; 32]>,
}

impl Rows {
    /// Returns the labels that the owner shares.
    #[must_use]
    pub(super) fn shared(&self) -> Vec<Option<u16>> {
        self.labels.iter().map(|label| label.filter(|label| !self.without.contains(label))).collect()
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rows({}, <redacted>)", self.data.rows())
    }
}

/// Checks that each row has a direction, because the code of a row is made from its direction.
pub(super) fn has_directions(scaled: &Dataset) -> Result<(), String> {
    let zero = (0..scaled.rows()).find(|&row| scaled.row(row).iter().all(|value| *value == 0.0));
    zero.map_or(Ok(()), |row| Err(format!("row {} is zero in every feature: it has no direction", row + 1)))
}

/// Returns the seed of the planes, which follows from the coin.
#[must_use]
pub fn planes(session: &Session, history: &History) -> Option<[u8; 32]> {
    history.seed().map(|coin| *derive(&coin, "planes", &session.id().0))
}
