//! Compares each stage with the same stage of the reference.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::balance::weights;
use super::super::bits::words as width;
use super::super::chebyshev::{Graph, propagate};
use super::super::distances::{added, hamming, keys};
use super::super::input::{
    Announced, Copies, Inputs, compare, input_bytes, integers, parcels, parcels_of_distances, unpack,
    unpack_distances,
};
use super::super::memory::in_memory;
use super::super::nearest::nearest;
use super::super::newton::reciprocals;
use super::super::output::{Sealed, seal, unseal};
use super::super::round::Side;
use super::super::{Bits, Context, Shared, Xor};
use super::{opened, share, words};
use crate::propagation::integer::reference::{coarse, inverse, inverse_root};
use crate::propagation::integer::{Plan, RECIPROCAL_BITS, Settings};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;
use zeroize::Zeroizing;

fn plan(points: usize, classes: usize, k: usize) -> Plan {
    Plan::new(points, classes, Settings { k, bits: 128, alpha: 0.9, steps: 20, power: 1, balance: false })
        .expect("fits")
}

/// Returns bit `lane` of row `row`.
fn bit(bits: &[Bits], row: usize, lane: usize, points: usize) -> bool {
    bits[row * width(points) + lane / 64].0 >> (lane % 64) & 1 == 1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_k_nearest_are_exact_and_ties_go_to_the_lower_index(
        points in 2usize..100, k in 1usize..12, spread in 0u32..5, seed: u8,
    ) {
        // Keys of at most 5 bits are often equal, so there are many ties.
        let k = k.min(points - 1);
        let random = words(points * points, 64, seed);
        let keys = |i: usize, j: usize| random[i.min(j) * points + i.max(j)] & ((1 << spread) - 1);
        let planes: Vec<Bits> = (0..5)
            .rev()
            .flat_map(|plane| {
                let row = move |j: usize| {
                    let lanes: Vec<u64> = (0..points).map(|i| keys(i, j) >> plane & 1).collect();
                    super::super::bits::planes(&lanes, 1)
                };
                (0..points).flat_map(row).collect::<Vec<_>>()
            })
            .collect();
        let held = share(&planes, seed);
        let run = in_memory(seed, |mut context: Context| {
            let planes = held[context.role()].chunks(points * width(points));
            Box::pin(async move { nearest(&mut context, &planes, points, k).await })
        });
        let found = opened(&run.results);
        for i in 0..points {
            let mut others: Vec<usize> = (0..points).filter(|&j| j != i).collect();
            others.sort_by_key(|&j| (keys(i, j), j));
            others.truncate(k);
            others.sort_unstable();
            let chosen: Vec<usize> = (0..points).filter(|&j| bit(&found, j, i, points)).collect();
            prop_assert_eq!(chosen, others, "point {}", i);
        }
        let lanes = width(points) * 64;
        let past = (points..lanes).any(|lane| (0..points).any(|j| bit(&found, j, lane, lanes)));
        prop_assert!(!past, "a point past the last one has neighbours");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn distances_and_keys_are_those_of_the_codes(points in 2usize..140, seed: u8) {
        let codes = Codes::from_words(128, words(points * 2, 64, seed)).expect("words");
        let plain: Vec<u16> = (0..points)
            .flat_map(|row| {
                let bits = |&word: &u64| (0..64).map(move |bit| (word >> bit & 1) as u16);
                codes.row(row).iter().flat_map(bits).collect::<Vec<_>>()
            })
            .collect();
        let held = share(&plain, seed);
        let run = in_memory(seed, |mut context: Context| {
            let codes = held[context.role()].clone();
            Box::pin(async move {
                let distances = hamming(&mut context, codes.clone(), 128).await;
                keys(&context, &distances, points, 7).await
            })
        });
        let planes: Vec<Vec<Bits>> =
            (0..7).map(|plane| opened(&run.results.each_ref().map(|planes| planes[plane].clone()))).collect();
        let distances = codes.distances(&codes);
        for (at, h) in distances.into_iter().enumerate() {
            let (i, j) = (at / points, at % points);
            let expected = h & 63 | u16::from(h >= 64) << 6;
            let found = planes.iter().fold(0, |key, plane| key << 1 | u16::from(bit(plane, i, j, points)));
            prop_assert_eq!(found, expected);
        }
        // The product, the deal, seven carries and the or.
        prop_assert_eq!(run.rounds, 10);
    }

    #[test]
    fn parts_of_owners_add_up_to_the_distances_of_all_pairs(
        owners in prop::collection::vec(1usize..70, 1..4), seed: u8,
    ) {
        let points: usize = owners.iter().sum();
        let codes = Codes::from_words(128, words(points * 2, 64, seed)).expect("words");
        let distances = codes.distances(&codes);
        let owner: Vec<usize> =
            owners.iter().enumerate().flat_map(|(owner, &rows)| vec![owner; rows]).collect();
        // Between two owners, one part is drawn. Entries on and above the diagonal of an owner's own block
        // are arbitrary and must not count.
        let drawn = words(points * points, 16, !seed);
        let mut parts = vec![0u16; points * points];
        for x in 0..points {
            for y in 0..points {
                parts[x * points + y] = match () {
                    () if owner[x] == owner[y] && x > y => distances[x * points + y],
                    () if owner[x] == owner[y] || x < y => drawn[x * points + y] as u16,
                    () => distances[x * points + y].wrapping_sub(drawn[y * points + x] as u16),
                };
            }
        }
        let mut start = 0;
        let mut held: [Vec<Shared<u16>>; 3] = Default::default();
        for (place, &rows) in owners.iter().enumerate() {
            let part = &parts[start * points..(start + rows) * points];
            start += rows;
            let seeds = [seed, place as u8, 7].map(|seed| Zeroizing::new([seed; 32]));
            let parcels = parcels_of_distances(part, &vec![None; rows], 3, place, &seeds);
            let said = Announced::of([1; 32], &parcels);
            for (number, (held, parcel)) in held.iter_mut().zip(&parcels).enumerate() {
                let inputs = unpack_distances(parcel, number, &said, rows, points, 3).expect("a parcel");
                prop_assert!(inputs.view != [0; 32]);
                held.push(inputs.distances);
                prop_assert!(unpack_distances(&parcel[1..], number, &said, rows, points, 3).is_none());
            }
        }
        let found = opened(&held.each_ref().map(|parts| added(parts, points)));
        let blocks = points.div_ceil(64);
        let mut entries = found.chunks(64 * 64);
        for j in 0..blocks {
            for i in 0..=j {
                let tile = entries.next().expect("a tile");
                for (at, &found) in tile.iter().enumerate() {
                    let (x, y) = (64 * j + at / 64, 64 * i + at % 64);
                    let expected = if x.max(y) < points { distances[x * points + y] } else { 0 };
                    prop_assert_eq!(found, expected, "{} and {}", x, y);
                }
            }
        }
        prop_assert!(entries.next().is_none());
    }

    #[test]
    fn reciprocals_are_those_of_the_reference(count in 2usize..150, seed: u8) {
        let plan = plan(count, 2, 3);
        let largest = plan.largest_degree();
        let mut degrees: Vec<u64> = words(count, 64, seed).iter().map(|x| x % (largest + 1)).collect();
        let extremes = [0, plan.largest_degree(), 256, 1, 257, 511, 512, 4096];
        degrees.iter_mut().zip(extremes).for_each(|(d, extreme)| *d = extreme);
        let held = share(&degrees, seed);
        let run = in_memory(seed, |mut context: Context| {
            let degrees = held[context.role()].clone();
            Box::pin(async move { reciprocals(&mut context, &plan, &degrees, &Shared::default()).await })
        });
        prop_assert!(run.results.iter().all(|found| found.classes.is_none()), "no class has a weight");
        let of = |field: fn(&super::super::newton::Reciprocals) -> &Shared<u64>| {
            opened(&run.results.each_ref().map(|found| field(found).clone()))
        };
        let inverses: Vec<u64> = degrees.iter().map(|&d| inverse(d)).collect();
        prop_assert_eq!(of(|found| &found.inverses), inverses.clone());
        let roots: Vec<u64> = degrees.iter().map(|&d| inverse_root(&plan, d)).collect();
        prop_assert_eq!(of(|found| &found.roots), roots);
        let pairs = degrees.iter().zip(inverses);
        let kept: Vec<u64> = pairs.map(|(d, r)| (1 << RECIPROCAL_BITS) - d * r).collect();
        prop_assert_eq!(of(|found| &found.kept), kept);
    }

    #[test]
    fn weights_of_classes_are_those_of_the_table_for_every_number_of_labels(
        points in 2usize..300, classes in 1usize..70, seed: u8,
    ) {
        let settings = Settings { balance: true, ..*plan(points, classes, 3).settings() };
        let table = Plan::new(points, classes, settings).expect("fits").balance().expect("balanced");
        // The first class has a label at every point, the second no label, the third one label. The
        // others have random numbers of labels, up to the number of points.
        let mut counts: Vec<usize> =
            words(classes, 64, seed).iter().map(|x| *x as usize % (points + 1)).collect();
        counts.iter_mut().zip([points, 0, 1]).for_each(|(count, extreme)| *count = extreme);
        let labels: Vec<u64> =
            (0..points * classes).map(|at| u64::from(at / classes < counts[at % classes])).collect();
        let held = share(&labels, seed);
        let run = in_memory(seed, |mut context: Context| {
            let labels = held[context.role()].clone();
            let table = &table;
            Box::pin(async move { weights(&mut context, table, &labels, classes).await })
        });
        let expected: Vec<u64> = counts.iter().map(|&count| table[count]).collect();
        prop_assert_eq!(opened(&run.results), expected);
        prop_assert!(run.rounds < 30, "the lookup adds no rounds to the reciprocals: {}", run.rounds);
    }

    #[test]
    fn labels_and_coarse_scores_are_those_of_the_reference(
        points in 2usize..80, classes in 1usize..12, seed: u8,
    ) {
        let plan = plan(points, classes, 3);
        let drawn = words(points * classes, 64, seed);
        let mut scores: Vec<i64> = drawn.iter().map(|&x| x as i64 >> 38).collect();
        // The rows are: zeros, numbers below 0, ties, the largest possible value, small numbers.
        let largest = (1i64 << (plan.score_bits() - 2)) - 1;
        for (row, value) in [(0, 0), (1, -5), (2, 7), (3, largest), (4, 1)] {
            scores.iter_mut().skip(row * classes).take(classes).for_each(|score| *score = value);
        }
        let held = share(&scores.iter().map(|&x| x as u64).collect::<Vec<_>>(), seed);
        let run = in_memory(seed, |context: Context| {
            let scores = held[context.role()].clone();
            Box::pin(async move { seal(&context, &plan, &scores).await })
        });
        let part = |party: usize| run.results[party].for_owner(party, 0..points);
        prop_assert_eq!(unseal(points, classes, &part(0), &part(1)), Some(coarse(&scores, classes)));
        prop_assert!(part(2).is_empty());
    }

    #[test]
    fn parcels_of_an_owner_are_shares_of_its_input(
        rows in 0usize..6, place in 0usize..5, classes in 1usize..70, seed: u8,
    ) {
        let codes = Codes::from_words(128, words(rows * 2, 64, seed)).expect("words");
        let label = |row: usize| {
            row.is_multiple_of(2).then_some((7 * row + seed as usize) as u16 % classes as u16)
        };
        let labels: Vec<Option<u16>> = (0..rows).map(label).collect();
        let seeds = [seed, !seed, 9].map(|seed| Zeroizing::new([seed; 32]));
        let parcels = parcels(&codes, &labels, classes, place, &seeds);
        let said = Announced::of([5; 32], &parcels);
        let read = |parcel: &[u8], number: usize, rows: usize| {
            unpack(parcel, number, &said, rows, 128, classes)
        };
        let held: [Inputs; 3] = std::array::from_fn(|number| read(&parcels[number], number, rows).expect("a parcel"));
        prop_assert!(held.iter().all(|inputs| inputs.view == held[0].view && inputs.view != [0; 32]));
        let run = in_memory(seed, |mut context: Context| {
            let Inputs { codes, labels, .. } = held[context.role()].clone();
            Box::pin(async move { integers(&mut context, codes, &labels, classes).await })
        });
        // One round for each level of the tree that chooses one label of a row, a deal, a reshare.
        prop_assert_eq!(run.rounds, if rows == 0 { 0 } else { 2 + classes.next_power_of_two().ilog2() });
        let bit = |at: usize| (codes.row(at / 128)[at % 128 / 64] >> (at % 64) & 1) as u16;
        let bits: Vec<u16> = (0..rows * 128).map(bit).collect();
        prop_assert_eq!(opened(&run.results.each_ref().map(|held| held.0.clone())), bits);
        let hot = |at: usize| u64::from(labels[at / classes] == Some((at % classes) as u16));
        let one_hot: Vec<u64> = (0..rows * classes).map(hot).collect();
        prop_assert_eq!(opened(&run.results.map(|held| held.1)), one_hot);
        // Two parties get words, one gets only seeds.
        let full = 34 + input_bytes(rows, 128 / 8, classes);
        let sizes = std::array::from_fn(|party| if (party + 3 - place % 3) % 3 == 1 { 66 } else { full });
        prop_assert_eq!(parcels.each_ref().map(|parcel| parcel.len()), sizes);
        let whole = &parcels[0];
        prop_assert!(read(&whole[..whole.len() - 1], 0, rows).is_none());
        prop_assert!(read(&[&whole[..], &[0]].concat(), 0, rows).is_none());
        prop_assert!(read(whole, 0, rows + 1).is_none() || whole.len() == 66);
        // A share with one changed byte does not match the announcement.
        for (number, parcel) in parcels.iter().enumerate() {
            for at in [1, parcel.len() - 1] {
                let mut other = parcel.to_vec();
                other[at] ^= 1;
                prop_assert_eq!(read(&other, number, rows).map(|inputs| inputs.view), Some([0; 32]));
            }
        }
    }
}

#[test]
fn propagation_is_that_of_the_reference_whether_classes_are_balanced_or_not() {
    [false, true].into_iter().for_each(propagation);
}

fn propagation(balance: bool) {
    let (points, classes) = (45, 3);
    let settings = Settings { balance, ..*plan(points, classes, 4).settings() };
    let plan = Plan::new(points, classes, settings).expect("fits");
    let mut stream = Stream::new(&[8; 32], "test", &[]);
    let mut distances = vec![0u16; points * points];
    for i in 0..points {
        for j in 0..i {
            let h = 10 + stream.below(50) as u16;
            (distances[i * points + j], distances[j * points + i]) = (h, h);
        }
    }
    let labels: Vec<Option<u16>> = (0..points).map(|i| (i % 4 == 0).then_some(i as u16 % 3)).collect();
    let reference =
        crate::propagation::integer::reference::Reference::from_distances(&plan, &distances, &labels);
    let mut edges = vec![0u64; points * points];
    for (at, (&to, &weight)) in reference.neighbours.iter().zip(&reference.weights).enumerate() {
        edges[at / plan.k() * points + to] = weight;
    }
    let one_hot: Vec<u64> = (0..points * classes)
        .map(|at| u64::from(labels[at / classes] == Some((at % classes) as u16)))
        .collect();
    let (edges, one_hot) = (share(&edges, 1), share(&one_hot, 2));
    let run = in_memory(3, |mut context: Context| {
        let (edges, labels) = (edges[context.role()].clone(), one_hot[context.role()].clone());
        Box::pin(async move {
            let (graph, degrees) = Graph::new(edges, points);
            let reciprocals = reciprocals(&mut context, &plan, &degrees, &labels).await;
            let scores = propagate(&mut context, &plan, &Arc::new(graph), &reciprocals, &labels).await;
            (degrees, scores)
        })
    });
    assert_eq!(opened(&run.results.each_ref().map(|run| run.0.clone())), reference.degrees);
    let scores: Vec<i64> =
        opened(&run.results.map(|run| run.1)).into_iter().map(|score| score as i64).collect();
    assert_eq!(scores, reference.scores);
}

#[test]
fn an_owner_can_share_nothing_but_bits_and_one_label_of_a_row() {
    // The words may be any words, so each share is drawn.
    let (rows, classes) = (70, 3);
    let drawn = |seed: u8, len: usize| -> [Shared<Bits>; 3] {
        let shares =
            [0, 1, 2].map(|share| words(len, 64, seed + share).into_iter().map(Xor).collect::<Vec<_>>());
        std::array::from_fn(|party| Shared {
            own: shares[party].clone(),
            next: shares[(party + 1) % 3].clone(),
        })
    };
    let (codes, held) = (drawn(1, rows * 2), drawn(4, rows));
    let run = in_memory(1, |mut context: Context| {
        let (codes, labels) = (codes[context.role()].clone(), held[context.role()].clone());
        Box::pin(async move { integers(&mut context, codes, &labels, classes).await })
    });
    let codes = opened(&run.results.each_ref().map(|run| run.0.clone()));
    let labels = opened(&run.results.map(|run| run.1));
    let words = (0..rows).map(|row| held[0].own[row].0 ^ held[1].own[row].0 ^ held[2].own[row].0);
    // The last class of those that the owner gave the row.
    let last = words.flat_map(|word| {
        let last = (0..classes).rev().find(|class| word >> class & 1 == 1);
        (0..classes).map(move |class| u64::from(last == Some(class)))
    });
    assert_eq!(labels, last.collect::<Vec<_>>());
    assert!(codes.len() == rows * 128 && codes.iter().all(|x| *x <= 1) && codes.contains(&1));
    assert!(labels.len() == rows * classes && labels.iter().all(|x| *x <= 1) && labels.contains(&1));
}

#[test]
fn who_has_another_announcement_says_so_and_the_others_leave_it_to_it() {
    let compared = |views: [[u8; 3]; 3]| {
        let run = in_memory(1, |context: Context| {
            let input = |view: u8| Inputs { view: [view; 32], ..Inputs::default() };
            let inputs = views[context.role()].map(input);
            Box::pin(async move { compare(&context, &inputs).await })
        });
        assert_eq!(run.rounds, 1);
        run.results
    };
    let (differ, alone) = (|owner| Copies::Differ(vec![owner]), Copies::Alone);
    assert_eq!(compared([[1, 2, 3]; 3]), [Copies::Same, Copies::Same, Copies::Same]);
    // A party whose share does not match its announcement, or that received a different announcement,
    // knows the cheater.
    for other in [0, 9] {
        let found = compared([[1, 2, 3], [1, other, 3], [1, 2, 3]]);
        assert_eq!(found, [alone(Side::After), differ(1), alone(Side::Before)]);
    }
    // All three parties received different announcements. The owner must be the cheater, because one of
    // the other parties is honest.
    assert_eq!(compared([[1, 2, 3], [1, 2, 4], [1, 2, 5]]), [differ(2), differ(2), differ(2)]);
    // The shares of two parties do not match their announcements.
    assert_eq!(compared([[0, 2, 3], [0, 2, 3], [1, 2, 3]]), [differ(0), differ(0), differ(0)]);
}

#[test]
fn bytes_that_are_no_output_are_refused() {
    assert_eq!(unseal(0, 3, &[], &[]), Some(Default::default()));
    assert!(unseal(1, 3, &[0; 10], &[0, 0x80, 64, 0, 0]).is_some());
    assert_eq!(unseal(1, 3, &[0; 10], &[0, 0x80, 65, 0, 0]), None, "above 64");
    assert_eq!(unseal(1, 3, &[0; 10], &[3, 0x80, 64, 0, 0]), None, "no such class");
    assert_eq!(unseal(1, 3, &[0; 9], &[0; 5]), None);
    assert_eq!(unseal(1, 3, &[0; 8], &[0; 4]), None);
    assert!(format!("{:?}", Sealed::default()).contains("redacted"));
}
