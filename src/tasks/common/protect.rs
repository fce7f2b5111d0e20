//! Protections of a session. A task has all of them, except those that it opts out of by name.
//!
//! - **contributors**: a slot after the coin counts the members that have rows, and the members that have
//!   rows of each class. If a number is less than `privacy.min_contributors`, the session ends. A peer that
//!   comes later may not have a class that no peer had before.
//! - **columns**: a slot opens the means and spreads of all rows. Each peer compares its columns with these
//!   values before it sends anything else that is computed from its columns.
//! - **capacity**: a peer with more rows than a sum can count is refused.
//! - **imputation**: missing values are filled from the values of all peers ([`filled`]).
//!
//! [`SessionTask::make`](crate::tasks::SessionTask::make) wraps every task in [`Protected`]. The wrapper adds
//! the slots that the task does not have itself. The task sees neither these slots nor their opened vectors.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use flyswarm_data::scaling::{ColumnSums, Moments, sums};
use flyswarm_learn::learnt::LearntRows;
use flyswarm_learn::model::columns::Beside;
use serde_json::{Map, Value, json};

use super::columns::{compare, lines};
use super::{filled, holders};
use crate::crypto::mask::{self, Wide};
use crate::protocol::context::Aggregate;
use crate::protocol::view::Rng;
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::{History, Labels, Outcome, RowUse, Rows, Task, Work};

/// State of a protection in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The wrapper protects the task. The wrapper adds the slots of the protection, unless the task has them
    /// itself.
    On,
    /// The task protects itself, in this way. The wrapper adds no slot.
    ByTask(&'static str),
    /// The task opts out, for this reason.
    OptOut(&'static str),
}

impl Protection {
    /// Returns whether the wrapper provides the protection.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

/// For each protection, whether the task has it and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protections {
    /// Requires that enough members have rows, and rows of each class.
    pub contributors: Protection,
    /// Compares columns with those of the other peers.
    pub columns: Protection,
    /// Requires that no sum of rows can wrap.
    pub capacity: Protection,
    /// Fills missing values from the values of all peers.
    pub imputation: Protection,
}

impl Protections {
    /// All protections: the default of a task.
    pub const ALL: Self = Self {
        contributors: Protection::On,
        columns: Protection::On,
        capacity: Protection::On,
        imputation: Protection::On,
    };

    /// Opts out of all protections, for one reason.
    #[must_use]
    pub const fn none(reason: &'static str) -> Self {
        let out = Protection::OptOut(reason);
        Self { contributors: out, columns: out, capacity: out, imputation: out }
    }

    /// Describes the effect of each protection in this session, in a text for people.
    pub(crate) fn told(self, session: &Session) -> Vec<(&'static str, String)> {
        let minimum = session.privacy.min_contributors;
        let private = session.privacy.noise.is_some();
        let exact = |on: String| match private {
            true => "off, because privacy.epsilon allows no exact sums".to_owned(),
            false => on,
        };
        let compares = match session.data.checks.compare {
            true => "each peer compares its columns with those of all".to_owned(),
            false => "off: data.check_columns is false".to_owned(),
        };
        let told = [
            (
                "contributors",
                self.contributors,
                exact(format!("at least {minimum} peers have rows of each class")),
            ),
            ("columns", self.columns, exact(compares)),
            ("capacity", self.capacity, "no peer has more rows than a sum can count".to_owned()),
            (
                "imputation",
                self.imputation,
                exact("missing values can take a value from all peers".to_owned()),
            ),
        ];
        let line = |(name, protection, on): (&'static str, Protection, String)| match protection {
            Protection::On => (name, on),
            Protection::ByTask(how) => (name, format!("by the task, which {how}")),
            Protection::OptOut(why) => (name, format!("off: the task {why}")),
        };
        told.into_iter().map(line).collect()
    }
}

/// Slots of a task's own plan that serve a protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnSlots {
    /// Slot that counts the members with rows (word 0), and the members with rows of class l (word 1 + l).
    pub contributors: Option<u32>,
    /// Slot with the means and spreads of all columns.
    pub moments: Option<u32>,
}

impl OwnSlots {
    /// Finds the slots in a plan. `contributors` is the name of the slot that counts the contributors, if the
    /// plan has one. The slot of the moments has the name "moments".
    pub(crate) fn of(plan: &[Aggregate], contributors: &str) -> Self {
        let slot = |name: &str| (0u32..).zip(plan).find(|(_, each)| each.name == name).map(|(slot, _)| slot);
        Self { contributors: slot(contributors), moments: slot("moments") }
    }
}

