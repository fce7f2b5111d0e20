//! Attacks by a leader that deviates, by a peer that has lost its state, and by a server that lies.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::super::network::{Fault, Network};
use super::super::numbers::{Numbers, session, timing};
use super::{honest_finish, leader, without};
use crate::crypto::identity::Identity;
use crate::harness::numbers::Session;
use crate::protocol::context::{Aggregate, Bug};
use crate::protocol::message::Message;
use crate::protocol::transfer::{self, Held};
use crate::protocol::view::{self, Order, Stage};
use crate::session::{Faults, Peer, Timing};
use crate::task::{History, Outcome, Task, Work};

/// Lets the first leader collect all peers' shares of `slot` and withhold them. The leader then drops
/// its state, cuts off one peer, and sums again without that peer. The difference of the two sums would
/// be that peer's vector; for slot 0, it would be another coin.
fn summed_again(slot: u32, seed: u64) -> Network {
    let timing = Timing { start_wait_ms: 0, ..timing() };
    let mut net = Network::new(5, &[3], timing, seed);
    net.delay_us = (100, 2_000);
    net.run_unchecked(10_000, |net| net.current().is_some());
    let leader = net.current().unwrap().proposer;
    let victim = without(&net, &[leader])[seed as usize % 4];
    net.liars.insert(leader);
    net.hold = Some(Box::new(move |from, _, message| {
        let Message::View(view::Message::Down(_, Order::Open(opens, _))) = message else { return false };
        from == leader && *opens == slot
    }));
    net.run_unchecked(10_000, |net| net.opened(leader, slot));
    assert!(net.openable().contains_key(&slot), "the shares must have left");
    net.hold = None;
    net.bugs.insert(leader, Bug::IgnoresPromises);
    for fault in [Fault::Wipe(leader), Fault::Cut(leader, victim), Fault::Restart(leader)] {
        net.at_ms(net.now_ms(), fault);
    }
    net.run_unchecked(net.now_ms() + 60_000, |_| false);
    net
}

#[test]
fn a_leader_that_withholds_an_opening_does_not_get_a_second_one() {
    for seed in 0..4 {
        let net = summed_again(1, seed);
        assert_eq!(net.openable()[&1].len(), 1, "seed {seed}: {:?}", net.openable());
        let sums: BTreeSet<_> = net.travelled.iter().map(|(_, _, sum, ..)| *sum).collect();
        assert_eq!(sums.len(), 1, "seed {seed}: no peer contributes to a second sum: {sums:?}");
        net.check();
        honest_finish(&net, &format!("seed {seed}"));
    }
}

#[test]
fn a_leader_that_does_not_like_the_coin_gets_no_other() {
    for seed in 0..12 {
        let net = summed_again(0, seed);
        assert_eq!(net.openable()[&0].len(), 1, "seed {seed}: {:?}", net.openable());
        net.check();
        honest_finish(&net, &format!("seed {seed}"));
    }
}

/// Lets the leader sum over the committee members up to place `first` only, and withhold the opening.
/// The leader then drops its state and sums over itself and the later peers, which were cut off until
/// then.
fn both_sides(faults: Faults, first: usize, seed: u64) -> Network {
    let alter = |session: &mut Session| session.voting.faults = faults;
    let mut net = Network::altered(5, &[3], timing(), seed, alter);
    net.delay_us = (100, 2_000);
    let committee = net.committee();
    let leader = committee[0];
    net.liars.insert(leader);
    net.hold = Some(Box::new(move |from, _, message| {
        let Message::View(view::Message::Down(_, Order::Open(1, _))) = message else { return false };
        from == leader
    }));
    let (now, later) = (&committee[1..=first], &committee[first + 1..]);
    for &a in later {
        for &b in committee[..=first].iter() {
            net.at_ms(0, Fault::Cut(a, b));
        }
    }
    net.run_unchecked(15_000, |net| net.opened(leader, 1));
    net.hold = None;
    net.bugs.insert(leader, Bug::IgnoresPromises);
    let gone = if faults == Faults::Crash { now } else { &now[..1] };
    let at = net.now_ms();
    for &peer in gone {
        net.at_ms(at, Fault::Crash(peer));
    }
    net.at_ms(at, Fault::Wipe(leader));
    for &a in later {
        for &b in committee[..=first].iter() {
            net.at_ms(at, Fault::Heal(a, b));
        }
    }
    net.at_ms(at, Fault::Restart(leader));
    net.run_unchecked(at + 60_000, |_| false);
    net
}

