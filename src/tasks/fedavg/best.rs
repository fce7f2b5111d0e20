//! Which weights are the best, and when training ends (spec, section "Task fedavg", *Early end*).
//!
//! A round tells how good the weights are from which it starts, by the rows that its members hold out. So
//! weights are judged a round after they are made, and everybody judges alike: by opened words alone.

use serde_json::{Map, Value, json};

use super::super::History;
use super::words::Figures;
use super::{FedavgError, Plan};

/// The weights that are the best so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// The round that made them, from 1; 0: the first weights.
    pub round: u32,
    /// How many have been judged after them, none of them better.
    pub since: u32,
}

impl Best {
    /// Of weights with these losses, in order; of equal ones the first. `None` where none are judged.
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

    /// How many have been judged after these, and after those that the first `uncounted` rounds made.
    pub fn waited(self, uncounted: u32) -> u32 {
        (self.round + self.since).saturating_sub(self.round.max(uncounted))
    }
}

/// What the opened rounds say of the weights.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The figures of each round, from the first.
    pub(super) curve: Vec<Figures>,
    /// Those of the last weights, once `scores` is open.
    scores: Option<Figures>,
}

impl Judged {
    /// The best weights so far.
    pub(super) fn best(&self) -> Option<Best> {
        Best::of(self.curve.iter().chain(&self.scores).map(|figures| figures.judged()))
    }

    /// The figures of the weights that a round has made.
    pub(super) fn figures(&self, round: u32) -> Figures {
        let round = round as usize;
        let of_round = self.curve.get(round).copied();
        self.scores.filter(|_| round == self.curve.len()).or(of_round).unwrap_or_default()
    }
}

impl Plan {
    /// What the rounds that are committed say; `None` while the vector that tells it is not here.
    pub(super) fn judged(&self, history: &History) -> Option<Judged> {
        let open = history.committed() > self.last();
        let scores = if open { Some(self.scores(history).ok()?) } else { None };
        let curve = self.carried(history.committed().min(self.last()), history).ok()?.curve;
        Some(Judged { curve, scores })
    }

    /// Whether the last slot that is committed is the one behind an early end.
    pub(in crate::tasks) fn ends(&self, history: &History) -> bool {
        history.committed().checked_sub(1).is_some_and(|slot| self.closes(slot, history))
    }

    /// Whether the opened vector of a round is needed for the weights in it, or may be.
    pub(in crate::tasks) fn may_be_result(&self, slot: u32, history: &History) -> bool {
        let Some(round) = self.round(slot).filter(|_| self.spec.patience > 0) else { return false };
        // While the rounds do not tell, any may be the best.
        self.judged(history).and_then(|judged| judged.best()).is_none_or(|best| best.round == round + 1)
    }

    /// The round whose weights are the result: the best one with a `patience`, else the last.
    pub(super) fn result(&self, judged: &Judged) -> u32 {
        let best = judged.best().filter(|_| self.spec.patience > 0);
        best.map_or(self.spec.rounds, |best| best.round)
    }

    /// What an event and the report say of the best round; nothing without a `patience`.
    pub(super) fn told(&self, judged: &Judged) -> Map<String, Value> {
        let Some(Best { round, .. }) = judged.best().filter(|_| self.spec.patience > 0) else {
            return Map::new();
        };
        Map::from_iter([("best_round".to_owned(), json!(round))])
    }

    /// The weights that a round has made, 0: the first ones.
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
