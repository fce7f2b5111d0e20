//! Differential privacy of rounds: the privacy bound that a session gives each member, and the noise that
//! this bound requires (spec, section "Task fedavg", *Private rounds*; docs/privacy.md).

use flyswarm_learn::privacy::gaussian::{concentrated, share_variance};

use super::{FedavgSpec, USUAL_RANGE, Weighting, refuse};
use crate::privacy::Ratio;
use crate::session::fields::Word;
use crate::session::{NoiseSpec, Session, SessionError};
use crate::tasks::Forecast;
use serde_json::json;

/// A share of 1 in the words of a round: 27 fractional bits.
pub(crate) const WHOLE_SHARE: u32 = 1 << 27;
/// Largest magnitude of a weight at the start of a round. The rest of a word's range, up to 16, is for the
/// updates and the noise.
pub(crate) const MOST_WEIGHT: f64 = 8.0;
/// Number of standard deviations of the noise that must fit in a word. The noise exceeds them with a
/// probability of 2 in 10^23.
const DEVIATIONS: f64 = 10.0;
/// Range of `clip` in a private session.
const CLIP: std::ops::RangeInclusive<f64> = 0.001..=4.0;

/// Noise of a private session of the task `fedavg`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundNoise {
    /// The epsilon of the (epsilon, delta) bound on what the session reveals about one member.
    pub epsilon: Ratio,
    /// The delta of the same bound.
    pub delta: Ratio,
    /// The same bound as a budget of zero-concentrated differential privacy, in units of 10^-12.
    rho: u64,
    /// Number of members whose noise together is the noise of a round.
    pub parties: u32,
    /// Number of rounds that share the budget.
    pub rounds: u32,
    /// Longest update of a member.
    pub clip: f64,
}

impl RoundNoise {
    /// Returns the budget in zero-concentrated differential privacy.
    #[must_use]
    pub fn rho(&self) -> f64 {
        self.rho as f64 / 1e12
    }

    /// Returns the same budget in units of 10^-12.
    #[must_use]
    pub fn trillionths(&self) -> u64 {
        self.rho
    }

    /// Returns the largest length of a member's update in units of the words of a round, if every member has
    /// this share.
    #[must_use]
    pub fn longest(&self, share: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^29")]
        let longest = (self.clip * f64::from(share)).floor() as u64;
        longest
    }

    /// Returns the variance of the noise that a member adds to each word of such a round. If the update of
    /// one member is replaced by any other, the sum changes by at most twice the longest update. This is the
    /// sensitivity.
    ///
    /// # Errors
    /// Returns `None` if the variance is too large to be drawn. In a checked session it never is.
    #[must_use]
    pub fn variance(&self, share: u32) -> Option<u64> {
        share_variance(2 * self.longest(share), self.rounds, self.rho, self.parties)
    }

    /// Returns the standard deviation of the noise on a weight, in a round in which this number of members
    /// train.
    #[must_use]
    pub fn per_weight(&self, members: usize) -> f64 {
        let share = WHOLE_SHARE / u32::try_from(members.max(1)).unwrap_or(u32::MAX);
        let variance = self.variance(share).map_or(f64::INFINITY, |variance| variance as f64);
        (variance * members as f64).sqrt() / (f64::from(share) * members as f64)
    }

    /// Returns a ratio: the expected length of the noise on all weights after all rounds, divided by the
    /// largest possible length of the sum of all updates. If it is above 1, the network learns little.
    #[must_use]
    pub fn drowns(&self, members: usize, weights: usize) -> f64 {
        let rounds = f64::from(self.rounds);
        self.per_weight(members) * (weights as f64 * rounds).sqrt() / (self.clip * rounds)
    }
}

/// Forecasts the effect of a private session's noise on the network if all peers take part. Returns `None`
/// for a session without this noise.
pub(crate) fn forecast(session: &Session) -> Option<Forecast> {
    let spec = session.task.get::<FedavgSpec>()?;
    let (noise, weights, members) = (spec.noise(session)?, spec.weights(&session.data), session.roster.len());
    let (each, drowns) = (noise.per_weight(members), noise.drowns(members, weights));
    let length = each * (weights as f64).sqrt();
    let RoundNoise { epsilon, delta, rounds, clip, .. } = noise;
    // True if the updates may be longer than the noise.
    let useful = drowns <= 1.0;
    let verdict = if useful { "" } else { ": of little use" };
    let text = format!(
        "forecast: in each of {rounds} rounds noise of {each:.2e} on every weight, of length {length:.3} over \
         {weights} weights; an update is at most {clip} long. After all rounds the noise is {drowns:.2} \
         times as long as all updates can add up to{verdict}. {members} peers, epsilon {epsilon}, \
         delta {:?}, rho {:.4}",
        delta.to_f64(),
        noise.rho(),
    );
    let json = json!({
        "epsilon": epsilon, "delta": delta.to_f64(), "rho": noise.rho(), "rounds": rounds, "weights": weights,
        "longest_update": clip, "noise_per_weight": each, "noise_to_updates": drowns,
    });
    Some(Forecast { text, json, useful })
}

