//! Who plays in a scenario, and with what: session, keys, rows, tasks, randomness. All of it follows from the
//! file and its seed, so that real processes that read the same file are the same peers.

use std::path::Path;
use std::sync::Arc;

use super::scenario::{Scenario, ScenarioError, TaskKind};
use super::task::{self, Rows};
use super::{sketch, xclp};
use crate::crypto::identity::Identity;
use crate::crypto::stream::derive;
use crate::protocol::context::{Context, Quantity};
use crate::session::{CouncilSpec, Entry, NoiseSpec, Peer, Privacy, Run, Session, Timing};
use crate::task::Task;
use crate::task::xclp::Xclp;

/// Larger rosters than a session file may have are simulated without its rules.
const ROSTER: u16 = 1024;

/// See the module.
#[derive(Clone, Debug)]
pub struct Participants {
    /// The session file of all.
    pub session: Session,
    /// The peers' keys, in their order.
    pub identities: Vec<Identity>,
    /// What each peer computes.
    pub tasks: Vec<Arc<dyn Task>>,
    /// What is summed.
    pub plan: Vec<Quantity>,
    /// For all tasks but `sum` and `row-sum`.
    pub rows: Option<Rows>,
    /// For the task `xclp`, each peer's part.
    pub labelled: Vec<Arc<Xclp>>,
}

impl Participants {
    /// Of a scenario; `folder` is where its file stands.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn new(scenario: &Scenario, folder: &Path) -> Result<Self, ScenarioError> {
        let rows = match scenario.task.kind {
            TaskKind::Flynn | TaskKind::Sketch => {
                Some(Rows::deal(&scenario.data, scenario.peers, scenario.seed, folder)?)
            }
            TaskKind::Sum | TaskKind::RowSum => None,
            TaskKind::Xclp => Some(xclp::deal(scenario, folder)?),
        };
        let (session, identities) = session(scenario, rows.as_ref())?;
        let labelled = match (&rows, scenario.task.kind) {
            (Some(rows), TaskKind::Xclp) => xclp::tasks(scenario, &session, rows)?,
            _ => Vec::new(),
        };
        let tasks = match (&rows, scenario.task.kind) {
            (_, TaskKind::Xclp) => labelled.iter().map(|task| task.clone() as Arc<dyn Task>).collect(),
            (Some(rows), TaskKind::Sketch) => sketch::tasks(scenario, &session, rows)?,
            (rows, _) => task::tasks(scenario, &session, rows.as_ref())?,
        };
        let plan = task::plan(scenario, &session);
        Ok(Self { session, identities, tasks, plan, rows, labelled })
    }

    /// What a peer's node is given.
    #[must_use]
    pub fn context(&self, peer: Peer) -> Context {
        Context::new(self.session.clone(), peer, self.identities[peer.index()].clone(), self.plan.clone())
    }
}

/// What a peer's node draws everything random from when it is started for the `start`-th time, from 0.
#[must_use]
pub fn randomness(seed: u64, peer: Peer, start: u32) -> [u8; 32] {
    let mut place = [0; 6];
    place[..2].copy_from_slice(&peer.0.to_le_bytes());
    place[2..].copy_from_slice(&start.to_le_bytes());
    *derive(&seed.to_le_bytes(), "simulation/randomness", &place)
}

/// Differential privacy, where the scenario has a budget.
fn noise(scenario: &Scenario) -> Option<NoiseSpec> {
    let part = &scenario.session;
    let top = if scenario.task.kind == TaskKind::Sketch { 0 } else { 1 };
    part.epsilon.map(|epsilon| NoiseSpec::new(epsilon, part.top.unwrap_or(top), part.mode))
}

/// A session of the scenario, and the identities of its peers in their order.
fn session(scenario: &Scenario, rows: Option<&Rows>) -> Result<(Session, Vec<Identity>), ScenarioError> {
    let seed = scenario.seed.to_le_bytes();
    let mut identities: Vec<_> = (0..scenario.peers)
        .map(|i| Identity::from_seed(*derive(&seed, "simulation/identity", &i.to_le_bytes())))
        .collect();
    identities.sort_by_key(Identity::public);
    let entry = |(i, identity): (usize, &Identity)| Entry {
        key: identity.public(),
        name: format!("peer-{i}"),
        addresses: Vec::new(),
    };
    let (data, task) = task::spec(scenario, rows)?;
    let mut timing = Timing::default();
    for (name, &value) in &scenario.timing {
        timing.set(name, value).map_err(|error| ScenarioError(error.to_string()))?;
    }
    let mut number = [0; 16];
    number.copy_from_slice(&derive(&seed, "simulation/number", &[])[..16]);
    let usual = Privacy::default();
    let peers = usize::from(scenario.peers);
    let session = Session {
        name: "simulation".into(),
        run: Run::new(number, 0),
        min_peers: scenario.session.min_peers.unwrap_or(Session::default_min_peers(&task, peers)),
        task,
        data,
        privacy: Privacy {
            min_holders: scenario.session.min_holders.unwrap_or(usual.min_holders),
            colluding: scenario.session.colluding.unwrap_or(usual.colluding),
            noise: noise(scenario),
        },
        voting: CouncilSpec::default(),
        timing,
        roster: identities.iter().enumerate().map(entry).collect(),
    };
    let session = if scenario.peers <= ROSTER {
        session.check().map_err(|error| ScenarioError(error.to_string()))?
    } else {
        session
    };
    Ok((session, identities))
}
