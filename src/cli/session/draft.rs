//! `session new --columns-from`: the description of columns that one peer's file suggests, or another session
//! file has.

use crate::cli::say;
pub(super) use crate::data::prepare::draft::Draft;
use crate::data::prepare::draft::draft;
use crate::data::{self, Dialect, Expected};
use crate::session::Description;

use super::{Failure, NewArguments};

impl NewArguments {
    /// What the file of --columns-from suggests or describes, and on standard error what needs a look;
    /// nothing where only names can be taken from it.
    pub(super) fn draft(&self) -> Result<Option<Draft>, Failure> {
        let Some(path) = &self.columns_from else { return Ok(None) };
        if path.extension().is_some_and(|extension| extension == "toml") {
            let Description { preparation, classes } = Description::load(path)?;
            return Ok(Some(Draft { preparation, classes, notes: Vec::new(), said: Vec::new() }));
        }
        let dialect = Dialect { delimiter: self.delimiter, decimal_comma: self.decimal_comma };
        let (label, drop) = (self.label.clone(), self.drop.as_slice());
        let expected = Expected { label, drop, dialect, ..Expected::default() };
        let draft = match draft(path, &expected) {
            Ok(Some(draft)) => draft,
            // One rule holds for all columns then: they are numbers.
            Ok(None) => return Ok(None),
            Err(error) => {
                // What has no names is told so.
                let bare = data::load_named(path, &expected).is_ok_and(|rows| rows.columns.is_empty());
                return if bare { Ok(None) } else { Err(error.into()) };
            }
        };
        for line in &draft.said {
            say(&format!("{}: {line}", path.display()));
        }
        let levels: usize = draft.preparation.columns.iter().map(|column| column.levels().len()).sum();
        say(&format!(
            "described {} columns as {} features; look at [table] in the file: the others see names, {levels} levels \
             and constants of these rows, no counts. Each peer then runs `flyswarm schema check`",
            draft.preparation.columns.len(),
            draft.preparation.width()
        ));
        Ok(Some(draft))
    }
}
