//! Part of one peer in the task.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyswarm_glm::{Model, Next, Round, Row, Totals};
use flyswarm_mpc::shares::cells::{Opened, add_up};
use serde_json::{Map, Value, json};

use super::design::{Design, MOST_ROWS};
use super::result::{self, File};
use super::spec::GlmSpec;
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Session};
use crate::tasks::common::checked::{COMPUTED, Check, FEWEST, WORDS};
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::xclp::parties;
use crate::tasks::{History, Outcome, RowUse, Task, Work};

const PATTERN: u32 = 2;
const ROWS: u32 = 3;
/// Slot of the first round.
const FIT: u32 = 4;
const LATE: &str = "this peer came after the cells were checked";
/// Warning if a party was gone.
const UNCOMPARED: &str = "one of the three computing peers was gone when the check opened, so that two copies of each share \
                          could not be compared: a change by one of the other two would not be seen";

/// Description of the numbers that a round reveals.
const REVEALS: &str = "sums over all rows of all members: of products of two columns, weighted by the fitted variances; of \
                       each column times the residuals, in the first round times the outcome; nothing of one member";

/// Returns the aggregates of a session.
pub(super) fn plan(session: &Session, spec: &GlmSpec, design: &Design) -> Option<Vec<Aggregate>> {
    let rule = design.rule(spec, session.privacy.min_contributors);
    let model = spec.model(design)?;
    let peers = session.roster.len() as u64;
    let copies = |words: usize| 6 * (1 + words as u64);
    let mut plan = vec![
        Aggregate::coin(),
        Aggregate::exact(
            "computed",
            4,
            peers * WORDS as u64,
            "which members computed",
            "which members computed, and salted commitments to their counts",
        )
        .with_exchange(),
        Aggregate::exact(
            "pattern",
            8,
            copies(rule.pattern_words()),
            "which cells of the model have enough rows of enough members",
            "of each cell of two terms of the model whether it has enough rows of enough members, but not how many; of \
             each number whether enough rows differ from its commonest value",
        ),
        Aggregate::exact(
            "rows",
            8,
            copies(1),
            "rows in all",
            "how many rows without missing values all members have together",
        ),
    ];
    let words = Totals::words(design.width()) as u64;
    plan.extend((1..=model.most_rounds()).map(|round| {
        Aggregate::exact(
            &format!("fit-{round}"),
            8,
            words,
            "matrix and gradient of a round of the fit",
            REVEALS,
        )
    }));
    Some(plan)
}

/// Part of one peer in the task.
#[derive(Debug)]
pub(super) struct Glm {
    check: Check,
    spec: GlmSpec,
    design: Arc<Design>,
    model: Model,
    data: Arc<Dataset>,
    /// Rows without missing values.
    used: usize,
    /// Number of committed slots, and whether the fit was complete after them: a node asks often.
    ended: Mutex<(u32, bool)>,
}

impl Glm {
    /// Makes a peer with these rows, possibly none.
    pub(super) fn new(
        session: Session,
        spec: GlmSpec,
        design: Arc<Design>,
        me: Peer,
        data: Arc<Dataset>,
        secret: &[u8; 32],
    ) -> Result<Self, String> {
        let (rows, most) = (data.rows(), MOST_ROWS / session.roster.len().max(1));
        if rows > most {
            return Err(format!(
                "{rows} rows: with {} peers each may have at most {most}",
                session.roster.len()
            ));
        }
        if rows > 0 && data.features() != session.data.features as usize {
            return Err(format!(
                "rows have {} features, the session has {}",
                data.features(),
                session.data.features
            ));
        }
        let (words, used) = design.words((0..rows).map(|row| data.row(row)))?;
        let salt = derive(secret, "salt of the input", &session.id().0);
        let rule = Arc::new(design.rule(&spec, session.privacy.min_contributors));
        let model = spec.model(&design).ok_or("the family of the model is unknown")?;
        let parties = (spec.compute.clone(), spec.proves());
        let check = Check::new(session, rule, me, (words, salt), parties);
        Ok(Self { check, spec, design, model, data, used, ended: Mutex::default() })
    }

