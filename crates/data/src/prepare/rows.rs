//! The rows of a table as texts: CSV with one of four delimiters, JSON lines, or a format with types.

use std::collections::BTreeSet;

use ::csv::{ByteRecord, ReaderBuilder};
use serde_json::Value;

use super::read::DELIMITERS;
use super::value::typed;
use crate::columns::recase;
use crate::source::MAX_LINE;
use crate::{DataError, Expected, Format, Source, parquet};

/// The header, and the rows one after another.
#[derive(Debug)]
pub(crate) struct Rows {
    source: Source,
    /// Reader for a format with types, used instead of `source`.
    typed: Option<Box<parquet::Texts>>,
    /// True for each column whose fields are read.
    wanted: Vec<bool>,
    /// The names of the columns: the first line that is neither blank nor a comment. For JSON lines, the
    /// names in the objects.
    pub(crate) names: Vec<String>,
    /// The line of the header.
    pub(crate) header: u64,
    /// The delimiter of the fields; `None` for JSON lines.
    pub(crate) delimiter: Option<u8>,
    /// The line on which the current row begins, from 1.
    pub(crate) line: u64,
    text: Vec<u8>,
    /// Start and end of each field in `text`.
    fields: Vec<(usize, usize)>,
    record: ByteRecord,
    /// True if the first row is already read: the first object of JSON lines, or a first line that is a
    /// row.
    pending: bool,
    /// True if numbers have a decimal comma, including the numbers that are written here for a format with
    /// types.
    comma: bool,
}

/// Number of bytes in a batch of rows.
const BATCH: usize = 1 << 22;

/// Rows that were read. Most rows of a CSV file are not split into fields yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    text: Vec<u8>,
    fields: Vec<(usize, usize)>,
    pub(super) rows: Vec<Row>,
}

/// A row of a batch.
#[derive(Debug)]
pub(super) struct Row {
    /// Line of the row, from 1.
    pub(super) line: u64,
    text: (usize, usize),
    /// Range of the fields in the batch, or the delimiter if the row is not split yet.
    fields: Result<(usize, usize), u8>,
}

impl Batch {
    /// Returns the text of a row and puts its fields into `fields`.
    pub(super) fn split(&self, row: &Row, fields: &mut Vec<(usize, usize)>) -> &[u8] {
        let text = self.text.get(row.text.0..row.text.1).unwrap_or_default();
        fields.clear();
        match row.fields {
            Ok((start, end)) => fields.extend(self.fields.get(start..end).unwrap_or_default()),
            Err(delimiter) => split_at(text, delimiter, fields),
        }
        text
    }
}

/// White space around a field. Spreadsheets write no-break spaces.
pub(super) const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0c', '\u{a0}'];

/// Returns a field without [`BLANKS`] around it.
pub(crate) fn trimmed(field: &[u8]) -> &[u8] {
    let mut field = field.trim_ascii();
    while let Some(rest) = field.strip_suffix(b"\xc2\xa0") {
        field = rest.trim_ascii_end();
    }
    while let Some(rest) = field.strip_prefix(b"\xc2\xa0") {
        field = rest.trim_ascii_start();
    }
    field
}

/// Finds the start and end of the fields of a line without quotes.
fn split_at(text: &[u8], delimiter: u8, fields: &mut Vec<(usize, usize)>) {
    let mut start = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte == delimiter {
            fields.push((start, at));
            start = at + 1;
        }
    }
    fields.push((start, text.len()));
}

impl Rows {
    /// Returns whether rows of this format can be read as texts.
    pub(crate) fn takes(format: Format) -> bool {
        matches!(format, Format::Csv | Format::Parquet)
    }

