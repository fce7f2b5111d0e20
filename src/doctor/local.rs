//! Finds problems of this machine, such as too little disk space, a low limit of open files, or a session
//! that is already running.

use std::io;
use std::path::Path;

use super::finding::{Finding, Level};
use crate::crypto::identity::PublicKey;
use crate::protocol::message::VERSION;
use crate::session::{Peer, Session};
use crate::store::Store;
use crate::tasks;

/// Number of open files of a node in addition to its connections (guess; a node of three peers has about
/// 40).
const OWN_FILES: u64 = 64;
/// Maximum number of connections that may be in a handshake at a time. This is a limit of the transport.
const HANDSHAKES: u64 = 64;
/// Bytes that are needed in addition to vectors, for records and receipts (guess).
const SMALL: u64 = 16 << 20;

/// Returns the maximum size of a session's state at one time: the acknowledged total, the total that is being
/// written, and the committed total, each with 4 bytes per count.
fn state_bytes(session: &Session) -> u64 {
    3 * vector_bytes(session) + SMALL
}

/// Returns the size of the largest summed vector in bytes.
pub(crate) fn vector_bytes(session: &Session) -> u64 {
    // If the task is not built in, only the program that provides it knows its plan.
    let plan = tasks::built_in(session).map_or(Vec::new(), |task| task.plan);
    plan.iter().map(|aggregate| aggregate.len() as u64).max().unwrap_or(0)
}

pub(crate) fn megabytes(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        10_000_000.. => format!("{:.0} MB", bytes as f64 / 1e6),
        1_000_000.. => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.0} kB", bytes as f64 / 1e3),
    }
}

/// Returns a finding if the state is behind the mark next to the key.
pub(crate) fn lost(state: &Path, mark: &Path) -> Option<Finding> {
    match Store::is_behind(state, mark) {
        // If the session is over, there is another finding instead.
        Ok(_) if Store::is_over(state).unwrap_or(false) => None,
        Ok(false) => None,
        Ok(true) => {
            let text = format!("the state of this session ({}) is lost, or an older copy", state.display());
            let advice = "`join` takes part, but does not vote in this session any more; if the state is \
                          in another folder, name that folder with --state";
            Some(Finding::new(Level::Warning, "state", text).advise(advice))
        }
        Err(error) => {
            let advice = "restore the state of this session, or make a new session with `session next`";
            Some(Finding::new(Level::Error, "state", error.to_string()).advise(advice))
        }
    }
}

/// Checks this machine. Returns the findings, and whether the identity must not be shown to others. `file` is
/// the path of the session file, and `out` that of the result. They are used only for messages and for the
/// free space.
pub(crate) fn machine(
    session: &Session,
    file: &Path,
    public: &PublicKey,
    state: &Path,
    folder: &Path,
) -> (Vec<Finding>, bool) {
    let (count, needed) = (session.roster.len(), session.min_peers);
    let text = format!(
        "{}, id {}, {count} peers ({needed} are enough), protocol version {VERSION}",
        session.name,
        session.id()
    );
    let mut findings = vec![Finding::new(Level::Ok, "session", text)];
    let mut alone = false;
    match session.peer(public) {
        Some(me) => {
            findings.push(Finding::new(Level::Ok, "identity", format!("{}, {public}", session.name(me))));
        }
        None => {
            alone = true;
            let text = format!("{public} is not in the roster of {}", file.display());
            let advice = "give the right key with --key, or add this id to the session file of every peer";
            findings.push(Finding::new(Level::Error, "roster", text).advise(advice));
        }
    }
    match Store::in_use(state) {
        Ok(false) => {}
        Ok(true) => {
            alone = true;
            let text = format!(
                "`flyswarm join` runs on this machine with this session and identity ({} is locked)",
                state.display()
            );
            let advice = "wait until it ends or stop it: an identity can take part only once";
            findings.push(Finding::new(Level::Error, "twice", text).advise(advice));
        }
        Err(error) => {
            let advice = "fix its permissions, or choose another folder with --state";
            findings.push(Finding::new(Level::Error, "disk", error.to_string()).advise(advice));
        }
    }
    if Store::is_over(state).unwrap_or(false) {
        let text = format!("this peer has finished the session ({})", state.display());
        let advice = "`join` refuses it; for new rows make a new session with `session next`";
        findings.push(Finding::new(Level::Error, "over", text).advise(advice));
    }
    findings.extend(disk(session, state, folder));
    findings.extend(files(session));
    findings.extend(memory(session, session.peer(public), crate::memory::available()));
    (findings, alone)
}

/// Checks that state and model have room.
fn disk(session: &Session, state: &Path, out: &Path) -> Vec<Finding> {
    let mut findings = vec![place("state", state, state_bytes(session))];
    findings.push(place("the model", out, vector_bytes(session) + SMALL));
    findings
}

