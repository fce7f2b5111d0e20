//! (I - alpha N)^-1 as a Chebyshev series in integer fixed point: linear, a fixed number of steps, the same
//! on every machine.
//!
//! With x in [-1, 1], s = sqrt(1 - alpha^2) and q = (1 - s) / alpha,
//!
//! ```text
//! 1 / (1 - alpha x) = (1 + 2 sum_{k >= 1} q^k T_k(x)) / s
//! ```
//!
//! (the generating function of the Chebyshev polynomials T_k; Rivlin, *Chebyshev Polynomials*, section 1.4).
//! What is cut off after K terms is at most 2 q^(K+1) / ((1 - q) s). T_0 y = y, T_1 y = N y, T_(k+1) y = 2 N
//! T_k y - T_(k-1) y.
//!
//! Values have 40 fractional bits in an `i128`, weights and coefficients 32. |T_k(x)| <= 1, so that with n
//! points a vector stays below sqrt(n) times its largest entry; by Cauchy and Schwarz so do the sums on the
//! way. A share of a label is below 2^80 ([`LARGEST`]): with 2^16 points a product has at most 80 + 8 + 32
//! bits by a weight and 80 + 8 + 38 by a coefficient, at most 2 / s < 2^6 for alpha <= 0.999.

use rayon::prelude::*;

use super::graph::{Graph, WEIGHT_BITS};

/// Fractional bits of a value.
pub const VALUE_BITS: u32 = 40;
/// 1.0.
pub const ONE: i128 = 1 << VALUE_BITS;
/// No entry of what is propagated may be of this size or larger: 2^80, a label with 40 bits of mask above it.
pub const LARGEST: i128 = 1 << 80;
/// Most points.
pub const MAX_POINTS: usize = 1 << 16;

/// The series for one alpha.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Of T_0, T_1, ...; [`WEIGHT_BITS`] fractional bits.
    coefficients: Vec<i128>,
}

impl Series {
    /// As many terms as make every score of `points` points right to `tolerance`: what is cut off times the
    /// largest norm of a column of labels, sqrt(points).
    #[must_use]
    pub fn new(alpha: f64, tolerance: f64, points: usize) -> Self {
        let s = (1.0 - alpha * alpha).sqrt();
        let q = (1.0 - s) / alpha;
        let enough = tolerance / (points.max(1) as f64).sqrt();
        let one = (1u64 << WEIGHT_BITS) as f64;
        let fixed = |x: f64| (x * one).round() as i128;
        let mut coefficients = vec![fixed(1.0 / s)];
        let mut power = q;
        // q < 1: at most some thousand terms for alpha <= 0.999.
        while 2.0 * power / ((1.0 - q) * s) > enough {
            coefficients.push(fixed(2.0 * power / s));
            power *= q;
        }
        Self { coefficients }
    }

    /// How often N is applied.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// The series applied to `y`, points x columns, row-major.
    ///
    /// # Panics
    /// If `y` has no whole number of columns, an entry of [`LARGEST`] or more, or the graph more than
    /// [`MAX_POINTS`].
    #[must_use]
    pub fn apply(&self, graph: &Graph, y: &[i128], columns: usize) -> Vec<i128> {
        assert!(graph.points() <= MAX_POINTS && y.len() == graph.points() * columns, "points x columns");
        assert!(y.iter().all(|y| y.abs() < LARGEST), "entries below 2^80");
        let scaled = |coefficient: i128, x: i128| shifted(coefficient * x);
        let mut sum: Vec<i128> = y.iter().map(|&y| scaled(self.coefficients[0], y)).collect();
        let (mut before, mut last) = (vec![0; y.len()], y.to_vec());
        for (k, &coefficient) in self.coefficients.iter().enumerate().skip(1) {
            let factor = if k == 1 { 1 } else { 2 };
            // What is two steps back is not needed any more: the next vector takes its place.
            before.par_chunks_mut(columns.max(1)).enumerate().for_each(|(point, out)| {
                let mut sums = vec![0i128; columns];
                for &(j, weight) in graph.row(point) {
                    let row = &last[j as usize * columns..][..columns];
                    sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += i128::from(weight) * x);
                }
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = shifted(factor * sum) - *out);
            });
            std::mem::swap(&mut before, &mut last);
            sum.par_iter_mut().zip(&last).for_each(|(sum, &x)| *sum += scaled(coefficient, x));
        }
        sum
    }
}

