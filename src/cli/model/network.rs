//! `predict`, `eval` and `inspect` of a network that the task `fedavg` has trained, and of a personal model
//! that was made of one.

use std::path::Path;

use flyswarm_kernels::learner::{Classifier, ClassifierError};
use flyswarm_kernels::personal::{PersonalError, PersonalModel};
use serde_json::json;

use super::super::data::DataArguments;
use super::super::output::for_io;
use super::super::{Failure, kind};
use crate::data::{Dataset, LabelColumn};
use crate::model::score::Confusion;
use crate::sketch::scaling::Scaler;

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

    fn classifier(&self) -> &Classifier {
        match self {
            Self::Global(network) => network,
            Self::Personal(model) => model.network(),
        }
    }

    pub(super) fn classes(&self) -> &[String] {
        self.classifier().classes()
    }

    pub(super) fn digest(&self) -> [u8; 32] {
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
        data.load_columns(network.scaler().features(), network.columns(), classes, label)
    }

    /// The scores of rows, rows x classes, the lowest the prediction: -ln of each class's probability, but
    /// for what is the same for all classes of a row.
    pub(super) fn scores(&self, rows: &Dataset) -> Result<Vec<f64>, Failure> {
        Ok(match self {
            Self::Global(network) => {
                let scores = network.scores(rows.view()).map_err(PersonalError::from)?;
                scores.iter().map(|&score| -f64::from(score)).collect()
            }
            Self::Personal(model) => model.probabilities(rows.view())?.iter().map(|p| -p.ln()).collect(),
        })
    }

    /// What the network knows of the columns that it was trained on, and their names.
    pub(super) fn columns(&self) -> (&Scaler, &[String]) {
        (self.classifier().scaler(), self.classifier().columns())
    }

    pub(super) fn predicted(&self, rows: &Dataset) -> Result<Vec<u16>, Failure> {
        Ok(match self {
            Self::Global(network) => network.predict(rows.view()).map_err(PersonalError::from)?,
            Self::Personal(model) => model.predict(rows.view())?,
        })
    }

    /// The class of each row, one a line.
    pub(super) fn predict(
        &self,
        data: &DataArguments,
        label: &LabelColumn,
        as_json: bool,
    ) -> Result<String, Failure> {
        let predicted = self.predicted(&self.rows(data, label, false)?)?;
        let line = |(row, class): (usize, u16)| {
            let class = &self.classifier().classes()[usize::from(class)];
            if as_json { format!("{}\n", json!({"row": row, "class": class})) } else { format!("{class}\n") }
        };
        Ok((1..).zip(predicted).map(line).collect())
    }

    /// The share of `rows` that the network of a personal model alone gives its label; `None` for a network.
    pub(super) fn alone(&self, rows: &Dataset) -> Result<Option<f64>, Failure> {
        let Self::Personal(model) = self else { return Ok(None) };
        let predicted = model.network().predict(rows.view()).map_err(PersonalError::from)?;
        Ok(Some(Confusion::new(self.classes(), rows.labels(), &predicted).accuracy()))
    }

    /// What the file holds.
    pub(super) fn inspect(&self, as_json: bool) -> String {
        match self {
            Self::Global(network) => inspect(network, as_json),
            Self::Personal(model) => inspect_personal(model, as_json),
        }
    }
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
            |tensor: &flyswarm_kernels::learner::Tensor| json!({"name": tensor.name, "shape": tensor.shape});
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
