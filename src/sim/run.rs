//! Runs a scenario: builds the swarm, runs it in virtual time, and reports the result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::checks::{self, Check};
use super::links::micros;
use super::outcome::{
    self, Accuracy, Blame, Host, Mark, PurposeRow, Ranking, Results, RunReport, SHOWN, Slot, StageRow,
    Training, View,
};
use super::participants::Participants;
use super::rows::DealtRows;
use super::scenario::{File, Scenario, ScenarioError};
use super::swarm::{Swarm, Watcher};
use super::tally::{Count, PURPOSES};
use super::task;
use super::timeline;
use crate::protocol::context::Context;
use crate::protocol::tree::Tree;
use crate::protocol::view::Stage;
use crate::protocol::{Time, memo};
use crate::session::Peer;
use crate::tasks::Work;
use crate::tasks::compare::Worth;
use flyswarm_sealed_sum::engine::Engine;

/// Number of events between two progress reports.
const LOOK: u64 = 2048;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Present virtual time.
    pub now: Time,
    /// Number of peers that have the result, and of all peers.
    pub finished: (usize, u16),
    /// Number of frames sent.
    pub frames: u64,
}

/// Makes a watcher for the events of a run from its name and the context of its nodes.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(&str, &Arc<Context>) -> Option<Watcher>;