/// The default fault model `crash` does not prevent this; `byzantine` does.
#[test]
fn a_leader_between_two_majorities_opens_twice_with_crash_and_once_with_byzantine() {
    let twice = |net: &Network| net.openable().get(&1).is_some_and(|sums| sums.len() > 1);
    // The first proposer decides whether the leader leads again with the peers that were cut off.
    assert!((0..4).any(|seed| twice(&both_sides(Faults::Crash, 2, seed))), "with crash nothing prevents it");
    for seed in 0..4 {
        let net = both_sides(Faults::Byzantine, 3, seed);
        assert!(net.openable().contains_key(&1), "seed {seed}: the first opening must be reached");
        assert!(!twice(&net), "seed {seed}: {:?}", net.openable());
    }
}

#[test]
fn a_byzantine_committee_finishes_while_as_many_are_away_as_may_deviate() {
    for (peers, away) in [(4, 1), (5, 1), (7, 2)] {
        let alter = |session: &mut Session| session.voting.faults = Faults::Byzantine;
        let mut net = Network::altered(peers, &[3], timing(), 5, alter);
        let gone: Vec<_> = net.committee()[..away].to_vec();
        for &peer in &gone {
            net.at_ms(40, Fault::Crash(peer));
        }
        net.run(120_000);
        assert_eq!(net.finished().len(), usize::from(peers) - away, "{peers}: {:?}", net.endings());
    }
}

/// Three of five peers finish while two are cut off. Then two of the three leave. The third one has lost
/// its disk when the cut-off peers return.
#[test]
fn a_peer_that_lost_its_state_makes_no_second_result_with_those_that_were_in_a_view_with_it() {
    for seed in 0..6 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let committee = net.committee();
        let (a, b, c) = (committee[0], committee[1], committee[2]);
        let away = [committee[3], committee[4]];
        net.run_unchecked(10_000, |net| away.iter().all(|&peer| net.reached(peer, 1, Stage::Compute)));
        let now = net.now_ms();
        for x in [a, b, c] {
            for y in away {
                net.at_ms(now, Fault::Cut(x, y));
            }
        }
        net.run_unchecked(now + 8_000, |_| false);
        let finished: BTreeSet<_> = net.finished().into_keys().collect();
        assert_eq!(finished, BTreeSet::from([a, b, c]), "seed {seed}");
        let now = net.now_ms();
        let faults = [Fault::Crash(a), Fault::Crash(b), Fault::Wipe(c), Fault::Restart(c)];
        for fault in faults.into_iter().chain(away.map(|y| Fault::Heal(c, y))) {
            net.at_ms(now, fault);
        }
        net.run(now + 60_000);
        assert_eq!(net.openable()[&1].len(), 1, "seed {seed}");
        // The first result is not lost: it is still there for all peers.
        for fault in [Fault::Restart(a), Fault::Restart(b), Fault::HealAll] {
            net.at_ms(net.now_ms(), fault);
        }
        net.run(net.now_ms() + 60_000);
        assert_eq!(net.openable()[&1].len(), 1, "seed {seed}");
        assert_eq!(net.finished().len(), 5, "seed {seed}: {:?}", net.endings());
    }
}

/// A liar serves the coin to a late peer, and leaves out the pad of one dealer.
#[test]
fn a_served_coin_that_lacks_a_sound_pad_is_refused_and_the_server_named() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let late = net.committee()[4];
        for peer in without(&net, &[late]) {
            net.at_ms(0, Fault::Cut(late, peer));
        }
        net.run_unchecked(5_000, |_| false);
        assert_eq!(net.finished().len(), 4);
        let liar = leader(&net);
        net.liars.insert(liar);
        net.rewrite = Some(Box::new(|_, _, message| {
            let Message::Transfer(transfer::Message::Head(0, held)) = message else { return None };
            let Held::Committed(mut committed) = (**held).clone() else { return None };
            committed.pads.remove(1);
            committed.record.deals.remove(1);
            Some(Message::Transfer(transfer::Message::Head(0, Box::new(Held::Committed(committed)))))
        }));
        let now = net.now_ms();
        net.at_ms(now, Fault::Heal(late, liar));
        for peer in without(&net, &[late, liar]) {
            net.at_ms(now + 3_000, Fault::Heal(late, peer));
        }
        net.run(60_000);
        assert_eq!(net.finished().len(), 5, "seed {seed}: {:?}", net.endings());
        assert_eq!(net.named(), BTreeSet::from([liar]), "seed {seed}");
    }
}

