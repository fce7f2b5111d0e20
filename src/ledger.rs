//! Privacy ledger of an identity: the privacy budget that its data sets have spent, and the sessions on
//! shares (`xclp`, `summary`, `glm`) that used them. The file has one line of JSON for each session. The line
//! is appended and synced before the session sends anything.
//!
//! A data set is identified by the name that its owner gives it, not by a digest, which would change with
//! every added row. The epsilons of the sessions on one data set, as their session files give them, are added
//! up (sequential composition). A lock prevents two processes from spending the same budget.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::files;
use crate::privacy::Ratio;
use crate::session::NoiseMode;

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 26;
/// Number of attempts to lock the file, and the pause between them.
const ATTEMPTS: u32 = if cfg!(test) { 5 } else { 100 };
const PAUSE: Duration = Duration::from_millis(100);

/// One private session whose budget was spent, or one session on shares, which has no epsilon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// Name that the owner gives the data set.
    pub dataset: String,
    /// Epsilon of the session, or `None` for a session on shares, whose results have no privacy bound.
    pub epsilon: Option<Ratio>,
    /// Probability that the bound epsilon does not hold, or `None` if it always holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Definition of neighbouring data sets (docs/privacy.md).
    pub mode: Option<NoiseMode>,
    /// Session id, 64 hexadecimal digits.
    pub session: String,
    /// Name of the session.
    pub name: String,
    /// Time of the charge in seconds since 1970.
    pub unix: u64,
}

/// Reasons why a session cannot be entered. Nothing has been written in this case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The system refused access.
    #[error("{path}: {error}")]
    Io {
        /// Path of the ledger.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The file system does not support locks.
    #[error(
        "{path}: the file system has no locks (NFS?): keep the key and the ledger, which is next to it, \
         on a local disk ({error})"
    )]
    NoLocks {
        /// Path of the ledger.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Another process keeps the ledger locked.
    #[error("{0}: another process uses the ledger and did not release it within 10 s")]
    Locked(PathBuf),
    /// A line is not a valid charge.
    #[error("{path}: line {line} of the ledger is damaged: {error}")]
    Damaged {
        /// Path of the ledger.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Error of the JSON reader.
        error: String,
    },
    /// The budget does not allow the session.
    #[error(
        "data set {dataset:?} has spent {spent} of its budget of {budget}: a session of epsilon {epsilon} would exceed it"
    )]
    Exceeded {
        /// Name of the data set.
        dataset: String,
        /// Epsilon that is spent.
        spent: String,
        /// Epsilon that may be spent.
        budget: Ratio,
        /// Epsilon of the session.
        epsilon: Ratio,
    },
    /// The session was joined with other rows before.
    #[error("this identity has joined the session with the data set {known:?}, not {dataset:?}")]
    OtherSet {
        /// Data set in the ledger.
        known: String,
        /// Data set of this call.
        dataset: String,
    },
}

/// The ledger of an identity. It is locked.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    charges: Vec<Charge>,
}

impl Ledger {
    /// Returns the path of an identity's ledger. It is next to the key, so a second state folder does not
    /// cause a second ledger.
    #[must_use]
    pub fn path(key: &Path, peer_id: &str) -> PathBuf {
        key.with_file_name("ledger").join(format!("{peer_id}.jsonl"))
    }

