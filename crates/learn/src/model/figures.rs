//! Figures that measure predictions, each with a 95 % interval. They are computed from sums over scored rows.
//! The sums of several peers add up.
//!
//! | figure | interval |
//! | --- | --- |
//! | accuracy, recall, precision, share right in a bin | Wilson (JASA 1927) |
//! | balanced accuracy | normal; variances as in Agresti & Coull (Am. Stat. 1998), with 2 right and 2 wrong rows added to each class |
//! | AUC ([`super::ranks`]) | Hanley & McNeil (Radiology 1982); the variance is that of an AUC at least half a row of the smaller class away from 0 and 1 |
//! | a difference of balanced accuracies over the same rows | normal; variances of each class as in Agresti & Min (Stat. Med. 2005) |
//!
//! Rows are treated as independent draws. Rows of one patient or device are not independent, and then the
//! intervals are too narrow.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ranks::{FEWEST, Ranks};
use super::readout::lowest;

/// Number of bins of the stated confidence. Bins have equal widths, from 0 to 1.
pub const CONFIDENCE_BINS: usize = 10;
/// Fewest rows of each class for a statement on how good predictions are.
pub const ENOUGH: u64 = 20;
/// Number of units in a confidence of 1.
const UNIT: f64 = 65_536.0;
/// Quantile of the normal distribution for 95 %.
pub(super) const Z: f64 = 1.959_963_984_540_054;

/// Sums over scored rows. Sums of several peers add up word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    classes: usize,
    /// Confusion table, row-major, true class x predicted class.
    confusion: Vec<u64>,
    /// For each bin of confidence: rows, correct rows, and the sum of floor(2^16 confidence). Empty if
    /// the predictions have no confidence.
    stated: Vec<[u64; 3]>,
    /// Present with two classes and scores.
    ranks: Option<Ranks>,
}

impl Sums {
    /// Returns sums over no rows. `states` is true if predictions come with scores.
    #[must_use]
    pub fn empty(classes: usize, states: bool) -> Self {
        Self {
            classes,
            confusion: vec![0; classes * classes],
            stated: vec![[0; 3]; if states { CONFIDENCE_BINS } else { 0 }],
            ranks: (states && classes == 2).then(Ranks::default),
        }
    }

    /// Returns the length of [`Sums::words`].
    #[must_use]
    pub fn length(classes: usize, states: bool) -> usize {
        let ranks = if classes == 2 { Ranks::WORDS } else { 0 };
        classes * classes + if states { 3 * CONFIDENCE_BINS + ranks } else { 0 }
    }

    /// Makes sums from predicted classes.
    ///
    /// # Panics
    /// If a class is not below `classes`.
    #[must_use]
    pub fn of_classes(classes: usize, labels: &[u16], predicted: &[u16]) -> Self {
        let mut sums = Self::empty(classes, false);
        for (&label, &class) in labels.iter().zip(predicted) {
            sums.confusion[usize::from(label) * classes + usize::from(class)] += 1;
        }
        sums
    }

    /// Makes sums from a network's scores of one peer's rows. The scores give the confidence of each
    /// prediction; see [`Sums::of_stated`].
    ///
    /// # Panics
    /// If a label is not below `classes`.
    #[must_use]
    pub fn of_scores(classes: usize, labels: &[u16], scores: &[f64]) -> Self {
        let stated: Vec<f64> = scores.chunks_exact(classes.max(1)).map(confidence).collect();
        Self::of_stated(classes, labels, scores, &stated)
    }

    /// Makes sums from the scores of one peer's rows (rows x classes, the lowest is the prediction) and the
    /// stated confidence of each row's prediction.
    ///
    /// # Panics
    /// If a label is not below `classes`.
    #[must_use]
    pub fn of_stated(classes: usize, labels: &[u16], scores: &[f64], stated: &[f64]) -> Self {
        let mut sums = Self::empty(classes, true);
        let mut margins = [Vec::new(), Vec::new()];
        let rows = labels.iter().zip(scores.chunks_exact(classes.max(1))).zip(stated);
        for ((&label, scores), &confidence) in rows {
            let (label, class) = (usize::from(label), usize::from(lowest(scores)));
            sums.confusion[label * classes + class] += 1;
            let bin =
                &mut sums.stated[((confidence * CONFIDENCE_BINS as f64) as usize).min(CONFIDENCE_BINS - 1)];
            bin[0] += 1;
            bin[1] += u64::from(label == class);
            bin[2] += (confidence * UNIT) as u64;
            if let [first, second] = scores {
                let margin = first - second;
                // If both scores are infinite, the margin counts as 0.
                margins[label].push(if margin.is_nan() { 0.0 } else { margin });
            }
        }
        let [first, second] = margins;
        sums.ranks = sums.ranks.map(|_| Ranks::of(first, &second));
        sums
    }

