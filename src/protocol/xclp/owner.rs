//! The part of a peer with rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::Digest;
use zeroize::Zeroizing;

use std::ops::RangeInclusive;

use super::custody::{self, Blinding};
use super::desk::{Desk, Made, Parcel, Task};
use super::hamming::{self, Got, Pair};
use super::{Body, Exchange, ParcelKind, Rows, Setup, dealer};
use crate::crypto::mask::Sign;
use crate::crypto::tagged_hash;
use crate::protocol::ballot::Ballot;
use crate::protocol::{Fault, Step};
use crate::session::Peer;
use crate::sketch::lsh::Codes;

pub(super) struct Owner {
    rows: Rows,
    /// This peer's part of the seed of the planes.
    part: Zeroizing<[u8; 32]>,
    commits: BTreeMap<Peer, [u8; 32]>,
    parts: BTreeMap<Peer, [u8; 32]>,
    /// Codes, and distances between this peer's own rows.
    codes: Option<(Arc<Codes>, Arc<Vec<u16>>)>,
    /// The machines that make the shares of the block with each other owner.
    pairs: BTreeMap<Peer, Box<dyn Pair>>,
    smallest: BTreeMap<Peer, Vec<u16>>,
}

/// The commitment of an owner.
#[must_use]
pub fn commitment(session: &[u8; 32], ballot: Ballot, owner: Peer, part: &[u8; 32]) -> [u8; 32] {
    tagged_hash("planes part")
        .chain_update(session)
        .chain_update(ballot.to_bytes())
        .chain_update(owner.0.to_le_bytes())
        .chain_update(part)
        .finalize()
        .into()
}

/// The seed of the planes from the session, its coin and every owner's part, ascending by owner.
#[must_use]
pub fn planes<'a>(
    session: &[u8; 32],
    coin: &[u8; 32],
    parts: impl Iterator<Item = &'a [u8; 32]>,
) -> [u8; 32] {
    let start = tagged_hash("planes").chain_update(session).chain_update(coin);
    parts.fold(start, |hash, part| hash.chain_update(part)).finalize().into()
}

impl Owner {
    /// `fresh` gives 32 new secret bytes.
    pub(super) fn new(rows: Rows, setup: &Setup, fresh: &mut dyn FnMut() -> [u8; 32]) -> Self {
        let part = Zeroizing::new(fresh());
        let others = setup.roles.owners().filter(|&other| other != setup.me);
        Self {
            rows,
            part,
            pairs: others.map(|other| (other, hamming::pair(setup, other, fresh()))).collect(),
            commits: BTreeMap::new(),
            parts: BTreeMap::new(),
            codes: None,
            smallest: BTreeMap::new(),
        }
    }

    /// The seed of the planes, from everybody's part.
    pub(super) fn planes(&self, setup: &Setup) -> [u8; 32] {
        planes(&setup.session, &setup.coin, self.parts.values())
    }

    pub(super) fn start(&mut self, desk: &Desk, step: &mut Step<Exchange>) {
        let me = desk.setup.me;
        let commit = commitment(&desk.setup.session, desk.setup.sum.ballot, me, &self.part);
        self.commits.insert(me, commit);
        desk.tell(desk.setup.roles.owners(), &Body::Commit(commit), step);
    }

    pub(super) fn commit(&mut self, desk: &Desk, from: Peer, commit: [u8; 32]) -> Result<(), Fault> {
        let expected =
            desk.setup.roles.rows.contains_key(&from) && self.commits.insert(from, commit).is_none();
        if expected { Ok(()) } else { Err(Fault::OutOfOrder("commitment to the planes")) }
    }

    pub(super) fn reveal(&mut self, desk: &Desk, from: Peer, part: [u8; 32]) -> Result<(), Fault> {
        let known = self.commits.get(&from).ok_or(Fault::OutOfOrder("part of the planes"))?;
        if *known != commitment(&desk.setup.session, desk.setup.sum.ballot, from, &part) {
            return Err(Fault::Inconsistent("its part of the planes does not match its commitment".into()));
        }
        if self.parts.insert(from, part).is_some() {
            return Err(Fault::OutOfOrder("part of the planes"));
        }
        Ok(())
    }

