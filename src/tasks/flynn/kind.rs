//! The task's line of the registry.

use std::path::Path;
use std::sync::Arc;

use super::{Flynn, Plan, file, new, simulated};
use crate::session::{DataSpec, Section, Sections, Session, SessionError, TaskSpec};
use crate::sim::task::{Ended, Worth};
#[cfg(all(feature = "cli", feature = "net"))]
use crate::tasks::demo::MakeScene;
use crate::tasks::new::EPSILON;
use crate::tasks::{BuiltIn, FlynnSpec, Labels, NewFile, OwnSlots, ResultFile, Shared, TaskKind, TaskOption};

/// The task's line of the registry.
#[derive(Debug)]
pub struct Kind;

impl TaskKind for Kind {
    fn name(&self) -> &'static str {
        "flynn"
    }

    fn about(&self) -> &'static str {
        "a classifier (FlyNN)"
    }

    fn sections(&self) -> &'static [Section] {
        &[
            Section { name: "flynn", tasks: "flynn or tune where there is a [flynn]" },
            Section {
                name: "evaluate",
                tasks: "flynn where there is an [evaluate]; fedavg has fedavg.held_out, xclp hold_out in the file of 'join --map'",
            },
        ]
    }

    fn options(&self) -> &'static [TaskOption] {
        const OPTIONS: &[TaskOption] = &[
            EPSILON,
            new::PAPER,
            new::SETTINGS,
            new::TUNING,
            TaskOption::own("no-evaluate", "", "Do not hold out test rows (no accuracy is reported)"),
            TaskOption::own(
                "choose",
                "K",
                "Train only on K peers, sampled by the distances of their sketches",
            ),
        ];
        OPTIONS
    }

    fn fill(&self, file: &mut NewFile) -> Result<(), SessionError> {
        if let Some(chosen) = file.option("choose").map(crate::tasks::new::value) {
            file.propose("select", "sketch");
            file.propose("sketch.chosen", chosen);
        }
        if file.is_private() {
            file.propose("privacy.top", 100);
        }
        let plain = file.get("select").is_none() && !file.is_private();
        if plain && file.option("no-evaluate").is_none() {
            file.propose("evaluate", toml::Table::new());
        }
        new::fill(file)
    }

    fn take_settings(&self, session: &mut Session, file: &Path) -> Result<(), SessionError> {
        let model = new::give(session, file)?;
        if let Some(spec) = session.task.get_mut::<FlynnSpec>() {
            spec.model = model;
        }
        Ok(())
    }

    fn read(
        &self,
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<TaskSpec, SessionError> {
        FlynnSpec::read(sections, data, peers).map(Into::into)
    }

    fn simulated(&self, run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
        simulated::worth(run, failures)
    }

    #[cfg(all(feature = "cli", feature = "net"))]
    fn demo(&self) -> Option<MakeScene> {
        Some(super::demo::scene)
    }

    fn results(&self) -> &'static [ResultFile] {
        &[file::MODEL]
    }

    fn shared(&self) -> Shared {
        Shared::Sums
    }

    fn evaluation_note(&self, session: &Session) -> Option<&'static str> {
        Some(match (session.privacy.noise, session.selects()) {
            (Some(_), _) => {
                "A private session opens no figures, because each one would be paid for from the budget. Keep \
                 some rows back, and run `flyswarm report MODEL --data rows`."
            }
            (None, true) => {
                "If peers are drawn, no rows are held out. Keep some rows back, and run `flyswarm report MODEL \
                 --data rows`."
            }
            (None, false) => "The session file has no `[evaluate]`: no rows were held out.",
        })
    }
}

/// The task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: FlynnSpec) -> BuiltIn {
    let plan = Plan::new(session.clone(), spec).aggregates();
    BuiltIn {
        own: OwnSlots::of(&plan, "holders"),
        plan,
        result: "model",
        extension: "model",
        labels: Labels::All,
        witnesses: false,
        build: Box::new(move |session, me, rows, secret| {
            match Flynn::new(session, spec, me, rows.data, secret) {
                Ok(task) => Ok(Arc::new(task.prepared(rows.preparation))),
                Err(error) => Err(error.to_string()),
            }
        }),
    }
}
