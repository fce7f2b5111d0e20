//! Publicly verifiable secret sharing (Schoenmakers, "A simple publicly verifiable secret sharing
//! scheme", CRYPTO 1999), with the peers' identities as keys. Every peer can check every share of a
//! deal, although only the holder of a share can open it. So if a dealer gives one peer a wrong share,
//! all peers notice.
//!
//! B is the base point of Ed25519, l its order, A_c = a_c B the key of the holder at place c, and
//! A'_c = 8 A_c. The dealer draws a polynomial f of degree below the threshold t over the integers mod l.
//!
//! | value | definition |
//! | --- | --- |
//! | sealed share | Y_c = f(c + 1) A'_c |
//! | proof of a deal | polynomial r; W_c = r(c + 1) A'_c; e = H(..., Y, W); z = r + e f: e and the coefficients of z |
//! | opened share | S_c = (8 a_c)^-1 8 Y_c = 8 f(c + 1) B |
//! | proof of opened shares | k; R = k B and k S for each share; e = H(..., Y, S, R); z = k + 8 e a_c: e and z |
//! | secret | 8 (sum of weight_c S_c) = 64 f(0) B, from any t opened shares |
//!
//! A verifier recomputes W and R from z and e, and compares the hash. The hashes contain the context,
//! which names session, view, slot and dealer. Without the context, a dealer could copy another
//! dealer's deal, for example from a failed view, and would learn that dealer's secret when the copy is
//! opened.
//!
//! Points may have a part of small order, because a liar can choose its key, its shares, and also its
//! opened shares. The factors of 8 remove such parts: all peers compute the same secret from any t shares.
//! Secrets are hidden if the decisional Diffie-Hellman problem is hard.

use std::fmt;

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::VartimeMultiscalarMul;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use super::identity::{Identity, PublicKey};
use super::stream::PROTOCOL;

/// Encoded point: y, little-endian, and the lowest bit of x in the highest bit.
pub type Point = [u8; 32];

/// Public part of a deal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dealt {
    /// Sealed shares, in the order of the keys.
    pub shares: Vec<Point>,
    /// Challenge of the proof: a hash, read as a scalar.
    pub challenge: [u8; 32],
    /// Coefficients of the polynomial that answers the challenge, as many as the threshold.
    pub responses: Vec<[u8; 32]>,
}

/// Opened shares of one holder from several deals, with one proof for all of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    /// Opened shares, in the order of the deals.
    pub shares: Vec<Point>,
    /// Challenge of the proof: a hash, read as a scalar.
    pub challenge: [u8; 32],
    /// Answer to the challenge, a scalar.
    pub response: [u8; 32],
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened(<redacted>)")
    }
}

/// Deals a new secret to `keys`. Returns the secret, an encoded point.
///
/// # Panics
/// Unless 1 <= `threshold` <= number of keys.
#[must_use]
pub fn deal(
    keys: &[PublicKey],
    threshold: usize,
    context: &[u8],
    rng: &mut impl rand::CryptoRng,
) -> (Zeroizing<Point>, Dealt) {
    assert!((1..=keys.len()).contains(&threshold), "threshold is {threshold}, must be 1 to {}", keys.len());
    let polynomial: Zeroizing<Vec<_>> = Zeroizing::new((0..threshold).map(|_| Scalar::random(rng)).collect());
    deal_polynomial(keys, &polynomial, context)
}

