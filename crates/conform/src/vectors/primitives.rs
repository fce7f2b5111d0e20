//! Encodings, identities, streams, key agreement, masks, secret sharing, envelopes.

use std::fmt::Debug;

use flyswarm::session::Peer;
use flyswarm_sealed_sum::crypto::agreement::EphemeralSecret;
use flyswarm_sealed_sum::crypto::envelope::{self, Sealed};
use flyswarm_sealed_sum::crypto::identity::PublicKey;
use flyswarm_sealed_sum::crypto::mask::{self, Sign, Word};
use flyswarm_sealed_sum::crypto::shamir::{self, Secret, Share};
use flyswarm_sealed_sum::crypto::stream::{Stream, derive};
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::view::Reason;
use flyswarm_sealed_sum::protocol::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Given, bytes, hex, identity};

pub(crate) fn encoding() -> Value {
    let mut good = Vec::new();
    let mut add = |kind: &str, value: Value, bytes: Vec<u8>| {
        good.push(json!({ "type": kind, "value": value, "bytes": hex(bytes) }));
    };
    for value in [0u8, 250, 251, 255] {
        add("u8", value.into(), wire::canonical(&value));
    }
    for value in [0u16, 1, 250, 251, 252, 65_535] {
        add("u16", value.into(), wire::canonical(&value));
    }
    for value in [250u32, 251, 65_535, 65_536, u32::MAX] {
        add("u32", value.into(), wire::canonical(&value));
    }
    for value in [250u64, 251, 65_536, 1 << 32, u64::MAX] {
        add("u64", value.into(), wire::canonical(&value));
    }
    for value in [false, true] {
        add("bool", value.into(), wire::canonical(&value));
    }
    for value in ["", "ö", &"x".repeat(251)] {
        add("string", value.into(), wire::canonical(&value));
    }
    add("Option<peer>", Value::Null, wire::canonical(&None::<Peer>));
    add("Option<peer>", 300.into(), wire::canonical(&Some(Peer(300))));
    add("Vec<peer>", json!([]), wire::canonical(&Vec::<Peer>::new()));
    add("Vec<peer>", json!([0, 250, 251]), wire::canonical(&[Peer(0), Peer(250), Peer(251)].to_vec()));
    add("[u8; 8]", hex([251; 8]), wire::canonical(&[251u8; 8]));
    add(
        "Ballot",
        json!({ "counter": 251, "proposer": 2 }),
        wire::canonical(&Ballot { counter: 251, proposer: Peer(2) }),
    );
    add("Reason", json!("Disagreement"), wire::canonical(&Reason::Disagreement));

    // Longer than needed, but accepted.
    let mut lenient = Vec::new();
    let mut accept = |kind: &str, bytes: &[u8], value: Value| {
        lenient.push(json!({ "type": kind, "bytes": hex(bytes), "value": value }));
    };
    assert_eq!(wire::decode_item::<u16>(&[251, 1, 0]).unwrap(), 1);
    accept("u16", &[251, 1, 0], 1.into());
    assert_eq!(wire::decode_item::<u64>(&[252, 1, 0, 0, 0]).unwrap(), 1);
    accept("u64", &[252, 1, 0, 0, 0], 1.into());
    assert_eq!(wire::decode_item::<Reason>(&[251, 4, 0]).unwrap(), Reason::Disagreement);
    accept("Reason", &[251, 4, 0], json!("Disagreement"));

    let bad = vec![
        refused::<u16>("u16", "trailing bytes", &[1, 0]),
        refused::<u16>("u16", "empty", &[]),
        refused::<u16>("u16", "cut short", &[251, 1]),
        refused::<u16>("u16", "wider than the type", &[252, 1, 0, 0, 0]),
        refused::<u64>("u64", "wider than the type", &[&[254, 1][..], &[0; 15]].concat()),
        refused::<u64>("u64", "reserved tag", &[255, 0, 0, 0, 0, 0, 0, 0, 0]),
        refused::<bool>("bool", "neither 0 nor 1", &[2]),
        refused::<Option<Peer>>("Option<peer>", "neither 0 nor 1", &[2, 0]),
        refused::<String>("string", "not UTF-8", &[1, 0xff]),
        refused::<String>("string", "length 2^60", &[&[253][..], &(1u64 << 60).to_le_bytes()].concat()),
        refused::<Vec<Peer>>("Vec<peer>", "length 2^60", &[&[253][..], &(1u64 << 60).to_le_bytes()].concat()),
        refused::<Vec<Peer>>("Vec<peer>", "fewer items than the length says", &[3, 0, 1]),
        refused::<[u8; 8]>("[u8; 8]", "cut short", &[0; 7]),
        refused::<Reason>("Reason", "unknown variant", &[9]),
    ];
    json!({ "about": "bincode 2, standard configuration (spec, section 2)", "good": good, "lenient": lenient, "bad": bad })
}

