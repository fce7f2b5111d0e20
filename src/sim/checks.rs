//! Properties that must hold after every event of a run, whatever the faults.
//!
//! | check | held against |
//! | --- | --- |
//! | one opening | a majority of the committee releases the pads of at most one sum of each quantity, and all peers commit the same value |
//! | exact | every opened vector is the plain sum of what the members that its value names have put in, unless it comes from an exchange; all have the same seed and the same vectors |
//! | honest | no peer that follows the protocol blames another that does |
//! | blamed | a peer that is blamed broke the protocol, and the fault named is one of its way of doing so |
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
    /// A quantity was opened twice.
    OneOpening,
    /// A result is not the sum.
    Exact,
    /// An honest peer was blamed.
    Honest,
    /// A peer was blamed with the wrong thing, or not at all.
    Blamed,
    /// A peer did not end in time.
    Ends,
    /// An expectation of the scenario was not met.
    Expected,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The check.
    pub check: Check,
    /// Time of the failure, virtual milliseconds.
    pub at_ms: u64,
    /// Description of the failure.
    pub text: String,
}

/// The checks of one run, and all that they need to know of it.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Peers that break the protocol, and their way of doing so.
    pub liars: BTreeMap<Peer, Tamper>,
    /// Peers with another session file: they and the others refuse each other.
    pub strangers: BTreeSet<Peer>,
    /// sum -> committee members whose shares of its pads have left.
    releases: BTreeMap<SumId, BTreeSet<Peer>>,
    opened_sums: BTreeMap<u32, SumId>,
    values: BTreeMap<u32, Value>,
    /// The vector that each peer put in: (slot, peer) -> vector.
    vectors: BTreeMap<(u32, Peer), Bytes>,
    /// (slot, digest of the value) -> the plain sum.
    expected: BTreeMap<(u32, [u8; 32]), Bytes>,
    seed: Option<Bytes>,
    /// (blaming peer, blamed peer) -> names of the faults.
    pub blames: BTreeMap<(Peer, Peer), BTreeSet<&'static str>>,
    /// Number of times that a check looked at something.
    pub looked: u64,
    /// The failures, at most five of each check.
    pub violations: Vec<Violation>,
}

impl Checks {
    /// Records a failure; of each check the first five.
    pub fn violated(&mut self, now: Time, check: Check, text: String) {
        if self.violations.iter().filter(|each| each.check == check).count() < 5 {
            self.violations.push(Violation { check, at_ms: now.0 / 1000, text });
        }
    }

    /// Looks at a message that leaves.
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

    /// Looks at a value that a peer has committed.
    pub fn commits(&mut self, now: Time, peer: Peer, value: &Value) {
        self.looked += 1;
        let first = self.values.entry(value.sum.slot).or_insert_with(|| value.clone());
        if first != value {
            let text = format!("{peer} committed {:?}, another committed {:?}", value.sum, first.sum);
            self.violated(now, Check::OneOpening, text);
        }
    }

    /// Looks at the result of a job: a vector that a peer puts in, or one that it has opened.
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
                // What went into it is known to the exchange alone; the task's results are held against the
                // pooled rows. Such a slot has no vector that a task made from its rows.
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
        let quantity = &ctx.plan[slot as usize];
        let mut sum = vec![0; quantity.len()];
        for &member in &value.members {
            let Some(vector) = self.vectors.get(&(slot, member)) else {
                return Err(format!("slot {slot} names {member}, which has put nothing in"));
            };
            mask::add(quantity.word(), &mut sum, vector);
        }
        let sum = Bytes::from(sum);
        self.expected.insert((slot, digest), sum.clone());
        Ok(sum)
    }

    /// The committed value of each slot.
    #[must_use]
    pub fn values(&self) -> &BTreeMap<u32, Value> {
        &self.values
    }

    /// Looks at the fault with which a peer blames another.
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

/// The time after the last fault by which every peer has ended, milliseconds (specification, section 17, the
/// second bound, and that of a peer without enough others), where no computation takes longer than
/// `longest_ms` and a silent connection is given up after `silence_ms`.
#[must_use]
pub(crate) fn bound_ms(ctx: &Context, silence_ms: u64, longest_ms: u64) -> u64 {
    let timing = &ctx.session.timing;
    let patience = timing.stall_ms + HEARTBEAT_MS;
    let chunks = |slot: usize| ctx.plan[slot].len().div_ceil(CHUNK) as u64;
    let slots = 0..ctx.plan.len();
    let view =
        3 * patience + slots.clone().map(|q| longest_ms + (10 + 7 * chunks(q)) * patience).sum::<u64>();
    let fetch = slots.map(|q| (1 + chunks(q)) * patience).sum::<u64>();
    let next = 100 + timing.propose_ms + fetch;
    let together = longest_ms + patience + next + view + timing.linger_ms;
    let alone = view + timing.gather_ms + timing.quorum_ms;
    silence_ms + together.max(alone)
}
