//! Draws exact discrete Gaussian noise (Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential
//! Privacy", NeurIPS 2020, Algorithm 3), and computes the privacy of several draws together.

use rand::CryptoRng;

use super::Ratio;
use super::sampler::{bernoulli_exp, discrete_laplace};

/// Largest variance of a draw: 2^54, so that no product in [`discrete_gaussian`] exceeds 128 bits.
pub const MOST: u64 = 1 << 54;
/// Smallest variance of a share: 2^10. A sum of draws with at least this variance is as private as one draw
/// of the same total variance, except for less than 2^-1000 ([`share_variance`]).
pub const LEAST: u64 = 1 << 10;

/// Draws y with probability proportional to exp(-y^2 / (2 `variance`)), over all integers. A discrete
/// Laplace draw of scale t = floor(sigma) + 1 is accepted with probability exp(-(|y| - variance / t)^2 /
/// (2 variance)).
///
/// # Panics
/// If `variance` is 0 or above [`MOST`].
pub fn discrete_gaussian(variance: u64, rng: &mut impl CryptoRng) -> i64 {
    assert!((1..=MOST).contains(&variance), "a variance of {variance}");
    let t = variance.isqrt() + 1;
    let scale = Ratio::new(t, 1).unwrap_or_else(|| unreachable!("BUG: t is above 0"));
    let (t, variance) = (u128::from(t), u128::from(variance));
    // The exponent is (|y| t - variance)^2 / (2 variance t^2). Its denominator is below 2^109.
    let below = 2 * variance * t * t;
    loop {
        let y = discrete_laplace(scale, rng);
        // Values above 2^10 t have a probability below exp(-2^19). They are skipped, because their squares
        // may not fit.
        let above = u128::from(y.unsigned_abs()).checked_mul(t).map(|far| far.abs_diff(variance));
        let Some(above) = above.and_then(|far| far.checked_mul(far)) else { continue };
        if bernoulli_exp(above, below, rng) {
            return y;
        }
    }
}

/// Returns the budget of zero-concentrated differential privacy (Bun & Steinke, TCC 2016) that (epsilon,
/// delta) permits, in 10^-12, rounded down. rho-zCDP implies (rho + 2 sqrt(rho ln(1 / delta)), delta),
/// Proposition 1.3, so rho = (sqrt(L + epsilon) - sqrt(L))^2 with L = ln(1 / delta). The result is smaller by
/// one part in 10^9, because the roots are rounded, and because a sum of draws differs slightly from one
/// draw.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10^15")]
pub fn concentrated(epsilon: Ratio, delta: Ratio) -> u64 {
    let (epsilon, l) = (epsilon.to_f64(), -libm::log(delta.to_f64()));
    // The quotient keeps the digits that the difference of the roots would lose.
    let root = epsilon / (libm::sqrt(l + epsilon) + libm::sqrt(l));
    (root * root * (1.0 - 1e-9) * 1e12).floor().max(1.0) as u64
}

