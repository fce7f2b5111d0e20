//! `--map FILE`: a file that describes how to read the rows of one site.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::data::site::{ColumnMap, SiteMap};
use crate::data::{Column, Contents, Dialect, Expected, Format, LabelColumn};

/// Largest map file that is read, in bytes.
const LIMIT: u64 = 1 << 20;
/// Percentage of the labels that may be held out.
const HOLD_OUT: std::ops::RangeInclusive<u8> = 1..=50;

/// Fields of a map file. If a field is absent, its value is found from the rows, or taken from the session or
/// model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Map {
    /// True if the first line of a CSV file is a header.
    pub(crate) header: Option<bool>,
    /// Delimiter between the columns of a CSV file.
    #[serde(deserialize_with = "delimiter_of")]
    pub(crate) delimiter: Option<u8>,
    /// True if numbers have a decimal comma.
    pub(crate) decimal_comma: Option<bool>,
    /// Columns to leave out.
    #[serde(deserialize_with = "columns_of")]
    pub(crate) drop: Vec<Column>,
    /// Format of the file.
    #[serde(deserialize_with = "format_of")]
    pub(crate) format: Option<Format>,
    /// Name of the array of features in an NPZ file.
    pub(crate) array: Option<String>,
    /// Name of the sheet of a workbook.
    pub(crate) sheet: Option<String>,
    /// File of the labels, if they are in another file. A relative path begins at the folder of the map file.
    pub(crate) labels: Option<PathBuf>,
    /// Percentage of the labels that are hidden from a session of the task xclp, to measure its
    /// accuracy. For the other peers these rows have no label, and only this peer sees the figures.
    pub(crate) hold_out: Option<u8>,
    /// For a column's name in the file, its name in the session.
    pub(crate) rename: BTreeMap<String, String>,
    /// For a column's name in the session, how the column in the file differs.
    pub(crate) columns: BTreeMap<String, ColumnFields>,
    /// Contents of `rename` and `columns`.
    #[serde(skip)]
    pub(crate) site: SiteMap,
    /// SHA-256 of the map file, in hexadecimal digits.
    #[serde(skip)]
    pub(crate) digest: Option<String>,
    /// Contents of the file of rows, if it is only in memory.
    #[serde(skip)]
    pub(crate) contents: Option<Contents>,
}

/// Fields of a column in a map file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnFields {
    #[serde(default, deserialize_with = "texts_of")]
    values: BTreeMap<String, String>,
    date: Option<String>,
    factor: Option<f64>,
    offset: Option<f64>,
    fill: Option<Scalar>,
}

/// A value of a column. Numbers and booleans are converted to texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Whole(i64),
    Number(f64),
    Truth(bool),
}

impl From<Scalar> for String {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => text,
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Truth(value) => value.to_string(),
        }
    }
}

impl ColumnFields {
    fn checked(self, name: &str) -> Result<ColumnMap, String> {
        let Self { values, date, factor, offset, fill } = self;
        if factor.is_some_and(|factor| !factor.is_normal())
            || offset.is_some_and(|offset| !offset.is_finite())
        {
            return Err(format!(
                "columns.{name}: factor must be a finite number other than 0, offset a finite number"
            ));
        }
        let date = date.map(|date| date.parse().map_err(|error| format!("columns.{name}.date: {error}")));
        Ok(ColumnMap { values, date: date.transpose()?, factor, offset, fill: fill.map(String::from) })
    }
}

/// Empty map.
pub(crate) static NOTHING: Map = Map {
    header: None,
    delimiter: None,
    decimal_comma: None,
    drop: Vec::new(),
    format: None,
    array: None,
    sheet: None,
    labels: None,
    hold_out: None,
    rename: BTreeMap::new(),
    columns: BTreeMap::new(),
    site: SiteMap { rename: BTreeMap::new(), columns: BTreeMap::new() },
    digest: None,
    contents: None,
};

impl Default for Map {
    fn default() -> Self {
        NOTHING.clone()
    }
}

impl Map {
    pub(crate) fn load(name: &str) -> Result<Self, String> {
        let path = Path::new(name);
        let failed = |error: std::io::Error| error.to_string();
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(file, LIMIT), &mut text).map_err(failed)?;
        let mut map: Self = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(text.len(), |span| span.start);
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let words: Vec<_> = error.message().split_whitespace().collect();
            format!("line {line}: {}", words.join(" "))
        })?;
        if let Some(percent) = map.hold_out.filter(|percent| !HOLD_OUT.contains(percent)) {
            return Err(format!("hold_out is {percent}, must be 1 to 50"));
        }
        let mut targets = BTreeSet::new();
        if let Some(twice) = map.rename.values().find(|name| !targets.insert(name.as_str())) {
            return Err(format!("rename: several columns become {twice:?}, expected one"));
        }
        let columns = std::mem::take(&mut map.columns).into_iter();
        let columns = columns.map(|(name, fields)| Ok((name.clone(), fields.checked(&name)?)));
        map.site = SiteMap {
            columns: columns.collect::<Result<_, String>>()?,
            rename: std::mem::take(&mut map.rename),
        };
        map.digest = Some(hex::encode(Sha256::digest(&text)));
        let folder = path.parent().unwrap_or(Path::new(""));
        map.labels = map.labels.map(|labels| folder.join(labels));
        Ok(map)
    }

    /// Returns what is expected of a file, without the expectations of a session or model.
    pub(crate) fn expected(&self, label: &LabelColumn) -> Expected<'_> {
        Expected {
            label: label.clone(),
            drop: &self.drop,
            header: self.header,
            labels_file: self.labels.as_deref(),
            array: self.array.as_deref(),
            sheet: self.sheet.as_deref(),
            site: Some(&self.site),
            format: self.format,
            contents: self.contents.as_ref(),
            dialect: Dialect { delimiter: self.delimiter, decimal_comma: self.decimal_comma },
            ..Expected::default()
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "," | ";" | "|" | "\t" => Ok(text.as_bytes()[0]),
        "tab" | "\\t" => Ok(b'\t'),
        _ => Err("expected \",\", \";\", \"|\" or tab".into()),
    }
}

