//! Values that the committee decides on, and the records of a decision.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::ballot::Ballot;
use super::context::Context;
use super::deal::{self, Deal, Opening, Release};
use super::signed::{Item, Signed};
use super::sum_id::SumId;
use super::wire;
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// Value that a committee member without a vote acknowledges, so that its missing acknowledgement is not
/// taken for a fault.
pub const NO_VALUE: [u8; 32] = [0; 32];

/// Sealed sum that may be opened: the value of the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// View of the sum, and the aggregate.
    pub sum: SumId,
    /// Members whose vectors it contains, ascending.
    pub members: Vec<Peer>,
    /// Digest of the sealed total (see `all_reduce::total_digest`).
    pub total: [u8; 32],
    /// SHA-256(tag "deals" || canonical encoding of the deals).
    pub deals: [u8; 32],
}

/// Value with the deals of its pads, which are needed to finish it. The sealed total is transferred
/// separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Value.
    pub value: Value,
    /// Deals of the pads, in committee order of their dealers.
    pub deals: Vec<Signed<Deal>>,
}

/// Acknowledgement of a value in a ballot by a committee member. The member has stored the record and the
/// sealed total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// Ballot of the acknowledgement (not always the ballot of the sum).
    pub ballot: Ballot,
    /// Aggregate.
    pub slot: u32,
    /// Digest of the record, see [`Record::digest`].
    pub value: [u8; 32],
}

impl Item for Acknowledgement {
    const TAG: &'static str = "acknowledgement";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

/// Decided and opened aggregate, with the proof of both.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Decided record.
    pub record: Record,
    /// Acknowledgements of a quorum in one ballot.
    pub acknowledgements: Vec<Signed<Acknowledgement>>,
    /// Pads in the order of the deals.
    pub pads: Vec<[u8; 32]>,
    /// Releases of a quorum, which prove the pads. Empty if there are no deals.
    pub releases: Vec<Signed<Release>>,
}

impl std::fmt::Debug for Committed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Committed({:?}, <redacted>)", self.record.value)
    }
}

impl Record {
    /// Makes the record of one sum with these deals.
    #[must_use]
    pub fn new(sum: SumId, members: Vec<Peer>, total: [u8; 32], deals: Vec<Signed<Deal>>) -> Self {
        Self { value: Value { sum, members, total, deals: deals_digest(&deals) }, deals }
    }

    /// Returns SHA-256(tag "value" || session id || canonical encoding of the value).
    #[must_use]
    pub fn digest(&self, ctx: &Context) -> [u8; 32] {
        tagged_hash("value")
            .chain_update(ctx.id.0)
            .chain_update(wire::canonical(&self.value))
            .finalize()
            .into()
    }

    /// Checks that members, deals and digests fit together. The error names the mismatch.
    pub fn check(&self, ctx: &Context) -> Result<(), String> {
        let members = &self.value.members;
        if !members.is_sorted_by(|a, b| a < b) || members.last().is_none_or(|last| last.0 >= ctx.peers()) {
            return Err("members are not an ascending list of roster peers".into());
        }
        if self.value.sum.slot as usize >= ctx.plan.len() {
            return Err(format!("slot {} of {}", self.value.sum.slot, ctx.plan.len()));
        }
        if self.value.deals != deals_digest(&self.deals) {
            return Err("the deals do not match their digest".into());
        }
        deal::check(ctx, self.value.sum, members, &self.deals)
    }
}

fn deals_digest(deals: &[Signed<Deal>]) -> [u8; 32] {
    tagged_hash("deals").chain_update(wire::canonical(&deals)).finalize().into()
}

/// Returns whether a quorum of the committee has acknowledged `value` for `slot`, all in one ballot.
#[must_use]
pub fn decided(
    ctx: &Context,
    slot: u32,
    value: &[u8; 32],
    acknowledgements: &[Signed<Acknowledgement>],
) -> bool {
    let Some(first) = acknowledgements.first() else { return false };
    let wanted = Acknowledgement { ballot: first.item.ballot, slot, value: *value };
    let mut authors = BTreeSet::new();
    acknowledgements.len() >= ctx.quorum
        && acknowledgements.len() <= ctx.committee.len()
        && acknowledgements.iter().all(|each| {
            let member = ctx.committee_index(each.author).is_some();
            member && authors.insert(each.author) && each.item == wanted && each.verify(ctx)
        })
}

impl Committed {
    /// Checks everything except the sealed total, whose digest is in the value.
    pub fn check(&self, ctx: &Context) -> Result<(), String> {
        self.record.check(ctx)?;
        let SumId { slot, .. } = self.record.value.sum;
        if !decided(ctx, slot, &self.record.digest(ctx), &self.acknowledgements) {
            return Err("no quorum of the committee acknowledged the value".into());
        }
        let deals = &self.record.deals;
        let due = if deals.is_empty() { 0 } else { ctx.quorum };
        if self.releases.len() != due {
            return Err(format!("{} releases, expected {due}", self.releases.len()));
        }
        let value = self.record.digest(ctx);
        let mut opening = Opening::default();
        for release in &self.releases {
            let fits = release.item.value == value && release.verify(ctx);
            if !fits || opening.add(ctx, deals, release).is_err() {
                return Err(format!("wrong release of {}", release.author));
            }
        }
        let pads = opening.pads(ctx, deals).ok_or("two releases of one member")?;
        let same = pads.len() == self.pads.len() && pads.iter().zip(&self.pads).all(|(a, b)| **a == *b);
        if same { Ok(()) } else { Err("the pads are not those of the releases".into()) }
    }

    /// Returns the session's seed: SHA-256(tag "seed" || session id || for each pad: dealer, pad).
    #[must_use]
    pub fn seed(&self, ctx: &Context) -> [u8; 32] {
        let start = tagged_hash("seed").chain_update(ctx.id.0);
        self.record
            .deals
            .iter()
            .zip(&self.pads)
            .fold(start, |hash, (deal, pad)| hash.chain_update(deal.author.0.to_le_bytes()).chain_update(pad))
            .finalize()
            .into()
    }
}
