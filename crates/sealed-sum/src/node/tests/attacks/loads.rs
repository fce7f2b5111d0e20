//! A peer that makes others spend time or work in vain.

use std::sync::Arc;

use super::super::network::Network;
use super::super::numbers::timing;
use super::without;
use crate::node::Ending;
use crate::protocol::all_reduce::CHUNK;
use crate::protocol::ballot::Ballot;
use crate::protocol::message::Message;
use crate::protocol::record::Record;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{self, Held, Output, Served, Transfer, Want};
use crate::protocol::{Action, Input, Machine, Time};
use crate::session::{Peer, Timing};

#[test]
fn who_only_says_that_it_goes_on_holds_the_others_up_for_a_while_and_not_for_ever() {
    // The liar is in a view without the others, or has a slot that it never sends.
    for (committed, in_view) in [(0, true), (1, false)] {
        let timing = Timing { compute_ms: 10_000, no_quorum_timeout_ms: 40_000, ..timing() };
        let mut net = Network::new(3, &[3], timing, 9);
        let liar = net.committee()[0];
        net.liars.insert(liar);
        net.hold = Some(Box::new(|_, _, message| !matches!(message, Message::Hello { .. })));
        for second in 1..100 {
            net.run_unchecked(second * 1_000, |_| false);
            let pairs = net.peers().flat_map(|a| (0..3).map(move |b| (a, Peer(b))));
            for (from, to) in pairs {
                let message = Message::Status { committed, in_view };
                if from == liar || to == liar {
                    net.say(from, to, message);
                }
            }
            if second == 55 {
                assert!(net.endings().is_empty(), "longer than no_quorum_timeout_ms: others may compute");
            }
        }
        let endings = net.endings();
        for peer in without(&net, &[liar]) {
            assert!(matches!(endings.get(&peer), Some(Ending::TooFew(_))), "{committed}: {endings:?}");
        }
    }
}

#[test]
fn a_request_costs_its_server_one_piece_and_asked_again_and_again_a_few() {
    let net = Network::new(3, &[20 * 65_536], timing(), 1);
    let ctx = Arc::new(net.context(Peer(0)));
    let sum = SumId { ballot: Ballot { counter: 1, proposer: Peer(0) }, slot: 1 };
    let record = Record::new(sum, net.peers().collect(), [0; 32], Vec::new());
    let total = bytes::Bytes::from(vec![1; 20 * CHUNK]);
    let sent = |message: &transfer::Message| match message {
        transfer::Message::Piece { data, .. } => data.len(),
        _ => 0,
    };
    let ask = |server: &mut Transfer, now: Time, from: Peer| -> usize {
        let message = transfer::Message::Fetch(1, Want::Accepted([0; 32]));
        let asked = server.handle(now, Input::Message { from, message });
        let heard = |action: &Action<Transfer>| matches!(action, Action::Output(Output::Wanted(..)));
        if !asked.0.iter().any(heard) {
            return 0;
        }
        let held = (Held::Accepted(record.clone()), Served::Sealed(total.clone()));
        let served = server.serve(now, from, 1, Some(held));
        let pieces = served.0.iter().map(|action| match action {
            Action::Send { message, .. } => sent(message),
            _ => 0,
        });
        pieces.sum()
    };
    let mut server = Transfer::new(ctx.clone());
    let (greedy, honest) = (Peer(1), Peer(2));
    let many: usize = (0..100).map(|n| ask(&mut server, Time(n), greedy)).sum();
    // This was 100 times 8 pieces in the past.
    assert_eq!(many, 4 * CHUNK);
    assert_eq!(ask(&mut server, Time(200), honest), CHUNK, "another peer is served");
    let stall = ctx.session.timing.view_timeout_ms;
    let later = Time(1_000).plus_ms(stall);
    assert_eq!((ask(&mut server, later, greedy), ask(&mut server, later, greedy)), (CHUNK, 0));
    assert_eq!(ask(&mut server, later.plus_ms(stall), greedy), 0, "twice as long a delay");
    assert_eq!(ask(&mut server, later.plus_ms(2 * stall), greedy), CHUNK);
    // Credits open the window to its usual size.
    let mut server = Transfer::new(ctx);
    let (mut most, mut next) = (ask(&mut server, Time(0), honest) / CHUNK, 0);
    for index in 0..20 {
        let message = transfer::Message::Credit(1, index);
        let step = server.handle(Time(0), Input::Message { from: honest, message });
        next += step.0.iter().filter(|action| matches!(action, Action::Send { .. })).count();
        most = most.max(1 + next - (index as usize + 1));
    }
    assert_eq!((most, next), (8, 19));
}

