//! Promises, signed by their authors. They justify a view to all its members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::Fault;
use super::ballot::Ballot;
use super::committee::{self, Obligation, Promise};
use super::context::Context;
use super::failure::Failure;
use super::marks::{Mark, Marks};
use super::members::{self, Claims};
use super::record::{self, Acknowledgement};
use super::signed::{Item, Signed};
use super::tree::Tree;
use super::{memo, wire};
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// Largest number of marks in a promise.
pub const MOST_MARKS: usize = 256;

/// Answer of a committee member to the proposer of a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    /// Ballot. The author promises and acknowledges no lower ballot any more.
    pub ballot: Ballot,
    /// State of the author: committed slots, and the digest of the acknowledged value.
    pub promise: Promise<[u8; 32]>,
    /// Acknowledgements that decided that value, if the author has released shares for it. Empty
    /// otherwise.
    pub decision: Vec<Signed<Acknowledgement>>,
    /// Peers that the author reaches: bit p mod 8 of byte p / 8 for peer p.
    pub reached: Vec<u8>,
    /// Marks that the author knows, ascending.
    pub marks: Vec<Signed<Failure>>,
}

/// Returns the peers of a bitmap.
pub fn peers_of(bits: &[u8]) -> impl Iterator<Item = Peer> + '_ {
    // The length is not checked yet: a bitmap that is too long ends at the last possible number.
    (0..=u16::MAX)
        .map(Peer)
        .zip(bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)))
        .filter_map(|(peer, set)| set.then_some(peer))
}

/// Returns the bitmap of `peers` in a roster of `roster` peers.
#[must_use]
pub fn bits_of(roster: u16, peers: impl IntoIterator<Item = Peer>) -> Vec<u8> {
    let mut bits = vec![0; usize::from(roster).div_ceil(8)];
    for peer in peers {
        if let Some(byte) = bits.get_mut(peer.index() / 8) {
            *byte |= 1 << (peer.0 % 8);
        }
    }
    bits
}

/// Start of a view, signed by its leader. Its members and its tree follow from the promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Number and leader of the view.
    pub ballot: Ballot,
    /// Promises of a quorum.
    pub promises: Vec<Signed<Promised>>,
}

impl Begun {
    /// Returns SHA-256(tag "begun" || canonical encoding).
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        tagged_hash("begun").chain_update(wire::canonical(self)).finalize().into()
    }

    /// Returns the ballot and the digest.
    #[must_use]
    pub fn name(&self) -> (Ballot, [u8; 32]) {
        (self.ballot, self.digest())
    }
}

impl Item for Begun {
    const TAG: &'static str = "begin";

    fn has_lengths(&self, ctx: &Context) -> bool {
        self.promises.len() <= ctx.committee.len()
            && self.promises.iter().all(|signed| signed.item.has_lengths(ctx))
    }
}

/// Data that follow from the promises of a view.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Obligation of the leader.
    pub duty: Duty,
    /// Members of the view and their places.
    pub tree: Arc<Tree>,
    /// Marks that were alive at the start of the view.
    pub marks: Marks,
}

impl Basis {
    /// Returns whether marks were ignored to get a quorum of authors or enough peers.
    #[must_use]
    pub fn gives_way(&self, ctx: &Context) -> bool {
        let members = self.tree.members().iter().copied().collect();
        let mut apart = self.marks.apart();
        !members::barred(&ctx.session, &self.marks, &members).is_empty()
            || apart.any(|(low, high)| self.tree.adjacent(low, high))
    }
}

impl Item for Promised {
    const TAG: &'static str = "promise";

    fn has_lengths(&self, ctx: &Context) -> bool {
        self.decision.len() <= ctx.committee.len()
            && self.reached.len() == usize::from(ctx.peers()).div_ceil(8)
            && self.marks.len() <= MOST_MARKS
    }
}

/// Obligation that follows from a view's promises: the value to be finished in slot `committed`, if any,
/// and the peer whose promise contains it.
pub type Duty = Obligation<Peer, [u8; 32]>;

