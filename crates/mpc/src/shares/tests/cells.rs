//! Compares the pattern and the pooled numbers on shares with the plain computation.

use proptest::prelude::*;
use zeroize::Zeroizing;

use super::super::cells::{BUCKETS, Opened, Rule, add_up, boxed, pattern};
use super::super::input::{Announced, Inputs, parcel_bytes, parcels_of_words, unpack_words};
use super::super::memory::{Run, in_memory};
use super::super::program::Outcome;
use super::super::quantiles::{DENOMINATOR, QUANTILES, Scale};
use super::super::{Bits, Context};
use super::{opened, share, words};

/// Returns the pattern of plain counts.
fn plain(rule: &Rule, owners: &[Vec<u64>]) -> Opened {
    let passes = |rows: &[u64]| {
        let pooled: u64 = rows.iter().sum();
        pooled >= rule.threshold.into()
            && rows.iter().filter(|&&own| own > 0).count() >= rule.contributors as usize
            && rows.iter().all(|own| pooled - own >= rule.rest.into())
    };
    let cell = |at: usize| owners.iter().map(|words| words[at]).collect::<Vec<_>>();
    let cells = (0..rule.cells()).map(|at| {
        let rows = cell(at);
        let first = at > 0 || rows.iter().sum::<u64>() >= rule.first.into();
        first && passes(&rows) || rule.empty_passes[at] && rows.iter().all(|&own| own == 0)
    });
    let measures = rule.measures.iter().enumerate().map(|(measure, &at)| {
        (0..BUCKETS).all(|bucket| {
            let inside = rule.cells() + BUCKETS * measure + bucket;
            passes(&owners.iter().map(|words| words[at] - words[inside]).collect::<Vec<_>>())
        })
    });
    let quantiles =
        plain_quantiles(rule, owners).into_iter().map(|(_, below, above)| passes(&below) && passes(&above));
    Opened { cells: cells.collect(), measures: measures.collect(), quantiles: quantiles.collect() }
}

/// Returns each quantile of plain histograms, the rows of each owner below it, and those above it.
fn plain_quantiles(rule: &Rule, owners: &[Vec<u64>]) -> Vec<(u64, Vec<u64>, Vec<u64>)> {
    let mut found = Vec::new();
    let first = |number: usize| rule.words() - rule.histograms.iter().skip(number).sum::<usize>();
    for scale in &rule.scales {
        for measure in &scale.measures {
            let own = |words: &Vec<u64>| {
                let mut sum = vec![0u64; 1 << scale.bits];
                for &number in measure {
                    let bins = &words[first(number)..][..rule.histograms[number]];
                    sum.iter_mut().zip(bins).for_each(|(sum, rows)| *sum += rows);
                }
                sum
            };
            let own: Vec<Vec<u64>> = owners.iter().map(own).collect();
            let rows: u64 = own.iter().flatten().sum();
            for rank in QUANTILES {
                let upto = |value: usize| own.iter().flat_map(|bins| &bins[..=value]).sum::<u64>();
                let value =
                    (0..1 << scale.bits).find(|&value| DENOMINATOR * upto(value) >= rank * rows).unwrap();
                let below = own.iter().map(|bins| bins[..value].iter().sum()).collect();
                let above = own.iter().map(|bins| bins[value + 1..].iter().sum()).collect();
                found.push((value as u64, below, above));
            }
        }
    }
    found
}

/// Makes owners whose cells are often near the limits.
pub(super) fn owners(rule: &Rule, count: usize, seed: u8) -> Vec<Vec<u64>> {
    let owner = |owner: usize| {
        let random = words(rule.words(), 16, seed.wrapping_add(owner as u8));
        let mut own: Vec<u64> = random.iter().map(|x| [0, 0, 1, 2, 5, x % 40][(x % 6) as usize]).collect();
        for (measure, &cell) in rule.measures.iter().enumerate() {
            // The rows of a measure lie in few buckets.
            let buckets = &mut own[rule.cells() + BUCKETS * measure..][..BUCKETS];
            let spread = random[measure] as usize % 4;
            buckets.iter_mut().enumerate().skip(spread + 1).for_each(|(_, bucket)| *bucket = 0);
            own[cell] = own[rule.cells() + BUCKETS * measure..][..BUCKETS].iter().sum();
        }
        own
    };
    (0..count).map(owner).collect()
}

pub(super) fn rule(cells: usize, measures: usize, (threshold, contributors, rest): (u32, u32, u32)) -> Rule {
    let measures = (0..measures.min(cells)).collect();
    let empty_passes = (0..cells).map(|at| at % 3 == 2).collect();
    Rule { threshold, contributors, rest, empty_passes, measures, ..Rule::default() }
}

