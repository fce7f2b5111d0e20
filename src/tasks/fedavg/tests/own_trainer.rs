//! Tests of the user's own trainer, which replaces the built-in learner.

use super::super::tensors::Values;
use super::super::trainer::{Answer, Order};
use super::*;

/// A trainer of this peer that trains like the built-in learner. If a round is given, the trainer fails in
/// it.
#[derive(Debug)]
struct LikeBuiltIn(u16, Option<u32>);

impl Trainer for LikeBuiltIn {
    fn train(&self, order: &Order<'_>) -> Result<Answer, String> {
        if self.1 == Some(order.round) {
            return Err("the trainer in round 2: it has ended".into());
        }
        let place = [&self.0.to_le_bytes()[..], &(order.round + 3).to_le_bytes()].concat();
        let mut stream = Stream::new(&COIN, "fedavg/batches", &place);
        let (rows, labels) = (order.rows.view(), order.rows.labels());
        let start = order.start.averaged.clone();
        let found = train(order.network, start, rows, labels, None, &order.settings, &mut stream);
        let values = Values { averaged: found.weights, others: Vec::new() };
        Ok(Answer { values, seen: found.seen })
    }
}

#[test]
fn a_trainer_gets_what_the_built_in_learner_gets_and_its_failure_is_told_by_its_peer_alone() {
    let session = session(5, "rounds = 3\nheld_out = 20\nclip = 0.5");
    let parts = parts(5);
    let everybody = |_: u32| (0..5).map(Peer).collect::<Vec<_>>();
    let with = |fails| {
        let mut tasks = tasks(&session, &parts);
        tasks[2].trainer = Some(Arc::new(LikeBuiltIn(2, fails)));
        tasks
    };
    let usual = federated(&tasks(&session, &parts), everybody).unwrap();
    let own = federated(&with(None), everybody).unwrap();
    assert_eq!(
        (3..6).map(|slot| own.vector(slot)).collect::<Vec<_>>(),
        (3..6).map(|slot| usual.vector(slot)).collect::<Vec<_>>()
    );
    let error = federated(&with(Some(1)), everybody).unwrap_err();
    assert_eq!(error, "training failed: the trainer in round 2: it has ended");
    // The others continue without it.
    let members = members(5, (2, 4), (9, 0));
    let history = federated(&with(Some(1)), &members).unwrap();
    let plan = &tasks(&session, &parts)[0].plan;
    assert_eq!(
        bits(&plan.weights(6, &history).unwrap()),
        bits(&plain(&session, &COIN, &parts, &members, false))
    );
}
