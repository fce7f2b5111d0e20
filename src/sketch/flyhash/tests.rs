use proptest::prelude::*;

use super::*;
use crate::crypto::stream::Stream;
use crate::sketch::Parameters;
use crate::sketch::scaling::Scaling;

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

/// The rules of the module, word for word, one point at a time.
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
    // A stable sort: equal sums stay in ascending row order.
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

/// Computed by 30 lines of Python (HKDF from `hmac`, ChaCha20 from RFC 8439) that follow the module's first paragraph.
const KNOWN_ROWS: [&[u32]; 4] = [&[3, 4, 6, 7], &[0, 2, 6, 7], &[0, 2, 7, 9], &[3, 5, 6, 9]];

#[test]
fn a_row_of_m_may_have_every_column() {
    assert!(FlyHash::new(&sketch(5, 3, 5, 1, false)).matrix().all(|row| row == [0, 1, 2, 3, 4]));
}

#[test]
fn ties_go_to_the_lowest_row_of_m() {
    // All sums are equal, in one point by -0.0.
    let data = rows(3, vec![0.0, 0.0, 0.0, -0.0, 0.0, -0.0, 1.0, 1.0, 1.0]);
    assert_eq!(hash(&sketch(3, 1000, 2, 4, false), &data), [0, 1, 2, 3].repeat(3));
}

#[test]
fn the_largest_numbers_stay_finite() {
    let big = crate::data::MAX_MAGNITUDE.next_down();
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn winners_equal_those_of_the_naive_rule(
        n in 1usize..150, d in 1usize..40, share in 0.0f64..1.0, rho in 1usize..50, levels in 2u32..1000, densify: bool,
        seed: u64,
    ) {
        let s = 1 + (share * (d - 1) as f64) as usize;
        let sketch = sketch(d, 200, s, rho, densify);
        let mut stream = Stream::new(&seed.to_le_bytes(), "test", &[]);
        // Few levels make many ties; a third keeps sums inexact.
        let values = (0..n * d).map(|_| stream.below(levels) as f32 / 3.0 - 10.0).collect();
        let data = rows(d, values);
        let expected: Vec<u32> = (0..n).flat_map(|i| naive(&sketch, data.row(i))).collect();
        prop_assert_eq!(hash(&sketch, &data), expected);
    }
}
