//! Remembers the rows of this peer's last sessions of the tasks `summary` and `glm`, because two such
//! sessions that differ in few rows reveal something about these rows. Next to the ledger there is a file for
//! each such session, with a keyed hash of 8 bytes for each row. Only this peer reads it.

use std::io;
use std::path::{Path, PathBuf};

use sha2::Digest;

use crate::crypto::stream::derive;
use crate::crypto::tagged_hash;
use crate::files;
use crate::session::Session;
use crate::tasks::Rows;

/// If fewer rows than this have changed, the peer is warned. It is the default threshold of a session.
const FEW: usize = 10;
/// Number of sessions that are remembered. Older ones are removed.
const KEPT: usize = 16;

/// Hashes of a peer's rows in a session, sorted.
pub(super) struct SameRows {
    folder: PathBuf,
    session: String,
    hashes: Vec<u64>,
}

impl SameRows {
    /// Hashes the rows of a session. Returns `None` if the task does not need this, or if the peer has no
    /// rows.
    pub(super) fn new(session: &Session, rows: &Rows, secret: &[u8; 32], ledger: &Path) -> Option<Self> {
        if !matches!(session.task.check_next(0, 0), Ok(Some(_))) || rows.data.rows() == 0 {
            return None;
        }
        let key = derive(secret, "rows of sessions", b"");
        let hash = |row: usize| {
            let mut hash = tagged_hash("row").chain_update(*key);
            rows.data.row(row).iter().for_each(|value| hash.update(value.to_le_bytes()));
            hash.finalize().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let mut hashes: Vec<u64> = (0..rows.data.rows()).map(hash).collect();
        hashes.sort_unstable();
        Some(Self { folder: ledger.with_extension("rows"), session: session.id().to_string(), hashes })
    }

    /// Returns the files of other sessions, the latest first.
    fn others(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match self.folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?.collect::<Result<Vec<_>, _>>()?,
        };
        let others = entries.into_iter().filter(|entry| *entry.file_name() != *self.session);
        let mut dated = others
            .map(|entry| Ok((entry.metadata()?.modified()?, entry.path())))
            .collect::<io::Result<Vec<_>>>()?;
        dated.sort();
        Ok(dated.into_iter().rev().map(|(_, path)| path).collect())
    }

    /// Returns a warning about the latest earlier session whose rows are almost the same, but not exactly.
    pub(super) fn warning(&self) -> io::Result<Option<String>> {
        for path in self.others()? {
            let before: Vec<u64> = std::fs::read(&path)?
                .as_chunks::<8>()
                .0
                .iter()
                .map(|&hash| u64::from_le_bytes(hash))
                .collect();
            let (new, gone) = (without(&self.hashes, &before), without(&before, &self.hashes));
            if (1..FEW).contains(&new.max(gone)) {
                let session = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let short: String = session.chars().take(8).collect();
                return Ok(Some(format!(
                    "{new} rows of this peer are new and {gone} are gone since session {short}: what both \
                     sessions open can show these few rows. Join with the same rows as then, or when at \
                     least {FEW} rows have changed (docs/statistics.md)"
                )));
            }
        }
        Ok(None)
    }

    /// Keeps the hashes for later sessions.
    pub(super) fn keep(&self) -> io::Result<()> {
        files::create_folders(&self.folder, true)?;
        let bytes: Vec<u8> = self.hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        files::write_private(&self.folder.join(&self.session), &bytes, true)?;
        self.others()?.iter().skip(KEPT - 1).try_for_each(std::fs::remove_file)
    }
}

/// Returns how many entries of the sorted list `one` are missing from the sorted list `other`. Equal entries
/// are counted separately.
fn without(one: &[u64], other: &[u64]) -> usize {
    let (mut count, mut at) = (0, 0);
    for hash in one {
        while other.get(at).is_some_and(|other| other < hash) {
            at += 1;
        }
        match other.get(at) == Some(hash) {
            true => at += 1,
            false => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Identity;
    use crate::data::Dataset;

    fn session(task: &str, number: u8) -> Session {
        let mut keys: Vec<_> = (0..3u8).map(|i| Identity::from_seed([i; 32]).public()).collect();
        keys.sort();
        let entry = |(i, key)| format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
        let text = format!(
            "name = \"test\"\nrun_id = \"{number:032x}\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"{task}\"\n\
             [data]\nfeatures = 2\ncolumns = [\"x\", \"y\"]\n"
        );
        let roster: String = keys.into_iter().enumerate().map(entry).collect();
        Session::parse(&(text + &roster)).expect("a session")
    }

    fn rows(numbers: impl Iterator<Item = u32>) -> Rows {
        let values: Vec<f32> = numbers.flat_map(|x| [x as f32, (x % 7) as f32]).collect();
        let data = Dataset::new(2, values, Vec::new(), Vec::new()).expect("rows");
        Rows { data: Arc::new(data), labels: Vec::new(), gaps: Vec::new(), preparation: None }
    }

    #[test]
    fn few_changed_rows_are_reported_and_none_or_many_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("peer.jsonl");
        let of = |number: u8, rows: &Rows| {
            SameRows::new(&session("summary", number), rows, &[3; 32], &ledger).expect("a summary")
        };
        let first = of(1, &rows(0..100));
        assert_eq!(first.warning().unwrap(), None);
        first.keep().unwrap();
        // The order of the rows does not matter. A session is not compared with itself.
        assert_eq!(of(2, &rows((0..100).rev())).warning().unwrap(), None);
        assert_eq!(of(1, &rows(0..101)).warning().unwrap(), None);
        let line = of(2, &rows(0..101)).warning().unwrap().expect("a warning");
        assert!(line.starts_with("1 rows of this peer are new and 0 are gone since session "), "{line}");
        // A copy of a row counts, and so does a row that is gone.
        assert!(of(2, &rows((0..100).chain([5]))).warning().unwrap().is_some());
        assert!(of(2, &rows(9..100)).warning().unwrap().unwrap().contains("and 9 are gone"));
        assert_eq!(of(2, &rows(10..100)).warning().unwrap(), None);
        assert_eq!(of(2, &rows(1000..1100)).warning().unwrap(), None);
        // Another identity does not recognise the rows. Sessions of other tasks are not remembered.
        let other = SameRows::new(&session("summary", 2), &rows(0..101), &[4; 32], &ledger).unwrap();
        assert_eq!(other.warning().unwrap(), None);
        assert!(SameRows::new(&session("sketch", 2), &rows(0..101), &[3; 32], &ledger).is_none());
    }

    #[test]
    fn only_the_last_sessions_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("peer.jsonl");
        for number in 0..20 {
            SameRows::new(&session("summary", number), &rows(0..9), &[3; 32], &ledger)
                .unwrap()
                .keep()
                .unwrap();
        }
        assert_eq!(ledger.with_extension("rows").read_dir().unwrap().count(), KEPT);
    }
}
