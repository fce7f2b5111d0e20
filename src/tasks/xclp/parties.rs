//! Who computes in one view (spec, section 15e.1).
//!
//! There are at most four *candidates* in a session, named by its file or the first of those who were counted
//! in an order that the coin fixes. The first three of them who are present compute. One of whom an attempt
//! went on without is *out*: it never computes again, so that at most one of three is ever replaced, and two
//! colluders who were not among the four never become two of three.

use std::collections::BTreeSet;

use sha2::Digest;

use crate::crypto::tagged_hash;
use crate::session::Peer;

/// Most candidates: three and one in reserve.
pub(crate) const CANDIDATES: usize = 4;

/// The candidates in their order: those that the file names, or else the first of `counted`, in the order of
/// their hashes with the coin.
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

/// The first three candidates who are `here` and not out.
///
/// # Errors
/// How many there are.
pub(crate) fn trio(candidates: &[Peer], here: &[Peer], out: &BTreeSet<Peer>) -> Result<[Peer; 3], String> {
    let left: Vec<Peer> =
        candidates.iter().copied().filter(|peer| here.contains(peer) && !out.contains(peer)).collect();
    left.first_chunk().copied().ok_or_else(|| {
        format!(
            "three computing parties are needed: of the {} candidates {} are here and were never lost while \
             they computed",
            candidates.len(),
            left.len()
        )
    })
}

/// Those who are out once `trio` computes: candidates that it has passed over.
pub(crate) fn passed_over(candidates: &[Peer], trio: &[Peer; 3]) -> impl Iterator<Item = Peer> {
    let end = candidates.iter().position(|peer| *peer == trio[2]).unwrap_or(0);
    candidates[..end].iter().copied().filter(|peer| !trio.contains(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(numbers: &[u16]) -> Vec<Peer> {
        numbers.iter().copied().map(Peer).collect()
    }

    #[test]
    fn whoever_was_passed_over_never_computes_again_and_one_is_replaced_at_most() {
        let counted = peers(&[0, 1, 2, 3, 4, 5, 6]);
        let order = candidates(b"coin", &counted, &[]);
        assert_eq!(order.len(), CANDIDATES);
        let mut out = BTreeSet::new();
        let first = trio(&order, &counted, &out).unwrap();
        assert_eq!(first[..], order[..3]);
        // The second is lost; when it is back, it stays out.
        let here: Vec<_> = counted.iter().copied().filter(|peer| *peer != order[1]).collect();
        let second = trio(&order, &here, &out).unwrap();
        assert_eq!(second, [order[0], order[2], order[3]]);
        out.extend(passed_over(&order, &second));
        assert_eq!(out.iter().copied().collect::<Vec<_>>(), [order[1]]);
        assert_eq!(trio(&order, &counted, &out), Ok(second));
        // Another one is lost: there is nobody left.
        let here: Vec<_> = counted.iter().copied().filter(|peer| *peer != order[0]).collect();
        let text = trio(&order, &here, &out).unwrap_err();
        assert!(
            text.starts_with("three computing parties are needed: of the 4 candidates 2 are here"),
            "{text}"
        );
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
        // Who was not counted does not compute.
        assert_eq!(candidates(b"coin", &peers(&[0, 4]), &peers(&[3, 0, 4])), peers(&[0, 4]));
    }
}
