//! Drafts a preparation from one file. A person should review it.

use std::collections::BTreeMap;
use std::path::Path;

use super::problems::near;
use super::publish::{LONGEST, Publishable, Rule};
use super::rows::Rows;
use super::tally::{ColumnTally, Decision};
use super::texts::{blanked, header_of_values, spelt_once};
use super::value::{NoNumber, is_no_value, looks_missing};
use super::{ColumnSpec, DateOrder, Fill, Kind, MAX_DESCRIBED, MAX_TOKENS, TableSchema};
use crate::notices;
use crate::{
    Column, DataError, Expected, Format, LabelColumn, Source, check_class_name, parquet, quoted, row_names,
    site,
};

/// A drafted preparation.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The columns.
    pub preparation: TableSchema,
    /// The classes; whole numbers are sorted by size, other classes by their bytes. Empty without a label
    /// column.
    pub classes: Vec<String>,
    /// One line for each column with the reason for its kind. The lines reveal nothing about single rows.
    pub notes: Vec<String>,
    /// Lines for the owner of the file: points to review, with numbers of rows.
    pub said: Vec<String>,
}

/// Drafts a preparation from a file.
///
/// `expected` gives the label, the columns to drop and the spelling of the file; its other fields are
/// ignored. `rule` decides which texts the draft may contain. Returns `None` if the columns need no
/// description (arrays, or columns of numbers), and if there are more columns than a schema can describe.
///
/// # Errors
/// [`DataError`] if the file cannot be read, has no header, or has a label column that does not give
/// classes.
pub fn draft(path: &Path, expected: &Expected, rule: &Rule) -> Result<Option<Draft>, DataError> {
    let survey = Survey::read(path, expected)?;
    survey.map(|survey| survey.draft(path, expected, rule)).transpose()
}

/// Returns the columns whose ids occur in several rows, except the columns in `but`. Rows with the same id
/// may be rows of one patient.
///
/// # Errors
/// As [`draft`].
pub fn repeated_ids(path: &Path, expected: &Expected, but: &[&str]) -> Result<Vec<String>, DataError> {
    let Some(survey) = Survey::read(path, expected)? else { return Ok(Vec::new()) };
    let columns = survey.names.iter().zip(&survey.seen);
    let found = columns.filter(|(name, seen)| !but.contains(&name.as_str()) && seen.ids_come_back());
    Ok(found.map(|(name, _)| name.clone()).collect())
}

/// Counts of all columns of a file.
struct Survey {
    names: Vec<String>,
    seen: Vec<ColumnTally>,
    label: Option<usize>,
    group: Option<usize>,
    dropped: Vec<usize>,
    /// Number of rows, and the number of rows whose length is not that of the header.
    rows: u64,
    ragged: u64,
    /// True if the format writes numbers as texts.
    texts: bool,
}

impl Survey {
    fn read(path: &Path, expected: &Expected) -> Result<Option<Self>, DataError> {
        let (source, format) = site::opened_to_draft(path, expected)?;
        match format {
            Format::Parquet => {
                parquet::unless_damaged(path, || Self::of(source, Format::Parquet, path, expected))
            }
            format if Rows::takes(format) => Self::of(source, format, path, expected),
            _ => Ok(None),
        }
    }

