//! A file or bytes in memory, unzipped during reading, and the lines of a text.
//!
//! Text around the table is handled here, once for all readers: a byte order mark, a line `sep=;`, title
//! lines, CR line ends, NUL bytes and a last character that is cut off.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::MultiGzDecoder;

use super::DataError;
use super::prepare::read::DELIMITERS;
use super::prepare::rows::fields;

/// Bytes at the start that are used to detect the format and the start of the table.
const HEAD: u64 = 1 << 14;
/// Number of lines at the start that are used.
const HEAD_LINES: usize = 20;
/// Longest row, in bytes: 2^20 fields of 64 characters. Without the limit, a gzip bomb without line ends
/// or a quote that is never closed would fill the memory.
pub(super) const MAX_LINE: u64 = 1 << 26;

/// Most bytes of a pipe that are kept.
const MAX_KEPT: u64 = 1 << 31;

/// Bytes of a file that is only in memory.
#[derive(Clone, PartialEq)]
pub struct Contents(Arc<[u8]>);

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Bytes that came through pipes, by their paths.
static KEPT: Mutex<BTreeMap<PathBuf, Contents>> = Mutex::new(BTreeMap::new());

/// Keeps the bytes of a pipe or device, so that the same path can be read again. Files are not kept.
///
/// # Errors
/// [`DataError`] if the pipe cannot be read, is too long, or has a format that is not read from its start.
pub fn keep_pipe(path: &Path) -> Result<(), DataError> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        keep(path, MAX_KEPT)?;
    }
    Ok(())
}

pub(super) fn keep(path: &Path, limit: u64) -> Result<(), DataError> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.contains_key(path) {
        return Ok(());
    }
    let (mut bytes, refuse) = (Vec::new(), |source| DataError::Read { file: path.into(), source });
    File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(refuse)?;
    let why = if bytes.len() as u64 > limit {
        format!("over {limit} bytes")
    } else if [&b"PAR1"[..], b"PK"].iter().any(|start| bytes.starts_with(start)) {
        "Parquet, NPZ and Excel need a file".into()
    } else {
        kept.insert(path.into(), Contents::from(bytes));
        return Ok(());
    };
    let problem = format!("a pipe or device ({why}): save the rows as a file");
    Err(DataError::Layout { file: path.into(), problem })
}

/// A file or bytes in memory, unzipped during reading.
pub(super) struct Source {
    pub(super) file: PathBuf,
    /// The bytes, if they are in memory.
    contents: Option<Contents>,
    pub(super) gzip: bool,
    /// The first bytes, unzipped. They will be read again.
    pub(super) head: Vec<u8>,
    pub(super) reader: Box<dyn BufRead>,
    /// Delimiter of the columns, if the text itself names it.
    pub(super) delimiter: Option<u8>,
    /// Number of lines read.
    line: u64,
    /// Last byte of a line.
    end: u8,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.file.display())
    }
}

/// A reader that can go to any place.
pub(super) trait Seekable: Read + Seek {}

impl<T: Read + Seek> Seekable for T {}

