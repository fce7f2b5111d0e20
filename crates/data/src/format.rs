//! Which format a file has.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{DataError, Source};

/// A format of data files. Unless it is given, the first bytes decide.
///
/// In every format each feature is a finite number below 2^80 in magnitude and becomes a binary32; a column
/// that is no number is the label or left out, or the file is refused with the column's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Commas, double quotes, LF or CRLF, one row a line, blank lines ignored; gzipped or not. Unless said
    /// otherwise the first line is a header when none of its feature fields is a number (or one is a name
    /// that is expected), and a row when all are; a mixture is refused, since to guess could lose a row. Any
    /// text that is none of the others is taken for CSV.
    Csv,
    /// One numeric array of NumPy, rows x columns; gzipped or not. Labels are a column, or come from a file
    /// of their own; then an array of more dimensions is rows of all the rest.
    Npy,
    /// Arrays of NumPy: features in `X` (rows first), labels in `y`, if it is there names of the features in
    /// `columns`.
    Npz,
    /// Apache Parquet with flat columns; uncompressed, Snappy, Zstandard or gzip inside.
    Parquet,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Csv, Self::Npy, Self::Npz, Self::Parquet];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Parquet => "parquet",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Self::ALL;
        let found = all.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("expected {}", all.map(Self::name).join(", ")))
    }
}

/// The first bytes of a format that is not text.
const MAGIC: [(&[u8], Format); 4] = [
    (b"\x93NUMPY", Format::Npy),
    (b"PK\x03\x04", Format::Npz),
    (b"PK\x05\x06", Format::Npz),
    (b"PAR1", Format::Parquet),
];

/// Finds the format by the first bytes.
pub(super) fn detect(source: &Source) -> Result<Format, DataError> {
    let head = &source.head;
    if let Some(&(_, format)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Ok(format);
    }
    let name = match extension(&source.file) {
        Some(gz) if gz == "gz" => source.file.file_stem().and_then(|name| extension(Path::new(name))),
        other => other,
    };
    match name.as_deref() {
        Some(name @ ("npy" | "npz" | "parquet")) => {
            let start = &head[..head.len().min(6)];
            let problem = format!(
                "its name ends in .{name} but it begins with {start:02x?}: damaged, or of another format (`format` in the map file names it)"
            );
            Err(DataError::Layout { file: source.file.clone(), problem })
        }
        _ => Ok(Format::Csv),
    }
}

fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase)
}
