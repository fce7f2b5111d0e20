//! The messages of proofs are uniform for their receiver, except for verdicts and for numbers that
//! follow from the receiver's own numbers.

use super::super::super::program::boxed;
use super::super::super::round::Label;
use super::statistics::{LARGEST, constant_pairs, scores};
use super::*;

fn proving(context: Context) -> Part<'static, Outcome> {
    let inputs = inputs(6)[context.role()].clone();
    boxed(context, plan(), inputs, true)
}

/// Returns the sender of a message to a party from one side.
fn sender(party: usize, from: Side) -> (usize, Side) {
    match from {
        Side::Before => ((party + 2) % 3, Side::After),
        Side::After => ((party + 1) % 3, Side::Before),
    }
}

/// Returns the messages that a party gets in each run. Each run has another third key. Openings,
/// verdicts, and the second copy of each coin are left out.
fn seen(party: usize, runs: u8) -> Vec<Vec<Vec<u8>>> {
    let run = |attempt: u8| {
        let mut keys = KEYS;
        keys[(party + 2) % 3] = [10 + attempt; 32];
        let (views, run) = views(keys, Tape::default(), proving);
        let opened = opening_rounds(&run);
        let mut all = Vec::new();
        for (round, messages) in (0u32..).zip(&views[party]).filter(|(round, _)| !opened.contains(round)) {
            for side in [Side::Before, Side::After] {
                let (from, to) = sender(party, side);
                let left_out = |label: &&Label| {
                    ["verdict", "coin that L confirms"].contains(&label.what)
                        && (label.round, label.to) == (round, to)
                };
                let mut bytes = messages[side as usize].clone();
                for label in run.labels[from].iter().rev().filter(left_out) {
                    bytes.drain(label.start..label.end);
                }
                all.push(bytes);
            }
        }
        all
    };
    (0..runs).into_par_iter().map(run).collect()
}

/// Checks one party, or with `FLYSWARM_AUDIT=all` all three.
#[test]
fn what_a_party_sees_of_proofs_are_fair_coins_in_each_bit_and_each_two_messages() {
    let all = std::env::var("FLYSWARM_AUDIT").is_ok_and(|value| value == "all");
    for party in 0..if all { 3 } else { 1 } {
        let runs = seen(party, 64);
        let scores = scores(&runs);
        let mean = scores.iter().map(|z| z * z).sum::<f64>() / scores.len() as f64;
        let largest = scores.iter().fold(0f64, |largest, z| largest.max(z.abs()));
        println!("party {party}: {} bits, mean z^2 {mean:.4}, largest |z| {largest:.2}", scores.len());
        assert!((mean - 1.0).abs() < 0.01 && largest < LARGEST, "{mean} {largest}");
        assert_eq!(constant_pairs(&runs), 0, "party {party}");
    }
}

/// Returns the messages of one kind in one part of a proof: sender, and bytes.
fn messages(views: &Views, run: &Run<Outcome>, what: &str, chunk: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (party, view) in views.iter().enumerate() {
        for side in [Side::Before, Side::After] {
            let (from, to) = sender(party, side);
            let fits = |label: &&Label| (label.what, label.chunk, label.to) == (what, chunk, to);
            for label in run.labels[from].iter().filter(fits) {
                let bytes = &view[label.round as usize][side as usize];
                all.push(bytes[label.start..label.end].to_vec());
            }
        }
    }
    all
}

#[test]
fn every_word_of_a_proof_has_a_mask_that_its_receiver_does_not_draw() {
    let (first, run) = views(KEYS, Tape::default(), proving);
    let mut chunks: Vec<u32> = run.labels[0]
        .iter()
        .filter(|label| label.what == "last message of L")
        .map(|label| label.chunk)
        .collect();
    chunks.sort_unstable();
    assert!(chunks.len() > 5, "{} proofs", chunks.len());
    // The streams of a proof: coins and points, masks of the prover and L, the element of the prover and U.
    let masked = [
        ("coin that U tells", 1),
        ("coin that L confirms", 1),
        ("share of a product", 2),
        ("last message of L", 2),
    ];
    let stale = |chunk: u32, what: &str, step: u32| {
        let label = [&[Stage::Input as u8, 0][..], &chunk.to_le_bytes(), &step.to_le_bytes()].concat();
        let known = Tape { known: label.try_into().ok(), ..Tape::default() };
        let (again, other) = views(KEYS, known, proving);
        let (one, two) = (messages(&first, &run, what, chunk), messages(&again, &other, what, chunk));
        assert!(!one.is_empty() && one.len() == two.len());
        let words = one.iter().zip(&two).flat_map(|(one, two)| one.chunks_exact(8).zip(two.chunks_exact(8)));
        words.filter(|(one, two)| one == two).count()
    };
    let tried: Vec<u32> = chunks.iter().copied().step_by(chunks.len().div_ceil(3)).collect();
    tried.into_par_iter().for_each(|chunk| {
        for (what, step) in masked {
            assert_eq!(stale(chunk, what, step), 0, "{what} of part {chunk}");
        }
        // The coins do not depend on the masks of shares. So the coins show what a word without a mask
        // looks like.
        assert!(stale(chunk, "coin that U tells", 2) > 0, "the test can fail");
    });
}
