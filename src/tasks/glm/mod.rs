//! The task `glm`: linear, logistic and Poisson regression over the rows of all peers (spec, section 15j).
//!
//! The first slot is the coin, which draws the computing members. The slots `computed` and `pattern` follow,
//! as in the task `summary`: the computing members find out on shares whether every cell of two terms of the
//! model has enough rows. If a cell does not pass, the session ends before any number is opened. Then comes a
//! slot for each round of the fit. The first of them also shows that its rows are those of the check. If a
//! member is lost before the first round, the next two slots check the other members' rows again. The fit
//! ends after a round that follows from the opened sums alone.

mod design;
mod result;
mod spec;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use spec::GlmSpec;

use super::common::tables;
use super::{Build, BuiltIn, Contents, NewFile, ResultFile, Shared, TaskKind, TaskOption};
use crate::session::{Section, Session, SessionError};
use design::Design;
use result::{FORMAT, File};
use task::Glm;

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    has_classes: false,
    options: &[
        TaskOption::field(
            "family",
            "FAMILY",
            "glm.family",
            "Kind of regression: linear, logistic or poisson [default: linear]",
        ),
        TaskOption::own("outcome", "COLUMN", "Outcome column, which the regression explains by the terms"),
        TaskOption::own(
            "event",
            "LEVEL",
            "Level of the outcome that counts as the event [default: the second level]",
        ),
        TaskOption::names(
            "terms",
            "TERM,TERM",
            "glm.terms",
            "Terms of the model: columns, and pairs of columns such as age:sex [default: all columns]",
        ),
        TaskOption::field("robust", "", "glm.robust", "Compute robust standard errors (HC1)"),
    ],
    fill,
    csv: Some(csv),
    results: &[ResultFile { name: "a regression", recognised, contents: Some(contents) }],
    ..TaskKind::new(
        "glm",
        "linear, logistic and Poisson regression",
        &[Section { name: "glm", tasks: "glm" }],
        |sections, _, _| GlmSpec::read(sections).map(Into::into),
        Shared::Cells,
    )
};

fn fill(new: &mut NewFile) -> Result<(), SessionError> {
    new.propose("data.scaling", "none");
    for (option, field) in [("outcome", "glm.outcome"), ("event", "glm.event")] {
        if let Some(text) = new.option(option).map(str::to_owned) {
            new.propose(field, text);
        }
    }
    Ok(())
}

fn recognised(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    text.starts_with('{') && text.contains(&format!("\"format\": \"{FORMAT}\""))
}

fn contents(bytes: &[u8]) -> Result<Contents, String> {
    let file = File::read(bytes)?;
    Ok(Contents { kind: "regression", digest: result::digest(bytes), text: file.text(), json: file.json() })
}

fn csv(bytes: &[u8]) -> Result<String, String> {
    File::read(bytes).map(|file| tables::csv(&file.printed()))
}

/// Returns the task with these parameters.
fn built_in(session: &Session, spec: &GlmSpec) -> Option<BuiltIn> {
    let design = Arc::new(Design::new(spec, &session.data).ok()?);
    let plan = task::plan(session, spec, &design)?;
    let spec = spec.clone();
    let build: Build = Box::new(move |session, me, rows, secret| {
        Ok(Arc::new(Glm::new(session, spec.clone(), design.clone(), me, &rows.data, secret)?))
    });
    Some(BuiltIn::of_tables(plan, "regression", "glm.json", build))
}

/// Functions for the test vectors, which are made outside this crate.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    use flyswarm_glm::{Model, Round, Totals};
    use flyswarm_mpc::shares::cells::{Opened, Rule};

    use super::{Design, GlmSpec};
    use crate::data::Dataset;
    use crate::session::Session;

    fn design(session: &Session) -> Option<(&GlmSpec, Design)> {
        let spec = session.task.get::<GlmSpec>()?;
        Some((spec, Design::new(spec, &session.data).ok()?))
    }

    /// Returns the conditions that cells must meet, and the model.
    #[must_use]
    pub fn of(session: &Session) -> Option<(Rule, Model)> {
        let (spec, design) = design(session)?;
        let model = spec.model(&design)?;
        Some((design.rule(spec, session.privacy.min_contributors), model))
    }

    /// Returns the words of these rows for the check.
    ///
    /// # Errors
    /// A line that names a value that does not fit.
    pub fn words(session: &Session, rows: &Dataset) -> Result<Vec<u64>, String> {
        let (_, design) = design(session).ok_or("another task")?;
        design.words((0..rows.rows()).map(|row| rows.row(row))).map(|(words, _)| words)
    }

    /// Returns the sums over these rows in a round.
    ///
    /// # Errors
    /// A line that names a value that does not fit.
    pub fn sums(session: &Session, round: &Round, rows: &Dataset) -> Result<Totals, String> {
        let (spec, design) = design(session).ok_or("another task")?;
        let family = spec.family().ok_or("another family")?;
        let (_, rows) = design.words((0..rows.rows()).map(|row| rows.row(row)))?;
        Ok(rows.sums(family, round))
    }

    /// Returns the entries of the first round that follow from words of the check.
    #[must_use]
    pub fn checked(session: &Session, words: &[u64]) -> Option<Vec<u64>> {
        design(session).map(|(_, design)| design.checked(words))
    }

    /// Compares the first round with the entries from the check.
    ///
    /// # Errors
    /// A line that names the first entry that differs.
    pub fn agree(session: &Session, checked: &[u64], first: &Totals) -> Result<(), String> {
        design(session).ok_or("another task")?.1.agree(checked, first)
    }

    /// Names the cells that do not pass.
    #[must_use]
    pub fn refused(session: &Session, pattern: &Opened) -> Option<String> {
        design(session).and_then(|(_, design)| design.refused(pattern))
    }
}
