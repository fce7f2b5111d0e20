//! Checks a simulated session: the accuracy of its model, and whether the model equals the model of all rows
//! in one place.

use serde_json::Value;

use crate::data::Dataset;
use crate::model::Model;
use crate::model::score::Confusion;
use crate::tasks::FlynnSpec;
use crate::tasks::compare::{Accuracy, Ended, Worth};
use crate::tasks::flynn::Plan;
use crate::tasks::sketch::compare::ranking;

/// Returns the accuracy of the session's model. If sketches were compared, also returns how much the peers'
/// rows differ.
pub(super) fn worth(run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
    let spec = run.session.task.get::<FlynnSpec>();
    let (accuracy, evaluation) = spec.and_then(|spec| accuracy(run, *spec, failures)).unzip();
    let ranking = spec.and_then(|spec| ranking(run, spec.select?, failures));
    Worth { accuracy, ranking, evaluation: evaluation.flatten() }
}

/// Compares the model of the first finished peer with two others: that of all rows in one place, and that of
/// the peer with the most rows. Also returns the evaluation on held-out rows from the receipt of the first
/// finished peer.
fn accuracy(
    run: &Ended<'_>,
    spec: FlynnSpec,
    failures: &mut Vec<String>,
) -> Option<(Accuracy, Option<Value>)> {
    let (rows, (peer, history)) = (run.rows, run.first()?);
    let plan = Plan::new(run.session.clone(), spec);
    let decoded = run.outcome(peer)?.and_then(|mut outcome| {
        let model = Model::decode(&outcome.file).map_err(|error| error.to_string())?;
        Ok((model, outcome.details.remove("evaluation")))
    });
    let (model, evaluation) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            failures.push(format!("{peer} has no model: {error}"));
            return None;
        }
    };
    let score = |model: &Model| {
        let predicted = model.predictor().predict(&rows.test).ok()?;
        Some(Confusion::new(rows.test.classes(), rows.test.labels(), &predicted).accuracy())
    };
    let seed = model.sketch().parameters().seed;
    let pooled = match plan.drawn(history.vectors()).ok()? {
        None if spec.evaluate.is_some_and(|evaluate| !evaluate.learn_all) => {
            let kept = rows.parts.iter().map(|part| plan.split(&part.data, history.vectors()).ok());
            let kept: Vec<Dataset> = kept
                .zip(&rows.parts)
                .map(|(split, part)| Some(part.data.subset(&split?.train)))
                .collect::<Option<_>>()?;
            plan.pooled_under(&together(&kept.iter().collect::<Vec<_>>())?, history.vectors()).ok()?
        }
        None => plan.pooled(&rows.train, seed).ok()?,
        Some(draw) => {
            let counted = history.values().last().map_or(&[][..], |value| &value.members);
            let learnt = counted.iter().filter(|peer| draw.chosen.contains(&peer.index()));
            let parts: Vec<&Dataset> = learnt.map(|peer| &*rows.parts[peer.index()].data).collect();
            plan.pooled_under(&together(&parts)?, history.vectors()).ok()?
        }
    };
    let largest = rows.parts.iter().map(|part| &part.data).max_by_key(|part| part.rows())?;
    let alone = plan.pooled(largest, seed).ok()?;
    let parts: Vec<&Dataset> = rows.parts.iter().map(|part| &*part.data).collect();
    let calibration = plan.pooled_calibration(&parts, seed, model.scaler().clone()).ok()?;
    let pooled = pooled.with_calibration(calibration);
    let accuracy = Accuracy {
        swarm: score(&model)?,
        pooled: score(&pooled)?,
        alone: score(&alone)?,
        rows: rows.test.rows() as u64,
        equal: model.digest() == pooled.digest(),
        digest: hex::encode(&model.digest()[..8]),
    };
    Some((accuracy, evaluation))
}

/// Puts the rows of several peers into one data set.
pub(super) fn together(parts: &[&Dataset]) -> Option<Dataset> {
    let first = parts.first()?;
    let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
    Dataset::new(first.features(), values, labels, first.classes().to_vec()).ok()
}
