//! Determines the computing members of a view (spec, section 15b).
//!
//! There are at most four *candidates* in a session. The session file names them, or they are the first four
//! of the counted peers in an order that the coin determines. A candidate announces which other candidates it
//! no longer computes with. These are then kept *apart* from it, and neither of the two is blamed. The
//! computing members are the first three candidates that are present and not apart from each other. Only
//! announcements of candidates count, so no other owner can influence who computes. Peers that are not
//! candidates never compute.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::Digest;

use super::{Plan, ROWS};
use crate::crypto::tagged_hash;
use crate::protocol::view::Reason;
use crate::session::{Peer, Session};
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

/// Returns the first three candidates, in their order, that are `here` and not `apart` from each other.
///
/// # Errors
/// If no three candidates may compute together. The message has the number of candidates that are present.
pub(crate) fn trio(
    candidates: &[Peer],
    here: &[Peer],
    apart: impl Fn(Peer, Peer) -> bool,
) -> Result<[Peer; 3], String> {
    let left: Vec<Peer> = candidates.iter().copied().filter(|peer| here.contains(peer)).collect();
    let pairs = |one: usize| (one + 1..left.len()).map(move |two| (one, two));
    let triples = (0..left.len())
        .flat_map(pairs)
        .flat_map(|(one, two)| (two + 1..left.len()).map(move |three| (one, two, three)));
    let mut triples = triples.map(|(one, two, three)| [left[one], left[two], left[three]]);
    let whole = triples.find(|[a, b, c]| ![(a, b), (a, c), (b, c)].iter().any(|(x, y)| apart(**x, **y)));
    whole.ok_or_else(|| {
        format!(
            "three computing parties are needed: of the {} candidates {} are here, and no three of them compute \
             together",
            candidates.len(),
            left.len()
        )
    })
}

/// Pairs of candidates that no longer compute together, as far as this peer knows. The flag is true if they
/// only lost each other. The pairs outlive a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excluded(Arc<Mutex<BTreeMap<[Peer; 2], bool>>>);

impl Excluded {
    fn pairs(&self) -> std::sync::MutexGuard<'_, BTreeMap<[Peer; 2], bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps two peers apart from now on.
    pub(crate) fn note(&self, one: Peer, other: Peer, reason: Reason) {
        let lost = !matches!(reason, Reason::Fault | Reason::Disagreement);
        *self.pairs().entry([one.min(other), one.max(other)]).or_insert(true) &= lost;
    }

    /// Takes the failure of a view: a fault or a disagreement keeps two candidates apart.
    pub(crate) fn failed(&self, candidates: &[Peer], [one, other]: [Peer; 2], reason: Reason) {
        let candidates = candidates.contains(&one) && candidates.contains(&other);
        if candidates && matches!(reason, Reason::Fault | Reason::Disagreement) {
            self.note(one, other, reason);
        }
    }

    /// Returns whether two peers no longer compute together.
    pub(crate) fn apart(&self, one: Peer, other: Peer) -> bool {
        self.pairs().contains_key(&[one.min(other), one.max(other)])
    }

    /// Returns the peers that no longer compute with this one, ascending.
    pub(crate) fn of(&self, peer: Peer) -> Vec<Peer> {
        let mut others: Vec<Peer> = (self.pairs().keys())
            .filter(|pair| pair.contains(&peer))
            .map(|&[one, other]| if one == peer { other } else { one })
            .collect();
        others.sort_unstable();
        others
    }

    /// Checks that three candidates among `members` still compute together. Nothing is known against a
    /// session in which no pair is apart.
    ///
    /// # Errors
    /// A message with the pairs that are apart.
    pub(crate) fn check(
        &self,
        session: &Session,
        candidates: impl FnOnce() -> Result<Vec<Peer>, String>,
        members: &[Peer],
    ) -> Result<(), String> {
        let pairs = self.pairs().clone();
        let Some(candidates) = (!pairs.is_empty()).then(candidates).and_then(Result::ok) else {
            return Ok(());
        };
        if trio(&candidates, members, |x, y| pairs.contains_key(&[x.min(y), x.max(y)])).is_ok() {
            return Ok(());
        }
        let all: Vec<&str> = candidates.iter().map(|&peer| session.name(peer)).collect();
        let of_candidates =
            pairs.iter().filter(|(pair, _)| pair.iter().all(|peer| candidates.contains(peer)));
        let told = of_candidates.clone().map(|(&[one, other], lost)| {
            let (one, other) = (session.name(one), session.name(other));
            match lost {
                true => format!("{one} and {other} lost each other while they computed"),
                false => format!("{one} or {other} breaks the rules of the computation"),
            }
        });
        let told: Vec<String> = told.collect();
        let next = match of_candidates.clone().all(|(_, lost)| *lost) {
            true => "start all peers again when their connections hold",
            false => {
                "make a new session whose field `compute` names other peers, or a fourth one; the events \
                 `named` of `join --json` have the signed evidence"
            }
        };
        Err(format!(
            "three candidates must compute together, and of {} no three can any more: {}; {next}",
            all.join(", "),
            told.join("; ")
        ))
    }
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

