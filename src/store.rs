//! The durable state of a node. It is in the folder `STATE/PEER/SESSION/`, with one file for each record.
//!
//! A file is written under a temporary name, synced and renamed, and then its folder is synced. So after a
//! crash, either the old or the new file exists, and it is complete. A record is the line `flyswarm-state
//! 2\n`, the length of the record as u32 LE, the record (bincode), and SHA-256 of all this. A sealed total
//! has its own file with only its bytes. The name of this file is `total-` and the digest in hexadecimal. The
//! file is on disk before any record that names it. So a total that is acknowledged and then committed is
//! written only once, and writing begins while the total is still arriving ([`Store::write_early`]). The code
//! that restores the records checks each total against its digest. A total that no record names is removed. A
//! lock on the folder keeps a second process out. When the session is over ([`Store::finish`]), only the
//! promises remain, and the folder is not opened again. Programs cannot read removed files, but a disk may
//! keep their data.

mod early_write;
mod pin;
mod unserved;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::files;
use crate::node::Record;
use crate::protocol::ballot::Ballot;
use crate::protocol::sum_id::SumId;
use crate::protocol::{self, wire};
use crate::session::Peer;
use early_write::EarlyWrite;
use pin::PIN;
pub(crate) use pin::{Pin, has_records};
use unserved::UNSERVED;

const MAGIC: &[u8] = b"flyswarm-state 2\n";
/// Size limit of a record file: magic, length, the largest record, digest.
const MAX_RECORD: u64 = 1 << 21;
/// Largest vector.
const MAX_TOTAL: u64 = 1 << 30;

/// Reasons why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused access.
    #[error("{}", refused(path, error))]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The file system does not support locks.
    #[error(
        "{folder}: the file system of --state has no locks (NFS?): choose a folder on a local disk with --state \
         ({error})"
    )]
    NoLocks {
        /// Folder of the state.
        folder: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Another process runs the session with this identity.
    #[error("{0}: another process runs this session with this identity")]
    Locked(PathBuf),
    /// The session has already been finished with this state.
    #[error(
        "{0}: this peer has finished the session: its result was written, and nothing is kept for it here; \
         `session next` makes the next session"
    )]
    Over(PathBuf),
    /// The session has continued with other rows.
    #[error(
        "{rows}: this session already holds the counts of other rows ({known}); start again with the same file, \
         or make a new session with `session next`"
    )]
    OtherRows {
        /// Present name of the rows.
        rows: String,
        /// Former name of the rows.
        known: String,
    },
    /// A file is damaged.
    #[error("{0}: damaged state file: {1}")]
    Damaged(PathBuf, &'static str),
}

/// The state of one identity in one session. It is locked.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Record files, each with the total that it names.
    totals: BTreeMap<String, String>,
    /// Total that is being written before its record.
    early: Option<EarlyWrite>,
    /// See [`Store::keep_mark`].
    mark: Option<(PathBuf, Ballot)>,
    _lock: Lock,
}

impl StoreError {
    /// Returns whether the user's request caused the error, not the machine.
    #[must_use]
    pub fn is_input(&self) -> bool {
        matches!(self, Self::Over(_) | Self::OtherRows { .. })
    }
}