/// Runs every variant of a file.
///
/// # Errors
/// [`ScenarioError`] if a run cannot begin. The report of a run lists its failures.
pub fn run_all(file: &File, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Results, ScenarioError> {
    run_all_watched(file, &mut |_, _| None, progress)
}

/// Does the same as [`run_all`]. `watch` may return a watcher for the events of a run.
///
/// # Errors
/// The errors of [`run_all`].
pub(crate) fn run_all_watched(
    file: &File,
    watch: Watch<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Results, ScenarioError> {
    let mut hash = Sha256::new();
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    for (name, scenario) in &file.runs {
        if let Some(set) = DealtRows::missing(&scenario.data, &file.folder) {
            left_out.push((name.clone(), set.to_owned()));
            continue;
        }
        let outcome = run_watched(name, scenario, &file.folder, watch, progress)?;
        hash.update(outcome.trace_hash.as_bytes());
        runs.push(outcome);
    }
    Ok(Results {
        scenario: file.name.clone(),
        about: file.about.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        trace_hash: hex::encode(hash.finalize()),
        left_out,
        runs,
    })
}

/// Builds a swarm that is ready to start.
///
/// # Errors
/// [`ScenarioError`] if the scenario does not fit these participants.
pub(crate) fn prepare(
    scenario: &Scenario,
    participants: Participants,
) -> Result<Engine<Swarm>, ScenarioError> {
    participants.check(scenario)?;
    let swarm = Swarm::new(scenario, participants, timeline::whole(scenario));
    Ok(Engine::new(swarm, scenario.peers, true))
}

/// Runs a session of these participants over the scenario's network, with its faults. Returns the swarm
/// in its final state: [`Swarm::finished`], [`Swarm::outcome`], and the failures in [`Swarm::checks`].
///
/// # Errors
/// [`ScenarioError`] if the scenario does not fit these participants.
pub fn play(scenario: &Scenario, participants: Participants) -> Result<Swarm, ScenarioError> {
    memo::begin();
    let mut engine = prepare(scenario, participants)?;
    pass("", scenario, &mut engine, &mut |_| {});
    Ok(engine.world)
}

/// Runs one variant. `folder` is the folder of its file.
///
/// # Errors
/// [`ScenarioError`] if the run cannot begin.
pub fn run(
    name: &str,
    scenario: &Scenario,
    folder: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunReport, ScenarioError> {
    run_watched(name, scenario, folder, &mut |_, _| None, progress)
}

fn run_watched(
    name: &str,
    scenario: &Scenario,
    folder: &Path,
    watch: Watch<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunReport, ScenarioError> {
    memo::begin();
    let mut engine = prepare(scenario, Participants::new(scenario, folder)?)?;
    engine.world.watcher = watch(name, &engine.world.ctx);
    pass(name, scenario, &mut engine, progress);
    Ok(report(name, scenario, &mut engine))
}

/// Runs the engine until all peers have ended, a check has failed, or the time limit is over.
pub(crate) fn pass(
    name: &str,
    scenario: &Scenario,
    engine: &mut Engine<Swarm>,
    progress: &mut dyn FnMut(Progress<'_>),
) {
    Swarm::start(engine);
    let limit = Time(micros(scenario.limit_s * 1000.0));
    let mut steps = 0;
    while engine.next().is_some_and(|at| at <= limit)
        && !engine.over()
        && engine.world.checks.violations.is_empty()
    {
        engine.step();
        steps += 1;
        if steps % LOOK == 0 {
            let world = &engine.world;
            let finished = (world.finished.len(), world.ctx.peers());
            progress(Progress { name, now: engine.now(), finished, frames: world.sent.0 });
        }
        if engine.left_alone() && engine.now() > last_end(engine) {
            break;
        }
    }
    let (now, late) = (engine.now(), last_end(engine));
    if engine.world.checks.violations.is_empty() {
        for peer in engine.peers().filter(|&peer| engine.alive(peer)).collect::<Vec<_>>() {
            let text =
                format!("{peer} has not ended by {} ms; the bound is {} ms", now.0 / 1000, late.0 / 1000);
            engine.world.checks.violated(now, Check::Ends, text);
        }
    }
}

/// Returns the time by which every peer must have ended.
fn last_end(engine: &Engine<Swarm>) -> Time {
    engine.world.last_fault.plus_ms(bound_ms(engine))
}

fn bound_ms(engine: &Engine<Swarm>) -> u64 {
    let world = &engine.world;
    checks::bound_ms(&world.ctx, world.silence_ms(), world.costs.longest_us.div_ceil(1000))
}

/// Returns the first peer whose opened vectors differ from those of the others.
fn differing(world: &Swarm) -> Option<Peer> {
    let first = world.finished.values().next()?;
    world.finished.iter().find(|(_, finished)| finished.opened() != first.opened()).map(|(peer, _)| *peer)
}

/// Measures and reports a run that has ended.
pub(super) fn report(name: &str, scenario: &Scenario, engine: &mut Engine<Swarm>) -> RunReport {
    let bound = bound_ms(engine);
    let now = engine.now();
    let world = &mut engine.world;
    let mut failures = Vec::new();
    let Worth { mut accuracy, mut ranking, evaluation } = task::worth(scenario, world, &mut failures);
    if let Some(peer) = differing(world) {
        failures.push(format!("the result of {peer} differs from that of the others"));
        accuracy.iter_mut().for_each(|accuracy| accuracy.equal = false);
        ranking.iter_mut().for_each(|ranking| ranking.equal = false);
    }
    failures.into_iter().for_each(|text| world.checks.violated(now, Check::Exact, text));
    expected(scenario, engine, accuracy.as_ref(), ranking.as_ref());
    let world = &engine.world;
    let ms = |time: Time| time.0 / 1000;
    let finished_ms = world.finished.values().map(|finished| ms(finished.at)).max().unwrap_or(0);
    let began_ms = world.views.values().map(|(_, at)| ms(*at)).min().unwrap_or(0);
    let training =
        world.rows.as_ref().zip(world.session.task.part::<crate::tasks::ModelSpec>()).map(|(rows, model)| {
            let (m, s) = (f64::from(model.m), f64::from(model.s));
            let training_s = |rows: usize| world.costs.work_s(Work::training(m, s, rows as f64));
            Training {
                alone_ms: training_s(rows.train.rows()) * 1000.0,
                matrix_ms: training_s(0) * 1000.0,
                slowest_ms: world.costs.longest_us as f64 / 1000.0,
                session_ms: finished_ms.saturating_sub(began_ms) as f64,
            }
        });
    let values = world.checks.values();
    let slots = (0u32..).zip(&world.ctx.plan).map(|(slot, aggregate)| Slot {
        name: aggregate.name.clone(),
        bytes: aggregate.len() as u64,
        members: values.get(&slot).map(|value| value.members.len()),
    });
    let unfinished = engine.peers().filter(|peer| !world.finished.contains_key(peer)).map(|peer| {
        let why = match world.ends.get(&peer) {
            Some(end) => end.reason.as_ref().map_or_else(|| "it was done".into(), ToString::to_string),
            None if world.down.contains(&peer) => "it was down".into(),
            None => "it had not ended".into(),
        };
        (peer.0, why)
    });
    RunReport {
        name: name.to_owned(),
        seed: scenario.seed,
        peers: scenario.peers,
        trace_hash: world.trace_hash(),
        finished_ms,
        ended_ms: world.ends.values().map(|end| ms(end.at)).max().unwrap_or(ms(now)),
        bound_ms: bound,
        last_fault_ms: ms(world.last_fault),
        finished: u16::try_from(world.finished.len()).unwrap_or(u16::MAX),
        unfinished: unfinished.collect(),
        views: views(world),
        slots: slots.collect(),
        result: world.finished.values().next().map(|finished| outcome::digest(finished.opened())),
        accuracy,
        ranking,
        guessed: world.rows.as_ref().and_then(|rows| rows.guessed.clone()),
        evaluation,
        training,
        sent: Count { messages: world.sent.0, bytes: world.sent.1 },
        purposes: purposes(engine),
        stages: stages(engine),
        hosts: hosts(engine),
        marks: world
            .marks
            .iter()
            .map(|mark| Mark {
                at_ms: ms(mark.at),
                peers: mark.peers.iter().map(|peer| peer.0).collect(),
                text: mark.text.clone(),
            })
            .collect(),
        blames: blames(world),
        strangers_refused: world.refused,
        checked: world.checks.looked,
        violations: world.checks.violations.clone(),
    }
}

fn views(world: &Swarm) -> Vec<View> {
    let view = |(ballot, (tree, at)): (&crate::protocol::ballot::Ballot, &(Arc<Tree>, Time))| View {
        ballot: (ballot.counter, ballot.proposer.0),
        members: tree.members().len(),
        began_ms: at.0 / 1000,
        failed: world.failed.get(ballot).cloned(),
    };
    world.views.iter().map(view).collect()
}

fn purposes(engine: &Engine<Swarm>) -> Vec<PurposeRow> {
    let row = |(i, purpose): (usize, &super::tally::Purpose)| {
        let counts = || engine.peers().map(move |peer| engine.world.tally.purposes(peer)[i]);
        let total = counts().fold(Count::default(), |sum, each| Count {
            messages: sum.messages + each.messages,
            bytes: sum.bytes + each.bytes,
        });
        let most = counts().max_by_key(|count| count.bytes).unwrap_or_default();
        PurposeRow { purpose: *purpose, total, most }
    };
    PURPOSES.iter().enumerate().map(row).filter(|row| row.total.messages > 0).collect()
}

fn stages(engine: &Engine<Swarm>) -> Vec<StageRow> {
    let world = &engine.world;
    #[derive(Default)]
    struct Row {
        us: u64,
        peers: BTreeSet<Peer>,
        sent: Count,
    }
    let mut rows: BTreeMap<Option<(u32, Stage)>, Row> = BTreeMap::new();
    for peer in engine.peers() {
        for span in world.tally.spans(peer) {
            if let Some(stage) = span.stage {
                let row = rows.entry(Some((span.slot, stage))).or_default();
                row.us += span.to - span.from;
                row.peers.insert(peer);
            }
        }
        for &((slot, stage), count) in world.tally.stages(peer) {
            let row = rows.entry(stage.map(|stage| (slot, stage))).or_default();
            row.sent.messages += count.messages;
            row.sent.bytes += count.bytes;
        }
    }
    rows.into_iter()
        .map(|(place, Row { us, peers, sent })| StageRow {
            slot: place.map(|(slot, _)| world.ctx.plan[slot as usize].name.clone()),
            stage: place.map(|(_, stage)| stage),
            mean_ms: us as f64 / 1000.0 / peers.len().max(1) as f64,
            sent,
        })
        .collect()
}

fn hosts(engine: &Engine<Swarm>) -> Vec<Host> {
    let world = &engine.world;
    let rows = |peer: Peer| world.rows.as_ref().map_or(0, |rows| rows.parts[peer.index()].data.rows());
    let last = world.views.last_key_value().map(|(_, (tree, _))| tree);
    engine
        .peers()
        .take(SHOWN)
        .map(|peer| {
            let place = last.and_then(|tree| tree.place(peer));
            Host {
                peer: peer.0,
                committee: world.ctx.committee_index(peer).is_some(),
                rows: rows(peer),
                stages: world
                    .tally
                    .stages(peer)
                    .iter()
                    .map(|&((slot, stage), count)| (slot, stage, count))
                    .collect(),
                received: world.tally.bytes_received(peer),
                spans: world.tally.spans(peer).to_vec(),
                finished_ms: world.finished.get(&peer).map(|finished| finished.at.0 / 1000),
                parent: place.as_ref().and_then(|place| place.parent).map(|parent| parent.0),
                member: place.is_some(),
            }
        })
        .collect()
}

fn blames(world: &Swarm) -> Vec<Blame> {
    let mut by_peer: BTreeMap<Peer, (BTreeSet<&str>, usize)> = BTreeMap::new();
    for ((_, who), names) in &world.checks.blames {
        let entry = by_peer.entry(*who).or_default();
        entry.0.extend(names);
        entry.1 += 1;
    }
    by_peer
        .into_iter()
        .map(|(peer, (with, by))| Blame {
            peer: peer.0,
            tampers: world.checks.liars.get(&peer).map(|how| how.name().to_owned()),
            with: with.into_iter().map(str::to_owned).collect(),
            by,
        })
        .collect()
}

/// Compares the run with the expectations of the scenario.
pub(super) fn expected(
    scenario: &Scenario,
    engine: &mut Engine<Swarm>,
    accuracy: Option<&Accuracy>,
    ranking: Option<&Ranking>,
) {
    let now = engine.now();
    let expect = &scenario.expect;
    let world = &mut engine.world;
    let mut found = Vec::new();
    if let Some(wanted) = expect.finished.filter(|&wanted| usize::from(wanted) != world.finished.len()) {
        found.push(format!("{} peers have finished, {wanted} are expected to", world.finished.len()));
    }
    if let Some(wanted) = expect.pooled {
        let equal = [accuracy.map(|accuracy| accuracy.equal), ranking.map(|ranking| ranking.equal)];
        match equal.into_iter().flatten().reduce(|one, other| one && other) {
            Some(equal) if equal == wanted => {}
            Some(_) if wanted => found.push("the result is not the pooled one".into()),
            Some(_) => found.push("the result is the pooled one, which is not expected".into()),
            None => found.push("there is no result".into()),
        }
    }
    if let Some(least) = expect.spearman {
        match ranking {
            Some(ranking) if ranking.spearman >= least => {}
            Some(ranking) => {
                found.push(format!(
                    "the rank correlation is {:.4}, at least {least} is expected",
                    ranking.spearman
                ));
            }
            None => found.push("there are no distances".into()),
        }
    }
    if let Some(least) = expect.accuracy {
        match accuracy {
            Some(accuracy) if accuracy.swarm >= least => {}
            Some(accuracy) => {
                found.push(format!("the accuracy is {:.4}, at least {least} is expected", accuracy.swarm))
            }
            None => found.push("there is no model".into()),
        }
    }
    if let Some(most) = expect.views.filter(|&most| world.views.len() as u64 > most) {
        found.push(format!("there were {} views, at most {most} are expected", world.views.len()));
    }
    let blamed: BTreeSet<Peer> = world.checks.blames.keys().map(|&(_, who)| who).collect();
    if let Some(wanted) = &expect.blamed {
        let wanted: BTreeSet<Peer> = wanted.of(&world.ctx.committee, scenario.peers).into_iter().collect();
        if wanted != blamed {
            let names = |peers: &BTreeSet<Peer>| {
                peers.iter().map(|peer| peer.0.to_string()).collect::<Vec<_>>().join(" ")
            };
            found.push(format!("blamed are [{}], expected [{}]", names(&blamed), names(&wanted)));
        }
    }
    for text in found {
        world.checks.violated(now, Check::Expected, text);
    }
    for (peer, how) in world.tampered() {
        if !how.blamed_with().is_empty() && !blamed.contains(&peer) {
            let text = format!("{peer} tampers ({}) and no peer blames it", how.name());
            world.checks.violated(now, Check::Blamed, text);
        }
    }
}