fn refused<T: DeserializeOwned + Debug>(kind: &str, what: &str, bytes: &[u8]) -> Value {
    let fault = wire::decode_item::<T>(bytes).expect_err(what);
    json!({ "type": kind, "what": what, "bytes": hex(bytes), "class": "malformed", "text": fault.to_string() })
}

fn identity_of(number: usize) -> Value {
    let identity = identity(number);
    json!({ "seed": hex(*identity.seed()), "public": hex(identity.public().as_bytes()), "peer_id": identity.public().to_string() })
}

pub(crate) fn identities() -> Value {
    let signatures: Vec<_> = [(0, &b""[..], &b""[..]), (1, b"deal", b"message"), (2, b"view key", &[0; 200])]
        .into_iter()
        .map(|(number, context, message)| {
            let signature = identity(number).sign(context, message);
            assert!(identity(number).public().verify(context, message, &signature));
            json!({
                "seed": hex(*identity(number).seed()),
                "context": hex(context),
                "message": hex(message),
                "signature": hex(signature.as_bytes()),
            })
        })
        .collect();

    let good = identity(0).public().to_string();
    let mut wrong = good.clone().into_bytes();
    wrong[20] = if wrong[20] == b'2' { b'3' } else { b'2' };
    let base58 = |bytes: &[u8]| bs58::encode(bytes).into_string();
    let header = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    let small_order =
        hex::decode("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05").unwrap();
    // y = p + 1 is a second encoding of the point with y = 1.
    let mut non_canonical = [0xff; 32];
    (non_canonical[0], non_canonical[31]) = (0xee, 0x7f);
    let texts = [
        ("not base58", good.replacen("12D3", "0OIl", 1)),
        ("a point of order 8", base58(&[&header[..], &small_order].concat())),
        ("a second encoding of a point", base58(&[&header[..], &non_canonical].concat())),
        ("no point", base58(&[&header[..], &[2], &[0; 31]].concat())),
        ("33 bytes of key", base58(&[&header[..], &[1; 33]].concat())),
        ("secp256k1 in the header", base58(&[&[0x00, 0x24, 0x08, 0x02, 0x12, 0x20][..], &[1; 32]].concat())),
        ("an RSA peer id (sha2-256 multihash)", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N".into()),
        ("CIDv1 text", "bafzaajaiaejcda3tgoiwrwgzvbqn2xqohywxvjmmjzdxqhgkfyknk7vp3t3qwcbu".into()),
        ("empty", String::new()),
    ];
    let bad: Vec<_> = texts
        .into_iter()
        .map(|(what, text)| {
            let error = text.parse::<PublicKey>().expect_err(what).to_string();
            json!({ "what": what, "peer_id": text, "class": "peer-id", "text": error })
        })
        .collect();

    let signer = identity(1);
    let signature = signer.sign(b"deal", b"message");
    // A verifier that does not require S < l accepts S + l as a signature of the same message.
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut malleable = *signature.as_bytes();
    let mut carry = 0u16;
    for (byte, add) in malleable[32..].iter_mut().zip(order) {
        carry += u16::from(*byte) + u16::from(add);
        (*byte, carry) = (carry.to_le_bytes()[0], carry >> 8);
    }
    let mut flipped = *signature.as_bytes();
    flipped[0] ^= 1;
    let cases = [
        ("another context", "release", "message", *signature.as_bytes()),
        ("another message", "deal", "massage", *signature.as_bytes()),
        ("a bit flipped", "deal", "message", flipped),
        ("S is not below l", "deal", "message", malleable),
        ("R is of small order", "deal", "message", [&small_order[..], &[0; 32]].concat().try_into().unwrap()),
    ];
    let bad_signatures: Vec<_> = cases
        .into_iter()
        .map(|(what, context, message, signature)| {
            let given = flyswarm_sealed_sum::crypto::identity::Signature::from_bytes(signature);
            assert!(!signer.public().verify(context.as_bytes(), message.as_bytes(), &given), "{what}");
            json!({
                "what": what,
                "public": hex(signer.public().as_bytes()),
                "context": hex(context),
                "message": hex(message),
                "signature": hex(signature),
                "class": "bad-signature",
            })
        })
        .collect();
    json!({
        "about": "Ed25519 identities, PeerId texts, signatures with a context (spec, section 3)",
        "identities": (0..4).map(identity_of).collect::<Vec<_>>(),
        "signatures": signatures,
        "bad_peer_ids": bad,
        "bad_signatures": bad_signatures,
    })
}

pub(crate) fn stream() -> Value {
    let triples: [(&[u8], &str, &[u8]); 3] = [
        (&[1; 32], "mask", &[0; 11]),
        (b"", "", b""),
        (b"key", "flynn/matrix", &[16, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0]),
    ];
    let streams: Vec<_> = triples
        .into_iter()
        .map(|(key, label, params)| {
            let mut start = [0; 100];
            Stream::new(key, label, params).fill(&mut start);
            let mut far = Stream::new(key, label, params);
            far.seek(262_144 + 5);
            let mut later = [0; 70];
            far.fill(&mut later);
            let mut uniform = Stream::new(key, label, params);
            let limits = [1u32, 2, 6, 1000, 3 << 30, u32::MAX];
            let below: Vec<_> =
                limits.iter().cycle().take(24).map(|&n| json!([n, uniform.below(n)])).collect();
            json!({
                "key": hex(key),
                "label": label,
                "params": hex(params),
                "derived": hex(*derive(key, label, params)),
                "start": hex(start),
                "at_262149": hex(later),
                "below": below,
            })
        })
        .collect();
    json!({ "about": "derive, Stream, below (spec, section 5)", "streams": streams })
}

pub(crate) fn agreement() -> Value {
    let secret = |label| EphemeralSecret::generate(&mut Given::new(&bytes::<32>(label)));
    let (alice, bob) = (secret("alice"), secret("bob"));
    let info = b"session, ballot, both keys";
    let key = alice.agree(&bob.public(), info).unwrap();
    assert_eq!(key.as_bytes(), bob.agree(&alice.public(), info).unwrap().as_bytes());
    let bad: Vec<_> = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]
    .into_iter()
    .map(|point| {
        let error = alice.agree(&hex::decode(point).unwrap().try_into().unwrap(), info).unwrap_err();
        json!({ "secret": hex(bytes::<32>("alice")), "public": point, "class": "low-order-key", "text": error.to_string() })
    })
    .collect();
    json!({
        "about": "X25519 and what is derived from it (spec, section 11)",
        "good": [{
            "secret_a": hex(bytes::<32>("alice")), "public_a": hex(alice.public()),
            "secret_b": hex(bytes::<32>("bob")), "public_b": hex(bob.public()),
            "info": hex(info), "key": hex(key.as_bytes()),
        }],
        "bad": bad,
    })
}