/// Positions of the protections in the plan of the whole session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layout {
    /// First slot that the wrapper added, and number of slots that it added.
    first: u32,
    added: u32,
    /// Two flags: true if the wrapper added the first, and the second, of the two slots below.
    adds: (bool, bool),
    contributors: Option<u32>,
    moments: Option<u32>,
}

impl Layout {
    /// Computes the positions for a task that has these protections, and that has the slots `own` in its own
    /// plan.
    fn new(session: &Session, protections: Protections, own: OwnSlots) -> Self {
        let exact = session.privacy.noise.is_none();
        let adds = |protection: Protection, wanted: bool, slot: Option<u32>| {
            protection.is_on() && wanted && exact && slot.is_none()
        };
        let counts = adds(protections.contributors, true, own.contributors);
        let compares = adds(protections.columns, session.data.checks.compare, own.moments);
        // The slots follow the coin, and the slots that fill missing values.
        let first = 1 + filled::slots(session);
        let added = u32::from(counts) + u32::from(compares);
        let moved = |slot: Option<u32>| slot.map(|slot| slot + filled::slots(session) + added);
        let contributors = if counts { Some(first) } else { moved(own.contributors) };
        let moments = if compares { Some(first + u32::from(counts)) } else { moved(own.moments) };
        let guards = protections.contributors.is_on() && exact;
        Self {
            first,
            added,
            adds: (counts, compares),
            contributors: contributors.filter(|_| guards),
            moments,
        }
    }

    /// Returns the slot number in the task's own plan, or `None` if the wrapper added the slot.
    fn inner(self, slot: u32) -> Option<u32> {
        if slot < self.first {
            return Some(slot);
        }
        slot.checked_sub(self.added).filter(|&inner| inner >= self.first)
    }

    /// Returns the history that the task sees.
    fn seen(self, history: &History) -> Cow<'_, History> {
        match self.added {
            0 => Cow::Borrowed(history),
            added => Cow::Owned(history.without(self.first, added)),
        }
    }
}

/// Returns the number of classes whose contributors are counted.
fn classes(session: &Session, labels: Labels) -> usize {
    if labels == Labels::None { 0 } else { session.data.classes.len() }
}

/// Returns the plan of the whole session, made from the plan of its task.
pub(crate) fn plan(
    session: &Session,
    (protections, own, labels): (Protections, OwnSlots, Labels),
    mut plan: Vec<Aggregate>,
) -> Vec<Aggregate> {
    let layout = Layout::new(session, protections, own);
    let (counts, compares) = layout.adds;
    let at = plan.len().min(layout.first as usize);
    let contributors = counts.then(|| holders::aggregate(classes(session, labels)));
    let moments = compares.then(|| super::columns::aggregate(session.data.features, ColumnSums::Compared));
    plan.splice(at..at, contributors.into_iter().chain(moments));
    plan
}

/// A task with its protections.
#[derive(Debug)]
pub struct Protected {
    task: Arc<dyn Task>,
    session: Session,
    me: Peer,
    rows: Rows,
    labels: Labels,
    protections: Protections,
    own: OwnSlots,
    layout: Layout,
    /// Key for the hashes of this peer's rows. The hashes do not leave this peer.
    key: Option<[u8; 32]>,
    /// True if the program that made the task reads rows that are not in `rows`.
    reads_rows: bool,
    /// True if the peer leaves when something looks wrong.
    strict: bool,
    /// Findings of the comparison, until the user has seen them.
    found: Mutex<Option<Vec<String>>>,
    compared: OnceLock<Vec<String>>,
}

impl Protected {
    /// Wraps the `task` of a peer that has these rows.
    ///
    /// # Errors
    /// If the rows do not fit the session.
    pub(crate) fn new(
        task: Arc<dyn Task>,
        session: &Session,
        (me, rows): (Peer, Rows),
        (protections, own, labels): (Protections, OwnSlots, Labels),
    ) -> Result<Self, String> {
        if protections.capacity.is_on() {
            fits(session, &rows, labels)?;
        }
        Ok(Self {
            task,
            session: session.clone(),
            me,
            rows,
            labels,
            protections,
            own,
            layout: Layout::new(session, protections, own),
            key: None,
            reads_rows: false,
            strict: false,
            found: Mutex::new(None),
            compared: OnceLock::new(),
        })
    }

