//! A preparation guessed from one file, for people to look over.

use std::collections::BTreeMap;
use std::path::Path;

use super::problems::near;
use super::rows::Rows;
use super::value::{NoNumber, days, is_no_value, looks_missing, number};
use super::{ColumnSpec, DateOrder, Fill, Kind, MAX_DESCRIBED, MAX_LEVELS, MAX_TOKENS, TableSchema};
use crate::{
    Column, DataError, Expected, Format, LabelColumn, MAX_CLASSES, Source, check_class_name, parquet, site,
};

/// Numbers of a column that its median is taken of.
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
    /// Values like `<0.5`.
    limits: u64,
    /// Whether each number is whole.
    fractions: bool,
    kept: [Vec<f32>; 2],
    days: [Vec<f32>; 3],
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
                }
                Err(NoNumber::Limit) if !comma => self.limits += 1,
                Err(_) => {}
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
}

fn keep(kept: &mut Vec<f32>, value: f32) {
    if kept.len() < KEPT {
        kept.push(value);
    }
}

/// Guesses a preparation from a file. `expected` says where the label is, what to leave out and how the file
/// is written; nothing else of it counts. `None` for a format without a description (arrays, or numbers as
/// they are), and for more columns than can be described.
///
/// # Errors
/// [`DataError`]: the file cannot be read, has no header, or a label that is no class.
pub fn draft(path: &Path, expected: &Expected) -> Result<Option<Draft>, DataError> {
    let (source, format) = site::opened(path, expected)?;
    match format {
        Format::Parquet => parquet::unless_damaged(path, || drafted(source, Format::Parquet, path, expected)),
        format if Rows::takes(format) => drafted(source, format, path, expected),
        _ => Ok(None),
    }
}

