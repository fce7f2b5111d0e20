//! Runs whole nodes on rows with missing values, which are filled with the mean over all peers. The result is
//! compared with that of rows that were filled in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyswarm_data::prepare::{ColumnSpec, Fill, Kind, MissingCell, TableSchema};

use super::network::Network;
use super::{session, timing};
use crate::crypto::identity::Identity;
use crate::data::Dataset;
use crate::data::digits::digits;
use crate::node::Event;
use crate::session::{ColumnChecks, DataSpec, Peer, Scaling, Session, TaskSpec};
use crate::tasks::XclpSpec;
use crate::tasks::xclp::{self, Xclp};
use crate::tasks::{History, Rows, Task, built_in};

/// Columns with missing values.
const MISSING: std::ops::Range<usize> = 20..28;

/// Describes the columns of the digits: 64 numbers.
pub(super) fn preparation() -> TableSchema {
    let column = |at: usize| {
        let fill = if MISSING.contains(&at) { Fill::Pooled } else { Fill::Refuse };
        ColumnSpec { fill, ..ColumnSpec::new(format!("pixel-{at}"), Kind::Number) }
    };
    let preparation = TableSchema { columns: (0..64).map(column).collect(), ..TableSchema::default() };
    preparation.check().unwrap();
    preparation
}

/// Removes every third value of those columns. Returns the rows and the positions of the removed values.
pub(super) fn gaps(rows: &Dataset) -> (Dataset, Vec<MissingCell>) {
    let places = (0..rows.rows()).flat_map(|row| MISSING.map(move |column| (row, column)));
    let missing: Vec<_> = places.filter(|(row, column)| (row + column) % 3 == 0).collect();
    let mut values = rows.values().to_vec();
    missing.iter().for_each(|(row, column)| values[row * 64 + column] = 0.0);
    let gap = |&(row, column): &(usize, usize)| MissingCell { row: row as u32, column: column as u16 };
    (Dataset::new(64, values, Vec::new(), Vec::new()).unwrap(), missing.iter().map(gap).collect())
}

/// Returns all peers' rows. Each gap is filled with the mean of all present values of its column, computed in
/// one place.
pub(super) fn filled<T>(parts: Vec<(Rows, T)>) -> Vec<(Dataset, T)> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (rows, _) in &parts {
        for column in MISSING {
            let gap = |row: usize| MissingCell { row: row as u32, column: column as u16 };
            let there = (0..rows.data.rows()).filter(|&row| !rows.gaps.contains(&gap(row)));
            let (sum, count) = sums.entry(column).or_default();
            for row in there {
                *sum += f64::from(rows.data.row(row)[column]);
                *count += 1.0;
            }
        }
    }
    let fill = |(rows, beside): (Rows, T)| {
        let mut values = rows.data.values().to_vec();
        for gap in &rows.gaps {
            let (sum, count) = sums[&usize::from(gap.column)];
            values[gap.row as usize * 64 + usize::from(gap.column)] = (sum / count) as f32;
        }
        (Dataset::new(64, values, Vec::new(), Vec::new()).unwrap(), beside)
    };
    parts.into_iter().map(fill).collect()
}

#[test]
fn labels_are_those_of_all_rows_filled_with_the_plain_mean_in_one_place() {
    let mut identities: Vec<_> = (1..=4).map(|seed| Identity::from_seed([seed; 32])).collect();
    identities.sort_by_key(Identity::public);
    let data = digits();
    let spec = XclpSpec { bits: 128, k: 4, ..XclpSpec::default() }.with_alpha(0.8);
    let task = TaskSpec::from(spec.clone());
    let with = |preparation: Option<Arc<TableSchema>>| {
        let session = session(&identities, timing());
        let data = DataSpec {
            features: 64,
            columns: preparation.iter().flat_map(|preparation| preparation.features()).collect(),
            classes: data.classes().to_vec(),
            // With this scaling, the session also opens moments, which must be those of the filled rows.
            scaling: Scaling::Center,
            densify: false,
            checks: ColumnChecks::default(),
            preparation,
        };
        let min_peers = Session::default_min_peers(&task, identities.len());
        Session { min_peers, task: task.clone(), data, ..session }.check().unwrap()
    };
    let (pooled, plain) = (with(Some(Arc::new(preparation()))), with(None));
    let (mut tasks, mut parts) = (Vec::new(), Vec::new());
    for (peer, first) in (0u16..4).map(Peer).zip((0..).step_by(15)) {
        let part = data.subset(&(first..first + 15).collect::<Vec<_>>());
        let label = |(row, &label): (usize, &u16)| (row % 4 == 0).then_some(label);
        let labels: Vec<_> = part.labels().iter().enumerate().map(label).collect();
        let (data, gaps) = gaps(&part);
        let rows = Rows { labels: labels.clone(), gaps, ..Rows::new(Arc::new(data)) };
        let made = built_in(&pooled).unwrap().make(pooled.clone(), peer, rows.clone(), &[peer.0 as u8; 32]);
        tasks.push(Arc::new(made.unwrap()) as Arc<dyn Task>);
        parts.push((rows, labels));
    }
    let mut net = Network::with_tasks(identities, pooled.settings(), tasks.clone(), 1);
    net.run(120_000);

    let alone = |(peer, (data, labels)): (Peer, (Dataset, Vec<Option<u16>>))| {
        let secret = [peer.0 as u8; 32];
        Xclp::new(plain.clone(), spec.clone(), peer, Arc::new(data), labels, &secret).unwrap()
    };
    let alone: Vec<Xclp> = (0u16..).map(Peer).zip(filled(parts)).map(alone).collect();
    let histories: Vec<Arc<History>> = (0..4)
        .filter_map(|at| {
            net.events.iter().find_map(|(_, who, event)| match event {
                Event::Finished(history) if *who == Peer(at) => Some(history.clone()),
                _ => None,
            })
        })
        .collect();
    assert_eq!(histories.len(), 4, "{:?}", net.events);
    let seen: Vec<History> = histories.iter().map(|history| history.without(1, 2)).collect();
    let planes = xclp::planes(&pooled, &seen[0]).unwrap();
    let moments = seen[0].vector(2).map(|bytes| &bytes[..]);
    let (expected, _) = Xclp::pooled(&alone.iter().collect::<Vec<_>>(), &planes, moments, &[]).unwrap();
    for (at, (task, said)) in alone.iter().zip(&expected).enumerate() {
        assert_eq!(&task.said(&task.output(&seen[at]).unwrap()), said, "peer {at}");
        let file = |outcome: Result<crate::tasks::Outcome, String>| outcome.unwrap().file;
        assert_eq!(file(tasks[at].outcome(&histories[at], 0)), file(task.outcome(&seen[at], 0)), "peer {at}");
        assert!(said.iter().any(|said| said.label.is_some() && !said.disputed));
    }
}
