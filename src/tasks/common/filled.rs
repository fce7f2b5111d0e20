//! Fills missing values with the mean or the most frequent level over all peers (spec, section 15g).
//!
//! If a session fills columns, two slots follow the coin. For each column to fill, `values` counts the peers
//! that have at least one value, and `fills` has sums over the values of all peers. Each peer fills its rows
//! with these sums. The task then runs as if its rows had been complete, and never sees the two slots.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flyswarm_data::prepare::TableSchema;
use flyswarm_data::prepare::value::date;
use flyswarm_data::prepare::{Fill, Kind};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::crypto::mask::Wide;
use crate::protocol::context::Aggregate;
use crate::protocol::view::Rng;
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::{Build, History, Outcome, RowUse, Rows, Task, Work};

/// Slot of `values`.
const VALUES: u32 = 1;
/// Slot of `fills`.
const FILLS: u32 = 2;
/// Number of slots that the task does not see.
const SLOTS: u32 = 2;

/// Returns the description of the session's table if it has columns to fill.
fn waiting(session: &Session) -> Option<&Arc<TableSchema>> {
    session.data.preparation.as_ref().filter(|preparation| preparation.pooled_words() > 0)
}

/// Returns the number of slots that are added.
pub(crate) fn slots(session: &Session) -> u32 {
    if waiting(session).is_some() { SLOTS } else { 0 }
}

/// Returns the plan of the whole session, made from the plan of its task.
pub(crate) fn plan(session: &Session, mut plan: Vec<Aggregate>) -> Vec<Aggregate> {
    if let Some(preparation) = waiting(session) {
        let columns = preparation.pooled().count() as u64;
        let values = Aggregate::exact(
            "values",
            4,
            columns,
            "for each column that is filled from all peers, the number of members that have a value in it",
            "how many members have a value of each column that is filled from all peers",
        );
        let fills = Aggregate::exact(
            "fills",
            64,
            preparation.pooled_words() as u64,
            "values that replace missing values",
            "of each such column how many values there are and their mean, or how many rows have each \
             level; a small number reveals that a member has such a row",
        );
        let at = plan.len().min(VALUES as usize);
        plan.splice(at..at, [values, fills]);
    }
    plan
}

/// Wraps a peer's task so that it fills its rows first, if the session has columns to fill.
pub(crate) fn build(session: &Session, build: Build) -> Build {
    if waiting(session).is_none() {
        return build;
    }
    let build = Arc::new(build);
    Box::new(move |session, me, rows, secret| {
        let unfilled = build(session.clone(), me, rows.clone(), secret)?;
        let (build, secret) = (build.clone(), Zeroizing::new(*secret));
        Ok(Arc::new(Filled { session, me, rows, secret, build, unfilled, task: OnceLock::new() }))
    })
}

/// Returns the rows for the task: filled from the opened sums if the session has columns to fill.
pub(crate) fn rows(session: &Session, rows: &Rows, history: &History) -> Result<Rows, String> {
    let Some(preparation) = waiting(session) else { return Ok(rows.clone()) };
    let preparation = resolved(preparation, history)?;
    let data = match rows.gaps.is_empty() {
        true => rows.data.clone(),
        false => Arc::new(preparation.filled(&rows.data, &rows.gaps).map_err(|error| error.to_string())?),
    };
    let (labels, gaps, preparation) = (rows.labels.clone(), Vec::new(), Some(Arc::new(preparation)));
    Ok(Rows { data, labels, gaps, preparation })
}

fn resolved(preparation: &TableSchema, history: &History) -> Result<TableSchema, String> {
    let opened = history.vector(FILLS).ok_or("the sums that fill missing values are not open")?;
    preparation.resolved(&Wide::all(opened)).map_err(|error| error.to_string())
}

/// Task of a peer whose rows have gaps.
struct Filled {
    session: Session,
    me: Peer,
    rows: Rows,
    secret: Zeroizing<[u8; 32]>,
    build: Arc<Build>,
    /// Task with the incomplete rows, for methods that depend only on the session.
    unfilled: Arc<dyn Task>,
    /// Task with the filled rows. It is set when the rows have been filled.
    task: OnceLock<Arc<dyn Task>>,
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filled({}, {:?}, <redacted>)", self.me, self.unfilled)
    }
}

impl Filled {
    /// Returns the task with filled rows, and the history that this task sees.
    fn at(&self, history: &History) -> Result<(&Arc<dyn Task>, History), String> {
        let task = match self.task.get() {
            Some(task) => task,
            None => {
                let rows = rows(&self.session, &self.rows, history)?;
                let task = (self.build)(self.session.clone(), self.me, rows, &self.secret)?;
                self.task.get_or_init(|| task)
            }
        };
        Ok((task, history.without(VALUES, SLOTS)))
    }

    fn preparation(&self) -> Result<&TableSchema, String> {
        waiting(&self.session).map(|preparation| &**preparation).ok_or_else(|| "no column is filled".into())
    }

