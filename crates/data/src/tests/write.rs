//! Writes a table in every format that can be read.

use std::io::{Cursor, Write};
use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Map, Value, json};
use zip::write::SimpleFileOptions;

use crate::prepare::value::date;

/// A field of a table; the fields of a column are of one kind, or null.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    Number(f64),
    Whole(i64),
    Truth(bool),
    Text(String),
    /// Days since 1970-01-01.
    Day(i32),
    /// A day in a time zone, the seconds after its midnight, and the zone.
    Moment(i32, i32, Zone),
}

/// A time zone whose offset has not changed since 1970, and the offset in minutes ahead of UTC.
pub(super) type Zone = (&'static str, i32);

use Cell::{Day, Moment, Null, Number, Text, Truth, Whole};

/// Columns with names; all have the same number of fields.
pub(super) type Table = Vec<(String, Vec<Cell>)>;

fn iso(day: i32) -> String {
    date(day.into()).unwrap()
}

/// Writes a moment as pandas does.
fn moment(day: i32, second: i32, minutes: i32) -> String {
    let two = |number: i32| format!("{number:02}");
    let time = [second / 3600, second / 60 % 60, second % 60].map(two).join(":");
    let offset = [minutes.abs() / 60, minutes.abs() % 60].map(two).join(":");
    format!("{} {time}{}{offset}", iso(day), if minutes < 0 { "-" } else { "+" })
}

/// Spelling of a text file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) delimiter: char,
    pub(super) comma: bool,
    /// Spelling of true and false.
    pub(super) truth: [&'static str; 2],
}

pub(super) fn csv(table: &Table, style: Style) -> Vec<u8> {
    let sign = style.delimiter.to_string();
    let quoted = |text: String| match text.contains([style.delimiter, '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let field = |cell: &Cell| match cell {
        Null => String::new(),
        Number(x) if style.comma => x.to_string().replace('.', ","),
        Number(x) => x.to_string(),
        Whole(x) => x.to_string(),
        Truth(x) => style.truth[usize::from(*x)].to_owned(),
        Text(text) => text.clone(),
        Day(day) => iso(*day),
        Moment(day, second, zone) => moment(*day, *second, zone.1),
    };
    let rows = table[0].1.len();
    let names = table.iter().map(|(name, _)| quoted(name.clone())).collect::<Vec<_>>().join(&sign);
    let row =
        |at: usize| table.iter().map(|(_, cells)| quoted(field(&cells[at]))).collect::<Vec<_>>().join(&sign);
    let lines: Vec<String> = std::iter::once(names).chain((0..rows).map(row)).collect();
    (lines.join("\n") + "\n").into_bytes()
}

/// Writes one object a line. In every second row, nulls are left out.
pub(super) fn json_lines(table: &Table) -> Vec<u8> {
    let mut out = Vec::new();
    for at in 0..table[0].1.len() {
        let mut object = Map::new();
        for (name, cells) in table {
            let value = match &cells[at] {
                Null if at % 2 == 0 => continue,
                Null => Value::Null,
                Number(x) => json!(x),
                Whole(x) => json!(x),
                Truth(x) => json!(x),
                Text(text) => json!(text),
                Day(day) => json!(iso(*day)),
                Moment(day, second, zone) => json!(moment(*day, *second, zone.1)),
            };
            object.insert(name.clone(), value);
        }
        writeln!(out, "{}", Value::Object(object)).unwrap();
    }
    out
}

/// Returns the metadata that pandas and polars write about a file's columns: here the time zones of some
/// columns.
pub(super) fn arrow(zones: &[(String, &str)]) -> Arc<WriterProperties> {
    let field = |(name, zone): &(String, &str)| {
        let moment = DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some((*zone).into()));
        Field::new(name, moment, true)
    };
    let schema = Schema::new(zones.iter().map(field).collect::<Vec<_>>());
    let (mut tracker, options) = (DictionaryTracker::new(true), IpcWriteOptions::default());
    let encoded = IpcDataGenerator::default()
        .schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options)
        .ipc_message;
    let length = (encoded.len() as u32).to_le_bytes();
    let text = BASE64_STANDARD.encode([&[255; 4], &length, &encoded[..]].concat());
    let entry = KeyValue::new("ARROW:schema".to_owned(), text);
    Arc::new(WriterProperties::builder().set_key_value_metadata(Some(vec![entry])).build())
}

