//! Pads: dealing them to the committee, and reconstructing them.
//!
//! A pad is fresh for one vector of one view. Its dealer shares it among the whole committee (threshold:
//! the committee's quorum), publicly verifiable: see [`crate::crypto::sharing`]. Each share is sealed to its
//! holder's roster identity, so a member that is away can still open its share when it returns. Every peer
//! checks all shares of a deal before it passes the deal on. So each committee member holds a right share of
//! each pad of a record, and any quorum of the members opens the sum. A liar cannot prevent that.

use std::collections::BTreeMap;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use sha2::Digest;
use zeroize::Zeroizing;

use super::context::Context;
use super::record::Record;
use super::signed::{Item, Signed};
use super::sum_id::SumId;
use super::{Fault, memo, wire};
use crate::crypto::identity::PublicKey;
use crate::crypto::sharing::{self, Dealt, Opened, Point};
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// Key of a pad. The pad's stream is derived from it.
pub type Pad = Zeroizing<[u8; 32]>;

/// Public part of a pad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deal {
    /// Vector that the pad hides.
    pub sum: SumId,
    /// Sealed shares, one for each committee member, in committee order, and the proof that they are right.
    pub dealt: Dealt,
}

impl Item for Deal {
    const TAG: &'static str = "deal";

    fn has_lengths(&self, ctx: &Context) -> bool {
        self.dealt.shares.len() == ctx.committee.len() && self.dealt.responses.len() == ctx.quorum
    }

    /// Returns whether every committee member can open a right share of one secret. The result is the same
    /// at every peer.
    fn is_sound(&self, ctx: &Context, author: Peer) -> bool {
        let argument = || [&context(ctx, self.sum, author)[..], &wire::canonical(&self.dealt)].concat();
        let check =
            || sharing::is_sound(&keys(ctx), ctx.quorum, &context(ctx, self.sum, author), &self.dealt);
        memo::holds(argument, check)
    }
}

/// Shares of every pad of one sum that one committee member releases.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Sum of the pads. It is the decided sum, possibly of an earlier view.
    pub sum: SumId,
    /// Value that was decided. The same sum may have been shown to other peers with other deals.
    pub value: [u8; 32],
    /// Opened share of each deal, in the order of the deals.
    pub shares: Vec<Point>,
    /// Proof that the shares are right: its hash, and the answer.
    pub challenge: [u8; 32],
    /// See `challenge`.
    pub response: [u8; 32],
}

impl Item for Release {
    const TAG: &'static str = "release";

    /// A release has at most one share of each dealer, because dealers are members of the committee.
    fn has_lengths(&self, ctx: &Context) -> bool {
        self.shares.len() <= ctx.committee.len()
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Release({:?}, <redacted>)", self.sum)
    }
}

/// Returns session id || ballot || slot || author, which binds a deal or a release to one vector and to its
/// author.
fn context(ctx: &Context, sum: SumId, author: Peer) -> Vec<u8> {
    [&ctx.id.0[..], &sum.to_bytes(), &author.0.to_le_bytes()].concat()
}

fn keys(ctx: &Context) -> Vec<PublicKey> {
    ctx.committee.iter().map(|&peer| ctx.session.key(peer)).collect()
}

/// Returns the pad whose secret is this point: SHA-256(tag "pad" || context || point).
fn pad(ctx: &Context, sum: SumId, dealer: Peer, secret: &Point) -> Pad {
    let hash = tagged_hash("pad").chain_update(context(ctx, sum, dealer)).chain_update(secret);
    Zeroizing::new(hash.finalize().into())
}

/// Makes a fresh pad of this peer and deals it to the committee.
pub fn make(ctx: &Context, sum: SumId, rng: &mut impl CryptoRng) -> (Pad, Signed<Deal>) {
    let context = context(ctx, sum, ctx.me);
    let (secret, dealt) = match memo::same(&context) {
        None => sharing::deal(&keys(ctx), ctx.quorum, &context, rng),
        Some(seed) => memo::dealt(seed, || {
            sharing::deal(&keys(ctx), ctx.quorum, &context, &mut ChaCha20Rng::from_seed(seed))
        }),
    };
    (pad(ctx, sum, ctx.me, &secret), Signed::new(ctx, Deal { sum, dealt }))
}

