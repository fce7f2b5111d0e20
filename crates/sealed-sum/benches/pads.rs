//! Measures the cost of pads from every committee member. It prints one line for each number of
//! dealers. The first columns are the size of the pads that each peer removes from a vector, and the
//! time for that on one thread. Then come the extra memory, and the size of the deals that every member
//! gets with the record. The last three columns are times: to make one deal; to check the shares of all
//! deals and open one's own; to check a quorum of releases and open all pads.
//!
//! In earlier versions only three members dealt a pad; now every committee member does.
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
use flyswarm_sealed_sum::protocol::deal::{self, Opening};
use flyswarm_sealed_sum::protocol::pairwise::{Mask, Masks};
use flyswarm_sealed_sum::protocol::record::Record;
use flyswarm_sealed_sum::protocol::signed::Item;
use flyswarm_sealed_sum::protocol::sum_id::SumId;
use flyswarm_sealed_sum::protocol::view::Rng;
use flyswarm_sealed_sum::protocol::wire;
use flyswarm_sealed_sum::session::Peer;

use chacha20::rand_core::SeedableRng;

const MIB: usize = 1 << 20;
const RUNS: usize = 15;

/// Returns the peak memory of this process in KiB, if the system reports it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Cost of the deals of a whole committee of this size.
struct Dealt {
    /// Size of all deals, in bytes.
    bytes: usize,
    /// Seconds that one dealer needs to make its deal.
    make: f64,
    /// Seconds that one member needs to check the shares of every deal, and to open its own.
    shares: f64,
    /// Seconds that one member needs to open all pads from a quorum of releases.
    open: f64,
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn seconds<T>(mut run: impl FnMut() -> T) -> (T, f64) {
    let mut times: Vec<_> = (1..RUNS)
        .map(|_| {
            let begun = Instant::now();
            drop(run());
            begun.elapsed().as_secs_f64()
        })
        .collect();
    let begun = Instant::now();
    let last = run();
    times.push(begun.elapsed().as_secs_f64());
    (last, least(&times))
}

/// Measures the deals of `dealers` committee members.
fn deals(dealers: u8) -> Dealt {
    let identities: Vec<_> = (1..=dealers).map(|seed| Identity::from_seed([seed; 32])).collect();
    let settings = Arc::new(session(&identities, timing()).settings());
    let plan = vec![Aggregate::coin(), Aggregate::exact("vector", 4, 1, "a vector", "the sum")];
    let context = |(peer, identity): (u16, &Identity)| {
        Context::new(settings.clone(), Peer(peer), identity.clone(), plan.clone())
    };
    let contexts: Vec<_> = (0u16..).zip(&identities).map(context).collect();
    let mut rng = Rng::from_seed([7; 32]);
    let (_, make) = seconds(|| deal::make(&contexts[0], sum(), &mut rng));
    let by = |peer: &Peer| deal::make(&contexts[peer.index()], sum(), &mut rng).1;
    let committee = &contexts[0].committee;
    let deals: Vec<_> = committee.iter().map(by).collect();
    let bytes = deals.iter().map(|deal| wire::canonical(deal).len()).sum();
    let record = Record::new(sum(), committee.clone(), [0; 32], deals.clone());
    let (own, shares) = seconds(|| {
        let sound = deals.iter().all(|deal| deal.item.is_sound(&contexts[0], deal.author));
        deal::release(&contexts[0], &record).filter(|_| sound)
    });
    assert!(own.is_some());
    let quorum = committee.iter().take(contexts[0].quorum);
    let releases: Vec<_> =
        quorum.filter_map(|peer| deal::release(&contexts[peer.index()], &record)).collect();
    let (pads, open) = seconds(|| {
        let mut opening = Opening::default();
        let added =
            releases.iter().map(|release| opening.add(&contexts[0], &deals, release)).filter(Result::is_ok);
        (added.count(), opening.pads(&contexts[0], &deals))
    });
    assert!(pads.0 == releases.len() && pads.1.is_some());
    Dealt { bytes, make, shares, open }
}

fn sum() -> SumId {
    SumId { ballot: Ballot { counter: 1, proposer: Peer(0) }, slot: 1 }
}

fn main() -> std::io::Result<()> {
    let mib = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(64);
    let mut out = std::io::stdout();
    let mut vector = vec![1u8; mib * MIB];
    let before = peak();
    writeln!(out, "vector of {mib} MiB, one thread, least of {RUNS} runs")?;
    writeln!(
        out,
        "{:>8}{:>11}{:>9}{:>7}{:>13}{:>14}{:>10}{:>12}{:>10}",
        "dealers",
        "pads, MiB",
        "seconds",
        "GB/s",
        "memory, KiB",
        "deals, bytes",
        "deal, ms",
        "shares, ms",
        "open, ms"
    )?;
    for dealers in [1u8, 3, 5, 7, 15] {
        let pad = |key: u8| Mask::new(Arc::new([key; 32].into()), "pad", sum(), Sign::Subtract);
        let masks = Masks { word: Word::W32, masks: (0..dealers).map(pad).collect() };
        let times: Vec<_> = (0..RUNS)
            .map(|_| {
                let begun = Instant::now();
                masks.apply(&mut vector, 0);
                begun.elapsed().as_secs_f64()
            })
            .collect();
        let pads = usize::from(dealers) * mib;
        let rate = (pads * MIB) as f64 / least(&times) / 1e9;
        let (memory, dealt) = (peak() - before, deals(dealers));
        writeln!(
            out,
            "{dealers:>8}{pads:>11}{:>9.3}{rate:>7.2}{:>13}{:>14}{:>10.3}{:>12.3}{:>10.3}",
            least(&times),
            memory,
            dealt.bytes,
            dealt.make * 1e3,
            dealt.shares * 1e3,
            dealt.open * 1e3
        )?;
    }
    Ok(())
}
