//! A preparation guessed from one file, for people to look over.

use std::collections::BTreeMap;
use std::path::Path;

use super::problems::{Problem, Trouble, near};
use super::publish::{Publishable, Rule};
use super::rows::Rows;
use super::value::{NoNumber, days, is_no_value, looks_missing, number};
use super::{ColumnSpec, DateOrder, Fill, Kind, MAX_DESCRIBED, MAX_LEVELS, MAX_TOKENS, TableSchema};
use crate::notices::{Ids, ids};
use crate::{Column, DataError, Expected, Format, LabelColumn, Source, check_class_name, parquet, site};

/// Numbers of a column that are kept, for its median and to see whether they are ids.
const KEPT: usize = 10_000;
/// Texts of a column that are kept: levels, or classes.
const TEXTS: usize = MAX_LEVELS + 1;

/// What was guessed.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The columns.
    pub preparation: TableSchema,
    /// The classes, whole numbers by size, else by their bytes; none without a label column.
    pub classes: Vec<String>,
    /// Of each column in one line why it was taken so. It tells nothing of single rows.
    pub notes: Vec<String>,
    /// Lines for the person whose file it is: what needs a look, with numbers of rows.
    pub said: Vec<String>,
}

/// What a column becomes, and why.
enum Decision {
    /// It is no feature.
    Ignored(String),
    Number(&'static str),
    Date(DateOrder, &'static str),
    /// These levels; so many rows have other texts, which stay here.
    Category(Vec<Publishable>, u64),
}

/// What is seen in a column.
#[derive(Debug, Default)]
struct ColumnTally {
    empty: u64,
    /// Texts such as `n/a`.
    missing: BTreeMap<String, u64>,
    /// Values, without those that are missing or look so.
    values: u64,
    /// Values that are a number with a point, and with a comma.
    numbers: [u64; 2],
    /// Dates in each order.
    dates: [u64; 3],
    /// Values with a number in them, such as `<0.5` or `72 kg`, with a point and with a comma; what the first
    /// one is.
    measured: [(u64, Option<NoNumber>); 2],
    /// Whether a number is not whole.
    fractions: bool,
    kept: [Vec<f32>; 2],
    days: [Vec<f32>; 3],
    /// Whole numbers, exact, in the file's order.
    whole: Vec<i64>,
    /// All texts, up to [`TEXTS`] different ones.
    texts: BTreeMap<String, u64>,
    /// Why the column cannot be read.
    unread: Option<String>,
}

impl ColumnTally {
    fn new(rows: &Rows, at: usize) -> Self {
        Self { unread: rows.unread(at).map(str::to_owned), ..Self::default() }
    }

    fn add(&mut self, text: &str) {
        if text.is_empty() {
            self.empty += 1;
            return;
        }
        if self.texts.len() < TEXTS || self.texts.contains_key(text) {
            *self.texts.entry(text.to_owned()).or_default() += 1;
        }
        if looks_missing(text) {
            if self.missing.len() < MAX_TOKENS {
                *self.missing.entry(text.to_owned()).or_default() += 1;
            }
            return;
        }
        self.values += 1;
        for (at, comma) in [false, true].into_iter().enumerate() {
            match number(text, comma) {
                Ok(value) => {
                    self.numbers[at] += 1;
                    self.fractions |= value.fract() != 0.0;
                    keep(&mut self.kept[at], value);
                    if at == 0 && value.fract() == 0.0 {
                        keep(&mut self.whole, text.parse().unwrap_or(value as i64));
                    }
                }
                Err(NoNumber::Text | NoNumber::Date | NoNumber::Missing) => {}
                Err(other) => {
                    self.measured[at].0 += 1;
                    self.measured[at].1.get_or_insert(other);
                }
            }
        }
        // A number is no date, though 20260131 could be both.
        if self.numbers == [0, 0] {
            for (at, order) in DateOrder::ALL.into_iter().enumerate() {
                if let Some(days) = days(text, order) {
                    self.dates[at] += 1;
                    keep(&mut self.days[at], days as f32);
                }
            }
        }
    }

    /// Whether the values are ids: whole numbers, or texts that come back in few rows each.
    fn ids(&self) -> Option<Ids> {
        if self.values > 0 && self.numbers[0] == self.values {
            return if self.fractions { None } else { ids(&self.whole) };
        }
        let distinct = self.texts.len();
        let again = self.texts.values().filter(|&&rows| rows > 1).count();
        let (rows, most) =
            (self.texts.values().sum::<u64>(), self.texts.values().max().copied().unwrap_or(0));
        let few = distinct >= 10 && distinct as u64 * 20 >= rows && most * 10 <= rows;
        (few && again * 2 >= distinct).then_some(Ids::Repeated)
    }

    /// Whole numbers that binary32 rounds.
    fn coarse(&self) -> usize {
        self.whole.iter().filter(|&&value| value as f32 as i64 != value).count()
    }

    /// What the column is taken for; decimals follow a comma where `comma` is 1.
    fn decide(&self, name: &str, comma: usize, rule: &Rule) -> Decision {
        let ignored = |reason: &str| Decision::Ignored(reason.to_owned());
        let (values, numbers) = (self.values, self.numbers[comma]);
        if let Some(found) = &self.unread {
            return Decision::Ignored(format!("it is {found}, which is not read"));
        }
        if values == 0 {
            return ignored("nothing is in it");
        }
        let distinct = self.texts.len();
        if numbers * 5 >= values * 4 {
            if numbers == values
                && let Some(ids) = self.ids()
            {
                return Decision::Ignored(format!("its numbers are those of an id: whole, {ids}"));
            }
            if self.empty + self.missing_words() > 0 && numbers < rule.min_rows {
                return Decision::Ignored(format!("fewer than {} rows have a value", rule.min_rows));
            }
            return Decision::Number(match distinct {
                _ if numbers < values => "most values are numbers",
                ..=10 if !self.fractions && values > 20 => {
                    "numbers, few and whole; if they are codes: kind = \"category\" with levels"
                }
                _ => "all values are numbers",
            });
        }
        if let Some(at) = (0..3).find(|&at| self.dates[at] == values) {
            if self.empty + self.missing_words() > 0 && values < rule.min_rows {
                return Decision::Ignored(format!("fewer than {} rows have a value", rule.min_rows));
            }
            let order = DateOrder::ALL.get(at).copied().unwrap_or_default();
            let twofold = at == 1 && self.dates[2] == values;
            return Decision::Date(
                order,
                if twofold {
                    "dates, days since 1970; could also be month-day-year"
                } else {
                    "dates, days since 1970"
                },
            );
        }
        let (measured, first) = self.measured[comma];
        if let Some(why) = first
            && (numbers + measured) * 5 >= values * 4
        {
            let problem = Problem::of_column(name, Trouble::Number(why));
            return Decision::Ignored(format!(
                "found texts with numbers in them, expected {}",
                problem.advice()
            ));
        }
        let all = values + self.missing_words();
        let levels: Vec<Publishable> =
            self.texts.iter().filter_map(|(text, &rows)| rule.admit(text, rows)).collect();
        let kept: u64 = levels.iter().filter_map(|level| self.texts.get(level.as_str())).sum();
        let rare = all - kept.min(all);
        let many = distinct > MAX_LEVELS || (distinct > 50 && distinct as u64 * 2 > values);
        if many || rare * 2 > all || levels.is_empty() {
            let reason = format!(
                "most of its texts are in fewer than {} rows: an id or free text, which stays here; group them to make \
                 it a category",
                rule.min_rows.max(2)
            );
            return Decision::Ignored(reason);
        }
        Decision::Category(levels, rare)
    }

    fn missing_words(&self) -> u64 {
        self.missing.values().sum()
    }
}

fn keep<T>(kept: &mut Vec<T>, value: T) {
    if kept.len() < KEPT {
        kept.push(value);
    }
}

/// Guesses a preparation from a file. `expected` says where the label is, what to leave out and how the file
/// is written; nothing else of it counts. `rule` says which texts it may hold. `None` for a format without a
/// description (arrays, or numbers as they are), and for more columns than can be described.
///
/// # Errors
/// [`DataError`]: the file cannot be read, has no header, or a label that is no class.
pub fn draft(path: &Path, expected: &Expected, rule: &Rule) -> Result<Option<Draft>, DataError> {
    let survey = Survey::read(path, expected)?;
    survey.map(|survey| survey.draft(path, expected, rule)).transpose()
}

/// Columns of a file, none of these, in which ids come back in several rows: rows of one patient, perhaps.
///
/// # Errors
/// As [`draft`].
pub fn repeated_ids(path: &Path, expected: &Expected, but: &[&str]) -> Result<Vec<String>, DataError> {
    let Some(survey) = Survey::read(path, expected)? else { return Ok(Vec::new()) };
    let columns = survey.names.iter().zip(&survey.seen);
    let repeated = |seen: &ColumnTally| {
        let distinct = seen.texts.len() as u64;
        matches!(seen.ids(), Some(Ids::Repeated | Ids::Ordered)) && distinct < seen.values.min(TEXTS as u64)
    };
    let found = columns.filter(|(name, seen)| !but.contains(&name.as_str()) && repeated(seen));
    Ok(found.map(|(name, _)| name.clone()).collect())
}

/// What is seen in all columns of a file.
struct Survey {
    names: Vec<String>,
    seen: Vec<ColumnTally>,
    label: Option<usize>,
    dropped: Vec<usize>,
    /// Rows of another length.
    ragged: u64,
    /// Whether the format has texts for numbers.
    texts: bool,
}

impl Survey {
    fn read(path: &Path, expected: &Expected) -> Result<Option<Self>, DataError> {
        let (source, format) = site::opened(path, expected)?;
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
        // A column without a name, such as an index of pandas or names of rows of R, cannot be described.
        for (at, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if check_class_name(name).is_err() {
                return layout(format!("column {} is called {name:?}, expected a name", at + 1));
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
        let mut seen: Vec<ColumnTally> = (0..names.len()).map(|at| ColumnTally::new(&rows, at)).collect();
        if let Some(at) = label
            && let Some(found) = rows.unread(at)
        {
            return layout(format!("column {:?} is the label, and {found}, which is not read", names[at]));
        }
        let (mut count, mut ragged) = (0, 0);
        while rows.next()? {
            if rows.len() != names.len() {
                ragged += 1;
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
        if count == 0 {
            return Err(DataError::NoRows { file: path.into(), header: true });
        }
        Ok(Some(Self { names, seen, label, dropped, ragged, texts: rows.delimiter.is_some() }))
    }

    fn draft(self, path: &Path, expected: &Expected, rule: &Rule) -> Result<Draft, DataError> {
        let Self { names, seen, label, dropped, ragged, texts } = self;
        let layout = |problem: String| Err(DataError::Layout { file: path.into(), problem });
        let features =
            || seen.iter().enumerate().filter(|(at, _)| Some(*at) != label && !names[*at].is_empty());
        let only = |which: usize| features().map(|(_, seen)| seen.numbers[which]).sum::<u64>();
        let decimal_comma = expected.dialect.decimal_comma;
        let mut out = Draft {
            preparation: TableSchema {
                delimiter: None,
                decimal_comma: decimal_comma.unwrap_or(texts && only(1) > only(0)),
                label: label.map(|at| names[at].clone()),
                ..TableSchema::default()
            },
            classes: Vec::new(),
            notes: Vec::new(),
            said: Vec::new(),
        };
        if ragged > 0 {
            out.said.push(format!(
                "{ragged} rows have another number of columns than the header and were not looked at"
            ));
        }
        for at in (0..names.len()).filter(|at| names[*at].is_empty() && !dropped.contains(at)) {
            out.said.push(format!("column {} has no name and is left out", at + 1));
        }
        for (at, seen) in features() {
            out.describe(&names[at], seen, dropped.contains(&at), rule);
        }
        out.no_level_is_missing();
        if let Some(at) = label {
            let (name, seen) = (&names[at], &seen[at]);
            let (words, texts): (BTreeMap<_, _>, BTreeMap<_, _>) = seen
                .texts
                .iter()
                .map(|(text, rows)| (text.clone(), *rows))
                .partition(|(text, _)| is_no_value(text));
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
            let classes = match rule.admit_classes(&texts, chosen) {
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

impl Draft {
    /// A line for a person whose rows were read by this guess.
    #[must_use]
    pub fn guessed(&self) -> String {
        let (columns, width) = (self.preparation.columns.len(), self.preparation.width());
        format!(
            "{columns} columns guessed to be {width} features; `session new flynn --from` writes the guess down"
        )
    }

    /// The one place where a column of a file becomes one of a session.
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
                // To about a month: a day could be a patient's.
                median(&seen.days[at]).map(|days| (days / 30.0).round() * 30.0)
            }
            Decision::Category(levels, rare) => {
                note =
                    "texts, few and repeated; with an order: kind = \"ordinal\", levels ascending".to_owned();
                if rare > 0 {
                    self.said.push(format!(
                        "{name:?}: {rare} rows have texts of fewer than {} rows, which are not written; these rows count as \
                         missing",
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
            note += "; some are missing: this peer's median takes their place, which tells the others about its rows \
                     (fill_with = \"mean\" in place of fill: the mean of all peers' values); a second number says \
                     that it was missing";
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
                    "{name:?}: {strange} values are no numbers{limits}; `schema check` lists them"
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

    /// A text that stands for a missing value in a column of numbers is no level of another column, unless it
    /// is `none`.
    fn no_level_is_missing(&mut self) {
        let TableSchema { columns, missing, .. } = &mut self.preparation;
        for (column, note) in columns.iter_mut().zip(&mut self.notes) {
            let Kind::Category(levels) = &mut column.kind else { continue };
            let all = levels.len();
            levels.retain(|level| !missing.contains(level) || level.eq_ignore_ascii_case("none"));
            if levels.is_empty() {
                *column = ColumnSpec::new(std::mem::take(&mut column.name), Kind::Ignored);
                *note = "nothing but texts for missing values is in it".into();
            } else if levels.len() < all && column.fill != Fill::NoLevel {
                column.fill = Fill::NoLevel;
                *note += "; some are missing: no level is set for them";
            }
        }
    }

    /// Says which texts look like another one misspelt.
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

/// Rounded to two digits: a constant that others see need not be a value of a row.
fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(0.0)
}