/// Deals the secret of this polynomial. The proof uses no random numbers: its polynomial r is derived
/// from the dealt polynomial and from everything that the challenge depends on. So two challenges never
/// share one r.
fn deal_polynomial(keys: &[PublicKey], polynomial: &[Scalar], context: &[u8]) -> (Zeroizing<Point>, Dealt) {
    let of = |polynomial: &[Scalar]| -> Vec<Point> {
        let share = |(place, key)| (base(key) * value(polynomial, place)).compress().to_bytes();
        keys.iter().enumerate().map(share).collect()
    };
    let shares = of(polynomial);
    let nonce = |number: u16| {
        let hash = start("deal nonce", context).chain_update(number.to_le_bytes());
        let hash = keys.iter().fold(hash, |hash, key| hash.chain_update(key.as_bytes()));
        scalar(polynomial.iter().fold(hash, |hash, coefficient| hash.chain_update(coefficient.as_bytes())))
    };
    let masks: Zeroizing<Vec<_>> = Zeroizing::new((0u16..).zip(polynomial).map(|(j, _)| nonce(j)).collect());
    let challenge = deal_challenge(keys, polynomial.len(), context, &shares, &of(&masks));
    let responses =
        masks.iter().zip(polynomial).map(|(mask, coefficient)| (mask + challenge * coefficient).to_bytes());
    let responses = responses.collect();
    let secret = EdwardsPoint::mul_base(&(Scalar::from(64u8) * polynomial[0]));
    let secret = Zeroizing::new(secret.compress().to_bytes());
    (secret, Dealt { shares, challenge: challenge.to_bytes(), responses })
}

/// Returns whether the shares are points of one polynomial of degree below `threshold` that the dealer
/// knows, each sealed to its key.
#[must_use]
pub fn is_sound(keys: &[PublicKey], threshold: usize, context: &[u8], dealt: &Dealt) -> bool {
    if dealt.shares.len() != keys.len() || dealt.responses.len() != threshold {
        return false;
    }
    let Some(challenge) = canonical(&dealt.challenge) else { return false };
    let Some(responses) = dealt.responses.iter().map(canonical).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let Some(shares) = dealt.shares.iter().map(point).collect::<Option<Vec<_>>>() else { return false };
    let mask = |(place, (key, share)): (usize, (&PublicKey, &EdwardsPoint))| {
        combine(value(&responses, place), base(key), -challenge, *share)
    };
    let masks: Vec<_> = keys.iter().zip(&shares).enumerate().map(mask).collect();
    deal_challenge(keys, threshold, context, &dealt.shares, &masks) == challenge
}

/// Opens this identity's sealed share of each deal, and proves that the opened shares are right.
/// Returns `None` if a sealed share is not a point, which [`is_sound`] excludes.
#[must_use]
pub fn open(identity: &Identity, context: &[u8], sealed: &[Point]) -> Option<Opened> {
    let points = sealed.iter().map(point).collect::<Option<Vec<_>>>()?;
    let secret = Zeroizing::new(Scalar::from(8u8) * *identity.scalar());
    let inverse = Zeroizing::new(secret.invert());
    let opened: Vec<_> = points.iter().map(|point| point.mul_by_cofactor() * *inverse).collect();
    let shares: Vec<_> = opened.iter().map(|share| share.compress().to_bytes()).collect();
    // The nonce is derived from the seed and everything that the challenge depends on.
    let hash = start("release nonce", context).chain_update(*identity.seed());
    let nonce = Zeroizing::new(scalar(
        sealed.iter().chain(&shares).fold(hash, |hash, point| hash.chain_update(point)),
    ));
    let masks =
        std::iter::once(EdwardsPoint::mul_base(&nonce)).chain(opened.iter().map(|share| share * *nonce));
    let masks: Vec<_> = masks.map(|mask| mask.compress().to_bytes()).collect();
    let challenge = open_challenge(identity.public(), context, sealed, &shares, &masks);
    let response = (*nonce + challenge * *secret).to_bytes();
    Some(Opened { shares, challenge: challenge.to_bytes(), response })
}

/// Returns whether the opened shares are those of `sealed`, opened with this key.
#[must_use]
pub fn is_opened(key: PublicKey, context: &[u8], sealed: &[Point], opened: &Opened) -> bool {
    let (Some(challenge), Some(response)) = (canonical(&opened.challenge), canonical(&opened.response))
    else {
        return false;
    };
    if sealed.len() != opened.shares.len() {
        return false;
    }
    let all = |points: &[Point]| points.iter().map(point).collect::<Option<Vec<_>>>();
    let (Some(from), Some(to)) = (all(sealed), all(&opened.shares)) else { return false };
    let first = EdwardsPoint::vartime_double_scalar_mul_basepoint(&-challenge, &base(&key), &response);
    let rest = from
        .iter()
        .zip(&to)
        .map(|(sealed, share)| combine(response, *share, -challenge, sealed.mul_by_cofactor()));
    let masks: Vec<_> = std::iter::once(first.compress().to_bytes()).chain(rest).collect();
    open_challenge(key, context, sealed, &opened.shares, &masks) == challenge
}

