//! Propagation: the Chebyshev series of (I - alpha P)^-1 applied to the labels, with one exact truncation
//! per step.

use std::ops::Range;
use std::sync::Arc;

use pulp::Arch;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::balance::balanced;
use super::newton::Reciprocals;
use super::primitives::{multiply, reshare_products, reshare_proved};
use super::proofs::galois::{Galois, scaled_sum};
use super::proofs::log::Log;
use super::proofs::statements;
use super::round::Side;
use super::truncate::truncate;
use super::{Context, Shared};
use crate::lanes::{Lanes, Word as _, Work, products};
use crate::propagation::integer::{COEFFICIENT_BITS, Plan, RECIPROCAL_BITS};

/// Number of places in one partial sum: their columns stay in the second-level cache.
const PANEL: usize = 2048;
/// Number of rows that one thread takes at a time.
const ROWS: usize = 32;

/// Shares of the dense graph at one party: own + next, and own, row after row.
#[derive(Clone)]
pub struct Graph {
    points: usize,
    sum: Zeroizing<Vec<u64>>,
    own: Zeroizing<Vec<u64>>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({} points, <redacted>)", self.points)
    }
}

impl Graph {
    /// Computes W = B + B^T from B, and the degrees, which are its row sums.
    #[must_use]
    pub fn new(edges: Shared<u64>, points: usize) -> (Self, Shared<u64>) {
        let Shared { own, next } = edges;
        let [own, mut sum] = [own, next].map(|share| Zeroizing::new(symmetric(share, points)));
        let degrees = |rows: &[u64]| -> Vec<u64> {
            rows.chunks(points).map(|row| row.iter().fold(0u64, |sum, &w| sum.wrapping_add(w))).collect()
        };
        let degrees = Shared { own: degrees(&own), next: degrees(&sum) };
        sum.iter_mut().zip(own.iter()).for_each(|(sum, own)| *sum = sum.wrapping_add(*own));
        (Self { points, sum, own }, degrees)
    }

    /// Returns the sum of the rows of this party's own share of W, or of its next share, each row times
    /// its coin. W is symmetric, so these are also the products with its columns.
    #[must_use]
    pub fn combined(&self, coins: &[Galois<u64>], side: Side) -> Vec<Galois<u64>> {
        let rows = self.sum.chunks(self.points).zip(self.own.chunks(self.points));
        let row = |(sum, own): (&[u64], &[u64])| {
            let words = sum
                .iter()
                .zip(own)
                .map(|(&sum, &own)| if side == Side::Before { own } else { sum.wrapping_sub(own) });
            scaled_sum(coins, words)
        };
        rows.map(row).collect()
    }

    /// Returns this party's part of W a, for `columns` columns.
    #[must_use]
    pub fn times(&self, a: &Shared<u64>, columns: usize) -> Vec<u64> {
        product(&self.sum, &self.own, &a.own, &a.next, columns)
    }
}

/// Returns B + B^T.
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

/// Returns V x + W y mod 2^64. V and W are square, row after row; x, y and the result have `columns`
/// columns.
///
/// # Panics
/// If the shapes do not fit.
#[must_use]
pub fn product(v: &[u64], w: &[u64], x: &[u64], y: &[u64], columns: usize) -> Vec<u64> {
    product_on(Arch::new(), v, w, x, y, columns)
}

/// Computes [`product`] with the vector instructions of one kind of machine.
///
/// # Panics
/// If the shapes do not fit.
#[must_use]
pub fn product_on(arch: Arch, v: &[u64], w: &[u64], x: &[u64], y: &[u64], columns: usize) -> Vec<u64> {
    let points = x.len() / columns.max(1);
    assert!(v.len() == points * points && w.len() == v.len() && y.len() == x.len(), "square matrices");
    let mut out = vec![0; x.len()];
    let (x, y) = (turned(x, columns), turned(y, columns));
    let rows = out.par_chunks_mut(ROWS * columns).zip(v.par_chunks(ROWS * points));
    rows.zip(w.par_chunks(ROWS * points)).for_each(|((out, v), w)| {
        u64::with(arch, Rows { pairs: [(v, &x), (w, &y)], out, points, columns });
    });
    out
}

/// Returns the matrix column after column.
fn turned(x: &[u64], columns: usize) -> Vec<u64> {
    (0..columns).flat_map(|column| x.iter().skip(column).step_by(columns.max(1)).copied()).collect()
}

/// Rows of the result for some rows of the matrices.
struct Rows<'a> {
    /// Each matrix, and its factor, column after column.
    pairs: [(&'a [u64], &'a [u64]); 2],
    out: &'a mut [u64],
    points: usize,
    columns: usize,
}

