//! Tests the same transport over QUIC. The layers above the connection must not notice a difference.

use std::time::{Duration, Instant};

use crate::net::{Channel, Command, Event};
use bytes::Bytes;

use super::node::{Node, QUIC, config, config_on, frame, ordered, pair_on, peer};
use super::{KIB, MIB, exchange, leave, until};

#[test]
fn two_nodes_exchange_frames_both_ways_in_order_on_both_channels_over_quic() {
    let (mut a, mut b) = pair_on(QUIC, 101, 102);
    assert!(a.address.to_string().contains("/quic-v1"), "{}", a.address);
    exchange(&mut a, &mut b);
}

#[test]
fn a_peer_that_leaves_is_lost_after_its_last_frame_over_quic() {
    let (a, b) = pair_on(QUIC, 103, 104);
    leave(a, b);
}

#[test]
fn a_receiver_that_does_not_read_bounds_what_its_peer_can_send_over_quic() {
    let (a, mut b) = pair_on(QUIC, 105, 106);
    let piece = Bytes::from(vec![1; 256 * KIB]);
    let to = b.peer;
    let sent = || a.network().bytes_sent(&to, Channel::Bulk) as usize;
    let (mut idle, mut last) = (Instant::now(), 0);
    while idle.elapsed() < Duration::from_secs(1) {
        while a.network().queued(&b.peer, Channel::Bulk) < 8 * MIB {
            a.send(b.peer, Channel::Bulk, frame(b"", piece.clone()));
        }
        if sent() != last {
            (last, idle) = (sent(), Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // These bytes may be sent: 4 MiB of frames, 10 MB of window, the data that the sender's QUIC keeps until
    // it is acknowledged, and one frame at each end.
    assert!(last <= 21 * MIB, "{last} bytes went to a receiver that does not read");
    a.send(b.peer, Channel::Control, frame(b"still here", Bytes::new()));
    until("control frame", || b.network().bytes_received(&a.peer, Channel::Control) > 0);
    while b.wait_frame().1 == Channel::Bulk {}
    until("bulk goes on", || sent() > last);
}

#[test]
fn another_identity_at_a_known_quic_address_is_refused_at_both_ends() {
    let mut other = Node::start(config_on(QUIC, 107, &[107]));
    let (small, large) = ordered(108, 109);
    let mut a = Node::start(config_on(QUIC, small, &[108, 109]));
    a.network().send(Command::AddAddress(peer(large), other.address.clone())).expect("taken");
    let stranger = |node: &mut Node| {
        node.wait("Stranger", |event| match event {
            Event::Stranger { peer, .. } => Some(*peer),
            Event::PeerUp { .. } => panic!("a stranger got in"),
            _ => None,
        })
    };
    assert_eq!(stranger(&mut a), other.peer);
    assert_eq!(stranger(&mut other), a.peer);
}

#[test]
fn of_two_addresses_of_a_peer_the_one_that_works_is_used() {
    let (small, large) = ordered(110, 111);
    // This node listens only on TCP, but still reaches another node over QUIC.
    let mut a = Node::start(config(small, &[110, 111]));
    let mut b = Node::start(config_on(QUIC, large, &[110, 111]));
    // No program listens on this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    let nowhere = format!("/ip4/127.0.0.1/tcp/{}", free.port()).parse().expect("an address");
    a.network().send(Command::AddAddress(b.peer, nowhere)).expect("taken");
    a.knows(&b);
    a.wait_up(b.peer);
    b.wait_up(a.peer);
    exchange(&mut a, &mut b);
}
