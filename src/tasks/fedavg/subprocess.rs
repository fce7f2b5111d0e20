//! `join --trainer COMMAND`: the user's own program trains instead of the built-in learner.
//!
//! For each round, the program gets one line of JSON on standard input and writes one line to the pipe that
//! FLYSWARM_ANSWERS names. The standard output of the program goes to standard error of flyswarm. Rows and
//! weights are in a folder that only this user can open (`docs/networks.md`). The command comes only from the
//! command line. A session file, which another person may have written, cannot start programs here.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use super::trainer::{Answer, Order, Trainer, write_rows};

/// Longest line of an answer, in bytes.
const MAX_LINE: u64 = 1 << 16;
/// Longest header of a file of weights, in bytes.
const MAX_HEADER: u64 = 1 << 24;
/// Time between two checks whether the program still runs.
const LOOK: Duration = Duration::from_millis(20);
/// Beginning of the name of a program's folder, and name of the lock file in it.
#[cfg(unix)]
const PREFIX: &str = "flyswarm-trainer-";
#[cfg(unix)]
const LOCK: &str = "lock";
/// Name of the environment variable that has the path of the folder. Every process that the program starts
/// inherits it, and can be found by it.
const FOLDER: &str = "FLYSWARM_FOLDER";

/// A program that trains.
#[derive(Debug)]
pub(crate) struct Subprocess {
    limit: Duration,
    /// Folder of the program. It identifies the program in [`STARTED`].
    folder: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    orders: ChildStdin,
    answers: Receiver<String>,
    has_rows: bool,
}

/// Programs that were started and have not ended, with their folders.
static STARTED: Mutex<Vec<(Child, Folder)>> = Mutex::new(Vec::new());

fn started() -> MutexGuard<'static, Vec<(Child, Folder)>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folder of a program. Its file `lock` is locked while this process runs. The lock is released even if a
/// signal ends this process.
#[derive(Debug)]
struct Folder {
    inside: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes a folder that only this user can open. By default it would be open to all users.
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;

        let mut folder = tempfile::Builder::new();
        let inside = folder.prefix(PREFIX).permissions(fs::Permissions::from_mode(0o700)).tempdir()?;
        // The file gets its name only after it is locked. So an unlocked file of this name belongs to a
        // process that has ended.
        let unnamed = inside.path().join("unnamed");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        fs::rename(unnamed, inside.path().join(LOCK))?;
        Ok(Self { inside, _lock: lock })
    }

    fn path(&self) -> &Path {
        self.inside.path()
    }
}

/// Looks for trainers in the folder `here` whose flyswarm process was ended by a signal. Ends those that
/// belong to this user, and removes their folders.
#[cfg(unix)]
fn end_orphans(here: &Path) {
    use std::os::unix::fs::MetadataExt;

    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(here).into_iter().flatten().flatten() {
        let folder = entry.path();
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // `DirEntry::metadata` does not follow links.
        if !named || !entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == own) {
            continue;
        }
        let Ok(lock) = File::open(folder.join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            end_marked(&folder);
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// The line that the program writes when it has trained.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    round: u32,
    rows: usize,
    /// Mean cross-entropy of its rows, in nats.
    loss: Number,
    /// Fraction of its rows whose class was predicted correctly.
    accuracy: f64,
}

/// A number that may not be finite: Python writes `NaN` and `Infinity`, which are not JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Other(String),
}

