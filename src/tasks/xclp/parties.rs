//! Determines the computing members of a view (spec, section 15b).
//!
//! There are at most four *candidates* in a session. The session file names them, or they are the first four
//! of the counted peers in an order that the coin determines. The computing members are the first three
//! candidates that are present and that no mark keeps apart. The marks are those in the promises of the view,
//! which are the same at all members. Each mark has the signature of one of its two peers. So no other peer
//! can influence who computes. Peers that are not candidates never compute.

use sha2::Digest;

use super::{Plan, ROWS};
use crate::crypto::tagged_hash;
use crate::protocol::marks::Marks;
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::History;

/// Largest number of candidates: three, and one in reserve.
pub(crate) const CANDIDATES: usize = 4;

/// Returns the candidates in their order. These are the peers in `named` or, if there are none, the first of
/// `counted` in the order of their hashes with the coin.
#[must_use]
pub fn candidates(coin: &[u8], counted: &[Peer], named: &[Peer]) -> Vec<Peer> {
    let mut order = if named.is_empty() { counted.to_vec() } else { named.to_vec() };
    if named.is_empty() {
        order.sort_by_cached_key(|peer| {
            let hash = tagged_hash("computing party").chain_update(coin).chain_update(peer.0.to_le_bytes());
            <[u8; 32]>::from(hash.finalize())
        });
    }
    order.truncate(CANDIDATES);
    order.retain(|peer| counted.contains(peer));
    order
}

/// Returns the three candidates that compute in a view of the members `here`: the first three, in their
/// order, that no mark keeps apart. If no three are left, only accusations count.
///
/// # Errors
/// If no three candidates may compute together. The message has the number of candidates that are present.
pub(crate) fn trio(candidates: &[Peer], here: &[Peer], marks: &Marks) -> Result<[Peer; 3], String> {
    let left: Vec<Peer> = candidates.iter().copied().filter(|peer| here.contains(peer)).collect();
    let pairs = |one: usize| (one + 1..left.len()).map(move |two| (one, two));
    let triples: Vec<[Peer; 3]> = (0..left.len())
        .flat_map(pairs)
        .flat_map(|(one, two)| (two + 1..left.len()).map(move |three| (one, two, three)))
        .map(|(one, two, three)| [left[one], left[two], left[three]])
        .collect();
    let first = |apart: &dyn Fn(Peer, Peer) -> bool| {
        triples.iter().copied().find(|&[a, b, c]| ![(a, b), (a, c), (b, c)].iter().any(|&(x, y)| apart(x, y)))
    };
    first(&|x, y| marks.accuses(x, y) || marks.parts(x, y))
        .or_else(|| first(&|x, y| marks.accuses(x, y)))
        .ok_or_else(|| {
            format!(
                "three computing parties are needed: of the {} candidates {} are here, and no three of them \
                 compute together",
                candidates.len(),
                left.len()
            )
        })
}

/// Checks that three candidates among `members` still compute together. Nothing is known against a session
/// in which no peer is accused.
///
/// # Errors
/// A message with the pairs that no longer compute together.
pub(crate) fn can_continue(
    session: &Session,
    candidates: impl FnOnce() -> Result<Vec<Peer>, String>,
    (members, marks): Crowd<'_>,
) -> Result<(), String> {
    let accused = marks.accused();
    let Some(candidates) = (!accused.is_empty()).then(candidates).and_then(Result::ok) else {
        return Ok(());
    };
    if trio(&candidates, members, marks).is_ok() {
        return Ok(());
    }
    let all: Vec<&str> = candidates.iter().map(|&peer| session.name(peer)).collect();
    let pairs =
        accused.iter().filter(|(one, other)| [one, other].iter().all(|peer| candidates.contains(peer)));
    let told = pairs.map(|&(one, other)| {
        format!("{} or {} breaks the rules of the computation", session.name(one), session.name(other))
    });
    let told: Vec<String> = told.collect();
    Err(format!(
        "three candidates must compute together, and of {} no three can any more: {}; make a new session whose field \
         `compute` names other peers, or a fourth one; the events `named` of `join --json` have the signed evidence",
        all.join(", "),
        told.join("; ")
    ))
}

impl Plan {
    /// Returns the candidates of the session.
    pub(super) fn candidates(&self, history: &History) -> Result<Vec<Peer>, String> {
        let coin = history.seed().ok_or("the coin is not open")?;
        let place = |name: &String| self.session.roster.iter().position(|entry| entry.name == *name);
        let named = self.spec.compute.iter().filter_map(place).filter_map(|at| u16::try_from(at).ok());
        let named: Vec<Peer> = named.map(Peer).collect();
        Ok(candidates(&coin, history.members(ROWS), &named))
    }

