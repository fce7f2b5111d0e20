//! Data: rows of numbers with a class each, read from CSV or IDX files, split and dealt to peers.
//!
//! What is read is checked once, here: every number is finite and below [`MAX_MAGNITUDE`], every row has the same number
//! of features, every label is a class of the session. Later stages rely on it (no NaN can arise in a projection).
//!
//! **Class names are text.** A label matches a class when the two are equal byte for byte after white space around them
//! is removed: `1.0` is not the class `1`. Where no class list is given it is made from the file: the distinct labels,
//! in numeric order if all of them are whole numbers, else in byte order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::bufread::MultiGzDecoder;

mod csv;
pub mod deal;
pub mod digits;
mod idx;
pub mod split;

/// Most features of a row: 2^20. A guess, far above the 3,072 of CIFAR.
pub const MAX_FEATURES: usize = 1 << 20;
/// Most rows of a data set: 2^23 - 1, so that the sums of `sketch::scaling` fit their words.
pub const MAX_ROWS: usize = (1 << 23) - 1;
/// Most numbers of a data set, rows x features: 2^31, that is 8 GiB.
pub const MAX_VALUES: usize = 1 << 31;
/// Most classes: an index fits u16 with room for "none".
pub const MAX_CLASSES: usize = u16::MAX as usize;
/// Longest class name, in bytes.
pub const MAX_CLASS_NAME: usize = 256;
/// Magnitudes stay below 2^80: a sum of 2^20 entries of a Walsh-Hadamard transform of 2^20 such numbers is below 2^120
/// and so finite in f32, and no infinity means no NaN.
pub const MAX_MAGNITUDE: f32 = (1u128 << 80) as f32;

/// Why data was refused. Nothing was kept.
#[derive(Debug, thiserror::Error)]
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
    #[error("{}, line {line}: {found} columns, expected {expected} as in the first line", file.display())]
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
        /// The line that shows it, from 1 (1 for IDX).
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
    /// An entry of an IDX file is not what it must be.
    #[error("{}: {what} is {found}, expected {expected}", file.display())]
    Idx {
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
    /// Rows given by a program, not a file, do not form a data set.
    #[error("not a data set: {0}")]
    Shape(String),
}

/// Rows of features, each with a class, or none of them with one.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    features: usize,
    values: Vec<f32>,
    labels: Vec<u16>,
    classes: Vec<String>,
}

impl Dataset {
    /// `values` is row-major, rows x `features`; `labels` is empty or has an index into `classes` for each row.
    ///
    /// # Errors
    /// [`DataError::Shape`] when lengths do not match, there is no row, a label is not below `classes.len()`, or a number
    /// is not finite or not below [`MAX_MAGNITUDE`].
    pub fn new(features: usize, values: Vec<f32>, labels: Vec<u16>, classes: Vec<String>) -> Result<Self, DataError> {
        let refuse = |problem: String| Err(DataError::Shape(problem));
        if features == 0 || features > MAX_FEATURES {
            return refuse(format!("{features} features, expected 1 to {MAX_FEATURES}"));
        }
        if values.is_empty() || !values.len().is_multiple_of(features) {
            return refuse(format!("{} values do not fill rows of {features}", values.len()));
        }
        let rows = values.len() / features;
        if rows > MAX_ROWS {
            return refuse(format!("{rows} rows, limit {MAX_ROWS}"));
        }
        if let Some(at) = values.iter().position(|&x| !magnitude_ok(x)) {
            return refuse(format!(
                "row {}, feature {} is {}, expected a number below 2^80",
                at / features,
                at % features,
                values[at]
            ));
        }
        if !labels.is_empty() && labels.len() != rows {
            return refuse(format!("{} labels for {rows} rows", labels.len()));
        }
        if let Some(label) = labels.iter().find(|&&l| usize::from(l) >= classes.len()) {
            return refuse(format!("label {label} with {} classes", classes.len()));
        }
        Ok(Self { features, values, labels, classes })
    }

