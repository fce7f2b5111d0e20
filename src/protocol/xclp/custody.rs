//! Blinded custody: who keeps the distances does not know between which points they are (spec,
//! section "Custody").
//!
//! The distances from the rows of an owner to the rows of another peer go to a custodian as two additive
//! shares. Both owners put each row into an order of its own and add a mask, which they draw from a key of
//! theirs, so that the custodian's sums are the row's distances, and not whose; and so that the custodian,
//! who may have dealt the triple, gets shares that it has not made. The propagators are given the key, not
//! the custodian.

use zeroize::Zeroizing;

use super::dealer;
use crate::crypto::mask::Sign;
use crate::crypto::stream::{Stream, derive};
use crate::data::deal::shuffle;
use crate::protocol::ballot::Ballot;
use crate::session::Peer;

/// The blinding of the distances from an owner's rows to another peer's.
#[derive(Clone)]
pub struct Blinding {
    key: Zeroizing<[u8; 32]>,
    /// Rows of the other peer.
    columns: usize,
}

impl std::fmt::Debug for Blinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blinding({} columns, <redacted>)", self.columns)
    }
}

impl Blinding {
    /// From the key that the two share in a view.
    #[must_use]
    pub fn new(pair: &[u8; 32], ballot: Ballot, owner: Peer, other: Peer, columns: usize) -> Self {
        let mut params = ballot.to_bytes().to_vec();
        params.extend(owner.0.to_le_bytes());
        params.extend(other.0.to_le_bytes());
        Self { key: derive(pair, "custody", &params), columns }
    }

    /// From the key itself, as a propagator is given it.
    #[must_use]
    pub fn from_key(key: [u8; 32], columns: usize) -> Self {
        Self { key: Zeroizing::new(key), columns }
    }

    /// The key itself, for the propagators.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        *self.key
    }

    /// The column that stands in each place of a row.
    #[must_use]
    pub fn columns(&self, row: u32) -> Vec<u32> {
        // Below 2^16 points in all.
        let mut columns: Vec<u32> = (0..self.columns as u32).collect();
        shuffle(&mut columns, &mut Stream::new(&*self.key, "columns", &row.to_le_bytes()));
        columns
    }

    /// A share of the distances, owner's rows x columns, as it goes to the custodian. The owner adds the
    /// mask, the other peer subtracts it.
    #[must_use]
    pub fn blind(&self, sign: Sign, share: &[u16]) -> Vec<u16> {
        let mask = dealer::words(&self.key, "mask", share.len());
        let mut out = Vec::with_capacity(share.len());
        for (row, values) in (0u32..).zip(share.chunks(self.columns.max(1))) {
            out.extend(self.columns(row).into_iter().map(|column| values[column as usize]));
        }
        out.iter_mut().zip(mask).for_each(|(out, mask)| {
            *out = match sign {
                Sign::Add => out.wrapping_add(mask),
                Sign::Subtract => out.wrapping_sub(mask),
            }
        });
        out
    }
}

/// Rows become columns.
#[must_use]
pub fn transposed(matrix: &[u16], columns: usize) -> Vec<u16> {
    let rows = matrix.len() / columns.max(1);
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}

/// The distances that two blinded shares make, if all are at most `bits`.
#[must_use]
pub fn distances(one: &[u16], two: &[u16], bits: usize) -> Option<Vec<u16>> {
    let sums: Vec<u16> = one.iter().zip(two).map(|(a, b)| a.wrapping_add(*b)).collect();
    (one.len() == two.len() && sums.iter().all(|&sum| usize::from(sum) <= bits)).then_some(sums)
}

/// Stands for "no more" in lists of smallest values.
pub const NONE: u16 = u16::MAX;

