//! Measures prediction: the least of several runs, in seconds of wall time and of CPU time over all cores.
//! `python/benches/bench_predict.py` compares the Python package with it.
//!
//! `cargo run --package flyswarm-lab --example predict -- MODEL ROWS.npy RUNS`

#![allow(missing_docs)]

use std::path::Path;
use std::time::Instant;

use cpu_time::ProcessTime;
use flyswarm_data::{Expected, LabelColumn, load_named};
use flyswarm_learn::model::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows, runs] = &arguments[..] else { return Err("expected MODEL ROWS.npy RUNS".into()) };
    let model = Model::load(Path::new(model))?;
    let expected = Expected { label: LabelColumn::None, ..Expected::default() };
    let data = load_named(Path::new(rows), &expected)?.data;
    let predictor = model.predictor();
    let mut least = [f64::INFINITY; 2];
    for _ in 0..runs.parse()? {
        #[allow(clippy::disallowed_methods, reason = "a stopwatch")]
        let (begun, worked) = (Instant::now(), ProcessTime::now());
        let found = predictor.predict(&data)?;
        let spent = [begun.elapsed(), worked.elapsed()];
        least.iter_mut().zip(spent).for_each(|(least, spent)| *least = least.min(spent.as_secs_f64()));
        assert_eq!(found.len(), data.rows());
    }
    println!("{} {}", least[0], least[1]);
    Ok(())
}
