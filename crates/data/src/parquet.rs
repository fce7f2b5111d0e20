//! Reads Parquet with flat columns of numbers; the label may be text. [`Texts`] reads described columns,
//! which may have any type, as texts.

mod texts;

pub(super) use texts::Texts;

use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use ::parquet::basic::{ConvertedType, LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, get_typed_column_reader};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;

use super::columns::{Columns, Header, Role, advice};
use super::labels::NO_CLASS;
use super::{
    DataError, Expected, Labels, Loaded, MAX_ROWS, MAX_VALUES, Source, csv, magnitude_ok, quoted, whole,
};

/// Rows of a column that are read at once.
const BATCH: usize = 1 << 13;
/// Name that pandas gives to an index that it writes as a column.
const INDEX: &str = "__index_level_";

/// Type of a column's values, as far as this module reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float,
    Double,
    Text,
}

/// Returns the kind of a column. If the column cannot be read, returns the name of its type.
fn kind(column: &ColumnDescriptor) -> Result<Kind, String> {
    if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
        return Err("nested".into());
    }
    let logical = column.logical_type_ref();
    if matches!(logical, Some(LogicalType::Decimal(_))) || column.converted_type() == ConvertedType::DECIMAL {
        return Err("decimal (save it as a float)".into());
    }
    let other =
        || logical.map_or_else(|| column.converted_type().to_string(), |logical| format!("{logical:?}"));
    let signed = match (logical, column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => Some(integer.is_signed),
        // The column has only nulls, because this peer never measured it.
        (Some(LogicalType::Unknown), _) | (None, ConvertedType::NONE) => Some(true),
        (
            None,
            ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32 | ConvertedType::INT_64,
        ) => Some(true),
        (
            None,
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64,
        ) => Some(false),
        _ => None,
    };
    let plain = matches!(logical, None | Some(LogicalType::Unknown))
        && column.converted_type() == ConvertedType::NONE;
    let text = matches!(logical, Some(LogicalType::String | LogicalType::Enum))
        || logical.is_none() && matches!(column.converted_type(), ConvertedType::UTF8 | ConvertedType::ENUM);
    match (column.physical_type(), signed) {
        (Type::BOOLEAN, _) => Ok(Kind::Bool),
        (Type::INT32, Some(true)) => Ok(Kind::Int32),
        (Type::INT32, Some(false)) => Ok(Kind::Uint32),
        (Type::INT64, Some(true)) => Ok(Kind::Int64),
        (Type::INT64, Some(false)) => Ok(Kind::Uint64),
        (Type::FLOAT, _) if plain => Ok(Kind::Float),
        (Type::DOUBLE, _) if plain => Ok(Kind::Double),
        (Type::BYTE_ARRAY, _) if plain || text => Ok(Kind::Text),
        (physical, _) if plain => Err(physical.to_string()),
        _ => Err(other()),
    }
}

/// A column of a row group, for errors.
struct At<'a> {
    file: &'a Path,
    name: &'a str,
    /// Number of rows in the groups before this one.
    rows: usize,
}