    /// Returns the part of one peer's sums that others may see: no bin of confidence and no ranked class has
    /// fewer than [`FEWEST`] rows. The rows of a smaller bin move up until a bin has enough rows, or, after
    /// the last such bin, down into it.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut stated = vec![[0; 3]; self.stated.len()];
        let (mut open, mut last) = ([0; 3], None);
        for (at, bin) in self.stated.iter().enumerate() {
            add(&mut open, bin);
            if open[0] >= FEWEST as u64 {
                (stated[at], open, last) = (open, [0; 3], Some(at));
            }
        }
        last.into_iter().for_each(|at| add(&mut stated[at], &open));
        Self { stated, ranks: self.ranks.map(Ranks::shown), ..self.clone() }
    }

    /// Returns the sums in the order confusion, bins of confidence, ranks.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let ranks = self.ranks.map(Ranks::words);
        [&self.confusion[..], self.stated.as_flattened(), ranks.as_slice().as_flattened()].concat()
    }

    /// Restores sums from [`Sums::words`]. Returns `None` if the words are not sums that peers show
    /// ([`Sums::shown`]).
    #[must_use]
    pub fn from_words(classes: usize, words: &[u64]) -> Option<Self> {
        let states = words.len() > classes * classes;
        if words.len() != Self::length(classes, states) {
            return None;
        }
        let (confusion, rest) = words.split_at(classes * classes);
        let (stated, ranks) = rest.split_at(if states { 3 * CONFIDENCE_BINS } else { 0 });
        // Below these limits no sum of the words overflows.
        if confusion.iter().any(|&word| word >= 1 << 33) || stated.iter().any(|&word| word >= 1 << 53) {
            return None;
        }
        let ranks = ranks.first_chunk().copied().map(Ranks::from_words);
        let stated = stated.as_chunks::<3>().0.to_vec();
        let sums = Self { classes, confusion: confusion.to_vec(), stated, ranks };
        sums.agree().then_some(sums)
    }

    /// Returns whether the parts may be sums over the same rows.
    fn agree(&self) -> bool {
        let held = self.class_rows();
        let (rows, right): (u64, u64) = (held.iter().sum(), self.class_right().iter().sum());
        let all = |at: usize| self.stated.iter().map(|bin| bin[at]).sum::<u64>();
        let fewest = |bin: &[u64; 3]| bin[0] == 0 || bin[0] >= FEWEST as u64;
        let most = |bin: &[u64; 3]| bin[1] <= bin[0] && bin[2] as f64 <= bin[0] as f64 * UNIT;
        // The rows of a peer with few rows are in no bin.
        let (stated, wrong) = (all(1) <= right, all(0).saturating_sub(all(1)) <= rows - right);
        let ranks = || self.ranks.is_none_or(|ranks| ranks.agree([held[0], held[1]]));
        self.stated.iter().all(|bin| fewest(bin) && most(bin)) && stated && wrong && ranks()
    }

    /// Returns the number of rows of each class.
    #[must_use]
    pub fn class_rows(&self) -> Vec<u64> {
        self.confusion.chunks(self.classes.max(1)).map(|row| row.iter().sum()).collect()
    }

    /// Returns the number of correct predictions of each class.
    #[must_use]
    pub fn class_right(&self) -> Vec<u64> {
        (0..self.classes).map(|class| self.confusion[class * (self.classes + 1)]).collect()
    }

    /// Adds the sums of other rows, of the same shape.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.confusion, &other.confusion);
        add(self.stated.as_flattened_mut(), other.stated.as_flattened());
        if let (Some(own), Some(other)) = (&mut self.ranks, &other.ranks) {
            own.add(other);
        }
    }
}

fn add(own: &mut [u64], other: &[u64]) {
    own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
}

/// Returns the confidence in the predicted class, from a network's scores of a row: exp(-score) of this class
/// divided by the sum over all classes. The confidence is 1 / classes if the scores have no information.
fn confidence(scores: &[f64]) -> f64 {
    let best = scores.iter().copied().fold(f64::INFINITY, f64::min);
    if !best.is_finite() {
        return 1.0 / scores.len().max(1) as f64;
    }
    1.0 / scores.iter().map(|score| libm::exp(best - score)).sum::<f64>()
}