    /// Reads the header. Unless a delimiter is given, the one that finds most described columns is used.
    pub(crate) fn open(source: Source, format: Format, expected: &Expected) -> Result<Self, DataError> {
        let known: BTreeSet<&str> = expected.known();
        let mut rows = if format == Format::Parquet {
            let typed = Box::new(parquet::Texts::open(&source, expected.comma())?);
            let (names, empty) = (typed.names(), Source::empty(source.file));
            Self { typed: Some(typed), names, ..Self::of(empty) }
        } else {
            let delimiter = expected.preparation.and_then(|preparation| preparation.delimiter);
            let given = expected.dialect.delimiter.or(delimiter);
            Self::open_text(Self { comma: expected.comma(), ..Self::of(source) }, |line| {
                let named = |delimiter: u8| {
                    let names = fields(line, delimiter);
                    names.iter().filter(|name| known.contains(name.as_str())).count()
                };
                let most = DELIMITERS.into_iter().rev().max_by_key(|&delimiter| named(delimiter));
                let most = most.filter(|&delimiter| named(delimiter) > 0);
                given.or(most).unwrap_or_else(|| likely(line))
            })?
        };
        rows.wanted = vec![true; rows.names.len()];
        recase(&mut rows.names, &known);
        Ok(rows)
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            typed: None,
            wanted: Vec::new(),
            names: Vec::new(),
            header: 0,
            delimiter: None,
            line: 0,
            text: Vec::new(),
            fields: Vec::new(),
            record: ByteRecord::new(),
            pending: false,
            comma: false,
        }
    }

    fn open_text(mut rows: Self, choose: impl Fn(&[u8]) -> u8) -> Result<Self, DataError> {
        rows.source.begin_text()?;
        loop {
            if !rows.take_line()? {
                return Err(DataError::NoRows { file: rows.source.file, header: false });
            }
            if !rows.text.starts_with(b"#") {
                break;
            }
        }
        rows.header = rows.line;
        match rows.text.trim_ascii_start().first() {
            Some(b'{') => {
                rows.pending = true;
                rows.names = rows.object_names()?;
                rows.split_object()?;
            }
            Some(b'[') => {
                return rows
                    .refuse("a JSON array; one object a line is read (jq -c '.[]' makes that)".into());
            }
            _ => {
                rows.delimiter = rows.source.delimiter.or_else(|| Some(choose(&rows.text)));
                rows.split()?;
                let name = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
                rows.names = (0..rows.len()).map(|at| name(rows.field(at))).collect();
            }
        }
        Ok(rows)
    }

    /// Returns the names in the objects of all lines: the names of the first line, then new names of the
    /// others.
    fn object_names(&self) -> Result<Vec<String>, DataError> {
        let mut names: Vec<String> = self.object()?.into_iter().map(|(name, _)| name).collect();
        // If a source can be read only once, only the names of its first line are known.
        let Some(again) = self.source.again()? else { return Ok(names) };
        let mut seen: BTreeSet<String> = names.iter().cloned().collect();
        let mut again = Self::of(again);
        again.source.begin_text()?;
        while again.take_line()? {
            for (name, _) in again.object()? {
                if !seen.contains(&name) {
                    seen.insert(name.clone());
                    names.push(name);
                }
            }
        }
        Ok(names)
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Sets the columns whose fields are read, by their places. By default, all columns are read.
    pub(super) fn want(&mut self, wanted: impl IntoIterator<Item = usize>) {
        self.wanted = vec![false; self.names.len()];
        for at in wanted {
            if let Some(wanted) = self.wanted.get_mut(at) {
                *wanted = true;
            }
        }
    }

    /// Returns the reason if a column cannot be read.
    pub(super) fn unread(&self, at: usize) -> Option<&str> {
        self.typed.as_ref()?.unread(at)
    }

    /// Returns the unit of row numbers in messages: `line` or `row`.
    pub(super) fn unit(&self) -> &'static str {
        if self.typed.is_some() { "row" } else { "line" }
    }

    fn refuse<T>(&self, problem: String) -> Result<T, DataError> {
        Err(DataError::Layout { file: self.source.file.clone(), problem })
    }

    /// Returns the number of fields in the current row.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns a field of the current row without white space around it; empty if the row has no such
    /// field.
    pub(crate) fn field(&self, at: usize) -> &[u8] {
        let bounds = self.fields.get(at).copied().unwrap_or_default();
        trimmed(self.text.get(bounds.0..bounds.1).unwrap_or_default())
    }

    /// Replaces the rows of a batch by the next ones; returns `false` if no rows are left.
    pub(super) fn fill(&mut self, batch: &mut Batch) -> Result<bool, DataError> {
        batch.text.clear();
        batch.fields.clear();
        batch.rows.clear();
        while batch.text.len() < BATCH && self.advance(false)? {
            let start = batch.text.len();
            batch.text.extend(&self.text);
            let fields = match self.delimiter.filter(|_| self.fields.is_empty()) {
                Some(delimiter) => Err(delimiter),
                None => {
                    let start = batch.fields.len();
                    batch.fields.extend(&self.fields);
                    Ok((start, batch.fields.len()))
                }
            };
            batch.rows.push(Row { line: self.line, text: (start, batch.text.len()), fields });
        }
        Ok(!batch.rows.is_empty())
    }

    /// Moves to the next row; returns `false` at the end.
    pub(crate) fn next(&mut self) -> Result<bool, DataError> {
        self.advance(true)
    }

    /// Moves to the next row. Unless `split` is set, a line without quotes is not split into fields.
    fn advance(&mut self, split: bool) -> Result<bool, DataError> {
        if let Some(typed) = &mut self.typed {
            self.text.clear();
            self.fields.clear();
            let line = typed.next(&self.wanted, &mut self.text, &mut self.fields)?;
            self.line = line.unwrap_or(self.line);
            return Ok(line.is_some());
        }
        if std::mem::take(&mut self.pending) {
            return Ok(true);
        }
        loop {
            if !self.take_line()? {
                return Ok(false);
            }
            if self.delimiter.is_none() {
                self.split_object()?;
                return Ok(true);
            }
            if !split && !self.text.starts_with(b"#") && !self.text.contains(&b'"') {
                self.fields.clear();
                return Ok(true);
            }
            self.split()?;
            // This is a comment, unless it is a row whose first field begins with `#`.
            if !self.text.starts_with(b"#") || (self.len() == self.names.len() && self.len() > 1) {
                return Ok(true);
            }
        }
    }

    /// Reads the next line that is not blank.
    fn take_line(&mut self) -> Result<bool, DataError> {
        let line = self.source.next_filled(&mut self.text)?;
        self.line = line.unwrap_or(self.line);
        Ok(line.is_some())
    }

    /// Finds the fields. A line break inside quotes belongs to its field.
    fn split(&mut self) -> Result<(), DataError> {
        let delimiter = self.delimiter.unwrap_or(b',');
        self.fields.clear();
        if !self.text.contains(&b'"') {
            split_at(&self.text, delimiter, &mut self.fields);
            return Ok(());
        }
        while in_quotes(&self.text, delimiter) {
            self.text.push(b'\n');
            if self.source.next_line(&mut self.text, MAX_LINE)?.is_none() {
                let problem = format!("line {}: a quote (\") is opened and not closed", self.line);
                return self.refuse(problem);
            }
        }
        let mut reader =
            ReaderBuilder::new().has_headers(false).delimiter(delimiter).from_reader(&self.text[..]);
        self.record.clear();
        if let Err(error) = reader.read_byte_record(&mut self.record) {
            return Err(self.source.failed(std::io::Error::other(error)));
        }
        self.text.clear();
        for field in &self.record {
            let start = self.text.len();
            self.text.extend(field);
            self.fields.push((start, self.text.len()));
        }
        Ok(())
    }

    /// Parses the object in the current line.
    fn object(&self) -> Result<serde_json::Map<String, Value>, DataError> {
        match serde_json::from_slice(&self.text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => self.refuse(format!("line {}: no JSON object, expected one in each line", self.line)),
            Err(error) => self.refuse(format!("line {}: not JSON: {error}", self.line)),
        }
    }

    /// Finds the values in the order of the names. Null and absent values are missing.
    fn split_object(&mut self) -> Result<(), DataError> {
        let object = self.object()?;
        self.text.clear();
        self.fields.clear();
        for name in &self.names {
            let start = self.text.len();
            match object.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => self.text.extend(text.as_bytes()),
                Some(&Value::Bool(value)) => typed::truth(&mut self.text, value),
                Some(Value::Number(value)) => typed::number(&mut self.text, value, self.comma),
                Some(other) => typed::plain(&mut self.text, other),
            }
            self.fields.push((start, self.text.len()));
        }
        if let Some((name, _)) = object.iter().find(|(name, _)| !self.names.contains(name)) {
            let problem = format!(
                "line {}: {name:?} is not in the first line's object; save the rows in a file, because then the names of all lines are read first",
                self.line
            );
            return self.refuse(problem);
        }
        Ok(())
    }
}

/// Returns whether a line ends inside quotes. Quotes open only at the start of a field.
fn in_quotes(text: &[u8], delimiter: u8) -> bool {
    let (mut inside, mut start) = (false, true);
    let mut bytes = text.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if inside {
            if byte == b'"' && bytes.next_if_eq(&&b'"').is_none() {
                inside = false;
            }
        } else {
            inside = start && byte == b'"';
            start = byte == delimiter;
        }
    }
    inside
}

/// Splits a first line with this delimiter.
pub(crate) fn fields(line: &[u8], delimiter: u8) -> Vec<String> {
    let mut reader = ReaderBuilder::new().has_headers(false).delimiter(delimiter).from_reader(line);
    let mut record = ByteRecord::new();
    let _ = reader.read_byte_record(&mut record);
    record.iter().map(|field| String::from_utf8_lossy(trimmed(field)).into_owned()).collect()
}

/// Returns the most frequent delimiter of a first line; a comma if the line has none.
pub(crate) fn likely(line: &[u8]) -> u8 {
    let count = |delimiter: &u8| fields(line, *delimiter).len();
    // `max_by_key` takes the last in a tie, so the order is reversed.
    DELIMITERS.into_iter().rev().max_by_key(count).unwrap_or(b',')
}
