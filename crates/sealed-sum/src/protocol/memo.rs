//! Results that are the same for every node of a view, computed once if all nodes run in one process, as
//! in the simulator.
//!
//! Each function here is pure. A thread remembers results only after [`begin`], which a real
//! node never calls because it does not benefit. In tests, every thread remembers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::tree::Tree;
use crate::crypto::agreement::{EphemeralSecret, Key, LowOrder};
use crate::crypto::identity::{PublicKey, Signature};
use crate::crypto::sharing::{Dealt, Opened, Point};
use crate::session::Peer;

/// Largest number of good signatures and proofs, or of agreements, that are remembered before all are
/// dropped.
const MOST: usize = 100_000;

/// Hash of a function's last argument, and its result.
type Last<T> = RefCell<Option<([u8; 32], T)>>;

/// Results by the hash of what they depend on.
type Known<T> = RefCell<BTreeMap<[u8; 32], T>>;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(cfg!(test)) };
    static GOOD: RefCell<BTreeSet<[u8; 32]>> = const { RefCell::new(BTreeSet::new()) };
    static AGREED: Known<Key> = const { RefCell::new(BTreeMap::new()) };
    static SECRETS: Known<Option<Zeroizing<Point>>> = const { RefCell::new(BTreeMap::new()) };
    static OPENED: Known<Option<Opened>> = const { RefCell::new(BTreeMap::new()) };
    static DEALT: Known<(Zeroizing<Point>, Dealt)> = const { RefCell::new(BTreeMap::new()) };
    static SAME: Cell<bool> = const { Cell::new(false) };
    static TREE: Last<Option<Arc<Tree>>> = const { RefCell::new(None) };
    static GRAPH: Last<Arc<Vec<Peer>>> = const { RefCell::new(None) };
}

/// Makes this thread remember results from now on.
pub fn begin() {
    ON.set(true);
}

/// Returns `key.verify(tag, message, signature)`.
pub(super) fn verify(tag: &'static str, key: PublicKey, message: &[u8], signature: &Signature) -> bool {
    let check = || key.verify(tag.as_bytes(), message, signature);
    if !ON.get() {
        return check();
    }
    let seen = Sha256::new()
        .chain_update([u8::try_from(tag.len()).unwrap_or(u8::MAX)])
        .chain_update(tag)
        .chain_update(key.as_bytes())
        .chain_update(signature.as_bytes())
        .chain_update(message);
    holds(|| seen.finalize().to_vec(), check)
}

/// Returns the result of a check that depends on `argument` only.
pub(super) fn holds(argument: impl FnOnce() -> Vec<u8>, check: impl FnOnce() -> bool) -> bool {
    if !ON.get() {
        return check();
    }
    let seen = Sha256::digest(argument()).into();
    GOOD.with_borrow_mut(|good| {
        if good.len() > MOST {
            good.clear();
        }
        good.contains(&seen) || (check() && good.insert(seen))
    })
}

/// Returns `secret.agree(theirs, info)`. Both ends of a pair compute the same key: the second end gets the
/// result of the first.
pub(super) fn agree(secret: &EphemeralSecret, theirs: &[u8; 32], info: &[u8]) -> Result<Key, LowOrder> {
    if !ON.get() {
        return secret.agree(theirs, info);
    }
    let ours = secret.public();
    let pair = Sha256::new().chain_update(ours.min(*theirs)).chain_update(ours.max(*theirs));
    let pair = pair.chain_update(info).finalize().into();
    AGREED.with_borrow_mut(|agreed| {
        if let Some(key) = agreed.remove(&pair) {
            return Ok(key);
        }
        if agreed.len() > MOST {
            agreed.clear();
        }
        let key = secret.agree(theirs, info)?;
        agreed.insert(pair, key.clone());
        Ok(key)
    })
}

/// Returns the secret of a deal, remembered by the opened shares.
pub(super) fn secret(
    shares: impl FnOnce() -> Vec<u8>,
    make: impl FnOnce() -> Option<Zeroizing<Point>>,
) -> Option<Zeroizing<Point>> {
    known(&SECRETS, shares, make)
}

/// Returns the opened shares of one member, remembered by all data that they depend on.
pub(super) fn opened(
    argument: impl FnOnce() -> Vec<u8>,
    make: impl FnOnce() -> Option<Opened>,
) -> Option<Opened> {
    known(&OPENED, argument, make)
}

/// From now on the pads of this thread follow from session, sum and dealer, so that deals can be
/// remembered. Only random schedules use this: there are many of them, and their course does not depend
/// on pads.
#[cfg(test)]
pub(crate) fn use_same_pads() {
    SAME.set(true);
}

/// Returns the seed of a deal if it follows from its context: session, sum and dealer.
pub(super) fn same(context: &[u8]) -> Option<[u8; 32]> {
    SAME.get().then(|| Sha256::digest(context).into())
}

/// Returns the deal of a seed.
pub(super) fn dealt(
    seed: [u8; 32],
    make: impl FnOnce() -> (Zeroizing<Point>, Dealt),
) -> (Zeroizing<Point>, Dealt) {
    known(&DEALT, || seed.to_vec(), make)
}

fn known<T: Clone>(
    place: &'static std::thread::LocalKey<Known<T>>,
    argument: impl FnOnce() -> Vec<u8>,
    make: impl FnOnce() -> T,
) -> T {
    if !ON.get() {
        return make();
    }
    let argument = Sha256::digest(argument()).into();
    place.with_borrow_mut(|known| {
        if known.len() > MOST {
            known.clear();
        }
        known.entry(argument).or_insert_with(make).clone()
    })
}

/// Returns the tree of a view, remembered by all data that it depends on.
pub(super) fn tree(
    argument: impl FnOnce() -> Vec<u8>,
    make: impl FnOnce() -> Option<Tree>,
) -> Option<Arc<Tree>> {
    last(&TREE, || Sha256::digest(argument()).into(), || make().map(Arc::new))
}

/// Returns the ring of a mask graph, remembered by all data that it depends on.
pub(super) fn graph(argument: impl FnOnce() -> [u8; 32], make: impl FnOnce() -> Vec<Peer>) -> Arc<Vec<Peer>> {
    last(&GRAPH, argument, || Arc::new(make()))
}

fn last<T: Clone>(
    place: &'static std::thread::LocalKey<Last<T>>,
    argument: impl FnOnce() -> [u8; 32],
    make: impl FnOnce() -> T,
) -> T {
    if !ON.get() {
        return make();
    }
    let argument = argument();
    let known = place
        .with_borrow(|last| last.as_ref().filter(|(of, _)| *of == argument).map(|(_, made)| made.clone()));
    known.unwrap_or_else(|| {
        let made = make();
        place.set(Some((argument, made.clone())));
        made
    })
}