/// A client asks for slot 1 and gets different answers to its request.
#[test]
fn what_was_not_asked_for_changes_nothing_and_what_does_not_check_names_its_server() {
    use transfer::Message::{Credit, Fetch, Head, Piece};
    let mut net = Network::new(3, &[3], timing(), 4);
    net.run(60_000);
    let ctx = Arc::new(net.context(Peer(0)));
    let stored = |slot: u32| match net.disk(Peer(0)).get(&format!("committed-{slot}")) {
        Some(crate::node::Record::Committed(committed, total)) => (committed.clone(), total.clone()),
        _ => panic!("slot {slot} is missing"),
    };
    let ((coin, _), (sum, total)) = (stored(0), stored(1));
    let digest = sum.record.digest(&ctx);
    let (server, other) = (Peer(1), Peer(2));
    // Returns whether the client waits for pieces, whether it has everything, and whether it blames the
    // server.
    let run = |want: Want, messages: &[(Peer, transfer::Message)]| {
        let mut client = Transfer::new(ctx.clone());
        drop(client.fetch(Time(0), server, 1, want));
        let (mut fetched, mut blamed) = (false, false);
        for (from, message) in messages {
            let step = client.handle(Time(0), Input::Message { from: *from, message: message.clone() });
            fetched |= step.0.iter().any(|action| matches!(action, Action::Output(Output::Fetched(..))));
            blamed |=
                step.0.iter().any(|action| matches!(action, Action::Blame { peer, .. } if *peer == server));
        }
        (client.receiving(), fetched, blamed)
    };
    let committed = |slot, committed: &crate::protocol::record::Committed| {
        Head(slot, Box::new(Held::Committed(committed.clone())))
    };
    let accepted = |record: &Record| Head(1, Box::new(Held::Accepted(record.clone())));
    let piece = |slot, index, data: &bytes::Bytes| Piece { slot, index, data: data.clone() };
    let (head, whole) = (committed(1, &sum), piece(1, 0, &total));
    let (nothing, all, wrong) = ((false, false, false), (false, true, false), (false, false, true));
    let pending = (true, false, false);
    let asked = Want::Committed;
    assert_eq!(run(asked, &[(server, head.clone()), (server, whole.clone())]), all);
    assert_eq!(run(asked, &[(other, head.clone())]), nothing, "of another peer");
    assert_eq!(run(asked, &[(server, committed(0, &coin))]), nothing, "of another slot");
    assert_eq!(run(asked, &[(server, accepted(&sum.record))]), nothing, "not of this kind");
    assert_eq!(run(Want::Accepted([0; 32]), &[(server, accepted(&sum.record))]), nothing, "another value");
    assert_eq!(run(Want::Accepted(digest), &[(server, accepted(&sum.record)), (server, whole.clone())]), all);
    assert_eq!(run(asked, &[(server, whole.clone()), (server, head.clone())]), pending, "before the head");
    assert_eq!(run(asked, &[(server, head.clone()), (other, whole.clone())]), pending, "of another peer");
    assert_eq!(run(asked, &[(server, head.clone()), (server, piece(1, 1, &total))]), pending, "not the next");
    assert_eq!(run(asked, &[(server, head.clone()), (server, piece(0, 0, &total))]), pending, "another slot");
    assert_eq!(run(asked, &[(server, committed(1, &coin))]), wrong, "under a false number");
    let mut few = sum.clone();
    few.acknowledgements.truncate(1);
    assert_eq!(run(asked, &[(server, committed(1, &few))]), wrong, "not decided");
    assert_eq!(run(asked, &[(server, head.clone()), (server, committed(1, &few))]), pending, "a second head");
    let mut record = sum.record.clone();
    record.deals.pop();
    assert_eq!(run(Want::Accepted(digest), &[(server, accepted(&record))]), wrong, "without its deals");
    assert_eq!(
        run(asked, &[(server, head.clone()), (server, piece(1, 0, &total.slice(4..)))]),
        wrong,
        "too short"
    );
    let other_total = bytes::Bytes::from(vec![0xaa; total.len()]);
    assert_eq!(run(asked, &[(server, head), (server, piece(1, 0, &other_total))]), wrong, "another total");
    assert_eq!(run(asked, &[(server, Fetch(9, asked))]), wrong, "no such slot");
    // At the server, a credit brings nothing more if the server has not sent its piece, if it comes
    // twice, or if it is for another slot.
    let mut serving = Transfer::new(ctx);
    let long = Served::Sealed(bytes::Bytes::from(vec![1; 20 * CHUNK]));
    drop(serving.serve(Time(0), server, 1, Some((Held::Committed(sum), long))));
    let mut sent = |credit| {
        let step = serving.handle(Time(0), Input::Message { from: server, message: credit });
        step.0.len()
    };
    assert_eq!(
        (sent(Credit(1, 1)), sent(Credit(0, 0)), sent(Credit(1, 0)), sent(Credit(1, 0))),
        (0, 0, 2, 0)
    );
}

