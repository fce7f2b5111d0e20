//! `flyswarm tune`: finds settings of FlyNN for some rows by cross-validation, with baselines on the
//! same folds.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::data::{Reading, load_whole};
use super::{Failure, output, print};
use crate::data::split::{folds, stratified_sample};
use crate::data::{Dataset, Expected, LabelColumn};
use crate::model::readout::Readout;
use flyswarm_data::scaling::Scaling;
use flyswarm_learn::tuning::baselines::{self, neighbour_settings};
use flyswarm_learn::tuning::candidate::{Ranges, readouts};
use flyswarm_learn::tuning::search::{TrialError, search};
use flyswarm_learn::tuning::{Candidate, Metric, Tally, Trial, best, summed};

/// Find settings of FlyNN for labelled rows by cross-validation, and compare them with simple methods on the
/// same folds
///
/// Every candidate has its own lifting matrix in each fold. All values of the settings `score` and `gamma`
/// are tried on the same counts. The printed figures are slightly too good, because the best candidate is
/// chosen on the same folds that measure it.
#[derive(Debug, Args)]
pub(super) struct Tune {
    /// Rows with labels: CSV, Excel, Parquet, NPY or NPZ
    data: PathBuf,
    /// Label column: its name, its number from 1, or `last`
    #[arg(long, value_name = "COLUMN", default_value = "last")]
    label: LabelColumn,
    /// Session file whose section `[table]` describes the columns of the rows
    #[arg(long, value_name = "SESSION")]
    columns_from: Option<PathBuf>,
    /// Column that groups the rows, such as the patient. A group is never split between folds
    #[arg(long, value_name = "COLUMN", conflicts_with = "columns_from")]
    group: Option<String>,
    #[command(flatten)]
    reading: Reading,
    /// Number of candidate settings in addition to the default settings: first known good ones, then random
    /// ones
    #[arg(long, default_value_t = 24, value_parser = at_least::<0>)]
    budget: usize,
    /// Number of folds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=100))]
    folds: u16,
    /// Maximum number of rows to use. If the file has more, a random sample keeps the share of each class
    #[arg(long, default_value_t = 5000, value_parser = at_least::<20>)]
    rows: usize,
    /// Maximum of m, the number of bits that stand for a row (the paper's maximum is 2048 times the number of
    /// features)
    #[arg(long, default_value_t = 16_384, value_parser = at_least::<512>)]
    max_m: usize,
    /// Seed of folds, candidates and matrices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Metric to maximise: balanced (balanced accuracy) or accuracy
    #[arg(long, default_value = "balanced")]
    metric: Metric,
    /// Try only settings of the published method
    #[arg(long)]
    paper_settings: bool,
    /// Write the best settings to FILE, as lines of a session file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: output::Overwrite,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses a number of at least N.
pub(super) fn at_least<const N: usize>(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| (N..=1 << 30).contains(&n))
        .ok_or_else(|| format!("expected {N} to {}", 1 << 30))
}

/// Makes a progress bar on standard error. It is hidden if standard error is not a terminal.
fn bar(ticks: u64, message: String) -> ProgressBar {
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

/// Number of the best candidates that are shown.
const SHOWN: usize = 8;

/// A candidate with its best readout.
struct Ranked<'a> {
    candidate: &'a Candidate,
    readout: Readout,
    tally: &'a Tally,
}

