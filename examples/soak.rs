//! Runs one session after another in one process, and prints which resources they leave in use: memory, open
//! files, threads, disk.
//!
//! ```sh
//! soak [--sessions 1000] [--nodes 3] [--bytes 65536]
//! ```
//!
//! Write `cargo run --example soak --` instead of `soak`. Every session sums one vector over libp2p on the
//! loopback device. Each session has new nodes, so that sessions share only the process. Every node compares
//! the sum with the sum of the plain vectors. The state of the nodes is kept, as on a machine that takes part
//! in many sessions. The program prints a line after each tenth of the sessions.

#![allow(clippy::disallowed_methods)] // it looks at the clock

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use flyswarm::protocol::context::Aggregate;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::{History, Outcome, Task, Work};
use flyswarm_sealed_sum::crypto::identity::Identity;
use futures::executor::block_on;

type Failure = Box<dyn Error + Send + Sync>;

/// A task that sums one vector. The vector of a peer repeats the number of the peer.
#[derive(Debug)]
struct Once {
    me: Peer,
    words: u64,
}

impl Task for Once {
    fn plan(&self) -> Vec<Aggregate> {
        vec![Aggregate::coin(), Aggregate::exact("once", 4, self.words, "a vector", "the sum of the vectors")]
    }

    fn contribution(&self, _: u32, _: &History) -> Result<Bytes, String> {
        Ok((u32::from(self.me.0) + 1).to_le_bytes().repeat(self.words as usize).into())
    }

    fn outcome(&self, history: &History, _: u64) -> Result<Outcome, String> {
        let plain: u32 = history.members(1).iter().map(|peer| u32::from(peer.0) + 1).sum();
        let sum = history.vector(1).ok_or("the sum is not open")?;
        let equal = sum.as_chunks::<4>().0.iter().all(|word| *word == plain.to_le_bytes());
        let outcome = || Outcome::new(sum.to_vec(), [0; 32]);
        equal.then(outcome).ok_or_else(|| "the sum is not the plain one".into())
    }

    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
}

fn main() -> Result<(), Failure> {
    let (mut sessions, mut nodes, mut bytes) = (1000, 3, 65_536);
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value: u64 = words.next().ok_or("every option has a value")?.parse()?;
        match &*name {
            "--sessions" => sessions = value.max(1),
            "--nodes" => nodes = value.clamp(3, 15) as u8,
            "--bytes" => bytes = value,
            _ => return Err(format!("no option {name}").into()),
        }
    }
    let mut identities: Vec<_> = (1..=nodes).map(|i| Identity::from_seed([i; 32])).collect();
    identities.sort_by_key(Identity::public);
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    println!("{nodes} nodes, vectors of {bytes} bytes");
    println!("sessions  seconds  memory kB  open files  threads  disk kB");
    for number in 0..=sessions {
        if number <= 1 || number % (sessions / 10).max(1) == 0 {
            let (files, threads) = (count("/proc/self/fd")?, count("/proc/self/task")?);
            let (seconds, disk) = (begun.elapsed().as_secs_f64(), size(folder.path())? / 1000);
            println!("{number:8}  {seconds:7.1}  {:9}  {files:10}  {threads:7}  {disk:7}", memory()?);
        }
        if number < sessions {
            session(&identities, number, bytes / 4, folder.path())
                .map_err(|error| format!("session {number}: {error}"))?;
        }
    }
    Ok(())
}

/// Runs one session of all nodes.
fn session(identities: &[Identity], number: u64, words: u64, folder: &Path) -> Result<(), Failure> {
    let mut text = format!(
        "name = \"soak-{number}\"\nrun_id = \"{number:032x}\"\ncreated = 2026-11-22T12:00:00Z\ntask = \"custom\"\n\
         [data]\nfeatures = 1\n[custom]\nname = \"soak\"\nbytes = \"00\"\n"
    );
    for (i, identity) in identities.iter().enumerate() {
        text += &format!("[[roster]]\nname = \"n{i}\"\npeer_id = \"{}\"\n", identity.public());
    }
    let session = Session::parse(&text)?;
    let mut peers = Vec::new();
    for (identity, me) in identities.iter().zip(session.peers()) {
        let builder = flyswarm::Peer::builder(session.clone(), identity.clone())
            .task(Arc::new(Once { me, words }))
            .state_dir(folder.join(me.0.to_string()))
            .mdns(false)
            .listen("/ip4/127.0.0.1/tcp/0".parse()?);
        peers.push(block_on(builder.join())?);
    }
    let handles: Vec<_> = peers.iter().map(flyswarm::Peer::handle).collect();
    let handles = &handles;
    std::thread::scope(|scope| {
        for peer in &peers {
            let (events, id) = (peer.events(), peer.id());
            scope.spawn(move || {
                for timed in futures::executor::block_on_stream(events) {
                    if let flyswarm::peer::Event::Listening { address } = timed.event {
                        handles.iter().for_each(|handle| handle.add_address(&id, address.clone()));
                    }
                }
            });
        }
        let results: Vec<_> =
            peers.into_iter().map(|peer| scope.spawn(move || block_on(peer.result()).map(drop))).collect();
        for result in results {
            result.join().map_err(|_| "a node has panicked")??;
        }
        Ok(())
    })
}

/// Returns the memory of this process, in kB.
fn memory() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no memory")?;
    Ok(line.split_whitespace().next().ok_or("no memory")?.parse()?)
}

fn count(folder: &str) -> std::io::Result<usize> {
    Ok(std::fs::read_dir(folder)?.count())
}

/// Returns how many bytes all files under a folder have.
fn size(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}
