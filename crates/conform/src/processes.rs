//! `simulate-processes`: the runs of a scenario in virtual time and as real processes over libp2p.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use flyswarm::cli::{Failure, columns};
use flyswarm::protocol::view::Stage;
use flyswarm::session::Peer;
use flyswarm::sim::outcome::SHOWN;
use flyswarm::sim::participants::Participants;
use flyswarm::sim::run::run_all;
use flyswarm::sim::scenario::{Fault, File, Kind, Network, Scenario, ScenarioError};
use flyswarm::sim::tally::Count;
use flyswarm::sim::timeline;
use serde_json::{Value, json};

use crate::agreement::{Agreement, Played};
use crate::files::now;
use crate::nodes::{Nodes, Said};
use crate::print;

/// Longer than any time-out of a successful session; only a failing run waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Run a scenario in virtual time and as real processes over libp2p on this machine, and compare both
///
/// The two runs must have equal results and views, and the same order of stages. The bytes of all frames may
/// differ by at most 1 %. Otherwise the exit code is 3.
#[derive(Debug, Args)]
pub(crate) struct SimulateProcesses {
    /// Scenario file, such as simulations/processes.toml
    file: PathBuf,
    /// Seed to use instead of the one in the file
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run the small variant of the scenario, as the tests do
    #[arg(long)]
    small: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl SimulateProcesses {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let path = &self.file;
        let input = |error: ScenarioError| Failure::Input(format!("{}: {error}", path.display()));
        let mut file = File::load(path, self.small).map_err(|error| Failure::Input(error.0))?;
        if let Some(seed) = self.seed {
            file.runs.iter_mut().for_each(|(_, scenario)| scenario.seed = seed);
        }
        file.runs.iter().try_for_each(|(name, scenario)| check(name, scenario)).map_err(input)?;
        let results = run_all(&file, &mut |_| {}).map_err(input)?;
        let played = |(_, (name, _)): &(usize, &(String, _))| {
            results.left_out.iter().all(|(left_out, _)| left_out != name)
        };
        let mut agreements = Vec::new();
        for ((number, _), outcome) in file.runs.iter().enumerate().filter(played).zip(&results.runs) {
            agreements.push(Agreement::new(outcome, play(self.small, path, number, &file)?));
        }
        if self.json {
            print(out, &format!("{}\n", json!(agreements)))?;
        } else {
            agreements.iter().try_for_each(|agreement| print(out, &table(agreement)))?;
        }
        let differs = agreements.iter().find_map(|agreement| Some((agreement, agreement.difference()?)));
        let Some((agreement, line)) = differs else { return Ok(()) };
        Err(Failure::Session(format!(
            "{}: {}: real processes differ from virtual time in {}: {} simulated, {} real",
            path.display(),
            agreement.run,
            line.what,
            line.simulated,
            line.real
        )))
    }
}

/// Returns the table for a run compared with real processes.
fn table(agreement: &Agreement) -> String {
    let strings = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![strings([&agreement.run, "virtual time", "processes", ""])];
    for line in &agreement.lines {
        let agrees = match line.agrees {
            Some(true) => "agrees",
            Some(false) => "DIFFERS",
            None => "",
        };
        rows.push(strings([&line.what, &line.simulated, &line.real, agrees]));
    }
    let mut out = columns(&rows);
    for (i, played) in agreement.played.iter().enumerate().filter(|(_, played)| played.result.is_none()) {
        let why = played.reason.as_deref().unwrap_or("it printed no reason");
        out += &format!("process {i} has no result: {why}\n");
    }
    out
}

/// Refuses a scenario that processes on this machine cannot run.
fn check(name: &str, scenario: &Scenario) -> Result<(), ScenarioError> {
    let refused = |field: &str, why: &str| {
        Err(ScenarioError(format!("{name}: {field} is not possible with processes: {why}")))
    };
    if usize::from(scenario.peers) > SHOWN {
        return refused(
            &format!("peers = {}", scenario.peers),
            &format!("at most {SHOWN} processes are started"),
        );
    }
    let (network, usual) = (&scenario.network, Network::default());
    let fields = [
        ("connections", network.connections != usual.connections),
        ("latency_ms", network.latency_ms != usual.latency_ms),
        ("jitter_ms", network.jitter_ms != usual.jitter_ms),
        ("bandwidth_mbit", network.bandwidth_mbit != usual.bandwidth_mbit),
        ("silence_ms", network.silence_ms != usual.silence_ms),
    ];
    if let Some((field, _)) = fields.iter().find(|(_, changed)| *changed) {
        return refused(
            &format!("network.{field}"),
            "all peers are connected to each other over the loopback of this machine",
        );
    }
    let tables =
        [("site", scenario.site.len()), ("link", scenario.link.len()), ("speed", scenario.speed.len())];
    if let Some((field, _)) = tables.iter().find(|(_, count)| *count > 0) {
        return refused(&format!("[[{field}]]"), "all processes share this machine");
    }
    let can = |kind| matches!(kind, Kind::Crash | Kind::Restart) || (kind == Kind::Pause && cfg!(unix));
    if let Some((i, fault)) = scenario.fault.iter().enumerate().find(|(_, fault)| !can(fault.kind)) {
        return refused(
            &format!("fault {} ({})", i + 1, fault.kind.name()),
            "processes crash, restart and pause",
        );
    }
    if scenario.random.faults > 0
        && let Some(kind) = scenario.random.kinds.iter().find(|kind| !can(**kind))
    {
        return refused(&format!("random.kinds: {}", kind.name()), "processes crash, restart and pause");
    }
    Ok(())
}