    /// Checks that three candidates among `members` still compute together, if `slot` needs them.
    pub(crate) fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        if slot != self.computed() {
            return Ok(());
        }
        can_continue(&self.session, || self.candidates(history), crowd)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::protocol::ballot::Ballot;
    use crate::protocol::marks::Mark;

    fn peers(numbers: &[u16]) -> Vec<Peer> {
        numbers.iter().copied().map(Peer).collect()
    }

    /// Returns marks. In each pair, the first peer has lost the second one, or accuses it.
    fn marks(lost: &[(Peer, Peer)], accused: &[(Peer, Peer)]) -> Marks {
        let ballot = Ballot { counter: 1, proposer: Peer(0) };
        let mark = |&(author, suspect)| Mark { ballot, author, suspect, slot: 2 };
        let mut marks = Marks::living(7, &lost.iter().map(mark).collect(), 2);
        accused.iter().for_each(|&(author, suspect)| marks.accuse(author, suspect));
        marks
    }

    #[test]
    fn two_that_a_mark_keeps_apart_do_not_compute_together_and_a_liar_keeps_only_itself_apart() {
        let counted = peers(&[0, 1, 2, 3, 4, 5, 6]);
        let order = candidates(b"coin", &counted, &[]);
        assert_eq!(order.len(), CANDIDATES);
        let of = |pairs: &[(usize, usize)]| -> Vec<_> {
            pairs.iter().map(|&(one, other)| (order[one], order[other])).collect()
        };
        let with = |lost: &[(usize, usize)], accused: &[(usize, usize)]| {
            trio(&order, &counted, &marks(&of(lost), &of(accused)))
                .map(|trio| trio.map(|peer| order.iter().position(|p| *p == peer).unwrap()))
        };
        assert_eq!(with(&[], &[]), Ok([0, 1, 2]));
        // If two candidates are apart, the later one does not compute. If a candidate is apart from two
        // others, that candidate does not compute. A lost connection and an accusation count alike.
        for (one, other) in [(0, 1), (1, 0)] {
            assert_eq!(with(&[(one, other)], &[]), Ok([0, 2, 3]));
            assert_eq!(with(&[], &[(one, other)]), Ok([0, 2, 3]));
        }
        assert_eq!(with(&[(1, 2)], &[]), Ok([0, 1, 3]));
        assert_eq!(with(&[(1, 2)], &[(0, 1)]), Ok([0, 2, 3]));
        for liar in 0..3 {
            let others: Vec<_> = (0..4).filter(|peer| *peer != liar).collect();
            let says: Vec<_> = others.iter().map(|other| (liar, *other)).collect();
            assert_eq!(with(&[], &says).unwrap().to_vec(), others);
        }
        // If no three are left otherwise, those that have only lost each other compute together again.
        assert_eq!(with(&[(0, 1), (2, 3)], &[]), Ok([0, 1, 2]));
        assert_eq!(with(&[(0, 1)], &[(2, 3)]), Ok([0, 1, 2]));
        let text = with(&[], &[(0, 1), (2, 3)]).unwrap_err();
        let expected = "three computing parties are needed: of the 4 candidates 4 are here, and no three";
        assert!(text.starts_with(expected), "{text}");
        // One candidate is not present.
        let here: Vec<_> = counted.iter().copied().filter(|peer| *peer != order[1]).collect();
        assert_eq!(trio(&order, &here, &Marks::default()), Ok([order[0], order[2], order[3]]));
        assert!(trio(&order[..3], &here, &Marks::default()).is_err());
    }

    #[test]
    fn named_parties_compute_and_the_coin_does_not_matter() {
        let counted = peers(&[0, 1, 2, 3, 4]);
        for coin in [b"one", b"two"] {
            assert_eq!(candidates(coin, &counted, &peers(&[3, 0, 4])), peers(&[3, 0, 4]));
        }
        let drawn: BTreeSet<_> =
            (0..40u8).map(|coin| candidates(&[coin], &counted, &[])[..3].to_vec()).collect();
        assert!(drawn.len() > 20, "{drawn:?}");
        // A peer that was not counted does not compute.
        assert_eq!(candidates(b"coin", &peers(&[0, 4]), &peers(&[3, 0, 4])), peers(&[0, 4]));
    }
}
