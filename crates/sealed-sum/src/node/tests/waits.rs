//! What a node says that it waits for is what it waits for: whom, and until when.

use super::network::{Fault, Network};
use super::numbers::timing;
use crate::node::{Awaited, Event};
use crate::protocol::Time;
use crate::protocol::view::Reason;
use crate::session::Peer;

const ME: Peer = Peer(0);

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
        // Nothing that this peer says arrives once the view stands, and its connections do.
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
        // Half a second before the patience of the nearest is over nothing comes any more.
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