    /// Wraps a task that a program outside this crate has made.
    ///
    /// # Errors
    /// If the rows do not fit the session.
    pub(crate) fn of_program(
        task: Arc<dyn Task>,
        session: &Session,
        part: (Peer, Rows),
    ) -> Result<Self, String> {
        let guards = (session.task.protections(), OwnSlots::default(), Labels::None);
        Ok(Self { reads_rows: true, ..Self::new(task, session, part, guards)? })
    }

    /// Returns the task with a key. The outcome of the task then has a keyed hash of each row that the result
    /// was trained on.
    #[must_use]
    pub(crate) fn keyed(self, key: [u8; 32]) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Sets `strict`. If it is true, this peer leaves the session if one of its columns looks wrong.
    #[must_use]
    pub(crate) fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Returns the findings of the comparison since the last call, one line for each.
    #[must_use]
    pub(crate) fn take_findings(&self) -> Vec<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Returns the slot of the moments if this peer has rows to compare.
    fn moments(&self) -> Option<u32> {
        let out = matches!(self.protections.columns, Protection::OptOut(_));
        self.layout.moments.filter(|_| self.rows.data.rows() > 0 && !out)
    }

    /// Returns the words of the opened moments.
    fn opened(&self, history: &History) -> Option<Vec<Wide>> {
        Some(Wide::all(history.vector(self.moments()?)?))
    }

    fn filled(&self, history: &History) -> Result<Rows, String> {
        filled::rows(&self.session, &self.rows, history)
    }

    /// Returns hashes of the rows of this peer that the result with this digest was trained on.
    fn learnt(&self, result: [u8; 32], history: &History) -> Option<LearntRows> {
        let rows = self.learnt_rows(history)?;
        let mut learnt = LearntRows::new(result, self.key?);
        let Rows { data, labels, .. } = self.filled(history).ok()?;
        let label = |row: usize| data.labels().get(row).copied().or_else(|| *labels.get(row)?);
        learnt.add(&data, label, &rows);
        Some(learnt)
    }

    /// Compares this peer's columns with those of all peers. The peer's report shows the comparison. Returns
    /// `None` if no deviations were opened.
    fn beside(&self, history: &History) -> Option<Beside> {
        let Rows { data, .. } = self.filled(history).ok()?;
        let opened = self.opened(history)?;
        let pool = Moments::from_words(sums::parts(&opened, data.features()).0, data.features()).ok()?;
        let known = &self.session.data;
        Some(Beside::moments(&data, &known.columns, &pool)?.dated(known.preparation.as_deref()))
    }

    /// Compares this peer's columns with those of all peers before it sends anything after the moments.
    fn check_columns(&self, slot: u32, history: &History) -> Result<(), String> {
        let compares = self.session.data.checks.compare;
        let Some(at) = self.moments().filter(|&at| compares && slot > at) else { return Ok(()) };
        let Some(opened) = self.opened(history) else { return Ok(()) };
        let found = self.compared.get_or_init(|| {
            let Ok(Rows { data, .. }) = self.filled(history) else { return Vec::new() };
            let counted = history.members(at).contains(&self.me);
            let findings = compare(&data, &opened, counted);
            let found = lines(&findings, &self.session.data.columns);
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
            found
        });
        match found.first() {
            Some(first) if self.strict => {
                Err(format!("left before its rows were counted (--strict): {first}"))
            }
            _ => Ok(()),
        }
    }

    /// If the contributors have been counted, checks before a contribution that all of this peer's classes
    /// were counted.
    fn check_counted(&self, slot: u32, history: &History) -> Result<(), String> {
        let Some(at) = self.layout.contributors.filter(|&at| slot > at) else { return Ok(()) };
        let own = class_rows(&self.rows, classes(&self.session, self.labels));
        holders::refuse_uncounted(&self.session, at, &own, history.vectors())
    }
}

/// Counts the rows of each class.
fn class_rows(rows: &Rows, classes: usize) -> Vec<u64> {
    if rows.labels.is_empty() {
        return rows.data.class_counts(classes);
    }
    let mut counts = vec![0; classes];
    for label in rows.labels.iter().flatten() {
        if let Some(count) = counts.get_mut(usize::from(*label)) {
            *count += 1;
        }
    }
    counts
}

/// Checks that the rows fit the session, or returns the reason why not.
fn fits(session: &Session, rows: &Rows, labels: Labels) -> Result<(), String> {
    match labels {
        Labels::All => holders::fits(session, &rows.data),
        Labels::Some | Labels::None => {
            holders::fits_features(session, &rows.data)?;
            holders::fits_ring(session, &rows.data, mask::capacity)
        }
    }
}

