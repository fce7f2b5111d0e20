//! Audits the mechanisms with neighbouring counts, many draws, and the event that separates them best. With
//! 99 % confidence the privacy loss is at least [`least`]. The tests check that this bound is at most the
//! claimed loss. For mechanisms that are broken on purpose the bound is larger.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use statrs::distribution::{Beta, ContinuousCDF};

use super::mechanism::Mechanism;
use super::*;

const DRAWS: u32 = 60_000;
/// Probability that a correct mechanism exceeds the bound, both ends together.
const ALARM: f64 = 0.01;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn ratio(numerator: u64, denominator: u64) -> Ratio {
    Ratio::new(numerator, denominator).unwrap()
}

/// Number of draws that show an event.
#[derive(Clone, Copy, Debug)]
struct Hits(u32);

impl Hits {
    fn of(mut event: impl FnMut() -> bool) -> Self {
        Self((0..DRAWS).map(|_| u32::from(event())).sum())
    }

    /// Returns the interval of Clopper and Pearson for the event's probability. Each end has half of the
    /// probability [`ALARM`].
    fn interval(self) -> (f64, f64) {
        let (hits, misses) = (f64::from(self.0), f64::from(DRAWS - self.0));
        let quantile = |a: f64, b: f64, at: f64| Beta::new(a, b).unwrap().inverse_cdf(at);
        let low = if self.0 == 0 { 0.0 } else { quantile(hits, misses + 1.0, ALARM / 4.0) };
        let high = if self.0 == DRAWS { 1.0 } else { quantile(hits + 1.0, misses, 1.0 - ALARM / 4.0) };
        (low, high)
    }
}

/// Returns the least epsilon that explains how much more often the event happens with `one` than with
/// `other`.
fn least(one: Hits, other: Hits) -> f64 {
    (one.interval().0 / other.interval().1).ln()
}

/// Counts of one peer before and after one row is replaced: the first count falls by 1 and the four others
/// rise by 1.
const COUNTS: [u32; 5] = [20; 5];
const NEIGHBOUR: [u32; 5] = [19, 21, 21, 21, 21];

/// Returns the privacy loss that one event shows for one peer's release. The event: the first count is
/// released, with at least 20.
fn release_loss(mut draw: impl FnMut(&[u32], &mut ChaCha20Rng) -> Vec<u32>) -> f64 {
    let mut rng = rng(1);
    let mut hits = |counts: &[u32]| Hits::of(|| draw(counts, &mut rng)[0] >= 20);
    let (one, other) = (hits(&COUNTS), hits(&NEIGHBOUR));
    least(one, other)
}

fn release(epsilon: Ratio) -> Mechanism {
    Mechanism::Release { epsilon, top: 1, most: u32::MAX }
}

#[test]
fn a_release_loses_no_more_than_it_claims() {
    for epsilon in [ratio(1, 1), ratio(2, 1)] {
        let loss = release_loss(|counts, rng| release(epsilon).draw(counts, rng));
        // The event is strong: the audit sees most of the permitted loss.
        assert!(loss <= epsilon.to_f64() && loss > 0.5 * epsilon.to_f64(), "epsilon {epsilon}: {loss}");
    }
}

#[test]
fn a_release_of_several_counts_loses_no_more_than_it_claims() {
    let mechanism = Mechanism::Release { epsilon: ratio(2, 1), top: 3, most: u32::MAX };
    let loss = release_loss(|counts, rng| mechanism.draw(counts, rng));
    assert!(loss <= 2.0 && loss > 0.2, "{loss}");
}

#[test]
fn a_release_without_noise_on_the_selection_is_found_out() {
    let loss = release_loss(|counts, rng| {
        let first = (0..counts.len()).rev().max_by_key(|&i| counts[i]).unwrap();
        let mut out = vec![0; counts.len()];
        let noise = discrete_laplace(ratio(2, 1), rng);
        out[first] = u32::try_from(i64::from(counts[first]) + noise).unwrap_or(0);
        out
    });
    assert!(loss > 1.0, "{loss}");
}

#[test]
fn a_release_with_half_the_noise_is_found_out() {
    let loss = release_loss(|counts, rng| {
        let entry = select(counts, 1, ratio(1, 4), rng)[0] as usize;
        let mut out = vec![0; counts.len()];
        out[entry] =
            u32::try_from(i64::from(counts[entry]) + discrete_laplace(ratio(1, 1), rng)).unwrap_or(0);
        out
    });
    assert!(loss > 1.0, "{loss}");
}

/// Returns the loss if two peers release and one row of each is replaced.
fn loss_at_two_parties(each: Ratio) -> f64 {
    let mut rng = rng(2);
    let mut hits =
        |counts: &[u32]| Hits::of(|| (0..2).all(|_| release(each).draw(counts, &mut rng)[0] >= 20));
    let (one, other) = (hits(&COUNTS), hits(&NEIGHBOUR));
    least(one, other)
}

#[test]
fn one_row_at_every_party_needs_the_budget_per_party() {
    let split = loss_at_two_parties(ratio(1, 2));
    assert!(split <= 1.0 && split > 0.5, "{split}");
    let whole = loss_at_two_parties(ratio(1, 1));
    assert!(whole > 1.0, "the mode parallel is only for a row at a single peer: {whole}");
}

/// Returns the loss of a total of two counts if a row is replaced and the attackers know all but `honest` of
/// the shares. The noise is made for `parties` shares. The event: the noise is exactly the amount that the
/// first neighbour needs.
fn shares_loss(parties: u32, honest: u32) -> f64 {
    let mechanism = Mechanism::Shares { epsilon: ratio(1, 1), top: 2, weight: 1, parties };
    let mut rng = rng(3);
    let mut hits = |counts: [u32; 2]| {
        Hits::of(|| {
            let mut total = mechanism.draw(&counts, &mut rng);
            for _ in 1..honest {
                let more = mechanism.draw(&[0, 0], &mut rng);
                total.iter_mut().zip(more).for_each(|(total, more)| *total = total.wrapping_add(more));
            }
            total == [50, 50]
        })
    };
    let (one, other) = (hits([50, 50]), hits([49, 51]));
    least(one, other)
}

#[test]
fn noise_in_shares_loses_no_more_than_one_curator_would() {
    for (parties, honest) in [(1, 1), (2, 2), (4, 4), (3, 5)] {
        let loss = shares_loss(parties, honest);
        assert!(loss <= 1.0 && loss > 0.2, "{parties} shares, {honest} unknown: {loss}");
    }
}

#[test]
fn shares_that_are_enough_only_with_the_attackers_own_are_found_out() {
    // There are two peers, and the noise is made for two shares. Each peer knows its own share, so the
    // other's count has half of the noise.
    let loss = shares_loss(2, 1);
    assert!(loss > 1.0, "{loss}");
    let loss = shares_loss(5, 4);
    assert!(loss > 1.0, "{loss}");
}

#[test]
fn the_bound_of_a_probability_is_the_one_of_the_tables() {
    // Clopper and Pearson for 0 hits: 1 - (alpha / 4)^(1 / n).
    let (low, high) = Hits(0).interval();
    assert!(low == 0.0 && (high - (1.0 - (ALARM / 4.0).powf(1.0 / f64::from(DRAWS)))).abs() < 1e-9, "{high}");
    let (low, high) = Hits(DRAWS / 2).interval();
    assert!(low < 0.5 && high > 0.5 && high - low < 0.015, "{low} {high}");
}