pub(crate) fn mask() -> Value {
    let vector = bytes::<48>("vector");
    let mut cases = Vec::new();
    for (word, bits) in [(Word::W32, 32), (Word::W64, 64)] {
        for (sign, name) in [(Sign::Add, "add"), (Sign::Subtract, "subtract")] {
            for offset in [0u64, 262_144] {
                let mut out = vector;
                let mut stream = Stream::new(&[7; 32], "mask", &[0; 11]);
                stream.seek(offset);
                mask::apply(word, sign, &mut out, &mut stream);
                cases.push(json!({
                    "key": hex([7; 32]), "label": "mask", "params": hex([0; 11]), "offset": offset,
                    "word_bits": bits, "sign": name, "vector": hex(vector), "masked": hex(out),
                }));
            }
        }
    }
    let capacity: Vec<_> = [(Word::W32, 3), (Word::W32, 1024), (Word::W64, 3), (Word::W64, 1024)]
        .map(|(word, peers)| json!([word.bytes() * 8, peers, mask::capacity(word, peers).to_string()]))
        .to_vec();
    json!({ "about": "masks (spec, section 11); capacity: word bits, peers, largest value", "masks": cases, "capacity": capacity })
}

/// Returns 64 random bytes that reduce to the scalar of these 31 bytes.
fn scalar(label: &str) -> [u8; 64] {
    let mut out = [0; 64];
    out[..31].copy_from_slice(&bytes::<31>(label));
    out
}

pub(crate) fn shamir() -> Value {
    let context = bytes::<43>("share context");
    let mut good = Vec::new();
    for (threshold, n) in [(2usize, 3usize), (1, 1), (8, 15)] {
        let wide: Vec<_> =
            (0..threshold).map(|i| scalar(&format!("coefficient {i} of {threshold}"))).collect();
        let secret = Secret::random(&mut Given::new(&wide[0]));
        let shares = shamir::deal(&secret, threshold, n, &mut Given::new(&wide[1..].concat()));
        let last: Vec<_> = (0..n).zip(shares.iter().cloned()).rev().take(threshold).collect();
        let (again, all) = shamir::reconstruct(&last, threshold, n).unwrap();
        assert!(again == secret && all == shares);
        good.push(json!({
            "threshold": threshold,
            "n": n,
            "coefficients": wide.iter().map(|wide| hex(&wide[..32])).collect::<Vec<_>>(),
            "shares": shares.iter().map(|share| hex(*share.to_bytes())).collect::<Vec<_>>(),
            "key": hex(*secret.key()),
            "context": hex(context),
            "dealer": 300,
            "hashes": (0u16..).zip(&shares).map(|(i, share)| hex(shamir::share_hash(&context, 300, i, share))).collect::<Vec<_>>(),
        }));
    }
    // 64 random bytes are reduced mod l.
    let wide = bytes::<64>("wide");
    let reduced =
        json!({ "random": hex(wide), "scalar": hex(*Secret::random(&mut Given::new(&wide)).key()) });

    let mut bad = Vec::new();
    for (what, text) in [
        ("the share is l", "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010"),
        ("the share is 2^256 - 1", &"ff".repeat(32)),
    ] {
        let bytes: [u8; 32] = hex::decode(text).unwrap().try_into().unwrap();
        assert!(Share::from_bytes(bytes).is_none());
        bad.push(json!({ "what": what, "share": text, "class": "bad-share" }));
    }
    json!({ "about": "Shamir's sharing mod l (spec, section 12)", "good": good, "reduced": reduced, "bad": bad })
}

