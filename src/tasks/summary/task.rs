//! Part of one peer in the task.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyswarm_mpc::shares::cells::{Opened, Rule, add_up};
use zeroize::Zeroizing;

use super::result::File;
use super::spec::SummarySpec;
use super::table::{Layout, MOST_ROWS};
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::protocol::sum_id::SumId;
use crate::session::{Peer, Session};
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::xclp::computation::{Cells, Computation};
use crate::tasks::xclp::compute::{Compute, Excluded, FirstCommitments, Setup};
use crate::tasks::xclp::computed::{Computed, inputs_digest};
use crate::tasks::xclp::parties;
use crate::tasks::{History, Outcome, RowUse, Task, Work};

/// Slots after the coin.
const COMPUTED: u32 = 1;
const PATTERN: u32 = 2;
const CELLS: u32 = 3;
/// Words of a peer in `computed`: its number among the parties plus one, its commitment.
const WORDS: usize = 9;
/// Fewest members with input.
const FEWEST: usize = 3;
const LATE: &str = "this peer came after the cells were counted";
/// Warning if a party was gone.
const UNCOMPARED: &str = "one of the three computing peers was gone when the numbers were opened, so that two copies of each \
                          share could not be compared: a change by one of the other two would not be seen";

/// Returns the aggregates of a session with this rule.
pub(super) fn plan(session: &Session, rule: &Rule) -> Vec<Aggregate> {
    let peers = session.roster.len() as u64;
    let copies = |words: usize| 6 * (1 + words as u64);
    vec![
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
            "which cells have enough rows of enough members",
            "of each cell of the tables whether it has enough rows of enough members, but not how many; \
             of each sum whether enough rows differ from the commonest value; \
             of each quantile whether enough rows are below it and above it",
        ),
        Aggregate::exact(
            "cells",
            8,
            copies(rule.totals()),
            "counts, sums, sums of squares and quantiles that may open",
            "the counts, sums and sums of squares over all members of the cells that may open; \
             the quantiles that may open, and each is the value of one patient; \
             nothing else of one member, and nothing of other cells except that they are small or \
             protect a small one",
        ),
    ]
}

/// Part of one peer in the task.
#[derive(Debug)]
pub(super) struct Summary {
    session: Session,
    spec: SummarySpec,
    layout: Arc<Layout>,
    rule: Arc<Rule>,
    me: Peer,
    rows: usize,
    words: Words,
    salt: Zeroizing<[u8; 32]>,
    out: Excluded,
    seen: FirstCommitments,
    /// Views that had an exchange of this peer: none begins twice, so that no stream is drawn twice.
    begun: Mutex<BTreeSet<SumId>>,
}

/// This peer's words.
struct Words(Zeroizing<Vec<u64>>);

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Words({}, <redacted>)", self.0.len())
    }
}

/// A vector of copies of shares, put together.
struct Put {
    shares: [Vec<u64>; 3],
    /// The peer that gave each of the six copies: its index plus one, or 0.
    holders: [u64; 6],
}

impl Summary {
    /// Makes a peer with these rows, possibly none.
    pub(super) fn new(
        session: Session,
        spec: SummarySpec,
        layout: Arc<Layout>,
        me: Peer,
        data: &Dataset,
        secret: &[u8; 32],
    ) -> Result<Self, String> {
        let (rows, most) = (data.rows(), MOST_ROWS / session.roster.len().max(1));
        if rows > most {
            return Err(format!("{rows} rows; with {} peers at most {most} each", session.roster.len()));
        }
        if rows > 0 && data.features() != session.data.features as usize {
            return Err(format!(
                "rows have {} features, the session has {}",
                data.features(),
                session.data.features
            ));
        }
        let words = Zeroizing::new(layout.words((0..rows).map(|row| data.row(row)))?);
        let salt = derive(secret, "salt of the input", &session.id().0);
        let rule = Arc::new(layout.rule(&spec, session.privacy.min_contributors));
        let (out, seen) = (Excluded::default(), FirstCommitments::default());
        Ok(Self {
            session,
            spec,
            layout,
            rule,
            me,
            rows,
            words: Words(words),
            salt,
            out,
            seen,
            begun: Mutex::default(),
        })
    }

