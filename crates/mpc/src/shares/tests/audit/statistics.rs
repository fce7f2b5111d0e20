//! Tests that each bit that a party or an owner gets is a fair coin. The same must hold for each bit of
//! the exclusive or of any two messages of the same length, from any stages.
//!
//! The tape of a party stays the same, and the third key differs in each of [`RUNS`] runs. The tests count
//! bits that never change. They measure the deviation of the number of ones of a bit from half (z, in
//! standard deviations). They also count bits of exclusive ors that never change: two messages with the
//! same mask have such bits, because a product of shares is 0 wherever the party's two shares are 0.

use std::collections::BTreeMap;

use super::super::super::output::{Sealed, unseal};
use super::*;

/// Runs for each party. A fair bit is the same in all of them with probability 2^-63.
const RUNS: usize = 64;
/// Threshold of |z|: a bit that is 1 in at most 6 of 64 runs, or in at least 58, reaches it. 1 of 10^11
/// fair bits does.
pub(super) const LARGEST: f64 = 6.5;
/// Number of words of a message that are compared with other messages.
const COMPARED: usize = 64;

/// Messages that a party gets in each run, in order.
pub(super) type Runs = Vec<Vec<Vec<u8>>>;

/// Returns the views of a party, without the rounds in `skip`.
pub(super) fn runs<'a, T>(
    party: usize,
    tape: impl Fn([[u8; 32]; 3]) -> Tape + Sync,
    skip: &[u32],
    program: impl Fn(Context) -> Part<'a, T> + Sync,
) -> Runs {
    let run = |attempt: usize| {
        let mut keys = KEYS;
        keys[(party + 2) % 3] = [10 + attempt as u8; 32];
        let (mut views, _) = views(keys, tape(keys), &program);
        let rounds = std::mem::take(&mut views[party]).into_iter().zip(0..);
        rounds.filter(|(_, round)| !skip.contains(round)).flat_map(|(round, _)| round).collect()
    };
    (0..RUNS).into_par_iter().map(run).collect()
}

/// Returns z of each bit.
pub(super) fn scores(runs: &Runs) -> Vec<f64> {
    let flat: Vec<Vec<u8>> = runs.iter().map(|messages| messages.concat()).collect();
    assert!(flat.iter().all(|view| view.len() == flat[0].len()));
    let mut ones = vec![[0u8; 8]; flat[0].len()];
    for view in &flat {
        for (ones, byte) in ones.iter_mut().zip(view) {
            (0..8).for_each(|bit| ones[bit] += byte >> bit & 1);
        }
    }
    let half = RUNS as f64 / 2.0;
    ones.iter().flatten().map(|&ones| (f64::from(ones) - half) / (half / 2.0).sqrt()).collect()
}

/// Compares two messages of the same length at a time. Returns the number of bits of their exclusive
/// ors that are equal in all runs. Only whole words are compared.
pub(super) fn constant_pairs(runs: &Runs) -> usize {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let words: Vec<Vec<Vec<u64>>> = runs
        .iter()
        .map(|messages| {
            let of = |message: &Vec<u8>| message.chunks_exact(8).take(COMPARED).map(word).collect();
            messages.iter().map(of).collect()
        })
        .collect();
    let mut lengths: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, message) in runs[0].iter().enumerate().filter(|(_, message)| message.len() >= 8) {
        lengths.entry(message.len()).or_default().push(at);
    }
    let pairs: Vec<(usize, usize)> = lengths
        .values()
        .flat_map(|same| (0..same.len()).flat_map(move |b| (0..b).map(move |a| (same[a], same[b]))))
        .collect();
    let constant = |&(a, b): &(usize, usize)| {
        let of = |at: usize| {
            let first = words[0][a][at] ^ words[0][b][at];
            let mut varies = 0u64;
            for run in &words[1..] {
                varies |= run[a][at] ^ run[b][at] ^ first;
                if varies == u64::MAX {
                    break;
                }
            }
            varies.count_zeros() as usize
        };
        (0..words[0][a].len()).map(of).sum::<usize>()
    };
    pairs.par_iter().map(constant).sum()
}

struct Found {
    bits: usize,
    constant: usize,
    largest: f64,
    mean_square: f64,
    pairs: usize,
}

fn found(runs: &Runs) -> Found {
    let z = scores(runs);
    let most = (RUNS as f64).sqrt();
    Found {
        bits: z.len(),
        constant: z.iter().filter(|z| z.abs() > most - 1e-9).count(),
        largest: z.iter().fold(0.0, |largest, z| f64::max(largest, z.abs())),
        mean_square: z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64,
        pairs: constant_pairs(runs),
    }
}

/// Returns the rounds that reveal data on purpose.
fn shown() -> [u32; 2] {
    opening_rounds(&views(KEYS, Tape::default(), whole(6)).1)
}

#[test]
fn every_bit_is_a_fair_coin_and_so_is_that_of_two_messages_of_one_length_in_any_stages() {
    let skip = shown();
    for party in 0..3 {
        let Found { bits, constant, largest, mean_square, pairs } =
            found(&runs(party, |_| Tape::default(), &skip, whole(6)));
        println!("party {party}: {bits} bits, mean z^2 {mean_square:.4}, largest |z| {largest:.2}");
        assert_eq!((constant, pairs), (0, 0));
        assert!(largest < LARGEST && (mean_square - 1.0).abs() < 0.01);
    }
}

