//! Label propagation over a graph of nearest neighbours (Scott, Yeo & Lampert, *Cross-client Label
//! Propagation*, TMLR 2023, Algorithm 1, lines 6 to 10 and 15): the same whether one computer has all points
//! ([`centralised`]) or peers have shares of them (`protocol::xclp`).
//!
//! A point's labels z solve (I - alpha N) z = y: N = D^-1/2 W D^-1/2, W = B + B^T, row i of B holds the
//! similarities cos(pi H / L)^power of i's k nearest points, and y is 1 where a point has that label, else 0.
//! With `balance` the column of a class is divided by how many labels it has, as in the authors' code.

pub mod graph;
pub mod integer;
pub mod series;

use graph::{Edge, Graph, nearest};

use crate::sketch::lsh::Codes;

/// What decides the graph and what is done on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Propagation {
    /// Edges from each point, the paper's k: at least 1.
    pub k: usize,
    /// How far labels spread: above 0, at most 0.999. The authors take 0.99.
    pub alpha: f64,
    /// Similarities are cosines to this power: 1 in the paper, 3 in the authors' code.
    pub power: u8,
    /// Whether each class weighs the same however many labels it has.
    pub balance: bool,
    /// Scores are right to this; smaller ones count as 0. From 1e-9 to 0.01.
    pub tolerance: f64,
}

/// What is said of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The class, unless no label reaches the point.
    pub label: Option<u16>,
    /// 1 - entropy of the scores / log C: from 0 (all classes alike) to 1 (one class only); 0 without a
    /// label.
    pub confidence: f64,
}

impl Propagation {
    /// The label and confidence of each point from its scores (points x classes): the class of the largest,
    /// of equal ones the first (paper, line 15). Scores below the tolerance are 0.
    ///
    /// `counts` are the labels of each class, for `balance`.
    #[must_use]
    pub fn say(&self, scores: &[f64], counts: &[u64]) -> Vec<Prediction> {
        let classes = counts.len().max(1);
        let weights: Vec<f64> =
            counts.iter().map(|&n| if self.balance && n > 0 { 1.0 / n as f64 } else { 1.0 }).collect();
        let of_point = |scores: &[f64]| {
            let kept =
                |(&score, weight): (&f64, &f64)| if score < self.tolerance { 0.0 } else { score * weight };
            let scores: Vec<f64> = scores.iter().zip(&weights).map(kept).collect();
            let total: f64 = scores.iter().sum();
            if total <= 0.0 {
                return Prediction { label: None, confidence: 0.0 };
            }
            let best =
                (0u16..).zip(&scores).fold((0, 0.0), |best, (c, &z)| if z > best.1 { (c, z) } else { best });
            let entropy = |z: &f64| if *z > 0.0 { -(z / total) * libm::log(z / total) } else { 0.0 };
            let entropy: f64 = scores.iter().map(entropy).sum();
            let most = if classes > 1 { libm::log(classes as f64) } else { 1.0 };
            Prediction { label: Some(best.0), confidence: (1.0 - entropy / most).clamp(0.0, 1.0) }
        };
        scores.chunks_exact(classes).map(of_point).collect()
    }
}

/// How many labels each of `classes` classes has.
#[must_use]
pub fn label_counts(labels: &[Option<u16>], classes: usize) -> Vec<u64> {
    let mut counts = vec![0; classes];
    for &label in labels.iter().flatten() {
        if let Some(count) = counts.get_mut(usize::from(label)) {
            *count += 1;
        }
    }
    counts
}

/// The edges of the graph of all points, from one place that holds every code; ties go to the earlier point.
#[must_use]
pub fn edges(codes: &Codes, k: usize) -> Vec<Edge> {
    let n = codes.rows();
    let distances = codes.distances(codes);
    (0..n)
        .flat_map(|from| {
            let row = &distances[from * n..][..n];
            let others = (0u32..).zip(row).filter(|(to, _)| *to as usize != from);
            nearest(others.map(|(to, &distance)| (distance, to)).collect(), k, codes.bits())
                .into_iter()
                .map(move |(distance, to)| Edge { from: from as u32, to, distance })
        })
        .collect()
}

/// Scores of all points from one place: the linear system solved by conjugate gradients in binary64 to a
/// residual of 1e-13, on the same integer graph as everybody's; points x classes.
#[must_use]
pub fn centralised(codes: &Codes, labels: &[Option<u16>], classes: usize, rule: &Propagation) -> Vec<f64> {
    let graph = Graph::new(codes.rows(), codes.bits(), rule.power, &edges(codes, rule.k));
    let mut scores = vec![0.0; labels.len() * classes];
    for class in 0..classes {
        let y: Vec<f64> =
            labels.iter().map(|label| f64::from(u8::from(*label == Some(class as u16)))).collect();
        for (point, z) in graph.solve(&y, rule.alpha).into_iter().enumerate() {
            scores[point * classes + class] = z;
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Propagation {
        Propagation { k: 3, alpha: 0.9, power: 1, balance: false, tolerance: 1e-5 }
    }

    #[test]
    fn the_largest_score_is_the_label_and_equal_scores_tell_nothing() {
        let said = rule().say(&[0.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1e-6], &[1, 1, 1]);
        assert_eq!(said[0], Prediction { label: Some(1), confidence: 1.0 });
        assert_eq!(said[1].label, Some(0));
        assert!(said[1].confidence.abs() < 1e-12);
        assert_eq!(said[2], Prediction { label: None, confidence: 0.0 });
    }

    #[test]
    fn balance_divides_by_the_labels_of_a_class() {
        let balanced = Propagation { balance: true, ..rule() };
        assert_eq!(rule().say(&[3.0, 2.0], &[4, 1])[0].label, Some(0));
        assert_eq!(balanced.say(&[3.0, 2.0], &[4, 1])[0].label, Some(1));
        assert_eq!(balanced.say(&[3.0, 2.0], &[0, 0])[0].label, Some(0), "no labels, no division");
    }
}
