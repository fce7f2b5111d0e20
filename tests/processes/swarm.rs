//! A session of real `flyswarm join` processes on this machine: their files, their output, the signals that
//! they get, and how they end.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use flyswarm::Identity;
use flyswarm::data::Dataset;
use flyswarm::session::{
    ColumnChecks, CommitteeSpec, DataSpec, Entry, Privacy, Run, Scaling, Score, Session, Timing,
};
use flyswarm::tasks::ModelSpec;
use flyswarm_data::digits::digits;
use rand::TryRng;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use super::PROGRAM;
pub const NAMES: [&str; 8] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];
/// Longer than any step of these tests takes on a busy machine. Only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Number of rows of the digits that are distributed. There are few, so that the tests are fast.
const ROWS: usize = 500;

/// Returns 32 random bytes from the operating system.
pub fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).expect("random bytes");
    bytes
}

/// Returns the session of these tests: every peer has all classes, and the timeouts are short.
pub fn session(keys: &[Identity]) -> Session {
    let data = digits();
    let roster = keys
        .iter()
        .zip(NAMES)
        .map(|(key, name)| Entry { key: key.public(), name: name.into(), addresses: Vec::new() })
        .collect();
    let task = ModelSpec { m: 1024, s: 10, rho: 16, gamma: 0.5, score: Score::Decay }.into();
    Session {
        name: "kills".into(),
        run: Run::new([7; 16], 1_000_000_000),
        min_peers: Session::default_min_peers(&task, keys.len()),
        task,
        data: DataSpec {
            features: data.features() as u32,
            columns: Vec::new(),
            classes: data.classes().to_vec(),
            scaling: Scaling::Standard,
            densify: false,
            checks: ColumnChecks::default(),
            preparation: None,
        },
        privacy: Privacy { min_contributors: 2, ..Privacy::default() },
        voting: CommitteeSpec::default(),
        relays: Vec::new(),
        timing: Timing {
            start_wait_ms: 10_000,
            proposal_backoff_ms: 1_000,
            view_timeout_ms: 3_000,
            no_quorum_timeout_ms: 6_000,
            compute_ms: 60_000,
            linger_ms: 2_000,
            regroup_interval_ms: 30_000,
            max_views: 24,
        },
        roster,
    }
}

/// Returns every `peers`-th row of each class, starting with row `i`.
pub fn part(i: usize, peers: usize) -> Vec<usize> {
    let data = digits();
    let mut seen = vec![0; data.classes().len()];
    (0..ROWS)
        .filter(|&row| {
            let count = &mut seen[usize::from(data.labels()[row])];
            *count += 1;
            (*count - 1) % peers == i
        })
        .collect()
}

pub fn csv(data: &Dataset, rows: &[usize]) -> String {
    let mut text = String::new();
    for &row in rows {
        for value in data.row(row) {
            text += &format!("{value},");
        }
        text += &data.classes()[usize::from(data.labels()[row])];
        text.push('\n');
    }
    text
}

/// A line of a process: output or event.
#[derive(Debug)]
enum Line {
    Out(String),
    Errors(String),
    End,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub errors: String,
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    run: u32,
    errors: Option<String>,
    out_ended: bool,
    ended: Option<Ended>,
}

/// An event of a process, with its time.
#[derive(Clone, Debug)]
pub struct Told {
    pub peer: usize,
    pub at: Instant,
    pub value: Value,
}

/// A session and its processes. Peer i is `Peer(i)` of the roster; its name is `NAMES[i]`.
pub struct Swarm {
    pub folder: TempDir,
    pub session: Session,
    pub keys: Vec<Identity>,
    pub parts: Vec<Vec<usize>>,
    pub listen: String,
    pub mdns: bool,
    processes: Vec<Option<Process>>,
    addresses: Vec<Option<String>>,
    /// Pairs of peers: the first is not given the address of the second.
    pub apart: Vec<(usize, usize)>,
    lines: Receiver<(usize, u32, Line)>,
    sender: Sender<(usize, u32, Line)>,
    pub waiting: VecDeque<Told>,
    pub log: Vec<Told>,
    runs: u32,
}

impl Drop for Swarm {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.story());
        }
    }
}

impl Swarm {
    /// Makes the keys, the session file and the rows of `peers` peers. It starts no process.
    pub fn new(peers: usize, change: impl FnOnce(&mut Session)) -> Self {
        let mut keys: Vec<_> = (0..peers).map(|_| Identity::from_seed(random())).collect();
        keys.sort_by_key(Identity::public);
        Self::with_keys(keys, change)
    }

