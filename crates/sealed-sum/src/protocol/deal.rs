//! Pads: dealing them to the committee, and putting them together again.
//!
//! A pad is a uniform scalar, fresh for one vector of one view. Its dealer shares it among the whole
//! committee (Shamir 1979, threshold: the committee's quorum), each share sealed to its holder's roster
//! identity, so that a member that is away can still use its share when it returns. The dealer signs the hash
//! of the pad and of every share: a wrong share is seen when it is released, and a deal whose shares do not
//! lie on one polynomial is seen by everybody alike when it is put together.

use std::collections::BTreeMap;

use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use sha2::Digest;
use zeroize::Zeroizing;

use super::Fault;
use super::context::Context;
use super::signed::{Item, Signed};
use super::sum_id::SumId;
use crate::crypto::envelope::{self, Sealed};
use crate::crypto::shamir::{self, Secret, Share};
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// A pad's key, from which its stream is derived.
pub type Pad = Zeroizing<[u8; 32]>;

/// A committee member's share of each pad: (dealer, share), in the order of the deals.
pub type Shares = Vec<(Peer, [u8; 32])>;

/// The public part of a pad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deal {
    /// The vector that the pad hides.
    pub sum: SumId,
    /// See [`pad_hash`].
    pub pad_hash: [u8; 32],
    /// See `shamir::share_hash`, in committee order.
    pub share_hashes: Vec<[u8; 32]>,
    /// The shares, each for one committee member, in committee order.
    pub sealed: Sealed,
}

impl Item for Deal {
    const TAG: &'static str = "deal";
}

/// Shares of every pad of one sum, as one committee member releases them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The sum whose pads these are: the one that was decided, perhaps of an earlier view.
    pub sum: SumId,
    /// The value that was decided: a sum may have been shown with other deals to others.
    pub value: [u8; 32],
    /// One of each deal.
    pub shares: Shares,
}

impl Item for Release {
    const TAG: &'static str = "release";
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Release({:?}, <redacted>)", self.sum)
    }
}

/// SHA-256(tag "pad" || context || dealer || pad).
#[must_use]
pub fn pad_hash(ctx: &Context, sum: SumId, dealer: Peer, pad: &[u8; 32]) -> [u8; 32] {
    tagged_hash("pad")
        .chain_update(context(ctx, sum))
        .chain_update(dealer.0.to_le_bytes())
        .chain_update(pad)
        .finalize()
        .into()
}

/// session id || ballot || slot, which binds shares and envelopes to one vector.
fn context(ctx: &Context, sum: SumId) -> Vec<u8> {
    let mut out = ctx.id.0.to_vec();
    out.extend_from_slice(&sum.to_bytes());
    out
}

fn envelope_context(ctx: &Context, sum: SumId, dealer: Peer) -> Vec<u8> {
    let mut out = context(ctx, sum);
    out.extend_from_slice(&dealer.0.to_le_bytes());
    out
}

/// A fresh pad of this peer, dealt to the committee.
pub fn make(ctx: &Context, sum: SumId, rng: &mut impl CryptoRng) -> (Pad, Signed<Deal>) {
    let secret = Secret::random(rng);
    let pad = secret.key();
    let n = ctx.committee.len();
    let shares = shamir::deal(&secret, ctx.quorum, n, rng);
    let keys: Vec<_> = ctx.committee.iter().map(|&peer| ctx.session.key(peer)).collect();
    let deal = Deal {
        sum,
        pad_hash: pad_hash(ctx, sum, ctx.me, &pad),
        share_hashes: hashes(ctx, sum, ctx.me, &shares),
        sealed: envelope::seal(
            &keys,
            &shares.iter().collect::<Vec<_>>(),
            &envelope_context(ctx, sum, ctx.me),
            rng,
        ),
    };
    (pad, Signed::new(ctx, deal))
}

fn hashes(ctx: &Context, sum: SumId, dealer: Peer, shares: &[Share]) -> Vec<[u8; 32]> {
    let context = context(ctx, sum);
    (0u16..).zip(shares).map(|(i, share)| shamir::share_hash(&context, dealer.0, i, share)).collect()
}

