//! The result of a session that trains a model of the users' own: a file in the format safetensors with the
//! tensors of the session file, in its order (spec, section "Task fedavg", *Result*).
//!
//! Everything else is text in `__metadata__`, so that the file has no other tensors than those of the model.
//! The entries are `format` ([`FORMAT`]), `session` and `session_id`, `classes` and `columns` as JSON,
//! `preparation` if the session describes the columns, and the scaling of the rows ([`scaler_metadata`]).

use flyswarm_data::prepare::TableSchema;
use flyswarm_data::scaling::Scaler;
use flyswarm_learn::learner::{scaler_metadata, scaler_of_metadata};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::{History, Outcome};
use super::tensors::{self, TensorSpec, Values};
use super::{Fedavg, FedavgError, Plan};
use crate::crypto::tagged_hash;
use crate::tasks::Contents;

const FORMAT: &str = "flyswarm-model/1";

/// Returns the digest of a file of weights.
pub(crate) fn digest(file: &[u8]) -> [u8; 32] {
    let hash: Sha256 = tagged_hash("network").chain_update(file);
    hash.finalize().into()
}

/// Writes the file with these values.
pub(super) fn encode(plan: &Plan, scaler: &Scaler, values: &Values) -> Vec<u8> {
    let (session, data) = (&plan.session, &plan.session.data);
    let mut metadata = Map::new();
    let mut text = |name: &str, text: String| drop(metadata.insert(name.to_owned(), text.into()));
    text("format", FORMAT.into());
    text("session", session.name.clone());
    text("session_id", hex::encode(session.id().0));
    text("classes", json!(data.classes).to_string());
    text("columns", json!(data.columns).to_string());
    if let Some(table) = &plan.preparation {
        text("preparation", hex::encode(table.encode()));
    }
    scaler_metadata(scaler).into_iter().for_each(|(name, value)| text(name, value));
    tensors::write(&plan.tensors, values, Some(&metadata.into()))
}

/// A model of the users' own, read from the result file of a session.
#[derive(Debug)]
pub struct OwnModel {
    /// Its tensors, as they are in the file.
    pub tensors: Vec<TensorSpec>,
    /// Scaling of the rows that it was trained on.
    pub scaler: Scaler,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Names of the features; empty if they have none.
    pub columns: Vec<String>,
    /// How a table becomes features, if the session described one.
    pub preparation: Option<TableSchema>,
    /// Name and id of the session of origin.
    pub session: (String, String),
    /// Digest of the file.
    pub digest: [u8; 32],
}

impl OwnModel {
    /// Returns whether a file that begins with these bytes may be such a model.
    #[must_use]
    pub fn looks_like(bytes: &[u8]) -> bool {
        let start = bytes.get(8..).unwrap_or_default();
        let own = format!("\"format\":\"{FORMAT}\"");
        start.starts_with(b"{\"__metadata__\":{\"classes\":")
            && start.windows(own.len()).any(|part| part == own.as_bytes())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Returns one line if it is not such a model.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let file = tensors::open(bytes)?;
        let text = |name: &str| {
            file.metadata(name).ok_or_else(|| format!("is not a model of a session: it has no {name}"))
        };
        if text("format")? != FORMAT {
            return Err(format!("has the format {:?}, expected {FORMAT}", text("format")?));
        }
        let wrong = |name: &str| format!("has an impossible {name}");
        let names = |name: &str| serde_json::from_str(text(name)?).map_err(|_| wrong(name));
        let table = file.metadata("preparation").map(|digits| {
            let bytes = hex::decode(digits).map_err(|_| wrong("preparation"))?;
            TableSchema::decode(&bytes).map_err(|error| error.to_string())
        });
        let found = file.tensors()?;
        // Reads every value, to find a file that is cut off.
        file.values(&found)?;
        Ok(Self {
            tensors: found,
            scaler: scaler_of_metadata(|name| file.metadata(name)).ok_or_else(|| wrong("scaling"))?,
            classes: names("classes")?,
            columns: names("columns")?,
            preparation: table.transpose()?,
            session: (text("session")?.to_owned(), text("session_id")?.to_owned()),
            digest: digest(bytes),
        })
    }
}

impl Fedavg {
    /// Returns the result of a session that trains a model of the users' own. The figures in it come from the
    /// trainers.
    pub(super) fn own_outcome(&self, history: &History) -> Result<Outcome, FedavgError> {
        let plan = &self.plan;
        let file = plan.file(plan.made(plan.spec.rounds, history)?, history)?;
        let digest = digest(&file);
        let outcome = Outcome::new(file, digest);
        if plan.noise.is_some() {
            let members = history.members(plan.last() - 1).len();
            return Ok(Outcome { details: self.told_of_noise(members), ..outcome });
        }
        let judged = plan.judged(history).ok_or(FedavgError::Closed("the last round"))?;
        let rounds: Vec<_> = judged.curve.iter().map(|figures| plan.named(*figures)).collect();
        let figures = judged.curve.last().copied().unwrap_or_default();
        let summary = format!("accuracy {:.4} on the training rows in the last round", figures.accuracy);
        let mut details = Map::new();
        details.insert("rounds".into(), json!(rounds));
        details.insert("scores".into(), json!(plan.named(figures)));
        Ok(Outcome { details, ..outcome.with_summary(summary) })
    }
}

/// Returns the contents of such a file for `flyswarm inspect`.
pub(super) fn contents(bytes: &[u8]) -> Result<Contents, String> {
    let model = OwnModel::decode(bytes)?;
    let (session, id) = &model.session;
    let digest = hex::encode(model.digest);
    let scaling = model.scaler.scaling().name();
    let tensor = |each: &TensorSpec| json!({"name": each.name, "dtype": crate::session::fields::Word::word(each.dtype), "shape": each.shape});
    let tensors: Vec<Value> = model.tensors.iter().map(tensor).collect();
    let json = json!({
        "kind": "own model", "digest": digest, "session": session, "id": id,
        "features": model.scaler.features(), "scaling": scaling, "classes": model.classes,
        "columns": model.columns, "tensors": tensors,
    });
    let mut lines = vec![
        format!("model of {} tensors, trained by its users; in the format safetensors", tensors.len()),
        format!("digest    {digest}"),
        format!("session   {session} {id}"),
        format!("features  {}, scaled: {scaling}", model.scaler.features()),
        format!("classes   {}", model.classes.join(", ")),
    ];
    lines.extend(tensors.iter().map(|each| {
        let text = |name: &str| each[name].as_str().unwrap_or_default().to_owned();
        format!("  {:32} {:4} {}", text("name"), text("dtype"), each["shape"])
    }));
    Ok(Contents { kind: "own-model", digest: model.digest, text: lines.join("\n"), json })
}
