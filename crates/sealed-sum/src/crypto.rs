//! Cryptography: identities, key agreement, secret sharing, sealed envelopes, streams and masks.
//!
//! Rules of this module: secrets print `<redacted>` and are wiped on drop; every hash and stream has a
//! domain tag; randomness is always an argument; nothing here depends on sockets, clocks or sessions.
//!
//! Assumptions: discrete logarithms and gap-Diffie-Hellman on Curve25519 are hard; HKDF-SHA256 is a key
//! derivation function; AES is a pseudo-random permutation; SHA-256 and BLAKE3 are collision-resistant,
//! and SHA-256 of shares is one-way. One seed serves both Ed25519 signatures and the X25519 key of
//! [`envelope`] (studied in <https://eprint.iacr.org/2021/509>); every signature made here has a domain
//! tag.
//!
//! Copies that the optimiser or the curve library leaves on the stack and in registers are *not* wiped.

pub mod agreement;
pub mod envelope;
mod fixed;
pub mod identity;
pub mod mask;
pub mod shamir;
pub mod stream;

use sha2::{Digest, Sha256};

/// Starts a tagged hash: SHA-256 of `"flyswarm/5 " || label || 0x00`. The caller adds the rest.
#[must_use]
pub fn tagged_hash(label: &str) -> Sha256 {
    Sha256::new().chain_update(stream::PROTOCOL).chain_update(" ").chain_update(label).chain_update([0])
}