/// Checks all of a set of deals that can be checked without a share: authors, sum, sizes and signatures.
pub fn check(ctx: &Context, sum: SumId, members: &[Peer], deals: &[Signed<Deal>]) -> Result<(), String> {
    let dealers: Vec<_> = deals.iter().map(|deal| deal.author).collect();
    if dealers != ctx.dealers(sum.slot, members) {
        return Err(format!("deals by {dealers:?}, expected {:?}", ctx.dealers(sum.slot, members)));
    }
    let n = ctx.committee.len();
    for deal in deals {
        if deal.item.sum != sum || deal.item.share_hashes.len() != n || deal.item.sealed.boxes.len() != n {
            return Err(format!(
                "deal of {} does not fit the sum or the committee",
                ctx.session.name(deal.author)
            ));
        }
        if !deal.verify(ctx) {
            return Err(format!("bad signature on the deal of {}", ctx.session.name(deal.author)));
        }
    }
    Ok(())
}

/// This committee member's share of every deal, opened and checked; `Err` names the dealer of one that does
/// not fit.
pub fn own_shares(ctx: &Context, index: usize, deals: &[Signed<Deal>]) -> Result<Shares, (Peer, Fault)> {
    deals
        .iter()
        .map(|deal| {
            let bad = |what: &str| (deal.author, Fault::BadDeal(what.into()));
            let sum = deal.item.sum;
            let bytes = envelope::open(
                &ctx.identity,
                index,
                &envelope_context(ctx, sum, deal.author),
                &deal.item.sealed,
            )
            .map_err(|_| bad("an envelope does not open"))?;
            let share = Share::from_bytes(*bytes).ok_or_else(|| bad("a share is no scalar"))?;
            let place = u16::try_from(index)
                .unwrap_or_else(|_| unreachable!("BUG: committees have at most 15 members"));
            let hash = shamir::share_hash(&context(ctx, sum), deal.author.0, place, &share);
            if deal.item.share_hashes.get(index) != Some(&hash) {
                return Err(bad("a share does not match its published hash"));
            }
            Ok((deal.author, *bytes))
        })
        .collect()
}

/// Puts released shares together.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// dealer -> (committee index -> share)
    shares: BTreeMap<Peer, BTreeMap<usize, Share>>,
}

impl Opening {
    /// Takes one member's release, checked against the published hashes.
    pub fn add(
        &mut self,
        ctx: &Context,
        deals: &[Signed<Deal>],
        release: &Signed<Release>,
    ) -> Result<(), Fault> {
        let index = ctx.committee_index(release.author).ok_or(Fault::OutOfOrder("release"))?;
        let place =
            u16::try_from(index).unwrap_or_else(|_| unreachable!("BUG: committees have at most 15 members"));
        for (dealer, bytes) in &release.item.shares {
            let deal = deals
                .iter()
                .find(|deal| deal.author == *dealer && deal.item.sum == release.item.sum)
                .ok_or_else(|| Fault::Inconsistent(format!("share of an unknown deal by {dealer}")))?;
            let share = Share::from_bytes(*bytes).ok_or(Fault::BadShare(*dealer))?;
            let hash = shamir::share_hash(&context(ctx, release.item.sum), dealer.0, place, &share);
            if deal.item.share_hashes.get(index) != Some(&hash) {
                return Err(Fault::BadShare(*dealer));
            }
            self.shares.entry(*dealer).or_default().insert(index, share);
        }
        Ok(())
    }

    /// All pads, in the order of the deals, once there are enough shares of each. `None` in a pad's place:
    /// its deal is inconsistent, which every peer finds alike from any shares that match their hashes.
    #[must_use]
    pub fn pads(&self, ctx: &Context, deals: &[Signed<Deal>]) -> Option<Vec<Option<Pad>>> {
        deals
            .iter()
            .map(|deal| {
                let shares: Vec<_> = self
                    .shares
                    .get(&deal.author)?
                    .iter()
                    .map(|(&index, share)| (index, share.clone()))
                    .collect();
                let (secret, all) = shamir::reconstruct(&shares, ctx.quorum, ctx.committee.len())?;
                let pad = secret.key();
                let sound = hashes(ctx, deal.item.sum, deal.author, &all) == deal.item.share_hashes
                    && pad_hash(ctx, deal.item.sum, deal.author, &pad) == deal.item.pad_hash;
                Some(sound.then_some(pad))
            })
            .collect()
    }
}
