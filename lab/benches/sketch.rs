//! Measures distribution sketches on one core, in row updates (one record, one row) a second: `cargo bench
//! --package flyswarm-lab --bench sketch`. `lab/scripts/bench-sketch.py` compares them with numpy.

#![allow(missing_docs)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use flyswarm_data::Dataset;
use flyswarm_learn::sketch::distribution::{DistributionSketch, Family};
use flyswarm_sealed_sum::crypto::stream::Stream;

const FEATURES: usize = 784;
const RANGE: usize = 64;

fn main() {
    // Keeps work and clock on one thread.
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread").install(divan::main);
}

/// Rows with a fifth of the entries nonzero, like images of clothes.
fn records(n: usize) -> Dataset {
    let mut stream = Stream::new(b"bench", "records", &[]);
    let values = (0..n * FEATURES).map(|_| stream.below(256).saturating_sub(205) as f32).collect();
    Dataset::new(FEATURES, values, Vec::new(), Vec::new()).expect("sound rows")
}

fn count(bencher: Bencher<'_, '_>, family: Family, rows: usize) {
    let data = records(1024);
    let hashes = family.hashes(b"seed", rows, RANGE, FEATURES).expect("a sound shape");
    let mut sketch = DistributionSketch::new(rows, RANGE).expect("a sound shape");
    bencher
        .counter(ItemsCount::new(data.rows() * rows))
        .bench_local(|| sketch.extend(&*hashes, black_box(&data)).expect("it fits"));
}

#[divan::bench(args = [100, 1000], sample_count = 10)]
fn srp(bencher: Bencher<'_, '_>, rows: usize) {
    count(bencher, Family::Srp, rows);
}

#[divan::bench(args = [100, 1000], sample_count = 10)]
fn minhash(bencher: Bencher<'_, '_>, rows: usize) {
    count(bencher, Family::Minhash, rows);
}

/// Adds one record at a time.
#[divan::bench(args = [100, 1000], sample_count = 10)]
fn srp_stream(bencher: Bencher<'_, '_>, rows: usize) {
    let data = records(16);
    let hashes = Family::Srp.hashes(b"seed", rows, RANGE, FEATURES).expect("a sound shape");
    let mut sketch = DistributionSketch::new(rows, RANGE).expect("a sound shape");
    bencher.counter(ItemsCount::new(data.rows() * rows)).bench_local(|| {
        (0..data.rows()).for_each(|row| sketch.add(&*hashes, black_box(data.row(row))).expect("it fits"));
    });
}

/// Draws the planes from their seed; one item is an entry.
#[divan::bench(args = [100, 1000], sample_count = 5)]
fn srp_planes(bencher: Bencher<'_, '_>, rows: usize) {
    bencher.counter(ItemsCount::new(rows * 6 * FEATURES)).bench_local(|| {
        Family::Srp.hashes(black_box(b"seed"), rows, RANGE, FEATURES).expect("a sound shape")
    });
}
