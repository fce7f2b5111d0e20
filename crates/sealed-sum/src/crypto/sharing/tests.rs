use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use curve25519_dalek::constants::EIGHT_TORSION;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;

fn identities(n: usize) -> Vec<Identity> {
    (1..=n).map(|i| Identity::from_seed([i as u8; 32])).collect()
}

fn keys(identities: &[Identity]) -> Vec<PublicKey> {
    identities.iter().map(Identity::public).collect()
}

/// Draws n, a threshold, at least `threshold` places in some order, and a seed.
fn deals() -> impl Strategy<Value = (usize, usize, Vec<usize>, u64)> {
    (1usize..=15).prop_flat_map(|n| (Just(n), 1..=n)).prop_flat_map(|(n, threshold)| {
        let subset = subsequence((0..n).collect::<Vec<_>>(), threshold..=n).prop_shuffle();
        (Just(n), Just(threshold), subset, any::<u64>())
    })
}

fn made(n: usize, threshold: usize, seed: u64) -> (Vec<Identity>, Zeroizing<Point>, Dealt) {
    let identities = identities(n);
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (secret, dealt) = deal(&keys(&identities), threshold, b"context", &mut rng);
    (identities, secret, dealt)
}

fn opened(identities: &[Identity], dealt: &Dealt, place: usize) -> Opened {
    let opened = open(&identities[place], b"release", &[dealt.shares[place]]).unwrap();
    assert!(is_opened(identities[place].public(), b"release", &[dealt.shares[place]], &opened));
    opened
}

/// Returns the encoding of a point plus a point of small order.
fn twisted(bytes: &Point, torsion: usize) -> Point {
    (point(bytes).unwrap() + EIGHT_TORSION[torsion]).compress().to_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_threshold_of_members_opens_the_secret((n, threshold, places, seed) in deals()) {
        let (identities, secret, dealt) = made(n, threshold, seed);
        prop_assert!(is_sound(&keys(&identities), threshold, b"context", &dealt));
        let shares: Vec<_> = places.iter().map(|&p| (p, opened(&identities, &dealt, p).shares[0])).collect();
        prop_assert_eq!(reconstruct(&shares, threshold).unwrap(), secret.clone());
        prop_assert!(reconstruct(&shares[..threshold - 1], threshold).is_none());
        // With a lower threshold, fewer shares give another secret.
        if threshold > 1 {
            prop_assert_ne!(reconstruct(&shares, threshold - 1).unwrap(), secret);
        }
    }

    #[test]
    fn a_changed_bit_anywhere_in_a_deal_is_noticed(seed: u64, byte in 0usize..192, bit in 0u8..8) {
        let (identities, _, mut dealt) = made(3, 2, seed);
        match byte / 32 {
            at @ 0..3 => dealt.shares[at][byte % 32] ^= 1 << bit,
            3 => dealt.challenge[byte % 32] ^= 1 << bit,
            at => dealt.responses[at - 4][byte % 32] ^= 1 << bit,
        }
        prop_assert!(!is_sound(&keys(&identities), 2, b"context", &dealt));
    }

    #[test]
    fn a_changed_bit_anywhere_in_a_release_is_noticed(seed: u64, byte in 0usize..128, bit in 0u8..8) {
        let (identities, _, dealt) = made(3, 2, seed);
        let sealed = [dealt.shares[1], made(3, 2, seed ^ 1).2.shares[1]];
        let mut opened = open(&identities[1], b"release", &sealed).unwrap();
        prop_assert!(is_opened(identities[1].public(), b"release", &sealed, &opened));
        match byte / 32 {
            at @ 0..2 => opened.shares[at][byte % 32] ^= 1 << bit,
            2 => opened.challenge[byte % 32] ^= 1 << bit,
            _ => opened.response[byte % 32] ^= 1 << bit,
        }
        prop_assert!(!is_opened(identities[1].public(), b"release", &sealed, &opened));
    }
}

