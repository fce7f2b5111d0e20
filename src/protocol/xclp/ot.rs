//! Secure Hamming distances by oblivious transfer (spec, section 15c, `ot`): Bringer, Chabanne & Patey,
//! "SHADE: Secure Hamming distance computation from oblivious transfer", Financial Cryptography Workshops
//! 2013, with [`crate::crypto::ot`].
//!
//! The owner with fewer rows (of equal ones the earlier) is the *receiver*: there is one transfer for each
//! bit of its codes, which carries a word for each row of the other, the *sender*. For bit b of the receiver
//! and bits a of the sender's rows, a xor b = a + b (1 - 2 a): the vector of a transfer is d = 1 - 2 a, the
//! receiver's share of a row is the sum of p + b d over its bits, and the sender's that of a - p.
//!
//! The transfers of a row of the receiver are cut into *pieces* of at most 1 MiB of strings, of which at most
//! [`AHEAD`] are under way.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use sha2::Digest;
use zeroize::Zeroizing;

use super::custody::transposed;
use super::desk::{Desk, Made};
use super::hamming::{Checked, Got as Backend, Pair, ones};
use super::{Exchange, ParcelKind, Setup};
use crate::crypto::ot::extension::{Receiver, Sender};
use crate::crypto::ot::{BASE, base};
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::protocol::ballot::Ballot;
use crate::protocol::{Fault, Step};
use crate::session::Peer;
use crate::sketch::lsh::{Codes, WORD};

/// Pieces whose columns may have been sent and whose strings have not come.
pub const AHEAD: usize = 4;
/// Bytes of strings that a piece of more than one word of a code has at most.
const PIECE: usize = 1024 * 1024;

/// The bytes that bind the keys of a block's transfers to it.
#[must_use]
pub fn context(session: &[u8; 32], ballot: Ballot, receiver: Peer, sender: Peer) -> [u8; 32] {
    tagged_hash("oblivious transfer")
        .chain_update(session)
        .chain_update(ballot.to_bytes())
        .chain_update(receiver.0.to_le_bytes())
        .chain_update(sender.0.to_le_bytes())
        .finalize()
        .into()
}

/// The division of the transfers of a block into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Rows of the receiver.
    pub receiver: usize,
    /// Rows of the sender.
    pub sender: usize,
    /// Words of a code.
    pub words: usize,
    /// Words of a code in a piece, but the last of a row.
    pub step: usize,
}

/// Some bits of one row of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The row.
    pub row: usize,
    /// The first word of its code.
    pub first: usize,
    /// Number of words.
    pub words: usize,
}

impl Cut {
    /// For so many rows of the receiver and the sender, and bits of a code.
    #[must_use]
    pub fn new(receiver: usize, sender: usize, bits: usize) -> Self {
        let words = bits / WORD;
        Self { receiver, sender, words, step: (PIECE / (2 * WORD * sender.max(1))).clamp(1, words.max(1)) }
    }

    /// Number of pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.receiver * self.words.div_ceil(self.step)
    }

    /// One of them.
    #[must_use]
    pub fn piece(&self, index: usize) -> Piece {
        let of_row = self.words.div_ceil(self.step);
        let (row, first) = (index / of_row, index % of_row * self.step);
        Piece { row, first, words: self.step.min(self.words - first) }
    }

    /// The number of a piece's first transfer, by 64.
    #[must_use]
    pub fn first(&self, piece: Piece) -> u64 {
        (piece.row * self.words + piece.first) as u64
    }
}

/// The vectors of the transfers, 1 - 2 a for each bit (rows of this matrix) and row of the sender (columns).
#[must_use]
pub fn vectors(codes: &Codes) -> Vec<u16> {
    let mut out = vec![0; codes.bits() * codes.rows()];
    for row in 0..codes.rows() {
        let bits = codes.row(row).iter().flat_map(|word| (0..WORD).map(move |bit| (word >> bit & 1) as u16));
        out.iter_mut()
            .skip(row)
            .step_by(codes.rows())
            .zip(bits)
            .for_each(|(d, a)| *d = 1u16.wrapping_sub(2 * a));
    }
    out
}

/// The sender's strings of a piece, and its part of the sum of p for the piece's row.
#[must_use]
pub fn send(
    transfers: &Sender,
    cut: Cut,
    piece: Piece,
    columns: &[u8],
    vectors: &[u16],
) -> (Vec<u8>, Vec<u16>) {
    let width = WORD * cut.sender;
    let vectors = &vectors[piece.first * width..][..piece.words * width];
    transfers.send(cut.first(piece), columns, vectors, cut.sender)
}