#[test]
fn two_members_do_not_open_a_sum_although_the_leader_would() {
    let mut net = Network::altered(3, &[3], timing(), 1, |session| session.min_peers = 2);
    let (liar, other, away) = (net.committee()[0], net.committee()[1], net.committee()[2]);
    net.liars.insert(liar);
    net.bugs.insert(liar, Bug::AnyCrowd);
    for fault in [Fault::Crash(liar), Fault::Restart(liar), Fault::Crash(away)] {
        net.at_ms(0, fault);
    }
    net.run_unchecked(60_000, |_| false);
    assert!(net.travelled.iter().all(|(from, ..)| *from != other), "{other} must not contribute");
    assert!(!net.openable().contains_key(&1), "{:?}", net.openable());
}

/// Task that needs four members once slot 1 is open.
#[derive(Debug)]
struct Picky(Numbers);

impl Task for Picky {
    fn plan(&self) -> Vec<Aggregate> {
        self.0.plan()
    }
    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        self.0.contribution(slot, history)
    }
    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        self.0.outcome(history, unix)
    }
    fn work(&self, slot: u32, history: &History) -> Work {
        self.0.work(slot, history)
    }
    fn allows(&self, slot: u32, _: &History, members: &[Peer]) -> Result<(), String> {
        if slot < 2 || members.len() >= 4 { Ok(()) } else { Err("too few holders are left".into()) }
    }
    fn check(&self, _: u32, _: &History) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn members_do_not_contribute_once_too_few_holders_are_left_although_the_leader_goes_on() {
    let mut identities: Vec<_> = (0..5).map(|i| Identity::from_seed([i + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let session = session(&identities, timing());
    let picky = |me| Arc::new(Picky(Numbers { me: Peer(me), words: vec![3, 3] })) as Arc<dyn Task>;
    let mut net = Network::with_tasks(identities, session.settings(), (0..5).map(picky).collect(), 3);
    let liar = leader(&net);
    net.liars.insert(liar);
    net.bugs.insert(liar, Bug::AnyCrowd);
    for fault in [Fault::Crash(liar), Fault::Restart(liar)] {
        net.at_ms(0, fault);
    }
    let gone = [net.committee()[3], net.committee()[4]];
    net.run_unchecked(20_000, |net| net.opened(liar, 1));
    for peer in gone {
        net.at_ms(net.now_ms(), Fault::Crash(peer));
    }
    net.run_unchecked(60_000, |_| false);
    assert!(!net.openable().contains_key(&2), "{:?}", net.openable());
}

/// The leader and one more peer try to be alone with the victim, which is connected to two other peers.
#[test]
fn a_leader_keeps_nobody_out_whom_an_honest_promise_reaches() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let committee = net.committee();
        let (liar, other, victim) = (committee[0], committee[1], committee[2]);
        net.liars.extend([liar, other]);
        let bits = [liar, other, victim].iter().map(|peer| 1 << peer.0).sum();
        for peer in [liar, other] {
            net.bugs.insert(peer, Bug::Picks(bits));
            for fault in [Fault::Crash(peer), Fault::Restart(peer)] {
                net.at_ms(0, fault);
            }
        }
        net.run_unchecked(60_000, |net| net.opened(victim, 1));
        let sums: Vec<_> = net.openable().into_values().flatten().collect();
        assert!(net.opened(victim, 1) && !sums.is_empty(), "seed {seed}");
        for sum in sums {
            assert_eq!(net.members_of(sum.ballot).len(), 5, "seed {seed}: {sum:?}");
        }
    }
}
