//! Data: rows of numbers with a class each, read from files ([`Format`]), split and dealt to peers.
//!
//! What is read is checked once, here: every number is finite and below [`MAX_MAGNITUDE`], every row has the
//! same number of features, every label is a class of the session. Later stages rely on it (no NaN can arise
//! in a projection).
//!
//! **Class names are text.** A label matches a class when the two are equal byte for byte after white space
//! around them is removed, or are the same boolean (`True`, `true`) or whole number (`1.0`, `1`). Where no
//! class list is given it is made from the file: the distinct labels, in numeric order if all of them are
//! whole numbers, else in byte order.

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
pub use source::keep_pipe;

/// Most features of a row: 2^20. A guess, far above the 3,072 of CIFAR.
pub const MAX_FEATURES: usize = 1 << 20;
/// Most rows of a data set: 2^23 - 1, so that the sums of [`scaling`] fit their words.
pub const MAX_ROWS: usize = (1 << 23) - 1;
/// Most numbers of a data set, rows x features: 2^31, that is 8 GiB.
pub const MAX_VALUES: usize = 1 << 31;
/// Most classes: an index fits u16 with room for "none".
pub const MAX_CLASSES: usize = u16::MAX as usize;
/// Longest class name, in bytes.
pub const MAX_CLASS_NAME: usize = 256;
/// Magnitudes stay below 2^80: a sum of 2^20 entries of a Walsh-Hadamard transform of 2^20 such numbers is
/// below 2^120 and so finite in f32, and no infinity means no NaN.
pub const MAX_MAGNITUDE: f32 = (1u128 << 80) as f32;

/// Why data was refused. Nothing was kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file could not be opened or read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The gzip stream is damaged or ends too early.
    #[error("{}: damaged or truncated gzip stream: {source}", file.display())]
    Gzip {
        /// The file.
        file: PathBuf,
        /// What the decoder said.
        source: io::Error,
    },
    /// There is no row.
    #[error("{}: no rows{}", file.display(), if *header { " after the header" } else { ": the file is empty" })]
    NoRows {
        /// The file.
        file: PathBuf,
        /// Whether there was a header.
        header: bool,
    },
    /// One field is not what it must be.
    #[error("{}, line {line}, column {column}: found {found}, expected {expected}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: u64,
        /// From 1.
        column: usize,
        /// The field, shortened.
        found: String,
        /// What would have been right.
        expected: String,
    },
    /// A row has another number of columns than the first line.
    #[error("{}, line {line}: {found} columns, expected {expected} as in the first line{}", file.display(), row_names(*found, *expected))]
    Ragged {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: u64,
        /// Columns in this line.
        found: usize,
        /// Columns in the first line.
        expected: usize,
    },
    /// The file has another number of features than the session or model.
    #[error("{}, line {line}: {found} features{}, expected {expected}", file.display(), if *labelled { " beside the label" } else { " and no label column" })]
    Features {
        /// The file.
        file: PathBuf,
        /// The line that shows it, from 1.
        line: u64,
        /// Features in the file.
        found: usize,
        /// Features that were asked for.
        expected: usize,
        /// Whether a column was set aside as the label.
        labelled: bool,
    },
    /// The label column, header or labels file asked for does not fit the file.
    #[error("{}: {problem}", file.display())]
    Layout {
        /// The file.
        file: PathBuf,
        /// What does not fit and what would.
        problem: String,
    },
    /// An entry of a file that has no lines is not what it must be.
    #[error("{}: {what} is {found}, expected {expected}", file.display())]
    Entry {
        /// The file.
        file: PathBuf,
        /// Which entry.
        what: String,
        /// What the file says.
        found: String,
        /// What would have been right.
        expected: String,
    },
    /// A bound of this module is exceeded.
    #[error("{}: {what}: {found}, limit {limit}", file.display())]
    Limit {
        /// The file.
        file: PathBuf,
        /// What is bounded.
        what: &'static str,
        /// What was found.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// A table is not as its columns are described: all that is wrong with it.
    #[error(transparent)]
    Problems(Box<prepare::Problems>),
    /// Rows given by a program, not a file, do not form a data set.
    #[error("not a data set: {0}")]
    Shape(String),
}

/// What the caller knows about a file before it is read.
#[derive(Debug, Clone, Default)]
pub struct Expected<'a> {
    /// Features per row, where known.
    pub features: Option<usize>,
    /// How columns become features, where they are described; then `columns` and `limits` do not count.
    pub preparation: Option<&'a TableSchema>,
    /// Whether levels that are not described are counted ([`Loaded::unseen`]) and not refused.
    pub lenient: bool,
    /// How the file differs from what is described.
    pub dialect: Dialect,
    /// Names of the features in their order, where known: a file that has names must have these, in any
    /// order.
    pub columns: &'a [String],
    /// For each feature in the order of `columns` the smallest and the largest value that a row may have;
    /// empty where there are no limits.
    pub limits: &'a [(f64, f64)],
    /// Who gives these names, for errors.
    pub named_by: NamedBy,
    /// Class names in the order of their indices; made from the file where not given.
    pub classes: Option<&'a [String]>,
    /// Whether the label of a row may be missing; see [`Loaded::labels`].
    pub partly: bool,
    /// Where the label is, or [`LabelColumn::None`] for rows without labels.
    pub label: LabelColumn,
    /// The column of the rows' groups for a draft; where columns are described, their description says it.
    pub group: Option<&'a str>,
    /// Columns that are left out.
    pub drop: &'a [Column],
    /// Whether the first line of a CSV file is a header; found out where not given, see [`load`].
    pub header: Option<bool>,
    /// The NPY file of labels that belongs to an NPY file.
    pub labels_file: Option<&'a Path>,
    /// The array of features in an NPZ file; `X` where not given.
    pub array: Option<&'a str>,
    /// The sheet of a workbook; needed where several have rows.
    pub sheet: Option<&'a str>,
    /// How the site's own file becomes the table that was agreed on.
    pub site: Option<&'a site::SiteMap>,
    /// The format; found out where not given.
    pub format: Option<Format>,
}

