//! Data: rows of numbers with a class each, read from files ([`Format`]), split and dealt to peers.
//!
//! This crate checks all data once, when it is read. Every number is finite and below [`MAX_MAGNITUDE`],
//! every row has the same number of features, and every label is a class of the session. Later stages rely
//! on it: no NaN can arise in a projection.
//!
//! **Class names are text.** White space around a label is removed. A label matches a class if both are
//! equal byte for byte, or if both are the same boolean (`True`, `true`) or whole number (`1.0`, `1`). If
//! no class list is given, it is made from the distinct labels of the file. They are in numeric order if
//! all of them are whole numbers, and in byte order otherwise.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

mod columns;
mod csv;
mod dataset;
pub mod deal;
pub mod digits;
mod format;
pub mod groups;
mod labels;
pub mod notices;
mod npy;
mod npz;
mod parquet;
pub mod prepare;
pub mod scaling;
pub mod site;
mod source;
pub mod split;
mod xlsx;

pub use columns::{Column, LabelColumn};
pub use dataset::{Borrowed, Dataset};
pub use format::Format;
pub use groups::Group;
pub use labels::check_class_name;
use labels::{Labels, quoted, whole};
use prepare::TableSchema;
use prepare::read::{Dialect, Unseen};
use source::Source;
pub use source::{Contents, keep_pipe};

/// Most features of a row: 2^20. An estimate, far above the 3,072 of CIFAR.
pub const MAX_FEATURES: usize = 1 << 20;
/// Most rows of a data set: 2^23 - 1, so that the sums of [`scaling`] fit their words.
pub const MAX_ROWS: usize = (1 << 23) - 1;
/// Most numbers of a data set, rows x features: 2^31, which is 8 GiB.
pub const MAX_VALUES: usize = 1 << 31;
/// Most classes. An index fits a u16 and leaves one value for "none".
pub const MAX_CLASSES: usize = u16::MAX as usize;
/// Longest class name, in bytes.
pub const MAX_CLASS_NAME: usize = 256;
/// Limit of magnitudes: 2^80. A sum of 2^20 entries of a Walsh-Hadamard transform of 2^20 such numbers is
/// below 2^120. So it is finite in f32, and without infinities there is no NaN.
pub const MAX_MAGNITUDE: f32 = (1u128 << 80) as f32;

/// Reason why data was refused. No data was kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file could not be opened or read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The gzip stream is damaged or ends too early.
    #[error("{}: damaged or truncated gzip stream: {source}", file.display())]
    Gzip {
        /// The file.
        file: PathBuf,
        /// The error of the decoder.
        source: io::Error,
    },
    /// The file has no rows.
    #[error("{}: no rows{}", file.display(), if *header { " after the header" } else { ": the file is empty" })]
    NoRows {
        /// The file.
        file: PathBuf,
        /// True if the file has a header.
        header: bool,
    },
    /// A field has a wrong value.
    #[error("{}, line {line}, column {column}: found {found}, expected {expected}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Column number, from 1.
        column: usize,
        /// The field, shortened.
        found: String,
        /// The value that was expected.
        expected: String,
    },
    /// A row has a different number of columns than the first line.
    #[error("{}, line {line}: {found} columns, expected {expected} as in the first line{}", file.display(), row_names(*found, *expected))]
    Ragged {
        /// The file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Columns in this line.
        found: usize,
        /// Columns in the first line.
        expected: usize,
    },
    /// The file has a different number of features than the session or model.
    #[error("{}, line {line}: {found} features{}, expected {expected}", file.display(), if *labelled { " in addition to the label" } else { " and no label column" })]
    Features {
        /// The file.
        file: PathBuf,
        /// The line that shows the number of features, from 1.
        line: u64,
        /// Features in the file.
        found: usize,
        /// Features that were expected.
        expected: usize,
        /// True if one of the columns is the label.
        labelled: bool,
    },
    /// The requested label column, header or labels file does not fit the file.
    #[error("{}: {problem}", file.display())]
    Layout {
        /// The file.
        file: PathBuf,
        /// Description of the problem, and of a file that would fit.
        problem: String,
    },
    /// An entry of a file without lines has a wrong value.
    #[error("{}: {what} is {found}, expected {expected}", file.display())]
    Entry {
        /// The file.
        file: PathBuf,
        /// Name of the entry.
        what: String,
        /// The value in the file.
        found: String,
        /// The value that was expected.
        expected: String,
    },
    /// A limit of this crate is exceeded.
    #[error("{}: {what}: {found}, limit {limit}", file.display())]
    Limit {
        /// The file.
        file: PathBuf,
        /// Name of the limited quantity.
        what: &'static str,
        /// The quantity found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A table does not match the description of its columns: all problems found.
    #[error(transparent)]
    Problems(Box<prepare::Problems>),
    /// Rows from a program, not from a file, do not form a data set.
    #[error("not a data set: {0}")]
    Shape(String),
}

