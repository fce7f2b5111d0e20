//! `flyswarm tables`: every method on many data sets, nested, as in the paper's Tables 1 and 2.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

mod print;
#[cfg(test)]
mod tests;

use super::data::load_whole;
use super::{Failure, output, print};
use crate::data::{Dataset, Expected};
use crate::evaluate::Metric;
use crate::evaluate::nested::{Plan, SetResult, evaluate};
use flyswarm_learn::synthetic::{Clusters, binary, clusters};

/// Compares FlyNN with other methods over many data sets: wins, ties, losses, p-values
///
/// Every method is tuned on inner folds and scored on outer rows that no choice has seen. Results go to one
/// JSON file for each set; a run that was ended goes on from them.
#[derive(Debug, Args)]
pub(super) struct Tables {
    /// A folder of CSV files, gzipped or not, with the label in the last column
    #[arg(value_name = "FOLDER", required_unless_present = "synthetic")]
    folder: Option<PathBuf>,
    /// The paper's Table 1 in place of a folder: so many made-up sets of each shape (the paper: 30)
    #[arg(long, value_name = "SETS", conflicts_with = "folder", value_parser = clap::value_parser!(u16).range(1..=1000))]
    synthetic: Option<u16>,
    /// Reads the rows as the section table of a session file describes their columns: this file for all sets,
    /// or of this folder the file NAME.toml for NAME.csv, where it is there
    #[arg(long, value_name = "SESSION", requires = "folder")]
    columns_from: Option<PathBuf>,
    /// Where results are kept, one JSON file for each set; made if there is none
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Only sets whose name contains one of these
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Most rows used of a set, a stratified sample
    #[arg(long, default_value_t = 1000, value_parser = at_least::<20>)]
    rows: usize,
    /// Outer folds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=100))]
    outer: u16,
    /// Inner folds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=100))]
    inner: u16,
    /// Random candidates for each set, besides the default
    #[arg(long, default_value_t = 24, value_parser = at_least::<3>)]
    budget: usize,
    #[command(flatten)]
    search: SearchArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

// What every search of settings is bounded and steered by. (clap would take a documentation comment for the
// command's.)
#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// Most bits of a hash, below the paper's 2048 d
    #[arg(long, default_value_t = 16_384, value_parser = at_least::<512>)]
    pub(super) max_m: usize,
    /// Of folds, candidates and matrices
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// What is made as large as possible: balanced (accuracy) or accuracy
    #[arg(long, default_value = "balanced")]
    pub(super) metric: Metric,
}

/// A number of at least N.
pub(super) fn at_least<const N: usize>(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| (N..=1 << 30).contains(&n))
        .ok_or_else(|| format!("expected {N} to {}", 1 << 30))
}

/// A set that is still to be read or made.
struct Source {
    name: String,
    load: Box<dyn Fn() -> Result<Dataset, Failure>>,
}

impl Tables {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let plan = Plan {
            rows: self.rows,
            outer: self.outer.into(),
            inner: self.inner.into(),
            budget: self.budget,
            max_m: self.search.max_m,
            seed: self.search.seed,
        };
        let mut sources = match (&self.folder, self.synthetic) {
            (Some(folder), _) => files(folder, self.columns_from.as_deref())?,
            (None, sets) => made_up(sets.unwrap_or(1), self.search.seed),
        };
        sources
            .retain(|source| self.only.is_empty() || self.only.iter().any(|text| source.name.contains(text)));
        if sources.is_empty() {
            let folder = self.folder.as_deref().unwrap_or(Path::new("--synthetic"));
            return Err(Failure::Input(format!("{}: no data set to evaluate", folder.display())));
        }
        output::create_folder(&self.out)?;
        let mut results = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let file = self.out.join(format!("{}.json", source.name));
            let result = match stored(&file, &plan)? {
                Some(result) => result,
                None => {
                    let bar =
                        bar(plan.ticks(), format!("{} of {}: {}", number + 1, sources.len(), source.name));
                    let data = (source.load)()?;
                    let failed = |error| Failure::Input(format!("{}: {error}", source.name));
                    let result = evaluate(&source.name, &data, &plan, &|| bar.inc(1)).map_err(failed)?;
                    bar.finish_and_clear();
                    let text =
                        serde_json::to_string_pretty(&result).map_err(|e| Failure::Machine(e.to_string()))?;
                    output::write(&file, text.as_bytes(), false)?;
                    result
                }
            };
            results.push(result);
        }
        let text = match (self.json, self.synthetic) {
            (true, _) => print::json(&results, self.search.metric),
            (false, None) => print::table_2(&results, self.search.metric),
            (false, Some(_)) => print::table_1(&results, self.search.metric),
        };
        print(out, &text)
    }
}

/// The result in this file, if there is one of the same plan. Another plan's is refused, not overwritten.
fn stored(file: &Path, plan: &Plan) -> Result<Option<SetResult>, Failure> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::Machine(format!("{}: {error}", file.display()))),
    };
    let result: SetResult = serde_json::from_str(&text)
        .map_err(|error| Failure::Input(format!("{}: no result of this command: {error}", file.display())))?;
    if result.plan == *plan {
        return Ok(Some(result));
    }
    let text =
        format!("{}: was made with other options ({:?}); give another --out", file.display(), result.plan);
    Err(Failure::Input(text))
}

/// A bar on standard error if that is a terminal, else nothing.
pub(super) fn bar(ticks: u64, message: String) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(ticks);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}") {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar
}

/// The CSV files of a folder, by name, with what describes their columns.
fn files(folder: &Path, columns: Option<&Path>) -> Result<Vec<Source>, Failure> {
    let failed = |error| output::for_io(&error, format!("{}: {error}", folder.display()));
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = name.strip_suffix(".csv.gz").or_else(|| name.strip_suffix(".csv")) else { continue };
        let name = name.to_owned();
        let columns = match columns {
            Some(of_each) if of_each.is_dir() => {
                Some(of_each.join(format!("{name}.toml"))).filter(|file| file.exists())
            }
            of_all => of_all.map(Path::to_owned),
        };
        let load = Box::new(move || {
            let data = load_whole(&path, columns.as_deref(), &Expected::default())?;
            if data.classes().len() < 2 {
                return Err(Failure::Input(format!(
                    "{}: one class only, expected at least 2",
                    path.display()
                )));
            }
            Ok(data)
        });
        sources.push(Source { name, load });
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sources)
}

/// The shapes of Tables 1 and 3: rows, features and, for binary sets, ones (0 for real ones).
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
            let load = Box::new(move || {
                let made = match ones {
                    0 => clusters(&Clusters::paper(rows, features), &seed),
                    _ => binary(rows, features, ones, &seed),
                };
                made.map_err(|error| Failure::Input(error.to_string()))
            });
            Source { name, load: load as Box<dyn Fn() -> Result<Dataset, Failure>> }
        })
    };
    SHAPES.into_iter().flat_map(of).collect()
}
