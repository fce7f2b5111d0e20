//! Draws sensitivity against 1 - specificity: the point at which a model decides, and the curve over all
//! thresholds if the scores of the rows are known. A session opens no scores.

use flyswarm_learn::model::figures::{Figures, Share};
use maud::{Markup, html};

use super::pictures::Square;
use crate::html::whole;

/// The ROC curve: how many rows are above each threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Curve {
    positives: u64,
    negatives: u64,
    /// Numbers of negative and positive rows above a threshold, from the highest threshold to the lowest.
    points: Vec<(u64, u64)>,
}

impl Curve {
    /// Makes the curve from scores for the positive class of `figures`. The scores are a matrix of rows x 2,
    /// and the lower score is the prediction. Returns `None` if the rows do not have two classes.
    pub(crate) fn of(figures: &Figures, labels: &[u16], scores: &[f64]) -> Option<Self> {
        let class = &figures.positive.as_ref()?.class;
        let positive = figures.per_class.iter().position(|each| each.class == *class)?;
        let mut rows: Vec<(f64, bool)> = labels
            .iter()
            .zip(scores.as_chunks::<2>().0)
            .map(|(&label, scores)| {
                let margin = scores[1 - positive] - scores[positive];
                // If both scores are infinite, the row gets the rank of a margin of 0.
                (if margin.is_nan() { 0.0 } else { margin }, usize::from(label) == positive)
            })
            .collect();
        rows.sort_by(|one, other| other.0.total_cmp(&one.0));
        let (mut points, mut above) = (vec![(0, 0)], (0, 0));
        for ties in rows.chunk_by(|one, other| one.0 == other.0) {
            let positives = ties.iter().filter(|(_, positive)| *positive).count();
            above = (above.0 + (ties.len() - positives) as u64, above.1 + positives as u64);
            points.push(above);
        }
        let (negatives, positives) = above;
        (positives > 0 && negatives > 0).then_some(Self { positives, negatives, points })
    }

    /// Returns 1 - specificity, and the sensitivity with its interval, of each threshold.
    fn shares(&self) -> impl Iterator<Item = (f64, Share)> {
        let share = |&(below, above): &(u64, u64)| {
            Some((below as f64 / self.negatives as f64, Share::of(above, self.positives)?))
        };
        self.points.iter().filter_map(share)
    }
}

/// Makes the picture: a point for each way to predict, and the curve of the first way if it is known.
pub(super) fn picture(ways: &[(&str, &Figures)], curve: Option<&Curve>) -> Markup {
    let square = Square::default();
    let (x, y) = (|share| square.x(share), |share| square.y(share));
    let points: Vec<_> = ways
        .iter()
        .enumerate()
        .filter_map(|(k, (name, figures))| {
            let two = figures.positive.as_ref()?;
            Some((k, *name, two.sensitivity?, two.specificity?))
        })
        .collect();
    let told = points.iter().map(|(_, name, sensitivity, specificity)| {
        format!("{name}: sensitivity {}, specificity {}", whole(sensitivity.value), whole(specificity.value))
    });
    let told = told.collect::<Vec<_>>().join("; ");
    let line = |at: &dyn Fn(Share) -> f64| {
        let mut places: Vec<String> = Vec::new();
        for (below, share) in curve.into_iter().flat_map(Curve::shares) {
            let place = format!("{},{}", x(below), y(at(share)));
            // In a large file, many points are at the same place.
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
        places
    };
    let band: Vec<_> =
        line(&|share| share.low).into_iter().chain(line(&|share| share.high).into_iter().rev()).collect();
    let parts = html! {
        (square.axes("1 \u{2212} specificity", "sensitivity"))
        path.ideal d={ "M" (x(0.0)) " " (y(0.0)) " L" (x(1.0)) " " (y(1.0)) } {}
        @if curve.is_some() {
            polygon.band points=(band.join(" ")) {}
            polyline.l0 points=(line(&|share| share.value).join(" ")) {}
        }
        @for (k, _, sensitivity, specificity) in &points {
            @let (px, py) = (x(1.0 - specificity.value), y(sensitivity.value));
            path.error d={
                "M" (px) " " (y(sensitivity.low)) " V" (y(sensitivity.high)) " M" (x(1.0 - specificity.high)) " " (py)
                " H" (x(1.0 - specificity.low))
            } {}
            (super::pictures::mark(*k, px, py, 5.5))
        }
    };
    html! { figure { (square.picture("ROC: sensitivity against 1 \u{2212} specificity", &told, parts)) } }
}

#[cfg(test)]
mod tests {
    use flyswarm_learn::model::figures::Sums;

    use super::*;

    fn curve(labels: &[u16], margins: &[f64], positive: u16) -> Option<Curve> {
        let scores: Vec<f64> = margins.iter().flat_map(|margin| [*margin, 0.0]).collect();
        let sums = Sums::of_scores(2, labels, &scores);
        let figures = Figures::new(&["a".to_owned(), "b".to_owned()], &sums, Some(positive)).unwrap();
        Curve::of(&figures, labels, &scores)
    }

    #[test]
    fn the_curve_counts_the_rows_above_each_threshold_and_ties_are_one_step() {
        let labels = [1, 0, 1, 0];
        let found = curve(&labels, &[3.0, 2.0, 2.0, f64::NAN], 1).unwrap();
        assert_eq!(found.points, [(0, 0), (0, 1), (1, 2), (2, 2)]);
        // If the other class is the positive one, the curve is the same, but turned around.
        let other = curve(&labels, &[3.0, 2.0, 2.0, 0.0], 0).unwrap();
        assert_eq!(other.points, [(0, 0), (0, 1), (1, 2), (2, 2)]);
        let last = found.shares().last().unwrap();
        assert_eq!((last.0, last.1.value), (1.0, 1.0));
        assert_eq!(curve(&[1, 1], &[1.0, 2.0], 1), None, "no row is negative");
    }
}