    /// Does the same with these keys, which must be in ascending order.
    pub fn with_keys(keys: Vec<Identity>, change: impl FnOnce(&mut Session)) -> Self {
        let (folder, peers) = (tempfile::tempdir().expect("a folder"), keys.len());
        let mut session = session(&keys);
        change(&mut session);
        let session = session.check().expect("a session");
        fs::write(folder.path().join("session.toml"), session.to_toml()).expect("written");
        let data = digits();
        let parts: Vec<_> = (0..peers).map(|i| part(i, peers)).collect();
        for i in 0..peers {
            keys[i].save(folder.path().join(format!("{}.key", NAMES[i]))).expect("a key");
            fs::write(folder.path().join(format!("{}.csv", NAMES[i])), csv(&data, &parts[i]))
                .expect("written");
        }
        let (sender, lines) = mpsc::channel();
        Self {
            folder,
            session,
            keys,
            parts,
            listen: "/ip4/127.0.0.1/tcp/0".into(),
            mdns: false,
            processes: (0..peers).map(|_| None).collect(),
            addresses: vec![None; peers],
            apart: Vec::new(),
            lines,
            sender,
            waiting: VecDeque::new(),
            log: Vec::new(),
            runs: 0,
        }
    }

    pub fn peers(&self) -> usize {
        self.processes.len()
    }