impl FedavgSpec {
    /// Returns the noise of the session, or `None` if the session is not private or has no delta.
    #[must_use]
    pub fn noise(&self, session: &Session) -> Option<RoundNoise> {
        let noise = session.privacy.noise?;
        let delta = noise.delta?;
        Some(RoundNoise {
            epsilon: noise.epsilon,
            delta,
            rho: concentrated(noise.epsilon, delta),
            parties: noise.parties(session),
            rounds: self.rounds,
            clip: self.clip,
        })
    }

    /// Checks that the parameters fit a privacy budget.
    pub(crate) fn check_noise(&self, noise: &NoiseSpec, session: &Session) -> Result<(), SessionError> {
        const WITH: &str = "with privacy.epsilon";
        if self.weighting != Weighting::Equal {
            let limit = format!("equal {WITH}: other weights would show numbers of rows");
            return refuse("fedavg.weighting", self.weighting.word(), &limit);
        }
        if !CLIP.contains(&self.clip) {
            let limit =
                format!("{} to {} {WITH}: it bounds what one member changes", CLIP.start(), CLIP.end());
            return refuse("fedavg.clip", self.clip, &limit);
        }
        let other = self.tensors.iter().filter(|each| each.is_averaged()).map(|each| each.range);
        if let Some(range) = other.chain([self.range]).find(|range| *range != USUAL_RANGE) {
            let limit = format!("{USUAL_RANGE} {WITH}: the noise is computed for it");
            return refuse("fedavg.range, or that of a tensor,", range, &limit);
        }
        if self.held_out > 0 {
            let limit = format!("0 {WITH}: loss and accuracy are exact sums");
            return refuse("fedavg.held_out", self.held_out, &limit);
        }
        let Some(rounds) = self.noise(session) else { return Ok(()) };
        // The noise is largest if each member has the largest possible share (in a session with the fewest
        // members), and if every peer of the roster adds noise.
        let share = WHOLE_SHARE / u32::from(session.min_peers.max(1));
        let all = session.roster.len() as f64;
        let deviation =
            rounds.variance(share).map_or(f64::INFINITY, |variance| (variance as f64 * all).sqrt());
        let room = 16.0 - MOST_WEIGHT - self.clip;
        if DEVIATIONS * deviation > room * f64::from(WHOLE_SHARE) {
            let limit = format!(
                "more, or fedavg.clip or fedavg.rounds less: noise of {:.2} on each weight does not fit the words of \
                 a round, at most {:.2} does",
                deviation / f64::from(WHOLE_SHARE),
                room / DEVIATIONS
            );
            return refuse("privacy.epsilon", noise.epsilon, &limit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_on_a_weight_is_that_of_the_formula() {
        let (epsilon, delta) = ("8".parse().unwrap(), "0.00001".parse().unwrap());
        let rho = concentrated(epsilon, delta);
        let noise = RoundNoise { epsilon, delta, rho, parties: 10, rounds: 20, clip: 1.0 };
        // By hand: rho is 1.049136 and a share is 1/20. The noise of each of 20 members is 2^2 x 20 / (2
        // x 1.049136 x 10) = 3.81266 times the square of the share. So the deviation is sqrt(20 x
        // 3.81266) / 20 = 0.43662.
        assert!((noise.rho() - 1.049_136).abs() < 1e-6, "{}", noise.rho());
        assert!((noise.per_weight(20) - 0.436_62).abs() < 1e-5, "{}", noise.per_weight(20));
        // Over 650 weights and 20 rounds: 0.43662 x sqrt(650 x 20) / 20.
        assert!((noise.drowns(20, 650) - 2.489_1).abs() < 1e-3, "{}", noise.drowns(20, 650));
        let shorter = RoundNoise { clip: 0.25, ..noise };
        assert!((shorter.per_weight(20) - 0.436_62 / 4.0).abs() < 1e-5);
    }
}
