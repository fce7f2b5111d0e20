//! A result that another peer may still want: the state is kept, and a later run of this peer serves it.

use std::fs;
use std::io;
use std::path::Path;

use super::{Store, StoreError, files, locked};

/// Marks a folder of a peer that has its result; one line for each peer that is known not to have the
/// result.
pub(super) const UNSERVED: &str = "unserved";

impl Store {
    /// Keeps the state in `folder`, whose owner has its result, for these peers (their ids): a later run
    /// serves them. The list is empty if it is unknown which peers lack the result.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn keep_for(folder: &Path, peers: &[String]) -> Result<(), StoreError> {
        let _lock = locked(folder)?;
        let path = folder.join(UNSERVED);
        let text = peers.iter().map(|peer| format!("{peer}\n")).collect::<String>();
        let written = files::write_whole(&path, text.as_bytes(), true);
        written.map_err(|error| StoreError::Io { path, error })
    }

    /// Returns the peers (their ids) for which the state in `folder` is kept; `None` if its owner has no
    /// result, or the session is over. Writes nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn kept_for(folder: &Path) -> Result<Option<Vec<String>>, StoreError> {
        let path = folder.join(UNSERVED);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::Io { path, error }),
            Ok(_) if Self::is_over(folder)? => Ok(None),
            Ok(text) => Ok(Some(text.lines().map(str::to_owned).collect())),
        }
    }
}