    fn candidates(&self, history: &History) -> Result<Vec<Peer>, String> {
        let coin = history.seed().ok_or("the coin is not open")?;
        let place = |name: &String| self.session.roster.iter().position(|entry| entry.name == *name);
        let named = self.spec.compute.iter().filter_map(place).filter_map(|at| u16::try_from(at).ok());
        Ok(parties::candidates(&coin, history.members(0), &named.map(Peer).collect::<Vec<_>>()))
    }

    /// Returns the parties that computed, by the vector of `computed`.
    fn trio(&self, history: &History) -> Result<[Peer; 3], String> {
        let words = history.vector(COMPUTED).map_or(&[][..], |bytes| bytes.as_chunks::<4>().0);
        let numbers = words.iter().step_by(WORDS).map(|&word| u32::from_le_bytes(word));
        let said: Vec<(Peer, u32)> = (0u16..).map(Peer).zip(numbers).filter(|(_, n)| *n > 0).collect();
        let of = |number: u32| said.iter().find(|(_, n)| *n == number).map(|(peer, _)| *peer);
        match [of(1), of(2), of(3)] {
            [Some(one), Some(two), Some(three)] if said.len() == 3 => Ok([one, two, three]),
            _ => Err("the number of peers that computed is not three".into()),
        }
    }

    /// Returns this peer's part in the exchange.
    fn compute(&self, history: &History, seat: Seat) -> Result<Source, String> {
        // A leader that starts a sum over too few members breaks a rule that `allows` checks. This peer then
        // takes no part in the sum.
        if seat.members.len() < FEWEST {
            return Ok(Source::Bystander);
        }
        let candidates = self.candidates(history)?;
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        parties::trio(&candidates, &seat.members, parties::of_one(self.me, &out))?;
        let fresh = self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(seat.sum);
        assert!(fresh, "BUG: the exchange of view {} begins twice", seat.sum.ballot);
        let (rule, words, salt) = (self.rule.clone(), self.words.0.clone(), self.salt.clone());
        let setup = Setup {
            ctx: seat.ctx,
            sum: seat.sum,
            owners: seat.members.iter().map(|&peer| (peer, 1)).collect(),
            candidates,
            members: seat.members,
            computation: Computation::Cells(Cells { rule, words, salt }),
            proves: self.spec.proves(),
            keys: seat.keys,
            seed: Zeroizing::new(seat.seed),
            out: Arc::clone(&self.out),
            seen: Arc::clone(&self.seen),
            patience_ms: seat.patience_ms,
            longest_ms: seat.longest_ms,
        };
        Ok(Source::Exchange(Box::new(Compute::new(setup))))
    }

