//! NPZ: arrays of NumPy in a ZIP archive.
//!
//! The features are in `X` (or the array that the caller names). The labels are in `y` or, if the label is
//! given by name, in the array with that name. An optional array `columns` of texts holds the names of the
//! features.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use super::npy::Stream;
use super::source::{self, CsvText, Seekable};
use super::{DataError, Expected, LabelColumn, Loaded, Source, quoted};

/// Most arrays in an archive.
const MAX_ARRAYS: usize = 1 << 10;
const FEATURES: &str = "X";
const LABELS: &str = "y";
const NAMES: &str = "columns";

struct Archive<'a> {
    file: &'a Path,
    zip: ZipArchive<Box<dyn Seekable>>,
}

impl Archive<'_> {
    fn has(&self, array: &str) -> bool {
        self.zip.index_for_name(&format!("{array}.npy")).is_some()
    }

    /// Returns the names of the arrays, for an error message.
    fn shown(&self) -> String {
        let all = self.zip.file_names_raw().filter_map(|name| name.strip_suffix(b".npy"));
        let names: Vec<String> = all.take(12).map(quoted).collect();
        if names.is_empty() { "no arrays".into() } else { names.join(", ") }
    }

    fn missing<T>(&self, array: &str, how: &str) -> Result<T, DataError> {
        let problem = format!("no array {}, which {how}: it has {}", quoted(array.as_bytes()), self.shown());
        Err(DataError::Layout { file: self.file.into(), problem })
    }

    fn read<T>(
        &mut self,
        array: &str,
        f: impl FnOnce(Stream) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let file = self.file;
        let name = format!("array {}, ", quoted(array.as_bytes()));
        match self.zip.by_name(&format!("{array}.npy")) {
            Ok(mut reader) => f(Stream { file, name, gzip: false, reader: &mut reader as &mut dyn Read }),
            Err(error) => Err(damaged(file, &error)),
        }
    }
}

fn damaged(file: &Path, error: &ZipError) -> DataError {
    DataError::Layout { file: file.into(), problem: format!("damaged, or not an NPZ archive: {error}") }
}

/// See [`super::npz_digest`].
pub(super) fn digest(file: &Path) -> Result<[u8; 32], DataError> {
    let mut zip = open(file, Box::new(source::open(file)?))?;
    let mut names: Vec<(Vec<u8>, usize)> = zip.file_names_raw().map(<[u8]>::to_vec).zip(0..).collect();
    names.sort();
    let mut hash = Sha256::new_with_prefix(b"flyswarm/5 npz\0");
    for (name, at) in names {
        let mut array = zip.by_index(at).map_err(|error| damaged(file, &error))?;
        let (mut contents, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match array.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => contents.update(&buffer[..count]),
                Err(error) => return Err(damaged(file, &ZipError::Io(error))),
            }
        }
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(&name);
        hash.update(contents.finalize());
    }
    Ok(hash.finalize().into())
}

fn open(file: &Path, reader: Box<dyn Seekable>) -> Result<ZipArchive<Box<dyn Seekable>>, DataError> {
    let zip = ZipArchive::new(reader).map_err(|error| damaged(file, &error))?;
    if zip.len() > MAX_ARRAYS {
        let (found, limit) = (zip.len() as u64, MAX_ARRAYS as u64);
        return Err(DataError::Limit { file: file.into(), what: "too many arrays", found, limit });
    }
    Ok(zip)
}

fn archive(source: &Source) -> Result<Archive<'_>, DataError> {
    let file = source.file.as_path();
    if source.gzip {
        let problem = "an NPZ archive is compressed by itself: gunzip it first".into();
        return Err(DataError::Layout { file: file.into(), problem });
    }
    Ok(Archive { file, zip: open(file, source.archive()?)? })
}