/// Without the fractional bits of a weight, rounded to the nearest, halves up.
fn shifted(x: i128) -> i128 {
    (x + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS
}

/// A value as a number.
#[must_use]
pub fn number(value: i128) -> f64 {
    value as f64 / ONE as f64
}

#[cfg(test)]
mod tests {
    use super::super::graph::Edge;
    use super::*;
    use crate::crypto::stream::Stream;

    fn graph(n: u32, per_point: u32, seed: &[u8]) -> Graph {
        let mut stream = Stream::new(seed, "test", &[]);
        let edges: Vec<_> = (0..n)
            .flat_map(|from| {
                let mut to: Vec<_> =
                    (0..per_point).map(|_| stream.below(n)).filter(|&to| to != from).collect();
                to.sort_unstable();
                to.dedup();
                to.into_iter().map(move |to| (from, to)).collect::<Vec<_>>()
            })
            .map(|(from, to)| Edge { from, to, distance: ((from ^ to) % 30) as u16 })
            .collect();
        Graph::new(n as usize, 64, 1, &edges)
    }

    #[test]
    fn scores_are_those_of_the_linear_system_to_the_tolerance() {
        for (alpha, tolerance) in [(0.5, 1e-6), (0.99, 1e-5), (0.999, 1e-3)] {
            let graph = graph(300, 5, b"scores");
            let labels: Vec<i128> = (0..300).map(|i| if i % 31 == 0 { ONE } else { 0 }).collect();
            let series = Series::new(alpha, tolerance, 300);
            let found = series.apply(&graph, &labels, 1);
            let exact = graph.solve(&labels.iter().map(|&y| number(y)).collect::<Vec<_>>(), alpha);
            let worst = found.iter().zip(&exact).map(|(&z, e)| (number(z) - e).abs()).fold(0.0, f64::max);
            assert!(worst <= tolerance, "alpha {alpha}: {worst:e} after {} steps", series.steps());
        }
    }

    #[test]
    fn masks_of_forty_bits_above_the_labels_cancel() {
        let graph = graph(200, 4, b"masks");
        let mut stream = Stream::new(b"masks", "test", b"share");
        let labels: Vec<i128> = (0..600).map(|i| if i % 17 == 0 { ONE } else { 0 }).collect();
        let masks: Vec<i128> = (0..600)
            .map(|_| {
                let bits = (0..4).fold(0i128, |bits, _| bits << 20 | i128::from(stream.next_u32() >> 12));
                bits - (1 << 79)
            })
            .collect();
        let series = Series::new(0.99, 1e-5, 200);
        let masked: Vec<i128> = labels.iter().zip(&masks).map(|(y, r)| y + r).collect();
        let (one, two) = (series.apply(&graph, &masked, 3), series.apply(&graph, &masks, 3));
        let plain = series.apply(&graph, &labels, 3);
        let worst =
            one.iter().zip(two).zip(plain).map(|((a, b), z)| number(a - b - z).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-8, "{worst:e}");
    }

    #[test]
    fn a_tolerance_of_1e_5_takes_about_a_hundred_steps() {
        assert!(
            (100..160).contains(&Series::new(0.99, 1e-5, 2500).steps()),
            "{}",
            Series::new(0.99, 1e-5, 2500).steps()
        );
        assert!(Series::new(0.999, 1e-9, MAX_POINTS).steps() < 2000);
    }
}