    /// Checks that each column has at least the required number of peers with a value. `lost` of the counted
    /// peers are gone, and they may be among those with a value.
    fn enough(&self, history: &History, lost: usize) -> Result<(), String> {
        let minimum = usize::from(self.session.privacy.min_contributors);
        let Some(values) = history.vector(VALUES) else { return Ok(()) };
        for (column, word) in self.preparation()?.pooled().zip(values.as_chunks::<4>().0) {
            let counted = u32::from_le_bytes(*word) as usize;
            if counted.saturating_sub(lost) < minimum.max(1) {
                let gone = if lost > 0 { format!(", and {lost} of them are gone") } else { String::new() };
                return Err(format!(
                    "column {:?}: only {counted} peers have values{gone}; the session requires {minimum} \
                     (privacy.min_contributors)",
                    column.name
                ));
            }
        }
        Ok(())
    }
}

#[deny(clippy::missing_trait_methods)]
impl Task for Filled {
    fn plan(&self) -> Vec<Aggregate> {
        plan(&self.session, self.unfilled.plan())
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let (data, gaps) = (&self.rows.data, &self.rows.gaps);
        match slot {
            0 => self.unfilled.contribution(slot, history),
            VALUES => {
                let held = self.preparation()?.pooled_held(data, gaps);
                Ok(held.into_iter().flat_map(|held| u32::from(held).to_le_bytes()).collect())
            }
            FILLS => {
                let words = self.preparation()?.pooled_values(data, gaps);
                Ok(Wide::bytes(&words).into())
            }
            _ => self.at(history).and_then(|(task, seen)| task.contribution(slot - SLOTS, &seen)),
        }
    }

    fn noisy_contribution(&self, _slot: u32, _history: &History, _rng: &mut Rng) -> Result<Bytes, String> {
        Err("exact sums fill missing values, and a private session has none".into())
    }

    fn restore_noisy(&self, _slot: u32, _vector: &Bytes) {}

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        if slot <= FILLS {
            return Ok(Source::Own);
        }
        self.at(history).and_then(|(task, seen)| task.exchange(slot - SLOTS, &seen, seat))
    }

    fn contribution_from_exchange(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        // The result of an exchange uses the same rows as the contribution.
        self.task
            .get()
            .unwrap_or(&self.unfilled)
            .contribution_from_exchange(slot.saturating_sub(SLOTS), result)
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        match slot {
            0 | VALUES => Ok(()),
            FILLS => {
                let counted = history.members(VALUES);
                self.enough(history, counted.iter().filter(|peer| !members.contains(peer)).count())
            }
            _ => self.at(history).and_then(|(task, seen)| task.allows(slot - SLOTS, &seen, members)),
        }
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        match slot {
            0 | VALUES | FILLS => Ok(()),
            _ => self.at(history).and_then(|(task, seen)| task.can_continue(slot - SLOTS, &seen, crowd)),
        }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match slot {
            0 => self.unfilled.check(slot, history),
            VALUES => self.enough(history, 0),
            FILLS => resolved(self.preparation()?, history).map(drop),
            _ => self.at(history).and_then(|(task, seen)| task.check(slot - SLOTS, &seen)),
        }
    }

    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        match slot {
            0 => self.unfilled.needed_by_plan(slot, committed.saturating_sub(SLOTS)),
            VALUES | FILLS => true,
            _ => self.unfilled.needed_by_plan(slot - SLOTS, committed.saturating_sub(SLOTS)),
        }
    }

    fn still_needed(&self, slot: u32, history: &History) -> bool {
        match slot {
            VALUES | FILLS => true,
            _ => self.unfilled.still_needed(slot.saturating_sub(SLOTS), &history.without(VALUES, SLOTS)),
        }
    }

    fn ends(&self, history: &History) -> bool {
        self.unfilled.ends(&history.without(VALUES, SLOTS))
    }

    fn metrics(&self, slot: u32, history: &History) -> Map<String, Value> {
        if slot > FILLS {
            return self
                .at(history)
                .map(|(task, seen)| task.metrics(slot - SLOTS, &seen))
                .unwrap_or_default();
        }
        let Some((before, after)) = self
            .preparation()
            .ok()
            .filter(|_| slot == FILLS)
            .and_then(|before| Some((before, resolved(before, history).ok()?)))
        else {
            return Map::new();
        };
        let fills =
            before.columns.iter().zip(&after.columns).filter(|(column, _)| column.fill == Fill::Pooled);
        let shown = fills.map(|(_, column)| {
            let value = match (&column.fill, &column.kind) {
                (Fill::Number(days), Kind::Date(_)) => date(*days).map_or_else(|| json!(days), Value::String),
                (Fill::Number(number), _) => json!(number),
                (Fill::Level(level), _) => json!(level),
                _ => Value::Null,
            };
            (column.name.clone(), value)
        });
        Map::from_iter([("fills".to_owned(), Value::Object(shown.collect()))])
    }

    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        match slot {
            0 | VALUES | FILLS => RowUse::Included,
            _ => self.at(history).map_or(RowUse::Included, |(task, seen)| task.row_use(slot - SLOTS, &seen)),
        }
    }

    fn learnt_rows(&self, history: &History) -> Option<Vec<usize>> {
        self.at(history).ok().and_then(|(task, seen)| task.learnt_rows(&seen))
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        self.at(history).and_then(|(task, seen)| task.outcome(&seen, unix))
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        if slot <= FILLS {
            let numbers = self.rows.data.values().len() as f64;
            return Work { lift: if slot == 0 { 0.0 } else { numbers }, ..Work::default() };
        }
        self.at(history).map(|(task, seen)| task.work(slot - SLOTS, &seen)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
