//! Values that the committee decides on, and the records of a decision.

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
    /// Pads in the order of the deals. `None` for an inconsistent deal of a coin, which does not count.
    pub pads: Vec<Option<[u8; 32]>>,
    /// Releases that prove that a deal is inconsistent. Empty if all deals are consistent.
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
    let Some(ballot) = acknowledgements.first().map(|first| first.item.ballot) else { return false };
    if acknowledgements.len() > ctx.committee.len() {
        return false;
    }
    let mut authors: Vec<_> = acknowledgements
        .iter()
        .filter(|each| {
            each.item.ballot == ballot
                && each.item.slot == slot
                && each.item.value == *value
                && ctx.committee_index(each.author).is_some()
                && each.verify(ctx)
        })
        .map(|each| each.author)
        .collect();
    authors.sort_unstable();
    authors.dedup();
    authors.len() >= ctx.quorum
}

impl Committed {
    /// Checks everything except the sealed total, whose digest is in the value.
    pub fn check(&self, ctx: &Context) -> Result<(), String> {
        self.record.check(ctx)?;
        let SumId { slot, .. } = self.record.value.sum;
        if !decided(ctx, slot, &self.record.digest(ctx), &self.acknowledgements) {
            return Err("no quorum of the committee acknowledged it".into());
        }
        if self.pads.len() != self.record.deals.len() {
            return Err(format!("{} pads for {} deals", self.pads.len(), self.record.deals.len()));
        }
        let shown = self.shown(ctx)?;
        for ((pad, signed), shown) in self.pads.iter().zip(&self.record.deals).zip(shown) {
            match pad {
                Some(pad)
                    if deal::pad_hash(ctx, signed.item.sum, signed.author, pad) == signed.item.pad_hash => {}
                None if slot == 0 && shown => {}
                _ => return Err(format!("wrong pad of {}", ctx.session.name(signed.author))),
            }
        }
        Ok(())
    }

    /// Returns which deals are inconsistent according to the releases.
    fn shown(&self, ctx: &Context) -> Result<Vec<bool>, String> {
        let deals = &self.record.deals;
        if self.pads.iter().all(Option::is_some) {
            let none = if self.releases.is_empty() { Ok(()) } else { Err("releases that show nothing") };
            return none.map(|()| vec![false; deals.len()]).map_err(Into::into);
        }
        if self.releases.len() > ctx.committee.len() {
            return Err("more releases than committee members".into());
        }
        let value = self.record.digest(ctx);
        let mut opening = Opening::default();
        for release in &self.releases {
            let fits = release.item.value == value && release.verify(ctx);
            if !fits || opening.add(ctx, deals, release).is_err() {
                return Err(format!("wrong release of {}", release.author));
            }
        }
        let pads = opening.pads(ctx, deals).ok_or("too few releases to show that a deal is inconsistent")?;
        Ok(pads.iter().map(Option::is_none).collect())
    }

    /// Returns the session's seed: SHA-256(tag "seed" || session id || for each sound pad: dealer, pad).
    #[must_use]
    pub fn seed(&self, ctx: &Context) -> [u8; 32] {
        let start = tagged_hash("seed").chain_update(ctx.id.0);
        self.record
            .deals
            .iter()
            .zip(&self.pads)
            .filter_map(|(deal, pad)| pad.map(|pad| (deal.author, pad)))
            .fold(start, |hash, (dealer, pad)| hash.chain_update(dealer.0.to_le_bytes()).chain_update(pad))
            .finalize()
            .into()
    }
}