/// A figure with its 95 % interval, all from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Value of the figure.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Share {
    /// Returns `right` of `rows` with Wilson's interval; `None` without rows.
    #[must_use]
    pub fn of(right: u64, rows: u64) -> Option<Self> {
        let (n, value) = (rows as f64, right as f64 / rows as f64);
        let square = Z * Z;
        let middle = (value + square / (2.0 * n)) / (1.0 + square / n);
        let half = Z * (value * (1.0 - value) / n + square / (4.0 * n * n)).sqrt() / (1.0 + square / n);
        (rows > 0).then(|| Self { value, low: (middle - half).max(0.0), high: (middle + half).min(1.0) })
    }

    pub(super) fn within(value: f64, half: f64) -> Self {
        Self { value, low: (value - half).max(0.0), high: (value + half).min(1.0) }
    }
}

/// Formats the share, such as `0.9321 (0.9011 to 0.9542)`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.4} ({:.4} to {:.4})", self.value, self.low, self.high))
    }
}

/// Difference of two balanced accuracies over the same rows, with its 95 % interval; from -1 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Value of the difference.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Gain {
    /// Computes the gain. Each class gives three numbers: the rows that only the first prediction gets right,
    /// the rows that only the second gets right, and all its rows. Returns `None` without rows.
    #[must_use]
    pub fn of(classes: impl IntoIterator<Item = ([u64; 2], u64)>) -> Option<Self> {
        let (mut value, mut middle, mut variance, mut present) = (0.0, 0.0, 0.0, 0.0);
        for ([won, lost], rows) in classes.into_iter().filter(|(_, rows)| *rows > 0) {
            // Half a row is added to each cell of the table of correct and wrong predictions.
            let (b, c, n) = (won as f64 + 0.5, lost as f64 + 0.5, rows as f64 + 2.0);
            value += (won as f64 - lost as f64) / rows as f64;
            middle += (b - c) / n;
            variance += (b + c - (b - c).powi(2) / n) / (n * n);
            present += 1.0;
        }
        let half = Z * variance.sqrt();
        let mean = |sum: f64| (sum / present).clamp(-1.0, 1.0);
        (present > 0.0).then(|| Self {
            value: mean(value),
            low: mean(middle - half),
            high: mean(middle + half),
        })
    }
}

/// Figures of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassFigures {
    /// Name of the class.
    pub class: String,
    /// Number of rows of the class.
    pub rows: u64,
    /// Share of its rows that were predicted correctly; `None` without rows.
    pub recall: Option<Share>,
    /// Share of correct predictions among the rows predicted as this class; `None` without such rows.
    pub precision: Option<Share>,
}

/// A bin of the calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Number of rows in the bin.
    pub rows: u64,
    /// Mean of the stated confidence.
    pub stated: f64,
    /// Share of the correct predictions.
    pub right: Share,
}

/// Figures of two classes, with one named as the positive class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Positive {
    /// Positive class: the requested one, or the rarer one.
    pub class: String,
    /// Share of its rows that were predicted as positive.
    pub sensitivity: Option<Share>,
    /// Share of the other rows that were predicted as negative.
    pub specificity: Option<Share>,
    /// Share of positive rows among the rows predicted as positive.
    pub ppv: Option<Share>,
    /// Share of negative rows among the rows predicted as negative.
    pub npv: Option<Share>,
}

impl Positive {
    /// Makes the figures of two classes. The positive class is the first one if `first` is true, otherwise
    /// the second.
    fn new(classes: &[ClassFigures], first: bool) -> Option<Self> {
        let [one, other] = classes else { return None };
        let (positive, negative) = if first { (one, other) } else { (other, one) };
        Some(Self {
            class: positive.class.clone(),
            sensitivity: positive.recall,
            specificity: negative.recall,
            ppv: positive.precision,
            npv: negative.precision,
        })
    }

    /// Returns the figures with their names.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Option<Share>); 4] {
        let Self { sensitivity, specificity, ppv, npv, .. } = *self;
        [("sensitivity", sensitivity), ("specificity", specificity), ("PPV", ppv), ("NPV", npv)]
    }
}

/// Result of always predicting the largest class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Majority {
    /// Class with the most rows.
    pub class: String,
    /// Share of correct predictions.
    pub accuracy: f64,
    /// Mean recall of the classes with rows.
    pub balanced_accuracy: f64,
}

/// Figures computed from sums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Number of rows that were scored.
    pub rows: u64,
    /// Share of correct predictions.
    pub accuracy: Share,
    /// Mean recall of the classes with rows.
    pub balanced_accuracy: Share,
    /// Result of always predicting the largest class.
    pub majority: Majority,
    /// Present with two classes.
    pub positive: Option<Positive>,
    /// Figures of each class.
    pub per_class: Vec<ClassFigures>,
    /// Confusion table, true class x predicted class.
    pub confusion: Vec<Vec<u64>>,
    /// Area under the curve within each peer ([`Ranks`]), present with two classes: how often a row of
    /// the second class looks more like that class than a row of the first class does.
    pub auc: Option<Share>,
    /// Bins with rows; `None` if the predictions have no confidence.
    pub calibration: Option<Vec<Bin>>,
}

