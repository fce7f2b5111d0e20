//! Items signed by their author (spec, section "Signed items").
//!
//! Authors sign items that travel through other peers. The signature covers the session, the author and
//! the item's canonical encoding. A peer on the way can drop an item, but it cannot change it.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::{memo, wire};
use crate::crypto::identity::Signature;
use crate::session::Peer;

/// Kind of item. The tag prevents the use of a signature for another kind.
pub trait Item: Serialize {
    /// Domain tag, unique among items.
    const TAG: &'static str;

    /// Returns whether each field of variable length has the length that the session requires. A peer
    /// checks this before it forwards an item, so a liar cannot make frames of honest peers exceed the
    /// limit.
    fn has_lengths(&self, ctx: &Context) -> bool;

    /// Returns whether the proofs in an item of this author hold. A peer checks this too before it forwards
    /// an item. The result is the same at every peer.
    fn is_sound(&self, _: &Context, _author: Peer) -> bool {
        true
    }
}

/// Item with its author and the author's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed<T> {
    /// Peer that made and signed the item.
    pub author: Peer,
    /// Content.
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

    /// Returns whether the item is signed, and its proofs hold.
    #[must_use]
    pub fn verify(&self, ctx: &Context) -> bool {
        self.is_signed(ctx) && self.item.is_sound(ctx, self.author)
    }

    /// Returns whether the author is in the roster, the fields have valid lengths and the signature is the
    /// author's.
    #[must_use]
    pub fn is_signed(&self, ctx: &Context) -> bool {
        self.author.0 < ctx.peers() && self.item.has_lengths(ctx) && {
            let key = ctx.session.key(self.author);
            let message = message(ctx, self.author, &self.item);
            memo::verify(T::TAG, key, &message, &self.signature)
        }
    }
}

fn message<T: Serialize>(ctx: &Context, author: Peer, item: &T) -> Vec<u8> {
    let mut bytes = ctx.id.0.to_vec();
    bytes.extend_from_slice(&author.0.to_le_bytes());
    bytes.extend_from_slice(&wire::canonical(item));
    bytes
}
