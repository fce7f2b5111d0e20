//! Compares the sealed sum of eight nodes on one machine with a bare transfer of the same bytes over libp2p
//! substreams.
//!
//! **Sealed**: eight nodes in this process. Each is a `net::driver` on its own thread, with its own network
//! and state folder, over loopback (TCP, Noise, Yamux). The plan is the coin and one vector. The vectors are
//! made before the measurement. Two times are measured, both from the moment when the first node begins to
//! mask:
//!
//! - `summed` ends when the last node holds the sealed total, has hashed it and knows that all nodes do
//!   (its stage `Accept` begins).
//! - `opened` ends when the last node has removed the pads and stored the result on disk. In between are
//!   the acknowledgements, the shares and the opening. Every committee member syncs the total to disk
//!   before it acknowledges.
//!
//! **Bare**: one swarm for each node, with `libp2p-stream` alone, default settings, and TCP without delay. On
//! each of the tree's seven edges, one substream carries the vector up and another one carries it down. Both
//! run at once, with writes of 256 KiB. The reader discards the bytes. There are no masks, additions, hashes
//! or disk writes, and no edge waits for another. The time is from the first write until the last byte is
//! read.
//!
//! Both begin on fresh connections. They alternate, so that other work on the machine affects both. CPU
//! seconds are those of the whole process. Memory is the peak (`VmHWM`) of each of eight processes; each runs
//! one node.
//!
//! `cargo bench --bench sealed_sum [-- REPETITIONS]`. `TMPDIR` is the folder for the state folders. With `--
//! --bare MIB`, it sends MIB mebibytes up and down each edge over bare substreams, and prints only the CPU
//! seconds per GB for both ends together.

#![allow(missing_docs, clippy::disallowed_methods)] // it reads the clock

#[path = "sealed_sum/bare.rs"]
mod bare;
#[path = "sealed_sum/nodes.rs"]
mod nodes;

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use flyswarm::protocol::all_reduce::CHUNK;
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::pairwise::{Mask, Masks};
use flyswarm::protocol::sum_id::SumId;
use flyswarm::session::Peer;
use flyswarm_sealed_sum::crypto::mask::{Sign, Word};

/// The program uses this allocator. The bare transfer uses it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 8;
const MIB: usize = 1 << 20;
/// Goals of the project.
const MOST_TIME: f64 = 1.8;
const MOST_MEMORY: f64 = 4.0;

/// Wall and CPU seconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall: f64,
    cpu: f64,
}

/// CPU seconds of this process so far: user and system time, in ticks of 10 ms. `None` if the system does not
/// report them.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// The masks that one node applies to the vector: one mask for each of its seven partners. Three of the eight
/// nodes also apply a pad.
fn masks(pad: bool) -> Masks {
    let sum = SumId { ballot: Ballot { counter: 1, proposer: Peer(0) }, slot: 1 };
    let mask = |key: u8, sign| Mask::new(Arc::new([key; 32].into()), "mask", sum, sign);
    let partners = (1..8).map(|i| mask(i, if i < 4 { Sign::Add } else { Sign::Subtract }));
    let pad = pad.then(|| mask(9, Sign::Add));
    Masks { word: Word::W32, masks: partners.chain(pad).collect() }
}

/// CPU seconds on one core: to mask at all eight nodes, and to open.
fn masking(bytes: usize) -> (f64, f64) {
    let mut chunk = vec![1; CHUNK];
    let mut time = |masks: &Masks| {
        let begin = Instant::now();
        for offset in (0..bytes).step_by(CHUNK) {
            masks.apply(&mut chunk, offset as u64);
        }
        begin.elapsed().as_secs_f64()
    };
    let (with, without) = (time(&masks(true)), time(&masks(false)));
    let mut three = masks(false);
    three.masks.truncate(3);
    (3.0 * with + 5.0 * without, 8.0 * time(&three))
}

