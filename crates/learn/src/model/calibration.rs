//! Computes probabilities of classes from the frequencies of the classes and the scores of a row. Held-out
//! rows decide how much the scores change the frequencies.
//!
//! A row has rho winners and the scores v_l, and v is the lowest score. Let s_l be the sum of the counts of
//! class l, S that of all classes, and K the number of classes. The frequency of class l is f_l = (s_l + rho)
//! / (S + K rho): the share of its rows after one row is added to each class. A calibration k has the
//! sharpness a = 2^((k - 8) / 2) and gives the probabilities
//!
//! ```text
//! e_l = f_l exp(a (v - v_l) / rho)          e_l = f_l if v is not finite
//! p_l = e_l / (sum of e) + (f_l - e_l / (sum of e)) / 1024
//! ```
//!
//! All numbers are binary64. `exp` and `log` are those of the crate `libm`. Sums start at 0.0 and follow the
//! order of the classes. The predicted class remains the one with the lowest score: the score treats all
//! classes alike, while p_l is larger for a frequent class.
//!
//! The calibration of a model is fitted on held-out rows. For each of the [`CANDIDATES`], floor(1024 loss) is
//! summed over these rows, where the loss is -ln p of the row's own class. Sums of peers add up, so summed
//! parts lead to the same choice as all rows in one place. The fit chooses the least sharp candidate whose
//! loss over all rows is at most 1 nat above the smallest loss. So a few rows that fit a sharper candidate by
//! chance do not make a model overconfident. `docs/quality.md` has measurements.

use std::sync::Arc;

use flyswarm_data::Borrowed;
use flyswarm_data::split::{Rows, held_out_of};

use super::ModelError;
use super::bloom::{self, Counts, CountsError};
use super::readout::lowest;
use crate::sketch::flyhash::FlyHash;

/// Number of calibrations to choose from.
pub const CANDIDATES: usize = 32;
/// Number of held-out rows that a fit needs.
pub const FEWEST_ROWS: u64 = 10;
/// Percentage of the rows that `calibrated_on` holds out, and the largest number of them.
const HELD_OUT: u32 = 20;
const MOST_HELD_OUT: usize = 1000;
/// Number of units in a loss of 1.
const UNIT: f64 = 1024.0;
/// Share of the frequencies in the stated probabilities, so that no class has probability 0.
const MIXED: f64 = 1.0 / 1024.0;

/// Sharpness of the stated probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Calibration(u8);

impl Calibration {
    /// Calibration of a model without held-out rows. Its probabilities stay close to the frequencies of the
    /// classes, so that they are not overconfident.
    pub const CAUTIOUS: Self = Self(10);

    /// Returns calibration number k, below [`CANDIDATES`].
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        (usize::from(number) < CANDIDATES).then_some(Self(number))
    }

    /// Returns all calibrations, the least sharp first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CANDIDATES as u8).map(Self)
    }

    /// Returns the number of the calibration.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the sharpness a, the factor of the scores.
    #[must_use]
    pub fn sharpness(self) -> f64 {
        let whole = 2f64.powi((i32::from(self.0) - 8).div_euclid(2));
        if self.0.is_multiple_of(2) { whole } else { whole * std::f64::consts::SQRT_2 }
    }
}

/// Values of a model that probabilities need: the frequencies of its classes, and the number of winners
/// of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Frequencies {
    shares: Vec<f64>,
    rho: f64,
}

impl Frequencies {
    /// Computes the frequencies from counts that each row adds `rho` to.
    #[must_use]
    pub fn of(counts: &Counts, classes: usize, rho: usize) -> Self {
        let sum = |l| counts.class(l).iter().map(|&count| u64::from(count)).sum::<u64>() + rho as u64;
        let sums: Vec<u64> = (0..classes).map(sum).collect();
        let all: u64 = sums.iter().sum();
        Self { shares: sums.iter().map(|&sum| sum as f64 / all as f64).collect(), rho: rho as f64 }
    }