/// Adds histograms of `bins` words each: the rule then has quantiles of each histogram, and of their
/// sum.
pub(super) fn with_quantiles(mut rule: Rule, bins: &[usize]) -> Rule {
    rule.histograms = bins.to_vec();
    let bits = |bins: usize| bins.next_power_of_two().trailing_zeros().max(1);
    let mut scales: std::collections::BTreeMap<u32, Vec<Vec<usize>>> = Default::default();
    bins.iter().enumerate().for_each(|(at, &bins)| scales.entry(bits(bins)).or_default().push(vec![at]));
    scales.entry(bits(*bins.iter().max().unwrap())).or_default().push((0..bins.len()).collect());
    rule.scales = scales.into_iter().map(|(bits, measures)| Scale { bits, measures }).collect();
    rule
}

/// Returns the inputs that each party unpacks from the parcels of all owners.
pub(super) fn inputs(owners: &[Vec<u64>]) -> [Vec<Inputs>; 3] {
    let mut held: [Vec<Inputs>; 3] = Default::default();
    for (place, own) in owners.iter().enumerate() {
        let parcels = parcels_of_words(own, place, &[1, 2, 3].map(|n| Zeroizing::new([n + place as u8; 32])));
        let said = Announced::of([place as u8; 32], &parcels);
        for (number, held) in held.iter_mut().enumerate() {
            assert_eq!(parcels[number].len(), parcel_bytes(1, 8 * own.len(), 0, place, number));
            held.push(unpack_words(&parcels[number], number, &said, own.len()).expect("a parcel"));
        }
    }
    held
}

