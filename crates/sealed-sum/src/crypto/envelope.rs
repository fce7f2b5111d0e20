//! Envelopes: 32-byte secrets sealed to identities of the roster, so that any peer can hand them over at
//! any time.
//!
//! One call makes one X25519 pair (e, E). Box i is ChaCha20-Poly1305 (RFC 8439) with nonce 0 and the
//! context as associated data, under `derive(X25519(e, u_i), "envelope", context || E || pk_i)`. Here pk_i
//! is the recipient's Ed25519 key and u_i its image under the birational map u = (1 + y) / (1 - y), as in
//! libsodium's `crypto_sign_ed25519_pk_to_curve25519`. Every key encrypts only one secret, so the nonce
//! can be constant. An envelope does not authenticate its author: sign the message that carries it.

use serde::{Deserialize, Serialize};
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};

use super::fixed;
use super::identity::{Identity, PublicKey};
use super::stream::derive;

/// Secrets sealed in one call. Bincode: the ephemeral key (32 bytes), the count, the boxes (48 bytes each).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// X25519 public key of this call.
    pub ephemeral: [u8; 32],
    /// One ciphertext with its tag for each recipient, in their order.
    #[serde(with = "fixed::list")]
    pub boxes: Vec<[u8; 48]>,
}

/// Reason why an envelope does not open. No data was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The envelope has no box of that index.
    #[error("envelope has {boxes} boxes, none of index {index}")]
    Index {
        /// Requested index, from 0.
        index: usize,
        /// Number of boxes.
        boxes: usize,
    },
    /// The ephemeral key is a point of small order.
    #[error("envelope's key is of small order")]
    LowOrder,
    /// The box was made for another identity or purpose, or it was changed on the way.
    #[error("box {index} of the envelope does not open for this identity and purpose")]
    Forged {
        /// Index of the box, from 0.
        index: usize,
    },
}

/// Seals `secrets[i]` to `recipients[i]`. The same `context` (session, purpose, sender...) is needed to
/// open.
///
/// # Panics
/// If the two lists differ in length or a recipient appears twice (its key would encrypt two secrets).
#[must_use]
pub fn seal(
    recipients: &[PublicKey],
    secrets: &[impl AsRef<[u8; 32]>],
    context: &[u8],
    rng: &mut impl rand::CryptoRng,
) -> Sealed {
    assert_eq!(recipients.len(), secrets.len(), "one secret for each recipient");
    let mut sorted = recipients.to_vec();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "a recipient appears twice");

    let mut seed = Zeroizing::new([0; 32]);
    rng.fill_bytes(seed.as_mut());
    let secret = StaticSecret::from(*seed);
    let ephemeral = x25519_dalek::PublicKey::from(&secret).to_bytes();
    let boxes = recipients.iter().zip(secrets).map(|(recipient, plain)| {
        // A PublicKey is not of small order, so neither is the product with a clamped scalar.
        let shared = secret.diffie_hellman(&recipient.to_x25519());
        let payload = Payload { msg: plain.as_ref(), aad: context };
        cipher(shared.as_bytes(), context, &ephemeral, *recipient)
            .encrypt(&Nonce::default(), payload)
            .ok()
            .and_then(|sealed| sealed.try_into().ok())
            .unwrap_or_else(|| unreachable!("BUG: 32 bytes encrypt to 48"))
    });
    Sealed { ephemeral, boxes: boxes.collect() }
}

/// Opens box `index`, which must have been sealed to this identity for this context.
///
/// # Errors
/// See [`EnvelopeError`].
pub fn open(
    identity: &Identity,
    index: usize,
    context: &[u8],
    sealed: &Sealed,
) -> Result<Zeroizing<[u8; 32]>, EnvelopeError> {
    let cipher_text =
        sealed.boxes.get(index).ok_or(EnvelopeError::Index { index, boxes: sealed.boxes.len() })?;
    let shared = identity.to_x25519().diffie_hellman(&sealed.ephemeral.into());
    if !shared.was_contributory() {
        return Err(EnvelopeError::LowOrder);
    }
    let payload = Payload { msg: cipher_text, aad: context };
    let plain = cipher(shared.as_bytes(), context, &sealed.ephemeral, identity.public())
        .decrypt(&Nonce::default(), payload)
        .map(Zeroizing::new)
        .map_err(|_| EnvelopeError::Forged { index })?;
    let mut out = Zeroizing::new([0; 32]);
    out.copy_from_slice(&plain);
    Ok(out)
}