/// Checks one promise for `ballot`, except for claims that only its author can check.
///
/// # Errors
/// The fault of the promise, and so of a peer that forwards it unchecked.
pub fn check(ctx: &Context, ballot: Ballot, signed: &Signed<Promised>) -> Result<(), Fault> {
    let Promised { ballot: of, promise, decision, reached, marks } = &signed.item;
    let inconsistent = |what: &str| Err(Fault::Inconsistent(format!("promise of {} {what}", signed.author)));
    if ctx.committee_index(signed.author).is_none() || *of != ballot {
        return inconsistent("does not belong here");
    }
    if promise.committed as usize > ctx.plan.len() {
        return inconsistent("names more committed slots than there are");
    }
    let accepted = promise.accepted.as_ref();
    if accepted.is_some_and(|accepted| accepted.slot != promise.committed || accepted.ballot >= ballot) {
        return inconsistent("names a value of another slot or not of an earlier ballot");
    }
    if promise.released == decision.is_empty() || (promise.released && accepted.is_none()) {
        return inconsistent("does not show what it has released");
    }
    if peers_of(reached).any(|peer| peer.0 >= ctx.peers()) {
        return inconsistent("reaches a peer outside the roster");
    }
    let shown_marks: Vec<_> = marks.iter().map(Signed::mark).collect();
    let sound =
        |mark: &Option<Mark>| mark.is_some_and(|mark| mark.suspect.0 < ctx.peers() && mark.ballot < ballot);
    if !shown_marks.is_sorted_by(|a, b| a < b) || !shown_marks.iter().all(sound) {
        return inconsistent("shows a mark that is not of an earlier view");
    }
    if !signed.verify(ctx) {
        return Err(Fault::BadSignature("promise"));
    }
    if !marks.iter().all(|mark| mark.verify(ctx)) {
        return Err(Fault::BadSignature("mark"));
    }
    let shown = accepted.filter(|_| promise.released);
    if shown.is_some_and(|accepted| !record::decided(ctx, accepted.slot, &accepted.value, decision)) {
        return inconsistent("shows no decision");
    }
    Ok(())
}

/// Checks the promises at the start of a view, and returns the data that follow from them.
///
/// # Errors
/// The fault of the promises.
pub fn justify(ctx: &Context, ballot: Ballot, promises: &[Signed<Promised>]) -> Result<Basis, Fault> {
    let authors: BTreeSet<_> = promises.iter().map(|signed| signed.author).collect();
    if authors.len() != promises.len() || promises.len() < ctx.quorum {
        let text = format!("{} promises, a view needs those of {}", authors.len(), ctx.quorum);
        return Err(Fault::Inconsistent(text));
    }
    promises.iter().try_for_each(|signed| check(ctx, ballot, signed))?;
    basis(ctx, ballot, promises)
        .ok_or_else(|| Fault::Inconsistent("promises that do not justify a view of this leader".into()))
}

/// Returns the data that follow from sound promises, or `None` if their proposer may not lead a view.
#[must_use]
pub fn basis(ctx: &Context, ballot: Ballot, promises: &[Signed<Promised>]) -> Option<Basis> {
    let duty = duty(promises)?;
    let known: BTreeSet<Mark> =
        promises.iter().flat_map(|signed| &signed.item.marks).filter_map(Signed::mark).collect();
    // One more slot may be committed than these authors have seen.
    let known = known.into_iter().filter(|mark| mark.slot <= duty.committed.saturating_add(1)).collect();
    let mut marks = Marks::living(ctx.session.roster.len(), &known, duty.committed);
    let shown = promises.iter().flat_map(|signed| &signed.item.marks);
    let counts = |failure: &&Signed<Failure>| failure.item.slot <= duty.committed.saturating_add(1);
    let accusations = shown.filter(counts).filter_map(|failure| failure.accusation(ctx));
    accusations.for_each(|(author, suspect)| marks.accuse(author, suspect));
    let of = |signed: &Signed<Promised>| (signed.author, peers_of(&signed.item.reached).collect());
    let claims = Claims { reached: promises.iter().map(of).collect::<BTreeMap<_, _>>(), marks };
    let argument = || wire::canonical(&(ballot, &ctx.session.id, promises));
    let tree = memo::tree(argument, || claims.tree(&ctx.session, ballot))?;
    Some(Basis { duty, tree, marks: claims.marks })
}

/// Returns the obligation that follows from promises, or `None` without promises.
#[must_use]
pub fn duty(promises: &[Signed<Promised>]) -> Option<Duty> {
    committee::oblige(promises.iter().map(|signed| (signed.author, &signed.item.promise)))
}

/// Returns a committee member that has signed acknowledgements of two values for one slot in one ballot.
#[must_use]
pub fn equivocator<'a>(
    ctx: &Context,
    items: impl Iterator<Item = &'a Signed<Acknowledgement>> + Clone,
) -> Option<Peer> {
    let differ = |a: &Signed<Acknowledgement>, b: &Signed<Acknowledgement>| {
        let (x, y) = (&a.item, &b.item);
        a.author == b.author && (x.ballot, x.slot) == (y.ballot, y.slot) && x.value != y.value
    };
    let mut firsts = items.clone();
    let found = firsts.find(|a| items.clone().any(|b| differ(a, b) && a.verify(ctx) && b.verify(ctx)));
    found.map(|signed| signed.author)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_of_any_length_is_read_to_the_last_peer_that_a_number_can_name() {
        assert_eq!(peers_of(&[0b101, 1]).collect::<Vec<_>>(), [Peer(0), Peer(2), Peer(8)]);
        assert_eq!(peers_of(&[0; 10_000]).count(), 0);
        assert_eq!(peers_of(&[255; 10_000]).count(), 1 << 16);
        assert_eq!(bits_of(9, [Peer(0), Peer(2), Peer(8), Peer(40)]), [0b101, 1]);
    }
}
