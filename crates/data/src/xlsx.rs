//! Reads a sheet of an Excel workbook as CSV. Numbers, dates and booleans are written as for any other
//! format, so the CSV readers give the same rows.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use calamine::{DataRef, Reader, SheetType, SheetVisible, Xlsx, XlsxError};
use zip::ZipArchive;

use super::parquet::unless_damaged;
use super::prepare::value::typed;
use super::source::CsvText;
use super::{DataError, MAX_FEATURES, Source, quoted};

/// Most bytes of a workbook's parts, unpacked.
const MAX_UNPACKED: u64 = 1 << 31;
/// Most cells in the rectangle that contains all rows of a sheet.
const MAX_CELLS: u64 = 1 << 28;

/// Reads the sheet of this name. Without a name, reads the only sheet that has cells.
pub(super) fn to_csv(source: &Source, sheet: Option<&str>, comma: bool) -> Result<Source, DataError> {
    let file = source.file.as_path();
    let layout = |problem: String| DataError::Layout { file: file.into(), problem };
    if source.gzip {
        return Err(layout("a workbook is compressed by itself: gunzip it first".into()));
    }
    unless_damaged(file, || {
        bounded(file)?;
        let damaged = |error: XlsxError| {
            layout(format!("a damaged Excel workbook: save it again as .xlsx or CSV UTF-8 ({error})"))
        };
        let opened = File::open(file).map_err(|source| DataError::Read { file: file.into(), source })?;
        let mut book = Xlsx::new(BufReader::new(opened)).map_err(damaged)?;
        let sheets = book.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
        let seen =
            |visible| sheets.clone().filter(move |sheet| (sheet.visible == SheetVisible::Visible) == visible);
        // Hidden sheets are read only if they are named.
        let names: Vec<String> = seen(true).chain(seen(false)).map(|sheet| sheet.name.clone()).collect();
        let visible = seen(true).count();
        let shown = names.iter().map(|name| quoted(name.as_bytes())).collect::<Vec<_>>().join(", ");
        let asked: Vec<&String> = match sheet {
            Some(name) => {
                let found = names.iter().find(|sheet| *sheet == name);
                let missing = || layout(format!("no sheet {}: it has {shown}", quoted(name.as_bytes())));
                vec![found.ok_or_else(missing)?]
            }
            None => names.iter().take(visible).collect(),
        };
        let mut found: Vec<Vec<Row>> = Vec::new();
        for name in asked {
            let rows = rows(&mut book, name, comma, file).map_err(|error| match error {
                Problem::Book(error) => damaged(error),
                Problem::Data(error) => error,
            })?;
            found.extend(Some(rows).filter(|rows| !rows.is_empty()));
        }
        match found.len() {
            0 => Err(DataError::NoRows { file: file.into(), header: false }),
            1 => written(file, &found.remove(0)),
            _ => Err(layout(format!(
                "several sheets have rows ({shown}): `sheet = \"NAME\"` in the map file names one"
            ))),
        }
    })
}

/// Returns the error for a workbook that was not turned into a table.
pub(super) fn not_a_table(file: &Path) -> DataError {
    DataError::Layout {
        file: file.into(),
        problem: "a workbook, which must be read as a table with column names".into(),
    }
}

/// Unpacks all parts once, because their declared sizes may be false.
fn bounded(file: &Path) -> Result<(), DataError> {
    let damaged = |error: &dyn std::fmt::Display| DataError::Layout {
        file: file.into(),
        problem: format!("damaged, or not an Excel workbook: {error}"),
    };
    let opened = File::open(file).map_err(|source| DataError::Read { file: file.into(), source })?;
    let mut zip = ZipArchive::new(BufReader::new(opened)).map_err(|error| damaged(&error))?;
    let mut left = MAX_UNPACKED;
    for at in 0..zip.len() {
        let part = zip.by_index(at).map_err(|error| damaged(&error))?;
        let size = io::copy(&mut part.take(left + 1), &mut io::sink()).map_err(|error| damaged(&error))?;
        left = left.checked_sub(size).ok_or(DataError::Limit {
            file: file.into(),
            what: "unpacked bytes of a workbook",
            found: MAX_UNPACKED + 1,
            limit: MAX_UNPACKED,
        })?;
    }
    Ok(())
}

