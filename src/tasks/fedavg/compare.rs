//! Checks of a simulated run: the accuracy of its result, and whether the weights equal those computed
//! in one place from the rows of each round's members.

use bytes::Bytes;
use serde_json::Value;

use crate::crypto::mask;
use crate::data::Dataset;
use crate::model::score::Confusion;
use crate::protocol::record;
use crate::session::{Peer, Session};
use crate::tasks::FedavgSpec;
use crate::tasks::compare::{Accuracy, DealtRows, Ended, Worth};
use crate::tasks::fedavg::{Fedavg, Plan};
use crate::tasks::{History, Task};
use flyswarm_learn::learner::Classifier;

/// Returns the accuracy of the run's result.
pub(super) fn worth(run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
    let spec = run.session.task.get::<FedavgSpec>();
    Worth {
        accuracy: spec.and_then(|spec| accuracy(run, spec, failures)),
        evaluation: evaluation(run),
        ..Worth::default()
    }
}

/// Returns the evaluation on held-out rows from the receipt of the first finished peer.
pub(in crate::tasks) fn evaluation(run: &Ended<'_>) -> Option<Value> {
    let (peer, _) = run.first()?;
    run.outcome(peer)?.ok()?.details.remove("evaluation")
}

/// Compares the network of the first finished peer with two others: one trained on all rows in one
/// place, and one trained on the rows of the peer with the most.
fn accuracy(run: &Ended<'_>, spec: &FedavgSpec, failures: &mut Vec<String>) -> Option<Accuracy> {
    let (rows, (peer, history)) = (run.rows, run.first()?);
    let outcome = run.outcome(peer)?;
    let decoded =
        outcome.and_then(|outcome| Classifier::decode(&outcome.file).map_err(|error| error.to_string()));
    let network = match decoded {
        Ok(network) => network,
        Err(error) => {
            failures.push(format!("{peer} has no network: {error}"));
            return None;
        }
    };
    let (session, seed) = (run.session, history.seed()?);
    let plan = Plan::new(session.clone(), spec.clone()).ok()?;
    let expected = in_one_place(session, spec, rows, history.values(), &seed);
    let expected = expected.and_then(|history| plan.classifier(&history).map_err(|error| error.to_string()));
    if let Err(error) = &expected {
        failures.push(format!("the weights could not be computed in one place: {error}"));
    }
    let score = |network: &Classifier| {
        let predicted = network.predict(rows.test.view()).ok()?;
        Some(Confusion::new(rows.test.classes(), rows.test.labels(), &predicted).accuracy())
    };
    let alone = |rows: &Dataset| score(plan.in_one_place(rows, &seed).ok()?.last()?);
    let largest = rows.parts.iter().map(|part| &part.data).max_by_key(|part| part.rows())?;
    Some(Accuracy {
        swarm: score(&network)?,
        pooled: alone(&rows.train)?,
        alone: alone(largest)?,
        rows: rows.test.rows() as u64,
        equal: expected.is_ok_and(|expected| expected.digest() == network.digest()),
        digest: hex::encode(&network.digest()[..8]),
    })
}

/// Adds up the contributions of the members of each slot directly, without the protocol.
fn in_one_place(
    session: &Session,
    spec: &FedavgSpec,
    rows: &DealtRows,
    values: &[record::Value],
    seed: &[u8; 32],
) -> Result<History, String> {
    let task = |(peer, part): (Peer, &crate::tasks::Rows)| {
        Fedavg::new(session.clone(), spec.clone(), peer, part.data.clone()).map_err(|error| error.to_string())
    };
    let peers = (0u16..).map(Peer).zip(&rows.parts);
    let tasks: Vec<Fedavg> = peers.map(task).collect::<Result<_, _>>()?;
    let plan = tasks.first().ok_or("there are no peers")?.plan();
    let mut history = History::default();
    for ((slot, aggregate), value) in (0u32..).zip(&plan).zip(values) {
        // The coin has no vector; its opened value is the seed.
        let (members, mut total) = match slot {
            0 => (&[][..], seed.to_vec()),
            _ => (&value.members[..], vec![0; aggregate.len()]),
        };
        for peer in members {
            let vector = tasks[peer.index()].contribution(slot, &history)?;
            mask::add(aggregate.word(), &mut total, &vector);
        }
        history.push(value.clone(), Some(Bytes::from(total)));
    }
    Ok(history)
}
