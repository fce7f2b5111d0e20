//! The task of one peer.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm_data::prepare::Kind;
use flyswarm_mpc::shares::cells::{Opened, Rule};

use super::result::File;
use super::spec::SummarySpec;
use super::table::Layout;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::common::checked::{self, COMPUTED, Check, UNCOMPARED};
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::{History, Outcome, RowUse, Task, Work};

const PATTERN: u32 = 2;
const CELLS: u32 = 3;
const LATE: &str = "this peer came after the cells were counted";

/// Returns the aggregates of a session whose cells must meet this rule.
pub(super) fn plan(session: &Session, rule: &Rule) -> Vec<Aggregate> {
    let passing = "of each cell of the tables whether it has enough rows of enough members, but not how many; \
                   of each sum whether enough rows differ from the commonest value; \
                   of each quantile whether enough rows are below it and above it";
    let mut plan = checked::plan(session, rule, passing);
    plan.push(Aggregate::exact(
        "cells",
        8,
        checked::copied(rule.totals()) as u64,
        "counts, sums, sums of squares and quantiles that may open",
        "the counts, sums and sums of squares over all members of the cells that may open; \
         the quantiles that may open, and each is the value of one patient; \
         nothing else of one member, and nothing of other cells except that they are small or \
         protect a small one",
    ));
    plan
}

/// The task of one peer.
#[derive(Debug)]
pub(super) struct Summary {
    check: Check,
    spec: SummarySpec,
    layout: Arc<Layout>,
    rows: usize,
}

impl Summary {
    /// Makes a peer with these rows. There may be none.
    pub(super) fn new(
        session: Session,
        spec: SummarySpec,
        layout: Arc<Layout>,
        me: Peer,
        data: &Dataset,
        secret: &[u8; 32],
    ) -> Result<Self, String> {
        Check::fits(&session, data)?;
        let rows = data.rows();
        let words = layout.words((0..rows).map(|row| data.row(row)))?;
        let rule = layout.rule(&spec, session.privacy.min_contributors);
        let parties = (spec.compute.clone(), spec.proves());
        let check = Check::new(session, rule, me, (words, secret), parties);
        Ok(Self { check, spec, layout, rows })
    }

    /// Returns which cells and sums are opened.
    pub(super) fn open(&self, history: &History) -> Result<Opened, String> {
        Ok(self.layout.open(&self.check.pattern(PATTERN, history)?.0))
    }

    /// Returns whether a word of the result is opened. `at` counts from the end of the pattern.
    fn opens(&self, open: &Opened, at: usize) -> bool {
        let at = at.saturating_sub(self.check.rule.pattern_words());
        match at.checked_sub(self.check.rule.cells()) {
            None => open.cells.get(at).copied().unwrap_or_default(),
            Some(sum) => match sum.checked_sub(2 * open.measures.len()) {
                None => open.measures.get(sum / 2).copied().unwrap_or_default(),
                Some(quantile) => open.quantiles.get(quantile).copied().unwrap_or_default(),
            },
        }
    }

    /// Returns the opened numbers of all cells and sums; 0 for those that stay closed. Also returns whether
    /// two copies of every share were compared.
    fn numbers(&self, history: &History) -> Result<(Vec<u64>, bool), String> {
        let put = self.check.put_together(CELLS, self.check.rule.totals(), history)?;
        let [one, two, three] = &put.shares;
        let sum = one.iter().zip(two).zip(three).map(|((a, b), c)| a.wrapping_add(*b).wrapping_add(*c));
        Ok((sum.collect(), put.compared()))
    }
}

impl Task for Summary {
    fn plan(&self) -> Vec<Aggregate> {
        plan(&self.check.session, &self.check.rule)
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let pattern = self.check.rule.pattern_words();
        match slot {
            PATTERN => self.check.copies(COMPUTED, history, 0..pattern, |_| true),
            CELLS => {
                let open = self.open(history)?;
                let cells = pattern..pattern + self.check.rule.totals();
                self.check.copies(COMPUTED, history, cells, |at| self.opens(&open, at))
            }
            _ => Err("no such vector without its exchange".into()),
        }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        if slot == COMPUTED { self.check.compute(history, seat) } else { Ok(Source::Own) }
    }

    fn contribution_from_exchange(&self, _slot: u32, result: &Bytes) -> Result<Bytes, String> {
        self.check.computed(result)
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        match slot {
            COMPUTED | PATTERN | CELLS => self.check.allows(COMPUTED, slot, history, members),
            _ => Ok(()),
        }
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        if slot == COMPUTED { self.check.can_continue(history, crowd) } else { Ok(()) }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match slot {
            COMPUTED | PATTERN => self.check.check(COMPUTED, slot, self.check.rule.pattern_words(), history),
            CELLS => {
                self.check.check(COMPUTED, slot, self.check.rule.totals(), history)?;
                let (numbers, _) = self.numbers(history)?;
                let open = self.open(history)?;
                let holds = self.layout.equations().iter().all(|equation| {
                    let all = || equation.parts.iter().chain([&equation.total]);
                    let sum = equation.parts.iter().fold(0u64, |sum, &part| sum.wrapping_add(numbers[part]));
                    !all().all(|&cell| open.cells[cell]) || sum == numbers[equation.total]
                });
                match holds {
                    true => Ok(()),
                    false => Err("the opened cells of a table do not add up to their totals".into()),
                }
            }
            _ => Ok(()),
        }
    }

    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        match slot {
            PATTERN | CELLS if !self.check.counted(COMPUTED, history) => RowUse::LeftOut(LATE),
            _ => RowUse::Included,
        }
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let open = self.open(history)?;
        let (numbers, compared) = self.numbers(history)?;
        let file = File::new(&self.check.session, &self.spec, &self.layout, &open, &numbers);
        let mut outcome = Outcome::new(format!("{:#}\n", file.json()).into_bytes(), file.digest());
        let columns = self.check.session.data.preparation.iter().flat_map(|table| &table.columns);
        let dates = columns.filter(|column| matches!(column.kind, Kind::Date(_)));
        let dates: Vec<&str> = dates.map(|column| &*column.name).collect();
        outcome.details.insert("tables".to_owned(), file.pages(&dates));
        outcome.warnings.extend((!compared).then(|| UNCOMPARED.to_owned()));
        let closed = open.cells.iter().filter(|open| !**open).count();
        outcome.details.insert("headline".to_owned(), file.headline(closed, open.cells.len()).into());
        let summary =
            format!("{} columns, {closed} of {} cells stay closed", self.layout.columns(), open.cells.len());
        Ok(outcome.with_summary(summary))
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let cells = self.rows * (self.layout.variables.len() + self.layout.tables.len());
        Work { lift: if slot == COMPUTED { cells as f64 } else { 0.0 }, ..Work::default() }
    }
}
