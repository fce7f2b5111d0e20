//! CSV to a data set; the rules are in [`super::load`].
//!
//! A row is one line: a line break inside quotes cannot be part of a number or a class name. So errors give true lines.

use std::io::{BufRead, Read};

use ::csv::{ByteRecord, ReaderBuilder, Trim};

use super::{
    DataError, Dataset, Expected, LabelColumn, Labels, MAX_FEATURES, MAX_ROWS, MAX_VALUES, Source, magnitude_ok, quoted,
};

/// Longest line, in bytes: 2^20 features of 64 characters. It keeps a gzip bomb without line ends from filling memory.
const MAX_LINE: u64 = 1 << 26;

/// The fields of one line, trimmed.
#[derive(Debug, Default)]
struct Record {
    /// From 1; 0 before the first one is read.
    line: u64,
    text: Vec<u8>,
    fields: ByteRecord,
}

impl Record {
    /// Moves on to the next line that is not blank; `false` at the end of the file.
    fn next(&mut self, source: &mut Source) -> Result<bool, DataError> {
        loop {
            self.text.clear();
            match (&mut source.reader).take(MAX_LINE + 1).read_until(b'\n', &mut self.text) {
                Ok(0) => return Ok(false),
                Ok(_) => self.line += 1,
                Err(error) => return Err(source.failed(error)),
            }
            let found = self.text.len() as u64;
            if found > MAX_LINE {
                let what = "bytes in one line";
                return Err(DataError::Limit { file: source.file.clone(), what, found, limit: MAX_LINE });
            }
            let mut text = self.text.as_slice();
            if self.line == 1 {
                text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            }
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            self.fields.clear();
            if !text.contains(&b'"') {
                text.split(|&b| b == b',').for_each(|field| self.fields.push_field(field.trim_ascii()));
                return Ok(true);
            }
            let mut reader = ReaderBuilder::new().has_headers(false).trim(Trim::All).from_reader(text);
            return match reader.read_byte_record(&mut self.fields) {
                Ok(_) => Ok(true),
                Err(error) => Err(source.failed(std::io::Error::other(error))),
            };
        }
    }
}

/// Where the label is in this file, from 0, and how many columns there are.
#[derive(Debug, Clone, Copy)]
struct Layout {
    columns: usize,
    label: Option<usize>,
}

pub(super) fn read(mut source: Source, expected: &Expected) -> Result<Dataset, DataError> {
    let mut record = Record::default();
    if !record.next(&mut source)? {
        return Err(DataError::NoRows { file: source.file.clone(), header: false });
    }
    let layout = layout(&source, &record, expected)?;
    let features = layout.columns - usize::from(layout.label.is_some());
    let header = is_header(&source, &record, layout, expected)?;
    if header && !record.next(&mut source)? {
        return Err(DataError::NoRows { file: source.file.clone(), header: true });
    }

    let (mut values, mut labels) = (Vec::new(), Labels::new(expected.classes));
    loop {
        push_row(&source, &record, layout, &mut values, &mut labels)?;
        if values.len() > MAX_VALUES || values.len() / features > MAX_ROWS {
            let limit = MAX_ROWS.min(MAX_VALUES / features) as u64;
            return Err(DataError::Limit { file: source.file.clone(), what: "too many rows", found: limit + 1, limit });
        }
        if !record.next(&mut source)? {
            break;
        }
    }
    let (classes, labels) = labels.finish();
    Ok(Dataset { features, values, labels, classes })
}

/// Counts columns, finds the label column and checks the number of features, all on the first line.
fn layout(source: &Source, first: &Record, expected: &Expected) -> Result<Layout, DataError> {
    let refuse = |problem: String| Err(DataError::Layout { file: source.file.clone(), problem });
    let columns = first.fields.len();
    let label = match &expected.label {
        LabelColumn::None => None,
        LabelColumn::Last => columns.checked_sub(1),
        &LabelColumn::Number(number) => {
            if number == 0 || number > columns {
                return refuse(format!("label column {number} asked for, expected 1 to {columns}"));
            }
            Some(number - 1)
        }
        LabelColumn::Name(name) => {
            if expected.header == Some(false) {
                return refuse(format!("label column {name:?} asked for by name, expected a header"));
            }
            let mut found = first.fields.iter().enumerate().filter(|(_, field)| *field == name.trim().as_bytes());
            match (found.next(), found.next()) {
                (Some((at, _)), None) => Some(at),
                (None, _) => return refuse(format!("line 1 has no column named {name:?}, expected one")),
                _ => return refuse(format!("line 1 has several columns named {name:?}, expected one")),
            }
        }
    };
    let features = columns - usize::from(label.is_some());
    let labelled = label.is_some();
    if features == 0 {
        return refuse("one column, the label: expected at least one feature beside it".into());
    }
    if features > MAX_FEATURES {
        let (found, limit) = (features as u64, MAX_FEATURES as u64);
        return Err(DataError::Limit { file: source.file.clone(), what: "too many columns", found, limit });
    }
    match expected.features {
        Some(expected) if expected != features => Err(DataError::Features {
            file: source.file.clone(),
            line: first.line,
            found: features,
            expected,
            labelled,
        }),
        _ => Ok(Layout { columns, label }),
    }
}

/// Whether the first line is a header; the rule is in [`super::load`].
fn is_header(source: &Source, first: &Record, layout: Layout, expected: &Expected) -> Result<bool, DataError> {
    if matches!(expected.label, LabelColumn::Name(_)) {
        return Ok(true);
    }
    if let Some(header) = expected.header {
        return Ok(header);
    }
    let features = || first.fields.iter().enumerate().filter(|&(at, _)| layout.label != Some(at));
    let is_number = |field: &[u8]| std::str::from_utf8(field).is_ok_and(|text| text.parse::<f32>().is_ok());
    match features().find(|(_, field)| !is_number(field)) {
        None => Ok(false),
        Some((at, field)) => {
            if features().any(|(_, field)| is_number(field)) {
                return Err(DataError::Field {
                    file: source.file.clone(),
                    line: first.line,
                    column: at + 1,
                    found: quoted(field),
                    expected: "a number as in other columns of this line, or to be told that it is a header (--header)"
                        .into(),
                });
            }
            Ok(true)
        }
    }
}

fn push_row(
    source: &Source,
    record: &Record,
    layout: Layout,
    values: &mut Vec<f32>,
    labels: &mut Labels,
) -> Result<(), DataError> {
    if record.fields.len() != layout.columns {
        return Err(DataError::Ragged {
            file: source.file.clone(),
            line: record.line,
            found: record.fields.len(),
            expected: layout.columns,
        });
    }
    for (at, field) in record.fields.iter().enumerate() {
        let refuse = |expected: String| DataError::Field {
            file: source.file.clone(),
            line: record.line,
            column: at + 1,
            found: quoted(field),
            expected,
        };
        let text = std::str::from_utf8(field).map_err(|_| refuse("UTF-8 text".into()))?;
        if layout.label == Some(at) {
            labels.push(text).map_err(refuse)?;
            continue;
        }
        match text.parse::<f32>() {
            Ok(x) if magnitude_ok(x) => values.push(x),
            Ok(_) => return Err(refuse("a finite number below 2^80".into())),
            Err(_) => return Err(refuse("a number".into())),
        }
    }
    Ok(())
}
