//! Every stage in the clear: the values that the shares of each stage add up to.

use super::{
    BALANCE_BITS, COARSE_BITS, COEFFICIENT_BITS, INVERSE_EXCESS, INVERSE_START, NEWTON_BITS, NEWTON_STEPS,
    Plan, RECIPROCAL_BITS, ROOT_START, VALUE_BITS, WEIGHT_BITS,
};
use flyswarm_learn::sketch::lsh::Codes;

/// Returns floor((x + 2^(bits - 1)) / 2^bits): to the nearest, halves up.
#[must_use]
pub fn rounded(x: i64, bits: u32) -> i64 {
    (x + (1 << (bits - 1))) >> bits
}

/// All values of a computation, in the order of its stages. The rows are those of all owners, owner
/// after owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The k nearest points of each point, n x k, ascending by (distance, point). Only points with a
    /// weight above 0 count; the others may differ.
    pub neighbours: Vec<usize>,
    /// Weights of the neighbours, n x k.
    pub weights: Vec<u64>,
    /// W = B + B^T, n x n.
    pub graph: Vec<u64>,
    /// Row sums of W.
    pub degrees: Vec<u64>,
    /// r: 2^G / d, rounded down; 0 if d is 0.
    pub inverses: Vec<u64>,
    /// 2^(F + 6) / sqrt(d), rounded; 0 if d is 0.
    pub roots: Vec<u64>,
    /// Sum of the series, n x C, with F fractional bits. It is balanced if the plan requires it.
    pub scores: Vec<i64>,
    /// Output of the owners.
    pub output: Output,
}

/// Output for each point, without finer data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// Class of the largest score; of equal scores, the first class. `None` if no score is above 0.
    pub labels: Vec<Option<u16>>,
    /// Scores as multiples of 2^-6 of their row's sum, n x C: from 0 to 64.
    pub coarse: Vec<u8>,
}

impl Reference {
    /// Computes all values from all codes and labels.
    ///
    /// # Panics
    /// If codes or labels do not match the plan.
    #[must_use]
    pub fn new(plan: &Plan, codes: &Codes, labels: &[Option<u16>]) -> Self {
        assert_eq!((codes.rows(), labels.len()), (plan.points(), plan.points()), "as many points as planned");
        assert_eq!(codes.bits(), plan.settings().bits as usize, "codes as long as planned");
        Self::from_distances(plan, &codes.distances(codes), labels)
    }

    /// Computes all values from all Hamming distances, n x n.
    ///
    /// # Panics
    /// If distances or labels do not match the plan.
    #[must_use]
    pub fn from_distances(plan: &Plan, distances: &[u16], labels: &[Option<u16>]) -> Self {
        let (n, classes) = (plan.points(), plan.classes());
        assert_eq!(distances.len(), n * n, "distances of all pairs");
        let neighbours: Vec<usize> =
            (0..n).flat_map(|i| nearest(i, &distances[i * n..][..n], plan.k())).collect();
        let table = plan.weights();
        let mut graph = vec![0; n * n];
        let weights: Vec<u64> = neighbours
            .iter()
            .enumerate()
            .map(|(edge, &j)| {
                let i = edge / plan.k();
                let weight = table.get(usize::from(distances[i * n + j])).copied().unwrap_or(0);
                graph[i * n + j] += weight;
                graph[j * n + i] += weight;
                weight
            })
            .collect();
        let degrees: Vec<u64> = graph.chunks(n).map(|row| row.iter().sum()).collect();
        let inverses: Vec<u64> = degrees.iter().map(|&d| inverse(d)).collect();
        let roots: Vec<u64> = degrees.iter().map(|&d| inverse_root(plan, d)).collect();
        let y: Vec<bool> = labels
            .iter()
            .flat_map(|label| (0..classes).map(move |class| *label == Some(class as u16)))
            .collect();
        let mut scores = propagate(plan, &graph, &degrees, &inverses, &roots, &y);
        if let Some(table) = plan.balance() {
            balance(&table, classes, &y, &mut scores);
        }
        let output = coarse(&scores, classes);
        Self { neighbours, weights, graph, degrees, inverses, roots, scores, output }
    }
}

/// Returns the `k` nearest of the points in a row of distances, without the point itself, by (distance,
/// point).
fn nearest(from: usize, distances: &[u16], k: usize) -> Vec<usize> {
    let mut others: Vec<usize> = (0..distances.len()).filter(|&to| to != from).collect();
    others.sort_by_key(|&to| (distances[to], to));
    others.truncate(k);
    others
}

/// Returns r: 2^G / d by Newton's iteration, never too large; 0 if d is 0.
#[must_use]
pub fn inverse(d: u64) -> u64 {
    let Some(shift) = scale(d) else { return 0 };
    let m = (d << shift) as i64;
    let mut y = INVERSE_START as i64 - 2 * m;
    for _ in 0..NEWTON_STEPS {
        let t = (2 << NEWTON_BITS) - rounded(m * y, NEWTON_BITS);
        y = rounded(y * t, NEWTON_BITS);
    }
    ((y as u64 - INVERSE_EXCESS) << shift) >> (2 * NEWTON_BITS - RECIPROCAL_BITS)
}

