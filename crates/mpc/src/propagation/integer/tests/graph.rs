//! Graph of nearest neighbours with integer weights, the same on every machine.

use rayon::prelude::*;

/// Fractional bits of a weight.
pub(crate) const WEIGHT_BITS: u32 = 32;

/// Edge: `to` is among the nearest points of `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Edge {
    /// Point that has the neighbour.
    pub(crate) from: u32,
    /// Neighbour.
    pub(crate) to: u32,
    /// Hamming distance of the codes of both points.
    pub(crate) distance: u16,
}

/// Returns the `k` nearest of some (distance, point): smallest distances first, of equal distances the
/// earliest points. Points at a distance of L / 2 or more, which is a cosine of 0 or less, are left out,
/// so that no weight is negative.
#[must_use]
pub(crate) fn nearest(mut points: Vec<(u16, u32)>, k: usize, bits: usize) -> Vec<(u16, u32)> {
    points.retain(|&(distance, _)| 2 * usize::from(distance) < bits);
    if points.len() > k && k > 0 {
        points.select_nth_unstable(k - 1);
    }
    points.truncate(k);
    points.sort_unstable();
    points
}

/// N = D^-1/2 W D^-1/2 with W = B + B^T, symmetric, each weight rounded to a multiple of 2^-32. The row of
/// a point without edges is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    starts: Vec<usize>,
    /// (column, weight) ascending in each row.
    entries: Vec<(u32, u64)>,
}