    /// Numbers in a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of rows, at least 1 unless made by an empty [`Dataset::subset`].
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() / self.features
    }

    /// The features of row `i`, counted from 0.
    ///
    /// # Panics
    /// If `i` is not below [`Dataset::rows`].
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.features..(i + 1) * self.features]
    }

    /// All numbers, row-major, rows x features.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The class index of each row; empty when the data was loaded without labels.
    #[must_use]
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// Names of the classes, in the order of their indices.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The rows named by `rows`, in that order; repeats are allowed.
    ///
    /// # Panics
    /// If an index is not below [`Dataset::rows`].
    #[must_use]
    pub fn subset(&self, rows: &[usize]) -> Self {
        let mut values = Vec::with_capacity(rows.len() * self.features);
        for &i in rows {
            values.extend_from_slice(self.row(i));
        }
        let labels = if self.labels.is_empty() { Vec::new() } else { rows.iter().map(|&i| self.labels[i]).collect() };
        Self { features: self.features, values, labels, classes: self.classes.clone() }
    }

    /// The same labels with rows of `features` numbers, written by `f(row, place)`, which must keep them finite.
    pub(crate) fn map_rows(&self, features: usize, f: impl Fn(&[f32], &mut [f32])) -> Self {
        let mut values = vec![0.0; self.rows() * features];
        let rows = self.values.chunks_exact(self.features);
        rows.zip(values.chunks_exact_mut(features)).for_each(|(row, place)| f(row, place));
        Self { features, values, labels: self.labels.clone(), classes: self.classes.clone() }
    }

    /// Rows of each class, for `classes` classes; labels at or above it are not counted.
    #[must_use]
    pub fn class_counts(&self, classes: usize) -> Vec<u64> {
        let mut counts = vec![0; classes];
        for &label in &self.labels {
            if let Some(count) = counts.get_mut(usize::from(label)) {
                *count += 1;
            }
        }
        counts
    }
}

/// Which column of a CSV file holds the label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LabelColumn {
    /// The column of this name; the file must have a header.
    Name(String),
    /// The column of this number, from 1.
    Number(usize),
    /// The last column.
    #[default]
    Last,
    /// No column: all are features, and the rows have no labels.
    None,
}

impl FromStr for LabelColumn {
    type Err = String;

    /// `last`, `none`, a number from 1, `name:NAME`, or any other text as a name.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            "none" => Ok(Self::None),
            "" => Err("expected a column name, a number from 1, last or none".into()),
            _ if text.bytes().all(|b| b.is_ascii_digit()) => match text.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("column {text}: expected a number from 1 to {MAX_FEATURES}")),
            },
            _ => Ok(Self::Name(text.strip_prefix("name:").unwrap_or(text).to_owned())),
        }
    }
}

/// What the caller knows about a file before it is read.
#[derive(Debug, Clone, Default)]
pub struct Expected<'a> {
    /// Features per row, where known.
    pub features: Option<usize>,
    /// Class names in the order of their indices; made from the file where not given.
    pub classes: Option<&'a [String]>,
    /// Where the label is (CSV), or [`LabelColumn::None`] for rows without labels.
    pub label: LabelColumn,
    /// Whether the first line of a CSV file is a header; found out where not given, see [`load`].
    pub header: Option<bool>,
    /// The labels file that belongs to an IDX file.
    pub labels_file: Option<&'a Path>,
}

/// Reads a data file: IDX (first bytes 0 0) or CSV, either of them gzipped or not; all are told by content, not name.
///
/// CSV: commas, double quotes, LF or CRLF, one row a line, blank lines ignored. Unless said otherwise the first line is a header when
/// none of its feature fields is a number, and a row when all are; a mixture is refused, since to guess could lose a row.
///
/// # Errors
/// One [`DataError`], naming file, line and column, for the first thing that is wrong.
pub fn load(path: &Path, expected: &Expected) -> Result<Dataset, DataError> {
    let mut source = Source::open(path)?;
    if source.starts_with_zeros()? {
        let labels = match (expected.labels_file, &expected.label) {
            (_, LabelColumn::None) => None,
            (Some(labels), _) => Some(Source::open(labels)?),
            (None, _) => {
                return Err(DataError::Layout {
                    file: path.into(),
                    problem: "IDX images hold no labels, expected a labels file beside them (--labels)".into(),
                });
            }
        };
        return idx::read(source, labels, expected);
    }
    if expected.labels_file.is_some() {
        return Err(DataError::Layout {
            file: path.into(),
            problem: "a labels file goes with IDX images only, and this file is not IDX".into(),
        });
    }
    csv::read(source, expected)
}

/// A file or bytes in memory, unzipped as they are read.
struct Source {
    file: PathBuf,
    gzip: bool,
    reader: Box<dyn BufRead>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.file.display())
    }
}

impl Source {
    fn open(path: &Path) -> Result<Self, DataError> {
        let refuse = |source| DataError::Read { file: path.into(), source };
        let file = File::open(path).map_err(refuse)?;
        Self::new(path, Box::new(BufReader::with_capacity(1 << 16, file)))
    }

    fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Self, DataError> {
        Self::new(Path::new(name), Box::new(Cursor::new(bytes)))
    }

