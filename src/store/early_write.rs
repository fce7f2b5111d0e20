//! Writes a sealed total on its own thread while the total is arriving. So little is left to do when its
//! record must be on disk.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use tempfile::NamedTempFile;

use crate::protocol::sum_id::SumId;

/// Number of bytes between two syncs. It is small, so that the last sync has little to do.
const SYNC: usize = 16 << 20;
/// Number of chunks that may wait for the disk. They are 16 MiB, about the amount that arrives during a sync.
const QUEUE: usize = 64;

/// Message to the writing thread.
enum Part {
    Chunk(Bytes),
    End,
}

/// A total that is being written. If it is dropped before its file gets a name, the file is removed.
#[derive(Debug)]
pub(super) struct EarlyWrite {
    sum: SumId,
    /// Number of bytes so far.
    written: usize,
    /// Queue of chunks. A sender that is faster than the disk waits. `None` after all chunks have been sent.
    parts: Option<SyncSender<Part>>,
    writer: Option<JoinHandle<io::Result<NamedTempFile>>>,
    /// Digest of the total, once it is complete.
    digest: Option<[u8; 32]>,
}

impl EarlyWrite {
    pub(super) fn new(folder: &Path, sum: SumId) -> io::Result<Self> {
        let file = super::beside(folder)?;
        let (sender, parts) = sync_channel(QUEUE);
        let writer = std::thread::Builder::new().name("flyswarm-disk".into()).spawn(|| write(file, parts))?;
        Ok(Self { sum, written: 0, parts: Some(sender), writer: Some(writer), digest: None })
    }

    pub(super) fn sum(&self) -> SumId {
        self.sum
    }

    /// Returns whether these are the next bytes of this total.
    pub(super) fn goes_on(&self, sum: SumId, start: usize) -> bool {
        self.sum == sum && self.written == start && self.parts.is_some()
    }

    /// Queues the next bytes. If the disk refused earlier bytes, [`EarlyWrite::finish`] returns the
    /// error.
    pub(super) fn chunk(&mut self, data: Bytes) {
        self.written += data.len();
        if let Some(parts) = &self.parts {
            let _ = parts.send(Part::Chunk(data));
        }
    }

    /// Ends the total. The thread then syncs the rest.
    pub(super) fn end(&mut self, digest: [u8; 32]) {
        if let Some(parts) = self.parts.take() {
            let _ = parts.send(Part::End);
        }
        self.digest = Some(digest);
    }

    pub(super) fn is(&self, digest: &[u8; 32]) -> bool {
        self.digest.as_ref() == Some(digest)
    }

    /// Returns the file, complete and synced.
    pub(super) fn finish(mut self) -> io::Result<NamedTempFile> {
        self.join()
    }

    fn join(&mut self) -> io::Result<NamedTempFile> {
        self.parts = None;
        let joined = self.writer.take().map(JoinHandle::join);
        joined
            .and_then(Result::ok)
            .unwrap_or_else(|| Err(io::Error::other("the thread that writes has panicked")))
    }
}

impl Drop for EarlyWrite {
    fn drop(&mut self) {
        // If the file has no name yet, this removes it.
        let _ = self.join();
    }
}

fn write(mut file: NamedTempFile, parts: Receiver<Part>) -> io::Result<NamedTempFile> {
    let mut unsynced = 0;
    for part in parts {
        let Part::Chunk(chunk) = part else {
            file.as_file().sync_all()?;
            return Ok(file);
        };
        file.write_all(&chunk)?;
        unsynced += chunk.len();
        if unsynced >= SYNC {
            file.as_file().sync_data()?;
            unsynced = 0;
        }
    }
    // The total is no longer needed, and no caller waits for it.
    Err(io::ErrorKind::Interrupted.into())
}
