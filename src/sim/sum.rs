//! The task `sum` of a scenario: it only sums random words, and has no rows.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::scenario::Scenario;
use crate::crypto::stream::Stream;
use crate::protocol::context::Aggregate;
use crate::session::Peer;
use crate::tasks::CustomSpec;
use crate::tasks::{History, Outcome, Task, Work};

/// Slot of the sum; slot 0 is the coin.
const SUM: u32 = 1;

/// Returns the session's task: the number of words as LE u64.
pub(super) fn spec(scenario: &Scenario) -> CustomSpec {
    CustomSpec { name: "sum".into(), bytes: scenario.task.words.to_le_bytes().to_vec() }
}

/// Task that sums one vector of words below 2^20. A peer draws its vector from the seed and its number.
#[derive(Debug)]
pub(super) struct Numbers {
    me: Peer,
    aggregate: Aggregate,
    seed: u64,
}

impl Numbers {
    pub(super) fn new(scenario: &Scenario, me: Peer) -> Self {
        let aggregate = Aggregate::exact("sum", 4, scenario.task.words, "a sum", "the sum of random vectors");
        Self { me, aggregate, seed: scenario.seed }
    }
}

impl Task for Numbers {
    fn plan(&self) -> Vec<Aggregate> {
        vec![Aggregate::coin(), self.aggregate.clone()]
    }

    fn contribution(&self, _: u32, _: &History) -> Result<Bytes, String> {
        let mut out = vec![0; self.aggregate.len()];
        Stream::new(&self.seed.to_le_bytes(), "simulation/numbers", &self.me.0.to_le_bytes()).fill(&mut out);
        let (words, _) = out.as_chunks_mut::<4>();
        words.iter_mut().for_each(|word| *word = (u32::from_le_bytes(*word) >> 12).to_le_bytes());
        Ok(out.into())
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let sum = history.vector(SUM).ok_or("nothing was summed")?;
        Ok(Outcome::new(sum.to_vec(), Sha256::digest(sum).into()))
    }

    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
}
