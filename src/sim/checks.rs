//! Properties that must hold after every event of a run, with any faults.
//!
//! | check | property |
//! | --- | --- |
//! | one opening | a majority of the committee releases the pads of at most one sum of each aggregate, and all peers commit the same value |
//! | exact | every opened vector is the plain sum of the vectors of the members that its value names, unless it comes from an exchange; all peers have the same seed and the same vectors |
//! | honest | an honest peer never blames another honest peer |
//! | blamed | a peer that is blamed broke the protocol, and the fault named fits its tampering |
//! | ends | after the last fault every peer ends, with the result or a reason, within the bound of section 17 of the specification |

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::scenario::Tamper;
use crate::crypto::mask;
use crate::node::Done;
use crate::protocol::Time;
use crate::protocol::all_reduce::CHUNK;
use crate::protocol::context::Context;
use crate::protocol::message::Message;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{self, HEARTBEAT_MS, Order, Report};
use crate::session::Peer;

/// The checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// An aggregate was opened twice.
    OneOpening,
    /// A result is not the exact sum.
    Exact,
    /// An honest peer was blamed.
    Honest,
    /// A peer was blamed for the wrong fault, or was not blamed.
    Blamed,
    /// A peer did not end in time.
    Ends,
    /// An expectation of the scenario was not met.
    Expected,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// Check that failed.
    pub check: Check,
    /// Time of the failure, virtual milliseconds.
    pub at_ms: u64,
    /// Description of the failure.
    pub text: String,
}

/// Checks of one run, with the data that they need.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Peers that break the protocol, with their kind of tampering.
    pub liars: BTreeMap<Peer, Tamper>,
    /// Peers with another session file. They and the other peers refuse each other.
    pub strangers: BTreeSet<Peer>,
    /// For each sum, committee members that have sent their shares of its pads.
    releases: BTreeMap<SumId, BTreeSet<Peer>>,
    opened_sums: BTreeMap<u32, SumId>,
    values: BTreeMap<u32, Value>,
    /// Vector of each peer: (slot, peer) -> vector.
    vectors: BTreeMap<(u32, Peer), Bytes>,
    /// Plain sum of the vectors: (slot, digest of the value) -> sum.
    expected: BTreeMap<(u32, [u8; 32]), Bytes>,
    seed: Option<Bytes>,
    /// For each pair of a blaming and a blamed peer, the names of the faults.
    pub blames: BTreeMap<(Peer, Peer), BTreeSet<&'static str>>,
    /// Number of checks that ran.
    pub looked: u64,
    /// Failures, at most five of each check.
    pub violations: Vec<Violation>,
}

impl Checks {
    /// Records a failure, at most five of each check.
    pub fn violated(&mut self, now: Time, check: Check, text: String) {
        if self.violations.iter().filter(|each| each.check == check).count() < 5 {
            self.violations.push(Violation { check, at_ms: now.0 / 1000, text });
        }
    }

