//! Reads a table of rows and prints the time and the memory of the rows and of the process, as JSON: `load
//! FILE LABEL [described]`. `lab/scripts/bench-load.py` compares it with polars.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::path::Path;
use std::time::Instant;

use flyswarm_data::prepare::draft::draft;
use flyswarm_data::prepare::publish::Rule;
use flyswarm_data::{Expected, LabelColumn, load_named};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, label, rest @ ..] = &arguments[..] else { return Err("load FILE LABEL [described]".into()) };
    let (file, label) = (Path::new(file), LabelColumn::Name(label.clone()));
    let expected = Expected { label, ..Expected::default() };
    let draft = if rest.is_empty() { None } else { draft(file, &expected, &Rule::LOCAL)? };
    let start = Instant::now();
    let expected = match &draft {
        Some(draft) => {
            Expected { preparation: Some(&draft.preparation), classes: Some(&draft.classes), ..expected }
        }
        None => expected,
    };
    let loaded = load_named(file, &expected)?;
    let seconds = start.elapsed().as_secs_f64();
    let (rows, features) = (loaded.data.rows(), loaded.data.features());
    let sum: f64 = loaded.data.values().iter().map(|&x| f64::from(x)).sum();
    let peak = std::fs::read_to_string("/proc/self/status")?;
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    println!(
        "{{\"rows\": {rows}, \"features\": {features}, \"seconds\": {seconds:.3}, \"peak_bytes\": {}, \
         \"result_bytes\": {}, \"sum\": {sum}}}",
        1024 * peak,
        4 * rows * features + 2 * rows
    );
    Ok(())
}