impl At<'_> {
    fn wrong(&self, row: usize, found: String, expected: impl Into<String>) -> DataError {
        let what = format!("row {}, column {}", self.rows + row + 1, quoted(self.name.as_bytes()));
        DataError::Entry { file: self.file.into(), what, found, expected: expected.into() }
    }

    /// Calls `f` with each value of a column, or with `None` for a null. Returns the number of values.
    fn each<T: DataType>(
        &self,
        reader: ColumnReader,
        mut f: impl FnMut(usize, Option<&T::T>) -> Result<(), DataError>,
    ) -> Result<usize, DataError> {
        let mut reader = get_typed_column_reader::<T>(reader);
        let (mut levels, mut values, mut rows) = (Vec::new(), Vec::new(), 0);
        loop {
            levels.clear();
            values.clear();
            let read = reader.read_records(BATCH, Some(&mut levels), None, &mut values);
            let (records, ..) = read.map_err(|error| damaged(self.file, &error))?;
            if records == 0 {
                return Ok(rows);
            }
            let mut values = values.iter();
            for row in 0..records {
                // A column that cannot have missing values has no definition levels.
                let there = levels.get(row).is_none_or(|&level| level > 0);
                f(rows + row, if there { values.next() } else { None })?;
            }
            rows += records;
            if self.rows + rows > MAX_ROWS {
                let (found, limit) = ((self.rows + rows) as u64, MAX_ROWS as u64);
                return Err(DataError::Limit { file: self.file.into(), what: "too many rows", found, limit });
            }
        }
    }

    /// Returns the numbers of a column.
    fn numbers(&self, kind: Kind, comma: bool, reader: ColumnReader) -> Result<Vec<f32>, DataError> {
        let mut out = Vec::new();
        let mut push = |row: usize, x: Option<f32>| {
            let Some(x) = x else {
                let expected = "a value in every row (fill in a value, or leave out rows without a value)";
                return Err(self.wrong(row, "null".into(), expected));
            };
            if !magnitude_ok(x) {
                return Err(self.wrong(row, x.to_string(), "a finite number below 2^80"));
            }
            out.push(x);
            Ok(())
        };
        match kind {
            Kind::Bool => {
                self.each::<BoolType>(reader, |row, x| push(row, x.map(|&x| f32::from(u8::from(x)))))
            }
            Kind::Int32 => self.each::<Int32Type>(reader, |row, x| push(row, x.map(|&x| x as f32))),
            Kind::Uint32 => {
                self.each::<Int32Type>(reader, |row, x| push(row, x.map(|x| x.cast_unsigned() as f32)))
            }
            Kind::Int64 => self.each::<Int64Type>(reader, |row, x| push(row, x.map(|&x| x as f32))),
            Kind::Uint64 => {
                self.each::<Int64Type>(reader, |row, x| push(row, x.map(|x| x.cast_unsigned() as f32)))
            }
            Kind::Float => self.each::<FloatType>(reader, |row, x| push(row, x.copied())),
            Kind::Double => self.each::<DoubleType>(reader, |row, x| push(row, x.map(|&x| x as f32))),
            Kind::Text => self.each::<ByteArrayType>(reader, |row, x| {
                let number = |x: &ByteArray| {
                    let text = std::str::from_utf8(x.data()).unwrap_or_default();
                    csv::value(text.trim(), comma)
                        .map_err(|_| self.wrong(row, quoted(x.data()), advice(self.name)))
                };
                push(row, x.map(number).transpose()?)
            }),
        }?;
        Ok(out)
    }

    /// Adds the classes of a column. Returns the number of its rows.
    fn labels(&self, kind: Kind, reader: ColumnReader, labels: &mut Labels) -> Result<usize, DataError> {
        let mut of = |row: usize, text: Option<Result<String, String>>| {
            let shown = text.clone().map_or("null".into(), |text| {
                text.map_or_else(|found| found, |text| quoted(text.as_bytes()))
            });
            let pushed = match text {
                None if !labels.partly => Err("a label in every row".into()),
                None => labels.push(""),
                Some(Ok(text)) => labels.push(text.trim()),
                Some(Err(_)) => Err(NO_CLASS.into()),
            };
            pushed.map_err(|expected| self.wrong(row, shown, expected))
        };
        let number = |x: f64| (!x.is_nan()).then(|| whole(x).map_err(|_| x.to_string()));
        let plain = |x: &dyn std::fmt::Display| Ok(x.to_string());
        match kind {
            Kind::Bool => self.each::<BoolType>(reader, |row, x| {
                of(row, x.map(|&x| Ok(if x { "True" } else { "False" }.into())))
            }),
            Kind::Int32 => self.each::<Int32Type>(reader, |row, x| of(row, x.map(|x| plain(x)))),
            Kind::Uint32 => {
                self.each::<Int32Type>(reader, |row, x| of(row, x.map(|x| plain(&x.cast_unsigned()))))
            }
            Kind::Int64 => self.each::<Int64Type>(reader, |row, x| of(row, x.map(|x| plain(x)))),
            Kind::Uint64 => {
                self.each::<Int64Type>(reader, |row, x| of(row, x.map(|x| plain(&x.cast_unsigned()))))
            }
            Kind::Float => {
                self.each::<FloatType>(reader, |row, x| of(row, x.and_then(|x| number(f64::from(*x)))))
            }
            Kind::Double => self.each::<DoubleType>(reader, |row, x| of(row, x.and_then(|x| number(*x)))),
            Kind::Text => self.each::<ByteArrayType>(reader, |row, x| {
                of(row, x.map(|x| String::from_utf8(x.data().to_vec()).map_err(|_| quoted(x.data()))))
            }),
        }
    }
}

fn damaged(file: &Path, error: &ParquetError) -> DataError {
    DataError::Layout {
        file: file.into(),
        problem: format!("damaged, or a kind of Parquet that is not supported: {error}"),
    }
}

pub(super) fn read(source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let file = source.file.as_path();
    not_zipped(&source)?;
    unless_damaged(file, || read_file(file, expected))
}

fn not_zipped(source: &Source) -> Result<(), DataError> {
    if source.gzip {
        let problem = "a Parquet file is compressed by itself: gunzip it first".into();
        return Err(DataError::Layout { file: source.file.clone(), problem });
    }
    Ok(())
}

