//! Measures the learner: the draw of M, projection and winners, training, prediction, and how the time grows
//! with each parameter.
//!
//! The rows are the built-in digits, and made-up rows in the shape of MNIST (784 bytes, a fifth of them
//! nonzero). Made-up rows are enough, because the time does not depend on the content. Times are wall time on
//! all cores. The bench `table6` measures CPU time, and how far it is from the limit of the core.

#![allow(missing_docs)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use flyswarm::Model;
use flyswarm::data::Dataset;
use flyswarm_data::digits::digits;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::model::bloom::{self, Counts};
use flyswarm_learn::sketch::flyhash::FlyHash;
use flyswarm_learn::sketch::{Parameters, Sketch};

const CLASSES: usize = 10;

fn main() {
    divan::main();
}

/// Rows and the sketch parameters for them.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// The demo's parameters: m = 128 d, s = 0.3 d.
    Digits,
    /// The paper's Table 6: m = 170128, s = 19, rho = 17.
    Mnist,
}

const CASES: [Case; 2] = [Case::Digits, Case::Mnist];

impl Case {
    fn data(self) -> Dataset {
        match self {
            Self::Digits => digits(),
            Self::Mnist => made(256, 784),
        }
    }

    fn sketch(self) -> Sketch {
        let (d, m, s, rho) = match self {
            Self::Digits => (64, 8192, 19, 64),
            Self::Mnist => (784, 170_128, 19, 17),
        };
        let parameters = Parameters { d, m, s, rho, seed: [1; 32], densify: false, scaling: Scaling::None };
        parameters.check(CLASSES).expect("sound parameters")
    }

    fn scaler(self) -> Scaler {
        Scaler::new(&Scaling::None, self.sketch().parameters().d, None).expect("nothing to go wrong")
    }
}

/// Makes rows of one set.
fn made(rows: usize, d: usize) -> Dataset {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let values = (0..rows * d).map(|_| if next() % 5 == 0 { (next() % 256) as f32 } else { 0.0 }).collect();
    let labels = (0..rows).map(|row| (row % CLASSES) as u16).collect();
    let classes = (0..CLASSES).map(|class| class.to_string()).collect();
    Dataset::new(d, values, labels, classes).expect("sound rows")
}

/// Computes the winners of 512 rows. One parameter differs from d = 784, m = 16384, s = 78, rho = 32.
fn sweep(bencher: Bencher<'_, '_>, d: usize, m: usize, s: usize, rho: usize) {
    let data = made(512, d);
    let parameters = Parameters { d, m, s, rho, seed: [1; 32], densify: false, scaling: Scaling::UnitNorm };
    let scaler = Scaler::new(&parameters.scaling, d, None).expect("nothing to go wrong");
    let hash = FlyHash::new(&parameters.check(CLASSES).expect("sound parameters"));
    bencher
        .counter(ItemsCount::new(data.rows()))
        .bench(|| hash.winners(&scaler, black_box(&data), 0..data.rows()).expect("it fits"));
}

#[divan::bench(args = [98, 196, 392, 784, 1568, 3136], sample_count = 10)]
fn sweep_d(bencher: Bencher<'_, '_>, d: usize) {
    sweep(bencher, d, 16_384, 78, 32);
}

#[divan::bench(args = [1024, 4096, 16_384, 65_536], sample_count = 10)]
fn sweep_m(bencher: Bencher<'_, '_>, m: usize) {
    sweep(bencher, 784, m, 78, 32);
}

#[divan::bench(args = [8, 16, 39, 78, 235, 392], sample_count = 10)]
fn sweep_s(bencher: Bencher<'_, '_>, s: usize) {
    sweep(bencher, 784, 16_384, s, 32);
}

#[divan::bench(args = [8, 32, 128, 512], sample_count = 10)]
fn sweep_rho(bencher: Bencher<'_, '_>, rho: usize) {
    sweep(bencher, 784, 16_384, 78, rho);
}

/// Draws the lifting matrix from its seed.
#[divan::bench(args = CASES, sample_count = 10)]
fn matrix(bencher: Bencher<'_, '_>, case: Case) {
    let sketch = case.sketch();
    bencher.counter(ItemsCount::new(sketch.parameters().m)).bench(|| FlyHash::new(black_box(&sketch)));
}

/// Projects the rows and finds the winners.
#[divan::bench(args = CASES, sample_count = 10)]
fn winners(bencher: Bencher<'_, '_>, case: Case) {
    let (data, hash, scaler) = (case.data(), FlyHash::new(&case.sketch()), case.scaler());
    bencher
        .counter(ItemsCount::new(data.rows()))
        .bench(|| hash.winners(&scaler, black_box(&data), 0..data.rows()).expect("it fits"));
}

#[divan::bench(args = CASES, sample_count = 10)]
fn fit(bencher: Bencher<'_, '_>, case: Case) {
    let (data, hash, scaler) = (case.data(), FlyHash::new(&case.sketch()), case.scaler());
    bencher
        .counter(ItemsCount::new(data.rows()))
        .bench(|| bloom::fit(&hash, &scaler, black_box(&data), CLASSES).expect("it fits"));
}

#[divan::bench(args = CASES, sample_count = 10)]
fn predict(bencher: Bencher<'_, '_>, case: Case) {
    let (data, sketch) = (case.data(), case.sketch());
    let counts: Counts = bloom::fit(&FlyHash::new(&sketch), &case.scaler(), &data, CLASSES).expect("it fits");
    let model = Model::new(sketch, 0.5, data.classes().to_vec(), case.scaler(), counts).expect("it fits");
    let predictor = model.predictor();
    bencher
        .counter(ItemsCount::new(data.rows()))
        .bench(|| predictor.predict(black_box(&data)).expect("it fits"));
}
