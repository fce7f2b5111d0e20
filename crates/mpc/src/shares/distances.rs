//! Hamming distances of all pairs, and their bits.
//!
//! H = p_i + p_j - 2 <b_i, b_j> mod 2^16, where p is the number of ones. The pairs are stored in
//! *tiles* of 64 x 64 points, those on and below the diagonal. Entry 64 j + i of tile (J, I), I <= J,
//! is the pair of point j of block J and point i of block I. So the 64 lanes of a word are 64 points i.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::bits::{Adder, a2b, transpose};
use super::primitives::{LANES, in_thirds, multiply, reshare_proved};
use super::proofs::log::Log;
use super::proofs::statements;
use super::{Bits, Context, Shared, Xor};
use crate::product::product;

/// Number of entries of a tile.
const TILE: usize = LANES * LANES;

/// Returns the tiles of `blocks` blocks, as (J, I), in storage order.
fn tiles(blocks: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..blocks).flat_map(|j| (0..=j).map(move |i| (j, i)))
}

/// Returns shares of the distances of all pairs, tile after tile. The codes of `bits` bits are shared bit
/// by bit, row after row. Points past the last one have a code of zeros.
pub async fn hamming(context: &mut Context, mut codes: Shared<u16>, bits: usize) -> Shared<u16> {
    let block = LANES * bits;
    let padded = codes.len().next_multiple_of(block);
    codes.own.resize(padded, 0);
    codes.next.resize(padded, 0);
    let blocks = padded / block;
    let mut part = vec![0; blocks * (blocks + 1) / 2 * TILE];
    let mut start = 0;
    for j in 0..blocks {
        let rows = j * block..(j + 1) * block;
        let columns = 0..(j + 1) * block;
        let held = codes.own[rows.clone()].iter().zip(&codes.next[rows.clone()]);
        let sum: Vec<u16> = held.map(|(a, b)| a.wrapping_add(*b)).collect();
        // Compute (own + next) own' + own next', for 64 points and all points of this block and the
        // blocks before it.
        let one = product(&sum, &codes.own[columns.clone()], bits);
        let two = product(&codes.own[rows], &codes.next[columns], bits);
        let width = (j + 1) * LANES;
        for (at, (a, b)) in one.iter().zip(two).enumerate() {
            let (row, column) = (at / width, at % width);
            part[start + column / LANES * TILE + row * LANES + column % LANES] = a.wrapping_add(b);
        }
        start += (j + 1) * TILE;
    }
    let ones = codes.map(|share| {
        share.chunks(bits).map(|row| row.iter().fold(0u16, |sum, &b| sum.wrapping_add(b))).collect()
    });
    let codes = Arc::new(Zeroizing::new(codes));
    let statement = |_: &Context, log: &Log, products: &Shared<u16>, masks| {
        statements::distances(log, (&codes, bits), (products, masks), |j, i| {
            let block = j / LANES;
            (block * (block + 1) / 2 + i / LANES) * TILE + j % LANES * LANES + i % LANES
        });
    };
    let mut distances = reshare_proved(context, part, statement).await;
    for (products, ones) in [(&mut distances.own, &ones.own), (&mut distances.next, &ones.next)] {
        for ((j, i), tile) in tiles(blocks).zip(products.chunks_mut(TILE)) {
            for (at, x) in tile.iter_mut().enumerate() {
                let (p, q) = (ones[j * LANES + at / LANES], ones[i * LANES + at % LANES]);
                *x = p.wrapping_add(q).wrapping_sub(x.wrapping_mul(2));
            }
        }
    }
    distances
}

/// Computes the same distances from the parts of all owners, and sends nothing. The parts come in the
/// order of the owners' places; each has the owner's rows x `points`. Between two points of one owner,
/// the row of the later point counts. The distance of a point from itself is 0.
#[must_use]
pub fn added(parts: &[Shared<u16>], points: usize) -> Shared<u16> {
    let rows = |(owner, part): (usize, &Shared<u16>)| {
        (0..part.own.len() / points.max(1)).map(move |row| (owner, row * points))
    };
    let places: Vec<(usize, usize)> = parts.iter().enumerate().flat_map(rows).collect();
    let sums = |share: fn(&Shared<u16>) -> &Vec<u16>| {
        let parts: Vec<&Vec<u16>> = parts.iter().map(share).collect();
        let part = |x: usize, y: usize| parts[places[x].0][places[x].1 + y];
        let blocks = points.div_ceil(LANES);
        let mut sums = vec![0; blocks * (blocks + 1) / 2 * TILE];
        for ((j, i), tile) in tiles(blocks).zip(sums.chunks_mut(TILE)) {
            for (at, sum) in tile.iter_mut().enumerate() {
                let (one, two) = (j * LANES + at / LANES, i * LANES + at % LANES);
                let (x, y) = (one.max(two), one.min(two));
                if x < points && x > y {
                    let other = if places[x].0 == places[y].0 { 0 } else { part(y, x) };
                    *sum = part(x, y).wrapping_add(other);
                }
            }
        }
        sums
    };
    Shared { own: sums(|part| &part.own), next: sums(|part| &part.next) }
}

/// Returns the planes of the key that orders points by distance, highest first: whether h >= L / 2, then
/// the low log2 L - 1 bits of h. Each plane is a matrix of bits: row j holds the lanes i of all `points`
/// points.
pub async fn keys(
    context: &Context,
    distances: &Shared<u16>,
    points: usize,
    key_bits: usize,
) -> Vec<Shared<Bits>> {
    let thirds = in_thirds(context, distances.len(), TILE, |mut context, range| {
        let distances = distances.slice(range);
        Box::pin(async move {
            let mut planes = a2b(&mut context, &distances, key_bits + 1, Adder::Ripple).await;
            let (top, high) = (planes.pop().unwrap_or_default(), planes.pop().unwrap_or_default());
            let both = multiply(&mut context, &top, &high).await;
            planes.push(top.plus(&high).plus(&both));
            planes
        })
    })
    .await;
    let plane = |bit: usize| {
        let tiles = Shared::concat(thirds.iter().map(|planes| &planes[bit]));
        tiles.map(|tiles| matrix(tiles, points))
    };
    (0..key_bits).rev().map(plane).collect()
}

/// Returns a symmetric matrix of bits from its tiles: row j holds the lanes of all points.
fn matrix(bits: &[Bits], points: usize) -> Vec<Bits> {
    let blocks = points.div_ceil(LANES);
    let mut matrix = vec![Bits::default(); points * blocks];
    let mut put = |row: usize, block: usize, word: u64| {
        if row < points {
            matrix[row * blocks + block] = Xor(word);
        }
    };
    for ((j, i), tile) in tiles(blocks).zip(bits.chunks(LANES)) {
        let mut block: [u64; LANES] = std::array::from_fn(|row| tile[row].0);
        block.iter().enumerate().for_each(|(row, &word)| put(j * LANES + row, i, word));
        if i < j {
            transpose(&mut block);
            block.iter().enumerate().for_each(|(row, &word)| put(i * LANES + row, j, word));
        }
    }
    matrix
}
