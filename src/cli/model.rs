//! Reads model files, predicts with them, and measures the quality of the predictions. This needs no
//! connection to other peers.

pub(super) mod network;
mod predict;

use std::path::{Path, PathBuf};

use clap::Args;
use flyswarm_learn::model::columns::Beside;
use flyswarm_learn::model::comparison::Comparison;
use flyswarm_learn::model::figures::{Figures, Sums};
use serde_json::{Value, json};

use super::data::DataArguments;
use super::output::for_io;
use super::{Failure, kind, learnt, say};
use crate::data::{DataError, Dataset, LabelColumn, split};
use crate::model::file::{DecodeError, FileError};
use crate::model::readout;
use crate::model::score::Confusion;
use crate::model::{Model, ModelError};
use crate::report::roc::Curve;
use crate::tasks::EvaluateSpec;
use crate::tasks::flynn::evaluate::compared;
use flyswarm_data::scaling::Scaling;

use network::Network;
pub(super) use predict::Predict;

/// Largest lifting matrix, in bytes, that is drawn without --large.
const MATRIX: u64 = 1 << 30;

/// Arguments that name a model file.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    /// Model file
    pub(super) model: PathBuf,
    /// Use the model even if its lifting matrix takes more than 1 GiB of memory (the file has only the seed
    /// of the matrix)
    #[arg(long)]
    large: bool,
}

impl ModelArguments {
    /// Makes the arguments for a file whose lifting matrix is not large.
    pub(super) fn of(path: &Path) -> Self {
        Self { model: path.to_owned(), large: false }
    }

    /// Reads the file. A large model is refused without --large, because a small file from another person can
    /// require gigabytes of memory.
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

/// Quality of the predictions of a model or a network.
pub(super) struct Scored {
    pub(super) figures: Figures,
    /// ROC curve of two classes.
    pub(super) curve: Option<Curve>,
    pub(super) digest: [u8; 32],
    /// For a FlyNN model: number of rows with values outside the range of the training rows, and their
    /// columns.
    outside: Option<(usize, Value)>,
    confusion: Confusion,
    /// For a personal model: accuracy of its network alone.
    alone: Option<f64>,
    /// Columns of the rows compared with those of the training rows, if the model has their deviations.
    pub(super) columns: Option<Beside>,
    /// Comparison with the rows that the model was trained on.
    pub(super) compared: learnt::Compared,
    /// Contents that the report lacks, in one sentence each.
    pub(super) left_out: Vec<String>,
    /// The model, if it is not a network.
    pub(super) model: Option<Model>,
    rows: Dataset,
    /// Number of the positive class (for sensitivity), if there are two classes.
    positive: Option<u16>,
}

/// Determines the positive class, if there are two classes. The user can name it. Otherwise the session's
/// receipt names it. Otherwise it is the class with fewer training rows in the model. So all sites of a
/// session use the same positive class, regardless of their own rows.
#[derive(Clone, Copy, Default)]
pub(super) struct PositiveClass<'a> {
    /// Class that the user names.
    pub(super) asked: Option<&'a str>,
    /// Receipt, which may belong to another model.
    pub(super) receipt: Option<&'a Value>,
}

impl PositiveClass<'_> {
    /// Returns the number of the class.
    fn of(self, classes: &[String], digest: [u8; 32], model: Option<u16>) -> Result<Option<u16>, Failure> {
        let number = |name: &str| {
            let position = classes.iter().position(|class| class == name).filter(|_| classes.len() == 2);
            position.and_then(|position| u16::try_from(position).ok())
        };
        if let Some(name) = self.asked {
            let refused = || match classes {
                [one, two] => format!("--positive {name:?}: expected {one:?} or {two:?}"),
                _ => format!("--positive {name:?}: the model has {} classes, not two", classes.len()),
            };
            return number(name).map(Some).ok_or_else(|| Failure::Input(refused()));
        }
        let told = self.receipt.filter(|receipt| is_of(receipt, &hex::encode(digest)));
        let told = told.and_then(|told| told["evaluation"]["pooled"]["swarm"]["positive"]["class"].as_str());
        Ok(told.and_then(number).or(model))
    }
}

/// Returns whether a receipt belongs to the result with this digest.
pub(super) fn is_of(receipt: &Value, digest: &str) -> bool {
    ["model", "network"].iter().any(|name| receipt[name]["digest"] == *digest)
}

impl Scored {
    /// Returns the figures as JSON.
    pub(super) fn json(&self) -> Value {
        let figures = &self.figures;
        let mut value = json!(figures);
        // For programs that were written for earlier versions, these fields are plain numbers without
        // intervals.
        value["accuracy"] = json!(figures.accuracy.value);
        value["balanced_accuracy"] = json!(figures.balanced_accuracy.value);
        value["accuracy_interval"] = json!([figures.accuracy.low, figures.accuracy.high]);
        let balanced = figures.balanced_accuracy;
        value["balanced_accuracy_interval"] = json!([balanced.low, balanced.high]);
        value["headline"] = json!(self.headline());
        value["warnings"] = self.warnings().into();
        value["rows_learnt_from"] = json!(self.compared.overlap.map(|overlap| overlap.learnt));
        value["rows_held_out"] = json!(self.compared.overlap.map(|overlap| overlap.held_out));
        value["classes"] = figures.per_class.iter().map(|each| json!(each.class)).collect();
        value["digest"] = json!(hex::encode(self.digest));
        if let Some(alone) = self.alone {
            value["accuracy_of_the_network_alone"] = json!(alone);
        }
        if let Some((rows, columns)) = &self.outside {
            (value["rows_outside"], value["columns_outside"]) = (json!(rows), columns.clone());
        }
        value
    }

