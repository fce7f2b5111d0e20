//! `predict`, `eval` and `inspect`: what a model file is good for. None of them needs a network.

mod diff;
pub(super) mod network;
mod predict;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::data::DataArguments;
use super::output::for_io;
use super::{Failure, kind, one_line, written};
use crate::data::{DataError, LabelColumn};
use crate::model::file::{self, DecodeError, FileError};
use crate::model::outside::Known;
use crate::model::score::Confusion;
use crate::model::{Model, ModelError};
use crate::sketch::scaling::Scaling;

pub(super) use diff::ModelCommand;
use network::Network;
pub(super) use predict::Predict;

/// The largest lifting matrix that is drawn without being asked for.
const MATRIX: u64 = 1 << 30;

/// A model file to predict from.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    /// Model file
    pub(super) model: PathBuf,
    /// Use a model even if its lifting matrix, which is drawn from a seed, takes more than 1 GiB of memory
    #[arg(long)]
    large: bool,
}

impl ModelArguments {
    /// Reads the file; a few bytes of another's can ask for gigabytes.
    pub(super) fn load(&self) -> Result<Model, Failure> {
        let model = Model::load(&self.model).map_err(|error| match &error {
            FileError::Bad { problem: DecodeError::Magic, .. } => {
                kind::advice(&self.model, "a model is expected").map_or_else(|| error.into(), Failure::Input)
            }
            _ => error.into(),
        })?;
        let bytes = model.matrix_bytes();
        if bytes > MATRIX && !self.large {
            let gigabytes = bytes as f64 / 1e9;
            let parameters = model.sketch().parameters();
            let text = format!(
                "{}: its lifting matrix (m = {}, s = {}) takes {gigabytes:.1} GB of memory; --large allows it",
                self.model.display(),
                parameters.m,
                parameters.s
            );
            return Err(Failure::Input(text));
        }
        Ok(model)
    }
}

/// Prints how well a model predicts labelled rows
#[derive(Debug, Args)]
pub(super) struct Eval {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Label column: a name, a number from 1, or last
    #[arg(long, value_name = "COLUMN", default_value = "last")]
    label: LabelColumn,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what a file of this program holds
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// Model or session file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        match &error {
            DataError::Read { source, .. } => for_io(source, error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match &error {
            FileError::Io { source, .. } => for_io(source, error.to_string()),
            FileError::Bad { .. } => Self::Input(error.to_string()),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Input(error.to_string())
    }
}

impl Eval {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.label == LabelColumn::None {
            return Err(Failure::Input("--label none: expected a column of labels to compare with".into()));
        }
        if let Some(network) = Network::load(&self.model.model)? {
            let text = network.eval(&self.data, &self.label, self.json)?;
            return written(writeln!(out, "{text}"), "standard output");
        }
        let model = self.model.load()?;
        let (data, said) = self.data.load_for(&model, &self.label, true)?;
        said.iter().for_each(|line| eprintln!("{}", one_line(line)));
        let (columns, outside) = model.outside(&data);
        let predicted = model.predictor().predict(&data)?;
        let confusion = Confusion::new(model.classes(), data.labels(), &predicted);
        let text = if self.json {
            let value = json!({
                "rows": confusion.rows(),
                "accuracy": confusion.accuracy(),
                "balanced_accuracy": confusion.balanced_accuracy(),
                "classes": model.classes(),
                "confusion": confusion.table().collect::<Vec<_>>(),
                "rows_outside": outside,
                "columns_outside": columns.iter().map(|column| json!({
                    "column": column.column + 1, "name": model.columns().get(column.column),
                    "rows": column.rows, "farthest": column.farthest,
                })).collect::<Vec<_>>(),
                "digest": hex::encode(model.digest()),
            });
            format!("{value:#}")
        } else {
            format!(
                "rows               {}\naccuracy           {:.4}\nbalanced accuracy  {:.4}\n\n{confusion}",
                confusion.rows(),
                confusion.accuracy(),
                confusion.balanced_accuracy()
            )
        };
        written(writeln!(out, "{text}"), "standard output")
    }
}

impl Inspect {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut start = Vec::new();
        let read = File::open(&self.file)
            .and_then(|file| file.take(file::MAGIC.len() as u64).read_to_end(&mut start));
        read.map_err(|error| for_io(&error, format!("{}: {error}", self.file.display())))?;
        let taken = "`inspect` takes a model or a session file";
        // A session file is text, and no text begins like a model.
        let text = match kind::of(&self.file) {
            _ if start == file::MAGIC => inspect_model(&self.file, self.json)?,
            Some(kind::NETWORK | kind::PERSONAL) => match Network::load(&self.file)? {
                Some(network) => network.inspect(self.json),
                None => return Err(Failure::Input(format!("{}: changed meanwhile", self.file.display()))),
            },
            Some(other) if other != "a session file" => {
                return Err(Failure::Input(format!("{}: this is {other}; {taken}", self.file.display())));
            }
            _ if std::str::from_utf8(&start).is_ok() => super::session::shown(&self.file, self.json)?,
            _ => {
                return Err(Failure::Input(format!(
                    "{}: neither a model nor a session file",
                    self.file.display()
                )));
            }
        };
        written(writeln!(out, "{}", text.trim_end()), "standard output")
    }
}

