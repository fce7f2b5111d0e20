use proptest::prelude::*;

use super::super::bits::{Adder, a2b, add, b2a, lanes, planes, sign, transpose, words as width};
use super::super::lookup::lookup;
use super::super::memory::{in_memory, watched};
use super::super::primitives::{deal, in_thirds, multiply, open, reshare, thirds};
use super::super::shuffle::{shuffle, unshuffle};
use super::super::truncate::truncate;
use super::super::{Bits, Context, Shared, Xor};
use super::{opened, share, words};

/// Runs a program on shares of `values`.
macro_rules! on_shares {
    ($seed:expr, $values:expr, |$context:ident, $x:ident| $body:expr) => {{
        let held = share($values, $seed);
        in_memory($seed, |mut $context: Context| {
            let $x = held[$context.role()].clone();
            Box::pin(async move {
                let $context = &mut $context;
                $body
            })
        })
    }};
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_product_is_that_of_the_plain_words(count in 0usize..300, seed: u8) {
        let (x, y) = (words(count, 64, seed), words(count, 64, seed.wrapping_add(1)));
        let expected: Vec<u64> = x.iter().zip(&y).map(|(a, b)| a.wrapping_mul(*b)).collect();
        let run = on_shares!(seed, &[x.clone(), y.clone()].concat(), |context, both| {
            multiply(context, &both.slice(0..count), &both.slice(count..2 * count)).await
        });
        prop_assert_eq!(opened(&run.results), expected);
        prop_assert_eq!((run.rounds, run.sent), (1, [8 * count as u64; 3]));
        let small = |x: &[u64]| x.iter().map(|&x| x as u16).collect::<Vec<u16>>();
        let (x, y) = (small(&x), small(&y));
        let run = on_shares!(seed, &[x.clone(), y.clone()].concat(), |context, both| {
            multiply(context, &both.slice(0..count), &both.slice(count..2 * count)).await
        });
        let expected: Vec<u16> = x.iter().zip(&y).map(|(a, b)| a.wrapping_mul(*b)).collect();
        prop_assert_eq!(opened(&run.results), expected);
    }

    #[test]
    fn what_is_opened_is_what_was_shared_at_every_party(count in 0usize..200, seed: u8) {
        let x = words(count, 64, seed);
        let run = on_shares!(seed, &x, |context, held| open(context, &held).await.expect("equal copies"));
        prop_assert!(run.results.iter().all(|found| *found == x));
    }

    #[test]
    fn dealt_values_are_shared_whoever_deals(
        count in 0usize..200, dealer in 0usize..3, turn in 0usize..3, seed: u8,
    ) {
        let x = words(count, 64, seed);
        let run = in_memory(seed, |context: Context| {
            let x = x.clone();
            Box::pin(async move {
                let mut context = context.split(turn);
                let value = (context.role() == dealer).then_some(&x[..]);
                let dealt = deal(&mut context, dealer, count, value);
                context.round().await;
                dealt.receive(&context, |_, _| {})
            })
        });
        prop_assert_eq!(opened(&run.results), x);
    }

    #[test]
    fn bits_of_integers_are_their_bits(count in 1usize..200, bits in 1usize..=64, ripple: bool, seed: u8) {
        let x = words(count, 64, seed);
        let adder = if ripple { Adder::Ripple } else { Adder::Sklansky };
        let run = on_shares!(seed, &x, |context, x| Shared::concat(&a2b(context, &x, bits, adder).await));
        let found: Vec<u64> = lanes(&opened(&run.results), bits, count);
        let mask = u64::MAX >> (64 - bits);
        prop_assert_eq!(found, x.iter().map(|x| x & mask).collect::<Vec<_>>());
        // One deal, then one round for every carry, or for every level of the tree.
        let carries = bits as u32 - 1;
        let levels = if carries == 0 { 0 } else { carries.next_power_of_two().ilog2() };
        let rounds = if ripple || carries == 0 { carries } else { 1 + levels };
        prop_assert_eq!(run.rounds, 1 + rounds.max(u32::from(!ripple)));
    }

    #[test]
    fn sums_of_bits_are_sums(count in 1usize..150, bits in 1usize..=40, seed: u8) {
        let (x, y) = (words(count, 64, seed), words(count, 64, seed ^ 1));
        let both: Vec<Bits> = [planes(&x, bits), planes(&y, bits)].concat();
        for adder in [Adder::Ripple, Adder::Sklansky] {
            let run = on_shares!(seed, &both, |context, both| {
                let planes = both.chunks(width(count));
                Shared::concat(&add(context, &planes[..bits], &planes[bits..], adder).await)
            });
            let found: Vec<u64> = lanes(&opened(&run.results), bits, count);
            let mask = u64::MAX >> (64 - bits);
            let expected: Vec<u64> = x.iter().zip(&y).map(|(a, b)| a.wrapping_add(*b) & mask).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_sign_is_1_below_0(count in 1usize..150, bits in 2u32..=62, seed: u8) {
        // Values within the range, including the extremes.
        let mut x: Vec<i64> = words(count, 64, seed).iter().map(|&x| x as i64 >> (64 - bits)).collect();
        x.extend([0, -1, 1, -(1 << (bits - 1)), (1 << (bits - 1)) - 1]);
        let shared: Vec<u64> = x.iter().map(|&x| x as u64).collect();
        let run = on_shares!(seed, &shared, |context, x| sign(context, &x, bits as usize).await);
        let found: Vec<u64> = lanes(&opened(&run.results), 1, x.len());
        prop_assert_eq!(found, x.iter().map(|&x| u64::from(x < 0)).collect::<Vec<_>>());
    }

    #[test]
    fn weighted_bits_become_integers(count in 1usize..150, bits in 1usize..=14, seed: u8) {
        let (x, weights) = (words(count, 64, seed), words(bits, 64, !seed));
        let run = on_shares!(seed, &planes(&x, bits), |context, x| {
            b2a(context, &x.chunks(width(count)), count, [words(bits, 64, !seed).as_slice()]).await
        });
        let value = |x: u64| {
            let set = (0..bits).filter(|bit| x >> bit & 1 == 1);
            set.fold(0u64, |sum, bit| sum.wrapping_add(weights[bit]))
        };
        prop_assert_eq!(opened(&run.results), x.iter().map(|&x| value(x)).collect::<Vec<_>>());
    }

    #[test]
    fn truncation_is_exact_for_every_value_below_2_62(count in 0usize..300, bits in 1u32..=40, seed: u8) {
        let half = 1i64 << (bits - 1);
        let mut x: Vec<i64> = words(count, 64, seed).iter().map(|&x| (x as i64) >> 1).collect();
        let limit = (1i64 << 62) - 1;
        x.extend([0, 1, -1, half, -half, half - 1, -half - 1, 3 * half, -3 * half, limit, -limit]);
        let shared: Vec<u64> = x.iter().map(|&x| x as u64).collect();
        let run = on_shares!(seed, &shared, |context, x| truncate(context, &x, bits).await);
        let found: Vec<i64> = opened(&run.results).into_iter().map(|x| x as i64).collect();
        let expected: Vec<i64> =
            x.iter().map(|&x| ((i128::from(x) + i128::from(half)) >> bits) as i64).collect();
        prop_assert_eq!(found, expected);
        // Deal, generate, the tree, bits to integers, reshare.
        let levels = if bits == 1 { 0 } else { (bits - 1).ilog2() + 1 };
        prop_assert_eq!(run.rounds, 4 + levels);
    }

    #[test]
    fn a_table_gives_its_entries(count in 1usize..200, bits in 1usize..=10, short: bool, seed: u8) {
        let mut table = words(1 << bits, 13, seed);
        table.truncate(table.len() - usize::from(short));
        let index: Vec<u64> = words(count, 64, !seed).iter().map(|x| x >> (64 - bits)).collect();
        let run = on_shares!(seed, &planes(&index, bits), |context, index| {
            let mut table = words(1 << bits, 13, seed);
            table.truncate(table.len() - usize::from(short));
            lookup(context, &index.chunks(width(count)), count, &table, 13).await
        });
        let entry = |&at: &u64| table.get(at as usize).copied().unwrap_or(0);
        let expected: Vec<u64> = index.iter().map(entry).collect();
        prop_assert_eq!(opened(&run.results), expected);
    }

    #[test]
    fn shuffled_rows_hold_what_they_held_and_come_back(rows in 1usize..9, width in 1usize..80, seed: u8) {
        let x = words(rows * width, 64, seed);
        let small: Vec<Xor<u16>> = x.iter().map(|&x| Xor(x as u16 & 0x1fff)).collect();
        let run = on_shares!(seed, &x, |context, x| {
            let (shuffled, secrets) = shuffle(context, x, width, 64).await;
            let back = unshuffle(context, shuffled.clone(), &secrets, 64, None).await;
            (shuffled, back)
        });
        prop_assert_eq!(run.rounds, 6);
        prop_assert_eq!(opened(&run.results.each_ref().map(|run| run.1.clone())), x.clone());
        let shuffled = opened(&run.results.map(|run| run.0));
        for (before, after) in x.chunks(width).zip(shuffled.chunks(width)) {
            let sorted = |row: &[u64]| { let mut row = row.to_vec(); row.sort_unstable(); row };
            prop_assert_eq!(sorted(before), sorted(after));
        }
        let run = on_shares!(seed, &small, |context, x| {
            let (shuffled, secrets) = shuffle(context, x, width, 13).await;
            unshuffle(context, shuffled, &secrets, 13, None).await
        });
        prop_assert_eq!(opened(&run.results), small);
        // 13 bits a word: two messages for each of the six hops.
        let message = (13 * rows * width).div_ceil(8) as u64;
        prop_assert_eq!(run.sent, [4 * message; 3]);
    }
}

#[test]
fn rows_are_permuted_each_by_its_own_permutation() {
    let x: Vec<u64> = (0..50u64).flat_map(|_| 0..64).collect();
    let run = on_shares!(9, &x, |context, x| shuffle(context, x, 64, 64).await.0);
    let mut rows: Vec<_> = opened(&run.results).chunks(64).map(<[u64]>::to_vec).collect();
    rows.sort();
    rows.dedup();
    assert_eq!(rows.len(), 50, "of 64! permutations, no two are equal");
    assert!(rows.iter().all(|row| *row != (0..64).collect::<Vec<u64>>()));
}

#[test]
fn thirds_are_ranges_of_whole_units() {
    assert!(thirds(0, 64).is_empty());
    assert_eq!(thirds(10, 64).first(), Some(&(0..10)));
    assert_eq!(thirds(200, 64), [0..128, 128..200]);
    assert_eq!(thirds(10, 1), [0..4, 4..8, 8..10]);
    for items in 0..500 {
        let ranges = thirds(items, 64);
        assert!(ranges.len() <= 3 && ranges.iter().all(|range| range.start % 64 == 0 && !range.is_empty()));
        assert_eq!(ranges.into_iter().flatten().count(), items);
    }
}

#[test]
fn transposing_moves_every_bit() {
    let mut block: [u64; 64] = std::array::from_fn(|row| words(1, 64, row as u8)[0]);
    let before = block;
    transpose(&mut block);
    for (row, word) in block.iter().enumerate() {
        for (column, other) in before.iter().enumerate() {
            assert_eq!(word >> column & 1, other >> row & 1);
        }
    }
}

#[test]
fn parts_side_by_side_share_rounds_and_load_all_parties_alike() {
    let x = words(3 * 640, 64, 1);
    let run = on_shares!(2, &x, |context, x| {
        let x = &x;
        let thirds = in_thirds(context, x.len(), 64, |mut context, range| {
            let x = x.slice(range);
            Box::pin(async move { Shared::concat(&a2b(&mut context, &x, 13, Adder::Ripple).await) })
        });
        thirds.await
    });
    assert_eq!(run.rounds, 13);
    assert_eq!(run.sent[0], run.sent[1]);
    assert_eq!(run.sent[1], run.sent[2]);
    for third in 0..3 {
        let held = run.results.each_ref().map(|parts| parts[third].clone());
        let found: Vec<u64> = lanes(&opened(&held), 13, 640);
        let expected: Vec<u64> = x[third * 640..][..640].iter().map(|x| x & 0x1fff).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn every_word_sent_is_masked_also_that_of_lanes_past_the_last() {
    // On zeros, the same program may receive no word that is zero.
    let mut seen = 0;
    let held = share(&vec![0u64; 100], 3);
    watched(
        4,
        |mut context: Context| {
            let x = held[context.role()].clone();
            Box::pin(async move { truncate(&mut context, &x, 31).await })
        },
        |_, _, bytes| {
            for word in bytes.chunks_exact(8) {
                seen += 1;
                assert_ne!(word, [0; 8], "a word of 64 lanes that is 0");
            }
        },
    );
    assert!(seen > 1000, "{seen} words");
}

#[test]
#[should_panic(expected = "drawn a second time")]
fn a_stream_drawn_twice_is_a_bug() {
    in_memory(5, |mut context: Context| {
        Box::pin(async move {
            let step = context.step();
            let _: Vec<u64> = step.draw(super::super::round::Side::Before, 3);
            let _: Vec<u64> = step.draw(super::super::round::Side::Before, 3);
        })
    });
}

#[test]
#[should_panic(expected = "assertion `left == right` failed: round")]
fn a_round_of_another_length_is_noted() {
    in_memory(6, |mut context: Context| {
        Box::pin(async move {
            let len = if context.role() == 1 { 3 } else { 4 };
            reshare(&mut context, vec![0u64; len]).await
        })
    });
}