    /// The bytes that a parcel for the block with `other` may have; `None` if none is due.
    pub(super) fn expected(
        &self,
        desk: &Desk,
        other: Peer,
        from: Peer,
        what: ParcelKind,
    ) -> Option<RangeInclusive<usize>> {
        self.pairs.get(&other)?.expected(desk, from, what)
    }

    /// A whole parcel; `what` is one that [`Exchange`] has found this peer to be the right one for.
    pub(super) fn parcel(
        &mut self,
        desk: &Desk,
        from: Peer,
        what: ParcelKind,
        data: Bytes,
    ) -> Result<(), Fault> {
        match what {
            ParcelKind::Smallest => {
                let (k, most) = (desk.setup.rule.k, desk.setup.bits);
                let values = dealer::from_bytes(&data);
                let sound = |row: &[u16]| {
                    row.is_sorted()
                        && row.iter().all(|&value| value == custody::NONE || usize::from(value) <= most)
                };
                if !values.chunks(k).all(sound) {
                    return Err(Fault::Inconsistent("its smallest distances are none".into()));
                }
                self.smallest.insert(from, values);
            }
            _ => match hamming::other(from, what).and_then(|other| self.pairs.get_mut(&other)) {
                Some(pair) => pair.parcel(what, data),
                None => return Err(Fault::OutOfOrder("parcel")),
            },
        }
        Ok(())
    }

    /// Takes the result of work for the block with `other`.
    pub(super) fn got(&mut self, other: Peer, got: Got) {
        if let Some(pair) = self.pairs.get_mut(&other) {
            pair.made(got);
        }
    }

    pub(super) fn made(&mut self, codes: Arc<Codes>, distances: Arc<Vec<u16>>) {
        self.codes = Some((codes, distances));
    }

    pub(super) fn advance(&mut self, desk: &mut Desk, step: &mut Step<Exchange>) {
        let setup = desk.setup.clone();
        let owners = setup.roles.rows.len();
        let me = setup.me;
        if self.commits.len() == owners && !self.parts.contains_key(&me) {
            self.parts.insert(me, *self.part);
            desk.tell(setup.roles.owners(), &Body::Reveal(*self.part), step);
        }
        if self.parts.len() == owners && desk.first(Task::Encode) {
            let seed = self.planes(&setup);
            let (rows, bits) = (self.rows.clone(), setup.bits);
            let n = rows.data.rows();
            desk.compute(2 * n * bits * rows.data.features() + n * n * bits / 64, step, move || {
                let codes = Codes::of(&rows.data, &seed, bits)
                    .unwrap_or_else(|| unreachable!("BUG: sessions have codes of whole words"));
                let distances = codes.distances(&codes);
                Made::Codes(Arc::new(codes), Arc::new(distances))
            });
        }
        let codes = self.codes.as_ref().map(|(codes, _)| codes);
        for (&other, pair) in &mut self.pairs {
            pair.advance(desk, codes, step);
            if let Some(share) = pair.share() {
                Self::custody(desk, other, share, step);
            }
        }
        let Some((_, own)) = self.codes.clone() else { return };
        let custodians = setup.roles.custodians_of(me);
        if self.smallest.len() == custodians.len() && desk.first(Task::Limits) {
            self.limits(desk, custodians, own, step);
        }
    }

