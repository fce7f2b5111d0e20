//! The task of one peer.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyswarm_glm::{Model, Next, Rows, Totals};
use flyswarm_mpc::shares::cells::Rule;
use serde_json::{Map, Value, json};

use super::design::Design;
use super::result::{self, File};
use super::spec::GlmSpec;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::common::checked::{self, Alone, COMPUTED, Check, UNCOMPARED};
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::{History, Outcome, RowUse, Task, Work};

/// Largest number of times that the cells are checked again after a peer was lost before the first round.
const MOST_AGAIN: u32 = 3;
/// First byte of the result of an exchange that makes the sums of a round. The result of a check, a
/// `Computed`, has a first byte of at most 3.
const SUMS: u8 = 255;
const LATE: &str = "this peer came after the cells were checked";

/// Description of the numbers that a round reveals.
const REVEALS: &str = "sums over all rows of all members: of products of two columns, weighted by the fitted \
                       variances; of each column times the residuals, in the first round times the outcome; \
                       nothing of one member. If a member is lost before the first round, a slot checks the \
                       others again, like computed and pattern";

/// Returns the aggregates of a session.
pub(super) fn plan(session: &Session, spec: &GlmSpec, design: &Design) -> Option<Vec<Aggregate>> {
    let rule = design.rule(spec, session.privacy.min_contributors);
    let model = spec.model(design)?;
    let passing = "of each cell of two terms of the model whether it has enough rows of enough members, but not how many; of \
                   each number whether enough rows differ from its commonest value";
    let mut plan = checked::plan(session, &rule, passing);
    let words = words(session, &rule, design) as u64;
    plan.extend((1..=model.most_rounds() as u32 + 2 * MOST_AGAIN).map(|round| {
        let about = "matrix and gradient of a round of the fit";
        Aggregate::exact(&format!("fit-{round}"), 8, words, about, REVEALS).with_exchange()
    }));
    Some(plan)
}

/// Returns the number of words of a slot after the first pattern. It is enough for a round and for a check.
/// The first round also has copies of the shares of the entries that the check determines.
fn words(session: &Session, rule: &Rule, design: &Design) -> usize {
    let check = checked::computed_words(session).max(checked::copied(rule.pattern_words()));
    (Totals::words(design.width()) + checked::copied(design.entries.len())).max(check)
}

/// Role of a slot after the coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Computed,
    Pattern,
    /// A round of the fit, from 0.
    Round(u32),
}

/// The task of one peer.
#[derive(Debug)]
pub(super) struct Glm {
    check: Check,
    spec: GlmSpec,
    design: Arc<Design>,
    model: Model,
    rows: Arc<Rows>,
    /// True if every row has a missing value.
    unused: bool,
    /// Number of words of a slot after the first pattern.
    words: usize,
    /// Number of committed slots, and whether the fit was complete after them. The answer is kept, because
    /// the node asks often.
    ended: Mutex<(u32, bool)>,
}

impl Glm {
    /// Makes a peer with these rows. There may be none.
    pub(super) fn new(
        session: Session,
        spec: GlmSpec,
        design: Arc<Design>,
        me: Peer,
        data: &Dataset,
        secret: &[u8; 32],
    ) -> Result<Self, String> {
        Check::fits(&session, data)?;
        let (own, rows) = design.words((0..data.rows()).map(|row| data.row(row)))?;
        let rule = design.rule(&spec, session.privacy.min_contributors);
        let model = spec.model(&design).ok_or("the family of the model is unknown")?;
        let (words, unused) = (words(&session, &rule, &design), rows.is_empty() && data.rows() > 0);
        let parties = (spec.compute.clone(), spec.proves());
        let check = Check::new(session, rule, me, (own, secret), parties);
        let (rows, ended) = (Arc::new(rows), Mutex::default());
        Ok(Self { check, spec, design, model, rows, unused, words, ended })
    }

    /// Returns the members of the check in slot `at` that are not among `members`.
    fn lost(&self, at: u32, history: &History, members: &[Peer]) -> Vec<&str> {
        let lost = history.members(at).iter().filter(|peer| !members.contains(peer));
        lost.map(|&peer| self.check.session.name(peer)).collect()
    }

