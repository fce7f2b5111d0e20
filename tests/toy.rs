//! A task outside this crate that uses only the public API. It runs in the simulator, where a peer crashes,
//! and over libp2p. Its sum must be exactly the sum of the plain vectors. With more rounds, the test measures
//! the time of a round.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm::Identity;
use flyswarm::protocol::context::Aggregate;
use flyswarm::session::{Peer, Session};
use flyswarm::sim::participants::Participants;
use flyswarm::sim::run::play;
use flyswarm::sim::scenario::{File, Network, Rates, Scenario};
use flyswarm::tasks::{History, Outcome, Task, Work};
use sha2::{Digest, Sha256};

use super::front_door::{finish, join};

const PEERS: u16 = 5;
const BINS: usize = 4;

/// A task that counts the readings of all peers in each of four ranges, in one round or several. Every peer
/// has its own readings.
#[derive(Debug)]
struct Histogram {
    readings: Vec<u32>,
    rounds: u32,
}

impl Task for Histogram {
    fn plan(&self) -> Vec<Aggregate> {
        let bins = |_| Aggregate::exact("bins", 4, BINS as u64, "bins", "readings in each bin");
        std::iter::once(Aggregate::coin()).chain((0..self.rounds).map(bins)).collect()
    }

    fn contribution(&self, _slot: u32, _: &History) -> Result<Bytes, String> {
        let bin = |bin: u32| self.readings.iter().filter(|&&reading| reading / 25 == bin).count() as u32;
        Ok((0..BINS as u32).flat_map(|each| bin(each).to_le_bytes()).collect())
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let bins = history.vector(self.rounds).ok_or("the bins are not open")?;
        Ok(Outcome::new(bins.to_vec(), Sha256::digest(bins).into()))
    }

    fn work(&self, _slot: u32, _: &History) -> Work {
        Work { lift: self.readings.len() as f64, ..Work::default() }
    }
}

/// Returns the readings of a peer, from 0 to 99. Some peers have more readings than others.
fn readings(peer: Peer) -> Vec<u32> {
    (0..50 + 10 * u32::from(peer.0)).map(|i| (37 * i + 11 * u32::from(peer.0)) % 100).collect()
}

fn task(peer: Peer, rounds: u32) -> Arc<dyn Task> {
    Arc::new(Histogram { readings: readings(peer), rounds })
}

