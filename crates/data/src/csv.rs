//! Reads CSV into a data set; [`super::Format::Csv`] has the rules.
//!
//! A row is one line, because a number or a class name cannot contain a line break inside quotes. So the
//! line numbers in errors are right.

use std::path::Path;

use ::csv::{ByteRecord, ReaderBuilder, Trim};
use rayon::prelude::*;

use super::columns::{Aside, Columns, Header, Role, advice};
use super::prepare::rows::{likely, trimmed};
use super::prepare::value::{NoNumber, looks_missing, number, truth};
use super::{
    Column, DataError, Expected, LabelColumn, Labels, Loaded, MAX_ROWS, MAX_VALUES, Source, magnitude_ok,
    quoted,
};

/// The fields of one line, trimmed.
#[derive(Debug)]
struct Record {
    delimiter: u8,
    line: u64,
    text: Vec<u8>,
    fields: ByteRecord,
}

impl Record {
    fn new(source: &mut Source, delimiter: Option<u8>) -> Result<Self, DataError> {
        source.begin_text()?;
        let delimiter = source.delimiter.or(delimiter).unwrap_or(b',');
        Ok(Self { delimiter, line: 0, text: Vec::new(), fields: ByteRecord::new() })
    }

    /// Reads the next line that is not blank; returns `false` at the end of the file.
    fn next(&mut self, source: &mut Source) -> Result<bool, DataError> {
        let Some(line) = source.next_filled(&mut self.text)? else {
            self.fields.clear();
            return Ok(false);
        };
        self.line = line;
        split(&self.text, self.delimiter, &mut self.fields);
        Ok(true)
    }
}

/// Splits a line into its fields, trimmed.
fn split(text: &[u8], delimiter: u8, fields: &mut ByteRecord) {
    fields.clear();
    if !text.contains(&b'"') {
        return text.split(|&b| b == delimiter).for_each(|field| fields.push_field(trimmed(field)));
    }
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).delimiter(delimiter).trim(Trim::All);
    // Reading from memory cannot fail. A record without fields has too few fields, so it is refused later.
    let _ = builder.from_reader(text).read_byte_record(fields);
}

pub(super) fn read(mut source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let mut record = Record::new(&mut source, expected.dialect.delimiter)?;
    if !record.next(&mut source)? {
        return Err(DataError::NoRows { file: source.file.clone(), header: false });
    }
    let first = record.fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
    let mut found = Header {
        file: &source.file,
        place: "line 1",
        line: record.line,
        count: record.fields.len(),
        names: Some(first),
    };
    if expected.header == Some(false)
        && let Some(name) = name_asked_for(expected)
    {
        let problem = format!("{name} is given by name, but the file has no header");
        return Err(DataError::Layout { file: source.file.clone(), problem });
    }
    if source.delimiter.is_none() {
        other_delimiter(&found)?;
    }
    let aside = found.aside(&expected.label, expected.drop)?;
    let header = is_header(&found, &record, &aside, expected)?;
    if !header {
        found.names = None;
    }
    let columns = found.columns(&aside, expected)?;
    let header_names: Vec<String> = if header { texts(&record) } else { Vec::new() };
    if header && !record.next(&mut source)? {
        return Err(DataError::NoRows { file: source.file.clone(), header: true });
    }

    let (file, delimiter) = (source.file.clone(), record.delimiter);
    let reader = Reader { file: &file, delimiter, expected, columns: &columns, names: &header_names };
    let (mut values, mut labels) = (Vec::new(), Labels::new(expected));
    let mut batch = vec![Row::default(); (BATCH / columns.roles.len().max(1)).clamp(1, BATCH / CHUNK)];
    // The first row is already in the record.
    let mut count = 1;
    batch[0].line = record.line;
    batch[0].fields = Some(std::mem::take(&mut record.fields));
    let failed = loop {
        if count == batch.len() {
            reader.push(&batch, &mut values, &mut labels)?;
            count = 0;
        }
        let row = &mut batch[count];
        match source.next_filled(&mut row.text) {
            Ok(Some(line)) => {
                (row.line, row.fields) = (line, None);
                count += 1;
            }
            Ok(None) => break None,
            // Errors in earlier rows come first.
            Err(error) => break Some(error),
        }
    };
    reader.push(&batch[..count], &mut values, &mut labels)?;
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(labels.finish(columns.features, values).named(columns))
}

