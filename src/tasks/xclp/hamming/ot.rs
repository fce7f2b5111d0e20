//! Secure Hamming distances by oblivious transfer (spec, section 15c, `ot`): Bringer, Chabanne & Patey,
//! "SHADE: Secure Hamming distance computation from oblivious transfer", Financial Cryptography Workshops
//! 2013, with [`flyswarm_mpc::ot`].
//!
//! The owner with fewer rows (in a tie the earlier) is the *receiver*, the other one the *sender*. There is
//! one transfer for each bit of the receiver's codes. It carries one word for each row of the sender. For a
//! bit b of the receiver and a bit a of a row of the sender, a xor b = a + b (1 - 2 a). So the vector of a
//! transfer is d = 1 - 2 a, and p is its random mask. For each two rows, the receiver's share of the distance
//! is the sum of p + b d over the bits, and the sender's share is the sum of a - p.
//!
//! The transfers of a row of the receiver are cut into *pieces* of at most 1 MiB of strings.

use sha2::Digest;

use super::{ones, transposed};
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::protocol::ballot::Ballot;
use crate::session::Peer;
use crate::sketch::lsh::{Codes, WORD};
use flyswarm_mpc::ot::extension::{Receiver, Sender};

/// Largest number of bytes of strings in a piece, unless the piece has only one word of a code.
const PIECE: usize = 1024 * 1024;

/// Returns the context that binds the keys of a block's transfers to the block.
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

/// How the transfers between two owners are divided into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Rows of the receiver.
    pub receiver: usize,
    /// Rows of the sender.
    pub sender: usize,
    /// Words of 64 bits of a code.
    pub words: usize,
    /// Words of a code in each piece, except that the last piece of a row may have fewer.
    pub step: usize,
}

/// A piece: some words of the code of one row of the receiver.
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
    /// Creates the division for these numbers of rows of the receiver and the sender, and of bits of a code.
    #[must_use]
    pub fn new(receiver: usize, sender: usize, bits: usize) -> Self {
        let words = bits / WORD;
        Self { receiver, sender, words, step: (PIECE / (2 * WORD * sender.max(1))).clamp(1, words.max(1)) }
    }

    /// Returns the number of pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.receiver * self.words.div_ceil(self.step)
    }

    /// Returns one of the pieces.
    #[must_use]
    pub fn piece(&self, index: usize) -> Piece {
        let of_row = self.words.div_ceil(self.step);
        let (row, first) = (index / of_row, index % of_row * self.step);
        Piece { row, first, words: self.step.min(self.words - first) }
    }

    /// Returns the number of a piece's first transfer, divided by 64.
    #[must_use]
    pub fn first(&self, piece: Piece) -> u64 {
        (piece.row * self.words + piece.first) as u64
    }
}

/// Returns the vectors of the transfers as a matrix of 1 - 2 a. It has a row for each bit and a column for
/// each row of the sender.
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

/// Returns the sender's strings of a piece, and the part of the sum of p that the piece contributes to its
/// row.
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

/// Returns the receiver's columns of a piece.
#[must_use]
pub fn columns(transfers: &Receiver, cut: Cut, piece: Piece, codes: &Codes) -> Vec<u8> {
    transfers.columns(cut.first(piece), &codes.row(piece.row)[piece.first..][..piece.words])
}

/// Returns the part of the sum of p + b d that a piece contributes to its row, computed by the receiver from
/// the strings.
#[must_use]
pub fn receive(transfers: &Receiver, cut: Cut, piece: Piece, codes: &Codes, strings: &[u8]) -> Vec<u16> {
    let choices = &codes.row(piece.row)[piece.first..][..piece.words];
    transfers.receive(cut.first(piece), choices, strings, cut.sender)
}

/// Returns the sender's share from its sums of p. The share is a matrix of the sender's rows x the receiver's
/// rows; the sums are a matrix of the receiver's rows x the sender's rows.
#[must_use]
pub fn sender_share(codes: &Codes, sums: &[u16]) -> Vec<u16> {
    let mut share = transposed(sums, codes.rows());
    for (row, share) in share.chunks_mut((sums.len() / codes.rows().max(1)).max(1)).enumerate() {
        let ones = ones(codes.row(row));
        share.iter_mut().for_each(|x| *x = ones.wrapping_sub(*x));
    }
    share
}

/// Returns the choices of the base transfers, from 32 fresh secret bytes.
#[must_use]
pub fn choices(secret: &[u8; 32]) -> u128 {
    let mut bytes = [0; 16];
    Stream::new(secret, "base choices", &[]).fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use flyswarm_mpc::ot::base;

    fn codes(rows: usize, bits: usize, salt: u8) -> Codes {
        let mut bytes = vec![0; rows * bits / 8];
        Stream::new(&[salt; 32], "test", &[]).fill(&mut bytes);
        Codes::from_words(bits, bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn shares_add_up_to_the_plain_distances(
            n in 1usize..12, m in 1usize..40, words in 1usize..6, step in 1usize..7, salt in 0u8..100
        ) {
            let bits = words * WORD;
            let (a, b) = (codes(n, bits, salt), codes(m, bits, salt + 100));
            let context = [salt; 32];
            let base = base::Sender::new(&context, &[1; 32]);
            let (reply, chosen) =
                base::choose(&context, &base.message(), choices(&[2; 32]), &[2; 32]).unwrap();
            let sender = Sender::new(&context, choices(&[2; 32]), &chosen);
            let receiver = Receiver::new(&context, &base.keys(&reply).unwrap());
            let cut = Cut { step: step.min(words), ..Cut::new(n, m, bits) };
            let (mut one, mut two) = (vec![0u16; n * m], vec![0u16; n * m]);
            for piece in (0..cut.pieces()).map(|index| cut.piece(index)) {
                let columns = columns(&receiver, cut, piece, &a);
                let (strings, sums) = send(&sender, cut, piece, &columns, &vectors(&b));
                let received = receive(&receiver, cut, piece, &a, &strings);
                for (all, part) in [(&mut one, received), (&mut two, sums)] {
                    all[piece.row * m..].iter_mut().zip(part).for_each(|(sum, x)| *sum = sum.wrapping_add(x));
                }
            }
            let theirs = transposed(&sender_share(&b, &two), n);
            let sum: Vec<u16> = one.iter().zip(theirs).map(|(x, y)| x.wrapping_add(y)).collect();
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
