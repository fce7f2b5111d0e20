//! Pads: dealing them to the committee, and reconstructing them.
//!
//! A pad is a uniform scalar, fresh for one vector of one view. Its dealer shares it among the whole
//! committee (Shamir 1979, threshold: the committee's quorum). Each share is sealed to its holder's roster
//! identity, so a member that is away can still use its share when it returns. The dealer signs the hash
//! of the pad and of every share. So a wrong share is detected when it is released. If the shares of a
//! deal do not lie on one polynomial, all peers detect it in the same way when they reconstruct the pad.

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

/// Key of a pad. The pad's stream is derived from it.
pub type Pad = Zeroizing<[u8; 32]>;

/// Shares of each pad that one committee member holds: (dealer, share), in the order of the deals.
pub type Shares = Vec<(Peer, [u8; 32])>;

/// Public part of a pad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deal {
    /// Vector that the pad hides.
    pub sum: SumId,
    /// Hash of the pad, see [`pad_hash`].
    pub pad_hash: [u8; 32],
    /// Hashes of the shares, see `shamir::share_hash`, in committee order.
    pub share_hashes: Vec<[u8; 32]>,
    /// Shares, one for each committee member, in committee order.
    pub sealed: Sealed,
}

impl Item for Deal {
    const TAG: &'static str = "deal";

    fn has_lengths(&self, ctx: &Context) -> bool {
        let n = ctx.committee.len();
        self.share_hashes.len() == n && self.sealed.boxes.len() == n
    }
}

/// Shares of every pad of one sum that one committee member releases.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Sum of the pads. It is the decided sum, possibly of an earlier view.
    pub sum: SumId,
    /// Value that was decided. The same sum may have been shown to other peers with other deals.
    pub value: [u8; 32],
    /// One share of each deal.
    pub shares: Shares,
}

impl Item for Release {
    const TAG: &'static str = "release";

    /// At most one share of each dealer, because dealers are members of the committee.
    fn has_lengths(&self, ctx: &Context) -> bool {
        self.shares.len() <= ctx.committee.len()
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Release({:?}, <redacted>)", self.sum)
    }
}

/// Returns SHA-256(tag "pad" || context || dealer || pad).
#[must_use]
pub fn pad_hash(ctx: &Context, sum: SumId, dealer: Peer, pad: &[u8; 32]) -> [u8; 32] {
    tagged_hash("pad")
        .chain_update(context(ctx, sum))
        .chain_update(dealer.0.to_le_bytes())
        .chain_update(pad)
        .finalize()
        .into()
}

/// Returns session id || ballot || slot, which binds shares and envelopes to one vector.
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

/// Makes a fresh pad of this peer and deals it to the committee.
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

/// Checks a set of deals without a share: authors, sum, sizes and signatures.
pub fn check(ctx: &Context, sum: SumId, members: &[Peer], deals: &[Signed<Deal>]) -> Result<(), String> {
    let dealers: Vec<_> = deals.iter().map(|deal| deal.author).collect();
    if dealers != ctx.dealers(sum.slot, members) {
        return Err(format!("deals by {dealers:?}, expected {:?}", ctx.dealers(sum.slot, members)));
    }
    for deal in deals {
        if deal.item.sum != sum || !deal.item.has_lengths(ctx) {
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

/// Opens and checks this committee member's share of every deal. `Err` names the dealer of a deal that
/// does not fit.
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

/// Collects released shares and reconstructs the pads.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// dealer -> (committee index -> share)
    shares: BTreeMap<Peer, BTreeMap<usize, Share>>,
}

impl Opening {
    /// Adds one member's release after a check against the published hashes.
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

    /// Returns all pads, in the order of the deals, once there are enough shares of each. If a deal is
    /// inconsistent, its pad is `None`. Every peer finds the same result from any shares that match their
    /// hashes.
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
