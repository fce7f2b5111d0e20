//! `flyswarm schema`: finds the problems of a table before a session starts with it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use toml::de::{DeTable, DeValue};

use super::data::Reading;
use super::{Failure, output, print, say};
use crate::data::prepare::problems::Amended;
use crate::data::prepare::publish::{self, Rule};
use crate::data::prepare::read;
use crate::data::prepare::{Kind, Problems, TableSchema, draft};
use crate::data::site::suggest;
use crate::data::{self, Expected, LabelColumn, Loaded};
use crate::session::file::with_id;
use crate::session::{Session, one_line};
use flyswarm_data::notices;

/// Check a table before a session.
#[derive(Debug, Subcommand)]
pub(super) enum SchemaCommand {
    Check(Check),
}

/// Check a file of rows against a session. List all problems: column, first line, number of rows, what to do
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Session file
    session: PathBuf,
    /// File of rows
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Label column: its name, its number from 1, `last` or `none` [default: as in the session]
    #[arg(long, value_name = "COLUMN")]
    label: Option<LabelColumn>,
    /// Add to the session file the levels of categories and the texts for missing values that it lacks and
    /// that the rows of --data have, except levels that look misspelt. The session id changes, so all peers
    /// need the new session file; they see the added texts
    #[arg(long)]
    amend: bool,
    /// With --amend: add a level only if at least N rows have it
    #[arg(long, value_name = "N", default_value_t = publish::MIN_ROWS, requires = "amend")]
    min_rows: u64,
    /// Print a draft of a map file (for --map) instead of the list of problems. A map file stays at this site
    #[arg(long, conflicts_with_all = ["amend", "json"])]
    suggest_map: bool,
    #[command(flatten)]
    reading: Reading,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl SchemaCommand {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Check(check) => check.run(out),
        }
    }
}

