//! Ends of views at one node, and the turns of proposers after them.

use super::alone::One;
use crate::protocol::Input;
use crate::protocol::ballot::Ballot;
use crate::protocol::failure::Failure;
use crate::protocol::message::Message;
use crate::protocol::promise::Promised;
use crate::protocol::view::Reason;
use crate::session::Peer;

/// Joins a view directly below its leader.
fn joined() -> (One, Ballot) {
    let mut one = One::new();
    let all = one.all();
    let ballot = one.join(0, all);
    (one, ballot)
}

fn failed(one: &One, by: Peer, ballot: Ballot, slot: u32, reason: Reason, suspect: Option<Peer>) -> Message {
    Message::Failed(one.sign(by, Failure { ballot, slot, reason, suspect }))
}

#[test]
fn a_failure_of_this_slot_or_the_next_counts_and_a_neighbour_that_ends_otherwise_is_marked() {
    for (slot, reason) in [(0, Reason::Lost), (1, Reason::Lost), (2, Reason::Stalled)] {
        let (mut one, ballot) = joined();
        let me = Some(one.me);
        one.hear(ballot.proposer, failed(&one, ballot.proposer, ballot, slot, Reason::Lost, me));
        assert_eq!(one.failures(), [reason], "slot {slot}");
    }
    let (mut one, ballot) = joined();
    let view = one.node.membership.view().unwrap();
    let neighbours: Vec<_> = view.place().neighbours().collect();
    for peer in one.peers() {
        let (mut one, ballot) = joined();
        one.hear(peer, failed(&one, peer, ballot, 0, Reason::Disagreement, None));
        let expected = if neighbours.contains(&peer) { vec![Reason::Stalled] } else { Vec::new() };
        assert_eq!(one.failures(), expected, "{peer} ends the view without a suspect");
    }
    one.hear(ballot.proposer, failed(&one, ballot.proposer, ballot, 0, Reason::Ended, None));
    assert_eq!(one.failures(), [Reason::Ended], "its leader may end it");
}

#[test]
fn two_beginnings_of_one_view_end_it_and_the_neighbours_are_shown_both_first() {
    let (mut one, ballot) = joined();
    let first = one.begin(ballot, &one.all(), 0);
    let fewer: Vec<_> = one.all().into_iter().filter(|peer| *peer != one.others[0]).collect();
    let second = one.begin(ballot, &fewer, 0);
    let neighbours: Vec<_> = one.node.membership.view().unwrap().place().neighbours().collect();
    one.sent.clear();
    one.hear(ballot.proposer, first.clone());
    assert_eq!((one.failures(), one.sent.len()), (Vec::new(), 0), "the same message once more");
    one.hear(ballot.proposer, second.clone());
    assert_eq!(one.failures(), [Reason::Fault]);
    for neighbour in neighbours {
        let to: Vec<_> =
            one.sent.iter().filter(|(to, _)| *to == neighbour).map(|(_, message)| message).collect();
        assert_eq!(to[..2], [&first, &second], "{neighbour}");
        assert!(matches!(to[2], Message::Failed(signed) if signed.item.suspect == Some(ballot.proposer)));
    }
}

/// The node is the second of the committee: its turn comes 0.5 s after that of the first one.
#[test]
fn who_has_led_a_view_in_vain_proposes_after_the_others() {
    let (mut one, ballot) = joined();
    one.hear(ballot.proposer, failed(&one, ballot.proposer, ballot, 0, Reason::Ended, None));
    one.wait(150);
    assert!(one.node.elections.proposed().is_some(), "the first one has led in vain");
}

#[test]
fn the_third_refusal_of_a_member_in_a_row_ends_no_proposal_that_can_do_without_it() {
    let mut one = One::new();
    let refusing = one.committee[0];
    let mut ms = 0;
    for refusals in 1..=3 {
        let ballot = loop {
            match one.node.elections.proposed() {
                Some(ballot) => break ballot,
                None if ms > 30_000 => panic!("the node does not propose"),
                None => {
                    ms += 10;
                    one.wait(ms);
                }
            }
        };
        one.hear(refusing, Message::Refuse(ballot, ballot));
        assert_eq!(one.node.elections.proposed().is_some(), refusals == 3, "refusal {refusals}");
    }
}

#[test]
fn a_peer_that_too_many_marks_bar_gets_no_promise() {
    for barred in [false, true] {
        let mut one = One::new();
        let (leader, other) = (one.committee[0], one.committee[1]);
        let suspects = [one.me, one.others[0], one.others[1]];
        let mark = |(number, suspect)| {
            let ballot = Ballot { counter: 0, proposer: Peer(number) };
            one.sign(other, Failure { ballot, slot: 0, reason: Reason::Lost, suspect: Some(suspect) })
        };
        // With one mark fewer, no peer is barred.
        let marks: Vec<_> = (0u16..).zip(suspects).skip(usize::from(!barred)).map(mark).collect();
        let ballot = one.ballot(1);
        let promise =
            |&by: &Peer| one.sign(by, Promised { marks: marks.clone(), ..one.promise(by, ballot, 0).item });
        let promises = [leader, one.me].iter().map(promise).collect();
        let begin = super::messages::begin(&one.net, ballot, promises);
        // The marked peer is the last in the tree, so it is not the parent: the node keeps the marks, and
        // enters no view.
        one.hear(other, begin);
        assert!(one.node.membership.view().is_none());
        one.hear(other, Message::Prepare(Ballot { counter: 2, proposer: other }));
        let refused = matches!(one.last_to(other), Some(Message::Refuse(..)));
        assert_eq!(refused, barred);
    }
}

/// A status is sent to greeted peers only. So a peer whose greeting comes late lacks the last status.
#[test]
fn a_peer_that_greets_late_is_sent_the_status_that_it_has_missed() {
    for (said, told) in [(0, false), (1, true)] {
        let mut one = One::strange(Vec::new());
        let peer = one.others[0];
        one.input(Input::PeerUp(peer));
        // The number of slots in the node's greeting is not the present one.
        one.node.presence.greets(peer, said);
        one.hear(peer, one.hello(0, None));
        let status = |message: &Message| matches!(message, Message::Status { committed: 0, in_view: false });
        assert_eq!(one.last_to(peer).is_some_and(status), told, "{said} slots in the greeting");
    }
}

#[test]
fn a_peer_that_lacks_slots_again_is_reached_again() {
    let mut one = One::strange(Vec::new());
    let (peer, whole) = (one.others[0], one.node.ctx.plan.len() as u32);
    one.greet(peer);
    for (committed, unserved) in [(0, true), (whole, false), (0, true)] {
        one.hear(peer, Message::Status { committed, in_view: false });
        assert_eq!(one.node.presence.unserved().contains(&peer), unserved, "{committed}");
    }
}
