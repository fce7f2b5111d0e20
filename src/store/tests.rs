//! Tests that stored records are read back, also after a crash.

use super::*;
use crate::protocol::record::{Committed, Record as SumRecord, Value};

fn promised(counter: u64) -> Record {
    Record::Promised(Ballot { counter, proposer: Peer(1) })
}

/// Returns a folder with a promise, the file of the promise, and its contents.
fn with_promise() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(folder.path()).unwrap();
    store.write(&promised(1)).unwrap();
    drop(store);
    let path = folder.path().join("promised");
    let whole = fs::read(&path).unwrap();
    (folder, path, whole)
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
        let told = Store::is_behind(at, &mark).unwrap();
        let (mut store, records) = Store::open(at).unwrap();
        let lost = store.keep_mark(&mark, &records).unwrap();
        assert_eq!(told, lost, "the doctor finds the same");
        lost
    };
    let (mut store, records) = Store::open(&state).unwrap();
    assert!(!store.keep_mark(&mark, &records).unwrap(), "nothing is lost the first time");
    store.write(&promised(1)).unwrap();
    let older = fs::read(state.join("promised")).unwrap();
    store.write(&promised(7)).unwrap();
    drop(store);
    assert_eq!(marked(&mark).unwrap().counter, 7, "raised with each promise");
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
    assert!(!Store::in_use(folder.path()).unwrap() && !Store::in_use(&folder.path().join("none")).unwrap());
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
    assert!(
        matches!(Store::finish(folder), Err(StoreError::Locked(_))),
        "a folder cannot be finished while it is open"
    );
    drop(store);
    assert_eq!(names().len(), 7);
    Store::finish(folder).unwrap();
    let left = ["lock", "over", "paid", "promised"].map(ToOwned::to_owned);
    assert_eq!(names(), left.clone().into());
    // A crash happened during the removal: the mark exists, but one file was not removed.
    fs::write(folder.join("noised-1"), b"pad").unwrap();
    let error = Store::open(folder).unwrap_err();
    assert!(matches!(&error, StoreError::Over(_)), "{error}");
    assert_eq!(names(), left.into());
    assert!(Store::is_paid(folder).unwrap());
}

#[test]
fn a_damaged_file_is_named() {
    let (folder, path, whole) = with_promise();
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
fn results_of_exchanges_of_other_views_go_when_a_slot_is_decided() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(folder.path()).unwrap();
    let ballot = |counter| Ballot { counter, proposer: Peer(1) };
    let result = |slot, counter, bytes: &'static [u8]| {
        let sum = SumId { ballot: ballot(counter), slot };
        Record::Exchanged(sum, Sha256::digest(bytes).into(), bytes.into())
    };
    let (other, decided, next) = (result(1, 1, b"other"), result(1, 2, b"decided"), result(2, 1, b"next"));
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
    let committed = Record::Committed(
        Committed { record, acknowledgements: Vec::new(), pads: Vec::new(), releases: Vec::new() },
        vec![7; 9].into(),
    );
    store.write(&committed).unwrap();
    drop(store);
    let (_, mut records) = Store::open(folder.path()).unwrap();
    records.sort_by_key(Record::name);
    assert_eq!(records, [committed, decided, next]);
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
    use crate::protocol::record::{Committed, Record as SumRecord};
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
    let committed = Record::Committed(
        Committed { record, acknowledgements: vec![], pads: vec![], releases: vec![] },
        total,
    );
    store.write(&committed).unwrap();
    assert_eq!(totals()[0].metadata().unwrap().modified().unwrap(), written);
    drop(store);
    fs::write(folder.path().join("total-00"), b"what no record names").unwrap();
    let (store, records) = Store::open(folder.path()).unwrap();
    assert_eq!((records, totals().len()), (vec![committed], 1));
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
    // First a sum that was given up, then a complete sum.
    store.write_early(Chunk(sum(1), 0, bytes::Bytes::from_static(b"never")));
    let total: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    // This sum was begun and given up before.
    store.write_early(Chunk(sum(2), 0, bytes::Bytes::from_static(b"begun")));
    for (number, chunk) in total.chunks(1 << 18).enumerate() {
        store.write_early(Chunk(sum(2), number << 18, bytes::Bytes::copy_from_slice(chunk)));
    }
    store.write_early(End(sum(2), Sha256::digest(&total).into()));
    store.write(&accepted(2, &total)).unwrap();
    // The acknowledged total differs from the total of the same sum that was written early.
    store.write_early(Chunk(sum(3), 0, bytes::Bytes::from_static(b"ours")));
    store.write_early(End(sum(3), Sha256::digest(b"ours").into()));
    drop(store);
    let (mut store, records) = Store::open(folder.path()).unwrap();
    assert_eq!(records, [accepted(2, &total)]);
    store.write_early(Chunk(sum(3), 0, bytes::Bytes::from_static(b"ours")));
    store.write_early(End(sum(3), Sha256::digest(b"ours").into()));
    store.write(&accepted(3, b"theirs")).unwrap();
    drop(store);
    let (_store, records) = Store::open(folder.path()).unwrap();
    assert_eq!(records, [accepted(3, b"theirs")]);
    // There are three files: the lock, the record and its total.
    assert_eq!(files(), 3);
}

