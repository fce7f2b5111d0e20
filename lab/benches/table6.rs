//! Measures the learner at the sizes of Table 6 (Ram & Sinha) on one thread: CPU time to draw M, to train and
//! to predict, and peak memory of the process. It also compares the speed of training with the rate at which
//! the core loads bytes. Rows are made up, with the shape and the share of zeros of the real ones, because
//! speed does not depend on the content.
//!
//!     cargo bench --package flyswarm-lab --bench table6 [-- --full] [-- --json] [-- --only NAME]
//!     cargo bench --package flyswarm-lab --bench table6 -- --sweeps
//!     cargo bench --package flyswarm-lab --bench table6 -- --files TRAIN.csv TEST.csv M S RHO
//!
//! `--only` keeps the settings whose names begin with NAME. `--full` trains on all 60,000 rows of the
//! MNIST shape. `--sweeps` shows the growth of training time with each parameter. `--files` trains on one
//! file, predicts the other, and prints JSON for `lab/scripts/bench-knn.py`.

#![allow(missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use cpu_time::ThreadTime;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_data::{Dataset, Expected, load};
use flyswarm_learn::model::{Model, bloom};
use flyswarm_learn::sketch::flyhash::FlyHash;
use flyswarm_learn::sketch::{Parameters, Sketch};
use serde_json::json;

/// Number of short runs. The least time is used, because other work on the machine can only make a run
/// slower.
const RUNS: usize = 30;

/// Name, features, m, s, rho, rows, largest value (0: fractions), percent not zero.
type Setting = (&'static str, usize, usize, usize, usize, usize, u32, u32);

const SETTINGS: [Setting; 6] = [
    ("digits", 64, 16_384, 19, 32, 1797, 16, 51),
    ("letter", 16, 8192, 5, 32, 2048, 15, 99),
    ("mnist, bytes", 784, 170_128, 19, 17, 256, 255, 19),
    ("mnist, f32", 784, 170_128, 19, 17, 256, 0, 19),
    ("mnist, s = 0.3 d", 784, 65_536, 235, 64, 128, 255, 19),
    ("cifar, bytes", 3072, 65_536, 307, 32, 128, 255, 99),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // Keeps work and clock on one thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| match arguments.iter().position(|argument| argument == "--files") {
        Some(at) => files(&arguments[at + 1..]),
        None if has("--sweeps") => sweeps(),
        None => {
            let only = arguments
                .iter()
                .position(|argument| argument == "--only")
                .and_then(|at| arguments.get(at + 1));
            settings(has("--full"), has("--json"), only.map_or("", |name| name));
        }
    });
}

/// Returns the least CPU time of several runs, in seconds, and the last result.
fn least<T>(runs: usize, mut f: impl FnMut() -> T) -> (f64, T) {
    let mut best = Duration::MAX;
    let mut last = None;
    for _ in 0..runs.max(1) {
        let start = ThreadTime::now();
        last = Some(black_box(f()));
        best = best.min(start.elapsed());
    }
    (best.as_secs_f64(), last.expect("one run at least"))
}

fn rows((_, d, _, _, _, n, largest, percent): Setting) -> Dataset {
    let mut state = 1_u64;
    let mut below = |n: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(n)) as u32
    };
    let mut value = || match (below(100) < percent, largest) {
        (false, _) => 0.0,
        (true, 0) => below(1 << 24) as f32 / (1 << 24) as f32,
        (true, largest) => (1 + below(largest)) as f32,
    };
    let values = (0..n * d).map(|_| value()).collect();
    let classes = (0..10).map(|class| class.to_string()).collect();
    Dataset::new(d, values, (0..n).map(|row| (row % 10) as u16).collect(), classes).expect("sound rows")
}

fn sketch(d: usize, m: usize, s: usize, rho: usize, classes: usize) -> Sketch {
    let parameters = Parameters { d, m, s, rho, seed: [1; 32], densify: false, scaling: Scaling::None };
    parameters.check(classes).expect("sound parameters")
}

struct Found {
    draw: f64,
    train: f64,
    predict: f64,
    predicted: Vec<u16>,
}

fn measure(sketch: &Sketch, train: &Dataset, test: &Dataset, runs: usize) -> Found {
    let scaler = Scaler::new(&Scaling::None, train.features(), None).expect("nothing to go wrong");
    let (draw, hash) = least(runs, || FlyHash::new(sketch));
    let classes = train.classes().to_vec();
    let (fit, counts) = least(runs, || bloom::fit(&hash, &scaler, train, classes.len()).expect("it fits"));
    let model = Model::new(sketch.clone(), 0.5, classes, scaler, counts).expect("it fits");
    let predictor = model.predictor();
    let (predict, predicted) = least(runs, || predictor.predict(test).expect("it fits"));
    Found { draw, train: fit, predict, predicted }
}

