//! Our own nodes as processes of this program on this machine.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use flyswarm::cli::Failure;
use serde_json::{Value, json};

use crate::files::now;

/// Output of a process.
pub(crate) enum Said {
    /// A line of JSON on its standard output.
    Event(Value),
    /// Its whole standard error.
    Complaint(String),
    /// End of its standard output.
    End,
}

/// Processes of some peers, at most one per peer at a time. Dropping kills those that still run.
pub(crate) struct Nodes {
    peers: Vec<Node>,
    sender: mpsc::Sender<(usize, u32, Said)>,
    said: mpsc::Receiver<(usize, u32, Said)>,
}

#[derive(Default)]
struct Node {
    /// Id that the other peers know it by, if they get its address.
    id: Option<String>,
    /// Number of starts.
    starts: u32,
    running: Option<(Child, Option<ChildStdin>)>,
    /// Address where it listens.
    address: Option<Value>,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..self.peers.len()).for_each(|i| self.kill(i));
    }
}

impl Nodes {
    /// Makes this number of peers; none of them runs yet.
    pub(crate) fn new(peers: usize) -> Self {
        let (sender, said) = mpsc::channel();
        Self { peers: (0..peers).map(|_| Node::default()).collect(), sender, said }
    }

    /// Makes peers with these ids, which get each other's addresses.
    pub(crate) fn introduced_by(ids: impl IntoIterator<Item = String>) -> Self {
        let mut nodes = Self::new(0);
        nodes.peers = ids.into_iter().map(|id| Node { id: Some(id), ..Node::default() }).collect();
        nodes
    }

    /// Starts the process of peer `i`, which must not run yet, with these arguments. The process writes
    /// its frames to `trace`.
    pub(crate) fn start(
        &mut self,
        i: usize,
        arguments: &[OsString],
        trace: Option<&Path>,
    ) -> Result<(), Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::Environment(format!("own program: {error}")))?;
        // The process ends when its standard input ends.
        let mut process = Command::new(&program)
            .args(arguments)
            .envs(trace.map(|trace| ("FLYSWARM_TRACE", trace)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::Environment(format!("{}: {error}", program.display())))?;
        let (stdout, stderr, input) = (process.stdout.take(), process.stderr.take(), process.stdin.take());
        let node = &mut self.peers[i];
        node.starts += 1;
        node.address = None;
        node.running = Some((process, input));
        let (starts, events) = (node.starts, self.sender.clone());
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok);
            for value in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if events.send((i, starts, Said::Event(value))).is_err() {
                    return;
                }
            }
            let _ = events.send((i, starts, Said::End));
        });
        let complaints = self.sender.clone();
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(stderr) = stderr {
                // Bytes that are not text cannot be shown.
                let _ = stderr.take(1 << 16).read_to_string(&mut text);
            }
            let _ = complaints.send((i, starts, Said::Complaint(text)));
        });
        (0..self.peers.len()).for_each(|j| self.introduce(j, i));
        Ok(())
    }

    /// Returns the next output of a running process. If a process listens, first sends its address to
    /// the others.
    pub(crate) fn next(&mut self, until: Instant) -> Result<(usize, Said), RecvTimeoutError> {
        loop {
            let (i, starts, said) = self.said.recv_timeout(until.saturating_duration_since(now()))?;
            if starts != self.peers[i].starts {
                continue;
            }
            if let Said::Event(event) = &said
                && event["event"] == "listening"
            {
                self.peers[i].address = Some(event["address"].clone());
                (0..self.peers.len()).for_each(|j| self.introduce(i, j));
            }
            return Ok((i, said));
        }
    }

    /// Sends peer `to` the address of the peer `whom`.
    fn introduce(&mut self, whom: usize, to: usize) {
        let Node { id: Some(id), address: Some(address), .. } = &self.peers[whom] else { return };
        let line = format!("{}\n", json!({"peer": id, "address": address}));
        if let Some((_, Some(input))) = self.peers[to].running.as_mut().filter(|_| whom != to) {
            // If the peer has ended, its end event reports it.
            let _ = input.write_all(line.as_bytes());
        }
    }

    /// Returns whether every peer has reported its address.
    pub(crate) fn introduced(&self) -> bool {
        self.peers.iter().all(|peer| peer.address.is_some())
    }

    /// Returns whether the peer has a process that was not waited for yet.
    pub(crate) fn running(&self, i: usize) -> bool {
        self.peers[i].running.is_some()
    }

    /// Returns how often the peer was started.
    pub(crate) fn starts(&self, i: usize) -> u32 {
        self.peers[i].starts
    }

    /// Ends a process at once, if it runs. Its earlier output can still be read until it is started
    /// again.
    pub(crate) fn kill(&mut self, i: usize) {
        if let Some((mut process, _)) = self.peers[i].running.take() {
            self.peers[i].address = None;
            // The process may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits for the end of a process whose output has ended.
    pub(crate) fn wait(&mut self, i: usize) -> Result<Option<ExitStatus>, Failure> {
        let Some((mut process, _)) = self.peers[i].running.take() else { return Ok(None) };
        self.peers[i].address = None;
        process.wait().map(Some).map_err(|error| Failure::Environment(format!("peer {i}: {error}")))
    }

    /// Sends a signal, by its name without SIG, to a running process.
    pub(crate) fn signal(&self, i: usize, name: &str) -> Result<(), Failure> {
        let Some((process, _)) = &self.peers[i].running else { return Ok(()) };
        let failed = |error: &dyn std::fmt::Display| Failure::Environment(format!("kill -{name}: {error}"));
        let sent = Command::new("kill").arg(format!("-{name}")).arg(process.id().to_string()).output();
        let sent = sent.map_err(|error| failed(&error))?;
        match sent.status.success() {
            true => Ok(()),
            false => Err(failed(&String::from_utf8_lossy(&sent.stderr).trim())),
        }
    }
}
