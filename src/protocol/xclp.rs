//! XCLP with no server: labels spread over everybody's points, and nobody sees the graph but two propagators,
//! who see nothing else (Scott, Yeo & Lampert, *Cross-client Label Propagation*, TMLR 2023, Algorithm 1;
//! spec, section "XCLP").
//!
//! One [`Exchange`] is one peer's part in one view and [`Stage`]; each stage is for a sum of its own, so that
//! what the first gave is decided before the second begins, and whoever is lost later costs no distances
//! again. Who does what is drawn by the coin ([`roles`]):
//!
//! | step | who | sends | to |
//! | --- | --- | --- | --- |
//! | planes | owner | a commitment, then its part of the seed of the planes | owners |
//! | distances | dealer, owners | what gives two owners shares of their distances (`hamming.rs`): by a dealt triple ([`dealer`]), oblivious transfer ([`ot`]) or homomorphic encryption ([`phe`]) | owners |
//! | shares | both owners | blinded shares of the distances, each side of the block for itself ([`custody`]) | its custodian |
//! | smallest | custodian | the k smallest distances of each row, not whose | the rows' owner |
//! | limits | owner | the distance below which a row's edges are | its custodians |
//! | edges | custodians, owner | the distances below the limits | both propagators |
//! | keys | owner | what undoes the blinding | both propagators |
//! | graph | propagator | the graph's digest | the other propagator |
//! | *second stage* | | | |
//! | edges | a propagator | the edges of the graph | the one that takes a lost one's place |
//! | labels | owner | masked labels; the seed of the mask ([`shares`]) | first propagator; second |
//! | scores | propagators | the owner's rows of the propagated shares | owner |
//!
//! Everything travels directly between the two peers, under Noise. Vectors travel as parcels, in parts by
//! credits (`parcels.rs`).

mod custodian;
pub mod custody;
pub mod dealer;
mod desk;
mod exchange;
mod hamming;
mod labels;
pub mod ot;
mod owner;
mod parcels;
pub mod phe;
mod propagator;
pub mod roles;
pub mod shares;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use desk::{Done, Job};
pub use exchange::{Exchange, Output, Timer};
pub use owner::{commitment, planes};
pub use propagator::{Edges, graph_digest};

use crate::data::Dataset;
use crate::model::propagation::Propagation;
use crate::protocol::all_reduce::SumId;
use crate::protocol::ballot::Ballot;
use crate::session::{Hamming, Peer};
use roles::Roles;

/// Bytes of a part of a parcel, but the last.
pub const PART: usize = 256 * 1024;
/// Parts that may be under way from one peer to another.
pub const WINDOW: usize = 8;

/// A message between two peers in the exchange of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The view, and the slot that the exchange is for.
    pub sum: SumId,
    /// The content.
    pub body: Body,
}

/// See [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Owner to owner: the hash of its part of the seed of the planes.
    Commit([u8; 32]),
    /// Owner to owner, when it has all commitments: the part.
    Reveal([u8; 32]),
    /// Owner to a propagator: for every other owner, ascending, the key that blinds the distances to its
    /// rows.
    Keys(Vec<(Peer, [u8; 32])>),
    /// Owner to the second propagator: the seed of the mask of its labels.
    Mask([u8; 32]),
    /// Propagator to propagator: digest of the graph.
    Graph([u8; 32]),
    /// The next part of a parcel. Bulk channel.
    Part {
        /// The parcel.
        what: ParcelKind,
        /// Bytes of the whole parcel.
        length: u32,
        /// [`PART`] bytes, the last one what remains.
        #[serde(skip)]
        data: Bytes,
    },
    /// One part has been taken.
    Credit,
    /// The sender's part of the exchange goes on: peers that wait for its result should not give up.
    Working,
}

/// A vector that travels between two peers of an exchange; none travels twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ParcelKind {
    /// Dealer to an owner: the 32 bytes of the seed of its half of the triple for the block with the one that
    /// is named.
    Triple(Peer),
    /// Dealer to the later owner: Y, 2 bytes for each pair of rows of the earlier owner (named) and its own.
    Dealt(Peer),
    /// Owner to owner: its hidden codes, 2 bytes for each of its rows and bits.
    Hidden,
    /// Receiver of the transfers to their sender: the point A of the base transfers.
    Base,
    /// Sender of the transfers to their receiver: the points of the base transfers, 32 bytes each.
    Choices,
    /// Receiver to sender: the columns of a piece, 16 bytes for each bit of it.
    Columns(u32),
    /// Sender to receiver: the strings of a piece, 2 bytes for each bit of it and row of the sender.
    Strings(u32),
    /// Holder of a key to the evaluator: the public key.
    Key,
    /// Holder to evaluator: one of its ciphertexts.
    Ciphertext(u32),
    /// Evaluator to holder: the answer for one of its rows.
    Answer(u32),
    /// Owner to custodian: its blinded share of the distances from the rows of the first to those of the
    /// second, 2 bytes each.
    Share(Peer, Peer),
    /// Custodian to owner: the k smallest distances of each row, 2 bytes each.
    Smallest,
    /// Owner to custodian: the limit of each row, 2 bytes each.
    Limits,
    /// Custodian or owner to a propagator: distances below the limits of the named owner's rows, 12 bytes
    /// each.
    Short(Peer),
    /// Owner to the first propagator: masked labels, 16 bytes for each row and class.
    Labels,
    /// Propagator to owner: masked scores of its rows and the column sums, 16 bytes for each row and class,
    /// and for each class.
    Scores,
    /// A propagator to one that takes a lost one's place: a salt and the edges of the graph, as
    /// [`Edges::to_bytes`] makes them.
    Edges,
}

