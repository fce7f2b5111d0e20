//! Setup of a check: a folder with a session's files, our own nodes, and the checked program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::deviation::From;
use crate::files;
use crate::files::failed;
use crate::files::{new_run, now, random};
use crate::nodes::{Nodes, Said};
use flyswarm::Identity;
use flyswarm::cli::Failure;
use flyswarm::model::{Model, Origin};
use flyswarm::net::PeerId;
use flyswarm::net::driver::peer_id;
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::members::Claims;
use flyswarm::session::{Entry, Privacy, Scaling, Score, Session, Timing};
use flyswarm::tasks::flynn::Plan;
use flyswarm::tasks::{FlynnSpec, ModelSpec};
use flyswarm_data::digits::digits;
use flyswarm_data::{Dataset, deal};

/// Time between two looks at the running processes.
const TICK: Duration = Duration::from_millis(100);
const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
const HOLDERS: usize = 3;

/// Ports for programs: the first one, and their number. Operating systems use higher ports for outgoing
/// connections, which could take the port of a program that starts late.
const PORTS: (u16, u16) = (10_000, 20_000);

/// Returns a listener on the next free port of [`PORTS`]; processes begin at different ports.
fn free_listener() -> std::io::Result<TcpListener> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let (first, count) = PORTS;
    let mut tried = 0;
    loop {
        let place = TAKEN.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        let port = first + u16::try_from(place % u32::from(count)).unwrap_or_default();
        tried += 1;
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(_) if tried < count => {}
            bound => return bound,
        }
    }
}

/// Position of the checked program in the first view's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Leader,
    Inner,
    Leaf,
}

/// A session with the checked program as one peer.
pub(super) struct Ground {
    folder: PathBuf,
    session: Session,
    /// Names of the peers, in the order of the roster.
    names: Vec<String>,
    parts: Vec<Dataset>,
    /// Peers in the order of the first view's tree.
    pub(super) tree: Vec<usize>,
    /// Number of the checked peer.
    pub(super) checked: usize,
    ours: Nodes,
    /// Command with its placeholders.
    program: String,
    foreign: Option<Child>,
    ended: Option<ExitStatus>,
    /// Events of our own nodes, by peer.
    pub(super) told: Vec<Vec<Value>>,
    complaints: Vec<String>,
    codes: Vec<Option<ExitStatus>>,
    until: Instant,
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.kill_checked();
    }
}

fn together(parts: &[Dataset]) -> Result<Dataset, Failure> {
    let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
    let (features, classes) = parts.first().map_or((0, &[][..]), |part| (part.features(), part.classes()));
    Ok(Dataset::new(features, values, labels, classes.to_vec())?)
}

fn write_csv(path: &Path, data: &Dataset) -> Result<(), Failure> {
    let mut text = String::new();
    for (i, &label) in data.labels().iter().enumerate() {
        data.row(i).iter().for_each(|value| text.push_str(&format!("{value},")));
        text.push_str(&data.classes()[usize::from(label)]);
        text.push('\n');
    }
    fs::write(path, text).map_err(|error| failed(path, &error))
}

/// Quotes a path as one word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