    /// Takes the failure of a view: it may keep two candidates apart.
    pub(crate) fn view_failed(
        &self,
        out: &Excluded,
        slot: u32,
        history: &History,
        pair: [Peer; 2],
        reason: Reason,
    ) {
        if slot == self.computed()
            && let Ok(candidates) = self.candidates(history)
        {
            out.failed(&candidates, pair, reason);
        }
    }

    /// Checks that three candidates among `members` still compute together, if `slot` needs them.
    pub(crate) fn can_continue(
        &self,
        out: &Excluded,
        slot: u32,
        history: &History,
        members: &[Peer],
    ) -> Result<(), String> {
        if slot != self.computed() {
            return Ok(());
        }
        out.check(&self.session, || self.candidates(history), members)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn peers(numbers: &[u16]) -> Vec<Peer> {
        numbers.iter().copied().map(Peer).collect()
    }

    #[test]
    fn two_that_are_apart_do_not_compute_together_and_a_liar_keeps_only_itself_apart() {
        let counted = peers(&[0, 1, 2, 3, 4, 5, 6]);
        let order = candidates(b"coin", &counted, &[]);
        assert_eq!(order.len(), CANDIDATES);
        let with = |pairs: &[(usize, usize)]| {
            let apart = |x: Peer, y: Peer| {
                pairs.iter().any(|&(a, b)| [(order[a], order[b]), (order[b], order[a])].contains(&(x, y)))
            };
            trio(&order, &counted, apart)
                .map(|trio| trio.map(|peer| order.iter().position(|p| *p == peer).unwrap()))
        };
        assert_eq!(with(&[]), Ok([0, 1, 2]));
        // If two candidates are apart, the later one does not compute. If a candidate is apart from two
        // others, that candidate does not compute.
        assert_eq!((with(&[(0, 1)]), with(&[(1, 2)])), (Ok([0, 2, 3]), Ok([0, 1, 3])));
        for liar in 0..3 {
            let others: Vec<_> = (0..4).filter(|peer| *peer != liar).collect();
            let says: Vec<_> = others.iter().map(|other| (liar, *other)).collect();
            assert_eq!(with(&says).unwrap().to_vec(), others);
        }
        let text = with(&[(0, 1), (2, 3)]).unwrap_err();
        let expected = "three computing parties are needed: of the 4 candidates 4 are here, and no three";
        assert!(text.starts_with(expected), "{text}");
        // One candidate is not present.
        let here: Vec<_> = counted.iter().copied().filter(|peer| *peer != order[1]).collect();
        assert_eq!(trio(&order, &here, |_, _| false), Ok([order[0], order[2], order[3]]));
        assert!(trio(&order[..3], &here, |_, _| false).is_err());
    }

    #[test]
    fn only_a_fault_or_a_disagreement_of_two_candidates_keeps_them_apart() {
        let (out, candidates) = (Excluded::default(), peers(&[0, 1, 2]));
        out.failed(&candidates, [Peer(0), Peer(3)], Reason::Fault);
        for reason in [Reason::Lost, Reason::Stalled, Reason::Left, Reason::Ended] {
            out.failed(&candidates, [Peer(0), Peer(1)], reason);
        }
        assert_eq!(out.of(Peer(0)), []);
        out.failed(&candidates, [Peer(1), Peer(0)], Reason::Disagreement);
        out.failed(&candidates, [Peer(2), Peer(0)], Reason::Fault);
        assert_eq!([0, 1, 2].map(|peer| out.of(Peer(peer))), [peers(&[1, 2]), peers(&[0]), peers(&[0])]);
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
