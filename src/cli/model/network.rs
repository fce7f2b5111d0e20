//! `predict`, `report` and `inspect` of a network that the task `fedavg` has trained, and of a personal model
//! that was made of one.

use std::path::Path;

use flyswarm_learn::learner::{Classifier, ClassifierError};
use flyswarm_learn::personal::{PersonalError, PersonalModel};
use serde_json::json;

use super::super::data::DataArguments;
use super::super::output::for_io;
use super::super::{Failure, kind, one_line};
use crate::data::prepare::Preparation;
use crate::data::{Dataset, LabelColumn};
use crate::model::score::Confusion;
use flyswarm_data::scaling::Scaler;

/// What such a file holds.
pub(in crate::cli) enum Network {
    Global(Box<Classifier>),
    Personal(Box<PersonalModel>),
}

impl From<PersonalError> for Failure {
    fn from(error: PersonalError) -> Self {
        Self::Input(error.to_string())
    }
}

impl Network {
    /// The network in a file; `None` where the file is something else.
    pub(in crate::cli) fn load(path: &Path) -> Result<Option<Self>, Failure> {
        let failed = |error: PersonalError| match &error {
            PersonalError::Classifier(ClassifierError::Io(source)) => {
                for_io(source, format!("{}: {error}", path.display()))
            }
            _ => Failure::Input(format!("{}: {error}", path.display())),
        };
        match kind::of(path) {
            Some(kind::NETWORK) => {
                let network = Classifier::load(path).map_err(|error| failed(error.into()))?;
                Ok(Some(Self::Global(Box::new(network))))
            }
            Some(kind::PERSONAL) => {
                Ok(Some(Self::Personal(Box::new(PersonalModel::load(path).map_err(failed)?))))
            }
            _ => Ok(None),
        }
    }

    /// How rows become numbers, if the session said so.
    pub(super) fn preparation(&self) -> Option<&Preparation> {
        self.classifier().preparation()
    }

    fn classifier(&self) -> &Classifier {
        match self {
            Self::Global(network) => network,
            Self::Personal(model) => model.network(),
        }
    }

    pub(super) fn classes(&self) -> &[String] {
        self.classifier().classes()
    }

    pub(in crate::cli) fn digest(&self) -> [u8; 32] {
        match self {
            Self::Global(network) => network.digest(),
            Self::Personal(model) => model.digest(),
        }
    }

    /// Rows, their labels expected to be its classes where `matched`.
    pub(in crate::cli) fn rows(
        &self,
        data: &DataArguments,
        label: &LabelColumn,
        matched: bool,
    ) -> Result<Dataset, Failure> {
        let network = self.classifier();
        let classes = matched.then(|| network.classes());
        let (rows, said) = data.load_network(network, classes, label)?;
        said.iter().for_each(|line| eprintln!("{}", one_line(line)));
        Ok(rows)
    }

    /// The scores of rows, rows x classes, the lowest the prediction: -ln of each class's probability.
    pub(super) fn scores(&self, rows: &Dataset) -> Result<Vec<f64>, Failure> {
        Ok(match self {
            Self::Global(network) => {
                let scores = network.scores(rows.view()).map_err(PersonalError::from)?;
                scores.rows().into_iter().flat_map(|row| surprise(&row.to_vec())).collect()
            }
            Self::Personal(model) => model.probabilities(rows.view())?.iter().map(|p| 0.0 - p.ln()).collect(),
        })
    }

    /// What the network knows of the columns that it was trained on, and their names.
    pub(super) fn columns(&self) -> (&Scaler, &[String]) {
        (self.classifier().scaler(), self.classifier().columns())
    }

    /// The share of `rows` that the network of a personal model alone gives its label; `None` for a network.
    pub(super) fn alone(&self, rows: &Dataset) -> Result<Option<f64>, Failure> {
        let Self::Personal(model) = self else { return Ok(None) };
        let predicted = model.network().predict(rows.view()).map_err(PersonalError::from)?;
        Ok(Some(Confusion::new(self.classes(), rows.labels(), &predicted).accuracy()))
    }

    /// What the file holds.
    pub(in crate::cli) fn inspect(&self, as_json: bool) -> String {
        match self {
            Self::Global(network) => inspect(network, as_json),
            Self::Personal(model) => inspect_personal(model, as_json),
        }
    }
}

/// -ln of each class's probability, from what the last layer gives.
fn surprise(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().copied().map(f64::from).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum();
    logits.iter().map(|&logit| sum.ln() + (most - f64::from(logit))).collect()
}

fn inspect_personal(model: &PersonalModel, as_json: bool) -> String {
    let (network, datastore, mixture) = (model.network(), model.datastore(), model.mixture());
    let (digest, id) = (hex::encode(model.digest()), hex::encode(network.digest()));
    let (contents, part) = (model.contents().name(), model.contents().part());
    if as_json {
        let value = json!({
            "kind": "personal model", "digest": digest, "network": id, "session": network.session().0,
            "classes": network.classes(), "keys": datastore.len(), "width": datastore.width(),
            "contents": contents, "part": part,
            "k": mixture.k, "scale": mixture.scale, "lambda": mixture.lambda,
        });
        return format!("{value:#}");
    }
    let contents = match contents {
        "all" => "of all rows".into(),
        name => format!("{name}, {part} of the rows"),
    };
    let lines = [
        "flyswarm personal model: holds representations of private rows; do not pass it on".into(),
        format!("digest     {digest}"),
        format!("network    {id}"),
        format!("session    {}", network.session().0),
        format!("datastore  {} keys of {} numbers, {contents}", datastore.len(), datastore.width()),
        format!("mixture    lambda {}, k {}, scale {}", mixture.lambda, mixture.k, mixture.scale),
        format!("classes    {}", network.classes().join(", ")),
    ];
    lines.join("\n")
}

fn inspect(network: &Classifier, as_json: bool) -> String {
    let (session, id) = network.session();
    let (shape, scaling) = (network.network(), network.scaler().scaling().name());
    let name = shape.architecture().name();
    let (digest, id) = (hex::encode(network.digest()), hex::encode(id));
    if as_json {
        let tensor =
            |tensor: &flyswarm_learn::learner::Tensor| json!({"name": tensor.name, "shape": tensor.shape});
        let value = json!({
            "kind": "network", "digest": digest, "session": session, "id": id, "network": name,
            "features": network.scaler().features(), "scaling": scaling, "classes": network.classes(),
            "columns": network.columns(), "weights": shape.weights(),
            "tensors": shape.tensors().iter().map(tensor).collect::<Vec<_>>(),
        });
        return format!("{value:#}");
    }
    let columns = network.columns();
    let columns = if columns.is_empty() { "no names".into() } else { columns.join(", ") };
    let mut lines = vec![
        format!(
            "flyswarm network, {name}, {} weights; the file is in the format safetensors",
            shape.weights()
        ),
        format!("digest    {digest}"),
        format!("session   {session} {id}"),
        format!("features  {}: {columns}", network.scaler().features()),
        format!("scaling   {scaling}"),
        format!("classes   {}", network.classes().join(", ")),
    ];
    lines.extend(shape.tensors().iter().map(|tensor| format!("  {:20} {:?}", tensor.name, tensor.shape)));
    lines.join("\n")
}