impl Subprocess {
    /// Starts the program; each answer may take up to `limit`.
    ///
    /// # Errors
    /// Returns one line for the user.
    #[cfg(unix)]
    pub(crate) fn start(command: &str, limit: Duration) -> Result<Self, String> {
        use std::os::unix::process::CommandExt;

        let failed = |error: std::io::Error| format!("--trainer {command}: cannot be started: {error}");
        end_orphans(&std::env::temp_dir());
        let folder = Folder::new().map_err(failed)?;
        let pipe = folder.path().join("answers");
        // The program `mkfifo` is used because there is no safe Rust function for this on macOS.
        let made = Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).output().map_err(failed)?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(failed(std::io::Error::other(said.trim_end().to_owned())));
        }
        // The pipe is opened for writing too, so that reading does not end when the program closes its side.
        let pipe_end = File::options().read(true).write(true).open(&pipe).map_err(failed)?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env(FOLDER, folder.path()).env("FLYSWARM_ANSWERS", &pipe);
        // The shell gets its own process group, so that the processes it has started end with it.
        shell.process_group(0);
        let mut child = shell.stdin(Stdio::piped()).stdout(std::io::stderr()).spawn().map_err(failed)?;
        let Some(orders) = child.stdin.take() else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(pipe_end);
            let mut line = Vec::new();
            while matches!((&mut out).take(MAX_LINE).read_until(b'\n', &mut line), Ok(1..)) {
                if sender.send(String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned()).is_err() {
                    break;
                }
            }
        });
        let running = Mutex::new(Running { orders, answers, has_rows: false });
        let made = Self { limit, folder: folder.path().to_owned(), running };
        started().push((child, folder));
        Ok(made)
    }

    /// Returns an error, because the pipe for answers needs Unix.
    #[cfg(not(unix))]
    pub(crate) fn start(command: &str, _limit: Duration) -> Result<Self, String> {
        Err(format!("--trainer {command}: needs Unix; in Python, flyswarm.FedAvg trains everywhere"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns how the program has ended, or `None` if it is still running.
    fn status(&self) -> Option<String> {
        let mut started = started();
        let Some((child, _)) = started.iter_mut().find(|(_, folder)| folder.path() == self.folder) else {
            return Some("stopped".into());
        };
        match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Waits for the line of an answer.
    fn line(&self, running: &Running) -> Result<String, String> {
        #[allow(clippy::disallowed_methods, reason = "a program is waited for, not a peer")]
        let until = Instant::now() + self.limit;
        loop {
            let ended = self.status();
            // A program may write its answer and then end. So its answer is read before its end is reported.
            match running.answers.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err("its pipe for answers has ended".into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(status) = ended {
                return Err(format!("it has ended ({status})"));
            }
            #[allow(clippy::disallowed_methods, reason = "a program is waited for, not a peer")]
            if Instant::now() >= until {
                return Err(format!("no answer in {} s, it was stopped", self.limit.as_secs_f64()));
            }
        }
    }

    fn ask(&self, running: &mut Running, order: &Order<'_>) -> Result<Answer, String> {
        let write = |name: &str, bytes: Vec<u8>| {
            let path = self.path(name);
            fs::write(&path, bytes).map_err(|error| match self.status() {
                // Writing may have failed because the program has ended and its folder was removed.
                Some(status) => format!("it has ended ({status})"),
                None => format!("{}: {error}", path.display()),
            })
        };
        if !running.has_rows {
            write("rows.safetensors", write_rows(order.rows))?;
            running.has_rows = true;
        }
        write("weights.safetensors", order.weights())?;
        let answer = self.path("answer.safetensors");
        // Removes the answer of an earlier round, and lines that came too late for it.
        let _ = fs::remove_file(&answer);
        while running.answers.try_recv().is_ok() {}
        let mut line = order.told();
        line["folder"] = json!(self.folder);
        // A write error means that the program has ended; this is handled below.
        let _ = writeln!(running.orders, "{line}").and_then(|()| running.orders.flush());
        let line = self.line(running)?;
        // Python writes NaN and Infinity, which are not JSON.
        let plain = ["-Infinity", "Infinity", "NaN"]
            .iter()
            .fold(line.clone(), |line, word| line.replace(&format!(": {word}"), &format!(": \"{word}\"")));
        let said: Line = serde_json::from_str(&plain).map_err(|error| {
            format!("the answer {:?}: {error}", line.trim_end().chars().take(80).collect::<String>())
        })?;
        let (rows, round) = (order.rows.rows(), order.round + 1);
        if (said.round, said.rows) != (round, rows) {
            return Err(format!(
                "the answer is of round {} and {} rows, expected round {round} and {rows} rows",
                said.round, said.rows
            ));
        }
        let loss = match said.loss {
            Number::Finite(loss) => loss,
            Number::Other(text) => text.parse().unwrap_or(f64::NAN),
        };
        let most = order.weights().len() as u64 + MAX_HEADER;
        let mut bytes = Vec::new();
        File::open(&answer)
            .and_then(|file| file.take(most).read_to_end(&mut bytes))
            .map_err(|error| format!("answer.safetensors: {error}"))?;
        order.answered(&bytes, Some((loss, said.accuracy))).map_err(|problem| {
            if problem.starts_with("gave ") { problem } else { format!("answer.safetensors {problem}") }
        })
    }
}

impl Trainer for Subprocess {
    fn train(&self, order: &Order<'_>) -> Result<Answer, String> {
        let mut running = self.running.lock().map_err(|_| "the trainer: a thread has failed".to_owned())?;
        self.ask(&mut running, order).map_err(|problem| {
            end(|folder| folder == self.folder);
            format!("the trainer in round {}: {problem}", order.round + 1)
        })
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        end(|folder| folder == self.folder);
    }
}

/// Ends all trainers of this process and everything that they have started, and removes their folders.
pub(crate) fn end_all() {
    end(|_| true);
}

/// Ends the programs whose folders `which` accepts.
fn end(which: impl Fn(&Path) -> bool) {
    let ended: Vec<_> = {
        let mut started = started();
        started.extract_if(.., |(_, folder)| which(folder.path())).collect()
    };
    for (mut child, folder) in ended {
        // The process group is ended only before the wait for the program, because after it another process
        // may get the same number.
        if matches!(child.try_wait(), Ok(None)) {
            #[cfg(unix)]
            let _ = rustix::process::kill_process_group(
                rustix::process::Pid::from_child(&child),
                rustix::process::Signal::KILL,
            );
            #[cfg(not(unix))]
            let _ = child.kill();
        }
        end_marked(folder.path());
        let _ = child.wait();
        // Dropping the value removes the folder.
        drop(folder);
    }
}

/// Ends the processes that have this folder in their environment: children of the program that have left its
/// process group or are still running after it. This needs `/proc`. On systems without it, such processes
/// continue.
fn end_marked(folder: &Path) {
    let mark = [FOLDER.as_bytes(), b"=", folder.as_os_str().as_encoded_bytes(), b"\0"].concat();
    // The list is read three times, because a process may start another one during the first pass.
    for _ in 0..3 {
        let Ok(processes) = fs::read_dir("/proc") else { return };
        let mut found = false;
        for process in processes.flatten() {
            let id = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(id) = id.filter(|&id| id.cast_unsigned() != std::process::id()) else { continue };
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            if !environment.windows(mark.len()).any(|part| part == mark) {
                continue;
            }
            found = true;
            #[cfg(unix)]
            if let Some(id) = rustix::process::Pid::from_raw(id) {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        }
        if !found {
            return;
        }
    }
}

#[cfg(all(test, unix))]
mod tests;
