//! Three members compute cells on secret shares: the number in each cell, and whether the cell passes the
//! threshold. The tasks `summary` and `glm` open only the cells that pass (spec, section 15i).

#[cfg(test)]
pub(crate) mod harness;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyswarm_mpc::shares::cells::{Opened, Rule, add_up};
use zeroize::Zeroizing;

use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::protocol::marks::Marks;
use crate::protocol::sum_id::SumId;
use crate::protocol::{Action, Input, Step, Time};
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::History;
use crate::tasks::exchange::{Done, Exchange, Job, Output, Roles, Seat, Source, Vocabulary};
use crate::tasks::xclp::computation::{Cells, Computation};
use crate::tasks::xclp::compute::{Compute, FirstCommitments, Setup};
use crate::tasks::xclp::computed::{Computed, inputs_digest};
use crate::tasks::xclp::parties;

/// Slot after the coin. It has the commitments, and shows which members compute.
pub(crate) const COMPUTED: u32 = 1;
/// Number of words that a peer has in `computed`: one for its number among the computing members plus one,
/// and eight for its commitment.
const WORDS: usize = 9;
/// Fewest members that must give input.
const FEWEST: usize = 3;
/// Largest number of rows of all peers together. It keeps each sum of squares below 2^63.
const MOST_ROWS: usize = 1 << 23;
/// Warning if a computing member was gone.
pub(crate) const UNCOMPARED: &str = "one of the three computing peers was gone when its shares were opened, so \
                                     that two copies of each share could not be compared: a change by one of \
                                     the other two would not be seen";

/// Warning about the next session of a series.
const NEXT: &str = "the file does not show which rows change: if between the sessions few rows change, or the \
                    rows of one peer alone, the opened numbers of both sessions show the difference, and no \
                    threshold protects it. `join` warns a peer whose own rows change a little. Keep tables, \
                    groups, grids, ranges and models as they are, and repeat a session only after many rows \
                    of at least privacy.min_contributors peers have changed (docs/statistics.md)";

/// Checks a session of a series in which `changed` peers join or leave compared with the session before.
pub(crate) fn check_next(changed: usize, contributors: usize) -> Result<Option<&'static str>, String> {
    let least = contributors.max(2);
    match changed {
        few if (1..least).contains(&few) => Err(format!(
            "{few} of the peers would change (--add, --remove): the opened numbers of both sessions would differ by \
             the rows of {few}, and a difference has no threshold. Change at least {least} peers at once \
             (privacy.min_contributors), or none"
        )),
        _ => Ok(Some(NEXT)),
    }
}

/// Returns the aggregates coin, `computed` and `pattern`. `passing` describes the bits of the pattern.
pub(crate) fn plan(session: &Session, rule: &Rule, passing: &'static str) -> Vec<Aggregate> {
    let computed = Aggregate::exact(
        "computed",
        4,
        computed_words(session) as u64,
        "which members computed",
        "which members computed, and for each member with rows a salted hash of its counts, which does not show the counts",
    );
    let about = "which cells have enough rows of enough members";
    let pattern = Aggregate::exact("pattern", 8, copied(rule.pattern_words()) as u64, about, passing);
    vec![Aggregate::coin(), computed.with_exchange(), pattern]
}

/// Returns the number of words of `computed`.
pub(crate) fn computed_words(session: &Session) -> usize {
    WORDS * session.roster.len()
}

/// Returns the number of words of a vector with copies of `words` words.
pub(crate) fn copied(words: usize) -> usize {
    6 * (1 + words)
}

/// The role of one peer in the computation.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) session: Session,
    pub(crate) rule: Arc<Rule>,
    pub(crate) me: Peer,
    words: Words,
    salt: Zeroizing<[u8; 32]>,
    /// Names of the peers that may compute; if empty, the coin draws the computing members.
    compute_names: Vec<String>,
    proves: bool,
    seen: FirstCommitments,
    /// Sums in whose exchange this peer has taken part. No exchange begins twice, because the same random
    /// numbers would be used twice.
    begun: Mutex<BTreeSet<SumId>>,
}

