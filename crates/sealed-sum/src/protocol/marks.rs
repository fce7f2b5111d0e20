//! Marks: signed statements of members that end a view because of another member (spec, section "Marks").
//!
//! A mark is not a verdict. It states that its author and its suspect have a conflict, and either of
//! them may lie. It counts against both of them alike, and keeps them apart for some committed slots. A
//! peer with too many marks is left out; the marks with peers that are already left out do not count.
//! So liars cannot end views without limit: in the end, marks keep them apart from every peer. No
//! honest peer is left out as long as at most a third of the roster lies.

use std::collections::{BTreeMap, BTreeSet};

use super::ballot::Ballot;
use crate::session::Peer;

/// Number of committed slots for which a peer's first marks live.
const LIFE: u64 = 8;
/// Marks that a peer may have in addition to the assumed number of liars.
const SLACK: usize = 1;
/// Number of liars that is assumed at first, if the roster tolerates that many.
const FIRST: usize = 3;

/// Mark without its signature. Marks count in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// View that the author ended.
    pub ballot: Ballot,
    /// Author of the mark.
    pub author: Peer,
    /// Member because of which the author ended the view.
    pub suspect: Peer,
    /// Number of slots that were committed in the view.
    pub slot: u32,
}

/// Returns how many of `peers` peers may lie without stopping the others or getting an honest peer left
/// out.
#[must_use]
pub const fn borne(peers: usize) -> usize {
    peers.saturating_sub(1) / 3
}

/// Cost of a mark for one of its two peers.
#[derive(Clone, Copy, Debug)]
struct Unit {
    ballot: Ballot,
    other: Peer,
    /// True if the peer is the suspect.
    suspected: bool,
    /// True if the unit is still alive. The two peers are kept apart as long as the unit of either of
    /// them is alive.
    lives: bool,
}

/// Marks that keep two peers apart, and their costs.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    peers: usize,
    units: BTreeMap<Peer, Vec<Unit>>,
    /// Marked pairs, the lower peer first, by the marks that keep them apart.
    apart: BTreeSet<(Ballot, Peer, Peer)>,
    /// Pairs in which one has accused the other, the lower peer first.
    accused: BTreeSet<(Peer, Peer)>,
}

impl Marks {
    /// Returns the marks that are alive when `now` slots are committed, in a roster of `peers` peers.
    ///
    /// Marks are counted in order. A mark on a pair that already has a living mark is ignored. Every other
    /// mark adds a unit to each of its two peers. The units of a peer are ranked from 0. Several marks of
    /// one ballot against the same suspect raise the suspect's rank only once. A unit of rank k lives for
    /// 8 x 2^floor(k / (theta + 2)) committed slots, where theta is the number of liars assumed at first.
    #[must_use]
    pub fn living(peers: usize, marks: &BTreeSet<Mark>, now: u32) -> Self {
        let step = first(peers) + SLACK + 1;
        let mut until: BTreeMap<(Peer, Peer), u64> = BTreeMap::new();
        let mut rank: BTreeMap<Peer, usize> = BTreeMap::new();
        let mut suspected: BTreeMap<Peer, Ballot> = BTreeMap::new();
        let mut units: BTreeMap<Peer, Vec<(Unit, u64)>> = BTreeMap::new();
        for mark in marks.iter().filter(|mark| mark.author != mark.suspect) {
            let pair = pair(mark.author, mark.suspect);
            if until.get(&pair).is_some_and(|&until| until > u64::from(mark.slot)) {
                continue;
            }
            for (peer, other, is_suspect) in
                [(mark.author, mark.suspect, false), (mark.suspect, mark.author, true)]
            {
                let again = is_suspect && suspected.insert(peer, mark.ballot) == Some(mark.ballot);
                let rank = rank.entry(peer).and_modify(|rank| *rank += usize::from(!again)).or_insert(0);
                let end = u64::from(mark.slot) + (LIFE << (*rank / step).min(32));
                let latest = until.entry(pair).or_insert(end);
                *latest = end.max(*latest);
                let unit =
                    Unit { ballot: mark.ballot, other, suspected: is_suspect, lives: end > now.into() };
                units.entry(peer).or_default().push((unit, end));
            }
        }
        let mut out = Self { peers, ..Self::default() };
        for (peer, units) in units {
            let apart = |unit: &Unit| until[&pair(peer, unit.other)] > u64::from(now);
            let units: Vec<_> = units.into_iter().map(|(unit, _)| unit).filter(apart).collect();
            out.apart.extend(units.iter().map(|unit| {
                let (low, high) = pair(peer, unit.other);
                (unit.ballot, low, high)
            }));
            if !units.is_empty() {
                out.units.insert(peer, units);
            }
        }
        out
    }

