//! Uniform, Bernoulli, geometric and discrete Laplace draws with exactly these distributions (Canonne,
//! Kamath & Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, Algorithms 1 and 2).

use rand::CryptoRng;

use super::Ratio;

/// Draws a uniform number in 0..`n`. As many bits as `n` - 1 has are drawn again and again until they form a
/// number below `n`.
///
/// # Panics
/// If `n` is 0.
pub(super) fn below(n: u128, rng: &mut impl CryptoRng) -> u128 {
    assert!(n > 0, "BUG: no number is below 0");
    let last = n - 1;
    if last == 0 {
        return 0;
    }
    let mask = u128::MAX >> last.leading_zeros();
    loop {
        let low = u128::from(rng.next_u64());
        let high = if mask > u128::from(u64::MAX) { u128::from(rng.next_u64()) << 64 } else { 0 };
        let number = (high | low) & mask;
        if number <= last {
            return number;
        }
    }
}

/// Returns true with probability `numerator` / `denominator`, which is at most 1.
pub(super) fn bernoulli(numerator: u128, denominator: u128, rng: &mut impl CryptoRng) -> bool {
    below(denominator, rng) < numerator
}

/// Returns true with probability exp(-`numerator` / `denominator`) (Algorithm 1). The expected time does
/// not depend on the parameters, because the first failed factor exp(-1) ends the loop.
pub(super) fn bernoulli_exp(mut numerator: u128, denominator: u128, rng: &mut impl CryptoRng) -> bool {
    while numerator > denominator {
        if !bernoulli_exp_unit(1, 1, rng) {
            return false;
        }
        numerator -= denominator;
    }
    bernoulli_exp_unit(numerator, denominator, rng)
}

/// Returns true with probability exp(-g) for a fraction g of at most 1. Coins of probability g, g/2, g/3, ..
/// are thrown until one fails, after k successes. k is even with probability 1 - g + g^2/2 - .. = exp(-g).
fn bernoulli_exp_unit(numerator: u128, denominator: u128, rng: &mut impl CryptoRng) -> bool {
    let mut k = 1;
    while bernoulli(numerator, denominator * k, rng) {
        k += 1;
    }
    k % 2 == 1
}

/// Draws n with probability (1 - q) q^n, q = exp(-1 / `scale`) (the first half of Algorithm 2).
pub(super) fn geometric(scale: Ratio, rng: &mut impl CryptoRng) -> u64 {
    let (t, s) = (u128::from(scale.numerator()), u128::from(scale.denominator()));
    let remainder = loop {
        let remainder = below(t, rng);
        if bernoulli_exp(remainder, t, rng) {
            break remainder;
        }
    };
    let mut whole = 0;
    while bernoulli_exp_unit(1, 1, rng) {
        whole += 1;
    }
    // Larger values have a probability below exp(-2^63 / scale). With the scales of a session, that is below
    // 2^-10000.
    u64::try_from((remainder + t * whole) / s).unwrap_or(u64::MAX)
}

/// Draws y with probability proportional to exp(-|y| / `scale`), over all integers (Algorithm 2).
pub fn discrete_laplace(scale: Ratio, rng: &mut impl CryptoRng) -> i64 {
    loop {
        let magnitude = i64::try_from(geometric(scale, rng)).unwrap_or(i64::MAX);
        let negative = rng.next_u32() & 1 == 1;
        // Otherwise 0 would be drawn twice as often as it should be.
        match (negative, magnitude) {
            (true, 0) => {}
            (true, _) => return -magnitude,
            (false, _) => return magnitude,
        }
    }
}
