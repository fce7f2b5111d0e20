//! Selection of the best weights and the early end of training (spec, section "Task fedavg", *Early
//! end*).
//!
//! Each round evaluates the weights that it starts from, on the held-out rows of its members. So weights are
//! judged one round after they were made. All peers come to the same judgement, because they use only opened
//! words.

use serde_json::{Map, Value, json};

use super::super::History;
use super::words::Figures;
use super::{FedavgError, Plan};

/// The best weights among those judged so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// Round that made these weights, from 1; 0 for the weights before the first round.
    pub round: u32,
    /// Number of times that weights were judged after these. None were better.
    pub since: u32,
}

impl Best {
    /// Returns the best weights. `losses` has the loss of the first weights, then of those of each round. In
    /// a tie the earliest are best. Returns `None` if no weights have been judged.
    pub fn of(losses: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut best: Option<(u32, Self)> = None;
        for (round, loss) in (0..).zip(losses) {
            match &mut best {
                Some((least, best)) if *least <= loss => best.since += 1,
                _ => best = Some((loss, Self { round, since: 0 })),
            }
        }
        best.map(|(_, best)| best)
    }

    /// Returns how many times weights were judged after these, not counting the weights that the first
    /// `uncounted` rounds made.
    pub fn waited(self, uncounted: u32) -> u32 {
        (self.round + self.since).saturating_sub(self.round.max(uncounted))
    }
}

/// Figures of the weights of all rounds, read from the opened words.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// Figures that each round has opened, from the first round.
    pub(super) curve: Vec<Figures>,
    /// Figures of the last weights, once `scores` is open.
    scores: Option<Figures>,
}

impl Judged {
    /// Returns the best weights so far.
    pub(super) fn best(&self) -> Option<Best> {
        Best::of(self.curve.iter().chain(&self.scores).map(|figures| figures.judged()))
    }

    /// Returns the figures of the weights that this round has made.
    pub(super) fn figures(&self, round: u32) -> Figures {
        let round = round as usize;
        let of_round = self.curve.get(round).copied();
        self.scores.filter(|_| round == self.curve.len()).or(of_round).unwrap_or_default()
    }
}

impl Plan {
    /// Returns the figures of the committed rounds, or `None` if this peer lacks the vector that contains
    /// them.
    pub(super) fn judged(&self, history: &History) -> Option<Judged> {
        let open = history.committed() > self.last();
        let scores = if open { Some(self.scores(history).ok()?) } else { None };
        let curve = self.carried(history.committed().min(self.last()), history).ok()?.curve;
        Some(Judged { curve, scores })
    }

    /// Returns whether training has ended early and the last committed slot has summed the predictions.
    pub(in crate::tasks) fn ends(&self, history: &History) -> bool {
        history.committed().checked_sub(1).is_some_and(|slot| self.closes(slot, history))
    }

    /// Returns whether the weights in the opened vector of a round are, or may become, the result.
    pub(in crate::tasks) fn may_be_result(&self, slot: u32, history: &History) -> bool {
        let Some(round) = self.round(slot).filter(|_| self.spec.patience > 0) else { return false };
        // Until the figures are known, any round may be the best.
        self.judged(history).and_then(|judged| judged.best()).is_none_or(|best| best.round == round + 1)
    }

    /// Returns the round whose weights are the result: the best round if the session has a `patience`,
    /// otherwise the last.
    pub(super) fn result(&self, judged: &Judged) -> u32 {
        let best = judged.best().filter(|_| self.spec.patience > 0);
        best.map_or(self.spec.rounds, |best| best.round)
    }

    /// Returns the number of the best round for an event and the report; empty if the session has no
    /// `patience`.
    pub(super) fn told(&self, judged: &Judged) -> Map<String, Value> {
        let Some(Best { round, .. }) = judged.best().filter(|_| self.spec.patience > 0) else {
            return Map::new();
        };
        Map::from_iter([("best_round".to_owned(), json!(round))])
    }

    /// Returns the weights that this round has made; for 0, the weights before the first round.
    pub(super) fn made(&self, round: u32, history: &History) -> Result<Vec<f32>, FedavgError> {
        self.weights(self.first() + round, history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_equal_weights_are_the_first_and_each_better_one_begins_the_count_anew() {
        let best = |losses: &[u32]| Best::of(losses.iter().copied()).map(|best| (best.round, best.since));
        assert_eq!(best(&[]), None);
        assert_eq!(best(&[900]), Some((0, 0)));
        assert_eq!(best(&[900, 800, 800, 850]), Some((1, 2)));
        assert_eq!(best(&[900, 950, 900, 899]), Some((3, 0)));
        assert_eq!(best(&[15_000, 15_000]), Some((0, 1)));
        let waited = |losses: &[u32]| {
            let best = Best::of(losses.iter().copied()).unwrap();
            [0, 1, 3, 9].map(|uncounted| best.waited(uncounted))
        };
        assert_eq!(waited(&[900, 950, 950, 950, 950]), [4, 3, 1, 0]);
        assert_eq!(waited(&[900, 800, 950, 950, 950]), [3, 3, 1, 0]);
        assert_eq!(waited(&[900, 950, 950, 950, 800]), [0; 4]);
    }
}
