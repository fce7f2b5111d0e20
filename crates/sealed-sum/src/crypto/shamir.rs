//! Secret sharing over the scalar field of Curve25519 (Shamir, "How to Share a Secret", CACM 22(11), 1979).
//!
//! The dealer draws a polynomial f of degree below the threshold t. f(0) is the secret, and all other
//! coefficients are uniform in Z_q, q = 2^252 + 27742317777372353535851937790883648493. The share of index
//! i is f(i + 1). Any t shares determine f; fewer reveal nothing about f(0). A peer that reconstructs f
//! computes *all* shares again and compares each with the hash that the dealer has published for it. So a
//! dealer whose shares do not lie on one polynomial is detected with any set of shares.

use std::fmt;

use curve25519_dalek::Scalar;
use sha2::Digest;
use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::tagged_hash;

/// Shared secret: one uniform scalar. Wiped on drop.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Scalar);

/// One share, as confidential as the secret. Wiped on drop; compared in constant time.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Share(Scalar);

impl Secret {
    /// Draws a uniform scalar, from 64 random bytes reduced mod q.
    #[must_use]
    pub fn random(rng: &mut impl rand::CryptoRng) -> Self {
        Self(Scalar::random(rng))
    }

    /// Returns the canonical 32 bytes of the scalar, little-endian: key of a [`super::stream::Stream`]
    /// (252 bits of entropy).
    #[must_use]
    pub fn key(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}

impl Share {
    /// Returns the canonical 32 bytes of the scalar, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Returns the share of these bytes, or `None` if they are not canonical (below q).
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        Option::from(Scalar::from_canonical_bytes(bytes)).map(Self)
    }
}

impl AsRef<[u8; 32]> for Share {
    fn as_ref(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl ConstantTimeEq for Share {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Share {}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Share(<redacted>)")
    }
}

impl ConstantTimeEq for Secret {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(<redacted>)")
    }
}

/// Shares `secret` among `n`. Any `threshold` shares determine it. The share at place i is f(i + 1).
///
/// # Panics
/// Unless 1 <= `threshold` <= `n`.
#[must_use]
pub fn deal(secret: &Secret, threshold: usize, n: usize, rng: &mut impl rand::CryptoRng) -> Vec<Share> {
    assert!((1..=n).contains(&threshold), "threshold is {threshold}, must be 1 to {n}");
    let mut coefficients = Zeroizing::new(Vec::with_capacity(threshold));
    coefficients.push(secret.0);
    coefficients.extend((1..threshold).map(|_| Scalar::random(rng)));
    (0..n)
        .map(|index| {
            let x = point(index);
            Share(coefficients.iter().rev().fold(Scalar::ZERO, |value, coefficient| value * x + coefficient))
        })
        .collect()
}

/// Returns the x-coordinate of a share.
fn point(index: usize) -> Scalar {
    Scalar::from(index as u64 + 1)
}

/// Returns the secret and all `n` shares of the polynomial through the first `threshold` of `shares`, each
/// given with its index. Before the caller uses the secret, it compares every recomputed share (also those
/// beyond the threshold) with its published hash ([`share_hash`]).
///
/// Returns `None` if there are fewer than `threshold` shares, if an index is given twice or is `n` or
/// more, or if `threshold` is not in 1..=`n`.
#[must_use]
pub fn reconstruct(shares: &[(usize, Share)], threshold: usize, n: usize) -> Option<(Secret, Vec<Share>)> {
    if !(1..=n).contains(&threshold) || shares.len() < threshold {
        return None;
    }
    let distinct = |i: usize| shares[..i].iter().all(|(index, _)| *index != shares[i].0);
    if !(0..shares.len()).all(|i| shares[i].0 < n && distinct(i)) {
        return None;
    }
    let used = &shares[..threshold];
    // Lagrange: weight_i = y_i / prod_{j != i} (x_i - x_j); f(x) = sum_i weight_i prod_{j != i} (x - x_j).
    let others = |i: usize, x: Scalar| {
        let of = used.iter().enumerate().filter(move |(j, _)| *j != i);
        of.map(|(_, (index, _))| x - point(*index)).product::<Scalar>()
    };
    let weights: Zeroizing<Vec<Scalar>> = Zeroizing::new(
        used.iter()
            .enumerate()
            .map(|(i, (index, share))| share.0 * others(i, point(*index)).invert())
            .collect(),
    );
    let at = |x: Scalar| weights.iter().enumerate().map(|(i, weight)| weight * others(i, x)).sum::<Scalar>();
    Some((Secret(at(Scalar::ZERO)), (0..n).map(|index| Share(at(point(index)))).collect()))
}

