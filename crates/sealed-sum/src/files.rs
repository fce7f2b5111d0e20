//! Files that appear whole or not at all, and folders that survive a crash.
//!
//! A file is written under a new random name in its folder (never through an existing link), synced and
//! renamed. Then its folder is synced. A link at its path is replaced, not followed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file so that `path` holds either the old bytes or the new ones. Without `replace`, an
/// existing file is not changed. A device or pipe is written to directly.
///
/// # Errors
/// The system's error; [`io::ErrorKind::AlreadyExists`] without `replace` if something is at `path`.
pub fn write_whole(path: &Path, bytes: &[u8], replace: bool) -> io::Result<()> {
    if is_stream(path) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let mut file = beside(path)?;
    file.as_file_mut().write_all(bytes)?;
    keep(file, path, replace)
}

/// Writes a file like [`write_whole`], and only its owner can ever read it (mode 0600).
///
/// # Errors
/// Those of [`write_whole`].
pub fn write_private(path: &Path, bytes: &[u8], replace: bool) -> io::Result<()> {
    if is_stream(path) {
        return write_whole(path, bytes, replace);
    }
    path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    // tempfile makes its files with mode 0600.
    let mut file =
        tempfile::Builder::new().prefix(".flyswarm-").tempfile_in(folder_of(path)).map_err(plain)?;
    file.as_file_mut().write_all(bytes)?;
    keep(file, path, replace)
}

/// Makes an empty file at `path` for continuous output. Only its owner can read it (mode 0600). With
/// `replace`, it replaces an existing file.
///
/// # Errors
/// The system's error; [`io::ErrorKind::AlreadyExists`] without `replace` if something is at `path`.
pub fn begin_private(path: &Path, replace: bool) -> io::Result<File> {
    write_private(path, b"", replace)?;
    File::options().write(true).open(path)
}

/// Makes an empty temporary file in the folder of `path`, with the usual mode less the umask. It is
/// deleted on drop. Write to its [`NamedTempFile::as_file`], because its own errors name a random path.
///
/// # Errors
/// The system's error.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    temporary(folder_of(path))
}

/// Makes a temporary file like [`beside`] that only its owner can read.
///
/// # Errors
/// The system's error.
pub fn private_beside(path: &Path) -> io::Result<NamedTempFile> {
    path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    // tempfile makes its files with mode 0600.
    tempfile::Builder::new().prefix(".flyswarm-").tempfile_in(folder_of(path)).map_err(plain)
}

/// Renames a file of [`beside`] to `path`, durably.
///
/// # Errors
/// Those of [`write_whole`]. After an error, `path` is unchanged.
pub fn keep(file: NamedTempFile, path: &Path, replace: bool) -> io::Result<()> {
    file.as_file().sync_all()?;
    let kept = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map_err(|error| error.error)?;
    sync(folder_of(path))
}

/// Returns whether writing to `path` would replace something. A link counts, wherever it leads. A device
/// or pipe does not count.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok() && !is_stream(path)
}

/// Checks that a file can be made at `path`: makes and removes one next to it.
///
/// # Errors
/// The system's error.
pub fn try_out(path: &Path) -> io::Result<()> {
    if is_stream(path) {
        return File::options().write(true).open(path).map(drop);
    }
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    beside(path).map(drop)
}

/// Makes a folder and its missing parents. The name of each new folder is durable when this returns.
/// With `private`, only the owner can open the new folders.
///
/// # Errors
/// The system's error.
pub fn create_folders(folder: &Path, private: bool) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    create_folders(above, private)?;
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    if private {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    }
    match builder.create(folder) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    sync(above)
}

fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".flyswarm-");
    #[cfg(unix)]
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(mode);
    builder.tempfile_in(folder).map_err(plain)
}

/// Returns the system's own message, without the random file name that `tempfile` adds.
pub fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path \"") {
        Some((word, _)) if error.raw_os_error().is_none() => io::Error::new(error.kind(), word.to_owned()),
        _ => error,
    }
}

fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs a folder. Only Unix can open folders.
///
/// # Errors
/// The error of the system.
pub fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_written_beside_links_and_never_through_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("outside"), "theirs").unwrap();
        for target in ["outside", "nowhere"] {
            symlink(path(target), path("link")).unwrap();
            assert!(exists(&path("link")));
            let error = write_whole(&path("link"), b"ours", false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
            write_whole(&path("link"), b"ours", true).unwrap();
            assert_eq!(fs::read(path("link")).unwrap(), b"ours");
            assert!(!fs::symlink_metadata(path("link")).unwrap().is_symlink());
            fs::remove_file(path("link")).unwrap();
        }
        assert_eq!(fs::read(path("outside")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn new_files_can_be_read_by_others_and_new_private_folders_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = folder.path().join("file");
        write_whole(&file, b"x", false).unwrap();
        let other = folder.path().join("other");
        File::create(&other).unwrap();
        assert_eq!(mode(&file), mode(&other));
        write_private(&file, b"y", true).unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap()), (0o600, b"y".to_vec()));
        let (open, private) = (folder.path().join("a/b/c"), folder.path().join("d/e"));
        create_folders(&open, false).unwrap();
        create_folders(&private, true).unwrap();
        create_folders(&private, true).unwrap();
        assert_eq!((mode(&folder.path().join("d")), mode(&private)), (0o700, 0o700));
        assert!(open.is_dir());
        assert!(create_folders(&file.join("below"), false).is_err());
    }

    #[test]
    fn errors_name_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        File::create(&file).unwrap();
        for path in [folder.path().join("none/x"), file.join("x")] {
            for error in [write_whole(&path, b"", true).unwrap_err(), try_out(&path).unwrap_err()] {
                assert!(!error.to_string().contains(".flyswarm"), "{error}");
            }
        }
        assert_eq!(try_out(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let full = write_whole(Path::new("/dev/full"), b"x", false).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
