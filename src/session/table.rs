//! The described columns of a session file: `[table]` and `[[table.column]]`.

use std::fmt::{self, Write};
use std::path::Path;

use flyswarm_data::prepare::value::{date, days};
use flyswarm_data::prepare::{ColumnSpec, DateOrder, Fill, Kind, PrepareError, TableSchema};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::TaskSpec;
use super::fields::{comment, field};
use super::file::{self, list, quoted};
use super::rules::{SessionError, check_name};
use crate::tasks::Protection;

/// `[table]` as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTable {
    delimiter: Option<String>,
    #[serde(default)]
    decimal_comma: bool,
    #[serde(default)]
    missing: Vec<String>,
    label: Option<String>,
    group: Option<String>,
    column: Vec<RawColumn>,
}

/// `[[table.column]]` as it is written in the file. Absent fields are `None`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawColumn {
    name: String,
    kind: RawKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill_with: Option<FillWith>,
    #[serde(default, skip_serializing_if = "is_false")]
    indicator: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Value>,
    #[serde(default, skip_serializing_if = "is_false")]
    clip: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    others_missing: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Number,
    Category,
    Ordinal,
    Date,
    Ignored,
}

impl RawColumn {
    /// Converts a column to the form in a file.
    fn of(column: &ColumnSpec) -> Self {
        let ColumnSpec { name, kind, fill, indicator, min, max, clip, others_missing } = column.clone();
        let fill_with = (fill == Fill::Pooled).then(|| FillWith::of(&kind));
        let (kind, levels, order) = match kind {
            Kind::Ignored => (RawKind::Ignored, None, None),
            Kind::Number => (RawKind::Number, None, None),
            Kind::Category(levels) => (RawKind::Category, Some(levels), None),
            Kind::Ordinal(levels) => (RawKind::Ordinal, Some(levels), None),
            Kind::Date(order) => (RawKind::Date, None, Some(order.name().to_owned())),
        };
        let number = |value: f64| match date(value).filter(|_| kind == RawKind::Date) {
            Some(date) => Value::String(date),
            None => Value::Float(value),
        };
        let fill = match fill {
            Fill::Refuse | Fill::Pooled => None,
            Fill::Number(value) => Some(number(value)),
            Fill::Level(level) => Some(Value::String(level)),
            Fill::NoLevel => Some(Value::String(String::new())),
        };
        let (min, max) = (min.map(number), max.map(number));
        Self { name, kind, levels, order, fill, fill_with, indicator, min, max, clip, others_missing }
    }
}

/// `[table]` and the classes of a file that describes columns: a session file, or a part of one.
#[derive(Deserialize)]
struct RawDescription {
    table: Option<RawTable>,
    #[serde(default)]
    data: Table,
}

/// Description of columns in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Description {
    /// Section `[table]`.
    pub(crate) preparation: TableSchema,
    /// Classes (`data.classes`); empty if the file has none.
    pub(crate) classes: Vec<String>,
}

impl Description {
    /// Reads `[table]` and the classes of a session file. All other fields are ignored, and may be missing.
    ///
    /// # Errors
    /// [`SessionError::File`], with any of the other errors as its source.
    pub(crate) fn load(path: &Path) -> Result<Self, SessionError> {
        file::read(path)
            .and_then(|text| Self::parse(&text))
            .map_err(|source| SessionError::File { path: path.into(), source: Box::new(source) })
    }

    fn parse(text: &str) -> Result<Self, SessionError> {
        let raw: RawDescription = toml::from_str(text).map_err(|error| file::syntax(text, &error))?;
        let Some(table) = raw.table else {
            let expected = "columns as `session new flynn --from` describes them";
            return Err(SessionError::value("[table]", "absent", expected));
        };
        let mut preparation = table.resolve()?;
        preparation.normalise();
        check(&preparation)?;
        let classes = match raw.data.get("classes").cloned() {
            None => Vec::new(),
            Some(list) => list
                .try_into()
                .map_err(|_| SessionError::value("data.classes", "no list of texts", "a list of texts"))?,
        };
        Ok(Self { preparation, classes })
    }
}

/// Statistic over all peers' values that replaces a missing value.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FillWith {
    Mean,
    MostFrequent,
}

impl FillWith {
    /// Returns the statistic that can fill a column of this kind.
    fn of(kind: &Kind) -> Self {
        if matches!(kind, Kind::Number | Kind::Date(_)) { Self::Mean } else { Self::MostFrequent }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::MostFrequent => "most-frequent",
        }
    }
}

impl From<PrepareError> for SessionError {
    fn from(PrepareError { what, found, expected }: PrepareError) -> Self {
        Self::value(format!("[table]: {what}"), found, expected)
    }
}

impl RawTable {
    /// Converts the values to their types. [`check`] checks the rules.
    pub(super) fn resolve(self) -> Result<TableSchema, SessionError> {
        let delimiter = match self.delimiter.as_deref() {
            None | Some("auto") => None,
            Some(text) => match text.as_bytes() {
                [byte] => Some(*byte),
                _ => {
                    let expected = r#"",", ";", "|", a tab ("\t") or "auto""#;
                    return Err(SessionError::value("table.delimiter", format!("{text:?}"), expected));
                }
            },
        };
        let columns = self.column.into_iter().map(RawColumn::resolve).collect::<Result<_, _>>()?;
        let Self { decimal_comma, missing, label, group, .. } = self;
        Ok(TableSchema { delimiter, decimal_comma, missing, label, group, columns })
    }
}

