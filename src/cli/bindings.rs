//! Interface for bindings of other languages: commands in this process, and the checks of `join` for
//! rows in memory.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use serde_json::Value;

use super::data::{DataArguments, Map};
use super::session::as_json;
use super::session::typed::NewSession;
use super::{Arguments, Failure, SAID, calls::Call, code_of, join};
use crate::data::{Column, Contents, Dataset, LabelColumn};
use crate::peer::{self, Builder, Peer};
use crate::report::Page;
use crate::session::Session;
use crate::session::fields::Table;
use crate::tasks::RoundFile;
use crate::tasks::fedavg::tensors::{self, Values};
use crate::tasks::fedavg::trainer::{Answer as Trained, Order, Trainer};
use crate::tasks::fedavg::{Own, own};
use crate::tasks::{self, OwnWishes, Rows};
use crate::{Identity, cli};
use flyswarm_learn::learner::Classifier;

/// Runs a command in this process. `given` is a JSON object with one field. The field has the name of the
/// command, and an object with the command's values in their own types. `contents` is a file that is only in
/// memory. `out` receives the result as JSON, and `said` the lines for the user.
///
/// # Errors
/// The [`Failure`] of the command.
pub fn call(
    given: &str,
    contents: Option<Vec<u8>>,
    out: &mut dyn Write,
    said: &mut Vec<String>,
) -> Result<(), Failure> {
    let given: Call =
        serde_json::from_str(given).map_err(|error| Failure::Input(format!("a call: {error}")))?;
    listened(said, || given.run(contents, out))
}

/// Calls `run`, and adds the lines for the user to `said`.
fn listened<T>(said: &mut Vec<String>, run: impl FnOnce() -> T) -> T {
    SAID.set(Some(Vec::new()));
    let result = run();
    said.extend(SAID.take().into_iter().flatten());
    result
}

/// Makes a session file, as `session new` does, and returns its text. `given` is a JSON object with the
/// values, in their own types: `task`, `name`, `peers` (name, id and list of addresses of each), `features`
/// (a number) or `columns` (names), `classes`, `from` (files), `label`, `group`, `map`, `min_rows`, `options`
/// (those of the task, by name) and `fields` (of the session file, by section). `said` receives lines for the
/// user.
///
/// # Errors
/// [`Failure::Input`] if a value does not fit.
pub fn new_session(given: &str, said: &mut Vec<String>) -> Result<String, Failure> {
    let given: NewSession =
        serde_json::from_str(given).map_err(|error| Failure::Input(format!("a session: {error}")))?;
    listened(said, || given.text())
}

/// Returns the settings of a session file, with every default filled in, as `session show --json` does.
///
/// # Errors
/// [`Failure::Input`] if the text is not a session file.
pub fn settings(text: &str) -> Result<String, Failure> {
    as_json(&Session::parse(text)?)
}

/// Runs the command with these words in the same way as the program; the first word is the program's name. It
/// prints to standard output and error, and wrong arguments end the process. Returns the exit code.
#[must_use]
pub fn program(words: &[OsString]) -> u8 {
    let code = code_of(Arguments::parse_from(words));
    // If this code runs as a library, standard output is not flushed when the process ends.
    let _ = std::io::stdout().flush();
    code
}

/// Reads the rows from a file for the session's task, as `join` does; the label is the last column if the
/// task uses labels. Also returns a note on how the columns were matched. `contents` is the content of a file
/// that is only in memory: NPZ, or text with commas between columns and decimal points, even if the session
/// has other settings. `map` is the map file of `join --map`, and `drop` names further columns to leave out.
///
/// # Errors
/// [`Failure::Input`] if the file does not fit the session, [`Failure::Environment`] if it cannot be
/// read.
pub fn rows(
    session: &Session,
    file: &Path,
    label: Option<&LabelColumn>,
    contents: Option<Contents>,
    map: Option<&str>,
    drop: &[String],
) -> Result<(Rows, Option<String>), Failure> {
    let kind = tasks::built_in(session).ok_or_else(|| peer::not_built_in(session))?;
    join::load(session, &kind, &data_of(file, contents, map, drop)?, label)
}

