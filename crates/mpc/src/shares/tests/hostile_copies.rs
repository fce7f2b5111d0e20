//! Attack from a review: an owner with place 1, which is also party 1, gives two different copies of
//! its share to the two parties that hold it. In the computation it follows the protocol. In the past,
//! it saw the others' shares before it made its own, and each of its invented rows read one bit of the
//! code of another owner's row.

use zeroize::Zeroizing;

use crate::propagation::integer::{Plan, Settings, enough_steps};
use crate::shares::input::{Announced, Inputs, parcel_bytes, parcels, unpack};
use crate::shares::memory::in_memory;
use crate::shares::program::{Outcome, run};
use crate::shares::round::Side;
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;

const BITS: usize = 4096;
const CLASSES: usize = 3;
/// Number of rows of each owner. The attacker is owner 1 and party 1.
const OWNERS: [usize; 3] = [30, 40, 30];

/// Returns codes around three centres.
fn codes() -> Codes {
    let mut stream = Stream::new(&[1; 32], "review", &[]);
    let mut word = || u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32());
    let centres: Vec<Vec<u64>> = (0..3).map(|_| (0..BITS / 64).map(|_| word()).collect()).collect();
    let points: usize = OWNERS.iter().sum();
    let near = |i: usize| centres[i % 3].iter().map(|centre| centre ^ (word() & word())).collect::<Vec<_>>();
    Codes::from_words(BITS, (0..points).flat_map(near).collect()).unwrap()
}

#[test]
fn two_copies_of_a_share_read_no_foreign_bit() {
    let codes = codes();
    let points: usize = OWNERS.iter().sum();
    let ranges = [0..30, 30..70, 70..points];
    let made: [[Zeroizing<Vec<u8>>; 3]; 3] = std::array::from_fn(|place| {
        let rows: Vec<usize> = ranges[place].clone().collect();
        let labels: Vec<_> = rows.iter().map(|&i| (i % 4 == 0).then_some((i % 3) as u16)).collect();
        let seeds = [10, 20, 30].map(|seed| Zeroizing::new([seed + place as u8; 32]));
        parcels(&codes.select(&rows), &labels, CLASSES, place, &seeds)
    });
    // The announcement fixes the attacker's input before it sees data of others. Here its other copy
    // differs in one bit per row, each in a different column.
    let mut other = made[1].clone();
    for row in 0..OWNERS[1] {
        other[0][33 + 33 + row * BITS / 8 + (100 * row % BITS) / 8] ^= 1;
    }
    let share = other[0][33..].to_vec();
    let mut both = other.clone();
    let rest = both[1].split_off(share.len());
    both[1] = Zeroizing::new([share, rest.to_vec()].concat());
    let [mine, theirs] = [&made[1], &both].map(|parcels| Announced::of([1; 32], parcels));
    let alpha = 0.99;
    let steps = enough_steps(alpha);
    let settings = Settings { k: 10, bits: BITS as u32, alpha, steps, power: 1, balance: false };
    let plan = Plan::new(points, CLASSES, settings).unwrap();
    // Announcements to party 0, to itself and to party 2.
    for said in [[mine; 3], [theirs; 3], [theirs, mine, mine], [theirs, mine, theirs]] {
        let held: [Vec<Inputs>; 3] = std::array::from_fn(|party| {
            let owner = |place: usize| {
                let parcel = if (place, party) == (1, 0) { &other[0] } else { &made[place][party] };
                let announced = if place == 1 { said[party] } else { Announced::of([0; 32], &made[place]) };
                assert_eq!(parcel.len(), parcel_bytes(OWNERS[place], BITS / 8, CLASSES, place, party));
                unpack(parcel, party, &announced, OWNERS[place], BITS, CLASSES).unwrap()
            };
            (0..3).map(owner).collect()
        });
        let ended = in_memory(1, |context| {
            let inputs = held[context.role()].clone();
            Box::pin(run(context, plan, inputs))
        });
        assert_eq!(ended.rounds, 1, "nothing is computed");
        let [zero, one, two] = &ended.results;
        // Neither of the two honest parties continues, and a party that blames the owner has seen the
        // difference itself.
        let cheats = Outcome::Cheats(vec![1]);
        assert!(*zero == cheats || *one == cheats, "{zero:?} {one:?}");
        assert!(!matches!((zero, two), (Outcome::Sealed(_), _) | (_, Outcome::Sealed(_))));
        assert!(*two == cheats || matches!(two, Outcome::Alone(Side::Before | Side::After)), "{two:?}");
    }
}