/// The `k` smallest values of each of `rows` rows over several blocks of distances, ascending, filled up with
/// [`NONE`]: rows x k.
#[must_use]
pub fn smallest(blocks: &[&[u16]], rows: usize, k: usize) -> Vec<u16> {
    let mut out = Vec::with_capacity(rows * k);
    for row in 0..rows {
        let mut values: Vec<u16> = Vec::new();
        for block in blocks {
            let width = block.len() / rows.max(1);
            values.extend(&block[row * width..][..width]);
        }
        if values.len() > k && k > 0 {
            values.select_nth_unstable(k - 1);
        }
        values.truncate(k);
        values.sort_unstable();
        values.resize(k, NONE);
        out.extend(values);
    }
    out
}

/// For each row the smallest number that is above its `k` smallest distances, and at most half the bits: an
/// edge is shorter. `lists` hold rows x k values each, as [`smallest`] makes them.
#[must_use]
pub fn limits(lists: &[&[u16]], rows: usize, k: usize, bits: usize) -> Vec<u16> {
    let half = (bits / 2) as u16;
    (0..rows)
        .map(|row| {
            let mut values: Vec<u16> = lists.iter().flat_map(|list| &list[row * k..][..k]).copied().collect();
            values.sort_unstable();
            values.get(k - 1).map_or(half, |&kth| kth.saturating_add(1).min(half))
        })
        .collect()
}

/// A distance below its row's limit: (row, place, distance).
pub type Short = (u32, u32, u16);

/// Those of a block that are below their rows' limits, in the order of rows and places.
#[must_use]
pub fn shorter(block: &[u16], limits: &[u16]) -> Vec<Short> {
    let width = block.len() / limits.len().max(1);
    let rows = (0u32..).zip(block.chunks(width.max(1)).zip(limits));
    rows.flat_map(|(row, (values, &limit))| {
        let short = (0u32..).zip(values).filter(move |(_, value)| **value < limit);
        short.map(move |(place, &value)| (row, place, value))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blinding() -> Blinding {
        Blinding::new(&[7; 32], Ballot { counter: 3, proposer: Peer(1) }, Peer(0), Peer(2), 5)
    }

    #[test]
    fn blinded_shares_give_every_row_s_distances_in_another_order() {
        let plain: Vec<u16> = (0..20).map(|i| i * 3).collect();
        let share: Vec<u16> = (0..20u16).map(|i| i.wrapping_mul(40_503)).collect();
        let rest: Vec<u16> = plain.iter().zip(&share).map(|(p, s)| p.wrapping_sub(*s)).collect();
        let (one, two) = (blinding().blind(Sign::Add, &share), blinding().blind(Sign::Subtract, &rest));
        let found = distances(&one, &two, 64).unwrap();
        assert_ne!(found, plain);
        for (row, values) in (0u32..).zip(found.chunks(5)) {
            for (place, &value) in values.iter().enumerate() {
                let column = blinding().columns(row)[place] as usize;
                assert_eq!(value, plain[row as usize * 5 + column]);
            }
        }
        assert_ne!(blinding().columns(0), blinding().columns(1), "afresh for each row");
        assert_eq!(distances(&[1], &[64], 64), None);
        assert_eq!(distances(&[1], &[], 64), None);
    }

    #[test]
    fn limits_are_just_above_the_kth_smallest_and_at_most_half() {
        let (own, others) = ([3, 9, 9, NONE, NONE, NONE], [4, 5, 40, 2, NONE, NONE]);
        assert_eq!(limits(&[&own, &others], 2, 3, 64), [6, 32]);
        let block = [5, 6, 7, 0, 33, 31];
        assert_eq!(shorter(&block, &[6, 32]), [(0, 0, 5), (1, 0, 0), (1, 2, 31)]);
        assert_eq!(smallest(&[&block, &[1, 2]], 2, 2), [1, 5, 0, 2]);
        assert_eq!(smallest(&[&[9]], 1, 3), [9, NONE, NONE]);
    }

    #[test]
    fn transposing_twice_changes_nothing() {
        let matrix: Vec<u16> = (0..12).collect();
        assert_eq!(transposed(&matrix, 4)[..4], [0, 4, 8, 1]);
        assert_eq!(transposed(&transposed(&matrix, 4), 3), matrix);
    }
}
