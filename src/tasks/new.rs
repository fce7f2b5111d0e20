//! Makes a session file from the options of one task and the values that the task proposes.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::data::Dataset;
use crate::session::{Session, SessionError};

/// An option of `flyswarm session new TASK` that belongs to this task.
#[derive(Clone, Copy, Debug)]
pub struct TaskOption {
    /// Name of the option, without the dashes.
    pub name: &'static str,
    /// Name of its value in the help; empty for a switch. If the name has a comma, the value is a list.
    pub value: &'static str,
    /// One sentence for the help.
    pub help: &'static str,
    /// Use of the option.
    pub sets: Sets,
    /// Second name of the option; empty if it has only one.
    pub alias: &'static str,
}

/// Use of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sets {
    /// The option sets this field of the session file.
    Field(&'static str),
    /// The option sets this field to a list of names. The user may leave out the quotation marks.
    Names(&'static str),
    /// [`TaskKind::fill`](super::TaskKind::fill) reads the option.
    Own,
    /// Like `Own`, but the option also needs the labelled rows of `--from`.
    FromRows,
}

impl TaskOption {
    /// Makes an option that sets a field.
    pub(crate) const fn field(
        name: &'static str,
        value: &'static str,
        field: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, value, help, sets: Sets::Field(field), alias: "" }
    }

    /// Makes an option that sets a field to names with commas between them.
    pub(crate) const fn names(
        name: &'static str,
        value: &'static str,
        field: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, value, help, sets: Sets::Names(field), alias: "" }
    }

    /// Makes an option that the task reads itself.
    pub(crate) const fn own(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { name, value, help, sets: Sets::Own, alias: "" }
    }

    /// Returns the option with a second name.
    pub(crate) const fn also(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }
}

/// Budget of a private session, for tasks that can have one.
pub(crate) const EPSILON: TaskOption = TaskOption::field(
    "epsilon",
    "E",
    "privacy.epsilon",
    "Differential privacy with this budget, 0.001 to 100 (docs/privacy.md)",
);

/// A session file that is being made. Fields have dotted names, such as `fedavg.rounds`.
#[derive(Debug, Default)]
pub struct NewFile {
    /// Fields that have been set.
    pub(crate) fields: Table,
    /// Values of the options that the task reads itself.
    pub(crate) options: BTreeMap<&'static str, String>,
    /// Labelled rows, if an option needs some.
    pub(crate) rows: Option<Dataset>,
    /// Rows of the table from which the columns were described, if there is one.
    pub(crate) drafted: Option<Dataset>,
    /// Lines for the user.
    pub(crate) said: Vec<String>,
}

impl NewFile {
    /// Returns the value of a field, if it is set.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Value> {
        let mut names = field.split('.');
        let first = self.fields.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    }

    /// Sets a field unless the user has set it.
    pub fn propose(&mut self, field: &str, value: impl Into<Value>) {
        let mut table = &mut self.fields;
        let mut names = field.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                table.entry(name).or_insert(value.into());
                return;
            }
            match table.entry(name).or_insert_with(|| Value::Table(Table::new())) {
                Value::Table(inner) => table = inner,
                // The field lies inside a value that is not a section. Reading the file reports this error
                // later.
                _ => return,
            }
        }
    }

    /// Returns the value of an option of the task; for a switch, the empty text.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Returns whether the session is private.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.get("privacy.epsilon").is_some()
    }

    /// Makes a session from the fields that have been set.
    ///
    /// # Errors
    /// As [`Session::parse`]. An error of the TOML reader names the field instead of the line.
    pub fn session(&self) -> Result<Session, SessionError> {
        let text = toml::to_string(&self.fields)
            .map_err(|error| SessionError::Syntax { line: 1, message: error.to_string() })?;
        Session::parse(&text).map_err(|error| match error {
            SessionError::Syntax { line, message } => {
                SessionError::Field { field: place(&text, line), message }
            }
            other => other,
        })
    }
}

/// Returns the dotted name of the field or section in this line of a file.
fn place(text: &str, line: usize) -> String {
    let before: Vec<&str> = text.lines().take(line).collect();
    let section = before.iter().rev().find_map(|line| line.strip_prefix('[')).unwrap_or_default();
    let section = section.trim_matches(['[', ']']);
    match before.last().and_then(|line| line.split_once(" = ")) {
        Some((name, _)) if section.is_empty() => name.to_owned(),
        Some((name, _)) => format!("{section}.{name}"),
        None if section.is_empty() => "the file".to_owned(),
        None => format!("[{section}]"),
    }
}

/// Copies the fields of `new` into `old`. They replace fields of the same names.
pub(crate) fn merge(old: &mut Table, new: Table) {
    for (name, value) in new {
        match (old.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => drop(old.insert(name, value)),
        }
    }
}

/// Reads a value that the user has typed. If it is not a TOML value, it is a text.
pub(crate) fn value(text: &str) -> Value {
    let read = format!("x = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("x"));
    read.unwrap_or_else(|| Value::String(text.to_owned()))
}
