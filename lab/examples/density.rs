//! Measures the error of a sketch's kernel densities: `cargo run --release --package flyswarm-lab
//! --example density > density.csv`.
//!
//! Every tenth row of the digits is a query. The others are sketched, with several seeds. Each line is for
//! one hash, number of rows and estimator. It has the root of the mean squared relative error over queries
//! and seeds, and the mean relative error (bias). `lab/scripts/plot-density.py` draws them.

use flyswarm_data::digits::digits;
use flyswarm_learn::sketch::distribution::{DistributionSketch, Family};

const SEEDS: u8 = 12;
const ROWS: [usize; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Number of groups in the median of means.
const GROUPS: usize = 8;

fn exact(family: Family, range: usize, a: &[f32], b: &[f32]) -> f64 {
    let sum = |term: &dyn Fn(f64, f64) -> f64| {
        a.iter().zip(b).map(|(&x, &y)| term(x.into(), y.into())).sum::<f64>()
    };
    match family {
        Family::Srp => {
            let cosine = sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
            (1.0 - cosine.clamp(-1.0, 1.0).acos() / std::f64::consts::PI).powf((range as f64).log2())
        }
        Family::Minhash => {
            let [both, any] = [
                sum(&|x, y| f64::from(u8::from(x > 0.0 && y > 0.0))),
                sum(&|x, y| f64::from(u8::from(x > 0.0 || y > 0.0))),
            ];
            both / any + (1.0 - both / any) / range as f64
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let all = digits();
    let (queries, learnt): (Vec<usize>, Vec<usize>) = (0..all.rows()).partition(|row| row % 10 == 0);
    let data = all.subset(&learnt);
    println!("hash,range,rows,estimator,error,bias");
    for (family, range) in [(Family::Srp, 64), (Family::Minhash, 64)] {
        let densities: Vec<f64> = queries
            .iter()
            .map(|&query| {
                let kernels = (0..data.rows()).map(|row| exact(family, range, all.row(query), data.row(row)));
                kernels.sum::<f64>() / data.rows() as f64
            })
            .collect();
        for rows in ROWS {
            let estimators = [("mean", 1), ("median of 8 means", GROUPS), ("median (Algorithm 4)", rows)];
            let mut errors = [(0.0, 0.0); 3];
            for seed in 0..SEEDS {
                let hashes = family.hashes(&[seed], rows, range, all.features())?;
                let mut sketch = DistributionSketch::new(rows, range)?;
                sketch.extend(&*hashes, &data)?;
                for (&query, density) in queries.iter().zip(&densities) {
                    for ((_, groups), (square, bias)) in estimators.iter().zip(&mut errors) {
                        let error = sketch.density(&*hashes, all.row(query), *groups) / density - 1.0;
                        *square += error * error;
                        *bias += error;
                    }
                }
            }
            let count = f64::from(SEEDS) * queries.len() as f64;
            for ((name, _), (square, bias)) in estimators.iter().zip(errors) {
                println!("{family},{range},{rows},{name},{:.6},{:.6}", (square / count).sqrt(), bias / count);
            }
        }
    }
    Ok(())
}
