//! Tests the answers of two nodes to probes, and a peer that asks for too much.

use std::time::Duration;

use crate::net::probe::asker;
use crate::net::{Answers, Command, Event, Multiaddr, Questions, Reach};
use futures::{AsyncReadExt, AsyncWriteExt};
use libp2p::StreamProtocol;
use libp2p::multiaddr::Protocol;

use super::node::{Node, config, ordered, pair, peer};
use super::raw::Raw;

fn probed(node: &mut Node) -> Result<Answers, String> {
    node.wait("Probed", |event| match event {
        Event::Probed { answers, .. } => Some(answers.clone()),
        _ => None,
    })
}

fn port(node: &Node) -> u16 {
    let text = node.address.to_string();
    text.rsplit('/').next().and_then(|port| port.parse().ok()).expect("a port")
}

#[test]
fn a_node_learns_of_its_peer_the_way_and_whether_it_can_be_reached() {
    let (small, large) = ordered(81, 82);
    let mut asker = Node::start(config(small, &[81, 82]));
    let mut told = config(large, &[81, 82]);
    told.about = b"whatever the caller says".as_slice().into();
    let mut asked = Node::start(told);
    asker.knows(&asked);
    asker.wait_up(asked.peer);
    asked.wait_up(asker.peer);
    let questions = Questions { bytes: 1 << 20, port: Some(port(&asker)) };
    asker.network().send(Command::Probe(asked.peer, questions)).expect("always taken");
    let answers = probed(&mut asker).expect("answers");
    assert_eq!(&answers.about[..], b"whatever the caller says");
    assert!(answers.round_trip < Duration::from_secs(1) && answers.clock_ahead.abs() < 1.0, "{answers:?}");
    assert!(answers.rates.is_some_and(|(there, back)| there > 1e5 && back > 1e5), "{answers:?}");
    assert_eq!(answers.reach, Some(Reach::Connected));
    asked.wait("WasProbed", |event| matches!(event, Event::WasProbed { .. }).then_some(()));
    // No program listens at a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    let questions = Questions { bytes: 0, port: Some(free.port()) };
    asker.network().send(Command::Probe(asked.peer, questions)).expect("always taken");
    let answers = probed(&mut asker).expect("answers");
    assert_eq!((answers.reach, answers.rates), (Some(Reach::Refused), None));
}

#[test]
fn a_probe_through_a_relay_connects_to_nobody() {
    let direct: Multiaddr = "/ip4/10.0.0.7/tcp/4001".parse().expect("an address");
    assert_eq!(asker(&direct), Some([10, 0, 0, 7].into()));
    let relayed = direct.with(Protocol::P2p(peer(81))).with(Protocol::P2pCircuit);
    assert_eq!(asker(&relayed), None);
}

#[test]
fn a_peer_that_is_not_up_is_not_asked() {
    let mut node = Node::start(config(83, &[83, 84]));
    node.network().send(Command::Probe(peer(84), Questions::default())).expect("always taken");
    assert_eq!(probed(&mut node).expect_err("nobody"), "not connected");
}

#[test]
fn answers_end_with_the_eighth_probe_of_a_connection_and_frames_go_on() {
    let (mut a, b) = pair(85, 86);
    for count in 0..9 {
        a.network().send(Command::Probe(b.peer, Questions::default())).expect("always taken");
        assert_eq!(probed(&mut a).is_ok(), count < 8, "probe {count}");
    }
    assert!(a.up.contains(&b.peer));
    a.send(b.peer, crate::net::Channel::Control, super::node::frame(b"still here", bytes::Bytes::new()));
    let mut b = b;
    assert_eq!(&b.wait_frame().2.header[..], b"still here");
}

#[test]
fn who_asks_for_too_much_loses_the_substream_and_not_the_connection() {
    let take = |count: u32| [&[1][..], &count.to_le_bytes()].concat();
    let give = |count: u32| [&[2][..], &count.to_le_bytes()].concat();
    let questions: [(&str, Vec<u8>, usize); 4] = [
        ("an unknown question", vec![9], 0),
        ("a piece above 4 MiB", take((4 << 20) + 1), 0),
        (
            "more than 16 MiB in all",
            [give(4 << 20), give(4 << 20), give(4 << 20), give(4 << 20), give(1)].concat(),
            16 << 20,
        ),
        ("more than 64 questions", vec![0; 65], 64 * 12),
    ];
    let mut victim = Node::start(config(87, &[87, 88]));
    let mut raw = Raw::dial(88, &victim);
    let _streams = raw.stand(&victim);
    victim.wait_up(peer(88));
    for (what, bytes, answered) in questions {
        let mut opener = raw.swarm.behaviour().opener();
        let to = victim.peer;
        let got = raw.drive(async {
            let mut stream =
                opener.open_stream(to, StreamProtocol::new("/flyswarm/probe/1")).await.expect("it is open");
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            let mut got = Vec::new();
            let mut buffer = vec![0; 1 << 16];
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => break got.len(),
                    Ok(count) => got.extend_from_slice(&buffer[..count]),
                }
            }
        });
        // Fewer bytes may come, because a reset can overtake answers.
        assert!(got <= answered, "{what}: {got} bytes came, {answered} are the most");
    }
    while victim.next(Duration::from_millis(100)).is_some() {}
    assert!(victim.up.contains(&peer(88)), "the connection stays open");
}
