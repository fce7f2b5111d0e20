//! Entry of the task in the registry, and the function that builds a peer's task.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::trainer::Trainer;
use super::{Fedavg, Plan, compare, file, initial, spec};
use crate::data::Dataset;
use crate::session::{Section, Session, SessionError};
use crate::tasks::new::EPSILON;
use crate::tasks::{
    Build, BuiltIn, FedavgSpec, Labels, NewFile, OwnSlots, OwnWishes, Rows, Shared, TaskKind, TaskOption,
};
use flyswarm_learn::learner::Classifier;

/// Rows of a peer below which the usual rounds have only few steps (docs/quality.md, "Which task for
/// which table").
const FEW_ROWS: usize = 500;

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
            "Start from the weights of this network file, which every peer needs",
        ),
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
    if let Some(path) = new.option("initial").map(Path::new) {
        let refused = |text: String| {
            SessionError::value(format!("--initial {}", path.display()), text, "a network of the task fedavg")
        };
        let network = Classifier::load(path).map_err(|error| refused(error.to_string()))?;
        let digest = hex::encode(network.digest());
        new.propose("fedavg.initial", digest);
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

/// Starts the user's own trainer, within the time limit that the session sets for a computation, and
/// reads the network that the session starts from.
#[cfg(all(feature = "cli", feature = "net"))]
fn build_own(session: &Session, wishes: OwnWishes<'_>, _: &mut Rows) -> Result<Option<Build>, String> {
    OwnWishes { trainer: None, ..wishes }.refuse(session)?;
    let Some(spec) = session.task.get::<FedavgSpec>() else { return Ok(None) };
    let weights = initial::beside(wishes.file, session, spec)?;
    let limit = Duration::from_millis(session.timing.compute_ms);
    let start = |command| {
        super::subprocess::Subprocess::start(command, limit).map(|made| Arc::new(made) as Arc<dyn Trainer>)
    };
    let trainer = wishes.trainer.map(start).transpose()?;
    Ok((trainer.is_some() || weights.is_some()).then(|| build(spec.clone(), trainer, weights)))
}

/// Returns the built-in task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: FedavgSpec) -> BuiltIn {
    // A checked session has a network; the engine refuses an empty plan.
    let plan = Plan::new(session.clone(), spec.clone()).map_or(Vec::new(), |plan| plan.aggregates());
    BuiltIn {
        own: OwnSlots::of(&plan, "holders"),
        plan,
        result: "network",
        extension: "safetensors",
        labels: Labels::All,
        witnesses: false,
        build: build(spec, None, None),
    }
}

/// Makes a peer's task. `trainer` trains for it, if given. `initial` has the first weights if the
/// session names a network file.
pub(crate) fn build(
    spec: FedavgSpec,
    trainer: Option<Arc<dyn Trainer>>,
    initial: Option<Arc<[f32]>>,
) -> Build {
    Box::new(move |session, me, rows, _| {
        if spec.initial.is_some() && initial.is_none() {
            return Err(initial::MISSING.into());
        }
        let task = Fedavg::new(session, spec.clone(), me, rows.data);
        let mut task = task.map_err(|error| error.to_string())?;
        task.trainer.clone_from(&trainer);
        task.plan.initial.clone_from(&initial);
        task.plan.preparation = rows.preparation.or(task.plan.preparation);
        Ok(Arc::new(task))
    })
}
