//! The task `histogram`: how many rows of all peers lie in each bin, for one column at a time.
//!
//! Its sums are the coin and `bins`: the counts of all bins, column after column. As in every task, the
//! protections add two sums: the number of members with rows, and the means and spreads of the columns.

mod spec;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyswarm::session::Section;
use flyswarm::tasks::{Aggregate, BuiltIn, Contents, Labels, OwnSlots, ResultFile, Shared, TaskKind};

use spec::HistogramSpec;
use task::{FORMAT, Histogram};

/// The task in the registry.
pub(crate) static KIND: TaskKind = TaskKind {
    has_classes: false,
    results: &[ResultFile { name: "a histogram", recognised, contents: Some(contents) }],
    ..TaskKind::new(
        "histogram",
        "counts of rows by ranges of single columns",
        &[Section { name: "histogram", tasks: "histogram if there is a [histogram]" }],
        |sections, _, _| HistogramSpec::read(sections).map(Into::into),
        Shared::Sums,
    )
};

fn recognised(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    text.starts_with('{') && text.contains(&format!("\"format\": \"{FORMAT}\""))
}

fn contents(bytes: &[u8]) -> Result<Contents, String> {
    let file = task::File::read(bytes)?;
    Ok(Contents { kind: "histogram", digest: file.digest(), text: file.text(), json: file.json() })
}

/// Returns the task that is built in under this name, with these parameters.
fn built_in(spec: &HistogramSpec) -> BuiltIn {
    let reveals =
        "how many rows of all peers lie in each bin; a small number tells that a peer has such a row";
    let bins = Aggregate::exact("bins", 4, spec.bins() as u64, "rows in each bin", reveals);
    let plan = vec![Aggregate::coin(), bins];
    let (spec, sums) = (spec.clone(), plan.clone());
    BuiltIn {
        plan,
        result: "histogram",
        extension: "histogram.json",
        labels: Labels::None,
        witnesses: false,
        own: OwnSlots::default(),
        build: Box::new(move |session, _me, rows, _secret| {
            Ok(Arc::new(Histogram::new(&session, spec.clone(), rows.data, sums.clone())?))
        }),
    }
}
