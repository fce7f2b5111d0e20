//! Measures whether the probabilities of FlyNN are right. It computes the log-loss and the expected
//! calibration error (ECE) of the default setting on every CSV file of a folder, next to class frequencies
//! and 15 nearest neighbours. The figures are means of five folds; the ECE has 10 bins of equal count over
//! the rows of all folds.
//!
//! ```sh
//! cargo run --release --package flyswarm-lab --example calibration -- ../shared/data/tabular [SEED]
//! ```
//!
//! *raw* is the softmax of the scores, *cautious* the probability of a model without held-out rows,
//! *fitted* the probability after `FlyNNClassifier.fit` or a session. Neighbours vote over columns with
//! mean 0 and deviation 1. A class without a vote has the probability 2.2e-16, as in scikit-learn.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_data::split::folds;
use flyswarm_data::{Dataset, Expected, load_named};
use flyswarm_learn::model::{Model, bloom};
use flyswarm_learn::sketch::Parameters;
use flyswarm_learn::sketch::flyhash::FlyHash;
use flyswarm_learn::tuning::candidate::{PRESET_BINS, PRESET_M, PRESET_READOUT, PRESET_RHO, PRESET_S};
use rayon::prelude::*;

type Failure = Box<dyn Error + Send + Sync>;

const FOLDS: usize = 5;
const NEIGHBOURS: usize = 15;
const BINS: usize = 10;
/// Sources of probabilities, in the order of the columns.
const METHODS: [&str; 5] = ["frequencies", "15 nearest", "raw", "cautious", "fitted"];

/// Probabilities of one method: losses by fold, and for each row its probability and whether the likeliest
/// class is right.
#[derive(Default)]
struct Tally {
    losses: Vec<f64>,
    rows: Vec<(f64, bool)>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(folder), Some(seed)) =
        (arguments.first(), arguments.get(1).map_or(Some(0), |text| text.parse::<u64>().ok()))
    else {
        return Err("calibration FOLDER [SEED]".into());
    };
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.to_string_lossy().contains(".csv"));
    paths.sort();
    println!("                                       log-loss{:43}ECE", "");
    print!("{:<26}{:>6}{:>4}", "set", "rows", "L");
    METHODS.iter().for_each(|name| print!(" {:>11}", name));
    println!("{:>9}{:>9}", "raw", "fitted");
    let (mut worse, mut better, mut all, mut raw) = (Vec::new(), 0, Vec::new(), Vec::new());
    for path in &paths {
        let name =
            path.file_name().unwrap_or_default().to_string_lossy().split(".csv").next().map(str::to_owned);
        let name = name.unwrap_or_default();
        let data = load_named(path, &Expected::default())?.data;
        let tallies = measure(&data, seed)?;
        let losses = tallies.each_ref().map(Tally::loss);
        let (before, after) = (tallies[2].error(), tallies[4].error());
        print!("{name:<26}{:>6}{:>4}", data.rows(), data.classes().len());
        losses.iter().for_each(|loss| print!(" {loss:>11.4}"));
        println!("{before:>9.4}{after:>9.4}");
        if losses[4] > losses[0] {
            worse.push(name);
        }
        better += usize::from(losses[4] < losses[1]);
        all.push(after);
        raw.push(before);
    }
    println!("\nsets: {}", paths.len());
    println!(
        "log-loss above that of the frequencies: {}{}",
        worse.len(),
        worse.iter().map(|name| format!(" {name}")).collect::<String>()
    );
    println!("log-loss below that of 15 nearest neighbours: {better}");
    println!("median ECE: {:.4}, raw {:.4}", median(&mut all), median(&mut raw));
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Tally {
    /// Adds the rows of a fold: their labels, and the probability of each class.
    fn add(&mut self, labels: &[u16], stated: &[f64]) {
        let classes = stated.len() / labels.len();
        let mut sum = 0.0;
        for (&label, stated) in labels.iter().zip(stated.chunks_exact(classes)) {
            sum -= stated[usize::from(label)].max(f64::EPSILON).ln();
            let best =
                (0..classes).max_by(|&a, &b| stated[a].total_cmp(&stated[b]).then(b.cmp(&a))).unwrap_or(0);
            self.rows.push((stated[best], best == usize::from(label)));
        }
        self.losses.push(sum / labels.len() as f64);
    }

    fn loss(&self) -> f64 {
        self.losses.iter().sum::<f64>() / self.losses.len() as f64
    }

    /// Returns the mean distance of the predicted probability from the observed frequency, over bins of
    /// equal count.
    fn error(&self) -> f64 {
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let bins = (0..BINS).map(|bin| &rows[bin * rows.len() / BINS..(bin + 1) * rows.len() / BINS]);
        let apart = bins.map(|bin| {
            bin.iter().map(|&(stated, right)| stated - f64::from(u8::from(right))).sum::<f64>().abs()
        });
        apart.sum::<f64>() / rows.len() as f64
    }
}

