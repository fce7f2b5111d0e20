//! Reads a table with a [`TableSchema`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rayon::prelude::*;

use super::problems::{Collector, near};
use super::problems::{Problems, Trouble};
use super::rows::{BLANKS, Batch, Row, Rows, trimmed};
use super::value::{days, number, truth};
use super::{ColumnSpec, Fill, Kind, MissingCell, TableSchema};
use crate::labels::Known;
use crate::notices;
use crate::{
    Column, DataError, Dataset, Expected, Format, Group, LabelColumn, Labels, Loaded, MAX_ROWS, MAX_VALUES,
    Source, parquet, quoted, site,
};

/// Allowed delimiters between the columns of a table.
pub const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Differences between one file and the agreed spelling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Delimiter of this file, if it differs.
    pub delimiter: Option<u8>,
    /// Decimal sign of this file, if it differs.
    pub decimal_comma: Option<bool>,
}

/// An unknown level of a category, in rows that were accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// The column.
    pub column: String,
    /// The level.
    pub level: String,
    /// Number of rows with this level.
    pub rows: u64,
}

/// Number of different unseen levels that are kept.
const MOST_UNSEEN: usize = 1_000;

/// Reads a file to its end and collects its problems. Returns the data too if it could be read in full.
///
/// # Errors
/// [`DataError`] if the file cannot be read at all.
pub fn check(path: &Path, expected: &Expected) -> Result<(Option<Loaded>, Problems), DataError> {
    let (source, format) = site::opened(path, expected)?;
    gather(source, expected, format)
}

pub(crate) fn read(source: Source, expected: &Expected, format: Format) -> Result<Loaded, DataError> {
    match gather(source, expected, format)? {
        (Some(loaded), problems) if problems.list.is_empty() => Ok(loaded),
        (_, problems) => Err(DataError::Problems(Box::new(problems))),
    }
}

/// Returns the texts of one column of a table with `count` rows.
pub(crate) fn texts(
    source: Source,
    format: Format,
    column: &Column,
    count: usize,
    expected: &Expected,
) -> Result<Vec<String>, DataError> {
    let file = source.file.clone();
    not_arrays(&file, format)?;
    let mut rows = Rows::open(source, format, expected)?;
    let at = match column {
        Column::Number(number) => number.checked_sub(1).filter(|&at| at < rows.names.len()),
        Column::Name(name) => rows.names.iter().position(|other| other == name),
    };
    let Some(at) = at else {
        let problem = format!("line {} has no column {column:?}", rows.header);
        return Err(DataError::Layout { file, problem });
    };
    let mut out = Vec::new();
    rows.want([at]);
    while out.len() < count && rows.next()? {
        out.push(String::from_utf8_lossy(rows.field(at)).into_owned());
    }
    if out.len() < count {
        let problem = format!("{} rows, expected {count}", out.len());
        return Err(DataError::Layout { file, problem });
    }
    Ok(out)
}

fn not_arrays(file: &Path, format: Format) -> Result<(), DataError> {
    if Rows::takes(format) {
        return Ok(());
    }
    let problem = format!(
        "described columns are found by their names, and this file is {format}: save it as CSV, JSON lines, Parquet, \
         xlsx, or NPZ with the names in `columns`"
    );
    Err(DataError::Layout { file: file.into(), problem })
}

/// Use of a column of the file.
enum Use<'a> {
    /// A described column, its index in the schema, and the place of its first number in a row.
    Column(&'a ColumnSpec, u16, usize),
    Label,
    Group,
}

fn gather(
    source: Source,
    expected: &Expected,
    format: Format,
) -> Result<(Option<Loaded>, Problems), DataError> {
    if format == Format::Parquet {
        let file = source.file.clone();
        return parquet::unless_damaged(&file, || gather_rows(source, expected, format));
    }
    gather_rows(source, expected, format)
}

