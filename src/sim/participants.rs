//! The participants of a run, with session, keys, rows, tasks and randomness. They follow from the scenario
//! file and its seed. So real processes that read the same file are the same peers.

use std::path::Path;
use std::sync::Arc;

use super::rows::DealtRows;
use super::scenario::{Scenario, ScenarioError};
use super::{sum, task};
use crate::crypto::identity::Identity;
use crate::crypto::stream::derive;
use crate::protocol::context::{Aggregate, Context};
use crate::session::{
    CommitteeSpec, DataSpec, Entry, NoiseSpec, Peer, Privacy, PrivacyUnit, Release, Run, Session, TaskSpec,
};
use crate::tasks::{Labels, Task, built_in};

/// Size of the largest roster of a session file. Larger rosters are simulated without the rules of a
/// session.
const ROSTER: u16 = 1024;

/// Peers of a session, with their tasks.
#[derive(Clone, Debug)]
pub struct Participants {
    /// Session file of all peers.
    pub session: Session,
    /// Keys of the peers, in the order of the roster.
    pub identities: Vec<Identity>,
    /// Task of each peer, in the same order.
    pub tasks: Vec<Arc<dyn Task>>,
    /// Rows that a scenario deals, or `None` if the task has no rows, or brings its own.
    pub rows: Option<DealtRows>,
}

impl Participants {
    /// Makes the participants of a scenario. `folder` is the folder of its file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn new(scenario: &Scenario, folder: &Path) -> Result<Self, ScenarioError> {
        let is_sum = scenario.played.is_none() && scenario.task.is_sum();
        let mut rows = (!is_sum).then(|| DealtRows::new(scenario, folder)).transpose()?;
        let (session, identities) = session(scenario, rows.as_ref())?;
        let tasks = task::tasks(scenario, &session, rows.as_mut())?;
        let participants = Self { session, identities, tasks, rows };
        participants.check(scenario)?;
        Ok(participants)
    }

    /// Makes the participants of a program's own session, such as a session of the program's own task
    /// ([`CustomSpec`](crate::tasks::CustomSpec)). `task` makes each peer's task. `identities` are those of
    /// the roster, in any order. If a scenario runs these participants ([`play`](super::run::play)), its own
    /// `data`, `task`, `session` and `timing` are not used.
    ///
    /// # Errors
    /// [`ScenarioError`] if the identities are not those of the roster, or a task cannot be made.
    pub fn with_tasks(
        session: Session,
        mut identities: Vec<Identity>,
        task: impl FnMut(Peer) -> Result<Arc<dyn Task>, String>,
    ) -> Result<Self, ScenarioError> {
        identities.sort_by_key(Identity::public);
        if !session.roster.iter().map(|entry| entry.key).eq(identities.iter().map(Identity::public)) {
            return Err(ScenarioError("the identities are not those of the session's roster".into()));
        }
        let peers = (0u16..).map(Peer).take(identities.len());
        let tasks = peers.map(task).collect::<Result<_, _>>().map_err(ScenarioError)?;
        Ok(Self { session, identities, tasks, rows: None })
    }

    /// Refuses a scenario that does not fit these peers and aggregates.
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        if usize::from(scenario.peers) != self.tasks.len() {
            let text = format!("peers is {}, the session has {}", scenario.peers, self.tasks.len());
            return Err(ScenarioError(text));
        }
        let plan = self.plan();
        let slots: Vec<&str> = plan.iter().map(|aggregate| &*aggregate.name).collect();
        for (number, fault) in (1..).zip(&scenario.fault) {
            if let Some(moment) = fault.at.as_ref().filter(|moment| !slots.contains(&&*moment.slot)) {
                let slots = slots.join(", ");
                let text = format!("fault {number}: at.slot is {:?}, must be one of {slots}", moment.slot);
                return Err(ScenarioError(text));
            }
        }
        Ok(())
    }

    /// Returns the aggregates of the session, in order. They are the same in every peer's task.
    #[must_use]
    pub fn plan(&self) -> Vec<Aggregate> {
        self.tasks.first().map_or(Vec::new(), |task| task.plan())
    }

    /// Returns the constants of a peer's node.
    #[must_use]
    pub fn context(&self, peer: Peer) -> Context {
        Context::new(self.session.settings(), peer, self.identities[peer.index()].clone(), self.plan())
    }
}

