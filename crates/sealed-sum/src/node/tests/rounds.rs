//! Sessions of many slots: vectors that are not needed any more are dropped, and a lost peer becomes a
//! member again at the end of a slot.

use std::sync::Arc;

use bytes::Bytes;

use super::network::{Fault, Network};
use super::numbers::{Numbers, session, timing};
use crate::crypto::identity::Identity;
use crate::node::{Event, Record};
use crate::protocol::context::{Aggregate, Bug};
use crate::session::{Peer, Timing};
use crate::task::{History, Outcome, Task, Work};

/// Task in which every slot needs only the slot before it.
#[derive(Debug)]
struct Rounds {
    me: Peer,
    rounds: u32,
    words: u64,
    /// Slot whose vector is the result, and number of committed slots at which the session ends. `None`
    /// if the session sums its whole plan.
    early: Option<(u32, u32)>,
    /// Slot after which the task refuses to continue.
    refused: Option<u32>,
}

impl Rounds {
    /// Returns whether the last opened vector is here; it decides which vectors are kept.
    fn tells(history: &History) -> bool {
        history.committed().checked_sub(1).is_some_and(|last| history.vector(last).is_some())
    }
}

impl Task for Rounds {
    fn plan(&self) -> Vec<Aggregate> {
        let round = |_| Aggregate::exact("round", 4, self.words, "a round", "its sum");
        std::iter::once(Aggregate::coin()).chain((0..self.rounds).map(round)).collect()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        history.vector(slot - 1).ok_or(format!("{}: slot {slot} without the slot before it", self.me))?;
        let own = Numbers::vector(self.me, slot, self.words);
        Ok(own.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        slot + 1 >= committed
    }

    fn still_needed(&self, slot: u32, history: &History) -> bool {
        let best = self.early.is_some_and(|(best, _)| slot == best || !Self::tells(history));
        best || self.needed_by_plan(slot, history.committed())
    }

    fn ends(&self, history: &History) -> bool {
        self.early.is_some_and(|(_, end)| history.committed() == end) && Self::tells(history)
    }

    fn check(&self, slot: u32, _: &History) -> Result<(), String> {
        if self.refused == Some(slot) { Err("too few rows".into()) } else { Ok(()) }
    }

    fn outcome(&self, _: &History, _unix: u64) -> Result<Outcome, String> {
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }

    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
}

const WORDS: u64 = 3;

pub(super) fn network(peers: u8, rounds: u32, timing: Timing, seed: u64) -> Network {
    ending(peers, rounds, timing, seed, (None, None))
}

/// Makes a network with `early` and `refused` of [`Rounds`].
fn ending(
    peers: u8,
    rounds: u32,
    timing: Timing,
    seed: u64,
    (early, refused): (Option<(u32, u32)>, Option<u32>),
) -> Network {
    let mut identities: Vec<_> = (0..peers).map(|i| Identity::from_seed([i + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let session = session(&identities, timing);
    let task =
        |peer| Arc::new(Rounds { me: Peer(peer), rounds, words: WORDS, early, refused }) as Arc<dyn Task>;
    Network::with_tasks(identities, session.settings(), (0..u16::from(peers)).map(task).collect(), seed)
}

/// Returns time-outs that keep waits short and let no peer leave before the others have everything.
fn quick() -> Timing {
    Timing { regroup_interval_ms: 0, linger_ms: 600_000, no_quorum_timeout_ms: 120_000, ..timing() }
}

fn histories(net: &Network) -> Vec<(Peer, Arc<History>)> {
    let finished = net.events.iter().filter_map(|(_, peer, event)| match event {
        Event::Finished(history) => Some((*peer, history.clone())),
        _ => None,
    });
    finished.collect()
}

fn opened(net: &Network, slot: u32) -> bool {
    net.events.iter().any(|(_, _, event)| matches!(event, Event::Opened(value) if value.sum.slot == slot))
}

/// Checks that the last sum is the plain sum of its members' vectors.
fn last_sum_is_plain(history: &History, rounds: u32) {
    let mut plain = vec![0u32; WORDS as usize];
    for &member in history.members(rounds) {
        for (sum, x) in plain.iter_mut().zip(Numbers::vector(member, rounds, WORDS)) {
            *sum = sum.wrapping_add(x);
        }
    }
    let plain: Vec<u8> = plain.into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(history.vector(rounds).unwrap()[..], plain);
}

#[test]
fn vectors_that_no_slot_needs_are_gone_from_memory_and_disk() {
    let rounds = 30;
    let mut net = network(4, rounds, quick(), 1);
    net.run_unchecked(600_000, |net| net.finished_count() == 4);
    net.check();
    for (peer, history) in histories(&net) {
        assert_eq!(history.committed(), rounds + 1);
        let held: Vec<u32> = (0..=rounds).filter(|&slot| history.vector(slot).is_some()).collect();
        assert_eq!(held, [0, rounds], "{peer}");
        last_sum_is_plain(&history, rounds);
        let totals = |record: &&Record| record.total().is_some_and(|(_, total)| !total.is_empty());
        assert!(net.disk(peer).values().filter(totals).count() <= 2, "{peer}");
    }
}

#[test]
fn a_peer_that_was_lost_is_a_member_again_at_the_end_of_a_slot() {
    let rounds = 60;
    for seed in 0..4 {
        let mut net = network(5, rounds, quick(), seed);
        net.run_unchecked(600_000, |net| opened(net, 12));
        let lost = Peer(seed as u16);
        let now = net.now_ms();
        net.at_ms(now, Fault::Crash(lost));
        net.at_ms(now + 2_000, Fault::Restart(lost));
        net.run_unchecked(now + 600_000, |net| net.finished_count() == 5);
        net.check();
        let all = histories(&net);
        assert_eq!(all.len(), 5, "{:?}", net.endings());
        let history = &all[0].1;
        let sizes: Vec<_> = (1..=rounds).map(|slot| history.members(slot).len()).collect();
        assert!(sizes.contains(&4), "the lost peer was a member of every sum: {sizes:?}");
        assert!(history.members(rounds).contains(&lost), "{sizes:?}");
        all.iter().for_each(|(_, history)| last_sum_is_plain(history, rounds));
    }
}

#[test]
fn a_view_is_enlarged_no_earlier_than_the_session_says() {
    let rounds = 40;
    let patient = Timing { regroup_interval_ms: 3_600_000, ..quick() };
    let mut net = network(5, rounds, patient, 3);
    net.run_unchecked(600_000, |net| opened(net, 8));
    let lost = Peer(2);
    let now = net.now_ms();
    net.at_ms(now, Fault::Crash(lost));
    net.at_ms(now + 2_000, Fault::Restart(lost));
    net.run_unchecked(now + 600_000, |net| net.finished_count() == 5);
    let all = histories(&net);
    assert_eq!(all.len(), 5, "{:?}", net.endings());
    assert!(!all[0].1.members(rounds).contains(&lost), "it became a member too early");
}

#[test]
fn a_session_that_ends_before_its_plan_sums_nothing_more_and_keeps_what_its_result_needs() {
    let early = Some((5, 9));
    for seed in 0..3 {
        let mut net = ending(4, 30, quick(), seed, (early, None));
        let late = Peer(3);
        net.run_unchecked(600_000, |net| opened(net, 3));
        net.at_ms(net.now_ms(), Fault::Crash(late));
        net.run_unchecked(600_000, |net| net.finished_count() >= 3);
        assert_eq!(net.finished_count(), 3, "{:?}", net.endings());
        net.at_ms(net.now_ms(), Fault::Restart(late));
        let from = net.now_ms();
        net.run_unchecked(from + 60_000, |net| net.finished_count() == 4);
        net.check();
        assert_eq!(histories(&net).len(), 4, "{:?}", net.endings());
        for (peer, history) in histories(&net) {
            let held: Vec<u32> =
                (0..history.committed()).filter(|&slot| history.vector(slot).is_some()).collect();
            assert_eq!((history.committed(), held), (9, vec![0, 5, 8]), "{peer}");
            last_sum_is_plain(&history, 5);
        }
        // Every peer has reported that it is done, so no peer lingers for the full ten minutes.
        let done =
            |net: &Network| net.events.iter().filter(|(_, _, event)| matches!(event, Event::Done)).count();
        net.run_unchecked(from + 120_000, |net| done(net) == 4);
        assert_eq!(done(&net), 4, "somebody lingers");
    }
}

/// Starts peer 4 after the others are done, next to peer 0, which serves it no vector. Returns the
/// history of peer 4.
fn late_beside_a_liar(net: &mut Network) -> Arc<History> {
    let (late, liar) = (Peer(4), Peer(0));
    net.liars.insert(liar);
    net.bugs.insert(liar, Bug::ServesBare);
    for fault in [Fault::Crash(late), Fault::Crash(liar), Fault::Restart(liar)] {
        net.at_ms(0, fault);
    }
    net.run_unchecked(120_000, |net| net.finished_count() == 4);
    net.at_ms(net.now_ms(), Fault::Restart(late));
    net.run_unchecked(net.now_ms() + 120_000, |net| net.finished_count() == 5);
    histories(net).into_iter().find(|(peer, _)| *peer == late).expect("it finishes").1
}

#[test]
fn a_peer_that_lacks_what_the_result_needs_asks_for_it_before_it_is_done() {
    let mut net = ending(5, 30, quick(), 2, (Some((5, 9)), None));
    let history = late_beside_a_liar(&mut net);
    assert!(history.vector(5).is_some() && history.vector(8).is_some(), "finished without the result");
}

/// In the past, a late peer could believe that it was done without a result.
#[test]
fn a_server_that_leaves_out_a_vector_that_is_needed_is_named_and_another_is_asked() {
    let mut net = Network::new(5, &[3], quick(), 2);
    let history = late_beside_a_liar(&mut net);
    assert!(history.vector(1).is_some(), "finished without the result");
    assert!(net.blames.iter().any(|(by, whom, _)| (*by, *whom) == (Peer(4), Peer(0))), "{:?}", net.blames);
}

/// At most one peer is away at any time. `FLYSWARM_ROUND_SCHEDULES` sets the number of schedules.
#[test]
fn rounds_survive_single_crashes_and_returns() {
    let schedules = std::env::var("FLYSWARM_ROUND_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let (schedules, rounds) = schedules.map_or((12u64, 50), |schedules: u64| (schedules, 200));
    let mut crashes = 0;
    for seed in 0..schedules {
        let peers = [3u8, 4, 5][(seed % 3) as usize];
        // Two of three peers are too few for a sum: with three peers, the others wait for the absent one.
        let mut net = network(peers, rounds, quick(), seed);
        net.delay_us = (100, [2_000, 20_000][(seed / 3 % 2) as usize]);
        let mut at = 500;
        while at < 60_000 {
            at += u64::from(net.below(3_000));
            let (victim, away) = (Peer(net.below(u32::from(peers)) as u16), u64::from(net.below(4_000)));
            net.at_ms(at, Fault::Crash(victim));
            net.at_ms(at + away, Fault::Restart(victim));
            at += away + 1;
        }
        net.run_unchecked(3_600_000, |net| net.finished_count() == usize::from(peers));
        net.check();
        let all = histories(&net);
        assert_eq!(net.finished_count(), usize::from(peers), "seed {seed}: {:?}", net.endings());
        all.iter().for_each(|(_, history)| last_sum_is_plain(history, rounds));
        crashes += net.events.iter().filter(|(_, _, event)| matches!(event, Event::ViewFailed(..))).count();
    }
    assert!(crashes > 0, "no schedule broke a view");
}

#[test]
fn who_ends_by_a_rule_serves_the_slot_that_says_so_until_its_members_have_it() {
    let openers = |net: &Network| -> Vec<Peer> {
        let opened = net
            .events
            .iter()
            .filter(|(.., event)| matches!(event, Event::Opened(value) if value.sum.slot == 2));
        opened.map(|(_, peer, _)| *peer).collect()
    };
    let mut cut_off = 0;
    for seed in 0..20 {
        let mut net = ending(5, 6, Timing { linger_ms: 5_000, ..timing() }, seed, (None, Some(2)));
        net.run_unchecked(60_000, |net| openers(net).len() >= 3);
        let opened = openers(&net);
        let late: Vec<_> = net.peers().filter(|peer| !opened.contains(peer)).collect();
        cut_off += usize::from(late.len() == 2);
        let now = net.now_ms();
        for &peer in &late {
            for &other in &opened {
                net.at_ms(now, Fault::Cut(peer.min(other), peer.max(other)));
                net.at_ms(now + 2_000, Fault::Heal(peer.min(other), peer.max(other)));
            }
        }
        net.run_unchecked(now + 20_000, |net| net.endings().len() == 5);
        let endings: Vec<_> = net.endings().values().map(ToString::to_string).collect();
        assert_eq!(endings, vec!["too few rows"; 5], "seed {seed}: {late:?} were cut off");
    }
    assert!(cut_off >= 10, "in {cut_off} of 20 runs two were cut off");
}

#[test]
fn a_peer_that_restarts_after_a_rule_has_ended_the_session_ends_by_the_rule_again() {
    let (mut net, peer) = (ending(5, 6, timing(), 1, (None, Some(2))), Peer(0));
    net.run_unchecked(60_000, |net| net.opened(peer, 2));
    let now = net.now_ms();
    net.at_ms(now, Fault::Crash(peer));
    net.at_ms(now + 100, Fault::Restart(peer));
    // The peer cannot ask any other peer.
    for other in net.peers().filter(|&other| other != peer) {
        net.at_ms(now, Fault::Cut(peer, other));
    }
    net.run_unchecked(now + 200_000, |net| net.endings().contains_key(&peer));
    assert_eq!(net.endings()[&peer].to_string(), "too few rows");
}
