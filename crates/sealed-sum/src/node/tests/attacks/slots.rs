//! A slot at one node: the values that the node acknowledges, opens and gets, and claims of other
//! peers.

use bytes::Bytes;

use super::alone::One;
use crate::node::Record;
use crate::protocol::ballot::Ballot;
use crate::protocol::message::Message;
use crate::protocol::record::{Committed, Record as SumRecord};
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{Held, Output, Transfer};
use crate::protocol::view::Reason;
use crate::protocol::{Action, Step};
use crate::session::Peer;

/// A member waits for a value to acknowledge.
#[test]
fn a_value_is_acknowledged_with_its_own_total_and_in_its_turn() {
    let total = Bytes::from_static(&[1; 12]);
    let accepting = |prepare: &dyn Fn(&mut One, &mut SumRecord)| {
        let mut one = One::new();
        let ballot = one.join(9, one.all());
        let digest =
            crate::protocol::all_reduce::total_digest(&one.node.ctx.id.0, SumId { ballot, slot: 0 }, &total);
        let mut record = one.decided(ballot, 0, digest).0;
        one.node.membership.made(digest, total.clone());
        prepare(&mut one, &mut record);
        one.node.membership.propose(record);
        one.node.accept();
        one.take_out();
        let stored = one.stored.iter().any(|record| matches!(record, Record::Accepted(..)));
        (stored, one.failures(), one.blamed.iter().map(|(peer, _)| *peer).collect::<Vec<_>>())
    };
    assert_eq!(accepting(&|_, _| ()), (true, vec![], vec![]));
    assert_eq!(
        accepting(&|one, _| one.node.elections.votes_mut().silent = true),
        (false, vec![], vec![]),
        "it does not vote"
    );
    let later = accepting(&|_, record| record.value.sum.slot = 1);
    assert_eq!(later, (false, vec![], vec![]), "slots before it are open");
    let other = accepting(&|one, _| one.node.membership.made([9; 32], total.clone()));
    assert_eq!(other, (false, vec![], vec![]), "its total is not here");
    let released = accepting(&|one, _| one.node.elections.votes_mut().acceptor.released = Some([7; 32]));
    assert_eq!(
        released,
        (false, vec![Reason::Disagreement], vec![]),
        "it has released shares of another value"
    );
}

#[test]
fn slots_are_opened_in_their_order() {
    let committed = |one: &One, slot| {
        let (record, acknowledgements) = one.decided(one.ballot(1), slot, [0; 32]);
        Committed { record, acknowledgements, pads: vec![[0; 32]; 3], releases: vec![] }
    };
    let fetched = |one: &mut One, slot: u32| {
        let held = Box::new(Held::Committed(committed(one, slot)));
        let output = Output::Fetched(one.others[0], slot, held, Bytes::from(vec![0; 12]));
        one.node.transferred(Step(vec![Action::Output(output)]));
        one.node.slots.is_opening()
    };
    for (slot, opens) in [(0, true), (1, false)] {
        let mut one = One::new();
        assert_eq!(fetched(&mut one, slot), opens, "slot {slot} after no committed slot");
    }
    let mut one = One::new();
    let coin = committed(&one, 0);
    one.node.commit(coin, Some(Bytes::from(vec![0; 32])));
    assert!(fetched(&mut one, 1), "the next one");
}

/// The peer is named only if it has itself claimed to have the slot.
#[test]
fn who_lacks_what_it_says_it_has_or_leaves_out_what_is_needed_is_named() {
    let told = |output: &dyn Fn(&One) -> Output, says: u32| {
        let mut one = One::new();
        let from = one.others[0];
        one.hear(from, Message::Status { committed: says, in_view: false });
        let child: Step<Transfer> = Step(vec![Action::Output(output(&one))]);
        one.node.transferred(child);
        one.take_out();
        one.blamed.iter().map(|(peer, _)| *peer).collect::<Vec<_>>()
    };
    let from = One::new().others[0];
    assert_eq!(told(&|one| Output::Lacks(one.others[0], 0), 1), [from]);
    assert_eq!(told(&|one| Output::Lacks(one.others[0], 0), 0), []);
    let bare = |one: &One| {
        let (record, acknowledgements) = one.decided(one.ballot(1), 0, [0; 32]);
        let committed = Committed { record, acknowledgements, pads: vec![], releases: vec![] };
        Output::Fetched(one.others[0], 0, Box::new(Held::Bare(committed)), Bytes::new())
    };
    assert_eq!(told(&bare, 1), [from]);
}

/// The last three of four slots have an exchange. The view is at slot 0, so other members may be at slot 1.
#[test]
fn only_a_few_exchange_messages_of_due_slots_are_kept() {
    use crate::protocol::all_reduce::CHUNK;
    use crate::protocol::message::Content;
    let said =
        |from: fn(&One) -> Peer, ballot: fn(&One, Ballot) -> Ballot, slot: u32, bytes: usize, times| {
            let mut one = One::altered(Vec::new(), |ctx| {
                let sum = ctx.plan[1].clone().with_exchange();
                ctx.plan.splice(1.., [sum.clone(), sum.clone(), sum]);
            });
            let outsider = one.others[0];
            one.peers().into_iter().filter(|&peer| peer != outsider).for_each(|peer| one.greet(peer));
            let members: Vec<_> = one.all().into_iter().filter(|&peer| peer != outsider).collect();
            let view = one.join(9, members);
            one.greet(outsider);
            let sum = SumId { ballot: ballot(&one, view), slot };
            let content = Content::Bulk { header: Bytes::new(), data: vec![1; bytes].into() };
            let from = from(&one);
            let blamed =
                (0..times).any(|_| one.blames(from, Message::Exchange { sum, content: content.clone() }));
            (blamed, one.node.exchange.early_bytes())
        };
    fn member(one: &One) -> Peer {
        one.committee[1]
    }
    fn this(_: &One, view: Ballot) -> Ballot {
        view
    }
    assert_eq!(said(member, this, 1, 1, 256), (false, 256));
    assert!(said(member, this, 1, 1, 257).0, "too many");
    assert_eq!(said(member, this, 1, CHUNK, 8), (false, 8 * CHUNK));
    assert!(said(member, this, 1, CHUNK, 9).0, "too many bytes");
    assert!(said(member, this, 0, 1, 1).0, "of a slot without an exchange");
    assert!(said(member, this, 4, 1, 1).0, "of a slot that does not exist");
    for slot in 2..4 {
        assert_eq!(said(member, this, slot, CHUNK, 20), (false, 0), "of a later slot");
    }
    assert_eq!(said(|one| one.others[0], this, 1, 1, 1), (false, 0), "of a stranger to the view");
    assert_eq!(said(member, |one, _| one.ballot(1), 1, 1, 300), (false, 0), "of another view");
}
