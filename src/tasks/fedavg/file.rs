//! The files of a network and of a personal model, as `flyswarm inspect` shows them.

use super::own::{self, OwnModel};
use flyswarm_learn::learner::Classifier;
use flyswarm_learn::personal::PersonalModel;
use serde_json::json;

use crate::tasks::{Contents, ResultFile};

/// File types: a network, the personal model that `flyswarm personalise` makes from a network, and a model
/// that only the users' own programs can compute.
pub(super) const FILES: &[ResultFile] = &[
    ResultFile { name: "a network", recognised: Classifier::looks_like, contents: Some(network) },
    ResultFile { name: "a personal model", recognised: PersonalModel::looks_like, contents: Some(personal) },
    ResultFile {
        name: "a model of your own",
        recognised: OwnModel::looks_like,
        contents: Some(own::contents),
    },
];

/// Reads the contents of a personal model's file.
fn personal(bytes: &[u8]) -> Result<Contents, String> {
    let model = PersonalModel::decode(bytes).map_err(|error| error.to_string())?;
    let (network, datastore, mixture) = (model.network(), model.datastore(), model.mixture());
    let (digest, id) = (hex::encode(model.digest()), hex::encode(network.digest()));
    let (contents, part) = (model.contents().name(), model.contents().part());
    let json = json!({
            "kind": "personal model", "digest": digest, "network": id, "session": network.session().0,
            "classes": network.classes(), "keys": datastore.len(), "width": datastore.width(),
            "contents": contents, "part": part,
            "k": mixture.k, "scale": mixture.scale, "lambda": mixture.lambda,
    });
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
    Ok(Contents { kind: "personal", digest: model.digest(), text: lines.join("\n"), json })
}

/// Reads the contents of a network's file.
fn network(bytes: &[u8]) -> Result<Contents, String> {
    let network = Classifier::decode(bytes).map_err(|error| error.to_string())?;
    let (session, id) = network.session();
    let (shape, scaling) = (network.network(), network.scaler().scaling().name());
    let name = shape.architecture().name();
    let (digest, id) = (hex::encode(network.digest()), hex::encode(id));
    let tensor =
        |tensor: &flyswarm_learn::learner::Tensor| json!({"name": tensor.name, "shape": tensor.shape});
    let json = json!({
            "kind": "network", "digest": digest, "session": session, "id": id, "network": name,
            "features": network.scaler().features(), "scaling": scaling, "classes": network.classes(),
            "columns": network.columns(), "weights": shape.weights(),
            "tensors": shape.tensors().iter().map(tensor).collect::<Vec<_>>(),
    });
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
    Ok(Contents { kind: "network", digest: network.digest(), text: lines.join("\n"), json })
}
