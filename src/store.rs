//! Durable state: what a node must not forget, under `STATE/PEER/SESSION/`, one file a record.
//!
//! A file is written beside its place, synced, renamed, and its folder synced: after a crash there is the old
//! or the new one, whole. Format of a record: the line `flyswarm-state 2\n`, u32 LE length of the record, the
//! record (bincode), SHA-256 of all that. A sealed total is a file of its own, its bytes and nothing else,
//! named `total-` and its digest in hexadecimal, and on disk before a record that names it: what is
//! acknowledged and then frozen is written once, and begun while it still comes ([`Store::write_early`]). Whoever
//! restores the records holds each total against its digest. A total that no record names is removed. A lock
//! on the folder refuses a second process. When the session is over ([`Store::finish`]) nothing stays but what
//! was promised, and the folder is not opened again. Removed files are gone for programs; what a disk keeps of
//! them is beyond this one.

mod early_write;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::files;
use crate::node::Record;
use crate::protocol::all_reduce::SumId;
use crate::protocol::ballot::Ballot;
use crate::protocol::{self, wire};
use crate::session::Peer;
use early_write::EarlyWrite;

const MAGIC: &[u8] = b"flyswarm-state 2\n";
/// Magic, length, the largest record, digest.
const MAX_RECORD: u64 = 1 << 21;
/// The largest vector.
const MAX_TOTAL: u64 = 1 << 30;

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
    /// The session was finished with this state.
    #[error(
        "{0}: this peer has finished the session: its result was written, and nothing is kept for it here"
    )]
    Over(PathBuf),
    /// A file is damaged.
    #[error("{0}: damaged state file: {1}")]
    Damaged(PathBuf, &'static str),
}

/// One identity's state in one session, locked.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Record files and the totals that they name.
    totals: BTreeMap<String, String>,
    /// The total that is being written.
    early: Option<EarlyWrite>,
    /// See [`Store::keep_mark`].
    mark: Option<(PathBuf, Ballot)>,
    _lock: File,
}

impl Store {
    /// Opens or makes `folder`, locks it and reads every record in it.
    pub fn open(folder: &Path) -> Result<(Self, Vec<Record>), StoreError> {
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
                Some("lock" | PAID) => {}
                // What a crash left half-written.
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

    /// From now on keeps in the file `path`, apart from the state, the highest ballot that was promised or
    /// joined. Whether it already stands higher than in these records, all that the state has: then that is
    /// lost, an old copy, or another folder than before.
    pub fn keep_mark(&mut self, path: &Path, records: &[Record]) -> Result<bool, StoreError> {
        let io = |error| StoreError::Io { path: path.to_owned(), error };
        let known = records.iter().filter_map(ballot).max().unwrap_or_default();
        files::create_folders(path.parent().unwrap_or(path), true).map_err(io)?;
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "0 0".to_owned(),
            text => text.map_err(io)?,
        };
        let damaged = || StoreError::Damaged(path.to_owned(), "not a mark");
        let (counter, proposer) = text.trim_end().split_once(' ').ok_or_else(damaged)?;
        let (counter, proposer) = (counter.parse(), proposer.parse());
        let (Ok(counter), Ok(proposer)) = (counter, proposer) else { return Err(damaged()) };
        let marked = Ballot { counter, proposer: Peer(proposer) };
        self.mark = Some((path.to_owned(), marked));
        self.raise_mark(known)?;
        Ok(marked > known)
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

    /// Removes pads, totals, outcomes and all else but what was promised from a folder whose session is over:
    /// its result is durable elsewhere. The folder is not opened again, for a peer that has forgotten what it
    /// acknowledged must not vote.
    ///
    /// # Errors
    /// [`StoreError`]; [`Store::open`] then goes on with it.
    pub fn finish(folder: &Path) -> Result<(), StoreError> {
        let _lock = locked(folder)?;
        let path = folder.join(OVER);
        let io = |error| StoreError::Io { path: path.clone(), error };
        files::write_whole(&path, b"", true).and_then(|()| clear(folder)).map_err(io)
    }

    /// Whether another process has `folder` open. Makes and changes nothing.
    pub fn in_use(folder: &Path) -> Result<bool, StoreError> {
        let path = folder.join("lock");
        let lock = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            lock => lock.map_err(|error| StoreError::Io { path: path.clone(), error })?,
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(StoreError::Io { path, error }),
        }
    }

    /// Whether the session whose state is in `folder` stands in the ledger. Goes with the state: without it a
    /// peer would draw anew.
    pub fn is_paid(folder: &Path) -> Result<bool, StoreError> {
        let path = folder.join(PAID);
        path.try_exists().map_err(|error| StoreError::Io { path, error })
    }

