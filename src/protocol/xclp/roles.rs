//! Who does what in one view (design.md, section 7; spec, section "Roles").
//!
//! All members are put in the order of `SHA-256("flyswarm/3 role" || 0x00 || seed || LE u16 peer)`. The first two witnesses (members without rows)
//! are the propagators; the others form the ring, in that order. The custodian of the distances from the rows of j to those of k is j's successor in
//! the ring, or where that is k its predecessor: with four or more nobody keeps both j's and k's side of a block.

use std::collections::BTreeMap;

use sha2::Digest;

use crate::crypto::tagged_hash;
use crate::session::Peer;

/// The smallest ring.
pub const SMALLEST_RING: usize = 4;
/// The fewest members with rows.
pub const FEWEST_HOLDERS: usize = 3;

/// The roles of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// Who knows the graph and propagates a share of the labels each.
    pub propagators: [Peer; 2],
    /// All others, in the ring's order.
    pub ring: Vec<Peer>,
    /// Members with rows and how many, ascending.
    pub rows: BTreeMap<Peer, u32>,
}

impl Roles {
    /// Draws the roles of `members`, of whom those in `rows` have so many rows.
    ///
    /// # Errors
    /// Which members are missing.
    pub fn draw(seed: &[u8], members: &[Peer], rows: &BTreeMap<Peer, u32>) -> Result<Self, String> {
        let rank = |peer: &Peer| -> ([u8; 32], Peer) {
            (tagged_hash("role").chain_update(seed).chain_update(peer.0.to_le_bytes()).finalize().into(), *peer)
        };
        let mut order: Vec<_> = members.iter().map(rank).collect();
        order.sort_unstable();
        let rows: BTreeMap<_, _> =
            rows.iter().filter(|(peer, n)| **n > 0 && members.contains(peer)).map(|(&peer, &n)| (peer, n)).collect();
        if rows.len() < FEWEST_HOLDERS {
            return Err(format!(
                "labels are propagated between {FEWEST_HOLDERS} members with rows or more, here {} have any",
                rows.len()
            ));
        }
        let mut witnesses = order.iter().map(|(_, peer)| *peer).filter(|peer| !rows.contains_key(peer));
        let (Some(one), Some(two)) = (witnesses.next(), witnesses.next()) else {
            return Err("two members without rows (flyswarm witness) are needed, who see the graph and no data".into());
        };
        let propagators = [one, two];
        let ring: Vec<_> = order.into_iter().map(|(_, peer)| peer).filter(|peer| !propagators.contains(peer)).collect();
        if ring.len() < SMALLEST_RING {
            return Err(format!(
                "beside the two propagators {SMALLEST_RING} members are needed, or one would keep both sides of a block; here are {}",
                ring.len()
            ));
        }
        Ok(Self { propagators, ring, rows })
    }

    /// Members with rows, ascending.
    pub fn owners(&self) -> impl Iterator<Item = Peer> {
        self.rows.keys().copied()
    }

    /// How many rows a member has.
    #[must_use]
    pub fn rows_of(&self, peer: Peer) -> usize {
        self.rows.get(&peer).map_or(0, |&n| n as usize)
    }

    /// All points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.rows.values().map(|&n| n as usize).sum()
    }

    /// Where an owner's points begin among all: owners ascending, each with its rows in the order that it has given them.
    #[must_use]
    pub fn first_point(&self, owner: Peer) -> usize {
        self.rows.range(..owner).map(|(_, &n)| n as usize).sum()
    }

    /// Who keeps the distances from the rows of `owner` to those of `other`.
    #[must_use]
    pub fn custodian(&self, owner: Peer, other: Peer) -> Peer {
        let n = self.ring.len();
        let at = self.ring.iter().position(|&peer| peer == owner).unwrap_or(0);
        let next = self.ring[(at + 1) % n];
        if next == other { self.ring[(at + n - 1) % n] } else { next }
    }

    /// Who deals the triple of two owners: the custodian of the first one's distances.
    #[must_use]
    pub fn dealer(&self, one: Peer, other: Peer) -> Peer {
        self.custodian(one.min(other), one.max(other))
    }

    /// The blocks (owner, other) that `me` keeps, ascending.
    #[must_use]
    pub fn kept_by(&self, me: Peer) -> Vec<(Peer, Peer)> {
        self.blocks().filter(|&(owner, other)| self.custodian(owner, other) == me).collect()
    }

    /// Who keeps blocks of an owner, ascending.
    #[must_use]
    pub fn custodians_of(&self, owner: Peer) -> Vec<Peer> {
        let mut all: Vec<_> =
            self.owners().filter(|&other| other != owner).map(|other| self.custodian(owner, other)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Every ordered pair of owners.
    pub fn blocks(&self) -> impl Iterator<Item = (Peer, Peer)> {
        self.owners()
            .flat_map(|owner| self.owners().filter(move |&other| other != owner).map(move |other| (owner, other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(n: u16) -> Vec<Peer> {
        (0..n).map(Peer).collect()
    }

    fn rows(holders: &[u16]) -> BTreeMap<Peer, u32> {
        holders.iter().map(|&peer| (Peer(peer), 10 + u32::from(peer))).collect()
    }

    #[test]
    fn nobody_keeps_a_block_of_its_own_points_or_both_sides_of_one() {
        for seed in 0..200u32 {
            for (n, holders) in
                [(6, vec![0, 2, 4]), (6, vec![0, 1, 2, 3]), (7, vec![0, 1, 2, 3, 4]), (12, (0..9).collect())]
            {
                let roles = Roles::draw(&seed.to_le_bytes(), &peers(n), &rows(&holders)).unwrap();
                for (owner, other) in roles.blocks() {
                    let keeper = roles.custodian(owner, other);
                    assert!(keeper != owner && keeper != other && !roles.propagators.contains(&keeper));
                    assert_ne!(keeper, roles.custodian(other, owner), "seed {seed}, {n} members");
                }
                assert!(roles.propagators.iter().all(|peer| !roles.rows.contains_key(peer)));
                for owner in roles.owners() {
                    assert!(roles.custodians_of(owner).len() <= 2);
                }
            }
        }
    }

    #[test]
    fn too_few_members_are_refused_with_the_reason() {
        let refused = |n, holders: &[u16]| Roles::draw(b"seed", &peers(n), &rows(holders)).unwrap_err();
        assert!(refused(7, &[0, 1]).contains("3 members with rows"));
        assert!(refused(7, &[0, 1, 2, 3, 4, 5]).contains("flyswarm witness"));
        assert!(refused(5, &[0, 1, 2]).contains("beside the two propagators 4"));
    }

    #[test]
    fn roles_change_with_the_coin() {
        let draw = |seed: u32| Roles::draw(&seed.to_le_bytes(), &peers(9), &rows(&[0, 1, 2, 3])).unwrap().propagators;
        assert!((1..50).any(|seed| draw(seed) != draw(0)));
        assert_eq!(draw(3), draw(3));
    }
}