    /// Checks a message that is sent.
    pub fn sends(&mut self, now: Time, ctx: &Context, message: &Message) {
        let Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) = message
        else {
            return;
        };
        for item in items {
            let sum = item.item.sum;
            let authors = self.releases.entry(sum).or_default();
            if authors.insert(item.author) && authors.len() >= ctx.quorum {
                self.looked += 1;
                let first = *self.opened_sums.entry(sum.slot).or_insert(sum);
                if first != sum {
                    let text =
                        format!("slot {}: the pads of {first:?} and of {sum:?} were released", sum.slot);
                    self.violated(now, Check::OneOpening, text);
                }
            }
        }
    }

    /// Checks a value that a peer has committed.
    pub fn commits(&mut self, now: Time, peer: Peer, value: &Value) {
        self.looked += 1;
        let first = self.values.entry(value.sum.slot).or_insert_with(|| value.clone());
        if first != value {
            let text = format!("{peer} committed {:?}, another committed {:?}", value.sum, first.sum);
            self.violated(now, Check::OneOpening, text);
        }
    }

    /// Checks the result of a job, which is a vector of a peer, or a vector that the peer has opened.
    pub(crate) fn done(&mut self, now: Time, ctx: &Context, peer: Peer, done: &Done) {
        match done {
            Done::Contribution(slot, Ok(vector)) => {
                let before = self.vectors.insert((*slot, peer), vector.clone());
                if before.is_some() && ctx.plan[*slot as usize].is_noised() {
                    self.violated(
                        now,
                        Check::Exact,
                        format!("{peer} has drawn its vector of slot {slot} twice"),
                    );
                }
            }
            Done::Open { committed, opened, .. } => {
                self.looked += 1;
                let value = &committed.record.value;
                if value.sum.slot == 0 {
                    let seed = self.seed.get_or_insert_with(|| opened.clone());
                    if seed != opened {
                        self.violated(now, Check::Exact, format!("{peer} has another seed"));
                    }
                    return;
                }
                // In this slot no task has made a vector from its rows, because the inputs of the sum come
                // from the exchange. The results of the task are compared with those of all rows in one place
                // instead.
                let slot = value.sum.slot;
                if !value.members.iter().any(|&member| self.vectors.contains_key(&(slot, member))) {
                    return;
                }
                match self.expect(ctx, value, committed.record.digest(ctx)) {
                    Err(text) => self.violated(now, Check::Exact, text),
                    Ok(sum) if sum != opened => {
                        let (slot, members) = (value.sum.slot, value.members.len());
                        let text = format!(
                            "{peer}: slot {slot} is not the sum of the {members} members that it names"
                        );
                        self.violated(now, Check::Exact, text);
                    }
                    Ok(_) => {}
                }
            }
            Done::Exchange(..) | Done::Contribution(..) | Done::Mask(_) => {}
        }
    }

    fn expect(&mut self, ctx: &Context, value: &Value, digest: [u8; 32]) -> Result<Bytes, String> {
        let slot = value.sum.slot;
        if let Some(sum) = self.expected.get(&(slot, digest)) {
            return Ok(sum.clone());
        }
        let aggregate = &ctx.plan[slot as usize];
        let mut sum = vec![0; aggregate.len()];
        for &member in &value.members {
            let Some(vector) = self.vectors.get(&(slot, member)) else {
                return Err(format!("slot {slot} names {member}, which has contributed nothing"));
            };
            mask::add(aggregate.word(), &mut sum, vector);
        }
        let sum = Bytes::from(sum);
        self.expected.insert((slot, digest), sum.clone());
        Ok(sum)
    }

    /// Returns the committed value of each slot.
    #[must_use]
    pub fn values(&self) -> &BTreeMap<u32, Value> {
        &self.values
    }

    /// Checks the fault for which a peer blames another.
    pub fn blames(&mut self, now: Time, by: Peer, who: Peer, name: &'static str) {
        self.looked += 1;
        if self.liars.contains_key(&by) {
            return;
        }
        self.blames.entry((by, who)).or_default().insert(name);
        match self.liars.get(&who) {
            None => {
                self.violated(now, Check::Honest, format!("{by} blames {who}, which is honest, with {name}"))
            }
            Some(how) if !how.blamed_with().contains(&name) => {
                let text = format!("{by} blames {who} with {name}, must be {:?}", how.blamed_with());
                self.violated(now, Check::Blamed, text);
            }
            Some(_) => {}
        }
    }
}

/// Returns a time in milliseconds: every peer has ended at most this time after the last fault
/// (specification, section 17: the second bound, and that of a peer without enough others). `longest_ms` is
/// the time of the longest computation, and a silent connection is closed after `silence_ms`.
#[must_use]
pub(crate) fn bound_ms(ctx: &Context, silence_ms: u64, longest_ms: u64) -> u64 {
    let timing = &ctx.session.timing;
    let patience = timing.view_timeout_ms + HEARTBEAT_MS;
    let chunks = |slot: usize| ctx.plan[slot].len().div_ceil(CHUNK) as u64;
    let slots = 0..ctx.plan.len();
    let view =
        3 * patience + slots.clone().map(|q| longest_ms + (10 + 7 * chunks(q)) * patience).sum::<u64>();
    let fetch = slots.map(|q| (1 + chunks(q)) * patience).sum::<u64>();
    let next = 100 + timing.proposal_backoff_ms + fetch;
    let together = longest_ms + patience + next + view + timing.linger_ms;
    let alone = view + timing.start_wait_ms + timing.no_quorum_timeout_ms;
    silence_ms + together.max(alone)
}
