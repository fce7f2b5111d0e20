//! How good predictions are: sums over scored rows that add up over parties, and the figures that they make,
//! each with a 95 % interval.
//!
//! | figure | interval |
//! | --- | --- |
//! | accuracy, recall, precision, share right in a bin | Wilson (JASA 1927) |
//! | balanced accuracy | normal; variances as in Agresti & Coull (Am. Stat. 1998), with 2 right and 2 wrong rows added to each class |
//! | AUC | Hanley & McNeil (Radiology 1982), its variance at least half a row of the smaller class away from 0 and 1, widened by what the bins leave open |
//!
//! Rows are taken as independent draws; rows of one patient or device are not, and then the intervals are too
//! narrow.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::readout::lowest;

/// Bins of the stated confidence, of equal width over 0 to 1.
pub const CONFIDENCE_BINS: usize = 10;
/// Bins of the margin between two classes.
pub const MARGIN_BINS: usize = 64;
/// Units of a sum of confidences.
const UNIT: f64 = 65_536.0;
/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// Sums over scored rows. Those of several parties add up word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    classes: usize,
    /// Row-major, true class x predicted class.
    confusion: Vec<u64>,
    /// For each bin of confidence: rows, right ones, and the sum of floor(2^16 confidence). Empty where
    /// nothing is stated.
    stated: Vec<[u64; 3]>,
    /// With two classes, for each true class the rows in each bin of the margin; else empty.
    margins: Vec<u64>,
}

impl Sums {
    /// Of no rows. `states` says whether predictions come with scores.
    #[must_use]
    pub fn empty(classes: usize, states: bool) -> Self {
        Self {
            classes,
            confusion: vec![0; classes * classes],
            stated: vec![[0; 3]; if states { CONFIDENCE_BINS } else { 0 }],
            margins: vec![0; if states && classes == 2 { 2 * MARGIN_BINS } else { 0 }],
        }
    }

    /// The length of [`Sums::words`].
    #[must_use]
    pub fn length(classes: usize, states: bool) -> usize {
        let margins = if classes == 2 { 2 * MARGIN_BINS } else { 0 };
        classes * classes + if states { 3 * CONFIDENCE_BINS + margins } else { 0 }
    }

    /// Of predicted classes.
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

    /// Of a network's scores of rows, which state the confidence of its predictions; see [`Sums::of_stated`].
    ///
    /// # Panics
    /// If a label is not below `classes`.
    #[must_use]
    pub fn of_scores(classes: usize, labels: &[u16], scores: &[f64], rho: usize) -> Self {
        let stated: Vec<f64> = scores.chunks_exact(classes.max(1)).map(confidence).collect();
        Self::of_stated(classes, labels, scores, &stated, rho)
    }

    /// Of the scores of rows (rows x classes, the lowest is the prediction) of a model with `rho` winners,
    /// and the confidence that is stated of each row's prediction.
    ///
    /// # Panics
    /// If a label is not below `classes`.
    #[must_use]
    pub fn of_stated(classes: usize, labels: &[u16], scores: &[f64], stated: &[f64], rho: usize) -> Self {
        let mut sums = Self::empty(classes, true);
        let rows = labels.iter().zip(scores.chunks_exact(classes.max(1))).zip(stated);
        for ((&label, scores), &confidence) in rows {
            let (label, class) = (usize::from(label), usize::from(lowest(scores)));
            sums.confusion[label * classes + class] += 1;
            let bin = &mut sums.stated[place(confidence, CONFIDENCE_BINS)];
            bin[0] += 1;
            bin[1] += u64::from(label == class);
            bin[2] += (confidence * UNIT) as u64;
            if let [first, second] = scores {
                let margin = first - second;
                // Bounded, monotone, and fine where most margins lie; two infinite scores say nothing.
                let squashed = if margin.is_nan() {
                    0.5
                } else if margin.is_infinite() {
                    f64::from(u8::from(margin > 0.0))
                } else {
                    0.5 + margin / (2.0 * (margin.abs() + rho as f64 / 8.0))
                };
                sums.margins[label * MARGIN_BINS + place(squashed, MARGIN_BINS)] += 1;
            }
        }
        sums
    }

