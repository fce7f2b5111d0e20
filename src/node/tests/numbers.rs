//! A task with nothing but sums, and its session.

use bytes::Bytes;

use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::protocol::context::Quantity;
use crate::session::{
    ColumnChecks, CouncilSpec, DataSpec, Entry, Peer, Privacy, Run, Scaling, Score, Session, Timing,
};
use crate::tasks::ModelSpec;
use crate::tasks::{History, Outcome, Task, Work};

/// Sums a fixed vector for each slot: slot q of peer i is `words[q - 1]` words, drawn from (i, q).
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) me: Peer,
    pub(super) words: Vec<u64>,
}

impl Numbers {
    pub(super) fn vector(peer: Peer, slot: u32, words: u64) -> Vec<u32> {
        let mut stream = Stream::new(&peer.0.to_le_bytes(), "numbers", &[slot as u8]);
        (0..words).map(|_| stream.next_u32()).collect()
    }
}

impl Task for Numbers {
    fn plan(&self) -> Vec<Quantity> {
        let sums = self.words.iter().map(|&words| Quantity::exact("numbers", 4, words));
        std::iter::once(Quantity::coin()).chain(sums).collect()
    }
    fn contribution(&self, slot: u32, _: &History) -> Result<Bytes, String> {
        let words = self.words[slot as usize - 1];
        Ok(Self::vector(self.me, slot, words).into_iter().flat_map(u32::to_le_bytes).collect())
    }
    fn outcome(&self, _: &History, _unix: u64) -> Result<Outcome, String> {
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }
    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
    fn allows(&self, _: u32, _: &History, _: &[Peer]) -> Result<(), String> {
        Ok(())
    }
    fn check(&self, _: u32, _: &History) -> Result<(), String> {
        Ok(())
    }
}

pub(super) fn session(identities: &[Identity], timing: Timing) -> Session {
    let roster = identities
        .iter()
        .enumerate()
        .map(|(i, identity)| Entry {
            key: identity.public(),
            name: format!("peer-{i}"),
            addresses: Vec::new(),
        })
        .collect();
    let task = ModelSpec { m: 16, s: 2, rho: 2, gamma: 0.5, score: Score::Decay }.into();
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
        privacy: Privacy { min_holders: 1, ..Privacy::default() },
        voting: CouncilSpec::default(),
        relays: Vec::new(),
        timing,
        roster,
    }
    .check()
    .unwrap()
}

/// Short time-outs: virtual time is free, but fewer events make shorter runs.
pub(super) fn timing() -> Timing {
    Timing {
        gather_ms: 2_000,
        propose_ms: 500,
        stall_ms: 3_000,
        quorum_ms: 20_000,
        compute_ms: 60_000,
        linger_ms: 30_000,
        enlarge_ms: 30_000,
        max_views: 16,
    }
}