    /// Opens the ledger, or creates it. Only its owner can read it. Waits up to ten seconds if another
    /// process has it open.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let io = |error| LedgerError::Io { path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            files::create_folders(folder, true).map_err(io)?;
        }
        let mut options = File::options();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(io)?;
        // The permissions are set again, because a user who can open the file could lock it and read the
        // names of the data sets.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(io)?;
        lock(&file, path)?;
        let text = text(&file).map_err(io)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            // A crash has cut the last line. The session of this line has sent nothing, so the line is
            // removed.
            file.set_len(whole as u64).map_err(io)?;
        }
        let charges = parse(path, &text[..whole])?;
        Ok(Self { path: path.to_owned(), file, charges })
    }

    /// Returns all charges in their order. The list is empty if there is no ledger.
    pub fn read(path: &Path) -> Result<Vec<Charge>, LedgerError> {
        let io = |error| LedgerError::Io { path: path.to_owned(), error };
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(io)?,
        };
        let text = text(&file).map_err(io)?;
        parse(path, &text[..text.rfind('\n').map_or(0, |end| end + 1)])
    }

    /// Checks whether [`Ledger::charge`] would allow a session. Writes nothing.
    ///
    /// # Errors
    /// The errors of [`Ledger::charge`].
    pub fn check(&self, charge: &Charge, budget: Option<Ratio>, goes_on: bool) -> Result<(), LedgerError> {
        self.is_paid(charge, budget, goes_on).map(drop)
    }

    /// Returns whether a session is already entered. Returns an error if it must not be entered.
    fn is_paid(&self, charge: &Charge, budget: Option<Ratio>, goes_on: bool) -> Result<bool, LedgerError> {
        if let Some(known) =
            self.charges.iter().rev().find(|known| known.session == charge.session).filter(|_| goes_on)
        {
            if known.dataset == charge.dataset {
                return Ok(true);
            }
            let (known, dataset) = (known.dataset.clone(), charge.dataset.clone());
            return Err(LedgerError::OtherSet { known, dataset });
        }
        let spent = spent(&self.charges, &charge.dataset);
        if let Some((budget, epsilon)) = budget.zip(charge.epsilon)
            && spent + millionths(epsilon) > millionths(budget)
        {
            let (dataset, spent) = (charge.dataset.clone(), decimal(spent));
            return Err(LedgerError::Exceeded { dataset, spent, budget, epsilon });
        }
        Ok(false)
    }

    /// Enters a session. If it continues from stored state (`goes_on`), it has already been entered, because
    /// the state has the noise that was drawn.
    pub fn charge(
        &mut self,
        charge: Charge,
        budget: Option<Ratio>,
        goes_on: bool,
    ) -> Result<(), LedgerError> {
        if self.is_paid(&charge, budget, goes_on)? {
            return Ok(());
        }
        let io = |error| LedgerError::Io { path: self.path.clone(), error };
        let line = serde_json::to_string(&charge).map_err(|error| io(error.into()))? + "\n";
        self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all()).map_err(io)?;
        if let Some(folder) = self.path.parent() {
            files::sync(folder).map_err(io)?;
        }
        self.charges.push(charge);
        Ok(())
    }
}

/// Tries to lock for ten seconds. This is enough, because another process needs the lock only for some
/// milliseconds.
fn lock(file: &File, path: &Path) -> Result<(), LedgerError> {
    for _ in 0..ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => {
                return Err(LedgerError::NoLocks { path: path.to_owned(), error });
            }
        }
    }
    Err(LedgerError::Locked(path.to_owned()))
}

/// Total of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// Name of the data set.
    pub dataset: String,
    /// Sum of the epsilons.
    pub spent: String,
    /// Sum of the deltas.
    pub delta: f64,
    /// Number of sessions that computed exact results on shares of the rows (`xclp`, `summary`, `glm`).
    pub on_shares: usize,
}

/// Returns the total of each data set, in the order of their first sessions.
#[must_use]
pub fn totals(charges: &[Charge]) -> Vec<Total> {
    let mut sets: Vec<&str> = Vec::new();
    for charge in charges {
        if !sets.contains(&charge.dataset.as_str()) {
            sets.push(&charge.dataset);
        }
    }
    let on_shares =
        |set: &str| charges.iter().filter(|charge| charge.dataset == set && charge.epsilon.is_none()).count();
    let total = |set: &str| Total {
        dataset: set.to_owned(),
        spent: decimal(spent(charges, set)),
        delta: charges.iter().filter(|charge| charge.dataset == set).filter_map(|charge| charge.delta).sum(),
        on_shares: on_shares(set),
    };
    sets.into_iter().map(total).collect()
}

fn spent(charges: &[Charge], dataset: &str) -> u128 {
    let of = charges.iter().filter(|charge| charge.dataset == dataset);
    of.filter_map(|charge| charge.epsilon).map(millionths).sum()
}

/// Returns epsilon in millionths, rounded up. The epsilons of session files are whole millionths.
fn millionths(epsilon: Ratio) -> u128 {
    (u128::from(epsilon.numerator()) * 1_000_000).div_ceil(epsilon.denominator().into())
}

fn decimal(millionths: u128) -> String {
    let ratio = u64::try_from(millionths).ok().and_then(Ratio::millionths);
    ratio.map_or_else(|| "0".into(), |ratio| ratio.to_string())
}