    /// The sums in the order confusion, bins of confidence, margins.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        [&self.confusion[..], self.stated.as_flattened(), &self.margins].concat()
    }

    /// The inverse of [`Sums::words`]; `None` where the words are the sums of no rows.
    #[must_use]
    pub fn from_words(classes: usize, words: &[u64]) -> Option<Self> {
        let states = words.len() > classes * classes;
        if words.len() != Self::length(classes, states) {
            return None;
        }
        let (confusion, rest) = words.split_at(classes * classes);
        // No sum of them wraps.
        if confusion.iter().any(|&word| word >= 1 << 33) || rest.iter().any(|&word| word >= 1 << 53) {
            return None;
        }
        let (stated, margins) = rest.split_at(if states { 3 * CONFIDENCE_BINS } else { 0 });
        let (stated, margins) = (stated.as_chunks::<3>().0.to_vec(), margins.to_vec());
        let sums = Self { classes, confusion: confusion.to_vec(), stated, margins };
        sums.agree().then_some(sums)
    }

    /// Whether the parts may be sums over the same rows.
    fn agree(&self) -> bool {
        let rows: u64 = self.confusion.iter().sum();
        let right: u64 = (0..self.classes).map(|class| self.confusion[class * (self.classes + 1)]).sum();
        let all = |at: usize| self.stated.iter().map(|bin| bin[at]).sum::<u64>();
        let most = |bin: &[u64; 3]| bin[1] <= bin[0] && bin[2] as f64 <= bin[0] as f64 * UNIT;
        let stated = self.stated.is_empty() || all(0) == rows && all(1) == right;
        let mut margins = self.margins.chunks(MARGIN_BINS).zip(self.confusion.chunks(self.classes.max(1)));
        stated
            && self.stated.iter().all(most)
            && margins.all(|(bins, row)| bins.iter().sum::<u64>() == row.iter().sum::<u64>())
    }

    /// Rows of each class.
    #[must_use]
    pub fn class_rows(&self) -> Vec<u64> {
        self.confusion.chunks(self.classes.max(1)).map(|row| row.iter().sum()).collect()
    }

    /// Right predictions of each class.
    #[must_use]
    pub fn class_right(&self) -> Vec<u64> {
        (0..self.classes).map(|class| self.confusion[class * (self.classes + 1)]).collect()
    }

    /// Adds the sums of other rows, of the same shape.
    pub fn add(&mut self, other: &Self) {
        let pairs = |own: &mut [u64], other: &[u64]| {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        };
        pairs(&mut self.confusion, &other.confusion);
        pairs(self.stated.as_flattened_mut(), other.stated.as_flattened());
        pairs(&mut self.margins, &other.margins);
    }
}

/// What a network's scores of a row state of the predicted class: exp(-score) over the sum of all. 1 /
/// classes where they state nothing.
fn confidence(scores: &[f64]) -> f64 {
    let best = scores.iter().copied().fold(f64::INFINITY, f64::min);
    if !best.is_finite() {
        return 1.0 / scores.len().max(1) as f64;
    }
    1.0 / scores.iter().map(|score| libm::exp(best - score)).sum::<f64>()
}

fn place(share: f64, bins: usize) -> usize {
    ((share * bins as f64) as usize).min(bins - 1)
}

/// A figure with its 95 % interval; all from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The figure.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Share {
    /// `right` of `rows` with Wilson's interval; `None` without rows.
    #[must_use]
    pub fn of(right: u64, rows: u64) -> Option<Self> {
        let (n, value) = (rows as f64, right as f64 / rows as f64);
        let square = Z * Z;
        let middle = (value + square / (2.0 * n)) / (1.0 + square / n);
        let half = Z * (value * (1.0 - value) / n + square / (4.0 * n * n)).sqrt() / (1.0 + square / n);
        (rows > 0).then(|| Self { value, low: (middle - half).max(0.0), high: (middle + half).min(1.0) })
    }

    fn within(value: f64, half: f64) -> Self {
        Self { value, low: (value - half).max(0.0), high: (value + half).min(1.0) }
    }
}

/// As `0.9321 (0.9011 to 0.9542)`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.4} ({:.4} to {:.4})", self.value, self.low, self.high))
    }
}

/// How much larger one share of right predictions is than another over the same rows, with its 95 % interval
/// (Agresti & Min, Stat. Med. 2005); from -1 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The difference.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Gain {
    /// Of `rows`, `won` are right by the first alone and `lost` by the second alone; `None` without rows.
    #[must_use]
    pub fn of(won: u64, lost: u64, rows: u64) -> Option<Self> {
        // Half a row is added to each cell of the table of right and wrong.
        let (b, c, n) = (won as f64 + 0.5, lost as f64 + 0.5, rows as f64 + 2.0);
        let (middle, half) = ((b - c) / n, Z * (b + c - (b - c).powi(2) / n).sqrt() / n);
        let value = (won as f64 - lost as f64) / rows as f64;
        (rows > 0).then(|| Self { value, low: (middle - half).max(-1.0), high: (middle + half).min(1.0) })
    }
}

/// One class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassFigures {
    /// Its name.
    pub class: String,
    /// Rows of it.
    pub rows: u64,
    /// The share of its rows that were predicted right; `None` without rows.
    pub recall: Option<Share>,
    /// The share of the rows predicted as it that are of it; `None` where none were.
    pub precision: Option<Share>,
}