#[test]
fn a_piece_of_another_length_is_refused_before_the_rest_comes_and_a_lack_is_told_of_what_is_committed() {
    use transfer::Message::{Head, Lacking, Piece};
    let mut net = Network::new(3, &[65_537], timing(), 4);
    net.run(60_000);
    let ctx = Arc::new(net.context(Peer(0)));
    let Some(crate::node::Record::Committed(committed, total)) = net.disk(Peer(0)).get("committed-1") else {
        panic!("slot 1 is missing")
    };
    let server = Peer(1);
    let ask = |want: Want, messages: Vec<transfer::Message>| {
        let mut client = Transfer::new(ctx.clone());
        drop(client.fetch(Time(0), server, 1, want));
        let mut last = Vec::new();
        for message in messages {
            last = client.handle(Time(0), Input::Message { from: server, message }).0;
        }
        last
    };
    let head = || Head(1, Box::new(Held::Committed(committed.clone())));
    for (length, wrong) in [(CHUNK, false), (CHUNK - 4, true), (CHUNK + 4, true), (0, true)] {
        let data = total.slice(..length);
        let last = ask(Want::Committed, vec![head(), Piece { slot: 1, index: 0, data }]);
        assert_eq!(last.iter().any(|action| matches!(action, Action::Blame { .. })), wrong, "{length}");
    }
    let lacks = |want, messages| {
        let last = ask(want, messages);
        let is = |wanted: fn(&Output) -> bool| {
            last.iter().any(|action| matches!(action, Action::Output(output) if wanted(output)))
        };
        (is(|output| matches!(output, Output::Lacks(..))), is(|output| matches!(output, Output::Failed(_))))
    };
    assert_eq!(lacks(Want::Committed, vec![Lacking(1)]), (true, true));
    assert_eq!(lacks(Want::Committed, vec![Lacking(0)]), (false, false), "of another slot");
    assert_eq!(
        lacks(Want::Committed, vec![head(), Lacking(1)]),
        (false, true),
        "it has shown that it has the value"
    );
    assert_eq!(
        lacks(Want::Accepted([0; 32]), vec![Lacking(1)]),
        (false, true),
        "it never claimed to have that value"
    );
}
