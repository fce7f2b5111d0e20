//! Marks in promises: which ones a promise may have, and which ones count.

use super::alone::One;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Aggregate;
use crate::protocol::failure::Failure;
use crate::protocol::promise::{self, Promised};
use crate::protocol::signed::Signed;
use crate::protocol::view::Reason;
use crate::session::Peer;

fn mark(one: &One, ballot: Ballot, suspect: Peer, slot: u32) -> Signed<Failure> {
    one.sign(one.committee[0], Failure { ballot, slot, reason: Reason::Lost, suspect: Some(suspect) })
}

/// Returns a promise of this author for a ballot, with marks.
fn promised(one: &One, by: Peer, ballot: Ballot, marks: Vec<Signed<Failure>>) -> Signed<Promised> {
    one.sign(by, Promised { marks, ..one.promise(by, ballot, 0).item })
}

#[test]
fn marks_of_a_promise_ascend_and_are_signed_and_of_earlier_views() {
    let one = One::new();
    let (ballot, author, other) = (one.ballot(5), one.committee[0], one.committee[1]);
    let of = |counter, suspect| mark(&one, one.ballot(counter), suspect, 0);
    let mut forged = of(1, other);
    forged.author = one.me;
    let cases = [
        ("none", vec![], true),
        ("two that ascend", vec![of(1, other), of(2, other)], true),
        ("two that descend", vec![of(2, other), of(1, other)], false),
        ("one twice", vec![of(1, other), of(1, other)], false),
        ("of the ballot itself", vec![of(5, other)], false),
        ("a suspect outside the roster", vec![of(1, Peer(5))], false),
        ("the author suspects itself", vec![of(1, author)], false),
        ("forged", vec![forged], false),
    ];
    for (what, marks, sound) in cases {
        let promise = promised(&one, other, ballot, marks);
        assert_eq!(promise::check(&one.node.ctx, ballot, &promise).is_ok(), sound, "{what}");
    }
}

/// The author of a promise may be one slot behind. So with no committed slots in the promises, marks of
/// slots 0 and 1 count, but a mark of slot 2 does not.
#[test]
fn a_mark_of_a_slot_that_no_member_can_have_reached_counts_nothing() {
    let one = One::new();
    let (ballot, author, suspect) = (one.ballot(5), one.committee[0], one.committee[1]);
    for (slot, counts) in [(0, true), (1, true), (2, false), (u32::MAX, false)] {
        let marks = vec![mark(&one, one.ballot(1), suspect, slot)];
        let promises = [promised(&one, author, ballot, marks), promised(&one, suspect, ballot, Vec::new())];
        let basis = promise::basis(&one.node.ctx, ballot, &promises).unwrap();
        assert_eq!(basis.marks.parts(author, suspect), counts, "slot {slot}");
    }
}

#[test]
fn only_a_fault_or_a_disagreement_in_an_exchange_accuses_a_peer() {
    let one = One::new();
    let (ballot, author, suspect) = (one.ballot(5), one.committee[0], one.committee[1]);
    let mut ctx = one.net.context(one.me);
    let exchange = Aggregate { exchange: true, ..ctx.plan[1].clone() };
    ctx.plan.splice(1.., [exchange.clone(), exchange]);
    for reason in [Reason::Lost, Reason::Stalled, Reason::Fault, Reason::Left, Reason::Disagreement] {
        for slot in 0..3 {
            let failure = Failure { ballot: one.ballot(1), slot, reason, suspect: Some(suspect) };
            let marks = vec![one.sign(author, failure)];
            let promises =
                [promised(&one, author, ballot, marks), promised(&one, suspect, ballot, Vec::new())];
            let basis = promise::basis(&ctx, ballot, &promises).unwrap();
            let accuses = matches!(reason, Reason::Fault | Reason::Disagreement) && slot == 1;
            assert_eq!(basis.marks.accuses(suspect, author), accuses, "{reason:?} in slot {slot}");
        }
    }
}