/// A bin of the calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Rows in it.
    pub rows: u64,
    /// The mean of the stated confidence.
    pub stated: f64,
    /// The share that was right.
    pub right: Share,
}

/// What sums say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Rows that were scored.
    pub rows: u64,
    /// The share of right predictions.
    pub accuracy: Share,
    /// The mean recall of the classes with rows.
    pub balanced_accuracy: Share,
    /// Of each class.
    pub per_class: Vec<ClassFigures>,
    /// True class x predicted class.
    pub confusion: Vec<Vec<u64>>,
    /// With two classes, the area under the curve: how often a row of the second looks more like it than one
    /// of the first does.
    pub auc: Option<Share>,
    /// Bins with rows; `None` where nothing is stated.
    pub calibration: Option<Vec<Bin>>,
}

impl Figures {
    /// The figures of these sums; `None` without rows.
    #[must_use]
    pub fn new(classes: &[String], sums: &Sums) -> Option<Self> {
        let (held, right) = (sums.class_rows(), sums.class_right());
        let rows = held.iter().sum();
        let predicted =
            |class: usize| -> u64 { sums.confusion.iter().skip(class).step_by(sums.classes).sum() };
        let per_class = classes.iter().enumerate().map(|(l, class)| ClassFigures {
            class: class.clone(),
            rows: held[l],
            recall: Share::of(right[l], held[l]),
            precision: Share::of(right[l], predicted(l)),
        });
        let stated = sums.stated.iter().filter_map(|&[rows, right, sum]| {
            Some(Bin { rows, stated: sum as f64 / UNIT / rows as f64, right: Share::of(right, rows)? })
        });
        Some(Self {
            rows,
            accuracy: Share::of(right.iter().sum(), rows)?,
            balanced_accuracy: balanced(&held, &right),
            per_class: per_class.collect(),
            confusion: sums.confusion.chunks(sums.classes.max(1)).map(<[u64]>::to_vec).collect(),
            auc: auc(&sums.margins),
            calibration: (!sums.stated.is_empty()).then(|| stated.collect()),
        })
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

/// The area under the curve from rows of the first and of the second class by margin; rows in one bin count
/// as ties.
fn auc(margins: &[u64]) -> Option<Share> {
    let (first, second) = margins.split_at_checked(MARGIN_BINS)?;
    let (n, m) = (first.iter().sum::<u64>() as f64, second.iter().sum::<u64>() as f64);
    if n == 0.0 || m == 0.0 {
        return None;
    }
    let (mut below, mut won, mut tied) = (0.0, 0.0, 0.0);
    for (&a, &b) in first.iter().zip(second) {
        won += b as f64 * below;
        tied += a as f64 * b as f64;
        below += a as f64;
    }
    let (value, open) = ((won + tied / 2.0) / (n * m), tied / 2.0 / (n * m));
    // A few rows that happen to be in order do not show that all are: at 0 and 1 the formula gives no width.
    let edge = 0.5 / n.min(m);
    let area = value.clamp(edge, 1.0 - edge);
    let square = area * area;
    let (q1, q2) = (area / (2.0 - area), 2.0 * square / (1.0 + area));
    let variance = area * (1.0 - area) + (m - 1.0) * (q1 - square) + (n - 1.0) * (q2 - square);
    Some(Share::within(value, Z * (variance.max(0.0) / (n * m)).sqrt() + open))
}

/// Lines for people, without the confusion table.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rows               {}", self.rows)?;
        writeln!(f, "accuracy           {}", self.accuracy)?;
        write!(f, "balanced accuracy  {}", self.balanced_accuracy)?;
        if let Some(auc) = self.auc {
            write!(f, "\nAUC                {auc}")?;
        }
        let long = self.per_class.iter().map(|each| each.class.chars().count()).max().unwrap_or(0).max(5);
        let shown = |share: Option<Share>| share.map_or_else(|| "-".to_owned(), |share| share.to_string());
        write!(f, "\n\n{:long$}  {:>8}  {:26}  precision", "class", "rows", "recall")?;
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
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-5, "{found}, expected {expected}");
    }

    #[test]
    fn intervals_are_those_of_the_formulas() {
        // Wilson, by hand: 8 of 10.
        let share = Share::of(8, 10).unwrap();
        near(share.low, 0.4902);
        near(share.high, 0.9433);
        assert_eq!((Share::of(0, 0), Share::of(0, 5).unwrap().low), (None, 0.0));
        assert!(Share::of(0, 5).unwrap().high > 0.4, "five rows say little");
        // AUC of 0.9 with 20 and 30 rows: Hanley and McNeil give a standard error of 0.0435.
        let mut margins = vec![0; 2 * MARGIN_BINS];
        (margins[0], margins[2], margins[MARGIN_BINS + 1]) = (18, 2, 30);
        let area = auc(&margins).unwrap();
        near(area.value, 0.9);
        near(area.low, 0.9 - Z * 0.043_537);
        near(area.high, 0.9 + Z * 0.043_537);
        // All in order: as wide as at 0.975, half a row from 1; the more rows the narrower.
        let mut margins = vec![0; 2 * MARGIN_BINS];
        (margins[0], margins[MARGIN_BINS + 1]) = (20, 30);
        let area = auc(&margins).unwrap();
        let (square, q1, q2): (f64, f64, f64) = (0.950_625, 0.951_219_5, 0.962_658_2);
        let variance = (0.975 * 0.025 + 29.0 * (q1 - square) + 19.0 * (q2 - square)) / 600.0;
        near(area.low, 1.0 - Z * variance.sqrt());
        assert_eq!((area.value, area.high), (1.0, 1.0));
        (margins[0], margins[MARGIN_BINS + 1]) = (2000, 3000);
        assert!((0.99..1.0).contains(&auc(&margins).unwrap().low));
    }

    #[test]
    fn figures_follow_from_scores_and_say_what_bins_leave_open() {
        let classes = ["a", "b"].map(String::from);
        // One row is told right with confidence 1/2 + , one wrong, and one is a tie.
        let scores = [0.0, f64::INFINITY, 1.0, 2.0, f64::INFINITY, f64::INFINITY];
        let sums = Sums::of_scores(2, &[0, 1, 1], &scores, 8);
        let found = Figures::new(&classes, &sums).unwrap();
        assert_eq!(found.confusion, [[1, 0], [2, 0]]);
        assert_eq!((found.rows, found.balanced_accuracy.value), (3, 0.5));
        assert_eq!(found.per_class[1].precision, None);
        let bins = found.calibration.as_ref().unwrap();
        assert_eq!(bins.iter().map(|bin| bin.rows).collect::<Vec<_>>(), [1, 1, 1]);
        near(bins[1].stated, 1.0 / (1.0 + f64::exp(-1.0)));
        near(found.auc.unwrap().value, 1.0);
        assert!(found.to_string().contains("recall"), "{found}");
        assert_eq!(Figures::new(&classes, &Sums::empty(2, true)), None);
    }

    #[test]
    fn sums_of_parts_are_those_of_the_whole_and_nonsense_is_refused() {
        let labels: Vec<u16> = (0..40).map(|i| i % 2).collect();
        let scores: Vec<f64> = (0..80).map(|i| f64::from(i * i % 17) / 4.0).collect();
        let whole = Sums::of_scores(2, &labels, &scores, 4);
        let mut sum = Sums::of_scores(2, &labels[..13], &scores[..26], 4);
        sum.add(&Sums::of_scores(2, &labels[13..], &scores[26..], 4));
        assert_eq!(sum, whole);
        let words = whole.words();
        assert_eq!(words.len(), Sums::length(2, true));
        assert_eq!(Sums::from_words(2, &words), Some(whole));
        for at in 0..words.len() {
            let mut other = words.clone();
            // Sums of confidences have no exact counterpart; they are bounded by their rows.
            other[at] =
                if (4..34).contains(&at) && at % 3 == 0 { other[at - 2] * 65_536 + 1 } else { other[at] + 1 };
            assert_eq!(Sums::from_words(2, &other), None, "word {at}");
        }
        assert_eq!(Sums::from_words(2, &words[1..]), None);
    }

    #[test]
    fn words_that_are_too_few_or_too_large_or_in_the_wrong_bin_are_refused() {
        assert_eq!(Sums::from_words(2, &Sums::empty(2, true).words()[..3]), None);
        assert!(Sums::from_words(2, &[(1 << 33) - 1, 0, 0, 0]).is_some());
        assert_eq!(Sums::from_words(2, &[1 << 33, 0, 0, 0]), None);
        // A right and a wrong row of three classes; each bin has rows, right ones, and a sum of confidences.
        let stated = |bins: [[u64; 3]; 2]| {
            let mut words = vec![0; Sums::length(3, true)];
            words[..2].fill(1);
            words[9..15].copy_from_slice(bins.as_flattened());
            Sums::from_words(3, &words)
        };
        assert!(stated([[1, 1, 0], [1, 0, 0]]).is_some());
        assert_eq!(stated([[0, 1, 0], [2, 0, 0]]), None);
        // These wrap to the two rows that there are.
        assert_eq!(stated([[1 << 63, 1, 0], [(1 << 63) + 2, 0, 0]]), None);
    }
}
