//! Detects the format of a file.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{DataError, Source};

/// A format of data files. Unless the caller names the format, the first bytes decide.
///
/// In every format each feature is a finite number below 2^80 in magnitude and becomes a binary32. A
/// column without numbers must be the label or be dropped; otherwise the file is refused and the error
/// names the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Commas, double quotes, LF or CRLF, one row a line, blank lines ignored; gzipped or not.
    ///
    /// Unless the caller says otherwise, the first line is a header if none of its feature fields is a
    /// number or one of them is an expected name. It is a row if all of them are numbers. A mixture is
    /// refused, because a guess could lose a row. Text of an unknown format is read as CSV.
    Csv,
    /// One numeric array of NumPy, rows x columns; gzipped or not. The labels are a column, or come from a
    /// separate file. With a separate file, the array may have more dimensions; then each entry of the
    /// first dimension is a row.
    Npy,
    /// Arrays of NumPy: features in `X` (rows first), labels in `y`, and optional names of the features in
    /// `columns`.
    Npz,
    /// Apache Parquet with flat columns; uncompressed, Snappy, Zstandard or gzip inside.
    Parquet,
    /// A sheet of an Excel workbook. Its cells are read like the same cells in CSV.
    Xlsx,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Csv, Self::Npy, Self::Npz, Self::Parquet, Self::Xlsx];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Parquet => "parquet",
            Self::Xlsx => "xlsx",
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

/// First bytes of the supported formats that are neither text nor ZIP archives.
const MAGIC: [(&[u8], Format); 2] = [(b"\x93NUMPY", Format::Npy), (b"PAR1", Format::Parquet)];

/// First bytes of unsupported formats, and what the user can do.
const OTHERS: &[(&[u8], &str)] = &[
    (b"\xfd7zXZ\0", "compressed by xz: unpack it (unxz)"),
    (b"\x28\xb5\x2f\xfd", "compressed by Zstandard: unpack it (unzstd)"),
    (b"BZh91AY&SY", "compressed by bzip2: unpack it (bunzip2)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it"),
    (b"Rar!\x1a\x07", "a RAR archive: unpack it"),
    (b"ARROW1", FEATHER),
    (b"FEA1", FEATHER),
    (b"Obj\x01", "an Avro file: save it as CSV or Parquet"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file: save its table as CSV or Parquet"),
    (b"SQLite format 3\0", "an SQLite database: export a table as CSV"),
    (b"<stata_dta>", STATA),
    (b"HEADER RECORD*******", SAS),
    (b"\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea\x81\x60", SAS),
    (b"$FL2", SPSS),
    (b"$FL3", SPSS),
    (b"RDX2\n", R),
    (b"RDX3\n", R),
    (b"X\n\0\0\0", R),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an Excel workbook of the old kind (.xls): save it as .xlsx or CSV UTF-8",
    ),
    (b"%PDF-", "a PDF: export the table as CSV"),
    (b"{\\rtf", "a text document (RTF): export the table as CSV"),
    (b"version https://git-lfs.github.com/", "a Git LFS pointer, not the file itself: git lfs pull"),
    (b"RDA2\n", R),
    (b"RDA3\n", R),
    (b"ASCII SPSS PORT FILE", SPSS),
    (b"@relation", "an ARFF file: save it as CSV"),
    (b"@RELATION", "an ARFF file: save it as CSV"),
    (b"(dp0\n", PICKLE),
    (b"(lp0\n", PICKLE),
    (b"ccopy_reg\n", PICKLE),
    (b"cnumpy", PICKLE),
    (b"cpandas", PICKLE),
    (b"\x04\x22\x4d\x18", "compressed by LZ4: unpack it (unlz4)"),
    (b"\xff\x06\0\0sNaPpY", "compressed by Snappy: unpack it"),
    (b"\x1f\x9d", "compressed by compress: unpack it (uncompress)"),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file: save its table as CSV (writetable)"),
    (b"\0\x01\0\0Standard ", "an Access database: export a table as CSV"),
    (b"\x89PNG", IMAGE),
    (b"\xff\xd8\xff", IMAGE),
    (b"\xff\xfe", UTF16),
    (b"\xfe\xff", UTF16),
];
const PICKLE: &str = "a pickle of Python, never opened here: save it as Parquet or CSV";
const IMAGE: &str = "an image: rows are read from tables only";
const HTML: &str = "a page of HTML, perhaps a login page instead of the file: download or export it again";
const BINARY: &str =
    "binary data or damaged, not a table as text: save the table as CSV UTF-8, .xlsx or Parquet";