    fn of(
        source: Source,
        format: Format,
        path: &Path,
        expected: &Expected,
    ) -> Result<Option<Self>, DataError> {
        let layout = |problem: String| Err(DataError::Layout { file: path.into(), problem });
        let mut rows = Rows::open(source, format, expected)?;
        let names = rows.names.clone();
        if rows.delimiter.is_some()
            && expected.header != Some(true)
            && names.iter().filter(|name| name.parse::<f64>().is_ok()).count() * 2 > names.len()
        {
            let problem = "line 1 has numbers, expected a header with the names of the columns (`header = true` in the \
                           map file if these are names)";
            return layout(problem.into());
        }
        if names.len() > MAX_DESCRIBED + 1 {
            return Ok(None);
        }
        // A column without a name cannot be described. It may be an index of pandas or the row names of R.
        for (at, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if check_class_name(name).is_err() || name.chars().count() > LONGEST {
                let name = quoted(name.as_bytes());
                return layout(format!(
                    "column {} is called {name}, expected a name of at most {LONGEST} printable characters",
                    at + 1
                ));
            }
            if names[..at].contains(name) {
                return layout(format!("several columns are called {name:?}; rename one"));
            }
        }
        let place = |column: &Column| match column {
            Column::Name(name) => names.iter().position(|other| other == name),
            Column::Number(number) => number.checked_sub(1).filter(|&at| at < names.len()),
        };
        let column = match &expected.label {
            LabelColumn::None => None,
            LabelColumn::Last => Some(Column::Number(names.len())),
            LabelColumn::Name(name) => Some(Column::Name(name.clone())),
            LabelColumn::Number(number) => Some(Column::Number(*number)),
        };
        let absent = |column: &Column, what: &str| {
            let shown = match column {
                Column::Name(name) => format!("column named {name:?}"),
                Column::Number(number) => format!("column {number}"),
            };
            let near = match column {
                Column::Name(name) => near(name, &names).map(|near| format!("; {near:?} is")),
                Column::Number(_) => None,
            };
            format!("line {} has no {shown} for {what}{}", rows.header, near.unwrap_or_default())
        };
        let label = match &column {
            Some(column) => match place(column) {
                Some(at) => Some(at),
                None => return layout(absent(column, "the label")),
            },
            None => None,
        };
        let mut dropped = Vec::new();
        for column in expected.drop {
            match place(column) {
                Some(at) if Some(at) != label => dropped.push(at),
                Some(_) => return layout(format!("{column:?} is the label and cannot be left out")),
                None => return layout(absent(column, "--drop")),
            }
        }
        let group = match expected.group.map(|name| (name, names.iter().position(|other| other == name))) {
            None => None,
            Some((_, Some(at))) if Some(at) != label => Some(at),
            Some((name, Some(_))) => {
                return layout(format!("column {name:?} is the label and cannot be the group"));
            }
            Some((name, None)) => return layout(absent(&Column::Name(name.to_owned()), "--group")),
        };
        let mut seen: Vec<ColumnTally> = (0..names.len()).map(|at| ColumnTally::new(&rows, at)).collect();
        if let Some(at) = label
            && let Some(found) = rows.unread(at)
        {
            return layout(format!("column {:?} is the label, and {found}, which cannot be read", names[at]));
        }
        let (mut count, mut ragged, mut length) = (0, 0, 0);
        while rows.next()? {
            if rows.len() != names.len() {
                (ragged, length) = (ragged + 1, rows.len());
                continue;
            }
            count += 1;
            for (at, seen) in seen.iter_mut().enumerate() {
                if let Ok(text) = std::str::from_utf8(rows.field(at)) {
                    seen.add(text);
                } else {
                    let problem = format!(
                        "line {}, column {:?}: not UTF-8 text; save the file as UTF-8 (in a spreadsheet: \"CSV UTF-8\")",
                        rows.line, names[at]
                    );
                    return layout(problem);
                }
            }
        }
        if count == 0 && ragged > 0 {
            let expected = names.len();
            return layout(format!(
                "{length} columns in the rows, expected {expected} as in the header{}",
                row_names(length, expected)
            ));
        }
        if count == 0 {
            return Err(DataError::NoRows { file: path.into(), header: true });
        }
        if rows.delimiter.is_some() && expected.header != Some(true) {
            let like = names.iter().zip(&seen).map(|(name, seen)| seen.has(name)).collect::<Vec<_>>();
            if let Some(problem) = header_of_values(&like) {
                return layout(format!("line {}: {problem}", rows.header));
            }
        }
        let texts = rows.delimiter.is_some();
        Ok(Some(Self { names, seen, label, group, dropped, rows: count, ragged, texts }))
    }

