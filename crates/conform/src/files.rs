//! Files that the commands read and write, and random bytes.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Instant, SystemTime};

use flyswarm::cli::Failure;
use flyswarm::session::Run;
use flyswarm_sealed_sum::files;
use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

/// Checks that a file can be written at this path.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    files::try_out(path).map_err(|error| failed(path, &error))
}

/// Writes a file completely or not at all; `force` replaces an existing file.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    files::write_whole(path, bytes, force).map_err(|error| failed(path, &error))
}

/// Writes a new file that only its owner may read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    files::write_private(path, bytes, false).map_err(|error| failed(path, &error))
}

/// Makes a folder and its missing parents.
pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    files::create_folders(path, false).map_err(|error| failed(path, &error))
}

/// Returns the error for a file, with its name. A wrong path is an error of the user, a failing disk one
/// of the machine.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory => Failure::Input(text),
        _ => Failure::Environment(text),
    }
}

/// Returns 32 random bytes from the operating system.
pub(crate) fn random() -> Result<Zeroizing<[u8; 32]>, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    SysRng
        .try_fill_bytes(bytes.as_mut())
        .map_err(|error| Failure::Environment(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// Returns a new session number, and the time.
#[allow(clippy::disallowed_methods, reason = "a session has the time at which it was made")]
pub(crate) fn new_run() -> Result<Run, Failure> {
    let mut number = [0; 16];
    number.copy_from_slice(&random()?[..16]);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Run::new(number, since.map_or(0, |since| since.as_secs())))
}

#[allow(clippy::disallowed_methods, reason = "real processes take real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
