//! Key file: one line, `flyswarm-identity 1 <64 hex digits of the seed>`, readable by its owner only.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::Identity;

/// Format and version: the beginning of the line.
const HEADER: &str = "flyswarm-identity 1 ";
/// Length of the whole file in bytes, with its line feed.
const LENGTH: usize = HEADER.len() + 64 + 1;

/// Reason why a key file was not read or made. No existing file was changed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file exists, but it could not be opened or read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// Key file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file does not exist.
    #[error("{0}: there is no key file; `flyswarm id --key {0}` makes one", path.display())]
    Missing {
        /// Key file.
        path: PathBuf,
    },
    /// Other users may read the secret.
    #[error("{}: mode is {mode:04o}, must be 0600 (only you may read it)", path.display())]
    Mode {
        /// Key file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file is not a key file, or it is damaged.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Key file.
        path: PathBuf,
        /// Reason, without the content.
        reason: &'static str,
    },
    /// The file exists. A key is never overwritten.
    #[error("{}: exists already and is not overwritten", path.display())]
    Exists {
        /// Key file.
        path: PathBuf,
    },
    /// The file could not be written. No file with this name exists.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// Key file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl Identity {
    /// Reads a key file.
    ///
    /// # Errors
    /// All of [`IdentityError`] except `Exists` and `Write`. No file is changed.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let read = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => IdentityError::Missing { path: path.into() },
            _ => IdentityError::Read { path: path.into(), source },
        };
        let content = |reason| IdentityError::Content { path: path.into(), reason };

        // Check the file type before opening, because opening a pipe would block. Check the mode on the
        // opened file.
        if !fs::metadata(path).map_err(read)?.is_file() {
            return Err(content("is not a regular file"));
        }
        let mut file = File::open(path).map_err(read)?;
        check_mode(path, &file.metadata().map_err(read)?)?;

        let mut line = Zeroizing::new([0; LENGTH + 1]);
        let mut length = 0;
        while length < line.len() {
            match file.read(&mut line[length..]) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read(error)),
            }
        }
        let line = &line[..length];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let digits = line
            .strip_prefix(HEADER.as_bytes())
            .ok_or_else(|| content("is not a key file: it does not begin with \"flyswarm-identity 1\""))?;
        let mut seed = Zeroizing::new([0; 32]);
        hex::decode_to_slice(digits, seed.as_mut())
            .map_err(|_| content("the seed is not 64 hexadecimal digits"))?;
        Ok(Self::from_seed(*seed))
    }

    /// Makes a key file with mode 0600. The file appears whole or not at all, is on disk when this
    /// returns, and never replaces another.
    ///
    /// # Errors
    /// [`IdentityError::Exists`], [`IdentityError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), IdentityError> {
        let path = path.as_ref();
        let exists = || IdentityError::Exists { path: path.into() };
        let write = |source| IdentityError::Write { path: path.into(), source };
        if fs::symlink_metadata(path).is_ok() {
            return Err(exists());
        }
        let mut line = Zeroizing::new([0; LENGTH]);
        line[..HEADER.len()].copy_from_slice(HEADER.as_bytes());
        hex::encode_to_slice(*self.seed(), &mut line[HEADER.len()..LENGTH - 1])
            .unwrap_or_else(|_| unreachable!("BUG: 32 bytes are 64 hexadecimal digits"));
        line[LENGTH - 1] = b'\n';

        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // tempfile makes its files with mode 0600.
        let mut file = tempfile::Builder::new().prefix(".identity").tempfile_in(folder).map_err(write)?;
        file.write_all(&*line).map_err(write)?;
        file.as_file().sync_all().map_err(write)?;
        file.persist_noclobber(path).map_err(|failed| match failed.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => write(failed.error),
        })?;
        #[cfg(unix)]
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(write)?;
        Ok(())
    }
}

#[cfg(unix)]
fn check_mode(path: &Path, metadata: &fs::Metadata) -> Result<(), IdentityError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(IdentityError::Mode { path: path.into(), mode }) }
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &fs::Metadata) -> Result<(), IdentityError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[cfg(unix)]
    fn set_mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_is_one_line_of_mode_0600_and_reads_back() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let path = folder.path().join("key");
        Identity::from_seed([0xab; 32]).save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("flyswarm-identity 1 {}\n", "ab".repeat(32)));
        assert_eq!(*Identity::load(&path).unwrap().seed(), [0xab; 32]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let folder = folder();
        let path = folder.path().join("key");
        Identity::from_seed([1; 32]).save(&path).unwrap();
        let error = Identity::from_seed([2; 32]).save(&path).unwrap_err();
        assert!(matches!(error, IdentityError::Exists { .. }));
        assert_eq!(*Identity::load(&path).unwrap().seed(), [1; 32]);
    }

    #[cfg(unix)]
    #[test]
    fn a_dangling_link_is_not_written_through() {
        let folder = folder();
        let path = folder.path().join("key");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        let error = Identity::from_seed([1; 32]).save(&path).unwrap_err();
        assert!(matches!(error, IdentityError::Exists { .. }));
        assert!(!folder.path().join("elsewhere").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = folder();
        let path = folder.path().join("key");
        Identity::from_seed([1; 32]).save(&path).unwrap();
        for mode in [0o640, 0o604, 0o644, 0o610, 0o601, 0o620] {
            set_mode(&path, mode);
            let error = Identity::load(&path).unwrap_err();
            assert!(matches!(error, IdentityError::Mode { mode: found, .. } if found == mode));
            assert!(error.to_string().contains(&format!("mode is {mode:04o}, must be 0600")), "{error}");
        }
        set_mode(&path, 0o400);
        assert!(Identity::load(&path).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn anything_but_the_one_line_is_refused_and_not_shown() {
        let folder = folder();
        let path = folder.path().join("key");
        let seed = "ab".repeat(32);
        for content in [
            String::new(),
            "flyswarm-identity".into(),
            format!("flyswarm-identity 2 {seed}\n"),
            format!("flyswarm-identity 1 {seed}\n\n"),
            format!("flyswarm-identity 1 {seed}ab\n"),
            format!("flyswarm-identity 1 {}\n", &seed[1..]),
            format!("flyswarm-identity 1  {}\n", &seed[1..]),
            format!("flyswarm-identity 1 {}zz\n", &seed[2..]),
            "x".repeat(1 << 20),
        ] {
            fs::write(&path, &content).unwrap();
            set_mode(&path, 0o600);
            let error = Identity::load(&path).unwrap_err();
            assert!(matches!(error, IdentityError::Content { .. }), "{content:.40}: {error}");
            assert!(!error.to_string().contains("abab"));
        }
        assert!(matches!(Identity::load(folder.path()), Err(IdentityError::Content { .. })));
        assert!(matches!(Identity::load(folder.path().join("none")), Err(IdentityError::Missing { .. })));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let path = folder().path().join("no/such/folder/key");
        let error = Identity::from_seed([1; 32]).save(path).unwrap_err();
        assert!(matches!(error, IdentityError::Write { .. }));
    }
}
