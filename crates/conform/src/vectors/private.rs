//! Private sessions: chunks as pairs, and the meaning of a noisy total.

use flyswarm_learn::privacy::Ratio;
use flyswarm_learn::privacy::mechanism::Mechanism;
use flyswarm_sealed_sum::protocol::sparse;
use serde_json::{Value, json};

use super::hex;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn private() -> Value {
    let mut long = vec![0; 65_536];
    (long[0], long[255], long[65_535]) = (1, 256, u32::MAX);
    let chunks: Vec<_> = [vec![], vec![0; 5], vec![7], vec![0, 1, 0, 0, u32::MAX, 300], long]
        .iter()
        .map(|chunk| json!({ "words": chunk.len(), "nonzero": chunk.iter().enumerate().filter(|(_, word)| **word > 0).collect::<Vec<_>>(), "pairs": hex(sparse::encode(&words(chunk))) }))
        .collect();
    let refused: Vec<_> = [
        ("cut off", "0000010000"),
        ("a word that is 0", "000000000000"),
        ("outside the chunk", "050001000000"),
        ("the same place twice", "010001000000010001000000"),
        ("places that descend", "020001000000010001000000"),
    ]
    .into_iter()
    .map(|(what, pairs)| {
        let error = sparse::decode(&hex::decode(pairs).unwrap(), 20).expect_err(what).to_string();
        json!({ "what": what, "words": 5, "pairs": pairs, "class": "inconsistent", "text": error })
    })
    .collect();
    let epsilon: Ratio = "1".parse().unwrap();
    let totals: Vec<_> =
        [(vec![u32::MAX, 3, 0, 3, 9, 3, 1 << 31, 1], 3), (vec![5, 4], 7), (vec![0, u32::MAX], 1)]
            .into_iter()
            .map(|(total, top)| {
                let read = Mechanism::Shares { epsilon, top, weight: 1, parties: 1 }.read(&total);
                json!({ "total": total, "top": top, "counts": read })
            })
            .collect();
    json!({
        "about": "private sessions (spec, sections 13 and 15.1): chunks as pairs, refused pairs, noisy totals of the mode central",
        "chunks": chunks,
        "refused": refused,
        "totals": totals,
    })
}
