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

    /// Whether the author is in the roster and the signature is its own.
    #[must_use]
    pub fn verify(&self, ctx: &Context) -> bool {
        self.author.0 < ctx.peers() && {
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
