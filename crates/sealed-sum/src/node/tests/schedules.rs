//! Random schedules: whatever is lost, delayed, cut or killed, nothing is opened twice; and once everything
//! is healed and restarted, everybody finishes.
//!
//! The seeds follow from `PROPTEST_RNG_SEED`, which CI makes of the tree that it tests.
//! `FLYSWARM_SCHEDULES` sets how many, `FLYSWARM_FIRST` the first seed of them, `FLYSWARM_SEED` repeats one.

mod deviating;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::network::{Fault, Network};
use super::numbers::timing;
use crate::protocol::view::HEARTBEAT_MS;
use crate::session::{Peer, Timing};

/// How many by default.
const SCHEDULES: u64 = 5_000;
/// Tests that share them, so that they run side by side.
const PARTS: u64 = 4;

/// Nobody leaves before the end, finished or not: what happens to those who come too late is another test.
fn patient() -> Timing {
    Timing { linger_ms: 600_000, no_quorum_timeout_ms: 120_000, ..timing() }
}

/// From the healing on: a view of before may stand still until it is given up; then everybody's turn may
/// come, and the view may meet a fetch or a member that has to be given up in turn, once for each of the
/// peers that can be in the way.
fn bound_ms(peers: u8, timing: &Timing) -> u64 {
    let turns = u64::from(peers) * timing.proposal_backoff_ms;
    let one_try = timing.view_timeout_ms + 2 * HEARTBEAT_MS + turns;
    timing.start_wait_ms + 4 * one_try
}

/// Builds the schedule of `seed`, runs it and gives the time from healing to the last finish.
fn run(seed: u64) -> u64 {
    let timing = patient();
    // Mostly small ones: they have as many corners, and run faster.
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

/// Runs the schedules of this part, of so many by default.
fn all(number: u64, default: u64, test: &str, run: impl Fn(u64) -> u64) {
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

/// A peer greets another and ends before that has heard of the connection; later it is there again. The
/// engine brought the greeting and told of no connection, so none was lost, and the next greeting was one too
/// many.
#[test]
fn a_greeting_of_a_peer_that_has_ended_since_belongs_to_a_connection_that_is_lost_after_it() {
    run(23_391);
}