#[test]
fn a_lane_with_most_of_its_mask_missing_has_a_z_above_the_threshold() {
    let tape = |_| Tape { biased_lane: true, ..Tape::default() };
    let found = found(&runs(0, tape, &shown(), whole(6)));
    println!("mean z^2 {:.4}, largest |z| {:.2}", found.mean_square, found.largest);
    assert!(found.largest > LARGEST);
}

#[test]
fn a_counter_that_begins_anew_in_each_stage_is_found_by_messages_of_one_length() {
    let tape = |keys| Tape { forgetful: Some(keys), ..Tape::default() };
    let found = found(&runs(1, tape, &shown(), whole(6)));
    println!(
        "mean z^2 {:.4}, largest |z| {:.2}, {} constant bits of pairs",
        found.mean_square, found.largest, found.pairs
    );
    assert!(found.pairs > 100, "{}", found.pairs);
    assert!(
        found.constant <= 1,
        "of {} bits, {} are constant in a single message",
        found.bits,
        found.constant
    );
}

/// Returns the largest z of the difference of two inputs over all bits of a party.
fn difference(party: usize, one: &[Vec<Inputs>; 3], two: &[Vec<Inputs>; 3]) -> f64 {
    let skip = shown();
    let z =
        |inputs: &[Vec<Inputs>; 3]| scores(&runs(party, |_| Tape::default(), &skip, program(inputs.clone())));
    let pairs = z(one).into_iter().zip(z(two));
    pairs.map(|(a, b)| (a - b).abs() / 2f64.sqrt()).fold(0.0, f64::max)
}

#[test]
fn uneven_classes_and_an_owner_of_one_row_change_nothing_that_is_seen_in_64_sessions() {
    // These cases broke an earlier protocol, the exchange by custodians: unevenly distributed classes,
    // and an owner whose neighbours all belong to another owner.
    let codes = words(POINTS, 64, 9);
    let label = |even: bool| move |i: usize| Some(if even { i % 2 } else { i / 12 } as u16);
    let of = |even: bool| (0..POINTS).map(label(even)).collect::<Vec<_>>();
    let mut other = codes.clone();
    other[0] = !other[0];
    let cases = [
        ("classes", owners(&[12, 12], &codes, &of(true)), owners(&[12, 12], &codes, &of(false))),
        ("one row", owners(&[1, 23], &codes, &of(true)), owners(&[1, 23], &other, &of(true))),
    ];
    for (party, (name, one, two)) in (1..).zip(cases) {
        assert!(one != two, "{name}");
        let largest = difference(party, &one, &two);
        println!("{name}: largest |z| of a difference {largest:.2}");
        assert!(largest < LARGEST, "{name}: {largest}");
    }
}

/// Returns whether a bit of an owner's output is used: the label, the mark that a label exists, and seven
/// bits of each score.
fn used(at: usize) -> bool {
    let (byte, bit) = (at / 8 % (CLASSES + 2), at % 8);
    match byte {
        0 => bit < CLASSES.next_power_of_two().ilog2() as usize,
        1 => bit == 7,
        _ => bit < 7,
    }
}

#[test]
fn an_owner_that_does_not_compute_gets_shares_of_which_any_two_are_fair_coins_and_its_own_rows_alone() {
    let rows = 16..POINTS;
    let own = 8 * rows.len() * (CLASSES + 2);
    let outputs: Vec<[Sealed; 3]> = (0..RUNS)
        .into_par_iter()
        .map(|attempt| {
            // The owner has no key.
            let keys = [1, 2, 3].map(|number| [64 * number + attempt as u8; 32]);
            views(keys, Tape::default(), whole(POINTS)).1.results.map(|outcome| match outcome {
                Outcome::Sealed(sealed) => sealed,
                other => panic!("{other:?}"),
            })
        })
        .collect();
    let in_clear = |shares: &Vec<u8>, planted: bool| -> Vec<Vec<u8>> {
        let (first, second) = shares.split_at(2 * own / 8);
        let (zero, one) = first.split_at(own / 8);
        let mut shares = [zero.to_vec(), one.to_vec(), second.to_vec()];
        if planted {
            // The first share holds the whole output, and the others are 0.
            let whole = (0..own / 8).map(|at| zero[at] ^ one[at] ^ second[at]).collect();
            shares = [whole, vec![0; own / 8], vec![0; own / 8]];
        }
        let pair = |a: usize, b: usize| (0..own / 8).map(|at| shares[a][at] ^ shares[b][at]).collect();
        let pairs = [pair(0, 1), pair(1, 2), pair(2, 0)];
        shares.into_iter().chain(pairs).collect()
    };
    for first in 0..3 {
        let got: Vec<Vec<u8>> = outputs
            .iter()
            .map(|sealed| {
                let [one, two] = [first, (first + 1) % 3].map(|party| &sealed[party]);
                let (one, two) = (one.for_owner(0, rows.clone()), two.for_owner(1, rows.clone()));
                assert!(unseal(rows.len(), CLASSES, &one, &two).is_some());
                [one, two].concat()
            })
            .collect();
        assert!(got.iter().all(|shares| shares.len() == 3 * own / 8), "three shares of its own rows");
        for planted in [false, true] {
            let views: Runs = got.iter().map(|shares| in_clear(shares, planted)).collect();
            let z = scores(&views).into_iter().enumerate().filter(|(at, _)| used(at % own));
            let largest = z.fold(0.0, |largest, (_, z)| f64::max(largest, z.abs()));
            println!("senders {first} and the next, in clear {planted}: largest |z| {largest:.2}");
            assert_eq!(largest > LARGEST, planted, "{largest}");
        }
    }
}
