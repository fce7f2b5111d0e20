//! The words of a round: means in fixed point, the share, numbers of rows, and the values that the members
//! repeat from round to round (spec, section "Task fedavg").
//!
//! A word of a mean is the sum over the members of each member's number times its share. Words are signed,
//! with 32 bits, 27 of them fractional. No sum overflows if the shares add up to at most 1 and the numbers
//! are at most [`LIMIT`] in magnitude.

use bytes::Bytes;

use crate::crypto::mask::{Word, capacity};
pub(super) use crate::tasks::WHOLE_SHARE as ONE;

/// Number of means in a round in addition to the weights: the [`Figures`].
pub(super) const FIGURES: usize = 4;
/// Number of words after the means: the share, the rows, and two halves of the rows in use.
const TAIL: usize = 4;
/// Number of words for each number of the predictions. Each word has 16 bits of the number.
const PARTS: usize = 4;
/// Most peers of a session; each rounds by half a unit.
const PEERS: u64 = 1024;

/// Largest magnitude of a number: just below 16. The largest sum of such numbers fits in a signed word,
/// even with half a unit of rounding error from each peer.
pub(crate) const LIMIT: f64 = (capacity(Word::W32, 2) - PEERS) as f64 / ONE as f64;

/// Figures of a round: means over its members, weighted by their shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Mean cross-entropy of the rows, nats; at most 15.
    pub(crate) loss: f64,
    /// Fraction of the rows whose class was predicted correctly, 0 to 1.
    pub(crate) accuracy: f64,
    /// Mean cross-entropy of the held-out rows.
    pub(crate) held_loss: f64,
    pub(crate) held_accuracy: f64,
}

impl Figures {
    pub(super) fn numbers(self) -> [f64; FIGURES] {
        [self.loss, self.accuracy, self.held_loss, self.held_accuracy]
    }

    fn of([loss, accuracy, held_loss, held_accuracy]: [f64; FIGURES]) -> Self {
        Self { loss, accuracy, held_loss, held_accuracy }
    }

    /// Returns the values that later rounds repeat: losses in thousandths, fractions in ten thousandths.
    fn coarse(self) -> [u32; FIGURES] {
        let scaled = [1e3, 1e4, 1e3, 1e4].into_iter().zip(self.numbers());
        let mut coarse = [0; FIGURES];
        for (to, (scale, number)) in coarse.iter_mut().zip(scaled) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 65,535")]
            let word = (number * scale).round().clamp(0.0, 65_535.0) as u32;
            *to = word;
        }
        coarse
    }

    /// Returns the loss on held-out rows, in thousandths. The weights with the lowest value are the best.
    pub(super) fn judged(self) -> u32 {
        self.coarse()[2]
    }

    fn of_coarse(words: [u32; FIGURES]) -> Self {
        let [a, b, c, d] = words.map(f64::from);
        Self::of([a / 1e3, b / 1e4, c / 1e3, d / 1e4])
    }
}

/// Reason why words cannot be made or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum WordsError {
    /// A number that does not fit.
    #[error("{what} is {value}, must be between -16 and 16 to be summed")]
    Range { what: String, value: f64 },
    /// The weights leave no room for the noise of a private session.
    #[error("{0}, must be between -{1} and {1} in a private session")]
    Noise(String, f64),
    /// The opened words cannot come from members that follow the rules.
    #[error("the opened {0} is not one of members that all have the same rounds behind them")]
    Opened(&'static str),
}

/// Returns the word for a number times a share.
pub(super) fn mean_word(number: f64, share: u32, what: impl Fn() -> String) -> Result<u32, WordsError> {
    // This also refuses NaN.
    if number.is_nan() || number.abs() > LIMIT {
        return Err(WordsError::Range { what: what(), value: number });
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 2^31 in magnitude")]
    let word = (number * f64::from(share)).round() as i32;
    Ok(word.cast_unsigned())
}

/// Returns the mean that an opened word and the opened share give.
pub(super) fn mean(word: u32, share: u32) -> f64 {
    f64::from(word.cast_signed()) / f64::from(share)
}

/// Layout of a round's words: `weights` means of weights and `figures` means of figures, the share, the rows,
/// the rows in use (two halves), and the carried figures of each of `rounds` rounds. After an early end, the
/// words before the share are [`PARTS`] words for each of `predictions` numbers instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) weights: usize,
    /// [`FIGURES`]; 0 in a private session, which opens and carries no figures.
    pub(super) figures: usize,
    pub(super) rounds: usize,
    /// If training may end early: how many numbers describe the predictions of the result. Otherwise 0.
    pub(super) predictions: usize,
}

/// Values that all members repeat in a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Carried {
    /// Number of rows in use. The shares are fractions of it.
    pub(super) rows: u32,
    /// Figures of the earlier rounds, from the first.
    pub(super) curve: Vec<Figures>,
}

impl Layout {
    pub(super) fn words(self) -> usize {
        self.share_at() + TAIL + self.figures * self.rounds
    }