/// Turns the arrays into a table. An array of one dimension is a column with the array's name. The columns of
/// the features have the names in `columns`. `y` is the label if no array has the name of the label.
pub(super) fn to_csv(source: &Source, expected: &Expected) -> Result<Source, DataError> {
    let mut archive = archive(source)?;
    let file = archive.file;
    let features = expected.array.unwrap_or(FEATURES);
    let names = archive.zip.file_names_raw().filter_map(|name| name.strip_suffix(b".npy"));
    let arrays: Vec<String> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let label = expected.preparation.and_then(|preparation| preparation.label.as_deref());
    let label = label.filter(|label| !arrays.iter().any(|name| name == label));
    let known = expected.known();
    let (mut header, mut columns, mut rows) = (Vec::new(), Vec::new(), None);
    // The label comes last.
    let (last, first): (Vec<_>, Vec<_>) = arrays.iter().partition(|name| *name == LABELS);
    for name in first.into_iter().chain(last) {
        if name == NAMES && archive.has(features) && !known.contains(NAMES) {
            continue;
        }
        let (count, width, cells) = archive.read(name, |mut array| array.cells(expected.comma()))?;
        if *rows.get_or_insert(count) != count {
            let problem = format!(
                "array {} and the other arrays have different numbers of rows",
                quoted(name.as_bytes())
            );
            return Err(DataError::Layout { file: file.into(), problem });
        }
        if name == features && !known.contains(features) {
            if !archive.has(NAMES) {
                return archive
                    .missing(NAMES, "holds the names of the features (np.array(frame.columns, str))");
            }
            let names = archive.read(NAMES, |mut stream| stream.texts(None))?;
            if names.len() != width {
                let problem = format!("{} names in `columns` for {width} columns", names.len());
                return Err(DataError::Layout { file: file.into(), problem });
            }
            header.extend(names);
        } else if width == 1 {
            let label = label.filter(|_| name == LABELS && !known.contains(LABELS));
            header.push(label.map_or_else(|| name.clone(), str::to_owned));
        } else {
            continue;
        }
        columns.push((width, cells));
    }
    let mut csv = CsvText::default();
    csv.row(1, &header);
    for row in 0..rows.unwrap_or(0) {
        csv.row(
            row as u64 + 2,
            columns.iter().flat_map(|(width, cells)| &cells[row * width..(row + 1) * width]),
        );
    }
    Ok(Source::from_csv(file.into(), csv))
}

/// Returns whether each array is a column, as in a data frame: no array holds all features.
pub(super) fn is_frame(source: &Source, expected: &Expected) -> Result<bool, DataError> {
    Ok(!archive(source)?.has(expected.array.unwrap_or(FEATURES)))
}

pub(super) fn read(source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let mut archive = archive(&source)?;
    let features = expected.array.unwrap_or(FEATURES);
    if !archive.has(features) {
        return archive.missing(features, "holds the features unless `array` in the map file names another");
    }
    // If the label is given by number, it is a column of the features. Otherwise the labels have an array of
    // their own.
    let (in_features, labels) = match &expected.label {
        LabelColumn::None => (LabelColumn::None, None),
        LabelColumn::Number(number) => (LabelColumn::Number(*number), None),
        LabelColumn::Last => (LabelColumn::None, Some(LABELS)),
        LabelColumn::Name(name) => (LabelColumn::None, Some(name.as_str())),
    };
    if let Some(labels) = labels.filter(|labels| !archive.has(labels)) {
        return archive.missing(labels, "holds the labels unless --label names another");
    }
    let names = if archive.has(NAMES) && features != NAMES {
        Some(archive.read(NAMES, |mut stream| stream.texts(None))?)
    } else {
        None
    };
    let (columns, values, mut found) =
        archive.read(features, |mut array| array.rows(expected, &in_features, names))?;
    if let Some(labels) = labels {
        let rows = values.len() / columns.features;
        archive.read(labels, |mut array| array.labels(rows, &mut found))?;
    }
    Ok(found.finish(columns.features, values).named(columns))
}
