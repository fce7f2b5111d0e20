//! Tests the samplers against their exact distributions by chi-square goodness of fit. The seeds are fixed,
//! so a test that passes will always pass. With fresh seeds, each `fits` would fail a correct sampler once in
//! 1 / [`ALARM`] runs.

use std::collections::BTreeMap;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::sampler::{below, bernoulli, bernoulli_exp, geometric};
use super::*;

/// False-alarm rate of one comparison.
const ALARM: f64 = 1e-6;
const DRAWS: u32 = 200_000;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn ratio(numerator: u64, denominator: u64) -> Ratio {
    Ratio::new(numerator, denominator).unwrap()
}

/// Returns the probability of outcomes that are at least as far from `expected` as `draws`. Values with fewer
/// than 10 expected draws are counted together.
fn likelihood<T: Ord>(draws: impl IntoIterator<Item = T>, expected: &[(T, f64)]) -> f64 {
    let mut seen: BTreeMap<T, f64> = BTreeMap::new();
    let mut total = 0.0;
    for draw in draws {
        *seen.entry(draw).or_default() += 1.0;
        total += 1.0;
    }
    let (mut statistic, mut cells, mut listed) = (0.0, 0.0, 0.0);
    let (mut rest_seen, mut rest_expected) = (total, total);
    for (value, probability) in expected {
        listed += probability;
        let (observed, mean) = (seen.get(value).copied().unwrap_or(0.0), probability * total);
        if mean >= 10.0 {
            statistic += (observed - mean).powi(2) / mean;
            cells += 1.0;
            rest_seen -= observed;
            rest_expected -= mean;
        }
    }
    assert!(listed < 1.0 + 1e-9, "probabilities add up to {listed}");
    if rest_expected >= 10.0 {
        statistic += (rest_seen - rest_expected).powi(2) / rest_expected;
        cells += 1.0;
    } else {
        // Detects a value that should be very rare but is not.
        assert!(
            rest_seen < 10.0 + 10.0 * rest_expected,
            "{rest_seen} draws of rare values, expected {rest_expected}"
        );
    }
    ChiSquared::new(cells - 1.0).unwrap().sf(statistic)
}

fn fits<T: Ord>(draws: impl IntoIterator<Item = T>, expected: &[(T, f64)]) -> bool {
    likelihood(draws, expected) > ALARM
}

/// Returns the probabilities of NB(r, exp(-1/scale)) at 0, 1, ..
fn polya_masses(r: f64, scale: f64) -> Vec<(u64, f64)> {
    let q = (-1.0 / scale).exp();
    let mut mass = (1.0 - q).powf(r);
    (0..4000u32)
        .map(|n| {
            let here = mass;
            mass *= q * (f64::from(n) + r) / (f64::from(n) + 1.0);
            (u64::from(n), here)
        })
        .collect()
}

fn laplace_masses(scale: f64) -> Vec<(i64, f64)> {
    let q = (-1.0 / scale).exp();
    (-3000..=3000i32).map(|y| (i64::from(y), (1.0 - q) / (1.0 + q) * q.powi(y.abs()))).collect()
}

#[test]
fn uniform_and_bernoulli_draws_have_their_probabilities() {
    let mut rng = rng(1);
    for n in [1u128, 2, 3, 10, 64, 100] {
        let expected: Vec<_> = (0..n).map(|value| (value, 1.0 / n as f64)).collect();
        assert!(n == 1 || fits((0..DRAWS).map(|_| below(n, &mut rng)), &expected), "{n}");
    }
    // The upper half of a range above 64 bits.
    let wide = 3u128 << 64;
    let thirds: Vec<_> = (0..3).map(|value| (value, 1.0 / 3.0)).collect();
    assert!(fits((0..DRAWS).map(|_| below(wide, &mut rng) >> 64), &thirds));
    assert!(fits((0..DRAWS).map(|_| bernoulli(3, 7, &mut rng)), &[(true, 3.0 / 7.0), (false, 4.0 / 7.0)]));
    for (numerator, denominator) in [(0, 1), (1, 3), (1, 1), (5, 2), (7, 1)] {
        let p = (-(numerator as f64) / denominator as f64).exp();
        let draws = (0..DRAWS).map(|_| bernoulli_exp(numerator, denominator, &mut rng));
        assert!(p == 1.0 || fits(draws, &[(true, p), (false, 1.0 - p)]), "exp(-{numerator}/{denominator})");
    }
}

#[test]
fn discrete_laplace_and_geometric_draws_have_their_distributions() {
    let mut rng = rng(2);
    for (numerator, denominator) in [(1, 3), (2, 1), (37, 5), (240, 1), (6_666_667, 1_000_000)] {
        let scale = ratio(numerator, denominator);
        let draws: Vec<_> = (0..DRAWS).map(|_| discrete_laplace(scale, &mut rng)).collect();
        assert!(fits(draws, &laplace_masses(scale.to_f64())), "Laplace {scale}");
        let draws: Vec<_> = (0..DRAWS).map(|_| geometric(scale, &mut rng)).collect();
        assert!(fits(draws, &polya_masses(1.0, scale.to_f64())), "geometric {scale}");
    }
}

