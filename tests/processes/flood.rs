//! Nodes outside the roster that open connections and send nothing.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::check::same_and_exact;
use super::swarm::{NAMES, PATIENCE, Swarm};

const PEERS: usize = 3;
/// Connections per second that are opened to each node.
const RATE: u32 = 400;
/// Idle connections that are open at the same time to each node. A node accepts fewer.
const HELD: usize = 2000;

/// Opens connections to `address` until `stop` is set, for two minutes at most. Closes the oldest ones.
fn flood(address: SocketAddr, stop: Arc<AtomicBool>, opened: Arc<AtomicUsize>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut held = VecDeque::new();
        let began = Instant::now();
        for number in 0..RATE * 120 {
            if stop.load(Ordering::Acquire) {
                return;
            }
            if let Ok(connection) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                held.push_back(connection);
                opened.fetch_add(1, Ordering::AcqRel);
            }
            if held.len() > HELD {
                held.pop_front();
            }
            std::thread::sleep(
                (began + number * Duration::from_secs(1) / RATE).saturating_duration_since(Instant::now()),
            );
        }
    })
}

#[test]
fn under_400_idle_connections_a_second_to_each_node_a_session_finishes_within_20_seconds() {
    // This process needs an open file for each connection.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).expect("more open files");
    let mut swarm = Swarm::new(PEERS, |_| {});
    // The peers learn addresses only after the flood has used all connections that a node accepts.
    swarm.apart = (0..PEERS).flat_map(|i| (0..PEERS).map(move |j| (i, j))).collect();
    swarm.start_all();
    let mut addresses = vec![None; PEERS];
    swarm
        .wait_within(Duration::from_secs(30), |told| {
            if told.value["event"] == "listening" {
                addresses[told.peer] = told.value["address"].as_str().map(ToOwned::to_owned);
            }
            addresses.iter().all(Option::is_some).then_some(())
        })
        .expect("all listen");
    let addresses: Vec<String> = addresses.into_iter().flatten().collect();
    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let floods: Vec<_> = addresses
        .iter()
        .map(|address| {
            let port = address.rsplit('/').next().and_then(|port| port.parse().ok()).expect("a port");
            flood(SocketAddr::from(([127, 0, 0, 1], port)), stop.clone(), opened.clone())
        })
        .collect();
    // A node accepts fewer connections than this.
    let full = Instant::now();
    while opened.load(Ordering::Acquire) <= RATE as usize / 2 * PEERS {
        assert!(full.elapsed() < PATIENCE, "only {opened:?} connections");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = opened.load(Ordering::Acquire);

    swarm.apart.clear();
    let began = Instant::now();
    for i in 0..PEERS {
        (0..PEERS).for_each(|j| swarm.introduce(i, j, &addresses[j]));
    }
    let mut finished = [false; PEERS];
    let done = swarm.wait_within(Duration::from_secs(60), |told| {
        if told.value["event"] == "finished" {
            finished[told.peer] = true;
        }
        finished.iter().all(|finished| *finished).then_some(())
    });
    let (took, during) = (began.elapsed(), opened.load(Ordering::Acquire) - before);
    stop.store(true, Ordering::Release);
    for flood in floods {
        flood.join().expect("it ends");
    }
    println!("finished after {took:?}, {during} connections opened meanwhile");
    assert!(done.is_some() && took < Duration::from_secs(20), "{took:?}");
    for (i, name) in NAMES.iter().enumerate().take(PEERS) {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{name}");
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2]).len(), PEERS);
}
