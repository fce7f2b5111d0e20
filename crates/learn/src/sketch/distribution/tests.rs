//! Compares sketches with the plain computation, collision probabilities and exact kernel densities.

use proptest::prelude::*;

use super::*;
use flyswarm_data::digits::digits;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Computes the number of a record in row `row`, one plane after another.
fn plain_srp(seed: &[u8], planes: usize, row: usize, record: &[f32]) -> u16 {
    let mut gaussians =
        crate::sketch::gaussian::Gaussians::new(seed, "sketch/planes", record.len(), row * planes);
    let side = |plane: usize| {
        let mut sum = 0.0f32;
        gaussians.row(|feature, entry| sum += entry as f32 * record[feature]);
        u16::from(sum > 0.0) << plane
    };
    (0..planes).map(side).sum()
}

fn records(n: usize, d: usize, salt: u64) -> Dataset {
    let mut stream = Stream::new(&salt.to_le_bytes(), "test", &[]);
    let values = (0..n * d).map(|_| stream.below(2001) as f32 / 1000.0 - 1.0).collect();
    Dataset::new(d, values, Vec::new(), Vec::new()).unwrap()
}

fn families() -> impl Strategy<Value = (Family, usize)> {
    prop_oneof![
        (1u32..11).prop_map(|planes| (Family::Srp, 1 << planes)),
        (2usize..300).prop_map(|range| (Family::Minhash, range)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_by_one_all_at_once_and_in_parts_give_the_same_counters(
        (family, range) in families(), rows in 1usize..20, n in 1usize..300, d in 1usize..40,
        cut in 0usize..300, salt: u64,
    ) {
        let (data, cut) = (records(n, d, salt), cut.min(n));
        let hashes = family.hashes(&salt.to_le_bytes(), rows, range, d).unwrap();
        let empty = DistributionSketch::new(rows, range).unwrap();
        let (mut one_by_one, mut at_once) = (empty.clone(), empty.clone());
        let (mut first, mut second) = (empty.clone(), empty);
        (0..n).for_each(|row| one_by_one.add(&*hashes, data.row(row)).unwrap());
        at_once.extend(&*hashes, &data).unwrap();
        first.extend(&*hashes, &data.subset(&(0..cut).collect::<Vec<_>>())).unwrap();
        second.extend(&*hashes, &data.subset(&(cut..n).collect::<Vec<_>>())).unwrap();
        first.merge(&second).unwrap();
        prop_assert_eq!(&one_by_one, &at_once);
        prop_assert_eq!(&first, &at_once);
        prop_assert_eq!(at_once.records() as usize, n);
        let words = at_once.to_words();
        prop_assert_eq!(DistributionSketch::from_words(&words, rows, range).unwrap(), at_once);
    }

    #[test]
    fn srp_is_the_sign_of_the_plain_sum(planes in 1usize..11, rows in 1usize..6, d in 1usize..70, salt: u64) {
        let seed = salt.to_le_bytes();
        let hashes = srp::Srp::new(&seed, rows, 1 << planes, d).unwrap();
        let data = records(20, d, salt);
        let mut counters = vec![0; rows << planes];
        for record in (0..20).map(|i| data.row(i)) {
            let plain: Vec<_> = (0..rows).map(|row| plain_srp(&seed, planes, row, record)).collect();
            prop_assert_eq!(&hashes.buckets(record), &plain);
            for (row, &bucket) in plain.iter().enumerate() {
                counters[(row << planes) + usize::from(bucket)] += 1;
            }
        }
        let mut counted = vec![0; rows << planes];
        hashes.count(data.values(), &mut counted);
        prop_assert_eq!(counted, counters);
    }

    #[test]
    fn distances_are_those_of_exact_fractions(counts in prop::collection::vec((0u32..50, 0u32..50), 4..40)) {
        let range = 4;
        let rows = counts.len() / range;
        let table = |pick: fn(&(u32, u32)) -> u32| {
            let mut counters: Vec<u32> = counts[..rows * range].iter().map(pick).collect();
            // Every row counts every record.
            let records = counters.chunks(range).map(|row| row.iter().sum::<u32>()).max().unwrap_or(0).max(1);
            counters.chunks_mut(range).for_each(|row| row[0] += records - row.iter().sum::<u32>());
            DistributionSketch { range, records, counters }
        };
        let (a, b) = (table(|pair| pair.0), table(|pair| pair.1));
        let found = a.distance(&b).unwrap();
        let (n, m) = (i128::from(a.records), i128::from(b.records));
        let squares: Vec<i128> = a.counters.chunks(range).zip(b.counters.chunks(range)).map(|(a, b)| {
            a.iter().zip(b).map(|(&a, &b)| (i128::from(a) * m - i128::from(b) * n).pow(2)).sum()
        }).collect();
        let scale = (n * m) as f64;
        let mean = squares.iter().map(|&square| (square as f64).sqrt() / scale).sum::<f64>() / rows as f64;
        let plain = (squares.iter().sum::<i128>() as f64).sqrt() / scale;
        prop_assert!((found.row_mean - mean).abs() < 1e-12 && (found.plain - plain).abs() < 1e-12);
        prop_assert_eq!(found, b.distance(&a).unwrap());
        prop_assert!(found.row_mean <= 2f64.sqrt() + 1e-12);
    }
}

/// Returns the share of rows that give two records the same number.
fn collisions(hashes: &dyn RowHashes, a: &[f32], b: &[f32]) -> f64 {
    let equal = hashes.buckets(a).into_iter().zip(hashes.buckets(b)).filter(|(a, b)| a == b).count();
    equal as f64 / hashes.rows() as f64
}

fn srp_kernel(a: &[f32], b: &[f32], planes: i32) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    (1.0 - cosine.clamp(-1.0, 1.0).acos() / std::f64::consts::PI).powi(planes)
}

fn jaccard_kernel(a: &[f32], b: &[f32], range: usize) -> f64 {
    let both = a.iter().zip(b).filter(|&(&x, &y)| x > 0.0 && y > 0.0).count() as f64;
    let any = a.iter().zip(b).filter(|&(&x, &y)| x > 0.0 || y > 0.0).count() as f64;
    both / any + (1.0 - both / any) / range as f64
}

#[test]
fn records_collide_as_often_as_their_angle_or_their_common_features_say() {
    const ROWS: usize = 20_000;
    let data = digits();
    let cases: [(Family, usize); 4] =
        [(Family::Srp, 2), (Family::Srp, 16), (Family::Minhash, 16), (Family::Minhash, 1 << 9)];
    for (family, range) in cases {
        let hashes = family.hashes(b"collisions", ROWS, range, 64).unwrap();
        for (i, j) in [(0, 1), (2, 300), (17, 1000), (5, 6), (700, 1700)] {
            let (a, b) = (data.row(i), data.row(j));
            let expected = match family {
                Family::Srp => srp_kernel(a, b, range.ilog2() as i32),
                Family::Minhash => jaccard_kernel(a, b, range),
            };
            let found = collisions(&*hashes, a, b);
            let error = (expected * (1.0 - expected) / ROWS as f64).sqrt();
            assert!(
                (found - expected).abs() < 5.0 * error,
                "{family} {range} {i} {j}: {found} for {expected}"
            );
        }
    }
}

#[test]
fn a_set_collides_with_itself_and_an_empty_one_with_others_only_by_folding() {
    let hashes = minhash::MinHash::new(b"sets", 20_000, 64, 8).unwrap();
    let (empty, some) = ([0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 5.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(hashes.buckets(&empty), hashes.buckets(&[0.0; 8]));
    let found = collisions(&hashes, &empty, &some);
    assert!((found - 1.0 / 64.0).abs() < 0.005, "{found}");
}

#[test]
fn the_mean_of_rows_is_the_kernel_density_and_the_median_of_many_groups_lies_below() {
    let data = digits();
    let (rows, planes) = (4000, 4);
    let hashes = srp::Srp::new(b"density", rows, 1 << planes, 64).unwrap();
    let mut sketch = DistributionSketch::new(rows, 1 << planes).unwrap();
    sketch.extend(&hashes, &data).unwrap();
    let (mut groups, mut medians) = (0.0f64, 0.0);
    for i in [3, 77, 512, 1500] {
        let exact: f64 = (0..data.rows()).map(|j| srp_kernel(data.row(i), data.row(j), planes)).sum();
        let exact = exact / data.rows() as f64;
        let mean = sketch.density(&hashes, data.row(i), 1);
        assert!((mean / exact - 1.0).abs() < 0.05, "{mean} for {exact}");
        groups = groups.max((sketch.density(&hashes, data.row(i), 8) / exact - 1.0).abs());
        medians += (sketch.density(&hashes, data.row(i), rows) / exact - 1.0) / 4.0;
    }
    assert!(groups < 0.06, "medians of means are as good: {groups}");
    assert!(medians < 0.0, "the median of single rows is not the mean of a skewed distribution: {medians}");
}

#[test]
fn the_median_is_taken_over_groups_of_nearly_equal_size() {
    #[derive(Debug)]
    struct First;
    impl RowHashes for First {
        fn rows(&self) -> usize {
            5
        }
        fn range(&self) -> usize {
            2
        }
        fn features(&self) -> usize {
            1
        }
        fn buckets(&self, _: &[f32]) -> Vec<u16> {
            vec![0; 5]
        }
        fn count(&self, _: &[f32], _: &mut [u32]) {}
    }
    let counters = [1, 99, 5, 95, 9, 91, 40, 60, 80, 20].to_vec();
    let sketch = DistributionSketch { range: 2, records: 100, counters };
    let density = |groups| sketch.density(&First, &[0.0], groups);
    assert_eq!(density(5), 0.09);
    assert_eq!(density(9), 0.09, "there are never more groups than rows");
    assert_eq!(density(1), 0.27);
    // (1 + 5 + 9) / 3 and (40 + 80) / 2.
    assert_eq!(density(2), (5.0 + 60.0) / 2.0 / 100.0);
}

#[test]
fn what_is_no_sketch_is_refused_by_name_and_limit() {
    let text = |error: SketchError| error.to_string();
    let made = |rows, range| DistributionSketch::new(rows, range).map(drop).map_err(text);
    assert_eq!(made(1, 1), Err("range is 1, expected 2 to 65536".into()));
    assert_eq!(made(0, 64), Err("rows is 0, expected 1 to 262144 with a range of 64".into()));
    assert_eq!(made(257, 65_536), Err("rows is 257, expected 1 to 256 with a range of 65536".into()));
    let srp = |rows, range, d| srp::Srp::new(b"", rows, range, d).map(drop).map_err(text);
    assert_eq!(srp(1, 48, 1), Err("range is 48, expected a power of two with srp".into()));
    assert_eq!(srp(1, 4, 0), Err("features is 0, expected 1 to 134217728 with 1 rows of 2 planes".into()));
    let mut sketch = DistributionSketch::new(3, 4).unwrap();
    let other = DistributionSketch::new(4, 3).unwrap();
    assert_eq!(sketch.merge(&other).map_err(text), Err("a sketch of 4 x 3 counters, expected 3 x 4".into()));
    sketch.records = u32::MAX;
    assert_eq!(
        sketch.merge(&sketch.clone()).map_err(text),
        Err("8589934590 records, at most 4294967295".into())
    );
    let words = |words: &[u32]| DistributionSketch::from_words(words, 1, 3).map(drop).map_err(text);
    assert_eq!(words(&[1, 2, 3, 6]), Ok(()));
    assert_eq!(words(&[1, 2, 3, 7]), Err("row 0 of the sketch does not count every record once".into()));
    assert_eq!(
        words(&[u32::MAX, 7, 0, 6]),
        Err("row 0 of the sketch does not count every record once".into())
    );
    assert_eq!(words(&[1, 2, 3]), Err("words is 3, expected 4".into()));
}
