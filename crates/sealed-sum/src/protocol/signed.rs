//! Items signed by their author (spec, section "Signed items").
//!
//! Items that travel through other peers are signed by their authors, over the session, the author and the
//! item's canonical encoding: a peer on the way can drop it, but not alter it.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::{memo, wire};
use crate::crypto::identity::Signature;
use crate::session::Peer;

/// A kind of item; the tag keeps a signature on one kind from passing for another.
pub trait Item: Serialize {
    /// Domain tag, unique among items.
    const TAG: &'static str;

    /// Whether each field of variable length has the length that the session asks for. A peer checks this
    /// before it passes an item on: a frame of honest peers never grows beyond the limit because of a liar.
    fn has_lengths(&self, ctx: &Context) -> bool;
}

/// An item, its author and the author's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed<T> {
    /// The peer that made and signed it.
    pub author: Peer,
    /// The content.
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

    /// Whether the author is in the roster, the fields have their lengths and the signature is the author's.
    #[must_use]
    pub fn verify(&self, ctx: &Context) -> bool {
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
