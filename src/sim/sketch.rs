//! The task `sketch` and drawn peers in a scenario: whether distances are those of the rows in one place, and
//! whether they say how unlike the peers' classes are.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::checks::Check;
use super::outcome::Ranking;
use super::scenario::{Scenario, ScenarioError};
use super::swarm::Swarm;
use super::task::Rows;
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::model::heterogeneity::{spearman, total_variation};
use crate::model::selection;
use crate::protocol::Time;
use crate::session::{Peer, Session, SketchSpec};
use crate::task::Task;
use crate::task::sketch::{Global, Plan, SketchTask, TaskError};

/// The sketches of the session, with this task and where peers are drawn.
pub(super) fn spec(scenario: &Scenario) -> Result<SketchSpec, ScenarioError> {
    let task = &scenario.task;
    let spec = SketchSpec::from_table(task.sketch.clone(), scenario.peers.into(), task.select);
    spec.map_err(|error| ScenarioError(format!("task.sketch: {error}")))
}

/// What a peer's part of the second coin follows from.
pub(super) fn secret(scenario: &Scenario, peer: Peer) -> Zeroizing<[u8; 32]> {
    derive(&scenario.seed.to_le_bytes(), "simulation/draw", &peer.0.to_le_bytes())
}

/// Every peer's part.
pub(super) fn tasks(
    scenario: &Scenario,
    session: &Session,
    rows: &Rows,
) -> Result<Vec<Arc<dyn Task>>, ScenarioError> {
    let spec = session.task.sketch().ok_or_else(|| ScenarioError("the session has no sketches".into()))?;
    let part = |(peer, part): (Peer, &Arc<Dataset>)| {
        let task = SketchTask::new(session.clone(), *spec, peer, part.clone(), &secret(scenario, peer));
        task.map(|task| Arc::new(task) as Arc<dyn Task>).map_err(|error| ScenarioError(error.to_string()))
    };
    (0u16..).map(Peer).zip(&rows.parts).map(part).collect()
}

/// Holds what was opened against the rows of the members of each sum in one place, and ranks the peers.
pub(super) fn ranking(world: &mut Swarm, now: Time, rows: &Rows) -> Option<Ranking> {
    let first = world.finished.values().next()?.clone();
    let other = world
        .finished
        .iter()
        .find(|(_, finished)| finished.opened() != first.opened())
        .map(|(peer, _)| *peer);
    if let Some(peer) = other {
        world.checks.violated(now, Check::Exact, format!("{peer} has another result than the others"));
    }
    let session = &world.ctx.session;
    let rules = Plan::new((**session).clone(), *session.task.sketch()?);
    match compared(&rules, world, &first, rows) {
        Ok(ranking) => Some(Ranking { equal: ranking.equal && other.is_none(), ..ranking }),
        Err(error) => {
            world.checks.violated(now, Check::Exact, error.to_string());
            None
        }
    }
}

fn compared(
    rules: &Plan,
    world: &Swarm,
    finished: &super::swarm::Finished,
    rows: &Rows,
) -> Result<Ranking, TaskError> {
    let outcome = rules.outcome(finished.opened())?;
    let members = |name: &str| {
        let slot = world.ctx.plan.iter().position(|quantity| quantity.name == name);
        slot.and_then(|slot| finished.values().get(slot)).map_or(&[][..], |value| &value.members)
    };
    let counted = members("sketch");
    let together: Vec<f32> =
        counted.iter().flat_map(|peer| rows.parts[peer.index()].values().to_vec()).collect();
    let together = Dataset::new(rows.train.features(), together, Vec::new(), Vec::new())
        .map_err(|error| TaskError::Data(error.to_string()))?;
    let exact = rules.sketch(&together, finished.opened())?;
    let mut equal = match &outcome.global {
        Global::Exact(global) => exact == *global,
        // That the total is the sum of what was drawn is for `checks` to see.
        Global::Private(global) => {
            global.records() == exact.records() && global.releases() as usize == counted.len()
        }
    };
    let classes = rows.train.classes().len();
    let mut all = vec![0; classes];
    for peer in counted {
        let own = rows.parts[peer.index()].class_counts(classes);
        all.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
    }
    let mut peers = Vec::new();
    for (peer, part) in (0u16..).zip(&rows.parts).filter(|(_, part)| part.rows() > 0) {
        let published =
            outcome.published.get(usize::from(peer)).filter(|_| members("scores").contains(&Peer(peer)));
        let distance = match &outcome.global {
            Global::Exact(global) => rules.sketch(part, finished.opened())?.distance(global)?.row_mean,
            Global::Private(_) => match published.copied().flatten() {
                Some(published) => published,
                None => continue,
            },
        };
        if let Some(published) = published {
            equal &= *published == selection::distance(selection::score(distance));
        }
        peers.push((peer, part.rows(), distance, total_variation(&part.class_counts(classes), &all)));
    }
    let pairs: Vec<_> = peers.iter().map(|&(_, _, distance, variation)| (distance, variation)).collect();
    let chosen = outcome.draw.map_or(Vec::new(), |(draw, _)| draw.chosen);
    Ok(Ranking {
        spearman: spearman(&pairs).unwrap_or(0.0),
        equal,
        peers,
        chosen: chosen.into_iter().filter_map(|peer| u16::try_from(peer).ok()).collect(),
    })
}