#[test]
fn a_lock_is_let_go_of_although_a_forked_process_still_has_its_file_open() {
    let folder = tempfile::tempdir().unwrap();
    let lock = locked(folder.path()).unwrap();
    // A process that was just forked has such a copy of the file until it runs another program.
    let copy = lock.0.try_clone().unwrap();
    assert!(matches!(locked(folder.path()), Err(StoreError::Locked(_))));
    drop(lock);
    drop(locked(folder.path()).unwrap());
    drop(copy);
}

/// A file with a valid digest that is nevertheless not a record.
#[test]
fn a_file_that_only_looks_whole_is_refused_with_what_is_wrong() {
    let (folder, path, whole) = with_promise();
    let body = &whole[..whole.len() - 32];
    let at = MAGIC.len();
    let opens = |body: &[u8]| {
        fs::write(&path, [body, &Sha256::digest(body)[..]].concat()).unwrap();
        Store::open(folder.path()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(opens(body), Ok(()));
    let refused = |what: &str, body: &[u8]| {
        let told = opens(body).unwrap_err();
        assert!(told.contains(what), "{what}: {told}");
    };
    let mut other = body.to_vec();
    other[at - 2] = b'1';
    refused("not a state file of this version", &other);
    refused("too short", MAGIC);
    let mut other = body.to_vec();
    other[at] += 1;
    refused("another length", &other);
    let mut other = body.to_vec();
    other[at + 4] = 99;
    refused("does not decode", &other);
    File::create(&path).unwrap().set_len(MAX_RECORD + 1).unwrap();
    let told = Store::open(folder.path()).map(drop).unwrap_err().to_string();
    assert!(told.contains("too large"), "{told}");
}

/// Bytes that do not continue the previous bytes do not belong to a total, and neither does the end of
/// another sum.
#[test]
fn what_was_written_ahead_of_another_sum_or_in_another_place_is_not_taken_for_a_total() {
    use crate::protocol::EarlyWrite::{self, Chunk, End};
    let sum = |counter| SumId { ballot: Ballot { counter, proposer: Peer(1) }, slot: 1 };
    let chunk =
        |counter, start, data: &'static [u8]| Chunk(sum(counter), start, bytes::Bytes::from_static(data));
    let digest = || Sha256::digest(b"total").into();
    let ahead: [&[EarlyWrite]; 3] = [
        &[chunk(1, 0, b"to"), chunk(1, 2, b"tal"), End(sum(1), digest())],
        &[chunk(1, 0, b"to"), chunk(1, 3, b"???"), End(sum(1), digest())],
        &[chunk(1, 0, b"other"), End(sum(2), digest())],
    ];
    for parts in ahead {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path()).unwrap();
        parts.iter().for_each(|part| store.write_early(part.clone()));
        let record = SumRecord::new(sum(1), vec![], digest(), vec![]);
        let accepted = Record::Accepted(sum(1).ballot, record, bytes::Bytes::from_static(b"total"));
        store.write(&accepted).unwrap();
        drop(store);
        let (_store, records) = Store::open(folder.path()).unwrap();
        assert_eq!(records, [accepted], "{parts:?}");
    }
}

#[test]
fn what_was_drawn_for_a_sum_goes_with_its_total_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(folder.path()).unwrap();
    let sum = SumId { ballot: Ballot { counter: 1, proposer: Peer(1) }, slot: 1 };
    let value = Value { sum, members: Vec::new(), total: [1; 32], deals: [0; 32] };
    let record = SumRecord { value, deals: Vec::new() };
    let committed =
        Committed { record, acknowledgements: Vec::new(), pads: Vec::new(), releases: Vec::new() };
    let noised =
        |slot, words: &'static [u8]| Record::Noised(slot, Sha256::digest(words).into(), words.into());
    for record in
        [noised(1, b"one"), noised(2, b"two"), Record::Committed(committed.clone(), vec![7; 9].into())]
    {
        store.write(&record).unwrap();
    }
    let names = |store: Store| {
        drop(store);
        let (store, records) = Store::open(folder.path()).unwrap();
        (store, records.iter().map(Record::name).collect::<std::collections::BTreeSet<_>>())
    };
    let (mut store, stored) = names(store);
    assert_eq!(stored, ["committed-1", "noised-1", "noised-2"].map(str::to_owned).into());
    store.write(&Record::Bare(committed)).unwrap();
    let (_, stored) = names(store);
    assert_eq!(stored, ["committed-1", "noised-2"].map(str::to_owned).into());
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 4, "lock, two records and what is beside one of them");
}