/// Returns the hash that a dealer publishes for each share before any peer uses the share:
/// SHA-256(`"flyswarm/5 share" || 0x00 || LE u64 length of context || context || LE u16 dealer || LE u16 index || share`).
#[must_use]
pub fn share_hash(context: &[u8], dealer_index: u16, index: u16, share: &Share) -> [u8; 32] {
    tagged_hash("share")
        .chain_update((context.len() as u64).to_le_bytes())
        .chain_update(context)
        .chain_update(dealer_index.to_le_bytes())
        .chain_update(index.to_le_bytes())
        .chain_update(share.0.as_bytes())
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;
    use proptest::prelude::*;
    use proptest::sample::subsequence;

    use super::*;

    /// n, threshold, a subset of at least `threshold` places in some order, a seed.
    fn deals() -> impl Strategy<Value = (usize, usize, Vec<usize>, u64)> {
        (1usize..=15).prop_flat_map(|n| (Just(n), 1..=n)).prop_flat_map(|(n, threshold)| {
            let subset = subsequence((0..n).collect::<Vec<_>>(), threshold..=n).prop_shuffle();
            (Just(n), Just(threshold), subset, any::<u64>())
        })
    }

    fn pick(shares: &[Share], places: &[usize]) -> Vec<(usize, Share)> {
        places.iter().map(|place| (*place, shares[*place].clone())).collect()
    }

    proptest! {
        #[test]
        fn any_subset_of_threshold_size_reconstructs_secret_and_shares(
            (n, threshold, places, seed) in deals(),
        ) {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let secret = Secret::random(&mut rng);
            let shares = deal(&secret, threshold, n, &mut rng);
            let (again, all) = reconstruct(&pick(&shares, &places), threshold, n).unwrap();
            prop_assert_eq!(again.key(), secret.key());
            prop_assert_eq!(all, shares);
        }

        #[test]
        fn a_wrong_share_among_those_used_changes_the_recomputed_list(
            (n, threshold, places, seed) in deals(),
        ) {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let secret = Secret::random(&mut rng);
            let shares = deal(&secret, threshold, n, &mut rng);
            let mut wrong = pick(&shares, &places);
            let used = seed as usize % threshold;
            wrong[used].1 = Share(wrong[used].1.0 + Scalar::ONE);
            let (other, all) = reconstruct(&wrong, threshold, n).unwrap();
            prop_assert_ne!(other.key(), secret.key());
            // It differs so much that fewer than `threshold` of the published hashes still match.
            prop_assert!(all.iter().zip(&shares).filter(|(a, b)| a == b).count() < threshold);
        }

        #[test]
        fn a_share_beyond_the_threshold_is_not_used_but_would_be_found(
            (n, threshold, places, seed) in deals(),
        ) {
            prop_assume!(places.len() > threshold);
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let shares = deal(&Secret::random(&mut rng), threshold, n, &mut rng);
            let mut wrong = pick(&shares, &places);
            wrong[threshold].1 = Share(Scalar::random(&mut rng));
            let (_, all) = reconstruct(&wrong, threshold, n).unwrap();
            prop_assert_eq!(&all, &shares);
            prop_assert_ne!(&all[places[threshold]], &wrong[threshold].1);
        }
    }

    #[test]
    fn a_line_is_reproduced_by_hand() {
        // f(x) = 7 + 3 x: shares 10, 13, 16.
        let share = |value: u64| Share(Scalar::from(value));
        let (secret, all) = reconstruct(&[(2, share(16)), (0, share(10))], 2, 3).unwrap();
        assert_eq!(secret, Secret(Scalar::from(7u64)));
        assert_eq!(all, [share(10), share(13), share(16)]);
    }

    #[test]
    fn too_few_repeated_or_foreign_indices_give_nothing() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let shares = deal(&Secret::random(&mut rng), 2, 3, &mut rng);
        assert!(reconstruct(&pick(&shares, &[0]), 2, 3).is_none());
        assert!(reconstruct(&[], 2, 3).is_none());
        assert!(reconstruct(&pick(&shares, &[0, 0]), 2, 3).is_none());
        assert!(reconstruct(&pick(&shares, &[0, 1, 1]), 2, 3).is_none());
        assert!(reconstruct(&[(0, shares[0].clone()), (3, shares[1].clone())], 2, 3).is_none());
        assert!(reconstruct(&[(0, shares[0].clone()), (usize::MAX, shares[1].clone())], 2, 3).is_none());
        assert!(reconstruct(&pick(&shares, &[0, 1]), 0, 3).is_none());
        assert!(reconstruct(&pick(&shares, &[0, 1]), 4, 3).is_none());
    }

    #[test]
    fn only_canonical_bytes_are_a_share() {
        let q = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
        let mut q: [u8; 32] = q.try_into().unwrap();
        assert!(Share::from_bytes(q).is_none());
        q[0] -= 1;
        assert_eq!(*Share::from_bytes(q).unwrap().to_bytes(), q);
        assert!(Share::from_bytes([0xff; 32]).is_none());
    }

    #[test]
    fn the_published_hash_binds_context_dealer_index_and_share() {
        let share = Share(Scalar::from(5u64));
        let hash = share_hash(b"coin", 1, 2, &share);
        assert_ne!(hash, share_hash(b"pads", 1, 2, &share));
        assert_ne!(hash, share_hash(b"coin", 2, 2, &share));
        assert_ne!(hash, share_hash(b"coin", 1, 1, &share));
        assert_ne!(hash, share_hash(b"coin", 1, 2, &Share(Scalar::from(6u64))));
        let mut bytes = b"flyswarm/5 share\0\x04\0\0\0\0\0\0\0coin\x01\0\x02\0\x05".to_vec();
        bytes.extend([0; 31]);
        assert_eq!(hash[..], sha2::Sha256::digest(&bytes)[..]);
    }

    #[test]
    fn secrets_do_not_print() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let secret = Secret::random(&mut rng);
        let shares = deal(&secret, 1, 1, &mut rng);
        assert_eq!(format!("{secret:?} {:?}", shares[0]), "Secret(<redacted>) Share(<redacted>)");
    }
}