#[test]
fn polya_draws_have_their_distribution() {
    let mut rng = rng(3);
    for (r, scale) in [
        (ratio(1, 2), ratio(2, 1)),
        (ratio(1, 5), ratio(37, 5)),
        (ratio(2, 3), ratio(40, 1)),
        (ratio(1, 63), ratio(9, 1)),
    ] {
        let draws: Vec<_> = (0..DRAWS).map(|_| polya(r, scale, &mut rng)).collect();
        assert!(fits(draws, &polya_masses(r.to_f64(), scale.to_f64())), "NB({r}, {scale})");
    }
}

#[test]
fn shares_of_all_parties_add_up_to_one_discrete_laplace_draw() {
    let mut rng = rng(4);
    for (parties, scale) in [(1, ratio(3, 1)), (2, ratio(10, 1)), (5, ratio(16, 3)), (20, ratio(5, 1))] {
        let draws: Vec<_> =
            (0..DRAWS / 4).map(|_| (0..parties).map(|_| share(parties, scale, &mut rng)).sum()).collect();
        assert!(fits(draws, &laplace_masses(scale.to_f64())), "{parties} shares of {scale}");
    }
}

/// Returns the probability of selecting exactly these entries in this order.
fn selection_mass(counts: &[u32], order: &[u32], exponent: f64) -> f64 {
    let mut left: Vec<usize> = (0..counts.len()).collect();
    let mut mass = 1.0;
    for &entry in order {
        let largest = left.iter().map(|&i| counts[i]).max().unwrap();
        let weight = |i: usize| (exponent * (f64::from(counts[i]) - f64::from(largest))).exp();
        mass *= weight(entry as usize) / left.iter().map(|&i| weight(i)).sum::<f64>();
        left.retain(|&i| i != entry as usize);
    }
    mass
}

/// Returns every order of `length` of the first `n` entries.
fn orders(n: u32, length: usize) -> Vec<Vec<u32>> {
    if length == 0 {
        return vec![Vec::new()];
    }
    let longer = |order: Vec<u32>| {
        (0..n).filter(|i| !order.contains(i)).map(|i| [&order[..], &[i]].concat()).collect::<Vec<_>>()
    };
    orders(n, length - 1).into_iter().flat_map(longer).collect()
}

#[test]
fn the_exponential_mechanism_selects_every_order_with_its_probability() {
    let mut rng = rng(5);
    let cases: [(&[u32], usize, Ratio); 5] = [
        (&[3, 0, 1, 3, 2], 1, ratio(1, 1)),
        (&[3, 0, 1, 3, 2], 3, ratio(1, 2)),
        (&[100, 101, 99, 100, 0], 2, ratio(1, 8)),
        // The weights are recomputed between the first draw and the second, and between the third and the
        // fourth.
        (&[1000, 500, 499, 498, 20, 19], 4, ratio(1, 4)),
        (&[7; 4], 4, ratio(1_999_999, 1_000_000)),
    ];
    for (counts, top, exponent) in cases {
        let expected: Vec<_> = orders(counts.len() as u32, top)
            .into_iter()
            .map(|order| (order.clone(), selection_mass(counts, &order, exponent.to_f64())))
            .collect();
        let draws: Vec<_> = (0..DRAWS / 4).map(|_| select(counts, top, exponent, &mut rng)).collect();
        assert!(fits(draws, &expected), "{counts:?} {top} {exponent}");
    }
}

#[test]
fn a_selection_of_more_than_there_is_takes_everything_once() {
    let mut selected = select(&[5, 0, 9], 10, ratio(1, 1), &mut rng(6));
    selected.sort_unstable();
    assert_eq!(selected, [0, 1, 2]);
    assert!(select(&[], 3, ratio(1, 1), &mut rng(6)).is_empty());
}

#[test]
fn the_comparison_finds_samplers_that_are_a_little_wrong() {
    let mut rng = rng(7);
    let masses = laplace_masses(10.0);
    let mut draws = |draw: &mut dyn FnMut(&mut ChaCha20Rng) -> i64| {
        (0..DRAWS).map(|_| draw(&mut rng)).collect::<Vec<_>>()
    };
    // Three wrong samplers replace a discrete Laplace of scale 10. The first has a scale of 10.3, the second
    // draws zero twice as often, the third rounds values.
    assert!(!fits(draws(&mut |rng| discrete_laplace(ratio(103, 10), rng)), &masses));
    assert!(!fits(
        draws(&mut |rng| geometric(ratio(10, 1), rng) as i64 * if below(2, rng) == 1 { 1 } else { -1 }),
        &masses
    ));
    assert!(!fits(draws(&mut |rng| discrete_laplace(ratio(10, 1), rng) & !1), &masses));
    // The shares are made for five peers, but only two peers add theirs.
    assert!(!fits(draws(&mut |rng| share(5, ratio(10, 1), rng) + share(5, ratio(10, 1), rng)), &masses));
}

proptest! {
    #[test]
    fn a_selection_never_takes_an_entry_twice(
        counts in proptest::collection::vec(prop_oneof![0..5u32, 0..2000u32, any::<u32>()], 0..60),
        top in 0..70usize,
        (numerator, denominator) in (1..1_000_000u64, 1..1_000_000_000u64),
        seed: u8,
    ) {
        let mut selected = select(&counts, top, ratio(numerator, denominator), &mut rng(seed));
        prop_assert_eq!(selected.len(), top.min(counts.len()));
        selected.sort_unstable();
        selected.dedup();
        prop_assert_eq!(selected.len(), top.min(counts.len()));
        prop_assert!(selected.iter().all(|&i| (i as usize) < counts.len()));
    }
}
