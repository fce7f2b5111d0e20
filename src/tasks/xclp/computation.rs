//! The computations that an exchange can carry out on shares, each with this owner's input.

use std::sync::Arc;

use bytes::Bytes;
use sha2::Digest;
use zeroize::Zeroizing;

use super::computed::commitment;
use super::setup::Rows;
use super::shares::input::{
    Announced, Inputs, parcel_bytes, parcels, parcels_of_words, unpack, unpack_distances, unpack_words,
};
use super::shares::program;
use super::shares::round::Part;
use crate::crypto::tagged_hash;
use crate::session::Peer;
use crate::sketch::lsh::Codes;
use crate::tasks::Hamming;
use flyswarm_mpc::propagation::integer::Plan;
use flyswarm_mpc::shares::Context;
use flyswarm_mpc::shares::cells::{self, Rule};
use flyswarm_mpc::shares::program::Outcome;

/// A computation that the three computing members carry out.
#[derive(Clone, Debug)]
pub(crate) enum Computation {
    /// Labels by XCLP.
    Labels(Labels),
    /// Cells of tables over the rows of all members, and which of them pass.
    Cells(Cells),
}

/// Labels by XCLP.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// Plan of the computation.
    pub plan: Plan,
    /// Method for making shares of distances.
    pub hamming: Hamming,
    /// This peer's rows, or `None` for a peer without rows. Their number is that in the list of owners.
    pub rows: Option<Rows>,
}

/// Cells of tables over the rows of all members. Every member is an owner of one row: its words.
#[derive(Clone)]
pub(crate) struct Cells {
    /// Conditions that a cell must meet.
    pub rule: Arc<Rule>,
    /// This peer's words.
    pub words: Zeroizing<Vec<u64>>,
    /// Salt that makes the commitment reveal nothing.
    pub salt: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cells({} words, <redacted>)", self.words.len())
    }
}

/// An owner's input after preparation.
pub(super) enum Prepared {
    /// The owner's parcels for computing members 0, 1 and 2, and what it announces.
    Parcels([Bytes; 3], Announced),
    /// The owner's codes and commitment, if it must first make shares of distances with other owners.
    Codes(Arc<Codes>, [u8; 32]),
}

impl Computation {
    /// Returns the parameters of XCLP, if this is the computation.
    pub(super) fn labels(&self) -> Option<&Labels> {
        match self {
            Self::Labels(labels) => Some(labels),
            Self::Cells(_) => None,
        }
    }

    /// Returns whether every two owners make shares of their distances first.
    #[must_use]
    pub(super) fn is_pairwise(&self) -> bool {
        self.labels().is_some_and(|labels| labels.hamming.is_pairwise())
    }

    /// Returns whether this peer is an owner.
    #[must_use]
    pub(super) fn has_input(&self) -> bool {
        self.labels().is_none_or(|labels| labels.rows.is_some())
    }

    /// Returns the job that prepares this owner's input, with an estimate of its additions and
    /// multiplications. Returns `None` if the peer has no input.
    pub(super) fn prepare(
        &self,
        (session, me, place): ([u8; 32], Peer, usize),
        seeds: [Zeroizing<[u8; 32]>; 3],
    ) -> Option<(u64, Box<dyn FnOnce() -> Prepared + Send>)> {
        match self.clone() {
            Self::Labels(Labels { plan, rows, hamming }) => {
                let (rows, bits) = (rows?, plan.settings().bits as usize);
                let work = rows.data.rows() as u64 * rows.data.features() as u64 * bits as u64;
                let run = move || {
                    let codes = Codes::of(&rows.data, &rows.planes, bits)
                        .unwrap_or_else(|| unreachable!("BUG: the session checks the bits of a code"));
                    let commitment = commitment(&session, me, &rows.salt, &codes, &rows.labels);
                    if hamming.is_pairwise() {
                        return Prepared::Codes(Arc::new(codes), commitment);
                    }
                    let parcels = parcels(&codes, &rows.shared(), plan.classes(), place, &seeds);
                    Prepared::Parcels(sealed(&parcels), Announced::of(commitment, &parcels))
                };
                Some((work, Box::new(run)))
            }
            Self::Cells(cells) => {
                let work = cells.words.len() as u64;
                let run = move || {
                    let parcels = parcels_of_words(&cells.words, place, &seeds);
                    let commitment = commitment_to_words(&session, me, &cells.salt, &cells.words);
                    Prepared::Parcels(sealed(&parcels), Announced::of(commitment, &parcels))
                };
                Some((work, Box::new(run)))
            }
        }
    }

