//! The line of the registry: how a session file has the task, and how a peer makes its part.

use std::sync::Arc;

use super::{Plan, SketchTask};
use crate::session::{DataSpec, Section, Sections, Session, SessionError, TaskSpec};
#[cfg(all(feature = "cli", feature = "net"))]
use crate::tasks::demo::MakeScene;
use crate::tasks::new::EPSILON;

/// Rows and range where noise is put on every counter: it grows with the rows (docs/sketch.md).
pub(crate) const PRIVATE: (u32, u32) = (16, 32);
use crate::sim::task::{Ended, Worth};
use crate::tasks::{
    BuiltIn, Labels, NewFile, OwnSlots, ResultFile, Shared, SketchSpec, TaskKind, TaskOption,
};

/// The task's line of the registry.
#[derive(Debug)]
pub struct Kind;

impl TaskKind for Kind {
    fn name(&self) -> &'static str {
        "sketch"
    }

    fn about(&self) -> &'static str {
        "how far each peer's rows lie from all rows"
    }

    fn sections(&self) -> &'static [Section] {
        const TASKS: &str = "sketch where there is a [sketch], or flynn with select = \"sketch\"";
        &[Section { name: "sketch", tasks: TASKS }]
    }

    fn has_classes(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [TaskOption] {
        const OPTIONS: &[TaskOption] = &[
            EPSILON,
            TaskOption::field(
                "hash",
                "HASH",
                "sketch.hash",
                "srp (dense rows) or minhash (features above 0)",
            ),
            TaskOption::field(
                "open-distances",
                "",
                "sketch.open_distances",
                "Open every peer's distance to the global sketch",
            ),
            TaskOption::field("pairwise", "", "sketch.pairwise", "Open every peer's own sketch"),
            TaskOption::field("choose", "K", "sketch.chosen", "Draw K peers by their distances"),
        ];
        OPTIONS
    }

    fn fill(&self, new: &mut NewFile) -> Result<(), SessionError> {
        if new.is_private() {
            new.propose("sketch.rows", i64::from(PRIVATE.0));
            new.propose("sketch.range", i64::from(PRIVATE.1));
        }
        // The mean would be an exact sum, which a private session cannot have. SRP compares angles: about the
        // mean of all records these tell more.
        let usual = if new.is_private() { "unit-norm" } else { "center" };
        let minhash = new.get("sketch.hash").and_then(toml::Value::as_str) == Some("minhash");
        new.propose("data.scaling", if minhash { "none" } else { usual });
        Ok(())
    }

    fn read(
        &self,
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<TaskSpec, SessionError> {
        SketchSpec::read(sections, data, peers).map(Into::into)
    }

    fn simulated(&self, run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
        super::simulated::worth(run, failures)
    }

    #[cfg(all(feature = "cli", feature = "net"))]
    fn demo(&self) -> Option<MakeScene> {
        Some(super::demo::scene)
    }

    fn results(&self) -> &'static [ResultFile] {
        const NAME: &str = "a sketch's result";
        &[ResultFile { name: NAME, recognised, contents: None }]
    }

    fn shared(&self) -> Shared {
        Shared::Sums
    }
}

fn recognised(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let has = |key: &str| text.contains(key);
    // A receipt has the distances, too.
    text.trim_start().starts_with('{') && has("\"distances\"") && has("\"session\"") && !has("\"peer_id\"")
}

/// The task with these parameters.
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
