//! A peer that costs the others time or work for nothing.

use std::sync::Arc;

use super::super::network::Network;
use super::super::numbers::timing;
use super::without;
use crate::node::Ending;
use crate::protocol::all_reduce::{CHUNK, SumId};
use crate::protocol::ballot::Ballot;
use crate::protocol::message::Message;
use crate::protocol::record::Record;
use crate::protocol::transfer::{self, Held, Output, Served, Transfer, Want};
use crate::protocol::{Action, Input, Machine, Time};
use crate::session::{Peer, Timing};

#[test]
fn who_only_says_that_it_goes_on_holds_the_others_up_for_a_while_and_not_for_ever() {
    // It is in a view without them, or has a slot that it never gives.
    for (frozen, in_view) in [(0, true), (1, false)] {
        let timing = Timing { compute_ms: 10_000, quorum_ms: 40_000, ..timing() };
        let mut net = Network::new(3, &[3], timing, 9);
        let liar = net.council()[0];
        net.liars.insert(liar);
        net.hold = Some(Box::new(|_, _, message| !matches!(message, Message::Hello { .. })));
        for second in 1..100 {
            net.run_unchecked(second * 1_000, |_| false);
            let pairs = net.peers().flat_map(|a| (0..3).map(move |b| (a, Peer(b))));
            for (from, to) in pairs {
                let message = Message::Status { frozen, in_view };
                if from == liar || to == liar {
                    net.say(from, to, message);
                }
            }
            if second == 55 {
                assert!(net.endings().is_empty(), "longer than quorum_ms: others may compute");
            }
        }
        let endings = net.endings();
        for peer in without(&net, &[liar]) {
            assert!(matches!(endings.get(&peer), Some(Ending::TooFew(_))), "{frozen}: {endings:?}");
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
    // It was 100 times 8 pieces.
    assert_eq!(many, 4 * CHUNK);
    assert_eq!(ask(&mut server, Time(200), honest), CHUNK, "another peer is served");
    let stall = ctx.session.timing.stall_ms;
    let later = Time(1_000).plus_ms(stall);
    assert_eq!((ask(&mut server, later, greedy), ask(&mut server, later, greedy)), (CHUNK, 0));
    assert_eq!(ask(&mut server, later.plus_ms(stall), greedy), 0, "twice as long");
    assert_eq!(ask(&mut server, later.plus_ms(2 * stall), greedy), CHUNK);
    // Credits open the window, to what it was.
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
