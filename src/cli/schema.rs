//! `flyswarm schema`: what is wrong with a table, before a session is started with it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use toml::de::{DeTable, DeValue};

use super::data::Reading;
use super::{Failure, one_line, output, print, say};
use crate::data::prepare::problems::Amended;
use crate::data::prepare::read;
use crate::data::prepare::{Problems, TableSchema};
use crate::data::site::suggest;
use crate::data::{self, Expected, LabelColumn, Loaded};
use crate::session::Session;

/// Look at a table before a session.
#[derive(Debug, Subcommand)]
pub(super) enum SchemaCommand {
    Check(Check),
}

/// Reads a file of rows as a session says and lists all that is wrong with it, each problem with its first
/// line, its column, how often it is there, and what to do
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Session file
    session: PathBuf,
    /// The rows
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Label column: a name, a number from 1, last or none [default: as the session says]
    #[arg(long, value_name = "COLUMN")]
    label: Option<LabelColumn>,
    /// Add to the session file what this file has beside it: levels of categories, and texts that stand for
    /// missing values. The session's id changes, so all peers need the new file; they see what was added
    #[arg(long)]
    amend: bool,
    /// Draft a map file for --map from what is wrong, in place of the list. It stays at this site
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

/// What is found in a file of rows.
pub(super) struct Looked {
    /// The rows, if nothing is wrong.
    pub(super) loaded: Option<Loaded>,
    pub(super) problems: Problems,
}

/// Reads rows as a session says and collects what is wrong.
pub(super) fn look(
    session: &Session,
    path: &Path,
    label: Option<&LabelColumn>,
    reading: &Reading,
) -> Result<Looked, Failure> {
    let spec = &session.data;
    let usual = if spec.classes.is_empty() { LabelColumn::None } else { LabelColumn::Last };
    let limits = spec.limits();
    let expected = Expected {
        classes: (!spec.classes.is_empty()).then_some(&*spec.classes),
        partly: session.task.propagation().is_some(),
        ..reading.of_session(spec, &limits, label.unwrap_or(&usual))
    };
    if spec.preparation.is_some() {
        let (loaded, problems) = read::check(path, &expected)?;
        return Ok(Looked { loaded, problems });
    }
    let loaded = data::load_named(path, &expected)?;
    Ok(Looked { loaded: Some(loaded), problems: Problems { file: path.into(), list: Vec::new() } })
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
        if self.amend && !looked.problems.list.is_empty() {
            let amended = self.amend(&session, &looked.problems, out)?;
            if let Some(session) = amended {
                looked = look(&session, &self.data, self.label.as_ref(), &self.reading)?;
            }
        }
        let Looked { loaded, problems } = looked;
        let file = self.data.display();
        let mut text = String::new();
        for problem in &problems.list {
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
        if let Some(loaded) = &loaded {
            let rows = loaded.data.rows();
            let left_out = match loaded.left_out.len() {
                0 => String::new(),
                _ => format!("; not described and left out: {}", loaded.left_out.join(", ")),
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
        match problems.list.len() {
            0 => Ok(()),
            1 => Err(Failure::Input(format!("{file}: 1 problem"))),
            count => Err(Failure::Input(format!("{file}: {count} problems"))),
        }
    }

    /// Prints a map file, or what is to be added to the one that is given.
    fn suggest(&self, session: &Session, mut problems: Problems, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(preparation) = &session.data.preparation else { return Ok(()) };
        let rename = suggest::renames(&problems);
        let mut reading = self.reading.clone();
        if !rename.is_empty() {
            // What is wrong inside a column is seen once the column is found.
            reading.map_mut().site.rename.extend(rename.clone());
            problems = look(session, &self.data, self.label.as_ref(), &reading)?.problems;
        }
        let comma = reading.map().decimal_comma.unwrap_or(preparation.decimal_comma);
        let lines = suggest::draft(&problems, &rename, preparation, &session.data.classes, comma);
        let text = match lines.is_empty() {
            true => format!("# {} is as the session says: no map file is needed\n", self.data.display()),
            false => format!(
                "# Drafted from {}: look it over, and give it with --map\n{lines}",
                self.data.display()
            ),
        };
        print(out, &text)
    }

    /// Writes the session file with what the rows have beside it; gives the new session, if anything was
    /// added.
    fn amend(
        &self,
        session: &Session,
        problems: &Problems,
        out: &mut dyn Write,
    ) -> Result<Option<Session>, Failure> {
        let Some(preparation) = &session.data.preparation else { return Ok(None) };
        let mut preparation = (**preparation).clone();
        let amended = preparation.amend(problems);
        let file = self.session.display();
        for (column, text, other) in &amended.alike {
            say(&format!(
                "{column:?}: {text:?} is not added: it looks like {other:?} misspelt; correct the rows, or add it by hand"
            ));
        }
        for (text, column) in &amended.levels_already {
            say(&format!(
                "{text:?} is not added to `missing`: it is a level of {column:?}; leave these fields empty"
            ));
        }
        if amended.levels.is_empty() && amended.tokens.is_empty() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&self.session);
        let text = text.map_err(|error| output::for_io(&error, format!("{file}: {error}")))?;
        let changed = rewritten(&text, &preparation, &amended).ok_or_else(|| {
            Failure::Input(format!("{file}: --amend: [table] is not as `session new` writes it"))
        })?;
        let new = Session::parse(&changed)?;
        let (old_id, id) = (session.id().to_string(), new.id().to_string());
        let changed = changed.replace(&old_id, &id);
        output::write(&self.session, changed.as_bytes(), true)?;
        let levels = amended.levels.iter().map(|(column, level)| format!("{column:?}: level {level:?}"));
        let tokens = amended.tokens.iter().map(|token| format!("missing: {token:?}"));
        let added: Vec<String> = levels.chain(tokens).collect();
        let text = match self.json {
            true => json!({"amended": self.session, "session": id, "added": added}).to_string(),
            false => one_line(&format!(
                "amended {file}: {}. Its id is now {id}: give the file to all peers. They learn that some peer has these texts, not how often",
                added.join(", ")
            )),
        };
        print(out, &(text + "\n"))?;
        Ok(Some(new))
    }
}

/// The text of a session file with the lists of levels and of texts for missing values of `preparation`;
/// comments and layout stay. `None` where a list is not where it is expected.
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
        // After the line `[table]`.
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