impl RawColumn {
    fn resolve(self) -> Result<ColumnSpec, SessionError> {
        let of = |what: &str| format!("{what} of column {:?}", self.name);
        let order = match self.order.as_deref() {
            None => DateOrder::default(),
            Some(_) if self.kind != RawKind::Date => {
                return Err(SessionError::value(of("order"), "given", "absent: only dates have an order"));
            }
            Some(text) => {
                let found = DateOrder::ALL.into_iter().find(|order| order.name() == text);
                let expected = || DateOrder::ALL.map(DateOrder::name).join(", ");
                found.ok_or_else(|| SessionError::value(of("order"), format!("{text:?}"), expected()))?
            }
        };
        let kind = match (self.kind, self.levels) {
            (RawKind::Category, Some(levels)) => Kind::Category(levels),
            (RawKind::Ordinal, Some(levels)) => Kind::Ordinal(levels),
            (RawKind::Category | RawKind::Ordinal, None) => {
                return Err(SessionError::value(of("levels"), "absent", "a list of texts"));
            }
            (_, Some(_)) => {
                return Err(SessionError::value(
                    of("levels"),
                    "given",
                    "absent: only categories and ordinals have levels",
                ));
            }
            (RawKind::Number, None) => Kind::Number,
            (RawKind::Date, None) => Kind::Date(order),
            (RawKind::Ignored, None) => Kind::Ignored,
        };
        let dated = matches!(kind, Kind::Date(_));
        let number = |what: &str, value: Value| match value {
            Value::Integer(number) if !dated => Ok(number as f64),
            Value::Float(number) if !dated => Ok(number),
            Value::String(text) if dated && days(&text, DateOrder::YearMonthDay).is_some() => {
                Ok(days(&text, DateOrder::YearMonthDay).unwrap_or_default().into())
            }
            other => {
                let expected = if dated { "a date as a text, such as \"2026-01-31\"" } else { "a number" };
                Err(SessionError::value(of(what), other, expected))
            }
        };
        if let Some(with) = self.fill_with
            && (self.fill.is_some() || with != FillWith::of(&kind))
        {
            let expected = "\"mean\" of numbers and dates, \"most-frequent\" of categories and ordinals, or absent \
                            if there is a fill";
            return Err(SessionError::value(of("fill_with"), format!("{:?}", with.name()), expected));
        }
        let fill = match self.fill {
            None if self.fill_with.is_some() => Fill::Pooled,
            None => Fill::Refuse,
            Some(Value::String(text)) if !dated && text.is_empty() => Fill::NoLevel,
            Some(Value::String(text)) if !dated => Fill::Level(text),
            Some(value) => Fill::Number(number("fill", value)?),
        };
        let min = self.min.map(|value| number("min", value)).transpose()?;
        let max = self.max.map(|value| number("max", value)).transpose()?;
        let (name, indicator) = (self.name, self.indicator);
        let (clip, others_missing) = (self.clip, self.others_missing);
        Ok(ColumnSpec { name, kind, fill, indicator, min, max, clip, others_missing })
    }
}

/// Lists the first texts, and how many more there are: `f, m and 3 more`.
fn few(texts: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = texts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn kind_word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Ignored => "ignored",
        Kind::Number => "number",
        Kind::Category(_) => "category",
        Kind::Ordinal(_) => "ordinal",
        Kind::Date(_) => "date",
    }
}

/// Describes a column in one line, for people.
pub(crate) fn line(column: &ColumnSpec) -> String {
    let ColumnSpec { name, kind, fill, indicator, min, max, clip, others_missing } = column;
    let mut text = format!("{name:?}: {}", kind_word(kind));
    match kind {
        Kind::Category(levels) | Kind::Ordinal(levels) => text += &format!(" of {}", few(levels)),
        Kind::Date(order) => text += &format!(" ({})", order.name()),
        Kind::Ignored => return text,
        Kind::Number => {}
    }
    let number = |value: f64| match kind {
        Kind::Date(_) => date(value).unwrap_or_else(|| value.to_string()),
        _ => value.to_string(),
    };
    text += &match fill {
        Fill::Refuse => "; missing: refused".to_owned(),
        Fill::Number(value) => format!("; missing: {}", number(*value)),
        Fill::Level(level) => format!("; missing: {level}"),
        Fill::NoLevel => "; missing: no level".to_owned(),
        Fill::Pooled => format!("; missing: {} of all peers", FillWith::of(kind).name()),
    };
    if *indicator {
        text += ", and a feature shows that it was missing";
    }
    if *others_missing {
        text += "; other texts count as missing";
    }
    let clipped = if *clip { ", others become that" } else { "" };
    match (min, max) {
        (Some(min), Some(max)) => text += &format!("; {} to {}{clipped}", number(*min), number(*max)),
        (Some(min), None) => text += &format!("; at least {}{clipped}", number(*min)),
        (None, Some(max)) => text += &format!("; at most {}{clipped}", number(*max)),
        (None, None) => {}
    }
    text
}

