//! A task of your own: `cargo run --example own_task`.
//!
//! It counts how many readings of all peers lie in each of four ranges. No peer sees the counts of another
//! peer. CONTRIBUTING.md describes how to add such a task to the command line.

use std::error::Error;
use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use flyswarm::session::TaskSpec;
use flyswarm::tasks::CustomSpec;
use flyswarm::tasks::{Aggregate, History, Outcome, Task, Work};
use flyswarm::{Identity, Peer, Session};
use futures::executor::block_on;
use futures::future::try_join_all;
use sha2::{Digest, Sha256};

const BINS: u32 = 4;

#[derive(Debug)]
struct Histogram {
    readings: Vec<u32>,
}

impl Task for Histogram {
    /// First comes a random number that no peer can choose. The sums follow: here, one sum of 4 words of 4
    /// bytes. The last two texts appear in every receipt and report.
    fn plan(&self) -> Vec<Aggregate> {
        let reveals = "how many readings of all peers lie in each range";
        vec![Aggregate::coin(), Aggregate::exact("bins", 4, BINS.into(), "readings by range", reveals)]
    }

    fn contribution(&self, _slot: u32, _: &History) -> Result<Bytes, String> {
        let bin = |bin: u32| self.readings.iter().filter(|&&reading| reading / 25 == bin).count() as u32;
        Ok((0..BINS).flat_map(|each| bin(each).to_le_bytes()).collect())
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let bins = history.vector(1).ok_or("the bins are not open")?;
        Ok(Outcome::new(bins.to_vec(), Sha256::digest(bins).into()))
    }

    fn work(&self, _slot: u32, _: &History) -> Work {
        Work::default()
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let task = TaskSpec::from(CustomSpec { name: "histogram".into(), bytes: Vec::new() });
    let mut session = Session::builder("readings", task).features(1);
    let mut peers = Vec::new();
    for i in 1..=3u8 {
        let identity = Identity::from_seed([i; 32]);
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("/ip4/127.0.0.1/tcp/{port}");
        session = session.peer_at(format!("meter-{i}"), identity.public(), [&address]);
        peers.push((identity, address, Histogram { readings: vec![10 * u32::from(i), 30, 80] }));
    }
    let session = session.build()?;

    let run = async |(identity, address, task): (Identity, String, Histogram)| {
        let state = folder.path().join(identity.public().to_string());
        let builder = Peer::builder(session.clone(), identity).task(Arc::new(task)).state_dir(state);
        let peer = builder.listen(address.parse()?).mdns(false).join().await?;
        peer.result().await.map_err(Box::<dyn Error>::from)
    };
    for finished in block_on(try_join_all(peers.into_iter().map(run)))? {
        let file = finished.outcome.ok_or("no outcome")?.file;
        let bins: Vec<u32> = file.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        println!("{bins:?}");
        // Each of the three peers has readings 30 and 80. The three peers also have 10, 20 and 30.
        assert_eq!(bins, [2, 4, 0, 3]);
    }
    Ok(())
}