pub(super) fn open(path: &Path) -> Result<BufReader<File>, DataError> {
    let file = File::open(path).map_err(|source| DataError::Read { file: path.into(), source })?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

impl Source {
    /// Opens a file, or these contents under the file's name.
    pub(super) fn open(path: &Path, contents: Option<&Contents>) -> Result<Self, DataError> {
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        let contents = contents.cloned().or_else(kept);
        let reader: Box<dyn BufRead> = match &contents {
            Some(contents) => Box::new(Cursor::new(Arc::clone(&contents.0))),
            None => Box::new(open(path)?),
        };
        Ok(Self { contents, ..Self::new(path, reader)? })
    }

    /// Opens the source again, from its start. Returns `None` for a pipe that was not kept.
    pub(super) fn again(&self) -> Result<Option<Self>, DataError> {
        let there = self.contents.is_some() || self.file.is_file();
        there.then(|| Self::open(&self.file, self.contents.as_ref())).transpose()
    }

    /// Opens the bytes again as an archive, which is not read from its start.
    pub(super) fn archive(&self) -> Result<Box<dyn Seekable>, DataError> {
        Ok(match &self.contents {
            Some(contents) => Box::new(Cursor::new(Arc::clone(&contents.0))),
            None => Box::new(open(&self.file)?),
        })
    }

    /// Makes a source of this file with nothing left to read.
    pub(super) fn empty(file: PathBuf) -> Self {
        Self::of(file, Box::new(io::empty()))
    }

    fn of(file: PathBuf, reader: Box<dyn BufRead>) -> Self {
        Self {
            file,
            contents: None,
            gzip: false,
            head: Vec::new(),
            reader,
            delimiter: None,
            line: 0,
            end: b'\n',
        }
    }

    pub(super) fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Self, DataError> {
        Self::new(Path::new(name), Box::new(Cursor::new(bytes)))
    }

    /// Makes a source from the contents of a file as CSV with commas.
    pub(super) fn from_csv(file: PathBuf, csv: CsvText) -> Self {
        Self { delimiter: Some(b','), ..Self::of(file, Box::new(Cursor::new(csv.text))) }
    }

    fn new(path: &Path, mut inner: Box<dyn BufRead>) -> Result<Self, DataError> {
        let start = inner.fill_buf().map_err(|source| DataError::Read { file: path.into(), source })?;
        let gzip = start.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> = if gzip {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(inner)))
        } else {
            inner
        };
        let mut source = Self { gzip, ..Self::of(path.into(), reader) };
        source.head = source.read_up_to(HEAD)?;
        let rest = std::mem::replace(&mut source.reader, Box::new(io::empty()));
        source.reader = Box::new(Cursor::new(source.head.clone()).chain(rest));
        Ok(source)
    }

    /// Returns the error for a failed read. It distinguishes a damaged gzip stream from other read errors.
    pub(super) fn failed(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        if self.gzip && matches!(source.kind(), UnexpectedEof | InvalidData | InvalidInput) {
            DataError::Gzip { file: self.file.clone(), source }
        } else {
            DataError::Read { file: self.file.clone(), source }
        }
    }

    /// Reads up to `limit` bytes. Memory grows with the bytes that are there, not with the declared size.
    pub(super) fn read_up_to(&mut self, limit: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        match (&mut self.reader).take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Moves to the header or the first row of a text.
    pub(super) fn begin_text(&mut self) -> Result<(), DataError> {
        if self.delimiter.is_some() {
            return Ok(());
        }
        let head = self.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.head).to_vec();
        let mut text = Vec::new();
        if head.len() < self.head.len() {
            self.read_up_to(3)?;
        }
        if head.contains(&b'\r') && !head.contains(&b'\n') {
            self.end = b'\r';
        }
        let lines = head.split(|byte| *byte == self.end).take(HEAD_LINES);
        let mut lines: Vec<&[u8]> = lines.map(<[u8]>::trim_ascii_end).collect();
        if head.len() >= HEAD as usize - 3 {
            // The last line may be incomplete.
            lines.pop();
        }
        self.delimiter = lines.first().and_then(|line| separator(line));
        for _ in 0..titles(&lines, self.delimiter) {
            text.clear();
            self.next_line(&mut text, MAX_LINE)?;
        }
        Ok(())
    }

    /// Appends the next line without its end to `text`, which may have `limit` bytes. Returns the line
    /// number from 1, or `None` at the end of the file.
    pub(super) fn next_line(&mut self, text: &mut Vec<u8>, limit: u64) -> Result<Option<u64>, DataError> {
        let start = text.len();
        let left = limit + 1 - (start as u64).min(limit);
        match (&mut self.reader).take(left).read_until(self.end, text) {
            Ok(0) => return Ok(None),
            Ok(_) => self.line += 1,
            Err(error) => return Err(self.failed(error)),
        }
        if text.len() as u64 > limit {
            let (what, found) = ("bytes in one row (a quote that is not closed?)", text.len() as u64);
            return Err(DataError::Limit { file: self.file.clone(), what, found, limit });
        }
        let ended = text.last() == Some(&self.end);
        if ended {
            text.pop();
        }
        if text.get(start..).is_some_and(|line| line.last() == Some(&b'\r')) {
            text.pop();
        }
        let line = text.get(start..).unwrap_or_default();
        let refuse = |what: &str| {
            let problem = format!("line {}: {what}", self.line);
            Err(DataError::Layout { file: self.file.clone(), problem })
        };
        if line.contains(&0) {
            return refuse(
                "NUL bytes: the file was damaged, for example by a full disk; export or copy it again",
            );
        }
        if !ended && std::str::from_utf8(line).is_err_and(|error| error.error_len().is_none()) {
            return refuse("the file ends within a character: it was cut off; export or copy it again");
        }
        Ok(Some(self.line))
    }

    /// Reads the next line that is not blank, like [`Source::next_line`], and replaces `text`.
    pub(super) fn next_filled(&mut self, text: &mut Vec<u8>) -> Result<Option<u64>, DataError> {
        loop {
            text.clear();
            match self.next_line(text, MAX_LINE)? {
                // DOS marks the end of a text with 0x1a.
                Some(line) if !text.trim_ascii().is_empty() && *text != [0x1a] => return Ok(Some(line)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Returns the delimiter that a line such as `sep=;` names. Spreadsheets write and read such lines.
fn separator(line: &[u8]) -> Option<u8> {
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [start @ .., sign] if start.eq_ignore_ascii_case(b"sep=") => Some(*sign),
        // The tab was removed as white space.
        _ if line.eq_ignore_ascii_case(b"sep=") => Some(b'\t'),
        _ => None,
    }
    .filter(|sign| DELIMITERS.contains(sign))
}

/// Returns the number of lines above the table: the line that names the delimiter, and the titles. A title
/// has one text and no numbers, and all lines below it have several columns.
fn titles(lines: &[&[u8]], delimiter: Option<u8>) -> usize {
    let above = usize::from(delimiter.is_some());
    let lines = lines.get(above..).unwrap_or_default();
    if lines.first().is_none_or(|line| line.starts_with(b"{")) {
        return above;
    }
    let several = delimiter.map_or(DELIMITERS.to_vec(), |one| vec![one]).into_iter();
    above + several.filter_map(|delimiter| titles_with(lines, delimiter)).min().unwrap_or(0)
}

/// Returns the number of lines above a table with this delimiter, if there is one.
fn titles_with(lines: &[&[u8]], delimiter: u8) -> Option<usize> {
    let blank = |line: &&[u8]| line.is_empty() || line.starts_with(b"#");
    let title = |line: &&[u8]| {
        let fields = fields(line, delimiter);
        let mut texts = fields.iter().filter(|text| !text.is_empty());
        let one = texts.next().filter(|text| text.parse::<f64>().is_err() && texts.next().is_none());
        one.is_some() && fields.len() != 2
    };
    let count = lines.iter().take_while(|line| blank(line) || title(line)).count();
    let below: Vec<usize> = lines
        .iter()
        .skip(count)
        .filter(|line| !blank(line))
        .map(|line| fields(line, delimiter).len())
        .collect();
    let table = below.len() > 1 && below[0] > 1 && below.iter().all(|columns| *columns == below[0]);
    let titles = lines.iter().take(count).any(|line| !blank(line));
    table.then_some(if titles { count } else { 0 })
}

/// A table written as CSV with commas, each row on a given line.
#[derive(Debug, Default)]
pub(super) struct CsvText {
    text: Vec<u8>,
    lines: u64,
}

impl CsvText {
    /// Writes a row on this line (from 1), which must be below the lines of all earlier rows.
    pub(super) fn row<T: AsRef<[u8]>>(&mut self, line: u64, row: impl IntoIterator<Item = T>) {
        while self.lines + 1 < line {
            self.text.push(b'\n');
            self.lines += 1;
        }
        let start = self.text.len();
        for (at, field) in row.into_iter().enumerate() {
            if at > 0 {
                self.text.push(b',');
            }
            let field = field.as_ref();
            if field.iter().any(|byte| b",\"#\r\n".contains(byte)) {
                self.text.push(b'"');
                for byte in field {
                    match byte {
                        b'"' => self.text.extend(b"\"\""),
                        // Each row must be one line.
                        b'\r' | b'\n' => self.text.push(b' '),
                        _ => self.text.push(*byte),
                    }
                }
                self.text.push(b'"');
            } else {
                self.text.extend(field);
            }
        }
        if self.text.len() == start {
            // A blank line would not be read as a row.
            self.text.extend(b"\"\"");
        }
        self.text.push(b'\n');
        self.lines += 1;
    }
}