/// Returns `[table]` as JSON with the field names of a session file, and the names of the features.
pub(crate) fn json(preparation: &TableSchema) -> serde_json::Value {
    use serde_json::json;
    json!({
        "delimiter": preparation.delimiter.map(|byte| char::from(byte).to_string()),
        "decimal_comma": preparation.decimal_comma,
        "missing": preparation.missing,
        "label": preparation.label,
        "group": preparation.group,
        "column": preparation.columns.iter().map(RawColumn::of).collect::<Vec<_>>(),
        "features": preparation.features(),
    })
}

/// If the file fills missing values from all peers, checks that the session may open the sums for this.
pub(super) fn check_fills(
    preparation: &TableSchema,
    task: &TaskSpec,
    private: bool,
) -> Result<(), SessionError> {
    let Some(column) = preparation.pooled().next() else { return Ok(()) };
    let expected = match task.protections().imputation {
        _ if private => "absent with privacy.epsilon: it needs exact sums".to_owned(),
        Protection::OptOut(why) => format!("absent with the task {task}, which {why}"),
        _ => return Ok(()),
    };
    Err(SessionError::value(format!("[table]: fill_with of column {:?}", column.name), "given", expected))
}

/// Checks every rule. Names, levels and texts for missing values must be printable, because they appear in
/// logs and tables.
pub(super) fn check(preparation: &TableSchema) -> Result<(), SessionError> {
    preparation.check()?;
    preparation.label.iter().try_for_each(|name| check_name("table.label", name))?;
    preparation.group.iter().try_for_each(|name| check_name("table.group", name))?;
    preparation.missing.iter().try_for_each(|text| check_name("a text of table.missing", text))?;
    for column in &preparation.columns {
        check_name("the name of a column of table", &column.name)?;
        let field = format!("a level of column {:?}", column.name);
        column.levels().iter().try_for_each(|level| check_name(&field, level))?;
    }
    Ok(())
}

/// Returns the section as a TOML value.
pub(crate) fn fields(preparation: &TableSchema) -> toml::Value {
    let mut text = String::new();
    let written =
        write_toml(preparation, &[], &mut text).ok().and_then(|()| text.parse::<toml::Table>().ok());
    let read = written.and_then(|mut file| file.remove("table"));
    read.unwrap_or_else(|| unreachable!("BUG: a [table] that no session file could have"))
}

/// Writes `[table]`, with a note for each column that has one.
pub(super) fn write_toml(preparation: &TableSchema, notes: &[String], out: &mut String) -> fmt::Result {
    let TableSchema { delimiter, decimal_comma, missing, label, group, columns } = preparation;
    writeln!(
        out,
        "# How a table becomes rows of numbers. All peers have the same section, and the result keeps it."
    )?;
    writeln!(out, "[table]")?;
    let delimiter = delimiter.map_or("auto".into(), |byte| char::from(byte).to_string());
    let about = "\"auto\" (found from the names in the header), \",\", \";\", \"\\t\" or \"|\".";
    field(about, "delimiter", quoted(&delimiter), out)?;
    let about =
        "true if numbers have a decimal comma; a peer with another kind of file sets this in its map file.";
    field(about, "decimal_comma", decimal_comma, out)?;
    field(
        "Texts that stand for a missing value, in addition to an empty field.",
        "missing",
        list(missing),
        out,
    )?;
    if let Some(label) = label {
        field("The column of the class.", "label", quoted(label), out)?;
    }
    if let Some(group) = group {
        let about = "Rows with the same text in this column, such as those of one patient, are never \
                     split between training and test rows. The column is not a feature, and its texts \
                     stay with each peer.";
        field(about, "group", quoted(group), out)?;
    }
    writeln!(
        out,
        "# Of each column: kind \"number\", \"category\" or \"ordinal\" (with levels), \"date\" or \"ignored\";\n\
         # fill: replaces a missing value, absent: such rows are refused, \"\": no level;\n\
         # fill_with instead of fill: \"mean\" of numbers and dates, \"most-frequent\" of levels, of all peers'\n\
         # values: all peers see these sums (docs/formats.md);\n\
         # indicator: a second feature marks missing values; others_missing: a text that is not a level\n\
         # counts as missing, absent: such rows are refused; min and max: rows outside are refused,\n\
         # with clip = true become the limit; order of a date: \"year-month-day\", \"day-month-year\" or\n\
         # \"month-day-year\"."
    )?;
    for (at, column) in columns.iter().enumerate() {
        writeln!(out)?;
        if let Some(note) = notes.get(at) {
            comment(&format!("Guessed: {}.", note.replace(char::is_control, " ")), out)?;
        }
        let text = toml::to_string(&RawColumn::of(column)).map_err(|_| fmt::Error)?;
        write!(out, "[[table.column]]\n{text}")?;
    }
    writeln!(out)
}
