//! Tests that the parties receive only uniform data, and that these tests find planted bugs
//! (`tests/security/xclp-audit.md`).
//!
//! *Fresh masks.* A party's tape is its two keys and its inputs. The program is run again, and the key
//! that the party does not have is replaced from some round on. The data before that round stay the same;
//! only masks that are drawn from then on differ. Then every word that the party gets in that round must
//! differ. A word that is sent without a fresh mask stays the same, and so does a word whose mask the
//! party knows.

mod cells;
mod proofs;
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

/// Planted bug, or the round from which the third key changes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shares) struct Tape {
    /// The stream with this label is known to every party: a mask that hides nothing.
    pub(in crate::shares) known: Option<[u8; 10]>,
    /// From this round on, the key of this number is replaced.
    pub(in crate::shares) changed: Option<(u32, usize, u8)>,
    /// All rows get the same permutation.
    pub(in crate::shares) one_permutation: bool,
    /// The last lane of each mask of bits is 0.
    pub(in crate::shares) bare_lane: bool,
    /// The last lane of each mask of bits is 1 with probability 1/8.
    pub(in crate::shares) biased_lane: bool,
    /// With these keys, labels of streams have no stage and chunk, so steps are numbered again from the
    /// start in each of them.
    pub(in crate::shares) forgetful: Option<[[u8; 32]; 3]>,
}

/// Tape at one party.
#[derive(Clone, Copy, Default)]
pub(in crate::shares) struct Taped {
    pub(in crate::shares) tape: Tape,
    pub(in crate::shares) party: usize,
}

impl Taped {
    /// Returns the stream that replaces the one with a key of this party, if the tape changes it.
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

