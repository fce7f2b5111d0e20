//! Compares the network of a simulated session with networks that are trained only on the given labels.

use crate::data::Dataset;
use crate::model::score::Confusion;
use crate::tasks::FedavgXclpSpec;
use crate::tasks::Rows;
use crate::tasks::compare::{Accuracy, Ended, Worth};
use crate::tasks::fedavg::Plan;
use crate::tasks::fedavg::compare::evaluation;
use flyswarm_learn::learner::Classifier;

/// Returns the rows of a peer that have a label.
fn labelled(part: &Rows) -> Dataset {
    let known: Vec<usize> = (0..part.labels.len()).filter(|&row| part.labels[row].is_some()).collect();
    part.data.subset(&known)
}

/// Returns the accuracy of the run's result.
pub(super) fn worth(run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
    let spec = run.session.task.get::<FedavgXclpSpec>();
    Worth {
        accuracy: spec.and_then(|spec| accuracy(run, spec, failures)),
        evaluation: evaluation(run),
        ..Worth::default()
    }
}

/// Compares the network of the finished peers with two others: one trained on all given labels in one place,
/// and one trained on the given labels of the peer that has the most.
fn accuracy(run: &Ended<'_>, spec: &FedavgXclpSpec, failures: &mut Vec<String>) -> Option<Accuracy> {
    let rows = run.rows;
    let mut networks = Vec::new();
    for &peer in run.finished.keys() {
        let decoded = run
            .outcome(peer)?
            .and_then(|outcome| Classifier::decode(&outcome.file).map_err(|error| error.to_string()));
        match decoded {
            Ok(network) => networks.push((peer, network)),
            Err(error) => failures.push(format!("{peer} has no network: {error}")),
        }
    }
    let (first, network) = networks.first()?;
    let other = networks.iter().find(|(_, other)| other.digest() != network.digest());
    if let Some((peer, _)) = other {
        failures.push(format!("the network of {peer} differs from that of {first}"));
    }
    let (session, seed) = (run.session, run.first()?.1.seed()?);
    let plan = Plan::new(session.clone(), spec.fedavg.clone()).ok()?;
    let score = |network: &Classifier| {
        let predicted = network.predict(rows.test.view()).ok()?;
        Some(Confusion::new(rows.test.classes(), rows.test.labels(), &predicted).accuracy())
    };
    let learnt = |rows: &Dataset| score(plan.in_one_place(rows, &seed).ok()?.last()?);
    let given: Vec<Dataset> = rows.parts.iter().map(labelled).collect();
    let values = given.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = given.iter().flat_map(|part| part.labels().to_vec()).collect();
    let pool = Dataset::new(rows.train.features(), values, labels, rows.train.classes().to_vec()).ok()?;
    Some(Accuracy {
        swarm: score(network)?,
        pooled: learnt(&pool)?,
        alone: learnt(given.iter().max_by_key(|part| part.rows())?)?,
        rows: rows.test.rows() as u64,
        equal: other.is_none(),
        digest: hex::encode(&network.digest()[..8]),
    })
}