    /// Returns the share of each class.
    #[must_use]
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// Writes the probability of each class into `stated`, for a row with these scores.
    pub fn probabilities(&self, calibration: Calibration, scores: &[f64], stated: &mut [f64]) {
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let sharpness = calibration.sharpness();
        let mut sum = 0.0;
        for ((stated, &score), &share) in stated.iter_mut().zip(scores).zip(&self.shares) {
            let known = least.is_finite();
            *stated = if known { share * libm::exp(sharpness * (least - score) / self.rho) } else { share };
            sum += *stated;
        }
        for (stated, &share) in stated.iter_mut().zip(&self.shares) {
            let own = *stated / sum;
            *stated = own + (share - own) * MIXED;
        }
    }
}

/// Number of rows, and the loss of each calibration over them. Losses of several peers add up word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Losses([u64; Self::WORDS]);

impl Losses {
    /// Number of words of a sum.
    pub const WORDS: usize = 1 + CANDIDATES;

    /// Returns sums over no rows: all words are 0.
    #[must_use]
    pub fn empty() -> Self {
        Self([0; Self::WORDS])
    }

    /// Computes the losses of rows with these labels and scores (rows x classes).
    ///
    /// # Panics
    /// If a label is not a class.
    #[must_use]
    pub fn of(frequencies: &Frequencies, labels: &[u16], scores: &[f64]) -> Self {
        let classes = frequencies.shares.len();
        let (mut sums, mut stated) = (Self::empty(), vec![0.0; classes]);
        for (&label, scores) in labels.iter().zip(scores.chunks_exact(classes.max(1))) {
            sums.0[0] += 1;
            for (calibration, sum) in Calibration::all().zip(&mut sums.0[1..]) {
                frequencies.probabilities(calibration, scores, &mut stated);
                // A loss is at most ln 1024 plus the loss of the frequencies, which is far below 2^53.
                *sum += (-libm::log(stated[usize::from(label)]) * UNIT).max(0.0) as u64;
            }
        }
        sums
    }

    /// Adds the sums of other rows.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own = own.wrapping_add(other));
    }

    /// Returns the words of the sums: the number of rows, then the losses.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Restores losses from [`Losses::words`].
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        words.try_into().ok().map(Self)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0[0]
    }

    /// Returns the mean loss of a row under a calibration.
    #[must_use]
    pub fn mean(&self, calibration: Calibration) -> f64 {
        self.0[1 + usize::from(calibration.0)] as f64 / UNIT / self.rows().max(1) as f64
    }

    /// Returns the least sharp calibration whose loss is at most 1 above the smallest loss. Returns `None` if
    /// there are fewer than [`FEWEST_ROWS`] rows.
    #[must_use]
    pub fn fit(&self) -> Option<Calibration> {
        let losses = &self.0[1..];
        let most = losses.iter().min()?.saturating_add(UNIT as u64);
        let close = Calibration::all().zip(losses).find(|&(_, &loss)| loss <= most);
        close.filter(|_| self.rows() >= FEWEST_ROWS).map(|(calibration, _)| calibration)
    }
}

impl super::Model {
    /// Returns the model with this calibration. With `None` its probabilities are cautious
    /// ([`Calibration::CAUTIOUS`]).
    #[must_use]
    pub fn with_calibration(mut self, calibration: Option<Calibration>) -> Self {
        self.calibration = calibration;
        self
    }

    /// Calibrates the model on part of its training rows in one place: a fifth of them, at most 1,000,
    /// chosen by a hash of their values or groups. These rows are scored with the counts of the other
    /// rows. Returns `None` if the model was not trained on the rows. Fewer than [`FEWEST_ROWS`] rows
    /// leave the model without a calibration.
    ///
    /// # Errors
    /// [`ModelError`] if features or labels do not fit.
    pub fn calibrated_on(
        self,
        hash: &Arc<FlyHash>,
        data: Borrowed<'_>,
        rows: Rows<'_>,
    ) -> Result<Option<Self>, ModelError> {
        let labels = rows.labels();
        let (classes, seed) = (self.classes.len(), self.sketch.parameters().seed);
        if labels.len() != data.rows() {
            return Err(ModelError::Unlabelled);
        }
        if let Some((row, &label)) =
            labels.iter().enumerate().find(|(_, label)| usize::from(**label) >= classes)
        {
            return Err(CountsError::Label { row, label, classes }.into());
        }
        let rows = held_out_of(data, rows, classes, HELD_OUT, MOST_HELD_OUT, &seed).test;
        if (rows.len() as u64) < FEWEST_ROWS {
            return Ok(Some(self.with_calibration(None)));
        }
        let values: Vec<f32> = rows.iter().flat_map(|&row| data.row(row)).copied().collect();
        let labels: Vec<u16> = rows.iter().map(|&row| labels[row]).collect();
        let held = Borrowed::new(data.features(), &values)?;
        let mut counts = Counts::zero(classes, hash.m());
        bloom::add(&mut counts, hash, &self.scaler, held, &labels)?;
        let Some(counts) = self.counts.without(&counts) else { return Ok(None) };
        let others = Self { counts, ..self.clone() };
        let scores = others.predictor_with(hash.clone()).scores(held)?;
        let fitted = Losses::of(&others.frequencies(), &labels, &scores).fit();
        Ok(Some(self.with_calibration(fitted)))
    }

