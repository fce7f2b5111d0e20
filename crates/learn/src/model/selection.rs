//! Selects the peers that take part in a round. A nearer peer is drawn more often. All peers compute the same
//! draw (Liu, Xu, Coleman & Shrivastava, NeurIPS 2023, Algorithm 3, with a common coin instead of the
//! server).
//!
//! A *score* is the number that a peer publishes for its distance d to all peers' data: 1 + round(2^30 d),
//! with halves rounded away from zero, so it is never 0. 0 marks a peer without a score. Candidates are the
//! peers with a score, in ascending order. The draw uses one `Stream(coin, "sketch/select", LE32(round))`:
//!
//! 1. If `active` is above 0 and below the number n of candidates, `active` of them become active: for
//!    i = 0..active, place i is swapped with place i + below(n - i). The first `active` candidates are put in
//!    ascending order again and remain.
//! 2. Each active candidate has the weight exp((1/d - the largest 1/d) / temperature), a softmax of 1/d. The
//!    weight is an integer of 1 to 2^21 ([`weights`]).
//! 3. `chosen` of them (or all, if there are fewer) are drawn one after another. Let t = below(the sum of
//!    the remaining weights). The weights are added up in ascending order of the candidates. The first
//!    candidate at which the sum exceeds t is drawn and removed.
//!
//! Weights are integers. They are computed by additions, products, divisions and square roots of binary64,
//! which IEEE 754 defines exactly. So programs in every language draw the same peers.

use serde::{Deserialize, Serialize};

use flyswarm_sealed_sum::crypto::stream::Stream;

/// Number of units in a distance of 1.
const UNIT: f64 = (1u32 << 30) as f64;
/// Weight of the nearest candidate. 1,024 such weights add up to 2^31, below the limit of one draw from a
/// stream.
const LARGEST: f64 = (1u32 << 21) as f64;
/// Number of bits of an exponent after the point, and in total.
const FRACTION: i32 = 20;
const DIGITS: usize = 25;

/// Settings of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Selection {
    /// Number of candidates that are considered, the paper's L. 0 means all.
    pub active: u16,
    /// Number of peers that are drawn from these, the paper's K.
    pub chosen: u16,
    /// Divisor of 1/d. A small value prefers the nearest peers, a large value treats all peers alike. The
    /// authors' code uses 1.
    pub temperature: f64,
}

/// Result of a draw. Peers are indices in the list of scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// Active peers, ascending.
    pub active: Vec<usize>,
    /// Chosen peers, in the order of drawing.
    pub chosen: Vec<usize>,
}

/// Returns the score of a distance from 0 to 2. Larger distances get the score of 2.
#[must_use]
pub fn score(distance: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^31")]
    let units = (distance.clamp(0.0, 2.0) * UNIT).round() as u32;
    1 + units
}

/// Returns the distance of a score; `None` for score 0.
#[must_use]
pub fn distance(score: u32) -> Option<f64> {
    score.checked_sub(1).map(|units| f64::from(units) / UNIT)
}