impl Work<u64> for Rows<'_> {
    #[inline(always)]
    fn with<L: Lanes<u64>>(mut self, lanes: L) {
        let (points, columns) = (self.points, self.columns);
        // Distribute the columns evenly, so that no lane is wasted.
        let (rows, most) = if L::WIDE { (4, 5) } else { (2, 2) };
        let width = columns.div_ceil(columns.div_ceil(most));
        for (matrix, x) in self.pairs {
            for from in (0..points).step_by(PANEL) {
                let range = from..points.min(from + PANEL);
                for row in (0..matrix.len() / points).step_by(rows) {
                    for first in (0..columns).step_by(width) {
                        let tile = Tile { matrix, x, range: range.clone(), row, first, points };
                        match (L::WIDE, width.min(columns - first)) {
                            (true, 5) => self.add(tile.sums::<L, 4, 5>(lanes), row, first),
                            (true, 4) => self.add(tile.sums::<L, 4, 4>(lanes), row, first),
                            (true, 3) => self.add(tile.sums::<L, 4, 3>(lanes), row, first),
                            (true, 2) => self.add(tile.sums::<L, 4, 2>(lanes), row, first),
                            (true, _) => self.add(tile.sums::<L, 4, 1>(lanes), row, first),
                            (false, 2) => self.add(tile.sums::<L, 2, 2>(lanes), row, first),
                            (false, _) => self.add(tile.sums::<L, 2, 1>(lanes), row, first),
                        }
                    }
                }
            }
        }
    }
}

impl Rows<'_> {
    /// Adds the sums of a tile. Sums of rows past the last one are dropped.
    #[inline(always)]
    fn add<const R: usize, const C: usize>(&mut self, sums: [[u64; C]; R], row: usize, first: usize) {
        for (out, sums) in self.out[row * self.columns..].chunks_mut(self.columns).zip(sums) {
            out[first..].iter_mut().zip(sums).for_each(|(out, sum)| *out = out.wrapping_add(sum));
        }
    }
}

/// Some rows of a matrix times some columns, over a range of places.
struct Tile<'a> {
    matrix: &'a [u64],
    x: &'a [u64],
    range: Range<usize>,
    row: usize,
    first: usize,
    points: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn sums<L: Lanes<u64>, const R: usize, const C: usize>(&self, lanes: L) -> [[u64; C]; R] {
        let last = self.matrix.len() / self.points - 1;
        let place = |at: usize| at * self.points + self.range.start..at * self.points + self.range.end;
        let a: [&[u64]; R] = std::array::from_fn(|row| &self.matrix[place(last.min(self.row + row))]);
        let b: [&[u64]; C] = std::array::from_fn(|column| &self.x[place(self.first + column)]);
        let mut sums = products(lanes, a, b);
        // Add the words after the last whole block.
        for (sums, a) in sums.iter_mut().zip(a) {
            for (sum, b) in sums.iter_mut().zip(b) {
                let left = L::blocks(a).1.iter().zip(L::blocks(b).1);
                *sum = left.fold(*sum, |sum, (&a, &b)| sum.wrapping_add(a.wrapping_mul(b)));
            }
        }
        sums
    }
}

/// Repeats the number of each point for each of its columns.
fn spread(values: &Shared<u64>, columns: usize) -> Shared<u64> {
    values.map(|share| share.iter().flat_map(|&x| std::iter::repeat_n(x, columns)).collect())
}

/// Returns shares of the scores, points x classes, from labels that are 0 or 1. The scores are balanced if
/// the plan requires it.
pub async fn propagate(
    context: &mut Context,
    plan: &Plan,
    graph: &Arc<Graph>,
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
    let mut products = Vec::new();
    for (step, &coefficient) in coefficients.iter().enumerate().skip(1) {
        let from = if step == 1 { &before } else { &last };
        // Truncating by one bit less gives the factor 2 of the recurrence.
        let bits = if step == 1 { RECIPROCAL_BITS } else { RECIPROCAL_BITS - 1 };
        let statement = |_: &Context, _: &Log, result: &Shared<u64>, masks| {
            products.push(statements::Step { factor: from.clone(), result: result.clone(), masks });
        };
        let reached = reshare_proved(context, graph.times(from, columns), statement).await;
        let mut part = reached.product(&inverses);
        part.iter_mut().zip(from.product(&kept)).for_each(|(x, y)| *x = x.wrapping_add(y));
        let pairs = || vec![(reached.clone(), inverses.clone()), (from.clone(), kept.clone())];
        let scaled = reshare_products(context, part, pairs).await;
        let next = truncate(context, &scaled, bits).await;
        if step == 1 {
            last = next;
        } else {
            let next = next.minus(&before);
            before = std::mem::replace(&mut last, next);
        }
        sum.add(&last.times(coefficient));
    }
    if let Some(log) = context.log() {
        let graph = Arc::clone(graph);
        let rows = move |coins: &[Galois<u64>], side: Side| graph.combined(coins, side);
        statements::graph(&log, (plan.points(), columns), products, rows);
    }
    let scores = truncate(context, &sum, COEFFICIENT_BITS).await;
    match &reciprocals.classes {
        None => scores,
        Some(weights) => balanced(context, &scores, weights).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::machines;
    use flyswarm_sealed_sum::crypto::stream::Stream;

    #[test]
    fn products_are_those_of_plain_loops_for_every_shape() {
        let mut stream = Stream::new(&[1; 32], "test", &[]);
        let mut words = |n: usize| -> Vec<u64> {
            (0..n).map(|_| u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32())).collect()
        };
        for (points, columns) in [(1, 1), (3, 2), (5, 5), (4, 16), (37, 10), (65, 17), (33, 35), (2100, 3)] {
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
            for arch in machines() {
                let found = product_on(arch, &v, &w, &x, &y, columns);
                assert_eq!(found, expected, "{points} x {columns}, {arch:?}");
            }
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