/// Returns the seed of a peer's node at its `start`-th start, from 0.
#[must_use]
pub fn randomness(seed: u64, peer: Peer, start: u32) -> [u8; 32] {
    let mut place = [0; 6];
    place[..2].copy_from_slice(&peer.0.to_le_bytes());
    place[2..].copy_from_slice(&start.to_le_bytes());
    *derive(&seed.to_le_bytes(), "simulation/randomness", &place)
}

/// Returns the session of a scenario, and the identities of its peers in their order.
fn session(scenario: &Scenario, rows: Option<&DealtRows>) -> Result<(Session, Vec<Identity>), ScenarioError> {
    let seed = scenario.seed.to_le_bytes();
    let mut identities: Vec<_> = (0..scenario.peers)
        .map(|i| Identity::from_seed(*derive(&seed, "simulation/identity", &i.to_le_bytes())))
        .collect();
    identities.sort_by_key(Identity::public);
    let mut number = [0; 16];
    number.copy_from_slice(&derive(&seed, "simulation/number", &[])[..16]);
    let run = Run::new(number, 0);
    let mut session = match (&scenario.played, rows) {
        (Some(played), Some(rows)) => of_file(played, rows, run, &identities),
        _ => of_scenario(scenario, rows, run, &identities)?,
    };
    let unlabelled = built_in(&session).is_some_and(|task| task.labels == Labels::None);
    if unlabelled || !session.task.kind().has_classes {
        session.data.classes.clear();
    }
    if scenario.peers <= ROSTER {
        session = session.check().map_err(|error| ScenarioError(error.to_string()))?;
    }
    Ok((session, identities))
}

/// Makes a session with the settings of a session file, with other keys, and with the features and
/// classes of these rows. The names of columns are kept if their number is the same.
fn of_file(played: &Session, rows: &DealtRows, run: Run, identities: &[Identity]) -> Session {
    let mut session = Session { run, relays: Vec::new(), ..played.clone() };
    for (entry, identity) in session.roster.iter_mut().zip(identities) {
        (entry.key, entry.addresses) = (identity.public(), Vec::new());
    }
    let mut data = rows.spec(played.data.scaling, played.data.densify);
    data.checks.compare = played.data.checks.compare;
    if data.features == played.data.features {
        data.columns.clone_from(&played.data.columns);
        // The rows have already been prepared. But if the budget is for groups, the session must show that
        // the rows have groups.
        let groups = played.privacy.noise.is_some_and(|noise| noise.unit != PrivacyUnit::Row);
        if groups || played.task.reads_table() {
            data.preparation.clone_from(&played.data.preparation);
        }
    }
    session.data = data;
    session
}

fn of_scenario(
    scenario: &Scenario,
    rows: Option<&DealtRows>,
    run: Run,
    identities: &[Identity],
) -> Result<Session, ScenarioError> {
    let part = &scenario.task;
    let (data, task) = match rows {
        Some(rows) => {
            let data = rows.spec(part.scaling, part.densify);
            let task = part.spec(&data, scenario.peers)?;
            (data, task)
        }
        // If there are no rows, the session has one feature, which is the minimum.
        None => (DataSpec { features: 1, ..DataSpec::default() }, TaskSpec::from(sum::spec(scenario))),
    };
    let entry = |(i, identity): (usize, &Identity)| Entry {
        key: identity.public(),
        name: format!("peer-{i}"),
        addresses: Vec::new(),
    };
    let timing = crate::session::file::timing(&scenario.timing, &scenario.limits)
        .map_err(|error| ScenarioError(error.to_string()))?;
    let usual = Privacy::default();
    let part = &scenario.session;
    let top = u32::from(matches!(task.release(&data), Release::Top(_)));
    let noise = part.epsilon.map(|epsilon| NoiseSpec::new(epsilon, part.top.unwrap_or(top), part.mode));
    Ok(Session {
        name: "simulation".into(),
        run,
        min_peers: part.min_peers.unwrap_or(Session::default_min_peers(&task, identities.len())),
        task,
        data,
        privacy: Privacy {
            min_contributors: part.min_contributors.unwrap_or(usual.min_contributors),
            collusion_threshold: part.collusion_threshold.unwrap_or(usual.collusion_threshold),
            noise,
        },
        voting: CommitteeSpec::default(),
        relays: Vec::new(),
        timing,
        roster: identities.iter().enumerate().map(entry).collect(),
    })
}
