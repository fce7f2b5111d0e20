//! A relay that gets a flood of requests from one of its own peers, and from nodes outside its sessions.

use std::fs;
use std::time::Duration;

use flyswarm::Identity;
use flyswarm::net::Multiaddr;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{PeerId, StreamProtocol, Swarm, SwarmBuilder, noise, tcp, yamux};

use super::relay::Place;
use super::swarm::{Swarm as Session, random};

/// The request for a place at a relay, and its protocol (circuit relay v2).
const RESERVE: [u8; 3] = [2, 8, 0];
const HOP: StreamProtocol = StreamProtocol::new("/libp2p/circuit/relay/0.2.0/hop");

/// Number of requests before memory is first measured, and number of requests after that.
const FIRST: usize = 3_000;
const MORE: usize = 20_000;
const STRANGERS: usize = 200;
/// The memory of the relay may grow by at most this during the later requests. A relay that kept each request
/// would need some hundred bytes for each.
const GROWTH: u64 = 6 << 20;

fn swarm(identity: &Identity) -> Swarm<libp2p_stream::Behaviour> {
    let mut seed = identity.seed();
    let key = Keypair::ed25519_from_bytes(seed.as_mut_slice()).expect("a key");
    SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
        .expect("a transport")
        .with_behaviour(|_| libp2p_stream::Behaviour::new())
        .expect("a behaviour")
        .build()
}

/// Requests a place `times` times on one connection. Returns the number of answers.
async fn ask(control: &mut libp2p_stream::Control, relay: PeerId, times: usize) -> usize {
    let mut answered = 0;
    for _ in 0..times {
        let Ok(mut stream) = control.open_stream(relay, HOP).await else { continue };
        let mut answer = [0; 1];
        if stream.write_all(&RESERVE).await.is_ok() && stream.read_exact(&mut answer).await.is_ok() {
            answered += 1;
        }
    }
    answered
}

/// Returns the memory of a process, in bytes.
fn memory(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kib.expect("a number") << 10
}

#[test]
fn a_flood_of_requests_and_of_strangers_costs_a_relay_no_memory() {
    let place = Place::new();
    let session = Session::new(3, |session| session.relays = vec![place.address()]);
    let mut relay = place.start(&session, &[]);
    let address: Multiaddr = place.listen().parse().expect("an address");
    let (process, at) = (relay.id(), place.peer());
    let dial = || DialOpts::peer_id(at).addresses(vec![address.clone()]).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (before, after, answered) = runtime.block_on(async {
        let mut peer = swarm(&session.keys[0]);
        peer.dial(dial()).expect("dialled");
        let mut control = peer.behaviour().new_control();
        tokio::spawn(async move { while peer.next().await.is_some() {} });
        while control.open_stream(at, HOP).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut answered = ask(&mut control, at, FIRST).await;
        let before = memory(process);
        answered += ask(&mut control, at, MORE).await;
        for _ in 0..STRANGERS {
            let mut stranger = swarm(&Identity::from_seed(random()));
            stranger.dial(dial()).expect("dialled");
            let mut control = stranger.behaviour().new_control();
            let served = ask(&mut control, at, 1);
            let ended = async { while stranger.next().await.is_some() {} };
            tokio::select! {
                served = served => assert_eq!(served, 0, "a stranger is served"),
                () = ended => {}
            }
        }
        (before, memory(process), answered)
    });
    println!("{answered} of {} requests answered; {before} and {after} bytes", FIRST + MORE);
    assert!(answered > (FIRST + MORE) / 2, "{answered} requests were answered");
    assert!(after < before + GROWTH, "it grew from {before} to {after} bytes");
    assert!(relay.events("denied").len() > MORE / 2, "beyond its rate a peer is refused");
}
