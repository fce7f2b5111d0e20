use proptest::prelude::*;

use super::*;
use crate::sketch::{Parameters, machines};
use flyswarm_data::Dataset;
use flyswarm_data::scaling::Scaling;
use flyswarm_sealed_sum::crypto::stream::Stream;

fn sketch(d: usize, m: usize, s: usize, rho: usize, densify: bool) -> Sketch {
    Parameters { d, m, s, rho, seed: [7; 32], densify, scaling: Scaling::None }.check(2).unwrap()
}

fn rows(features: usize, values: Vec<f32>) -> Dataset {
    Dataset::new(features, values, Vec::new(), Vec::new()).unwrap()
}

fn hash(sketch: &Sketch, data: &Dataset) -> Vec<u32> {
    let scaler = Scaler::new(&Scaling::None, data.features(), None).unwrap();
    FlyHash::new(sketch).winners(&scaler, data, 0..data.rows()).unwrap()
}

/// Applies the rules of the module literally, one point at a time.
fn naive(sketch: &Sketch, row: &[f32]) -> Vec<u32> {
    let hash = FlyHash::new(sketch);
    let mut x = row.to_vec();
    if let Some(signs) = &hash.signs {
        x.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
        x.resize(hash.dimension, 0.0);
        walsh_hadamard(&mut x);
    }
    let mut sums: Vec<(f32, u32)> = Vec::new();
    for (i, columns) in (0..).zip(hash.matrix()) {
        let mut sum = 0.0;
        for &c in columns {
            sum += x[c as usize];
        }
        sums.push((sum, i));
    }
    // The sort is stable: equal sums stay in ascending row order.
    sums.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
    let mut winners: Vec<u32> = sums[..hash.rho()].iter().map(|&(_, i)| i).collect();
    winners.sort_unstable();
    winners
}

#[test]
fn rows_of_m_are_distinct_ascending_columns_fixed_by_the_seed() {
    let hash = FlyHash::new(&sketch(10, 500, 4, 5, false));
    for row in hash.matrix() {
        assert!(row.is_sorted_by(|a, b| a < b) && row[3] < 10, "{row:?}");
    }
    let first: Vec<&[u32]> = hash.matrix().take(4).collect();
    assert_eq!(first, KNOWN_ROWS);
    let mut columns = [0; 10];
    hash.columns.iter().for_each(|&c| columns[c as usize] += 1);
    assert!(columns.iter().all(|n| (150..250).contains(n)), "every column equally often: {columns:?}");
}

/// Rows that `matrix` of scripts/check-vectors.py gives for this seed.
const KNOWN_ROWS: [&[u32]; 4] = [&[0, 3, 6, 9], &[0, 2, 3, 9], &[3, 4, 7, 9], &[1, 2, 6, 8]];

#[test]
fn a_row_of_m_may_have_every_column() {
    assert!(FlyHash::new(&sketch(5, 3, 5, 1, false)).matrix().all(|row| row == [0, 1, 2, 3, 4]));
}

#[test]
fn ties_go_to_the_lowest_row_of_m() {
    // All sums are equal; in one point some entries are -0.0.
    let data = rows(3, vec![0.0, 0.0, 0.0, -0.0, 0.0, -0.0, 1.0, 1.0, 1.0]);
    assert_eq!(hash(&sketch(3, 1000, 2, 4, false), &data), [0, 1, 2, 3].repeat(3));
}

#[test]
fn the_largest_numbers_stay_finite() {
    let big = flyswarm_data::MAX_MAGNITUDE.next_down();
    let sketch = sketch(100, 300, 20, 10, true);
    let data = rows(100, (0..200).map(|i| if i % 3 == 0 { -big } else { big }).collect());
    let found = hash(&sketch, &data);
    assert_eq!(found, [naive(&sketch, data.row(0)), naive(&sketch, data.row(1))].concat());
}

#[test]
fn rotation_keeps_lengths_up_to_its_factor() {
    let mut x: Vec<f32> = (0..8u8).map(f32::from).collect();
    walsh_hadamard(&mut x);
    assert_eq!(x, [28.0, -4.0, -8.0, 0.0, -16.0, 0.0, 0.0, 0.0]);
    assert_eq!(x.iter().map(|x| x * x).sum::<f32>(), 8.0 * 140.0);
}

#[test]
fn other_features_are_refused() {
    let hash = FlyHash::new(&sketch(3, 10, 2, 4, false));
    let scaler = Scaler::new(&Scaling::None, 3, None).unwrap();
    let error = hash.winners(&scaler, &rows(2, vec![1.0, 2.0]), 0..1).unwrap_err();
    assert_eq!(error.to_string(), "2 features in the data, expected 3");
}

/// Makes rows of one kind, `n` x `d`.
fn made(kind: &str, n: usize, d: usize) -> Dataset {
    let mut stream = Stream::new(kind.as_bytes(), "test", &[]);
    let value = |i: usize| {
        let x = stream.below(1 << 16);
        match kind {
            "bits" => (x % 2) as f32,
            "levels" => (x % 64) as f32 - 32.0,
            "bytes" => (if x.is_multiple_of(5) { x >> 8 } else { 0 }) as f32,
            "black and white" => (if x.is_multiple_of(3) { 255 } else { 0 }) as f32,
            "few large" => {
                if i % d < 3 {
                    1.0
                } else {
                    x as f32 / 65_536_000.0
                }
            }
            "ties in thirds" => (x % 8) as f32 / 3.0 - 1.0,
            "fractions" => x as f32 / 65536.0 - 0.3,
            "all equal" => -0.1,
            "far from 0" => 1e6 + (x % 100) as f32 / 16.0,
            "one large feature" => {
                if i.is_multiple_of(d) {
                    1e6 + x as f32
                } else {
                    x as f32 / 65536.0
                }
            }
            "all sizes" => x as f32 * 2f32.powi((x % 190) as i32 - 130),
            "the largest" => {
                flyswarm_data::MAX_MAGNITUDE.next_down() * if x.is_multiple_of(3) { -1.0 } else { 1.0 }
            }
            "the smallest" => x as f32 * f32::from_bits(1),
            _ => unreachable!("{kind}"),
        }
    };
    rows(d, (0..n * d).map(value).collect())
}

