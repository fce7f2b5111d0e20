//! Pairwise key agreement: X25519 (RFC 7748), then the protocol's derivation.

use std::fmt;
use std::sync::Arc;

use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use super::stream::derive;

/// Fresh X25519 secret for one view. Wiped on drop.
pub struct EphemeralSecret {
    secret: StaticSecret,
    public: [u8; 32],
}

/// Error: the other side's key is a point of small order, so anyone could compute the shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("x25519 key is of small order")]
pub struct LowOrder;

/// Secret key of streams that several owners use. Wiped when the last one is dropped.
pub type SharedKey = Arc<Zeroizing<[u8; 32]>>;

/// Key shared by two peers. Wiped on drop.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl EphemeralSecret {
    /// Makes a new secret from 32 random bytes.
    #[must_use]
    pub fn generate(rng: &mut impl rand::CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        rng.fill_bytes(bytes.as_mut());
        Self::of(StaticSecret::from(*bytes))
    }

    fn of(secret: StaticSecret) -> Self {
        Self { public: x25519_dalek::PublicKey::from(&secret).to_bytes(), secret }
    }

    /// Returns the public key to send, 32 bytes.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// Returns `derive(X25519(self, theirs), "agreement", info)`. Both sides must give the same `info`:
    /// session, view, both peers.
    ///
    /// # Errors
    /// [`LowOrder`] if `theirs` is a point of small order.
    pub fn agree(&self, theirs: &[u8; 32], info: &[u8]) -> Result<Key, LowOrder> {
        let shared = self.secret.diffie_hellman(&(*theirs).into());
        if !shared.was_contributory() {
            return Err(LowOrder);
        }
        Ok(Key(derive(shared.as_bytes(), "agreement", info)))
    }
}

impl fmt::Debug for EphemeralSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EphemeralSecret(<redacted>)")
    }
}

impl Key {
    /// Returns the 32 bytes, as input of [`super::stream::Stream::new`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns this key in the form that streams use.
    #[must_use]
    pub fn shared(self) -> SharedKey {
        Arc::new(self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(<redacted>)")
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;

    use super::*;

    fn two() -> (EphemeralSecret, EphemeralSecret) {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        (EphemeralSecret::generate(&mut rng), EphemeralSecret::generate(&mut rng))
    }

    #[test]
    fn both_sides_get_one_key_and_another_for_another_purpose() {
        let (alice, bob) = two();
        let key = alice.agree(&bob.public(), b"view 1").unwrap();
        assert_eq!(key.as_bytes(), bob.agree(&alice.public(), b"view 1").unwrap().as_bytes());
        assert_ne!(key.as_bytes(), bob.agree(&alice.public(), b"view 2").unwrap().as_bytes());
    }

    #[test]
    fn the_shared_secret_is_that_of_rfc_7748_section_6_1() {
        let bytes = |hex: &str| <[u8; 32]>::try_from(hex::decode(hex).unwrap()).unwrap();
        let alice_public = bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let bob = bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let shared = bytes("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        let bob = EphemeralSecret::of(StaticSecret::from(bob));
        let bob_public = bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        assert_eq!(bob.public(), bob_public);
        let key = bob.agree(&alice_public, b"info").unwrap();
        assert_eq!(*key.as_bytes(), *derive(&shared, "agreement", b"info"));
    }

    #[test]
    fn points_of_small_order_are_refused() {
        let (alice, _) = two();
        // All u-coordinates of small order, and p - 1, p, p + 1 (https://cr.yp.to/ecdh.html, "How do I
        // validate").
        for hex in [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ] {
            let point: [u8; 32] = hex::decode(hex).unwrap().try_into().unwrap();
            assert_eq!(alice.agree(&point, b"").unwrap_err(), LowOrder, "{hex}");
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let (alice, bob) = two();
        let key = alice.agree(&bob.public(), b"").unwrap();
        assert_eq!(format!("{alice:?} {key:?}"), "EphemeralSecret(<redacted>) Key(<redacted>)");
    }
}
