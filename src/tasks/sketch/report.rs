//! A sketch session's result as JSON.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{Outcome, SketchTask};
use crate::model::selection::Draw;
use crate::session::{Session, table};
use crate::sketch::distribution::Distance;

/// Returns the names of the peers at these indices of the roster.
pub(crate) fn names<'a>(session: &'a Session, peers: &[usize]) -> Vec<&'a str> {
    peers.iter().filter_map(|&peer| session.roster.get(peer)).map(|entry| &*entry.name).collect()
}

/// Returns the entry of the receipt about the drawn peers.
pub(crate) fn selection(session: &Session, draw: &Draw) -> Map<String, Value> {
    let entry = json!({"active": names(session, &draw.active), "chosen": names(session, &draw.chosen)});
    Map::from_iter([("selection".to_owned(), entry)])
}

impl SketchTask {
    /// Returns the global sketch, this peer's distance to it, the other values that the session opened, and
    /// the description of how columns became numbers. Counters are listed row after row.
    pub(super) fn json(&self, outcome: &Outcome, distance: Option<Distance>, opened: &[Bytes]) -> Value {
        let table = self.preparation.as_deref().map(table::json);
        json(&self.plan.session, outcome, distance, opened, table)
    }
}

fn json(
    session: &Session,
    outcome: &Outcome,
    distance: Option<Distance>,
    opened: &[Bytes],
    table: Option<Value>,
) -> Value {
    let name = |peer: usize| session.roster.get(peer).map_or("", |entry| &entry.name);
    let names = |peers: &[usize]| names(session, peers);
    let (rows, range) = outcome.global.shape();
    let published = outcome
        .published
        .iter()
        .enumerate()
        .map(|(peer, &distance)| (name(peer).to_owned(), json!(distance)));
    let matrix = &outcome.matrix;
    let everybody: Vec<usize> = (0..session.roster.len()).collect();
    json!({
        "hash": session.task.part::<super::SketchSpec>().map(|sketch| sketch.hash),
        "rows": rows,
        "range": range,
        "columns": (!session.data.columns.is_empty()).then_some(&session.data.columns),
        "table": table,
        "seed": opened.first().map(hex::encode),
        "records": outcome.global.records(),
        "distance": distance,
        "published": (!outcome.published.is_empty()).then(|| published.collect::<serde_json::Map<_, _>>()),
        "selection": outcome.draw.as_ref().map(|(draw, coin)| json!({
            "coin": hex::encode(coin), "active": names(&draw.active), "chosen": names(&draw.chosen),
        })),
        "heterogeneity": (!matrix.is_empty()).then(|| json!({"peers": names(&everybody), "distances": matrix})),
        "counters": outcome.global.counters(),
    })
}