/// Action on a process at some time.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Kill(usize),
    Start(usize),
    Pause(usize),
    Resume(usize),
}

/// A fault that waits until a peer reaches a stage.
struct Waiting {
    peer: usize,
    slot: String,
    stage: Stage,
    fault: Fault,
    targets: Vec<usize>,
}

impl Waiting {
    /// Returns whether the peer itself must stop at the stage to be killed. Then nothing after the stage
    /// is sent, as in virtual time.
    fn holds(&self) -> bool {
        self.fault.kind == Kind::Crash && self.targets == [self.peer]
    }
}

/// Processes of one run.
struct Play<'a> {
    nodes: Nodes,
    /// Arguments that every process gets.
    common: Vec<OsString>,
    folder: &'a Path,
    played: Vec<Played>,
    /// Frames that each peer's present process has sent.
    sent: Vec<Vec<Count>>,
    doings: BTreeMap<(Duration, usize), Doing>,
    waiting: Vec<Waiting>,
    /// Peers whose process was ended by a fault.
    down: BTreeSet<usize>,
    began: Option<Instant>,
    sequence: usize,
}

/// Plays run number `number` of the file, and returns the actions of each peer.
fn play(small: bool, path: &Path, number: usize, file: &File) -> Result<Vec<Played>, Failure> {
    let scenario = &file.runs[number].1;
    let cast = Participants::new(scenario, &file.folder).map_err(|error| Failure::Input(error.0))?;
    let folder = tempfile::Builder::new().prefix("flyswarm-processes-").tempdir();
    let folder = folder
        .map_err(|error| Failure::Environment(format!("{}: {error}", std::env::temp_dir().display())))?;
    let mut common: Vec<OsString> = vec!["simulated-peer".into(), path.into()];
    if small {
        common.push("--small".into());
    }
    common.extend([
        "--run".into(),
        number.to_string().into(),
        "--seed".into(),
        scenario.seed.to_string().into(),
    ]);
    let peers = usize::from(scenario.peers);
    let mut play = Play {
        nodes: Nodes::introduced_by(cast.session.roster.iter().map(|entry| entry.key.to_string())),
        common,
        folder: folder.path(),
        played: vec![Played::default(); peers],
        sent: vec![Vec::new(); peers],
        doings: BTreeMap::new(),
        waiting: Vec::new(),
        down: BTreeSet::new(),
        began: None,
        sequence: 0,
    };
    let committee = cast.context(Peer(0)).committee;
    for fault in timeline::whole(scenario) {
        let targets = fault.peers.as_ref().map_or(Vec::new(), |peers| peers.of(&committee, scenario.peers));
        let targets: Vec<_> = targets.into_iter().map(Peer::index).collect();
        match (fault.at_s, &fault.at) {
            (Some(at), _) => play.plan(Duration::from_secs_f64(at), &fault, &targets),
            (None, Some(at)) => {
                let peer = at.peer.map(usize::from).or(targets.first().copied()).unwrap_or(0);
                play.waiting.push(Waiting { peer, slot: at.slot.clone(), stage: at.stage, fault, targets });
            }
            (None, None) => {}
        }
    }
    for i in 0..peers {
        play.start(i)?;
    }
    play.run()?;
    Ok(play.played)
}

