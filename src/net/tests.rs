//! Tests of the transport between real nodes on real sockets. Misbehaving peers are built from libp2p's
//! own parts.
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting and to print rates
#![allow(missing_docs, unreachable_pub)]

mod node;
mod probe;
mod quic;
mod raw;

use std::io::Write;
use std::time::{Duration, Instant};

use crate::net::{Channel, Command, Event, MAX_FRAME, NetError, Network, NetworkKey};
use bytes::Bytes;
use libp2p::StreamProtocol;
use node::{Node, PATIENCE, config, frame, ordered, pair, peer};
use raw::Raw;
use sha2::{Digest, Sha256};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Waits for a condition that no event reports.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Both nodes send frames of many sizes on both channels. Each must receive all frames of the other, in order
/// and unchanged.
fn exchange(a: &mut Node, b: &mut Node) {
    let count = 500_u32;
    for number in 0..count {
        for channel in Channel::BOTH {
            let payload = vec![number as u8; number as usize * 7 % 9000];
            a.send(b.peer, channel, frame(&number.to_le_bytes(), payload.clone()));
            b.send(a.peer, channel, frame(&number.to_le_bytes(), payload));
        }
    }
    for node in [a, b] {
        let mut expected = [0_u32; 2];
        while expected != [count; 2] {
            let (_, channel, got) = node.wait_frame();
            let next = &mut expected[usize::from(channel == Channel::Bulk)];
            assert_eq!(got, frame(&next.to_le_bytes(), vec![*next as u8; *next as usize * 7 % 9000]));
            *next += 1;
        }
    }
}

#[test]
fn what_the_other_side_says_cannot_act_on_a_terminal() {
    let said = "closed\u{1b}[2J by\npeer\u{202e}".to_owned() + &"x".repeat(1000);
    let shown = super::events::harmless(&said);
    assert!(shown.starts_with("closed [2J by peer xxx") && shown.chars().count() == 300, "{shown:?}");
}

#[test]
fn two_nodes_exchange_frames_both_ways_in_order_on_both_channels() {
    let (mut a, mut b) = pair(1, 2);
    exchange(&mut a, &mut b);
    until("counters", || a.network().bytes_sent(&b.peer, Channel::Bulk) > 0);
    assert_eq!(
        a.network().bytes_sent(&b.peer, Channel::Bulk),
        b.network().bytes_received(&a.peer, Channel::Bulk),
        "both ends count the same bytes"
    );
}

#[test]
fn the_larger_peer_dials_where_the_smaller_has_no_address() {
    let (small, large) = ordered(3, 4);
    let mut small = Node::start(config(small, &[3, 4]));
    let mut large = Node::start(config(large, &[3, 4]));
    large.knows(&small);
    small.wait_up(large.peer);
    large.wait_up(small.peer);
}

/// Returns the memory of this process in MiB, if the system reports it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? / KIB)
}

/// Returns true if this test runs in a process of its own. Otherwise runs the test in such a process, because
/// other tests would change the memory of this one.
fn has_own_process(test: &str) -> bool {
    const ALONE: &str = "FLYSWARM_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new(program);
    let output = command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
    false
}

