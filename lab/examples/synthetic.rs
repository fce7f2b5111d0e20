//! Prints made-up rows as CSV, with the class in the last column: `synthetic ROWS FEATURES SEED [ONES]`.
//! With ONES the rows are binary. `lab/scripts/check-synthetic.py` compares them with those of
//! scikit-learn.

use std::process::ExitCode;

use flyswarm_lab::synthetic::{binary, paper};
use flyswarm_learn::synthetic::clusters;

fn main() -> ExitCode {
    let numbers: Option<Vec<u32>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let (rows, features, seed, ones) = match numbers.as_deref() {
        Some(&[rows, features, seed]) => (rows, features, seed, 0),
        Some(&[rows, features, seed, ones]) => (rows, features, seed, ones),
        _ => {
            eprintln!("synthetic ROWS FEATURES SEED [ONES]");
            return ExitCode::from(2);
        }
    };
    let (rows, features, seed) = (rows as usize, features as usize, seed.to_le_bytes());
    let made = match ones {
        0 => clusters(&paper(rows, features), &seed).map_err(|error| error.to_string()),
        _ => binary(rows, features, ones as usize, &seed).map_err(|error| error.to_string()),
    };
    let data = match made {
        Ok(data) => data,
        Err(error) => {
            eprintln!("synthetic: {error}");
            return ExitCode::from(2);
        }
    };
    for (row, label) in data.labels().iter().enumerate() {
        let values: Vec<String> = data.row(row).iter().map(f32::to_string).collect();
        println!("{},{}", values.join(","), data.classes()[usize::from(*label)]);
    }
    ExitCode::SUCCESS
}