/// Number of fields that are read before their numbers are parsed.
const BATCH: usize = 1 << 16;
/// Rows that one thread parses at a time.
const CHUNK: usize = 64;

/// A line.
#[derive(Clone, Debug, Default)]
struct Row {
    line: u64,
    text: Vec<u8>,
    /// Fields of the line, if they are already split.
    fields: Option<ByteRecord>,
}

/// The fields of a line.
struct Fields<'a> {
    line: u64,
    fields: &'a ByteRecord,
}

/// Turns rows into numbers and labels.
struct Reader<'a> {
    file: &'a Path,
    delimiter: u8,
    expected: &'a Expected<'a>,
    columns: &'a Columns,
    /// The header; empty if the file has no header.
    names: &'a [String],
}

/// Error in a row, and the index of the field at fault; `None` if the row itself is at fault.
type Wrong = (Option<usize>, DataError);

impl Reader<'_> {
    /// Parses the numbers on all threads, then adds the labels in the order of the rows. Returns the error
    /// that comes first in the file.
    fn push(&self, rows: &[Row], values: &mut Vec<f32>, labels: &mut Labels) -> Result<(), DataError> {
        let features = self.columns.features;
        let start = values.len();
        if start + rows.len() * features > MAX_VALUES || start / features + rows.len() > MAX_ROWS {
            let limit = MAX_ROWS.min(MAX_VALUES / features) as u64;
            let (file, what) = (self.file.to_owned(), "too many rows");
            return Err(DataError::Limit { file, what, found: limit + 1, limit });
        }
        values.resize(start + rows.len() * features, 0.0);
        let numbers = values[start..].par_chunks_mut(features);
        let label = self.columns.roles.iter().position(|role| matches!(role, Role::Label));
        let read = rows.par_iter().zip(numbers).with_min_len(CHUNK);
        let read = read.map_init(ByteRecord::new, |split, (row, numbers)| {
            let fields = match &row.fields {
                Some(fields) => fields,
                None => {
                    self::split(&row.text, self.delimiter, split);
                    &*split
                }
            };
            let found = Fields { line: row.line, fields };
            let wrong = self.numbers(&found, numbers).err();
            let before = |label: usize| wrong.as_ref().is_none_or(|(place, _)| *place > Some(label));
            let label = label.filter(|&label| before(label));
            (label.map(|at| self.text(&found, at).map(str::to_owned)), wrong)
        });
        let read: Vec<_> = read.collect();
        for (row, (text, wrong)) in rows.iter().zip(read) {
            if let (Some(text), Some(at)) = (text, label) {
                let text = text?;
                labels.push(&text).map_err(|mut expected| {
                    let (file, found) = (self.file.to_owned(), quoted(text.as_bytes()));
                    if row.fields.is_some() && self.names.is_empty() && self.expected.header.is_none() {
                        expected +=
                            "; if this line has the names of the columns: `header = true` in the map file";
                    }
                    DataError::Field { file, line: row.line, column: at + 1, found, expected }
                })?;
            }
            if let Some((_, error)) = wrong {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Parses the features of a row and checks their limits.
    fn numbers(&self, row: &Fields<'_>, numbers: &mut [f32]) -> Result<(), Wrong> {
        let (roles, comma) = (&self.columns.roles, self.expected.dialect.decimal_comma == Some(true));
        if row.fields.len() != roles.len() {
            let (file, line, found, expected) =
                (self.file.to_owned(), row.line, row.fields.len(), roles.len());
            return Err((None, DataError::Ragged { file, line, found, expected }));
        }
        for (at, (field, role)) in row.fields.iter().zip(roles).enumerate() {
            let Role::Feature(place) = *role else { continue };
            let text = self.text(row, at).map_err(|error| (Some(at), error))?;
            numbers[place] = value(text, comma)
                .map_err(|why| (Some(at), self.refused(row, at, hint(why, self.names.get(at), field))))?;
        }
        let Some((place, limit)) = self.expected.outside(numbers) else { return Ok(()) };
        let at = roles.iter().position(|role| matches!(role, Role::Feature(at) if *at == place)).unwrap_or(0);
        let name = self.expected.columns.get(place).map_or(String::new(), |name| format!(", {name}"));
        Err((Some(usize::MAX), self.refused(row, at, format!("{limit}{name}"))))
    }

    fn text<'a>(&self, row: &Fields<'a>, at: usize) -> Result<&'a str, DataError> {
        let field = row.fields.get(at).unwrap_or_default();
        std::str::from_utf8(field).map_err(|_| self.refused(row, at, "UTF-8 text".into()))
    }

    fn refused(&self, row: &Fields<'_>, at: usize, expected: String) -> DataError {
        let found = quoted(row.fields.get(at).unwrap_or_default());
        DataError::Field { file: self.file.to_owned(), line: row.line, column: at + 1, found, expected }
    }
}

