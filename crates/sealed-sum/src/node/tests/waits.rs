//! The reported wait of a node is its real wait: the same peers, and the same end.

use super::network::{Fault, Network};
use super::numbers::timing;
use crate::node::{Awaited, Event};
use crate::protocol::Time;
use crate::protocol::view::Reason;
use crate::session::{Peer, Timing};

const ME: Peer = Peer(0);
/// Shorter than the time that a peer waits alone.
const LINGER: u64 = 10_000;

fn away(net: &mut Network, peers: &[Peer]) {
    for &peer in peers {
        for other in net.peers().filter(|other| *other != peer).collect::<Vec<_>>() {
            net.at_ms(0, Fault::Cut(peer.min(other), peer.max(other)));
        }
    }
}

#[test]
fn before_the_first_view_it_names_who_is_not_there_until_it_begins_without_them() {
    let mut net = Network::new(5, &[3], timing(), 3);
    away(&mut net, &[Peer(3), Peer(4)]);
    net.run_unchecked(1_000, |_| false);
    let until = Time(timing().start_wait_ms * 1000);
    assert_eq!(net.waits(ME), Some((Awaited::Roster, vec![Peer(3), Peer(4)], Some(until))));
    net.run_unchecked(60_000, |net| {
        net.events.iter().any(|(_, _, event)| matches!(event, Event::ViewBegan(..)))
    });
    let began = net.events.iter().find(|(_, _, event)| matches!(event, Event::ViewBegan(..))).unwrap().0;
    assert!(began >= until, "{began:?}");
}

#[test]
fn too_few_peers_are_named_until_it_gives_up() {
    let mut net = Network::new(5, &[3], timing(), 3);
    away(&mut net, &[Peer(2), Peer(3), Peer(4)]);
    net.run_unchecked(10_000, |_| false);
    let (what, peers, until) = net.waits(ME).unwrap();
    assert_eq!((what, peers), (Awaited::Enough, vec![Peer(2), Peer(3), Peer(4)]));
    net.run_unchecked(60_000, |_| false);
    let ended = |(_, peer, event): &&(Time, Peer, Event)| *peer == ME && matches!(event, Event::Ended(_));
    let at = net.events.iter().find(ended).unwrap().0;
    assert_eq!(Some(at), until);
    assert_eq!(net.waits(ME), None, "it is over");
}

#[test]
fn in_a_view_the_silent_neighbour_is_named_until_the_view_fails() {
    let mut seen = 0;
    for seed in 0..12 {
        let mut net = Network::new(5, &[3], timing(), seed);
        // Once the view has begun, no message of this peer arrives, but its connections remain.
        let silent = Peer(4);
        let began =
            |net: &Network| net.events.iter().any(|(_, _, event)| matches!(event, Event::ViewBegan(..)));
        net.run_unchecked(20_000, began);
        net.hold = Some(Box::new(move |from, _, _| from == silent));
        let failed = |net: &Network| {
            net.events.iter().find_map(|(at, peer, event)| match event {
                Event::ViewFailed(_, _, Reason::Stalled, suspect) => Some((*at, *peer, *suspect)),
                _ => None,
            })
        };
        // From half a second before the first time-out, no message arrives.
        net.run_unchecked(net.now_ms() + timing().view_timeout_ms - 500, |_| false);
        let said: Vec<_> = net.peers().map(|peer| (peer, net.waits(peer))).collect();
        net.run_unchecked(net.now_ms() + 20_000, |net| failed(net).is_some());
        let (at, by, suspect) = failed(&net).expect("the view fails");
        if let Some((what, peers, until)) = said[by.index()].1.clone()
            && what == Awaited::Word
        {
            assert_eq!(peers, suspect.into_iter().collect::<Vec<_>>(), "seed {seed}");
            assert_eq!(until, Some(at), "seed {seed}");
            seen += usize::from(suspect == Some(silent));
        }
    }
    assert!(seen >= 6, "the silent peer was named in {seen} of 12 runs");
}