/// Returns the secret, an encoded point, from the first `threshold` of the opened shares, each given with
/// its place. Returns `None` if there are fewer, if a place is given twice, or if a share is not a point.
#[must_use]
pub fn reconstruct(shares: &[(usize, Point)], threshold: usize) -> Option<Zeroizing<Point>> {
    let used = shares.get(..threshold)?;
    let distinct = |i: usize| used[..i].iter().all(|(place, _)| *place != used[i].0);
    if threshold == 0 || !(0..threshold).all(distinct) {
        return None;
    }
    let points = used.iter().map(|(_, share)| point(share)).collect::<Option<Vec<_>>>()?;
    // Lagrange, at 0: weight_i = prod over j != i of x_j / (x_j - x_i).
    let weight = |(own, _): &(usize, Point)| {
        let others = used.iter().map(|(place, _)| x(*place)).filter(|other| *other != x(*own));
        let (above, below): (Vec<_>, Vec<_>) = others.map(|other| (other, other - x(*own))).unzip();
        above.into_iter().product::<Scalar>() * below.into_iter().product::<Scalar>().invert()
    };
    let sum = EdwardsPoint::vartime_multiscalar_mul(used.iter().map(weight), points);
    Some(Zeroizing::new(sum.mul_by_cofactor().compress().to_bytes()))
}

/// Returns 8 times the point of a key.
fn base(key: &PublicKey) -> EdwardsPoint {
    key.to_edwards().mul_by_cofactor()
}

/// Returns the argument of the share at this place.
fn x(place: usize) -> Scalar {
    Scalar::from(place as u64 + 1)
}

/// Returns the polynomial's value at the argument of this place.
fn value(polynomial: &[Scalar], place: usize) -> Scalar {
    polynomial.iter().rev().fold(Scalar::ZERO, |value, coefficient| value * x(place) + coefficient)
}

/// Returns the point of these bytes if they are its only encoding.
fn point(bytes: &Point) -> Option<EdwardsPoint> {
    let encoded = CompressedEdwardsY(*bytes);
    encoded.decompress().filter(|point| point.compress() == encoded)
}

fn canonical(bytes: &[u8; 32]) -> Option<Scalar> {
    Option::from(Scalar::from_canonical_bytes(*bytes))
}

/// Returns the encoding of a A + b B, in variable time.
fn combine(a: Scalar, first: EdwardsPoint, b: Scalar, second: EdwardsPoint) -> Point {
    EdwardsPoint::vartime_multiscalar_mul([a, b], [first, second]).compress().to_bytes()
}

/// Starts SHA-512 of `"flyswarm/5 " || label || 0x00 || context`.
fn start(label: &str, context: &[u8]) -> Sha512 {
    Sha512::new()
        .chain_update(PROTOCOL)
        .chain_update(" ")
        .chain_update(label)
        .chain_update([0])
        .chain_update(context)
}

/// Returns the hash as a number mod l.
fn scalar(hash: Sha512) -> Scalar {
    let wide: Zeroizing<[u8; 64]> = Zeroizing::new(hash.finalize().into());
    Scalar::from_bytes_mod_order_wide(&wide)
}

fn deal_challenge(
    keys: &[PublicKey],
    threshold: usize,
    context: &[u8],
    shares: &[Point],
    masks: &[Point],
) -> Scalar {
    let hash = start("deal challenge", context).chain_update((threshold as u16).to_le_bytes());
    let hash = keys.iter().fold(hash, |hash, key| hash.chain_update(key.as_bytes()));
    scalar(shares.iter().chain(masks).fold(hash, |hash, point| hash.chain_update(point)))
}

fn open_challenge(
    key: PublicKey,
    context: &[u8],
    sealed: &[Point],
    shares: &[Point],
    masks: &[Point],
) -> Scalar {
    let hash = start("release challenge", context).chain_update(key.as_bytes());
    scalar(sealed.iter().chain(shares).chain(masks).fold(hash, |hash, point| hash.chain_update(point)))
}

#[cfg(test)]
mod tests;
