//! Columns that look wrong beside those of all peers: other units, codes for missing values, a constant.
//!
//! What is found is told to the peer whose rows they are, and to nobody else. Three tests, chosen so that
//! honest differences between peers are not taken for mistakes (thresholds are guesses):
//!
//! - **mean**: with n rows here and N at the others, of mean M and deviation S, the mean here is more than
//!   [`FAR`] S away, and more than [`UNLIKELY`] S sqrt(1/n + 1/N);
//! - **scale**: the deviation here is more than [`SCALE`] times that of the others, or less than a part in so
//!   many;
//! - **constant**: one value c here, and rows like the others' would show another: their first two moments
//!   leave at least the share p = (M - c)^2 / (S^2 + (M - c)^2) of other values (Cauchy-Schwarz), and n p is
//!   at least [`EXPECTED`].
//!
//! "The others" is the opened sum less this peer's own part of it. And one test that looks at this peer's rows
//! alone: **codes**, a repeated smallest or largest value such as -999 or 9999, far from all others.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyswarm_learn::model::columns::Beside;
use serde_json::{Map, Value, json};

use super::filled;
use crate::data::Dataset;
use crate::protocol::context::Quantity;
use crate::protocol::view::Rng;
use crate::session::{Peer, Session, TaskSpec};
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::{History, Outcome, Rows, Task, Work};
use flyswarm_data::scaling::{Moments, moments};

/// Deviations between means. Rows of one class and rows of another seldom lie so far apart.
pub(crate) const FAR: f64 = 6.0;
/// Standard errors between means.
pub(crate) const UNLIKELY: f64 = 8.0;
/// Ratio of deviations; kilo is 1,000.
pub(crate) const SCALE: f64 = 100.0;
/// Other values that should have been seen.
pub(crate) const EXPECTED: f64 = 20.0;
/// Rows below which nothing is said of means, scales and constants.
pub(crate) const FEWEST_ROWS: u64 = 10;
/// Columns of one kind that are named.
const NAMED: usize = 8;

/// What looks wrong about a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Odd {
    /// The mean here, that of the others, and their deviation.
    Mean(f64, f64, f64),
    /// The deviation here is so many times that of the others.
    Scale(f64),
    /// The one value here, and the mean and deviation of the others.
    Constant(f64, f64, f64),
    /// A value that looks like a code for missing, and how many rows have it.
    Code(f32, usize),
}

/// A column, from 0, and what looks wrong about it.
pub(crate) type Finding = (usize, Odd);

/// Columns whose smallest or largest value looks like a code for missing.
#[must_use]
pub(crate) fn codes(data: &Dataset) -> Vec<Finding> {
    let d = data.features();
    let mut findings = Vec::new();
    for column in 0..d {
        let values = || (0..data.rows()).map(|row| data.row(row)[column]);
        // The two smallest different values, with how often the first occurs; and the two largest.
        let ends = [1.0f32, -1.0].map(|sign| {
            let (mut first, mut second, mut count) = (f32::INFINITY, f32::INFINITY, 0usize);
            for value in values().map(|value| sign * value) {
                if value < first {
                    (second, first, count) = (first, value, 1);
                } else if value == first {
                    count += 1;
                } else if value < second {
                    second = value;
                }
            }
            (sign * first, sign * second, count)
        });
        let [(least, above, lows), (most, below, highs)] = ends;
        let found = if lows > 1 && is_code(least) && stands_apart(least, above, most) {
            Some((least, lows))
        } else if highs > 1 && is_code(most) && stands_apart(most, below, least) {
            Some((most, highs))
        } else {
            None
        };
        findings.extend(found.map(|(value, rows)| (column, Odd::Code(value, rows))));
    }
    findings
}

/// -9, -99, -999 ... and 999, 9999 ...
fn is_code(value: f32) -> bool {
    let nines = (1..=9).any(|digits| value.abs() == (10f64.powi(digits) - 1.0) as f32);
    nines && !(0.0..=100.0).contains(&value)
}

/// Whether a value lies farther from its nearest neighbour than all others lie from each other, or is the
/// only negative one.
fn stands_apart(value: f32, next: f32, other_end: f32) -> bool {
    let (gap, range) =
        ((f64::from(next) - f64::from(value)).abs(), (f64::from(other_end) - f64::from(next)).abs());
    next.is_finite() && (gap > range || (value < 0.0 && next >= 0.0))
}