    /// Returns the number of words that an owner shares for each row. These are the bits of the row's code,
    /// the owner's shares of the distances to all points, or (for cells) all its words.
    #[must_use]
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Labels(Labels { plan, hamming, .. }) if hamming.is_pairwise() => plan.points(),
            Self::Labels(Labels { plan, .. }) => plan.settings().bits as usize,
            Self::Cells(cells) => cells.rule.words(),
        }
    }

    /// Returns the number of bytes of an owner's parcel for computing member `number`.
    #[must_use]
    pub(super) fn parcel_bytes(&self, rows: usize, place: usize, number: usize) -> usize {
        let (bytes, classes) = match self {
            Self::Labels(Labels { plan, hamming, .. }) if hamming.is_pairwise() => {
                (2 * self.width(), plan.classes())
            }
            Self::Labels(Labels { plan, .. }) => (self.width() / 8, plan.classes()),
            Self::Cells(_) => (8 * self.width(), 0),
        };
        parcel_bytes(rows, bytes, classes, place, number)
    }

    /// Returns the shares that a computing member gets of the input of an owner with `rows` rows, or `None`
    /// if they are invalid.
    pub(super) fn unpack(
        &self,
        parcel: &[u8],
        number: usize,
        announced: &Announced,
        rows: usize,
    ) -> Option<Inputs> {
        let width = self.width();
        match self {
            Self::Labels(Labels { plan, hamming, .. }) => {
                let unpack = if hamming.is_pairwise() { unpack_distances } else { unpack };
                unpack(parcel, number, announced, rows, width, plan.classes())
            }
            Self::Cells(_) => unpack_words(parcel, number, announced, width),
        }
    }

    /// Estimates the work to unpack the inputs of `owners` owners.
    pub(super) fn work_to_unpack(&self, owners: usize) -> u64 {
        let rows = self.labels().map_or(owners, |labels| labels.plan.points());
        rows as u64 * self.width() as u64
    }

    /// Estimates the additions and multiplications of one round. A computation of labels has about 1,500
    /// rounds.
    pub(super) fn work_of_a_round(&self, owners: usize) -> u64 {
        match self {
            Self::Labels(Labels { plan, .. }) => {
                let (n, bits) = (plan.points() as u64, u64::from(plan.settings().bits));
                let spread = 2 * n * n * plan.classes() as u64 * plan.settings().steps as u64;
                (n * n * bits + spread + 300 * n * n) / 1500
            }
            Self::Cells(cells) => {
                let products: usize = cells.rule.scales.iter().map(|scale| scale.products(owners)).sum();
                (4 * owners * cells.rule.lanes() + products) as u64
            }
        }
    }

    /// Returns a number of bytes that no round of the program exceeds.
    pub(super) fn round_limit(&self, owners: usize) -> usize {
        match self {
            // The limit is a word of 64 bits for each pair of points, and a few hundred words for each class
            // or neighbour of a point.
            Self::Labels(Labels { plan, .. }) => round_limit(plan),
            Self::Cells(cells) => cells.rule.round_limit(owners),
        }
    }

    /// Returns the program of a computing member.
    pub(super) fn program(
        &self,
        context: Context,
        inputs: Vec<Inputs>,
        proves: bool,
    ) -> Part<'static, Outcome> {
        match self {
            Self::Labels(Labels { plan, .. }) => program::boxed(context, *plan, inputs, proves),
            Self::Cells(cells) => cells::boxed(context, (*cells.rule).clone(), inputs, proves),
        }
    }
}

/// Returns an owner's commitment to its words.
pub(crate) fn commitment_to_words(
    session: &[u8; 32],
    owner: Peer,
    salt: &[u8; 32],
    words: &[u64],
) -> [u8; 32] {
    let mut hash = tagged_hash("input").chain_update(session).chain_update(owner.0.to_le_bytes());
    hash.update(salt);
    words.iter().for_each(|word| hash.update(word.to_le_bytes()));
    hash.finalize().into()
}

/// Returns the limit for the bytes of a round of XCLP.
pub(super) fn round_limit(plan: &Plan) -> usize {
    let points = plan.points().next_multiple_of(64);
    16 * points * points + 4096 * points * (plan.classes() + plan.k())
}

/// Converts parcels to the bytes that are sent.
pub(super) fn sealed(parcels: &[Zeroizing<Vec<u8>>; 3]) -> [Bytes; 3] {
    parcels.each_ref().map(|parcel| Bytes::copy_from_slice(parcel))
}
