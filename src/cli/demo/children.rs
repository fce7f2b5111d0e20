//! The demo's processes: what each of them ends with, and how far they are.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::children::{ChildEvent, Children, now};
use crate::cli::dashboard::Live;
use crate::peer::unix;
use crate::session::Session;

use super::Demo;

/// Longer than any time-out of the demo's session.
const PATIENCE: Duration = Duration::from_secs(120);

/// Running nodes, and what they have told. Dropping kills those that still run.
pub(super) struct Nodes {
    children: Children,
    peers: Vec<Peer>,
    planes: Option<[u8; 32]>,
    started: Instant,
    live: Option<Live>,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.finish();
        }
    }
}

struct Peer {
    name: String,
    receipt: Option<Value>,
    complaint: String,
}

/// Serves a page of all nodes, and says where.
fn page(address: SocketAddr, session: &Session, names: &[String]) -> Result<Live, Failure> {
    let about = json!({
        "kind": "flyswarm demo", "title": session.name, "nodes": names, "start": session.id().to_string(),
        "about": format!("{} nodes on this machine; task {}", names.len(), session.task),
    });
    let live = Live::open(address, &about)?;
    // It must be seen at once, and standard output is for the result.
    eprintln!("page at {}", live.url());
    Ok(live)
}

/// What all of them left behind.
pub(super) struct Finished {
    /// In the order of the peers.
    pub(super) receipts: Vec<Value>,
    /// The seed of the planes, where somebody has told it.
    pub(super) planes: Option<[u8; 32]>,
    /// From the first start to the last end.
    pub(super) seconds: f64,
}

impl Nodes {
    /// Starts one node for each name, on a free port of the loopback interface; one without rows (NAME.csv)
    /// as a witness. What it gives is written to NAME.`extension`.
    pub(super) fn start(
        demo: &Demo,
        folder: &Path,
        session: &Session,
        names: &[String],
        extension: &str,
    ) -> Result<Self, Failure> {
        let live = demo.page.map(|address| page(address, session, names)).transpose()?;
        let id = |name: &String| {
            let entry = session.roster.iter().find(|entry| entry.name == *name);
            entry.map(|entry| entry.key.to_string()).unwrap_or_default()
        };
        let started = now();
        let mut children = Children::new(names.iter().map(id).collect());
        for (i, name) in names.iter().enumerate() {
            let file = |suffix: &str| folder.join(format!("{name}.{suffix}")).into_os_string();
            let rows = folder.join(format!("{name}.csv")).exists();
            let command = if rows { "join" } else { "witness" };
            let mut arguments: Vec<OsString> = vec![command.into(), folder.join("session.toml").into()];
            let words = ["--json", "--no-mdns", "--addresses-from-stdin", "--tell-planes"];
            arguments.extend(words.map(OsString::from));
            arguments.extend(live.iter().map(|_| "--tell-status".into()));
            arguments.extend(["--listen", "/ip4/127.0.0.1/tcp/0"].map(OsString::from));
            let mut files = vec![
                ("--key", file("key")),
                ("--state", folder.join("state").into()),
                ("--receipt", file("receipt.json")),
            ];
            if rows {
                files.extend([
                    ("--header", "no".into()),
                    ("--data", file("csv")),
                    ("--out", file(extension)),
                ]);
                if session.privacy.noise.is_some() {
                    files.push(("--dataset", "demo".into()));
                }
            }
            if rows && session.privacy.noise.is_some() {
                arguments.push("--yes".into());
            }
            arguments.extend(files.into_iter().flat_map(|(option, file)| [option.into(), file]));
            children.start(i, &arguments)?;
        }
        let peer = |name: &String| Peer { name: name.clone(), receipt: None, complaint: String::new() };
        Ok(Self { children, peers: names.iter().map(peer).collect(), planes: None, started, live })
    }