/// Columns whose moments are far from the others'. `own` and `opened` are words of moments with squares
/// ([`mod@moments`]); `own` is part of `opened` where `counted`.
#[must_use]
pub(crate) fn compare(own: &[u64], opened: &[u64], counted: bool, features: usize) -> Vec<Finding> {
    if own.len() != opened.len() {
        return Vec::new();
    }
    let rest = opened.iter().zip(own).map(|(all, own)| if counted { all.wrapping_sub(*own) } else { *all });
    let rest = Moments::from_words(&rest.collect::<Vec<_>>(), features);
    // Without rows on either side there is nothing to compare.
    let (Ok(own), Ok(rest)) = (Moments::from_words(own, features), rest) else { return Vec::new() };
    let (Some(variances), Some(theirs)) = (&own.variances, &rest.variances) else { return Vec::new() };
    if own.rows < FEWEST_ROWS || rest.rows < FEWEST_ROWS {
        return Vec::new();
    }
    let (n, others) = (own.rows as f64, rest.rows as f64);
    let columns = own.means.iter().zip(variances).zip(rest.means.iter().zip(theirs)).enumerate();
    let odd = |(column, ((&mean, &variance), (&their_mean, &their_variance)))| {
        let (here, there) = (f64::sqrt(variance), f64::sqrt(their_variance));
        let apart = f64::abs(mean - their_mean);
        let far = apart > FAR * there && apart > UNLIKELY * there * f64::sqrt(1.0 / n + 1.0 / others);
        let odd = if here == 0.0 {
            let share = apart * apart / (their_variance + apart * apart);
            (their_variance > 0.0 && n * share >= EXPECTED).then_some(Odd::Constant(mean, their_mean, there))
        } else if there > 0.0 && !(1.0 / SCALE..=SCALE).contains(&(here / there)) {
            Some(Odd::Scale(here / there))
        } else {
            (far && there > 0.0).then_some(Odd::Mean(mean, their_mean, there))
        };
        odd.map(|odd| (column, odd))
    };
    columns.filter_map(odd).collect()
}

/// One line for each kind of finding; `names` may be empty.
#[must_use]
pub(crate) fn lines(findings: &[Finding], names: &[String]) -> Vec<String> {
    type Kind = (fn(&Odd) -> bool, &'static str);
    let kinds: [Kind; 4] = [
        (|odd| matches!(odd, Odd::Code(..)), "values that look like codes for missing"),
        (
            |odd| matches!(odd, Odd::Scale(_)),
            "other units? values spread differently than at the other peers",
        ),
        (|odd| matches!(odd, Odd::Mean(..)), "other units? means far from those of the other peers"),
        (|odd| matches!(odd, Odd::Constant(..)), "constant here only"),
    ];
    let mut out = Vec::new();
    for (of_kind, what) in kinds {
        let found: Vec<_> = findings.iter().filter(|(_, odd)| of_kind(odd)).collect();
        let shown: Vec<_> = found
            .iter()
            .take(NAMED)
            .map(|(column, odd)| format!("{} {odd}", named(*column, names)))
            .collect();
        if found.is_empty() {
            continue;
        }
        let more = match found.len() - shown.len() {
            0 => String::new(),
            more => format!(", and {more} columns more"),
        };
        out.push(format!("{what}: {}{more}", shown.join(", ")));
    }
    out
}

fn named(column: usize, names: &[String]) -> String {
    names.get(column).map_or_else(|| format!("feature {}", column + 1), |name| format!("{name:?}"))
}

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mean(mean, theirs, deviation) => {
                write!(f, "(mean {mean:.4}, at the others {theirs:.4} +- {deviation:.4})")
            }
            Self::Scale(ratio) if *ratio > 1.0 => write!(f, "({ratio:.0} times as widely)"),
            Self::Scale(ratio) => write!(f, "(the others' {:.0} times as widely)", 1.0 / ratio),
            Self::Constant(value, theirs, deviation) => {
                write!(f, "(always {value}, at the others {theirs:.4} +- {deviation:.4})")
            }
            Self::Code(value, rows) => write!(f, "({value} in {rows} rows)"),
        }
    }
}

