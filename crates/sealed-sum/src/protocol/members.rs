//! Members and tree of a view, as they follow from the promises that it begins with (spec, section
//! "Members").
//!
//! Nobody chooses them: each promise says which peers its author reaches and which marks it knows, and every
//! member computes the same from them. A leader can only take other promises, each of which is signed.

use std::collections::{BTreeMap, BTreeSet};

use sha2::Digest;

use super::ballot::Ballot;
use super::context::SMALLEST_SUM;
use super::marks::{Marks, borne, pair};
use super::tree::Tree;
use crate::crypto::tagged_hash;
use crate::session::{Peer, Settings};

/// What the promises of a view say.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The peers that each author reaches, itself included.
    pub reached: BTreeMap<Peer, BTreeSet<Peer>>,
    /// The marks that live.
    pub marks: Marks,
}

impl Claims {
    /// The tree of the view with this ballot; `None` if its proposer may not lead it, or too few are left.
    #[must_use]
    pub fn tree(&self, session: &Settings, ballot: Ballot) -> Option<Tree> {
        let reached = self.candidates();
        let needed = usize::from(session.min_peers).max(SMALLEST_SUM);
        let most = borne(session.roster.len()).min(reached.len().saturating_sub(needed));
        let votes =
            |peers: &BTreeSet<Peer>| session.committee.iter().filter(|peer| peers.contains(peer)).count();
        let mut left = reached.clone();
        for peer in self.marks.excess(&reached).into_iter().take(most) {
            left.remove(&peer);
            if votes(&left) < session.quorum {
                left.insert(peer);
                break;
            }
        }
        let (members, allowed) = self.together(session, &left, reached.len() - most)?;
        if !members.contains(&ballot.proposer) || members.len() < needed || votes(&members) < session.quorum {
            return None;
        }
        let charge = |peer: Peer| self.marks.charge(peer, |other| left.contains(&other));
        let mut order: Vec<_> = members.iter().filter(|&&peer| peer != ballot.proposer).collect();
        order.sort_by_cached_key(|&&peer| (charge(peer), hash(session, ballot, peer)));
        Some(Tree::grow(ballot.proposer, order.into_iter().copied(), |a, b| allowed.allows(a, b)))
    }

    /// The authors, and the peers that one of them claims to reach and is not kept apart from.
    fn candidates(&self) -> BTreeSet<Peer> {
        let reached = self.reached.iter().flat_map(|(&author, reached)| {
            let unmarked = move |peer: &Peer| !self.marks.parts(author, *peer);
            reached.iter().copied().filter(unmarked).chain([author])
        });
        reached.collect()
    }

    /// The largest set of candidates that are connected over allowed edges. While it has fewer than `least`
    /// peers, the oldest mark gives way.
    fn together(
        &self,
        session: &Settings,
        left: &BTreeSet<Peer>,
        least: usize,
    ) -> Option<(BTreeSet<Peer>, Allowed<'_>)> {
        let both = |&(low, high): &(Peer, Peer)| left.contains(&low) && left.contains(&high);
        let marked: Vec<_> = self.marks.apart().filter(both).collect();
        let mut allowed = Allowed::new(session, &self.reached);
        for dropped in 0..=marked.len() {
            allowed.marked = marked[dropped..].iter().copied().collect();
            let members = allowed.component(left);
            if members.len() >= least || dropped == marked.len() {
                return Some((members, allowed));
            }
        }
        None
    }
}

/// The edges that a tree may have.
struct Allowed<'a> {
    reached: &'a BTreeMap<Peer, BTreeSet<Peer>>,
    /// Peers that more authors claim than may lie in the committee.
    trusted: BTreeSet<Peer>,
    marked: BTreeSet<(Peer, Peer)>,
}

impl<'a> Allowed<'a> {
    fn new(session: &Settings, reached: &'a BTreeMap<Peer, BTreeSet<Peer>>) -> Self {
        let mut claims: BTreeMap<Peer, usize> = BTreeMap::new();
        reached.values().flatten().for_each(|peer| *claims.entry(*peer).or_default() += 1);
        let most = borne(session.committee.len());
        let trusted = claims.into_iter().filter(|(_, claims)| *claims > most).map(|(peer, _)| peer).collect();
        Self { reached, trusted, marked: BTreeSet::new() }
    }

    /// Whether the two may be neighbours: no mark keeps them apart, and each author of a promise among them
    /// claims to reach the other. If neither is an author, other authors must claim both.
    fn allows(&self, one: Peer, other: Peer) -> bool {
        let claims =
            |author: Peer, peer: Peer| self.reached.get(&author).map(|reached| reached.contains(&peer));
        !self.marked.contains(&pair(one, other))
            && match (claims(one, other), claims(other, one)) {
                (None, None) => self.trusted.contains(&one) && self.trusted.contains(&other),
                (ours, theirs) => ours != Some(false) && theirs != Some(false),
            }
    }

    /// The largest of the sets that are connected over allowed edges; of equal ones that with the lowest peer.
    fn component(&self, candidates: &BTreeSet<Peer>) -> BTreeSet<Peer> {
        let (mut rest, mut best) = (candidates.clone(), BTreeSet::new());
        while rest.len() > best.len()
            && let Some(first) = rest.pop_first()
        {
            let (mut found, mut todo) = (BTreeSet::from([first]), vec![first]);
            while let Some(peer) = todo.pop() {
                let next: Vec<_> = rest.extract_if(.., |other| self.allows(peer, *other)).collect();
                found.extend(&next);
                todo.extend(next);
            }
            if found.len() > best.len() {
                best = found;
            }
        }
        best
    }
}

/// By which peers of the same charge are ordered in a tree.
fn hash(session: &Settings, ballot: Ballot, peer: Peer) -> [u8; 32] {
    tagged_hash("tree")
        .chain_update(session.id.0)
        .chain_update(ballot.to_bytes())
        .chain_update(session.key(peer).as_bytes())
        .finalize()
        .into()
}

#[cfg(test)]
mod tests;
