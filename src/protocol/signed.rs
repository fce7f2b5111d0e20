//! Items signed by their author (spec, section "Signed items").
//!
//! What travels through other peers is signed by who made it, over the session, the author and the item's canonical
//! encoding: a peer on the way can drop it, but not alter it.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::wire;
use crate::crypto::identity::Signature;
use crate::session::Peer;

/// A kind of item; the tag keeps a signature on one kind from passing for another.
pub trait Item: Serialize {
    /// Domain tag, unique among items.
    const TAG: &'static str;
}

/// An item, its author and the author's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed<T> {
    /// Who made and signed it.
    pub author: Peer,
    /// What it says.
    pub item: T,
    signature: Signature,
}

impl<T: Item> Signed<T> {
    /// Signs `item` as this peer.
    #[must_use]
    pub fn new(ctx: &Context, item: T) -> Self {
        let message = message(ctx, ctx.me, &item);
        Self { author: ctx.me, signature: ctx.identity.sign(T::TAG.as_bytes(), &message), item }
    }

    /// Whether the author is in the roster and the signature is its own.
    #[must_use]
    pub fn verify(&self, ctx: &Context) -> bool {
        self.author.0 < ctx.peers() && {
            let key = ctx.session.key(self.author);
            let message = message(ctx, self.author, &self.item);
            remembered::verify(T::TAG, key, &message, &self.signature)
        }
    }
}

fn message<T: Serialize>(ctx: &Context, author: Peer, item: &T) -> Vec<u8> {
    let mut bytes = ctx.id.0.to_vec();
    bytes.extend_from_slice(&author.0.to_le_bytes());
    bytes.extend_from_slice(&wire::canonical(item));
    bytes
}

/// Where all nodes live in one process, as in the simulator, they look at the same signatures: that took more than half of the
/// time of a run. So a thread that asks for it remembers which ones were good. A real node never does.
pub(crate) mod remembered {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    use sha2::{Digest, Sha256};

    use crate::crypto::identity::{PublicKey, Signature};

    /// How many are remembered before all are forgotten.
    const MOST: usize = 100_000;

    thread_local! {
        static ON: Cell<bool> = const { Cell::new(cfg!(test)) };
        static GOOD: RefCell<BTreeSet<[u8; 32]>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// From now on this thread remembers.
    pub(crate) fn begin() {
        ON.set(true);
    }

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
        let seen = seen.finalize().into();
        GOOD.with_borrow_mut(|good| {
            if good.len() > MOST {
                good.clear();
            }
            good.contains(&seen) || (check() && good.insert(seen))
        })
    }
}
