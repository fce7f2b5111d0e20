//! Keeps the common weights of the last round on disk, so that they are not lost if the session fails. Also
//! keeps this peer's own tensors (those with the rule `keep-own`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use flyswarm_sealed_sum::files::{write_private, write_whole};

use super::{own, tensors};

/// Files of a peer that trains.
#[derive(Debug)]
pub struct RoundFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Last round whose weights were given to be written, from 1, and the digest of the weights.
    round: Option<(u32, [u8; 32])>,
    writes: Option<JoinHandle<std::io::Result<()>>>,
    failed: Option<String>,
}

impl RoundFile {
    /// Keeps the weights in a file next to the result `out`, with the extension `round`.
    #[must_use]
    pub fn beside(out: &Path) -> Self {
        Self { path: out.with_extension("round"), state: Mutex::default() }
    }

    /// Returns the path of the weights.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn own_path(&self) -> PathBuf {
        self.path.with_extension("own")
    }

    /// Replaces the weights on disk in a thread, so that the node does not wait for the disk.
    pub(super) fn write(&self, round: u32, file: Vec<u8>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finish();
        if state.round.is_none() {
            self.keep_other_session(&file);
        }
        state.round = Some((round, own::digest(&file)));
        let path = self.path.clone();
        state.writes = Some(std::thread::spawn(move || write_whole(&path, &file, true)));
    }

    /// If the file has the weights of another session, renames it. This session may have started from these
    /// weights and may still need them.
    fn keep_other_session(&self, new: &[u8]) {
        let Ok(old) = fs::read(&self.path) else { return };
        let session = |file: &[u8]| Some(tensors::open(file).ok()?.metadata("session_id")?.to_owned());
        if session(&old) != session(new) {
            let _ = fs::rename(&self.path, self.path.with_extension("before.round"));
        }
    }

    /// Replaces this peer's own tensors. Only this user can read them.
    pub(super) fn write_own(&self, file: &[u8]) -> Result<(), String> {
        let path = self.own_path();
        write_private(&path, file, true).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns this peer's own tensors that were written before a restart, if there are any.
    pub(super) fn own(&self) -> Option<Vec<u8>> {
        fs::read(self.own_path()).ok()
    }

    /// Tells the user of a session that has no result where the weights are and how to use them.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finish();
        let (round, digest) = state.round?;
        let path = self.path.display();
        Some(match &state.failed {
            Some(error) => {
                format!("{path}, with the weights of round {round}, could not be written: {error}")
            }
            None => format!(
                "the weights after round {round} are in {path}; start the next session from them: \
                 `flyswarm session new fedavg --initial {path} ...` (fedavg.initial = \"{}\")",
                hex::encode(digest)
            ),
        })
    }

    /// Removes the weights, because a result has been written.
    pub fn remove(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finish();
        if state.round.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl State {
    fn finish(&mut self) {
        if let Some(writes) = self.writes.take() {
            self.failed = match writes.join() {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("BUG: the thread panicked".into()),
            };
        }
    }
}
