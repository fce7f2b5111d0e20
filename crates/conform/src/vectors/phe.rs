//! Secure Hamming distances by homomorphic encryption: keys, ciphertexts and answers (by their SHA-256,
//! because they are long), and shares of a block.

use bytes::Bytes;
use flyswarm::tasks::xclp::hamming::phe::{Groups, answers, encrypt, evaluator_share, holder_share};
use flyswarm::tasks::xclp::hamming::to_bytes;
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::phe::{Holder, Public};
use flyswarm_sealed_sum::crypto::stream::Stream;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{bytes, hex};

fn codes(rows: usize, bits: usize, label: &str) -> Codes {
    let mut all = vec![0; rows * bits / 8];
    Stream::new(b"flyswarm test vectors", label, &[]).fill(&mut all);
    Codes::from_words(bits, all.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()).unwrap()
}

fn shown(codes: &Codes) -> Vec<Value> {
    (0..codes.rows())
        .map(|row| hex(codes.row(row).iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()))
        .collect()
}

/// Returns every message of a block, and the shares.
fn block(groups: Groups, label: &str) -> Value {
    let secrets = [bytes::<32>("holder's secret"), bytes::<32>("evaluator's secret")];
    let (a, b) =
        (codes(groups.holder, groups.bits, label), codes(groups.evaluator, groups.bits, "evaluator's codes"));
    let holder = Holder::new(&secrets[0]);
    let key = holder.public_key();
    let public = Public::new(&key).unwrap();
    let (mut of_holder, mut of_evaluator) =
        (vec![0; groups.holder * groups.evaluator], vec![0; groups.holder * groups.evaluator]);
    let (mut ciphertexts, mut answered) = (Vec::new(), Vec::new());
    for group in 0..groups.count() {
        let rows = groups.rows(group);
        let made: Vec<Bytes> =
            groups.ciphertexts(group).map(|number| encrypt(&holder, groups, number, &a).into()).collect();
        let all = answers(&public, groups, (group, &made), (&b, 0..groups.evaluator), &secrets[1]).unwrap();
        for (row, (answer, masks)) in all.into_iter().enumerate() {
            let opened = holder.decrypt(groups.layout(group), &answer).unwrap();
            for (place, x) in rows.clone().zip(holder_share(&a, rows.clone(), &opened)) {
                of_holder[place * groups.evaluator + row] = x;
            }
            for (place, x) in rows.clone().zip(evaluator_share(b.row(row), &masks)) {
                of_evaluator[row * groups.holder + place] = x;
            }
            answered.push(hex(Sha256::digest(&answer)));
        }
        ciphertexts.extend(made.iter().map(|bytes| hex(Sha256::digest(bytes))));
    }
    let distances = a.distances(&b);
    for (place, (x, distance)) in of_holder.iter().zip(distances).enumerate() {
        let turned = place % groups.evaluator * groups.holder + place / groups.evaluator;
        assert_eq!(x.wrapping_add(of_evaluator[turned]), distance);
    }
    json!({
        "secrets": secrets.map(hex), "bits": groups.bits,
        "holder_codes": shown(&a), "evaluator_codes": shown(&b),
        "key": hex(Sha256::digest(&key)), "ciphertexts": ciphertexts, "answers": answered,
        "holder_share": hex(to_bytes(&of_holder)), "evaluator_share": hex(to_bytes(&of_evaluator)),
    })
}

pub(crate) fn phe() -> Value {
    // Two ciphertexts of one group; and two groups.
    let groups =
        [Groups { holder: 40, evaluator: 3, bits: 128 }, Groups { holder: 515, evaluator: 1, bits: 64 }];
    json!(groups.map(|groups| block(groups, "holder's codes")))
}
