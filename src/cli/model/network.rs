//! `predict`, `eval` and `inspect` of a network that the task `fedavg` has trained.

use std::path::Path;

use flyswarm_kernels::learner::{Classifier, ClassifierError};
use serde_json::json;

use super::super::data::DataArguments;
use super::super::output::for_io;
use super::super::{Failure, kind};
use crate::data::{Dataset, LabelColumn};

/// The network in a file; `None` where the file is something else.
pub(super) fn load(path: &Path) -> Result<Option<Classifier>, Failure> {
    if kind::of(path) != Some(kind::NETWORK) {
        return Ok(None);
    }
    Classifier::load(path).map(Some).map_err(|error| match &error {
        ClassifierError::Io(source) => for_io(source, format!("{}: {error}", path.display())),
        _ => Failure::Input(format!("{}: {error}", path.display())),
    })
}

/// Rows and their predicted classes.
pub(super) fn rows(
    network: &Classifier,
    data: &DataArguments,
    label: &LabelColumn,
    matched: bool,
) -> Result<(Dataset, Vec<u16>), Failure> {
    let classes = matched.then(|| network.classes());
    let data = data.load_columns(network.scaler().features(), network.columns(), classes, label)?;
    let predicted = network.predict(data.view()).map_err(|error| Failure::Input(error.to_string()))?;
    Ok((data, predicted))
}

/// The class of each row, one a line.
pub(super) fn predict(
    network: &Classifier,
    data: &DataArguments,
    label: &LabelColumn,
    as_json: bool,
) -> Result<String, Failure> {
    let (_, predicted) = rows(network, data, label, false)?;
    let line = |(row, class): (usize, u16)| {
        let class = &network.classes()[usize::from(class)];
        if as_json { format!("{}\n", json!({"row": row, "class": class})) } else { format!("{class}\n") }
    };
    Ok((1..).zip(predicted).map(line).collect())
}

/// What the file holds.
pub(super) fn inspect(network: &Classifier, as_json: bool) -> String {
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
