//! Rounds of a private session. The length of each member's update is bounded, and the update is made of
//! whole units of the words. Every member adds its share of the noise (spec, section "Task fedavg", *Private
//! rounds*; docs/privacy.md).

use bytes::Bytes;
use flyswarm_learn::privacy::discrete_gaussian;
use serde_json::{Map, Value, json};

use super::super::History;
use super::words::{Layout, mean_word};
use super::{Fedavg, FedavgError, WordsError};
use crate::protocol::view::Rng;
use crate::tasks::MOST_WEIGHT;

/// Returns the update times the share as integers, which are added to the words of the start weights. Their
/// Euclidean norm is at most `longest`, regardless of the values that the learner returns. An update that is
/// not finite counts as zero, because an error would reveal something about the rows.
pub(super) fn bounded(start: &[f32], trained: &[f32], share: u32, longest: u64) -> Vec<i64> {
    let way = |(&from, &to): (&f32, &f32)| (f64::from(to) - f64::from(from)) * f64::from(share);
    let mut far: Vec<f64> = start.iter().zip(trained).map(way).collect();
    let length = far.iter().map(|way| way * way).sum::<f64>().sqrt();
    if !length.is_finite() || far.len() != start.len() {
        return vec![0; start.len()];
    }
    let most = longest as f64;
    if length > most {
        far.iter_mut().for_each(|way| *way *= most / length);
    }
    // Rounds towards zero, so that rounding does not make the update longer.
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^29 in magnitude")]
    let mut units: Vec<i64> = far.iter().map(|way| way.trunc() as i64).collect();
    let square = |unit: &i64| u128::from(unit.unsigned_abs()).pow(2);
    // Rounding errors in the length above may have left the update a little too long.
    while units.iter().map(square).sum::<u128>() > u128::from(longest).pow(2) {
        units.iter_mut().for_each(|unit| *unit -= unit.signum());
    }
    units
}

impl Layout {
    /// Writes the words of a member of a private round: the words of its weights, and the values that all
    /// peers know.
    fn write_noised(self, weights: Vec<u32>, share: u32, rows: u32, all: u32) -> Bytes {
        let words = weights.into_iter().chain([share, rows, all & 0xffff, all >> 16]);
        words.flat_map(u32::to_le_bytes).collect()
    }
}

impl Fedavg {
    /// Returns this peer's words for a round of a private session.
    pub(super) fn noisy(&self, slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, FedavgError> {
        let plan = &self.plan;
        let (Some(round), Some(noise)) = (plan.round(slot), &plan.noise) else {
            return Err(FedavgError::Closed("such a round"));
        };
        let carried = plan.carried(slot, history)?;
        let start = plan.weights(slot, history)?;
        // All peers have the same start weights, so this error reveals nothing.
        if let Some((at, &weight)) =
            start.iter().enumerate().find(|(_, weight)| !(-LIMIT..=LIMIT).contains(*weight))
        {
            let what = format!("weight {at} at the start of round {} is {weight}", round + 1);
            return Err(WordsError::Noise(what, MOST_WEIGHT).into());
        }
        let unit = plan.share(1, carried.rows)?;
        let longest = noise.longest(unit);
        let variance = noise.variance(unit).ok_or(FedavgError::Closed("noise of such a size"))?;
        let trains = plan.trains(slot, history).contains(&self.me);
        let words: Vec<u32> = if trains {
            let trained = self.learn(slot, round, history, None, start.clone())?;
            let update = bounded(&start, &trained.weights, unit, longest);
            let word = |(&weight, unit_words): (&f32, i64)| {
                Ok(mean_word(weight.into(), unit, String::new)?.wrapping_add(wrapped(unit_words)))
            };
            start.iter().zip(update).map(word).collect::<Result<_, WordsError>>()?
        } else {
            vec![0; start.len()]
        };
        let noised = |word: u32| word.wrapping_add(wrapped(discrete_gaussian(variance, rng)));
        let words = words.into_iter().map(noised).collect();
        let share = if trains { unit } else { 0 };
        Ok(plan.layout().write_noised(words, share, 1, carried.rows))
    }

    /// Describes the noise for the report.
    pub(super) fn told_of_noise(&self, members: usize) -> Map<String, Value> {
        let Some(noise) = &self.plan.noise else { return Map::new() };
        let said = json!({
            "epsilon": noise.epsilon, "delta": noise.delta.to_f64(), "rho": noise.rho(), "rounds": noise.rounds,
            "longest_update": noise.clip, "noise_per_weight": noise.per_weight(members),
        });
        Map::from_iter([("privacy".to_owned(), said)])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "8 is exact")]
const LIMIT: f32 = MOST_WEIGHT as f32;

/// Returns the number of units modulo 2^32.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ring of the words")]
fn wrapped(units: i64) -> u32 {
    units as u32
}
