//! The line of the registry: how a session file has the task, and how a peer makes its part.

use std::sync::Arc;

use super::{Plan, SketchTask};
use crate::session::{DataSpec, Section, Sections, Session, SessionError, TaskSpec};
use crate::tasks::{BuiltIn, Labels, OwnSlots, ResultFile, Shared, SketchSpec, TaskKind};

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

    fn read(
        &self,
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<TaskSpec, SessionError> {
        SketchSpec::read(sections, data, peers).map(Into::into)
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