    /// Returns the slot of the last check up to `slot`, and the role of `slot`. If a member that was checked
    /// is not a member of the slot after the pattern, this slot is another check.
    pub(super) fn role(&self, slot: u32, history: &History) -> (u32, Role) {
        let mut at = COMPUTED;
        while at + 2 <= slot.min(history.committed().saturating_sub(1))
            && !self.lost(at, history, history.members(at + 2)).is_empty()
        {
            at += 2;
        }
        let role = match slot.saturating_sub(at) {
            0 => Role::Computed,
            1 => Role::Pattern,
            after => Role::Round(after - 2),
        };
        (at, role)
    }

    /// Returns whether `slot` must be a new check, given that it has these members.
    fn checks_again(&self, slot: u32, history: &History, members: &[Peer]) -> bool {
        let (at, role) = self.role(slot, history);
        let left = at < COMPUTED + 2 * MOST_AGAIN;
        left && role == Role::Round(0) && !self.lost(at, history, members).is_empty()
    }

    /// Checks the pattern of the check in slot `at`. Also returns whether two copies of every share were
    /// compared.
    fn passed(&self, at: u32, history: &History) -> Result<bool, String> {
        let rule = &self.check.rule;
        let (pattern, compared) = self.check.pattern(at + 1, history)?;
        match self.design.refused(&pattern) {
            None => Ok(compared),
            Some(names) => Err(format!(
                "the model is refused before anything opens, because cells have fewer than {} rows, fewer than {} peers, or \
                 fewer than {} rows without one peer: {names}; join levels or leave terms out",
                rule.threshold, rule.contributors, rule.rest
            )),
        }
    }

    /// Returns the opened sums of the rounds.
    fn opened(&self, history: &History) -> Result<Vec<Totals>, String> {
        let (at, _) = self.role(u32::MAX, history);
        let read = |slot: u32| {
            let vector = history.vector(slot).ok_or("a round is not open")?;
            let words = vector.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word));
            let before = if slot == at + 2 { checked::copied(self.design.entries.len()) } else { 0 };
            let words: Vec<u64> = words.skip(before).take(Totals::words(self.design.width())).collect();
            Totals::from_words(self.design.width(), &words).ok_or_else(|| {
                "the opened sums of a round are too large, so a peer does not follow the protocol".to_owned()
            })
        };
        (at + 2..history.committed()).map(read).collect()
    }

    /// Returns this peer's copies of the shares of the entries of the first round that the check in slot `at`
    /// determines. A share of a sum is the sum of shares.
    fn entries(&self, at: u32, history: &History) -> Result<Vec<u8>, String> {
        let (rule, entries) = (&self.check.rule, &self.design.entries);
        let totals = rule.pattern_words()..rule.pattern_words() + rule.totals();
        let section = 1 + totals.len();
        let copies = self.check.copies(at, history, totals, |_| true)?;
        let shares = copies.as_chunks::<8>().0.chunks(section);
        let words = shares.flat_map(|share| {
            let word = move |at: usize| u64::from_le_bytes(share[at]);
            let own = entries.iter().map(move |entry| entry.value(|at| word(1 + at)));
            [word(0)].into_iter().chain(own)
        });
        Ok(words.flat_map(u64::to_le_bytes).collect())
    }

    /// Compares the first round with the check in slot `at`.
    fn same_rows(&self, at: u32, history: &History) -> Result<(), String> {
        let entries = self.design.entries.len();
        self.check.check(at, at + 2, entries, history)?;
        let [one, two, three] = self.check.put_together(at + 2, entries, history)?.shares;
        let checked = one.iter().zip(two).zip(three).map(|((a, b), c)| a.wrapping_add(b).wrapping_add(c));
        let checked: Vec<u64> = checked.collect();
        self.opened(history)?.first().map_or(Ok(()), |first| self.design.agree(&checked, first))
    }

    fn next(&self, history: &History) -> Result<Next, String> {
        Ok(self.model.next(&self.opened(history)?))
    }

    /// Returns the work of a round, and the job that computes this peer's sums for it.
    pub(super) fn round(
        &self,
        slot: u32,
        history: &History,
    ) -> Result<(u64, impl Fn() -> Bytes + Send + Sync + use<>), String> {
        // The pattern is checked here too, because from here on sums over this peer's rows leave the peer.
        let (at, _) = self.role(slot, history);
        self.passed(at, history)?;
        let round = match self.next(history)? {
            Next::Round(round) => round,
            Next::Done(_) => return Err("the fit is complete".into()),
            Next::Failed(error) => return Err(error),
        };
        let (family, width) = (self.model.family, self.design.width());
        let counted = self.check.counted(at, history);
        let rows = if counted { self.rows.clone() } else { Arc::new(Rows::new(width)) };
        let entries = match slot == at + 2 {
            true if counted => self.entries(at, history)?,
            true => vec![0; 8 * checked::copied(self.design.entries.len())],
            false => Vec::new(),
        };
        let run = move || {
            let words = rows.sums(family, &round).to_words();
            let words = words.into_iter().flat_map(u64::to_le_bytes);
            [SUMS].into_iter().chain(entries.iter().copied()).chain(words).collect()
        };
        Ok(((self.rows.len() * width * width) as u64, run))
    }

    /// Fills a vector of a slot after the first pattern to its full length.
    fn filled(&self, mut vector: Vec<u8>) -> Bytes {
        vector.resize(8 * self.words, 0);
        vector.into()
    }
}