    /// Returns the fitted calibration, if there is one.
    #[must_use]
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibration
    }

    /// Returns the frequencies of the classes.
    #[must_use]
    pub fn frequencies(&self) -> Frequencies {
        Frequencies::of(&self.counts, self.classes.len(), self.sketch.parameters().rho)
    }

    /// Returns the probability of each class. `scores` and the result are arrays of rows x classes.
    #[must_use]
    pub fn probabilities(&self, scores: &[f64]) -> Vec<f64> {
        let (classes, frequencies) = (self.classes.len(), self.frequencies());
        let calibration = self.calibration.unwrap_or(Calibration::CAUTIOUS);
        let mut stated = vec![0.0; scores.len()];
        for (scores, stated) in scores.chunks_exact(classes).zip(stated.chunks_exact_mut(classes)) {
            frequencies.probabilities(calibration, scores, stated);
        }
        stated
    }

    /// Returns the probability of the predicted class of each row.
    #[must_use]
    pub fn confidences(&self, scores: &[f64]) -> Vec<f64> {
        let (classes, stated) = (self.classes.len(), self.probabilities(scores));
        let rows = scores.chunks_exact(classes).zip(stated.chunks_exact(classes));
        rows.map(|(scores, stated)| stated[usize::from(lowest(scores))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use flyswarm_data::digits::digits;
    use flyswarm_data::scaling::Scaling;
    use flyswarm_data::split::held_out;
    use proptest::prelude::*;

    use super::*;
    use crate::model::tests::small_model;

    /// Returns the frequencies of two classes of 30 and 10 rows, rho = 4.
    fn frequencies() -> Frequencies {
        let counts = Counts::from_values(vec![60, 60, 0, 0, 10, 10, 10, 10], 2, 4).unwrap();
        Frequencies::of(&counts, 2, 4)
    }

    fn stated(number: u8, scores: [f64; 2]) -> [f64; 2] {
        let mut stated = [0.0; 2];
        frequencies().probabilities(Calibration::new(number).unwrap(), &scores, &mut stated);
        stated
    }

    #[test]
    fn a_row_is_added_to_each_class() {
        assert_eq!(frequencies().shares(), [31.0 / 42.0, 11.0 / 42.0]);
    }

    #[test]
    fn sharpness_doubles_every_second_step() {
        let all: Vec<f64> = Calibration::all().map(Calibration::sharpness).collect();
        assert_eq!((all[0], all[8], all[10], all[31]), (0.0625, 1.0, 2.0, 2048.0 * 2f64.sqrt()));
        assert!(all.is_sorted_by(|a, b| a < b) && Calibration::new(32).is_none());
    }

    #[test]
    fn equal_scores_state_the_frequencies() {
        for scores in [[3.0, 3.0], [f64::INFINITY; 2]] {
            let [first, second] = stated(20, scores);
            assert!((first - 31.0 / 42.0).abs() < 1e-15 && (second - 11.0 / 42.0).abs() < 1e-15);
        }
    }

    #[test]
    fn odds_are_those_of_frequencies_times_scores() {
        // Number 8 divides scores by rho alone.
        let own = (31.0 * 0.5f64.exp()) / (31.0 * 0.5f64.exp() + 11.0);
        assert!((stated(8, [1.0, 3.0])[0] - (own + (31.0 / 42.0 - own) / 1024.0)).abs() < 1e-15);
    }

    #[test]
    fn a_class_that_was_never_seen_keeps_a_little() {
        assert_eq!(stated(31, [f64::INFINITY, 0.0])[0], 31.0 / 42.0 / 1024.0);
    }

    #[test]
    fn a_fit_in_one_place_sees_the_held_out_rows_by_the_others() {
        let data = digits();
        let model = small_model(Scaling::Center, 0.5);
        let hash = Arc::new(FlyHash::new(model.sketch()));
        let split = held_out(&data, HELD_OUT, MOST_HELD_OUT, &model.sketch().parameters().seed);
        let (kept, held) = (data.subset(&split.train), data.subset(&split.test));
        let counts = bloom::fit(&hash, model.scaler(), &kept, 10).unwrap();
        let others = crate::model::Model { counts, ..model.clone() };
        let scores = others.predictor().scores(&held).unwrap();
        let expected = Losses::of(&others.frequencies(), held.labels(), &scores).fit();
        assert!(expected.is_some_and(|fitted| fitted != Calibration::CAUTIOUS));
        let found = model.calibrated_on(&hash, (&data).into(), (&data).into()).unwrap().unwrap();
        assert_eq!(found.calibration(), expected);
        let few = data.subset(&(0..12).collect::<Vec<_>>());
        let cautious = found.clone().calibrated_on(&hash, (&few).into(), (&few).into()).unwrap().unwrap();
        assert_eq!(cautious.calibration(), None);
        // The model was not trained on rows with these labels.
        let wrong: Vec<u16> = data.labels().iter().map(|label| (label + 1) % 10).collect();
        assert!(found.calibrated_on(&hash, (&data).into(), Rows::new(&wrong, None)).unwrap().is_none());
    }

    /// Tests scores without information, and scores that are correct three times out of four.
    #[test]
    fn noise_states_frequencies_and_evidence_its_odds() {
        let frequencies = Frequencies { shares: vec![0.5; 2], rho: 1.0 };
        let labels: Vec<u16> = (0..400).map(|row| row % 2).collect();
        let fitted = |right: fn(usize) -> bool| {
            let score = |row: usize| if (labels[row] == 0) == right(row) { [0.0, 1.0] } else { [1.0, 0.0] };
            let scores: Vec<f64> = (0..400).flat_map(score).collect();
            Losses::of(&frequencies, &labels, &scores).fit().unwrap()
        };
        assert_eq!(fitted(|row| row / 2 % 2 == 0).number(), 0);
        // Odds of 3 need a sharpness of ln 3 = 1.1. Number 8 is a sharpness of 1.
        assert_eq!(fitted(|row| row / 2 % 4 > 0).number(), 8);
    }

    #[test]
    fn few_rows_fit_nothing() {
        let losses = |rows: usize| Losses::of(&frequencies(), &vec![0; rows], &vec![1.0; 2 * rows]);
        assert_eq!((losses(9).fit(), Losses::empty().fit()), (None, None));
        assert!(losses(10).fit().is_some());
    }

    proptest! {
        #[test]
        fn sums_of_parts_fit_as_the_rows_in_one_place(
            rows in prop::collection::vec((0u16..3, prop::array::uniform3(-40.0f64..40.0)), 10..80),
            cuts in prop::collection::vec(0usize..80, 0..6),
        ) {
            let counts = Counts::from_values(vec![9, 3, 2, 2, 0, 0], 3, 2).unwrap();
            let frequencies = Frequencies::of(&counts, 3, 2);
            let of = |rows: &[(u16, [f64; 3])]| {
                let (labels, scores): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
                Losses::of(&frequencies, &labels, scores.as_flattened())
            };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(rows.len())).collect();
            cuts.extend([0, rows.len()]);
            cuts.sort_unstable();
            let mut sum = Losses::empty();
            cuts.windows(2).for_each(|cut| sum.add(&of(&rows[cut[0]..cut[1]])));
            let pooled = of(&rows);
            prop_assert_eq!(sum.fit(), pooled.fit());
            prop_assert_eq!(Losses::from_words(sum.words()), Some(pooled));
        }

        #[test]
        fn probabilities_are_positive_and_sum_to_one(
            scores in prop::array::uniform2(prop_oneof![-1e3f64..1e3, Just(f64::INFINITY)]),
            number in 0u8..32,
        ) {
            let stated = stated(number, scores);
            prop_assert!(stated.iter().all(|&p| p > 0.0) && (stated.iter().sum::<f64>() - 1.0).abs() < 1e-14);
        }
    }
}
