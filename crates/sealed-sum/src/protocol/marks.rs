//! Marks: signed statements by which a member ends a view because of another (spec, section "Marks").
//!
//! A mark is no verdict. It says that its author and its suspect do not get on, and one of the two may lie.
//! Both ends pay the same for it, the two are kept apart for some committed slots, and a peer at the end of
//! too many is left out, after a recount without those that are left out already. So liars run out of peers
//! that they can end views with, and no honest peer is left out as long as no more than a third of the roster
//! lies.

use std::collections::{BTreeMap, BTreeSet};

use super::ballot::Ballot;
use crate::session::Peer;

/// The number of committed slots for which a peer's first marks live.
const LIFE: u64 = 8;
/// By how many marks a peer may exceed the number of liars that is reckoned with.
const SLACK: usize = 1;
/// The number of liars that is reckoned with at first, if so many are borne at all.
const FIRST: usize = 3;

/// A mark without its signature, in the order in which marks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The view that its author ended.
    pub ballot: Ballot,
    /// Its author.
    pub author: Peer,
    /// The member because of which.
    pub suspect: Peer,
    /// The number of slots that were committed in the view.
    pub slot: u32,
}

/// How many peers of a roster may lie without the others losing a peer or coming to a stop.
#[must_use]
pub const fn borne(peers: usize) -> usize {
    peers.saturating_sub(1) / 3
}

/// What a mark costs one of its ends.
#[derive(Clone, Copy, Debug)]
struct Unit {
    ballot: Ballot,
    other: Peer,
    /// Whether the peer is the suspect.
    suspected: bool,
    /// Whether it still lives; the pair is kept apart while that of either end does.
    lives: bool,
}

/// The marks that keep two peers apart, and what they cost.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    peers: usize,
    units: BTreeMap<Peer, Vec<Unit>>,
    /// The marked pairs, the lower peer first, by the marks that keep them apart.
    apart: BTreeSet<(Ballot, Peer, Peer)>,
}

impl Marks {
    /// The marks that live when `now` slots are committed, in a roster of so many peers.
    ///
    /// They count in order. A mark on a pair that has a living one counts nothing. Each end of another one
    /// gets a unit, but a suspect no more than one in a ballot lets grow older. The k-th unit of a peer (from
    /// 0) lives for 8 x 2^(k / (theta + 2)) committed slots.
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

    /// The marked pairs, the lower peer first, oldest marks first; a pair may be there more than once.
    pub fn apart(&self) -> impl Iterator<Item = (Peer, Peer)> {
        self.apart.iter().map(|&(_, low, high)| (low, high))
    }

    /// Whether a mark keeps the two apart.
    #[must_use]
    pub fn parts(&self, one: Peer, other: Peer) -> bool {
        self.units.get(&one).is_some_and(|units| units.iter().any(|unit| unit.other == other))
    }

    /// What a peer is charged with: its living units whose other end counts. Of the marks of one ballot that
    /// name it as the suspect only one counts.
    pub fn charge(&self, peer: Peer, counts: impl Fn(Peer) -> bool) -> usize {
        let units = self.units.get(&peer).map_or(&[][..], Vec::as_slice);
        let living = || units.iter().filter(|unit| unit.lives && counts(unit.other));
        let named: BTreeSet<_> = living().filter(|unit| unit.suspected).map(|unit| unit.ballot).collect();
        living().filter(|unit| !unit.suspected).count() + named.len()
    }

    /// The candidates that are charged with too much, the first to go first. After each the others are
    /// counted again without it. If more would go than are reckoned with, one more liar is reckoned with.
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

/// The number of liars that is reckoned with at first.
fn first(peers: usize) -> usize {
    borne(peers).min(FIRST)
}

/// A pair of peers, the lower first.
pub(super) fn pair(one: Peer, other: Peer) -> (Peer, Peer) {
    (one.min(other), one.max(other))
}
