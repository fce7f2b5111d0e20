//! A file or bytes in memory, unzipped as they are read, and the lines of a text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::DataError;

/// How much of the start is looked at to tell the format, bytes.
const HEAD: u64 = 512;
/// Longest line, in bytes: 2^20 features of 64 characters. It keeps a gzip bomb without line ends from
/// filling memory.
const MAX_LINE: u64 = 1 << 26;

/// A file or bytes in memory, unzipped as they are read.
pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) gzip: bool,
    /// The first bytes, unzipped, that will be read again.
    pub(super) head: Vec<u8>,
    pub(super) reader: Box<dyn BufRead>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.file.display())
    }
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let refuse = |source| DataError::Read { file: path.into(), source };
        let file = File::open(path).map_err(refuse)?;
        Self::new(path, Box::new(BufReader::with_capacity(1 << 16, file)))
    }

    /// Nothing is left to read of this file.
    pub(super) fn empty(file: PathBuf) -> Self {
        Self { file, gzip: false, head: Vec::new(), reader: Box::new(io::empty()) }
    }

    pub(super) fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Self, DataError> {
        Self::new(Path::new(name), Box::new(Cursor::new(bytes)))
    }

    fn new(path: &Path, mut inner: Box<dyn BufRead>) -> Result<Self, DataError> {
        let start = inner.fill_buf().map_err(|source| DataError::Read { file: path.into(), source })?;
        let gzip = start.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> = if gzip {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(inner)))
        } else {
            inner
        };
        let mut source = Self { file: path.into(), gzip, head: Vec::new(), reader };
        source.head = source.read_up_to(HEAD)?;
        let rest = std::mem::replace(&mut source.reader, Box::new(io::empty()));
        source.reader = Box::new(Cursor::new(source.head.clone()).chain(rest));
        Ok(source)
    }

    /// The error for a failed read: a bad gzip stream is told apart from a bad disk.
    pub(super) fn failed(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        if self.gzip && matches!(source.kind(), UnexpectedEof | InvalidData | InvalidInput) {
            DataError::Gzip { file: self.file.clone(), source }
        } else {
            DataError::Read { file: self.file.clone(), source }
        }
    }

    /// Up to `limit` bytes; memory grows with what is there, not with what a header declares.
    pub(super) fn read_up_to(&mut self, limit: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        match (&mut self.reader).take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(self.failed(source)),
        }
    }
}

/// The lines of a text that are not blank.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// From 1; 0 before the first one is read.
    pub(super) line: u64,
    text: Vec<u8>,
}

impl Lines {
    /// The number (from 1) and text of the next line that is not blank, without white space around it and
    /// without a byte order mark; `None` at the end.
    pub(super) fn next(&mut self, source: &mut Source) -> Result<Option<(u64, &[u8])>, DataError> {
        loop {
            self.text.clear();
            match (&mut source.reader).take(MAX_LINE + 1).read_until(b'\n', &mut self.text) {
                Ok(0) => return Ok(None),
                Ok(_) => self.line += 1,
                Err(error) => return Err(source.failed(error)),
            }
            let found = self.text.len() as u64;
            if found > MAX_LINE {
                let what = "bytes in one line";
                return Err(DataError::Limit { file: source.file.clone(), what, found, limit: MAX_LINE });
            }
            if self.line == 1 && self.text.starts_with(b"\xef\xbb\xbf") {
                self.text.drain(..3);
            }
            if !self.text.trim_ascii().is_empty() {
                return Ok(Some((self.line, self.text.trim_ascii())));
            }
        }
    }
}
