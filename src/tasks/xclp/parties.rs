//! Determines the computing members of a view (spec, section 15b).
//!
//! There are at most four *candidates* in a session. The session file names them, or they are the first four
//! of the counted peers in an order that the coin determines. A candidate announces which other candidates it
//! no longer computes with. These are then kept *apart* from it, and neither of the two is blamed. The
//! computing members are the first three candidates that are present and not apart from each other. Only
//! announcements of candidates count, so no other owner can influence who computes. Peers that are not
//! candidates never compute.

use std::collections::BTreeSet;

use sha2::Digest;

use crate::crypto::tagged_hash;
use crate::session::Peer;

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

/// Returns a function that is true for each pair of `candidate` and a peer in `out`.
pub(crate) fn of_one(candidate: Peer, out: &BTreeSet<Peer>) -> impl Fn(Peer, Peer) -> bool {
    move |x, y| x == candidate && out.contains(&y) || y == candidate && out.contains(&x)
}

#[cfg(test)]
mod tests {
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