fn gather_rows(
    source: Source,
    expected: &Expected,
    format: Format,
) -> Result<(Option<Loaded>, Problems), DataError> {
    let file = source.file.clone();
    let layout = |problem: String| Err(DataError::Layout { file: file.clone(), problem });
    let Some(preparation) = expected.preparation else {
        return layout("no columns are described".into());
    };
    not_arrays(&file, format)?;
    if expected.header == Some(false) {
        return layout("described columns are found by their names: a header is needed".into());
    }
    let mut rows = Rows::open(source, format, expected)?;
    let mut problems = Collector::default();
    let label = label(&rows, preparation, expected)?;
    if let Some(group) = preparation.group.as_ref().filter(|group| label.as_ref() == Some(group)) {
        return layout(format!("column {group:?} has the groups of the rows, and cannot be the label too"));
    }
    let (uses, left_out) = find(&rows, preparation, expected, label.as_deref(), &mut problems);
    let known = expected.known();
    if !problems.is_empty() && !rows.names.iter().any(|name| known.contains(name.as_str())) {
        let first = known.iter().take(3).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        if let Some(hint) = wrong_layout(&rows, known.len(), &first) {
            return layout(hint);
        }
        problems.add(rows.header, "", Trouble::OtherNames(first), b"");
        return Ok((None, Problems { left_out, ..problems.finish(file, rows.unit()) }));
    }
    for (at, _) in &uses {
        if let Some(found) = rows.unread(*at) {
            let name = quoted(rows.names[*at].as_bytes());
            return layout(format!(
                "column {name} is {found}, which cannot be read: write it as a number, a date or text"
            ));
        }
    }
    rows.want(uses.iter().map(|(at, _)| *at));
    let width = preparation.width();
    let reader = Reader::new(preparation, &uses, rows.names.clone(), expected);
    let (mut values, mut labels): (Vec<f32>, _) = (Vec::new(), Labels::new(expected));
    let mut unseen: BTreeMap<(String, String), u64> = BTreeMap::new();
    let (mut gaps, mut met, mut groups) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut count = 0;
    let mut batch = Batch::default();
    while rows.fill(&mut batch)? {
        if (count + batch.rows.len() + 1) * width > MAX_VALUES || count + batch.rows.len() > MAX_ROWS {
            let limit = MAX_ROWS.min(MAX_VALUES / width) as u64;
            return Err(DataError::Limit { file, what: "too many rows", found: limit + 1, limit });
        }
        let parts: Vec<Part> = batch.rows.par_chunks(CHUNK).map(|rows| reader.part(&batch, rows)).collect();
        for part in parts {
            values.extend(part.values);
            groups.extend(part.groups);
            gaps.extend(part.gaps.into_iter().map(|gap| MissingCell { row: gap.row + count as u32, ..gap }));
            problems.append(part.problems);
            met.extend(part.met);
            for (key, rows) in part.unseen {
                if unseen.len() < MOST_UNSEEN || unseen.contains_key(&key) {
                    *unseen.entry(key).or_default() += rows;
                }
            }
            for (line, text) in part.labels {
                // A class may have the same name as a text for missing values. Such a text counts as
                // missing only if the classes are known and it is not one of them.
                let token = expected.classes.is_some() && preparation.missing.contains(&text);
                let missing = text.is_empty() || (token && labels.find(&text).is_none());
                if let Err(expected) = labels.push(if missing { "" } else { &text }) {
                    let trouble = if missing { Trouble::NoLabel } else { Trouble::Class(expected) };
                    problems.add(line, reader.label_name(), trouble, text.as_bytes());
                }
            }
            count += part.rows;
        }
    }
    if count == 0 {
        return Err(DataError::NoRows { file, header: true });
    }
    let mut problems = problems.finish(file, rows.unit());
    problems.unseen =
        unseen.into_iter().map(|((column, level), rows)| Unseen { column, level, rows }).collect();
    if !expected.lenient {
        problems.mark_other_codes(preparation, &met);
    }
    if !problems.list.is_empty() {
        let labelled = labels.rows() == count;
        let read = labels.finish(width, values).data;
        problems.notices = sound_notices(&read, labelled, &uses, preparation);
        problems.left_out = left_out;
        return Ok((None, problems));
    }
    let mut loaded = labels.finish(width, values);
    if uses.iter().any(|(_, used)| matches!(used, Use::Group)) {
        loaded.data = loaded.data.with_groups(groups)?;
    }
    loaded.columns = preparation.features();
    loaded.left_out = left_out;
    loaded.gaps = gaps;
    loaded.unseen.clone_from(&problems.unseen);
    Ok((Some(loaded), problems))
}

