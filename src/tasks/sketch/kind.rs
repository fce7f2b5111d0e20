//! The task's entry in the registry: its fields in a session file, and the function that makes a peer's
//! task.

use std::sync::Arc;

use super::{Plan, SketchTask};
use crate::session::{Section, Session, SessionError};
use crate::tasks::new::EPSILON;
use crate::tasks::{
    BuiltIn, Labels, NewFile, OwnSlots, ResultFile, Shared, SketchSpec, TaskKind, TaskOption,
};

/// Default rows and range of a private session, in which every counter has noise. More rows need more noise
/// (docs/sketch.md).
const PRIVATE: (u32, u32) = (16, 32);

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    has_classes: false,
    options: &[
        EPSILON,
        TaskOption::field(
            "hash",
            "HASH",
            "sketch.hash",
            "Hash function: srp (for dense rows) or minhash (compares the sets of features above 0)",
        ),
        TaskOption::field(
            "open-distances",
            "",
            "sketch.open_distances",
            "Open every peer's distance to the global sketch",
        ),
        TaskOption::field("pairwise", "", "sketch.pairwise", "Open every peer's own sketch"),
        TaskOption::field(
            "choose",
            "K",
            "sketch.chosen",
            "Draw K peers at random by their distances to the global sketch; needs --open-distances",
        ),
    ],
    fill,
    compare: super::compare::worth,
    results: &[ResultFile { name: "a sketch's result", recognised, contents: None }],
    demo: Some(include_str!("demo.toml")),
    ..TaskKind::new(
        "sketch",
        "how different each peer's rows are from all rows",
        &[Section {
            name: "sketch",
            tasks: "sketch if there is a [sketch], or flynn with select = \"sketch\"",
        }],
        |sections, data, peers| SketchSpec::read(sections, data, peers).map(Into::into),
        Shared::Sums,
    )
};

fn fill(new: &mut NewFile) -> Result<(), SessionError> {
    if new.is_private() {
        new.propose("sketch.rows", i64::from(PRIVATE.0));
        new.propose("sketch.range", i64::from(PRIVATE.1));
    }
    // SRP compares angles, and angles around the mean of all records separate them better. But the mean is an
    // exact sum, which a private session cannot open.
    let usual = if new.is_private() { "unit-norm" } else { "center" };
    let minhash = new.get("sketch.hash").and_then(toml::Value::as_str) == Some("minhash");
    new.propose("data.scaling", if minhash { "none" } else { usual });
    Ok(())
}

fn recognised(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let has = |key: &str| text.contains(key);
    // A receipt also has the distances, but it has peer ids too.
    text.trim_start().starts_with('{') && has("\"distances\"") && has("\"session\"") && !has("\"peer_id\"")
}

/// Returns the task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: SketchSpec) -> BuiltIn {
    let plan = Plan::new(session.clone(), spec).aggregates();
    BuiltIn {
        own: OwnSlots::of(&plan, "holders"),
        plan,
        result: "sketch",
        extension: "sketch.json",
        labels: Labels::None,
        witnesses: false,
        build: Box::new(move |session, me, rows, secret| {
            match SketchTask::new(session, spec, me, rows.data, secret) {
                Ok(task) => {
                    let preparation = rows.preparation.or(task.preparation);
                    Ok(Arc::new(SketchTask { preparation, ..task }))
                }
                Err(error) => Err(error.to_string()),
            }
        }),
    }
}
