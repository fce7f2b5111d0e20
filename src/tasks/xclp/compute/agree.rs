//! Each share of the output is held by two computing members. Both compare hashes of it before either of them
//! finishes. So if a member has given its neighbour another share than its own, this is found before the
//! committee decides. The two do not compute together again.

use sha2::Digest;

use super::super::talk::{Body, tell};
use super::Compute;
use crate::crypto::tagged_hash;
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Step};
use crate::session::Peer;
use crate::tasks::exchange::Vocabulary;
use crate::tasks::xclp::shares::round::Side;

/// Returns the hash of a share of the output, or of some rows of it.
#[must_use]
pub fn hash(share: &[u8]) -> [u8; 32] {
    tagged_hash("output").chain_update(share).finalize().into()
}

impl Compute {
    /// Returns the two other computing members, each with the hash of the share that it and this member hold.
    fn neighbours(&self) -> impl Iterator<Item = (Peer, [u8; 32])> {
        let sealed = self.sealed.as_ref();
        [Side::Before, Side::After].into_iter().filter_map(move |side| {
            let share = sealed.map(|sealed| if side == Side::Before { &sealed.own } else { &sealed.next })?;
            Some((self.party_at(side)?, hash(share)))
        })
    }

    /// Sends the hashes when this member has its shares of the output.
    pub(super) fn show_hashes(&mut self, step: &mut Step<Vocabulary>) {
        self.neighbours().for_each(|(peer, hash)| tell([peer], &Body::Holds(hash), step));
        self.compare(step);
    }

    /// Handles another member's hash of its share of the output.
    pub(super) fn holds(
        &mut self,
        from: Peer,
        hash: [u8; 32],
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        let party = self.number().is_some() && self.trio.contains(&from);
        if !party || self.held.insert(from, hash).is_some() {
            return Err(Fault::OutOfOrder("hash of a share of the output"));
        }
        self.compare(step);
        Ok(())
    }

    /// Compares the hashes. If two differ, one of the two members deviates. Other peers cannot know which
    /// one, so this member only suspects the other.
    fn compare(&mut self, step: &mut Step<Vocabulary>) {
        let differs = |(peer, hash): &(Peer, [u8; 32])| self.held.get(peer).is_some_and(|held| held != hash);
        let found = self.neighbours().find(differs).map(|(peer, _)| peer);
        if let Some(peer) = found {
            self.fail(Reason::Disagreement, Some(peer), step);
        }
    }

    /// Returns a computing member whose hash has not arrived.
    pub(super) fn unconfirmed(&self) -> Option<Peer> {
        self.neighbours().map(|(peer, _)| peer).find(|peer| !self.held.contains_key(peer))
    }
}
