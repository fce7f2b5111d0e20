//! The roles of one view (spec, section "Roles").
//!
//! All who were counted are put in the order of `SHA-256("flyswarm/4 role" || 0x00 || seed || LE u16 peer)`.
//! Witnesses (those without rows) are for the whole session either *eligible* as propagators, of whom the
//! first two in the view are, or for the ring: a custodian never becomes a propagator, nor the reverse,
//! whatever views fail. Owners and the witnesses for it form the ring, in that order. The custodian of the
//! distances from the rows of j to those of k is j's successor in the ring, or where that is k its
//! predecessor: with four or more nobody keeps both j's and k's side of a block.

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
    /// The two peers that know the graph and propagate a share of the labels each.
    pub propagators: [Peer; 2],
    /// Owners and witnesses for the ring, in its order; after the first stage those of them that are still
    /// there.
    pub ring: Vec<Peer>,
    /// Members with rows and how many, ascending.
    pub rows: BTreeMap<Peer, u32>,
}

impl Roles {
    /// Draws the roles of the first stage in a view of `members`. `counted` are all who were counted, of whom
    /// those in `rows` have so many rows; members who are not among them have no role.
    ///
    /// # Errors
    /// Which members are missing.
    pub fn draw(
        seed: &[u8],
        counted: &[Peer],
        members: &[Peer],
        rows: &BTreeMap<Peer, u32>,
    ) -> Result<Self, String> {
        let order = order(seed, counted);
        let eligible = eligible(&order, rows);
        let rows: BTreeMap<_, _> = rows
            .iter()
            .filter(|(peer, n)| **n > 0 && members.contains(peer) && counted.contains(peer))
            .map(|(&peer, &n)| (peer, n))
            .collect();
        if rows.len() < FEWEST_HOLDERS {
            return Err(format!(
                "labels are propagated between {FEWEST_HOLDERS} members with rows or more, here {} have any",
                rows.len()
            ));
        }
        let mut present = eligible.iter().copied().filter(|peer| members.contains(peer));
        let (Some(one), Some(two)) = (present.next(), present.next()) else {
            return Err(
                "two members without rows (flyswarm witness) are needed, who see the graph and no data"
                    .into(),
            );
        };
        let ring: Vec<_> =
            order.into_iter().filter(|peer| members.contains(peer) && !eligible.contains(peer)).collect();
        if ring.len() < SMALLEST_RING {
            return Err(format!(
                "beside the two propagators {SMALLEST_RING} members are needed, or one would keep both sides of a block; here are {}",
                ring.len()
            ));
        }
        Ok(Self { propagators: [one, two], ring, rows })
    }

    /// The roles of the second stage in a view of `members`, where these are those of the view that made the
    /// graph: who knows the graph goes on, or is replaced by the first other eligible witness; owners who are
    /// not there keep their points.
    ///
    /// # Errors
    /// Which members are missing.
    pub fn later(
        &self,
        seed: &[u8],
        counted: &[Peer],
        members: &[Peer],
        rows: &BTreeMap<Peer, u32>,
    ) -> Result<Self, String> {
        let eligible = eligible(&order(seed, counted), rows);
        let knowers = self.propagators.into_iter().filter(|peer| members.contains(peer)).collect::<Vec<_>>();
        if knowers.is_empty() {
            return Err("nobody is there who knows the graph".into());
        }
        let others =
            eligible.into_iter().filter(|peer| members.contains(peer) && !self.propagators.contains(peer));
        let mut present = knowers.into_iter().chain(others);
        let (Some(one), Some(two)) = (present.next(), present.next()) else {
            return Err(
                "two members without rows (flyswarm witness) are needed, who see the graph and no data"
                    .into(),
            );
        };
        let ring = self.ring.iter().copied().filter(|peer| members.contains(peer)).collect();
        let later = Self { propagators: [one, two], ring, rows: self.rows.clone() };
        let givers = later.givers().count();
        if givers < FEWEST_HOLDERS {
            return Err(format!(
                "labels are propagated between {FEWEST_HOLDERS} members with rows or more, here {givers} have points"
            ));
        }
        Ok(later)
    }

    /// The propagator that `me` is not.
    #[must_use]
    pub fn other_propagator(&self, me: Peer) -> Peer {
        let [one, two] = self.propagators;
        if one == me { two } else { one }
    }

    /// Owners in this view, ascending: in the second stage some of the others may be gone.
    pub fn givers(&self) -> impl Iterator<Item = Peer> {
        self.owners().filter(|&owner| self.gives_labels(owner))
    }

    /// Whether this owner is in the view.
    #[must_use]
    pub fn gives_labels(&self, owner: Peer) -> bool {
        self.rows.contains_key(&owner) && self.ring.contains(&owner)
    }

    /// Members with rows, ascending.
    pub fn owners(&self) -> impl Iterator<Item = Peer> {
        self.rows.keys().copied()
    }

    /// Number of rows of a member.
    #[must_use]
    pub fn rows_of(&self, peer: Peer) -> usize {
        self.rows.get(&peer).map_or(0, |&n| n as usize)
    }

