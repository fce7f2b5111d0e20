//! `predict`, `eval` and `inspect`: what a model file is good for. None of them needs a network.

mod diff;
pub(super) mod network;
mod predict;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use flyswarm_learn::model::columns::Beside;
use flyswarm_learn::model::figures::{Figures, Sums};
use serde_json::{Value, json};

use super::data::DataArguments;
use super::output::for_io;
use super::{Failure, kind, one_line, written};
use crate::data::{DataError, Dataset, LabelColumn, split};
use crate::model::file::{self, DecodeError, FileError};
use crate::model::outside::Known;
use crate::model::readout;
use crate::model::score::Confusion;
use crate::model::{Model, ModelError};
use crate::session::EvaluateSpec;
use crate::tasks::flynn::evaluate::compared;
use flyswarm_data::scaling::Scaling;

pub(super) use diff::ModelCommand;
use network::Network;
pub(super) use predict::Predict;

/// The bins of margins are as fine as for a model with so many winners: finest below a difference of 1.
const UNIT_MARGIN: usize = 8;
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
        let Scored { figures, digest, outside, confusion, alone, .. } =
            scored(&self.model, &self.data, &self.label)?;
        let text = if self.json {
            let mut value = json!(figures);
            // As whole numbers, without their intervals, these stood here before.
            value["accuracy"] = json!(figures.accuracy.value);
            value["balanced_accuracy"] = json!(figures.balanced_accuracy.value);
            value["accuracy_interval"] = json!([figures.accuracy.low, figures.accuracy.high]);
            let balanced = figures.balanced_accuracy;
            value["balanced_accuracy_interval"] = json!([balanced.low, balanced.high]);
            value["classes"] = figures.per_class.iter().map(|each| json!(each.class)).collect();
            value["digest"] = json!(hex::encode(digest));
            if let Some(alone) = alone {
                value["accuracy_of_the_network_alone"] = json!(alone);
            }
            if let Some((rows, columns)) = outside {
                (value["rows_outside"], value["columns_outside"]) = (json!(rows), columns);
            }
            format!("{value:#}")
        } else {
            let alone = alone.map_or(String::new(), |alone| format!("network alone      {alone:.4}\n"));
            format!("{figures}\n{alone}\n{confusion}")
        };
        written(writeln!(out, "{text}"), "standard output")
    }
}

/// How well a model or a network predicts rows.
pub(super) struct Scored {
    pub(super) figures: Figures,
    pub(super) digest: [u8; 32],
    /// Of a model: rows with values outside what it has seen, and in which columns.
    outside: Option<(usize, Value)>,
    confusion: Confusion,
    /// Of a personal model: the accuracy of its network by itself.
    alone: Option<f64>,
    /// The columns of the rows beside those that were learnt from, where the model knows their spread.
    pub(super) columns: Option<Beside>,
    /// What a report cannot tell, a sentence each.
    pub(super) left_out: Vec<String>,
    /// The model, where it is no network.
    pub(super) model: Option<Model>,
    rows: Dataset,
}

impl Scored {
    /// As many of the rows as a session holds out, predicted in three ways; `None` for a network, and where
    /// no class has two rows.
    pub(super) fn beside(&self) -> Result<Option<Value>, Failure> {
        let Some(model) = &self.model else { return Ok(None) };
        let EvaluateSpec { held_out, most, .. } = EvaluateSpec::default();
        // With the seed that the model's session has held rows out by.
        let seed = model.sketch().parameters().seed;
        let split = split::held_out(&self.rows, held_out.into(), most as usize, &seed);
        let found = compared(model, &self.rows.subset(&split.train), &self.rows.subset(&split.test));
        Ok(found.map_err(|error| Failure::Input(error.to_string()))?.json(model.classes()))
    }
}

/// Why columns are not compared.
fn no_spread(scaling: &Scaling) -> String {
    format!(
        "Columns beside those of the pool: a file with the scaling {} keeps no spread of what was learnt from; those \
         with standard and soft-bins do. The page that join wrote has them where the session opened them.",
        scaling.name()
    )
}

/// Predicts labelled rows.
pub(super) fn scored(
    arguments: &ModelArguments,
    data: &DataArguments,
    label: &LabelColumn,
) -> Result<Scored, Failure> {
    if *label == LabelColumn::None {
        return Err(Failure::Input("--label none: expected a column of labels to compare with".into()));
    }
    let none = || Failure::Input("no rows to predict".into());
    if let Some(network) = Network::load(&arguments.model)? {
        let data = network.rows(data, label, true)?;
        let (scores, alone) = (network.scores(&data)?, network.alone(&data)?);
        let (classes, (scaler, names)) = (network.classes(), network.columns());
        let columns = Beside::scaler(&data, names, scaler, None);
        let mut left_out = vec![
            "A comparison with a network of these rows alone: `flyswarm personalise NETWORK --data rows --local` \
             makes one."
                .to_owned(),
        ];
        left_out.extend(columns.is_none().then(|| no_spread(scaler.scaling())));
        return Ok(Scored {
            figures: Figures::new(
                classes,
                &Sums::of_scores(classes.len(), data.labels(), &scores, UNIT_MARGIN),
            )
            .ok_or_else(none)?,
            digest: network.digest(),
            outside: None,
            confusion: Confusion::new(classes, data.labels(), &lowest(&scores, classes.len())),
            alone,
            columns,
            left_out,
            model: None,
            rows: data,
        });
    }
    let model = arguments.load()?;
    let (data, said) = data.load_for(&model, label, true)?;
    said.iter().for_each(|line| eprintln!("{}", one_line(line)));
    let (columns, outside) = model.outside(&data);
    let scores = model.predictor().scores(&data)?;
    let classes = model.classes();
    let predicted = lowest(&scores, classes.len());
    let sums = Sums::of_scores(classes.len(), data.labels(), &scores, model.sketch().parameters().rho);
    let columns = columns.iter().map(|column| {
        json!({
            "column": column.column + 1, "name": model.columns().get(column.column),
            "rows": column.rows, "farthest": column.farthest,
        })
    });
    let beside = Beside::scaler(
        &data,
        model.columns(),
        model.scaler(),
        model.class_rows().map(|rows| rows.iter().sum()),
    );
    Ok(Scored {
        figures: Figures::new(classes, &sums).ok_or_else(none)?,
        digest: model.digest(),
        outside: Some((outside, columns.collect())),
        confusion: Confusion::new(classes, data.labels(), &predicted),
        alone: None,
        left_out: beside.is_none().then(|| no_spread(model.scaler().scaling())).into_iter().collect(),
        columns: beside,
        rows: data,
        model: Some(model),
    })
}

/// The class of each row of scores, the lowest.
fn lowest(scores: &[f64], classes: usize) -> Vec<u16> {
    scores.chunks_exact(classes.max(1)).map(readout::lowest).collect()
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
fn columns_json(model: &Model) -> Value {
    // A few bytes can say that there are a million columns of which nothing is known.
    let known = model.scaler().means().len();
    let each = matches!(model.scaler().scaling(), Scaling::Range { lo, .. } if lo.len() > 1);
    if model.columns().is_empty() && known == 0 && !each {
        return Value::Null;
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