impl Task for Glm {
    fn plan(&self) -> Vec<Aggregate> {
        plan(&self.check.session, &self.spec, &self.design).unwrap_or_default()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        match self.role(slot, history) {
            (at, Role::Pattern) => {
                let copies = self.check.copies(at, history, 0..self.check.rule.pattern_words(), |_| true)?;
                Ok(if at == COMPUTED { copies } else { self.filled(copies.to_vec()) })
            }
            _ => Err("no such vector without its exchange".into()),
        }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        match self.role(slot, history).1 {
            Role::Computed => self.check.compute(history, seat),
            Role::Pattern => Ok(Source::Own),
            Role::Round(_) if self.checks_again(slot, history, &seat.members) => {
                self.check.compute(history, seat)
            }
            Role::Round(_) => {
                self.allows(slot, history, &seat.members)?;
                self.round(slot, history).map(|(operations, run)| Alone::source(operations, run))
            }
        }
    }

    fn contribution_from_exchange(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        match result.split_first() {
            _ if slot == COMPUTED => self.check.computed(result),
            Some((&SUMS, sums)) => Ok(self.filled(sums.to_vec())),
            _ => {
                let words = self.check.computed(result)?;
                let wide =
                    words.as_chunks::<4>().0.iter().flat_map(|word| [word, &[0; 4]].into_iter().flatten());
                Ok(self.filled(wide.copied().collect()))
            }
        }
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        let (at, role) = self.role(slot, history);
        match role {
            _ if slot < COMPUTED => Ok(()),
            Role::Computed | Role::Pattern => self.check.allows(at, slot, history, members),
            Role::Round(_) if self.checks_again(slot, history, members) => {
                self.check.allows(slot, slot, history, members)
            }
            Role::Round(_) => match self.lost(at, history, members)[..] {
                [] => Ok(()),
                ref lost => Err(format!(
                    "the fit cannot go on without {}: its cells were checked with their rows, and two matrices would \
                     show the difference",
                    lost.join(", ")
                )),
            },
        }
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        match self.role(slot, history).1 {
            _ if slot < COMPUTED => Ok(()),
            Role::Computed => self.check.can_continue(history, crowd),
            Role::Round(_) if self.checks_again(slot, history, crowd.0) => {
                self.check.can_continue(history, crowd)
            }
            Role::Round(_) | Role::Pattern => Ok(()),
        }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match self.role(slot, history) {
            _ if slot < COMPUTED => Ok(()),
            (at, Role::Computed) => self.check.check(at, slot, 0, history),
            (at, Role::Pattern) => {
                self.check.check(at, slot, self.check.rule.pattern_words(), history)?;
                self.passed(at, history).map(drop)
            }
            (at, Role::Round(round)) => {
                if round == 0 {
                    self.same_rows(at, history)?;
                }
                match self.next(history)? {
                    Next::Failed(error) => Err(error),
                    Next::Round(_) | Next::Done(_) => Ok(()),
                }
            }
        }
    }

    fn ends(&self, history: &History) -> bool {
        let committed = history.committed();
        if !matches!(self.role(committed.saturating_sub(1), history).1, Role::Round(_)) {
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
        if let (_, Role::Round(round)) = self.role(slot, history)
            && history.committed() == slot + 1
        {
            map.insert("round".into(), json!(round + 1));
        }
        map
    }

    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        let (at, _) = self.role(slot, history);
        match slot {
            _ if slot > COMPUTED && !self.check.counted(at, history) => RowUse::LeftOut(LATE),
            _ if slot > COMPUTED && self.unused => {
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
        let compared = self.passed(self.role(u32::MAX, history).0, history)?;
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
        let cells = (self.rows.len() * self.design.cells()) as f64;
        Work { lift: if slot == COMPUTED { cells } else { 0.0 }, ..Work::default() }
    }
}