/// Returns findings about the values without problems: a keyword for programs and a line of text each.
/// Values with problems are NaN in `read`.
fn sound_notices(
    read: &Dataset,
    labelled: bool,
    uses: &[(usize, Use)],
    schema: &TableSchema,
) -> Vec<(&'static str, String)> {
    let column = |(_, used): &(usize, Use)| match used {
        Use::Column(column, number, place) => Some((*number, *place, (*column).clone())),
        Use::Label | Use::Group => None,
    };
    let mut columns: Vec<_> = uses.iter().filter_map(column).collect();
    columns.sort_unstable_by_key(|(number, ..)| *number);
    let notices = |columns: &[(u16, usize, ColumnSpec)]| {
        let places: Vec<_> =
            columns.iter().flat_map(|(_, place, column)| *place..place + column.width()).collect();
        let sound = |row: &usize| places.iter().all(|&at| !read.row(*row)[at].is_nan());
        let rows: Vec<_> = (0..read.rows()).filter(sound).collect();
        let values = rows.iter().flat_map(|&row| places.iter().map(move |&at| read.row(row)[at])).collect();
        let label = |&row: &usize| read.labels().get(row).copied();
        let labels = if labelled { rows.iter().filter_map(label).collect() } else { Vec::new() };
        let columns = columns.iter().map(|(.., column)| column.clone()).collect();
        let schema = TableSchema { columns, ..TableSchema::default() };
        let data = Dataset::new(places.len(), values, labels, read.classes().to_vec());
        data.map_or_else(|_| Vec::new(), |data| notices::of(&data, &schema.features(), Some(&schema)))
    };
    let twins = |notice: &notices::Notice| notice.kind() == "twins";
    let mut found: Vec<_> =
        columns.chunks(1).flat_map(notices).filter(|(_, notice)| !twins(notice)).collect();
    // Rows that look equal may differ in a column that is missing here.
    if columns.len() == schema.columns.iter().filter(|column| column.kind != Kind::Ignored).count() {
        found.extend(notices(&columns).into_iter().filter(|(_, notice)| twins(notice)));
    }
    notices::lines(&found)
}

/// Number of rows that one thread reads at a time. It is below the number of texts that are kept for a
/// problem.
const CHUNK: usize = 256;

/// Turns fields into numbers.
struct Reader<'a> {
    preparation: &'a TableSchema,
    uses: &'a [(usize, Use<'a>)],
    /// The places of the levels of each of these columns.
    levels: Vec<Known>,
    /// True if numbers have a decimal comma.
    comma: bool,
    names: Vec<String>,
    lenient: bool,
    width: usize,
}

/// Contents of some rows.
#[derive(Default)]
struct Part {
    rows: usize,
    values: Vec<f32>,
    /// Lines and texts of the labels, if labels are read.
    labels: Vec<(u64, String)>,
    /// Group of each row, if rows have groups.
    groups: Vec<Group>,
    /// Gaps; their rows are counted from the first row of this part.
    gaps: Vec<MissingCell>,
    unseen: BTreeMap<(String, String), u64>,
    /// Described columns with at least one known level in these rows.
    met: BTreeSet<u16>,
    problems: Collector,
}

impl<'a> Reader<'a> {
    fn new(
        preparation: &'a TableSchema,
        uses: &'a [(usize, Use<'a>)],
        names: Vec<String>,
        expected: &Expected,
    ) -> Self {
        let levels = uses.iter().map(|(_, used)| match used {
            Use::Column(column, ..) => Known::new(column.levels().iter().map(String::as_str)),
            Use::Label | Use::Group => Known::default(),
        });
        let (levels, width) = (levels.collect(), preparation.width());
        Self { preparation, uses, levels, comma: expected.comma(), names, lenient: expected.lenient, width }
    }

    fn label_name(&self) -> &str {
        let label = self.uses.iter().find(|(_, used)| matches!(used, Use::Label));
        label.and_then(|(at, _)| self.names.get(*at)).map_or("", String::as_str)
    }

    fn part(&self, batch: &Batch, rows: &[Row]) -> Part {
        let mut part = Part { rows: rows.len(), ..Part::default() };
        part.values.resize(rows.len() * self.width, 0.0);
        let mut fields = Vec::new();
        for (number, (row, values)) in rows.iter().zip(part.values.chunks_exact_mut(self.width)).enumerate() {
            let text = batch.split(row, &mut fields);
            if fields.len() != self.names.len() {
                let found = fields.len().to_string();
                part.problems.add(row.line, "", Trouble::Fields(self.names.len()), found.as_bytes());
                values.fill(f32::NAN);
                continue;
            }
            let whole = std::str::from_utf8(text).ok();
            for ((at, used), levels) in self.uses.iter().zip(&self.levels) {
                let (start, end) = fields.get(*at).copied().unwrap_or_default();
                let field = whole.and_then(|text| text.get(start..end)).map_or_else(
                    || std::str::from_utf8(trimmed(text.get(start..end).unwrap_or_default())),
                    |field| Ok(field.trim_matches(BLANKS)),
                );
                let name = &self.names[*at];
                let Ok(field) = field else {
                    let field = text.get(start..end).unwrap_or_default();
                    part.problems.add(row.line, name, Trouble::Encoding, field.trim_ascii());
                    if let Use::Column(column, _, place) = used {
                        values[*place..place + column.width()].fill(f32::NAN);
                    }
                    continue;
                };
                let (column, number_of, place) = match used {
                    Use::Label => {
                        part.labels.push((row.line, field.to_owned()));
                        continue;
                    }
                    Use::Group if field.is_empty() || self.preparation.missing.iter().any(|t| t == field) => {
                        part.problems.add(row.line, name, Trouble::NoGroup, field.as_bytes());
                        continue;
                    }
                    Use::Group => {
                        part.groups.push(Group::of(field));
                        continue;
                    }
                    Use::Column(column, number_of, place) => (*column, *number_of, *place),
                };
                let places = &mut values[place..place + column.width()];
                let mut put_text =
                    |text: &str| put(column, text, levels, self.preparation, self.comma, places);
                let mut found = put_text(field);
                if found == Err(Trouble::Level)
                    && (column.others_missing || (self.lenient && matches!(column.kind, Kind::Category(_))))
                {
                    let key = (column.name.clone(), field.chars().take(256).collect());
                    *part.unseen.entry(key).or_default() += 1;
                    found = if column.others_missing { put_text("") } else { Ok(Met::Numbers) };
                }
                match found {
                    Ok(Met::Numbers) => {}
                    Ok(Met::Level) => drop(part.met.insert(number_of)),
                    Ok(Met::MissingCell) => {
                        part.gaps.push(MissingCell { row: number as u32, column: number_of })
                    }
                    Err(trouble) => {
                        places.fill(f32::NAN);
                        part.problems.add(row.line, name, trouble, field.as_bytes());
                    }
                }
            }
        }
        part
    }
}