/// A task whose peer compares its columns with the moments that the session opens, before it gives anything
/// that is made of them.
#[derive(Debug)]
pub(crate) struct Compared {
    task: Arc<dyn Task>,
    session: Session,
    me: Peer,
    rows: Rows,
    /// Whether it leaves where something looks wrong.
    strict: bool,
    /// The slot of the moments, where the session opens them.
    moments: Option<u32>,
    /// Whether it looks for columns that are wrong.
    compares: bool,
    /// Once it has compared; taken by whoever tells the user.
    found: Mutex<Option<Vec<String>>>,
    compared: std::sync::OnceLock<Vec<String>>,
}

impl Compared {
    /// `task` with these rows. With `strict` it ends the session for this peer where something looks wrong.
    #[must_use]
    pub(crate) fn new(task: Arc<dyn Task>, session: &Session, me: Peer, rows: Rows, strict: bool) -> Self {
        // Whatever a custom task calls its quantities.
        let known = rows.data.rows() > 0 && !matches!(session.task, TaskSpec::Custom(_));
        let slot = task.plan().iter().position(|quantity| quantity.name == "moments").filter(|_| known);
        Self {
            task,
            session: session.clone(),
            me,
            rows,
            strict,
            moments: slot.and_then(|slot| u32::try_from(slot).ok()),
            compares: session.data.checks.compare,
            found: Mutex::new(None),
            compared: std::sync::OnceLock::new(),
        }
    }

    /// What was found since the last call, a line each.
    #[must_use]
    pub(crate) fn take_findings(&self) -> Vec<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// The words of the opened moments.
    fn opened(&self, history: &History) -> Option<Vec<u64>> {
        let (words, _) = history.vector(self.moments?)?.as_chunks::<8>();
        Some(words.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }

    /// This peer's columns beside everybody's, for its report; `None` where no spreads were opened.
    fn beside(&self, history: &History) -> Option<Beside> {
        let Rows { data, .. } = filled::rows(&self.session, &self.rows, history).ok()?;
        let pool = Moments::from_words(&self.opened(history)?, data.features()).ok()?;
        Beside::moments(&data, &self.session.data.columns, &pool)
    }

    fn check_columns(&self, slot: u32, history: &History) -> Result<(), String> {
        let Some(at) = self.moments.filter(|&at| self.compares && slot > at) else { return Ok(()) };
        let Some(opened) = self.opened(history) else { return Ok(()) };
        let found = self.compared.get_or_init(|| {
            let Ok(Rows { data, .. }) = filled::rows(&self.session, &self.rows, history) else {
                return Vec::new();
            };
            let counted = history.members(at).contains(&self.me);
            let findings = compare(&moments(&data, true), &opened, counted, data.features());
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
}

impl Task for Compared {
    fn plan(&self) -> Vec<Quantity> {
        self.task.plan()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        self.check_columns(slot, history)?;
        self.task.contribution(slot, history)
    }

    fn noised(&self, slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        self.task.noised(slot, history, rng)
    }

    fn take_noised(&self, slot: u32, vector: &Bytes) {
        self.task.take_noised(slot, vector);
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        self.check_columns(slot, history)?;
        self.task.exchange(slot, history, seat)
    }

    fn exchanged(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        self.task.exchanged(slot, result)
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        self.task.allows(slot, history, members)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        self.task.check(slot, history)
    }

    fn retains(&self, slot: u32, frozen: u32) -> bool {
        self.task.retains(slot, frozen)
    }

    fn keeps(&self, slot: u32, history: &History) -> bool {
        self.task.keeps(slot, history)
    }

    fn ends(&self, history: &History) -> bool {
        self.task.ends(history)
    }

    fn figures(&self, slot: u32, history: &History) -> Map<String, Value> {
        self.task.figures(slot, history)
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        let mut outcome = self.task.outcome(history, unix)?;
        if let Some(beside) = self.beside(history)
            && let Value::Object(own) = outcome.own.get_or_insert_with(|| json!({}))
        {
            own.insert("columns".to_owned(), json!(beside));
        }
        Ok(outcome)
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        self.task.work(slot, history)
    }
}

#[cfg(test)]
mod tests;