    /// Says so from now on, durably.
    pub fn mark_paid(folder: &Path) -> Result<(), StoreError> {
        let path = folder.join(PAID);
        let marked = files::create_folders(folder, true).and_then(|()| File::create(&path)?.sync_all());
        let synced = marked.and_then(|()| File::open(folder)?.sync_all());
        synced.map_err(|error| StoreError::Io { path, error })
    }

    /// Writes a total while it comes. What the disk refuses here it is asked again when a record needs it.
    pub fn write_early(&mut self, part: protocol::EarlyWrite) {
        match part {
            protocol::EarlyWrite::Chunk(sum, data) => {
                if self.early.as_ref().is_none_or(|early| early.sum() != sum) {
                    self.early = EarlyWrite::new(&self.folder, sum).ok();
                }
                if let Some(early) = &self.early {
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

    /// Puts `record` on stable storage. When this returns, it survives a crash.
    /// [`Record::Bare`] takes the place of a
    /// decision with its total.
    pub fn write(&mut self, record: &Record) -> Result<(), StoreError> {
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
                // No record without its total, in whatever order renames reach the disk.
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
        if let Record::Frozen(frozen, _) | Record::Bare(frozen) = record {
            // What was acknowledged is decided now, and what other views gave for it is of no use. What was
            // drawn for it stays: vectors of later slots may be made of it.
            let SumId { slot, ballot } = frozen.record.value.sum;
            let mut done = vec!["accepted".to_owned()];
            for names in Record::names_of_views(slot) {
                let needed = format!("{names}{ballot}");
                done.extend(
                    self.totals.keys().filter(|name| name.starts_with(&names) && **name != needed).cloned(),
                );
            }
            for name in done {
                self.remove(&name)?;
                before.extend(self.totals.remove(&name));
            }
        }
        self.sync()?;
        before.iter().try_for_each(|name| self.remove_unnamed(name))?;
        // After the record: a mark that stands above what is stored is a loss.
        ballot(record).map_or(Ok(()), |ballot| self.raise_mark(ballot))
    }

    /// Puts a file in its place, whole. Its name is durable after the next [`Store::sync`].
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        let io = |error| StoreError::Io { path: path.clone(), error };
        let mut file = beside(&self.folder).map_err(io)?;
        parts.iter().try_for_each(|part| file.as_file_mut().write_all(part)).map_err(io)?;
        file.as_file().sync_all().map_err(io)?;
        self.name(file, name)
    }

    /// Puts a synced file in its place.
    fn name(&self, file: NamedTempFile, name: &str) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        let named = file.persist(&path).map(drop);
        named.map_err(|error| StoreError::Io { path, error: error.error })
    }

    fn sync(&self) -> Result<(), StoreError> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| StoreError::Io { path: self.folder.clone(), error })
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

/// Marks a folder whose session the ledger knows.
const PAID: &str = "paid";
/// Marks a folder whose session is over.
const OVER: &str = "over";
/// What stays in it.
const STAYS: [&str; 7] = ["lock", PAID, OVER, "promised", "joined", "released", "silent"];
/// What the names of totals begin with.
const TOTAL: &str = "total-";

/// The ballot that a record promises or joins.
fn ballot(record: &Record) -> Option<Ballot> {
    match record {
        Record::Promised(ballot) | Record::Joined(ballot) => Some(*ballot),
        _ => None,
    }
}

fn total_name(record: &Record) -> Option<String> {
    record.total().map(|(digest, _)| format!("{TOTAL}{}", hex::encode(digest)))
}

/// A file that is not in its place yet, and is removed with its handle or when the folder is opened next.
fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".").tempfile_in(folder).map_err(files::plain)
}

/// The lock of a folder, which is made where it is not there.
fn locked(folder: &Path) -> Result<File, StoreError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| StoreError::Io { path, error }
    };
    files::create_folders(folder, true).map_err(io(folder))?;
    let path = folder.join("lock");
    let lock = File::options().create(true).append(true).open(&path).map_err(io(&path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(StoreError::Io { path, error }),
    }
}