    fn new(path: &Path, mut inner: Box<dyn BufRead>) -> Result<Self, DataError> {
        let start = inner.fill_buf().map_err(|source| DataError::Read { file: path.into(), source })?;
        let gzip = start.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> =
            if gzip { Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(inner))) } else { inner };
        Ok(Self { file: path.into(), gzip, reader })
    }

    /// IDX magic numbers begin with two zero bytes; no text does.
    fn starts_with_zeros(&mut self) -> Result<bool, DataError> {
        let start = match self.reader.fill_buf() {
            Ok(start) => start.starts_with(&[0, 0]),
            Err(source) => return Err(self.failed(source)),
        };
        Ok(start)
    }

    /// The error for a failed read: a bad gzip stream is told apart from a bad disk.
    fn failed(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        if self.gzip && matches!(source.kind(), UnexpectedEof | InvalidData | InvalidInput) {
            DataError::Gzip { file: self.file.clone(), source }
        } else {
            DataError::Read { file: self.file.clone(), source }
        }
    }

    /// Up to `limit` bytes; memory grows with what is there, not with what a header declares.
    fn read_up_to(&mut self, limit: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        match (&mut self.reader).take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(self.failed(source)),
        }
    }
}

/// Finite and below [`MAX_MAGNITUDE`].
fn magnitude_ok(x: f32) -> bool {
    x.abs() < MAX_MAGNITUDE
}

/// Turns label texts into indices, against a given list or one made on the way.
#[derive(Debug)]
struct Labels {
    known: BTreeMap<String, usize>,
    given: bool,
    indices: Vec<usize>,
}

impl Labels {
    fn new(classes: Option<&[String]>) -> Self {
        let known = classes.unwrap_or(&[]).iter().enumerate().map(|(i, name)| (name.trim().to_owned(), i)).collect();
        Self { known, given: classes.is_some(), indices: Vec::new() }
    }

    /// Adds one trimmed label; on failure says what was expected.
    fn push(&mut self, text: &str) -> Result<(), String> {
        if let Some(&index) = self.known.get(text) {
            self.indices.push(index);
            return Ok(());
        }
        if self.given {
            let mut names: Vec<_> = self.known.iter().map(|(name, &i)| (i, name.as_str())).collect();
            names.sort_unstable();
            let shown: Vec<_> = names.iter().take(12).map(|&(_, name)| name).collect();
            let more = if names.len() > shown.len() { ", ..." } else { "" };
            return Err(format!("one of the {} classes {}{more}", names.len(), shown.join(", ")));
        }
        check_class_name(text)?;
        let index = self.known.len();
        if index >= MAX_CLASSES {
            return Err(format!("at most {MAX_CLASSES} classes"));
        }
        self.known.insert(text.to_owned(), index);
        self.indices.push(index);
        Ok(())
    }

    /// Class names in order, and the index of each row.
    fn finish(self) -> (Vec<String>, Vec<u16>) {
        let mut names: Vec<(String, usize)> = self.known.into_iter().collect();
        if self.given {
            names.sort_unstable_by_key(|&(_, index)| index);
        } else if names.iter().all(|(name, _)| name.parse::<i64>().is_ok()) {
            // Stable, so that "1" and "01" keep their byte order.
            names.sort_by_key(|(name, _)| name.parse::<i64>().unwrap_or_default());
        }
        let mut place = vec![0u16; names.len()];
        for (new, (_, old)) in (0u16..).zip(&names) {
            if let Some(place) = place.get_mut(*old) {
                *place = new;
            }
        }
        let labels = self.indices.iter().map(|&old| place.get(old).copied().unwrap_or_default()).collect();
        (names.into_iter().map(|(name, _)| name).collect(), labels)
    }
}

/// A class name is 1 to [`MAX_CLASS_NAME`] bytes without control characters and without white space around it.
///
/// # Errors
/// What was expected, as text.
pub fn check_class_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_CLASS_NAME || name.trim() != name || name.chars().any(char::is_control) {
        return Err(format!("a class name of 1 to {MAX_CLASS_NAME} bytes without control characters"));
    }
    Ok(())
}

/// A field as it is quoted in an error: escaped, at most 40 characters.
fn quoted(field: &[u8]) -> String {
    if field.is_empty() {
        return "nothing".into();
    }
    let text = String::from_utf8_lossy(field);
    let short: String = text.chars().take(40).collect();
    format!("{short:?}{}", if short.len() < text.len() { "..." } else { "" })
}

#[cfg(test)]
mod tests;
