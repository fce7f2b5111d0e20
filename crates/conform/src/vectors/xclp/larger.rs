//! Whole computations with more rows, classes and bits than the first entries of `xclp` have, and one whose
//! parties prove their messages. The file has only hashes of the data that each party receives and of the
//! output.

use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::Reference;
use flyswarm_mpc::propagation::integer::{Plan, Settings};
use flyswarm_mpc::shares::input::{Announced, parcels, unpack};
use flyswarm_mpc::shares::memory::with_keys;
use flyswarm_mpc::shares::output::unseal;
use flyswarm_mpc::shares::program::{Outcome, boxed};
use flyswarm_sealed_sum::crypto::stream::Stream;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::super::hex;

/// Rows, classes and settings of each computation, and whether the parties prove their messages.
fn cases() -> [(usize, usize, Settings, bool); 4] {
    let settings = |k, bits, alpha, steps, balance| Settings { k, bits, alpha, steps, power: 1, balance };
    [
        // Three tiles, a class that is left over in the tournament, high bits in both tables.
        (70, 3, settings(4, 1024, 0.9, 30, true), false),
        // Two words of labels per row, and fewer rows than a word has lanes.
        (3, 70, settings(2, 128, 0.9, 10, false), false),
        // Two steps of compaction, and tiles in uneven thirds.
        (1160, 2, settings(3, 64, 0.3, 4, false), false),
        // A proof of each ring and each party before the marks are opened, and of two rings before the end.
        (10, 2, settings(2, 64, 0.3, 4, true), true),
    ]
}

/// Returns bytes of a stream: all codes and labels are drawn.
fn drawn(label: &str, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    Stream::new(b"flyswarm test vectors", label, &[]).fill(&mut out);
    out
}

/// Runs each computation with one owner of all rows.
pub(super) fn larger(keys: [[u8; 32]; 3], seeds: &[Zeroizing<[u8; 32]>; 3]) -> Vec<Value> {
    let case = |(rows, classes, settings, proves): (usize, usize, Settings, bool)| {
        let bits = settings.bits as usize;
        let bytes = drawn("larger codes", rows * bits / 8);
        let words = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let codes = Codes::from_words(bits, words).unwrap();
        // The last of the C + 1 values means that the row has no label.
        let labels =
            drawn("larger labels", rows).into_iter().map(|byte| u16::from(byte) % (classes as u16 + 1));
        let labels: Vec<_> = labels.map(|class| (usize::from(class) < classes).then_some(class)).collect();
        let plan = Plan::new(rows, classes, settings).unwrap();
        let whole = parcels(&codes, &labels, classes, 0, seeds);
        let said = Announced::of([0; 32], &whole);
        let mut received: [Sha256; 3] = Default::default();
        let ended = with_keys(
            keys,
            |context| {
                let number = context.role();
                let inputs = unpack(&whole[number], number, &said, rows, bits, classes).unwrap();
                boxed(context, plan, vec![inputs], proves)
            },
            |party, _, bytes| received[party].update(bytes),
        );
        let sealed = ended.results.each_ref().map(|outcome| match outcome {
            Outcome::Sealed(sealed) => sealed,
            other => panic!("{other:?}"),
        });
        let output =
            unseal(rows, classes, &sealed[0].for_owner(0, 0..rows), &sealed[1].for_owner(1, 0..rows));
        assert_eq!(output, Some(Reference::new(&plan, &codes, &labels).output));
        let shares = sealed.map(|sealed| hex(Sha256::digest(&sealed.own)));
        json!({
            "rows": rows, "classes": classes, "bits": bits, "k": settings.k, "alpha": settings.alpha,
            "steps": settings.steps, "power": settings.power, "balance": settings.balance, "proofs": proves,
            "rounds": ended.rounds, "received": received.map(|hash| hex(hash.finalize())), "shares": shares,
        })
    };
    cases().into_iter().map(case).collect()
}