fn delimiter_of<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    delimiter(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

fn texts_of<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let texts = BTreeMap::<String, Scalar>::deserialize(from)?.into_iter();
    Ok(texts.map(|(from, to)| (from, to.into())).collect())
}

fn format_of<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Format>, D::Error> {
    Format::from_str(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

/// Reads columns by name, or by number from 1.
fn columns_of<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Column>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        Number(std::num::NonZeroU32),
        Name(String),
    }
    let columns = Vec::<Named>::deserialize(from)?.into_iter().map(|column| match column {
        Named::Number(number) => Column::Number(number.get() as usize),
        Named::Name(name) => Column::Name(name),
    });
    Ok(columns.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Map, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.toml");
        std::fs::write(&path, text).unwrap();
        Map::load(path.to_str().unwrap())
    }

    #[test]
    fn a_map_file_says_how_rows_are_read_and_labels_lie_beside_it() {
        let text = "header = false\ndelimiter = \"tab\"\ndecimal_comma = true\ndrop = [\"id\", 3]\nformat = \"csv\"\n\
                    array = \"X\"\nlabels = \"y.npy\"\nhold_out = 20\n";
        let map = load(text).unwrap();
        let expected = map.expected(&LabelColumn::Last);
        assert_eq!((expected.header, expected.format), (Some(false), Some(Format::Csv)));
        assert_eq!((expected.dialect.delimiter, expected.dialect.decimal_comma), (Some(b'\t'), Some(true)));
        assert_eq!(expected.drop, [Column::Name("id".into()), Column::Number(3)]);
        let labels = expected.labels_file.unwrap();
        assert!(labels.is_absolute() && labels.ends_with("y.npy"), "{labels:?}");
        assert_eq!((expected.array, map.hold_out), (Some("X"), Some(20)));
    }

    #[test]
    fn a_map_file_says_how_columns_differ() {
        let text = "sheet = \"Visits\"\n[rename]\nGewicht = \"weight\"\n[columns.weight]\nfactor = 0.5\noffset = -1\nfill = 70\n\
                    [columns.sex.values]\n1 = \"f\"\nx = true\n[columns.seen]\ndate = \"dd.mm.yy\"\n";
        let map = load(text).unwrap();
        let expected = map.expected(&LabelColumn::Last);
        let site = expected.site.unwrap();
        assert_eq!((expected.sheet, &*site.rename["Gewicht"]), (Some("Visits"), "weight"));
        let weight = &site.columns["weight"];
        assert_eq!(
            (weight.factor, weight.offset, weight.fill.as_deref()),
            (Some(0.5), Some(-1.0), Some("70"))
        );
        assert_eq!((&*site.columns["sex"].values["1"], &*site.columns["sex"].values["x"]), ("f", "true"));
        assert_eq!(site.columns["seen"].date.as_ref().unwrap().to_string(), "dd.mm.yy");
        assert_eq!(map.digest.as_deref(), Some(&*hex::encode(Sha256::digest(text))));
    }

    #[test]
    fn what_is_wrong_in_a_map_file_is_named_on_one_line() {
        for (text, told) in [
            ("[rename]\na = \"x\"\nb = \"x\"\n", "rename: several columns become \"x\""),
            ("[columns.x]\nfactor = 0\n", "columns.x: factor must be a finite number other than 0"),
            (
                "[columns.x]\ndate = \"TT.MM.JJJJ\"\n",
                "columns.x.date: \"TT.MM.JJJJ\": expected day, month and year",
            ),
            ("[columns.x]\nscale = 1\n", "line 2: unknown field `scale`"),
            ("headre = true\n", "line 1: unknown field `headre`"),
            ("header = true\ndelimiter = \"x\"\n", "line 2: expected \",\", \";\", \"|\" or tab"),
            ("drop = [0]\n", "line 1: "),
            ("hold_out = 51\n", "hold_out is 51, must be 1 to 50"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(told) && error.lines().count() == 1, "{error}");
        }
        assert!(Map::load("none.toml").unwrap_err().contains("No such file"));
    }
}