fn inspect_model(file: &Path, as_json: bool) -> Result<String, Failure> {
    let model = Model::load(file)?;
    let parameters = model.sketch().parameters();
    let classes = model.classes();
    let sums: Vec<u64> =
        (0..classes.len()).map(|l| model.counts().class(l).iter().map(|&c| u64::from(c)).sum()).collect();
    let taken = model.counts().values().iter().filter(|&&c| c > 0).count();
    let share = taken as f64 / model.counts().values().len() as f64;
    let rows = model.class_rows();
    if as_json {
        let value = json!({
            "kind": "model",
            "digest": hex::encode(model.digest()),
            "d": parameters.d, "m": parameters.m, "s": parameters.s, "rho": parameters.rho,
            "gamma": model.readout().gamma,
            "score": model.readout().score,
            "densify": parameters.densify,
            "scaling": parameters.scaling.name(),
            "seed": hex::encode(parameters.seed),
            "classes": classes,
            "counts_per_class": sums,
            "rows_per_class": rows,
            "share_of_counts_above_0": share,
            "columns": columns_json(&model),
            "origin": model.origin().map(|origin| json!({
                "session": origin.session, "id": hex::encode(origin.id), "members": origin.members,
                "roster": origin.roster, "noise": origin.noised, "protocol": origin.protocol,
                "program": origin.program, "unix": origin.unix, "date": origin.date(),
            })),
        });
        return Ok(format!("{value:#}"));
    }
    let mut lines = vec![
        format!("flyswarm model, version {}", file::VERSION),
        format!("digest    {}", hex::encode(model.digest())),
    ];
    if let Some(origin) = model.origin() {
        let noise = if origin.noised { ", noise added" } else { "" };
        let (counted, roster) = (origin.members.len(), origin.roster);
        lines.extend([
            format!("session   {} {}", origin.session, hex::encode(origin.id)),
            format!("counted   {counted} of {roster} peers{noise}: {}", origin.members.join(", ")),
            format!("written   {} by {}, protocol {}", origin.date(), origin.program, origin.protocol),
        ]);
    }
    let names = if model.columns().is_empty() { "no names".into() } else { model.columns().join(", ") };
    lines.extend([
        format!("features  {}: {names}", parameters.d),
        format!(
            "scaling   {}{}",
            parameters.scaling.name(),
            if parameters.densify { ", densified" } else { "" }
        ),
        format!("sketch    m {}, s {}, rho {}", parameters.m, parameters.s, parameters.rho),
        format!("score     {}, gamma {}", model.readout().score, model.readout().gamma),
        format!("seed      {}", hex::encode(parameters.seed)),
        format!("counts    {:.1} % above 0", 100.0 * share),
    ]);
    let width = classes.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    match rows {
        Some(rows) => {
            let all: u64 = rows.iter().sum::<u64>().max(1);
            lines.push(format!("classes   {}, with the rows learnt and their share:", classes.len()));
            let share = |rows: u64| 100.0 * rows as f64 / all as f64;
            let line = |(name, &rows)| format!("  {name:width$}  {rows} ({:.1} %)", share(rows));
            lines.extend(classes.iter().zip(&rows).map(line));
        }
        None => {
            lines.push(format!(
                "classes   {}, with the sum of their counts (noise was added):",
                classes.len()
            ));
            lines.extend(classes.iter().zip(&sums).map(|(name, sum)| format!("  {name:width$}  {sum}")));
        }
    }
    Ok(lines.join("\n"))
}

/// Name, kind and what is known of the values of each column.
fn columns_json(model: &Model) -> serde_json::Value {
    // A few bytes can say that there are a million columns of which nothing is known.
    let known = model.scaler().means().len();
    let each = matches!(model.scaler().scaling(), Scaling::Range { lo, .. } if lo.len() > 1);
    if model.columns().is_empty() && known == 0 && !each {
        return serde_json::Value::Null;
    }
    let column = |place: usize| {
        let name = model.columns().get(place);
        match model.known(place) {
            Known::Spread(mean, 0.0) => {
                json!({"name": name, "kind": "constant", "mean": mean, "deviation": 0.0})
            }
            Known::Spread(mean, deviation) => {
                json!({"name": name, "kind": "number", "mean": mean, "deviation": deviation})
            }
            Known::Mean(mean) => json!({"name": name, "kind": "number", "mean": mean}),
            Known::Bounds(lo, hi) => json!({"name": name, "kind": "number", "lo": lo, "hi": hi}),
            Known::Nothing => json!({"name": name, "kind": "number"}),
        }
    };
    (0..model.sketch().parameters().d).map(column).collect()
}

#[cfg(test)]
pub(super) mod tests;
