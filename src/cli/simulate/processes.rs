//! `simulate --processes`: the runs of a scenario once more, as real processes over libp2p on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::Failure;
use crate::cli::children::{ChildEvent, Children, now};
use crate::protocol::view::Stage;
use crate::session::Peer;
use crate::sim::agreement::Played;
use crate::sim::outcome::SHOWN;
use crate::sim::participants::Participants;
use crate::sim::scenario::{Fault, File, Kind, Network, Scenario, ScenarioError};
use crate::sim::tally::Count;
use crate::sim::timeline;

/// Longer than any time-out of a session that goes well; only a failing run waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Refuses what cannot be done with processes on this machine.
pub(super) fn check(name: &str, scenario: &Scenario) -> Result<(), ScenarioError> {
    let refused = |field: &str, why: &str| {
        Err(ScenarioError(format!("{name}: {field} cannot be had with --processes: {why}")))
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
            "peers are connected over this machine's loopback, everybody to everybody",
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

/// What is done to a process at some time.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Kill(usize),
    Start(usize),
    Pause(usize),
    Resume(usize),
}

/// A fault that waits for a peer to reach a stage.
struct Waiting {
    peer: usize,
    slot: String,
    stage: Stage,
    fault: Fault,
    targets: Vec<usize>,
}

impl Waiting {
    /// The peer itself stops there and is killed, so that nothing after the stage leaves, as in virtual time.
    fn holds(&self) -> bool {
        self.fault.kind == Kind::Crash && self.targets == [self.peer]
    }
}

/// The processes of one run.
struct Play<'a> {
    children: Children,
    /// The arguments that every process has.
    common: Vec<OsString>,
    folder: &'a Path,
    played: Vec<Played>,
    /// What each peer's present process has sent.
    sent: Vec<Vec<Count>>,
    doings: BTreeMap<(Duration, usize), Doing>,
    waiting: Vec<Waiting>,
    /// Peers whose process was ended by a fault.
    down: BTreeSet<usize>,
    began: Option<Instant>,
    sequence: usize,
}

/// Plays run number `number` of the file; what each peer did.
pub(super) fn play(
    small: bool,
    path: &Path,
    number: usize,
    file: &File,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Played>, Failure> {
    let scenario = &file.runs[number].1;
    let cast = Participants::new(scenario, &file.folder).map_err(|error| Failure::Input(error.0))?;
    let folder = tempfile::Builder::new().prefix("flyswarm-simulate-").tempdir();
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
        children: Children::new(cast.session.roster.iter().map(|entry| entry.key.to_string()).collect()),
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
    play.run(&mut |finished| tell(finished, peers))?;
    Ok(play.played)
}

impl Play<'_> {
    fn start(&mut self, i: usize) -> Result<(), Failure> {
        self.down.remove(&i);
        if self.children.running(i) {
            return Ok(());
        }
        self.played[i].reason = None;
        let mut arguments = self.common.clone();
        let state = self.folder.join(format!("peer-{i}"));
        let words: [OsString; 6] = [
            "--peer".into(),
            i.to_string().into(),
            "--start".into(),
            self.children.starts(i).to_string().into(),
            "--state".into(),
            state.into(),
        ];
        arguments.extend(words);
        if let Some(waiting) = self.waiting.iter().find(|waiting| waiting.peer == i && waiting.holds()) {
            let stage = crate::net::metrics::stage_name(waiting.stage);
            arguments.extend(["--crash-at".into(), format!("{}.{stage}", waiting.slot).into()]);
        }
        self.children.start(i, &arguments, None)
    }

    /// Puts a fault, and its end, on the time line.
    fn plan(&mut self, at: Duration, fault: &Fault, targets: &[usize]) {
        let after = fault.for_s.map(|seconds| at + Duration::from_secs_f64(seconds));
        for &i in targets {
            let (doing, undoing) = match fault.kind {
                Kind::Crash => (Doing::Kill(i), Doing::Start(i)),
                Kind::Pause => (Doing::Pause(i), Doing::Resume(i)),
                Kind::Restart => (Doing::Start(i), Doing::Start(i)),
                // Refused by `check`, but for the healing that ends random faults, of which there is nothing
                // to heal.
                _ => continue,
            };
            for (at, doing) in std::iter::once((at, doing)).chain(after.map(|after| (after, undoing))) {
                self.sequence += 1;
                self.doings.insert((at, self.sequence), doing);
            }
        }
    }

    fn run(&mut self, tell: &mut dyn FnMut(usize)) -> Result<(), Failure> {
        let started = now();
        let mut quiet_since = started;
        loop {
            let peers = 0..self.played.len();
            if self.doings.is_empty() && !peers.clone().any(|i| self.children.running(i)) {
                return Ok(());
            }
            if self.began.is_none() && self.children.introduced() {
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
            match self.children.next(next.map_or(patience, |next| next.min(patience))) {
                Ok((i, said)) => {
                    self.said(i, said)?;
                    quiet_since = now();
                    tell(self.played.iter().filter(|played| played.result.is_some()).count());
                }
                Err(_) if now() >= patience => {
                    let running: Vec<_> =
                        peers.filter(|&i| self.children.running(i)).map(|i| i.to_string()).collect();
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
                if self.children.running(i) {
                    self.children.kill(i);
                    self.close(i);
                    self.down.insert(i);
                    self.played[i].reason.get_or_insert("it was down".into());
                }
                Ok(())
            }
            Doing::Start(i) => self.start(i),
            Doing::Pause(i) => self.children.signal(i, "STOP"),
            Doing::Resume(i) => self.children.signal(i, "CONT"),
        }
    }

    /// Adds what the process that has ended had sent to what the peer has sent.
    fn close(&mut self, i: usize) {
        let sent = std::mem::take(&mut self.sent[i]);
        let all = &mut self.played[i].sent;
        all.resize(all.len().max(sent.len()), Count::default());
        for (sum, each) in all.iter_mut().zip(sent) {
            sum.messages += each.messages;
            sum.bytes += each.bytes;
        }
    }

    fn said(&mut self, i: usize, said: ChildEvent) -> Result<(), Failure> {
        match said {
            ChildEvent::Event(event) => self.event(i, &event),
            ChildEvent::Complaint(text) => {
                if let Some(last) = text.lines().last().filter(|_| self.played[i].reason.is_none()) {
                    self.played[i].reason = Some(last.to_owned());
                }
                Ok(())
            }
            ChildEvent::End => {
                if let Some(status) = self.children.wait(i)? {
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

    /// A peer is at a stage for which a fault waits.
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