impl Figures {
    /// Computes the figures of these sums. The positive class is `positive`, or the rarer one of two.
    /// Returns `None` without rows.
    #[must_use]
    pub fn new(classes: &[String], sums: &Sums, positive: Option<u16>) -> Option<Self> {
        let (held, right) = (sums.class_rows(), sums.class_right());
        let rows: u64 = held.iter().sum();
        let predicted =
            |class: usize| -> u64 { sums.confusion.iter().skip(class).step_by(sums.classes).sum() };
        let per_class = classes.iter().enumerate().map(|(l, class)| ClassFigures {
            class: class.clone(),
            rows: held[l],
            recall: Share::of(right[l], held[l]),
            precision: Share::of(right[l], predicted(l)),
        });
        let per_class: Vec<_> = per_class.collect();
        let stated = sums.stated.iter().filter_map(|&[rows, right, sum]| {
            Some(Bin { rows, stated: sum as f64 / UNIT / rows as f64, right: Share::of(right, rows)? })
        });
        let present = held.iter().filter(|&&rows| rows > 0).count();
        // If classes are equally large, the first is chosen.
        let largest = per_class.iter().rev().max_by_key(|each| each.rows)?;
        let first = positive.map_or(held.first() < held.get(1), |class| class == 0);
        Some(Self {
            rows,
            accuracy: Share::of(right.iter().sum(), rows)?,
            balanced_accuracy: balanced(&held, &right),
            majority: Majority {
                class: largest.class.clone(),
                accuracy: largest.rows as f64 / rows as f64,
                balanced_accuracy: 1.0 / present as f64,
            },
            positive: Positive::new(&per_class, first),
            per_class,
            confusion: sums.confusion.chunks(sums.classes.max(1)).map(<[u64]>::to_vec).collect(),
            auc: sums.ranks.and_then(|ranks| ranks.area()),
            calibration: (!sums.stated.is_empty()).then(|| stated.collect()),
        })
    }

    /// Returns the smallest class if it has too few rows to judge the predictions. With more than two
    /// classes, classes without rows are ignored.
    #[must_use]
    pub fn too_few(&self) -> Option<&ClassFigures> {
        let looked_at = self.per_class.iter().filter(|each| each.rows > 0 || self.per_class.len() == 2);
        looked_at.min_by_key(|each| each.rows).filter(|each| each.rows < ENOUGH)
    }
}

fn balanced(held: &[u64], right: &[u64]) -> Share {
    let (mut mean, mut variance, mut present) = (0.0, 0.0, 0.0);
    for (&rows, &right) in held.iter().zip(right).filter(|(rows, _)| **rows > 0) {
        let (n, added) = (rows as f64, (right as f64 + 2.0) / (rows as f64 + 4.0));
        mean += right as f64 / n;
        variance += added * (1.0 - added) / (n + 4.0);
        present += 1.0;
    }
    Share::within(mean / f64::max(present, 1.0), Z * variance.sqrt() / f64::max(present, 1.0))
}

/// Prints lines for people, without the confusion table.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &dyn fmt::Display| writeln!(f, "{name:17}  {text}");
        let shown = |share: Option<Share>| share.map_or_else(|| "-".to_owned(), |share| share.to_string());
        let Majority { class, accuracy, balanced_accuracy } = &self.majority;
        line("rows", &self.rows)?;
        line("balanced accuracy", &self.balanced_accuracy)?;
        line("  by majority", &format_args!("{balanced_accuracy:.4} (always {class:?})"))?;
        self.auc.map_or(Ok(()), |auc| line("AUC", &auc))?;
        line("accuracy", &self.accuracy)?;
        line("  by majority", &format_args!("{accuracy:.4}"))?;
        if let Some(positive) = &self.positive {
            line("positive class", &positive.class)?;
            positive.named().into_iter().try_for_each(|(name, share)| line(name, &shown(share)))?;
        }
        let long = self.per_class.iter().map(|each| each.class.chars().count()).max().unwrap_or(0).max(5);
        write!(f, "\n{:long$}  {:>8}  {:26}  precision", "class", "rows", "recall")?;
        for ClassFigures { class, rows, recall, precision } in &self.per_class {
            write!(f, "\n{class:long$}  {rows:>8}  {:26}  {}", shown(*recall), shown(*precision))?;
        }
        let Some(bins) = &self.calibration else { return Ok(()) };
        write!(f, "\n\n{:>10}  {:>8}  right", "confidence", "rows")?;
        for Bin { rows, stated, right } in bins {
            write!(f, "\n{stated:>10.4}  {rows:>8}  {right}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