#[test]
fn a_deal_and_a_release_are_bound_to_context_keys_and_threshold() {
    let (identities, _, dealt) = made(3, 2, 1);
    let of = keys(&identities);
    assert!(is_sound(&of, 2, b"context", &dealt));
    assert!(!is_sound(&of, 2, b"another", &dealt));
    assert!(!is_sound(&[of[1], of[0], of[2]], 2, b"context", &dealt));
    assert!(!is_sound(&of, 3, b"context", &dealt));
    assert!(!is_sound(&of[..2], 2, b"context", &dealt));
    let sealed = [dealt.shares[0]];
    let opened = opened(&identities, &dealt, 0);
    assert!(!is_opened(of[0], b"another", &sealed, &opened));
    assert!(!is_opened(of[1], b"release", &sealed, &opened));
    assert!(!is_opened(of[0], b"release", &[dealt.shares[1]], &opened));
    assert!(!is_opened(of[0], b"release", &[], &opened));
    assert!(!is_opened(of[0], b"release", &[], &Opened { shares: vec![], ..opened }));
}

/// Returns the deal of a dealer that ignores all lengths: `count` shares plus `others`, for a
/// polynomial of any degree.
fn forged(keys: &[PublicKey], polynomial: &[Scalar], count: usize, others: &[Point]) -> Dealt {
    let of = |polynomial: &[Scalar]| -> Vec<Point> {
        let share = |(place, key)| (base(key) * value(polynomial, place)).compress().to_bytes();
        keys[..count].iter().enumerate().map(share).collect()
    };
    let masks: Vec<_> = (0..polynomial.len()).map(|j| Scalar::from(100 + j as u64)).collect();
    let shares = [&of(polynomial)[..], others].concat();
    let challenge = deal_challenge(keys, 2, b"context", &shares, &of(&masks));
    let response = |(mask, coefficient): (&Scalar, &Scalar)| (mask + challenge * coefficient).to_bytes();
    let responses = masks.iter().zip(polynomial).map(response).collect();
    Dealt { shares, challenge: challenge.to_bytes(), responses }
}

#[test]
fn a_proof_of_more_or_fewer_shares_or_coefficients_is_not_sound() {
    let of = keys(&identities(3));
    let numbers: Vec<_> = (5..8u8).map(Scalar::from).collect();
    let sound = |dealt: &Dealt| is_sound(&of, 2, b"context", dealt);
    let right = forged(&of, &numbers[..2], 3, &[]);
    assert!(sound(&right));
    assert!(!sound(&forged(&of, &numbers[..2], 3, &right.shares[..1])), "one share more than keys");
    assert!(!sound(&forged(&of, &numbers[..2], 2, &[])), "one share fewer than keys");
    assert!(!sound(&forged(&of, &numbers, 3, &[])), "too high a degree");
    assert!(!sound(&forged(&of, &numbers[..1], 3, &[])), "every share is the secret itself");
}

#[test]
fn a_proof_of_more_shares_than_were_sealed_opens_nothing() {
    let (identities, _, dealt) = made(3, 2, 1);
    let (key, sealed) = (identities[0].public(), [dealt.shares[0]]);
    let share = opened(&identities, &dealt, 0).shares[0];
    let secret = Scalar::from(8u8) * *identities[0].scalar();
    let nonce = Scalar::from(7u8);
    let masks = [EdwardsPoint::mul_base(&nonce), point(&share).unwrap() * nonce];
    let masks = masks.map(|mask| mask.compress().to_bytes());
    let forged = |shares: Vec<Point>| {
        let challenge = open_challenge(key, b"release", &sealed, &shares, &masks);
        let response = (nonce + challenge * secret).to_bytes();
        Opened { shares, challenge: challenge.to_bytes(), response }
    };
    assert!(is_opened(key, b"release", &sealed, &forged(vec![share])));
    assert!(!is_opened(key, b"release", &sealed, &forged(vec![share, dealt.shares[1]])));
}

