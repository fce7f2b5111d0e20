//! Attacks of a review on the check of inputs that work today.

use std::task::{Context as Wakeup, Poll, Waker};

use super::share;
use crate::propagation::integer::reference::Output;
use crate::propagation::integer::{Plan, Settings};
use crate::shares::context::{Context, Keys};
use crate::shares::input::Inputs;
use crate::shares::output::unseal;
use crate::shares::program::{Outcome, run};
use crate::shares::ring::Shared;
use crate::shares::round::{Line, Part, Side};
use flyswarm_sealed_sum::crypto::stream::Stream;

const BITS: usize = 128;
const CLASSES: usize = 3;
const OWNERS: [usize; 3] = [10, 12, 11];
const POINTS: usize = 33;

/// What each party sends in a round, by side.
type Sent = [[Vec<u8>; 2]; 3];

/// Codes and labels of all owners' rows, in words as they are shared.
struct World {
    codes: Vec<u16>,
    labels: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let mut stream = Stream::new(&[5; 32], "world", &[]);
        let codes = (0..POINTS * BITS).map(|_| (stream.next_u32() & 1) as u16).collect();
        let label = |i: usize| u64::from(i / CLASSES % CLASSES == i % CLASSES);
        Self { codes, labels: (0..POINTS * CLASSES).map(label).collect() }
    }

    /// What each party holds of each owner.
    fn inputs(&self) -> [Vec<Inputs>; 3] {
        let (codes, labels) = (share(&self.codes, 40), share(&self.labels, 41));
        std::array::from_fn(|party| {
            let mut at = 0;
            let owner = |rows: &usize| {
                let of = |each: usize| at * each..(at + rows) * each;
                let inputs = Inputs {
                    codes: part(&codes[party], of(BITS)),
                    labels: part(&labels[party], of(CLASSES)),
                    distances: Shared::default(),
                };
                at += rows;
                inputs
            };
            OWNERS.iter().map(owner).collect()
        })
    }
}

fn part<T: Clone>(shared: &Shared<T>, range: std::ops::Range<usize>) -> Shared<T> {
    Shared { own: shared.own[range.clone()].to_vec(), next: shared.next[range].to_vec() }
}

/// Runs the three parties; `change` may alter what they send in a round.
fn computed(inputs: &[Vec<Inputs>; 3], change: impl Fn(u32, &mut Sent)) -> [Outcome; 3] {
    let settings = Settings { k: 3, bits: BITS as u32, alpha: 0.5, steps: 14, power: 1, balance: false };
    let plan = Plan::new(POINTS, CLASSES, settings).unwrap();
    let lines: [Line; 3] = std::array::from_fn(|_| Line::default());
    let mut parties: [Option<Part<'_, Outcome>>; 3] = std::array::from_fn(|party| {
        let keys = Keys::new([party as u8 + 1; 32], [(party as u8 + 1) % 3 + 1; 32], b"hostile");
        let context = Context::new(lines[party].clone(), keys, party);
        Some(Box::pin(run(context, plan, inputs[party].clone())) as Part<'_, Outcome>)
    });
    let mut results = [None, None, None];
    for round in 0.. {
        for party in 0..3 {
            if let Some(running) = &mut parties[party]
                && let Poll::Ready(outcome) = running.as_mut().poll(&mut Wakeup::from_waker(Waker::noop()))
            {
                results[party] = Some(outcome);
                parties[party] = None;
            }
            lines[party].wire().settle();
        }
        if parties.iter().any(Option::is_none) {
            break;
        }
        let mut sent = lines.each_ref().map(|line| line.wire().take());
        change(round, &mut sent);
        for party in 0..3 {
            let before = sent[(party + 2) % 3][Side::After as usize].clone();
            let after = sent[(party + 1) % 3][Side::Before as usize].clone();
            lines[party].wire().turn([before, after]);
        }
    }
    results.map(|outcome| outcome.expect("all three end together"))
}

/// The owners that each party blames.
fn blamed(outcomes: &[Outcome; 3]) -> Vec<Vec<usize>> {
    let of = |outcome: &Outcome| match outcome {
        Outcome::Cheats(owners) => owners.clone(),
        Outcome::Sealed(_) => Vec::new(),
    };
    outcomes.iter().map(of).collect()
}

/// What owners get.
fn output(outcomes: &[Outcome; 3]) -> Option<Output> {
    let of = |party: usize| match &outcomes[party] {
        Outcome::Sealed(sealed) => sealed.for_owner(party, 0..POINTS),
        Outcome::Cheats(_) => Vec::new(),
    };
    unseal(POINTS, CLASSES, &of(0), &of(1))
}