/// Checks a set of deals: authors, sum, sizes, signatures and proofs.
pub fn check(ctx: &Context, sum: SumId, members: &[Peer], deals: &[Signed<Deal>]) -> Result<(), String> {
    let dealers: Vec<_> = deals.iter().map(|deal| deal.author).collect();
    if dealers != ctx.dealers(sum.slot, members) {
        return Err(format!("deals by {dealers:?}, expected {:?}", ctx.dealers(sum.slot, members)));
    }
    for deal in deals {
        let name = || ctx.session.name(deal.author);
        if deal.item.sum != sum || !deal.item.has_lengths(ctx) {
            return Err(format!("deal of {} does not fit the sum or the committee", name()));
        }
        if !deal.is_signed(ctx) {
            return Err(format!("bad signature on the deal of {}", name()));
        }
        if !deal.item.is_sound(ctx, deal.author) {
            return Err(format!("bad shares in the deal of {}", name()));
        }
    }
    Ok(())
}

/// Returns the dealers that have signed a deal with bad shares.
pub fn liars<'a>(ctx: &'a Context, deals: &'a [Signed<Deal>]) -> impl Iterator<Item = Peer> + 'a {
    let bad = deals.iter().filter(|deal| deal.is_signed(ctx) && !deal.item.is_sound(ctx, deal.author));
    bad.map(|deal| deal.author)
}

/// Opens this committee member's share of every deal of a checked record. Returns `None` if the record was
/// not checked and has a share that is not a point.
#[must_use]
pub fn release(ctx: &Context, record: &Record) -> Option<Signed<Release>> {
    let (sum, value) = (record.value.sum, record.digest(ctx));
    let sealed = sealed(ctx, ctx.me, &record.deals)?;
    let context = context(ctx, sum, ctx.me);
    let open = || sharing::open(&ctx.identity, &context, &sealed);
    let Opened { shares, challenge, response } =
        memo::opened(|| [&context[..], &sealed.concat()].concat(), open)?;
    Some(Signed::new(ctx, Release { sum, value, shares, challenge, response }))
}

/// Returns the sealed shares of a committee member.
fn sealed(ctx: &Context, member: Peer, deals: &[Signed<Deal>]) -> Option<Vec<Point>> {
    let index = ctx.committee_index(member)?;
    deals.iter().map(|deal| deal.item.dealt.shares.get(index).copied()).collect()
}

/// Collects released shares and reconstructs the pads.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Shares of each committee member, in the order of the deals.
    shares: BTreeMap<usize, Vec<Point>>,
}

impl Opening {
    /// Adds one member's release, after a check against the deals. The caller has checked its signature.
    pub fn add(
        &mut self,
        ctx: &Context,
        deals: &[Signed<Deal>],
        release: &Signed<Release>,
    ) -> Result<(), Fault> {
        let index = ctx.committee_index(release.author).ok_or(Fault::OutOfOrder("release"))?;
        let Release { sum, ref shares, challenge, response, .. } = release.item;
        if shares.len() != deals.len() || deals.iter().any(|deal| deal.item.sum != sum) {
            return Err(Fault::Inconsistent("not one share of each deal".into()));
        }
        let sealed = sealed(ctx, release.author, deals).ok_or(Fault::BadShare)?;
        let opened = Opened { shares: shares.clone(), challenge, response };
        let (key, context) = (ctx.session.key(release.author), context(ctx, sum, release.author));
        let argument = || {
            let parts = [&context[..], &challenge, &response];
            [parts.concat(), sealed.concat(), shares.concat()].concat()
        };
        if !memo::holds(argument, || sharing::is_opened(key, &context, &sealed, &opened)) {
            return Err(Fault::BadShare);
        }
        self.shares.insert(index, opened.shares);
        Ok(())
    }

    /// Returns all pads, in the order of the deals, once there are enough shares of each. Every peer finds
    /// the same pads from any right shares.
    #[must_use]
    pub fn pads(&self, ctx: &Context, deals: &[Signed<Deal>]) -> Option<Vec<Pad>> {
        let pad = |(place, deal): (usize, &Signed<Deal>)| {
            let of = |(&index, shares): (&usize, &Vec<Point>)| Some((index, *shares.get(place)?));
            let shares = self.shares.iter().map(of).collect::<Option<Vec<_>>>()?;
            let argument = || shares.iter().flat_map(|(index, share)| [&[*index as u8], &share[..]].concat());
            let secret = memo::secret(|| argument().collect(), || sharing::reconstruct(&shares, ctx.quorum))?;
            Some(pad(ctx, deal.item.sum, deal.author, &secret))
        };
        deals.iter().enumerate().map(pad).collect()
    }

    /// Returns the number of members whose shares were added.
    #[must_use]
    pub fn members(&self) -> usize {
        self.shares.len()
    }
}