/// See [`super::column_texts`]. The first line is a header if the file has one more line than `rows`.
pub(super) fn texts_of(
    mut source: Source,
    column: &Column,
    rows: usize,
    delimiter: Option<u8>,
) -> Result<Vec<String>, DataError> {
    let mut record = Record::new(&mut source, delimiter)?;
    let mut out: Vec<String> = Vec::new();
    let mut place = None;
    while record.next(&mut source)? {
        let fields = &record.fields;
        let at = *place.get_or_insert_with(|| match column {
            Column::Number(number) => number.checked_sub(1).unwrap_or(usize::MAX),
            Column::Name(name) => {
                fields.iter().position(|field| field == name.as_bytes()).unwrap_or(usize::MAX)
            }
        });
        let Some(field) = fields.get(at) else {
            let problem = format!("line {} has no column {column:?}", record.line);
            return Err(DataError::Layout { file: source.file.clone(), problem });
        };
        out.push(String::from_utf8_lossy(field).into_owned());
    }
    match out.len().checked_sub(rows) {
        Some(header @ (0 | 1)) => Ok(out.split_off(header)),
        _ => {
            let problem = format!("{} lines with rows, expected {rows}", out.len());
            Err(DataError::Layout { file: source.file.clone(), problem })
        }
    }
}

/// Refuses JSON. Also refuses a file with one column if a delimiter other than the comma gives several.
fn other_delimiter(found: &Header) -> Result<(), DataError> {
    let Some([line]) = found.names.as_deref() else { return Ok(()) };
    let delimiter = likely(line.as_bytes());
    let count = line.matches(char::from(delimiter)).count() + 1;
    let refuse = |problem: String| Err(DataError::Layout { file: found.file.into(), problem });
    if line.starts_with(['{', '[']) {
        return refuse("JSON: read only if the session describes the columns (`session new flynn --from`), one object a line".into());
    }
    if delimiter == b',' || count < 2 {
        return Ok(());
    }
    let shown = if delimiter == b'\t' { "tab".to_owned() } else { format!("'{}'", char::from(delimiter)) };
    refuse(format!(
        "line 1 has one column; if {shown} separates {count} columns, set delimiter = {shown} in the map file"
    ))
}

fn texts(record: &Record) -> Vec<String> {
    record.fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
}

/// Returns the first column that the caller asked for by name, if there is one.
fn name_asked_for(expected: &Expected) -> Option<String> {
    if let LabelColumn::Name(name) = &expected.label {
        return Some(format!("label column {name:?}"));
    }
    expected.drop.iter().find_map(|column| match column {
        Column::Name(name) => Some(format!("column {name:?}")),
        Column::Number(_) => None,
    })
}

