//! Tests of identities, their text and their signatures.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use proptest::prelude::*;

use super::*;

fn identity(seed: u8) -> Identity {
    Identity::from_seed([seed; 32])
}

/// Computes base58btc by its definition, as long division of a big-endian number, independently of the
/// crate.
fn base58_by_hand(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits: Vec<u8> = Vec::new();
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) * 256;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    digits.extend(std::iter::repeat_n(0, zeros));
    digits.iter().rev().map(|digit| char::from(ALPHABET[usize::from(*digit)])).collect()
}

#[test]
fn the_key_of_rfc_8032_test_1_is_reproduced() {
    let seed = hex::decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
    let key = Identity::from_seed(seed.try_into().unwrap()).public();
    assert_eq!(
        hex::encode(key.as_bytes()),
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    );
    // 00 24 08 01 12 20 || key, in base58: libp2p prints the same for this key.
    let bytes = hex::decode(format!("002408011220{}", hex::encode(key.as_bytes()))).unwrap();
    assert_eq!(key.to_string(), base58_by_hand(&bytes));
    assert!(key.to_string().starts_with("12D3KooW"));
}

#[test]
fn the_peer_id_of_the_libp2p_specification_names_its_key() {
    // peer-ids.md, "Examples of encoding" has this PeerId for this Ed25519 key.
    let text = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA";
    let key: PublicKey = text.parse().unwrap();
    let bytes = bs58::decode(text).into_vec().unwrap();
    assert_eq!(&bytes[..6], &[0x00, 0x24, 0x08, 0x01, 0x12, 0x20]);
    assert_eq!(&bytes[6..], key.as_bytes());
    assert_eq!(key.to_string(), text);
}

#[test]
fn texts_that_name_no_ed25519_key_are_refused() {
    let rsa = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N";
    assert_eq!(rsa.parse::<PublicKey>(), Err(KeyError::NotEd25519(rsa.into())));
    assert_eq!("".parse::<PublicKey>(), Err(KeyError::NotEd25519(String::new())));
    assert_eq!("0OIl".parse::<PublicKey>(), Err(KeyError::NotBase58("0OIl".into())));
    assert!(
        matches!("1".repeat(10_000).parse::<PublicKey>(), Err(KeyError::NotEd25519(shown)) if shown.len() == 80)
    );
    let short = bs58::encode([&PEER_ID_HEADER[..], &[7; 31]].concat()).into_string();
    assert_eq!(short.parse::<PublicKey>(), Err(KeyError::NotEd25519(short.clone())));
}

#[test]
fn small_order_and_malformed_keys_are_refused() {
    let mut identity_point = [0; 32];
    identity_point[0] = 1;
    assert!(matches!(PublicKey::from_bytes(identity_point), Err(KeyError::SmallOrder(_))));
    // y = 0 has order 4.
    assert!(matches!(PublicKey::from_bytes([0; 32]), Err(KeyError::SmallOrder(_))));
    // y = 2 is not on the curve.
    let mut two = [0; 32];
    two[0] = 2;
    assert!(matches!(PublicKey::from_bytes(two), Err(KeyError::NotAPoint(_))));
    // y = p + 3 is the same point as y = 3: it would be a second text for one key.
    let mut three = [0; 32];
    three[0] = 3;
    assert!(PublicKey::from_bytes(three).is_ok());
    let mut non_canonical = [0xff; 32];
    non_canonical[0] = 0xed + 3;
    non_canonical[31] = 0x7f;
    assert!(matches!(PublicKey::from_bytes(non_canonical), Err(KeyError::NotAPoint(_))));
}

#[test]
fn a_signature_holds_for_its_context_and_message_only() {
    let alice = identity(1);
    let signature = alice.sign(b"context", b"message");
    assert!(alice.public().verify(b"context", b"message", &signature));
    assert!(!alice.public().verify(b"other", b"message", &signature));
    assert!(!alice.public().verify(b"contextm", b"essage", &signature));
    assert!(!alice.public().verify(b"", b"contextmessage", &signature));
    assert!(!alice.public().verify(b"context", b"massage", &signature));
    assert!(!identity(2).public().verify(b"context", b"message", &signature));
    let mut bytes = *signature.as_bytes();
    bytes[40] ^= 1;
    assert!(!alice.public().verify(b"context", b"message", &Signature::from_bytes(bytes)));
}

#[test]
fn what_is_signed_is_written_down_byte_by_byte() {
    assert_eq!(signed_bytes(b"ab", b"c"), b"flyswarm/5 signature\0\x02\0\0\0\0\0\0\0abc");
}

#[test]
fn bincode_writes_keys_and_signatures_raw() {
    let config = bincode::config::standard();
    let (key, signature) = (identity(1).public(), identity(1).sign(b"", b""));
    let bytes = bincode::serde::encode_to_vec((key, signature), config).unwrap();
    assert_eq!(bytes, [&key.as_bytes()[..], signature.as_bytes()].concat());
    let (read, length): ((PublicKey, Signature), usize) =
        bincode::serde::decode_from_slice(&bytes, config).unwrap();
    assert_eq!((read, length), ((key, signature), 96));
    assert!(bincode::serde::decode_from_slice::<PublicKey, _>(&[0; 32], config).is_err());
    assert!(bincode::serde::decode_from_slice::<Signature, _>(&[0; 63], config).is_err());
}

#[test]
fn secrets_do_not_print() {
    assert_eq!(format!("{:?}", identity(1)), "Identity(<redacted>)");
}

#[test]
fn a_generated_identity_is_that_of_its_seed() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let made = Identity::generate(&mut rng);
    assert_eq!(Identity::from_seed(*made.seed()).public(), made.public());
    assert_ne!(Identity::generate(&mut rng).public(), made.public());
}

proptest! {
    #[test]
    fn the_text_of_a_key_reads_back(seed: [u8; 32]) {
        let key = Identity::from_seed(seed).public();
        prop_assert_eq!(key.to_string().parse(), Ok(key));
        prop_assert_eq!(PublicKey::from_bytes(*key.as_bytes()), Ok(key));
    }

    #[test]
    fn reading_any_text_or_bytes_does_not_panic(text: String, bytes: [u8; 32]) {
        let _ = text.parse::<PublicKey>();
        let _ = PublicKey::from_bytes(bytes);
    }
}
