//! The binary tree of a view: the leader at the root, the other members in the order of
//! SHA-256(tag "tree" || session id || ballot || public key), member `i` below member `(i - 1) / 2`.
//!
//! The leader is the root because it starts every round and gathers every
//! answer: so all traffic of a view flows on the tree's edges, and a peer sends O(log p) messages a round.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::ballot::Ballot;
use super::memo;
use crate::crypto::tagged_hash;
use crate::session::{Peer, Settings};

/// One peer's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The neighbour towards the root; `None` at the root.
    pub parent: Option<Peer>,
    /// The neighbours away from the root, 0 to 2, in tree order.
    pub children: Vec<Peer>,
}

impl Place {
    /// Parent and children.
    pub fn neighbours(&self) -> impl Iterator<Item = Peer> + '_ {
        self.parent.into_iter().chain(self.children.iter().copied())
    }
}

/// The members in tree order: the leader (the ballot's proposer) first.
#[must_use]
pub fn order(session: &Settings, ballot: Ballot, members: &[Peer]) -> Vec<Peer> {
    let argument = || {
        let start = Sha256::new().chain_update(session.id.0).chain_update(ballot.to_bytes());
        members.iter().fold(start, |hash, peer| hash.chain_update(peer.0.to_le_bytes())).finalize().into()
    };
    Arc::unwrap_or_clone(memo::tree(argument, || sorted(session, ballot, members)))
}

fn sorted(session: &Settings, ballot: Ballot, members: &[Peer]) -> Vec<Peer> {
    let mut keyed: Vec<_> = members
        .iter()
        .map(|&peer| {
            let hash = tagged_hash("tree")
                .chain_update(session.id.0)
                .chain_update(ballot.to_bytes())
                .chain_update(session.key(peer).as_bytes())
                .finalize();
            (peer != ballot.proposer, <[u8; 32]>::from(hash), peer)
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, _, peer)| peer).collect()
}

/// The place of `me` in a tree order; `None` if `me` is not in it.
#[must_use]
pub fn place(order: &[Peer], me: Peer) -> Option<Place> {
    let i = order.iter().position(|&peer| peer == me)?;
    Some(Place {
        parent: i.checked_sub(1).map(|i| order[i / 2]),
        children: order.iter().skip(2 * i + 1).take(2).copied().collect(),
    })
}

/// Under which child of `me` each peer below it stands.
#[must_use]
pub fn below(order: &[Peer], me: Peer) -> BTreeMap<Peer, Peer> {
    let mut under = BTreeMap::new();
    let start = order.iter().position(|&peer| peer == me).map_or(order.len(), |at| 2 * at + 1);
    for top in (start..order.len()).take(2) {
        let (mut first, mut width) = (top, 1);
        while first < order.len() {
            let level = &order[first..(first + width).min(order.len())];
            under.extend(level.iter().map(|&peer| (peer, order[top])));
            (first, width) = (2 * first + 1, 2 * width);
        }
    }
    under
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_but_the_root_is_the_child_of_its_parent() {
        for p in 1..40u16 {
            let order: Vec<_> = (0..p).map(Peer).collect();
            for &peer in &order {
                let place_of = place(&order, peer).unwrap();
                assert_eq!(place_of.parent.is_none(), peer == Peer(0));
                let under = below(&order, peer);
                for (&lower, &child) in &under {
                    let above = place(&order, lower).unwrap().parent.unwrap();
                    assert!(lower == child && above == peer || under.get(&above) == Some(&child));
                }
                let children: Vec<_> = under.iter().filter(|(a, b)| a == b).map(|(_, &b)| b).collect();
                assert_eq!(children.len(), place_of.children.len());
                assert!(peer != Peer(0) || under.len() == order.len() - 1);
                for child in place_of.children {
                    assert_eq!(place(&order, child).unwrap().parent, Some(peer));
                }
            }
        }
    }
}