#[test]
#[ignore = "issue 35: a computing party changes its part of an owner's check, and the owner is blamed"]
fn a_party_frames_no_owner_in_the_check() {
    let inputs = World::new().inputs();
    for framed in [vec![1], vec![0, 1]] {
        let outcomes = computed(&inputs, |round, sent| {
            if round == 1 {
                for owner in &framed {
                    sent[2].iter_mut().for_each(|side| side[2 * 40 * owner] ^= 1);
                }
            }
        });
        assert!(
            blamed(&outcomes).concat().is_empty(),
            "owners {framed:?} are honest: {:?}",
            blamed(&outcomes)
        );
    }
}

/// Owner 1, which does not compute, gives two holders different copies of a share.
fn other_copies(what: &str, change: impl Fn(&mut Inputs)) {
    let mut inputs = World::new().inputs();
    let right = output(&computed(&inputs, |_, _| ())).expect("an output");
    change(&mut inputs[0][1]);
    let outcomes = computed(&inputs, |_, _| ());
    if blamed(&outcomes).iter().all(|owners| owners[..] == [1]) {
        return;
    }
    let got =
        output(&outcomes).unwrap_or_else(|| panic!("{what}: no output, and blamed: {:?}", blamed(&outcomes)));
    let same = |row: usize| got.labels[row] == right.labels[row];
    let wrong: Vec<_> = (0..10).chain(22..POINTS).filter(|row| !same(*row)).collect();
    assert!(wrong.is_empty(), "{what}: other owners' rows {wrong:?} have other answers");
}

#[test]
#[ignore = "issue 35: two copies of a share of labels that differ by a power of two spoil other owners' answers"]
fn other_copies_of_labels_are_blamed_or_harmless() {
    other_copies("labels", |inputs| {
        for word in 0..12 * CLASSES {
            let row = &inputs.labels.own[word / CLASSES * CLASSES..][..CLASSES];
            let sum = row.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
            let zeros = row[word % CLASSES].trailing_zeros().min(sum.trailing_zeros());
            if zeros >= 2 {
                let next = &mut inputs.labels.next[word];
                *next = next.wrapping_add(1 << (63 - zeros.min(63)));
                return;
            }
        }
        panic!("no word of this tape fits");
    });
}

#[test]
#[ignore = "issue 35: two copies of a share of codes that differ by powers of two spoil other owners' answers"]
fn other_copies_of_codes_are_blamed_or_harmless() {
    other_copies("codes", |inputs| {
        for (own, next) in inputs.codes.own.iter().zip(&mut inputs.codes.next) {
            let zeros = own.trailing_zeros().min(15);
            if zeros >= 9 {
                *next = next.wrapping_add(1 << (15 - zeros));
            }
        }
    });
}

#[test]
#[ignore = "issue 35: an owner that computes chooses its part of the check last, so that its own sums are zero"]
fn an_owner_that_computes_is_blamed_for_its_input() {
    let mut world = World::new();
    for row in 22..POINTS {
        world.codes[row * BITS + 3] = world.codes[row * BITS + 3].wrapping_sub(1 << 6);
    }
    world.labels[22 * CLASSES] = 1 << 20;
    let inputs = world.inputs();
    let honest = computed(&inputs, |_, _| ());
    assert!(blamed(&honest).iter().all(|owners| owners[..] == [2]), "the check works: {:?}", blamed(&honest));
    // Party 2 waits for the others' parts. Sums of owner 2 are words 80 to 120, first of u16, then of u64.
    let outcomes = computed(&inputs, |round, sent| {
        if round != 1 {
            return;
        }
        let minus = |one: &[u8], two: &[u8], at: std::ops::Range<usize>| {
            let word =
                |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            let sum = word(&one[at.clone()]).wrapping_add(word(&two[at.clone()]));
            0u64.wrapping_sub(sum).to_le_bytes()[..at.len()].to_vec()
        };
        let own = sent[2][0].clone();
        let mut chosen = own.clone();
        // What party 2 itself is to believe: the others' parts as they would have to be.
        let mut believed = sent[0][0].clone();
        let words = (80..120).map(|i| 2 * i..2 * i + 2).chain((80..120).map(|i| 240 + 8 * i..248 + 8 * i));
        for at in words {
            chosen[at.clone()].copy_from_slice(&minus(&sent[0][0], &sent[1][0], at.clone()));
            believed[at.clone()].copy_from_slice(&minus(&own, &sent[1][1], at));
        }
        sent[0][0] = believed;
        sent[2] = [chosen.clone(), chosen];
    });
    let honest: Vec<_> = blamed(&outcomes)[..2].to_vec();
    assert!(honest.iter().all(|owners| owners[..] == [2]), "{honest:?}");
}