/// Who says what the columns are called.
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

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The rows; without labels and classes where [`Expected::partly`].
    pub data: Dataset,
    /// Where [`Expected::partly`], of each row the index of its class, or nothing; else empty.
    pub labels: Vec<Option<u16>>,
    /// Names of the features, in the order of the rows; empty where the file has none.
    pub columns: Vec<String>,
    /// Whether the columns were brought into the order of [`Expected::columns`].
    pub reordered: bool,
    /// Columns of the file that no description names; they are no features.
    pub left_out: Vec<String>,
    /// Levels that are not described; where [`Expected::lenient`].
    pub unseen: Vec<Unseen>,
    /// Missing values that wait for what the peers add up, in the order of the rows.
    pub gaps: Vec<prepare::MissingCell>,
}

impl Loaded {
    /// What stands out in the rows: one word for machines, and a line; see [`mod@notices`].
    #[must_use]
    pub fn notices(&self, expected: &Expected) -> Vec<(&'static str, String)> {
        let names = if self.columns.is_empty() { expected.columns } else { &self.columns };
        notices::lines(&notices::of(&self.data, names, expected.preparation))
    }
}

/// Reads a data file; see [`Format`] for what is read and how it is told.
///
/// # Errors
/// One [`DataError`], naming file and line or array, for the first thing that is wrong.
pub fn load(path: &Path, expected: &Expected) -> Result<Dataset, DataError> {
    load_named(path, expected).map(|loaded| loaded.data)
}

/// As [`load`], with the names of the columns.
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
            "the group column {group:?} needs described columns, and this file is read as numbers: save it as a \
             table with names of columns (CSV, Excel, JSON lines, Parquet)"
        );
        return Err(DataError::Layout { file: path.into(), problem });
    }
    let loaded = match format {
        // Looks at the limits line by line.
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

/// The texts of a column of a CSV file with so many rows, for columns that are no features: names or numbers
/// of rows.
///
/// # Errors
/// [`DataError`], also where the file is of another format, or has no such column.
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
        let problem =
            format!("ids of rows come from a column of a table with names, and this file is {format}");
        return Err(DataError::Layout { file: path.into(), problem });
    }
    csv::texts_of(source, column, rows, expected.dialect.delimiter)
}

/// A digest of an NPZ archive: SHA-256 of the tag `flyswarm/5 npz\0` and of each array in the order of the
/// names: the name's length (64 bits, little-endian), the name, and SHA-256 of its NPY file. How and when the
/// archive is packed does not count.
///
/// # Errors
/// [`DataError`] where the file cannot be read or is damaged.
pub fn npz_digest(path: &Path) -> Result<[u8; 32], DataError> {
    npz::digest(path)
}

impl<'a> Expected<'a> {
    /// Whether decimals follow a comma.
    fn comma(&self) -> bool {
        let agreed = || self.preparation.is_some_and(|preparation| preparation.decimal_comma);
        self.dialect.decimal_comma.unwrap_or_else(agreed)
    }

    /// All names by which described columns may be found.
    fn known(&self) -> BTreeSet<&'a str> {
        let Some(preparation) = self.preparation else { return BTreeSet::new() };
        let own = self.site.into_iter().flat_map(|site| site.rename.keys()).map(String::as_str);
        let described = preparation.columns.iter().map(|column| &*column.name);
        let others = [&preparation.label, &preparation.group].into_iter().flatten().map(String::as_str);
        described.chain(others).chain(own).collect()
    }

    /// The first feature of a row that is outside its limits, and these.
    fn outside(&self, row: &[f32]) -> Option<(usize, String)> {
        let mut limits = row.iter().zip(self.limits);
        let at = limits.position(|(&x, (lo, hi))| !(*lo..=*hi).contains(&f64::from(x)))?;
        let (lo, hi) = self.limits[at];
        Some((at, format!("{lo} to {hi}, the limits of the session")))
    }
}

/// What a row with one field more than the header may be.
fn row_names(found: usize, header: usize) -> &'static str {
    if found == header + 1 {
        "; names of rows as R writes them have no name: write.csv(..., row.names = FALSE)"
    } else {
        ""
    }
}

/// Finite and below [`MAX_MAGNITUDE`].
fn magnitude_ok(x: f32) -> bool {
    x.abs() < MAX_MAGNITUDE
}

#[cfg(test)]
mod tests;
