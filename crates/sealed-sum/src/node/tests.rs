//! Whole nodes over an in-memory network: exact results, safety under faults, and progress after them.

mod attacks;
mod hostile_rounds;
mod nonsense;
mod rounds;
mod scenarios;
mod schedules;
mod secrecy;
mod systematic;
mod waits;

use std::collections::BTreeSet;

use crate::harness::network::{self, Fault, Network};
use crate::harness::numbers::{self, timing};
use crate::node::Ending;
use crate::protocol::message::Message;
use crate::protocol::view::Stage;
use crate::session::Peer;

#[test]
fn every_peer_opens_the_exact_sum_of_all() {
    for peers in 3..=9 {
        let mut net = Network::new(peers, &[100, 1], timing(), u64::from(peers));
        net.run(120_000);
        let finished = net.finished();
        assert_eq!(finished.len(), usize::from(peers), "{:?}", net.endings());
        assert!(finished.values().all(|values| values.iter().all(|v| v.members.len() == usize::from(peers))));
    }
}

#[test]
fn vectors_of_many_chunks_flow_through_every_edge() {
    let mut net = Network::new(7, &[20 * 65_536 + 17], timing(), 1);
    net.run(600_000);
    assert_eq!(net.finished().len(), 7, "{:?}", net.endings());
}

#[test]
fn a_peer_killed_at_any_action_leaves_the_others_with_one_result() {
    let mut base = Network::new(5, &[3], timing(), 7);
    base.run(120_000);
    let actions = base.actions.clone();
    for peer in base.peers() {
        let before_linger = actions[&peer];
        for at in (1..before_linger).step_by(3) {
            let mut net = Network::new(5, &[3], timing(), 7);
            net.kill_after = Some((peer, at));
            net.run(300_000);
            let finished: BTreeSet<_> = net.finished().into_keys().collect();
            let expected: BTreeSet<_> = net.peers().filter(|&other| other != peer).collect();
            assert!(
                finished.is_superset(&expected),
                "{peer} killed at {at}: {finished:?} {:?}",
                net.endings()
            );
        }
    }
}

#[test]
fn a_killed_peer_that_returns_is_given_the_result() {
    for peer in 0..5 {
        for at in (1..120).step_by(7) {
            let mut net = Network::new(5, &[3, 2], timing(), 11);
            net.kill_after = Some((Peer(peer), at));
            net.at_ms(4_000, Fault::Restart(Peer(peer)));
            net.run(300_000);
            assert_eq!(net.finished().len(), 5, "{peer} killed at {at}: {:?}", net.endings());
        }
    }
}

#[test]
fn in_a_partition_the_majority_ends_and_the_minority_says_why_it_cannot() {
    let mut net = Network::new(5, &[3], timing(), 3);
    for a in [0, 1] {
        for b in [2, 3, 4] {
            net.at_ms(15, Fault::Cut(Peer(a), Peer(b)));
        }
    }
    net.run(300_000);
    assert_eq!(net.finished().into_keys().collect::<Vec<_>>(), [Peer(2), Peer(3), Peer(4)]);
    let endings = net.endings();
    for peer in [Peer(0), Peer(1)] {
        let Ending::TooFew(text) = &endings[&peer] else { panic!("{endings:?}") };
        assert!(text.contains("only 2 of 5 peers are reachable"), "{text}");
    }
}

#[test]
fn one_cut_link_between_live_peers_does_not_stop_the_session() {
    for a in 0..5 {
        for b in a + 1..5 {
            let mut net = Network::new(5, &[3], timing(), 5);
            net.at_ms(u64::from(a + 5 * b), Fault::Cut(Peer(a), Peer(b)));
            net.run(300_000);
            assert_eq!(net.finished().len(), 5, "{a}-{b}: {:?}", net.endings());
        }
    }
}

/// In a committee of three, one member acknowledges, one dies, and the third was away and returns. The
/// opening that has begun is finished.
#[test]
fn an_opening_begun_in_a_committee_of_three_is_finished_when_the_third_returns() {
    let mut begun = 0;
    for seed in 0..40 {
        let mut net = Network::new(3, &[3], timing(), seed);
        let (x, y, z) = (Peer(0), Peer(1), Peer(2));
        net.kill_at = Some((y, 1, Stage::Accept));
        net.at_ms(30 + seed, Fault::Cut(x, z));
        net.at_ms(30 + seed, Fault::Cut(y, z));
        net.at_ms(5_000, Fault::Heal(x, z));
        net.at_ms(5_000, Fault::Heal(y, z));
        net.at_ms(12_000, Fault::Restart(y));
        net.run(300_000);
        let dead_stage = net.kill_at.is_none();
        begun += u32::from(dead_stage);
        assert_eq!(net.finished().len(), 3, "seed {seed}: {:?}", net.endings());
    }
    assert!(begun > 0, "the schedule must reach the stage that it is about");
}

#[test]
fn peers_that_are_connected_but_never_answer_are_not_waited_for_for_ever() {
    let mut net = Network::new(3, &[3], timing(), 9);
    net.hold = Some(Box::new(|_, _, message| !matches!(message, Message::Hello { .. })));
    net.run(60_000);
    let endings = net.endings();
    assert_eq!(endings.len(), 3, "{endings:?}");
    // The first peer to give up states this reason; the others see it leave.
    let first =
        endings.values().filter(|ending| ending.to_string().contains("no view began for 20 s")).count();
    assert!(first >= 1 && endings.values().all(|ending| matches!(ending, Ending::TooFew(_))), "{endings:?}");
}

/// With 17 peers, 15 of them are the committee, unless the session file names it. Then it has the named
/// members.
#[test]
fn above_fifteen_peers_a_majority_of_the_committee_must_be_there_whatever_min_peers_says() {
    for (dead, finish) in [(7, 10), (8, 0)] {
        let mut net = Network::new(17, &[1], timing(), 5);
        let committee = net.committee();
        assert_eq!((committee.len(), net.session().min_peers), (15, 9));
        committee[..dead].iter().for_each(|&peer| net.at_ms(0, Fault::Crash(peer)));
        net.run(60_000);
        assert_eq!(net.finished().len(), finish, "{dead} dead: {:?}", net.endings());
        for ending in net.endings().values() {
            let Ending::TooFew(text) = ending else { panic!("{ending}") };
            assert!(
                text.contains("9 of 17 peers are reachable") && text.contains("8 of its committee of 15"),
                "{text}"
            );
        }
    }
    let named = |session: &mut numbers::Session| {
        session.voting.members = session.roster[..5].iter().map(|entry| entry.name.clone()).collect();
    };
    let mut net = Network::altered(17, &[1], timing(), 5, named);
    net.peers().skip(9).for_each(|peer| net.at_ms(0, Fault::Crash(peer)));
    net.run(60_000);
    assert_eq!(net.finished().len(), 9, "{:?}", net.endings());
}
