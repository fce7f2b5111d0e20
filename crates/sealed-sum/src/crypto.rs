//! Cryptography: identities, key agreement, secret sharing, sealed envelopes, streams and masks.
//!
//! Plan of this module: secrets print `<redacted>` and are wiped on drop; every hash and stream has a domain
//! tag; randomness is always an argument; nothing here knows of sockets, clocks or sessions.
//!
//! Assumptions: discrete logarithms and gap-Diffie-Hellman on Curve25519; HKDF-SHA256 as a key derivation
//! function; AES as a pseudo-random permutation; SHA-256 and BLAKE3 collision-resistant and SHA-256, on share
//! hashes, one-way. One seed serves both Ed25519 signatures and the X25519 key of [`envelope`] (studied in
//! <https://eprint.iacr.org/2021/509>); every signature made here has a domain tag.
//!
//! What is *not* wiped: copies that the optimiser or the curve library leaves on the stack and in registers.

pub mod agreement;
pub mod envelope;
mod fixed;
pub mod identity;
pub mod mask;
pub mod shamir;
pub mod stream;

use sha2::{Digest, Sha256};

/// SHA-256 of `"flyswarm/5 " || label || 0x00`, to be continued by the caller: the start of every tagged
/// hash.
#[must_use]
pub fn tagged_hash(label: &str) -> Sha256 {
    Sha256::new().chain_update(stream::PROTOCOL).chain_update(" ").chain_update(label).chain_update([0])
}