/// Counts the readings of these peers in one place, and returns the bins.
fn plain(members: &[Peer]) -> Vec<u8> {
    let mut bins = [0u32; BINS];
    members.iter().flat_map(|&peer| readings(peer)).for_each(|reading| bins[reading as usize / 25] += 1);
    bins.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn identities(peers: u16) -> Vec<Identity> {
    let mut identities: Vec<_> = (1..=peers as u8).map(|i| Identity::from_seed([i; 32])).collect();
    identities.sort_by_key(Identity::public);
    identities
}

fn session(peers: u16) -> Session {
    let mut text = format!(
        "name = \"toy\"\nrun_id = \"00112233445566778899aabbccddeeff\"\ncreated = 2026-11-22T12:00:00Z\ntask = \"custom\"\nmin_peers = {}\n[data]\nfeatures = 1\n[custom]\nname = \"histogram\"\n",
        (peers - 1).max(3)
    );
    for (i, identity) in identities(peers).iter().enumerate() {
        text += &format!("[[roster]]\nname = \"node-{i}\"\npeer_id = \"{}\"\n", identity.public());
    }
    Session::parse(&text).unwrap()
}

#[test]
fn a_task_from_outside_gives_the_plain_sum_in_the_simulator_where_a_peer_crashes_and_returns() {
    for stage in ["compute", "sum", "release"] {
        let fault = format!("kind = \"crash\", peers = 2, at = {{ slot = \"bins\", stage = \"{stage}\" }}");
        let text =
            format!("peers = {PEERS}\nfault = [{{ {fault}, for_s = 3 }}]\n[network]\nlatency_ms = 20\n");
        let file = File::parse(&text, "toy".into(), "".into(), false).unwrap();
        let participants =
            Participants::with_tasks(session(PEERS), identities(PEERS), |peer| Ok(task(peer, 1))).unwrap();
        let swarm = play(&file.runs[0].1, participants).unwrap();
        assert_eq!(swarm.checks.violations, [], "{stage}");
        assert_eq!(swarm.marks.len(), 2, "{stage}: the peer crashes and returns");
        assert_eq!(swarm.finished.len(), usize::from(PEERS), "{stage}");
        for (&peer, finished) in &swarm.finished {
            let outcome = swarm.outcome(peer).unwrap().unwrap();
            assert_eq!(outcome.file, plain(finished.history.members(1)), "{stage}, {peer}");
        }
    }
}

/// Returns how many links the messages of a round pass one after another, measured in the simulator. The
/// peers compute in zero time, and each link takes 50 ms.
fn links_a_round(peers: u16) -> f64 {
    const ROUNDS: u32 = 6;
    const LINK_MS: u32 = 50;
    let network =
        Network { latency_ms: LINK_MS.into(), jitter_ms: 0.0, bandwidth_mbit: 1e6, ..Network::default() };
    let (most, free) = (1e15, Rates::default());
    let rates = Rates { mask: most, add: most, verify: most, agree: most, message: most, ..free };
    let scenario = Scenario { peers, network, rates, ..Scenario::default() };
    let identities = identities(peers);
    let participants =
        Participants::with_tasks(session(peers), identities, |peer| Ok(task(peer, ROUNDS))).unwrap();
    let swarm = play(&scenario, participants).unwrap();
    assert_eq!(swarm.checks.violations, [], "{peers} peers");
    let spans = swarm.tally.spans(Peer(0));
    let begins = |slot| spans.iter().find(|span| span.slot == slot && span.stage.is_some()).unwrap().from;
    let us = begins(ROUNDS) - begins(2);
    us as f64 / 1000.0 / f64::from(ROUNDS - 2) / f64::from(LINK_MS)
}

#[test]
fn a_round_takes_three_times_up_and_down_the_tree_and_the_way_of_the_vector() {
    for (peers, depth) in [(3, 1), (5, 2), (15, 3), (31, 4)] {
        let links = links_a_round(peers);
        let (orders, vector) = (f64::from(3 * 2 * depth), f64::from(2 * depth));
        assert!(links <= orders + vector + 0.1, "{peers} peers: {links} links, the depth is {depth}");
    }
}

#[test]
fn participants_that_are_not_those_of_the_roster_or_the_scenario_are_refused() {
    let with = |peers| Participants::with_tasks(session(PEERS), identities(peers), |peer| Ok(task(peer, 1)));
    let error = with(PEERS + 1).unwrap_err().0;
    assert_eq!(error, "the identities are not those of the session's roster");
    let scenario = Scenario { peers: PEERS + 1, ..Scenario::default() };
    let error = play(&scenario, with(PEERS).unwrap()).unwrap_err().0;
    assert_eq!(error, "peers is 6, the session has 5");
}

#[test]
fn a_task_from_outside_gives_the_plain_sum_over_libp2p() {
    let folder = tempfile::tempdir().unwrap();
    let builders = (0..PEERS).map(Peer).zip(identities(PEERS)).map(|(me, identity)| {
        flyswarm::Peer::builder(session(PEERS), identity)
            .task(task(me, 1))
            .state_dir(folder.path().join(me.0.to_string()))
    });
    for finished in finish(join(builders)) {
        let members = &finished.receipt.aggregates[1].members;
        assert!(members.len() >= usize::from(PEERS) - 1, "{members:?}");
        let session = session(PEERS);
        let members: Vec<_> =
            session.peers().filter(|&peer| members.iter().any(|name| name == session.name(peer))).collect();
        assert_eq!(finished.outcome.unwrap().file, plain(&members));
    }
}
