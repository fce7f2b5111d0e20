//! Measures the accuracy lost to differential privacy, as in Figures 3, 7 and 8 of Ram and Sinha: `private
//! ROWS REPETITIONS [SEED]`. It prints CSV with a line for each model:
//! `rows,m,rho,repetition,mode,epsilon,top,accuracy`. The mode is `plain` without noise.
//! `lab/scripts/plot-private.py` draws it.

use std::process::ExitCode;

use flyswarm_lab::private::{Study, study};

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let (rows, repetitions, seed) = match numbers.as_deref() {
        Some(&[rows @ 10..=8_000_000, repetitions]) => (rows, repetitions, 1),
        Some(&[rows @ 10..=8_000_000, repetitions, seed]) => (rows, repetitions, seed),
        _ => {
            eprintln!("private ROWS REPETITIONS [SEED]");
            return ExitCode::from(2);
        }
    };
    let plan = Study { repetitions, ..Study::paper(usize::try_from(rows).unwrap_or(usize::MAX)) };
    let points = match study(&plan, seed, &mut |done| {
        eprintln!("{rows} rows: repetition {} of {repetitions}", done + 1)
    }) {
        Ok(points) => points,
        Err(error) => {
            eprintln!("private: {error}");
            return ExitCode::from(2);
        }
    };
    println!("rows,m,rho,repetition,mode,epsilon,top,accuracy");
    for point in points {
        let private = point
            .private
            .map_or_else(|| "plain,,".to_owned(), |(mode, epsilon, top)| format!("{mode},{epsilon},{top}"));
        println!("{rows},{},{},{},{private},{:.4}", point.m, point.rho, point.repetition, point.accuracy);
    }
    ExitCode::SUCCESS
}