impl Store {
    /// Opens or creates `folder`, locks it, and reads every record in it.
    pub(crate) fn open(folder: &Path) -> Result<(Self, Vec<Record>), StoreError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError::Io { path, error }
        };
        let lock = locked(folder)?;
        let over = folder.join(OVER);
        if over.try_exists().map_err(io(&over))? {
            clear(folder).map_err(io(folder))?;
            return Err(StoreError::Over(folder.to_owned()));
        }
        let mut store =
            Self { folder: folder.to_owned(), totals: BTreeMap::new(), early: None, mark: None, _lock: lock };
        let mut records = Vec::new();
        let mut totals = Vec::new();
        for entry in fs::read_dir(folder).map_err(io(folder))? {
            let path = entry.map_err(io(folder))?.path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some("lock" | PAID | PIN | UNSERVED) => {}
                // This file is incomplete because of a crash.
                Some(name) if name.starts_with('.') => fs::remove_file(&path).map_err(io(&path))?,
                Some(name) if name.starts_with(TOTAL) => totals.push(name.to_owned()),
                _ => records.push(read(&path)?),
            }
        }
        let mut complete = Vec::new();
        for record in records {
            let Some(name) = total_name(&record) else {
                complete.push(record);
                continue;
            };
            let total = read_file(&folder.join(&name), MAX_TOTAL)?;
            store.totals.insert(record.name(), name);
            complete.push(record.with_total(total.into()));
        }
        for name in totals {
            store.remove_unnamed(&name)?;
        }
        Ok((store, complete))
    }

    /// From now on, keeps a mark in the file `path`, apart from the state: the highest ballot that was
    /// promised or joined. `records` are all records of the state. Returns true if the mark is already above
    /// them. In this case the state has been lost, is an old copy, or was in another folder before.
    pub(crate) fn keep_mark(&mut self, path: &Path, records: &[Record]) -> Result<bool, StoreError> {
        let io = |error| StoreError::Io { path: path.to_owned(), error };
        let known = records.iter().filter_map(ballot).max().unwrap_or_default();
        files::create_folders(path.parent().unwrap_or(path), true).map_err(io)?;
        let marked = marked(path)?;
        self.mark = Some((path.to_owned(), marked));
        self.raise_mark(known)?;
        Ok(marked > known)
    }

    /// Returns whether this mark is above the records in `folder`. In this case the state has been lost or is
    /// an old copy, and its owner does not vote. Writes nothing.
    pub(crate) fn is_behind(folder: &Path, mark: &Path) -> Result<bool, StoreError> {
        let silent = folder.join("silent");
        if silent.try_exists().map_err(|error| StoreError::Io { path: silent, error })? {
            return Ok(true);
        }
        let mut known = Ballot::default();
        for name in ["promised", "joined"] {
            let path = folder.join(name);
            match read(&path) {
                Err(StoreError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                record => known = known.max(ballot(&record?).unwrap_or_default()),
            }
        }
        Ok(marked(mark)? > known)
    }

    fn raise_mark(&mut self, to: Ballot) -> Result<(), StoreError> {
        let Some((path, marked)) = self.mark.as_mut().filter(|(_, marked)| *marked < to) else {
            return Ok(());
        };
        let text = format!("{} {}\n", to.counter, to.proposer.0);
        let written = files::write_whole(path, text.as_bytes(), true);
        written.map_err(|error| StoreError::Io { path: path.clone(), error })?;
        *marked = to;
        Ok(())
    }

    /// Removes everything except promises from the folder of a finished session, for example pads, totals and
    /// outcomes. The result has been stored elsewhere. The folder is not opened again, because a peer that
    /// has forgotten its acknowledgements must not vote.
    ///
    /// # Errors
    /// [`StoreError`]; the next [`Store::open`] then continues the removal.
    pub(crate) fn finish(folder: &Path) -> Result<(), StoreError> {
        let _lock = locked(folder)?;
        let path = folder.join(OVER);
        let io = |error| StoreError::Io { path: path.clone(), error };
        files::write_whole(&path, b"", true).and_then(|()| clear(folder)).map_err(io)
    }

    /// Returns whether the session whose state is in `folder` is over for this peer. Writes nothing.
    pub(crate) fn is_over(folder: &Path) -> Result<bool, StoreError> {
        let path = folder.join(OVER);
        path.try_exists().map_err(|error| StoreError::Io { path, error })
    }

    /// Returns whether another process has `folder` open. Writes nothing.
    pub(crate) fn in_use(folder: &Path) -> Result<bool, StoreError> {
        let path = folder.join("lock");
        let lock = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            lock => lock.map_err(|error| StoreError::Io { path: path.clone(), error })?,
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(StoreError::NoLocks { folder: folder.to_owned(), error }),
        }
    }

    /// Returns whether the session whose state is in `folder` has been entered in the ledger. This
    /// information is in the state, so it is lost with the state: a peer without its state draws new noise
    /// and must spend budget again.
    pub(crate) fn is_paid(folder: &Path) -> Result<bool, StoreError> {
        let path = folder.join(PAID);
        path.try_exists().map_err(|error| StoreError::Io { path, error })
    }

    /// Marks the session as entered in the ledger, durably.
    pub(crate) fn mark_paid(folder: &Path) -> Result<(), StoreError> {
        let path = folder.join(PAID);
        let marked = files::create_folders(folder, true).and_then(|()| File::create(&path)?.sync_all());
        let synced = marked.and_then(|()| files::sync(folder));
        synced.map_err(|error| StoreError::Io { path, error })
    }

    /// Writes a total while it arrives. If the disk refuses a write, [`Store::write`] tries again.
    pub(crate) fn write_early(&mut self, part: protocol::EarlyWrite) {
        match part {
            protocol::EarlyWrite::Chunk(sum, start, data) => {
                if start == 0 {
                    self.early = EarlyWrite::new(&self.folder, sum).ok();
                }
                // If there is a gap after the last bytes, the sender has given up this total.
                self.early.take_if(|early| !early.goes_on(sum, start));
                if let Some(early) = &mut self.early {
                    early.chunk(data);
                }
            }
            protocol::EarlyWrite::End(sum, digest) => {
                if let Some(early) = self.early.as_mut().filter(|early| early.sum() == sum) {
                    early.end(digest);
                }
            }
        }
    }

    /// Writes `record` to disk. When this function returns, the record survives a crash. [`Record::Bare`]
    /// replaces a decision and its total.
    pub(crate) fn write(&mut self, record: &Record) -> Result<(), StoreError> {
        let mut before = Vec::new();
        if let Record::Bare(_) = record {
            before.extend(self.totals.remove(&record.name()));
        }
        if let (Some(name), Some((digest, total))) = (total_name(record), record.total()) {
            if !self.totals.values().any(|other| *other == name) {
                match self.early.take_if(|early| early.is(digest)).map(EarlyWrite::finish) {
                    Some(Ok(file)) => self.name(file, &name)?,
                    Some(Err(_)) | None => self.put(&name, &[total])?,
                }
                // Renames can reach the disk in any order, so the total is synced before its record.
                self.sync()?;
            }
            before.extend(self.totals.insert(record.name(), name));
        }
        let header = wire::canonical(record);
        let length =
            u32::try_from(header.len()).unwrap_or_else(|_| unreachable!("BUG: records are below 1 MiB"));
        let start = [MAGIC, &length.to_le_bytes()].concat();
        let digest = Sha256::new().chain_update(&start).chain_update(&header).finalize();
        self.put(&record.name(), &[&start, &header, &digest])?;
        if let Record::Committed(committed, _) | Record::Bare(committed) = record {
            // The acknowledged value has now been decided, so exchange records of other views are no longer
            // needed. The noise that was drawn for the value is kept as long as its total, because vectors of
            // later slots may depend on it.
            let SumId { slot, ballot } = committed.record.value.sum;
            let mut done = vec!["accepted".to_owned()];
            if matches!(record, Record::Bare(_)) {
                done.extend(Some(format!("noised-{slot}")).filter(|name| self.totals.contains_key(name)));
            }
            let names = Record::name_of_views(slot);
            // If the total of a slot is no longer needed, its exchange records are not needed either.
            let over = matches!(record, Record::Bare(_));
            let needed = if over { String::new() } else { format!("{names}{ballot}") };
            let others = self.totals.keys().filter(|name| name.starts_with(&names) && **name != needed);
            done.extend(others.cloned());
            for name in done {
                self.remove(&name)?;
                before.extend(self.totals.remove(&name));
            }
        }
        self.sync()?;
        before.iter().try_for_each(|name| self.remove_unnamed(name))?;
        // The mark is raised after the record is stored, because a mark above the stored records means a
        // loss.
        ballot(record).map_or(Ok(()), |ballot| self.raise_mark(ballot))
    }

    /// Writes a complete file with this name. The name is durable after the next [`Store::sync`].
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        let io = |error| StoreError::Io { path: path.clone(), error };
        let mut file = beside(&self.folder).map_err(io)?;
        parts.iter().try_for_each(|part| file.as_file_mut().write_all(part)).map_err(io)?;
        file.as_file().sync_all().map_err(io)?;
        self.name(file, name)
    }

    /// Gives a synced file its name.
    fn name(&self, file: NamedTempFile, name: &str) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        let named = file.persist(&path).map(drop);
        named.map_err(|error| StoreError::Io { path, error: error.error })
    }

    fn sync(&self) -> Result<(), StoreError> {
        files::sync(&self.folder).map_err(|error| StoreError::Io { path: self.folder.clone(), error })
    }

    fn remove_unnamed(&self, total: &str) -> Result<(), StoreError> {
        if self.totals.values().any(|name| name == total) { Ok(()) } else { self.remove(total) }
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::Io { path, error }),
            _ => Ok(()),
        }
    }
}