#[test]
fn with_the_result_it_names_who_has_none_until_it_leaves() {
    let mut net = Network::new(5, &[3], timing(), 5);
    away(&mut net, &[Peer(4)]);
    let finished = |net: &Network| net.finished().contains_key(&ME);
    net.run_unchecked(60_000, finished);
    net.run_unchecked(net.now_ms() + 1_000, |_| false);
    let (what, peers, until) = net.waits(ME).unwrap();
    assert_eq!((what, peers), (Awaited::Results, vec![Peer(4)]));
    net.run_unchecked(120_000, |_| false);
    let done = |(_, peer, event): &&(Time, Peer, Event)| *peer == ME && matches!(event, Event::Done);
    assert_eq!(net.events.iter().find(done).map(|(at, ..)| *at), until);
}

/// Keeps peer 4 away until the others have finished. It comes back `late` milliseconds before the first
/// of them would leave, over links that bring it only greetings.
fn returns(late: u64) -> (Network, Time) {
    let mut net = Network::new(5, &[3], Timing { linger_ms: LINGER, ..timing() }, 5);
    away(&mut net, &[Peer(4)]);
    let finished = |net: &Network| net.finished().len() >= 4;
    net.run_unchecked(60_000, finished);
    // All four have heard from each other that they have finished.
    net.run_unchecked(net.now_ms() + 1_000, |_| false);
    let (_, _, until) = net.waits(ME).unwrap();
    let back = until.unwrap().0 / 1000 - late;
    net.hold = Some(Box::new(|_, to, message| {
        to == Peer(4) && !matches!(message, crate::protocol::message::Message::Hello { .. })
    }));
    for other in (0..4).map(Peer) {
        net.at_ms(back, Fault::Heal(other, Peer(4)));
    }
    (net, until.unwrap())
}

#[test]
fn who_has_the_result_stays_longer_for_a_peer_that_came_back() {
    let (mut net, until) = returns(500);
    let done = |(_, who, event): &&(Time, Peer, Event)| *who == ME && matches!(event, Event::Done);
    let left = |net: &Network| net.events.iter().find(done).map(|(at, ..)| *at);
    net.run_unchecked(120_000, |net| left(net).is_some());
    assert_eq!(left(&net), Some(until.plus_ms(LINGER)), "it lingers as long again, and no longer");
}

/// Peer 4 reaches peer 3 `gap` milliseconds after the others. In some of these runs peer 4 thus gets the
/// last slot while its greeting and that of peer 3 travel.
#[test]
fn who_is_greeted_while_the_last_slot_comes_is_told_of_it_and_does_not_linger() {
    for gap in (0..300).step_by(3) {
        let mut net = Network::new(5, &[3], Timing { linger_ms: 60_000, ..timing() }, gap);
        away(&mut net, &[Peer(4)]);
        net.run_unchecked(60_000, |net| net.finished().len() >= 4);
        let back = net.now_ms() + 1_000;
        for other in (0..4).map(Peer) {
            let later = if other == Peer(3) { gap } else { 0 };
            net.at_ms(back + later, Fault::Heal(other, Peer(4)));
        }
        let done =
            |net: &Network| net.events.iter().filter(|(.., event)| matches!(event, Event::Done)).count();
        net.run_unchecked(back + 10_000, |net| done(net) == 5);
        assert_eq!(done(&net), 5, "{gap} ms: {:?} still linger", net.waits(Peer(3)));
    }
}

#[test]
fn who_gives_up_names_the_peers_that_have_left_with_the_result() {
    let (mut net, _) = returns(500);
    let ended = |net: &Network| {
        net.events.iter().find_map(|(_, who, event)| match event {
            Event::Ended(ending) if *who == Peer(4) => Some(ending.to_string()),
            _ => None,
        })
    };
    net.run_unchecked(400_000, |net| ended(net).is_some());
    let text = ended(&net).expect("it gives up");
    assert!(text.contains("have the result and have left"), "{text}");
    assert!(text.contains("peer-0, peer-1, peer-2, peer-3"), "{text}");
}
