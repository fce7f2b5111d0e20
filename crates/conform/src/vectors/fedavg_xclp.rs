//! The task `fedavg-xclp`: a session file, its slots, and the sums of its members around the first
//! propagation. The network is logistic: on every processor, its representation of a row is the row
//! itself. One row has only zeros.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm_mpc::propagation::integer::{Plan, reference};
use serde_json::{Value, json};

use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::xclp::internals::to_bytes;
use flyswarm::tasks::xclp::planes;
use flyswarm::tasks::{History, Rows, Task, built_in};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::record;
use flyswarm_sealed_sum::protocol::sum_id::SumId;

use super::sessions::toml;
use super::{bytes, hex};

pub(crate) const HEAD: &str =
    concat!("name = \"vectors\"\n", include_str!("../../../../src/tasks/fedavg_xclp/tests.toml"));

const PEERS: u16 = 4;
const ROWS: usize = 5;

pub(crate) fn fedavg_xclp() -> Value {
    let text = toml(HEAD, usize::from(PEERS));
    let session = Session::parse(&text).unwrap();
    let spec = session.task.part::<flyswarm::tasks::XclpSpec>().unwrap();
    let (seed, classes) = (bytes::<32>("seed of labels"), session.data.classes.len());
    let row = |peer: u16, row: usize| -> [f32; 3] {
        let (peer, at) = (f32::from(peer), row as f32);
        let class = (usize::from(peer as u16) + row) % 3;
        let far = |feature: usize| if feature == class { 4.0 + at } else { 0.25 * (peer - at) };
        if (peer, row) == (2.0, 4) { [0.0; 3] } else { [far(0), far(1), far(2)] }
    };
    let rows = |peer: u16| (0..ROWS).flat_map(|at| row(peer, at)).collect::<Vec<_>>();
    // The classes have 3, 2 and 1 labels; the last peer has none.
    let label = |peer: u16, row: usize| match (peer, row) {
        (0, 0 | 3) | (2, 1) => Some(0),
        (0, 1) | (1, 3) => Some(1),
        (1, 1) => Some(2),
        _ => None,
    };
    let labels = |peer: u16| (0..ROWS).map(|at| label(peer, at)).collect::<Vec<_>>();
    let kind = built_in(&session).unwrap();
    let task = |peer: u16| {
        let data = Arc::new(Dataset::new(3, rows(peer), Vec::new(), Vec::new()).unwrap());
        let mut rows = Rows::new(data);
        rows.labels = labels(peer);
        Arc::new(kind.make(session.clone(), Peer(peer), rows, &[0; 32]).unwrap()) as Arc<dyn Task>
    };
    let tasks: Vec<Arc<dyn Task>> = (0..PEERS).map(task).collect();
    let members: Vec<Peer> = (0..PEERS).map(Peer).collect();
    let mut histories = vec![History::default(); tasks.len()];
    let (mut points, mut counts) = (Vec::new(), Vec::new());
    for (slot, aggregate) in (0u32..).zip(tasks[0].plan()) {
        let name = aggregate.name.as_str();
        // The results of the two exchanges are not computed here. The owners get those of the integer
        // reference.
        let made: Vec<Bytes> = match name {
            "coin" => vec![Bytes::copy_from_slice(&seed)],
            "computed-1" | "labelled-1" => vec![vec![0; aggregate.len()].into()],
            _ => tasks
                .iter()
                .zip(&histories)
                .map(|(task, history)| task.contribution(slot, history).unwrap())
                .collect(),
        };
        match name {
            "points-1" => points = made.iter().map(hex).collect(),
            "counts-1" => {
                counts = made.iter().map(hex).collect();
                break;
            }
            _ => {}
        }
        let mut total = made[0].to_vec();
        made[1..]
            .iter()
            .for_each(|vector| flyswarm_sealed_sum::crypto::mask::add(aggregate.word(), &mut total, vector));
        let value = record::Value {
            sum: SumId { ballot: Ballot::default(), slot },
            members: members.clone(),
            total: [0; 32],
            deals: [0; 32],
        };
        histories.iter_mut().for_each(|history| history.push(value.clone(), Some(total.clone().into())));
        if name == "labelled-1" {
            let mut all: Vec<([f32; 3], Option<u16>)> = Vec::new();
            for peer in 0..PEERS {
                let mut own: Vec<_> = (0..ROWS).map(|at| (row(peer, at), label(peer, at))).collect();
                own.sort_by_key(|(_, label)| label.is_none());
                all.extend(own);
            }
            let point = |(row, _): &([f32; 3], _)| if *row == [0.0; 3] { [1.0; 3] } else { *row };
            let data = Dataset::new(3, all.iter().flat_map(point).collect(), Vec::new(), Vec::new()).unwrap();
            let codes =
                Codes::of(&data, &planes(&session, &histories[0]).unwrap(), spec.bits as usize).unwrap();
            let known: Vec<_> = all.iter().map(|(_, label)| *label).collect();
            let plan = Plan::new(all.len(), classes, spec.settings()).unwrap();
            let output = reference::Reference::new(&plan, &codes, &known).output;
            for (peer, history) in histories.iter_mut().enumerate() {
                let own = peer * ROWS..(peer + 1) * ROWS;
                let coarse = output.coarse[own.start * classes..own.end * classes].to_vec();
                let own = reference::Output { labels: output.labels[own].to_vec(), coarse };
                history.set_exchanged(slot, to_bytes(&own, true, classes));
            }
        }
    }
    json!({
        "toml": text, "seed": hex(seed),
        "slots": tasks[0].plan().iter().map(|aggregate| aggregate.name.clone()).collect::<Vec<_>>(),
        "rows": (0..PEERS).map(rows).collect::<Vec<_>>(),
        "labels": (0..PEERS).map(labels).collect::<Vec<_>>(),
        "points": points, "counts": counts,
    })
}