pub(crate) fn envelope() -> Value {
    let recipients: Vec<_> = (0..3).map(identity).collect();
    let keys: Vec<_> =
        recipients.iter().map(flyswarm_sealed_sum::crypto::identity::Identity::public).collect();
    let secrets: Vec<[u8; 32]> = (0..3).map(|i| bytes(&format!("plain {i}"))).collect();
    let context = bytes::<45>("envelope context");
    let ephemeral = bytes::<32>("ephemeral");
    let sealed = envelope::seal(
        &keys,
        &secrets.iter().map(Ref).collect::<Vec<_>>(),
        &context,
        &mut Given::new(&ephemeral),
    );
    for (i, recipient) in recipients.iter().enumerate() {
        assert_eq!(*envelope::open(recipient, i, &context, &sealed).unwrap(), secrets[i]);
    }
    let mut bad = Vec::new();
    let mut refuse = |what: &str, who: usize, index: usize, context: &[u8], sealed: &Sealed| {
        let error = envelope::open(&recipients[who], index, context, sealed).expect_err(what);
        bad.push(json!({
            "what": what, "seed": hex(*recipients[who].seed()), "index": index, "context": hex(context),
            "sealed": hex(wire::canonical(sealed)), "class": "envelope", "text": error.to_string(),
        }));
    };
    refuse("for another peer", 1, 0, &context, &sealed);
    refuse("for another purpose", 0, 0, &context[1..], &sealed);
    refuse("no such box", 0, 3, &context, &sealed);
    let mut changed = sealed.clone();
    changed.boxes[0][40] ^= 1;
    refuse("altered", 0, 0, &context, &changed);
    let mut changed = sealed.clone();
    changed.boxes.swap(0, 1);
    refuse("boxes exchanged", 0, 0, &context, &changed);
    let mut changed = sealed.clone();
    changed.ephemeral = [0; 32];
    refuse("ephemeral key of low order", 0, 0, &context, &changed);
    json!({
        "about": "envelopes (spec, section 12)",
        "good": [{
            "seeds": recipients.iter().map(|identity| hex(*identity.seed())).collect::<Vec<_>>(),
            "plain": secrets.iter().map(hex).collect::<Vec<_>>(),
            "context": hex(context),
            "ephemeral_secret": hex(ephemeral),
            "ephemeral": hex(sealed.ephemeral),
            "boxes": sealed.boxes.iter().map(hex).collect::<Vec<_>>(),
            "encoded": hex(wire::canonical(&sealed)),
        }],
        "bad": bad,
    })
}

/// A reference to 32 bytes, in the form that [`envelope::seal`] needs.
struct Ref<'a>(&'a [u8; 32]);

impl AsRef<[u8; 32]> for Ref<'_> {
    fn as_ref(&self) -> &[u8; 32] {
        self.0
    }
}

/// Serialises a value. Byte arrays (of 8, 32, 48 or 64 entries), bitmaps and contents of exchanges
/// become hex.
pub(crate) fn shown(value: &impl Serialize) -> Value {
    fn walk(value: Value, content: bool) -> Value {
        match value {
            Value::Array(items) => {
                let bytes: Option<Vec<u8>> =
                    items.iter().map(|item| item.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect();
                match bytes {
                    Some(bytes) if content || matches!(bytes.len(), 8 | 32 | 48 | 64) => hex(bytes),
                    _ => items.into_iter().map(|item| walk(item, false)).collect(),
                }
            }
            Value::Object(fields) => {
                let walked = |(name, field): (String, Value)| {
                    let content = ["Short", "header", "reached"].contains(&name.as_str());
                    (name, walk(field, content))
                };
                fields.into_iter().map(walked).collect()
            }
            other => other,
        }
    }
    walk(serde_json::to_value(value).unwrap(), false)
}