#[test]
fn half_a_gigabyte_flows_with_bounded_memory_and_arrives_unchanged() {
    if !has_own_process("net::tests::half_a_gigabyte_flows_with_bounded_memory_and_arrives_unchanged") {
        return;
    }
    let (mut a, mut b) = pair(5, 6);
    let (total, size, window) = (2048_u32, 256 * KIB, 8);
    let before = resident();
    let begin = Instant::now();
    let receiver = std::thread::spawn(move || {
        let mut hash = Sha256::new();
        let mut most = 0;
        for number in 0..total {
            let (from, _, got) = b.wait_frame();
            assert_eq!(got.header, number.to_le_bytes()[..]);
            // Only a part of the payload is hashed, so that the hash does not slow the test down.
            hash.update(&got.payload[..4 * KIB]);
            b.send(from, Channel::Control, frame(&number.to_le_bytes(), Bytes::new()));
            most = most.max(resident().unwrap_or(0));
        }
        (b, hash.finalize(), most)
    });
    let peer = *a.up.first().expect("connected");
    let (mut sent, mut acknowledged, mut hash) = (0, 0, Sha256::new());
    while acknowledged < total {
        while sent < total && sent < acknowledged + window {
            let mut payload = vec![sent as u8; size];
            payload[..4].copy_from_slice(&sent.to_le_bytes());
            hash.update(&payload[..4 * KIB]);
            a.send(peer, Channel::Bulk, frame(&sent.to_le_bytes(), payload));
            sent += 1;
        }
        let (_, channel, got) = a.wait_frame();
        assert_eq!((channel, &got.header[..]), (Channel::Control, &acknowledged.to_le_bytes()[..]));
        acknowledged += 1;
    }
    let rate = total as f64 * size as f64 / 1e6 / begin.elapsed().as_secs_f64();
    let (_b, received, most) = receiver.join().expect("the receiver ends well");
    assert_eq!(received, hash.finalize());
    println!("{rate:.0} MB/s, memory {before:?} -> {most} MiB");
    // At most 128 MiB of the 512 MiB that were sent may be in memory.
    assert!(before.is_none_or(|before| most < before + 128), "memory grew from {before:?} to {most} MiB");
}

#[test]
fn control_overtakes_bulk_that_waits() {
    let (a, mut b) = pair(7, 8);
    let bulk = 60;
    for _ in 0..bulk {
        a.send(b.peer, Channel::Bulk, frame(b"bulk", vec![0; 256 * KIB]));
    }
    a.send(b.peer, Channel::Control, frame(b"control", Bytes::new()));
    // b takes no frame until the control frame has arrived.
    until("control frame", || b.network().bytes_received(&a.peer, Channel::Control) > 0);
    let mut before = 0;
    while b.wait_frame().1 == Channel::Bulk {
        before += 1;
    }
    assert!(before <= 17, "{before} of {bulk} bulk frames came before the control frame");
    for _ in before..bulk {
        assert_eq!(b.wait_frame().1, Channel::Bulk);
    }
}