    /// All points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.rows.values().map(|&n| n as usize).sum()
    }

    /// Where an owner's points begin among all: owners ascending, each with its rows in the order that it has
    /// given them.
    #[must_use]
    pub fn first_point(&self, owner: Peer) -> usize {
        self.rows.range(..owner).map(|(_, &n)| n as usize).sum()
    }

    /// The peer that keeps the distances from the rows of `owner` to those of `other`.
    #[must_use]
    pub fn custodian(&self, owner: Peer, other: Peer) -> Peer {
        let n = self.ring.len();
        let at = self.ring.iter().position(|&peer| peer == owner).unwrap_or(0);
        let next = self.ring[(at + 1) % n];
        if next == other { self.ring[(at + n - 1) % n] } else { next }
    }

    /// The peer that deals the triple of two owners: the custodian of the first one's distances.
    #[must_use]
    pub fn dealer(&self, one: Peer, other: Peer) -> Peer {
        self.custodian(one.min(other), one.max(other))
    }

    /// The blocks (owner, other) that `me` keeps, ascending.
    #[must_use]
    pub fn kept_by(&self, me: Peer) -> Vec<(Peer, Peer)> {
        self.blocks().filter(|&(owner, other)| self.custodian(owner, other) == me).collect()
    }

    /// The peers that keep blocks of an owner, ascending.
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
        self.owners().flat_map(|owner| {
            self.owners().filter(move |&other| other != owner).map(move |other| (owner, other))
        })
    }
}

/// All who were counted, in the order of roles.
fn order(seed: &[u8], counted: &[Peer]) -> Vec<Peer> {
    let rank = |peer: &Peer| -> ([u8; 32], Peer) {
        (tagged_hash("role").chain_update(seed).chain_update(peer.0.to_le_bytes()).finalize().into(), *peer)
    };
    let mut order: Vec<_> = counted.iter().map(rank).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, peer)| peer).collect()
}

/// The witnesses who may be propagators, in order: the first two; then, after as many as the ring needs
/// beside the owners to survive a loss, every other one, so that either role has somebody to step in.
fn eligible(order: &[Peer], rows: &BTreeMap<Peer, u32>) -> Vec<Peer> {
    let has_rows = |peer: &Peer| rows.get(peer).is_some_and(|&n| n > 0);
    let needed = (SMALLEST_RING + 1).saturating_sub(order.iter().filter(|peer| has_rows(peer)).count());
    let witnesses = order.iter().filter(|peer| !has_rows(peer)).enumerate();
    let may = |place: usize| place < 2 || (place >= 2 + needed && (place - needed).is_multiple_of(2));
    witnesses.filter(|(place, _)| may(*place)).map(|(_, &peer)| peer).collect()
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
                let roles = Roles::draw(&seed.to_le_bytes(), &peers(n), &peers(n), &rows(&holders)).unwrap();
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
        let refused =
            |n, holders: &[u16]| Roles::draw(b"seed", &peers(n), &peers(n), &rows(holders)).unwrap_err();
        assert!(refused(7, &[0, 1]).contains("3 members with rows"));
        assert!(refused(7, &[0, 1, 2, 3, 4, 5]).contains("flyswarm witness"));
        assert!(refused(5, &[0, 1, 2]).contains("beside the two propagators 4"));
    }

    #[test]
    fn a_custodian_never_becomes_a_propagator_nor_the_reverse_whoever_is_lost() {
        for (n, holders) in [(7, vec![0, 1, 2]), (8, vec![0, 1, 2, 3, 4]), (9, vec![0, 2, 4, 6])] {
            let (all, rows) = (peers(n), rows(&holders));
            for seed in 0..50u32 {
                let (mut rings, mut propagators) = (Vec::new(), Vec::new());
                let full = Roles::draw(&seed.to_le_bytes(), &all, &all, &rows).unwrap();
                for gone in 0..1u32 << n {
                    let here: Vec<_> = all.iter().copied().filter(|peer| gone >> peer.0 & 1 == 0).collect();
                    let first = Roles::draw(&seed.to_le_bytes(), &all, &here, &rows);
                    let later = full.later(&seed.to_le_bytes(), &all, &here, &rows);
                    for roles in [&first, &later].into_iter().flatten() {
                        rings.extend(roles.ring.clone());
                        propagators.extend(roles.propagators);
                        assert!(roles.ring.iter().chain(&roles.propagators).all(|peer| here.contains(peer)));
                    }
                    if let Ok(later) = later {
                        assert!(later.propagators.iter().any(|peer| full.propagators.contains(peer)));
                        assert_eq!(later.rows, full.rows, "points stay");
                        assert!(
                            later.givers().all(|peer| here.contains(&peer)) && later.givers().count() >= 3
                        );
                    }
                }
                assert!(propagators.iter().all(|peer| !rings.contains(peer)), "{n} members, seed {seed}");
            }
        }
    }

    /// Where a peer comes back while another is lost this does not hold for every ring; the spec says so.
    #[test]
    fn nobody_gets_a_blocks_other_side_in_a_later_view_as_long_as_lost_peers_stay_away() {
        let all = peers(9);
        let rows = rows(&[0, 1, 2, 3, 4, 5, 6]);
        let draw = |gone: u32| {
            let here: Vec<_> = all.iter().copied().filter(|peer| gone >> peer.0 & 1 == 0).collect();
            Roles::draw(b"seed", &all, &here, &rows).ok()
        };
        let mut compared = 0;
        for gone in 0..1u32 << 7 {
            let Some(first) = draw(gone) else { continue };
            for more in (gone + 1..1 << 7).filter(|more| more & gone == gone) {
                let Some(second) = draw(more) else { continue };
                for (owner, other) in second.blocks() {
                    assert_ne!(
                        first.custodian(owner, other),
                        second.custodian(other, owner),
                        "{gone:b} then {more:b}"
                    );
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 4_410, "every block of every two such views");
    }

    #[test]
    fn roles_change_with_the_coin() {
        let all = peers(9);
        let draw = |seed: u32| {
            Roles::draw(&seed.to_le_bytes(), &all, &all, &rows(&[0, 1, 2, 3])).unwrap().propagators
        };
        assert!((1..50).any(|seed| draw(seed) != draw(0)));
        assert_eq!(draw(3), draw(3));
    }
}
