//! The tasks of a session. A task defines the sums, the vector of each peer, and when a sum may be opened.
//!
//! Each task has its own folder. [`crate::node`] is the engine; it uses only the trait [`Task`].

pub(crate) mod common;
pub(crate) mod compare;
mod kind;
pub(crate) mod new;
#[cfg(test)]
mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;

use flyswarm_data::prepare::{MissingCell, TableSchema};
use sha2::Digest;

pub use common::protect::{OwnSlots, Protected, Protection, Protections};
pub use custom::CustomSpec;
pub use fedavg::own::OwnModel;
pub use fedavg::rounds::RoundFile;
pub use fedavg::spec::{FedavgSpec, RoundNoise, Weighting};
pub(crate) use fedavg::spec::{MOST_WEIGHT, WHOLE_SHARE};
pub use fedavg::tensors::{Dtype, Rule, TensorSpec};
pub use fedavg_xclp::spec::FedavgXclpSpec;
pub use flynn::evaluate::spec::EvaluateSpec;
pub use flynn::size::{Size, Sizes};
pub use flynn::spec::{FlynnSpec, ModelSpec};
pub use flyswarm_sealed_sum::task::{Crowd, History, Outcome, RowUse, Task, Work, exchange};
pub use glm::GlmSpec;
pub use kind::{
    BuildOwn, Contents, Forecast, OwnWishes, ReadContents, ReadSpec, ReadTables, ResultFile, Shared,
    TaskKind, kinds, register,
};
pub use new::{NewFile, Sets, TaskOption};
pub use sketch::spec::{Select, SketchSpec};
pub use summary::{CrossTable, SummarySpec};
pub use tune::spec::{Setting, TuneSpec};
pub use xclp::spec::{Cheaters, Hamming, XclpSpec};

use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::data::groups::first_of_each;
pub use crate::protocol::context::Aggregate;
use crate::session::{Peer, PrivacyUnit, Session};
use common::{filled, protect};

/// Declares the tasks, one on each line.
macro_rules! registry {
    ($($(#[$about:meta])* mod $name:ident;)+) => {
        $(
            $(#[$about])*
            #[cfg(feature = "internals")]
            #[doc(hidden)]
            pub mod $name;
            $(#[$about])*
            #[cfg(not(feature = "internals"))]
            pub(crate) mod $name;
        )+

        static REGISTRY: &[&TaskKind] = &[$(&$name::KIND,)+];
    };
}

registry! {
    /// FlyNNFL (Ram and Sinha, "Federated Nearest Neighbor Classification with a Colony of Fruit-Flies", AAAI
    /// 2022).
    mod flynn;
    /// Cross-validation of settings of FlyNN over the rows of all peers.
    mod tune;
    /// Label propagation over the points of all peers (Scott, Yeo & Lampert, "Cross-client Label
    /// Propagation", TMLR 2023).
    mod xclp;
    /// The distance of each peer's data from the data of all peers (Liu, Xu, Coleman & Shrivastava, "One-Pass
    /// Distribution Sketch for Measuring Data Heterogeneity in Federated Learning", NeurIPS 2023).
    mod sketch;
    /// A network that is trained in rounds (McMahan et al., AISTATS 2017).
    mod fedavg;
    /// A network that is trained in rounds on given labels and on labels that XCLP finds (Scott, Yeo &
    /// Lampert, TMLR 2023, Algorithm 2).
    mod fedavg_xclp;
    /// Statistics over the rows of all peers: counts, means and cross tables without small cells.
    mod summary;
    /// Linear, logistic and Poisson regression over the rows of all peers.
    mod glm;
    /// A task that a program outside this crate provides.
    mod custom;
}

/// Ends the programs that this process has started for its tasks, and removes the folders of these programs.
pub(crate) fn end_programs() {
    #[cfg(all(feature = "cli", feature = "net"))]
    fedavg::subprocess::end_all();
}

/// Returns the aggregate of a slot.
fn aggregate_of(task: &dyn Task, slot: u32) -> Result<Aggregate, String> {
    task.plan().into_iter().nth(slot as usize).ok_or_else(|| "no such slot".to_owned())
}

/// A built-in task, before a peer has its rows.
pub struct BuiltIn {
    /// Aggregates of the session in order. The first is [`Aggregate::coin`].
    pub plan: Vec<Aggregate>,
    /// Name of the result in events and receipts, such as "model".
    pub result: &'static str,
    /// Extension of the result's file if the user gives no file name.
    pub extension: &'static str,
    /// Which rows must have labels.
    pub labels: Labels,
    /// True if a peer without rows may take part to help the others.
    pub witnesses: bool,
    /// Slots of the plan that serve a protection.
    pub own: OwnSlots,
    /// Function that makes the task of one peer.
    pub build: Build,
}

impl BuiltIn {
    /// Returns a task whose rows need no labels and whose result is a file of tables. Its plan has no slots
    /// of protections.
    fn of_tables(plan: Vec<Aggregate>, result: &'static str, extension: &'static str, build: Build) -> Self {
        let (own, labels) = (OwnSlots::default(), Labels::None);
        Self { plan, result, extension, labels, witnesses: true, own, build }
    }
}

/// The task of a session with its protections.
pub struct SessionTask {
    /// Aggregates of the session in order, including those of the protections.
    pub plan: Vec<Aggregate>,
    /// Name of the result in events and receipts, such as "model".
    pub result: &'static str,
    /// Extension of the result's file if the user gives no file name.
    pub extension: &'static str,
    /// Which rows must have labels.
    pub labels: Labels,
    /// True if a peer without rows may take part to help the others.
    pub witnesses: bool,
    guards: (Protections, OwnSlots, Labels),
    build: Build,
}

impl SessionTask {
    /// Makes a peer's task.
    ///
    /// # Errors
    /// If the rows do not fit the session.
    pub fn make(
        &self,
        session: Session,
        me: Peer,
        rows: Rows,
        secret: &[u8; 32],
    ) -> Result<Protected, String> {
        let (rows, _) = rows.in_use(&session)?;
        let task = (self.build)(session.clone(), me, rows.clone(), secret)?;
        let key = derive(secret, "learnt-rows", &[]);
        Ok(Protected::new(task, &session, (me, rows), self.guards)?.keyed(*key))
    }

    /// Replaces the function that makes the task of a peer.
    #[must_use]
    pub(crate) fn built_by(self, session: &Session, build: Build) -> Self {
        Self { build: filled::build(session, build), ..self }
    }
}

impl std::fmt::Debug for SessionTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionTask({})", self.result)
    }
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuiltIn({})", self.result)
    }
}

/// Which rows of a peer must have labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Every row.
    All,
    /// Some rows; the task finds the others.
    Some,
    /// No row needs a label.
    None,
}

