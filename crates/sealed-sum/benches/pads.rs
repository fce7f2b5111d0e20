//! Measures the cost of pads from every committee member. For each number of dealers it prints the length
//! of the pads that each peer takes off a vector, the time for that on one thread, the memory that this
//! takes in addition to the vector, and the size of the deals, which every member gets with the record.
//!
//! Three dealers were the rule before every committee member dealt a pad.
//!
//! `cargo bench --package flyswarm-sealed-sum --features harness --bench pads [-- MIB]`

#![allow(missing_docs, clippy::disallowed_methods)] // it reads the clock

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use flyswarm_sealed_sum::crypto::identity::Identity;
use flyswarm_sealed_sum::crypto::mask::{Sign, Word};
use flyswarm_sealed_sum::harness::numbers::{session, timing};
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::context::{Aggregate, Context};
use flyswarm_sealed_sum::protocol::deal;
use flyswarm_sealed_sum::protocol::pairwise::{Mask, Masks};
use flyswarm_sealed_sum::protocol::sum_id::SumId;
use flyswarm_sealed_sum::protocol::view::Rng;
use flyswarm_sealed_sum::protocol::wire;
use flyswarm_sealed_sum::session::Peer;

use chacha20::rand_core::SeedableRng;

const MIB: usize = 1 << 20;
const RUNS: usize = 5;

/// Returns the peak memory of this process in KiB, if the system reports it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the size of the deals of `dealers` committee members, in bytes.
fn deals(dealers: u8) -> usize {
    let identities: Vec<_> = (1..=dealers).map(|seed| Identity::from_seed([seed; 32])).collect();
    let settings = Arc::new(session(&identities, timing()).settings());
    let plan = vec![Aggregate::coin(), Aggregate::exact("vector", 4, 1, "a vector", "the sum")];
    let context = |(peer, identity): (u16, &Identity)| {
        Context::new(settings.clone(), Peer(peer), identity.clone(), plan.clone())
    };
    let mut rng = Rng::from_seed([7; 32]);
    let made = |pair| wire::canonical(&deal::make(&context(pair), sum(), &mut rng).1).len();
    (0u16..).zip(&identities).map(made).sum()
}

fn sum() -> SumId {
    SumId { ballot: Ballot { counter: 1, proposer: Peer(0) }, slot: 1 }
}

fn main() -> std::io::Result<()> {
    let mib = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(64);
    let mut out = std::io::stdout();
    let mut vector = vec![1u8; mib * MIB];
    let before = peak();
    writeln!(out, "vector of {mib} MiB, one thread, median of {RUNS} runs")?;
    writeln!(
        out,
        "{:>8}{:>12}{:>12}{:>10}{:>16}{:>15}",
        "dealers", "pads, MiB", "seconds", "GB/s", "memory, KiB", "deals, bytes"
    )?;
    for dealers in [1u8, 3, 5, 7, 15] {
        let pad = |key: u8| Mask::new(Arc::new([key; 32]), "pad", sum(), Sign::Subtract);
        let masks = Masks { word: Word::W32, masks: (0..dealers).map(pad).collect() };
        let mut times: Vec<_> = (0..RUNS)
            .map(|_| {
                let begun = Instant::now();
                masks.apply(&mut vector, 0);
                begun.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let pads = usize::from(dealers) * mib;
        let rate = (pads * MIB) as f64 / times[RUNS / 2] / 1e9;
        writeln!(
            out,
            "{dealers:>8}{pads:>12}{:>12.3}{rate:>10.2}{:>16}{:>15}",
            times[RUNS / 2],
            peak() - before,
            deals(dealers)
        )?;
    }
    Ok(())
}
