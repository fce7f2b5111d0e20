//! The demo's processes: starting, introducing and watching them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::session::Session;

/// Longer than any time-out of the demo's session.
const PATIENCE: Duration = Duration::from_secs(120);

/// Running nodes. Dropping kills those that still run.
pub(super) struct Children {
    peers: Vec<Peer>,
    lines: mpsc::Receiver<(usize, Line)>,
    started: Instant,
}

struct Peer {
    name: String,
    id: String,
    process: Child,
    input: Option<ChildStdin>,
    receipt: Option<Value>,
    complaint: String,
}

enum Line {
    Event(Value),
    Complaint(String),
    End,
}

/// What all of them left behind.
pub(super) struct Finished {
    /// In the order of the peers.
    pub(super) receipts: Vec<Value>,
    /// From the first start to the last end.
    pub(super) seconds: f64,
}

impl Drop for Children {
    fn drop(&mut self) {
        for peer in &mut self.peers {
            // It may have ended already.
            let _ = peer.process.kill();
            let _ = peer.process.wait();
        }
    }
}

impl Children {
    /// Starts one node for each name, on a free port of the loopback interface.
    pub(super) fn start(folder: &Path, session: &Session, names: &[String]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::Machine(format!("own program: {error}")))?;
        let (sender, lines) = mpsc::channel();
        let mut children = Self { peers: Vec::new(), lines, started: now() };
        for (i, name) in names.iter().enumerate() {
            let file = |suffix: &str| folder.join(format!("{name}.{suffix}"));
            let mut process = Command::new(&program)
                .arg("join")
                .arg(folder.join("session.toml"))
                .args(["--json", "--no-mdns", "--addresses-from-stdin", "--header", "no"])
                .args(["--listen", "/ip4/127.0.0.1/tcp/0"])
                .arg("--data")
                .arg(file("csv"))
                .arg("--key")
                .arg(file("key"))
                .arg("--state")
                .arg(folder.join("state"))
                .arg("--out")
                .arg(file("model"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| Failure::Machine(format!("{}: {error}", program.display())))?;
            let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
            let input = process.stdin.take();
            let entry = session.roster.iter().find(|entry| entry.name == *name);
            let id = entry.map(|entry| entry.key.to_string()).unwrap_or_default();
            children.peers.push(Peer {
                name: name.clone(),
                id,
                process,
                input,
                receipt: None,
                complaint: String::new(),
            });
            let events = sender.clone();
            std::thread::spawn(move || {
                let lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok);
                for value in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                    if events.send((i, Line::Event(value))).is_err() {
                        return;
                    }
                }
                let _ = events.send((i, Line::End));
            });
            let complaints = sender.clone();
            std::thread::spawn(move || {
                let mut text = String::new();
                if let Some(stderr) = stderr {
                    // What is not text is no complaint that could be shown.
                    let _ = stderr.take(1 << 16).read_to_string(&mut text);
                }
                let _ = complaints.send((i, Line::Complaint(text)));
            });
        }
        Ok(children)
    }

    /// Introduces them to each other, shows how far each is, and waits for all to end well.
    pub(super) fn wait(&mut self, quiet: bool) -> Result<Finished, Failure> {
        let view = View::new(quiet, &self.peers);
        let until = self.started + PATIENCE;
        let mut running = self.peers.len();
        while running > 0 {
            let left = until.saturating_duration_since(now());
            match self.lines.recv_timeout(left) {
                Ok((i, Line::Event(event))) => {
                    view.show(i, &self.peers[i].name, &event);
                    self.event(i, &event);
                }
                Ok((i, Line::Complaint(text))) => {
                    self.peers[i].complaint = text.lines().last().unwrap_or_default().to_owned();
                }
                Ok((i, Line::End)) => {
                    running -= 1;
                    self.ended(i)?;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let names: Vec<_> =
                        self.peers.iter().filter(|peer| peer.receipt.is_none()).map(|peer| &*peer.name).collect();
                    let text = format!("{} did not end within {} s", names.join(", "), PATIENCE.as_secs());
                    return Err(Failure::Session(text));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        view.clear();
        let receipts = self.peers.iter().filter_map(|peer| peer.receipt.clone()).collect();
        Ok(Finished { receipts, seconds: (now() - self.started).as_secs_f64() })
    }

    fn event(&mut self, i: usize, event: &Value) {
        match event["event"].as_str() {
            Some("listening") => {
                let line = format!("{}\n", json!({"peer": self.peers[i].id, "address": event["address"]}));
                for (j, peer) in self.peers.iter_mut().enumerate() {
                    if let Some(input) = peer.input.as_mut().filter(|_| j != i) {
                        // One that has ended is noticed by its end.
                        let _ = input.write_all(line.as_bytes());
                    }
                }
            }
            Some("receipt") => self.peers[i].receipt = Some(event["receipt"].clone()),
            Some("error") => {
                self.peers[i].complaint = event["message"].as_str().unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }

    fn ended(&mut self, i: usize) -> Result<(), Failure> {
        let peer = &mut self.peers[i];
        let status = peer.process.wait().map_err(|error| Failure::Machine(format!("{}: {error}", peer.name)))?;
        if status.success() && peer.receipt.is_some() {
            return Ok(());
        }
        // Its last words may still be under way.
        let until = now() + Duration::from_secs(1);
        while self.peers[i].complaint.is_empty() {
            match self.lines.recv_timeout(until.saturating_duration_since(now())) {
                Ok((j, Line::Complaint(text))) => {
                    self.peers[j].complaint = text.lines().last().unwrap_or_default().to_owned();
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let peer = &self.peers[i];
        Err(Failure::Session(format!("{} ended with {status}: {}", peer.name, peer.complaint)))
    }
}

#[allow(clippy::disallowed_methods, reason = "the demo shows how long it took")]
fn now() -> Instant {
    Instant::now()
}

impl Finished {
    /// Who was counted in the model.
    pub(super) fn members(&self) -> Value {
        let quantities = self.receipts.first().and_then(|receipt| receipt["quantities"].as_array());
        quantities.and_then(|all| all.last()).map_or(json!([]), |last| last["members"].clone())
    }

    /// Stages in the order of the first peer: the longest time at any peer, bytes of all.
    pub(super) fn stages(&self) -> Value {
        let of = |receipt: &Value| receipt["stages"].as_array().cloned().unwrap_or_default();
        let mut out = Vec::new();
        for stage in self.receipts.first().map(of).unwrap_or_default() {
            let same: Vec<_> =
                self.receipts.iter().flat_map(of).filter(|other| other["name"] == stage["name"]).collect();
            let seconds = same.iter().filter_map(|other| other["seconds"].as_f64()).fold(0.0, f64::max);
            let bytes: u64 = same.iter().filter_map(|other| other["bytes"].as_u64()).sum();
            out.push(json!({"name": stage["name"], "seconds": seconds, "bytes": bytes}));
        }
        Value::Array(out)
    }
}

/// One line for each peer: bars on a terminal, plain lines otherwise, nothing with `--json`.
enum View {
    Quiet,
    Lines,
    Bars(MultiProgress, Vec<ProgressBar>),
}

impl View {
    fn new(quiet: bool, peers: &[Peer]) -> Self {
        use std::io::IsTerminal;
        if quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let all = MultiProgress::new();
        let bars = peers
            .iter()
            .map(|peer| {
                let bar = all.add(ProgressBar::new_spinner());
                if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix:8} {msg}") {
                    bar.set_style(style);
                }
                bar.set_prefix(peer.name.clone());
                bar.enable_steady_tick(Duration::from_millis(120));
                bar
            })
            .collect();
        Self::Bars(all, bars)
    }

    fn show(&self, i: usize, name: &str, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let line = match event["event"].as_str() {
            Some("listening") => format!("listens on {}", text("address")),
            Some("joined") => format!("is connected to {}", text("peer")),
            Some("view") => format!("is in view {}", text("view")),
            Some("stage") if event["stage"] == "compute" => format!("{}: computing", text("slot")),
            Some("stage") if event["stage"] == "sum" => format!("{}: summing", text("slot")),
            Some("opened") => format!("{}: opened", text("quantity")),
            Some("finished") => format!("has the model {}", &text("digest").chars().take(16).collect::<String>()),
            Some("view-failed") => format!("view {} failed", text("view")),
            Some("disconnected") => format!("lost {}: {}", text("peer"), text("reason")),
            Some("error") => text("message"),
            _ => return,
        };
        match self {
            Self::Quiet => {}
            Self::Lines => eprintln!("{name:8} {line}"),
            Self::Bars(_, bars) => bars[i].set_message(line),
        }
    }

    fn clear(&self) {
        if let Self::Bars(all, _) = self {
            // A terminal that cannot be cleared keeps the lines.
            let _ = all.clear();
        }
    }
}
