//! Random schedules. No slot is opened twice, even if messages are lost or delayed, links are cut and
//! peers are killed. Once all links are healed and all peers are restarted, every peer finishes.
//!
//! The seeds follow from `PROPTEST_RNG_SEED`, which CI derives from the tested tree. `FLYSWARM_SCHEDULES`
//! sets the number of schedules, and `FLYSWARM_FIRST` their first seed. `FLYSWARM_SEED` repeats one
//! schedule.

mod deviating;
mod liars;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::network::{Fault, Network};
use super::numbers::timing;
use crate::protocol::memo;
use crate::protocol::view::HEARTBEAT_MS;
use crate::session::{Peer, Timing};

/// Default number of schedules.
const SCHEDULES: u64 = 5_000;
/// Number of tests that share the schedules, so that they run in parallel.
const PARTS: u64 = 4;

/// Returns time-outs that let no peer leave before the end, finished or not. Other tests cover peers that
/// come too late.
fn patient() -> Timing {
    Timing { linger_ms: 600_000, no_quorum_timeout_ms: 120_000, ..timing() }
}

/// Returns the longest time from healing to the end. A view from before the healing may stall until it is
/// given up. After that, every peer may get its turn. The new view may also have to give up a fetch or a
/// member, once for each peer that can be in the way.
fn bound_ms(peers: u8, timing: &Timing) -> u64 {
    let turns = u64::from(peers) * timing.proposal_backoff_ms;
    let one_try = timing.view_timeout_ms + 2 * HEARTBEAT_MS + turns;
    timing.start_wait_ms + 4 * one_try
}

/// Builds the schedule of `seed`, runs it and returns the time from healing to the last finish, in
/// milliseconds.
fn run(seed: u64) -> u64 {
    let timing = patient();
    // Most runs have few peers: they meet as many special cases, and are faster.
    let peers = [3, 4, 3, 5, 4, 3, 4, 6][usize::try_from(seed / PARTS % 8).unwrap()];
    let plan: &[u64] = if seed.is_multiple_of(7) { &[3, 2] } else { &[3] };
    let mut net = Network::new(peers, plan, timing, seed);
    let slow = net.below(8);
    net.delay_us = (100, [2_000, 20_000, 20_000, 20_000, 20_000, 60_000, 200_000, 500_000][slow as usize]);
    // Most sessions end within this many milliseconds at this speed.
    let span = u64::from(net.delay_us.1) / 25 + 200;
    for _ in 0..net.below(5) {
        for fault in random_fault(&mut net, peers) {
            if net.below(2) == 0 {
                let frames = u64::from(net.below(if peers < 5 { 150 } else { 400 }));
                net.after_frames.push((frames, fault));
            } else {
                let at = u64::from(net.below(u32::try_from(span).unwrap()));
                net.at_ms(at, fault);
            }
        }
    }
    let heal = span + u64::from(net.below(20_000));
    net.at_ms(heal, Fault::HealAll);
    let limit = heal + bound_ms(peers, &timing);
    net.run_unchecked(limit, |net| net.now_ms() > heal && net.finished_count() == usize::from(peers));
    net.check();
    let finished = net.finished();
    assert!(
        finished.len() == usize::from(peers),
        "healed at {heal} ms, only {:?} of {peers} have finished by {limit} ms; {:?}",
        finished.keys().collect::<Vec<_>>(),
        net.endings()
    );
    net.when_finished().unwrap().0.saturating_sub(heal * 1000) / 1000
}

fn random_fault(net: &mut Network, peers: u8) -> Vec<Fault> {
    let mut peer = || Peer(u16::try_from(net.below(peers.into())).unwrap());
    let (a, b) = (peer(), peer());
    match net.below(8) {
        0 | 1 => vec![Fault::Crash(a)],
        2 | 3 => vec![Fault::Crash(a), Fault::Restart(a)],
        4 if a != b => vec![Fault::Cut(a, b)],
        5 if a != b => vec![Fault::Cut(a, b), Fault::Heal(a, b)],
        6 => vec![Fault::Restart(a)],
        _ => {
            let side = net.below(1 << peers);
            let on = |peer: Peer| side & 1 << peer.0 != 0;
            let all: Vec<_> = net.peers().collect();
            let pairs = all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b)));
            pairs.filter(|&(a, b)| a < b && on(a) != on(b)).map(|(a, b)| Fault::Cut(a, b)).collect()
        }
    }
}

fn part(number: u64) {
    all(number, SCHEDULES, "random_schedules", run);
}

/// Runs the schedules of this part; `default` is the default number of schedules of all parts.
fn all(number: u64, default: u64, test: &str, run: impl Fn(u64) -> u64) {
    memo::use_same_pads();
    let env = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = env("FLYSWARM_SEED") {
        if seed % PARTS == number {
            run(seed);
        }
        return;
    }
    let count = env("FLYSWARM_SCHEDULES").unwrap_or(default);
    let first = env("FLYSWARM_FIRST");
    let first = first.unwrap_or_else(|| u64::from(env("PROPTEST_RNG_SEED").unwrap_or(0) as u32) * default);
    let seeds = first..first + count;
    let (mut slowest, mut count) = ((0, 0), 0);
    let mut failed = Vec::new();
    for seed in seeds.clone().filter(|seed| seed % PARTS == number) {
        count += 1;
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(ms) => slowest = slowest.max((ms, seed)),
            Err(_) => failed.push(seed),
        }
        assert!(failed.len() < 5, "{}", repeat(&failed, test));
    }
    eprintln!(
        "{test}, part {number}: {count} of seeds {seeds:?}; the last finished {} ms after healing (seed {})",
        slowest.0, slowest.1
    );
    assert!(failed.is_empty(), "{}", repeat(&failed, test));
}

fn repeat(seeds: &[u64], test: &str) -> String {
    format!("seeds {seeds:?}; FLYSWARM_SEED={} cargo test -p flyswarm-sealed-sum --lib {test}", seeds[0])
}

#[test]
fn random_schedules_are_safe_and_end_1() {
    part(0);
}

#[test]
fn random_schedules_are_safe_and_end_2() {
    part(1);
}

#[test]
fn random_schedules_are_safe_and_end_3() {
    part(2);
}

#[test]
fn random_schedules_are_safe_and_end_4() {
    part(3);
}

/// A peer greets another one and ends before the other one has noticed the connection. Later the peer
/// is back. In the past, the engine delivered this greeting without a connection. So no connection was
/// lost, and the next greeting counted as a second one.
#[test]
fn a_greeting_of_a_peer_that_has_ended_since_belongs_to_a_connection_that_is_lost_after_it() {
    run(23_391);
}