const FEATHER: &str = "a Feather (Arrow) file: save it as Parquet (df.to_parquet) or CSV";
const STATA: &str = "a Stata file: save it as CSV (export delimited)";
const SAS: &str = "a SAS file: save it as CSV (proc export)";
const SPSS: &str = "an SPSS file: save it as CSV";
const R: &str = "an R object: save it as CSV (write.csv(..., row.names = FALSE))";
const UTF16: &str = "UTF-16 text: save it as UTF-8 (in a spreadsheet: \"CSV UTF-8\")";

/// First bytes of an HTML page.
const HTML_STARTS: [&[u8]; 7] =
    [b"<!doctype html", b"<html", b"<head", b"<body", b"<table", b"<script", b"<meta"];

fn first_line(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// Returns the name of an unsupported format, and what the user can do.
fn other(head: &[u8]) -> Option<&'static str> {
    if let Some(&(_, what)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(what);
    }
    let start = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let nul = |at: usize| head.len() >= 4 && head.iter().skip(at).step_by(2).take(32).all(|byte| *byte == 0);
    match head {
        [0x80, 2..=5, ..] => Some(PICKLE),
        [b'O', b'R', b'C', 0..=31, ..] => Some("an ORC file: save it as Parquet or CSV"),
        [0x69..=0x73, 1 | 2, 1, 0, ..] => Some(STATA),
        _ if HTML_STARTS.iter().any(|tag| begins(tag)) => Some(HTML),
        _ if begins(b"<?xml") => Some("XML: export the table as CSV"),
        _ if nul(0) != nul(1) => Some(UTF16),
        _ if head.get(257..262) == Some(b"ustar") => Some("a tar archive: unpack it (tar -xf)"),
        _ if head.get(128..132) == Some(b"DICM") => Some(IMAGE),
        // A text may have NUL bytes at its end if the disk was full.
        [0..=8, ..] => Some(BINARY),
        _ if first_line(head).contains(&0) => Some(BINARY),
        _ => None,
    }
}

/// Returns the format of a ZIP archive by its contents.
fn zipped(source: &Source) -> Result<Format, &'static str> {
    // The NPZ reader reports a damaged archive, or an archive inside gzip.
    let Some(zip) = source.archive().ok().filter(|_| !source.gzip) else { return Ok(Format::Npz) };
    let Ok(zip) = zip::ZipArchive::new(zip) else { return Ok(Format::Npz) };
    let names: Vec<&[u8]> = zip.file_names_raw().collect();
    let has = |wanted: &[u8]| names.contains(&wanted);
    if names.is_empty() || names.iter().any(|name| name.ends_with(b".npy")) {
        Ok(Format::Npz)
    } else if has(b"xl/workbook.xml") {
        Ok(Format::Xlsx)
    } else if has(b"xl/workbook.bin") {
        Err("a binary Excel workbook (.xlsb): save it as .xlsx or CSV UTF-8")
    } else if has(b"word/document.xml") {
        Err("a Word document: save the table as .xlsx or CSV UTF-8")
    } else if has(b"Index/Document.iwa") {
        Err("an Apple Numbers or Pages file: export it as .xlsx or CSV")
    } else if has(b"mimetype") && has(b"content.xml") {
        Err("an OpenDocument file: save it as .xlsx or CSV UTF-8")
    } else {
        Err("a ZIP archive: unpack it")
    }
}

/// Detects the format by the first bytes.
pub(super) fn detect(source: &Source) -> Result<Format, DataError> {
    let head = &source.head;
    let refuse = |problem: String| Err(DataError::Layout { file: source.file.clone(), problem });
    if let Some(&(_, format)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Ok(format);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return zipped(source).or_else(|what| refuse(format!("this is {what}")));
    }
    if let Some(what) = other(head) {
        return refuse(format!("this is {what}"));
    }
    let name = match extension(&source.file) {
        Some(gz) if gz == "gz" => source.file.file_stem().and_then(|name| extension(Path::new(name))),
        other => other,
    };
    match name.as_deref() {
        Some(name @ ("npy" | "npz" | "parquet" | "xlsx")) => {
            let start = &head[..head.len().min(6)];
            refuse(format!(
                "its name ends in .{name} but it begins with {start:02x?}: damaged, or of another format (`format` in the map file names it)"
            ))
        }
        _ => Ok(Format::Csv),
    }
}

fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase)
}
