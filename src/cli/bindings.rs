//! What bindings of other languages call: commands in this process, and the checks of `join` for rows that
//! are in memory.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use flyswarm_learn::learner::Trained;

use super::data::{DataArguments, Map};
use super::{Arguments, Failure, SAID, join, one_line, run};
use crate::data::{Dataset, LabelColumn};
use crate::peer::{self, Builder, Peer};
use crate::session::Session;
use crate::tasks::fedavg::trainer::{Order, Trainer, read_weights, write_weights};
use crate::tasks::{self, Rows};
use crate::{Identity, cli};

/// Runs a command in this process, such as `["session", "check", "wards.toml"]`; `out` gets what it prints on
/// standard output, `said` the lines beside it.
///
/// # Errors
/// [`Failure`], as the command ends with; also where the arguments are none of a command.
pub fn call(arguments: &[OsString], out: &mut dyn Write, said: &mut Vec<String>) -> Result<(), Failure> {
    SAID.set(Some(Vec::new()));
    let result = called(arguments, out);
    said.extend(SAID.take().into_iter().flatten());
    result
}

fn called(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let words = std::iter::once("flyswarm".into()).chain(arguments.iter().cloned());
    let parsed = Arguments::try_parse_from::<_, OsString>(words).map_err(|error| {
        let text = error.to_string();
        // The rest is on usage.
        let said = text.split("\n\n").next().unwrap_or_default();
        Failure::Input(one_line(said.strip_prefix("error: ").unwrap_or(said)))
    })?;
    run(parsed.command, out)
}

/// Reads the rows that the session's task wants of a file, as `join` does; the label is the last column where
/// the task looks at labels. Also gives what is to be said of how the columns were taken. A file that was
/// `written` of rows in memory has commas between columns and points in numbers, whatever the session says.
///
/// # Errors
/// [`Failure::Input`] where the file does not suit the session, [`Failure::Environment`] where it cannot be
/// read.
pub fn rows(
    session: &Session,
    file: &Path,
    label: Option<&LabelColumn>,
    written: bool,
) -> Result<(Rows, Option<String>), Failure> {
    let kind = tasks::built_in(session).ok_or_else(|| peer::not_built_in(session))?;
    let (delimiter, decimal_comma) = if written { (Some(b','), Some(false)) } else { (None, None) };
    let reading = Map { delimiter, decimal_comma, ..Map::default() }.into();
    join::load(session, &kind, &DataArguments::new(file.to_owned(), reading), label)
}

/// A peer of a session with the key of a file, checked as `join` checks it. A private session of `rows` rows
/// whose forecast is of little use ends before it is entered in the ledger, unless `yes`.
///
/// # Errors
/// [`Failure`], as `join` ends with.
pub fn builder(session: Session, key: PathBuf, rows: usize, yes: bool) -> Result<Builder, Failure> {
    let identity = Identity::load(&key)?;
    let asked = session.clone();
    let ask = move || if yes { Ok(()) } else { Ok(cli::join::ask::worth(&asked, rows)?) };
    Ok(Peer::builder(session, identity).key_file(key).before_charge(ask))
}

/// New weights as a file, and mean loss and accuracy of the rows where the trainer says them.
type Answer = (Vec<u8>, Option<(f64, f64)>);

/// The same peer of a session of the task `fedavg`, for which `train` trains in place of the built-in
/// learner; `weights` are those that it has now.
///
/// It is called in each round on a thread of the node, with what `docs/networks.md` says of a round as JSON
/// (but for `folder`), this peer's scaled rows and the weights to start from. It gives the new weights, and
/// the mean loss (nats) and the accuracy of the rows; where it gives no figures, those of the new weights are
/// computed. Weights are files in the format safetensors.
///
/// # Errors
/// [`Failure::Input`] where the session has another task, or the tensors are not those of its network.
pub fn trained_by(
    builder: Builder,
    session: &Session,
    weights: &[u8],
    train: impl Fn(&str, &Dataset, &[u8]) -> Result<Answer, String> + Send + Sync + 'static,
) -> Result<Builder, Failure> {
    let Some(spec) = session.task.get::<crate::tasks::FedavgSpec>() else {
        return Err(Failure::Input(format!(
            "a trainer goes with the task fedavg, not with {}",
            session.task
        )));
    };
    let network = spec.build(&session.data).map_err(|error| Failure::Input(error.to_string()))?;
    read_weights(&network, weights).map_err(|problem| Failure::Input(format!("the trainer {problem}")))?;
    Ok(builder.built_by(tasks::fedavg::build(spec.clone(), Some(Arc::new(Called(train))), None)))
}

/// A trainer that is a function.
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
        let start = write_weights(order.network, order.start);
        let trained = (self.0)(&order.told().to_string(), order.rows, &start)
            .and_then(|(weights, figures)| order.answered(read_weights(order.network, &weights)?, figures));
        trained.map_err(|problem| format!("the trainer in round {} {problem}", order.round + 1))
    }
}