/// Findings in a file of rows.
pub(super) struct Looked {
    /// Rows, if there are no problems.
    pub(super) loaded: Option<Loaded>,
    pub(super) problems: Problems,
    /// Warnings about the rows. Each has one word for programs and a line for people.
    pub(super) warnings: Vec<(&'static str, String)>,
}

/// Reads rows by the rules of a session, and collects the problems.
pub(super) fn look(
    session: &Session,
    path: &Path,
    label: Option<&LabelColumn>,
    reading: &Reading,
) -> Result<Looked, Failure> {
    data::keep_pipe(path)?;
    let spec = &session.data;
    let usual = if spec.classes.is_empty() { LabelColumn::None } else { LabelColumn::Last };
    let limits = spec.limits();
    let expected = Expected {
        classes: (!spec.classes.is_empty()).then_some(&*spec.classes),
        partly: session.task.kind().partly,
        ..reading.of_session(spec, &limits, label.unwrap_or(&usual))
    };
    if spec.preparation.is_some() {
        let (loaded, problems) = read::check(path, &expected)?;
        let notices = loaded.as_ref().map(|loaded| loaded.notices(&expected));
        let notices = notices.unwrap_or_else(|| problems.notices.clone()).into_iter();
        let warnings = notices.chain(repeated(path, &expected)).chain(rare(&problems)).collect();
        return Ok(Looked { loaded, problems, warnings });
    }
    let loaded = data::load_named(path, &expected)?;
    let warnings = loaded.notices(&expected);
    Ok(Looked { loaded: Some(loaded), problems: Problems::none(path), warnings })
}

/// Finds columns that are not features and contain repeated ids.
fn repeated(path: &Path, expected: &Expected) -> Option<(&'static str, String)> {
    let schema = expected.preparation.filter(|schema| schema.group.is_none())?;
    let features = schema.columns.iter().filter(|column| column.kind != Kind::Ignored);
    let label = match &expected.label {
        LabelColumn::Name(name) => Some(name),
        _ => schema.label.as_ref(),
    };
    let used: Vec<&str> = features.map(|column| &column.name).chain(label).map(String::as_str).collect();
    let expected = Expected { label: LabelColumn::None, drop: &[], ..expected.clone() };
    // If an error prevents this search, the reader of the rows has already reported it.
    let found = draft::repeated_ids(path, &expected, &used).ok().filter(|found| !found.is_empty())?;
    let what = "ids that occur in several rows; if they are patient ids, held-out rows are not new \
                patients and results look too good: agree with all peers on `group` in [table] (session \
                new --group)";
    Some(("repeated", notices::listed(what, found.iter().map(|name| format!("{name:?}")))))
}

/// Lists texts that are not levels and count as missing.
fn rare(problems: &Problems) -> Option<(&'static str, String)> {
    let what = "texts that are not levels and count as missing";
    let shown = problems.unseen.iter();
    let shown = shown.map(|unseen| format!("{:?} {:?} in {} rows", unseen.column, unseen.level, unseen.rows));
    (!problems.unseen.is_empty()).then(|| ("others", notices::listed(what, shown)))
}

impl Check {
    fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let session = super::session::load(&self.session)?;
        let asked = [("--amend", self.amend), ("--suggest-map", self.suggest_map)];
        if let Some((option, _)) = asked.into_iter().find(|(_, given)| *given)
            && session.data.preparation.is_none()
        {
            let text = format!(
                "{}: {option}: no columns are described in it (`session new flynn --from` does that)",
                self.session.display()
            );
            return Err(Failure::Input(text));
        }
        let mut looked = look(&session, &self.data, self.label.as_ref(), &self.reading)?;
        if self.suggest_map {
            return self.suggest(&session, looked.problems, out);
        }
        let mut text = String::new();
        if self.amend
            && let Some((amended, file, line)) = self.amend(&session, &looked.problems)?
        {
            looked = look(&amended, &self.data, self.label.as_ref(), &self.reading)?;
            if looked.problems.list.is_empty() {
                output::write(&self.session, file.as_bytes(), true)?;
                text = line + "\n";
            } else {
                say(&format!("{}: nothing is added, because these problems remain", self.session.display()));
            }
        }
        let Looked { loaded, problems, warnings } = looked;
        let file = self.data.display();
        for problem in problems.shown() {
            text += &match self.json {
                true => format!(
                    "{}\n",
                    json!({
                        "line": problem.line, "column": problem.column, "rows": problem.rows,
                        "found": problem.texts.iter().map(|(text, _)| text).collect::<Vec<_>>(),
                        "message": problem.to_string(),
                    })
                ),
                false => format!("{}\n", one_line(&format!("{file}, {problem}"))),
            };
        }
        for (kind, line) in &warnings {
            text += &match self.json {
                true => format!("{}\n", json!({"warning": kind, "message": line})),
                false => format!("{}\n", one_line(&format!("warning: {file}: {line}"))),
            };
        }
        if let Some(loaded) = &loaded {
            let rows = loaded.data.rows();
            let left_out = match loaded.left_out.len() {
                0 => String::new(),
                _ => {
                    let name = |name: &String| match name.is_empty() {
                        true => "a column without a name".to_owned(),
                        false => name.clone(),
                    };
                    let names: Vec<_> = loaded.left_out.iter().map(name).collect();
                    format!("; not described and left out: {}", names.join(", "))
                }
            };
            text += &match self.json {
                true => {
                    let (features, left_out) = (loaded.data.features(), &loaded.left_out);
                    json!({"ok": true, "rows": rows, "features": features, "left_out": left_out}).to_string()
                }
                false => one_line(&format!(
                    "ok: {file}: {rows} rows of {} features{left_out}",
                    loaded.data.features()
                )),
            };
            text += "\n";
        }
        print(out, &text)?;
        match problems.shown().len() {
            0 => Ok(()),
            1 => Err(Failure::Input(format!("{file}: 1 problem"))),
            count => Err(Failure::Input(format!("{file}: {count} problems"))),
        }
    }

