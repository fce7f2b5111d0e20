//! Tree of a view. The leader is the root. The other peers are placed in a given order. Each goes under
//! the first placed peer that may be its neighbour and has fewer than two children. A peer that finds no
//! place waits until a third child is allowed, and so on.
//!
//! The leader is the root because it starts every round and gathers every answer. So all traffic of a view
//! flows on the tree's edges, and a peer sends O(log p) messages a round.

use std::collections::BTreeMap;

use crate::session::Peer;

/// Place of one peer in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Neighbour towards the root; `None` at the root.
    pub parent: Option<Peer>,
    /// Neighbours away from the root, in tree order: at most two, unless marks leave no other place.
    pub children: Vec<Peer>,
}

impl Place {
    /// Returns parent and children.
    pub fn neighbours(&self) -> impl Iterator<Item = Peer> + '_ {
        self.parent.into_iter().chain(self.children.iter().copied())
    }
}

/// Tree over the members of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Members in the order of their placement, the root first: each after its parent.
    order: Vec<Peer>,
    /// Members, ascending.
    members: Vec<Peer>,
    /// Parent and depth of each member. The root is its own parent.
    above: BTreeMap<Peer, (Peer, u32)>,
}

impl Tree {
    /// Places peers in this order below `root`.
    pub fn grow(
        root: Peer,
        peers: impl IntoIterator<Item = Peer>,
        allows: impl Fn(Peer, Peer) -> bool,
    ) -> Self {
        let mut waiting: Vec<_> = peers.into_iter().collect();
        let mut above = BTreeMap::from([(root, (root, 0))]);
        // Placed peers, each with the number of its children.
        let mut placed = vec![(root, 0)];
        let (mut most, mut first) = (2, 0);
        while !waiting.is_empty() && most <= 2.max(waiting.len() + placed.len()) {
            let before = waiting.len();
            waiting.retain(|&peer| {
                first += placed[first..].iter().take_while(|(_, children)| *children >= most).count();
                let free = |(above, children): &(Peer, usize)| *children < most && allows(*above, peer);
                let Some(at) = placed[first..].iter().position(free) else { return true };
                let (parent, children) = &mut placed[first + at];
                *children += 1;
                let depth = above[&*parent].1 + 1;
                above.insert(peer, (*parent, depth));
                placed.push((peer, 0));
                false
            });
            if waiting.len() == before {
                (most, first) = (most + 1, 0);
            }
        }
        let order = placed.into_iter().map(|(peer, _)| peer).collect();
        Self { order, members: above.keys().copied().collect(), above }
    }

    /// Returns the leader.
    #[must_use]
    pub fn root(&self) -> Peer {
        self.order[0]
    }

    /// Returns the members, ascending.
    #[must_use]
    pub fn members(&self) -> &[Peer] {
        &self.members
    }

    /// Returns the members, the leader first, each after its parent.
    #[must_use]
    pub fn order(&self) -> &[Peer] {
        &self.order
    }

    /// Returns whether the peer is a member.
    #[must_use]
    pub fn contains(&self, peer: Peer) -> bool {
        self.above.contains_key(&peer)
    }

    /// Returns the parent of a peer, or `None` for the root and for peers that are not members.
    #[must_use]
    pub fn parent(&self, peer: Peer) -> Option<Peer> {
        self.above.get(&peer).map(|&(parent, _)| parent).filter(|&parent| parent != peer)
    }

    /// Returns whether the two peers are parent and child.
    #[must_use]
    pub fn adjacent(&self, one: Peer, other: Peer) -> bool {
        self.parent(one) == Some(other) || self.parent(other) == Some(one)
    }

    /// Returns the place of a member.
    #[must_use]
    pub fn place(&self, me: Peer) -> Option<Place> {
        self.above.get(&me)?;
        let children = self.order.iter().copied().filter(|&peer| self.parent(peer) == Some(me)).collect();
        Some(Place { parent: self.parent(me), children })
    }

    /// Returns the distance of a member from the root.
    #[must_use]
    pub fn depth(&self, peer: Peer) -> u32 {
        self.above.get(&peer).map_or(0, |&(_, depth)| depth)
    }

    /// Returns the distance of the farthest member from the root.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.above.values().map(|&(_, depth)| depth).max().unwrap_or(0)
    }

    /// Returns each peer below `me`, with the child of `me` whose subtree contains it.
    #[must_use]
    pub fn below(&self, me: Peer) -> BTreeMap<Peer, Peer> {
        let mut under = BTreeMap::new();
        for &peer in &self.order {
            match self.parent(peer) {
                Some(parent) if parent == me => drop(under.insert(peer, peer)),
                Some(parent) => {
                    if let Some(&child) = under.get(&parent) {
                        under.insert(peer, child);
                    }
                }
                None => {}
            }
        }
        under
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_marks_the_tree_is_binary_and_level() {
        for p in 1..40u16 {
            let tree = Tree::grow(Peer(0), (1..p).map(Peer), |_, _| true);
            for peer in 1..p {
                assert_eq!(tree.parent(Peer(peer)), Some(Peer((peer - 1) / 2)));
            }
            assert_eq!(tree.height(), u32::from(p).ilog2());
        }
    }

    #[test]
    fn every_peer_but_the_root_is_the_child_of_its_parent() {
        for p in 1..40u16 {
            // Some pairs may not be neighbours.
            let tree = Tree::grow(Peer(0), (1..p).map(Peer), |a, b| (a.0 + b.0) % 3 != 0);
            for &peer in tree.members() {
                let place = tree.place(peer).unwrap();
                assert_eq!(place.parent.is_none(), peer == Peer(0));
                let under = tree.below(peer);
                for (&lower, &child) in &under {
                    let above = tree.parent(lower).unwrap();
                    assert!(lower == child && above == peer || under.get(&above) == Some(&child));
                }
                let children: Vec<_> = under.iter().filter(|(a, b)| a == b).map(|(_, &b)| b).collect();
                assert_eq!(children.len(), place.children.len());
                assert!(peer != Peer(0) || under.len() == tree.members().len() - 1);
                for child in place.children {
                    assert!(tree.adjacent(peer, child) && (peer.0 + child.0) % 3 != 0);
                    assert_eq!(tree.depth(child), tree.depth(peer) + 1);
                }
            }
        }
    }
}