/// Name of the file that marks a session as entered in the ledger.
const PAID: &str = "paid";
/// Name of the file that marks a session as over.
const OVER: &str = "over";
/// Names of the files that remain after the session.
const STAYS: [&str; 7] = ["lock", PAID, OVER, "promised", "joined", "released", "silent"];
/// Prefix of the names of totals.
const TOTAL: &str = "total-";

/// Returns the ballot that a record promises or joins.
fn ballot(record: &Record) -> Option<Ballot> {
    match record {
        Record::Promised(ballot) | Record::Joined(ballot) => Some(*ballot),
        _ => None,
    }
}

/// Returns the ballot in a mark; the lowest ballot if there is no mark.
fn marked(path: &Path) -> Result<Ballot, StoreError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ballot::default()),
        text => text.map_err(|error| StoreError::Io { path: path.to_owned(), error })?,
    };
    let damaged = || StoreError::Damaged(path.to_owned(), "not a mark");
    let (counter, proposer) = text.trim_end().split_once(' ').ok_or_else(damaged)?;
    let (counter, proposer) = (counter.parse(), proposer.parse());
    let (Ok(counter), Ok(proposer)) = (counter, proposer) else { return Err(damaged()) };
    Ok(Ballot { counter, proposer: Peer(proposer) })
}

