//! Base transfers: Chou & Orlandi, "The simplest protocol for oblivious transfer", LATINCRYPT 2015, figure
//! 1, over Ristretto255.
//!
//! ```text
//! sender:    a, A = a G                                    -> A
//! receiver:  b_i, B_i = b_i G + s_i A                      -> B_0 .. B_127
//! sender:    k_i0 = H(i, A, B_i, a B_i), k_i1 = H(i, A, B_i, a (B_i - A))
//! receiver:  k_i = H(i, A, B_i, b_i A), which is k_i0 or k_i1 as s_i is 0 or 1
//! ```
//!
//! Ristretto's encoding is canonical and its group has prime order, so every check of the paper is
//! made. A = 0 would only harm its sender, and is refused as malformed. The protocol is secure against
//! peers that follow it: B_i is uniform for either s_i, and the key that was not chosen is a
//! Diffie-Hellman value in the random oracle model.

use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::traits::Identity;
use curve25519_dalek::{RistrettoPoint, Scalar};
use sha2::Digest;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::BASE;
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Encoded point.
pub type Point = [u8; 32];
/// Key from a transfer.
pub type Key = [u8; 32];

/// Party that gets both keys of every pair.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Sender {
    secret: Scalar,
    #[zeroize(skip)]
    point: CompressedRistretto,
    #[zeroize(skip)]
    context: [u8; 32],
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender(<redacted>)")
    }
}

impl Sender {
    /// Makes a sender from 32 fresh secret bytes.
    #[must_use]
    pub fn new(context: &[u8; 32], seed: &[u8; 32]) -> Self {
        let secret = scalar(&mut Stream::new(seed, "base transfer", &[]));
        let point = RistrettoPoint::mul_base(&secret).compress();
        Self { secret, point, context: *context }
    }

    /// Returns A.
    #[must_use]
    pub fn message(&self) -> Point {
        self.point.to_bytes()
    }

    /// Returns the pairs of keys for the receiver's B_i, or `None` if these are not [`BASE`] points.
    #[must_use]
    pub fn keys(&self, reply: &[u8]) -> Option<Zeroizing<Vec<[Key; 2]>>> {
        let (points, rest) = reply.as_chunks::<32>();
        if points.len() != BASE || !rest.is_empty() {
            return None;
        }
        let shift = RistrettoPoint::mul_base(&(self.secret * self.secret));
        let mut keys = Zeroizing::new(Vec::with_capacity(BASE));
        for (index, theirs) in (0u32..).zip(points) {
            let shared = self.secret * CompressedRistretto(*theirs).decompress()?;
            let key = |shared| key(&self.context, index, &self.point.0, theirs, shared);
            keys.push([key(shared), key(shared - shift)]);
        }
        Some(keys)
    }
}

/// Returns the receiver's B_i and its keys, for the choices s_i, from the lowest bit on. Returns `None` if
/// `message` is not a point, or is zero. `seed` is 32 fresh secret bytes.
#[must_use]
pub fn choose(
    context: &[u8; 32],
    message: &Point,
    choices: u128,
    seed: &[u8; 32],
) -> Option<(Vec<u8>, Zeroizing<Vec<Key>>)> {
    let sent =
        CompressedRistretto(*message).decompress().filter(|point| *point != RistrettoPoint::identity())?;
    let mut stream = Stream::new(seed, "base transfer", &[]);
    let (mut reply, mut keys) = (Vec::with_capacity(32 * BASE), Zeroizing::new(Vec::with_capacity(BASE)));
    for index in 0..BASE as u32 {
        let secret = Zeroizing::new(scalar(&mut stream));
        // Both hash inputs are computed, so that the time does not reveal the choice.
        let choice = Scalar::from((choices >> index & 1) as u64);
        let mine = (RistrettoPoint::mul_base(&secret) + choice * sent).compress().to_bytes();
        keys.push(key(context, index, message, &mine, *secret * sent));
        reply.extend(mine);
    }
    Some((reply, keys))
}

/// Returns 64 bytes of the stream, little-endian, modulo the order of the group.
fn scalar(stream: &mut Stream) -> Scalar {
    let mut wide = Zeroizing::new([0; 64]);
    stream.fill(&mut *wide);
    Scalar::from_bytes_mod_order_wide(&wide)
}

fn key(context: &[u8; 32], index: u32, sent: &Point, reply: &Point, shared: RistrettoPoint) -> Key {
    let shared = Zeroizing::new(shared.compress().to_bytes());
    tagged_hash("base transfer")
        .chain_update(context)
        .chain_update(index.to_le_bytes())
        .chain_update(sent)
        .chain_update(reply)
        .chain_update(*shared)
        .finalize()
        .into()
}
