//! Propagation: the Chebyshev series of (I - alpha P)^-1 applied to the labels, one exact truncation a step.

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::newton::Reciprocals;
use super::primitives::{multiply, reshare};
use super::truncate::truncate;
use super::{Context, Shared};
use crate::model::propagation::integer::{COEFFICIENT_BITS, Plan, RECIPROCAL_BITS};

/// Rows of a matrix whose products are summed at once.
const TILE: usize = 4;
/// Columns that lie side by side: two vectors of AVX-512.
const COLUMNS: usize = 16;
/// Rows that one thread takes at a time.
const ROWS: usize = 32;

/// What a party holds of the dense graph: shares own + next, and own, row after row.
#[derive(Clone)]
pub struct Graph {
    points: usize,
    sum: Vec<u64>,
    own: Vec<u64>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({} points, <redacted>)", self.points)
    }
}

impl Graph {
    /// W = B + B^T, from B; and the degrees, its row sums.
    #[must_use]
    pub fn new(edges: Shared<u64>, points: usize) -> (Self, Shared<u64>) {
        let Shared { own, next } = edges;
        let (own, mut sum) = (symmetric(own, points), symmetric(next, points));
        let degrees = |rows: &[u64]| -> Vec<u64> {
            rows.chunks(points).map(|row| row.iter().fold(0u64, |sum, &w| sum.wrapping_add(w))).collect()
        };
        let degrees = Shared { own: degrees(&own), next: degrees(&sum) };
        sum.iter_mut().zip(&own).for_each(|(sum, own)| *sum = sum.wrapping_add(*own));
        (Self { points, sum, own }, degrees)
    }

    /// This party's part of W a, for `columns` columns.
    #[must_use]
    pub fn times(&self, a: &Shared<u64>, columns: usize) -> Vec<u64> {
        product(&self.sum, &self.own, &a.own, &a.next, columns)
    }
}

/// B + B^T.
fn symmetric(mut b: Vec<u64>, points: usize) -> Vec<u64> {
    const BLOCK: usize = 32;
    for i in (0..points).step_by(BLOCK) {
        for j in (0..=i).step_by(BLOCK) {
            for row in i..points.min(i + BLOCK) {
                for column in j..(j + BLOCK).min(row + 1) {
                    let sum = b[row * points + column].wrapping_add(b[column * points + row]);
                    b[row * points + column] = sum;
                    b[column * points + row] = sum;
                }
            }
        }
    }
    b
}

/// V x + W y mod 2^64: V and W square, row after row; x, y and the result with `columns` columns.
///
/// # Panics
/// If the shapes do not fit.
#[must_use]
pub fn product(v: &[u64], w: &[u64], x: &[u64], y: &[u64], columns: usize) -> Vec<u64> {
    let points = x.len() / columns.max(1);
    assert!(v.len() == points * points && w.len() == v.len() && y.len() == x.len(), "square matrices");
    let mut out = vec![0; x.len()];
    let arch = Arch::new();
    for first in (0..columns).step_by(COLUMNS) {
        let count = COLUMNS.min(columns - first);
        let (x, y) = (block(x, columns, first, count), block(y, columns, first, count));
        let rows = out.par_chunks_mut(ROWS * columns).zip(v.par_chunks(ROWS * points));
        rows.zip(w.par_chunks(ROWS * points)).for_each(|((out, v), w)| {
            arch.dispatch(Rows { v, w, x: &x, y: &y, out, points, columns, first, count });
        });
    }
    out
}

/// Some columns, side by side, the missing ones 0.
fn block(x: &[u64], columns: usize, first: usize, count: usize) -> Vec<[u64; COLUMNS]> {
    let row = |row: &[u64]| {
        let mut block = [0; COLUMNS];
        block[..count].copy_from_slice(&row[first..first + count]);
        block
    };
    x.chunks_exact(columns).map(row).collect()
}

struct Rows<'a> {
    v: &'a [u64],
    w: &'a [u64],
    x: &'a [[u64; COLUMNS]],
    y: &'a [[u64; COLUMNS]],
    out: &'a mut [u64],
    points: usize,
    columns: usize,
    first: usize,
    count: usize,
}

impl NullaryFnOnce for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { v, w, x, y, out, points, columns, first, count } = self;
        let tiles = v.chunks(TILE * points).zip(w.chunks(TILE * points));
        for ((v, w), out) in tiles.zip(out.chunks_mut(TILE * columns)) {
            let sums = tile(v, w, x, y, points);
            for (out, sums) in out.chunks_mut(columns).zip(&sums) {
                out[first..first + count].copy_from_slice(&sums[..count]);
            }
        }
    }
}