    /// Returns this peer's copies of shares, the words of `range` of the result for which `keep` is true. A
    /// peer that did not compute has none.
    fn copies(
        &self,
        history: &History,
        range: std::ops::Range<usize>,
        keep: impl Fn(usize) -> bool,
    ) -> Result<Bytes, String> {
        let section = 8 * (1 + range.len());
        let mut vector = vec![0u8; 6 * section];
        let Some(before) = history.exchanged(COMPUTED).and_then(|bytes| Computed::from_bytes(bytes)) else {
            let party = self.trio(history).is_ok_and(|trio| trio.contains(&self.me));
            return if party {
                Err("this peer computed, but its state has lost the shares".into())
            } else {
                Ok(vector.into())
            };
        };
        let said = |peer: Peer| -> Option<[u8; 32]> {
            history.vector(COMPUTED)?.get(4 * (peer.index() * WORDS + 1)..)?.first_chunk().copied()
        };
        if said(self.me) != Some(before.commitment) {
            return Err("the committee decided another commitment than this peer made".into());
        }
        let Some((number, shares)) = before.party else { return Ok(vector.into()) };
        let decided =
            inputs_digest(history.members(COMPUTED).iter().filter_map(|&peer| Some((peer, said(peer)?))));
        if before.inputs != decided {
            return Err("the committee decided other commitments than the peers have sent".into());
        }
        if shares.len() != 2 * self.rule.result_bytes() {
            return Err("this peer's shares of the result are damaged".into());
        }
        let number = usize::from(number);
        let (own, next) = shares.split_at(self.rule.result_bytes());
        for (share, place) in [(own, 2 * number), (next, 2 * ((number + 1) % 3) + 1)] {
            let section = &mut vector[place * section..][..section];
            section[..8].copy_from_slice(&(u64::from(self.me.0) + 1).to_le_bytes());
            for at in range.clone().filter(|&at| keep(at)) {
                section[8 * (1 + at - range.start)..][..8].copy_from_slice(&share[8 * at..][..8]);
            }
        }
        Ok(vector.into())
    }

    /// Reads a vector of copies of shares of `words` words, and compares the two copies of each share.
    fn put_together(&self, vector: &[u8], words: usize) -> Result<Put, String> {
        let vector: Vec<u64> =
            vector.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        if vector.len() != 6 * (1 + words) {
            return Err("the copies of shares are too few".into());
        }
        let mut sections = vector.chunks(1 + words);
        let mut put = Put { shares: Default::default(), holders: [0; 6] };
        for share in 0..3 {
            let (Some(own), Some(next)) = (sections.next(), sections.next()) else { break };
            (put.holders[2 * share], put.holders[2 * share + 1]) = (own[0], next[0]);
            put.shares[share] = match (own[0], next[0]) {
                (0, 0) => return Err("fewer than two of the three computing peers gave their shares".into()),
                (0, _) => next[1..].to_vec(),
                (_, 0) => own[1..].to_vec(),
                _ if own[1..] == next[1..] => own[1..].to_vec(),
                (one, two) => {
                    let name = |holder: u64| {
                        let entry =
                            usize::try_from(holder - 1).ok().and_then(|at| self.session.roster.get(at));
                        entry.map_or("?", |entry| &*entry.name)
                    };
                    return Err(format!(
                        "{} and {} gave different copies of one share: one of the two does not follow the \
                         protocol, and nothing of it was used",
                        name(one),
                        name(two)
                    ));
                }
            };
        }
        Ok(put)
    }

    /// Returns the cells and sums that open.
    pub(super) fn open(&self, history: &History) -> Result<Opened, String> {
        let vector = history.vector(PATTERN).ok_or("the pattern is not open")?;
        let put = self.put_together(vector, self.rule.pattern_words())?;
        let shares = put.shares.each_ref().map(|share| &share[..]);
        Ok(self.layout.open(&Opened::of(&self.rule, &add_up(&self.rule, shares))))
    }

    /// Returns whether a word of the result, after the pattern, opens.
    fn opens(&self, open: &Opened, at: usize) -> bool {
        let at = at.saturating_sub(self.rule.pattern_words());
        match at.checked_sub(self.rule.cells()) {
            None => open.cells.get(at).copied().unwrap_or_default(),
            Some(sum) => match sum.checked_sub(2 * open.measures.len()) {
                None => open.measures.get(sum / 2).copied().unwrap_or_default(),
                Some(quantile) => open.quantiles.get(quantile).copied().unwrap_or_default(),
            },
        }
    }

    /// Returns the opened numbers of all cells and sums; 0 for those that stay closed. The flag is true if
    /// all copies were compared.
    fn numbers(&self, history: &History) -> Result<(Vec<u64>, bool), String> {
        let vector = history.vector(CELLS).ok_or("the cells are not open")?;
        let put = self.put_together(vector, self.rule.totals())?;
        let [one, two, three] = &put.shares;
        let sum = one.iter().zip(two).zip(three).map(|((a, b), c)| a.wrapping_add(*b).wrapping_add(*c));
        Ok((sum.collect(), put.holders.iter().all(|&holder| holder > 0)))
    }