    fn passed(&self, history: &History) -> Result<(), String> {
        let vector = history.vector(PATTERN).ok_or("the pattern is not open")?;
        let rule = &self.check.rule;
        let put = self.check.put_together(vector, rule.pattern_words())?;
        let pattern = Opened::of(rule, &add_up(rule, put.shares.each_ref().map(|share| &share[..])));
        match self.design.refused(&pattern) {
            None => Ok(()),
            Some(names) => Err(format!(
                "the model is refused before anything opens, because cells have fewer than {} rows, fewer than {} peers, or \
                 fewer than {} rows without one peer: {names}; join levels or leave terms out",
                rule.threshold, rule.contributors, rule.rest
            )),
        }
    }

    /// Returns the opened number of rows, and whether all copies were compared.
    fn rows(&self, history: &History) -> Result<(u64, bool), String> {
        let vector = history.vector(ROWS).ok_or("the number of rows is not open")?;
        let put = self.check.put_together(vector, 1)?;
        let rows = put.shares.iter().fold(0u64, |sum, share| sum.wrapping_add(share[0]));
        Ok((rows, put.holders.iter().all(|&holder| holder > 0)))
    }

    fn check_rows(&self, rows: u64) -> Result<(), String> {
        let (least, columns) = (self.design.least_rows(), self.design.width());
        match rows >= least {
            true => Ok(()),
            false => Err(format!(
                "the model is refused before a sum opens: {rows} rows for {columns} columns, at least {least} are \
                 needed; leave terms out"
            )),
        }
    }

    /// Returns the opened sums of the rounds.
    fn opened(&self, history: &History) -> Result<Vec<Totals>, String> {
        let read = |slot: u32| {
            let vector = history.vector(slot).ok_or("a round is not open")?;
            let words: Vec<u64> =
                vector.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
            Totals::from_words(self.design.width(), &words).ok_or_else(|| {
                "the opened sums of a round are too large, so a peer does not follow the protocol".to_owned()
            })
        };
        (FIT..history.committed()).map(read).collect()
    }

    fn next(&self, history: &History) -> Result<Next, String> {
        Ok(self.model.next(&self.opened(history)?))
    }

    /// Returns this peer's sums for a round.
    fn sums(&self, round: &Round) -> Result<Totals, String> {
        let mut totals = Totals::new(self.design.width());
        for at in 0..self.data.rows() {
            let Some(row) = self.design.row(self.data.row(at))? else { continue };
            let (outcome, offset, weight) = (row.outcome, row.offset, row.weight);
            self.model.family.add(
                round,
                &Row { columns: &row.columns, outcome, offset, weight },
                &mut totals,
            );
        }
        Ok(totals)
    }

    /// Returns whether this peer's rows were checked.
    fn counted(&self, history: &History) -> bool {
        history.members(COMPUTED).contains(&self.check.me)
    }
}

