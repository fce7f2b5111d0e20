//! Reads the rows of a Parquet file as texts, some thousands at a time.

use std::fs::File;
use std::path::PathBuf;

use ::parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::FileMetaData;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;
use arrow_schema::{DataType as ArrowType, Schema};
use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{BATCH, INDEX, Kind, damaged, kind, not_zipped};
use crate::prepare::value::{date, typed};
use crate::{DataError, Source, quoted};

/// Text form of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    Plain(Kind),
    /// Days since 1970-01-01.
    Days,
    /// Moments since 1970-01-01: the number of units in a second, and the time zone that decides the day.
    Moments(i64, Option<TimeZone>),
}

impl Written {
    /// Returns how a column is read, or the reason why it cannot be read. `arrow` has the time zones of the
    /// columns.
    fn of(column: &ColumnDescriptor, arrow: Option<&Schema>) -> Result<Self, String> {
        let flat = column.max_rep_level() == 0 && column.path().parts().len() == 1;
        if flat && column.path().string().starts_with(INDEX) {
            return Err("an index of pandas".into());
        }
        let dated = match (column.logical_type_ref(), column.converted_type(), column.physical_type()) {
            (Some(LogicalType::Date), _, Type::INT32) | (None, ConvertedType::DATE, Type::INT32) => {
                Some(Self::Days)
            }
            (Some(LogicalType::Timestamp(moment)), _, Type::INT64) => {
                // The day that people see, and that a CSV file has, depends on the time zone. A moment in UTC
                // may be on another day.
                let zone = moment.is_adjusted_to_u_t_c.then(|| zone(column.name(), arrow)).transpose()?;
                let units = match moment.unit {
                    TimeUnit::MILLIS => 1_000,
                    TimeUnit::MICROS => 1_000_000,
                    TimeUnit::NANOS => 1_000_000_000,
                };
                Some(Self::Moments(units, zone))
            }
            (None, ConvertedType::TIMESTAMP_MILLIS, Type::INT64) => Some(Self::Moments(1_000, None)),
            (None, ConvertedType::TIMESTAMP_MICROS, Type::INT64) => Some(Self::Moments(1_000_000, None)),
            _ => None,
        };
        match dated.filter(|_| flat) {
            Some(dated) => Ok(dated),
            None => kind(column).map(Self::Plain).map_err(|found| format!("of type {found}")),
        }
    }
}

/// Returns the Arrow schema that pandas and polars write into the file.
fn arrow(file: &FileMetaData) -> Option<Schema> {
    let entry = file.key_value_metadata()?.iter().find(|entry| entry.key == "ARROW:schema")?;
    let bytes = BASE64_STANDARD.decode(entry.value.as_ref()?).ok()?;
    arrow_ipc::convert::try_schema_from_ipc_buffer(&bytes).ok()
}

/// Returns the time zone of a column of moments in UTC. If the time zone is unknown, the error describes the
/// column.
fn zone(name: &str, arrow: Option<&Schema>) -> Result<TimeZone, String> {
    let field = arrow.and_then(|schema| schema.field_with_name(name).ok());
    let Some(ArrowType::Timestamp(_, Some(zone))) = field.map(|field| field.data_type()) else {
        return Err("a moment in UTC (its day depends on the time zone)".into());
    };
    DateTimeParser::new()
        .parse_time_zone_with(&TimeZoneDatabase::bundled(), zone.as_bytes())
        .map_err(|_| format!("a moment in the unknown time zone {}", quoted(zone.as_bytes())))
}

/// Returns the day of a moment, in days since 1970-01-01.
fn day(seconds: i64, zone: Option<&TimeZone>) -> i64 {
    let moment = Timestamp::from_second(seconds).ok();
    let offset = zone.zip(moment).map_or(0, |(zone, moment)| zone.to_offset(moment).seconds());
    (seconds + i64::from(offset)).div_euclid(86_400)
}

/// Fields of a column, in the rows that were read last.
#[derive(Debug, Default)]
struct Fields {
    text: Vec<u8>,
    /// End of each field.
    ends: Vec<usize>,
}

impl Fields {
    fn field(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(row).copied().unwrap_or(start);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Reads the next values of a column. A null becomes an empty field. Returns the number of rows.
    fn fill<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        write: impl Fn(&T::T, &mut Vec<u8>),
    ) -> Result<usize, ParquetError> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let (rows, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut values)?;
        let mut values = values.iter();
        for row in 0..rows {
            // A column that cannot have missing values has no definition levels.
            let there = levels.get(row).is_none_or(|&level| level > 0);
            if let Some(value) = values.next_if_some(there) {
                write(value, &mut self.text);
            }
            self.ends.push(self.text.len());
        }
        Ok(rows)
    }

    fn read(
        &mut self,
        written: &Written,
        comma: bool,
        reader: &mut ColumnReader,
    ) -> Result<usize, ParquetError> {
        self.text.clear();
        self.ends.clear();
        match (written, reader) {
            (Written::Plain(Kind::Bool), ColumnReader::BoolColumnReader(reader)) => {
                self.fill(reader, |&x, out| typed::truth(out, x))
            }
            (Written::Plain(Kind::Int32), ColumnReader::Int32ColumnReader(reader)) => {
                self.fill(reader, |x, out| typed::plain(out, x))
            }
            (Written::Plain(Kind::Uint32), ColumnReader::Int32ColumnReader(reader)) => {
                self.fill(reader, |x, out| typed::plain(out, x.cast_unsigned()))
            }
            (Written::Plain(Kind::Int64), ColumnReader::Int64ColumnReader(reader)) => {
                self.fill(reader, |x, out| typed::plain(out, x))
            }
            (Written::Plain(Kind::Uint64), ColumnReader::Int64ColumnReader(reader)) => {
                self.fill(reader, |x, out| typed::plain(out, x.cast_unsigned()))
            }
            (Written::Plain(Kind::Float), ColumnReader::FloatColumnReader(reader)) => {
                self.fill(reader, |&x, out| typed::float(out, x, comma))
            }
            (Written::Plain(Kind::Double), ColumnReader::DoubleColumnReader(reader)) => {
                self.fill(reader, |&x, out| typed::float(out, x, comma))
            }
            (Written::Plain(Kind::Text), ColumnReader::ByteArrayColumnReader(reader)) => {
                self.fill(reader, |x, out| out.extend(x.data()))
            }
            (Written::Days, ColumnReader::Int32ColumnReader(reader)) => {
                self.fill(reader, |&days, out| put_date(out, days.into()))
            }
            (Written::Moments(units, zone), ColumnReader::Int64ColumnReader(reader)) => {
                self.fill(reader, |&moment, out| put_date(out, day(moment.div_euclid(*units), zone.as_ref())))
            }
            _ => Err(ParquetError::General("a column of another type than its schema".into())),
        }
    }
}