/// Removes all that does not stay when a session is over.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|name| STAYS.contains(&name)) {
            fs::remove_file(entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
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

/// A record, without its total.
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
mod tests {
    use super::*;
    use crate::protocol::record::{Frozen, Record as SumRecord, Value};
    use crate::protocol::rows::Keeping;

    fn promised(counter: u64) -> Record {
        Record::Promised(Ballot { counter, proposer: Peer(1) })
    }

    #[test]
    fn what_was_written_last_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, records) = Store::open(folder.path()).unwrap();
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
    fn a_mark_tells_of_a_lost_an_older_and_another_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (state, mark) = (folder.path().join("state"), folder.path().join("key.sessions").join("id"));
        let lost = |at: &Path| {
            let (mut store, records) = Store::open(at).unwrap();
            store.keep_mark(&mark, &records).unwrap()
        };
        let (mut store, records) = Store::open(&state).unwrap();
        assert!(!store.keep_mark(&mark, &records).unwrap(), "the first time");
        store.write(&promised(1)).unwrap();
        let older = fs::read(state.join("promised")).unwrap();
        store.write(&promised(7)).unwrap();
        drop(store);
        assert!(!lost(&state), "whole");
        assert!(lost(&folder.path().join("another")));
        fs::write(state.join("promised"), older).unwrap();
        assert!(lost(&state), "an old copy");
        fs::remove_dir_all(&state).unwrap();
        assert!(lost(&state), "removed");
        fs::write(&mark, "x").unwrap();
        let (mut store, records) = Store::open(&state).unwrap();
        assert!(matches!(store.keep_mark(&mark, &records), Err(StoreError::Damaged(..))));
    }

    #[test]
    fn a_second_process_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let held = Store::open(folder.path()).unwrap();
        assert!(matches!(Store::open(folder.path()), Err(StoreError::Locked(_))));
        assert!(Store::in_use(folder.path()).unwrap());
        drop(held);
        assert!(
            !Store::in_use(folder.path()).unwrap() && !Store::in_use(&folder.path().join("none")).unwrap()
        );
    }

    #[test]
    fn when_a_session_is_over_only_promises_stay_and_the_folder_is_not_opened_again() {
        use crate::protocol::record::Record as SumRecord;
        let parent = tempfile::tempdir().unwrap();
        let folder = &parent.path().join("state/peer/session");
        let names = || {
            let all =
                fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            all.collect::<std::collections::BTreeSet<_>>()
        };
        Store::mark_paid(folder).unwrap();
        let (mut store, _) = Store::open(folder).unwrap();
        let sum = SumId { ballot: Ballot { counter: 1, proposer: Peer(1) }, slot: 1 };
        let record = SumRecord::new(sum, vec![], Sha256::digest(b"total").into(), vec![]);
        store.write(&Record::Accepted(sum.ballot, record, bytes::Bytes::from_static(b"total"))).unwrap();
        store
            .write(&Record::Noised(1, Sha256::digest(b"pad").into(), bytes::Bytes::from_static(b"pad")))
            .unwrap();
        store.write(&promised(1)).unwrap();
        assert!(matches!(Store::finish(folder), Err(StoreError::Locked(_))), "not while it is open");
        drop(store);
        assert_eq!(names().len(), 7);
        Store::finish(folder).unwrap();
        let left = ["lock", "over", "paid", "promised"].map(ToOwned::to_owned);
        assert_eq!(names(), left.clone().into());
        // A crash on the way: the mark is there, and so is a file.
        fs::write(folder.join("noised-1"), b"pad").unwrap();
        let error = Store::open(folder).unwrap_err();
        assert!(matches!(&error, StoreError::Over(_)), "{error}");
        assert_eq!(names(), left.into());
        assert!(Store::is_paid(folder).unwrap());
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path()).unwrap();
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
    fn what_was_kept_back_in_views_that_were_not_decided_on_goes_when_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path()).unwrap();
        let ballot = |counter| Ballot { counter, proposer: Peer(1) };
        let kept = |slot, counter, block: &'static [u8]| {
            let sum = SumId { ballot: ballot(counter), slot };
            Record::Kept(Keeping::of(block).finish(sum).unwrap())
        };
        let (other, decided, next) = (kept(1, 1, b"other"), kept(1, 2, b"decided"), kept(2, 1, b"next"));
        for record in [&other, &decided, &next] {
            store.write(record).unwrap();
        }
        let value = Value {
            sum: SumId { ballot: ballot(2), slot: 1 },
            members: Vec::new(),
            total: [1; 32],
            deals: [0; 32],
        };
        let record = SumRecord { value, deals: Vec::new() };
        let frozen = Record::Frozen(
            Frozen { record, acknowledgements: Vec::new(), pads: Vec::new(), releases: Vec::new() },
            vec![7; 9].into(),
        );
        store.write(&frozen).unwrap();
        drop(store);
        let (_, mut records) = Store::open(folder.path()).unwrap();
        records.sort_by_key(Record::name);
        assert_eq!(records, [frozen, decided, next]);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            7,
            "lock, three records and what is beside them"
        );
    }

    #[test]
    fn what_a_crash_left_half_written_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path()).unwrap();
        store.write(&promised(3)).unwrap();
        drop(store);
        fs::write(folder.path().join(".abc"), b"half").unwrap();
        let (_, records) = Store::open(folder.path()).unwrap();
        assert_eq!(records, [promised(3)]);
        assert!(!folder.path().join(".abc").exists());
    }

    #[test]
    fn a_total_is_written_once_and_goes_with_the_last_record_that_names_it() {
        use crate::protocol::record::{Frozen, Record as SumRecord};
        let accepted = |counter, total: &'static [u8]| {
            let sum = SumId { ballot: Ballot { counter, proposer: Peer(1) }, slot: 1 };
            let record = SumRecord::new(sum, vec![], Sha256::digest(total).into(), vec![]);
            Record::Accepted(sum.ballot, record, total.into())
        };
        let folder = tempfile::tempdir().unwrap();
        let totals = || {
            let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
            names.filter(|entry| entry.file_name().to_str().unwrap().starts_with(TOTAL)).collect::<Vec<_>>()
        };
        let (mut store, _) = Store::open(folder.path()).unwrap();
        store.write(&accepted(1, b"first")).unwrap();
        store.write(&accepted(2, b"second")).unwrap();
        let [file] = &totals()[..] else { panic!("{:?}", totals()) };
        assert_eq!(fs::read(file.path()).unwrap(), b"second");
        let written = file.metadata().unwrap().modified().unwrap();
        let Record::Accepted(_, record, total) = accepted(2, b"second") else { unreachable!() };
        let frozen = Record::Frozen(
            Frozen { record, acknowledgements: vec![], pads: vec![], releases: vec![] },
            total,
        );
        store.write(&frozen).unwrap();
        assert_eq!(totals()[0].metadata().unwrap().modified().unwrap(), written);
        drop(store);
        fs::write(folder.path().join("total-00"), b"what no record names").unwrap();
        let (store, records) = Store::open(folder.path()).unwrap();
        assert_eq!((records, totals().len()), (vec![frozen], 1));
        drop(store);
        fs::remove_file(totals()[0].path()).unwrap();
        assert!(Store::open(folder.path()).unwrap_err().to_string().contains(TOTAL));
    }

    #[test]
    fn a_total_written_ahead_is_the_one_that_is_read_back_and_of_others_nothing_stays() {
        use crate::protocol::EarlyWrite::{Chunk, End};
        use crate::protocol::record::Record as SumRecord;
        let sum = |counter| SumId { ballot: Ballot { counter, proposer: Peer(1) }, slot: 1 };
        let accepted = |counter, total: &[u8]| {
            let record = SumRecord::new(sum(counter), vec![], Sha256::digest(total).into(), vec![]);
            Record::Accepted(sum(counter).ballot, record, bytes::Bytes::copy_from_slice(total))
        };
        let folder = tempfile::tempdir().unwrap();
        let files = || fs::read_dir(folder.path()).unwrap().count();
        let (mut store, _) = Store::open(folder.path()).unwrap();
        // A sum that came to nothing, then one that is whole.
        store.write_early(Chunk(sum(1), bytes::Bytes::from_static(b"never")));
        let total: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
        for chunk in total.chunks(1 << 18) {
            store.write_early(Chunk(sum(2), bytes::Bytes::copy_from_slice(chunk)));
        }
        store.write_early(End(sum(2), Sha256::digest(&total).into()));
        store.write(&accepted(2, &total)).unwrap();
        // What is acknowledged is not what was written ahead: another total of the same sum.
        store.write_early(Chunk(sum(3), bytes::Bytes::from_static(b"ours")));
        store.write_early(End(sum(3), Sha256::digest(b"ours").into()));
        drop(store);
        let (mut store, records) = Store::open(folder.path()).unwrap();
        assert_eq!(records, [accepted(2, &total)]);
        store.write_early(Chunk(sum(3), bytes::Bytes::from_static(b"ours")));
        store.write_early(End(sum(3), Sha256::digest(b"ours").into()));
        store.write(&accepted(3, b"theirs")).unwrap();
        drop(store);
        let (_store, records) = Store::open(folder.path()).unwrap();
        assert_eq!(records, [accepted(3, b"theirs")]);
        // The lock, the record and its total.
        assert_eq!(files(), 3);
    }
}