/// The dealer proves a polynomial of a higher degree. Such a proof has more coefficients than a deal
/// may have.
#[test]
fn shares_that_are_not_of_one_polynomial_cannot_be_proved() {
    let identities = identities(4);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (_, mut dealt) = deal(&keys(&identities), 4, b"context", &mut rng);
    assert!(is_sound(&keys(&identities), 4, b"context", &dealt));
    assert!(!is_sound(&keys(&identities), 3, b"context", &dealt), "too many coefficients");
    dealt.responses.truncate(3);
    assert!(!is_sound(&keys(&identities), 3, b"context", &dealt));
    // The mixed deal has one share of another polynomial. The same dealer has a proof for each
    // polynomial.
    let (_, one) = deal(&keys(&identities), 3, b"context", &mut rng);
    let (_, other) = deal(&keys(&identities), 3, b"context", &mut rng);
    let mut mixed = one.clone();
    mixed.shares[2] = other.shares[2];
    assert!(!is_sound(&keys(&identities), 3, b"context", &mixed));
}

/// A liar can try challenges until parts of small order cancel. Even then, the secret does not depend
/// on them.
#[test]
fn parts_of_small_order_change_no_secret() {
    let (identities, secret, dealt) = made(3, 2, 1);
    let of = keys(&identities);
    for torsion in 1..8 {
        // A dealer adds such a part to a sealed share, and finds a proof for it.
        let mut sealed = dealt.shares.clone();
        sealed[0] = twisted(&sealed[0], torsion);
        let first = open(&identities[0], b"release", &sealed[..1]).unwrap();
        assert!(is_opened(of[0], b"release", &sealed[..1], &first));
        let second = opened(&identities, &dealt, 1).shares[0];
        let shares = [(0, first.shares[0]), (1, second)];
        assert_eq!(reconstruct(&shares, 2).unwrap(), secret);
        // A member adds such a part to an opened share, and finds a proof for it.
        let shares = [(0, twisted(&first.shares[0], torsion)), (1, second)];
        assert_eq!(reconstruct(&shares, 2).unwrap(), secret);
    }
}

/// A member whose key has a part of small order gets shares, like every other member, and opens them.
#[test]
fn a_key_with_a_part_of_small_order_spoils_no_deal() {
    let identities = identities(3);
    let mut of = keys(&identities);
    of[1] = PublicKey::from_bytes(twisted(of[1].as_bytes(), 1)).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for _ in 0..16 {
        let (secret, dealt) = deal(&of, 2, b"context", &mut rng);
        assert!(is_sound(&of, 2, b"context", &dealt));
        let open =
            |place: usize| (place, open(&identities[place], b"", &[dealt.shares[place]]).unwrap().shares[0]);
        assert_eq!(reconstruct(&[open(1), open(2)], 2).unwrap(), secret);
    }
}

#[test]
fn only_canonical_encodings_are_points_and_scalars() {
    let (identities, _, dealt) = made(3, 2, 1);
    let of = keys(&identities);
    // y = p + 1 is a second encoding of the point with y = 1; no point has y = 2.
    let mut second = [0xff; 32];
    (second[0], second[31]) = (0xee, 0x7f);
    let mut none = [0; 32];
    none[0] = 2;
    for bytes in [second, none] {
        assert!(point(&bytes).is_none());
        let mut bad = dealt.clone();
        bad.shares[0] = bytes;
        assert!(!is_sound(&of, 2, b"context", &bad));
        assert!(open(&identities[0], b"", &[bytes]).is_none());
        assert!(reconstruct(&[(0, bytes), (1, dealt.shares[1])], 2).is_none());
    }
    // l + e is the same challenge mod l.
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let plus = |bytes: &[u8; 32]| {
        let (mut out, mut carry) = (*bytes, 0u16);
        for (byte, add) in out.iter_mut().zip(&order) {
            carry += u16::from(*byte) + u16::from(*add);
            (*byte, carry) = (carry.to_le_bytes()[0], carry >> 8);
        }
        out
    };
    let mut bad = dealt.clone();
    bad.challenge = plus(&bad.challenge);
    assert!(!is_sound(&of, 2, b"context", &bad));
    let mut bad = dealt.clone();
    bad.responses[1] = plus(&bad.responses[1]);
    assert!(!is_sound(&of, 2, b"context", &bad));
    let good = opened(&identities, &dealt, 0);
    let sealed = [dealt.shares[0]];
    assert!(!is_opened(
        of[0],
        b"release",
        &sealed,
        &Opened { challenge: plus(&good.challenge), ..good.clone() }
    ));
    assert!(!is_opened(
        of[0],
        b"release",
        &sealed,
        &Opened { response: plus(&good.response), ..good.clone() }
    ));
}

