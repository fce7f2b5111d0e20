//! Entry of the task in the registry: how a session file describes the task, and how the task of a peer is
//! made.

use std::sync::Arc;

use super::{Plan, Xclp, held, memory};
use crate::session::{Section, Session};
use crate::tasks::{
    Build, BuiltIn, Labels, OwnSlots, OwnWishes, ResultFile, Rows, Shared, TaskKind, TaskOption, XclpSpec,
};

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    partly: true,
    options: &[
        TaskOption::field(
            "hamming",
            "WAY",
            "xclp.hamming",
            "Peers that compute distances: three members for all rows (replicated), or each pair of peers for the rows of these two (ot, phe) [default: replicated]",
        ),
        TaskOption::field(
            "balance",
            "",
            "xclp.balance",
            "Give each label the weight 1 / (number of labels of its class)",
        ),
        TaskOption::field(
            "few-rows",
            "",
            "xclp.few_rows",
            "Allow a session in which all peers together have fewer than 5 (k + 1) rows, by default 55; k is the number of neighbours of a row",
        ),
        TaskOption::field(
            "large-owner",
            "",
            "xclp.large_owner",
            "Allow a peer with more than half of all rows",
        ),
    ],
    build_own,
    memory_refusal: memory::refusal,
    evaluation_note: |_| {
        Some(
            "A session of this task does not add up figures: with two owners, the sum of their tables of right \
             and wrong labels would show each of them the other's table. Write `hold_out = 20` in the file \
             of `join --map`: it keeps back some of your own labels, and shows only you how many of them the \
             session finds.",
        )
    },
    compare: super::compare::worth,
    results: &[ResultFile {
        name: "labels that a session gave",
        recognised: |bytes| bytes.trim_ascii_start().starts_with(b"label,confidence"),
        contents: None,
    }],
    demo: Some(include_str!("demo.toml")),
    ..TaskKind::new(
        "xclp",
        "labels for each peer's own rows",
        &[Section { name: "xclp", tasks: "xclp or fedavg-xclp if there is an [xclp]" }],
        |sections, data, peers| XclpSpec::read(sections, data, peers).map(Into::into),
        Shared::Shares,
    )
};

/// Returns the task with these parameters.
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

/// Removes the labels that the peer keeps back from the rows that the session gets.
fn build_own(session: &Session, wishes: OwnWishes<'_>, rows: &mut Rows) -> Result<Option<Build>, String> {
    let (Some(percent), Some(spec)) = (wishes.hold_out, session.task.get::<XclpSpec>()) else {
        return wishes.refuse(session);
    };
    let known = held::hold_out(rows, &session.data.classes, percent, &session.id().0);
    let known = known.map_err(|error| format!("hold_out in the map file: {error}"))?;
    Ok(Some(build(spec.clone(), known)))
}

/// Makes a peer's task. If the peer keeps labels back, `known` has all its labels; otherwise it is empty.
fn build(spec: XclpSpec, known: Vec<Option<u16>>) -> Build {
    Box::new(move |session, me, rows, secret| {
        let task = Xclp::new(session, spec.clone(), me, rows.data, rows.labels, secret)?;
        Ok(Arc::new(task.knowing(known.clone())))
    })
}