    /// Returns one line on the quality of the model.
    fn headline(&self) -> String {
        self.figures.headline(&format!("{} rows", self.figures.rows))
    }

    /// Returns warnings for the user of the model; the warning about training rows comes first.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.compared.warning.clone().into_iter().chain(self.warning()).collect()
    }

    /// Returns a warning about the figures.
    pub(super) fn warning(&self) -> Option<String> {
        let said = self.figures.against_majority("model");
        said.warns.then_some(said.text)
    }

    /// Returns the figures as a table.
    pub(super) fn text(&self) -> String {
        let alone = self.alone.map_or(String::new(), |alone| format!("network alone      {alone:.4}\n"));
        format!("{}\n\n{}\n{alone}\n{}", self.headline(), self.figures, self.confusion)
    }

    /// Holds out the same share of the rows as a session does, and predicts these rows in three ways. Returns
    /// `None` for a network, and if no class has two rows.
    pub(super) fn beside(&self) -> Result<Option<Comparison>, Failure> {
        let Some(model) = &self.model else { return Ok(None) };
        let EvaluateSpec { held_out, most, .. } = EvaluateSpec::default();
        // Uses the seed that the model's session used to hold out rows.
        let seed = model.sketch().parameters().seed;
        let split = split::held_out(&self.rows, held_out.into(), most as usize, &seed);
        let found = compared(model, &self.rows.subset(&split.train), &self.rows.subset(&split.test));
        let found = found.map_err(|error| Failure::Input(error.to_string()))?;
        Ok(found.compared(model.classes(), self.positive))
    }
}

/// Explains why the columns are not compared.
fn no_spread(scaling: &Scaling) -> String {
    format!(
        "Columns compared with the pool: a model with the scaling {} keeps no deviations of the training \
         rows; models with the scaling standard or soft-bins keep them. The page that join wrote has them if \
         the session opened them.",
        scaling.name()
    )
}

/// Predicts labelled rows.
pub(super) fn scored(
    arguments: &ModelArguments,
    data: &DataArguments,
    label: &LabelColumn,
    positive: PositiveClass<'_>,
) -> Result<Scored, Failure> {
    if *label == LabelColumn::None {
        return Err(Failure::Input("--label none: expected a column of labels to compare with".into()));
    }
    let none = || Failure::Input("no rows to predict".into());
    if let Some(network) = Network::load(&arguments.model)? {
        let data = network.rows(data, label, true)?;
        let compared = learnt::compare(&learnt::read(&arguments.model, network.digest())?, &data);
        let (scores, alone) = (network.scores(&data)?, network.alone(&data)?);
        let (classes, (scaler, names)) = (network.classes(), network.columns());
        let columns = Beside::scaler(&data, names, scaler, None);
        let mut left_out = vec![
            "A comparison with a network of these rows alone: `flyswarm personalise NETWORK --data rows --local` \
             makes one."
                .to_owned(),
        ];
        left_out.extend(columns.is_none().then(|| no_spread(scaler.scaling())));
        let positive = positive.of(classes, network.digest(), network.positive())?;
        let sums = Sums::of_scores(classes.len(), data.labels(), &scores);
        let figures = Figures::new(classes, &sums, positive).ok_or_else(none)?;
        return Ok(Scored {
            curve: Curve::of(&figures, data.labels(), &scores),
            figures,
            digest: network.digest(),
            outside: None,
            confusion: Confusion::new(classes, data.labels(), &lowest(&scores, classes.len())),
            alone,
            columns,
            compared,
            left_out,
            model: None,
            rows: data,
            positive,
        });
    }
    let model = arguments.load()?;
    let (data, said) = data.load_for(&model, label, true)?;
    said.iter().for_each(|line| say(line));
    let compared = learnt::compare(&learnt::read(&arguments.model, model.digest())?, &data);
    let (columns, outside) = model.outside(&data);
    let scores = model.predictor().scores(&data)?;
    let classes = model.classes();
    let predicted = lowest(&scores, classes.len());
    let sums = Sums::of_stated(classes.len(), data.labels(), &scores, &model.confidences(&scores));
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
    )
    .map(|beside| beside.dated(model.preparation()));
    let positive = positive.of(classes, model.digest(), model.rarer_class())?;
    let figures = Figures::new(classes, &sums, positive).ok_or_else(none)?;
    Ok(Scored {
        curve: Curve::of(&figures, data.labels(), &scores),
        figures,
        digest: model.digest(),
        outside: Some((outside, columns.collect())),
        confusion: Confusion::new(classes, data.labels(), &predicted),
        alone: None,
        compared,
        left_out: beside.is_none().then(|| no_spread(model.scaler().scaling())).into_iter().collect(),
        columns: beside,
        rows: data,
        positive,
        model: Some(model),
    })
}

/// Returns the class with the lowest score in each row.
fn lowest(scores: &[f64], classes: usize) -> Vec<u16> {
    scores.chunks_exact(classes.max(1)).map(readout::lowest).collect()
}

#[cfg(test)]
pub(super) mod tests;
