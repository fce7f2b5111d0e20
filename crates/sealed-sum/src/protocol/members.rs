//! Members and tree of a view, computed from the promises at its start (spec, section "Members").
//!
//! No peer chooses them. Each promise states the peers that its author reaches and the marks that it
//! knows, and every member computes the same result. A leader can only select other promises, and each
//! promise is signed.

use std::collections::{BTreeMap, BTreeSet};

use sha2::Digest;

use super::ballot::Ballot;
use super::context::SMALLEST_SUM;
use super::marks::{Marks, borne, pair};
use super::tree::Tree;
use crate::crypto::tagged_hash;
use crate::session::{Peer, Settings};

/// Contents of the promises of a view.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Peers that each author reaches, including itself.
    pub reached: BTreeMap<Peer, BTreeSet<Peer>>,
    /// Marks that are alive.
    pub marks: Marks,
}

impl Claims {
    /// Makes claims without marks: every author reaches every peer.
    #[must_use]
    pub fn whole(session: &Settings) -> Self {
        let all: BTreeSet<_> = session.peers().collect();
        let reached = session.committee.iter().map(|&author| (author, all.clone())).collect();
        Self { reached, marks: Marks::default() }
    }

    /// Returns the tree of the view with this ballot. Returns `None` if its proposer may not lead it, or
    /// if too few peers are left.
    #[must_use]
    pub fn tree(&self, session: &Settings, ballot: Ballot) -> Option<Tree> {
        let candidates = self.candidates(session);
        if barred(session, &self.marks, &candidates).contains(&ballot.proposer) {
            return None;
        }
        let mut out = self.left_out(session, &candidates);
        let least = candidates.len() - most_out(session, &candidates);
        let (left, members, allowed) = loop {
            let left: BTreeSet<_> = candidates.iter().copied().filter(|peer| !out.contains(peer)).collect();
            let (members, allowed) = self.together(session, &left, least)?;
            let usable = enough(session, &members) && self.authors(&members) >= session.quorum;
            // An author that the others do not reach does not replace a peer that is left out.
            if usable || out.pop().is_none() {
                break (left, members, allowed);
            }
        };
        if !members.contains(&ballot.proposer) || !enough(session, &members) {
            return None;
        }
        let charge = |peer: Peer| self.marks.charge(peer, |other| left.contains(&other));
        let mut order: Vec<_> = members.iter().filter(|&&peer| peer != ballot.proposer).collect();
        order.sort_by_cached_key(|&&peer| (charge(peer), hash(session, ballot, peer)));
        Some(Tree::grow(ballot.proposer, order.into_iter().copied(), |a, b| allowed.allows(a, b)))
    }

    /// Returns the authors, and the peers that an author reaches and is not kept apart from. While
    /// these are too few, the oldest mark is ignored.
    #[must_use]
    pub fn candidates(&self, session: &Settings) -> BTreeSet<Peer> {
        let marked: Vec<_> = self.marks.apart().collect();
        let mut found = BTreeSet::new();
        for dropped in 0..=marked.len() {
            let apart: BTreeSet<_> = marked[dropped..].iter().copied().collect();
            let reached = self.reached.iter().flat_map(|(&author, reached)| {
                let unmarked = |peer: &Peer| !apart.contains(&pair(author, *peer));
                reached.iter().copied().filter(unmarked).chain([author]).collect::<Vec<_>>()
            });
            found = reached.collect();
            if enough(session, &found) {
                break;
            }
        }
        found
    }

    /// Returns the barred candidates that are left out. A barred author stays if the other authors would
    /// not be a quorum, because a peer without a promise may not vote.
    #[must_use]
    pub fn left_out(&self, session: &Settings, candidates: &BTreeSet<Peer>) -> Vec<Peer> {
        let (mut authors, mut out) = (self.reached.len(), Vec::new());
        for peer in barred(session, &self.marks, candidates) {
            let is_author = self.reached.contains_key(&peer);
            if is_author && authors <= session.quorum {
                continue;
            }
            authors -= usize::from(is_author);
            out.push(peer);
        }
        out
    }

    fn authors(&self, members: &BTreeSet<Peer>) -> usize {
        self.reached.keys().filter(|author| members.contains(author)).count()
    }

    /// Returns the largest set of candidates that is connected by allowed edges. While it has fewer than
    /// `least` peers, or its authors are not a quorum, the oldest mark is ignored.
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
            let quorum = self.authors(&members) >= session.quorum;
            if (members.len() >= least && quorum) || dropped == marked.len() {
                return Some((members, allowed));
            }
        }
        None
    }
}

/// Returns the candidates that may not lead because their charge is too high, the first to be left out
/// first. They are never more than the tolerated number of liars, and enough peers always stay.
#[must_use]
pub fn barred(session: &Settings, marks: &Marks, candidates: &BTreeSet<Peer>) -> Vec<Peer> {
    let mut left = candidates.clone();
    let stays = |peer: &Peer| {
        left.remove(peer);
        votes(session, &left) >= session.quorum
    };
    marks.excess(candidates).into_iter().take(most_out(session, candidates)).take_while(stays).collect()
}

/// Returns the smallest number of members of a view.
fn needed(session: &Settings) -> usize {
    usize::from(session.min_peers).max(SMALLEST_SUM)
}

fn votes(session: &Settings, peers: &BTreeSet<Peer>) -> usize {
    session.committee.iter().filter(|peer| peers.contains(peer)).count()
}

fn enough(session: &Settings, peers: &BTreeSet<Peer>) -> bool {
    peers.len() >= needed(session) && votes(session, peers) >= session.quorum
}

/// Returns the largest number of candidates that may be left out.
fn most_out(session: &Settings, candidates: &BTreeSet<Peer>) -> usize {
    borne(session.roster.len()).min(candidates.len().saturating_sub(needed(session)))
}

/// Edges that a tree may have.
struct Allowed<'a> {
    reached: &'a BTreeMap<Peer, BTreeSet<Peer>>,
    /// Peers that at least one honest author claims to reach: more authors claim it than the committee
    /// may have liars.
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

    /// Returns whether two peers may be neighbours. A mark that keeps them apart forbids it. An author
    /// that does not claim to reach the other peer forbids it too. If neither is an author, enough other
    /// authors must claim to reach both.
    fn allows(&self, one: Peer, other: Peer) -> bool {
        let claims =
            |author: Peer, peer: Peer| self.reached.get(&author).map(|reached| reached.contains(&peer));
        !self.marked.contains(&pair(one, other))
            && match (claims(one, other), claims(other, one)) {
                (None, None) => self.trusted.contains(&one) && self.trusted.contains(&other),
                (ours, theirs) => ours != Some(false) && theirs != Some(false),
            }
    }

    /// Returns the largest set that is connected by allowed edges. If sets are equally large, it is the
    /// one with the lowest peer.
    fn component(&self, candidates: &BTreeSet<Peer>) -> BTreeSet<Peer> {
        let (mut rest, mut best) = (candidates.clone(), BTreeSet::new());
        while rest.len() > best.len()
            && let Some(first) = rest.pop_first()
        {
            let (mut found, mut todo) = (BTreeSet::from([first]), vec![first]);
            while let Some(peer) = todo.pop() {
                let next: Vec<_> = rest.iter().copied().filter(|&other| self.allows(peer, other)).collect();
                rest.retain(|other| next.binary_search(other).is_err());
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

/// Returns the hash that orders peers of the same charge in a tree.
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
