//! Attacks from a review, on the input that owners share.

use zeroize::Zeroizing;

use crate::propagation::integer::reference::Output;
use crate::propagation::integer::{Plan, Settings};
use crate::shares::accounts::judge;
use crate::shares::context::Keys;
use crate::shares::input::{Announced, Inputs, parcels, unpack};
use crate::shares::memory::{Ended, Sent, until_one_ends};
use crate::shares::output::unseal;
use crate::shares::program::{Outcome, boxed};
use crate::shares::round::Side;
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;

const BITS: usize = 128;
const CLASSES: usize = 3;
const OWNERS: [usize; 3] = [10, 12, 11];
const POINTS: usize = 33;

/// Parcels of all owners, by owner and party.
type Parcels = [[Zeroizing<Vec<u8>>; 3]; 3];

fn parcels_of_all() -> Parcels {
    let mut stream = Stream::new(&[5; 32], "world", &[]);
    let mut word = || u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32());
    let mut row = 0;
    std::array::from_fn(|place| {
        let words = (0..OWNERS[place] * BITS / 64).map(|_| word()).collect();
        let labels: Vec<_> = (row..row + OWNERS[place]).map(|row| Some((row % CLASSES) as u16)).collect();
        row += OWNERS[place];
        let seeds = [40, 50, 60].map(|seed| Zeroizing::new([seed + place as u8; 32]));
        parcels(&Codes::from_words(BITS, words).unwrap(), &labels, CLASSES, place, &seeds)
    })
}

/// Returns the shares of each owner at each party. `said` returns the announcement that an owner makes
/// to a party.
fn inputs(parcels: &Parcels, said: impl Fn(usize, usize) -> Announced) -> [Vec<Inputs>; 3] {
    std::array::from_fn(|party| {
        let owner = |owner: usize| {
            let parcel = &parcels[owner][party];
            unpack(parcel, party, &said(owner, party), OWNERS[owner], BITS, CLASSES).unwrap()
        };
        (0..3).map(owner).collect()
    })
}

fn honest(parcels: &Parcels) -> [Vec<Inputs>; 3] {
    inputs(parcels, |owner, _| Announced::of([0; 32], &parcels[owner]))
}

/// Runs the three parties. `change` may change their messages in a round.
fn computed(inputs: &[Vec<Inputs>; 3], change: impl Fn(u32, &mut Sent)) -> [Option<Outcome>; 3] {
    computed_by(inputs, false, change).results
}

/// Runs the three parties with proofs or without. `change` may change their messages in a round.
fn computed_by(inputs: &[Vec<Inputs>; 3], proves: bool, change: impl Fn(u32, &mut Sent)) -> Ended<Outcome> {
    let settings = Settings { k: 3, bits: BITS as u32, alpha: 0.5, steps: 14, power: 1, balance: false };
    let plan = Plan::new(POINTS, CLASSES, settings).unwrap();
    let keys = |party: u8| Keys::new([party + 1; 32], [(party + 1) % 3 + 1; 32], b"hostile");
    until_one_ends(
        [keys(0), keys(1), keys(2)],
        |context| {
            let inputs = inputs[context.role()].clone();
            boxed(context, plan, inputs, proves)
        },
        change,
    )
}

/// Returns the owners that each party blames.
fn blamed(outcomes: &[Option<Outcome>; 3]) -> Vec<Vec<usize>> {
    let of = |outcome: &Option<Outcome>| match outcome {
        Some(Outcome::Cheats(owners)) => owners.clone(),
        _ => Vec::new(),
    };
    outcomes.iter().map(of).collect()
}

/// Returns the output of the owners.
fn output(outcomes: &[Option<Outcome>; 3]) -> Option<Output> {
    let of = |party: usize| match &outcomes[party] {
        Some(Outcome::Sealed(sealed)) => sealed.for_owner(party, 0..POINTS),
        _ => Vec::new(),
    };
    unseal(POINTS, CLASSES, &of(0), &of(1))
}