/// Facts about a file that the caller knows before it is read.
#[derive(Debug, Clone, Default)]
pub struct Expected<'a> {
    /// Features per row, if known.
    pub features: Option<usize>,
    /// How columns become features, if they are described; then `columns` and `limits` are ignored.
    pub preparation: Option<&'a TableSchema>,
    /// If true, undescribed levels of categories, but not of ordinals, are counted ([`Loaded::unseen`]) and
    /// not refused, and the group column may be missing.
    pub lenient: bool,
    /// Differences between the spelling of the file and its description.
    pub dialect: Dialect,
    /// Names of the features in their order, if known. A file with names must have these names, in any
    /// order.
    pub columns: &'a [String],
    /// The smallest and the largest allowed value of each feature, in the order of `columns`; empty if
    /// there are no limits.
    pub limits: &'a [(f64, f64)],
    /// Source of these names, for errors.
    pub named_by: NamedBy,
    /// Class names in the order of their indices; made from the file if not given.
    pub classes: Option<&'a [String]>,
    /// True if the label of a row may be missing; see [`Loaded::labels`].
    pub partly: bool,
    /// The label column, or [`LabelColumn::None`] for rows without labels.
    pub label: LabelColumn,
    /// Column with the groups of the rows, for a draft. If columns are described, their description names
    /// it.
    pub group: Option<&'a str>,
    /// Columns to drop.
    pub drop: &'a [Column],
    /// True if the first line of a CSV file is a header; detected if not given, see [`Format::Csv`].
    pub header: Option<bool>,
    /// The NPY file of labels that belongs to an NPY file.
    pub labels_file: Option<&'a Path>,
    /// Name of the array of features in an NPZ file; `X` if not given.
    pub array: Option<&'a str>,
    /// Name of the sheet of a workbook; required if several sheets have rows.
    pub sheet: Option<&'a str>,
    /// Map from the peer's own file to the agreed table.
    pub site: Option<&'a site::SiteMap>,
    /// The format; detected if not given.
    pub format: Option<Format>,
    /// Bytes that are read instead of the file, as text or NPZ. The path is then only their name.
    pub contents: Option<&'a Contents>,
}

/// Source of the expected column names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NamedBy {
    /// A session file.
    #[default]
    SessionFile,
    /// A model.
    Model,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionFile => "the session file",
            Self::Model => "the model",
        })
    }
}

/// Contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The rows; without labels and classes if [`Expected::partly`].
    pub data: Dataset,
    /// The class index of each row, or `None`, if [`Expected::partly`]; empty otherwise.
    pub labels: Vec<Option<u16>>,
    /// Names of the features, in the order of the rows; empty if the file has no names.
    pub columns: Vec<String>,
    /// True if the columns were put into the order of [`Expected::columns`].
    pub reordered: bool,
    /// Columns of the file that are not described; they do not become features.
    pub left_out: Vec<String>,
    /// Levels that are not described, if [`Expected::lenient`].
    pub unseen: Vec<Unseen>,
    /// Missing values that are filled later from the sums of all peers, in the order of the rows.
    pub gaps: Vec<prepare::MissingCell>,
}

impl Loaded {
    /// Returns notable findings about the rows: a keyword for programs and a line of text each; see
    /// [`mod@notices`].
    #[must_use]
    pub fn notices(&self, expected: &Expected) -> Vec<(&'static str, String)> {
        let names = if self.columns.is_empty() { expected.columns } else { &self.columns };
        notices::lines(&notices::of(&self.data, names, expected.preparation))
    }
}

/// Reads a data file; see [`Format`] for the formats and their detection.
///
/// # Errors
/// One [`DataError`] for the first problem, with the file and the line or array.
pub fn load(path: &Path, expected: &Expected) -> Result<Dataset, DataError> {
    load_named(path, expected).map(|loaded| loaded.data)
}

