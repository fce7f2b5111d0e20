//! Runs with one or two faults, at every point of the run: each peer killed at each of its actions, and
//! each link cut after each of its messages.

use std::collections::BTreeSet;

use super::network::{Fault, Network};
use super::numbers::timing;
use crate::session::Peer;

fn network(peers: u8) -> Network {
    Network::new(peers, &[3], timing(), 17)
}

/// Returns the number of actions of each peer in a run without faults.
fn actions(peers: u8) -> Vec<(Peer, u64)> {
    let mut net = network(peers);
    net.run(120_000);
    net.actions.iter().map(|(&peer, &count)| (peer, count)).collect()
}

/// Checks that all peers except `without` have finished.
fn finished(net: &Network, without: &[Peer], what: &str) {
    let finished: BTreeSet<_> = net.finished().into_keys().collect();
    for peer in net.peers().filter(|peer| !without.contains(peer)) {
        assert!(finished.contains(&peer), "{what}: {peer} does not finish: {:?}", net.endings());
    }
}

/// Kills each peer at each of its actions. With more than three peers, the others continue. A session of
/// three needs all of them: the others report why they cannot continue, unless the killed peer returns.
fn killed(peers: u8, returns: bool) {
    for (peer, count) in actions(peers) {
        for at in 1..count {
            let mut net = network(peers);
            net.kill_after = Some((peer, at));
            if returns {
                net.at_ms(2_500, Fault::Restart(peer));
            }
            net.run(200_000);
            let what = format!("{peer} of {peers} killed at {at}");
            if returns {
                finished(&net, &[], &what);
            } else if peers > 3 {
                finished(&net, &[peer], &what);
            } else {
                let told = net.endings();
                let gone = net.finished();
                for other in net.peers().filter(|&other| other != peer) {
                    assert!(told.contains_key(&other) || gone.contains_key(&other), "{what}: {other} hangs");
                }
            }
        }
    }
}

#[test]
fn three_peers_with_one_killed_at_any_action_end_with_a_reason() {
    killed(3, false);
}

#[test]
fn three_peers_with_one_killed_at_any_action_finish_when_it_returns() {
    killed(3, true);
}

#[test]
fn four_peers_with_one_killed_at_any_action_finish_when_it_returns() {
    killed(4, true);
}

#[test]
fn four_peers_with_one_killed_at_any_action_go_on() {
    killed(4, false);
}

#[test]
fn five_peers_with_one_killed_at_any_action_finish_when_it_returns() {
    killed(5, true);
}

/// Cuts each link after each of its messages and heals it later. A session of three needs all links.
#[test]
fn every_link_cut_after_each_of_its_messages_and_healed_later() {
    for peers in 3..=5u16 {
        for (a, b) in (0..peers).flat_map(|b| (0..b).map(move |a| (Peer(a), Peer(b)))) {
            for messages in 1..40 {
                let mut net = network(u8::try_from(peers).unwrap());
                net.cut_after = Some(((a, b), messages));
                net.at_ms(5_000, Fault::Heal(a, b));
                net.run(200_000);
                finished(&net, &[], &format!("{a}-{b} of {peers} cut after {messages} messages"));
            }
        }
    }
}

/// The second fault comes while the peers still handle the first one. One of five peers is killed, and a
/// link between two others is cut a moment before or after.
#[test]
fn a_kill_and_a_cut_at_once_leave_nobody_waiting() {
    for (peer, count) in actions(5) {
        for at in (2..count).step_by(4) {
            let others: Vec<_> = (0..5).map(Peer).filter(|&other| other != peer).collect();
            let pick = at as usize / 4;
            let (a, b) = (others[pick % 4], others[(pick + 1 + pick / 4 % 3) % 4]);
            let mut net = network(5);
            net.kill_after = Some((peer, at));
            net.cut_after = Some(((a.min(b), a.max(b)), 1 + at / 5));
            net.at_ms(6_000, Fault::HealAll);
            net.run(200_000);
            finished(&net, &[], &format!("{peer} killed at {at}, {a}-{b} cut"));
        }
    }
}