impl Play<'_> {
    fn start(&mut self, i: usize) -> Result<(), Failure> {
        self.down.remove(&i);
        if self.nodes.running(i) {
            return Ok(());
        }
        self.played[i].reason = None;
        let mut arguments = self.common.clone();
        let state = self.folder.join(format!("peer-{i}"));
        let words: [OsString; 6] = [
            "--peer".into(),
            i.to_string().into(),
            "--start".into(),
            self.nodes.starts(i).to_string().into(),
            "--state".into(),
            state.into(),
        ];
        arguments.extend(words);
        if let Some(waiting) = self.waiting.iter().find(|waiting| waiting.peer == i && waiting.holds()) {
            let stage = format!("{:?}", waiting.stage).to_lowercase();
            arguments.extend(["--hold-at".into(), format!("{}.{stage}", waiting.slot).into()]);
        }
        self.nodes.start(i, &arguments, None)
    }

    /// Puts a fault and its end on the time line.
    fn plan(&mut self, at: Duration, fault: &Fault, targets: &[usize]) {
        let after = fault.for_s.map(|seconds| at + Duration::from_secs_f64(seconds));
        for &i in targets {
            let (doing, undoing) = match fault.kind {
                Kind::Crash => (Doing::Kill(i), Doing::Start(i)),
                Kind::Pause => (Doing::Pause(i), Doing::Resume(i)),
                Kind::Restart => (Doing::Start(i), Doing::Start(i)),
                // `check` refuses all other faults. The exception is the healing at the end of random
                // faults; here it has nothing to do.
                _ => continue,
            };
            for (at, doing) in std::iter::once((at, doing)).chain(after.map(|after| (after, undoing))) {
                self.sequence += 1;
                self.doings.insert((at, self.sequence), doing);
            }
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        let started = now();
        let mut quiet_since = started;
        loop {
            let peers = 0..self.played.len();
            if self.doings.is_empty() && !peers.clone().any(|i| self.nodes.running(i)) {
                return Ok(());
            }
            if self.began.is_none() && self.nodes.introduced() {
                self.began = Some(now());
            }
            let next = self.began.and_then(|began| self.doings.keys().next().map(|(at, _)| began + *at));
            if next.is_some_and(|next| next <= now()) {
                if let Some((_, doing)) = self.doings.pop_first() {
                    self.apply(doing)?;
                }
                quiet_since = now();
                continue;
            }
            let patience = quiet_since + PATIENCE;
            match self.nodes.next(next.map_or(patience, |next| next.min(patience))) {
                Ok((i, said)) => {
                    self.said(i, said)?;
                    quiet_since = now();
                }
                Err(_) if now() >= patience => {
                    let running: Vec<_> =
                        peers.filter(|&i| self.nodes.running(i)).map(|i| i.to_string()).collect();
                    let text =
                        format!("peers {}: nothing happens for {} s", running.join(" "), PATIENCE.as_secs());
                    return Err(Failure::Session(text));
                }
                Err(_) => {}
            }
        }
    }

    fn apply(&mut self, doing: Doing) -> Result<(), Failure> {
        match doing {
            Doing::Kill(i) => {
                if self.nodes.running(i) {
                    self.nodes.kill(i);
                    self.close(i);
                    self.down.insert(i);
                    self.played[i].reason.get_or_insert("its process was ended".into());
                }
                Ok(())
            }
            Doing::Start(i) => self.start(i),
            Doing::Pause(i) => self.nodes.signal(i, "STOP"),
            Doing::Resume(i) => self.nodes.signal(i, "CONT"),
        }
    }

    /// Adds the frames of the ended process to those of the peer.
    fn close(&mut self, i: usize) {
        let sent = std::mem::take(&mut self.sent[i]);
        let all = &mut self.played[i].sent;
        all.resize(all.len().max(sent.len()), Count::default());
        for (sum, each) in all.iter_mut().zip(sent) {
            sum.messages += each.messages;
            sum.bytes += each.bytes;
        }
    }

    fn said(&mut self, i: usize, said: Said) -> Result<(), Failure> {
        match said {
            Said::Event(event) => self.event(i, &event),
            Said::Complaint(text) => {
                if let Some(last) = text.lines().last().filter(|_| self.played[i].reason.is_none()) {
                    self.played[i].reason = Some(last.to_owned());
                }
                Ok(())
            }
            Said::End => {
                if let Some(status) = self.nodes.wait(i)? {
                    self.close(i);
                    let played = &mut self.played[i];
                    if !status.success() && played.result.is_none() {
                        played.reason.get_or_insert(status.to_string());
                    }
                }
                Ok(())
            }
        }
    }

    fn event(&mut self, i: usize, event: &Value) -> Result<(), Failure> {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let played = &mut self.played[i];
        match event["event"].as_str() {
            Some("view") => played.views.push(text("view")),
            Some("stage") => {
                if let Ok(stage) = serde_json::from_value(event["stage"].clone()) {
                    played.stages.push((text("slot"), stage));
                    return self.reached(i, &text("slot"), stage, false);
                }
            }
            Some("held") => {
                if let Ok(stage) = serde_json::from_value(event["stage"].clone()) {
                    return self.reached(i, &text("slot"), stage, true);
                }
            }
            Some("sent") => self.sent[i] = serde_json::from_value(event["sent"].clone()).unwrap_or_default(),
            Some("finished") => {
                played.result = Some(text("result"));
                played.finished_s = self.began.map(|began| (now() - began).as_secs_f64());
            }
            Some("error") => played.reason = Some(text("message")),
            _ => {}
        }
        Ok(())
    }

    /// Triggers the fault that waits for a peer at this stage, if there is any.
    fn reached(&mut self, i: usize, slot: &str, stage: Stage, held: bool) -> Result<(), Failure> {
        let due = self.waiting.iter().position(|waiting| {
            waiting.peer == i && waiting.slot == slot && waiting.stage == stage && waiting.holds() == held
        });
        let Some(due) = due else { return Ok(()) };
        let waiting = self.waiting.remove(due);
        let at = self.began.map_or(Duration::ZERO, |began| now() - began);
        self.plan(at, &waiting.fault, &waiting.targets);
        Ok(())
    }
}