impl Ground {
    /// Writes the files of a session that gives the program this position if all peers come at once.
    pub(super) fn new(
        folder: PathBuf,
        program: &str,
        (peers, min_peers): (usize, u16),
        (place, m): (Place, u32),
        (timing, limit): (Timing, Duration),
    ) -> Result<Self, Failure> {
        files::create_folder(&folder)?;
        let data = digits();
        let seed = random()?;
        let dealt = deal::by_classes(data.labels(), data.classes().len(), peers, HOLDERS, seed.as_ref());
        let dealt = dealt.map_err(|error| Failure::Input(error.to_string()))?;
        let (mut parts, mut roster, mut listeners) = (Vec::new(), Vec::new(), Vec::new());
        for (name, rows) in NAMES.iter().zip(&dealt) {
            let identity = Identity::from_seed(*random()?);
            identity.save(folder.join(format!("{name}.key")))?;
            let bound = free_listener().and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
            let (port, listener) =
                bound.map_err(|error| Failure::Environment(format!("127.0.0.1: {error}")))?;
            listeners.push(listener);
            let addresses = vec![format!("/ip4/127.0.0.1/tcp/{port}")];
            roster.push(Entry { key: identity.public(), name: (*name).to_owned(), addresses });
            let part = data.subset(rows);
            write_csv(&folder.join(format!("{name}.csv")), &part)?;
            parts.push(part);
        }
        let model = ModelSpec { m, s: 19, rho: 16, gamma: 0.5, score: Score::Decay };
        let session = Session::builder("conform", FlynnSpec { model, select: None, evaluate: None })
            .features(data.features())
            .classes(data.classes().iter().cloned())
            .scaling(Scaling::Center)
            .check_columns(false)
            .min_peers(min_peers)
            .privacy(Privacy { min_contributors: 1, ..Privacy::default() })
            .timing(timing)
            .run(new_run()?);
        let session = roster
            .into_iter()
            .fold(session, |session, Entry { key, name, addresses }| session.peer_at(name, key, addresses));
        let mut session = session.build().map_err(|error| Failure::Input(error.to_string()))?;
        // The roster is in the order of the keys, and a peer's number is its index in the roster.
        let names: Vec<_> = session.roster.iter().map(|entry| entry.name.clone()).collect();
        let place_of = |name: &str| NAMES.iter().position(|other| *other == name).unwrap_or_default();
        let parts = names.iter().map(|name| parts[place_of(name)].clone()).collect();
        // The session number decides the leader and the tree.
        let (tree, checked) = loop {
            let first = Ballot { counter: 1, proposer: session.committee()[0] };
            let settings = session.settings();
            let tree = Claims::whole(&settings).tree(&settings, first);
            let tree = tree.ok_or_else(|| Failure::Input("no view of this session can begin".into()))?;
            let tree: Vec<_> = tree.order().iter().map(|peer| peer.index()).collect();
            // The checked peer is always number 1 of the roster, so that its number is not 0.
            let at = match place {
                Place::Leader => 0,
                Place::Inner => 1,
                Place::Leaf => peers - 1,
            };
            if tree[at] == 1 {
                break (tree, 1);
            }
            session.run = new_run()?;
        };
        let text = session.to_toml();
        let path = folder.join("session.toml");
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        Ok(Self {
            folder,
            session,
            names,
            parts,
            tree,
            checked,
            ours: Nodes::new(peers),
            program: program.to_owned(),
            foreign: None,
            ended: None,
            told: vec![Vec::new(); peers],
            complaints: vec![String::new(); peers],
            codes: vec![None; peers],
            until: now() + limit,
        })
    }

    /// Returns the address where a peer listens.
    pub(super) fn address(&self, i: usize) -> &str {
        &self.session.roster[i].addresses[0]
    }

    pub(super) fn port(&self, i: usize) -> u16 {
        self.address(i).rsplit('/').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    pub(super) fn peer_id(&self, i: usize) -> PeerId {
        peer_id(&self.session.roster[i].key)
    }

    pub(super) fn name(&self, i: usize) -> &str {
        &self.names[i]
    }

    /// Returns the peer at this position relative to the checked peer.
    pub(super) fn neighbour(&self, from: From) -> usize {
        match from {
            From::Leader | From::Above => self.tree[0],
            From::Child => self.tree[1],
        }
    }

    pub(super) fn peers(&self) -> usize {
        self.parts.len()
    }

    fn file(&self, i: usize, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}.{suffix}", self.names[i]))
    }