    /// The share of the block with another owner goes to the two custodians, blinded: each side of the block
    /// for itself.
    fn custody(desk: &Desk, other: Peer, share: Vec<u16>, step: &mut Step<Exchange>) {
        let setup = desk.setup.clone();
        let (me, their_rows) = (setup.me, setup.roles.rows_of(other));
        desk.compute(4 * share.len(), step, move || {
            let turned = custody::transposed(&share, their_rows);
            let parcel = |owner: Peer, column: Peer, share: &[u16]| -> Option<Parcel> {
                let pair = setup.keys.get(&other)?;
                let blinding =
                    Blinding::new(pair, setup.sum.ballot, owner, column, setup.roles.rows_of(column));
                let sign = if owner == me { Sign::Add } else { Sign::Subtract };
                let blinded = dealer::to_bytes(&blinding.blind(sign, share));
                Some((setup.roles.custodian(owner, column), ParcelKind::Share(owner, column), blinded.into()))
            };
            Made::Parcels(
                [parcel(me, other, &share), parcel(other, me, &turned)].into_iter().flatten().collect(),
            )
        });
    }

    /// The limits go to the custodians; the keys and this peer's own short distances to the propagators.
    fn limits(
        &mut self,
        desk: &mut Desk,
        custodians: Vec<Peer>,
        own: Arc<Vec<u16>>,
        step: &mut Step<Exchange>,
    ) {
        let setup = desk.setup.clone();
        let me = setup.me;
        let keys = setup.roles.owners().filter(|&other| other != me).filter_map(|other| {
            let pair = setup.keys.get(&other)?;
            let blinding = Blinding::new(pair, setup.sum.ballot, me, other, setup.roles.rows_of(other));
            Some((other, blinding.key()))
        });
        desk.tell(setup.roles.propagators, &Body::Keys(keys.collect()), step);
        let lists: Vec<Vec<u16>> = std::mem::take(&mut self.smallest).into_values().collect();
        let rows = setup.roles.rows_of(me);
        desk.compute(rows * rows, step, move || {
            let k = setup.rule.k;
            let mut own = own.as_ref().clone();
            // No point is its own neighbour.
            own.iter_mut().step_by(rows + 1).for_each(|distance| *distance = custody::NONE);
            let nearest = custody::smallest(&[&own], rows, k);
            let lists: Vec<&[u16]> = lists.iter().map(Vec::as_slice).chain([&nearest[..]]).collect();
            let limits = custody::limits(&lists, rows, k, setup.bits);
            let short = short_bytes(custody::shorter(&own, &limits).into_iter().map(|short| (me, short)));
            let limits = Bytes::from(dealer::to_bytes(&limits));
            let to_custodians = custodians.iter().map(|&to| (to, ParcelKind::Limits, limits.clone()));
            let to_propagators = setup.roles.propagators.map(|to| (to, ParcelKind::Short(me), short.clone()));
            Made::Parcels(to_custodians.chain(to_propagators).collect())
        });
    }

    /// Whether it has given everything that the graph needs of it.
    pub(super) fn finished(desk: &Desk) -> bool {
        desk.has_begun(Task::Limits)
    }

    /// The peer that this one waits for, and the step.
    pub(super) fn waits(&self, desk: &Desk) -> Option<(u32, Peer)> {
        let roles = &desk.setup.roles;
        let others = || roles.owners().filter(|&other| other != desk.setup.me);
        if let Some(peer) = others().find(|peer| !self.commits.contains_key(peer)) {
            return Some((0, peer));
        }
        if let Some(peer) = others().find(|peer| !self.parts.contains_key(peer)) {
            return Some((1, peer));
        }
        if let Some(peer) = self.pairs.values().find_map(|pair| pair.waits(desk)) {
            return Some((2, peer));
        }
        if !desk.has_begun(Task::Limits) {
            let custodians = roles.custodians_of(desk.setup.me);
            return custodians
                .into_iter()
                .find(|peer| !self.smallest.contains_key(peer))
                .map(|peer| (4, peer));
        }
        None
    }
}

/// Short distances as they travel: LE u16 owner of the columns, LE u32 row, LE u32 place, LE u16 distance.
pub(super) fn short_bytes(all: impl Iterator<Item = (Peer, custody::Short)>) -> Bytes {
    let mut out = Vec::new();
    for (other, (row, place, distance)) in all {
        out.extend(other.0.to_le_bytes());
        out.extend(row.to_le_bytes());
        out.extend(place.to_le_bytes());
        out.extend(distance.to_le_bytes());
    }
    out.into()
}