fn drafted(
    source: Source,
    format: Format,
    path: &Path,
    expected: &Expected,
) -> Result<Option<Draft>, DataError> {
    let layout = |problem: String| Err(DataError::Layout { file: path.into(), problem });
    let decimal_comma = expected.dialect.decimal_comma;
    let mut rows = Rows::open(source, format, expected)?;
    let names = rows.names.clone();
    if rows.delimiter.is_some()
        && expected.header != Some(true)
        && names.iter().filter(|name| name.parse::<f64>().is_ok()).count() * 2 > names.len()
    {
        let problem = "line 1 has numbers, expected a header with the names of the columns (`header = true` in the map \
                       file if these are names)";
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
    let features = || seen.iter().enumerate().filter(|(at, _)| Some(*at) != label && !names[*at].is_empty());
    let only = |which: usize| features().map(|(_, seen)| seen.numbers[which]).sum::<u64>();
    let comma = decimal_comma.unwrap_or(rows.delimiter.is_some() && only(1) > only(0));
    let mut out = Draft {
        preparation: TableSchema {
            delimiter: None,
            decimal_comma: comma,
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
    for at in (0..names.len()).filter(|at| names[*at].is_empty()) {
        out.said.push(format!("column {} has no name and is left out", at + 1));
    }
    for (at, seen) in features() {
        out.describe(&names[at], seen, dropped.contains(&at));
    }
    out.no_level_is_missing();
    if let Some(at) = label {
        let seen = &seen[at];
        let words = seen.missing.iter().filter(|(text, _)| is_no_value(text));
        let missing = seen.empty + words.map(|(_, rows)| rows).sum::<u64>();
        if missing > 0 && !expected.partly {
            out.said.push(format!("{:?}: {missing} rows have no label: leave them out", names[at]));
        }
        let mut classes: Vec<String> = seen.texts.keys().filter(|text| !is_no_value(text)).cloned().collect();
        if classes.len() > MAX_LEVELS.min(MAX_CLASSES) || (seen.numbers[0] == seen.values && seen.fractions) {
            let problem = format!(
                "column {:?} is the label, and holds a quantity or more than {MAX_LEVELS} texts: expected classes (--label names another column)",
                names[at]
            );
            return layout(problem);
        }
        if classes.iter().all(|class| class.parse::<i64>().is_ok()) {
            classes.sort_by_key(|class| class.parse::<i64>().unwrap_or_default());
        }
        out.alike(&names[at], &classes);
        out.classes = classes;
    }
    Ok(Some(out))
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

    fn describe(&mut self, name: &str, seen: &ColumnTally, dropped: bool) {
        let comma = usize::from(self.preparation.decimal_comma);
        let (kind, note) =
            if dropped { (Kind::Ignored, "left out by --drop".into()) } else { kind(name, seen, comma) };
        let words = seen.missing.values().sum::<u64>();
        let mut column = ColumnSpec::new(name, kind);
        let middle = match &column.kind {
            Kind::Number => median(&seen.kept[comma]).map(two_digits),
            Kind::Date(order) => {
                let at = DateOrder::ALL.iter().position(|other| other == order).unwrap_or(0);
                median(&seen.days[at]).map(f64::round)
            }
            _ => None,
        };
        let mut note = note;
        match &column.kind {
            Kind::Number | Kind::Date(_) if seen.empty + words > 0 => {
                column.fill = Fill::Number(middle.unwrap_or(0.0));
                column.indicator = true;
                note += "; some are missing: this peer's median takes their place, which tells the others about its rows \
                         (fill_with = \"mean\" in place of fill: the mean of all peers' values); a second number says \
                         that it was missing";
                self.said.push(format!("{name:?}: missing in {} rows", seen.empty + words));
                for token in seen.missing.keys() {
                    if self.preparation.missing.len() < MAX_TOKENS
                        && !self.preparation.missing.contains(token)
                    {
                        self.preparation.missing.push(token.clone());
                    }
                }
            }
            Kind::Category(_) if seen.empty > 0 => {
                column.fill = Fill::NoLevel;
                note += "; some are missing: no level is set for them";
                self.said.push(format!("{name:?}: missing in {} rows", seen.empty));
            }
            _ => {}
        }
        let strange = seen.values - seen.numbers[comma];
        if column.kind == Kind::Number && strange > 0 {
            let limits = if seen.limits > 0 { " (such as values below a limit: \"<0.5\")" } else { "" };
            self.said.push(format!(
                "{name:?}: {strange} values are no numbers{limits}; `schema check` lists them"
            ));
        }
        if let Kind::Category(levels) = &column.kind {
            let rare =
                levels.iter().filter(|level| seen.texts.get(*level).is_some_and(|&rows| rows < 3)).count();
            if rare > 0 {
                self.said.push(format!(
                    "{name:?}: {rare} levels are in one or two rows only; the others will see these levels"
                ));
            }
            self.alike(name, &levels.clone());
        }
        if column.kind == Kind::Ignored && !dropped {
            self.said.push(format!("{name:?}: ignored, {note}"));
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
                column.kind = Kind::Ignored;
                column.fill = Fill::Refuse;
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

/// What a column is taken for, and why.
fn kind(name: &str, seen: &ColumnTally, comma: usize) -> (Kind, String) {
    let (values, numbers) = (seen.values, seen.numbers[comma]);
    let texts: Vec<&String> = seen.texts.keys().collect();
    let distinct = texts.len() as u64;
    if let Some(found) = &seen.unread {
        return (Kind::Ignored, format!("it is {found}, which is not read"));
    }
    if values == 0 {
        return (Kind::Ignored, "nothing is in it".into());
    }
    let small = name.to_lowercase();
    let id = ["id", "nr", "no", "number", "key", "uuid", "index"]
        .iter()
        .any(|word| small.split(|c: char| !c.is_alphanumeric()).any(|part| part == *word));
    if numbers == values {
        if id && values >= 10 && (distinct == values || distinct as usize >= TEXTS) && !seen.fractions {
            return (Kind::Ignored, "its name and its values are those of an id".into());
        }
        let note = match distinct {
            ..=10 if !seen.fractions && values > 20 => {
                "numbers, few and whole; if they are codes: kind = \"category\" with levels"
            }
            _ => "all values are numbers",
        };
        return (Kind::Number, note.into());
    }
    if let Some(at) = (0..3).find(|&at| seen.dates[at] == values) {
        let order = DateOrder::ALL.get(at).copied().unwrap_or_default();
        let note = match at {
            1 if seen.dates[2] == values => "dates, days since 1970; could also be month-day-year",
            _ => "dates, days since 1970",
        };
        return (Kind::Date(order), note.into());
    }
    if numbers * 5 >= values * 4 {
        return (Kind::Number, "most values are numbers".into());
    }
    if distinct as usize > MAX_LEVELS || (distinct > 50 && distinct * 2 > values) {
        let note = "too many different texts for a category: an id or free text; group them to make it one";
        return (Kind::Ignored, note.into());
    }
    let levels: Vec<String> =
        texts.into_iter().filter(|text| check_class_name(text).is_ok()).cloned().collect();
    if levels.is_empty() {
        return (Kind::Ignored, "no text in it can be a level".into());
    }
    (
        Kind::Category(levels),
        "texts, few and repeated; with an order: kind = \"ordinal\", levels ascending".into(),
    )
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
