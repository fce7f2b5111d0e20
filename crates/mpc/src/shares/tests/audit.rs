//! What computing parties receive is uniform, and the tests that say so find bugs that are planted
//! (`tests/security/xclp-audit.md`).
//!
//! *Fresh masks.* A party's tape is its two keys and its inputs. The program is run again with the key that
//! the party has not replaced from some round on: what it computed before is the same, only masks that are
//! drawn from then on are others. Then every word that it gets in that round must be another one. A word
//! that is sent without a fresh mask stays what it was, and so does one whose mask the party knows.

mod statistics;

use std::any::TypeId;
use std::task::Poll;

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::super::input::{Announced, Inputs, parcels, parcels_of_distances, unpack, unpack_distances};
use super::super::memory::{Run, taped};
use super::super::primitives::open;
use super::super::program::{Outcome, run};
use super::super::round::{Part, Side};
use super::super::{Bits, Context, Keys, Ring, Stage};
use super::words;
use crate::propagation::integer::{Plan, Settings};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// What is planted, or when the third key changes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shares) struct Tape {
    /// The stream with this label is known to everybody: a mask that hides nothing.
    pub(in crate::shares) known: Option<[u8; 10]>,
    /// From this round on the key of this number is another one.
    pub(in crate::shares) changed: Option<(u32, usize, u8)>,
    /// One permutation for all rows.
    pub(in crate::shares) one_permutation: bool,
    /// The last lane of each mask of bits is 0.
    pub(in crate::shares) bare_lane: bool,
    /// The last lane of each mask of bits is 1 with a chance of 1/8.
    pub(in crate::shares) biased_lane: bool,
    /// With these keys: labels of streams without stage and chunk, so that steps begin anew in each of them.
    pub(in crate::shares) forgetful: Option<[[u8; 32]; 3]>,
}

/// A tape at one party.
#[derive(Clone, Copy, Default)]
pub(in crate::shares) struct Taped {
    pub(in crate::shares) tape: Tape,
    pub(in crate::shares) party: usize,
}

impl Taped {
    /// The stream that is drawn instead of one with a key of this party, if it is another one.
    pub(in crate::shares) fn stream(&self, side: Side, label: &[u8], round: u32) -> Option<Stream> {
        if self.tape.known.is_some_and(|known| known == label) {
            return Some(Stream::new(b"known to everybody", "audit", label));
        }
        let number = (self.party + side as usize) % 3;
        if let Some(keys) = self.tape.forgetful {
            return Some(Stream::new(&keys[number], "audit", &[&label[1..2], &label[6..]].concat()));
        }
        let changed = self.tape.changed.filter(|_| !permutes(label));
        let (.., with) = changed.filter(|&(from, key, _)| key == number && round >= from)?;
        Some(Stream::new(&[with], "audit", label))
    }

    /// Takes the mask off the last lane of bits, or most of it.
    pub(in crate::shares) fn bare<T: Ring>(&self, words: &mut [T], before: &[T]) {
        const LAST: u64 = 1 << 63;
        let Tape { bare_lane, biased_lane, .. } = self.tape;
        if (bare_lane || biased_lane) && TypeId::of::<T>() == TypeId::of::<Bits>() {
            for (word, before) in words.iter_mut().zip(before) {
                let mask = word.bits() ^ before.bits();
                let last = if bare_lane { 0 } else { mask & mask << 1 & mask << 2 & LAST };
                *word = T::from_bits(before.bits() ^ (mask & !LAST | last));
            }
        }
    }
}

/// Whether a stream draws permutations: they change the order of words, and mask nothing.
fn permutes(label: &[u8]) -> bool {
    label.first() == Some(&(Stage::Compaction as u8)) && label[6..] == 1u32.to_le_bytes()
}

// So many that no byte of packed words is cut, and lanes are left over.
const POINTS: usize = 24;
const CLASSES: usize = 2;
// Above 64, so that a lookup has two parts.
const BITS: u32 = 128;

fn plan() -> Plan {
    let settings = Settings { k: 3, bits: BITS, alpha: 0.1, steps: 3, power: 1, balance: true };
    Plan::new(POINTS, CLASSES, settings).expect("fits")
}

