//! Identity of a peer: an Ed25519 key (RFC 8032), written as libp2p's `PeerId`.
//!
//! The text of a public key is base58btc of the 38 bytes `00 24 08 01 12 20 || key`: the identity
//! multihash (0x00, length 0x24) of the protobuf message {1: Ed25519 (1), 2: the 32 key bytes}
//! (<https://github.com/libp2p/specs/blob/master/peer-ids/peer-ids.md>).
//!
//! A signature never covers the bare message. It covers `"flyswarm/5 signature" || 0x00 || LE u64
//! length of context || context || message`. So a signature made for one purpose is not valid for
//! another, and it is never valid in libp2p's own handshake.

mod file;

use std::fmt;
use std::str::FromStr;

use curve25519_dalek::Scalar;
use curve25519_dalek::edwards::EdwardsPoint;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::fixed::Fixed;
use super::stream::PROTOCOL;
pub use file::IdentityError;

/// Multihash and protobuf header of an Ed25519 key in a `PeerId`.
const PEER_ID_HEADER: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// Secret half of an identity: the 32-byte seed of RFC 8032. Wiped on drop.
#[derive(Clone)]
pub struct Identity(SigningKey);

impl Identity {
    /// Makes a new identity from 32 random bytes.
    #[must_use]
    pub fn generate(rng: &mut impl rand::CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut());
        Self::from_seed(*seed)
    }

    /// Returns the identity of a 32-byte seed (RFC 8032, section 5.1.5).
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        Self(SigningKey::from_bytes(&seed))
    }

    /// Returns the seed, to be stored or given to libp2p.
    #[must_use]
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs `message` for the purpose `context`. The module documentation specifies the bytes.
    #[must_use]
    pub fn sign(&self, context: &[u8], message: &[u8]) -> Signature {
        Signature(self.0.sign(&signed_bytes(context, message)).to_bytes())
    }

    /// Returns the secret scalar a of the key pair: the public point is a times the base point B.
    pub(super) fn scalar(&self) -> Zeroizing<Scalar> {
        Zeroizing::new(self.0.to_scalar())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(<redacted>)")
    }
}

fn signed_bytes(context: &[u8], message: &[u8]) -> Vec<u8> {
    let length = (context.len() as u64).to_le_bytes();
    [PROTOCOL.as_bytes(), b" signature\0", &length, context, message].concat()
}

/// Public key: 32 bytes that are the canonical encoding of a point that is not of small order. Serde
/// writes the 32 bytes raw and refuses other bytes when reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// Reason why bytes or a text are not a [`PublicKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The bytes are not the canonical encoding of a point on the curve.
    #[error("key {0} is not a point of Ed25519")]
    NotAPoint(String),
    /// The key is a point of order 1, 2, 4 or 8: anyone can sign for it.
    #[error("key {0} is of small order")]
    SmallOrder(String),
    /// The text is not base58btc.
    #[error("peer id {0:?} is not base58")]
    NotBase58(String),
    /// The text is base58, but it does not encode an Ed25519 identity multihash.
    #[error("peer id {0:?} is not that of an Ed25519 key (it would begin with 12D3KooW)")]
    NotEd25519(String),
}

impl PublicKey {
    /// Checks that the bytes are the canonical encoding of a point that is not of small order.
    ///
    /// # Errors
    /// [`KeyError::NotAPoint`], [`KeyError::SmallOrder`].
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyError::NotAPoint(hex::encode(bytes)))?;
        if key.to_edwards().compress().to_bytes() != bytes {
            return Err(KeyError::NotAPoint(hex::encode(bytes)));
        }
        if key.is_weak() {
            return Err(KeyError::SmallOrder(hex::encode(bytes)));
        }
        Ok(Self(bytes))
    }

    /// Returns the 32 bytes of RFC 8032.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns whether `signature` is a signature of this key over `message` for the purpose `context`
    /// (strict: canonical, no small-order parts).
    #[must_use]
    pub fn verify(&self, context: &[u8], message: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.point().verify_strict(&signed_bytes(context, message), &signature).is_ok()
    }

    /// Returns the point.
    pub(super) fn to_edwards(self) -> EdwardsPoint {
        self.point().to_edwards()
    }

    fn point(&self) -> VerifyingKey {
        VerifyingKey::from_bytes(&self.0)
            .unwrap_or_else(|_| unreachable!("BUG: a PublicKey was made of bytes that are no point"))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&bs58::encode([&PEER_ID_HEADER[..], &self.0].concat()).into_string())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    /// Reads the base58 text of a `PeerId`. The other text format of libp2p (CIDv1, "bafz...") is refused,
    /// so each key has one text.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let shown = || text.chars().take(80).collect::<String>();
        // The longest base58 of 38 bytes has 52 characters. Longer texts are not decoded at all.
        if text.len() > 64 {
            return Err(KeyError::NotEd25519(shown()));
        }
        let bytes = bs58::decode(text).into_vec().map_err(|_| KeyError::NotBase58(shown()))?;
        let key = bytes.strip_prefix(&PEER_ID_HEADER).ok_or_else(|| KeyError::NotEd25519(shown()))?;
        Self::from_bytes(key.try_into().map_err(|_| KeyError::NotEd25519(shown()))?)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_bytes(<[u8; 32]>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Ed25519 signature, 64 bytes. Any bytes are accepted until [`PublicKey::verify`]. Serde writes them raw,
/// without a length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Makes a signature of these bytes, valid or not.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// Returns the 64 bytes of RFC 8032.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", hex::encode(self.0))
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fixed(self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Fixed::deserialize(deserializer).map(|bytes| Self(bytes.0))
    }
}

#[cfg(test)]
mod tests;