    /// Returns the position of the share.
    fn share_at(self) -> usize {
        (self.weights + self.figures).max(PARTS * self.predictions)
    }

    /// Writes a member's words. A member that does not train has no `means`, and its share is written as 0.
    pub(super) fn write(
        self,
        means: Option<(&[f32], Figures)>,
        share: u32,
        rows: u32,
        carried: &Carried,
    ) -> Result<Bytes, WordsError> {
        let mut words = Vec::with_capacity(self.words());
        if let Some((weights, figures)) = means {
            for (at, &weight) in weights.iter().enumerate() {
                words.push(mean_word(weight.into(), share, || format!("weight {at} after training"))?);
            }
            for number in figures.numbers() {
                // A loss may be arbitrarily large, so it is cut at 15.
                words.push(mean_word(number.min(15.0), share, || "the loss".into())?);
            }
        }
        Ok(self.finish(words, if means.is_some() { share } else { 0 }, rows, carried))
    }

    /// Writes a member's words in the slot after an early end.
    pub(super) fn write_predictions(self, numbers: &[u64], rows: u32, carried: &Carried) -> Bytes {
        let parts = |number: &u64| [0, 16, 32, 48].map(|bits| (number >> bits) as u32 & 0xffff);
        self.finish(numbers.iter().flat_map(parts).collect(), 0, rows, carried)
    }

    /// Appends the share, the numbers of rows and the carried figures to the words.
    fn finish(self, mut words: Vec<u32>, share: u32, rows: u32, carried: &Carried) -> Bytes {
        words.resize(self.share_at(), 0);
        words.extend([share, rows, carried.rows & 0xffff, carried.rows >> 16]);
        words.extend(carried.curve.iter().flat_map(|figures| figures.coarse()));
        words.resize(self.words(), 0);
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Returns the numbers that were summed instead of a round. No word overflows, because each of at most
    /// 1,024 peers adds a part below 2^16.
    pub(super) fn predictions(self, opened: &[u8]) -> Vec<u64> {
        let words: Vec<_> = (0..PARTS * self.predictions).map(|at| self.word(opened, at)).collect();
        let number = |parts: &[u32; PARTS]| {
            parts.iter().rev().fold(0u64, |number, &part| (number << 16).wrapping_add(part.into()))
        };
        words.as_chunks().0.iter().map(number).collect()
    }

    fn word(self, opened: &[u8], at: usize) -> u32 {
        opened.as_chunks::<4>().0.get(at).map_or(0, |&word| u32::from_le_bytes(word))
    }

    /// Returns the opened share.
    pub(super) fn share(self, opened: &[u8]) -> u32 {
        self.word(opened, self.share_at())
    }

    /// Returns the new weights.
    pub(super) fn weights(self, opened: &[u8]) -> Vec<f32> {
        let share = self.share(opened);
        let words = opened.as_chunks::<4>().0.iter().take(self.weights);
        #[expect(clippy::cast_possible_truncation, reason = "weights are binary32")]
        let weight = |&word: &[u8; 4]| mean(u32::from_le_bytes(word), share) as f32;
        words.map(weight).collect()
    }

    /// Returns the figures that this round has opened.
    pub(super) fn figures(self, opened: &[u8]) -> Figures {
        let share = self.share(opened);
        if self.figures == 0 {
            return Figures::default();
        }
        Figures::of([0, 1, 2, 3].map(|at| mean(self.word(opened, self.weights + at), share)))
    }

    /// Returns the number of rows of the members of the round.
    pub(super) fn rows(self, opened: &[u8]) -> u32 {
        self.word(opened, self.share_at() + 1)
    }

    /// Returns the values that `members` carried into round `round` (from 0). All of them must carry the
    /// same.
    pub(super) fn carried(self, opened: &[u8], members: usize, round: usize) -> Result<Carried, WordsError> {
        let members = u32::try_from(members).unwrap_or(u32::MAX).max(1);
        let first = self.share_at() + 2;
        let each = |at: usize, what| {
            let word = self.word(opened, first + at);
            let value = word / members;
            let sound = word.is_multiple_of(members) && value <= 0xffff;
            if sound { Ok(value) } else { Err(WordsError::Opened(what)) }
        };
        let rows = each(0, "number of rows")? | each(1, "number of rows")? << 16;
        let mut curve = Vec::with_capacity(round.min(self.rounds));
        for round in 0..if self.figures > 0 { round.min(self.rounds) } else { 0 } {
            let mut coarse = [0; FIGURES];
            for (at, to) in coarse.iter_mut().enumerate() {
                *to = each(2 + self.figures * round + at, "figure of a round")?;
            }
            curve.push(Figures::of_coarse(coarse));
        }
        Ok(Carried { rows, curve })
    }
}

impl Carried {
    /// Appends the figures of the next round.
    pub(super) fn push(&mut self, figures: Figures) {
        self.curve.push(Figures::of_coarse(figures.coarse()));
    }
}
