//! Matrix products in Z_{2^16}, at the speed of the machine's vector instructions. Distances on shares
//! ([`crate::shares::distances`]) spend most of their time here.
//!
//! Both matrices are stored row after row, so an entry of A B^T is a product of two contiguous rows. Four
//! rows of each matrix make 16 sums that stay in registers; machines with fewer registers take two rows of
//! A. The rows of B are taken in panels that stay in the second-level cache.

use pulp::Arch;
use rayon::prelude::*;

use crate::lanes::{self, Lanes, Word as _, Work};

/// The length of a row is a multiple of this number of words.
pub const STEP: usize = 32;
/// Largest number of rows of A whose products are summed at once.
const TILE: usize = 4;
/// Number of rows of B in a panel: 512 KiB for rows of 4,096 words.
const PANEL: usize = 64;
/// Number of rows of A that one thread takes at a time.
const SHARE: usize = 32;

/// Returns A B^T mod 2^16, row-major. `a` and `b` hold rows of `length` words.
///
/// # Panics
/// If `length` is 0 or not a multiple of [`STEP`], or if a matrix does not have a whole number of rows.
#[must_use]
pub fn product(a: &[u16], b: &[u16], length: usize) -> Vec<u16> {
    product_on(Arch::new(), a, b, length)
}

/// Computes [`product`] with the vector instructions of one kind of machine.
///
/// # Panics
/// For the same reasons as [`product`].
#[must_use]
pub fn product_on(arch: Arch, a: &[u16], b: &[u16], length: usize) -> Vec<u16> {
    assert!(length > 0 && length.is_multiple_of(STEP), "rows of {length} words");
    assert!(a.len().is_multiple_of(length) && b.len().is_multiple_of(length), "matrices of whole rows");
    let (rows, columns) = (a.len() / length, b.len() / length);
    let mut out = vec![0; rows * columns];
    if out.is_empty() {
        return out;
    }
    out.par_chunks_mut(SHARE * columns).zip(a.par_chunks(SHARE * length)).for_each(|(out, a)| {
        u16::with(arch, Share { a, b, length, out });
    });
    out
}

/// Rows of the product for some rows of A.
struct Share<'a> {
    a: &'a [u16],
    b: &'a [u16],
    length: usize,
    out: &'a mut [u16],
}

impl Work<u16> for Share<'_> {
    #[inline(always)]
    fn with<L: Lanes<u16>>(self, lanes: L) {
        let Self { a, b, length, out } = self;
        let columns = b.len() / length;
        let tile = if L::WIDE { TILE } else { 2 };
        for (panel, b) in b.chunks(PANEL * length).enumerate() {
            for (a, out) in a.chunks(tile * length).zip(out.chunks_mut(tile * columns)) {
                for (at, b) in b.chunks(TILE * length).enumerate() {
                    let first = panel * PANEL + at * TILE;
                    let mut put = |sums: &[[u16; TILE]]| {
                        for (out, sums) in out.chunks_mut(columns).zip(sums) {
                            let sums = &sums[..b.len() / length];
                            out[first..].iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
                        }
                    };
                    if L::WIDE {
                        put(&tile_of::<L, TILE>(lanes, a, b, length));
                    } else {
                        put(&tile_of::<L, 2>(lanes, a, b, length));
                    }
                }
            }
        }
    }
}

/// Returns the products of up to R rows with up to four rows. Missing rows are replaced by the first row,
/// and their results are not used.
#[inline(always)]
fn tile_of<L: Lanes<u16>, const R: usize>(lanes: L, a: &[u16], b: &[u16], length: usize) -> [[u16; TILE]; R] {
    let start = |words: usize, row: usize| if (row + 1) * length <= words { row * length } else { 0 };
    let a: [&[u16]; R] = std::array::from_fn(|i| &a[start(a.len(), i)..][..length]);
    let b: [&[u16]; TILE] = std::array::from_fn(|j| &b[start(b.len(), j)..][..length]);
    lanes::products(lanes, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm_sealed_sum::crypto::stream::Stream;

    fn words(n: usize, salt: u8) -> Vec<u16> {
        let mut stream = Stream::new(&[salt; 32], "test", &[]);
        (0..n).map(|_| stream.next_u32() as u16).collect()
    }

    #[test]
    fn products_are_those_of_plain_loops_for_every_shape() {
        for (rows, columns, length) in
            [(0, 3, 32), (3, 0, 32), (1, 1, 32), (4, 4, 64), (5, 7, 96), (37, 70, 64), (33, 130, 32)]
        {
            let (a, b) = (words(rows * length, 1), words(columns * length, 2));
            let expected: Vec<u16> = a
                .chunks(length)
                .flat_map(|a| {
                    b.chunks(length).map(move |b| {
                        a.iter().zip(b).fold(0u16, |sum, (&x, &y)| sum.wrapping_add(x.wrapping_mul(y)))
                    })
                })
                .collect();
            for arch in lanes::machines() {
                let found = product_on(arch, &a, &b, length);
                assert_eq!(found, expected, "{rows} x {columns} x {length}, {arch:?}");
            }
        }
    }
}
