//! The tasks of a session: what is summed, how a peer makes its vectors, and what may not be opened.
//!
//! One folder a task. [`crate::node`] is the engine; it knows the trait [`Task`] alone.

pub(crate) mod common;
pub(crate) mod custom;
pub(crate) mod fedavg;
pub(crate) mod fedavg_xclp;
pub mod flynn;
#[cfg(test)]
mod nodes;
pub mod sketch;
pub mod tune;
pub mod xclp;

use std::sync::Arc;

use flyswarm_data::prepare::{Gap, Preparation};
use sha2::Digest;

pub use flyswarm_sealed_sum::task::{History, Outcome, Task, Work, exchange};

use crate::data::Dataset;
pub use crate::protocol::context::Quantity;
use crate::session::{Peer, Session, TaskSpec};
use common::filled;

/// A built-in task: what is known of it before a peer has its rows.
pub struct BuiltIn {
    /// The quantities of the session in order; the first is [`Quantity::coin`].
    pub plan: Vec<Quantity>,
    /// What the result is called in events and receipts, such as "model".
    pub result: &'static str,
    /// The ending of the result's file where the user names none.
    pub extension: &'static str,
    /// Which rows have labels.
    pub labels: Labels,
    /// Whether a peer without rows may take part to help the others.
    pub witnesses: bool,
    /// Makes a peer's task.
    pub build: Build,
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuiltIn({})", self.result)
    }
}

/// Which rows of a peer have labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Every row.
    All,
    /// Some rows; the task finds the others.
    Some,
    /// No row needs one.
    None,
}

/// A peer's rows.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Features; with [`Labels::All`] also labels.
    pub data: Arc<Dataset>,
    /// With [`Labels::Some`] the class of each row where it is known; else empty.
    pub labels: Vec<Option<u16>>,
    /// Missing values that wait for what the peers add up.
    pub gaps: Vec<Gap>,
    /// How a table became these rows, where the session alone does not say it.
    pub(crate) preparation: Option<Arc<Preparation>>,
}

impl Rows {
    /// SHA-256(tag "data" || salt || rows, features as u64 LE || values as f32 LE || labels as u16 LE, 65535
    /// where unknown || of each gap row as u32 LE, column as u16 LE): whoever has the rows and the salt can
    /// show that it is theirs, and without the salt nobody can guess the rows from it.
    #[must_use]
    pub fn digest(&self, salt: &[u8; 32]) -> [u8; 32] {
        let Self { data, labels, gaps, preparation: _ } = self;
        let mut hash = crate::crypto::tagged_hash("data").chain_update(salt);
        hash.update((data.rows() as u64).to_le_bytes());
        hash.update((data.features() as u64).to_le_bytes());
        data.values().iter().for_each(|value| hash.update(value.to_le_bytes()));
        let partly = labels.iter().map(|label| label.unwrap_or(u16::MAX));
        let labels = data.labels().iter().copied().chain(partly);
        labels.for_each(|label| hash.update(label.to_le_bytes()));
        for gap in gaps {
            hash.update(gap.row.to_le_bytes());
            hash.update(gap.column.to_le_bytes());
        }
        hash.finalize().into()
    }

    /// Rows whose labels, if any, stand with the data.
    #[must_use]
    pub fn new(data: Arc<Dataset>) -> Self {
        Self { data, labels: Vec::new(), gaps: Vec::new(), preparation: None }
    }
}

/// What a digest of a peer's rows covers in this session, for its receipt.
#[must_use]
pub(crate) fn digest_covers(session: &Session) -> &'static str {
    match session.task {
        TaskSpec::Custom(_) => {
            "the rows that the program was given; what the task reads itself it does not cover"
        }
        _ => "every row that was given to the session",
    }
}

/// The task of a session, if this crate has it.
#[must_use]
pub fn built_in(session: &Session) -> Option<BuiltIn> {
    let own = match &session.task {
        TaskSpec::Flynn(spec) => flynn::built_in(session, *spec),
        TaskSpec::Tune(spec) => tune::built_in(session, spec.clone()),
        TaskSpec::Xclp(spec) => xclp::built_in(session, spec.clone()),
        TaskSpec::Sketch(spec) => sketch::built_in(session, *spec),
        TaskSpec::Fedavg(spec) => fedavg::built_in(session, spec.clone()),
        TaskSpec::FedavgXclp(spec) => fedavg_xclp::built_in(session, spec.clone()),
        TaskSpec::Custom(_) => return None,
    };
    let (plan, build) = (filled::plan(session, own.plan), filled::build(session, own.build));
    Some(BuiltIn { plan, build, ..own })
}

/// Makes a peer's task of its session, its place in the roster, its rows, and 32 bytes that nobody else
/// knows.
pub type Build = Box<dyn Fn(Session, Peer, Rows, &[u8; 32]) -> Result<Arc<dyn Task>, String> + Send + Sync>;