    /// Shows how far each is, and waits for all to end well.
    pub(super) fn wait(&mut self, quiet: bool) -> Result<Finished, Failure> {
        let view = View::new(quiet, &self.peers);
        let until = self.started + PATIENCE;
        let mut running = self.peers.len();
        while running > 0 {
            match self.children.next(until) {
                Ok((i, ChildEvent::Event(event))) => {
                    view.show(i, &self.peers[i].name, &event);
                    self.event(i, &event);
                }
                Ok((i, ChildEvent::Complaint(text))) => self.complaint(i, &text),
                Ok((i, ChildEvent::End)) => {
                    running -= 1;
                    self.ended(i)?;
                }
                Err(_) => {
                    let names: Vec<_> = self
                        .peers
                        .iter()
                        .filter(|peer| peer.receipt.is_none())
                        .map(|peer| &*peer.name)
                        .collect();
                    let text = format!("{} did not end within {} s", names.join(", "), PATIENCE.as_secs());
                    return Err(Failure::Session(text));
                }
            }
        }
        view.clear();
        let receipts = self.peers.iter().filter_map(|peer| peer.receipt.clone()).collect();
        Ok(Finished { receipts, planes: self.planes, seconds: (now() - self.started).as_secs_f64() })
    }

    fn event(&mut self, i: usize, event: &Value) {
        if let Some(live) = &self.live {
            match event["event"].as_str() {
                Some("status") => live.feed().status(i, &event["status"]),
                Some("receipt" | "planes") => {}
                _ => live.feed().event(Some(i), event, event["text"].as_str().unwrap_or_default()),
            }
        }
        match event["event"].as_str() {
            Some("receipt") => self.peers[i].receipt = Some(event["receipt"].clone()),
            Some("planes") => {
                let mut seed = [0; 32];
                let told = hex::decode_to_slice(event["seed"].as_str().unwrap_or_default(), &mut seed);
                self.planes = told.ok().map(|()| seed);
            }
            Some("error") => {
                self.peers[i].complaint = event["message"].as_str().unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }

    fn complaint(&mut self, i: usize, text: &str) {
        self.peers[i].complaint = text.lines().last().unwrap_or_default().to_owned();
    }

    fn ended(&mut self, i: usize) -> Result<(), Failure> {
        let Some(status) = self.children.wait(i)? else { return Ok(()) };
        if let Some(live) = &self.live {
            let (name, well) = (&self.peers[i].name, status.success());
            let text = format!("{name} has ended: {status}");
            let event = json!({"event": "ended", "well": well, "text": text, "time": unix()});
            live.feed().event(Some(i), &event, &text);
        }
        if status.success() && self.peers[i].receipt.is_some() {
            return Ok(());
        }
        // Its last words may still be under way.
        let until = now() + Duration::from_secs(1);
        while self.peers[i].complaint.is_empty() {
            match self.children.next(until) {
                Ok((j, ChildEvent::Complaint(text))) => self.complaint(j, &text),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let peer = &self.peers[i];
        Err(Failure::Session(format!("{} ended with {status}: {}", peer.name, peer.complaint)))
    }
}

impl Finished {
    /// Who was counted in the model.
    pub(super) fn members(&self) -> Value {
        let quantities = self.receipts.first().and_then(|receipt| receipt["quantities"].as_array());
        quantities.and_then(|all| all.last()).map_or(json!([]), |last| last["members"].clone())
    }

    /// Whose rows were learnt from, in the order in which they were drawn; nobody where everybody's were.
    pub(super) fn drawn(&self) -> Vec<String> {
        let chosen = self.receipts.first().and_then(|receipt| receipt["selection"]["chosen"].as_array());
        chosen.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
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
            Some("roles") => "begins the exchange".into(),
            Some("finished") if event["model"].is_null() => "is done".into(),
            Some("finished") => {
                format!("has the model {}", &text("digest").chars().take(16).collect::<String>())
            }
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
