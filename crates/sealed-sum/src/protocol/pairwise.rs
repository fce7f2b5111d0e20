//! Keys of a view, and the masks that cancel over its members (Bonawitz et al., CCS 2017).
//!
//! Each member makes an X25519 key for the view and signs it. k_ij is derived from the pair's shared
//! secret, the session, the ballot and both peers, lower first. Member i adds PRG(k_ij) for every partner
//! j > i and subtracts it for j < i.
//!
//! With up to [`FULL_MESH`] members, every member is a partner of every other. Above that, the partners
//! form a random circulant graph (Bell et al. 2020, section 3) over the members. The order of the
//! members is drawn after every key of the view is fixed. Together with its key, each committee member
//! sends a commitment to a secret. Later it reveals the secret, together with the digest of all keys.
//! So no peer can choose its partners, not even the leader, as long as one committee member in the view
//! follows the protocol.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::ballot::Ballot;
use super::context::{Context, FULL_MESH};
use super::memo;
use super::signed::{Item, Signed};
use super::sum_id::SumId;
use crate::crypto::agreement::{EphemeralSecret, Key, SharedKey};
use crate::crypto::mask::{self, Sign, Word};
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// Public key of a member for one view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewKey {
    /// View.
    pub ballot: Ballot,
    /// Digest of the beginning that the author joined the view with
    /// ([`Begun::digest`](super::promise::Begun::digest)).
    pub begun: [u8; 32],
    /// X25519, 32 bytes.
    pub public: [u8; 32],
    /// [`commitment`] of the author to its part, if the author [takes part](Context::draws) in the draw
    /// of the mask graph. `None` for other members.
    pub commitment: Option<[u8; 32]>,
}

impl Item for ViewKey {
    const TAG: &'static str = "view key";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

/// Part of a committee member in the draw of the mask graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reveal {
    /// View.
    pub ballot: Ballot,
    /// Digest of all keys of the view ([`ViewKeys`]). The part is invalid for other keys.
    pub keys: [u8; 32],
    /// Part of the author, 32 random bytes.
    pub secret: [u8; 32],
}

impl Item for Reveal {
    const TAG: &'static str = "reveal";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

/// Returns SHA-256(tag "commitment" || session id || ballot || LE16(peer) || secret).
#[must_use]
pub fn commitment(ctx: &Context, ballot: Ballot, peer: Peer, secret: &[u8; 32]) -> [u8; 32] {
    tagged_hash("commitment")
        .chain_update(ctx.id.0)
        .chain_update(ballot.to_bytes())
        .chain_update(peer.0.to_le_bytes())
        .chain_update(secret)
        .finalize()
        .into()
}

/// Stream of a mask.
#[derive(Clone)]
pub struct Mask {
    /// Key of the stream: k_ij, or a pad.
    pub key: SharedKey,
    /// Label: "mask" or "pad".
    pub label: &'static str,
    /// Ballot and slot, so that a key masks each vector with a different stream.
    pub params: [u8; 14],
    /// Sign: added or subtracted.
    pub sign: Sign,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} {:?} <redacted>)", self.label, self.sign)
    }
}

impl Mask {
    /// Makes a stream for the vector of `sum`.
    #[must_use]
    pub fn new(key: SharedKey, label: &'static str, sum: SumId, sign: Sign) -> Self {
        Self { key, label, params: sum.to_bytes(), sign }
    }
}

/// All streams that one peer applies to one vector.
#[derive(Clone, Debug)]
pub struct Masks {
    /// Ring of the vector.
    pub word: Word,
    /// Streams of the masks.
    pub masks: Vec<Mask>,
}

impl Masks {
    /// Applies all streams to the part of the vector that starts at byte `offset`.
    pub fn apply(&self, data: &mut [u8], offset: u64) {
        let begin = |each: &Mask| {
            let mut stream = Stream::new(&each.key[..], each.label, &each.params);
            stream.seek(offset);
            (each.sign, stream)
        };
        let mut streams: Vec<_> = self.masks.iter().map(begin).collect();
        mask::apply_all(self.word, data, &mut streams);
    }
}

