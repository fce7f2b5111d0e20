//! The part of a member of the ring: keeping blinded distances, and dealing triples where owners need them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::desk::{Desk, Made, Task};
use super::{Exchange, ParcelKind, custody, dealer, owner};
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Step};
use crate::session::{Hamming, Peer};

#[derive(Default)]
pub(super) struct Custodian {
    /// By block and sender.
    shares: BTreeMap<(Peer, Peer), BTreeMap<Peer, Bytes>>,
    blocks: BTreeMap<(Peer, Peer), Arc<Vec<u16>>>,
    limits: BTreeMap<Peer, Vec<u16>>,
    /// Owners whose short distances have gone.
    sent: usize,
}

impl Custodian {
    /// Deals the triples of the blocks whose dealer this peer is. `fresh` gives 32 new secret bytes.
    pub(super) fn start(desk: &mut Desk, fresh: &mut dyn FnMut() -> [u8; 32], step: &mut Step<Exchange>) {
        let (setup, bits) = (desk.setup.clone(), desk.setup.bits);
        if setup.hamming != Hamming::Dealer {
            return;
        }
        let roles = &setup.roles;
        for (left, right) in roles.blocks().filter(|(left, right)| left < right) {
            if roles.dealer(left, right) != setup.me {
                continue;
            }
            let seeds = [fresh(), fresh()];
            for ((to, with), seed) in [(left, right), (right, left)].into_iter().zip(seeds) {
                desk.parcel((to, ParcelKind::Triple(with), Bytes::copy_from_slice(&seed)), step);
            }
            let rows = (roles.rows_of(left), roles.rows_of(right));
            desk.compute(2 * rows.0 * rows.1 * bits, step, move || {
                let y = dealer::to_bytes(&dealer::deal(&seeds[0], &seeds[1], rows, bits));
                Made::Parcels(vec![(right, ParcelKind::Dealt(left), y.into())])
            });
        }
    }

    pub(super) fn parcel(
        &mut self,
        desk: &Desk,
        from: Peer,
        what: ParcelKind,
        data: Bytes,
    ) -> Result<(), Fault> {
        match what {
            ParcelKind::Share(owner, other) => {
                drop(self.shares.entry((owner, other)).or_default().insert(from, data))
            }
            ParcelKind::Limits => {
                let limits = dealer::from_bytes(&data);
                if limits.iter().any(|&limit| usize::from(limit) > desk.setup.bits / 2) {
                    return Err(Fault::Inconsistent("a limit of more than half the bits".into()));
                }
                self.limits.insert(from, limits);
            }
            _ => return Err(Fault::OutOfOrder("parcel")),
        }
        Ok(())
    }

    /// A block's distances; none when the two shares make none, and then it cannot be said whose fault that
    /// is.
    pub(super) fn made(
        &mut self,
        block: (Peer, Peer),
        distances: Option<Arc<Vec<u16>>>,
    ) -> Result<(), Reason> {
        self.blocks.insert(block, distances.ok_or(Reason::Disagreement)?);
        Ok(())
    }

    pub(super) fn advance(&mut self, desk: &mut Desk, step: &mut Step<Exchange>) {
        let setup = desk.setup.clone();
        let kept = setup.roles.kept_by(setup.me);
        for &(owner, other) in &kept {
            let Some([one, two]) = self
                .shares
                .get(&(owner, other))
                .and_then(|shares| Some([shares.get(&owner)?.clone(), shares.get(&other)?.clone()]))
            else {
                continue;
            };
            if desk.first(Task::Combine(owner, other)) {
                self.shares.remove(&(owner, other));
                let bits = setup.bits;
                desk.compute(one.len(), step, move || {
                    let (one, two) = (dealer::from_bytes(&one), dealer::from_bytes(&two));
                    Made::Block((owner, other), custody::distances(&one, &two, bits).map(Arc::new))
                });
            }
        }
        let mut owners: Vec<_> = kept.iter().map(|(owner, _)| *owner).collect();
        owners.dedup();
        for owner in owners {
            let others: Vec<Peer> =
                kept.iter().filter(|(one, _)| *one == owner).map(|(_, other)| *other).collect();
            let blocks: Option<Vec<_>> =
                others.iter().map(|&other| self.blocks.get(&(owner, other)).cloned()).collect();
            let Some(blocks) = blocks else { continue };
            let (rows, k) = (setup.roles.rows_of(owner), setup.rule.k);
            if desk.first(Task::Smallest(owner)) {
                let blocks = blocks.clone();
                desk.compute(blocks.iter().map(|block| block.len()).sum(), step, move || {
                    let blocks: Vec<&[u16]> = blocks.iter().map(|block| &block[..]).collect();
                    let smallest = dealer::to_bytes(&custody::smallest(&blocks, rows, k));
                    Made::Parcels(vec![(owner, ParcelKind::Smallest, smallest.into())])
                });
            }
            let Some(limits) = self.limits.get(&owner) else { continue };
            if desk.first(Task::Short(owner)) {
                self.sent += 1;
                let (limits, propagators) = (limits.clone(), setup.roles.propagators);
                desk.compute(blocks.iter().map(|block| block.len()).sum(), step, move || {
                    let short = others.iter().zip(&blocks).flat_map(|(&other, block)| {
                        custody::shorter(block, &limits).into_iter().map(move |short| (other, short))
                    });
                    let short = owner::short_bytes(short);
                    Made::Parcels(propagators.map(|to| (to, ParcelKind::Short(owner), short.clone())).into())
                });
            }
        }
    }

    /// Whether everything it keeps has been used.
    pub(super) fn finished(&self, desk: &Desk) -> bool {
        let mut owners: Vec<_> =
            desk.setup.roles.kept_by(desk.setup.me).into_iter().map(|(owner, _)| owner).collect();
        owners.dedup();
        self.sent == owners.len()
    }

    /// The peer that this one waits for, and the step.
    pub(super) fn waits(&self, desk: &Desk) -> Option<(u32, Peer)> {
        let kept = desk.setup.roles.kept_by(desk.setup.me);
        for &(owner, other) in
            kept.iter().filter(|(owner, other)| !desk.has_begun(Task::Combine(*owner, *other)))
        {
            let got = self.shares.get(&(owner, other));
            let missing =
                [owner, other].into_iter().find(|peer| got.is_none_or(|got| !got.contains_key(peer)));
            if let Some(peer) = missing {
                return Some((3, peer));
            }
        }
        kept.into_iter()
            .map(|(owner, _)| owner)
            .find(|owner| !self.limits.contains_key(owner))
            .map(|peer| (5, peer))
    }
}