/// The receiver's columns of a piece.
#[must_use]
pub fn columns(transfers: &Receiver, cut: Cut, piece: Piece, codes: &Codes) -> Vec<u8> {
    transfers.columns(cut.first(piece), &codes.row(piece.row)[piece.first..][..piece.words])
}

/// The receiver's part of the sum of p + b d for the piece's row, from the strings.
#[must_use]
pub fn receive(transfers: &Receiver, cut: Cut, piece: Piece, codes: &Codes, strings: &[u8]) -> Vec<u16> {
    let choices = &codes.row(piece.row)[piece.first..][..piece.words];
    transfers.receive(cut.first(piece), choices, strings, cut.sender)
}

/// The sender's share, its rows x the receiver's, from its sums of p, the receiver's rows x its own.
#[must_use]
pub fn sender_share(codes: &Codes, sums: &[u16]) -> Vec<u16> {
    let mut share = transposed(sums, codes.rows());
    for (row, share) in share.chunks_mut((sums.len() / codes.rows().max(1)).max(1)).enumerate() {
        let ones = ones(codes.row(row));
        share.iter_mut().for_each(|x| *x = ones.wrapping_sub(*x));
    }
    share
}

/// The choices of the base transfers, from 32 fresh secret bytes.
#[must_use]
pub fn choices(secret: &[u8; 32]) -> u128 {
    let mut bytes = [0; 16];
    Stream::new(secret, "base choices", &[]).fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// The result of work.
#[derive(Clone)]
pub(super) enum Got {
    Receiver(Arc<Receiver>),
    /// And the vectors of all transfers of a row.
    Sender(Arc<Sender>, Arc<Vec<u16>>),
    /// Of a piece.
    Sums(Piece, Vec<u16>),
}

/// This peer's part with `other`.
pub(super) fn pair(setup: &Setup, other: Peer, secret: [u8; 32]) -> Box<dyn Pair> {
    let (me, rows) = (setup.me, |peer| setup.roles.rows_of(peer));
    let receives = (rows(me), me) < (rows(other), other);
    let (receiver, sender) = if receives { (me, other) } else { (other, me) };
    let cut = Cut::new(rows(receiver), rows(sender), setup.bits);
    let context = context(&setup.session, setup.sum.ballot, receiver, sender);
    let sums = Sums { left: cut.pieces(), sums: vec![0; cut.receiver * cut.sender] };
    if receives {
        let base = Some(Arc::new(base::Sender::new(&context, &secret)));
        let receiving = Receiving {
            other,
            cut,
            context,
            base,
            told: false,
            choices: None,
            transfers: None,
            begun: 0,
            awaited: BTreeSet::new(),
            strings: Vec::new(),
            sums,
        };
        Box::new(receiving)
    } else {
        let secret = Zeroizing::new(secret);
        let sending = Sending {
            other,
            cut,
            context,
            secret,
            base: None,
            prepared: false,
            transfers: None,
            columns: Vec::new(),
            computing: 0,
            taken: 0,
            codes: None,
            sums,
        };
        Box::new(sending)
    }
}

/// The sums of all pieces, the receiver's rows x the sender's.
struct Sums {
    left: usize,
    sums: Vec<u16>,
}

impl Sums {
    fn add(&mut self, cut: Cut, piece: Piece, sums: &[u16]) {
        self.left -= 1;
        let row = &mut self.sums[piece.row * cut.sender..][..cut.sender];
        row.iter_mut().zip(sums).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
    }

    /// All of them, once.
    fn take(&mut self) -> Option<Vec<u16>> {
        (self.left == 0 && !self.sums.is_empty()).then(|| std::mem::take(&mut self.sums))
    }
}

/// The part of the one whose bits are the choices.
struct Receiving {
    other: Peer,
    cut: Cut,
    context: [u8; 32],
    base: Option<Arc<base::Sender>>,
    told: bool,
    choices: Option<Bytes>,
    transfers: Option<Arc<Receiver>>,
    /// Pieces whose columns have been asked for.
    begun: usize,
    awaited: BTreeSet<u32>,
    strings: Vec<(u32, Bytes)>,
    sums: Sums,
}

impl Pair for Receiving {
    fn expected(&self, _desk: &Desk, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>> {
        let bytes = match what {
            ParcelKind::Choices if from == self.other && self.told => 32 * BASE,
            ParcelKind::Strings(piece) if from == self.other && self.awaited.contains(&piece) => {
                2 * WORD * self.cut.sender * self.cut.piece(piece as usize).words
            }
            _ => return None,
        };
        Some(bytes..=bytes)
    }

    fn parcel(&mut self, what: ParcelKind, data: Bytes) {
        match what {
            ParcelKind::Strings(piece) => {
                self.awaited.remove(&piece);
                self.strings.push((piece, data));
            }
            _ => self.choices = Some(data),
        }
    }

    fn made(&mut self, got: Backend) {
        match got {
            Backend::Transfers(Got::Receiver(transfers)) => self.transfers = Some(transfers),
            Backend::Transfers(Got::Sums(piece, sums)) => self.sums.add(self.cut, piece, &sums),
            _ => {}
        }
    }

    fn advance(&mut self, desk: &mut Desk, codes: Option<&Arc<Codes>>, step: &mut Step<Exchange>) {
        let (other, cut, context) = (self.other, self.cut, self.context);
        if let Some(base) = self.base.as_ref().filter(|_| !self.told) {
            desk.parcel((other, ParcelKind::Base, Bytes::copy_from_slice(&base.message())), step);
            self.told = true;
        }
        if let Some((choices, base)) =
            self.choices.take().and_then(|choices| Some((choices, self.base.take()?)))
        {
            desk.compute(BASE * 1_000_000, step, move || {
                let keys = base.keys(&choices).ok_or_else(|| no_point("choices"));
                let got = keys.map(|keys| Arc::new(Receiver::new(&context, &keys)));
                Made::Pair(other, got.map(|got| Backend::Transfers(Got::Receiver(got))), Vec::new())
            });
        }
        let (Some(transfers), Some(codes)) = (&self.transfers, codes) else { return };
        while self.begun < cut.pieces() && self.awaited.len() < AHEAD {
            let number = u32::try_from(self.begun).unwrap_or(u32::MAX);
            let (piece, transfers, codes) = (cut.piece(self.begun), transfers.clone(), codes.clone());
            desk.compute(32 * BASE * piece.words, step, move || {
                Made::Parcels(vec![(
                    other,
                    ParcelKind::Columns(number),
                    columns(&transfers, cut, piece, &codes).into(),
                )])
            });
            self.begun += 1;
            self.awaited.insert(number);
        }
        for (number, strings) in self.strings.drain(..) {
            let (piece, transfers, codes) = (cut.piece(number as usize), transfers.clone(), codes.clone());
            desk.compute(2 * strings.len(), step, move || {
                let sums = receive(&transfers, cut, piece, &codes, &strings);
                Made::Pair(other, Ok(Backend::Transfers(Got::Sums(piece, sums))), Vec::new())
            });
        }
    }

    fn waits(&self, _desk: &Desk) -> Option<Peer> {
        let waits = self.transfers.is_none() || !self.awaited.is_empty();
        waits.then_some(self.other)
    }

    fn share(&mut self) -> Option<Vec<u16>> {
        self.sums.take()
    }
}

/// The part of the one whose rows the transfers carry.
struct Sending {
    other: Peer,
    cut: Cut,
    context: [u8; 32],
    secret: Zeroizing<[u8; 32]>,
    base: Option<Bytes>,
    prepared: bool,
    transfers: Option<(Arc<Sender>, Arc<Vec<u16>>)>,
    columns: Vec<(u32, Bytes)>,
    /// Pieces whose strings are being made.
    computing: usize,
    /// Pieces whose columns have come.
    taken: usize,
    codes: Option<Arc<Codes>>,
    sums: Sums,
}

impl Pair for Sending {
    fn expected(&self, desk: &Desk, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>> {
        let bytes = match what {
            ParcelKind::Base if from == self.other => 32,
            // One that keeps to its bound has got all strings but those of so many pieces: they have left.
            ParcelKind::Columns(piece)
                if from == self.other
                    && self.transfers.is_some()
                    && (piece as usize) < self.cut.pieces()
                    && self.computing
                        + desk.parcels.waiting(from, |what| matches!(what, ParcelKind::Strings(_)))
                        < AHEAD =>
            {
                16 * WORD * self.cut.piece(piece as usize).words
            }
            _ => return None,
        };
        Some(bytes..=bytes)
    }

    fn parcel(&mut self, what: ParcelKind, data: Bytes) {
        match what {
            ParcelKind::Columns(piece) => {
                self.taken += 1;
                self.columns.push((piece, data));
            }
            _ => self.base = Some(data),
        }
    }

    fn made(&mut self, got: Backend) {
        match got {
            Backend::Transfers(Got::Sender(transfers, vectors)) => {
                self.transfers = Some((transfers, vectors))
            }
            Backend::Transfers(Got::Sums(piece, sums)) => {
                self.computing -= 1;
                self.sums.add(self.cut, piece, &sums);
            }
            _ => {}
        }
    }

    fn advance(&mut self, desk: &mut Desk, codes: Option<&Arc<Codes>>, step: &mut Step<Exchange>) {
        let (other, cut, context) = (self.other, self.cut, self.context);
        let Some(codes) = codes else { return };
        if let Some(message) = self.base.take() {
            self.prepared = true;
            self.codes = Some(codes.clone());
            let (codes, secret) = (codes.clone(), self.secret.clone());
            desk.compute(BASE * 1_000_000 + codes.rows() * codes.bits(), step, move || {
                let (got, parcels) = match prepare(&context, &message, &codes, &secret) {
                    Ok((got, reply)) => {
                        (Ok(Backend::Transfers(got)), vec![(other, ParcelKind::Choices, reply.into())])
                    }
                    Err(fault) => (Err(fault), Vec::new()),
                };
                Made::Pair(other, got, parcels)
            });
        }
        let Some((transfers, vectors)) = &self.transfers else { return };
        for (number, theirs) in self.columns.drain(..) {
            self.computing += 1;
            let (piece, transfers, vectors) =
                (cut.piece(number as usize), transfers.clone(), vectors.clone());
            desk.compute(4 * WORD * piece.words * cut.sender, step, move || {
                let (strings, sums) = send(&transfers, cut, piece, &theirs, &vectors);
                let got = Backend::Transfers(Got::Sums(piece, sums));
                Made::Pair(other, Ok(got), vec![(other, ParcelKind::Strings(number), strings.into())])
            });
        }
    }

    fn waits(&self, _desk: &Desk) -> Option<Peer> {
        let waits = !self.prepared || (self.computing == 0 && self.taken < self.cut.pieces());
        waits.then_some(self.other)
    }

    fn share(&mut self) -> Option<Vec<u16>> {
        let codes = self.codes.clone()?;
        Some(sender_share(&codes, &self.sums.take()?))
    }
}

/// The keys of the base transfers and the vectors, and what the receiver is told.
fn prepare(context: &[u8; 32], message: &[u8], codes: &Codes, secret: &[u8; 32]) -> Checked<(Got, Vec<u8>)> {
    let message = message.try_into().map_err(|_| no_point("base"))?;
    let choices = choices(secret);
    let (reply, keys) = base::choose(context, message, choices, secret).ok_or_else(|| no_point("base"))?;
    Ok((Got::Sender(Arc::new(Sender::new(context, choices, &keys)), Arc::new(vectors(codes))), reply))
}

fn no_point(what: &str) -> Fault {
    Fault::Malformed(format!("the {what} of its transfers are no points of the group"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codes(rows: usize, bits: usize, salt: u8) -> Codes {
        let mut bytes = vec![0; rows * bits / 8];
        Stream::new(&[salt; 32], "test", &[]).fill(&mut bytes);
        Codes::from_words(bits, bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn shares_add_up_to_the_plain_distances(n in 1usize..12, m in 1usize..40, words in 1usize..6, step in 1usize..7, salt in 0u8..100) {
            let bits = words * WORD;
            let (a, b) = (codes(n, bits, salt), codes(m, bits, salt + 100));
            let context = [salt; 32];
            let base = base::Sender::new(&context, &[1; 32]);
            let Got::Sender(sender, vectors) = &prepare(&context, &base.message(), &b, &[2; 32]).unwrap().0 else { panic!() };
            let (reply, _) = base::choose(&context, &base.message(), choices(&[2; 32]), &[2; 32]).unwrap();
            let receiver = Receiver::new(&context, &base.keys(&reply).unwrap());
            let cut = Cut { step: step.min(words), ..Cut::new(n, m, bits) };
            let [mut one, mut two] = [(); 2].map(|()| Sums { left: cut.pieces(), sums: vec![0; n * m] });
            for piece in (0..cut.pieces()).map(|index| cut.piece(index)) {
                let (strings, sums) = send(sender, cut, piece, &columns(&receiver, cut, piece, &a), vectors);
                one.add(cut, piece, &receive(&receiver, cut, piece, &a, &strings));
                two.add(cut, piece, &sums);
            }
            let theirs = transposed(&sender_share(&b, &two.take().unwrap()), n);
            let sum: Vec<u16> = one.take().unwrap().iter().zip(theirs).map(|(x, y)| x.wrapping_add(y)).collect();
            prop_assert_eq!(sum, a.distances(&b));
        }
    }

    #[test]
    fn pieces_are_the_words_of_all_rows_in_their_order() {
        for (receiver, sender, bits) in [(3, 500, 4096), (2, 100_000, 192), (1, 1, 64), (5, 300, 16_384)] {
            let cut = Cut::new(receiver, sender, bits);
            let all: Vec<u64> = (0..cut.pieces())
                .map(|index| cut.piece(index))
                .flat_map(|piece| (0..piece.words as u64).map(move |word| cut.first(piece) + word))
                .collect();
            assert_eq!(all, (0..(receiver * bits / WORD) as u64).collect::<Vec<_>>());
            assert!(cut.step == 1 || 2 * WORD * sender * cut.step <= PIECE);
        }
    }
}
