//! Real processes of `flyswarm join`, killed, paused, cut off and restarted. Each test says what the others must end with.
#![cfg(all(feature = "net", unix))]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

#[path = "processes/check.rs"]
mod check;
#[path = "processes/cut.rs"]
mod cut;
#[path = "processes/lives.rs"]
mod lives;
#[path = "processes/simulated.rs"]
mod simulated;
#[path = "processes/swarm.rs"]
mod swarm;
#[path = "processes/table.rs"]
mod table;

use check::same_and_exact;
use swarm::Swarm;

#[test]
fn five_processes_arrive_at_the_pooled_model() {
    let mut swarm = Swarm::new(5, |_| {});
    swarm.start_all();
    let all: Vec<_> = (0..5).collect();
    for &i in &all {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    assert_eq!(same_and_exact(&swarm, &all).len(), 5);
}