    pub fn file(&self, i: usize, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("{}.{suffix}", NAMES[i]))
    }

    /// Returns the command `flyswarm join` of peer i, with the arguments that the demo uses.
    pub fn command(&self, i: usize) -> Command {
        let mut command = Command::new(PROGRAM);
        self.arguments(&mut command, i);
        command
    }

    pub fn arguments(&self, command: &mut Command, i: usize) {
        self.arguments_with(command, i, "", Path::new(""));
    }

    /// Adds the same arguments, but the path of `what` (`session`, `data`, `state` or `out`) is `path`.
    pub fn arguments_with(&self, command: &mut Command, i: usize, what: &str, path: &Path) {
        let pick = |name: &str, usual: PathBuf| if what == name { path.to_owned() } else { usual };
        command
            .arg("join")
            .arg(pick("session", self.folder.path().join("session.toml")))
            .args(["--json", "--force"])
            .args(["--listen", &self.listen])
            .args((!self.mdns).then_some("--no-mdns"))
            .arg("--data")
            .arg(pick("data", self.file(i, "csv")))
            .arg("--key")
            .arg(self.file(i, "key"))
            .arg("--state")
            .arg(pick("state", self.folder.path().join("state")))
            .arg("--out")
            .arg(pick("out", self.file(i, "model")));
    }

    pub fn start(&mut self, i: usize, more: &[&str]) {
        let mut command = self.command(i);
        command.args(more);
        self.start_command(i, command);
    }

    pub fn start_all(&mut self) {
        (0..self.peers()).for_each(|i| self.start(i, &[]));
    }

    /// Runs `command` as peer i, and gives it the addresses of the others.
    pub fn start_command(&mut self, i: usize, mut command: Command) {
        assert!(
            self.processes[i].as_ref().is_none_or(|old| old.ended.is_some()),
            "{} runs already",
            NAMES[i]
        );
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        self.runs += 1;
        let run = self.runs;
        let (out, errors) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send((i, run, Line::Out(line)));
            }
            let _ = sender.send((i, run, Line::End));
        });
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.take(1 << 20).read_to_end(&mut bytes);
            let _ = sender.send((i, run, Line::Errors(String::from_utf8_lossy(&bytes).into_owned())));
        });
        let input = child.stdin.take();
        self.addresses[i] = None;
        self.processes[i] = Some(Process { child, input, run, errors: None, out_ended: false, ended: None });
        for j in 0..self.peers() {
            if let Some(address) = self.addresses[j].clone() {
                self.introduce(i, j, &address);
            }
        }
    }

    /// Gives peer i the address of peer j.
    pub fn introduce(&mut self, i: usize, j: usize, address: &str) {
        if i == j || self.apart.contains(&(i, j)) {
            return;
        }
        let line = format!("{}\n", json!({"peer": self.keys[j].public().to_string(), "address": address}));
        if let Some(input) = self.processes[i].as_mut().and_then(|process| process.input.as_mut()) {
            let _ = input.write_all(line.as_bytes());
        }
    }

    pub fn pid(&self, i: usize) -> u32 {
        self.processes[i].as_ref().expect("started").child.id()
    }

    /// Sends peer i a signal such as `KILL`, `STOP`, `CONT`, `TERM` or `INT`.
    pub fn signal(&self, i: usize, name: &str) {
        let script = format!("kill -{name} {}", self.pid(i));
        assert!(Command::new("sh").args(["-c", &script]).status().expect("sh").success(), "{script}");
    }

    /// Reads the events of the processes until `wanted` returns a value. Returns `None` if the time is over
    /// first.
    pub fn wait_within<T>(
        &mut self,
        time: Duration,
        mut wanted: impl FnMut(&Told) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + time;
        loop {
            while let Some(told) = self.waiting.pop_front() {
                let found = wanted(&told);
                self.log.push(told);
                if found.is_some() {
                    return found;
                }
            }
            if !self.take(until.saturating_duration_since(Instant::now())) {
                return None;
            }
        }
    }

    /// Does the same as [`Swarm::wait_within`], but panics if the time is over first.
    pub fn wait<T>(&mut self, what: &str, wanted: impl FnMut(&Told) -> Option<T>) -> T {
        match self.wait_within(PATIENCE, wanted) {
            Some(found) => found,
            None => panic!("waited in vain for: {what}"),
        }
    }

    /// Waits for an event of peer i.
    pub fn wait_event(&mut self, i: usize, name: &str) -> Value {
        self.wait(&format!("{name} of {}", NAMES[i]), |told| {
            (told.peer == i && told.value["event"] == name).then(|| told.value.clone())
        })
    }

    /// Waits until each of `peers` has reported the event `name` since the last wait.
    pub fn wait_all(&mut self, peers: &[usize], name: &str) {
        let mut left = peers.to_vec();
        self.wait(&format!("{name} of {peers:?}"), |told| {
            if told.value["event"] == name {
                left.retain(|&i| i != told.peer);
            }
            left.is_empty().then_some(())
        });
    }

    /// Waits until the process of peer i has ended.
    pub fn wait_end(&mut self, i: usize) -> Ended {
        let until = Instant::now() + PATIENCE;
        loop {
            let process = self.processes[i].as_mut().expect("started");
            if let Some(ended) = &process.ended {
                return ended.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(self.take(left), "{} does not end", NAMES[i]);
        }
    }

    /// Reads one line. Returns false if no line came in time.
    fn take(&mut self, time: Duration) -> bool {
        let (i, run, line) = match self.lines.recv_timeout(time) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
        };
        let Some(process) = self.processes[i].as_mut().filter(|process| process.run == run) else {
            return true;
        };
        match line {
            Line::Out(text) => {
                let value: Value = serde_json::from_str(&text)
                    .unwrap_or_else(|error| panic!("{} printed {text:?}: {error}", NAMES[i]));
                // Every line gives the time, in seconds since 1970.
                assert!(value["time"].as_f64().is_some_and(|time| time > 1.7e9), "{text}");
                if value["event"] == "listening" && self.addresses[i].is_none() {
                    let address = value["address"].as_str().expect("an address").to_owned();
                    self.addresses[i] = Some(address.clone());
                    (0..self.peers()).for_each(|j| self.introduce(j, i, &address));
                }
                self.waiting.push_back(Told { peer: i, at: Instant::now(), value });
            }
            Line::Errors(text) => process.errors = Some(text),
            Line::End => process.out_ended = true,
        }
        let process = self.processes[i].as_mut().expect("there");
        let errors = process.errors.clone().filter(|_| process.out_ended && process.ended.is_none());
        if let Some(errors) = errors {
            let status = process.child.wait().expect("its end");
            assert!(!errors.contains("panicked"), "{} panicked: {errors}", NAMES[i]);
            process.ended = Some(Ended { code: status.code(), signal: status.signal(), errors });
        }
        true
    }

    /// Returns the events with this name that peer i has reported so far.
    pub fn told(&self, i: usize, name: &str) -> Vec<Value> {
        let log = self.log.iter().chain(&self.waiting);
        log.filter(|told| told.peer == i && told.value["event"] == name)
            .map(|told| told.value.clone())
            .collect()
    }

    /// Returns all events, to print when a test fails.
    pub fn story(&self) -> String {
        let first = self.log.first().map(|told| told.at);
        let log = self.log.iter().chain(&self.waiting);
        let mut text: String = log
            .filter(|told| told.value["event"] != "receipt")
            .map(|told| {
                let seconds = first.map_or(0.0, |first| (told.at - first).as_secs_f64());
                format!("{seconds:7.3} {:6} {}\n", NAMES[told.peer], told.value)
            })
            .collect();
        for (i, process) in self.processes.iter().enumerate() {
            if let Some(ended) = process.as_ref().and_then(|process| process.ended.as_ref()) {
                text += &format!("{} ended: {ended:?}\n", NAMES[i]);
            }
        }
        text
    }

    pub fn receipt(&self, i: usize) -> Value {
        let text = fs::read_to_string(self.file(i, "receipt.json")).expect("a receipt");
        serde_json::from_str(&text).expect("a receipt is JSON")
    }
}

/// Returns every file under `folder`. Tests use it to check that nothing is left.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out.sort();
    out
}
