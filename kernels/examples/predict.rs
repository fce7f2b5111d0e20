//! What predicting costs: the least of some runs, in seconds. `python/bench_predict.py` holds the package for
//! Python against it.
//!
//! `cargo run --example predict -- MODEL ROWS.npy RUNS`

#![allow(missing_docs)]

use std::path::Path;
use std::time::Instant;

use flyswarm_kernels::data::{Expected, LabelColumn, load_named};
use flyswarm_kernels::model::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows, runs] = &arguments[..] else { return Err("expected MODEL ROWS.npy RUNS".into()) };
    let model = Model::load(Path::new(model))?;
    let expected = Expected { label: LabelColumn::None, ..Expected::default() };
    let data = load_named(Path::new(rows), &expected)?.data;
    let predictor = model.predictor();
    let mut least = f64::INFINITY;
    for _ in 0..runs.parse()? {
        #[allow(clippy::disallowed_methods, reason = "a stopwatch")]
        let begun = Instant::now();
        let found = predictor.predict(&data)?;
        least = least.min(begun.elapsed().as_secs_f64());
        assert_eq!(found.len(), data.rows());
    }
    println!("{least}");
    Ok(())
}
