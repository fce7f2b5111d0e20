//! The task of a scenario: the session's part of it, each peer's rows and task, and what the results are
//! worth.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use zeroize::Zeroizing;

use super::outcome::{Accuracy, Ranking};
use super::rows::Dealt;
use super::scenario::{Scenario, ScenarioError, TaskKind};
use super::sum::{self, Numbers};
use super::swarm::Swarm;
use super::{fedavg, fedavg_xclp, flynn, sketch, xclp};
use crate::crypto::stream::derive;
use crate::session::{DataSpec, Peer, Session, TaskSpec};
use crate::tasks::{FedavgSpec, FedavgXclpSpec, FlynnSpec, Task, XclpSpec, built_in};

/// What a scenario's task contributes to the session, and the rows of its peers.
pub(super) struct Given {
    pub(super) data: DataSpec,
    pub(super) task: TaskSpec,
    /// `None` for a task without rows.
    pub(super) rows: Option<Dealt>,
}

impl Given {
    pub(super) fn new(scenario: &Scenario, folder: &Path) -> Result<Self, ScenarioError> {
        let part = &scenario.task;
        let deal = || Dealt::new(&scenario.data, scenario.peers, scenario.seed, folder);
        Ok(match part.kind {
            TaskKind::Flynn => {
                let rows = deal()?;
                let data = rows.spec(part.scaling, part.densify);
                Self { task: TaskSpec::from(flynn::spec(scenario, &data)?), data, rows: Some(rows) }
            }
            TaskKind::Sketch => {
                let rows = deal()?;
                let data = DataSpec { classes: Vec::new(), ..rows.spec(part.scaling, false) };
                Self { data, task: TaskSpec::from(sketch::spec(scenario)?), rows: Some(rows) }
            }
            TaskKind::Xclp => {
                let rows = xclp::deal(scenario, folder)?;
                let data = rows.spec(part.scaling, false);
                Self {
                    data,
                    task: TaskSpec::from(xclp::spec(scenario, XclpSpec::default())?),
                    rows: Some(rows),
                }
            }
            TaskKind::Fedavg => {
                let rows = deal()?;
                let data = rows.spec(part.scaling, false);
                Self { data, task: TaskSpec::from(fedavg::spec(scenario)?), rows: Some(rows) }
            }
            TaskKind::FedavgXclp => {
                let rows = xclp::deal(scenario, folder)?;
                let data = rows.spec(part.scaling, false);
                Self { data, task: TaskSpec::from(fedavg_xclp::spec(scenario)?), rows: Some(rows) }
            }
            TaskKind::Sum => {
                Self { data: sum::no_rows(), task: TaskSpec::from(sum::spec(scenario)), rows: None }
            }
        })
    }
}

/// The 32 bytes that a peer's task takes as known to nobody else.
pub(super) fn secret(scenario: &Scenario, peer: Peer) -> Zeroizing<[u8; 32]> {
    derive(&scenario.seed.to_le_bytes(), "simulation/draw", &peer.0.to_le_bytes())
}

/// Every peer's task, as a node of this session makes it.
pub(super) fn tasks(
    scenario: &Scenario,
    session: &Session,
    rows: Option<&Dealt>,
) -> Result<Vec<Arc<dyn Task>>, ScenarioError> {
    let peers = (0..scenario.peers).map(Peer);
    let (Some(kind), Some(rows)) = (built_in(session), rows) else {
        return Ok(peers.map(|me| Arc::new(Numbers::new(scenario, me)) as Arc<dyn Task>).collect());
    };
    let task = |(me, part): (Peer, &crate::tasks::Rows)| {
        let made = kind.make(session.clone(), me, part.clone(), &secret(scenario, me));
        made.map(|task| Arc::new(task) as Arc<dyn Task>).map_err(ScenarioError)
    };
    peers.zip(&rows.parts).map(task).collect()
}

/// What the results of a run are worth. Other tasks have no accuracy here.
#[derive(Default)]
pub(super) struct Worth {
    pub(super) accuracy: Option<Accuracy>,
    pub(super) ranking: Option<Ranking>,
    /// What `[evaluate]` opened.
    pub(super) evaluation: Option<Value>,
}

/// Measures the results of a run, and says what is wrong with them.
pub(super) fn worth(scenario: &Scenario, swarm: &Swarm, failures: &mut Vec<String>) -> Worth {
    let Some(rows) = &swarm.rows else { return Worth::default() };
    let session = &swarm.session;
    let task = &session.task;
    let (accuracy, evaluation) = if let Some(spec) = task.get::<FlynnSpec>() {
        flynn::worth(swarm, *spec, rows, failures).unzip()
    } else if let Some(spec) = task.get::<FedavgSpec>() {
        (fedavg::accuracy(swarm, spec, rows, failures), None)
    } else if let Some(spec) = task.get::<FedavgXclpSpec>() {
        (fedavg_xclp::accuracy(swarm, spec, rows, failures), None)
    } else if let Some(spec) = task.get::<XclpSpec>() {
        (xclp::accuracy(scenario, swarm, spec, rows, failures), None)
    } else {
        (None, None)
    };
    let ranking = session.task.sketch().and_then(|spec| sketch::ranking(swarm, *spec, rows, failures));
    Worth { accuracy, ranking, evaluation: evaluation.flatten() }
}
