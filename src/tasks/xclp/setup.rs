//! The constants of one peer's part in the first exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use zeroize::Zeroizing;

use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::protocol::sum_id::SumId;
use crate::session::{Peer, Session};
use crate::tasks::xclp::shares::input::parcel_bytes;
use crate::tasks::{Hamming, History};
use flyswarm_mpc::propagation::integer::Plan;

/// The computing parties with whom this peer, which was one, computes no more. It outlives a view.
pub(crate) type Excluded = Arc<Mutex<BTreeSet<Peer>>>;

/// The commitment that each owner sent this peer first, whatever became of that view. It outlives a view.
pub(crate) type FirstCommitments = Arc<Mutex<BTreeMap<Peer, [u8; 32]>>>;

/// The constants of one peer's part.
pub(crate) struct Setup {
    /// The session's id.
    pub session: [u8; 32],
    /// The view and the slot.
    pub sum: SumId,
    /// This peer.
    pub me: Peer,
    /// The owners and how many rows each has, in the order of their places.
    pub owners: Vec<(Peer, usize)>,
    /// Who may compute ([`super::parties::candidates`]).
    pub candidates: Vec<Peer>,
    /// The view's members.
    pub members: Vec<Peer>,
    /// What is computed.
    pub plan: Plan,
    /// How distances are made.
    pub hamming: Hamming,
    /// The keys of the view that this peer shares with each other member.
    pub keys: BTreeMap<Peer, Arc<[u8; 32]>>,
    /// 32 fresh secret bytes.
    pub seed: Zeroizing<[u8; 32]>,
    /// This peer's rows, as many as `owners` says; `None` for one without.
    pub rows: Option<Rows>,
    /// With whom this peer computes no more.
    pub out: Excluded,
    /// What owners have committed to.
    pub seen: FirstCommitments,
    /// How long nothing may come from a peer that is waited for, milliseconds.
    pub patience_ms: u64,
    /// How long all may last, milliseconds.
    pub longest_ms: u64,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Setup({}, {:?}, {:?}, <redacted>)", self.me, self.sum, self.candidates)
    }
}

impl Setup {
    /// What an owner shares of a row: the bits of its code, or its parts of the distances to all points.
    #[must_use]
    pub(super) fn width(&self) -> usize {
        let bits = self.plan.settings().bits as usize;
        if self.hamming.is_pairwise() { self.plan.points() } else { bits }
    }

    /// Bytes of an owner's parcel for a party.
    #[must_use]
    pub(super) fn parcel_bytes(&self, rows: usize, place: usize, number: usize) -> usize {
        let width = if self.hamming.is_pairwise() { 2 * self.width() } else { self.width() / 8 };
        parcel_bytes(rows, width, self.plan.classes(), place, number)
    }
}

/// An owner's rows.
#[derive(Clone)]
pub(crate) struct Rows {
    /// Scaled; its labels are not used.
    pub data: Arc<Dataset>,
    /// Of each row its class, where that is known.
    pub labels: Arc<Vec<Option<u16>>>,
    /// Classes that count as having no labels in this view: labels of these are committed to, not shared.
    pub without: Vec<u16>,
    /// The seed of the planes.
    pub planes: [u8; 32],
    /// What makes the commitment tell nothing.
    pub salt: Zeroizing<[u8; 32]>,
}

impl Rows {
    /// The labels that are shared out.
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

/// A row without a direction has no code.
pub(super) fn has_directions(scaled: &Dataset) -> Result<(), String> {
    let zero = (0..scaled.rows()).find(|&row| scaled.row(row).iter().all(|value| *value == 0.0));
    zero.map_or(Ok(()), |row| Err(format!("row {} is zero in every feature: it has no direction", row + 1)))
}

/// The seed of the planes, which follows from the coin.
#[must_use]
pub fn planes(session: &Session, history: &History) -> Option<[u8; 32]> {
    history.seed().map(|coin| *derive(&coin, "planes", &session.id().0))
}
