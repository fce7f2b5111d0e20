//! A task of one's own with many rounds, over libp2p on this machine:
//! `cargo run --release --example rounds -- NODES ROUNDS BYTES`.
//!
//! Every round sums one vector, and needs the sum of the round before and no other ([`Task::retains`]).
//! Prints the time of a round, the memory of this process (all nodes) after a tenth of the rounds and at the
//! end, and what the nodes hold on disk then.

#![allow(clippy::disallowed_methods)] // it looks at the clock

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use bytes::Bytes;
use flyswarm::crypto::identity::Identity;
use flyswarm::net::driver::{self, NodeConfig, Report};
use flyswarm::node::Event;
use flyswarm::protocol::context::{Context, Quantity};
use flyswarm::session::{
    ColumnChecks, CouncilSpec, CustomSpec, DataSpec, Entry, Peer, Privacy, Run, Scaling, Session, TaskSpec,
    Timing,
};
use flyswarm::task::{History, Outcome, Task, Work};

/// Adds one to every word of the sum before.
#[derive(Debug)]
struct Rounds {
    rounds: u32,
    words: u64,
}

impl Task for Rounds {
    fn plan(&self) -> Vec<Quantity> {
        let round = |_| Quantity::exact("round", 4, self.words);
        std::iter::once(Quantity::coin()).chain((0..self.rounds).map(round)).collect()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let before = history.vector(slot - 1).ok_or("the round before is gone")?;
        let (words, _) = before.as_chunks::<4>();
        let first = if slot == 1 { 0 } else { words.first().map_or(0, |&word| u32::from_le_bytes(word)) };
        Ok(first.wrapping_add(1).to_le_bytes().repeat(self.words as usize).into())
    }

    fn allows(&self, _: u32, _: &History, _: &[Peer]) -> Result<(), String> {
        Ok(())
    }

    fn check(&self, _: u32, _: &History) -> Result<(), String> {
        Ok(())
    }

    fn retains(&self, slot: u32, frozen: u32) -> bool {
        slot + 1 >= frozen
    }

    fn outcome(&self, history: &History, _: u64) -> Result<Outcome, String> {
        let last = history.vector(self.rounds).ok_or("the last round is not open")?;
        Ok(Outcome::new(last[..4].to_vec(), [0; 32]))
    }

    fn work(&self, _: u32, _: &History) -> Work {
        Work { lift: self.words as f64, ..Work::default() }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |usual: u64| numbers.next().unwrap_or(Ok(usual));
    let (nodes, rounds, bytes) = (next(5)? as usize, next(100)? as u32, next(1 << 20)?);
    let identities: Vec<_> = (0..nodes).map(|i| Identity::from_seed([i as u8 + 1; 32])).collect();
    let entry = |(i, identity): (usize, &Identity)| Entry {
        key: identity.public(),
        name: format!("n{i}"),
        addresses: Vec::new(),
    };
    let session = Session {
        name: "rounds".into(),
        run: Run::new([7; 16], 1_000_000_000),
        task: TaskSpec::Custom(CustomSpec { name: "rounds".into(), bytes: rounds.to_le_bytes().to_vec() }),
        min_peers: nodes as u16,
        data: DataSpec {
            features: 1,
            columns: Vec::new(),
            classes: Vec::new(),
            scaling: Scaling::None,
            densify: false,
            checks: ColumnChecks::default(),
        },
        privacy: Privacy::default(),
        voting: CouncilSpec::default(),
        timing: Timing { gather_ms: 60_000, linger_ms: 60_000, ..Timing::default() },
        roster: identities.iter().enumerate().map(entry).collect(),
    }
    .check()?;
    let folder = tempfile::tempdir()?;
    let (sender, news) = mpsc::channel();
    let mut threads = Vec::new();
    for (i, identity) in identities.into_iter().enumerate() {
        let (sender, session) = (sender.clone(), session.clone());
        let state = folder.path().join(i.to_string());
        threads.push(std::thread::spawn(move || {
            let (id, me) = (driver::peer_id(&identity.public()), session.peer(&identity.public()));
            let me = me.expect("in the roster");
            let task = Arc::new(Rounds { rounds, words: bytes / 4 });
            let mut seed = [0; 32];
            seed[0] = i as u8;
            let config = NodeConfig {
                mark: None,
                ctx: Arc::new(Context::new(session, me, identity, task.plan())),
                task: task.clone(),
                seed,
                state,
                listen: vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")],
                mdns: false,
                network_key: None,
                hold_at: None,
                stop: Arc::new(AtomicBool::new(false)),
            };
            let mut handle = None;
            driver::run(config, &mut |report| match report {
                Report::Started(started) => handle = Some(started),
                Report::Listening(address) => {
                    let _ =
                        sender.send(News::Listening(id, address.clone(), handle.clone().expect("started")));
                }
                Report::Node(Event::Opened(value)) => {
                    let _ = sender.send(News::Opened(i, value.sum.slot, Instant::now()));
                }
                Report::Node(Event::Finished(history)) => {
                    let outcome = task.outcome(history, 0).map(|outcome| outcome.file);
                    let _ = sender.send(News::Finished(outcome));
                }
                _ => {}
            })
        }));
    }
    drop(sender);
    let (mut known, mut times, mut early, mut disk) = (Vec::new(), Vec::new(), 0, 0);
    let mut finished = 0;
    for news in news {
        match news {
            News::Listening(peer, address, handle) => {
                known.push((peer, address, handle));
                if known.len() == nodes {
                    for (_, _, handle) in &known {
                        known
                            .iter()
                            .for_each(|(peer, address, _)| handle.add_address(*peer, address.clone()));
                    }
                }
            }
            News::Opened(0, slot, at) => {
                times.push(at);
                if slot == rounds / 10 {
                    early = memory();
                }
                if slot == rounds {
                    disk = size(folder.path())?;
                }
            }
            News::Opened(..) => {}
            News::Finished(file) => {
                let expected =
                    (0..rounds).fold(0u32, |sum, _| sum.wrapping_add(1).wrapping_mul(nodes as u32));
                assert_eq!(file?, expected.to_le_bytes(), "the last sum");
                finished += 1;
            }
        }
    }
    let late = memory();
    for thread in threads {
        thread.join().map_err(|_| "a node panicked")??;
    }
    let seconds = times.last().zip(times.get(1)).map_or(0.0, |(last, first)| (*last - *first).as_secs_f64());
    println!("{finished} of {nodes} nodes finished {rounds} rounds of {bytes} bytes");
    println!("{:.1} ms a round", seconds * 1000.0 / f64::from(rounds - 1).max(1.0));
    println!("memory of all nodes: {early} kB after {} rounds, {late} kB at the end", rounds / 10);
    println!(
        "disk of a node at the end: {} kB, of that vectors {} kB",
        disk / 1000 / nodes as u64,
        bytes / 1000
    );
    Ok(())
}

enum News {
    Listening(flyswarm::net::PeerId, flyswarm::net::Multiaddr, driver::Handle),
    Opened(usize, u32, Instant),
    Finished(Result<Vec<u8>, String>),
}

/// Memory of this process now, in kB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Bytes of all files under a folder.
fn size(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // The nodes still write: a file may be gone by now.
        let Ok(about) = entry.metadata() else { continue };
        sum += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}