/// Up to four rows; those that are missing are taken to be the first, and mean nothing.
#[inline(always)]
fn tile(
    v: &[u64],
    w: &[u64],
    x: &[[u64; COLUMNS]],
    y: &[[u64; COLUMNS]],
    points: usize,
) -> [[u64; COLUMNS]; TILE] {
    let len = v.len();
    let start = |row: usize| if (row + 1) * points <= len { row * points } else { 0 };
    let v: [&[u64]; TILE] = std::array::from_fn(|row| &v[start(row)..][..points]);
    let w: [&[u64]; TILE] = std::array::from_fn(|row| &w[start(row)..][..points]);
    let (x, y) = (&x[..points], &y[..points]);
    let mut sums = [[0u64; COLUMNS]; TILE];
    for j in 0..points {
        // Copies, so that the compiler sees values and not places: else nothing stays in registers.
        let (x, y) = (x[j], y[j]);
        for (row, sum) in sums.iter_mut().enumerate() {
            let (a, b, before) = (v[row][j], w[row][j], *sum);
            *sum = std::array::from_fn(|c| {
                before[c].wrapping_add(a.wrapping_mul(x[c])).wrapping_add(b.wrapping_mul(y[c]))
            });
        }
    }
    sums
}

/// One number a point becomes one for each of its columns.
fn spread(values: &Shared<u64>, columns: usize) -> Shared<u64> {
    values.map(|share| share.iter().flat_map(|&x| std::iter::repeat_n(x, columns)).collect())
}

/// Shares of the scores, points x classes, from labels that are 0 or 1.
pub async fn propagate(
    context: &mut Context,
    plan: &Plan,
    graph: &Graph,
    reciprocals: &Reciprocals,
    labels: &Shared<u64>,
) -> Shared<u64> {
    let columns = plan.classes();
    let inverses = spread(&reciprocals.inverses, columns);
    let kept = spread(&reciprocals.kept, columns);
    let coefficients = plan.coefficients();
    let mut before = multiply(context, &spread(&reciprocals.roots, columns), labels).await;
    let mut last = Shared::default();
    let mut sum = before.times(coefficients[0]);
    for (step, &coefficient) in coefficients.iter().enumerate().skip(1) {
        let from = if step == 1 { &before } else { &last };
        // Truncating by one bit less is the factor 2 of the recurrence.
        let bits = if step == 1 { RECIPROCAL_BITS } else { RECIPROCAL_BITS - 1 };
        let reached = reshare(context, graph.times(from, columns)).await;
        let mut part = reached.product(&inverses);
        part.iter_mut().zip(from.product(&kept)).for_each(|(x, y)| *x = x.wrapping_add(y));
        let next = truncate(context, &part, bits).await;
        if step == 1 {
            last = next;
        } else {
            let next = next.minus(&before);
            before = std::mem::replace(&mut last, next);
        }
        sum.add(&last.times(coefficient));
    }
    // Role by role a part of the sum: share own.
    truncate(context, &sum.own, COEFFICIENT_BITS).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::stream::Stream;

    #[test]
    fn products_are_those_of_plain_loops_for_every_shape() {
        let mut stream = Stream::new(&[1; 32], "test", &[]);
        let mut words = |n: usize| -> Vec<u64> {
            (0..n).map(|_| u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32())).collect()
        };
        for (points, columns) in [(1, 1), (3, 2), (4, 16), (37, 10), (65, 17), (33, 35)] {
            let [v, w, x, y] =
                [points * points, points * points, points * columns, points * columns].map(&mut words);
            let plain = |m: &[u64], x: &[u64], i: usize, c: usize| {
                (0..points)
                    .fold(0u64, |sum, j| sum.wrapping_add(m[i * points + j].wrapping_mul(x[j * columns + c])))
            };
            let expected: Vec<u64> = (0..points * columns)
                .map(|at| (at / columns, at % columns))
                .map(|(i, c)| plain(&v, &x, i, c).wrapping_add(plain(&w, &y, i, c)))
                .collect();
            assert_eq!(product(&v, &w, &x, &y, columns), expected, "{points} x {columns}");
        }
    }

    #[test]
    fn a_matrix_and_its_transpose_are_added() {
        let points = 75;
        let b: Vec<u64> = (0..points * points).map(|x| (x * x % 1009) as u64).collect();
        let found = symmetric(b.clone(), points);
        let sum = |i: usize, j: usize| b[i * points + j] + b[j * points + i];
        assert!((0..points * points).all(|at| found[at] == sum(at / points, at % points)));
    }
}
