//! What commands write: tried before anything is computed, and nothing is replaced unless that was asked for.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::Failure;
use crate::files;

/// A path that can be written to; call it before long work.
///
/// # Errors
/// Where something is there already, unless `force`, or no file can be made there.
pub(super) fn check(path: &Path, force: bool) -> Result<(), Failure> {
    if files::exists(path) && !force {
        return Err(exists(path));
    }
    files::try_out(path).map_err(|error| failed(path, &error))
}

/// Whether the file at `path` begins so, as files do that this program has written.
pub(super) fn begins(path: &Path, start: &str) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(start.len() as u64).read_to_end(&mut bytes));
    read.is_ok() && bytes == start.as_bytes()
}

/// Writes a file whole or not at all.
///
/// # Errors
/// As [`check`]; what was there is then as before.
pub(super) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    files::write_whole(path, bytes, force).map_err(|error| failed(path, &error))
}

/// As [`write()`], and nobody but its owner may read the file.
///
/// # Errors
/// As [`write()`].
pub(super) fn write_private(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    files::write_private(path, bytes, force).map_err(|error| failed(path, &error))
}

/// An empty file that nobody but its owner may read, to be written as things happen.
///
/// # Errors
/// As [`check`].
pub(super) fn begin_private(path: &Path, force: bool) -> Result<File, Failure> {
    files::begin_private(path, force).map_err(|error| failed(path, &error))
}

/// Makes a folder for results, with those above it.
///
/// # Errors
/// What the system says.
pub(super) fn create_folder(folder: &Path) -> Result<(), Failure> {
    files::create_folders(folder, false)
        .map_err(|error| for_io(&error, format!("{}: {error}", folder.display())))
}

/// A wrong path is the user's, a failing disk the machine's.
pub(super) fn for_io(source: &io::Error, text: String) -> Failure {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    match source.kind() {
        NotFound | PermissionDenied | IsADirectory | NotADirectory | InvalidFilename => Failure::Input(text),
        _ => Failure::Environment(text),
    }
}

/// Why a file was not written, with its name once.
pub(super) fn failed(path: &Path, error: &io::Error) -> Failure {
    match (error.kind(), path.parent()) {
        (io::ErrorKind::AlreadyExists, _) => exists(path),
        (io::ErrorKind::NotFound, Some(folder)) => {
            Failure::Input(format!("{}: no such folder", folder.display()))
        }
        _ => for_io(error, format!("{}: cannot be written: {error}", path.display())),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::Input(format!("{}: exists; --force overwrites it", path.display()))
}