const KINDS: [&str; 13] = [
    "bits",
    "levels",
    "bytes",
    "black and white",
    "few large",
    "ties in thirds",
    "fractions",
    "all equal",
    "far from 0",
    "one large feature",
    "all sizes",
    "the largest",
    "the smallest",
];

/// M has enough rows that levels are tried, and are not used any longer if they cannot separate rows. The
/// points fill two blocks.
#[test]
fn every_kind_of_rows_has_the_winners_of_the_rule_on_every_instruction_set() {
    for (kind, densify) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let data = made(kind, 130, 20);
        let sketch = sketch(20, 5000, 6, 3, densify);
        let expected: Vec<u32> =
            [0, 1, 63, 64, 127, 128, 129].iter().flat_map(|&i| naive(&sketch, data.row(i))).collect();
        for arch in machines() {
            let scaler = Scaler::new(&Scaling::None, 20, None).unwrap();
            let found = FlyHash { arch, ..FlyHash::new(&sketch) }.winners(&scaler, &data, 0..130).unwrap();
            let some: Vec<u32> =
                [0, 1, 63, 64, 127, 128, 129].iter().flat_map(|&i| found[3 * i..][..3].to_vec()).collect();
            assert_eq!(some, expected, "{kind}, densify {densify}, {arch:?}");
            assert_eq!(found, hash(&sketch, &data), "{kind}, densify {densify}, {arch:?}");
        }
    }
}

/// Tests rows whose sums fit a byte as quarters, with every remainder of columns and up to the longest such
/// rows, and longer rows, whose sums need words of 16 bits.
#[test]
fn rows_of_m_of_any_length_have_the_winners_of_the_rule() {
    for (s, kind) in [1, 3, 4, 5, 8, 9, 12, 16, 17, 19, 31, 32, 33, 40]
        .into_iter()
        .flat_map(|s| ["bytes", "black and white", "fractions"].map(|kind| (s, kind)))
    {
        let data = made(kind, 3, 60);
        let sketch = sketch(60, 3000, s, 4, false);
        let expected: Vec<u32> = (0..3).flat_map(|i| naive(&sketch, data.row(i))).collect();
        for arch in machines() {
            let scaler = Scaler::new(&Scaling::None, 60, None).unwrap();
            let found = FlyHash { arch, ..FlyHash::new(&sketch) }.winners(&scaler, &data, 0..3).unwrap();
            assert_eq!(found, expected, "{kind}, s {s}, {arch:?}");
        }
    }
}

/// The matrix has few ones, so some guesses are too high.
#[test]
fn points_whose_guess_fails_are_searched_again() {
    let (data, sketch) = (made("fractions", 1280, 60), sketch(60, 30_000, 4, 3, false));
    let scaler = Scaler::new(&Scaling::None, 60, None).unwrap();
    let hash = FlyHash::new(&sketch);
    let block =
        |from: usize| hash.block(&scaler, (&data).into(), &(from..from + 128).collect::<Vec<_>>(), true).1;
    let failed: Vec<_> = (0..1280).step_by(128).flat_map(block).collect();
    assert!(!failed.is_empty() && failed.len() < 320, "{failed:?}");
    let found = hash.winners(&scaler, &data, 0..1280).unwrap();
    for i in (0..1280).step_by(97).chain(failed) {
        assert_eq!(found[3 * i..][..3], naive(&sketch, data.row(i)), "{i}");
    }
}

/// Sums of levels would not fit 16 bits here.
#[test]
fn very_long_rows_of_m_are_summed_too() {
    for kind in ["levels", "bytes", "fractions"] {
        let data = made(kind, 3, 1200);
        let sketch = sketch(1200, 700, 1100, 5, false);
        let expected: Vec<u32> = (0..3).flat_map(|i| naive(&sketch, data.row(i))).collect();
        assert_eq!(hash(&sketch, &data), expected, "{kind}");
    }
}

#[test]
fn as_many_winners_as_rows_of_m_are_all_of_them() {
    for kind in ["bits", "fractions"] {
        let found = hash(&sketch(20, 700, 6, 700, false), &made(kind, 2, 20));
        assert_eq!(found, (0..700).collect::<Vec<u32>>().repeat(2), "{kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn winners_equal_those_of_the_naive_rule(
        n in 1usize..150, d in 1usize..40, share in 0.0f64..1.0, rho in 1usize..50,
        levels in 2u32..1000, densify: bool,
        seed: u64,
    ) {
        let s = 1 + (share * (d - 1) as f64) as usize;
        let sketch = sketch(d, 200, s, rho, densify);
        let mut stream = Stream::new(&seed.to_le_bytes(), "test", &[]);
        // Few levels make many ties; thirds keep sums inexact.
        let values = (0..n * d).map(|_| stream.below(levels) as f32 / 3.0 - 10.0).collect();
        let data = rows(d, values);
        let expected: Vec<u32> = (0..n).flat_map(|i| naive(&sketch, data.row(i))).collect();
        prop_assert_eq!(hash(&sketch, &data), expected);
    }
}