/// A peer's rows.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Features of the rows. With [`Labels::All`], `data` also has their labels.
    pub data: Arc<Dataset>,
    /// With [`Labels::Some`], class of each row if it is known; otherwise empty.
    pub labels: Vec<Option<u16>>,
    /// Missing values that are filled from the sums of all peers.
    pub gaps: Vec<MissingCell>,
    /// Describes how a table became these rows, if this differs from the session's description.
    pub(crate) preparation: Option<Arc<TableSchema>>,
}

impl Rows {
    /// Returns SHA-256(tag "data" || salt || rows, features as u64 LE || values as f32 LE || labels as u16
    /// LE, 65535 if unknown || of each gap row as u32 LE, column as u16 LE). A peer that shows its rows and
    /// the salt can prove that the digest belongs to these rows. Without the salt, the rows cannot be found
    /// by trying.
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

    /// Returns the rows that this session uses, and the number of rows left out. With
    /// `privacy.unit = "group"` it uses the first `privacy.group_rows` of each group, in the order of the
    /// file.
    ///
    /// # Errors
    /// If the session requires groups and these rows have none.
    pub fn in_use(self, session: &Session) -> Result<(Self, usize), String> {
        let group = session.data.preparation.as_ref().and_then(|table| table.group.as_ref());
        let (Some(group), all) = (group, self.data.rows()) else { return Ok((self, 0)) };
        let Some(groups) = self.data.groups() else {
            return match all {
                0 => Ok((self, 0)),
                _ => Err(format!("rows without groups; the session reads them from column {group:?}")),
            };
        };
        let Some(PrivacyUnit::Group { group_rows }) = session.privacy.noise.map(|noise| noise.unit) else {
            return Ok((self, 0));
        };
        let kept = first_of_each(groups, group_rows.into());
        Ok(if kept.len() == all { (self, 0) } else { (self.subset(&kept), all - kept.len()) })
    }

    /// Returns these rows, in this order.
    fn subset(&self, rows: &[usize]) -> Self {
        let places: BTreeMap<usize, u32> = rows.iter().copied().zip(0..).collect();
        let gap = |gap: &MissingCell| Some(MissingCell { row: *places.get(&(gap.row as usize))?, ..*gap });
        Self {
            data: Arc::new(self.data.subset(rows)),
            labels: rows.iter().filter_map(|&row| self.labels.get(row).copied()).collect(),
            gaps: self.gaps.iter().filter_map(gap).collect(),
            preparation: self.preparation.clone(),
        }
    }

    /// Makes rows. Their labels, if any, are in `data`.
    #[must_use]
    pub fn new(data: Arc<Dataset>) -> Self {
        Self { data, labels: Vec::new(), gaps: Vec::new(), preparation: None }
    }
}

/// Describes the rows of a peer that a digest covers in this session. A receipt shows the text.
#[must_use]
pub(crate) fn digest_covers(session: &Session) -> &'static str {
    session.task.kind().digest_covers
}

/// Returns the task of a session, if this crate or a registered kind has it.
#[must_use]
pub fn built_in(session: &Session) -> Option<SessionTask> {
    let BuiltIn { plan, result, extension, labels, witnesses, own, build } =
        session.task.built_in(session)?;
    let guards = (session.task.protections(), own, labels);
    let plan = protect::plan(session, guards, filled::plan(session, plan));
    let build = filled::build(session, build);
    Some(SessionTask { plan, result, extension, labels, witnesses, guards, build })
}

/// Function that makes a peer's task. Its arguments are the session, the peer's index in the roster, the
/// peer's rows, and 32 bytes that no other peer knows.
pub type Build = Box<dyn Fn(Session, Peer, Rows, &[u8; 32]) -> Result<Arc<dyn Task>, String> + Send + Sync>;
