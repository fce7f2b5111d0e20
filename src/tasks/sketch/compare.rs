//! Checks the sketches of a simulated session: whether the distances equal those of the rows in one place,
//! and how well they rank the peers by the difference of their class shares.

use crate::data::Dataset;
use crate::model::heterogeneity::{spearman, total_variation};
use crate::model::selection;
use crate::session::Peer;
use crate::tasks::History;
use crate::tasks::SketchSpec;
use crate::tasks::compare::{Ended, Ranking, Worth};
use crate::tasks::sketch::{Global, Plan, TaskError};

/// Measures how much the peers' rows differ.
pub(super) fn worth(run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
    let spec = run.session.task.get::<SketchSpec>();
    Worth { ranking: spec.and_then(|spec| ranking(run, *spec, failures)), ..Worth::default() }
}

/// Compares each opened vector with the vector of all its members' rows in one place, and ranks the peers.
pub(crate) fn ranking(run: &Ended<'_>, spec: SketchSpec, failures: &mut Vec<String>) -> Option<Ranking> {
    let plan = Plan::new(run.session.clone(), spec);
    compared(&plan, run, run.first()?.1).map_err(|error| failures.push(error.to_string())).ok()
}

fn compared(plan: &Plan, run: &Ended<'_>, history: &History) -> Result<Ranking, TaskError> {
    let rows = run.rows;
    let outcome = plan.outcome(history.vectors())?;
    let members = |name: &str| {
        let slot = run.plan.iter().position(|aggregate| aggregate.name == name);
        slot.and_then(|slot| history.values().get(slot)).map_or(&[][..], |value| &value.members)
    };
    let counted = members("sketch");
    let together: Vec<f32> =
        counted.iter().flat_map(|peer| rows.parts[peer.index()].data.values().to_vec()).collect();
    let together = Dataset::new(rows.train.features(), together, Vec::new(), Vec::new())
        .map_err(|error| TaskError::Data(error.to_string()))?;
    let exact = plan.sketch(&together, history.vectors())?;
    let mut equal = match &outcome.global {
        Global::Exact(global) => exact == *global,
        // The module `checks` of the simulator verifies that this sketch is the sum of the peers' releases.
        Global::Private(global) => {
            global.records() == exact.records() && global.releases() as usize == counted.len()
        }
    };
    let classes = rows.train.classes().len();
    let mut all = vec![0; classes];
    for peer in counted {
        let own = rows.parts[peer.index()].data.class_counts(classes);
        all.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
    }
    let mut peers = Vec::new();
    for (peer, part) in
        (0u16..).zip(rows.parts.iter().map(|part| &part.data)).filter(|(_, part)| part.rows() > 0)
    {
        let published =
            outcome.published.get(usize::from(peer)).filter(|_| members("scores").contains(&Peer(peer)));
        let distance = match &outcome.global {
            Global::Exact(global) => plan.sketch(part, history.vectors())?.distance(global)?.row_mean,
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
