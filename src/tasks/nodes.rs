//! Tests whole nodes with the tasks that exchange more than sums.

mod fedavg_xclp;
mod missing;
#[cfg(feature = "net")]
mod own_rows;
mod xclp;

use flyswarm_sealed_sum::harness::network;
use flyswarm_sealed_sum::harness::numbers::timing;

use crate::crypto::identity::Identity;
use crate::session::{
    ColumnChecks, CommitteeSpec, DataSpec, Entry, Privacy, Run, Scaling, Score, Session, Timing,
};
use crate::tasks::ModelSpec;

fn model() -> ModelSpec {
    ModelSpec { m: 16, s: 2, rho: 2, gamma: 0.5, score: Score::Decay }
}

fn session(identities: &[Identity], timing: Timing) -> Session {
    let roster = identities
        .iter()
        .enumerate()
        .map(|(i, identity)| Entry {
            key: identity.public(),
            name: format!("peer-{i}"),
            addresses: Vec::new(),
        })
        .collect();
    let task = model().into();
    Session {
        name: "test".into(),
        run: Run::new([7; 16], 1_000_000_000),
        min_peers: Session::default_min_peers(&task, identities.len()),
        task,
        data: DataSpec {
            features: 4,
            columns: Vec::new(),
            classes: vec!["a".into(), "b".into()],
            scaling: Scaling::None,
            densify: false,
            checks: ColumnChecks::default(),
            preparation: None,
        },
        privacy: Privacy { min_contributors: 1, ..Privacy::default() },
        voting: CommitteeSpec::default(),
        relays: Vec::new(),
        timing,
        roster,
    }
    .check()
    .unwrap()
}