fn text(file: &File) -> io::Result<String> {
    let mut text = String::new();
    let mut limited = file.take(MAX_BYTES + 1);
    limited.read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too large for a ledger"));
    }
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Charge>, LedgerError> {
    let charge = |(line, text): (usize, &str)| {
        let damaged = |error: serde_json::Error| LedgerError::Damaged {
            path: path.to_owned(),
            line: line + 1,
            error: error.to_string(),
        };
        serde_json::from_str(text).map_err(damaged)
    };
    text.lines().enumerate().map(charge).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_ledger_is_its_owners_alone_and_one_that_another_process_holds_is_told_in_time() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = Ledger::path(&folder.path().join("id.key"), "12D3");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let held = Ledger::open(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let error = Ledger::open(&path).unwrap_err();
        assert!(matches!(error, LedgerError::Locked(_)), "{error}");
        drop(held);
        // An older version made this file readable by all users.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        Ledger::open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    fn charge(dataset: &str, epsilon: &str, session: u8) -> Charge {
        Charge {
            dataset: dataset.into(),
            epsilon: epsilon.parse().ok(),
            delta: None,
            mode: Some(NoiseMode::Parallel),
            session: hex::encode([session; 32]),
            name: "winter".into(),
            unix: 1_800_000_000,
        }
    }

    fn exceeded(result: Result<(), LedgerError>) -> bool {
        matches!(result, Err(LedgerError::Exceeded { .. }))
    }

    #[test]
    fn a_budget_is_spent_to_the_last_millionth_and_no_further_and_for_each_set_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = Ledger::path(&folder.path().join("id.key"), "12D3");
        let budget = "1".parse().ok();
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.charge(charge("clinic", "0.3", 1), budget, false).unwrap();
        ledger.charge(charge("clinic", "0.1", 2), budget, false).unwrap();
        assert!(exceeded(ledger.charge(charge("clinic", "0.600001", 3), budget, false)));
        ledger.charge(charge("other", "1", 3), budget, false).unwrap();
        drop(ledger);
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.charge(charge("clinic", "0.6", 4), budget, false).unwrap();
        let error = ledger.charge(charge("clinic", "0.000001", 5), budget, false).unwrap_err().to_string();
        assert_eq!(
            error,
            "data set \"clinic\" has spent 1 of its budget of 1: a session of epsilon 0.000001 would exceed it"
        );
        ledger.charge(charge("clinic", "2", 5), None, false).unwrap();
        drop(ledger);
        let charges = Ledger::read(&path).unwrap();
        let total = |set: &Total| (set.dataset.clone(), set.spent.clone());
        let totals: Vec<_> = totals(&charges).iter().map(total).collect();
        assert_eq!(totals, [("clinic".into(), "3".into()), ("other".into(), "1".into())]);
        assert_eq!(charges.len(), 5);
    }

    #[test]
    fn sessions_on_shares_are_counted_for_each_set_once_and_spend_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::open(&path).unwrap();
        let exact = |set: &str, session| Charge { epsilon: None, mode: None, ..charge(set, "1", session) };
        ledger.charge(charge("clinic", "0.5", 1), "0.5".parse().ok(), false).unwrap();
        for session in [2, 3] {
            ledger.charge(exact("clinic", session), None, false).unwrap();
            ledger.charge(exact("clinic", session), None, true).unwrap();
        }
        ledger.charge(exact("ward", 4), None, false).unwrap();
        let total = |set: &str, spent: &str, on_shares| Total {
            dataset: set.into(),
            spent: spent.into(),
            delta: 0.0,
            on_shares,
        };
        let expected = [total("clinic", "0.5", 2), total("ward", "0", 1)];
        assert_eq!(totals(&Ledger::read(&path).unwrap()), expected);
    }

    #[test]
    fn a_session_that_goes_on_is_paid_for_once_and_one_that_lost_its_release_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let budget = "0.5".parse().ok();
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.charge(charge("clinic", "0.5", 1), budget, false).unwrap();
        ledger.charge(charge("clinic", "0.5", 1), budget, true).unwrap();
        assert!(matches!(
            ledger.charge(charge("ward", "0.5", 1), None, true),
            Err(LedgerError::OtherSet { .. })
        ));
        assert!(exceeded(ledger.charge(charge("clinic", "0.5", 1), budget, false)));
        assert_eq!(Ledger::read(&path).unwrap().len(), 1);
    }

    #[test]
    fn the_chances_that_budgets_do_not_hold_add_up_and_older_ledgers_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let of_members = |session, delta| {
            let mode = Some(NoiseMode::Member);
            Charge { delta: Some(delta), mode, ..charge("clinic", "2", session) }
        };
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.charge(charge("clinic", "0.5", 1), None, false).unwrap();
        assert!(
            !fs::read_to_string(&path).unwrap().contains("delta"),
            "as in ledgers from before deltas existed"
        );
        ledger.charge(of_members(2, 1e-6), None, false).unwrap();
        ledger.charge(of_members(3, 1e-5), None, false).unwrap();
        let Total { spent, delta, .. } = totals(&Ledger::read(&path).unwrap()).remove(0);
        assert_eq!(spent, "4.5");
        assert!((delta - 1.1e-5).abs() < 1e-15, "{delta}");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_goes_and_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        Ledger::open(&path).unwrap().charge(charge("clinic", "1", 1), None, false).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{}", &whole[..30])).unwrap();
        assert_eq!(Ledger::read(&path).unwrap().len(), 1);
        Ledger::open(&path).unwrap().charge(charge("clinic", "1", 2), None, false).unwrap();
        assert_eq!(Ledger::read(&path).unwrap().len(), 2);
        fs::write(&path, format!("{whole}nonsense\n")).unwrap();
        let error = Ledger::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 2 of the ledger is damaged"), "{error}");
    }
}