/// Reads labelled rows from a file for a network of the task fedavg, as `personalise` does. The other
/// arguments are the same as in [`rows`].
///
/// # Errors
/// As [`rows`].
pub fn network_rows(
    network: &Classifier,
    file: &Path,
    label: Option<&LabelColumn>,
    contents: Option<Contents>,
    map: Option<&str>,
    drop: &[String],
) -> Result<Dataset, Failure> {
    let data = data_of(file, contents, map, drop)?;
    let label = label.unwrap_or(&LabelColumn::Last);
    Ok(data.load_network(network, Some(network.classes()), label)?.0)
}

fn data_of(
    file: &Path,
    contents: Option<Contents>,
    map: Option<&str>,
    drop: &[String],
) -> Result<DataArguments, Failure> {
    let map = map.map(|path| Map::load(path).map_err(|problem| Failure::Input(format!("{path}: {problem}"))));
    let mut map = map.transpose()?.unwrap_or_default();
    if map.hold_out.is_some() {
        return Err(Failure::Input("hold_out in the map file: give it to join as an argument".into()));
    }
    map.drop.extend(drop.iter().cloned().map(Column::Name));
    if contents.is_some() {
        (map.delimiter, map.decimal_comma) = (Some(b','), Some(false));
    }
    map.contents = contents;
    Ok(DataArguments::new(file.to_owned(), map.into()))
}

/// Returns the file in which a peer of the task fedavg keeps the common weights of the last round, until the
/// session has a result. It is next to the key.
#[must_use]
pub fn round_file(session: &Session, key: &Path) -> Arc<RoundFile> {
    let id = session.id().to_string();
    Arc::new(RoundFile::beside(&key.with_file_name(format!("{}-{}.out", session.name, &id[..16]))))
}

/// Returns the result of a session. If it is an error, adds to the text where `rounds` keeps the weights.
///
/// # Errors
/// The error of `result`.
pub fn with_rounds<T>(result: Result<T, Failure>, rounds: &RoundFile) -> Result<T, Failure> {
    join::with_rounds(result, rounds)
}

/// Returns the same peer with its own settings. In a session of the task xclp, `hold_out` percent of the
/// labels of `rows` are hidden from the session. In a session of the task fedavg, `initial` is the network
/// file that the session starts from, and `rounds` keeps the weights.
///
/// # Errors
/// [`Failure::Input`] if the session does not support a setting, or the network file is another.
pub fn own_part(
    builder: Builder,
    session: &Session,
    rows: &mut Rows,
    initial: Option<&Path>,
    hold_out: Option<u8>,
    rounds: &Arc<RoundFile>,
) -> Result<Builder, Failure> {
    let wishes = OwnWishes { file: Path::new(""), trainer: None, hold_out, rounds: None };
    if initial.is_some() {
        fedavg(session, "initial")?;
    }
    let build = match session.task.get::<tasks::FedavgSpec>() {
        Some(spec) if hold_out.is_none() => {
            let initial = initial.map(|path| first_weights(session, spec, path)).transpose()?;
            let own = Own { initial, kept: Some(Arc::clone(rounds)), ..Own::default() };
            Some(tasks::fedavg::build(spec.clone(), own))
        }
        None if hold_out.is_none() => None,
        _ => (session.task.kind().build_own)(session, wishes, rows).map_err(Failure::Input)?,
    };
    Ok(match build {
        Some(build) => builder.built_by(build),
        None => builder,
    })
}

/// Returns the settings of a session of the task `fedavg`. For other tasks, the error text names `what` as
/// needing this task.
fn fedavg<'a>(session: &'a Session, what: &str) -> Result<&'a tasks::FedavgSpec, Failure> {
    session.task.get::<tasks::FedavgSpec>().ok_or_else(|| {
        Failure::Input(format!("{what} works only with the task fedavg, not with {}", session.task))
    })
}

/// Reads the network file that the session starts from.
fn first_weights(session: &Session, spec: &tasks::FedavgSpec, path: &Path) -> Result<Arc<Values>, Failure> {
    let failed = |text: String| Failure::Input(format!("{}: {text}", path.display()));
    let file = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    tasks::fedavg::initial::read_file(session, spec, &file).map_err(failed)
}

