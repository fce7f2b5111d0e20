//! Encodings, identities, streams, key agreement, masks, secret sharing.

use std::fmt::Debug;

use curve25519_dalek::edwards::CompressedEdwardsY;
use flyswarm::session::Peer;
use flyswarm_sealed_sum::crypto::agreement::EphemeralSecret;
use flyswarm_sealed_sum::crypto::identity::{Identity, PublicKey};
use flyswarm_sealed_sum::crypto::mask::{self, Sign, Word};
use flyswarm_sealed_sum::crypto::sharing::{self, Dealt, Opened, Point};
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

/// Sealed shares of one member, and the opened shares with their proof.
fn opened(member: &Identity, place: usize, context: &[u8], sealed: &[Point]) -> (Opened, Value) {
    let opened = sharing::open(member, context, sealed).unwrap();
    assert!(sharing::is_opened(member.public(), context, sealed, &opened));
    let shown = json!({
        "place": place, "context": hex(context), "sealed": sealed.iter().map(hex).collect::<Vec<_>>(),
        "shares": opened.shares.iter().map(hex).collect::<Vec<_>>(),
        "challenge": hex(opened.challenge), "response": hex(opened.response),
    });
    (opened, shown)
}

pub(crate) fn sharing() -> Value {
    let context = bytes::<48>("share context");
    let mut good = Vec::new();
    for (threshold, n) in [(2usize, 3usize), (1, 1), (8, 15)] {
        let members: Vec<_> = (0..n).map(identity).collect();
        let keys: Vec<_> = members.iter().map(Identity::public).collect();
        let wide: Vec<_> =
            (0..threshold).map(|i| scalar(&format!("coefficient {i} of {threshold}"))).collect();
        let (secret, dealt) = sharing::deal(&keys, threshold, &context, &mut Given::new(&wide.concat()));
        assert!(sharing::is_sound(&keys, threshold, &context, &dealt));
        let last: Vec<_> = (n - threshold..n)
            .map(|place| {
                let release = bytes::<48>(&format!("release of {place}"));
                (place, opened(&members[place], place, &release, &[dealt.shares[place]]))
            })
            .collect();
        let shares: Vec<_> = last.iter().map(|(place, (opened, _))| (*place, opened.shares[0])).collect();
        assert!(sharing::reconstruct(&shares, threshold).unwrap() == secret);
        good.push(json!({
            "threshold": threshold,
            "seeds": members.iter().map(|member| hex(*member.seed())).collect::<Vec<_>>(),
            "coefficients": wide.iter().map(|wide| hex(&wide[..32])).collect::<Vec<_>>(),
            "context": hex(context),
            "dealt": hex(wire::canonical(&dealt)),
            "opened": last.iter().map(|(_, (_, shown))| shown).collect::<Vec<_>>(),
            "secret": hex(*secret),
        }));
    }
    // 64 random bytes are reduced mod l.
    let wide = bytes::<64>("wide");
    let reduced = curve25519_dalek::Scalar::from_bytes_mod_order_wide(&wide);

    let members: Vec<_> = (0..3).map(identity).collect();
    let keys: Vec<_> = members.iter().map(Identity::public).collect();
    let deal = |number: usize| {
        let wide = [scalar(&format!("first of {number}")), scalar(&format!("second of {number}"))].concat();
        sharing::deal(&keys, 2, &context, &mut Given::new(&wide)).1
    };
    let (dealt, other) = (deal(0), deal(1));
    let small_order =
        hex::decode("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05").unwrap();
    let small_order = CompressedEdwardsY(small_order.try_into().unwrap()).decompress().unwrap();
    let twisted = |share: &Point| {
        (CompressedEdwardsY(*share).decompress().unwrap() + small_order).compress().to_bytes()
    };
    let (mut no_point, mut second) = ([0; 32], [0xff; 32]);
    no_point[0] = 2;
    // y = p + 1 is a second encoding of the point with y = 1.
    (second[0], second[31]) = (0xee, 0x7f);
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let plus_order = |bytes: &[u8; 32]| {
        let (mut out, mut carry) = (*bytes, 0u16);
        for (byte, add) in out.iter_mut().zip(&order) {
            carry += u16::from(*byte) + u16::from(*add);
            (*byte, carry) = (carry.to_le_bytes()[0], carry >> 8);
        }
        out
    };

    type Deals<'a> = Vec<(&'a str, Box<dyn Fn(&mut Dealt) + 'a>)>;
    let deals: Deals<'_> = vec![
        ("a share of another deal", Box::new(|dealt| dealt.shares[1] = other.shares[1])),
        ("two shares exchanged", Box::new(|dealt| dealt.shares.swap(0, 1))),
        ("a share that is not a point", Box::new(|dealt| dealt.shares[2] = no_point)),
        ("a share in a second encoding", Box::new(|dealt| dealt.shares[2] = second)),
        ("a part of small order in a share", Box::new(|dealt| dealt.shares[0] = twisted(&dealt.shares[0]))),
        ("another challenge", Box::new(|dealt| dealt.challenge = other.challenge)),
        ("a challenge that is not below l", Box::new(|dealt| dealt.challenge = plus_order(&dealt.challenge))),
        ("another response", Box::new(|dealt| dealt.responses[1] = other.responses[1])),
        (
            "a response that is not below l",
            Box::new(|dealt| dealt.responses[0] = plus_order(&dealt.responses[0])),
        ),
        ("a response is missing", Box::new(|dealt| dealt.responses.truncate(dealt.responses.len() - 1))),
        ("a share is missing", Box::new(|dealt| dealt.shares.truncate(dealt.shares.len() - 1))),
    ];
    let mut bad_deals: Vec<_> = deals
        .into_iter()
        .map(|(what, change)| {
            let mut bad = dealt.clone();
            change(&mut bad);
            (what, bad, context.to_vec())
        })
        .collect();
    bad_deals.push(("of another context", dealt.clone(), bytes::<48>("another context").to_vec()));
    let (_, mut higher) =
        sharing::deal(&keys, 3, &context, &mut Given::new(&[scalar("a"), scalar("b"), scalar("c")].concat()));
    higher.responses.pop();
    bad_deals.push(("a polynomial of a higher degree", higher, context.to_vec()));
    let bad_deals: Vec<_> = bad_deals
        .into_iter()
        .map(|(what, dealt, context)| {
            assert!(!sharing::is_sound(&keys, 2, &context, &dealt), "{what}");
            json!({ "what": what, "context": hex(&context), "dealt": hex(wire::canonical(&dealt)), "class": "bad-deal" })
        })
        .collect();

    let sealed = [dealt.shares[0], other.shares[0]];
    let (good_opened, shown) = opened(&members[0], 0, &context, &sealed);
    type Openings<'a> = Vec<(&'a str, Box<dyn Fn(&mut Opened) + 'a>)>;
    let openings: Openings<'_> = vec![
        ("two shares exchanged", Box::new(|opened| opened.shares.swap(0, 1))),
        ("a share that is not a point", Box::new(|opened| opened.shares[1] = no_point)),
        (
            "a part of small order in a share",
            Box::new(|opened| opened.shares[1] = twisted(&opened.shares[1])),
        ),
        ("a share is missing", Box::new(|opened| opened.shares.truncate(opened.shares.len() - 1))),
        ("a share too many", Box::new(|opened| opened.shares.push(opened.shares[0]))),
        ("another challenge", Box::new(|opened| opened.challenge = dealt.challenge)),
        ("a response that is not below l", Box::new(|opened| opened.response = plus_order(&opened.response))),
    ];
    let mut bad_openings: Vec<_> = openings
        .into_iter()
        .map(|(what, change)| {
            let mut bad = good_opened.clone();
            change(&mut bad);
            (what, 0, context.to_vec(), bad)
        })
        .collect();
    bad_openings.push(("of another member", 1, context.to_vec(), good_opened.clone()));
    bad_openings.push(("of another context", 0, bytes::<48>("another context").to_vec(), good_opened));
    let bad_openings: Vec<_> = bad_openings
        .into_iter()
        .map(|(what, place, context, opened)| {
            assert!(!sharing::is_opened(keys[place], &context, &sealed, &opened), "{what}");
            json!({
                "what": what, "place": place, "context": hex(&context), "class": "bad-share",
                "shares": opened.shares.iter().map(hex).collect::<Vec<_>>(),
                "challenge": hex(opened.challenge), "response": hex(opened.response),
            })
        })
        .collect();
    // Parts of small order in opened shares do not change the secret.
    let shares = [0, 2].map(|place| {
        let (opened, _) = opened(&members[place], place, &context, &[dealt.shares[place]]);
        (place, opened.shares[0])
    });
    let secret = sharing::reconstruct(&shares, 2).unwrap();
    let with_small_order = [(0, twisted(&shares[0].1)), (2, twisted(&shares[1].1))];
    assert!(sharing::reconstruct(&with_small_order, 2).unwrap() == secret);
    let combined = |shares: &[(usize, Point)]| {
        shares.iter().map(|(place, share)| json!([place, hex(share)])).collect::<Vec<_>>()
    };
    json!({
        "about": "publicly verifiable secret sharing (spec, section 12)",
        "good": good,
        "reduced": { "random": hex(wide), "scalar": hex(reduced.to_bytes()) },
        "seeds": members.iter().map(|member| hex(*member.seed())).collect::<Vec<_>>(),
        "threshold": 2,
        "opened": shown,
        "bad_deals": bad_deals,
        "bad_openings": bad_openings,
        "secrets": [
            { "shares": combined(&shares), "secret": hex(*secret) },
            { "shares": combined(&with_small_order), "secret": hex(*secret) },
        ],
    })
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