    /// Checks that every party among the members of a slot gave its copies.
    fn all_gave(&self, slot: u32, words: usize, history: &History) -> Result<(), String> {
        let (Ok(trio), Some(vector)) = (self.trio(history), history.vector(slot)) else { return Ok(()) };
        let put = self.put_together(vector, words)?;
        for (number, peer) in trio.into_iter().enumerate() {
            let here = if history.members(slot).contains(&peer) { u64::from(peer.0) + 1 } else { 0 };
            let gave = [put.holders[2 * number], put.holders[2 * ((number + 1) % 3) + 1]];
            if gave != [here; 2] {
                return Err(format!(
                    "{} computed, and gave no shares or others' shares",
                    self.session.name(peer)
                ));
            }
        }
        Ok(())
    }
}

impl Task for Summary {
    fn plan(&self) -> Vec<Aggregate> {
        plan(&self.session, &self.rule)
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let pattern = self.rule.pattern_words();
        match slot {
            PATTERN => self.copies(history, 0..pattern, |_| true),
            CELLS => {
                let open = self.open(history)?;
                self.copies(history, pattern..pattern + self.rule.totals(), |at| self.opens(&open, at))
            }
            _ => Err("no such vector without its exchange".into()),
        }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        if slot == COMPUTED { self.compute(history, seat) } else { Ok(Source::Own) }
    }

    fn contribution_from_exchange(&self, _slot: u32, result: &Bytes) -> Result<Bytes, String> {
        let mut words = vec![0; 4 * WORDS * self.session.roster.len()];
        if !result.is_empty() {
            let computed = Computed::from_bytes(result).ok_or("the exchange's result is damaged")?;
            let own = &mut words[4 * WORDS * self.me.index()..][..4 * WORDS];
            own[0] = computed.party.map_or(0, |(number, _)| number + 1);
            own[4..].copy_from_slice(&computed.commitment);
        }
        Ok(words.into())
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        match slot {
            COMPUTED if members.len() < FEWEST => {
                Err(format!("{} members, at least {FEWEST}", members.len()))
            }
            COMPUTED => parties::trio(&self.candidates(history)?, members, |_, _| false).map(drop),
            PATTERN | CELLS => {
                let Ok(trio) = self.trio(history) else { return Ok(()) };
                match trio.iter().filter(|peer| members.contains(peer)).count() {
                    0 | 1 => Err("fewer than two of the three computing peers are left".into()),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match slot {
            COMPUTED => self.trio(history).map(drop),
            PATTERN => {
                self.all_gave(slot, self.rule.pattern_words(), history)?;
                self.open(history).map(drop)
            }
            CELLS => {
                self.all_gave(slot, self.rule.totals(), history)?;
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
            PATTERN | CELLS if !history.members(COMPUTED).contains(&self.me) => RowUse::LeftOut(LATE),
            _ => RowUse::Included,
        }
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let open = self.open(history)?;
        let (numbers, compared) = self.numbers(history)?;
        let file = File::new(&self.session, &self.spec, &self.layout, &open, &numbers);
        let mut outcome = Outcome::new(format!("{:#}\n", file.json()).into_bytes(), file.digest());
        outcome.details.insert("tables".to_owned(), file.pages());
        outcome.warnings.extend((!compared).then(|| UNCOMPARED.to_owned()));
        let closed = open.cells.iter().filter(|open| !**open).count();
        let summary =
            format!("{} columns, {closed} of {} cells stay closed", self.layout.columns(), open.cells.len());
        Ok(outcome.with_summary(summary))
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let cells = self.rows * (self.layout.variables.len() + self.layout.tables.len());
        Work { lift: if slot == COMPUTED { cells as f64 } else { 0.0 }, ..Work::default() }
    }
}