fn settings(full: bool, as_json: bool, only: &str) {
    let [l1, l2] = [16 << 10, 1 << 20].map(load_rate);
    if !as_json {
        println!(
            "One thread, CPU time, least of {RUNS} runs. This core loads {l1:.0} GB/s from L1, {l2:.0} GB/s from L2.\n"
        );
        println!(
            "{:18}{:>8}{:>14}{:>10}{:>10}{:>8}{:>8}{:>12}",
            "", "M, s", "ms/1000 rows", "G adds/s", "GB/s", "of L1", "of L2", "predict/s"
        );
    }
    for mut setting in SETTINGS.into_iter().filter(|(name, ..)| name.starts_with(only)) {
        let (name, d, m, s, rho, ..) = setting;
        if full && name == "mnist, bytes" {
            setting.5 = 60_000;
        }
        let data = rows(setting);
        let n = data.rows() as f64;
        let sketch = sketch(d, m, s, rho, 10);
        let test: Vec<usize> = (0..data.rows().min(2000)).collect();
        let found = measure(&sketch, &data, &data.subset(&test), if full { 1 } else { RUNS });
        let adds = n * (m * s) as f64 / found.train / 1e9;
        // One byte for each entry, and 4 bytes for each column of M in each block of 128 points.
        let rate = adds * (1.0 + 4.0 / 128.0);
        let (train, predict) = (found.train / n * 1e6, test.len() as f64 / found.predict);
        let peak = peak_memory();
        if as_json {
            println!(
                "{}",
                json!({
                    "name": name, "d": d, "m": m, "s": s, "rho": rho, "rows": data.rows(), "draw_s": found.draw,
                    "train_ms_per_1000": train, "gadds_per_s": adds, "load_gb_per_s": rate, "l1_gb_per_s": l1,
                    "l2_gb_per_s": l2, "predict_rows_per_s": predict, "peak_mb": peak,
                })
            );
            continue;
        }
        println!(
            "{name:18}{:8.3}{train:14.1}{adds:10.1}{rate:10.1}{:7.0}%{:7.0}%{predict:12.0}",
            found.draw,
            100.0 * rate / l1,
            100.0 * rate / l2
        );
        if name.starts_with("mnist") && s == 19 {
            println!("{:18}peak memory of the process so far {peak} MB", "");
        }
    }
}

/// Measures training on bytes. A fifth of the bytes are not zero. One of d, m, s and rho differs from a
/// middle value.
fn sweeps() {
    const MIDDLE: [usize; 4] = [784, 16_384, 78, 32];
    let time = |[d, m, s, rho]: [usize; 4]| {
        let data = rows(("", d, m, s, rho, 512, 255, 19));
        let (hash, scaler) = (FlyHash::new(&sketch(d, m, s, rho, 10)), Scaler::new(&Scaling::None, d, None));
        let scaler = scaler.expect("nothing to go wrong");
        let (fit, _) = least(RUNS, || bloom::fit(&hash, &scaler, &data, 10).expect("it fits"));
        fit / data.rows() as f64 * 1e6
    };
    let middle = time(MIDDLE);
    println!(
        "One thread, CPU time, least of {RUNS} runs. d 784, m 16384, s 78, rho 32: {middle:.1} ms for 1000 rows. One of them changed:\n"
    );
    println!("{:>6}{:>8}{:>14}{:>12}{:>12}", "", "", "ms/1000 rows", "parameter x", "time x");
    let values: [(&str, &[usize]); 4] = [
        ("d", &[98, 196, 392, 784, 1568, 3136]),
        ("m", &[1024, 4096, 16_384, 65_536, 262_144]),
        ("s", &[8, 16, 32, 39, 78, 235, 392]),
        ("rho", &[8, 32, 128, 512]),
    ];
    for (at, (name, values)) in values.into_iter().enumerate() {
        for &value in values {
            let mut setting = MIDDLE;
            setting[at] = value;
            let found = time(setting);
            let grown = value as f64 / MIDDLE[at] as f64;
            println!("{name:>6}{value:>8}{found:>14.1}{grown:>12.3}{:>12.3}", found / middle);
        }
    }
}

/// Runs `--files`.
fn files(arguments: &[String]) {
    let [train, test, sizes @ ..] = arguments else { panic!("--files TRAIN.csv TEST.csv M S RHO") };
    let [m, s, rho] = sizes else { panic!("--files TRAIN.csv TEST.csv M S RHO") };
    let [m, s, rho] = [m, s, rho].map(|size| size.parse::<usize>().expect("a whole number"));
    let train = load(Path::new(train), &Expected::default()).unwrap_or_else(|error| panic!("{error}"));
    let expected =
        Expected { features: Some(train.features()), classes: Some(train.classes()), ..Expected::default() };
    let test = load(Path::new(test), &expected).unwrap_or_else(|error| panic!("{error}"));
    let sketch = sketch(train.features(), m, s, rho, train.classes().len());
    let found = measure(&sketch, &train, &test, 3);
    let right = found.predicted.iter().zip(test.labels()).filter(|(a, b)| a == b).count();
    println!(
        "{}",
        json!({
            "train_s": found.draw + found.train, "predict_s": found.predict,
            "accuracy": right as f64 / test.rows() as f64,
        })
    );
}

/// Returns the rate, in GB/s, at which the core reads `bytes` bytes repeatedly with its widest vectors and
/// no other work.
fn load_rate(bytes: usize) -> f64 {
    let lines = vec![Line([1; 32]); bytes / 64];
    let rounds = (1 << 28) / bytes;
    let (seconds, _) = least(9, || pulp::Arch::new().dispatch(Read { lines: &lines, rounds }));
    (rounds * bytes) as f64 / seconds / 1e9
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u16; 32]);

struct Read<'a> {
    lines: &'a [Line],
    rounds: usize,
}

impl pulp::NullaryFnOnce for Read<'_> {
    type Output = [[u16; 32]; 4];

    #[inline(always)]
    fn call(self) -> Self::Output {
        let mut sums = [[0_u16; 32]; 4];
        for _ in 0..self.rounds {
            // Four sums, because an addition waits for the previous one in the same sum.
            for four in black_box(self.lines).as_chunks::<4>().0 {
                // Plain loops. A closure may be compiled in another codegen unit, without the wide
                // vectors.
                for line in 0..4 {
                    #[expect(
                        clippy::needless_range_loop,
                        reason = "an iterator may be compiled in another unit, too"
                    )]
                    for at in 0..32 {
                        sums[line][at] = sums[line][at].wrapping_add(four[line].0[at]);
                    }
                }
            }
        }
        sums
    }
}

/// Returns the peak memory in MB; 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1000
}