/// Returns the variance of each of `parties` shares of the noise on a vector of integers: ceil(sensitivity^2
/// rounds / (2 rho parties)), at least [`LEAST`]. One member can change the vector in each of `rounds` rounds
/// by at most `sensitivity` in Euclidean length. `rho` is the budget of all rounds, in 10^-12. Returns `None`
/// if the variance is above [`MOST`].
///
/// The sum of k discrete Gaussians of variance v on each of d words is eps^2 / 2-concentrated with eps^2 =
/// sensitivity^2 / (k v) + tau d / 2, tau = 10 sum_{j<k} exp(-2 pi^2 v j / (j + 1)) (Kairouz, Liu & Steinke,
/// "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation", ICML 2021,
/// Theorem 1). With v >= 2^10, tau is below exp(-10,000). Adding further shares is post-processing.
///
/// # Panics
/// If `rho` or `parties` is 0.
#[must_use]
pub fn share_variance(sensitivity: u64, rounds: u32, rho: u64, parties: u32) -> Option<u64> {
    let square = u128::from(sensitivity) * u128::from(sensitivity);
    let above = square.checked_mul(u128::from(rounds))?.checked_mul(1_000_000_000_000)?;
    let variance = above.div_ceil(2 * u128::from(rho) * u128::from(parties));
    u64::try_from(variance).ok().map(|variance| variance.max(LEAST)).filter(|&variance| variance <= MOST)
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;

    use super::*;

    fn ratio(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    #[test]
    fn small_draws_come_as_often_as_their_probability_says() {
        let (variance, draws) = (6, 40_000);
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let weight = |y: i64| (-((y * y) as f64) / (2.0 * variance as f64)).exp();
        let all: f64 = (-200..=200).map(weight).sum();
        let mut seen = [0u32; 11];
        for _ in 0..draws {
            let y = discrete_gaussian(variance, &mut rng);
            seen[(y + 5).clamp(0, 10) as usize] += 1;
        }
        let tail: f64 = (5..=200).map(weight).sum::<f64>() / all;
        let expected = |place: usize| match place {
            0 | 10 => tail,
            place => weight(place as i64 - 5) / all,
        };
        let square = |(place, &seen): (usize, &u32)| {
            let expected = expected(place) * f64::from(draws);
            (f64::from(seen) - expected).powi(2) / expected
        };
        // Ten degrees of freedom: 45.1 is exceeded once in 500,000 runs.
        let chi: f64 = seen.iter().enumerate().map(square).sum();
        assert!(chi < 45.1, "{chi}: {seen:?}");
    }

    #[test]
    fn large_draws_and_sums_of_shares_have_the_variance_that_is_stated() {
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        for (variance, shares) in [(LEAST, 1), (1 << 40, 1), (MOST, 1), (1 << 50, 3)] {
            let draws = 4_000;
            let sum =
                |rng: &mut ChaCha20Rng| (0..shares).map(|_| discrete_gaussian(variance, rng)).sum::<i64>();
            let squares: f64 = (0..draws).map(|_| (sum(&mut rng) as f64).powi(2)).sum();
            let found = squares / f64::from(draws) / (variance as f64 * f64::from(shares));
            // One standard deviation of the mean of squares is sqrt(2 / draws) = 0.022. The limit is five
            // standard deviations.
            assert!((found - 1.0).abs() < 0.112, "variance {variance}, {shares} shares: {found}");
        }
    }

    #[test]
    fn budgets_and_variances_are_those_of_the_formulas() {
        // numpy: ((np.sqrt(np.log(1/d) + e) - np.sqrt(np.log(1/d)))**2)
        for (epsilon, delta, rho) in [
            ("8", "0.00001", 1.049_136_201),
            ("1", "0.00001", 0.020_819_938),
            ("100", "0.01", 65.313_888_99),
            ("0.001", "0.000001", 1.809_495e-8),
        ] {
            let found = concentrated(ratio(epsilon), ratio(delta)) as f64 / 1e12;
            assert!(found <= rho * (1.0 + 1e-4) && found > rho * (1.0 - 1e-4), "{epsilon} {delta}: {found}");
            let l = -ratio(delta).to_f64().ln();
            let back = found + 2.0 * (found * l).sqrt();
            let asked = ratio(epsilon).to_f64();
            assert!(back <= asked && back > asked * (1.0 - 1e-3), "{epsilon}: {back}");
        }
        // Computed by hand: 2,000,000^2 x 20 rounds / (2 x 0.5 x 4 parties) = 2 x 10^13.
        assert_eq!(share_variance(2_000_000, 20, 500_000_000_000, 4), Some(20_000_000_000_000));
        assert_eq!(share_variance(2_000_000, 20, 500_000_000_000, 3), Some(26_666_666_666_667));
        assert_eq!(share_variance(1, 1, 500_000_000_000, 4), Some(LEAST));
        assert_eq!(share_variance(1 << 30, 10_000, 1, 1), None);
    }
}