fn run(rule: &Rule, owners: &[Vec<u64>], proves: bool) -> (Run<Outcome>, Vec<u64>) {
    let inputs = inputs(owners);
    let run = in_memory(7, |context: Context| {
        let (inputs, rule) = (inputs[context.role()].clone(), rule.clone());
        boxed(context, rule, inputs, proves)
    });
    let of = |outcome: &Outcome| match outcome {
        Outcome::Sealed(sealed) => [&sealed.own, &sealed.next].map(|bytes| {
            assert_eq!(bytes.len(), rule.result_bytes());
            bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect::<Vec<_>>()
        }),
        other => panic!("{other:?}"),
    };
    let held = run.results.each_ref().map(of);
    (0..3).for_each(|party| assert_eq!(held[party][1], held[(party + 1) % 3][0]));
    let all = add_up(rule, [&held[0][0], &held[1][0], &held[2][0]]);
    (run, all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_pattern_is_that_of_the_plain_counts_and_the_totals_are_exact(
        count in prop_oneof![3usize..8, Just(64usize)], cells in 1usize..150, measures in 0usize..20,
        limits in (1u32..30, 1u32..5, 0u32..12), first in 0u32..60, seed: u8,
    ) {
        let rule = Rule { first, ..rule(cells, measures, limits) };
        let owners = owners(&rule, count, seed);
        let (run, all) = run(&rule, &owners, false);
        prop_assert_eq!(Opened::of(&rule, &all), plain(&rule, &owners));
        let sum = |at: usize| owners.iter().fold(0u64, |sum, own| sum.wrapping_add(own[at]));
        let sums = rule.cells() + BUCKETS * rule.measures.len();
        let end = sums + 2 * rule.measures.len();
        let expected: Vec<u64> = (0..rule.cells()).chain(sums..end).map(sum).collect();
        prop_assert_eq!(&all[rule.pattern_words()..], &expected[..]);
        prop_assert!(run.rounds <= 30, "{} rounds", run.rounds);
    }

    #[test]
    fn no_numbers_of_one_owner_make_a_cell_pass_without_the_rest_of_the_others(
        cells in 1usize..100, lie in any::<u64>(), seed: u8,
    ) {
        let rule = rule(cells, 0, (10, 3, 5));
        let mut owners = owners(&rule, 5, seed);
        let lies = words(cells, 64, !seed);
        let of = |random: u64| [lie, random, 1000][random as usize % 3];
        owners[0].iter_mut().zip(lies).for_each(|(own, random)| *own = of(random));
        let found = lied(&rule, &owners, seed);
        for (at, passes) in found.cells.iter().enumerate() {
            let others: Vec<u64> = owners[1..].iter().map(|own| own[at]).collect();
            let empty = rule.empty_passes[at] && others.iter().all(|&own| own == 0);
            let holders = others.iter().filter(|&&own| own > 0).count();
            let enough = others.iter().sum::<u64>() >= 5 && holders >= 2;
            prop_assert!(!passes || empty || enough, "cell {}: {:?}", at, others);
        }
    }

    #[test]
    fn no_histogram_of_one_owner_opens_a_quantile_without_the_rest_of_the_others_on_both_sides(
        bins in 2usize..40, lie in any::<u64>(), small in 0u64..200, seed: u8,
    ) {
        let rule = with_quantiles(rule(1, 0, (10, 3, 5)), &[bins]);
        let mut owners = owners(&rule, 5, seed);
        let lies = words(rule.words(), 64, !seed);
        let of = |random: u64| [lie, small, 0, small.wrapping_neg(), random][random as usize % 5];
        owners[0].iter_mut().zip(lies).for_each(|(own, random)| *own = of(random));
        let (_, all) = run(&rule, &owners, false);
        let passing = Opened::of(&rule, &all).quantiles;
        let values = &all[all.len() - rule.quantiles()..];
        for (value, _) in values.iter().zip(passing).filter(|(_, passes)| *passes) {
            let side = |values: std::ops::Range<usize>| {
                let rows = owners[1..].iter().map(|own| own[1..][values.clone()].iter().sum::<u64>());
                rows.sum::<u64>()
            };
            let value = *value as usize;
            prop_assert!(value < bins && side(0..value) >= 5 && side(value + 1..bins) >= 5, "{}", value);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn quantiles_are_those_of_the_pooled_rows_and_pass_with_enough_rows_on_both_sides(
        count in 3usize..8, bins in prop::collection::vec(2usize..300, 1..4), measures in 0usize..3,
        limits in (1u32..30, 1u32..5, 0u32..12), seed: u8, proves: bool,
    ) {
        let rule = with_quantiles(rule(5, measures, limits), &bins);
        let owners = owners(&rule, count, seed);
        let (run, all) = run(&rule, &owners, proves);
        prop_assert_eq!(Opened::of(&rule, &all), plain(&rule, &owners));
        let values = &all[all.len() - rule.quantiles()..];
        for (found, (value, ..)) in values.iter().zip(plain_quantiles(&rule, &owners)) {
            prop_assert_eq!(*found, value);
        }
        prop_assert!(proves || run.rounds <= 75, "{} rounds", run.rounds);
    }
}

/// Returns the pattern that the parties find for these words.
fn lied(rule: &Rule, owners: &[Vec<u64>], seed: u8) -> Opened {
    let held = share(&owners.concat(), seed);
    let run = in_memory(seed, |mut context: Context| {
        let (counts, rule) = (held[context.role()].chunks(rule.words()), rule.clone());
        Box::pin(async move { pattern(&mut context, &rule, &counts).await.0 })
    });
    let bits: Vec<u64> = opened::<Bits>(&run.results).iter().map(|word| word.0).collect();
    Opened::of(rule, &bits)
}

#[test]
fn counts_that_are_no_counts_do_not_tell_how_many_rows_of_others_are_few() {
    let rule = with_quantiles(rule(1, 0, (10, 3, 5)), &[16]);
    let attack = |few: u64, lie: [u64; 3]| {
        let mut owners = vec![vec![0; rule.words()]; 4];
        // The others have a few rows with the value 0, and 40 rows each with the values 8 and 15.
        owners[1][1] = few;
        for own in &mut owners[1..] {
            (own[1 + 8], own[1 + 15]) = (14, 13);
        }
        owners[0][1..4].copy_from_slice(&lie);
        owners[0][1 + 9] = 17;
        lied(&rule, &owners, 3).quantiles[2]
    };
    // Honest counts: the median is at 9, with 42 rows of others below it.
    assert!(attack(2, [0; 3]) && attack(3, [0; 3]));
    // Owner 0 adds numbers and takes them away again. Without the test of counts, the search would end
    // at value 0 if there are 2 rows, and continue if there is 1.
    let (low, high) = (48u64, 1u64 << 39);
    for lie in [[low, low.wrapping_neg(), 0], [low, high - 24, high - 24]] {
        assert!(!attack(2, lie) && !attack(3, lie) && !attack(1, lie), "{lie:?}");
    }
}

#[test]
fn proofs_do_not_change_the_result() {
    let rule = with_quantiles(rule(70, 3, (10, 3, 5)), &[40, 20]);
    let owners = owners(&rule, 3, 5);
    let (proved, plain) = (run(&rule, &owners, true), run(&rule, &owners, false));
    assert_eq!(proved.1, plain.1);
    assert!(proved.0.rounds > plain.0.rounds, "proofs take rounds");
}

#[test]
fn owners_that_announce_other_shares_are_named() {
    let rule = rule(3, 0, (1, 1, 0));
    let mut inputs = inputs(&[vec![1; 3], vec![2; 3], vec![3; 3]]);
    inputs.iter_mut().enumerate().for_each(|(party, inputs)| inputs[1].view = [party as u8; 32]);
    let run = in_memory(1, |context: Context| {
        let inputs = inputs[context.role()].clone();
        boxed(context, rule.clone(), inputs, false)
    });
    assert!(run.results.iter().all(|outcome| *outcome == Outcome::Cheats(vec![1])));
}

#[test]
fn a_measure_with_few_rows_off_the_commonest_value_does_not_pass() {
    let rule = rule(1, 1, (10, 3, 5));
    let owner = |common: u64, rare: u64| {
        let mut own = vec![0; rule.words()];
        (own[0], own[1], own[2]) = (common + rare, common, rare);
        own
    };
    let passes = |rare: u64| {
        let (_, all) = run(&rule, &[owner(50, rare), owner(60, 3), owner(70, 3)], false);
        Opened::of(&rule, &all)
    };
    assert_eq!(passes(3), Opened { cells: vec![true], measures: vec![false], quantiles: vec![] });
    assert_eq!(passes(4), Opened { cells: vec![true], measures: vec![true], quantiles: vec![] });
}
