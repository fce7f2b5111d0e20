//! The task `summary`: statistics over the rows of all peers. They equal those of the rows in one place, but
//! small cells are not opened (spec, section 15i).
//!
//! The slots are the coin, which draws the computing members; `computed`, which names the computing members
//! and has each member's commitment to its counts; `pattern`, one bit for each cell that passes; and `cells`,
//! the numbers that are opened. `computed` has an exchange: every member shares its counts, and the computing
//! members find out on shares which cells pass. In `pattern` and `cells` the computing members add up their
//! shares. So no peer sees any of these numbers before the committee has decided whose rows were counted.

mod columns;
mod difference;
mod result;
mod spec;
mod suppress;
mod table;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use spec::{CrossTable, SummarySpec};

use super::common::tables;
use super::{Build, BuiltIn, Contents, NewFile, ResultFile, Shared, TaskKind, TaskOption};
use crate::session::{Section, Session, SessionError};
use result::{FORMAT, File};
use table::Layout;
use task::Summary;

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    has_classes: false,
    options: &[
        TaskOption::names(
            "by",
            "COLUMN[,COLUMN]",
            "summary.by",
            "Also summarise the rows of each level of this column, or of each pair of levels of two columns",
        ),
        TaskOption::field(
            "grid",
            "STEP",
            "summary.grid",
            "Round numbers to multiples of STEP [default: 0.01]",
        ),
        TaskOption::field(
            "threshold",
            "ROWS",
            "summary.threshold",
            "Open only counts of at least this number of rows [default: 10]",
        ),
    ],
    fill,
    csv: Some(csv),
    results: &[ResultFile { name: "a summary", recognised, contents: Some(contents) }],
    ..TaskKind::new(
        "summary",
        "counts, means and cross tables without small cells",
        &[Section { name: "summary", tasks: "summary if there is a [summary]" }],
        |sections, _, _| SummarySpec::read(sections).map(Into::into),
        Shared::Cells,
    )
};

fn fill(new: &mut NewFile) -> Result<(), SessionError> {
    new.propose("data.scaling", "none");
    Ok(())
}

fn recognised(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    text.starts_with('{') && text.contains(&format!("\"format\": \"{FORMAT}\""))
}

fn contents(bytes: &[u8]) -> Result<Contents, String> {
    let file = File::read(bytes)?;
    Ok(Contents { kind: "summary", digest: file.digest(), text: file.text(), json: file.json() })
}

fn csv(bytes: &[u8]) -> Result<String, String> {
    File::read(bytes).map(|file| tables::csv(&file.printed(&[])))
}

/// Returns the task with these parameters.
fn built_in(session: &Session, spec: &SummarySpec) -> Option<BuiltIn> {
    let layout = Arc::new(Layout::new(spec, &session.data).ok()?);
    let plan = task::plan(session, &layout.rule(spec, session.privacy.min_contributors));
    let spec = spec.clone();
    let build: Build = Box::new(move |session, me, rows, secret| {
        Ok(Arc::new(Summary::new(session, spec.clone(), layout.clone(), me, &rows.data, secret)?))
    });
    Some(BuiltIn::of_tables(plan, "summary", "summary.json", build))
}

/// Functions for the test vectors, which are made outside this crate.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    use flyswarm_mpc::shares::cells::{Opened, Rule};

    use super::{Layout, SummarySpec};
    use crate::data::Dataset;
    use crate::session::Peer;
    use crate::session::Session;
    use crate::tasks::xclp::computation::commitment_to_words;

    fn layout(session: &Session) -> Option<(&SummarySpec, Layout)> {
        let spec = session.task.get::<SummarySpec>()?;
        Some((spec, Layout::new(spec, &session.data).ok()?))
    }

    /// Returns the conditions that cells must meet in a session of this task.
    #[must_use]
    pub fn rule(session: &Session) -> Option<Rule> {
        layout(session).map(|(spec, layout)| layout.rule(spec, session.privacy.min_contributors))
    }

    /// Returns the words of these rows.
    ///
    /// # Errors
    /// A line that names a value that does not fit.
    pub fn words(session: &Session, rows: &Dataset) -> Result<Vec<u64>, String> {
        let (_, layout) = layout(session).ok_or("another task")?;
        layout.words((0..rows.rows()).map(|row| rows.row(row)))
    }

    /// Returns an owner's commitment to its words.
    #[must_use]
    pub fn commitment(session: &[u8; 32], owner: Peer, salt: &[u8; 32], words: &[u64]) -> [u8; 32] {
        commitment_to_words(session, owner, salt, words)
    }

    /// Returns which numbers are opened.
    #[must_use]
    pub fn open(session: &Session, pattern: &Opened) -> Option<Opened> {
        layout(session).map(|(_, layout)| layout.open(pattern))
    }
}
