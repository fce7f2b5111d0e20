//! Keeps the state of a peer that has its result if other peers may still need the result. A later run of
//! this peer then serves them.

use std::fs;
use std::io;
use std::path::Path;

use super::{Store, StoreError, files, locked};

/// Name of the file that marks such a folder. It has one line for each peer that is known not to have the
/// result.
pub(super) const UNSERVED: &str = "unserved";

impl Store {
    /// Keeps the state in `folder`, whose owner has its result, so that a later run can serve these peers
    /// (given by their ids). The list is empty if it is not known which peers lack the result.
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

    /// Returns the ids of the peers that a later run must serve with the state in `folder`, or `None` if its
    /// owner has no result, or the session is over. Writes nothing.
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