/// The words that this peer contributes. They are erased from memory after use.
struct Words(Zeroizing<Vec<u64>>);

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Words({}, <redacted>)", self.0.len())
    }
}

/// Shares that were combined from the copies in a vector.
pub(crate) struct Put {
    pub(crate) shares: [Vec<u64>; 3],
    /// The peer that gave each of the six copies: its index plus one, or 0.
    pub(crate) holders: [u64; 6],
}

impl Put {
    /// Returns whether two copies of every share were compared.
    pub(crate) fn compared(&self) -> bool {
        self.holders.iter().all(|&holder| holder > 0)
    }
}

impl Check {
    /// Makes a peer's role, with the words that were computed from its rows.
    pub(crate) fn new(
        session: Session,
        rule: Rule,
        me: Peer,
        (words, secret): (Vec<u64>, &[u8; 32]),
        (compute_names, proves): (Vec<String>, bool),
    ) -> Self {
        let salt = derive(secret, "salt of the input", &session.id().0);
        let (words, rule) = (Words(Zeroizing::new(words)), Arc::new(rule));
        let (seen, begun) = (FirstCommitments::default(), Mutex::default());
        Self { session, rule, me, words, salt, compute_names, proves, seen, begun }
    }

    /// Checks that a peer may take part with these rows.
    ///
    /// # Errors
    /// The limit that the rows break.
    pub(crate) fn fits(session: &Session, data: &Dataset) -> Result<(), String> {
        let (rows, peers, features) = (data.rows(), session.roster.len(), session.data.features);
        match () {
            () if rows > MOST_ROWS / peers.max(1) => {
                Err(format!("{rows} rows; with {peers} peers at most {} each", MOST_ROWS / peers.max(1)))
            }
            () if rows > 0 && data.features() != features as usize => {
                Err(format!("rows have {} features, the session has {features}", data.features()))
            }
            () => Ok(()),
        }
    }

    /// Checks that a sum of `slot` may start over `members`. It is the exchange in slot `at`, or an opening
    /// in a later slot.
    pub(crate) fn allows(
        &self,
        at: u32,
        slot: u32,
        history: &History,
        members: &[Peer],
    ) -> Result<(), String> {
        if slot == at {
            return match members.len() < FEWEST {
                true => Err(format!("{} members, at least {FEWEST}", members.len())),
                false => parties::trio(&self.candidates(history)?, members, &Marks::default()).map(drop),
            };
        }
        let Ok(trio) = self.trio(at, history) else { return Ok(()) };
        match trio.iter().filter(|peer| members.contains(peer)).count() {
            0 | 1 => Err("fewer than two of the three computing peers are left".into()),
            _ => Ok(()),
        }
    }

    /// Checks that three candidates of a view still compute together.
    pub(crate) fn can_continue(&self, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        parties::can_continue(&self.session, || self.candidates(history), crowd)
    }

    /// Checks the result of the exchange in slot `at`, or of an opening of `words` words in a later slot.
    pub(crate) fn check(&self, at: u32, slot: u32, words: usize, history: &History) -> Result<(), String> {
        match slot == at {
            true => self.trio(at, history).map(drop),
            false => self.all_gave((at, slot), words, history),
        }
    }

    /// Returns whether this peer's words were in the exchange of slot `at`.
    pub(crate) fn counted(&self, at: u32, history: &History) -> bool {
        history.members(at).contains(&self.me)
    }

    fn candidates(&self, history: &History) -> Result<Vec<Peer>, String> {
        let coin = history.seed().ok_or("the coin is not open")?;
        let place = |name: &String| self.session.roster.iter().position(|entry| entry.name == *name);
        let named = self.compute_names.iter().filter_map(place).filter_map(|at| u16::try_from(at).ok());
        Ok(parties::candidates(&coin, history.members(0), &named.map(Peer).collect::<Vec<_>>()))
    }