/// Builds a peer of a session with the key of a file, with the same checks as `join`. If a private session
/// has a poor forecast for `rows` rows, this fails before the session is entered in the ledger, unless `yes`
/// is true.
///
/// # Errors
/// The [`Failure`] of `join`.
pub fn builder(session: Session, key: PathBuf, rows: usize, yes: bool) -> Result<Builder, Failure> {
    let identity = Identity::load(&key)?;
    let asked = session.clone();
    let ask = move || if yes { Ok(()) } else { Ok(cli::join::ask::worth(&asked, rows)?) };
    Ok(Peer::builder(session, identity).key_file(key).before_charge(ask))
}

/// Returns the page about a session, as `join` writes it next to the `receipt`. `own` has this peer's own
/// figures. Each of the `warnings` is a sentence.
#[must_use]
pub fn page(receipt: &Value, own: Option<&Value>, warnings: Vec<String>) -> String {
    let title = receipt["name"].as_str().unwrap_or_default();
    Page { title, receipt: Some(receipt), own, warnings, ..Page::default() }.render()
}

/// Lists the tensors of a safetensors file as a session file does: an array of tables in JSON, with the
/// default rules of their types. Also returns the digest for `fedavg.initial`.
///
/// # Errors
/// [`Failure::Input`] if the file has another format or a tensor of another type.
pub fn declare(file: &[u8]) -> Result<(String, String), Failure> {
    let tensors = tensors::open(file).and_then(|file| file.tensors()).map_err(Failure::Input)?;
    let tables: Vec<Value> = tensors.iter().map(|each| each.json().into()).collect();
    Ok((Value::Array(tables).to_string(), hex::encode(own::digest(file))))
}

/// New weights as a file, and the mean loss and the accuracy on the rows if the trainer reports them.
type Answer = (Vec<u8>, Option<(f64, f64)>);

/// Returns the same peer of a session of the task `fedavg`, with `train` instead of the built-in learner.
/// `weights` is the trainer's present file of weights. `initial` and `rounds` are as in [`own_part`].
///
/// `train` is called in each round on a thread of the node. Its arguments are the fields of a round as JSON
/// (see `docs/networks.md`; `folder` is left out), this peer's scaled rows, and the weights to start from. It
/// returns the new weights, and the mean loss (nats) and the accuracy on the rows. If it returns no figures,
/// they are computed with the new weights. Weights are files in the format safetensors.
///
/// # Errors
/// [`Failure::Input`] if the session has another task, or the tensors are not those of its network.
pub fn trained_by(
    builder: Builder,
    session: &Session,
    weights: &[u8],
    initial: Option<&Path>,
    rounds: &Arc<RoundFile>,
    train: impl Fn(&str, &Dataset, &[u8]) -> Result<Answer, String> + Send + Sync + 'static,
) -> Result<Builder, Failure> {
    let spec = fedavg(session, "a trainer")?;
    let model = spec.model(&session.data).map_err(|error| Failure::Input(error.to_string()))?;
    let own = tensors::open(weights).and_then(|file| file.values(&model));
    own.map_err(|problem| Failure::Input(format!("the trainer {problem}")))?;
    let initial = match initial {
        Some(path) => Some(first_weights(session, spec, path)?),
        // The trainer's own weights are the first weights, so no file is needed.
        None if spec.initial == Some(own::digest(weights)) => {
            let read = tasks::fedavg::initial::read_file(session, spec, weights);
            Some(read.map_err(|problem| Failure::Input(format!("the trainer's weights: {problem}")))?)
        }
        None => None,
    };
    let kept = Some(Arc::clone(rounds));
    let own = Own { trainer: Some(Arc::new(Called(train))), initial, kept };
    Ok(builder.built_by(tasks::fedavg::build(spec.clone(), own)))
}

/// A trainer that calls a function.
struct Called<F>(F);

impl<F> std::fmt::Debug for Called<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Called")
    }
}

impl<F> Trainer for Called<F>
where
    F: Fn(&str, &Dataset, &[u8]) -> Result<(Vec<u8>, Option<(f64, f64)>), String> + Send + Sync,
{
    fn train(&self, order: &Order<'_>) -> Result<Trained, String> {
        let trained = (self.0)(&order.told().to_string(), order.rows, &order.weights())
            .and_then(|(weights, figures)| order.answered(&weights, figures));
        trained.map_err(|problem| format!("the trainer in round {} {problem}", order.round + 1))
    }
}