    /// Removes the mask of the last lane of bits, or most of it.
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

/// Returns whether a stream draws permutations, which change the order of words and mask nothing.
fn permutes(label: &[u8]) -> bool {
    label.first() == Some(&(Stage::Compaction as u8)) && label[6..] == 1u32.to_le_bytes()
}

// With this number of points, bytes of packed words are whole and some lanes are unused.
const POINTS: usize = 24;
const CLASSES: usize = 2;
// Above 64, so that a lookup has two parts.
const BITS: u32 = 128;

pub(in crate::shares) fn plan() -> Plan {
    plan_of(POINTS)
}

/// Returns the plan of a computation with this number of points.
pub(in crate::shares) fn plan_of(points: usize) -> Plan {
    let settings = Settings { k: 3, bits: BITS, alpha: 0.1, steps: 3, power: 1, balance: true };
    Plan::new(points, CLASSES, settings).expect("fits")
}

/// Returns the shares of one owner, from fixed seeds: two clusters, each with copies of one row;
/// `labelled` points have a label.
pub(in crate::shares) fn inputs(labelled: usize) -> [Vec<Inputs>; 3] {
    inputs_of(POINTS, labelled)
}

/// Returns the same for this number of points.
pub(in crate::shares) fn inputs_of(points: usize, labelled: usize) -> [Vec<Inputs>; 3] {
    let centres = words(2, 64, 5);
    let codes: Vec<u64> = (0..points).map(|i| centres[i % 2]).collect();
    let labels: Vec<_> = (0..points).map(|i| (i < labelled).then_some((i % 2) as u16)).collect();
    owners(&[points], &codes, &labels)
}

/// Returns shares of owners with these numbers of rows, from fixed seeds. Each half of a code is the given
/// word.
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

/// Returns shares of the same points for two owners that share parts of distances. For pairs of points
/// of both owners, the parts of the first owner are drawn.
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

/// Data that each party gets: for each round, the messages from before and from after.
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

/// Ends a program after some rounds, at any point of its work.
fn until<'a, T: 'a>(mut part: Part<'a, T>, rounds: u32) -> Part<'a, ()> {
    let mut left = rounds + 2;
    Box::pin(std::future::poll_fn(move |wakeup| {
        left -= 1;
        if part.as_mut().poll(wakeup).is_ready() || left == 0 { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// Returns which parties get words without a fresh mask in this round. The first three entries are
/// parties 0, 1 and 2 with words from before, the others with words from after.
fn stale(round: u32, tape: Tape, program: impl Fn(Context) -> Part<'static, Outcome>) -> [bool; 6] {
    let seen = |tape| views(KEYS, tape, |context| until(program(context), round)).0;
    let first = seen(tape);
    let mut found = [false; 6];
    for (party, first) in first.iter().enumerate() {
        // One finding is enough for a planted bug.
        if tape.known.is_some() && found.contains(&true) {
            break;
        }
        let again = &seen(Tape { changed: Some((round, (party + 2) % 3, 1)), ..tape })[party];
        for side in [Side::Before, Side::After] {
            let of = |views: &[[Vec<u8>; 2]]| views[round as usize][side as usize].clone();
            let (one, two) = (of(first), of(again));
            assert_eq!(one.len(), two.len());
            // Eight equal bytes have a probability of 2^-64.
            found[3 * side as usize + party] =
                one.chunks_exact(8).zip(two.chunks_exact(8)).any(|(a, b)| a == b);
        }
    }
    found
}

/// Returns the rounds that reveal data: hashes of the owners' announcements, and the marks of the k
/// nearest.
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
    // One neighbour gets the share itself, the other its hash.
    assert_eq!(found, openings.map(|round| (round, [true; 6])));
}

#[test]
fn a_mask_that_is_missing_at_any_place_is_found() {
    let (_, run) = views(KEYS, Tape::default(), whole(6));
    let openings = opening_rounds(&run);
    // Thirds run the same code with rotated roles. One of them is enough, unless FLYSWARM_AUDIT=all.
    let all = std::env::var("FLYSWARM_AUDIT").is_ok_and(|which| which == "all");
    // Permutations mask nothing by themselves, and have their own test.
    let labels: Vec<([u8; 10], u32)> =
        run.drawn.into_iter().filter(|(label, _)| (all || label[1] == 0) && !permutes(&label[..])).collect();
    assert!(labels.len() > 200, "{} streams", labels.len());
    println!("{} places, tested one after the other without their mask", labels.len());
    let missed: Vec<_> = labels
        .par_iter()
        .filter(|(label, round)| {
            let tape = Tape { known: Some(*label), ..Tape::default() };
            *round == openings[1] || !stale(*round, tape, whole(6)).contains(&true)
        })
        .collect();
    assert!(
        missed.is_empty(),
        "of {} streams these hide nothing, and no test notices: {missed:?}",
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
    // The first data that leave after the distances are their bits.
    let first = run.drawn.iter().filter(|(label, _)| label[0] == Stage::Keys as u8 && label[1] == 0);
    let first: Vec<_> = first.collect();
    assert!(first.len() > 5, "{} streams", first.len());
    let missed = first.par_iter().filter(|(label, round)| {
        !stale(**round, Tape { known: Some(**label), ..Tape::default() }, whole()).contains(&true)
    });
    assert_eq!(missed.count(), 0);
    assert_eq!(constant_bits(Tape::default(), &shown, whole()), 0);
}

/// Returns the number of bits that a party gets and that are the same for 36 third keys. Skips the rounds
/// in `skip`.
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
    assert!(constant_bits(tape, shown, whole(6)) > 100, "a padding lane has no mask");
    // The leak is labels in clear, or the parity of the number of labels of a class.
    for parity in [false, true] {
        let inputs = inputs(6);
        let leaks = |mut context: Context| {
            let inputs = inputs[context.role()].clone();
            Box::pin(async move {
                let labels = inputs[0].labels.clone();
                let sum = labels.map(|share| vec![share.iter().fold(Bits::default(), |sum, &x| sum.add(x))]);
                let told = open(&context, if parity { &sum } else { &labels }).await.expect("equal copies");
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

/// Returns two figures. The first is the mean number of places, over the permutations, where two copies of
/// one row both have a mark; their neighbours are the same. The second is chi^2 per degree of freedom of
/// the places of all marks.
fn marks(tape: Tape) -> (f64, f64) {
    const ATTEMPTS: usize = 120;
    let (_, run) = views(KEYS, Tape::default(), whole(6));
    let round = opening_rounds(&run)[1] as usize;
    let opened: Vec<Vec<u64>> = (0..ATTEMPTS)
        .into_par_iter()
        .map(|attempt| {
            let keys = [[attempt as u8; 32], [attempt as u8 + 100; 32], [7; 32]];
            // Each word has three shares: the party has two of them, and gets the third.
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
        // Rows 10 and 12 have the same three nearest points: 0, 2 and 4.
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
    // Two rows of three marks among 24 share 9 / 24 of a mark on average, with a standard error of 0.05.
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
    // A restart has new keys and a new context, and owners draw new seeds.
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
        // The first round has the hashes of the owners' announcements.
        for (first, other) in first.iter().zip(other).skip(1) {
            for (first, other) in first.iter().zip(other) {
                let pairs = first.chunks_exact(8).zip(other.chunks_exact(8));
                assert!(pairs.into_iter().all(|(a, b)| a != b));
            }
        }
    }
}