/// The stage of an exchange.
#[derive(Clone, Debug)]
pub enum Stage {
    /// From rows to the edges of the graph, which the propagators then know.
    Graph,
    /// From labels to scores, over the graph that was decided.
    Labels(Known),
}

/// The graph that was decided, as one peer knows it.
#[derive(Clone)]
pub struct Known {
    /// The view in which it was made.
    pub ballot: Ballot,
    /// See [`graph_digest`].
    pub digest: [u8; 32],
    /// The propagators of that view, which know it.
    pub knowers: [Peer; 2],
    /// The result of the exchange of that view at this peer; empty where it was not in it.
    pub before: Outcome,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Known({:?}, {:?}, <redacted>)", self.ballot, self.knowers)
    }
}

/// The constants of one peer's part in one exchange.
pub struct Setup {
    /// The session's id.
    pub session: [u8; 32],
    /// The view, and the slot that it is for.
    pub sum: SumId,
    /// The stage.
    pub stage: Stage,
    /// This peer.
    pub me: Peer,
    /// The roles.
    pub roles: Roles,
    /// The parameters of the propagation.
    pub rule: Propagation,
    /// Bits of a code, the paper's L.
    pub bits: usize,
    /// The protocol by which owners get shares of their distances.
    pub hamming: Hamming,
    /// Classes, C.
    pub classes: usize,
    /// The session's coin.
    pub coin: [u8; 32],
    /// The keys of the view that this peer shares with each other member.
    pub keys: BTreeMap<Peer, Arc<[u8; 32]>>,
    /// This peer's rows, as many as the roles say; none for a witness.
    pub rows: Option<Rows>,
    /// The longest silence of a peer that is waited for, milliseconds.
    pub patience_ms: u64,
    /// The longest time of the whole exchange, milliseconds.
    pub longest_ms: u64,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Setup({}, {:?}, {:?}, <redacted>)", self.me, self.sum, self.roles)
    }
}

/// Rows in the order in which others know them, which tells nothing.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Scaled; its labels are not used.
    pub data: Arc<Dataset>,
    /// The class of each row, where it is known.
    pub labels: Arc<Vec<Option<u16>>>,
}

/// The result of an exchange at one peer.
#[derive(Clone, Default, PartialEq)]
pub struct Outcome {
    /// The seed of the planes, which all members with rows know; zeros for a witness.
    pub planes: [u8; 32],
    /// The graph's digest ([`graph_digest`]), at the first propagator after the first stage, for it is this
    /// one that says it; else zeros.
    pub digest: [u8; 32],
    /// What a propagator knows of the graph, as [`Edges::to_bytes`] makes it; else, and after the second
    /// stage, empty.
    pub edges: Bytes,
    /// Number of labels of each class, over all peers; empty for a witness, and after the first stage.
    pub counts: Vec<u64>,
    /// Scores of its own rows, rows x classes; as `counts`.
    pub scores: Vec<f64>,
}

impl Outcome {
    /// As it is kept on disk: the seed of the planes, the digest; LE u32 bytes of the edges, and these; LE
    /// u32 number of classes, LE u64 counts, then the scores as LE binary64.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let counts = self.counts.iter().flat_map(|count| count.to_le_bytes());
        let scores = self.scores.iter().flat_map(|score| score.to_le_bytes());
        let start = self
            .planes
            .into_iter()
            .chain(self.digest)
            .chain(length(self.edges.len()))
            .chain(self.edges.iter().copied());
        start.chain(length(self.counts.len())).chain(counts).chain(scores).collect()
    }

    /// As [`to_bytes`](Self::to_bytes) makes it; `None` if it is not.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (planes, rest) = bytes.split_first_chunk::<32>()?;
        let (digest, rest) = rest.split_first_chunk::<32>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (edges, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (classes, rest) = rest.split_first_chunk::<4>()?;
        let (words, rest) = rest.as_chunks::<8>();
        let classes = u32::from_le_bytes(*classes) as usize;
        if !rest.is_empty() || words.len() < classes {
            return None;
        }
        let (counts, scores) = words.split_at(classes);
        Some(Self {
            planes: *planes,
            digest: *digest,
            edges: Bytes::copy_from_slice(edges),
            counts: counts.iter().map(|&word| u64::from_le_bytes(word)).collect(),
            scores: scores.iter().map(|&word| f64::from_le_bytes(word)).collect(),
        })
    }
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outcome(<redacted>)")
    }
}