    /// Starts one of our own nodes.
    pub(super) fn start(&mut self, i: usize, more: &[&str]) -> Result<(), Failure> {
        let mut arguments: Vec<OsString> = vec!["join".into(), self.folder.join("session.toml").into()];
        let listen = self.address(i);
        let words = ["--json", "--no-mdns", "--force", "--listen", listen];
        arguments.extend(words.iter().chain(more).map(OsString::from));
        for (option, suffix) in
            [("--key", "key"), ("--data", "csv"), ("--state", "state"), ("--out", "model")]
        {
            arguments.extend([option.into(), self.file(i, suffix).into()]);
        }
        self.ours.start(i, &arguments, Some(&self.file(i, "trace.json")))
    }

    /// Starts the checked program; its output goes into files.
    pub(super) fn start_checked(&mut self) -> Result<(), Failure> {
        let i = self.checked;
        let mut command = self.program.clone();
        for (name, path) in [
            ("{session}", self.folder.join("session.toml")),
            ("{key}", self.file(i, "key")),
            ("{data}", self.file(i, "csv")),
            ("{state}", self.file(i, "state")),
            ("{out}", self.file(i, "model")),
            ("{network-key}", self.network_key()),
        ] {
            command = command.replace(name, &quoted(&path));
        }
        command = command.replace("{listen}", self.address(i));
        let open = |suffix: &str| {
            let path = self.file(i, suffix);
            File::options().create(true).append(true).open(&path).map_err(|error| failed(&path, &error))
        };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).stdin(Stdio::null());
        shell.stdout(open("out")?).stderr(open("err")?);
        // The shell gets its own process group, so that the processes it has started end with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let child = shell.spawn().map_err(|error| Failure::Environment(format!("sh: {error}")))?;
        self.foreign = Some(child);
        Ok(())
    }

    /// Ends the checked program at once, with all processes that it has started.
    pub(super) fn kill_checked(&mut self) {
        if let Some(mut child) = self.foreign.take() {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Removes the checked program's state.
    pub(super) fn forget(&self) -> Result<(), Failure> {
        let path = self.file(self.checked, "state");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&path, &error)),
            _ => Ok(()),
        }
    }

    pub(super) fn network_key(&self) -> PathBuf {
        self.folder.join("net.key")
    }

    pub(super) fn kill(&mut self, i: usize) {
        self.ours.kill(i);
    }

    pub(super) fn signal(&self, i: usize, name: &str) -> Result<(), Failure> {
        self.ours.signal(i, name)
    }

    /// Collects the events of our own nodes for a moment. Returns whether there is time left.
    pub(super) fn hear(&mut self) -> Result<bool, Failure> {
        let until = (now() + TICK).min(self.until);
        while let Ok((i, said)) = self.ours.next(until) {
            match said {
                Said::Event(event) => self.told[i].push(event),
                Said::Complaint(text) => self.complaints[i] += &text,
                Said::End => self.codes[i] = self.ours.wait(i)?,
            }
        }
        if let Some(child) = &mut self.foreign
            && let Ok(Some(status)) = child.try_wait()
        {
            self.foreign = None;
            self.ended = Some(status);
        }
        Ok(now() < self.until)
    }

    /// Returns whether one of our own nodes has reported an event with these fields.
    pub(super) fn heard(&self, i: usize, fields: &[(&str, &str)]) -> bool {
        self.told[i].iter().any(|event| fields.iter().all(|(name, value)| event[*name] == *value))
    }

    /// Returns whether any of our own nodes has reported such an event.
    pub(super) fn anyone(&self, fields: &[(&str, &str)]) -> bool {
        (0..self.peers()).any(|i| self.heard(i, fields))
    }

    /// Returns whether the nodes `ours` and the checked program have ended.
    pub(super) fn over(&self, ours: &[usize]) -> bool {
        self.foreign.is_none() && ours.iter().all(|&i| self.codes[i].is_some())
    }

    /// Returns the errors at the end: of our own nodes `ours`, of the checked program, and of their
    /// models.
    pub(super) fn judge(&self, ours: &[usize], must_end_well: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let name = &*self.names[self.checked];
        for &i in ours {
            let blamed =
                self.told[i].iter().find(|event| event["event"] == "blamed" && event["peer"] == name);
            if let Some(event) = blamed {
                let fault = &event["fault"];
                wrong.push(format!(
                    "{} blames the program: {}",
                    self.names[i],
                    fault.as_str().map_or(fault.to_string(), str::to_owned)
                ));
            }
            match self.codes[i] {
                Some(status) if status.success() => {}
                Some(status) => wrong.push(format!(
                    "{} ended with {status}: {}",
                    self.names[i],
                    last(&self.complaints[i])
                )),
                None => wrong.push(format!("{} did not end in time", self.names[i])),
            }
        }
        let said = || fs::read_to_string(self.file(self.checked, "err")).unwrap_or_default();
        match self.ended {
            Some(status) if status.success() || !must_end_well => {}
            Some(status) => wrong.push(format!("the program ended with {status}: {}", last(&said()))),
            None => wrong.push(format!("the program did not end in time: {}", last(&said()))),
        }
        // The date and the program name in a file differ from peer to peer (section 19); all else must
        // be equal.
        let others: Vec<_> = ours.iter().filter_map(|&i| Model::load(&self.file(i, "model")).ok()).collect();
        if others.windows(2).any(|pair| !alike(&pair[0], &pair[1])) {
            wrong.push("the models of the other peers are not equal".to_owned());
        }
        let path = self.file(self.checked, "model");
        if !path.exists() {
            if must_end_well {
                wrong.push("the program has written no model".to_owned());
            }
            return wrong;
        }
        match (Model::load(&path), others.first()) {
            (Err(error), _) => wrong.push(format!("the program's model cannot be read: {error}")),
            (Ok(model), Some(other)) if !alike(&model, other) => wrong.push(differences(&model, other)),
            _ => {}
        }
        wrong
    }

    /// Reports one of our peers if the checked program has closed the connection with it for good before
    /// the end.
    pub(super) fn false_blame(&self) -> Option<String> {
        let checked = self.name(self.checked);
        let away = |told: &Vec<Value>| {
            let before = told.iter().take_while(|event| event["event"] != "finished");
            let of_checked = before.filter(|event| event["peer"] == checked);
            let last = of_checked.filter_map(|event| event["event"].as_str());
            last.filter(|name| ["disconnected", "joined"].contains(name)).last() == Some("disconnected")
        };
        let whom = self.told.iter().position(away)?;
        Some(format!(
            "the program has closed the connection with {}, which has broken no rule",
            self.name(whom)
        ))
    }

    /// Checks that the models equal the model of all rows in one place. No peer was lost, so all rows
    /// count.
    pub(super) fn judge_rows(&self, ours: usize) -> Result<Option<String>, Failure> {
        let Ok(model) = Model::load(&self.file(ours, "model")) else { return Ok(None) };
        let Some(spec) = self.session.task.get::<FlynnSpec>().copied() else { return Ok(None) };
        let plan = Plan::new(self.session.clone(), spec);
        let all = together(&self.parts)?;
        let pooled = plan.pooled(&all, model.sketch().parameters().seed);
        let pooled = pooled.map_err(|error| Failure::Session(error.to_string()))?;
        let told = "the model is not that of all rows in one place: its counts or moments are wrong";
        Ok((pooled.digest() != model.digest()).then(|| told.to_owned()))
    }
}

/// Returns whether two models are from the same session.
fn alike(a: &Model, b: &Model) -> bool {
    let origin = |model: &Model| {
        model.origin().map(|origin| Origin { unix: 0, program: String::new(), ..origin.clone() })
    };
    a.digest() == b.digest() && origin(a) == origin(b)
}

fn differences(model: &Model, other: &Model) -> String {
    let (mine, theirs) = (hex::encode(model.digest()), hex::encode(other.digest()));
    match mine == theirs {
        true => "the program's model names another origin than the other peers' models".to_owned(),
        false => format!("the program's model has the digest {mine}, the other peers' models have {theirs}"),
    }
}

/// Returns the last line of a text, or a note that the text is empty.
fn last(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing")
}