/// Returns whether the first line is a header; [`super::Format::Csv`] has the rule.
fn is_header(found: &Header, first: &Record, aside: &Aside, expected: &Expected) -> Result<bool, DataError> {
    if name_asked_for(expected).is_some() {
        return Ok(true);
    }
    if let Some(header) = expected.header {
        return Ok(header);
    }
    let features = || first.fields.iter().enumerate().filter(|&(at, _)| !aside.contains(at));
    if features().any(|(_, field)| expected.columns.iter().any(|name| name.as_bytes() == field)) {
        return Ok(true);
    }
    let text = |field| std::str::from_utf8(field).unwrap_or_default();
    let is_number = |field| text(field).parse::<f32>().is_ok() || truth(text(field)).is_some();
    let ask = |at: usize, field: &[u8], expected: &str| {
        Err(DataError::Field {
            file: found.file.into(),
            line: found.line,
            column: at + 1,
            found: quoted(field),
            expected: format!("{expected} (`header` in the map file)"),
        })
    };
    let Some((at, field)) = features().find(|(_, field)| !is_number(field)) else {
        // A data frame without column names is written with the names 0, 1, 2 and so on.
        let counts = |from: usize| {
            features().count() > 2
                && features().zip(from..).all(|((_, field), n)| text(field) == n.to_string())
        };
        if counts(0) || counts(1) {
            found.check_count(aside, expected)?;
            let problem = format!(
                "line {}: 0, 1, 2 and so on may be column names or a row: set `header = true` or `false` in \
                 the map file",
                found.line
            );
            return Err(DataError::Layout { file: found.file.into(), problem });
        }
        return Ok(false);
    };
    if features().any(|(_, field)| is_number(field)) {
        // If the number of features is wrong, that error explains the problem better.
        found.check_count(aside, expected)?;
        return ask(
            at,
            field,
            "a number as in other columns of this line, or a header (then `header = true`)",
        );
    }
    // A first row with only missing values is not a header.
    Ok(!features().all(|(_, field)| field.is_empty() || looks_missing(text(field))))
}

/// Parses a plain number, with a decimal comma if `comma` is set.
pub(super) fn value(text: &str, comma: bool) -> Result<f32, NoNumber> {
    if let Some(value) = truth(text) {
        return Ok(f32::from(u8::from(value)));
    }
    match text.parse::<f32>() {
        Ok(x) if !comma && magnitude_ok(x) => Ok(x),
        Ok(_) if !comma => Err(NoNumber::Large),
        _ if comma => number(text, true),
        _ => match number(text, false) {
            // Thousands separators are accepted only in described columns.
            Ok(_) => Err(NoNumber::Ambiguous),
            Err(why) => Err(why),
        },
    }
}

/// Returns the expected text for a field that is not a number, and what to do.
fn hint(why: NoNumber, name: Option<&String>, field: &[u8]) -> String {
    let described = "describe the columns (`session new flynn --from`)";
    match why {
        NoNumber::Large => "a finite number below 2^80".into(),
        NoNumber::OtherDecimal => {
            "a number; a decimal comma is read with `decimal_comma = true` in the map file".into()
        }
        NoNumber::Ambiguous => "a number without a thousands separator".into(),
        NoNumber::Limit => "a number; agree on a number to write for values below or above a limit".into(),
        NoNumber::Percent | NoNumber::Unit => "a number without a unit".into(),
        NoNumber::Minus => "a number; write a minus as -, without brackets".into(),
        NoNumber::Date => format!("a number; for dates {described}"),
        NoNumber::Missing => format!("a number; for missing values {described}"),
        NoNumber::Text if field.is_empty() && name.is_some() => {
            format!("a number; for missing values {described}")
        }
        NoNumber::Text => name.filter(|_| !field.is_empty()).map_or("a number".into(), |name| advice(name)),
    }
}
