//! Promises as their authors sign them. They justify a view, for all its members to see.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Fault;
use super::ballot::Ballot;
use super::committee::{self, Obligation, Promise};
use super::context::Context;
use super::record::{self, Acknowledgement};
use super::signed::{Item, Signed};
use crate::session::Peer;

/// A committee member's answer to the proposer of a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    /// The ballot; no lower one is promised or acknowledged any more.
    pub ballot: Ballot,
    /// The state of the author: committed slots, and the acknowledged value by its digest.
    pub promise: Promise<[u8; 32]>,
    /// The acknowledgements that decided that value, where it has released shares for it; else empty.
    pub decision: Vec<Signed<Acknowledgement>>,
}

impl Item for Promised {
    const TAG: &'static str = "promise";
}

/// The obligation that follows from a view's promises: the value to be finished in slot `committed`, if any,
/// and the peer whose promise says so.
pub type Duty = Obligation<Peer, [u8; 32]>;

/// Checks one promise for `ballot`, except for what only its author can know.
///
/// # Errors
/// The fault of the promise, and so of the peer that passes it on unchecked.
pub fn check(ctx: &Context, ballot: Ballot, signed: &Signed<Promised>) -> Result<(), Fault> {
    let Promised { ballot: of, promise, decision } = &signed.item;
    let inconsistent = |what: &str| Err(Fault::Inconsistent(format!("promise of {} {what}", signed.author)));
    if ctx.committee_index(signed.author).is_none() || *of != ballot {
        return inconsistent("does not belong here");
    }
    if promise.committed as usize > ctx.plan.len() {
        return inconsistent("names more committed slots than there are");
    }
    let accepted = promise.accepted.as_ref();
    if accepted.is_some_and(|accepted| accepted.slot != promise.committed || accepted.ballot >= ballot) {
        return inconsistent("names a value of another slot or of no earlier ballot");
    }
    if promise.released == decision.is_empty() || (promise.released && accepted.is_none()) {
        return inconsistent("does not show what it has released");
    }
    if !signed.verify(ctx) {
        return Err(Fault::BadSignature("promise"));
    }
    let shown = accepted.filter(|_| promise.released);
    if shown.is_some_and(|accepted| !record::decided(ctx, accepted.slot, &accepted.value, decision)) {
        return inconsistent("shows no decision");
    }
    Ok(())
}

/// Checks the promises with which a view begins, and returns the obligation that follows from them.
///
/// # Errors
/// The fault of the promises.
pub fn justify(ctx: &Context, ballot: Ballot, promises: &[Signed<Promised>]) -> Result<Duty, Fault> {
    let authors: BTreeSet<_> = promises.iter().map(|signed| signed.author).collect();
    if authors.len() != promises.len() || promises.len() < ctx.quorum {
        let text = format!("{} promises, a view needs those of {}", authors.len(), ctx.quorum);
        return Err(Fault::Inconsistent(text));
    }
    promises.iter().try_for_each(|signed| check(ctx, ballot, signed))?;
    duty(promises).ok_or_else(|| Fault::Inconsistent("no promises".into()))
}

/// The obligation that follows from promises; `None` where there are no promises.
#[must_use]
pub fn duty(promises: &[Signed<Promised>]) -> Option<Duty> {
    committee::oblige(promises.iter().map(|signed| (signed.author, &signed.item.promise)))
}

/// A committee member that has acknowledged two values for one slot in one ballot, by its own signatures.
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