/// Returns the partners of `me` among the members of a view (ascending). `draw` is the random input of the
/// mask graph; it matters above [`FULL_MESH`] members. The relation is symmetric: if j is a partner of i,
/// i is a partner of j.
#[must_use]
pub fn partners(ctx: &Context, members: &[Peer], draw: &[u8; 32], me: Peer) -> Vec<Peer> {
    let p = members.len();
    if p <= FULL_MESH {
        return members.iter().copied().filter(|&peer| peer != me).collect();
    }
    let start = tagged_hash("graph").chain_update(draw);
    let argument = || {
        members
            .iter()
            .fold(start.clone(), |hash, peer| hash.chain_update(peer.0.to_le_bytes()))
            .finalize()
            .into()
    };
    let ring = memo::graph(argument, || {
        let place = |&peer: &Peer| {
            (<[u8; 32]>::from(start.clone().chain_update(peer.0.to_le_bytes()).finalize()), peer)
        };
        let mut ring: Vec<_> = members.iter().map(place).collect();
        ring.sort_unstable();
        ring.into_iter().map(|(_, peer)| peer).collect()
    });
    let Some(place) = ring.iter().position(|&peer| peer == me) else { return Vec::new() };
    let half = degree(p, most_views(ctx), ctx.session.collusion_threshold).div_ceil(2).min((p - 1) / 2);
    let mut out: Vec<_> =
        (1..=half).flat_map(|step| [ring[(place + step) % p], ring[(place + p - step) % p]]).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Returns the largest number of views of a session. Each view draws a graph.
#[must_use]
pub fn most_views(ctx: &Context) -> u64 {
    ctx.session.timing.max_views * ctx.plan.len() as u64
}

/// Returns ceil((40 + log2(p views)) / log2(1 / gamma)): the probability that all partners of some peer
/// collude in one of this number of views is below 2^-40.
#[must_use]
pub fn degree(p: usize, views: u64, collusion_threshold: f64) -> usize {
    let exact = (40.0 + (p as f64 * views as f64).log2()) / (1.0 / collusion_threshold).log2();
    exact.ceil() as usize
}

/// Computes k_ij with these partners of this peer. `Err` names a partner whose key is of low order.
pub fn agree(
    ctx: &Context,
    ballot: Ballot,
    secret: &EphemeralSecret,
    keys: &BTreeMap<Peer, [u8; 32]>,
    partners: &[Peer],
) -> Result<BTreeMap<Peer, SharedKey>, Peer> {
    let mut out = BTreeMap::new();
    for &peer in partners {
        let Some(theirs) = keys.get(&peer) else { continue };
        let (low, high) = (ctx.me.min(peer), ctx.me.max(peer));
        let mut info = ctx.id.0.to_vec();
        info.extend_from_slice(&ballot.to_bytes());
        info.extend_from_slice(ctx.session.key(low).as_bytes());
        info.extend_from_slice(ctx.session.key(high).as_bytes());
        let key: Key = memo::agree(secret, theirs, &info).map_err(|_| peer)?;
        out.insert(peer, key.shared());
    }
    Ok(out)
}

/// Returns the pairwise streams of this peer for one vector.
#[must_use]
pub fn pair_masks(me: Peer, keys: &BTreeMap<Peer, SharedKey>, sum: SumId) -> Vec<Mask> {
    keys.iter()
        .map(|(&peer, key)| {
            Mask::new(key.clone(), "mask", sum, if me < peer { Sign::Add } else { Sign::Subtract })
        })
        .collect()
}

/// Fixed keys of all members of a view.
#[derive(Clone, Debug)]
pub struct ViewKeys {
    ballot: Ballot,
    /// Signed keys, in order of arrival.
    pub items: Vec<Signed<ViewKey>>,
    /// X25519 keys.
    pub public: BTreeMap<Peer, [u8; 32]>,
    commitments: BTreeMap<Peer, [u8; 32]>,
    /// SHA-256(tag "keys" || session id || ballot || for each member: LE16(peer), key, commitment if any).
    pub digest: [u8; 32],
}

impl ViewKeys {
    /// Returns the keys of these members if there is exactly one of each, all with the same beginning, and
    /// with commitments of exactly the members that draw. Returns `None` otherwise. Signatures are not
    /// checked: see [`ViewKeys::signed_by`].
    #[must_use]
    pub fn new(
        ctx: &Context,
        (ballot, begun): (Ballot, [u8; 32]),
        members: &[Peer],
        items: Vec<Signed<ViewKey>>,
    ) -> Option<Self> {
        let keys: BTreeMap<_, _> = items
            .iter()
            .filter(|key| key.item.ballot == ballot && key.item.begun == begun)
            .filter(|key| key.item.commitment.is_some() == ctx.draws(key.author, members))
            .map(|key| (key.author, &key.item))
            .collect();
        if items.len() != members.len() || !members.iter().all(|peer| keys.contains_key(peer)) {
            return None;
        }
        let start = tagged_hash("keys").chain_update(ctx.id.0).chain_update(ballot.to_bytes());
        let digest = keys.iter().fold(start, |hash, (peer, key)| {
            let hash = hash.chain_update(peer.0.to_le_bytes()).chain_update(key.public);
            key.commitment.iter().fold(hash, |hash, commitment| hash.chain_update(commitment))
        });
        Some(Self {
            ballot,
            public: keys.iter().map(|(&peer, key)| (peer, key.public)).collect(),
            commitments: keys.iter().filter_map(|(&peer, key)| Some((peer, key.commitment?))).collect(),
            digest: digest.finalize().into(),
            items,
        })
    }

    /// Returns whether the keys of these members have valid signatures.
    #[must_use]
    pub fn signed_by(&self, ctx: &Context, members: &[Peer]) -> bool {
        self.items.iter().filter(|key| members.contains(&key.author)).all(|key| key.verify(ctx))
    }

    /// Returns whether `reveal` is its author's part of the draw over these keys. The signature is not
    /// checked.
    #[must_use]
    pub fn opens(&self, ctx: &Context, reveal: &Signed<Reveal>) -> bool {
        let Reveal { ballot, keys, secret } = &reveal.item;
        let made = commitment(ctx, *ballot, reveal.author, secret);
        *ballot == self.ballot && *keys == self.digest && self.commitments.get(&reveal.author) == Some(&made)
    }

    /// Returns the random input of the mask graph: SHA-256(tag "draw" || digest of the keys || for each
    /// member that draws, ascending: LE16(peer), its part). Returns `None` unless these are the parts of
    /// all of them.
    #[must_use]
    pub fn draw(&self, ctx: &Context, reveals: &[Signed<Reveal>]) -> Option<[u8; 32]> {
        let sound = |each: &&Signed<Reveal>| self.opens(ctx, each) && each.verify(ctx);
        let parts: BTreeMap<_, _> =
            reveals.iter().filter(sound).map(|each| (each.author, each.item.secret)).collect();
        if reveals.len() != parts.len() || parts.len() != self.commitments.len() {
            return None;
        }
        let start = tagged_hash("draw").chain_update(self.digest);
        let all = parts
            .iter()
            .fold(start, |hash, (peer, secret)| hash.chain_update(peer.0.to_le_bytes()).chain_update(secret));
        Some(all.finalize().into())
    }
}
