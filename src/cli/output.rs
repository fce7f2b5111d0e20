//! Output files of commands. They are checked before long work, and not replaced without --force.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use clap::Args;

use super::Failure;
use crate::files;

/// The option to replace the output file.
#[derive(Debug, Args)]
pub(super) struct Overwrite {
    /// Overwrite the file if it exists
    #[arg(long, requires = "out")]
    pub(super) force: bool,
}

/// Checks that a path can be written to; call it before long work.
///
/// # Errors
/// If a file exists already and `force` is false, or if no file can be created there.
pub(super) fn check(path: &Path, force: bool) -> Result<(), Failure> {
    if files::exists(path) && !force {
        return Err(exists(path));
    }
    files::try_out(path).map_err(|error| failed(path, &error))
}

/// Returns whether the file at `path` begins with `start`, as files of a certain kind do.
pub(super) fn begins(path: &Path, start: &str) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(start.len() as u64).read_to_end(&mut bytes));
    read.is_ok() && bytes == start.as_bytes()
}

/// Writes a file completely or not at all.
///
/// # Errors
/// The errors of [`check`]. After an error, an earlier file is unchanged.
pub(super) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    files::write_whole(path, bytes, force).map_err(|error| failed(path, &error))
}

/// Does the same as [`write()`], but only the owner may read the file.
///
/// # Errors
/// The errors of [`write()`].
pub(super) fn write_private(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    files::write_private(path, bytes, force).map_err(|error| failed(path, &error))
}

/// Creates an empty file that is then written step by step. Only the owner may read it.
///
/// # Errors
/// The errors of [`check`].
pub(super) fn begin_private(path: &Path, force: bool) -> Result<File, Failure> {
    files::begin_private(path, force).map_err(|error| failed(path, &error))
}

/// Creates a folder for results, with its parent folders.
///
/// # Errors
/// The error of the system.
pub(super) fn create_folder(folder: &Path) -> Result<(), Failure> {
    files::create_folders(folder, false)
        .map_err(|error| for_io(&error, format!("{}: {error}", folder.display())))
}

/// Makes the right kind of error: a wrong path is an error of the input, a failing disk is an error of the
/// machine.
pub(super) fn for_io(source: &io::Error, text: String) -> Failure {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    match source.kind() {
        NotFound | PermissionDenied | IsADirectory | NotADirectory | InvalidFilename => Failure::Input(text),
        _ => Failure::Environment(text),
    }
}

/// Makes the error for a file that could not be written. The text has the file's name only once.
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
