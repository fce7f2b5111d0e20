//! Noise in shares: draws of several peers whose sum has exactly the distribution of one discrete Laplace
//! draw.
//!
//! The Polya distribution NB(r, q) gives n the probability C(n + r - 1, n) (1 - q)^r q^n, for any positive
//! real r. The sum of a draw with r and a draw with r' is a draw with r + r', because the generating function
//! is ((1 - q) / (1 - q z))^r. NB(1, q) is geometric. The difference of two geometric draws is discrete
//! Laplace of scale -1 / ln q. (Goryczka & Xiong, "A Comprehensive Comparison of Multiparty Secure Additions
//! with Differential Privacy", IEEE TDSC 2017, section 4.)

use rand::CryptoRng;

use super::Ratio;
use super::sampler::{bernoulli, geometric};

/// Draws from NB(`r`, exp(-1 / `scale`)), with r at most 1.
///
/// Up to a constant, the ratio of its probabilities to those of the geometric distribution is prod over j =
/// 1..n of (j - 1 + r) / j. This is a product of rationals and at most 1. So a geometric n is accepted if n
/// coins with these probabilities all succeed. A draw takes (1 - q)^(r - 1) attempts on average, at most
/// about `scale`. The attempt that gives n takes n coins.
///
/// # Panics
/// If `r` is above 1.
pub fn polya(r: Ratio, scale: Ratio, rng: &mut impl CryptoRng) -> u64 {
    let (part, whole) = (u128::from(r.numerator()), u128::from(r.denominator()));
    assert!(part <= whole, "r is {r}, must be at most 1");
    'draw: loop {
        let n = geometric(scale, rng);
        if part == whole {
            return n;
        }
        for j in 1..=u128::from(n) {
            if !bernoulli((j - 1) * whole + part, j * whole, rng) {
                continue 'draw;
            }
        }
        return n;
    }
}

/// Draws one of `parties` shares whose sum is one discrete Laplace draw of this scale. Any further shares
/// only add independent noise.
///
/// # Panics
/// If `parties` is 0.
pub fn share(parties: u32, scale: Ratio, rng: &mut impl CryptoRng) -> i64 {
    let r = Ratio::new(1, parties.into()).unwrap_or_else(|| panic!("the number of shares is 0"));
    let mut draw = || i64::try_from(polya(r, scale, rng)).unwrap_or(i64::MAX);
    draw() - draw()
}