/// Two clusters, each of copies of one row; `labelled` points have a label. One owner's shares, from fixed
/// seeds.
fn inputs(labelled: usize) -> [Vec<Inputs>; 3] {
    let centres = words(2, 64, 5);
    let codes: Vec<u64> = (0..POINTS).map(|i| centres[i % 2]).collect();
    let labels: Vec<_> = (0..POINTS).map(|i| (i < labelled).then_some((i % 2) as u16)).collect();
    owners(&[POINTS], &codes, &labels)
}

/// Shares of owners with so many rows each, from fixed seeds. Each half of a code is the word given.
fn owners(rows: &[usize], codes: &[u64], labels: &[Option<u16>]) -> [Vec<Inputs>; 3] {
    let (mut held, mut start) = ([const { Vec::new() }; 3], 0);
    for (place, &rows) in rows.iter().enumerate() {
        let seeds = [1, 2, 101].map(|seed| Zeroizing::new([seed + 2 * place as u8; 32]));
        let own = start..start + rows;
        start += rows;
        let words = codes[own.clone()].iter().flat_map(|&word| [word; 2]).collect();
        let codes = Codes::from_words(BITS as usize, words).expect("words");
        let parcels = parcels(&codes, &labels[own], CLASSES, place, &seeds);
        let said = Announced::of([0; 32], &parcels);
        for (number, (held, parcel)) in held.iter_mut().zip(parcels).enumerate() {
            held.push(unpack(&parcel, number, &said, rows, BITS as usize, CLASSES).expect("a parcel"));
        }
    }
    held
}

/// The same points of two owners that share parts of distances; between them the first one's are drawn.
fn parts(labelled: usize) -> [Vec<Inputs>; 3] {
    let centres = words(2, 64, 5);
    let all = (0..POINTS).flat_map(|i| [centres[i % 2]; 2]).collect();
    let codes = Codes::from_words(BITS as usize, all).expect("words");
    let (distances, drawn) = (codes.distances(&codes), words(POINTS * POINTS, 16, 6));
    let labels: Vec<_> = (0..POINTS).map(|i| (i < labelled).then_some((i % 2) as u16)).collect();
    let mut held = [const { Vec::new() }; 3];
    for place in 0..2 {
        let own = place * POINTS / 2..(place + 1) * POINTS / 2;
        let part = |at: usize| match (own.contains(&(at % POINTS)), place) {
            (true, _) => distances[at],
            (false, 0) => drawn[at] as u16,
            (false, _) => distances[at].wrapping_sub(drawn[at % POINTS * POINTS + at / POINTS] as u16),
        };
        let parts: Vec<u16> = (own.start * POINTS..own.end * POINTS).map(part).collect();
        let seeds = [1, 2, 101].map(|seed| Zeroizing::new([seed + 2 * place as u8; 32]));
        let parcels = parcels_of_distances(&parts, &labels[own], CLASSES, place, &seeds);
        let said = Announced::of([0; 32], &parcels);
        for (number, (held, parcel)) in held.iter_mut().zip(parcels).enumerate() {
            let inputs = unpack_distances(&parcel, number, &said, POINTS / 2, POINTS, CLASSES);
            held.push(inputs.expect("a parcel"));
        }
    }
    held
}

/// What each party gets: of each round what came from before and from after.
type Views = [Vec<[Vec<u8>; 2]>; 3];

fn views<'a, T>(
    keys: [[u8; 32]; 3],
    tape: Tape,
    program: impl Fn(Context) -> Part<'a, T>,
) -> (Views, Run<T>) {
    let mut views: Views = Default::default();
    let run = taped(keys, tape, program, |party, side, bytes| {
        if side == Side::Before {
            views[party].push(Default::default());
        }
        if let Some(round) = views[party].last_mut() {
            round[side as usize] = bytes.to_vec();
        }
    });
    (views, run)
}

fn whole(labelled: usize) -> impl Fn(Context) -> Part<'static, Outcome> {
    program(inputs(labelled))
}