impl Graph {
    /// Makes the graph of `n` points. `edges` contain points below `n`, with no edge twice from the same
    /// point. The distances are of codes of `bits` bits.
    ///
    /// # Panics
    /// If an edge contains a point that is not below `n`.
    #[must_use]
    pub(crate) fn new(n: usize, bits: usize, power: u8, edges: &[Edge]) -> Self {
        let similarity = |distance: u16| {
            let cosine = libm::cos(std::f64::consts::PI * f64::from(distance) / bits as f64).max(0.0);
            (0..power).fold(1.0, |product, _| product * cosine)
        };
        let both = edges.iter().flat_map(|edge| {
            let b = similarity(edge.distance);
            [(edge.from, edge.to, b), (edge.to, edge.from, b)]
        });
        let mut w: Vec<(u32, u32, f64)> = both.filter(|&(_, _, b)| b > 0.0).collect();
        assert!(w.iter().all(|&(i, _, _)| (i as usize) < n), "edges of points below {n}");
        // Two edges between the same points have the same distance, so their order does not matter.
        w.sort_unstable_by_key(|&(i, j, _)| (i, j));
        w.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let mut degrees = vec![0.0; n];
        for &(i, _, weight) in &w {
            degrees[i as usize] += weight;
        }
        let mut starts = vec![0; n + 1];
        for &(i, _, _) in &w {
            starts[i as usize + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let one = (1u64 << WEIGHT_BITS) as f64;
        let entry = |&(i, j, weight): &(u32, u32, f64)| {
            // The smaller point comes first, so that both directions are rounded in the same way.
            let (i, j) = (i.min(j) as usize, i.max(j) as usize);
            let normal = weight / (degrees[i].sqrt() * degrees[j].sqrt());
            (normal * one).round() as u64
        };
        Self { entries: w.iter().map(|each| (each.1, entry(each))).collect(), starts }
    }

    /// Returns the number of points.
    #[must_use]
    pub(crate) fn points(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of entries of N: twice the edges, minus the edges that exist in both directions.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns row i of N: (column, weight with [`WEIGHT_BITS`] fractional bits), ascending.
    #[must_use]
    pub(crate) fn row(&self, i: usize) -> &[(u32, u64)] {
        &self.entries[self.starts[i]..self.starts[i + 1]]
    }

    /// Returns N x.
    fn times(&self, x: &[f64]) -> Vec<f64> {
        let unit = 1.0 / (1u64 << WEIGHT_BITS) as f64;
        (0..self.points())
            .into_par_iter()
            .map(|i| self.row(i).iter().map(|&(j, weight)| weight as f64 * unit * x[j as usize]).sum())
            .collect()
    }

    /// Returns (I - alpha N)^-1 y by conjugate gradients (Hestenes & Stiefel, 1952), to a relative
    /// residual of 1e-13, or the best result of 1,000 steps.
    #[must_use]
    pub(crate) fn solve(&self, y: &[f64], alpha: f64) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut z = vec![0.0; y.len()];
        let mut residual = y.to_vec();
        let mut direction = residual.clone();
        let mut size = dot(&residual, &residual);
        let enough = size * 1e-26;
        for _ in 0..1000 {
            if size <= enough {
                break;
            }
            let image: Vec<f64> =
                direction.iter().zip(self.times(&direction)).map(|(x, nx)| x - alpha * nx).collect();
            let step = size / dot(&direction, &image);
            z.iter_mut().zip(&direction).for_each(|(z, d)| *z += step * d);
            residual.iter_mut().zip(&image).for_each(|(r, a)| *r -= step * a);
            let next = dot(&residual, &residual);
            direction.iter_mut().zip(&residual).for_each(|(d, r)| *d = r + next / size * *d);
            size = next;
        }
        z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: u32, to: u32, distance: u16) -> Edge {
        Edge { from, to, distance }
    }

    #[test]
    fn ties_go_to_the_earlier_point_and_right_angles_are_no_edges() {
        let points = vec![(5, 3), (5, 1), (2, 9), (32, 0), (31, 4), (5, 2)];
        assert_eq!(nearest(points.clone(), 3, 64), [(2, 9), (5, 1), (5, 2)]);
        assert_eq!(nearest(points, 9, 64), [(2, 9), (5, 1), (5, 2), (5, 3), (31, 4)]);
        assert_eq!(nearest(vec![(1, 1)], 0, 64), []);
    }

    #[test]
    fn weights_are_those_of_the_normalised_graph() {
        // A path 0 - 1 - 2, the first edge in both directions, and an isolated point.
        let graph = Graph::new(4, 64, 1, &[edge(0, 1, 0), edge(1, 0, 0), edge(1, 2, 16)]);
        let c = (std::f64::consts::PI / 4.0).cos();
        let (d0, d1, d2) = (2.0, 2.0 + c, c);
        let weight = |w: f64, a: f64, b: f64| (w / (a * b).sqrt() * 4294967296.0).round();
        let found: Vec<Vec<(u32, f64)>> =
            (0..4).map(|i| graph.row(i).iter().map(|&(j, w)| (j, w as f64)).collect()).collect();
        let close = |a: f64, b: f64| (a - b).abs() <= 1.0;
        assert!(found[0].len() == 1 && found[0][0].0 == 1 && close(found[0][0].1, weight(2.0, d0, d1)));
        assert!(found[1].len() == 2 && close(found[1][1].1, weight(c, d1, d2)));
        assert_eq!(found[1][0].1, found[0][0].1, "symmetric to the last bit");
        assert!(found[3].is_empty());
    }

    #[test]
    fn the_order_of_the_edges_does_not_matter() {
        let mut edges = vec![edge(0, 1, 3), edge(1, 0, 3), edge(1, 2, 9), edge(2, 0, 4), edge(3, 2, 30)];
        let graph = Graph::new(5, 64, 3, &edges);
        edges.reverse();
        assert_eq!(Graph::new(5, 64, 3, &edges), graph);
        assert_eq!((graph.points(), graph.entries()), (5, 8));
    }

    #[test]
    fn conjugate_gradients_solve_the_system() {
        let edges: Vec<_> =
            (0..40).flat_map(|i| [edge(i, (i * 7 + 1) % 40, 11), edge(i, (i * 3 + 2) % 40, 20)]).collect();
        let edges: Vec<_> = edges.into_iter().filter(|edge| edge.from != edge.to).collect();
        let graph = Graph::new(40, 64, 1, &edges);
        let y: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i % 9 == 0))).collect();
        let z = graph.solve(&y, 0.99);
        let back: Vec<f64> = z.iter().zip(graph.times(&z)).map(|(z, nz)| z - 0.99 * nz).collect();
        assert!(back.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-10), "{back:?}");
    }
}