/// Returns the result of `f`, which reads this file. If `f` panics, the error is that the file is damaged.
pub(super) fn unless_damaged<T>(
    file: &Path,
    f: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    guarded(f).unwrap_or_else(|| {
        let problem = "damaged: its metadata contradict each other".into();
        Err(DataError::Layout { file: file.into(), problem })
    })
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `f`, or `None` if `f` panics; the panic is not printed. The crate asserts some
/// facts that a file's metadata declare (for example that offsets are not negative) instead of returning an
/// error.
fn guarded<T>(f: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    // A panic drops the values that `f` has made so far.
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    GUARDED.set(outer);
    result.ok()
}

fn read_file(file: &Path, expected: &Expected) -> Result<Loaded, DataError> {
    let reader = File::open(file).map_err(|source| DataError::Read { file: file.into(), source })?;
    let reader = SerializedFileReader::new(reader).map_err(|error| damaged(file, &error))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
    let found = Header { file, place: "the schema", line: 1, count: names.len(), names: Some(names.clone()) };
    let aside = found.aside(&expected.label, expected.drop)?;
    let kinds = kinds(file, schema.columns(), &names, |column| aside.contains(column), aside.label)?;
    let columns = found.columns(&aside, expected)?;

    let (mut values, mut labels, mut rows) = (Vec::new(), Labels::new(expected), 0);
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| damaged(file, &error))?;
        rows += read_group(
            file,
            &*group,
            (&columns, &names, &kinds),
            expected.comma(),
            rows,
            &mut values,
            &mut labels,
        )?;
    }
    if rows == 0 {
        return Err(DataError::NoRows { file: file.into(), header: true });
    }
    Ok(labels.finish(columns.features, values).named(columns))
}

/// Returns the types of all columns. Columns that are left out are not checked.
fn kinds(
    file: &Path,
    columns: &[std::sync::Arc<ColumnDescriptor>],
    names: &[String],
    aside: impl Fn(usize) -> bool,
    label: Option<usize>,
) -> Result<Vec<Option<Kind>>, DataError> {
    let refuse = |name: &str, found: String, expected: String| DataError::Entry {
        file: file.into(),
        what: format!("column {}", quoted(name.as_bytes())),
        found,
        expected,
    };
    let kind_of = |(at, (column, name)): (usize, (&std::sync::Arc<ColumnDescriptor>, &String))| {
        if aside(at) && label != Some(at) {
            return Ok(None);
        }
        if name.starts_with(INDEX) && label != Some(at) {
            let expected = format!("features (write with index=False, or drop = [{name:?}] in the map file)");
            return Err(refuse(name, "an index of pandas".into(), expected));
        }
        match kind(column) {
            Ok(kind) => Ok(Some(kind)),
            Err(found) if label == Some(at) => {
                Err(refuse(name, format!("of type {found}"), "text, integers or bool as the label".into()))
            }
            Err(found) => Err(refuse(name, format!("of type {found}"), advice(name))),
        }
    };
    columns.iter().zip(names).enumerate().map(kind_of).collect()
}

/// Reads a row group. The groups before it have `before` rows. Returns the number of rows of this group.
fn read_group(
    file: &Path,
    group: &dyn RowGroupReader,
    (columns, names, kinds): (&Columns, &[String], &[Option<Kind>]),
    comma: bool,
    before: usize,
    values: &mut Vec<f32>,
    labels: &mut Labels,
) -> Result<usize, DataError> {
    let (start, features, mut rows) = (values.len(), columns.features, None);
    for (at, (role, kind)) in columns.roles.iter().zip(kinds).enumerate() {
        let Some(kind) = *kind else { continue };
        let place = At { file, name: &names[at], rows: before };
        let reader = group.get_column_reader(at).map_err(|error| damaged(file, &error))?;
        let found = match *role {
            Role::Dropped => continue,
            Role::Label => place.labels(kind, reader, labels)?,
            Role::Feature(feature) => {
                let column = place.numbers(kind, comma, reader)?;
                if values.len() == start {
                    let found = start.saturating_add(column.len().saturating_mul(features));
                    if found > MAX_VALUES {
                        let limit = MAX_VALUES as u64;
                        let what = "too many numbers";
                        return Err(DataError::Limit { file: file.into(), what, found: found as u64, limit });
                    }
                    values.resize(found, 0.0);
                }
                for (row, x) in values[start..].chunks_exact_mut(features).zip(&column) {
                    row[feature] = *x;
                }
                column.len()
            }
        };
        let rows = *rows.get_or_insert(found);
        if rows != found {
            let problem = format!(
                "damaged: column {} has {found} rows in a group of {rows}",
                quoted(names[at].as_bytes())
            );
            return Err(DataError::Layout { file: file.into(), problem });
        }
    }
    Ok(rows.unwrap_or(0))
}
