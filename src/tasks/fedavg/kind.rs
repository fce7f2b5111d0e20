//! Entry of the task in the registry, and the function that builds a peer's task.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::rounds::RoundFile;
use super::tensors::{self, TensorSpec, Values};
use super::trainer::Trainer;
use super::{Fedavg, Plan, compare, file, initial, own, spec};
use crate::data::Dataset;
use crate::session::fields::Table;
use crate::session::{Section, Session, SessionError};
use crate::tasks::new::EPSILON;
use crate::tasks::{
    Build, BuiltIn, FedavgSpec, Labels, NewFile, OwnSlots, OwnWishes, Rows, Shared, TaskKind, TaskOption,
};
use flyswarm_learn::learner::Classifier;

/// If a peer has fewer rows than this, the default rounds have only few steps (docs/quality.md, "Which task
/// for which table").
const FEW_ROWS: usize = 500;
/// Error text if the model is the users' own and the peer has no trainer.
const NO_TRAINER: &str = "fedavg.network is \"own\": the session trains a model that only its users know; join \
                          with --trainer COMMAND (docs/networks.md), or in Python with flyswarm.FedAvg";
/// Percent of each peer's rows that `session new` holds out, as with the task `flynn`.
const HELD_OUT: i64 = 20;

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    options: &[
        EPSILON,
        spec::NETWORK[0],
        spec::NETWORK[1],
        spec::NETWORK[2],
        TaskOption::own(
            "initial",
            "FILE",
            "Start from the weights in FILE: a network of an earlier session, or the first weights of any model. Every \
             peer needs this file",
        )
        .also("tensors"),
    ],
    fill,
    #[cfg(all(feature = "cli", feature = "net"))]
    build_own,
    forecast: |session, _| Ok(spec::forecast(session)),
    evaluation_note: |session| session.task.get().map(note),
    compare: compare::worth,
    results: file::FILES,
    demo: Some(include_str!("demo.toml")),
    ..TaskKind::new(
        "fedavg",
        "a network",
        &[Section { name: "fedavg", tasks: "fedavg or fedavg-xclp if there is a [fedavg]" }],
        |sections, data, peers| FedavgSpec::read(sections, data, peers).map(Into::into),
        Shared::Sums,
    )
};

fn fill(new: &mut NewFile) -> Result<(), SessionError> {
    if let Some(path) = new.option("initial").map(str::to_owned) {
        start_from(new, Path::new(&path))?;
    }
    if !new.is_private() {
        new.propose("data.scaling", "standard");
        if new.get("fedavg.held_out").is_none() {
            new.propose("fedavg.held_out", HELD_OUT);
            new.said.push(format!(
                "{HELD_OUT} % of each peer's rows are held out to test the network; it is never trained \
                 on them. With `--set fedavg.held_out=0` it trains on all rows, and no accuracy is \
                 reported (docs/networks.md)"
            ));
        }
        let given = ["epochs", "rounds"].iter().any(|name| new.get(&format!("fedavg.{name}")).is_some());
        let rows = new.drafted.as_ref().map(Dataset::rows);
        new.said.extend(rows.filter(|&rows| rows < FEW_ROWS && !given).map(|rows| {
            format!(
                "20 rounds of one pass over {rows} rows are few steps: `--set fedavg.epochs=10` is often better \
                 (docs/quality.md)"
            )
        }));
    }
    Ok(())
}

