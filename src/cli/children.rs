//! Nodes as processes of this program on this machine: starting, introducing, stopping and hearing them.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use serde_json::{Value, json};

use super::Failure;

/// What a process says, by the number of its peer.
pub(super) enum ChildEvent {
    /// A line of JSON on its standard output.
    Event(Value),
    /// All of its standard error.
    Complaint(String),
    /// Its standard output has come to an end.
    End,
}

/// The processes of some peers, at most one of each at a time. Dropping kills those that still run.
pub(super) struct Children {
    peers: Vec<Process>,
    sender: mpsc::Sender<(usize, u32, ChildEvent)>,
    lines: mpsc::Receiver<(usize, u32, ChildEvent)>,
}

struct Process {
    id: String,
    /// How often it was started.
    starts: u32,
    running: Option<(Child, Option<ChildStdin>)>,
    /// Where it listens.
    address: Option<Value>,
}

impl Drop for Children {
    fn drop(&mut self) {
        (0..self.peers.len()).for_each(|i| self.kill(i));
    }
}

impl Children {
    /// Of peers with these ids, none of which runs yet.
    pub(super) fn new(ids: Vec<String>) -> Self {
        let (sender, lines) = mpsc::channel();
        let peers =
            ids.into_iter().map(|id| Process { id, starts: 0, running: None, address: None }).collect();
        Self { peers, sender, lines }
    }

    /// Starts the process of peer `i`, which does not run, with these arguments and a variable of its
    /// environment. It is told where the others listen.
    pub(super) fn start(
        &mut self,
        i: usize,
        arguments: &[OsString],
        variable: Option<(&str, &Path)>,
    ) -> Result<(), Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::Environment(format!("own program: {error}")))?;
        let mut process = Command::new(&program)
            .args(arguments)
            .envs(variable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::Environment(format!("{}: {error}", program.display())))?;
        let (stdout, stderr, input) = (process.stdout.take(), process.stderr.take(), process.stdin.take());
        let peer = &mut self.peers[i];
        peer.starts += 1;
        peer.address = None;
        peer.running = Some((process, input));
        let (starts, events) = (peer.starts, self.sender.clone());
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok);
            for value in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if events.send((i, starts, ChildEvent::Event(value))).is_err() {
                    return;
                }
            }
            let _ = events.send((i, starts, ChildEvent::End));
        });
        let complaints = self.sender.clone();
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(stderr) = stderr {
                // What is not text is no complaint that could be shown.
                let _ = stderr.take(1 << 16).read_to_string(&mut text);
            }
            let _ = complaints.send((i, starts, ChildEvent::Complaint(text)));
        });
        for j in 0..self.peers.len() {
            self.introduce(j, i);
        }
        Ok(())
    }

    /// The next thing that a running process says; where one listens, the others are told first.
    pub(super) fn next(&mut self, until: Instant) -> Result<(usize, ChildEvent), RecvTimeoutError> {
        loop {
            let (i, starts, said) = self.lines.recv_timeout(until.saturating_duration_since(now()))?;
            if starts != self.peers[i].starts {
                continue;
            }
            if let ChildEvent::Event(event) = &said
                && event["event"] == "listening"
            {
                self.peers[i].address = Some(event["address"].clone());
                for j in 0..self.peers.len() {
                    self.introduce(i, j);
                }
            }
            return Ok((i, said));
        }
    }

    /// Tells peer `to` where `whom` listens.
    fn introduce(&mut self, whom: usize, to: usize) {
        let Some(address) = self.peers[whom].address.as_ref().filter(|_| whom != to) else { return };
        let line = format!("{}\n", json!({"peer": self.peers[whom].id, "address": address}));
        if let Some((_, Some(input))) = &mut self.peers[to].running {
            // One that has ended is noticed by its end.
            let _ = input.write_all(line.as_bytes());
        }
    }

    /// Whether every peer has said where it listens.
    pub(super) fn introduced(&self) -> bool {
        self.peers.iter().all(|peer| peer.address.is_some())
    }

    /// Whether the peer has a process whose end nobody has waited for.
    pub(super) fn running(&self, i: usize) -> bool {
        self.peers[i].running.is_some()
    }

    /// How often the peer was started.
    pub(super) fn starts(&self, i: usize) -> u32 {
        self.peers[i].starts
    }

    /// Ends a process at once, if it runs. What it has said before can still be heard until it is started
    /// again.
    pub(super) fn kill(&mut self, i: usize) {
        if let Some((mut process, _)) = self.peers[i].running.take() {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
            self.peers[i].address = None;
        }
    }

    /// Waits for the end of a process that has nothing more to say.
    pub(super) fn wait(&mut self, i: usize) -> Result<Option<std::process::ExitStatus>, Failure> {
        let Some((mut process, _)) = self.peers[i].running.take() else { return Ok(None) };
        self.peers[i].address = None;
        process
            .wait()
            .map(Some)
            .map_err(|error| Failure::Environment(format!("{}: {error}", self.peers[i].id)))
    }

    /// Sends a signal, by its name without SIG, to a running process.
    pub(super) fn signal(&self, i: usize, name: &str) -> Result<(), Failure> {
        let Some((process, _)) = &self.peers[i].running else { return Ok(()) };
        let failed = |error: &dyn std::fmt::Display| Failure::Environment(format!("kill -{name}: {error}"));
        let sent = Command::new("kill").arg(format!("-{name}")).arg(process.id().to_string()).output();
        let sent = sent.map_err(|error| failed(&error))?;
        if sent.status.success() {
            Ok(())
        } else {
            Err(failed(&String::from_utf8_lossy(&sent.stderr).trim()))
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "real processes take real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}