/// An iterator whose next item is taken only if it is asked for.
trait NextIf: Iterator {
    fn next_if_some(&mut self, asked: bool) -> Option<Self::Item> {
        if asked { self.next() } else { None }
    }
}

impl<T: Iterator> NextIf for T {}

/// Writes a date as year-month-day. Outside the years 0 to 9999 it writes the number of days, which is not a
/// date.
fn put_date(out: &mut Vec<u8>, days: i64) {
    match date(days as f64) {
        Some(text) => out.extend(text.as_bytes()),
        None => typed::plain(out, days),
    }
}

/// A Parquet file, read as rows of texts.
pub(crate) struct Texts {
    file: PathBuf,
    reader: SerializedFileReader<File>,
    names: Vec<String>,
    written: Vec<Result<Written, String>>,
    /// Next row group, and the columns of the current one.
    group: usize,
    columns: Vec<Option<ColumnReader>>,
    fields: Vec<Fields>,
    /// Next row among the `count` rows that were read last.
    at: usize,
    count: usize,
    rows: u64,
    /// True if decimals are written with a comma.
    comma: bool,
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Texts({}, row {})", self.file.display(), self.rows)
    }
}

impl Texts {
    /// Reads the schema from the file of `source`. The contents of `source` are not used.
    pub(crate) fn open(source: &Source, comma: bool) -> Result<Self, DataError> {
        not_zipped(source)?;
        let file = source.file.clone();
        let opened = File::open(&file).map_err(|source| DataError::Read { file: file.clone(), source })?;
        let reader = SerializedFileReader::new(opened).map_err(|error| damaged(&file, &error))?;
        let metadata = reader.metadata().file_metadata();
        let (columns, arrow) = (metadata.schema_descr().columns(), arrow(metadata));
        let names: Vec<String> = columns.iter().map(|column| column.path().string()).collect();
        let written = columns.iter().map(|column| Written::of(column, arrow.as_ref())).collect();
        let fields = names.iter().map(|_| Fields::default()).collect();
        let columns = Vec::new();
        Ok(Self { file, reader, names, written, group: 0, columns, fields, at: 0, count: 0, rows: 0, comma })
    }

    /// Reads the next rows. Returns `false` at the end of the file.
    fn read(&mut self, wanted: &[bool]) -> Result<bool, DataError> {
        (self.at, self.count) = (0, 0);
        loop {
            let mut count = None;
            for (at, reader) in self.columns.iter_mut().enumerate() {
                let (Some(reader), Ok(written)) = (reader, &self.written[at]) else { continue };
                let found = self.fields[at].read(written, self.comma, reader);
                let found = found.map_err(|error| damaged(&self.file, &error))?;
                if *count.get_or_insert(found) != found {
                    let name = quoted(self.names[at].as_bytes());
                    let problem = format!(
                        "damaged: column {name} and the other columns have different numbers of rows"
                    );
                    return Err(DataError::Layout { file: self.file.clone(), problem });
                }
            }
            self.count = count.unwrap_or(0);
            if self.count > 0 {
                return Ok(true);
            }
            if self.group >= self.reader.num_row_groups() {
                return Ok(false);
            }
            let group = self.reader.get_row_group(self.group).map_err(|error| damaged(&self.file, &error))?;
            self.group += 1;
            self.columns.clear();
            for (at, written) in self.written.iter().enumerate() {
                let asked = written.is_ok() && wanted.get(at) == Some(&true);
                let reader = asked.then(|| group.get_column_reader(at)).transpose();
                self.columns.push(reader.map_err(|error| damaged(&self.file, &error))?);
            }
        }
    }

    /// Returns the names of the columns.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Returns the reason why a column cannot be read, or `None` if it can be read. An unreadable column has
    /// empty fields.
    pub(crate) fn unread(&self, at: usize) -> Option<&str> {
        self.written.get(at)?.as_ref().err().map(String::as_str)
    }

    /// Appends the fields of the next row to `text`, and the start and end of each field to `fields`. Returns
    /// the number of the row, or `None` at the end. A field may be empty if `wanted` is false for its column.
    pub(crate) fn next(
        &mut self,
        wanted: &[bool],
        text: &mut Vec<u8>,
        fields: &mut Vec<(usize, usize)>,
    ) -> Result<Option<u64>, DataError> {
        if self.at == self.count && !self.read(wanted)? {
            return Ok(None);
        }
        for column in &self.fields {
            let start = text.len();
            text.extend(column.field(self.at));
            fields.push((start, text.len()));
        }
        self.at += 1;
        self.rows += 1;
        Ok(Some(self.rows))
    }
}
