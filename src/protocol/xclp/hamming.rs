//! Secure Hamming distances: how two owners get additive shares mod 2^16 of the distances between their rows
//! (spec, section 15c).
//!
//! Each backend is a machine of its own for one other owner; its messages travel in parcels of its own.
//! The use of the shares does not depend on it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;

use super::desk::Desk;
use super::{Exchange, ParcelKind, Setup, dealer, ot, phe};
use crate::protocol::{Fault, Step};
use crate::session::{Hamming, Peer};
use crate::sketch::lsh::Codes;

/// One owner's part in making the shares of a block.
pub(super) trait Pair: Send {
    /// The bytes that a parcel may have that begins or goes on now; `None` if none is due.
    fn expected(&self, desk: &Desk, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>>;
    /// A whole parcel that was [`expected`](Self::expected).
    fn parcel(&mut self, what: ParcelKind, data: Bytes);
    /// Takes the result of a job that this backend began.
    fn made(&mut self, got: Got);
    /// Begins the work that can be begun; `codes` are this peer's when they are there.
    fn advance(&mut self, desk: &mut Desk, codes: Option<&Arc<Codes>>, step: &mut Step<Exchange>);
    /// The peer that it waits for; `None` while it has work, and when it is done.
    fn waits(&self, desk: &Desk) -> Option<Peer>;
    /// This peer's share, its rows x the other's: given once, when it is there.
    fn share(&mut self) -> Option<Vec<u16>>;
}

/// The result of work for a block.
#[derive(Clone)]
pub(super) enum Got {
    /// The share, this peer's rows x the other's.
    Share(Vec<u16>),
    /// See [`ot`].
    Transfers(ot::Got),
    /// See [`phe`].
    Encryption(phe::Got),
}

/// This peer's part with `other`; `secret` is 32 fresh bytes.
pub(super) fn pair(setup: &Setup, other: Peer, secret: [u8; 32]) -> Box<dyn Pair> {
    match setup.hamming {
        Hamming::Dealer => Box::new(dealer::Dealt::new(other)),
        Hamming::Ot => ot::pair(setup, other, secret),
        Hamming::Phe => phe::pair(setup, other, secret),
    }
}

/// The other owner of the block that a parcel from `from` belongs to, if it is one of a backend.
pub(super) fn other(from: Peer, what: ParcelKind) -> Option<Peer> {
    match what {
        ParcelKind::Triple(with) | ParcelKind::Dealt(with) => Some(with),
        ParcelKind::Hidden
        | ParcelKind::Base
        | ParcelKind::Choices
        | ParcelKind::Columns(_)
        | ParcelKind::Strings(_) => Some(from),
        ParcelKind::Key | ParcelKind::Ciphertext(_) | ParcelKind::Answer(_) => Some(from),
        ParcelKind::Share(..)
        | ParcelKind::Smallest
        | ParcelKind::Limits
        | ParcelKind::Short(_)
        | ParcelKind::Edges
        | ParcelKind::Labels
        | ParcelKind::Scores => None,
    }
}

/// The ones of a code, at most 16,384.
pub(super) fn ones(code: &[u64]) -> u16 {
    code.iter().map(|word| word.count_ones() as u16).sum()
}

/// A fault of another owner that work found.
pub(super) type Checked<T> = Result<T, Fault>;
