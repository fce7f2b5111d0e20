//! Keys of a view, and the masks that cancel over its members (Bonawitz et al., CCS 2017).
//!
//! Each member makes an X25519 key for the view and signs it. k_ij is derived from the pair's shared secret,
//! the session, the ballot and both peers, lower first. Member i adds PRG(k_ij) for every partner j > i and
//! subtracts it for j < i. Up to [`FULL_MESH`] members everybody is everybody's partner; above, the partners
//! form a random circulant graph (Bell et al. 2020, section 3) over the members in the order of a hash that
//! includes every key of the view, so that nobody chooses its partners.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::all_reduce::SumId;
use super::ballot::Ballot;
use super::context::{Context, FULL_MESH};
use super::memo;
use super::signed::{Item, Signed};
use crate::crypto::agreement::{EphemeralSecret, Key};
use crate::crypto::mask::{self, Sign, Word};
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// A member's public key for one view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewKey {
    /// The view.
    pub ballot: Ballot,
    /// X25519, 32 bytes.
    pub public: [u8; 32],
}

impl Item for ViewKey {
    const TAG: &'static str = "view key";
}

/// One stream of a mask.
#[derive(Clone)]
pub struct Mask {
    /// The stream's key: k_ij, or a pad.
    pub key: Arc<[u8; 32]>,
    /// "mask" or "pad".
    pub label: &'static str,
    /// Ballot and slot, so that a key masks each vector with a stream of its own.
    pub params: [u8; 14],
    /// Added or subtracted.
    pub sign: Sign,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} {:?} <redacted>)", self.label, self.sign)
    }
}

impl Mask {
    /// A stream for the vector of `sum`.
    #[must_use]
    pub fn new(key: Arc<[u8; 32]>, label: &'static str, sum: SumId, sign: Sign) -> Self {
        Self { key, label, params: sum.to_bytes(), sign }
    }
}

/// Every stream that one peer puts on one vector.
#[derive(Clone, Debug)]
pub struct Masks {
    /// The vector's ring.
    pub word: Word,
    /// The streams of the masks.
    pub masks: Vec<Mask>,
}

impl Masks {
    /// Applies all streams to the part of the vector that starts at byte `offset`.
    pub fn apply(&self, data: &mut [u8], offset: u64) {
        let begin = |each: &Mask| {
            let mut stream = Stream::new(&*each.key, each.label, &each.params);
            stream.seek(offset);
            (each.sign, stream)
        };
        let mut streams: Vec<_> = self.masks.iter().map(begin).collect();
        mask::apply_all(self.word, data, &mut streams);
    }
}

/// Partners of `me`, given every member's key. Symmetric: j is a partner of i if and only if i is one of j.
#[must_use]
pub(crate) fn partners(ctx: &Context, keys: &BTreeMap<Peer, [u8; 32]>, me: Peer) -> Vec<Peer> {
    let p = keys.len();
    if p <= FULL_MESH {
        return keys.keys().copied().filter(|&peer| peer != me).collect();
    }
    let all = keys
        .iter()
        .fold(tagged_hash("graph").chain_update(ctx.id.0), |hash, (_, key)| hash.chain_update(key));
    // What is hashed so far names the session and every key: with the members nothing else enters.
    let argument = || {
        keys.keys().fold(all.clone(), |hash, peer| hash.chain_update(peer.0.to_le_bytes())).finalize().into()
    };
    let ring = memo::graph(argument, || {
        let place = |&peer: &Peer| {
            (<[u8; 32]>::from(all.clone().chain_update(peer.0.to_le_bytes()).finalize()), peer)
        };
        let mut ring: Vec<_> = keys.keys().map(place).collect();
        ring.sort_unstable();
        ring.into_iter().map(|(_, peer)| peer).collect()
    });
    let Some(place) = ring.iter().position(|&peer| peer == me) else { return Vec::new() };
    let half = degree(p, ctx.session.privacy.colluding).div_ceil(2).min((p - 1) / 2);
    let mut out: Vec<_> =
        (1..=half).flat_map(|step| [ring[(place + step) % p], ring[(place + p - step) % p]]).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// ceil((40 + log2 p) / log2(1 / gamma)): all partners of some peer collude with probability below 2^-40.
#[must_use]
pub(crate) fn degree(p: usize, colluding: f64) -> usize {
    let exact = (40.0 + (p as f64).log2()) / (1.0 / colluding).log2();
    exact.ceil() as usize
}

/// k_ij with every partner of this peer; `Err` names the partner whose key is of low order.
pub(crate) fn agree(
    ctx: &Context,
    ballot: Ballot,
    secret: &EphemeralSecret,
    keys: &BTreeMap<Peer, [u8; 32]>,
) -> Result<BTreeMap<Peer, Arc<[u8; 32]>>, Peer> {
    let mut out = BTreeMap::new();
    for peer in partners(ctx, keys, ctx.me) {
        let Some(theirs) = keys.get(&peer) else { continue };
        let (low, high) = (ctx.me.min(peer), ctx.me.max(peer));
        let mut info = ctx.id.0.to_vec();
        info.extend_from_slice(&ballot.to_bytes());
        info.extend_from_slice(ctx.session.key(low).as_bytes());
        info.extend_from_slice(ctx.session.key(high).as_bytes());
        let key: Key = secret.agree(theirs, &info).map_err(|_| peer)?;
        out.insert(peer, Arc::new(*key.as_bytes()));
    }
    Ok(out)
}

/// The pairwise streams of this peer for one vector.
#[must_use]
pub(crate) fn pair_masks(me: Peer, keys: &BTreeMap<Peer, Arc<[u8; 32]>>, sum: SumId) -> Vec<Mask> {
    keys.iter()
        .map(|(&peer, key)| {
            Mask::new(key.clone(), "mask", sum, if me < peer { Sign::Add } else { Sign::Subtract })
        })
        .collect()
}

/// Checks the signed keys of a view and returns the keys; the error names the misfit.
pub(crate) fn collect(
    ctx: &Context,
    ballot: Ballot,
    members: &[Peer],
    items: &[Signed<ViewKey>],
) -> Result<BTreeMap<Peer, [u8; 32]>, String> {
    let keys: BTreeMap<_, _> = items
        .iter()
        .filter(|key| key.item.ballot == ballot)
        .map(|key| (key.author, key.item.public))
        .collect();
    if items.len() != members.len() || !members.iter().all(|peer| keys.contains_key(peer)) {
        return Err(format!("{} keys for {} members", keys.len(), members.len()));
    }
    let needed = partners(ctx, &keys, ctx.me);
    match items.iter().find(|key| needed.binary_search(&key.author).is_ok() && !key.verify(ctx)) {
        Some(bad) => Err(format!("bad signature on the view key of {}", ctx.session.name(bad.author))),
        None => Ok(keys),
    }
}