/// Returns the weights of scores that are not 0. Let s = 2^30 / score, x = (the largest s - s) / temperature,
/// and E = floor(2^20 x). The weight is 1 if x >= 32, otherwise the larger of 1 and floor(2^21 e). Here e is
/// a product that starts at 1.0. Its factors are g_k = exp(-2^(k - 20)) for the set bits k of E, ascending,
/// where g_24 = 1.1253517471925912e-7 and g_k = sqrt(g_(k+1)).
#[must_use]
pub fn weights(scores: &[u32], temperature: f64) -> Vec<u32> {
    let mut factors = [1.125_351_747_192_591_2e-7f64; DIGITS];
    (0..DIGITS - 1).rev().for_each(|k| factors[k] = factors[k + 1].sqrt());
    let inverse = |score: u32| UNIT / f64::from(score.max(1));
    let largest = scores.iter().map(|&score| inverse(score)).fold(0.0, f64::max);
    let weight = |&score: &u32| {
        let x = (largest - inverse(score)) / temperature;
        if x >= 32.0 {
            return 1;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^25")]
        let exponent = (x * 2f64.powi(FRACTION)) as u32;
        let set = (0..DIGITS).filter(|k| exponent >> k & 1 == 1);
        let e = set.fold(1.0, |product, k| product * factors[k]);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^21")]
        let weight = (LARGEST * e) as u32;
        weight.max(1)
    };
    scores.iter().map(weight).collect()
}

impl Selection {
    /// Draws from the peers with a score. `coin` must be drawn after the scores are fixed, because otherwise
    /// a peer could choose its score to fit the coin. At most 2,047 scores may be non-zero.
    #[must_use]
    pub fn draw(&self, coin: &[u8], round: u32, scores: &[u32]) -> Draw {
        let mut stream = Stream::new(coin, "sketch/select", &round.to_le_bytes());
        let mut active: Vec<usize> = (0..scores.len()).filter(|&place| scores[place] > 0).collect();
        let wanted = usize::from(self.active);
        if wanted > 0 && wanted < active.len() {
            for i in 0..wanted {
                let left = u32::try_from(active.len() - i).unwrap_or(u32::MAX);
                active.swap(i, i + stream.below(left) as usize);
            }
            active.truncate(wanted);
            active.sort_unstable();
        }
        let of_active: Vec<u32> = active.iter().map(|&place| scores[place]).collect();
        let mut left: Vec<(usize, u32)> =
            active.iter().copied().zip(weights(&of_active, self.temperature)).collect();
        let mut chosen = Vec::new();
        while chosen.len() < usize::from(self.chosen) && !left.is_empty() {
            let sum = left.iter().map(|(_, weight)| weight).sum();
            let mut t = stream.below(sum);
            let at = left.iter().position(|&(_, weight)| {
                let here = t < weight;
                t = t.saturating_sub(weight);
                here
            });
            chosen.push(
                left.remove(at.unwrap_or_else(|| unreachable!("BUG: drawn above the sum of the weights"))).0,
            );
        }
        Draw { active, chosen }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn weights_are_those_of_a_softmax_of_inverse_distances(
            distances in prop::collection::vec(0.01f64..1.4, 1..20), temperature in 0.05f64..20.0,
        ) {
            let scores: Vec<u32> = distances.iter().map(|&distance| score(distance)).collect();
            let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
            for (&distance, weight) in distances.iter().zip(weights(&scores, temperature)) {
                let exact = LARGEST * libm::exp((1.0 / distance - 1.0 / nearest) / temperature);
                // Sources of error: 2^-30 / d^2 in 1/d, 2^-20 in the exponent, and the rounding down.
                let error = exact
                    * (2.0 * UNIT.recip() / (nearest * nearest) / temperature + 2f64.powi(-FRACTION + 1))
                    + 1.0;
                prop_assert!((f64::from(weight) - exact).abs() <= error, "{weight} for {exact}");
            }
        }

        #[test]
        fn everybody_who_is_drawn_is_a_candidate_and_nobody_is_drawn_twice(
            scores in prop::collection::vec(prop_oneof![Just(0u32), 1u32..1 << 31], 0..40),
            active in 0u16..45, chosen in 0u16..45, coin: [u8; 32], round: u32,
        ) {
            let selection = Selection { active, chosen, temperature: 1.0 };
            let draw = selection.draw(&coin, round, &scores);
            let candidates = scores.iter().filter(|&&score| score > 0).count();
            let expected = if active == 0 { candidates } else { candidates.min(active.into()) };
            prop_assert_eq!(draw.active.len(), expected);
            prop_assert!(draw.active.is_sorted_by(|a, b| a < b));
            prop_assert!(draw.active.iter().all(|&place| scores[place] > 0));
            prop_assert_eq!(draw.chosen.len(), expected.min(chosen.into()));
            let mut sorted = draw.chosen.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert!(sorted.len() == draw.chosen.len());
            prop_assert!(sorted.iter().all(|place| draw.active.contains(place)));
            prop_assert_eq!(selection.draw(&coin, round, &scores), draw);
        }
    }

    #[test]
    fn a_score_holds_its_distance_to_a_billionth_and_is_never_that_of_nobody() {
        for of in [0.0, 1e-9, 0.5, 1.0, 2f64.sqrt()] {
            let score = score(of);
            assert!(score > 0 && (distance(score).unwrap() - of).abs() < 1e-9, "{of}");
        }
        assert_eq!((distance(0), score(-1.0), score(f64::NAN)), (None, 1, 1));
        assert_eq!(score(7.0), (1 << 31) + 1);
    }

    /// Checks that peers are drawn as often as their weights require, with two peers at the same
    /// distance.
    #[test]
    fn a_peer_is_drawn_as_often_as_its_weight_says() {
        let scores: Vec<u32> = [0.25, 0.5, 0.5, 1.0].map(score).to_vec();
        let selection = Selection { active: 0, chosen: 1, temperature: 2.0 };
        let weights = weights(&scores, 2.0);
        let sum: u32 = weights.iter().sum();
        let mut drawn = [0u32; 4];
        const ROUNDS: u32 = 20_000;
        (0..ROUNDS).for_each(|round| drawn[selection.draw(b"coin", round, &scores).chosen[0]] += 1);
        for (drawn, weight) in drawn.into_iter().zip(weights) {
            let share = f64::from(weight) / f64::from(sum);
            let error = (share * (1.0 - share) / f64::from(ROUNDS)).sqrt();
            assert!(
                (f64::from(drawn) / f64::from(ROUNDS) - share).abs() < 5.0 * error,
                "{drawn} for {share}"
            );
        }
    }

    #[test]
    fn everybody_may_be_active_and_rounds_differ() {
        let scores = [score(0.3); 30];
        let selection = Selection { active: 10, chosen: 4, temperature: 1.0 };
        let rounds: Vec<Draw> = (0..200).map(|round| selection.draw(b"coin", round, &scores)).collect();
        let reached = |pick: fn(&Draw) -> &Vec<usize>| {
            (0..30).all(|place| rounds.iter().any(|draw| pick(draw).contains(&place)))
        };
        assert!(reached(|draw| &draw.active) && reached(|draw| &draw.chosen));
        assert_ne!(rounds[0], rounds[1]);
    }
}
