//! Durable state: what a node must not forget, under `STATE/PEER/SESSION/`, one file a record.
//!
//! A file is written beside its place, synced, renamed, and its folder synced: after a crash there is the old or the new
//! one, whole. Format: the line `flyswarm-state 1\n`, u32 LE length of the record, the record (bincode), the sealed total,
//! SHA-256 of all that. A lock on the folder refuses a second process.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::node::Record;
use crate::protocol::wire;

const MAGIC: &[u8] = b"flyswarm-state 1\n";
/// Magic, length, the largest record, the largest vector, digest.
const MAX_FILE: u64 = (1 << 30) + (1 << 21);

/// Why state cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("{path}: {error}")]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// Another process has the session open under this identity.
    #[error("{0}: another process runs this session with this identity")]
    Locked(PathBuf),
    /// A file is damaged.
    #[error("{0}: damaged state file: {1}")]
    Damaged(PathBuf, &'static str),
}

/// One identity's state in one session, locked.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens or makes `folder`, locks it and reads every record in it.
    pub fn open(folder: &Path) -> Result<(Self, Vec<Record>), StoreError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError::Io { path, error }
        };
        create_private(folder).map_err(io(folder))?;
        let path = folder.join("lock");
        let lock = File::options().create(true).append(true).open(&path).map_err(io(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(StoreError::Io { path, error }),
        }
        let mut records = Vec::new();
        for entry in fs::read_dir(folder).map_err(io(folder))? {
            let path = entry.map_err(io(folder))?.path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some("lock") => {}
                // What a crash left half-written.
                Some(name) if name.starts_with('.') => fs::remove_file(&path).map_err(io(&path))?,
                _ => records.push(read(&path)?),
            }
        }
        Ok((Self { folder: folder.to_owned(), _lock: lock }, records))
    }

    /// Puts `record` on stable storage. When this returns, it survives a crash.
    pub fn write(&self, record: &Record) -> Result<(), StoreError> {
        let path = self.folder.join(record.name());
        let io = |error| StoreError::Io { path: path.clone(), error: plain(error) };
        let header = wire::canonical(record);
        let length = u32::try_from(header.len()).unwrap_or_else(|_| unreachable!("BUG: records are below 1 MiB"));
        let mut digest = Sha256::new();
        let mut file = tempfile::Builder::new().prefix(".").tempfile_in(&self.folder).map_err(io)?;
        for part in [MAGIC, &length.to_le_bytes(), &header, record.total()] {
            digest.update(part);
            file.write_all(part).map_err(io)?;
        }
        file.write_all(&digest.finalize()).map_err(io)?;
        file.as_file().sync_all().map_err(io)?;
        file.persist(&path).map_err(|error| io(error.error))?;
        if let Record::Frozen(..) = record {
            // What was acknowledged is decided now; its copy is of no more use.
            match fs::remove_file(self.folder.join("accepted")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
                _ => {}
            }
        }
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(io)
    }
}

/// The system's own word: `tempfile` adds the name of a file that nobody knows.
fn plain(error: io::Error) -> io::Error {
    let source = error.get_ref().and_then(std::error::Error::source).map(ToString::to_string);
    match source {
        Some(text) => io::Error::new(error.kind(), text),
        None => error,
    }
}

fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn read(path: &Path) -> Result<Record, StoreError> {
    let io = |error| StoreError::Io { path: path.to_owned(), error };
    let damaged = |what| StoreError::Damaged(path.to_owned(), what);
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.len() > MAX_FILE {
        return Err(damaged("too large"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(io)?;
    let bytes = Bytes::from(bytes);
    let end = bytes.len().checked_sub(32).ok_or(damaged("too short"))?;
    if Sha256::digest(&bytes[..end])[..] != bytes[end..] {
        return Err(damaged("the digest does not match"));
    }
    let rest = bytes[..end].strip_prefix(MAGIC).ok_or(damaged("not a state file of this version"))?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or(damaged("too short"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > rest.len() {
        return Err(damaged("the record is longer than the file"));
    }
    let record: Record = wire::decode_item(&rest[..length]).map_err(|_| damaged("the record does not decode"))?;
    let start = end - rest.len() + length;
    Ok(record.with_total(bytes.slice(start..end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ballot::Ballot;
    use crate::session::Peer;

    fn promised(counter: u64) -> Record {
        Record::Promised(Ballot { counter, proposer: Peer(1) })
    }

    #[test]
    fn what_was_written_last_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let (store, records) = Store::open(folder.path()).unwrap();
        assert!(records.is_empty());
        store.write(&promised(1)).unwrap();
        store.write(&promised(2)).unwrap();
        store.write(&Record::Joined(Ballot::default())).unwrap();
        drop(store);
        let (_, mut records) = Store::open(folder.path()).unwrap();
        records.sort_by_key(Record::name);
        assert_eq!(records, [Record::Joined(Ballot::default()), promised(2)]);
    }

    #[test]
    fn a_second_process_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _held = Store::open(folder.path()).unwrap();
        assert!(matches!(Store::open(folder.path()), Err(StoreError::Locked(_))));
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        store.write(&promised(1)).unwrap();
        drop(store);
        let path = folder.path().join("promised");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&path, &broken).unwrap();
            assert!(Store::open(folder.path()).unwrap_err().to_string().contains("promised"), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(Store::open(folder.path()).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_a_crash_left_half_written_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        store.write(&promised(3)).unwrap();
        drop(store);
        fs::write(folder.path().join(".abc"), b"half").unwrap();
        let (_, records) = Store::open(folder.path()).unwrap();
        assert_eq!(records, [promised(3)]);
        assert!(!folder.path().join(".abc").exists());
    }
}
