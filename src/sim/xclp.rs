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
use crate::model::propagation::Prediction;
use crate::protocol::Time;
use crate::protocol::xclp::Outcome;
use crate::session::{Peer, Session, TaskSpec, XclpSpec};
use crate::task::xclp::{self, Xclp};

/// The parameters of the session's task.
pub(super) fn spec(scenario: &Scenario) -> XclpSpec {
    let task = &scenario.task;
    let usual = XclpSpec::new(4096);
    // Scores so close to those of the exact solution that no label hangs on the difference.
    let tolerance = 1e-8;
    XclpSpec { bits: task.bits, k: task.k, many_neighbours: true, tolerance, hamming: task.hamming, ..usual }
}

/// Rows for all peers but the witnesses, which come last.
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
            let task = Xclp::new(session.clone(), *spec, peer, part.clone(), labels, &secret);
            task.map(Arc::new).map_err(ScenarioError)
        })
        .collect()
}

/// What the labels of the rows without one are worth, at the members of the last sum; also that they are
/// those in one place of the rows of the graph, with the labels of those members.
pub(super) fn accuracy(world: &mut Swarm, now: Time, rows: &Rows, tasks: &[Arc<Xclp>]) -> Option<Accuracy> {
    let finished = world.finished.values().next()?.clone();
    let [.., graph, labelled] = finished.values() else { return None };
    let members = &labelled.members;
    // After the coin and the rows, where the plan has them.
    let moments = finished.opened().get(2).filter(|_| finished.opened().len() > 4).map(|bytes| &bytes[..]);
    let owners: Vec<Peer> =
        graph.members.iter().copied().filter(|peer| rows.parts[peer.index()].rows() > 0).collect();
    let results: BTreeMap<Peer, Outcome> = world
        .finished
        .iter()
        .filter_map(|(&peer, finished)| Some((peer, xclp::result(&finished.history)?)))
        .collect();
    let planes = world.finished.values().find_map(|finished| xclp::planes(&finished.history))?;
    let of = |peer: &Peer| &*tasks[peer.index()];
    let count = |peer: &Peer| if members.contains(peer) { of(peer).clone() } else { of(peer).unlabelled() };
    let counted: Vec<Xclp> = owners.iter().map(count).collect();
    let pooled = Xclp::pooled(&counted.iter().collect::<Vec<_>>(), &planes, moments).ok()?.0;
    let largest = owners.iter().max_by_key(|peer| rows.parts[peer.index()].rows())?;
    let alone = Xclp::pooled(&[of(largest)], &planes, moments).ok()?.0;
    let (mut swarm, mut together, mut by_itself) = (Share::default(), Share::default(), Share::default());
    let (mut equal, mut hash) = (true, Sha256::new());
    for (peer, pooled) in owners.iter().zip(&pooled).filter(|(peer, _)| members.contains(peer)) {
        together.count(rows, of(peer), *peer, pooled);
        // Who was killed after the others had its part comes back to its own outcome, or has not come back.
        let Some(outcome) = results.get(peer) else { continue };
        let said = of(peer).said(outcome);
        said.iter().for_each(|said| hash.update(said.label.unwrap_or(u16::MAX).to_le_bytes()));
        swarm.count(rows, of(peer), *peer, &said);
        let differing: Vec<_> =
            said.iter().zip(pooled).filter(|(one, other)| one.label != other.label).collect();
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
    fn count(&mut self, rows: &Rows, task: &Xclp, peer: Peer, said: &[Prediction]) {
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