#[test]
fn a_place_twice_opens_nothing() {
    let (identities, _, dealt) = made(3, 2, 1);
    let share = opened(&identities, &dealt, 0).shares[0];
    assert!(reconstruct(&[(0, share), (0, share)], 2).is_none());
    assert!(reconstruct(&[], 0).is_none());
}

#[test]
fn a_line_is_dealt_and_opened_by_hand() {
    // f(x) = 7 + 3 x: shares 10, 13, 16.
    let identities = identities(3);
    let polynomial = [Scalar::from(7u8), Scalar::from(3u8)];
    let (secret, dealt) = deal_polynomial(&keys(&identities), &polynomial, b"context");
    let of_base = |n: u64| EdwardsPoint::mul_base(&Scalar::from(n)).compress().to_bytes();
    assert_eq!(*secret, of_base(64 * 7));
    for (place, value) in [(0, 10), (1, 13), (2, 16)] {
        let key = identities[place].public().to_edwards();
        assert_eq!(dealt.shares[place], (key * Scalar::from(8 * value)).compress().to_bytes());
        assert_eq!(opened(&identities, &dealt, place).shares[0], of_base(8 * value));
    }
}

/// Two challenges for one r would reveal the polynomial.
#[test]
fn no_mask_of_a_proof_is_used_twice() {
    let identities = identities(3);
    let polynomial = [Scalar::from(7u8), Scalar::from(3u8)];
    let masks = |keys: &[PublicKey], context: &[u8]| {
        let (_, dealt) = deal_polynomial(keys, &polynomial, context);
        let challenge = canonical(&dealt.challenge).unwrap();
        let mask = |(response, f): (&[u8; 32], &Scalar)| canonical(response).unwrap() - challenge * f;
        dealt.responses.iter().zip(&polynomial).map(mask).collect::<Vec<_>>()
    };
    let of = keys(&identities);
    let first = masks(&of, b"context");
    assert_eq!(first, masks(&of, b"context"));
    assert_ne!(first[0], first[1]);
    for other in
        [masks(&of, b"another"), masks(&[of[0], of[2], of[1]], b"context"), masks(&of[..2], b"context")]
    {
        assert!(first.iter().all(|mask| !other.contains(mask)));
    }
    let nonce = |context: &[u8], sealed: &[Point]| {
        let opened = open(&identities[0], context, sealed).unwrap();
        let secret = Scalar::from(8u8) * *identities[0].scalar();
        canonical(&opened.response).unwrap() - canonical(&opened.challenge).unwrap() * secret
    };
    let (_, dealt) = deal_polynomial(&of, &polynomial, b"context");
    let first = nonce(b"release", &dealt.shares[..1]);
    assert_ne!(first, nonce(b"another", &dealt.shares[..1]));
    assert_ne!(first, nonce(b"release", &dealt.shares[1..2]));
}

#[test]
fn secrets_do_not_print() {
    let (identities, _, dealt) = made(1, 1, 1);
    assert_eq!(format!("{:?}", opened(&identities, &dealt, 0)), "Opened(<redacted>)");
}
