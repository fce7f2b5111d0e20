//! `join --trainer COMMAND`: the user's own program trains instead of the built-in learner.
//!
//! For each round, the program gets one line of JSON on standard input and answers with one line. Rows
//! and weights lie in a folder that only this user can open (`docs/networks.md`). The command comes from
//! the command line alone: a session file, which another person has written, cannot start programs here.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use flyswarm_learn::learner::Trained;
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use super::trainer::{Order, Trainer, read_weights, write_rows, write_weights};

/// Longest line of an answer, in bytes.
const MAX_LINE: u64 = 1 << 16;

/// A program that trains.
#[derive(Debug)]
pub(crate) struct Subprocess {
    limit: Duration,
    folder: TempDir,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    has_rows: bool,
}

/// Answer of the program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    round: u32,
    rows: usize,
    /// Mean cross-entropy of its rows, nats.
    loss: f64,
    /// Fraction of its rows whose class was predicted correctly.
    accuracy: f64,
}

impl Subprocess {
    /// Starts the program; each answer may take as long as `limit`.
    ///
    /// # Errors
    /// Returns one line for the user.
    pub(crate) fn start(command: &str, limit: Duration) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("--trainer {command}: cannot be started: {error}");
        let mut folder = tempfile::Builder::new();
        folder.prefix("flyswarm-trainer-");
        // By default the folder would be open to all users.
        #[cfg(unix)]
        let owner = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        #[cfg(unix)]
        folder.permissions(owner);
        let folder = folder.tempdir().map_err(failed)?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env("FLYSWARM_FOLDER", folder.path());
        // The shell gets its own process group, so that the processes it has started end with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(orders), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            while matches!((&mut out).take(MAX_LINE).read_line(&mut line), Ok(1..)) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let running = Mutex::new(Running { child, orders, answers, has_rows: false });
        Ok(Self { limit, folder, running })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ask(&self, running: &mut Running, order: &Order<'_>) -> Result<Trained, String> {
        let write = |name: &str, bytes: Vec<u8>| {
            let path = self.path(name);
            fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
        };
        if !running.has_rows {
            write("rows.safetensors", write_rows(order.rows))?;
            running.has_rows = true;
        }
        write("weights.safetensors", write_weights(order.network, order.start))?;
        let answer = self.path("answer.safetensors");
        // The answer of another round is not valid for this one.
        let _ = fs::remove_file(&answer);
        let mut line = order.told();
        line["folder"] = json!(self.folder.path());
        // A write error means that the program has ended; this is handled below.
        let _ = writeln!(running.orders, "{line}").and_then(|()| running.orders.flush());
        let line = match running.answers.recv_timeout(self.limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("no answer in {} s, it was stopped", self.limit.as_secs_f64()));
            }
            Err(RecvTimeoutError::Disconnected) => {
                // The program may have closed its output but still run: it gets a moment to end by
                // itself.
                for _ in 0..25 {
                    if !matches!(running.child.try_wait(), Ok(None)) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                end(&mut running.child);
                let status =
                    running.child.wait().map_or("status unknown".to_owned(), |status| status.to_string());
                return Err(format!("it has ended ({status})"));
            }
        };
        let said: Answer = serde_json::from_str(&line).map_err(|error| {
            format!("the answer {:?}: {error}", line.trim_end().chars().take(80).collect::<String>())
        })?;
        let (rows, round) = (order.rows.rows(), order.round + 1);
        if (said.round, said.rows) != (round, rows) {
            return Err(format!(
                "the answer is of round {} and {} rows, expected round {round} and {rows} rows",
                said.round, said.rows
            ));
        }
        // The names of the tensors fit in a header of 64 KiB.
        let most = 4 * order.network.weights() as u64 + (1 << 17);
        let mut bytes = Vec::new();
        fs::File::open(&answer)
            .and_then(|file| file.take(most).read_to_end(&mut bytes))
            .map_err(|error| format!("answer.safetensors: {error}"))?;
        let weights =
            read_weights(order.network, &bytes).map_err(|problem| format!("answer.safetensors {problem}"))?;
        order.answered(weights, Some((said.loss, said.accuracy)))
    }
}

impl Trainer for Subprocess {
    fn train(&self, order: &Order<'_>) -> Result<Trained, String> {
        let mut running = self.running.lock().map_err(|_| "the trainer: a thread has failed".to_owned())?;
        let trained = self.ask(&mut running, order);
        trained.map_err(|problem| {
            end(&mut running.child);
            format!("the trainer in round {}: {problem}", order.round + 1)
        })
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        if let Ok(running) = self.running.get_mut() {
            end(&mut running.child);
            let _ = running.child.wait();
        }
    }
}

/// Ends the program and the processes that it has started. A program that has already ended is not an
/// error.
fn end(child: &mut Child) {
    // After the wait, another process may have got its number.
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    #[cfg(unix)]
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::KILL,
    );
    #[cfg(not(unix))]
    let _ = child.kill();
}

#[cfg(all(test, unix))]
mod tests;