/// Sets the file that the session starts from. If this file is not a network of this program, the tensors in
/// it become the model.
fn start_from(new: &mut NewFile, path: &Path) -> Result<(), SessionError> {
    let refused = |text: String| {
        let limit = "a network of the task fedavg, or weights in the format safetensors";
        SessionError::value(format!("--initial {}", path.display()), text, limit)
    };
    let file = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let digest = hex::encode(own::digest(&file));
    if Classifier::looks_like(&file) {
        Classifier::decode(&file).map_err(|error| refused(error.to_string()))?;
        new.propose("fedavg.initial", digest);
        return Ok(());
    }
    let tensors = tensors::open(&file).and_then(|file| file.tensors()).map_err(refused)?;
    let first = tensors.iter().filter(|each| !each.is_averaged()).count();
    new.said.push(format!(
        "{} tensors; {first} of them, whose numbers are whole, keep their first values. Each peer needs {} next to \
         the session file",
        tensors.len(),
        path.display()
    ));
    let table = |each: &TensorSpec| toml::Value::try_from(each.json());
    let tables = tensors.iter().map(table).collect::<Result<Vec<_>, _>>();
    new.propose("fedavg.network", "own");
    new.propose("fedavg.tensors", tables.map_err(|error| refused(error.to_string()))?);
    new.propose("fedavg.initial", digest);
    new.propose("fedavg.held_out", 0);
    Ok(())
}

/// Returns where a user finds the quality of the network.
pub(crate) fn note(spec: &FedavgSpec) -> &'static str {
    match spec.held_out {
        0 => {
            "The figures of the rounds below are of training rows. With `held_out` in `[fedavg]` there \
             are also figures of held-out rows."
        }
        _ => "See the rounds below: accuracy on held-out rows. Their predictions were not shared.",
    }
}

/// Starts the user's own trainer, and reads the network that the session starts from. The trainer must answer
/// within the session's time limit for a computation.
#[cfg(all(feature = "cli", feature = "net"))]
fn build_own(session: &Session, wishes: OwnWishes<'_>, _: &mut Rows) -> Result<Option<Build>, String> {
    OwnWishes { trainer: None, ..wishes }.refuse(session)?;
    let Some(spec) = session.task.get::<FedavgSpec>() else { return Ok(None) };
    let initial = initial::beside(wishes.file, session, spec)?;
    // This limit is a little shorter than that of the node, because the node's error text names neither the
    // trainer nor the round.
    let limit = session.timing.compute_ms - (session.timing.compute_ms / 10).min(5_000);
    let start = |command| {
        let made = super::subprocess::Subprocess::start(command, Duration::from_millis(limit));
        made.map(|made| Arc::new(made) as Arc<dyn Trainer>)
    };
    let trainer = wishes.trainer.map(start).transpose()?;
    let kept = wishes.rounds.cloned();
    let usual = trainer.is_none() && initial.is_none() && kept.is_none();
    Ok((!usual).then(|| build(spec.clone(), Own { trainer, initial, kept })))
}

/// Returns the built-in task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: FedavgSpec) -> BuiltIn {
    // A checked session always has a plan. The engine refuses an empty plan.
    let plan = Plan::new(session.clone(), spec.clone()).map_or(Vec::new(), |plan| plan.aggregates());
    BuiltIn {
        own: OwnSlots::of(&plan, "holders"),
        plan,
        result: "network",
        extension: "safetensors",
        labels: Labels::All,
        witnesses: false,
        build: build(spec, Own::default()),
    }
}

/// The parts of the task that differ from peer to peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// Trains for the peer instead of the built-in learner.
    pub(crate) trainer: Option<Arc<dyn Trainer>>,
    /// First weights, if the session names a file.
    pub(crate) initial: Option<Arc<Values>>,
    /// Files in which the peer keeps the last round.
    pub(crate) kept: Option<Arc<RoundFile>>,
}

/// Makes a peer's task.
pub(crate) fn build(spec: FedavgSpec, own: Own) -> Build {
    Box::new(move |session, me, rows, _| {
        if spec.initial.is_some() && own.initial.is_none() {
            return Err(initial::MISSING.into());
        }
        if spec.is_own() && own.trainer.is_none() {
            return Err(NO_TRAINER.into());
        }
        let task = Fedavg::new(session, spec.clone(), me, rows.data);
        let mut task = task.map_err(|error| error.to_string())?;
        task.trainer.clone_from(&own.trainer);
        task.kept.clone_from(&own.kept);
        task.plan.initial.clone_from(&own.initial);
        task.plan.preparation = rows.preparation.or(task.plan.preparation);
        Ok(Arc::new(task))
    })
}