pub(super) fn parquet(table: &Table) -> Vec<u8> {
    let kind = |cells: &[Cell]| cells.iter().find(|cell| **cell != Null).cloned().unwrap_or(Null);
    let column = |(name, cells): &(String, Vec<Cell>)| {
        let (physical, logical) = match kind(cells) {
            Null => (Physical::INT32, Some(LogicalType::Unknown)),
            Number(_) => (Physical::DOUBLE, None),
            Whole(_) => (Physical::INT64, None),
            Truth(_) => (Physical::BOOLEAN, None),
            Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Day(_) => (Physical::INT32, Some(LogicalType::Date)),
            Moment(..) => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        };
        let column = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        Arc::new(column.with_repetition(Repetition::OPTIONAL).build().unwrap())
    };
    let fields = table.iter().map(column).collect();
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build().unwrap());
    let zone = |(name, cells): &(String, Vec<Cell>)| match kind(cells) {
        Moment(.., zone) => Some((name.clone(), zone.0)),
        _ => None,
    };
    let zones: Vec<(String, &str)> = table.iter().filter_map(zone).collect();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, arrow(&zones)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (_, cells) in table {
        let levels: Vec<i16> = cells.iter().map(|cell| i16::from(*cell != Null)).collect();
        let mut column = group.next_column().unwrap().unwrap();
        macro_rules! put {
            ($type:ty, $pattern:pat => $value:expr) => {{
                let values: Vec<_> = cells
                    .iter()
                    .filter_map(|cell| if let $pattern = cell { Some($value) } else { None })
                    .collect();
                column.typed::<$type>().write_batch(&values, Some(&levels), None).unwrap()
            }};
        }
        match kind(cells) {
            Null => put!(Int32Type, Day(day) => *day),
            Number(_) => put!(DoubleType, Number(x) => *x),
            Whole(_) => put!(Int64Type, Whole(x) => *x),
            Truth(_) => put!(BoolType, Truth(x) => *x),
            Text(_) => put!(ByteArrayType, Text(text) => ByteArray::from(text.as_str())),
            Day(_) => put!(Int32Type, Day(day) => *day),
            Moment(..) => put!(Int64Type, Moment(day, second, zone) => {
                (i64::from(*day) * 86_400 + i64::from(second - zone.1 * 60)) * 1_000_000_000
            }),
        };
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn zipped(files: Vec<(String, Vec<u8>)>) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(&bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn npy(descr: &str, shape: &str, elements: Vec<u8>) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    [bytes, header.into_bytes(), elements].concat()
}

fn npy_texts(texts: &[String]) -> Vec<u8> {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let element = |text: &String| {
        let points = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
        points.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    npy(&format!("<U{width}"), &format!("({},)", texts.len()), texts.iter().flat_map(element).collect())
}

/// Writes an array for each column, as `numpy.savez(file, **frame)` does.
pub(super) fn npz(table: &Table) -> Vec<u8> {
    let array = |(name, cells): &(String, Vec<Cell>)| {
        let shape = format!("({},)", cells.len());
        let null = cells.contains(&Null);
        let bytes = match cells.iter().find(|cell| **cell != Null) {
            Some(Truth(_)) if !null => {
                npy("|b1", &shape, cells.iter().map(|cell| u8::from(*cell == Truth(true))).collect())
            }
            Some(Text(_) | Day(_) | Moment(..) | Truth(_)) => {
                let text = |cell: &Cell| match cell {
                    Text(text) => text.clone(),
                    Truth(x) => if *x { "True" } else { "False" }.into(),
                    Day(day) => iso(*day),
                    Moment(day, second, zone) => moment(*day, *second, zone.1),
                    _ => String::new(),
                };
                npy_texts(&cells.iter().map(text).collect::<Vec<_>>())
            }
            _ => {
                let number = |cell: &Cell| match cell {
                    Number(x) => *x,
                    Whole(x) => *x as f64,
                    _ => f64::NAN,
                };
                npy("<f8", &shape, cells.iter().flat_map(|cell| number(cell).to_le_bytes()).collect())
            }
        };
        (format!("{name}.npy"), bytes)
    };
    zipped(table.iter().map(array).collect())
}

/// Writes the features to `X`, their names to `columns`, and the label, which is the last column, to `y`.
pub(super) fn npz_features(table: &Table) -> Vec<u8> {
    let (label, features) = table.split_last().unwrap();
    let number = |cell: &Cell| match cell {
        Number(x) => *x,
        Whole(x) => *x as f64,
        Truth(x) => f64::from(u8::from(*x)),
        other => panic!("{other:?}"),
    };
    let rows = label.1.len();
    let values = (0..rows).flat_map(|at| features.iter().map(move |(_, cells)| number(&cells[at])));
    let x = npy("<f8", &format!("({rows}, {})", features.len()), values.flat_map(f64::to_le_bytes).collect());
    let names: Vec<String> = features.iter().map(|(name, _)| name.clone()).collect();
    let y: Vec<String> =
        label.1.iter().map(|cell| if let Text(text) = cell { text.clone() } else { panic!() }).collect();
    zipped(vec![
        ("X.npy".into(), x),
        ("y.npy".into(), npy_texts(&y)),
        ("columns.npy".into(), npy_texts(&names)),
    ])
}

/// Writes a workbook with these sheets.
pub(super) fn xlsx(sheets: &[(&str, &Table)]) -> Vec<u8> {
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{}</t></is></c>", escaped(text));
    let cell = |cell: &Cell| match cell {
        Null => "<c/>".to_owned(),
        Number(x) => format!("<c><v>{x}</v></c>"),
        Whole(x) => format!("<c><v>{x}</v></c>"),
        Truth(x) => format!("<c t=\"b\"><v>{}</v></c>", u8::from(*x)),
        Text(value) => text(value),
        // Serial numbers count from 1899-12-30.
        Day(day) => format!("<c s=\"1\"><v>{}</v></c>", day + 25_569),
        Moment(day, second, zone) => text(&moment(*day, *second, zone.1)),
    };
    let sheet = |table: &Table| {
        let names: String = table.iter().map(|(name, _)| text(name)).collect();
        let mut rows = format!("<row r=\"1\">{names}</row>");
        for at in 0..table[0].1.len() {
            let cells: String = table.iter().map(|(_, cells)| cell(&cells[at])).collect();
            rows += &format!("<row r=\"{}\">{cells}</row>", at + 2);
        }
        format!("<worksheet xmlns=\"{MAIN}\"><sheetData>{rows}</sheetData></worksheet>")
    };
    let (mut book, mut related) = (String::new(), String::new());
    let mut files: Vec<(String, String)> = Vec::new();
    for (at, (name, table)) in sheets.iter().enumerate() {
        book += &format!("<sheet name=\"{name}\" sheetId=\"{}\" r:id=\"r{at}\"/>", at + 1);
        related += &format!(
            "<Relationship Id=\"r{at}\" Type=\"{OFFICE}/worksheet\" Target=\"worksheets/{at}.xml\"/>"
        );
        files.push((format!("xl/worksheets/{at}.xml"), sheet(table)));
    }
    related += &format!("<Relationship Id=\"s\" Type=\"{OFFICE}/styles\" Target=\"styles.xml\"/>");
    let list = |inner: &str| {
        format!(
            "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{inner}</Relationships>"
        )
    };
    let whole =
        format!("<Relationship Id=\"b\" Type=\"{OFFICE}/officeDocument\" Target=\"xl/workbook.xml\"/>");
    files.extend([
        ("_rels/.rels".into(), list(&whole)),
        ("xl/_rels/workbook.xml.rels".into(), list(&related)),
        (
            "xl/workbook.xml".into(),
            format!("<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>{book}</sheets></workbook>"),
        ),
        (
            "xl/styles.xml".into(),
            format!("<styleSheet xmlns=\"{MAIN}\"><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/></cellXfs></styleSheet>"),
        ),
    ]);
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    zipped(files.into_iter().map(|(name, text)| (name, format!("{head}{text}").into_bytes())).collect())
}
