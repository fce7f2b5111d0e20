//! The task `xclp` in a scenario: who has rows and labels, and what the labels are worth.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::checks::Check;
use super::outcome::Accuracy;
use super::scenario::{Scenario, ScenarioError};
use super::swarm::Swarm;
use super::task::Rows;
use crate::crypto::stream::{Stream, derive};
use crate::data::deal::shuffle;
use crate::protocol::Time;
use crate::session::{Peer, Session, TaskSpec, XclpSpec};
use crate::task::xclp::{self, Said, Xclp};

/// The parameters of the session's task.
pub(super) fn spec(scenario: &Scenario) -> XclpSpec {
    let task = &scenario.task;
    XclpSpec { bits: task.bits, k: task.k, ..XclpSpec::default() }
}

/// Rows for all peers but those without, which come last.
pub(super) fn deal(scenario: &Scenario, folder: &Path) -> Result<Rows, ScenarioError> {
    let owners = scenario.peers - scenario.task.witnesses;
    let mut rows = Rows::deal(&scenario.data, owners, scenario.seed, folder)?;
    let none = Arc::new(rows.train.subset(&[]));
    rows.parts.extend((0..scenario.task.witnesses).map(|_| none.clone()));
    Ok(rows)
}

/// Every peer's part. Of each class so many rows as the scenario says have a label, drawn from all.
pub(super) fn tasks(
    scenario: &Scenario,
    session: &Session,
    rows: &Rows,
) -> Result<Vec<Arc<Xclp>>, ScenarioError> {
    let TaskSpec::Xclp(spec) = &session.task else {
        return Err(ScenarioError(format!("the task of the session is {}", session.task)));
    };
    let seed = scenario.seed.to_le_bytes();
    let mut places: Vec<(usize, usize)> = rows
        .parts
        .iter()
        .enumerate()
        .flat_map(|(peer, part)| (0..part.rows()).map(move |row| (peer, row)))
        .collect();
    shuffle(&mut places, &mut Stream::new(&seed, "simulation/labels", &[]));
    let mut left = vec![scenario.task.labels; session.data.classes.len()];
    let mut labels: Vec<Vec<Option<u16>>> = rows.parts.iter().map(|part| vec![None; part.rows()]).collect();
    for (peer, row) in places {
        let label = rows.parts[peer].labels()[row];
        if let Some(count) = left[usize::from(label)].checked_sub(1) {
            left[usize::from(label)] = count;
            labels[peer][row] = Some(label);
        }
    }
    let peers = (0u16..).map(Peer).zip(&rows.parts).zip(labels);
    peers
        .map(|((peer, part), labels)| {
            let secret = derive(&seed, "simulation/order", &peer.0.to_le_bytes());
            let task = Xclp::new(session.clone(), spec.clone(), peer, part.clone(), labels, &secret);
            task.map(Arc::new).map_err(ScenarioError)
        })
        .collect()
}

/// What the labels of the rows without one are worth, at the members of the last sum; also that all that is
/// said of them is what the rows that were computed on say in one place, bit for bit.
pub(super) fn accuracy(world: &mut Swarm, now: Time, rows: &Rows, tasks: &[Arc<Xclp>]) -> Option<Accuracy> {
    let finished = world.finished.values().next()?.clone();
    let [.., computed, labelled] = finished.values() else { return None };
    let members = &labelled.members;
    // After the coin and the rows, where the plan has them.
    let moments = finished.opened().get(2).filter(|_| finished.opened().len() > 4).map(|bytes| &bytes[..]);
    let counted = &finished.values().get(1)?.members;
    let here = computed.members.iter().copied().filter(|peer| counted.contains(peer));
    let owners: Vec<Peer> = here.filter(|peer| rows.parts[peer.index()].rows() > 0).collect();
    let of = |peer: &Peer| &*tasks[peer.index()];
    let results: BTreeMap<Peer, Vec<Said>> = world
        .finished
        .iter()
        .filter_map(|(&peer, finished)| Some((peer, of(&peer).said(&of(&peer).output(&finished.history)?))))
        .collect();
    let session = &world.ctx.session;
    let planes = world.finished.values().find_map(|finished| xclp::planes(session, &finished.history))?;
    let all: Vec<&Xclp> = owners.iter().map(of).collect();
    let pooled = Xclp::pooled(&all, &planes, moments).ok()?.0;
    let largest = owners.iter().max_by_key(|peer| rows.parts[peer.index()].rows())?;
    let alone = Xclp::pooled(&[of(largest)], &planes, moments).ok()?.0;
    let (mut swarm, mut together, mut by_itself) = (Share::default(), Share::default(), Share::default());
    let (mut equal, mut hash) = (true, Sha256::new());
    for (peer, pooled) in owners.iter().zip(&pooled).filter(|(peer, _)| members.contains(peer)) {
        together.count(rows, of(peer), *peer, pooled);
        // Who was killed after the others had its part comes back to its own outcome, or has not come back.
        let Some(said) = results.get(peer) else { continue };
        said.iter().for_each(|said| hash.update(said.label.unwrap_or(u16::MAX).to_le_bytes()));
        swarm.count(rows, of(peer), *peer, said);
        let differing: Vec<_> = said.iter().zip(pooled).filter(|(one, other)| one != other).collect();
        if let Some((one, other)) = differing.first() {
            equal = false;
            let text = format!(
                "{peer} has other labels for {} rows than the rows in one place give, the first {one:?} for {other:?}",
                differing.len()
            );
            world.checks.violated(now, Check::Exact, text);
        }
    }
    by_itself.count(rows, of(largest), *largest, alone.first()?);
    let digest: [u8; 32] = hash.finalize().into();
    Some(Accuracy {
        swarm: swarm.value(),
        pooled: together.value(),
        alone: by_itself.value(),
        equal,
        digest: hex::encode(&digest[..8]),
    })
}

/// Rows whose label nobody was told, and how many of them are right.
#[derive(Default)]
struct Share {
    right: usize,
    all: usize,
}

impl Share {
    fn count(&mut self, rows: &Rows, task: &Xclp, peer: Peer, said: &[Said]) {
        let truth = rows.parts[peer.index()].labels();
        for ((said, truth), known) in said.iter().zip(truth).zip(task.labels()) {
            if known.is_none() {
                self.all += 1;
                self.right += usize::from(said.label == Some(*truth));
            }
        }
    }

    fn value(&self) -> f64 {
        self.right as f64 / self.all.max(1) as f64
    }
}