/// Returns 2^(F + 6) / sqrt(d) by Newton's iteration; 0 if d is 0.
#[must_use]
pub fn inverse_root(plan: &Plan, d: u64) -> u64 {
    let Some(shift) = scale(d) else { return 0 };
    let m = (d << shift) as i64;
    let mut v = ROOT_START as i64 - m;
    for _ in 0..NEWTON_STEPS {
        let square = rounded(v * v, NEWTON_BITS);
        let t = (3 << NEWTON_BITS) - rounded(m * square, NEWTON_BITS);
        v = rounded(v * t, NEWTON_BITS + 1);
    }
    let root = plan.roots()[(NEWTON_BITS - shift - 1) as usize];
    rounded(v * root as i64, 60 - VALUE_BITS - WEIGHT_BITS / 2) as u64
}

/// Returns the shift that gives a degree 28 bits, or `None` for 0.
fn scale(d: u64) -> Option<u32> {
    (d > 0).then(|| NEWTON_BITS - 1 - d.ilog2())
}

/// Returns the Chebyshev series, points x classes.
fn propagate(
    plan: &Plan,
    graph: &[u64],
    degrees: &[u64],
    inverses: &[u64],
    roots: &[u64],
    y: &[bool],
) -> Vec<i64> {
    let (n, classes) = (plan.points(), plan.classes());
    // Returns (r W a + c a) of every point: 2^G P a.
    let spread = |a: &[i64]| -> Vec<i64> {
        (0..n)
            .flat_map(|i| {
                let mut sums = vec![0i64; classes];
                for (j, &weight) in graph[i * n..][..n].iter().enumerate().filter(|&(_, &w)| w > 0) {
                    let row = &a[j * classes..][..classes];
                    sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += weight as i64 * x);
                }
                let kept = (1 << RECIPROCAL_BITS) - (degrees[i] * inverses[i]) as i64;
                let own = &a[i * classes..][..classes];
                let of = |(sum, &x): (i64, &i64)| sum * inverses[i] as i64 + kept * x;
                sums.into_iter().zip(own).map(of).collect::<Vec<_>>()
            })
            .collect()
    };
    let coefficients: Vec<i64> = plan.coefficients().iter().map(|&c| c as i64).collect();
    let mut before: Vec<i64> =
        y.iter().enumerate().map(|(at, &y)| i64::from(y) * roots[at / classes] as i64).collect();
    let mut last: Vec<i64> = spread(&before).into_iter().map(|z| rounded(z, RECIPROCAL_BITS)).collect();
    let mut sum: Vec<i64> =
        before.iter().zip(&last).map(|(&a, &b)| coefficients[0] * a + coefficients[1] * b).collect();
    for &c in &coefficients[2..] {
        let next = spread(&last).into_iter().zip(&before);
        let next: Vec<i64> = next.map(|(z, &a)| rounded(z, RECIPROCAL_BITS - 1) - a).collect();
        before = std::mem::replace(&mut last, next);
        sum.iter_mut().zip(&last).for_each(|(sum, &a)| *sum += c * a);
    }
    sum.into_iter().map(|s| rounded(s, COEFFICIENT_BITS)).collect()
}

/// Multiplies the scores of each class by the entry of `table` for its number of labels.
fn balance(table: &[u64], classes: usize, y: &[bool], scores: &mut [i64]) {
    for class in 0..classes {
        let labels = y.iter().skip(class).step_by(classes).filter(|&&label| label).count();
        let column = scores.iter_mut().skip(class).step_by(classes);
        column.for_each(|score| *score = rounded(*score * table[labels] as i64, BALANCE_BITS));
    }
}

/// Returns labels and row-normalised scores. Scores below 0 count as 0. With s as the sum of a row, t
/// becomes floor((2^7 t + s - 1) / (2 s)): 2^6 t / s to the nearest, halves down.
#[must_use]
pub fn coarse(scores: &[i64], classes: usize) -> Output {
    let mut output = Output::default();
    for row in scores.chunks_exact(classes) {
        let row: Vec<i64> = row.iter().map(|&t| t.max(0)).collect();
        let sum: i64 = row.iter().sum();
        let best =
            (0u16..).zip(&row).fold((None, 0), |best, (c, &t)| if t > best.1 { (Some(c), t) } else { best });
        output.labels.push(best.0);
        output.coarse.extend(
            row.iter().map(|&t| {
                if sum == 0 { 0 } else { (((t << (COARSE_BITS + 1)) + sum - 1) / (2 * sum)) as u8 }
            }),
        );
    }
    output
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
