//! Cells that three members compute on shares: whether each passes, and its number. The tasks `summary` and
//! `glm` open what passes (spec, section 15i).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyswarm_mpc::shares::cells::Rule;
use zeroize::Zeroizing;

use crate::protocol::sum_id::SumId;
use crate::session::{Peer, Session};
use crate::tasks::History;
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::xclp::computation::{Cells, Computation};
use crate::tasks::xclp::compute::{Compute, Excluded, FirstCommitments, Setup};
use crate::tasks::xclp::computed::{Computed, inputs_digest};
use crate::tasks::xclp::parties;

/// Slot after the coin with the commitments and the parties.
pub(crate) const COMPUTED: u32 = 1;
/// Words of a peer in `computed`: its number among the parties plus one, its commitment.
pub(crate) const WORDS: usize = 9;
/// Fewest members with input.
pub(crate) const FEWEST: usize = 3;

/// Part of one peer in the computation.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) session: Session,
    pub(crate) rule: Arc<Rule>,
    pub(crate) me: Peer,
    words: Words,
    salt: Zeroizing<[u8; 32]>,
    /// Names of the computing parties; if empty, the coin draws them.
    compute_names: Vec<String>,
    proves: bool,
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
pub(crate) struct Put {
    pub(crate) shares: [Vec<u64>; 3],
    /// The peer that gave each of the six copies: its index plus one, or 0.
    pub(crate) holders: [u64; 6],
}

impl Check {
    /// Makes a peer's part with these words.
    pub(crate) fn new(
        session: Session,
        rule: Arc<Rule>,
        me: Peer,
        (words, salt): (Vec<u64>, Zeroizing<[u8; 32]>),
        (compute_names, proves): (Vec<String>, bool),
    ) -> Self {
        let (words, begun) = (Words(Zeroizing::new(words)), Mutex::default());
        let (out, seen) = (Excluded::default(), FirstCommitments::default());
        Self { session, rule, me, words, salt, compute_names, proves, out, seen, begun }
    }

    pub(crate) fn candidates(&self, history: &History) -> Result<Vec<Peer>, String> {
        let coin = history.seed().ok_or("the coin is not open")?;
        let place = |name: &String| self.session.roster.iter().position(|entry| entry.name == *name);
        let named = self.compute_names.iter().filter_map(place).filter_map(|at| u16::try_from(at).ok());
        Ok(parties::candidates(&coin, history.members(0), &named.map(Peer).collect::<Vec<_>>()))
    }

    /// Returns the parties that computed, by the vector of `computed`.
    pub(crate) fn trio(&self, history: &History) -> Result<[Peer; 3], String> {
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
    pub(crate) fn compute(&self, history: &History, seat: Seat) -> Result<Source, String> {
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
            proves: self.proves,
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
    pub(crate) fn copies(
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
    pub(crate) fn put_together(&self, vector: &[u8], words: usize) -> Result<Put, String> {
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

    /// Checks that every party among the members of a slot gave its copies.
    pub(crate) fn all_gave(&self, slot: u32, words: usize, history: &History) -> Result<(), String> {
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

    /// Makes this peer's vector for `computed` from the result of the exchange.
    pub(crate) fn computed(&self, result: &Bytes) -> Result<Bytes, String> {
        let mut words = vec![0; 4 * WORDS * self.session.roster.len()];
        if !result.is_empty() {
            let computed = Computed::from_bytes(result).ok_or("the exchange's result is damaged")?;
            let own = &mut words[4 * WORDS * self.me.index()..][..4 * WORDS];
            own[0] = computed.party.map_or(0, |(number, _)| number + 1);
            own[4..].copy_from_slice(&computed.commitment);
        }
        Ok(words.into())
    }
}
