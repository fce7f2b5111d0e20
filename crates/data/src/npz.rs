//! NPZ: arrays of NumPy in a ZIP archive. Features in `X` (or another that is named), labels in `y` or, if
//! the label is given by name, in the array of that name; if there is an array `columns` of texts, it has the
//! names of the features.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use super::npy::Stream;
use super::{DataError, Expected, LabelColumn, Loaded, Source, quoted};

/// Most arrays of an archive.
const MAX_ARRAYS: usize = 1 << 10;
const FEATURES: &str = "X";
const LABELS: &str = "y";
const NAMES: &str = "columns";

struct Archive<'a> {
    file: &'a Path,
    zip: ZipArchive<BufReader<File>>,
}

impl Archive<'_> {
    fn has(&self, array: &str) -> bool {
        self.zip.index_for_name(&format!("{array}.npy")).is_some()
    }

    /// The names of the arrays, for an error.
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
    DataError::Layout { file: file.into(), problem: format!("damaged or no NPZ archive: {error}") }
}

/// See [`super::npz_digest`].
pub(super) fn digest(file: &Path) -> Result<[u8; 32], DataError> {
    let mut zip = open(file)?;
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

fn open(file: &Path) -> Result<ZipArchive<BufReader<File>>, DataError> {
    let reader = File::open(file).map_err(|source| DataError::Read { file: file.into(), source })?;
    let zip =
        ZipArchive::new(BufReader::with_capacity(1 << 16, reader)).map_err(|error| damaged(file, &error))?;
    if zip.len() > MAX_ARRAYS {
        let (found, limit) = (zip.len() as u64, MAX_ARRAYS as u64);
        return Err(DataError::Limit { file: file.into(), what: "too many arrays", found, limit });
    }
    Ok(zip)
}

pub(super) fn read(source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let file = source.file.as_path();
    if source.gzip {
        let problem = "an NPZ archive is compressed by itself: gunzip it first".into();
        return Err(DataError::Layout { file: file.into(), problem });
    }
    let mut archive = Archive { file, zip: open(file)? };
    let features = expected.array.unwrap_or(FEATURES);
    if !archive.has(features) {
        return archive.missing(features, "holds the features unless `array` in the map file names another");
    }
    // A number is a column of the features; else labels have an array of their own.
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
