//! Makes each peer's task in a scenario, and measures the quality of the results. This module names no task
//! of the registry.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::rows::DealtRows;
use super::scenario::{Scenario, ScenarioError};
use super::sum::Numbers;
use super::swarm::Swarm;
use crate::crypto::stream::derive;
use crate::session::{Peer, Session};
use crate::tasks::compare::{Ended, Worth};
use crate::tasks::{Labels, Rows, Task, built_in};

/// Returns 32 bytes that the task of a peer uses as its secret.
fn secret(scenario: &Scenario, peer: Peer) -> Zeroizing<[u8; 32]> {
    derive(&scenario.seed.to_le_bytes(), "simulation/draw", &peer.0.to_le_bytes())
}

/// Makes every peer's task in the same way as a node of this session. If the task uses no labels, they
/// are removed from the rows.
pub(super) fn tasks(
    scenario: &Scenario,
    session: &Session,
    rows: Option<&mut DealtRows>,
) -> Result<Vec<Arc<dyn Task>>, ScenarioError> {
    let peers = (0..scenario.peers).map(Peer);
    let Some(rows) = rows else {
        return Ok(peers.map(|me| Arc::new(Numbers::new(scenario, me)) as Arc<dyn Task>).collect());
    };
    let Some(kind) = built_in(session) else {
        let text = format!("the task {} belongs to another program, which must register it", session.task);
        return Err(ScenarioError(text));
    };
    if kind.labels == Labels::Some {
        rows.hide_labels(scenario);
    } else {
        let part = &scenario.task;
        let given = [
            ("labelled_percent", part.labelled_percent.is_some()),
            ("without_labels", part.without_labels.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            let text = format!("task.{name} is given, must be left out: no row of the task {}", session.task);
            return Err(ScenarioError(format!("{text} lacks its label")));
        }
    }
    let task = |(me, part): (Peer, &Rows)| {
        let made = kind.make(session.clone(), me, part.clone(), &secret(scenario, me));
        made.map(|task| Arc::new(task) as Arc<dyn Task>).map_err(ScenarioError)
    };
    peers.zip(&rows.parts).map(task).collect()
}

/// Measures the results of a run, and adds their failures to `failures`.
pub(super) fn worth(scenario: &Scenario, swarm: &Swarm, failures: &mut Vec<String>) -> Worth {
    let Some(rows) = &swarm.rows else { return Worth::default() };
    let finished = swarm.finished.iter().map(|(&peer, finished)| (peer, &*finished.history));
    let ended = Ended {
        session: &swarm.session,
        plan: &swarm.ctx.plan,
        rows,
        tasks: swarm.tasks(),
        secrets: (0..scenario.peers).map(|peer| secret(scenario, Peer(peer))).collect(),
        finished: finished.collect(),
    };
    (swarm.session.task.kind().compare)(&ended, failures)
}