// With this lint, a new method of `Task` must be forwarded here.
#[deny(clippy::missing_trait_methods)]
impl Task for Protected {
    fn plan(&self) -> Vec<Aggregate> {
        plan(&self.session, (self.protections, self.own, self.labels), self.task.plan())
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        self.check_columns(slot, history)?;
        self.check_counted(slot, history)?;
        if let Some(inner) = self.layout.inner(slot) {
            return self.task.contribution(inner, &self.layout.seen(history));
        }
        if self.layout.contributors == Some(slot) {
            let held = class_rows(&self.rows, classes(&self.session, self.labels));
            return Ok(holders::words(self.rows.data.rows() as u64, &held));
        }
        let Rows { data, .. } = self.filled(history)?;
        let words = ColumnSums::Compared.of(&data);
        Ok(Wide::bytes(&words).into())
    }

    fn noisy_contribution(&self, slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        let inner = self.layout.inner(slot).ok_or("the slot of a protection has no noise")?;
        self.task.noisy_contribution(inner, &self.layout.seen(history), rng)
    }

    fn restore_noisy(&self, slot: u32, vector: &Bytes) {
        if let Some(inner) = self.layout.inner(slot) {
            self.task.restore_noisy(inner, vector);
        }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        self.check_columns(slot, history)?;
        self.check_counted(slot, history)?;
        match self.layout.inner(slot) {
            Some(inner) => self.task.exchange(inner, &self.layout.seen(history), seat),
            None => Ok(Source::Own),
        }
    }

    fn contribution_from_exchange(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        let inner = self.layout.inner(slot).ok_or("the slot of a protection has no exchange")?;
        self.task.contribution_from_exchange(inner, result)
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        if let Some(at) = self.layout.contributors.filter(|&at| slot > at) {
            let lost = history.members(at).iter().filter(|peer| !members.contains(peer)).count();
            holders::enough(&self.session, at, history.vectors(), lost)?;
        }
        match self.layout.inner(slot) {
            Some(inner) => self.task.allows(inner, &self.layout.seen(history), members),
            None => Ok(()),
        }
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        match self.layout.inner(slot) {
            Some(inner) => self.task.can_continue(inner, &self.layout.seen(history), crowd),
            None => Ok(()),
        }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        if self.layout.contributors == Some(slot) {
            holders::enough(&self.session, slot, history.vectors(), 0)?;
        }
        match self.layout.inner(slot) {
            Some(inner) => self.task.check(inner, &self.layout.seen(history)),
            None => Ok(()),
        }
    }

    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        let behind = committed.saturating_sub(self.layout.first).min(self.layout.added);
        self.layout.inner(slot).is_none_or(|inner| self.task.needed_by_plan(inner, committed - behind))
    }

    fn still_needed(&self, slot: u32, history: &History) -> bool {
        let seen = self.layout.seen(history);
        self.layout.inner(slot).is_none_or(|inner| self.task.still_needed(inner, &seen))
    }

    fn ends(&self, history: &History) -> bool {
        self.task.ends(&self.layout.seen(history))
    }

    fn metrics(&self, slot: u32, history: &History) -> Map<String, Value> {
        let seen = self.layout.seen(history);
        self.layout.inner(slot).map(|inner| self.task.metrics(inner, &seen)).unwrap_or_default()
    }

    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        let used = match self.layout.inner(slot) {
            Some(inner) => self.task.row_use(inner, &self.layout.seen(history)),
            None => RowUse::Included,
        };
        match used {
            RowUse::NotUsed => used,
            _ if self.rows.data.rows() == 0 && !self.reads_rows => RowUse::LeftOut("this peer has no rows"),
            _ => used,
        }
    }

    fn learnt_rows(&self, history: &History) -> Option<Vec<usize>> {
        self.task.learnt_rows(&self.layout.seen(history))
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        let mut outcome = self.task.outcome(&self.layout.seen(history), unix)?;
        outcome.learnt_rows = self.learnt(outcome.digest, history).map(|learnt| learnt.to_text());
        if let Some(beside) = self.beside(history)
            && let Value::Object(own) = outcome.own.get_or_insert_with(|| json!({}))
        {
            own.insert("columns".to_owned(), json!(beside));
        }
        Ok(outcome)
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        match self.layout.inner(slot) {
            Some(inner) => self.task.work(inner, &self.layout.seen(history)),
            None if self.layout.moments == Some(slot) => {
                Work { lift: self.rows.data.values().len() as f64, ..Work::default() }
            }
            None => Work::default(),
        }
    }
}

#[cfg(test)]
mod tests;