    /// Returns each peer's number among the computing members plus one (0 if it did not compute), and its
    /// commitment, from the opened slot `at`. Only the slot `computed` has words of 4 bytes.
    fn announced(at: u32, history: &History) -> impl Iterator<Item = (u32, [u8; 32])> {
        let size = if at == COMPUTED { 4 } else { 8 };
        let vector = history.vector(at).map_or(&[][..], |bytes| bytes);
        vector.chunks_exact(size * WORDS).map(move |own| {
            let mut words = own.chunks_exact(size).map(|word| [word[0], word[1], word[2], word[3]]);
            let number = u32::from_le_bytes(words.next().unwrap_or_default());
            let mut commitment = [0; 32];
            commitment.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word);
            (number, commitment)
        })
    }

    /// Returns the three members that computed in slot `at`.
    fn trio(&self, at: u32, history: &History) -> Result<[Peer; 3], String> {
        let all = (0u16..).map(Peer).zip(Self::announced(at, history)).take(self.session.roster.len());
        let said: Vec<(Peer, u32)> =
            all.map(|(peer, (number, _))| (peer, number)).filter(|(_, number)| *number > 0).collect();
        let of = |number: u32| said.iter().find(|(_, n)| *n == number).map(|(peer, _)| *peer);
        match [of(1), of(2), of(3)] {
            [Some(one), Some(two), Some(three)] if said.len() == 3 => Ok([one, two, three]),
            _ => Err("the number of peers that computed is not three".into()),
        }
    }

    /// Returns this peer's source for the exchange.
    pub(crate) fn compute(&self, history: &History, seat: Seat) -> Result<Source, String> {
        // A leader that starts a sum over too few members breaks a rule that `allows` checks. This peer then
        // takes no part in the sum.
        if seat.members.len() < FEWEST {
            return Ok(Source::Bystander);
        }
        let candidates = self.candidates(history)?;
        let fresh = self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(seat.sum);
        assert!(fresh, "BUG: the exchange of view {} begins twice", seat.sum.ballot);
        let (rule, words, salt) = (self.rule.clone(), self.words.0.clone(), self.salt.clone());
        let owners = seat.members.iter().map(|&peer| (peer, 1)).collect();
        let computation = Computation::Cells(Cells { rule, words, salt });
        let setup = Setup::of(seat, owners, candidates, computation, self.proves, &self.seen);
        Ok(Compute::new(setup).map_or(Source::Bystander, |exchange| Source::Exchange(Box::new(exchange))))
    }

    /// Returns this peer's copies of the shares from slot `at`. Only the words in `range` for which `keep` is
    /// true are copied; all others are 0. If the peer did not compute, all words are 0.
    pub(crate) fn copies(
        &self,
        at: u32,
        history: &History,
        range: std::ops::Range<usize>,
        keep: impl Fn(usize) -> bool,
    ) -> Result<Bytes, String> {
        let section = 8 * (1 + range.len());
        let mut vector = vec![0u8; 8 * copied(range.len())];
        let Some(before) = history.exchanged(at).and_then(|bytes| Computed::from_bytes(bytes)) else {
            let party = self.trio(at, history).is_ok_and(|trio| trio.contains(&self.me));
            return if party {
                Err("this peer computed, but its state has lost the shares".into())
            } else {
                Ok(vector.into())
            };
        };
        let said = |peer: Peer| Self::announced(at, history).nth(peer.index()).map(|(_, said)| said);
        if said(self.me) != Some(before.commitment) {
            return Err("the committee decided another commitment than this peer made".into());
        }
        let Some((number, shares)) = before.party else { return Ok(vector.into()) };
        let decided = inputs_digest(history.members(at).iter().filter_map(|&peer| Some((peer, said(peer)?))));
        if before.inputs != decided {
            return Err("the committee decided on commitments that the peers have not sent".into());
        }
        if shares.len() != 2 * self.rule.result_bytes() {
            return Err("this peer's shares of the result are damaged".into());
        }
        let number = usize::from(number);
        let (own, next) = shares.split_at(self.rule.result_bytes());
        for (share, place) in [(own, 2 * number), (next, 2 * ((number + 1) % 3) + 1)] {
            let section = &mut vector[place * section..][..section];
            section[..8].copy_from_slice(&(u64::from(self.me.0) + 1).to_le_bytes());
            for word in range.clone().filter(|&word| keep(word)) {
                section[8 * (1 + word - range.start)..][..8].copy_from_slice(&share[8 * word..][..8]);
            }
        }
        Ok(vector.into())
    }

    /// Reads copies of shares of `words` words at the start of a slot, and compares the two copies of each
    /// share.
    pub(crate) fn put_together(&self, slot: u32, words: usize, history: &History) -> Result<Put, String> {
        let vector = history.vector(slot).ok_or("the shares are not open")?;
        let all = vector.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word));
        let vector: Vec<u64> = all.take(copied(words)).collect();
        if vector.len() != copied(words) {
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
                         protocol, and neither copy was used",
                        name(one),
                        name(two)
                    ));
                }
            };
        }
        Ok(put)
    }

    /// Reads the pattern in `slot`. Also returns whether two copies of every share were compared.
    pub(crate) fn pattern(&self, slot: u32, history: &History) -> Result<(Opened, bool), String> {
        let put = self.put_together(slot, self.rule.pattern_words(), history)?;
        let bits = add_up(&self.rule, put.shares.each_ref().map(|share| &share[..]));
        Ok((Opened::of(&self.rule, &bits), put.compared()))
    }

    /// Checks that every computing member that is a member of the slot gave its copies.
    fn all_gave(&self, (at, slot): (u32, u32), words: usize, history: &History) -> Result<(), String> {
        let (Ok(trio), Some(_)) = (self.trio(at, history), history.vector(slot)) else { return Ok(()) };
        let put = self.put_together(slot, words, history)?;
        for (number, peer) in trio.into_iter().enumerate() {
            let here = if history.members(slot).contains(&peer) { u64::from(peer.0) + 1 } else { 0 };
            let gave = [put.holders[2 * number], put.holders[2 * ((number + 1) % 3) + 1]];
            if gave != [here; 2] {
                return Err(format!(
                    "{} computed, but gave no shares, or gave the shares of another peer",
                    self.session.name(peer)
                ));
            }
        }
        Ok(())
    }

    /// Makes this peer's vector for `computed` from the result of the exchange.
    pub(crate) fn computed(&self, result: &Bytes) -> Result<Bytes, String> {
        let mut words = vec![0; 4 * computed_words(&self.session)];
        if !result.is_empty() {
            let computed = Computed::from_bytes(result).ok_or("the exchange's result is damaged")?;
            let own = &mut words[4 * WORDS * self.me.index()..][..4 * WORDS];
            own[0] = computed.party.map_or(0, |(number, _)| number + 1);
            own[4..].copy_from_slice(&computed.commitment);
        }
        Ok(words.into())
    }
}

/// A vector that a peer computes without messages, for the members of one view. [`Source::Own`] does not fit,
/// because its vector is used again in the next view, which may have other members.
pub(crate) struct Alone(Option<Job>);

impl Alone {
    /// Makes a source that calls `run`. `operations` is the estimated number of operations.
    pub(crate) fn source(operations: u64, run: impl Fn() -> Bytes + Send + Sync + 'static) -> Source {
        let run = move || -> Done { Arc::new(run()) };
        Source::Exchange(Box::new(Self(Some(Job::new(operations, run)))))
    }
}

impl Exchange for Alone {
    fn peers(&self) -> Vec<Peer> {
        Vec::new()
    }

    fn roles(&self) -> Roles {
        Roles::new()
    }

    fn handle(&mut self, _now: Time, input: Input<Vocabulary>) -> Step<Vocabulary> {
        let mut step = Step::default();
        match input {
            Input::Start => step.0.extend(self.0.take().map(Action::Compute)),
            Input::Done(done) => {
                let result = done.downcast::<Bytes>().ok();
                step.0.extend(result.map(|bytes| Action::Output(Output::Finished(Bytes::clone(&bytes)))));
            }
            _ => {}
        }
        step
    }
}
