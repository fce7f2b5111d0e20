//! `flyswarm-lab benchmark`: compares all methods on many data sets, with nested evaluation, as in the
//! paper's Tables 1 and 2.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use flyswarm_data::prepare::publish::Rule;
use flyswarm_data::prepare::whole::load_drafted;
use flyswarm_data::{Dataset, Expected};
use flyswarm_learn::synthetic::clusters;
use flyswarm_learn::tuning::Metric;
use flyswarm_sealed_sum::files::{create_folders, write_whole};
use indicatif::{ProgressBar, ProgressStyle};

mod print;
#[cfg(test)]
mod tests;

use crate::Failure;
use crate::nested::{Plan, SetResult, evaluate};
use crate::synthetic::{binary, paper};

/// Compare FlyNN with other methods over many data sets: wins, ties, losses, p-values
///
/// Every method is tuned on inner folds and scored on outer rows that are not used for any choice. Results
/// go to one JSON file for each set; a stopped run continues from them.
#[derive(Debug, Args)]
pub struct Benchmark {
    /// A folder of CSV files, gzipped or not, with the label in the last column
    #[arg(value_name = "FOLDER", required_unless_present = "synthetic")]
    folder: Option<PathBuf>,
    /// Make the sets of the paper's Table 1 instead of reading a folder: number of sets of each shape (the
    /// paper: 30)
    #[arg(long, value_name = "SETS", conflicts_with = "folder", value_parser = clap::value_parser!(u16).range(1..=1000))]
    synthetic: Option<u16>,
    /// Folder of the results, one JSON file for each set; created if missing
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Only sets whose name contains one of these texts
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Most rows of a set. A larger set is reduced to a stratified sample
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(20..))]
    rows: u32,
    /// Outer folds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=100))]
    outer: u16,
    /// Inner folds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=100))]
    inner: u16,
    /// Number of random candidates for each set, in addition to the default
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(3..))]
    budget: u32,
    /// Most bits of a hash, below the paper's 2048 d
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(512..=1 << 30))]
    max_m: u32,
    /// Seed of folds, candidates and matrices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Metric to maximise: balanced (accuracy) or accuracy
    #[arg(long, default_value = "balanced")]
    metric: Metric,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A set to be read or made.
struct Source {
    name: String,
    load: Box<dyn Fn() -> Result<Dataset, Failure>>,
}

impl Benchmark {
    /// Returns the text to print.
    ///
    /// # Errors
    /// [`Failure`] if a set cannot be evaluated.
    pub fn run(&self) -> Result<String, Failure> {
        let plan = Plan {
            rows: self.rows as usize,
            outer: self.outer.into(),
            inner: self.inner.into(),
            budget: self.budget as usize,
            max_m: self.max_m as usize,
            seed: self.seed,
        };
        let mut sources = match (&self.folder, self.synthetic) {
            (Some(folder), _) => files(folder)?,
            (None, sets) => made_up(sets.unwrap_or(1), self.seed),
        };
        sources
            .retain(|source| self.only.is_empty() || self.only.iter().any(|text| source.name.contains(text)));
        if sources.is_empty() {
            let folder = self.folder.as_deref().unwrap_or(Path::new("--synthetic"));
            return Err(Failure(format!("{}: no data set to evaluate", folder.display())));
        }
        create_folders(&self.out, false)
            .map_err(|error| Failure(format!("{}: {error}", self.out.display())))?;
        let mut results = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let file = self.out.join(format!("{}.json", source.name));
            let result = match stored(&file, &plan)? {
                Some(result) => result,
                None => {
                    // The bar is hidden if standard error is not a terminal.
                    let place = format!("{} of {}: {}", number + 1, sources.len(), source.name);
                    let bar = ProgressBar::new(plan.ticks()).with_message(place);
                    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}") {
                        bar.set_style(style);
                    }
                    let data = (source.load)()?;
                    let failed = |error| Failure(format!("{}: {error}", source.name));
                    let result = evaluate(&source.name, &data, &plan, &|| bar.inc(1)).map_err(failed)?;
                    bar.finish_and_clear();
                    let wrong = |problem: String| Failure(format!("{}: {problem}", file.display()));
                    let text =
                        serde_json::to_string_pretty(&result).map_err(|error| wrong(error.to_string()))?;
                    write_whole(&file, text.as_bytes(), false).map_err(|error| wrong(error.to_string()))?;
                    result
                }
            };
            results.push(result);
        }
        Ok(match (self.json, self.synthetic) {
            (true, _) => print::json(&results, self.metric),
            (false, None) => print::table_2(&results, self.metric),
            (false, Some(_)) => print::table_1(&results, self.metric),
        })
    }
}

/// Returns the result in this file, if there is one with the same plan. A result with another plan is an
/// error, because it would be overwritten.
fn stored(file: &Path, plan: &Plan) -> Result<Option<SetResult>, Failure> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure(format!("{}: {error}", file.display()))),
    };
    let result: SetResult = serde_json::from_str(&text)
        .map_err(|error| Failure(format!("{}: not a result of this command: {error}", file.display())))?;
    if result.plan == *plan {
        return Ok(Some(result));
    }
    let text =
        format!("{}: was made with other options ({:?}); give another --out", file.display(), result.plan);
    Err(Failure(text))
}

/// Returns the CSV files of a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<Source>, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", folder.display()));
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = name.strip_suffix(".csv.gz").or_else(|| name.strip_suffix(".csv")) else { continue };
        let name = name.to_owned();
        let load = Box::new(move || {
            let loaded = load_drafted(&path, &Expected::default(), &Rule::LOCAL);
            let (loaded, draft) = loaded.map_err(|error| Failure(error.to_string()))?;
            if let Some(draft) = draft {
                eprintln!("{}: {}", path.display(), draft.guessed());
            }
            let data = loaded.data;
            if data.classes().len() < 2 {
                return Err(Failure(format!("{}: one class only, expected at least 2", path.display())));
            }
            Ok(data)
        });
        sources.push(Source { name, load });
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sources)
}

/// The shapes of Tables 1 and 3: rows, features and, for binary sets, the number of ones (0 for real
/// values).
const SHAPES: [(usize, usize, usize); 9] = [
    (1000, 50, 10),
    (10_000, 50, 10),
    (1000, 100, 10),
    (1000, 100, 20),
    (1000, 100, 30),
    (1000, 100, 40),
    (1000, 50, 0),
    (10_000, 50, 0),
    (1000, 100, 0),
];

fn made_up(sets: u16, seed: u64) -> Vec<Source> {
    let of = |(rows, features, ones): (usize, usize, usize)| {
        (0..sets).map(move |number| {
            let kind = if ones > 0 { format!("binary-{ones}") } else { "real".into() };
            let name = format!("{kind}-{rows}-{features}-{number}");
            let seed = [seed.to_le_bytes().as_slice(), name.as_bytes()].concat();
            let load = Box::new(move || match ones {
                0 => clusters(&paper(rows, features), &seed).map_err(|error| Failure(error.to_string())),
                _ => binary(rows, features, ones, &seed).map_err(|error| Failure(error.to_string())),
            });
            Source { name, load: load as Box<dyn Fn() -> Result<Dataset, Failure>> }
        })
    };
    SHAPES.into_iter().flat_map(of).collect()
}