/// Reads a data file like [`load`], and returns the names of the columns too.
///
/// # Errors
/// As [`load`].
pub fn load_named(path: &Path, expected: &Expected) -> Result<Loaded, DataError> {
    let (source, format) = site::opened(path, expected)?;
    if expected.preparation.is_some() {
        return prepare::read::read(source, expected, format);
    }
    if let Some(group) = expected.group {
        let problem = format!(
            "the group column {group:?} needs described columns, and this file is read as numbers: save \
             it as a table with column names (CSV, Excel, JSON lines, Parquet)"
        );
        return Err(DataError::Layout { file: path.into(), problem });
    }
    let loaded = match format {
        // Checks the limits line by line.
        Format::Csv => return csv::read(source, expected),
        Format::Npy => npy::read(source, expected),
        Format::Npz => npz::read(source, expected),
        Format::Parquet => parquet::read(source, expected),
        Format::Xlsx => return Err(xlsx::not_a_table(path)),
    }?;
    for row in 0..loaded.data.rows() {
        if let Some((at, limit)) = expected.outside(loaded.data.row(row)) {
            let name = expected.columns.get(at).map_or_else(|| format!("feature {}", at + 1), Clone::clone);
            return Err(DataError::Entry {
                file: path.into(),
                what: format!("{name} of row {}", row + 1),
                found: loaded.data.row(row)[at].to_string(),
                expected: limit,
            });
        }
    }
    Ok(loaded)
}

/// Returns the texts of one column of a CSV file with `rows` rows. Use it for columns that are not
/// features, such as names or numbers of rows.
///
/// # Errors
/// [`DataError`], also if the file has another format or has no such column.
pub fn column_texts(
    path: &Path,
    column: &Column,
    rows: usize,
    expected: &Expected,
) -> Result<Vec<String>, DataError> {
    let (source, format) = site::opened(path, expected)?;
    if expected.preparation.is_some() {
        return prepare::read::texts(source, format, column, rows, expected);
    }
    if format != Format::Csv {
        let problem = format!(
            "the ids of rows can be read only from a table with column names, but this file is {format}"
        );
        return Err(DataError::Layout { file: path.into(), problem });
    }
    csv::texts_of(source, column, rows, expected.dialect.delimiter)
}

/// Returns a digest of an NPZ archive.
///
/// It is SHA-256 of the tag `flyswarm/5 npz\0` and of each array in the order of the names: the name's
/// length (64 bits, little-endian), the name, and SHA-256 of its NPY file. The compression and the date of
/// the archive do not change it.
///
/// # Errors
/// [`DataError`] if the file cannot be read or is damaged.
pub fn npz_digest(path: &Path) -> Result<[u8; 32], DataError> {
    npz::digest(path)
}

impl<'a> Expected<'a> {
    /// Returns whether a decimal comma is used.
    fn comma(&self) -> bool {
        let agreed = || self.preparation.is_some_and(|preparation| preparation.decimal_comma);
        self.dialect.decimal_comma.unwrap_or_else(agreed)
    }

    /// Returns all names that described columns may have in the file.
    fn known(&self) -> BTreeSet<&'a str> {
        let Some(preparation) = self.preparation else { return BTreeSet::new() };
        let own = self.site.into_iter().flat_map(|site| site.rename.keys()).map(String::as_str);
        let described = preparation.columns.iter().map(|column| &*column.name);
        let others = [&preparation.label, &preparation.group].into_iter().flatten().map(String::as_str);
        described.chain(others).chain(own).collect()
    }

    /// Returns the first feature of a row that is outside its limits, and the limits as text.
    fn outside(&self, row: &[f32]) -> Option<(usize, String)> {
        let mut limits = row.iter().zip(self.limits);
        let at = limits.position(|(&x, (lo, hi))| !(*lo..=*hi).contains(&f64::from(x)))?;
        let (lo, hi) = self.limits[at];
        Some((at, format!("{lo} to {hi}, the limits of the session")))
    }
}

/// Returns a hint for a row with one field more than the header: it may start with a row name.
fn row_names(found: usize, header: usize) -> &'static str {
    if found == header + 1 {
        "; the column of row names that R writes has no name: use write.csv(..., row.names = FALSE)"
    } else {
        ""
    }
}

/// Returns whether `x` is finite and below [`MAX_MAGNITUDE`].
fn magnitude_ok(x: f32) -> bool {
    x.abs() < MAX_MAGNITUDE
}

#[cfg(test)]
mod tests;