fn program(inputs: [Vec<Inputs>; 3]) -> impl Fn(Context) -> Part<'static, Outcome> {
    move |context: Context| {
        let inputs = inputs[context.role()].clone();
        Box::pin(run(context, plan(), inputs))
    }
}

const KEYS: [[u8; 32]; 3] = [[1; 32], [2; 32], [3; 32]];

/// A program that ends some rounds later, whatever it has done by then.
fn until<'a, T: 'a>(mut part: Part<'a, T>, rounds: u32) -> Part<'a, ()> {
    let mut left = rounds + 2;
    Box::pin(std::future::poll_fn(move |wakeup| {
        left -= 1;
        if part.as_mut().poll(wakeup).is_ready() || left == 0 { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// Who gets words without a fresh mask in a round: the first three are of party 0, 1 and 2, from before; then
/// from after.
fn stale(round: u32, tape: Tape, program: impl Fn(Context) -> Part<'static, Outcome>) -> [bool; 6] {
    let seen = |tape| views(KEYS, tape, |context| until(program(context), round)).0;
    let first = seen(tape);
    let mut found = [false; 6];
    for (party, first) in first.iter().enumerate() {
        // One is enough for a bug that is planted.
        if tape.known.is_some() && found.contains(&true) {
            break;
        }
        let again = &seen(Tape { changed: Some((round, (party + 2) % 3, 1)), ..tape })[party];
        for side in [Side::Before, Side::After] {
            let of = |views: &[[Vec<u8>; 2]]| views[round as usize][side as usize].clone();
            let (one, two) = (of(first), of(again));
            assert_eq!(one.len(), two.len());
            // Eight bytes that are the same twice: 2^-64 by chance.
            found[3 * side as usize + party] =
                one.chunks_exact(8).zip(two.chunks_exact(8)).any(|(a, b)| a == b);
        }
    }
    found
}

/// Rounds in which something is shown: the hashes of what owners announced, and the marks of the k nearest.
fn opening_rounds(run: &Run<Outcome>) -> [u32; 2] {
    let stages = run.stages();
    let before = |stage: Stage| {
        stages.iter().take_while(|(each, ..)| *each != stage).map(|(_, rounds, _)| rounds).sum::<u32>()
    };
    [0, before(Stage::Weights) - 1]
}

#[test]
fn every_word_has_a_fresh_mask_but_the_marks_that_are_opened() {
    let (_, run) = views(KEYS, Tape::default(), whole(6));
    let openings = opening_rounds(&run);
    let found: Vec<(u32, [bool; 6])> = (0..run.rounds)
        .into_par_iter()
        .map(|round| (round, stale(round, Tape::default(), whole(6))))
        .filter(|(_, found)| found.contains(&true))
        .collect();
    let hashes = (openings[0], [true; 6]);
    assert_eq!(found, [hashes, (openings[1], [true, true, true, false, false, false])]);
}

#[test]
fn a_mask_that_is_missing_at_any_place_is_found() {
    let (_, run) = views(KEYS, Tape::default(), whole(6));
    let openings = opening_rounds(&run);
    // Thirds run the same code with turned roles: one of them is enough, unless FLYSWARM_AUDIT=all.
    let all = std::env::var("FLYSWARM_AUDIT").is_ok_and(|which| which == "all");
    // Permutations mask nothing by themselves: they have a test of their own. What the last of three hops
    // adds is covered by what the shares are drawn with after it.
    let step = |label: &[u8; 10]| u32::from_le_bytes([label[6], label[7], label[8], label[9]]);
    let exempt = [(Stage::Compaction, 4), (Stage::Dense, 3)];
    let exempt = exempt.map(|(stage, step)| (stage as u8, step));
    let labels: Vec<([u8; 10], u32)> = run
        .drawn
        .into_iter()
        .filter(|(label, _)| (all || label[1] == 0) && !permutes(&label[..]))
        .filter(|(label, _)| !exempt.contains(&(label[0], step(label))))
        .collect();
    assert!(labels.len() > 200, "{} streams", labels.len());
    println!("{} places without a mask, one after the other", labels.len());
    let missed: Vec<_> = labels
        .par_iter()
        .filter(|(label, round)| {
            let tape = Tape { known: Some(*label), ..Tape::default() };
            *round == openings[1] || !stale(*round, tape, whole(6)).contains(&true)
        })
        .collect();
    assert!(
        missed.is_empty(),
        "of {} streams these hide nothing and nobody sees it: {missed:?}",
        labels.len()
    );
}

#[test]
fn from_parts_of_distances_too_every_word_has_a_fresh_mask_and_one_that_is_missing_is_found() {
    let whole = || program(parts(6));
    let (codes, run) =
        (views(KEYS, Tape::default(), program(inputs(6))).1, views(KEYS, Tape::default(), whole()).1);
    assert_eq!(run.rounds + 1, codes.rounds);
    let shown = opening_rounds(&run);
    let found: Vec<u32> = (0..run.rounds)
        .into_par_iter()
        .filter(|&round| stale(round, Tape::default(), whole()).contains(&true))
        .collect();
    assert_eq!(found, shown);
    // The first that leaves of the distances: their bits.
    let first = run.drawn.iter().filter(|(label, _)| label[0] == Stage::Keys as u8 && label[1] == 0);
    let first: Vec<_> = first.collect();
    assert!(first.len() > 5, "{} streams", first.len());
    let missed = first.par_iter().filter(|(label, round)| {
        !stale(**round, Tape { known: Some(**label), ..Tape::default() }, whole()).contains(&true)
    });
    assert_eq!(missed.count(), 0);
    assert_eq!(constant_bits(Tape::default(), &shown, whole()), 0);
}

/// Bits that a party gets that are the same for 36 third keys, those of the marks left out.
fn constant_bits<'a, T>(tape: Tape, skip: &[u32], program: impl Fn(Context) -> Part<'a, T> + Sync) -> usize {
    let of = |party: usize| {
        let (mut all, mut any) = (Vec::new(), Vec::new());
        for attempt in 0..36 {
            let mut keys = KEYS;
            keys[(party + 2) % 3] = [10 + attempt; 32];
            let (views, _) = views(keys, tape, &program);
            let rounds = views[party].iter().zip(0..).filter(|(_, round)| !skip.contains(round));
            let view: Vec<u8> = rounds.flat_map(|(round, _)| round.concat()).collect();
            if attempt == 0 {
                (all, any) = (view.clone(), view);
                continue;
            }
            assert_eq!(all.len(), view.len());
            all.iter_mut().zip(&view).for_each(|(all, byte)| *all &= byte);
            any.iter_mut().zip(&view).for_each(|(any, byte)| *any |= byte);
        }
        all.iter().zip(&any).map(|(all, any)| (all | !any).count_ones() as usize).sum::<usize>()
    };
    (0..3).into_par_iter().map(of).sum()
}

#[test]
fn no_bit_is_constant_and_padding_lanes_without_a_mask_and_labels_or_their_parity_in_clear_are_found() {
    let (_, run) = views(KEYS, Tape::default(), whole(6));
    let shown = &opening_rounds(&run);
    assert_eq!(constant_bits(Tape::default(), shown, whole(6)), 0);
    let tape = Tape { bare_lane: true, ..Tape::default() };
    assert!(constant_bits(tape, shown, whole(6)) > 100, "a padding lane without a mask");
    // Labels in clear, and whether those of a class are odd in number.
    for parity in [false, true] {
        let inputs = inputs(6);
        let leaks = |mut context: Context| {
            let inputs = inputs[context.role()].clone();
            Box::pin(async move {
                let labels = inputs[0].labels.clone();
                let sum = labels.map(|share| vec![share.iter().fold(Bits::default(), |sum, &x| sum.add(x))]);
                let told = open(&context, if parity { &sum } else { &labels }).await;
                context.enter(Stage::Input);
                told
            }) as Part<'_, Vec<Bits>>
        };
        let told = views(KEYS, Tape::default(), leaks).1.results[0]
            .iter()
            .map(|word| word.0.count_ones())
            .sum::<u32>();
        assert_eq!(told, if parity { 2 } else { 6 });
        assert!(constant_bits(Tape::default(), &[], leaks) >= 3 * 64, "parity: {parity}");
    }
}

/// How often two copies of one row, whose neighbours are the same, have a mark at one place, over their
/// permutations; and chi^2 a degree of freedom of the places of all marks.
fn marks(tape: Tape) -> (f64, f64) {
    const ATTEMPTS: usize = 120;
    let (_, run) = views(KEYS, Tape::default(), whole(6));
    let round = opening_rounds(&run)[1] as usize;
    let opened: Vec<Vec<u64>> = (0..ATTEMPTS)
        .into_par_iter()
        .map(|attempt| {
            let keys = [[attempt as u8; 32], [attempt as u8 + 100; 32], [7; 32]];
            // Three shares of each word: two that a party has, and one that it gets.
            let (views, run) = views(keys, tape, whole(6));
            drop(run);
            let own = |party: usize| {
                let bytes = &views[(party + 1) % 3][round][Side::Before as usize];
                bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8"))).collect()
            };
            let shares: [Vec<u64>; 3] = [own(0), own(1), own(2)];
            (0..shares[0].len()).map(|at| shares[0][at] ^ shares[1][at] ^ shares[2][at]).collect()
        })
        .collect();
    let mut together = 0;
    let mut places = [0f64; POINTS];
    for marks in &opened {
        assert!(marks.len() == POINTS && marks.iter().all(|row| row.count_ones() == 3));
        // Rows 10 and 12 have the three nearest 0, 2 and 4.
        together += (marks[10] & marks[12]).count_ones();
        for row in marks {
            (0..POINTS).for_each(|place| places[place] += (row >> place & 1) as f64);
        }
    }
    let expected = (3 * ATTEMPTS) as f64;
    let chi = places.iter().map(|found| (found - expected).powi(2) / expected).sum::<f64>();
    (f64::from(together) / ATTEMPTS as f64, chi / (POINTS - 1) as f64)
}

#[test]
fn marks_lie_in_uniform_places_and_one_permutation_for_all_rows_is_found() {
    // Two rows of three marks among 24 share 9 / 24 of a mark on the mean, with a standard error of 0.05.
    let (together, chi) = marks(Tape::default());
    assert!((together - 0.375).abs() < 0.25, "{together}");
    assert!(chi < 2.5, "{chi}");
    let (together, _) = marks(Tape { one_permutation: true, ..Tape::default() });
    assert!(together > 2.9, "{together}");
}

#[test]
fn what_is_seen_of_two_inputs_is_as_long_in_every_round() {
    let lengths = |labelled| {
        let (views, _) = views(KEYS, Tape::default(), whole(labelled));
        views.map(|view| view.into_iter().map(|round| round.map(|bytes| bytes.len())).collect::<Vec<_>>())
    };
    assert_eq!(lengths(0), lengths(POINTS));
}

#[test]
fn shares_of_one_attempt_and_those_of_the_next_have_no_word_in_common() {
    // A restart has other keys and another context, and owners draw other seeds.
    let program = whole(6);
    let first = views(KEYS, Tape::default(), &program).0;
    let keys = |context: &[u8]| Keys::new([1; 32], [2; 32], context);
    let mask = |context: &[u8]| {
        let mut party = Context::new(super::super::round::Line::default(), keys(context), 0);
        party.enter(Stage::Distances);
        let mut words = vec![0u64; 8];
        party.step().mask(&mut words);
        words
    };
    let (one, two) = (mask(b"session, view 1"), mask(b"session, view 2"));
    assert!(one.iter().all(|word| !two.contains(word)));
    let other = views([[4; 32], [5; 32], [6; 32]], Tape::default(), &program).0;
    for (first, other) in first.iter().zip(&other) {
        // The first round has the hashes of what owners announced.
        for (first, other) in first.iter().zip(other).skip(1) {
            for (first, other) in first.iter().zip(other) {
                let pairs = first.chunks_exact(8).zip(other.chunks_exact(8));
                assert!(pairs.into_iter().all(|(a, b)| a != b));
            }
        }
    }
}