    fn draft(self, path: &Path, expected: &Expected, rule: &Rule) -> Result<Draft, DataError> {
        let Self { names, seen, label, group, dropped, rows, ragged, texts } = self;
        let sideways = transposed(&names, rows);
        let layout = |mut problem: String| {
            // The column names of such a table are patients, so it must be transposed before a label is
            // chosen.
            if let Some(hint) = &sideways {
                problem = format!("{hint}. Otherwise: {problem}");
            }
            Err(DataError::Layout { file: path.into(), problem })
        };
        let no_feature = |at: usize| [label, group].contains(&Some(at)) || names[at].is_empty();
        let features = || seen.iter().enumerate().filter(|(at, _)| !no_feature(*at));
        let only = |which: usize| features().map(|(_, seen)| seen.numbers[which]).sum::<u64>();
        let decimal_comma = expected.dialect.decimal_comma;
        let mut out = Draft {
            preparation: TableSchema {
                delimiter: None,
                decimal_comma: decimal_comma.unwrap_or(texts && only(1) > only(0)),
                label: label.map(|at| names[at].clone()),
                group: group.map(|at| names[at].clone()),
                ..TableSchema::default()
            },
            classes: Vec::new(),
            notes: Vec::new(),
            said: Vec::new(),
        };
        if ragged > 0 {
            out.said
                .push(format!("{ragged} rows do not have as many columns as the header and were skipped"));
        }
        out.said
            .extend(sideways.iter().map(|hint| format!("warning: {hint}. All peers see the column names")));
        for at in (0..names.len()).filter(|at| names[*at].is_empty() && !dropped.contains(at)) {
            out.said.push(format!("column {} has no name and is left out", at + 1));
        }
        if let Some(at) = group {
            let (name, seen) = (&names[at], &seen[at]);
            let missing = seen.empty + seen.missing_words();
            if missing > 0 {
                out.said.push(format!(
                    "{name:?}: {missing} rows have no group: give each of them one, or leave it out"
                ));
            }
        }
        for (at, seen) in features() {
            out.describe(&names[at], seen, dropped.contains(&at), rule);
        }
        out.no_level_is_missing();
        if let Some(at) = label {
            let (name, seen) = (&names[at], &seen[at]);
            let (words, texts): (BTreeMap<_, _>, BTreeMap<_, _>) =
                seen.texts.iter().map(|(text, rows)| (text.clone(), *rows)).partition(|(text, _)| {
                    let named = rule.classes.is_some_and(|classes| classes.contains(text));
                    is_no_value(text) && !named
                });
            let missing = seen.empty + words.values().sum::<u64>();
            if missing > 0 && !expected.partly {
                out.said.push(format!("{name:?}: {missing} rows have no label: leave them out"));
            }
            if rule.classes.is_none() && seen.numbers[0] == seen.values && seen.fractions {
                return layout(format!(
                    "column {name:?} is the label, and holds a quantity: expected classes (--label names another column)"
                ));
            }
            let chosen = expected.label != LabelColumn::Last;
            let classes = match rule.admit_classes(&spelt_once(&texts), chosen) {
                Ok(classes) => Publishable::texts(classes),
                Err(problem) => return layout(format!("column {name:?} is the label, and {problem}")),
            };
            for class in classes.iter().filter(|class| looks_missing(class)) {
                out.said.push(format!(
                    "{name:?}: {class:?} is a class; if it means no label, leave these rows out"
                ));
            }
            out.alike(name, &classes);
            out.classes = classes;
        }
        Ok(out)
    }
}

/// Fewest columns of a table that may be transposed.
const FEWEST_COLUMNS: usize = 30;

/// Returns advice if the columns look like patients: there are many more columns than rows, and their
/// names differ only in a number.
#[must_use]
pub fn transposed(names: &[String], rows: u64) -> Option<String> {
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.bytes().any(|byte| byte.is_ascii_digit())) {
        alike.entry(blanked(name)).or_default().push(name);
    }
    let largest = alike.into_values().max_by_key(Vec::len)?;
    let (columns, first) = (names.len(), largest.first()?);
    let wide = columns >= FEWEST_COLUMNS && columns as u64 > 3 * rows && 10 * largest.len() > 9 * columns;
    wide.then(|| {
        format!(
            "{columns} columns and {rows} rows, and nearly all column names differ only in a number, \
             such as {first:?}: if the columns are patients, transpose the table, so that each row is \
             one patient"
        )
    })
}

impl Draft {
    /// Returns a line for a person whose rows were read with this draft.
    #[must_use]
    pub fn guessed(&self) -> String {
        let (columns, width) = (self.preparation.columns.len(), self.preparation.width());
        format!(
            "{columns} columns guessed to be {width} features; `session new flynn --from` writes this \
             guess to a session file"
        )
    }