fn measure(data: &Dataset, seed: u64) -> Result<[Tally; METHODS.len()], Failure> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let classes = data.classes().len();
    let scaling = Scaling::SoftBins(PRESET_BINS);
    let parameters = Parameters {
        d: data.features(),
        m: PRESET_M,
        s: PRESET_S.min(scaling.width(data.features())),
        rho: PRESET_RHO,
        seed: key,
        densify: false,
        scaling,
    };
    let sketch = parameters.check(classes)?;
    let hash = Arc::new(FlyHash::new(&sketch));
    let mut tallies: [Tally; METHODS.len()] = std::array::from_fn(|_| Tally::default());
    for fold in folds(data, FOLDS, &key) {
        let (train, test) = (data.subset(&fold.train), data.subset(&fold.test));
        let scaler = Scaler::fit(&sketch.parameters().scaling, &train)?;
        let counts = bloom::fit(&hash, &scaler, &train, classes)?;
        let cautious = Model::new(sketch.clone(), PRESET_READOUT, data.classes().to_vec(), scaler, counts)?;
        let fitted = cautious.clone().calibrated_on(&hash, (&train).into(), (&train).into())?;
        let fitted = fitted.ok_or("the model was not trained on these rows")?;
        let scores = cautious.predictor_with(hash.clone()).scores(&test)?;
        let counts = train.class_counts(classes);
        let shares = counts.iter().map(|&rows| rows as f64 / train.rows() as f64);
        let frequencies: Vec<f64> = shares.cycle().take(classes * test.rows()).collect();
        let stated = [
            frequencies,
            votes(&train, &test),
            softmax(&scores, classes),
            cautious.probabilities(&scores),
            fitted.probabilities(&scores),
        ];
        tallies.iter_mut().zip(stated).for_each(|(tally, stated)| tally.add(test.labels(), &stated));
    }
    Ok(tallies)
}

/// Returns the posterior of naive Bayes on the bits, with equal priors.
fn softmax(scores: &[f64], classes: usize) -> Vec<f64> {
    let row = |scores: &[f64]| {
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let odds: Vec<f64> = scores.iter().map(|score| (least - score).exp()).collect();
        let sum: f64 = odds.iter().sum();
        odds.into_iter().map(|odd| odd / sum).collect::<Vec<_>>()
    };
    scores.chunks_exact(classes).flat_map(row).collect()
}

/// Returns the share of each class among the nearest training rows.
fn votes(train: &Dataset, test: &Dataset) -> Vec<f64> {
    let (near, far) = standardised(train, test);
    let (width, classes) = (train.features(), train.classes().len());
    let row = |row: &[f32]| {
        let distance = |(other, &label): (&[f32], &u16)| {
            (row.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f32>(), label)
        };
        let mut all: Vec<(f32, u16)> = near.chunks_exact(width).zip(train.labels()).map(distance).collect();
        if all.len() > NEIGHBOURS {
            all.select_nth_unstable_by(NEIGHBOURS - 1, |a, b| a.0.total_cmp(&b.0));
            all.truncate(NEIGHBOURS);
        }
        let mut votes = vec![0.0; classes];
        all.iter().for_each(|&(_, label)| votes[usize::from(label)] += 1.0 / all.len() as f64);
        votes
    };
    far.par_chunks_exact(width).flat_map_iter(row).collect()
}

/// Scales columns to mean 0 and deviation 1 over the training rows; constant columns are dropped.
fn standardised(train: &Dataset, test: &Dataset) -> (Vec<f32>, Vec<f32>) {
    let (width, rows) = (train.features(), train.rows() as f64);
    let mean = |f: &dyn Fn(usize, f64) -> f64| {
        let mut sums = vec![0.0; width];
        for row in train.values().chunks_exact(width) {
            sums.iter_mut().zip(row).enumerate().for_each(|(j, (sum, &x))| *sum += f(j, f64::from(x)));
        }
        sums.into_iter().map(|sum| sum / rows).collect::<Vec<f64>>()
    };
    let means = mean(&|_, x| x);
    let squares = mean(&|j, x| (x - means[j]) * (x - means[j]));
    let scaled = |data: &Dataset| {
        let numbers = data.values().iter().enumerate();
        #[expect(clippy::cast_possible_truncation, reason = "distances are taken in binary32")]
        let scaled = numbers.map(|(at, &x)| {
            let (mean, square) = (means[at % width], squares[at % width]);
            if square > 0.0 { ((f64::from(x) - mean) / square.sqrt()) as f32 } else { 0.0 }
        });
        scaled.collect::<Vec<f32>>()
    };
    (scaled(train), scaled(test))
}
