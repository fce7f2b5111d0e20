//! The line of the registry: how a session file has the task, and how a peer makes its part.

use std::sync::Arc;

use super::{Plan, Xclp};
use crate::session::{DataSpec, Section, Sections, Session, SessionError, TaskSpec};
use crate::sim::task::{Ended, Worth};
#[cfg(all(feature = "cli", feature = "net"))]
use crate::tasks::demo::MakeScene;
use crate::tasks::{Build, BuiltIn, Labels, OwnSlots, ResultFile, Shared, TaskKind, TaskOption, XclpSpec};

/// The task's line of the registry.
#[derive(Debug)]
pub struct Kind;

impl TaskKind for Kind {
    fn name(&self) -> &'static str {
        "xclp"
    }

    fn about(&self) -> &'static str {
        "labels for each peer's own rows"
    }

    fn sections(&self) -> &'static [Section] {
        &[Section { name: "xclp", tasks: "xclp or fedavg-xclp where there is an [xclp]" }]
    }

    fn partly(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [TaskOption] {
        const OPTIONS: &[TaskOption] = &[
            TaskOption::field(
                "hamming",
                "WAY",
                "xclp.hamming",
                "Make distances from shares (replicated) or by every two peers (ot, phe) [default: replicated]",
            ),
            TaskOption::field(
                "balance",
                "",
                "xclp.balance",
                "Count each label as one over the labels of its class",
            ),
            TaskOption::field("few-rows", "", "xclp.few_rows", "Allow fewer than 5 (k + 1) rows together"),
            TaskOption::field(
                "large-owner",
                "",
                "xclp.large_owner",
                "Allow a peer with more than half of all rows",
            ),
        ];
        OPTIONS
    }

    fn read(
        &self,
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<TaskSpec, SessionError> {
        XclpSpec::read(sections, data, peers).map(Into::into)
    }

    fn simulated(&self, run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
        super::simulated::worth(run, failures)
    }

    #[cfg(all(feature = "cli", feature = "net"))]
    fn demo(&self) -> Option<MakeScene> {
        Some(super::demo::scene)
    }

    fn results(&self) -> &'static [ResultFile] {
        const NAME: &str = "labels that a session gave";
        &[ResultFile {
            name: NAME,
            recognised: |bytes| bytes.trim_ascii_start().starts_with(b"label,confidence"),
            contents: None,
        }]
    }

    fn shared(&self) -> Shared {
        Shared::Shares
    }

    fn evaluation_note(&self, _session: &Session) -> Option<&'static str> {
        Some(
            "A session of this task sums no figures: a table of right and wrong labels would tell two owners \
             each other's. Write `hold_out = 20` in the file of `join --map`: it keeps back labels of your \
             own and tells you alone how many are found.",
        )
    }
}

/// The task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: XclpSpec) -> BuiltIn {
    let plan = Plan::new(session.clone(), spec.clone()).aggregates();
    BuiltIn {
        own: OwnSlots::of(&plan, ""),
        plan,
        result: "labels",
        extension: "labels.csv",
        labels: Labels::Some,
        witnesses: true,
        build: build(spec, Vec::new()),
    }
}

/// Makes a peer's task; `known` are all labels that it knows, where it keeps some of them back.
pub(crate) fn build(spec: XclpSpec, known: Vec<Option<u16>>) -> Build {
    Box::new(move |session, me, rows, secret| {
        let task = Xclp::new(session, spec.clone(), me, rows.data, rows.labels, secret)?;
        Ok(Arc::new(task.knowing(known.clone())))
    })
}