/// Returns the label's column if labels are read.
fn label(rows: &Rows, preparation: &TableSchema, expected: &Expected) -> Result<Option<String>, DataError> {
    let at = |number: usize| number.checked_sub(1).and_then(|at| rows.names.get(at)).cloned();
    match (&expected.label, &preparation.label) {
        (LabelColumn::None, _) => Ok(None),
        (LabelColumn::Name(name), _) => Ok(Some(name.clone())),
        (LabelColumn::Number(number), _) => match at(*number) {
            Some(name) => Ok(Some(name)),
            None => {
                let problem = format!("the label column is {number}, expected 1 to {}", rows.names.len());
                Err(DataError::Layout { file: rows.source().file.clone(), problem })
            }
        },
        (LabelColumn::Last, Some(name)) => Ok(Some(name.clone())),
        (LabelColumn::Last, None) => Ok(rows.names.last().cloned()),
    }
}

/// Finds the described columns and the label in the header, and the columns that are neither.
fn find<'a>(
    rows: &Rows,
    preparation: &'a TableSchema,
    expected: &Expected,
    label: Option<&str>,
    problems: &mut Collector,
) -> (Vec<(usize, Use<'a>)>, Vec<String>) {
    let described = preparation.columns.iter();
    let mut place = 0;
    let mut wanted: Vec<(&str, Option<Use<'a>>)> = Vec::new();
    for (column, number) in described.zip(0u16..) {
        let start = place;
        place += column.width();
        let used = (column.kind != Kind::Ignored).then_some(Use::Column(column, number, start));
        wanted.push((&column.name, used));
    }
    let (group, agreed) = (preparation.group.as_deref(), preparation.label.as_deref());
    let known: BTreeSet<&str> =
        wanted.iter().map(|(name, _)| *name).chain(label).chain(agreed).chain(group).collect();
    let spare: Vec<String> =
        rows.names.iter().filter(|name| !known.contains(name.as_str())).cloned().collect();
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (at, name) in rows.names.iter().enumerate() {
        places.entry(name).or_insert((at, 0)).1 += 1;
    }
    let mut uses = Vec::new();
    let wanted = wanted.into_iter().filter_map(|(name, used)| Some((name, used?)));
    // A model can predict rows without groups, so the group column is optional then.
    let group = group.filter(|group| !expected.lenient || places.contains_key(group));
    let others = label.map(|name| (name, Use::Label)).into_iter();
    for (name, used) in wanted.chain(others).chain(group.map(|name| (name, Use::Group))) {
        match places.get(name) {
            None => {
                let near = near(name, &spare).cloned();
                problems.add(rows.header, name, Trouble::NoColumn(near), b"");
            }
            Some((_, 2..)) => problems.add(rows.header, name, Trouble::Twice, b""),
            Some(&(at, _)) => uses.push((at, used)),
        }
    }
    let dropped: BTreeSet<&str> = expected
        .drop
        .iter()
        .filter_map(|column| match column {
            crate::Column::Name(name) => Some(name.as_str()),
            crate::Column::Number(number) => {
                number.checked_sub(1).and_then(|at| rows.names.get(at)).map(String::as_str)
            }
        })
        .collect();
    let left_out = rows.names.iter().enumerate().filter(|(_, name)| !known.contains(name.as_str()));
    let left_out = left_out.filter(|(_, name)| !dropped.contains(name.as_str()));
    let shown = |(at, name): (usize, &String)| match name.is_empty() {
        true => format!("column {}, which has no name", at + 1),
        false => name.clone(),
    };
    (uses, left_out.map(shown).collect())
}

/// Returns the reason if a header with none of the described columns cannot belong to such a table.
fn wrong_layout(rows: &Rows, known: usize, first: &str) -> Option<String> {
    let numbers = rows.names.iter().filter(|name| name.parse::<f64>().is_ok()).count();
    if rows.names.len() == 1 && known > 1 {
        return Some(format!(
            "line {}: one column, expected several, such as {first}: set `delimiter` in the map file",
            rows.header
        ));
    }
    (numbers * 2 > rows.names.len()).then(|| {
        format!(
            "line {}: numbers, expected a header with the names of the columns, such as {first}",
            rows.header
        )
    })
}

/// Result of writing a field.
#[derive(Debug, PartialEq, Eq)]
enum Met {
    /// The numbers of the field were written.
    Numbers,
    /// The number of a level was written.
    Level,
    /// The value is missing and is filled later from the sum of all peers.
    MissingCell,
}

/// Writes the numbers of a field.
fn put(
    column: &ColumnSpec,
    text: &str,
    levels: &Known,
    preparation: &TableSchema,
    comma: bool,
    row: &mut [f32],
) -> Result<Met, Trouble> {
    // A text that is a level is a value, although it means a missing value in other columns.
    let token = || preparation.missing.iter().any(|token| token == text) && levels.get(text).is_none();
    if text.is_empty() || token() {
        if column.indicator
            && let Some(last) = row.last_mut()
        {
            *last = 1.0;
        }
        return match &column.fill {
            Fill::Refuse => Err(Trouble::Missing),
            Fill::Number(value) => set(row, 0, *value as f32),
            Fill::Level(level) => put_level(column, levels.get(level), row).map(|_| Met::Numbers),
            Fill::NoLevel => Ok(Met::Numbers),
            Fill::Pooled => Ok(Met::MissingCell),
        };
    }
    match &column.kind {
        Kind::Ignored => Ok(Met::Numbers),
        Kind::Number => {
            let value = match truth(text) {
                Some(value) => f32::from(u8::from(value)),
                None => number(text, comma).map_err(Trouble::Number)?,
            };
            set(row, 0, limited(column, value)?)
        }
        Kind::Date(order) => {
            let value = days(text, *order).ok_or(Trouble::Date(order.name()))?;
            set(row, 0, limited(column, value as f32)?)
        }
        Kind::Category(_) | Kind::Ordinal(_) => put_level(column, levels.get(text), row),
    }
}

fn put_level(column: &ColumnSpec, level: Option<usize>, row: &mut [f32]) -> Result<Met, Trouble> {
    let level = level.ok_or(Trouble::Level)?;
    match column.kind {
        Kind::Ordinal(_) => set(row, 0, level as f32),
        _ => set(row, level, 1.0),
    }
    .map(|_| Met::Level)
}

fn set(row: &mut [f32], at: usize, value: impl Into<f32>) -> Result<Met, Trouble> {
    if let Some(place) = row.get_mut(at) {
        *place = value.into();
    }
    Ok(Met::Numbers)
}

/// Returns the value within its limits, compared as binary64.
fn limited(column: &ColumnSpec, value: f32) -> Result<f32, Trouble> {
    let wide = f64::from(value);
    let (low, high) = (column.min.filter(|&min| wide < min), column.max.filter(|&max| wide > max));
    match low.or(high) {
        None => Ok(value),
        Some(limit) if column.clip => Ok(limit as f32),
        Some(_) => Err(Trouble::Outside(limits(column))),
    }
}

fn limits(column: &ColumnSpec) -> String {
    let shown = |limit: f64| match column.kind {
        Kind::Date(_) => super::value::date(limit).unwrap_or_else(|| limit.to_string()),
        _ => limit.to_string(),
    };
    match (column.min, column.max) {
        (Some(min), Some(max)) => format!("{} to {}", shown(min), shown(max)),
        (Some(min), None) => format!("at least {}", shown(min)),
        (None, Some(max)) => format!("at most {}", shown(max)),
        (None, None) => "any number".into(),
    }
}
