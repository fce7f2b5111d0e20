//! The task's line of the registry, and how a peer's task is made.

use std::path::Path;
use std::sync::Arc;

use super::trainer::Trainer;
use super::{Fedavg, Plan, file, initial, simulated, spec};
use crate::session::{DataSpec, Section, Sections, Session, SessionError, TaskSpec};
use crate::sim::task::{Ended, Worth};
#[cfg(all(feature = "cli", feature = "net"))]
use crate::tasks::demo::MakeScene;
use crate::tasks::new::EPSILON;
use crate::tasks::{
    Build, BuiltIn, FedavgSpec, Labels, NewFile, OwnSlots, ResultFile, Shared, TaskKind, TaskOption,
};
use flyswarm_learn::learner::Classifier;

/// The task's line of the registry.
#[derive(Debug)]
pub struct Kind;

impl TaskKind for Kind {
    fn name(&self) -> &'static str {
        "fedavg"
    }

    fn about(&self) -> &'static str {
        "a network"
    }

    fn sections(&self) -> &'static [Section] {
        &[Section { name: "fedavg", tasks: "fedavg or fedavg-xclp where there is a [fedavg]" }]
    }

    fn options(&self) -> &'static [TaskOption] {
        const OPTIONS: &[TaskOption] = &[
            EPSILON,
            spec::NETWORK[0],
            spec::NETWORK[1],
            spec::NETWORK[2],
            spec::NETWORK[3],
            TaskOption::own(
                "initial",
                "FILE",
                "Start from the weights of this network file, which every peer needs",
            ),
        ];
        OPTIONS
    }

    fn fill(&self, new: &mut NewFile) -> Result<(), SessionError> {
        if let Some(path) = new.option("initial").map(Path::new) {
            let refused = |text: String| {
                SessionError::value(
                    format!("--initial {}", path.display()),
                    text,
                    "a network of the task fedavg",
                )
            };
            let network = Classifier::load(path).map_err(|error| refused(error.to_string()))?;
            let digest = hex::encode(network.digest());
            new.propose("fedavg.initial", digest);
        }
        if !new.is_private() {
            new.propose("data.scaling", "standard");
        }
        Ok(())
    }

    fn read(
        &self,
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<TaskSpec, SessionError> {
        FedavgSpec::read(sections, data, peers).map(Into::into)
    }

    fn simulated(&self, run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
        simulated::worth(run, failures)
    }

    #[cfg(all(feature = "cli", feature = "net"))]
    fn demo(&self) -> Option<MakeScene> {
        Some(super::demo::scene)
    }

    fn results(&self) -> &'static [ResultFile] {
        file::FILES
    }

    fn shared(&self) -> Shared {
        Shared::Sums
    }

    fn evaluation_note(&self, session: &Session) -> Option<&'static str> {
        session.task.get().map(note)
    }
}

/// Where a user finds how good the network is.
pub(crate) fn note(spec: &FedavgSpec) -> &'static str {
    match spec.held_out {
        0 => {
            "The figures of the rounds below are of rows that the network learns from. With `held_out` in \
             `[fedavg]` they are of others too."
        }
        _ => "See the rounds below: accuracy on rows that are held out.",
    }
}

/// The task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: FedavgSpec) -> BuiltIn {
    // A session that was checked has a network; an empty plan is refused by the engine.
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

/// Makes a peer's task, which `trainer` trains for where there is one. `initial` has the first weights, where
/// the session names a network file.
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