    /// Prints a draft of a map file, or the lines to add to the map file that the user gave.
    fn suggest(&self, session: &Session, mut problems: Problems, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(preparation) = &session.data.preparation else { return Ok(()) };
        let rename = suggest::renames(&problems);
        let mut reading = self.reading.clone();
        if !rename.is_empty() {
            // The file is read again with the new names, because problems inside a renamed column are found
            // only then.
            reading.site.rename.extend(rename.clone());
            problems = look(session, &self.data, self.label.as_ref(), &reading)?.problems;
        }
        let comma = reading.decimal_comma.unwrap_or(preparation.decimal_comma);
        let lines = suggest::draft(&problems, &rename, preparation, &session.data.classes, comma);
        let text = match lines.is_empty() {
            true => format!("# {} matches the session: no map file is needed\n", self.data.display()),
            false => {
                format!("# Drafted from {}: check it, and pass it with --map\n{lines}", self.data.display())
            }
        };
        print(out, &text)
    }

    /// Adds levels and texts for missing values that the rows have and the session lacks. Returns the
    /// session, the text of its file, and a line about the additions, if there are any.
    fn amend(
        &self,
        session: &Session,
        problems: &Problems,
    ) -> Result<Option<(Session, String, String)>, Failure> {
        let Some(preparation) = &session.data.preparation else { return Ok(None) };
        let mut preparation = (**preparation).clone();
        let amended = preparation.amend(problems, &Rule { min_rows: self.min_rows, classes: None });
        let file = self.session.display();
        amended.left.iter().for_each(|line| say(line));
        if amended.levels.is_empty() && amended.tokens.is_empty() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&self.session);
        let text = text.map_err(|error| output::for_io(&error, format!("{file}: {error}")))?;
        let changed = rewritten(&text, &preparation, &amended).ok_or_else(|| {
            Failure::Input(format!("{file}: --amend: [table] is not as `session new` writes it"))
        })?;
        let new = Session::parse(&changed)?;
        let id = new.id();
        let changed = with_id(&changed, id);
        let levels =
            amended.levels.iter().map(|(column, level)| format!("{column:?}: level {:?}", level.as_str()));
        let tokens = amended.tokens.iter().map(|token| format!("missing: {token:?}"));
        let added: Vec<String> = levels.chain(tokens).collect();
        let text = match self.json {
            true => json!({"amended": self.session, "session": id.to_string(), "added": added}).to_string(),
            false => one_line(&format!(
                "amended {file}: {}. Its id is now {id}: give the file to all peers. They learn that some peer has these texts, not how often",
                added.join(", ")
            )),
        };
        Ok(Some((new, changed, text)))
    }
}

/// Returns the text of a session file with new lists of levels and of texts for missing values, taken from
/// `preparation`. Comments and layout do not change. Returns `None` if a list is not at the expected place.
fn rewritten(text: &str, preparation: &TableSchema, amended: &Amended) -> Option<String> {
    let file = DeTable::parse(text).ok()?;
    let (name, table) = file.get_ref().get_key_value("table")?;
    let table = table.get_ref().as_table()?;
    let list = |texts: &[String]| {
        let texts = texts.iter().map(|text| toml::Value::String(text.clone()).to_string());
        format!("[{}]", texts.collect::<Vec<_>>().join(", "))
    };
    let mut changes = Vec::new();
    let mut added = String::new();
    if !amended.tokens.is_empty() {
        let new = list(&preparation.missing);
        match table.get("missing") {
            Some(place) => changes.push((place.span(), new)),
            None => added = format!("missing = {new}\n"),
        }
    }
    for column in table.get("column")?.get_ref().as_array()?.iter() {
        let column = column.get_ref().as_table()?;
        let DeValue::String(name) = column.get("name")?.get_ref() else { return None };
        if amended.levels.iter().any(|(changed, _)| *changed == **name) {
            let described = preparation.columns.iter().find(|described| described.name == **name)?;
            changes.push((column.get("levels")?.span(), list(described.levels())));
        }
    }
    if !added.is_empty() {
        // The line is inserted after the line `[table]`.
        let at = name.span().end + text.get(name.span().end..)?.find('\n')? + 1;
        changes.push((at..at, added));
    }
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, new) in changes {
        text.get(span.clone())?;
        text.replace_range(span, &new);
    }
    Some(text)
}

#[cfg(test)]
pub(super) mod tests;
