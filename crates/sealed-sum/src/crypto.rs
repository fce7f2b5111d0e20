//! Cryptography: identities, key agreement, secret sharing, streams and masks.
//!
//! Rules of this module: secrets print `<redacted>` and are wiped on drop; every hash and stream has a
//! domain tag; randomness is always an argument; nothing here depends on sockets, clocks or sessions.
//!
//! Assumptions: the decisional Diffie-Hellman problem on Curve25519 is hard; HKDF-SHA256 is a key derivation
//! function; AES is a pseudo-random permutation; SHA-256, SHA-512 and BLAKE3 are collision-resistant, and
//! SHA-512 behaves like a random function. One key serves both Ed25519 signatures and [`sharing`]; every
//! signature and every proof made here has a domain tag.
//!
//! Copies that the optimiser or the curve library leaves on the stack and in registers are *not* wiped.

pub mod agreement;
mod fixed;
pub mod identity;
pub mod mask;
pub mod sharing;
pub mod stream;

use sha2::{Digest, Sha256};

/// Starts a tagged hash: SHA-256 of `"flyswarm/5 " || label || 0x00`. The caller adds the rest.
#[must_use]
pub fn tagged_hash(label: &str) -> Sha256 {
    Sha256::new().chain_update(stream::PROTOCOL).chain_update(" ").chain_update(label).chain_update([0])
}