fn place(what: &str, folder: &Path, needed: u64) -> Finding {
    // The folder may not exist yet, so the first existing folder above it is checked.
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(there) = absolute.ancestors().find(|folder| folder.is_dir()) else {
        return Finding::new(Level::Error, "disk", format!("{}: no such folder", folder.display()));
    };
    let name = there.display().to_string();
    // A byte is written, because this proves more than the permissions.
    let written = tempfile::tempfile_in(there).and_then(|mut file| {
        io::Write::write_all(&mut file, &[0; 4096])?;
        file.sync_all()
    });
    if let Err(error) = written {
        let text = format!("{name}, the folder for {what}, is not writable: {error}");
        return Finding::new(Level::Error, "disk", text)
            .advise("free some space, fix its permissions, or choose another folder");
    }
    match free(there) {
        Ok(free) => room(what, &name, free, needed),
        Err(error) => {
            Finding::new(Level::Warning, "disk", format!("{name}: the free space is unknown: {error}"))
        }
    }
}

#[cfg(unix)]
fn free(folder: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> io::Result<u64> {
    Err(io::Error::other("not supported on this system"))
}

fn room(what: &str, name: &str, free: u64, needed: u64) -> Finding {
    let text = format!("{} free in {name} for {what}, which may need {}", megabytes(free), megabytes(needed));
    if free < needed {
        Finding::new(Level::Error, "disk", text)
            .advise("free some space, or choose another folder with --state or --out")
    } else {
        Finding::new(Level::Ok, "disk", text)
    }
}

/// Checks that enough files may be open at the same time.
fn files(session: &Session) -> Option<Finding> {
    #[cfg(unix)]
    {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Some(open_files(limit.unwrap_or(u64::MAX), session.roster.len() as u64))
    }
    #[cfg(not(unix))]
    {
        let _ = session;
        None
    }
}

/// Checks that there is enough memory to compute for the others, if the task requires it.
fn memory(session: &Session, me: Option<Peer>, available: Option<u64>) -> Option<Finding> {
    let refusal = (session.task.kind().memory_refusal)(session, me, available)?;
    Some(Finding::new(Level::Error, "memory", refusal))
}

fn open_files(limit: u64, peers: u64) -> Finding {
    let (least, needed) = (OWN_FILES + peers, OWN_FILES + HANDSHAKES + 2 * peers);
    let advice =
        format!("raise the limit before `flyswarm join`: ulimit -n {}", needed.next_power_of_two().max(1024));
    let text =
        |limit| format!("{limit} files may be open at once, a session of {peers} peers needs up to {needed}");
    match limit {
        _ if limit < least => {
            Finding::new(Level::Error, "files", format!("only {}", text(limit))).advise(advice)
        }
        _ if limit < needed => {
            Finding::new(Level::Warning, "files", format!("only {}", text(limit))).advise(advice)
        }
        _ => Finding::new(Level::Ok, "files", text(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_too_little_room_keeps_a_session_from_starting() {
        let full = room("state", "/var", 5_000_000, 20_000_000);
        assert_eq!(
            full.line(),
            "error    disk: 5.0 MB free in /var for state, which may need 20 MB; free some space, or \
             choose another folder with --state or --out"
        );
        assert_eq!(room("state", "/var", 30_000_000, 20_000_000).level, Level::Ok);
    }

    #[test]
    fn a_folder_that_is_not_there_yet_is_judged_by_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        let finding = place("state", &folder.path().join("a/b/c"), 1);
        assert_eq!(finding.level, Level::Ok, "{}", finding.line());
        assert!(!folder.path().join("a").exists(), "no folder is created");
    }

    #[test]
    fn few_open_files_warn_and_too_few_are_an_error() {
        assert_eq!(open_files(1024, 5).level, Level::Ok);
        let few = open_files(100, 5);
        assert_eq!(
            few.line(),
            "warning  files: only 100 files may be open at once, a session of 5 peers needs up to 138; raise the limit before \
             `flyswarm join`: ulimit -n 1024"
        );
        assert_eq!(open_files(50, 5).level, Level::Error);
        assert!(open_files(1024, 1000).advice.ends_with("ulimit -n 4096"));
    }

    #[test]
    fn a_state_that_is_lost_is_told_and_one_that_never_was_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (state, mark) = (folder.path().join("state"), folder.path().join("mark"));
        assert_eq!(lost(&state, &mark), None);
        std::fs::write(&mark, "3 1\n").unwrap();
        let told = lost(&state, &mark).unwrap();
        assert_eq!(told.level, Level::Warning);
        assert!(told.line().contains("does not vote in this session any more"), "{}", told.line());
        std::fs::write(&mark, "none").unwrap();
        assert_eq!(lost(&state, &mark).unwrap().level, Level::Error);
    }
}