impl Task for Glm {
    fn plan(&self) -> Vec<Aggregate> {
        plan(&self.check.session, &self.spec, &self.design).unwrap_or_default()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let pattern = self.check.rule.pattern_words();
        match slot {
            PATTERN => self.check.copies(history, 0..pattern, |_| true),
            ROWS => {
                self.passed(history)?;
                self.check.copies(history, pattern..pattern + 1, |_| true)
            }
            _ if slot >= FIT => {
                // The check is repeated, because a peer's rows leave only after it.
                self.passed(history)?;
                self.check_rows(self.rows(history)?.0)?;
                let totals = match self.next(history)? {
                    Next::Round(round) if self.counted(history) => self.sums(&round)?,
                    Next::Round(_) => Totals::new(self.design.width()),
                    Next::Done(_) => return Err("the fit is complete".into()),
                    Next::Failed(error) => return Err(error),
                };
                Ok(totals.to_words().into_iter().flat_map(u64::to_le_bytes).collect())
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
            COMPUTED if members.len() < FEWEST => {
                Err(format!("{} members, at least {FEWEST}", members.len()))
            }
            COMPUTED => parties::trio(&self.check.candidates(history)?, members, |_, _| false).map(drop),
            PATTERN | ROWS => {
                let Ok(trio) = self.check.trio(history) else { return Ok(()) };
                match trio.iter().filter(|peer| members.contains(peer)).count() {
                    0 | 1 => Err("fewer than two of the three computing peers are left".into()),
                    _ => Ok(()),
                }
            }
            _ if slot >= FIT => {
                let lost = history.members(COMPUTED).iter().filter(|peer| !members.contains(peer));
                let lost: Vec<_> = lost.map(|&peer| self.check.session.name(peer)).collect();
                match lost.is_empty() {
                    true => Ok(()),
                    false => Err(format!(
                        "the fit cannot go on without {}: its cells were checked with their rows, and two matrices would \
                         show the difference",
                        lost.join(", ")
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match slot {
            COMPUTED => self.check.trio(history).map(drop),
            PATTERN => {
                self.check.all_gave(slot, self.check.rule.pattern_words(), history)?;
                self.passed(history)
            }
            ROWS => {
                self.check.all_gave(slot, 1, history)?;
                self.check_rows(self.rows(history)?.0)
            }
            _ if slot >= FIT => {
                let opened = self.opened(history)?;
                let (rows, _) = self.rows(history)?;
                if opened.iter().any(|totals| totals.scalars[0] != i128::from(rows)) {
                    return Err(
                        "a round counts other rows than the check did, so a peer does not follow the protocol".into()
                    );
                }
                match self.model.next(&opened) {
                    Next::Failed(error) => Err(error),
                    Next::Round(_) | Next::Done(_) => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn ends(&self, history: &History) -> bool {
        let committed = history.committed();
        if committed <= FIT {
            return false;
        }
        let mut known = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != committed {
            let Ok(next) = self.next(history) else { return false };
            *known = (committed, matches!(next, Next::Done(_)));
        }
        known.1
    }

    fn metrics(&self, slot: u32, history: &History) -> Map<String, Value> {
        let mut map = Map::new();
        let round = slot.checked_sub(FIT).filter(|_| history.committed() == slot + 1);
        if let Some(round) = round {
            map.insert("round".into(), json!(round + 1));
        }
        map
    }

    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        match slot {
            _ if slot > COMPUTED && !self.counted(history) => RowUse::LeftOut(LATE),
            PATTERN.. if self.used == 0 && self.data.rows() > 0 => {
                RowUse::LeftOut("every row of this peer has a missing value")
            }
            _ => RowUse::Included,
        }
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let fit = match self.next(history)? {
            Next::Done(fit) => fit,
            Next::Failed(error) => return Err(error),
            Next::Round(_) => return Err("the fit is not complete".into()),
        };
        let (_, compared) = self.rows(history)?;
        let file = File::new(&self.check.session, &self.spec, &self.design, &fit);
        let bytes = format!("{:#}\n", file.json()).into_bytes();
        let digest = result::digest(&bytes);
        let mut outcome = Outcome::new(bytes, digest).with_summary(file.line());
        outcome.details.insert("headline".to_owned(), file.headline().into());
        outcome.details.insert("tables".to_owned(), file.pages());
        outcome.details.insert("forest".to_owned(), file.forest());
        outcome.warnings.extend((!compared).then(|| UNCOMPARED.to_owned()));
        Ok(outcome)
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let (rows, columns) = (self.data.rows() as f64, self.design.width() as f64);
        let lift = match slot {
            COMPUTED => rows * self.design.cells() as f64,
            _ if slot >= FIT => rows * columns * columns,
            _ => 0.0,
        };
        Work { lift, ..Work::default() }
    }
}