    /// Makes the schema of a column. No other function makes one.
    fn describe(&mut self, name: &str, seen: &ColumnTally, dropped: bool, rule: &Rule) {
        let comma = usize::from(self.preparation.decimal_comma);
        let decision = match dropped {
            true => Decision::Ignored("left out by --drop".into()),
            false => seen.decide(name, comma, rule),
        };
        let absent = seen.empty + seen.missing_words();
        let mut column = ColumnSpec::new(name, Kind::Ignored);
        let mut note;
        let middle = match decision {
            Decision::Ignored(reason) => {
                if !dropped {
                    self.said.push(format!("{name:?}: ignored, {reason}"));
                    if self.preparation.group.is_none() && seen.ids_come_back() {
                        self.said.push(format!("warning: {name:?}: {}", notices::group_advice(name)));
                    }
                }
                note = reason;
                None
            }
            Decision::Number(why) => {
                (column.kind, note) = (Kind::Number, why.to_owned());
                median(&seen.kept[comma]).map(two_digits)
            }
            Decision::Date(order, why) => {
                (column.kind, note) = (Kind::Date(order), why.to_owned());
                let at = DateOrder::ALL.iter().position(|other| *other == order).unwrap_or(0);
                // Rounded to about a month, because an exact day could belong to a patient.
                median(&seen.days[at]).map(|days| (days / 30.0).round() * 30.0)
            }
            Decision::Category(levels, rare) => {
                note =
                    "texts, few and repeated; with an order: kind = \"ordinal\", levels ascending".to_owned();
                if rare > 0 {
                    self.said.push(format!(
                        "{name:?}: texts that fewer than {} rows have are not written; the {rare} rows with such texts \
                         count as missing in this column",
                        rule.min_rows
                    ));
                    note += "; other texts count as missing";
                    column.others_missing = true;
                }
                if seen.empty > 0 {
                    self.said.push(format!("{name:?}: missing in {} rows", seen.empty));
                }
                if seen.empty + rare > 0 {
                    column.fill = Fill::NoLevel;
                    note += "; some are missing: no level is set for them";
                }
                let levels = Publishable::texts(levels);
                self.alike(name, &levels);
                column.kind = Kind::Category(levels);
                None
            }
        };
        if matches!(column.kind, Kind::Number | Kind::Date(_)) && absent > 0 {
            column.fill = Fill::Number(middle.unwrap_or(0.0));
            column.indicator = true;
            note += "; some are missing: this peer's median replaces them, which reveals something about \
                     its rows (fill_with = \"mean\" instead of fill: the mean of all peers' values); a \
                     second feature marks missing values";
            self.said.push(format!("{name:?}: missing in {absent} rows"));
            for token in seen.missing.keys() {
                let TableSchema { missing, .. } = &mut self.preparation;
                if missing.len() < MAX_TOKENS && !missing.contains(token) {
                    missing.push(token.clone());
                }
            }
        }
        if column.kind == Kind::Number {
            let strange = seen.values - seen.numbers[comma];
            if strange > 0 {
                let limits = match seen.measured[comma].1 {
                    Some(NoNumber::Limit) => " (such as values below a limit: \"<0.5\")",
                    _ => "",
                };
                self.said.push(format!(
                    "{name:?}: {strange} values are not numbers{limits}; `schema check` lists them"
                ));
            }
            if seen.coarse() > 0 {
                self.said.push(format!(
                    "warning: {name:?}: {} whole numbers are rounded, because binary32 has 24 bits; if it is an id: kind = \
                     \"ignored\"",
                    seen.coarse()
                ));
            }
        }
        self.preparation.columns.push(column);
        self.notes.push(note);
    }

    /// Removes from the levels each text that means a missing value in a column of numbers, except `none`.
    fn no_level_is_missing(&mut self) {
        let TableSchema { columns, missing, .. } = &mut self.preparation;
        for (column, note) in columns.iter_mut().zip(&mut self.notes) {
            let Kind::Category(levels) = &mut column.kind else { continue };
            let all = levels.len();
            levels.retain(|level| !missing.contains(level) || level.eq_ignore_ascii_case("none"));
            if levels.is_empty() {
                *column = ColumnSpec::new(std::mem::take(&mut column.name), Kind::Ignored);
                *note = "it has only missing values".into();
            } else if levels.len() < all && column.fill != Fill::NoLevel {
                column.fill = Fill::NoLevel;
                *note += "; some are missing: no level is set for them";
            }
        }
    }

    /// Reports texts that look like misspellings of each other.
    fn alike(&mut self, name: &str, texts: &[String]) {
        for (at, text) in texts.iter().enumerate() {
            if let Some(other) = near(text, &texts[..at]) {
                self.said.push(format!("{name:?}: {text:?} and {other:?} are two levels; one misspelt?"));
            }
        }
    }
}

fn median(values: &[f32]) -> Option<f64> {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| f64::from(*values.select_nth_unstable_by(middle, f32::total_cmp).1))
}

/// Rounds to two digits, so that a constant that others see is not always the value of a row.
fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(0.0)
}
