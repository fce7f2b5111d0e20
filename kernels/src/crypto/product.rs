//! Matrix products in Z_{2^16}, at the speed of the machine's vectors: what distances on shares
//! ([`crate::shares::distances`]) spend their time on.
//!
//! Both matrices lie row after row, so that an entry of A B^T is a product of two contiguous rows. Four rows
//! of each at a time make 16 sums that stay in registers; the rows of B are taken in panels that stay in the
//! second-level cache.

use std::array::from_fn;

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

/// Words that are multiplied at once; rows are a multiple of it.
pub const STEP: usize = 32;
/// Rows of each matrix whose products are summed at once.
const TILE: usize = 4;
/// Rows of B in a panel: 512 KiB where rows have 4,096 words.
const PANEL: usize = 64;
/// Rows of A that one thread takes at a time.
const SHARE: usize = 32;

/// A B^T mod 2^16, row-major: `a` holds rows of `length` words, `b` too.
///
/// # Panics
/// If `length` is 0 or no multiple of [`STEP`], or a matrix has no whole number of rows.
#[must_use]
pub fn product(a: &[u16], b: &[u16], length: usize) -> Vec<u16> {
    assert!(length > 0 && length.is_multiple_of(STEP), "rows of {length} words");
    assert!(a.len().is_multiple_of(length) && b.len().is_multiple_of(length), "matrices of whole rows");
    let (rows, columns) = (a.len() / length, b.len() / length);
    let mut out = vec![0; rows * columns];
    if out.is_empty() {
        return out;
    }
    let arch = Arch::new();
    out.par_chunks_mut(SHARE * columns).zip(a.par_chunks(SHARE * length)).for_each(|(out, a)| {
        arch.dispatch(Share { a, b, length, out });
    });
    out
}

/// The rows of the product for some rows of A.
struct Share<'a> {
    a: &'a [u16],
    b: &'a [u16],
    length: usize,
    out: &'a mut [u16],
}

impl NullaryFnOnce for Share<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { a, b, length, out } = self;
        let columns = b.len() / length;
        for (panel, b) in b.chunks(PANEL * length).enumerate() {
            for (a, out) in a.chunks(TILE * length).zip(out.chunks_mut(TILE * columns)) {
                for (tile, b) in b.chunks(TILE * length).enumerate() {
                    let first = panel * PANEL + tile * TILE;
                    let sums = tile_of(a, b, length);
                    for (out, sums) in out.chunks_mut(columns).zip(sums) {
                        out[first..]
                            .iter_mut()
                            .zip(&sums[..b.len() / length])
                            .for_each(|(out, sum)| *out = *sum);
                    }
                }
            }
        }
    }
}

/// The products of up to four rows with up to four; rows that are missing are taken to be the first, and mean
/// nothing.
#[inline(always)]
fn tile_of(a: &[u16], b: &[u16], length: usize) -> [[u16; TILE]; TILE] {
    let start = |words: usize, row: usize| if (row + 1) * length <= words { row * length } else { 0 };
    let steps = length / STEP;
    let rows_of_a: [_; TILE] = from_fn(|i| &a[start(a.len(), i)..][..length].as_chunks::<STEP>().0[..steps]);
    let rows_of_b: [_; TILE] = from_fn(|j| &b[start(b.len(), j)..][..length].as_chunks::<STEP>().0[..steps]);
    let mut sums = [[[0u16; STEP]; TILE]; TILE];
    for step in 0..steps {
        // Copies, so that the compiler sees values and not places: else nothing stays in registers.
        let y: [[u16; STEP]; TILE] = from_fn(|j| rows_of_b[j][step]);
        for (sums, row) in sums.iter_mut().zip(rows_of_a) {
            let x = row[step];
            for (sum, y) in sums.iter_mut().zip(y) {
                let before = *sum;
                *sum = from_fn(|lane| before[lane].wrapping_add(x[lane].wrapping_mul(y[lane])));
            }
        }
    }
    sums.map(|sums| sums.map(|sum| sum.iter().fold(0u16, |sum, &x| sum.wrapping_add(x))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::stream::Stream;

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
            assert_eq!(product(&a, &b, length), expected, "{rows} x {columns} x {length}");
        }
    }
}