#[test]
fn a_party_frames_no_owner_in_the_check() {
    let inputs = honest(&parcels_of_all());
    // Changes the comparison in round 0 and the conversion to integers in rounds 3 and 4, each at the
    // places of some owners.
    for (round, width) in [(0, 32), (3, 2 * 40), (4, 2 * 40)] {
        for framed in [vec![1], vec![0, 1]] {
            let outcomes = computed(&inputs, |at, sent| {
                if at == round {
                    for owner in &framed {
                        sent[2]
                            .iter_mut()
                            .filter(|side| !side.is_empty())
                            .for_each(|side| side[width * owner] ^= 1);
                    }
                }
            });
            assert!(
                blamed(&outcomes).concat().is_empty(),
                "round {round}, owners {framed:?} are honest: {:?}",
                blamed(&outcomes)
            );
            if round == 0 {
                let [zero, one, _] = &outcomes;
                assert_eq!(
                    (zero, one),
                    (&Some(Outcome::Alone(Side::Before)), &Some(Outcome::Alone(Side::After)))
                );
            }
        }
    }
}

/// Owner 1, which does not compute, gives party 0 a different copy of share 1 than party 1. Nothing is
/// computed, and party 0 knows the cheater. It does not matter whether the owner announces one copy to
/// all parties, or to each party that party's copy.
fn other_copies(change: impl Fn(&mut [u8])) {
    let parcels = parcels_of_all();
    assert!(output(&computed(&honest(&parcels), |_, _| ())).is_some(), "it works");
    let mut other = parcels.clone();
    let words = 33 + 1 + 32;
    assert_eq!(other[1][0][33], 1, "the share that is sent as words");
    change(&mut other[1][0][words..]);
    assert!(other[1][0] != parcels[1][0]);
    let said = |of: &Parcels, owner: usize| Announced::of([0; 32], &of[owner]);
    // Share 1 comes first in the parcel of party 1.
    let mut both = other.clone();
    both[1][1] = Zeroizing::new([&other[1][0][33..], &parcels[1][1][parcels[1][1].len() - 33..]].concat());
    let ways: [Box<dyn Fn(usize, usize) -> Announced>; 2] = [
        Box::new(|owner, _| said(&parcels, owner)),
        Box::new(|owner, party| said(if party == 0 { &both } else { &parcels }, owner)),
    ];
    for way in ways {
        let outcomes = computed(&inputs(&other, way), |_, _| ());
        let alone = |side| Some(Outcome::Alone(side));
        assert_eq!(outcomes, [Some(Outcome::Cheats(vec![1])), alone(Side::Before), alone(Side::After)]);
    }
}

#[test]
fn other_copies_of_labels_are_blamed_or_harmless() {
    other_copies(|words| words[12 * BITS / 8] ^= 1);
}

#[test]
fn other_copies_of_codes_are_blamed_or_harmless() {
    other_copies(|words| words[..12 * BITS / 8].iter_mut().step_by(16).for_each(|byte| *byte ^= 1 << 5));
}

#[test]
fn an_owner_that_computes_and_changes_what_its_bits_become_is_found() {
    // Party 2 is owner 2. Its rows, from 22 on, are the last third of the codes, 64 bytes of 4 words per
    // row. It lowers one bit of each row by 2^6.
    let attack = |first: u32| {
        move |round: u32, sent: &mut Sent| {
            if round == first {
                let third = 2 * 11 * BITS;
                for row in 0..11 {
                    let at = 2 * third + 2 * (row * BITS + 3);
                    let place = sent[2][0][at..].first_chunk_mut::<2>().unwrap();
                    *place = u16::from_le_bytes(*place).wrapping_sub(1 << 6).to_le_bytes();
                }
            }
        }
    };
    // Two rounds choose one label of each row. Then come a deal and the reshare.
    let inputs = honest(&parcels_of_all());
    let ended = computed_by(&inputs, true, attack(4));
    let places = ended.results.map(|outcome| match outcome {
        Some(Outcome::Fails(place)) => place,
        other => panic!("{other:?}"),
    });
    // Party 2 holds a message that differs from the one that it has sent to party 1. So party 1 shows a
    // last message that party 2 calls wrong.
    assert_eq!(judge(ended.accounts.each_ref().map(|of| &of[&places[0]])), Some([2, 1]));
    assert_eq!(places, [places[0]; 3]);
    // Without proofs the parties do not notice the change.
    assert!(output(&computed(&inputs, attack(4))).is_some());
}