fn time(bytes: usize, repetitions: usize, out: &mut impl Write) -> std::io::Result<()> {
    let (mut bare, mut summed, mut opened) = (Vec::new(), Vec::new(), Vec::new());
    let mut stages = Vec::new();
    for _ in 0..repetitions {
        bare.push(bare::run(bytes));
        let run = nodes::run(bytes);
        summed.push(run.summed);
        opened.push(run.opened);
        stages.push((run.accepted, run.released));
    }
    let (masking, opening) = masking(bytes);
    let wall = |costs: &[Cost]| median(costs.iter().map(|cost| cost.wall).collect());
    let cpu = |costs: &[Cost]| median(costs.iter().map(|cost| cost.cpu).collect());
    let ratio = |costs: &[Cost], of: fn(&Cost) -> f64| {
        median(costs.iter().zip(&bare).map(|(cost, bare)| of(cost) / of(bare)).collect())
    };
    writeln!(out, "\nvector of {} MiB, {repetitions} repetitions, medians", bytes / MIB)?;
    writeln!(
        out,
        "  {:<34}{:>9}{:>9}{:>12}{:>11}{:>9}",
        "", "wall s", "CPU s", "wall/bare", "CPU/bare", "target"
    )?;
    writeln!(out, "  {:<34}{:>9.3}{:>9.2}", "bare substreams", wall(&bare), cpu(&bare))?;
    for (name, costs) in
        [("sealed sum, summed everywhere", &summed), ("sealed sum, opened and on disk", &opened)]
    {
        writeln!(
            out,
            "  {name:<34}{:>9.3}{:>9.2}{:>12.2}{:>11.2}{:>9}",
            wall(costs),
            cpu(costs),
            ratio(costs, |cost| cost.wall),
            ratio(costs, |cost| cost.cpu),
            format!("<= {MOST_TIME}")
        )?;
    }
    let accepted = median(stages.iter().map(|(accepted, _)| *accepted).collect());
    let released = median(stages.iter().map(|(_, released)| *released).collect());
    writeln!(
        out,
        "  of which, wall: accept (total to disk) {accepted:.3} s, release {released:.3} s, open and commit {:.3} s",
        wall(&opened) - wall(&summed) - accepted - released
    )?;
    let share = |part: f64, costs: &[Cost]| 100.0 * part / cpu(costs);
    writeln!(
        out,
        "  masking alone: {masking:.3} CPU s for all nodes ({:.1} GB/s of keystream), {:.0} % of the summing's CPU time;\n  \
         taking the pads off: {opening:.3} CPU s, together {:.0} % of the whole",
        (7 * 8 + 3) as f64 * bytes as f64 / masking / 1e9,
        share(masking, &summed),
        share(masking + opening, &opened),
    )?;
    let all =
        |costs: &[Cost]| costs.iter().map(|cost| format!("{:.2}", cost.wall)).collect::<Vec<_>>().join(" ");
    writeln!(out, "  every wall time: bare {}, summed {}, opened {}", all(&bare), all(&summed), all(&opened))
}

fn memory(bytes: usize, out: &mut impl Write) -> std::io::Result<()> {
    let peaks = nodes::memory(bytes);
    let worst = peaks.iter().copied().max().unwrap_or(0);
    let list: Vec<_> = peaks.iter().map(|peak| format!("{}", peak / MIB)).collect();
    writeln!(
        out,
        "\npeak memory of a node, vector of {} MiB: at most {} MiB = {:.2} times the vector (target <= {MOST_MEMORY}); \
         all nodes: {} MiB",
        bytes / MIB,
        worst / MIB,
        worst as f64 / bytes as f64,
        list.join(" ")
    )
}

fn main() -> std::io::Result<()> {
    // `cargo bench` passes `--bench`. `cargo test --benches` does not pass it; it only checks that the bench
    // runs.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, index, bytes] = &arguments[..]
        && flag == "--node"
    {
        nodes::child(index.parse().expect("an index"), bytes.parse().expect("a length"));
        return Ok(());
    }
    if let [flag, mib] = &arguments[..]
        && flag == "--bare"
    {
        let bytes = mib.parse::<usize>().expect("a number") * MIB;
        let gigabytes = (2 * (NODES - 1) * bytes) as f64 / 1e9;
        println!("{:.3}", median((0..3).map(|_| bare::run(bytes).cpu / gigabytes).collect()));
        return Ok(());
    }
    let bench = std::env::args().any(|argument| argument == "--bench");
    let repetitions = arguments.iter().find_map(|argument| argument.parse().ok());
    let mut out = std::io::stdout();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    writeln!(out, "{NODES} nodes, {cores} cores, state in {}", std::env::temp_dir().display())?;
    if bench {
        time(8 * MIB, repetitions.unwrap_or(9), &mut out)?;
        time(64 * MIB, repetitions.unwrap_or(5), &mut out)?;
        memory(64 * MIB, &mut out)
    } else {
        time(MIB, 1, &mut out)
    }
}