#[test]
fn a_receiver_that_does_not_read_bounds_what_its_peer_can_send() {
    let (mut a, mut b) = pair(9, 10);
    let piece = Bytes::from(vec![1; 256 * KIB]);
    let sent = |node: &Node, to| node.network().bytes_sent(&to, Channel::Bulk) as usize;
    let mut idle = Instant::now();
    let mut last = 0;
    while idle.elapsed() < Duration::from_secs(1) {
        while a.network().queued(&b.peer, Channel::Bulk) < 8 * MIB {
            a.send(b.peer, Channel::Bulk, frame(b"", piece.clone()));
        }
        if sent(&a, b.peer) != last {
            (last, idle) = (sent(&a, b.peer), Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // These bytes may be sent: 4 MiB of frames, 16 MiB of window with its minimum of 256 KiB, and one frame
    // at each end.
    assert!(last <= 21 * MIB, "{last} bytes went to a receiver that does not read");
    let received = b.network().bytes_received(&a.peer, Channel::Bulk) as usize;
    assert!(received <= 4 * MIB + 256 * KIB + 64, "{received} bytes were read for a caller that takes none");
    println!("stopped after {last} bytes, {received} read");

    // The connection is still alive: pings and control frames continue, and bulk frames continue when they
    // are taken.
    a.send(b.peer, Channel::Control, frame(b"still here", Bytes::new()));
    until("control frame", || b.network().bytes_received(&a.peer, Channel::Control) > 0);
    while b.wait_frame().1 == Channel::Bulk {}
    until("bulk goes on", || sent(&a, b.peer) > last);

    for _ in 0..65 {
        a.send(b.peer, Channel::Bulk, frame(b"", piece.clone()));
        a.send(b.peer, Channel::Bulk, frame(b"", piece.clone()));
    }
    let reason = a.wait_lost(b.peer);
    assert!(reason.contains("the limit is 16777216"), "{reason}");
    b.wait_lost(a.peer);
}

#[test]
fn a_stranger_is_refused_before_any_stream_opens_and_reported_once() {
    let mut victim = Node::start(config(11, &[11, 12]));
    for _ in 0..3 {
        let mut stranger = Raw::dial(13, &victim);
        assert!(!stranger.can_open(&victim));
    }
    let who = victim.wait("Stranger", |event| match event {
        Event::Stranger { peer, .. } => Some(*peer),
        Event::PeerUp { .. } | Event::Frame { .. } => panic!("a stranger got in: {event:?}"),
        _ => None,
    });
    assert_eq!(who, peer(13));
    assert!(victim.next(Duration::from_millis(300)).is_none(), "one line per minute");
}

#[test]
fn another_identity_at_a_known_address_is_refused_and_the_right_address_still_found() {
    let mut other = Node::start(config(16, &[16]));
    let (small, large) = ordered(14, 15);
    let mut a = Node::start(config(small, &[14, 15]));
    a.network().send(Command::AddAddress(peer(large), other.address.clone())).expect("taken");
    let who = a.wait("Stranger", |event| match event {
        Event::Stranger { peer, .. } => Some(*peer),
        _ => None,
    });
    assert_eq!(who, other.peer);
    let mut b = Node::start(config(large, &[14, 15]));
    a.knows(&b);
    a.wait_up(b.peer);
    b.wait_up(a.peer);
    // On the side that was dialled, Noise shows the identity of the dialler, which is a stranger there.
    other.wait("Stranger", |event| {
        matches!(event, Event::Stranger { peer, .. } if *peer == a.peer).then_some(())
    });
}

#[test]
fn a_peer_that_breaks_the_frame_format_is_reported_and_cut_and_the_others_are_served() {
    let roster = [20, 21, 22];
    let mut victim = Node::start(config(20, &roster));
    let mut honest = Node::start(config(21, &roster));
    honest.knows(&victim);
    victim.knows(&honest);
    victim.wait_up(honest.peer);
    honest.wait_up(victim.peer);
    let garbage: Vec<u8> =
        (0..10_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80).collect();
    for (bytes, expected) in [
        (u32::MAX.to_le_bytes().to_vec(), "frame of 4294967295 bytes on bulk, the limit is 1048576"),
        (
            (MAX_FRAME as u32 + 1).to_le_bytes().to_vec(),
            "frame of 1048577 bytes on bulk, the limit is 1048576",
        ),
        (vec![0; 4], "frame of 0 bytes on bulk, the least is 4"),
        (vec![4, 0, 0, 0, 1, 0, 0, 0], "header of 1 bytes on bulk, the frame has 0 left"),
        (garbage, "the limit is 1048576"),
    ] {
        let attack = raw::write(22, &victim, Channel::Bulk, bytes);
        let reason = victim.wait("Malformed", |event| match event {
            Event::Malformed { from, reason } => Some((*from, reason.clone())),
            _ => None,
        });
        assert_eq!(reason.0, peer(22));
        assert!(reason.1.contains(expected), "{}", reason.1);
        assert_eq!(victim.wait_lost(peer(22)), reason.1);
        attack.join().expect("the attacker was cut off");
    }
    honest.send(victim.peer, Channel::Control, frame(b"served", Bytes::new()));
    assert_eq!(victim.wait_frame().2, frame(b"served", Bytes::new()));
    assert!(victim.up.contains(&honest.peer));
}

#[test]
fn a_frame_cut_short_is_a_lost_connection_and_no_frame() {
    let mut victim = Node::start(config(23, &[23, 24]));
    let mut raw = Raw::dial(24, &victim);
    let mut streams = raw.stand(&victim);
    victim.wait_up(peer(24));
    raw.drive(async {
        use futures::AsyncWriteExt;
        streams.bulk.write_all(&[100, 0, 0, 0, 1, 0, 7]).await.expect("room");
        streams.bulk.close().await.expect("closes");
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
    let reason = victim.wait_lost(peer(24));
    assert!(reason.contains("ended inside a frame"), "{reason}");
}

#[test]
fn a_second_stream_of_one_protocol_is_malformed() {
    let mut victim = Node::start(config(25, &[25, 26]));
    let mut raw = Raw::dial(26, &victim);
    let _streams = raw.stand(&victim);
    victim.wait_up(peer(26));
    raw.can_open(&victim);
    let reason = victim.wait("Malformed", |event| match event {
        Event::Malformed { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(reason, "second control stream on one connection");
    victim.wait_lost(peer(26));
}

#[test]
fn a_paused_peer_is_lost_by_ping() {
    let mut victim = Node::start(config(27, &[27, 28]));
    let paused = raw::pause(28, &victim);
    victim.wait_up(peer(28));
    // Full buffers must not keep the connection open.
    for _ in 0..40 {
        victim.send(peer(28), Channel::Bulk, frame(b"", vec![0; 256 * KIB]));
    }
    let begin = Instant::now();
    assert_eq!(victim.wait_lost(peer(28)), "no answer to ping for 5 s");
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
    drop(paused);
}

#[test]
fn libp2p_s_own_ping_is_answered_and_answers() {
    let mut victim = Node::start(config(29, &[29, 30]));
    let mut raw = Raw::dial(30, &victim);
    let _streams = raw.stand(&victim);
    victim.wait_up(peer(30));
    raw.drive(async { tokio::time::sleep(Duration::from_secs(9)).await });
    assert!(victim.next(Duration::ZERO).is_none(), "the connection stays open while the peer answers");
}

#[test]
fn simultaneous_dials_converge_to_one_connection() {
    for round in 0..25 {
        let mut a = Node::start(config(31, &[31, 32]));
        let mut b = Node::start(config(32, &[31, 32]));
        // The two nodes take turns in starting a little earlier.
        if round % 2 == 0 {
            a.knows(&b);
            std::thread::sleep(Duration::from_micros(500 * round % 4000));
        }
        b.knows(&a);
        a.knows(&b);
        a.wait_up(b.peer);
        b.wait_up(a.peer);
        for (from, to) in [(&a, b.peer), (&b, a.peer)] {
            for channel in Channel::BOTH {
                from.send(to, channel, frame(b"one", Bytes::new()));
            }
        }
        for node in [&mut a, &mut b] {
            node.wait_frame();
            node.wait_frame();
            let after = node.next(Duration::from_millis(50));
            assert!(after.is_none(), "round {round}: {after:?} after both are up");
        }
    }
}

#[test]
fn a_killed_peer_is_lost_once_and_up_again_after_its_restart() {
    let (mut a, mut b) = pair(33, 34);
    let number = if b.peer == peer(33) { 33 } else { 34 };
    for _ in 0..3 {
        // Dropping the network closes the sockets without a message, like the end of a process.
        drop(b.network.take());
        a.wait_lost(b.peer);
        assert!(a.next(Duration::from_millis(400)).is_none(), "nothing while it is away");
        b = Node::start(config(number, &[33, 34]));
        a.knows(&b);
        a.wait_up(b.peer);
        b.wait_up(a.peer);
        a.send(b.peer, Channel::Control, frame(b"again", Bytes::new()));
        assert_eq!(b.wait_frame().2, frame(b"again", Bytes::new()));
    }
}

#[test]
fn a_peer_that_leaves_is_lost_after_its_last_frame() {
    let (a, b) = pair(35, 36);
    leave(a, b);
}

/// One node leaves with 10 MiB in its queue. The other receives all of it before it reports the peer as lost.
fn leave(mut a: Node, mut b: Node) {
    for number in 0..40_u8 {
        a.send(b.peer, Channel::Bulk, frame(&[number], vec![number; 256 * KIB]));
    }
    a.send(b.peer, Channel::Control, frame(b"bye", Bytes::new()));
    let network = a.network.take().expect("running");
    let leaving = std::thread::spawn(move || network.shutdown(PATIENCE));
    let mut bulk = 0;
    for _ in 0..41 {
        let (_, channel, got) = b.wait_frame();
        if channel == Channel::Bulk {
            assert_eq!(got, frame(&[bulk], vec![bulk; 256 * KIB]));
            bulk += 1;
        }
    }
    assert_eq!(b.wait_lost(a.peer), "closed by the peer");
    assert_eq!(leaving.join().expect("ends"), [], "everything was read");
    a.wait_lost(b.peer);
    assert!(a.events.recv().is_none());
}

#[test]
fn a_peer_that_leaves_for_a_reason_tells_it_before_it_ends() {
    for (small, reason, heard) in [
        (95, "training failed: no answer", "it left: training failed: no answer".to_owned()),
        (97, "a line\nand \u{1b}[31m colours", "it left: a line and  [31m colours".to_owned()),
        (99, &*"x".repeat(2000), format!("it left: {}", "x".repeat(291))),
    ] {
        let (mut a, mut b) = pair(small, small + 1);
        a.send(b.peer, Channel::Bulk, frame(b"last", vec![0; 256 * KIB]));
        a.network().send(Command::TellReason(reason.to_owned())).expect("always taken");
        let network = a.network.take().expect("running");
        let leaving = std::thread::spawn(move || network.shutdown(PATIENCE));
        assert_eq!(b.wait_frame().2.header, &b"last"[..], "frames before the end are not lost");
        assert_eq!(b.wait_lost(a.peer), heard);
        assert_eq!(leaving.join().expect("ends"), [], "everything was read");
    }
}

#[test]
fn a_shutdown_ends_at_its_deadline_and_names_who_did_not_read() {
    let (mut a, b) = pair(37, 38);
    for _ in 0..60 {
        a.send(b.peer, Channel::Bulk, frame(b"", vec![0; 256 * KIB]));
    }
    let begin = Instant::now();
    let late = a.network.take().expect("running").shutdown(Duration::from_secs(1));
    assert_eq!(late, [b.peer]);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    a.wait_lost(b.peer);
}

#[test]
fn disconnect_gives_the_reason_and_the_peer_returns_but_a_banned_one_does_not() {
    let (mut a, mut b) = pair(39, 40);
    let reason = "other session file".to_owned();
    a.network().send(Command::Disconnect { peer: b.peer, reason: reason.clone() }).expect("taken");
    assert_eq!(a.wait_lost(b.peer), reason);
    b.wait_lost(a.peer);
    a.wait_up(b.peer);
    b.wait_up(a.peer);
    b.knows(&a);
    a.network().send(Command::Ban(b.peer)).expect("taken");
    assert_eq!(a.wait_lost(b.peer), "banned");
    b.wait_lost(a.peer);
    assert!(a.next(Duration::from_secs(1)).is_none());
    assert!(!b.up.contains(&a.peer));
}

#[test]
fn five_nodes_all_see_each_other() {
    let numbers = [41, 42, 43, 44, 45];
    let mut nodes: Vec<Node> = numbers.iter().map(|number| Node::start(config(*number, &numbers))).collect();
    for (i, a) in nodes.iter().enumerate() {
        for b in &nodes[i + 1..] {
            a.knows(b);
            b.knows(a);
        }
    }
    for node in &mut nodes {
        for number in numbers {
            if peer(number) != node.peer {
                node.wait_up(peer(number));
            }
        }
    }
    for node in &mut nodes {
        let event = node.next(Duration::from_millis(100));
        assert!(event.is_none(), "{event:?} after all are up");
        assert_eq!(node.up.len(), 4);
    }
}

#[test]
fn an_address_in_use_and_a_wrong_one_are_errors_that_name_them() {
    let node = Node::start(config(46, &[46]));
    let mut second = config(47, &[47]);
    second.listen = vec![node.address.clone()];
    let error = Network::spawn(second.clone()).expect_err("the port is taken").to_string();
    assert!(error.contains(&node.address.to_string()) && error.contains("in use"), "{error}");
    for (listen, network_key, expected) in [
        ("/ip4/127.0.0.1/udp/1", None, "/ip4/0.0.0.0/udp/0/quic-v1 are supported"),
        ("/ip4/127.0.0.1/udp/0/quic-v1", Some(NetworkKey::new([7; 32])), "with a network key only"),
    ] {
        second.listen = vec![listen.parse().expect("an address")];
        second.network_key = network_key;
        let error = Network::spawn(second.clone()).expect_err("not supported").to_string();
        assert!(
            error.starts_with(&format!("cannot listen on {listen}: ")) && error.contains(expected),
            "{error}"
        );
    }
    second.max_frame = 1;
    assert!(matches!(Network::spawn(second), Err(NetError::MaxFrame(1))));
}

#[test]
fn frames_over_the_limits_are_refused_and_at_the_limit_they_pass() {
    let (a, mut b) = pair(48, 49);
    let send = |header: usize, payload: usize| {
        let frame = frame(&vec![1; header], vec![2; payload]);
        a.network().send(Command::Send { to: b.peer, channel: Channel::Bulk, frame })
    };
    assert!(matches!(send(0, MAX_FRAME - 3), Err(NetError::FrameTooLong { .. })));
    assert!(matches!(send(MAX_FRAME - 3, 0), Err(NetError::FrameTooLong { .. })));
    send(70_000, MAX_FRAME - 70_004).expect("at the limit");
    let (_, _, got) = b.wait_frame();
    assert_eq!((got.header.len(), got.payload.len()), (70_000, MAX_FRAME - 70_004));
}

/// Returns whether an interface other than loopback is up and can multicast.
fn can_multicast() -> bool {
    let Ok(interfaces) = std::fs::read_dir("/sys/class/net") else { return false };
    interfaces.flatten().any(|interface| {
        let flags = std::fs::read_to_string(interface.path().join("flags")).unwrap_or_default();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        let (up, loopback, multicast) = (0x1, 0x8, 0x1000);
        flags & (up | multicast) == up | multicast && flags & loopback == 0
    })
}

#[test]
fn mdns_finds_a_peer_of_the_roster_and_nobody_else() {
    if !can_multicast() {
        let test = "mdns_finds_a_peer_of_the_roster_and_nobody_else";
        // Writes past the test harness, so that the line is visible.
        writeln!(std::io::stderr(), "skipped: {test}: no interface besides loopback has multicast")
            .expect("standard error is open");
        return;
    }
    let start = |number, roster: &[u8]| {
        let mut config = config(number, roster);
        config.listen = vec!["/ip4/0.0.0.0/tcp/0".parse().expect("an address")];
        config.mdns = true;
        Node::start(config)
    };
    let mut a = start(50, &[50, 51]);
    let mut b = start(51, &[50, 51]);
    let mut other = start(52, &[52]);
    a.wait_up(b.peer);
    b.wait_up(a.peer);
    while let Some(event) = other.next(Duration::from_millis(300)) {
        assert!(matches!(event, Event::Listening(_)), "{event:?}");
    }
}

#[test]
fn raw_streams_of_other_protocols_are_not_accepted() {
    let mut victim = Node::start(config(53, &[53, 54]));
    let mut raw = Raw::dial(54, &victim);
    let _streams = raw.stand(&victim);
    victim.wait_up(peer(54));
    let mut opener = raw.swarm.behaviour().opener();
    let to = victim.peer;
    let opened =
        raw.drive(async { opener.open_stream(to, StreamProtocol::new("/flyswarm/9/control")).await.is_ok() });
    assert!(!opened);
    assert!(victim.next(Duration::from_millis(100)).is_none(), "a refused protocol has no other effect");
}
