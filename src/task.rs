//! The tasks of a session: what is summed, how a peer makes its vectors, and what may not be opened.
//!
//! One file a task. [`crate::node`] is the engine; it knows the trait [`Task`] alone.

pub(crate) mod columns;
pub(crate) mod evaluation;
pub mod exchange;
pub(crate) mod fedavg;
pub(crate) mod fedavg_xclp;
pub(crate) mod filled;
pub mod flynn;
mod history;
mod holders;
mod outcome;
pub mod sketch;
pub mod tune;
pub mod xclp;

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use flyswarm_data::prepare::{Gap, Preparation};
use serde_json::{Map, Value};
use sha2::Digest;

pub use history::History;
pub use outcome::Outcome;

use crate::data::Dataset;
use crate::protocol::context::Quantity;
use crate::protocol::view::Rng;
use crate::session::{Peer, Session, TaskSpec};
use exchange::{Seat, Source};

/// A task: quantities that are summed and opened one after another, each of which may depend on those before
/// it.
///
/// The text of an error of [`Task::contribution`], [`Task::noised`], [`Task::exchange`] and
/// [`Task::exchanged`] ends the session for this peer. [`Task::allows`] and [`Task::check`] must come to the
/// same verdict at every peer: they may look at what all peers hold, and at nothing else.
pub trait Task: Debug + Send + Sync {
    /// The quantities in order; the first is [`Quantity::coin`].
    fn plan(&self) -> Vec<Quantity>;

    /// Makes this peer's vector for `slot`, of the plan's length. Called on a worker thread.
    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String>;

    /// Makes this peer's vector for a slot with noise ([`Quantity::is_noised`]). Called on a worker thread,
    /// once in a session, also where that is interrupted.
    fn noised(&self, _slot: u32, _history: &History, _rng: &mut Rng) -> Result<Bytes, String> {
        Err("this task has no noise".into())
    }

    /// Takes back the vector that [`Task::noised`] made, now or before an interruption: before the vector of
    /// any later slot is asked for.
    fn take_noised(&self, _slot: u32, _vector: &Bytes) {}

    /// Says how this peer gets its vector for `slot`.
    fn exchange(&self, _slot: u32, _history: &History, _seat: Seat) -> Result<Source, String> {
        Ok(Source::Own)
    }

    /// Makes this peer's vector for a slot with an exchange, from the exchange's result, which is empty for a
    /// bystander.
    fn exchanged(&self, _slot: u32, _result: &Bytes) -> Result<Bytes, String> {
        Err("this task has no exchange".into())
    }

    /// Checks whether a new sum of `slot` may be started over `members`; says why not. A task that does not
    /// say otherwise allows any.
    fn allows(&self, _slot: u32, _history: &History, _members: &[Peer]) -> Result<(), String> {
        Ok(())
    }

    /// Checks the slot that was opened last. An error ends the session for everybody. A task that does not
    /// say otherwise takes any sum.
    fn check(&self, _slot: u32, _history: &History) -> Result<(), String> {
        Ok(())
    }

    /// Whether the opened vector of `slot` is still needed when `frozen` slots are frozen. Once it is not, it
    /// never is again. The answer follows from the session alone; peers that come later are not given it.
    fn retains(&self, _slot: u32, _frozen: u32) -> bool {
        true
    }

    /// As [`Task::retains`], where the opened vectors themselves say more: whether that of `slot` is needed
    /// after those that are frozen. While they do not tell yet, as with a vector that is to be fetched again,
    /// it is needed.
    fn keeps(&self, slot: u32, history: &History) -> bool {
        self.retains(slot, history.frozen())
    }

    /// Whether nothing is summed after the slots that are frozen, although the plan goes on. All peers that
    /// hold the vectors which [`Task::keeps`] says come to the same verdict.
    fn ends(&self, _history: &History) -> bool {
        false
    }

    /// What the slot that was opened last says of the task's progress, for people and programs, such as the
    /// loss of a round; may be empty.
    fn figures(&self, _slot: u32, _history: &History) -> Map<String, Value> {
        Map::new()
    }

    /// The result, when every slot is frozen. An error says why this peer has none. `unix` is the time in
    /// seconds since 1970, for a file that says when it was made; the digest does not depend on it.
    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String>;

    /// The work of this peer's [`Task::contribution`] for `slot`, for the simulator's clock.
    fn work(&self, slot: u32, history: &History) -> Work;
}

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

/// Counted work; the simulator divides each count by a rate of its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Entries of lifting matrices that are drawn.
    pub matrix: f64,
    /// Additions and multiplications.
    pub lift: f64,
    /// Numbers that a selection looks at.
    pub select: f64,
}

impl Work {
    /// Drawing a lifting matrix of m x s entries and hashing so many rows by it.
    #[must_use]
    pub fn training(m: f64, s: f64, rows: f64) -> Self {
        Self { matrix: m * s, lift: rows * m * s, select: rows * m }
    }
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.matrix += other.matrix;
        self.lift += other.lift;
        self.select += other.select;
    }
}
