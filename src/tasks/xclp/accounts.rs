//! Signed statements of the computing members about a check that failed, or about a round that did not arrive
//! (spec, section 15e.2). If all three members have made a statement about one subject, the statements name a
//! pair of members. One of the two deviates. If two statements of one member contradict each other, they name
//! this member. Everyone who has the statements can check this.

use serde::{Deserialize, Serialize};

use crate::protocol::context::Context;
use crate::protocol::signed::{Item, Signed};
use crate::protocol::sum_id::SumId;
use crate::session::Peer;
use flyswarm_mpc::shares::accounts::{Account, Place, Progress, judge, judge_progress};

/// Largest number of statements in a message: three members about three subjects, and one statement that
/// contradicts another.
pub(crate) const MOST: usize = 10;

/// Statement of a computing member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// View and slot of the statement.
    pub sum: SumId,
    /// The computing members with the numbers 0, 1 and 2.
    pub parties: [Peer; 3],
    /// True if the author speaks first, because it has found a failure. Otherwise it answers. A computing
    /// member speaks first at most once in a view.
    pub begins: bool,
    /// Subject and content.
    pub topic: Topic,
}

/// Subject and content of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Topic {
    /// A check at this place has failed.
    Check(Place, Account),
    /// The messages of the next round have not arrived.
    Rounds(Progress),
}

impl Item for Statement {
    const TAG: &'static str = "account";

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

impl Statement {
    /// Returns the place of the check, or `None` if the statement is about rounds.
    pub(crate) fn place(&self) -> Option<Place> {
        match &self.topic {
            Topic::Check(place, _) => Some(*place),
            Topic::Rounds(_) => None,
        }
    }

    fn fails(&self) -> bool {
        match &self.topic {
            Topic::Check(_, account) => account.fails(),
            Topic::Rounds(progress) => progress.missing != [false; 2],
        }
    }
}

/// Returns the author of two statements of one view if no honest peer makes both: two different statements
/// about one subject, or two with which the author speaks first. Also returns the author if it speaks first
/// in a statement that shows no failure.
#[must_use]
pub(crate) fn contradiction(one: &Signed<Statement>, other: &Signed<Statement>) -> Option<Peer> {
    let groundless = |signed: &Signed<Statement>| signed.item.begins && !signed.item.fails();
    let same = one.item.place() == other.item.place();
    let twice = if same { one.item != other.item } else { one.item.begins && other.item.begins };
    let view = (one.item.sum, one.item.parties) == (other.item.sum, other.item.parties);
    (view && one.author == other.author && (twice || groundless(one))).then_some(one.author)
}

/// Finds the pair that contains the deviating peer. The statements are of one view and about one subject,
/// with at most one of each computing member. Returns `None` if a member has made none.
#[must_use]
pub(crate) fn pair<'a>(statements: impl Iterator<Item = &'a Signed<Statement>> + Clone) -> Option<[Peer; 2]> {
    let parties = statements.clone().next()?.item.parties;
    let of =
        |party: Peer| statements.clone().find(|signed| signed.author == party).map(|signed| &signed.item);
    let [Some(one), Some(two), Some(three)] = parties.map(of) else { return None };
    let found = match [&one.topic, &two.topic, &three.topic] {
        [Topic::Check(_, one), Topic::Check(_, two), Topic::Check(_, three)] => judge([one, two, three]),
        [Topic::Rounds(one), Topic::Rounds(two), Topic::Rounds(three)] => {
            judge_progress([*one, *two, *three])
        }
        _ => None,
    };
    found.map(|pair| pair.map(|number| parties[number]))
}

/// Returns the peers that the evidence names: the deviating peer, or a pair that contains it. Returns `None`
/// if the evidence is not valid.
#[must_use]
pub fn named(ctx: &Context, evidence: &[Signed<Statement>]) -> Option<Vec<Peer>> {
    let first = &evidence.first()?.item;
    let sound = |signed: &Signed<Statement>| {
        let item = &signed.item;
        (item.sum, item.parties) == (first.sum, first.parties)
            && item.parties.contains(&signed.author)
            && signed.verify(ctx)
    };
    if evidence.len() > MOST || !evidence.iter().all(sound) {
        return None;
    }
    let pairs = evidence.iter().flat_map(|one| evidence.iter().map(move |other| (one, other)));
    if let Some(author) = pairs.into_iter().find_map(|(one, other)| contradiction(one, other)) {
        return Some(vec![author]);
    }
    let same = evidence.iter().all(|signed| signed.item.place() == first.place());
    let begun = evidence.iter().any(|signed| signed.item.begins);
    pair(evidence.iter()).filter(|_| same && begun).map(Vec::from)
}