fn total_name(record: &Record) -> Option<String> {
    record.total().map(|(digest, _)| format!("{TOTAL}{}", hex::encode(digest)))
}

/// Creates a file under a temporary name. It is removed when its handle is dropped or when the folder is
/// opened again.
fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".").tempfile_in(folder).map_err(files::plain)
}

/// A lock that is released when it is dropped. Closing the file is not enough: the lock belongs to the open
/// file, and a process that was just forked may still have this file open.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // An error is ignored, because the system releases the lock when the process ends.
        let _ = self.0.unlock();
    }
}

/// Locks a folder and creates it if necessary.
fn locked(folder: &Path) -> Result<Lock, StoreError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| StoreError::Io { path, error }
    };
    files::create_folders(folder, true).map_err(io(folder))?;
    let path = folder.join("lock");
    let lock = File::options().create(true).append(true).open(&path).map_err(io(&path))?;
    match lock.try_lock() {
        Ok(()) => Ok(Lock(lock)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(StoreError::NoLocks { folder: folder.to_owned(), error }),
    }
}

/// Explains an error of the system. If a file system cannot sync, the error is an invalid argument.
fn refused(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::InvalidInput => format!(
            "{path}: the file system of --state does not sync files: choose a folder on a local disk with --state \
             ({error})"
        ),
        _ => format!("{path}: {error}"),
    }
}

/// Removes every file that must not remain after the session.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|name| STAYS.contains(&name)) {
            fs::remove_file(entry.path())?;
        }
    }
    files::sync(folder)
}

fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, StoreError> {
    let io = |error| StoreError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.len() > limit {
        return Err(StoreError::Damaged(path.to_owned(), "too large"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// Reads a record without its total.
fn read(path: &Path) -> Result<Record, StoreError> {
    let damaged = |what| StoreError::Damaged(path.to_owned(), what);
    let bytes = read_file(path, MAX_RECORD)?;
    let (bytes, digest) = bytes.split_last_chunk::<32>().ok_or(damaged("too short"))?;
    if Sha256::digest(bytes)[..] != digest[..] {
        return Err(damaged("the digest does not match"));
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or(damaged("not a state file of this version"))?;
    let (length, record) = rest.split_first_chunk::<4>().ok_or(damaged("too short"))?;
    if usize::try_from(u32::from_le_bytes(*length)) != Ok(record.len()) {
        return Err(damaged("the record has another length than it says"));
    }
    wire::decode_item(record).map_err(|_| damaged("the record does not decode"))
}

#[cfg(test)]
mod tests;