impl Tune {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.label == LabelColumn::None {
            return Err(Failure::Input("--label none: expected a column of labels to learn".into()));
        }
        self.out.iter().try_for_each(|path| output::check(path, self.overwrite.force))?;
        let group = self.group.as_deref();
        let expected = Expected { group, ..self.reading.expected(&self.label) };
        let data = load_whole(&self.data, self.columns_from.as_deref(), &expected)?;
        if data.classes().len() < 2 {
            let text = format!("{}: one class only, expected at least 2", self.data.display());
            return Err(Failure::Input(text));
        }
        let seed = self.seed.to_le_bytes();
        let data = data.subset(&stratified_sample(data.labels(), self.rows, &seed));
        let trials = Trial::of(&data, &folds(&data, self.folds.into(), &seed));
        let (candidates, readouts) = self.grid(&data)?;
        let name = self.data.display().to_string();
        let bar = bar((candidates.len() * trials.len()) as u64, name.clone());
        let failed = |error: TrialError| Failure::Input(format!("{name}: {error}"));
        let tallies = search(&candidates, &readouts, &trials, &seed, &|| bar.inc(1)).map_err(failed)?;
        bar.finish_and_clear();
        let mut ranked: Vec<_> = candidates
            .iter()
            .zip(tallies.chunks(readouts.len()))
            .filter_map(|(candidate, tallies)| {
                let at = best(tallies.iter().enumerate(), self.metric)?;
                Some(Ranked { candidate, readout: readouts[at], tally: &tallies[at] })
            })
            .collect();
        ranked.sort_by(|a, b| b.tally.score(self.metric).total_cmp(&a.tally.score(self.metric)));
        let baselines = self.baselines(&trials).map_err(failed)?;
        let Some(first) = ranked.first() else {
            return Err(Failure::Input(format!("{name}: no candidate suits these rows")));
        };
        let lines = crate::tasks::tune::text::session_lines(first.candidate, first.readout);
        if let Some(path) = &self.out {
            output::write(path, lines.as_bytes(), self.overwrite.force)?;
        }
        let text = if self.json {
            self.json_text(&data, &ranked, &baselines)
        } else {
            self.table(&data, &ranked, &baselines, &lines)
        };
        print(out, &text)
    }

    /// Returns the candidates and readouts to try.
    fn grid(&self, data: &Dataset) -> Result<(Vec<Candidate>, Vec<Readout>), Failure> {
        let ranges = Ranges { d: data.features(), classes: data.classes().len(), max_m: self.max_m };
        let mut candidates = ranges.draw(self.budget, &self.seed.to_le_bytes());
        let mut readouts = readouts();
        if self.paper_settings {
            candidates.retain(Candidate::is_published);
            readouts.retain(|readout| readout.is_published());
        }
        if candidates.is_empty() {
            let text = format!(
                "{}: no candidate with --budget {} suits these rows",
                self.data.display(),
                self.budget
            );
            return Err(Failure::Input(text));
        }
        Ok((candidates, readouts))
    }

    /// Returns the name, the best setting and the tally of each baseline.
    fn baselines(&self, trials: &[Trial]) -> Result<Vec<(&'static str, String, Tally)>, TrialError> {
        let neighbours = trials.iter().map(baselines::neighbours);
        let tallies =
            summed(neighbours.collect::<Result<Vec<_>, _>>()?.into_iter().map(|(outer, _)| outer).collect());
        let settings = neighbour_settings();
        let mut found = Vec::new();
        for (name, only) in [("kNN", None), ("1NN", Some(1))] {
            let among = tallies.iter().enumerate().filter(|(i, _)| only.is_none_or(|k| settings[*i].k == k));
            if let Some(at) = best(among, self.metric) {
                found.push((name, settings[at].to_string(), tallies[at].clone()));
            }
        }
        Ok(found)
    }

    fn table(
        &self,
        data: &Dataset,
        ranked: &[Ranked],
        baselines: &[(&str, String, Tally)],
        lines: &str,
    ) -> String {
        let mut text = format!(
            "{} rows, {} features, {} classes; {} folds; ordered by {}\n\n{:>8} {:>8}  setting\n",
            data.rows(),
            data.features(),
            data.classes().len(),
            self.folds,
            self.metric,
            "balanced",
            "accuracy",
        );
        let mut row = |tally: &Tally, setting: String| {
            let [balanced, accuracy] = Metric::ALL.map(|metric| tally.score(metric));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{balanced:>8.4} {accuracy:>8.4}  {setting}");
        };
        for Ranked { candidate, readout, tally } in ranked.iter().take(SHOWN) {
            row(tally, format!("FlyNN: {candidate}; {}, gamma {}", readout.score, readout.gamma));
        }
        for (name, setting, tally) in baselines {
            row(tally, format!("{name}: {setting}"));
        }
        text + "\n" + lines
    }

    fn json_text(&self, data: &Dataset, ranked: &[Ranked], baselines: &[(&str, String, Tally)]) -> String {
        let scores = |tally: &Tally| Metric::ALL.map(|metric| tally.score(metric));
        let candidates = ranked.iter().map(|Ranked { candidate, readout, tally }| {
            let [balanced, accuracy] = scores(tally);
            json!({
                "m": candidate.m, "s": candidate.s, "rho": candidate.rho, "densify": candidate.densify,
                "scaling": candidate.scaling.name(),
                "bins": match candidate.scaling { Scaling::SoftBins(bins) => Some(bins), _ => None },
                "score": readout.score, "gamma": readout.gamma, "balanced": balanced, "accuracy": accuracy,
            })
        });
        let baselines = baselines.iter().map(|(name, setting, tally)| {
            let [balanced, accuracy] = scores(tally);
            json!({"name": name, "setting": setting, "balanced": balanced, "accuracy": accuracy})
        });
        let value = json!({
            "rows": data.rows(), "features": data.features(), "classes": data.classes(), "folds": self.folds,
            "metric": self.metric, "seed": self.seed,
            "candidates": candidates.collect::<Vec<_>>(), "baselines": baselines.collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_line;
    use crate::data::digits::digits;
    use crate::session::Session;

    fn folder(rows: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let data = digits();
        let mut text = String::new();
        for i in 0..rows {
            data.row(i).iter().for_each(|x| text.push_str(&format!("{x},")));
            text.push_str(&format!("{}\n", data.labels()[i]));
        }
        std::fs::write(folder.path().join("d.csv"), text).unwrap();
        std::fs::write(folder.path().join("one.csv"), "1,2,a\n3,4,a\n").unwrap();
        folder
    }

    #[test]
    fn tuning_prints_the_best_first_and_writes_lines_that_a_session_takes() {
        let folder = folder(300);
        let line = "tune d.csv --budget 5 --folds 3 --max-m 1024 --out best.toml";
        let text = run_line(folder.path(), line).unwrap();
        let shown: Vec<f64> = text
            .lines()
            .filter(|line| line.contains("FlyNN"))
            .map(|line| line[..8].trim().parse().unwrap())
            .collect();
        assert!(shown.len() == 6 && shown.is_sorted_by(|a, b| a >= b) && shown[0] > 0.85, "{text}");
        for name in ["kNN", "1NN"] {
            assert!(text.contains(&format!("  {name}: ")), "{text}");
        }
        let lines = std::fs::read_to_string(folder.path().join("best.toml")).unwrap();
        assert!(text.ends_with(&lines));
        let (data, flynn) = lines.split_once("\n\n").unwrap();
        let mut file = format!(
            "name = \"n\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"flynn\"\n[data]\nfeatures = 64\nclasses = [\"a\", \"b\"]\n{data}\n{flynn}"
        );
        for i in 0..3u8 {
            let key = crate::crypto::identity::Identity::from_seed([i; 32]).public();
            file += &format!("[[roster]]\nname = \"{i}\"\npeer_id = \"{key}\"\n");
        }
        assert!(Session::parse(&file).is_ok(), "{file}");
        let error = run_line(folder.path(), line).unwrap_err().to_string();
        assert!(error.ends_with("best.toml: exists; --force overwrites it"), "{error}");
        let again = run_line(folder.path(), &format!("{line} --force")).unwrap();
        assert_eq!(again, text, "the same seed, the same output");
    }

    #[test]
    fn json_has_every_candidate_and_published_leaves_the_extensions_out() {
        let folder = folder(200);
        let text =
            run_line(folder.path(), "tune d.csv --budget 9 --folds 2 --max-m 512 --paper-settings --json")
                .unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let candidates = value["candidates"].as_array().unwrap();
        assert!(!candidates.is_empty());
        assert!(candidates.iter().all(|c| c["scaling"] == "unit-norm" && c["score"] == "decay"), "{text}");
        assert_eq!(value["baselines"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn rows_that_cannot_be_tuned_on_are_refused_in_one_line() {
        let folder = folder(30);
        for (line, part) in [
            ("tune one.csv", "one.csv: one class only, expected at least 2"),
            ("tune none.csv", "none.csv: "),
            ("tune d.csv --label none", "--label none: expected a column of labels"),
            ("tune d.csv --label 99", "d.csv"),
        ] {
            let error = run_line(folder.path(), line).unwrap_err();
            assert_eq!(error.code(), 2);
            let text = error.to_string();
            assert!(text.contains(part) && !text.contains('\n'), "{line}: {text}");
        }
    }
}