    /// Returns the marked pairs, the lower peer first, oldest marks first. A pair may occur more than
    /// once.
    pub fn apart(&self) -> impl Iterator<Item = (Peer, Peer)> {
        self.apart.iter().map(|&(_, low, high)| (low, high))
    }

    /// Returns whether a mark keeps the two peers apart.
    #[must_use]
    pub fn parts(&self, one: Peer, other: Peer) -> bool {
        self.units.get(&one).is_some_and(|units| units.iter().any(|unit| unit.other == other))
    }

    /// Notes an accusation ([`Signed::accusation`](super::signed::Signed)) between two peers.
    pub fn accuse(&mut self, one: Peer, other: Peer) {
        self.accused.insert(pair(one, other));
    }

    /// Notes the accusations that `other` has.
    pub fn add_accusations(&mut self, other: &Self) {
        self.accused.extend(&other.accused);
    }

    /// Returns the pairs in which one has accused the other, the lower peer first.
    #[must_use]
    pub fn accused(&self) -> &BTreeSet<(Peer, Peer)> {
        &self.accused
    }

    /// Returns whether one of the two has accused the other.
    #[must_use]
    pub fn accuses(&self, one: Peer, other: Peer) -> bool {
        self.accused.contains(&pair(one, other))
    }

    /// Returns the charge of a peer: the number of its living units whose other peer satisfies `counts`.
    /// Marks of one ballot that name this peer as the suspect count as one.
    pub fn charge(&self, peer: Peer, counts: impl Fn(Peer) -> bool) -> usize {
        let units = self.units.get(&peer).map_or(&[][..], Vec::as_slice);
        let living = || units.iter().filter(|unit| unit.lives && counts(unit.other));
        let named: BTreeSet<_> = living().filter(|unit| unit.suspected).map(|unit| unit.ballot).collect();
        living().filter(|unit| !unit.suspected).count() + named.len()
    }

    /// Returns the candidates whose charge is too high, the first to be left out first. After each one,
    /// the others are counted again without it. If more peers would be left out than liars are assumed,
    /// one more liar is assumed and the count starts again.
    #[must_use]
    pub fn excess(&self, candidates: &BTreeSet<Peer>) -> Vec<Peer> {
        let borne = borne(self.peers);
        if borne == 0 {
            return Vec::new();
        }
        let mut theta = first(self.peers);
        loop {
            let mut gone: Vec<Peer> = Vec::new();
            while let Some((charge, peer)) = {
                let counts = |other: Peer| candidates.contains(&other) && !gone.contains(&other);
                let left = self.units.keys().copied().filter(|&peer| counts(peer));
                left.map(|peer| (self.charge(peer, counts), peer)).max()
            } && charge > theta + SLACK
            {
                gone.push(peer);
            }
            if gone.len() <= theta || theta >= borne {
                return gone;
            }
            theta += 1;
        }
    }
}

/// Returns the number of liars that is assumed at first.
fn first(peers: usize) -> usize {
    borne(peers).min(FIRST)
}

/// Returns a pair of peers, the lower first.
pub(super) fn pair(one: Peer, other: Peer) -> (Peer, Peer) {
    (one.min(other), one.max(other))
}
