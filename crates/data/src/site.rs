//! Turns a peer's own file into the agreed table. Names, values, units, dates and fills may differ; a map
//! file (`--map`) lists the differences. The map file stays at the peer.
//!
//! The table is rewritten before it is read. So a map works for CSV and for every other format with column
//! names.

use std::collections::BTreeMap;
use std::path::Path;

use super::prepare::rows::Rows;
use super::prepare::value::{date, number, truth, typed};
use super::source::CsvText;
use super::{DataError, Expected, Format, Source, format, npz, quoted, xlsx};

pub mod pattern;
pub mod suggest;

pub use pattern::DatePattern;

/// Differences between the columns of a peer's own file and the agreed columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteMap {
    /// Map from the name of a column in the file to its agreed name.
    pub rename: BTreeMap<String, String>,
    /// Differences in the values of a column, by the agreed name of the column.
    pub columns: BTreeMap<String, ColumnMap>,
}

/// Differences in the values of a column, applied in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnMap {
    /// Map from the text in the file to the agreed text. An empty text is a missing value.
    pub values: BTreeMap<String, String>,
    /// Format of dates.
    pub date: Option<DatePattern>,
    /// Factor for numbers.
    pub factor: Option<f64>,
    /// Offset, added after the factor.
    pub offset: Option<f64>,
    /// Text that replaces a missing value.
    pub fill: Option<String>,
}

impl SiteMap {
    /// Returns true if the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rename.is_empty() && self.columns.is_empty()
    }

    /// Returns the agreed names of the file's columns.
    fn renamed(&self, names: &[String]) -> Vec<String> {
        names.iter().map(|name| self.rename.get(name).unwrap_or(name).clone()).collect()
    }

    /// Checks that the file has every name in the map. Otherwise a typing error in a name could leave a
    /// column in pounds that should be in kilograms. The label may be absent, because rows to predict have no
    /// label.
    fn check(&self, before: &[String], after: &[String], label: Option<&str>) -> Result<(), String> {
        let has = |names: &[String], name: &String| names.contains(name) || label == Some(name.as_str());
        if let Some((from, to)) =
            self.rename.iter().find(|(from, to)| !before.contains(from) && !has(after, to))
        {
            let (from, to) = (quoted(from.as_bytes()), quoted(to.as_bytes()));
            return Err(format!("the map file renames {from} to {to}, and no column is called {from}"));
        }
        match self.columns.keys().find(|name| !has(after, name)) {
            Some(name) => {
                let name = quoted(name.as_bytes());
                Err(format!("the map file has [columns.{name}], and no column is called {name}"))
            }
            None => Ok(()),
        }
    }
}

impl ColumnMap {
    /// Returns the agreed text of a field. A text that cannot be converted stays the same; the reader
    /// refuses it with advice.
    fn apply(&self, text: &str, missing: &[String], comma: bool) -> String {
        let mut text = self.values.get(text).map_or(text, String::as_str).to_owned();
        if let Some(pattern) = &self.date
            && let Some(day) = pattern.read(&text)
            && let Some(iso) = date(f64::from(day))
        {
            text = iso;
        }
        if (self.factor.is_some() || self.offset.is_some())
            && truth(&text).is_none()
            && let Ok(value) = number(&text, comma)
        {
            let value = self.factor.unwrap_or(1.0) * wide(&text, value, comma) + self.offset.unwrap_or(0.0);
            let mut out = Vec::new();
            typed::number(&mut out, value, comma);
            text = String::from_utf8(out).unwrap_or_default();
        }
        match &self.fill {
            Some(fill) if text.is_empty() || missing.contains(&text) => fill.clone(),
            _ => text,
        }
    }
}

/// Returns the number as binary64 if it is a plain number.
fn wide(text: &str, value: f32, comma: bool) -> f64 {
    let plain = if comma { text.replacen(',', ".", 1) } else { text.to_owned() };
    plain.parse().ok().filter(|wide: &f64| *wide as f32 == value).unwrap_or_else(|| f64::from(value))
}

/// Opens a file of rows and returns its format. Workbooks, arrays with described columns and files with a
/// map are turned into CSV.
pub(super) fn opened(path: &Path, expected: &Expected) -> Result<(Source, Format), DataError> {
    let source = Source::open(path, expected.contents)?;
    let format = expected.format.map_or_else(|| format::detect(&source), Ok)?;
    let text = if format == Format::Xlsx { format } else { Format::Csv };
    for (option, given, only) in [
        ("a labels file", expected.labels_file.is_some(), Format::Npy),
        ("an array name", expected.array.is_some(), Format::Npz),
        ("the name of a sheet", expected.sheet.is_some(), Format::Xlsx),
        ("a header", expected.header.is_some(), text),
    ] {
        if given && format != only {
            let problem = format!("{option} is only for {only}, but this file is {format}");
            return Err(DataError::Layout { file: path.into(), problem });
        }
    }
    let site = expected.site.filter(|site| !site.is_empty());
    let (source, format) = match format {
        Format::Xlsx => (xlsx::to_csv(&source, expected.sheet, expected.comma())?, Format::Csv),
        Format::Npz if expected.preparation.is_some() || site.is_some() => {
            (npz::to_csv(&source, expected)?, Format::Csv)
        }
        format => (source, format),
    };
    match site {
        Some(site) => Ok((site.rewritten(source, format, expected)?, Format::Csv)),
        None => Ok((source, format)),
    }
}

/// Opens a file like [`opened`] to make a draft. An archive with one array for each column has
/// names, too.
pub(super) fn opened_to_draft(path: &Path, expected: &Expected) -> Result<(Source, Format), DataError> {
    match opened(path, expected)? {
        (source, Format::Npz) if npz::is_frame(&source, expected)? => {
            Ok((npz::to_csv(&source, expected)?, Format::Csv))
        }
        other => Ok(other),
    }
}

impl SiteMap {
    /// Returns the agreed table.
    fn rewritten(&self, source: Source, format: Format, expected: &Expected) -> Result<Source, DataError> {
        let file = source.file.clone();
        let layout = |problem: String| DataError::Layout { file: file.clone(), problem };
        if !Rows::takes(format) || expected.header == Some(false) {
            let problem = "the map file names columns, and this file has no column names";
            return Err(layout(problem.into()));
        }
        let mut rows = Rows::open(source, format, expected)?;
        let names = self.renamed(&rows.names);
        let label = match (&expected.label, expected.preparation) {
            (super::LabelColumn::Name(name), _) => Some(name.as_str()),
            (_, preparation) => preparation.and_then(|preparation| preparation.label.as_deref()),
        };
        self.check(&rows.names, &names, label).map_err(layout)?;
        let of: Vec<Option<&ColumnMap>> = names.iter().map(|name| self.columns.get(name)).collect();
        let missing = expected.preparation.map_or(&[][..], |preparation| &preparation.missing);
        let mut csv = CsvText::default();
        csv.row(rows.header.max(1), &names);
        // In a format without lines, row numbers do not count the header.
        let after = u64::from(rows.delimiter.is_none());
        while rows.next()? {
            let fields = (0..rows.len()).map(|at| {
                let field = rows.field(at);
                match (of.get(at), std::str::from_utf8(field)) {
                    (Some(Some(map)), Ok(text)) => map.apply(text, missing, expected.comma()).into_bytes(),
                    _ => field.to_owned(),
                }
            });
            csv.row(rows.line + after, fields);
        }
        Ok(Source::from_csv(file, csv))
    }
}

#[cfg(test)]
mod tests;