fn cipher(shared: &[u8; 32], context: &[u8], ephemeral: &[u8; 32], recipient: PublicKey) -> ChaCha20Poly1305 {
    let key = derive(shared, "envelope", &[context, ephemeral, recipient.as_bytes()].concat());
    ChaCha20Poly1305::new((&*key).into())
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;
    use proptest::prelude::*;

    use super::super::shamir::{Secret, Share, deal};
    use super::*;

    fn identities(n: u8) -> Vec<Identity> {
        (1..=n).map(|i| Identity::from_seed([i; 32])).collect()
    }

    fn sealed(seed: u64, identities: &[Identity], context: &[u8]) -> (Vec<Share>, Sealed) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let shares = deal(&Secret::random(&mut rng), 1, identities.len(), &mut rng);
        let keys: Vec<_> = identities.iter().map(Identity::public).collect();
        let sealed = seal(&keys, &shares, context, &mut rng);
        (shares, sealed)
    }

    proptest! {
        #[test]
        fn a_box_opens_for_its_recipient_and_context_only(seed: u64, context: Vec<u8>, other: Vec<u8>) {
            prop_assume!(context != other);
            let identities = identities(3);
            let (shares, sealed) = sealed(seed, &identities, &context);
            for (reader, identity) in identities.iter().enumerate() {
                for (index, share) in shares.iter().enumerate() {
                    let opened = open(identity, index, &context, &sealed);
                    if reader == index {
                        prop_assert_eq!(&*opened.unwrap(), share.as_ref());
                    } else {
                        prop_assert_eq!(opened.unwrap_err(), EnvelopeError::Forged { index });
                    }
                    let error = open(identity, index, &other, &sealed).unwrap_err();
                    prop_assert_eq!(error, EnvelopeError::Forged { index });
                }
            }
        }

        #[test]
        fn a_changed_bit_anywhere_is_noticed(seed: u64, byte in 0usize..80, bit in 0u8..8) {
            // The curve ignores the top bit of an X25519 key (RFC 7748), but the key derivation does not.
            let identities = identities(1);
            let (_, mut sealed) = sealed(seed, &identities, b"context");
            match byte.checked_sub(32) {
                None => sealed.ephemeral[byte] ^= 1 << bit,
                Some(byte) => sealed.boxes[0][byte] ^= 1 << bit,
            }
            prop_assert!(open(&identities[0], 0, b"context", &sealed).is_err());
        }
    }

    #[test]
    fn an_index_beyond_the_boxes_and_a_key_of_small_order_are_refused() {
        let identities = identities(2);
        let (_, mut sealed) = sealed(1, &identities, b"");
        assert_eq!(
            open(&identities[0], 2, b"", &sealed).unwrap_err(),
            EnvelopeError::Index { index: 2, boxes: 2 }
        );
        sealed.ephemeral = [0; 32];
        assert_eq!(open(&identities[0], 0, b"", &sealed).unwrap_err(), EnvelopeError::LowOrder);
    }

    #[test]
    fn both_halves_of_a_converted_identity_belong_together() {
        let identity = Identity::from_seed([7; 32]);
        let public = x25519_dalek::PublicKey::from(&identity.to_x25519());
        assert_eq!(public.as_bytes(), identity.public().to_x25519().as_bytes());
    }

    #[test]
    fn every_call_and_every_recipient_has_its_own_key() {
        let identities = identities(2);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let keys: Vec<_> = identities.iter().map(Identity::public).collect();
        let share = deal(&Secret::random(&mut rng), 1, 1, &mut rng).remove(0);
        let first = seal(&keys, &[&share, &share], b"", &mut rng);
        let second = seal(&keys, &[&share, &share], b"", &mut rng);
        assert_ne!(first.boxes[0], first.boxes[1]);
        assert_ne!(first.ephemeral, second.ephemeral);
        assert_ne!(first.boxes, second.boxes);
    }

    #[test]
    #[should_panic(expected = "a recipient appears twice")]
    fn a_recipient_may_not_appear_twice() {
        let key = Identity::from_seed([1; 32]).public();
        let share = Share::from_bytes([0; 32]).unwrap();
        let _ = seal(&[key, key], &[&share, &share], b"", &mut ChaCha20Rng::seed_from_u64(1));
    }

    #[test]
    fn bincode_writes_the_boxes_raw() {
        let (_, sealed) = sealed(1, &identities(2), b"");
        let config = bincode::config::standard();
        let bytes = bincode::serde::encode_to_vec(&sealed, config).unwrap();
        assert_eq!(bytes, [&sealed.ephemeral[..], &[2], &sealed.boxes[0], &sealed.boxes[1]].concat());
        let (read, length): (Sealed, usize) = bincode::serde::decode_from_slice(&bytes, config).unwrap();
        assert_eq!((read, length), (sealed, bytes.len()));
        assert!(bincode::serde::decode_from_slice::<Sealed, _>(&bytes[..bytes.len() - 1], config).is_err());
        // A length prefix of 2^60 boxes without data is an error, not an allocation.
        let lying = [&[0; 32][..], &[0xfd], &(1u64 << 60).to_le_bytes()].concat();
        assert!(bincode::serde::decode_from_slice::<Sealed, _>(&lying, config).is_err());
    }
}
