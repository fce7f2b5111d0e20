//! Entry of the task in the registry.

use std::path::Path;
use std::sync::Arc;

use super::{Flynn, Plan, compare, file, new};
use crate::session::{Section, Session, SessionError};
use crate::tasks::new::EPSILON;
use crate::tasks::{BuiltIn, FlynnSpec, Labels, NewFile, OwnSlots, Shared, TaskKind, TaskOption};

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    options: &[
        EPSILON,
        new::PAPER,
        new::SETTINGS,
        new::TUNING,
        TaskOption::own("no-evaluate", "", "Do not hold out test rows (no accuracy is reported)"),
    ],
    fill,
    take_settings,
    forecast: super::forecast::forecast,
    evaluation_note,
    compare: compare::worth,
    results: &[file::MODEL],
    demo: Some(include_str!("demo.toml")),
    ..TaskKind::new(
        "flynn",
        "a classifier (FlyNN)",
        &[
            Section { name: "flynn", tasks: "flynn or tune if there is a [flynn]" },
            Section {
                name: "evaluate",
                tasks: "flynn if there is an [evaluate]; fedavg has fedavg.held_out, xclp hold_out in the file of 'join --map'",
            },
        ],
        |sections, data, peers| FlynnSpec::read(sections, data, peers).map(Into::into),
        Shared::Sums,
    )
};

fn fill(file: &mut NewFile) -> Result<(), SessionError> {
    if file.is_private() {
        file.propose("privacy.top", 100);
    }
    let plain = file.get("select").is_none() && !file.is_private();
    if plain && file.option("no-evaluate").is_none() {
        file.propose("evaluate", toml::Table::new());
    }
    file.said.extend(file.drafted.as_ref().and_then(new::other_task));
    new::fill(file)
}

fn take_settings(session: &mut Session, file: &Path) -> Result<(), SessionError> {
    let model = new::give(session, file)?;
    if let Some(spec) = session.task.get_mut::<FlynnSpec>() {
        spec.model = model;
    }
    Ok(())
}

fn evaluation_note(session: &Session) -> Option<&'static str> {
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

/// Returns the built-in task with these parameters.
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