/// A row with cells: its number from 0, and its cells.
type Row = (u32, Vec<Cell>);
/// The column of a cell, and its text.
type Cell = (u32, Vec<u8>);

enum Problem {
    Book(XlsxError),
    Data(DataError),
}

impl From<XlsxError> for Problem {
    fn from(error: XlsxError) -> Self {
        Self::Book(error)
    }
}

fn rows(
    book: &mut Xlsx<BufReader<File>>,
    sheet: &str,
    comma: bool,
    file: &Path,
) -> Result<Vec<Row>, Problem> {
    let mut reader = book.worksheet_cells_reader(sheet)?;
    let mut rows: Vec<Row> = Vec::new();
    while let Some(cell) = reader.next_cell()? {
        let (row, column) = cell.get_position();
        let text = text(cell.get_value(), comma);
        if text.trim_ascii().is_empty() {
            continue;
        }
        let problem = || {
            let problem = format!("damaged: cells of sheet {} are out of order", quoted(sheet.as_bytes()));
            Err(Problem::Data(DataError::Layout { file: file.into(), problem }))
        };
        match rows.last_mut() {
            Some((last, cells)) if *last == row => match cells.last() {
                Some((last, _)) if *last >= column => return problem(),
                _ => cells.push((column, text)),
            },
            Some((last, _)) if *last > row => return problem(),
            _ => rows.push((row, vec![(column, text)])),
        }
    }
    Ok(rows)
}

/// Returns the text of a cell in CSV.
fn text(cell: &DataRef<'_>, comma: bool) -> Vec<u8> {
    let mut out = Vec::new();
    match cell {
        DataRef::Int(value) => typed::plain(&mut out, value),
        DataRef::Float(value) => typed::float(&mut out, *value, comma),
        DataRef::Bool(value) => typed::truth(&mut out, *value),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => {
            out.extend(text.as_bytes());
        }
        DataRef::SharedString(text) => out.extend(text.as_bytes()),
        DataRef::Error(error) => typed::plain(&mut out, error),
        DataRef::DateTime(moment) if moment.is_datetime() => {
            let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
            if moment.as_f64() >= 1.0 {
                typed::plain(&mut out, format_args!("{year:04}-{month:02}-{day:02}"));
            }
            if moment.as_f64().fract() != 0.0 {
                let space = if out.is_empty() { "" } else { " " };
                typed::plain(&mut out, format_args!("{space}{hour:02}:{minute:02}:{second:02}"));
            }
        }
        DataRef::DateTime(duration) => typed::float(&mut out, duration.as_f64(), comma),
        DataRef::Empty => {}
    }
    out
}

/// Writes the rectangle that contains all rows.
fn written(file: &Path, rows: &[Row]) -> Result<Source, DataError> {
    let ends = |ends: fn(&[Cell]) -> Option<&Cell>| {
        rows.iter().filter_map(move |(_, cells)| ends(cells)).map(|(column, _)| *column)
    };
    let first = ends(<[_]>::first).min().unwrap_or(0);
    let width = u64::from(ends(<[_]>::last).max().unwrap_or(0) - first) + 1;
    let cells = width * rows.len() as u64;
    for (what, found, limit) in
        [("too many columns", width, MAX_FEATURES as u64), ("too many cells", cells, MAX_CELLS)]
    {
        if found > limit {
            return Err(DataError::Limit { file: file.into(), what, found, limit });
        }
    }
    let mut csv = CsvText::default();
    let mut row = vec![&[][..]; width as usize];
    for (line, cells) in rows {
        row.fill(&[]);
        for (column, text) in cells {
            row[(column - first) as usize] = text;
        }
        csv.row(u64::from(*line) + 1, &row);
    }
    Ok(Source::from_csv(file.into(), csv))
}
