//! Makes a peer's counts private before it sends them: by the release of Ram & Sinha, Algorithm 2, or by
//! noise in shares. The field `parties` counts peers. `lab/privacy-proofs.md` has the proofs,
//! `docs/privacy.md` describes the attackers.

use rand::CryptoRng;

use super::{Ratio, discrete_laplace, select, share};

/// Method that makes a peer's counts private. A row adds at most 1 to each count and `weight` to all counts
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Protects the counts of each peer alone: the exponential mechanism selects `top` counts, which get
    /// noise of their own. The other counts are 0.
    Release {
        /// Budget of one peer's release.
        epsilon: Ratio,
        /// Number of counts in a release: the paper's T.
        top: u32,
        /// Largest released count, so that the sum over all peers does not overflow.
        most: u32,
    },
    /// Protects the total of all peers: every count gets noise, in shares. The `top` largest counts of the
    /// total are kept.
    Shares {
        /// Budget of the total.
        epsilon: Ratio,
        /// Number of counts of the total that are kept.
        top: u32,
        /// Number of counts that a row adds 1 to: rho.
        weight: u32,
        /// Number of shares that make up the noise of the total.
        parties: u32,
    },
}

impl Mechanism {
    /// Returns the words that a peer sends for its `counts`. Words of shares are added mod 2^32.
    ///
    /// # Panics
    /// If a parameter is 0, or so extreme that a ratio of parameters exceeds 64 bits. In a session the ratios
    /// 2 T / epsilon and 2 weight / epsilon always fit.
    pub fn draw(&self, counts: &[u32], rng: &mut impl CryptoRng) -> Vec<u32> {
        let in_range = |ratio: Option<Ratio>| ratio.unwrap_or_else(|| panic!("{self:?} is out of range"));
        match *self {
            Self::Release { epsilon, top, most } => {
                // For each of T counts, the choice of its index costs epsilon / 2T, and so does its value.
                // Neighbouring counts differ by 1 in both.
                let exponent = in_range(epsilon.over(4 * u64::from(top)));
                let scale = in_range(epsilon.over(2 * u64::from(top))).inverse();
                let mut out = vec![0; counts.len()];
                for entry in select(counts, top as usize, exponent, rng) {
                    let entry = entry as usize;
                    let noisy = i64::from(counts[entry]).saturating_add(discrete_laplace(scale, rng));
                    out[entry] = u32::try_from(noisy.max(0)).unwrap_or(u32::MAX).min(most);
                }
                out
            }
            Self::Shares { epsilon, weight, parties, .. } => {
                let scale = in_range(epsilon.over(2 * u64::from(weight))).inverse();
                let noisy = |&count: &u32| count.wrapping_add(wrapped(share(parties, scale, rng)));
                counts.iter().map(noisy).collect()
            }
        }
    }

    /// Returns the counts that a total of drawn words represents.
    #[must_use]
    pub fn read(&self, totals: &[u32]) -> Vec<u32> {
        let Self::Shares { top, .. } = *self else { return totals.to_vec() };
        let counts: Vec<u32> =
            totals.iter().map(|&word| u32::try_from(word.cast_signed()).unwrap_or(0)).collect();
        let mut order: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
        order.sort_unstable_by_key(|&i| (std::cmp::Reverse(counts[i]), i));
        let mut out = vec![0; counts.len()];
        order.into_iter().take(top as usize).for_each(|i| out[i] = counts[i]);
        out
    }
}

/// Reduces mod 2^32.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the ring that totals are added in"
)]
fn wrapped(noise: i64) -> u32 {
    noise as u32
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;

    use super::*;

    fn ratio(numerator: u64, denominator: u64) -> Ratio {
        Ratio::new(numerator, denominator).unwrap()
    }

    #[test]
    fn a_release_has_at_most_t_counts_none_of_them_negative_or_too_large() {
        let mechanism = Mechanism::Release { epsilon: ratio(1, 2), top: 7, most: 40 };
        let counts: Vec<u32> = (0..100).map(|i| i % 60).collect();
        for seed in 0..200 {
            let out = mechanism.draw(&counts, &mut ChaCha20Rng::from_seed([seed; 32]));
            assert_eq!(out.len(), counts.len());
            assert!(
                out.iter().filter(|&&count| count > 0).count() <= 7 && out.iter().all(|&count| count <= 40)
            );
        }
    }

    #[test]
    fn with_much_budget_a_release_is_the_largest_counts_and_a_total_the_largest_sums() {
        let counts = [5, 0, 300, 200, 40, 100];
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let release = Mechanism::Release { epsilon: ratio(10_000, 1), top: 3, most: u32::MAX };
        assert_eq!(release.draw(&counts, &mut rng), [0, 0, 300, 200, 0, 100]);
        let shares = Mechanism::Shares { epsilon: ratio(10_000, 1), top: 3, weight: 2, parties: 2 };
        let [one, other] = [0, 1].map(|_| shares.draw(&counts, &mut rng));
        let total: Vec<u32> = one.iter().zip(&other).map(|(a, b)| a.wrapping_add(*b)).collect();
        assert_eq!(shares.read(&total), [0, 0, 600, 400, 0, 200]);
    }

    #[test]
    fn a_total_below_zero_is_none_and_of_equal_ones_the_first_are_kept() {
        let shares = Mechanism::Shares { epsilon: ratio(1, 1), top: 2, weight: 1, parties: 1 };
        assert_eq!(shares.read(&[u32::MAX, 3, 0, 3, 3, 1 << 31]), [0, 3, 0, 3, 0, 0]);
    }
}
