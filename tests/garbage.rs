//! A dishonest peer of the roster. It speaks the transport correctly, but its messages are invalid. Honest
//! nodes name it in a line, continue, and finish with a result of the other peers.
#![cfg(all(feature = "net", unix))]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use flyswarm::net::driver::peer_id;
use flyswarm::net::{Channel, Command, Config, Event, Frame, Multiaddr, Network, PeerId};
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::committee::Promise;
use flyswarm::protocol::failure::Failure;
use flyswarm::protocol::message::{Channel as Way, Message, VERSION};
use flyswarm::protocol::promise::{Begun, Promised};
use flyswarm::protocol::signed::Signed;
use flyswarm::protocol::view::{self, Order, Reason};
use flyswarm::protocol::{transfer, wire};
use flyswarm::session::Peer;
use serde::{Serialize, de::DeserializeOwned};

use crate::processes::check::same_and_exact;
use crate::processes::swarm::{NAMES, Swarm};

/// Frames that the dishonest peer sends together.
type Frames = Vec<(Channel, Frame)>;
/// Returns the frames that the dishonest peer sends in reply to a frame.
type Answer = dyn Fn(&Frame, Channel) -> Frames + Send;

/// Behaviour of the dishonest peer: the first frames that it sends to each peer that connects, and its reply
/// to each frame.
struct Script {
    first: Box<dyn Fn(&Facts) -> Frames + Send>,
    answer: Box<Answer>,
}

/// Values that the dishonest peer may use.
struct Facts {
    session: [u8; 32],
    me: Peer,
}

fn framed(message: &Message) -> (Channel, Frame) {
    let frame = wire::encode(message);
    let way = if frame.channel == Way::Bulk { Channel::Bulk } else { Channel::Control };
    (way, Frame { header: frame.header, payload: frame.payload })
}

fn raw(channel: Channel, header: &[u8], payload: &[u8]) -> (Channel, Frame) {
    (channel, Frame { header: Bytes::copy_from_slice(header), payload: Bytes::copy_from_slice(payload) })
}

/// Returns an item whose signature is all zeros.
fn forged<T: Serialize + DeserializeOwned>(author: Peer, item: &T) -> Signed<T> {
    let bytes = wire::canonical(&(author, item, [[0u8; 32]; 2]));
    wire::decode_item(&bytes).unwrap()
}

fn hello(facts: &Facts) -> Message {
    Message::Hello { version: VERSION, session: facts.session, committed: 0, trace: None }
}

/// Sends a correct hello, and then these messages.
fn greeted(messages: impl Fn(&Facts) -> Vec<Message> + Send + 'static) -> Script {
    Script {
        first: Box::new(move |facts| [hello(facts)].iter().chain(&messages(facts)).map(framed).collect()),
        answer: Box::new(|_, _| Vec::new()),
    }
}

fn only(frames: impl Fn(&Facts) -> Vec<(Channel, Frame)> + Send + 'static) -> Script {
    Script { first: Box::new(frames), answer: Box::new(|_, _| Vec::new()) }
}

struct False {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    address: String,
    others: Sender<(PeerId, Multiaddr)>,
}

impl Drop for False {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|end| end.is_ok()), "the false peer panicked");
    }
}

impl False {
    fn start(swarm: &Swarm, me: usize, script: Script) -> Self {
        let roster: BTreeMap<_, _> =
            swarm.keys.iter().map(|key| (peer_id(&key.public()), Vec::new())).collect();
        let mut config = Config::new(swarm.keys[me].seed(), roster);
        config.listen = vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")];
        config.max_frame = 4 << 20;
        config.patience = Duration::ZERO;
        let (network, events) = Network::spawn(config).expect("it starts");
        let facts = Facts { session: swarm.session.id().0, me: Peer(me as u16) };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, (sender, address)) = (stop.clone(), channel());
        let (others, known) = channel();
        let thread = std::thread::spawn(move || {
            let send = |to, frames: Vec<(Channel, Frame)>| {
                for (channel, frame) in frames {
                    network.send(Command::Send { to, channel, frame }).expect("within its own limits");
                }
            };
            while !stopped.load(Ordering::Acquire) {
                while let Ok((peer, address)) = known.try_recv() {
                    network.send(Command::AddAddress(peer, address)).expect("no frame");
                }
                match events.recv_timeout(Duration::from_millis(50)) {
                    Ok(Event::Listening(address)) => sender.send(address.to_string()).expect("waited for"),
                    Ok(Event::PeerUp { peer, .. }) => send(peer, (script.first)(&facts)),
                    Ok(Event::Frame { from, channel, frame }) => send(from, (script.answer)(&frame, channel)),
                    _ => {}
                }
            }
        });
        let address = address.recv().expect("it listens");
        Self { stop, thread: Some(thread), address, others }
    }
}

/// Runs four honest nodes and a dishonest one. All four must finish with a result without the dishonest one.
/// Returns how many nodes named it in a `blamed` line, and how many in a `refused` line.
fn run(what: &str, script: Script) -> (usize, usize) {
    let mut swarm = Swarm::new(5, |session| {
        session.timing.start_wait_ms = 2_000;
        session.timing.linger_ms = 1_000;
        session.timing.no_quorum_timeout_ms = 30_000;
    });
    // The dishonest peer is the last of the committee, so no node waits for it as the first proposer.
    let me = swarm.session.committee()[4].index();
    let other = False::start(&swarm, me, script);
    let real: Vec<_> = (0..5).filter(|&i| i != me).collect();
    for &i in &real {
        swarm.start(i, &[]);
        let address = other.address.clone();
        swarm.introduce(i, me, &address);
    }
    // The peer with the smaller PeerId dials, so both peers must know the address of the other.
    let mut left = real.clone();
    while !left.is_empty() {
        let (i, address) = swarm.wait("listening", |told| {
            let address = told.value["address"].as_str().filter(|_| told.value["event"] == "listening")?;
            Some((told.peer, address.parse().expect("an address")))
        });
        other.others.send((peer_id(&swarm.keys[i].public()), address)).expect("it runs");
        left.retain(|&j| j != i);
    }
    for &i in &real {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{what}: {}", NAMES[i]);
    }
    let counted = same_and_exact(&swarm, &real);
    assert_eq!(counted.len(), 4, "{what}: {counted:?}");
    let mut named = [0, 0];
    for &i in &real {
        // A node that has blamed the dishonest peer ignores it, even if more of its frames arrive.
        for (count, (name, most)) in named.iter_mut().zip([("blamed", 1), ("refused", 3)]) {
            let told = swarm.told(i, name);
            assert!(told.iter().all(|event| event["peer"] == NAMES[me]), "{what}: {told:?}");
            assert!(told.len() <= most, "{what}: {} lines of {name}", told.len());
            for event in &told {
                let line = event.to_string();
                assert!(line.len() < 700 && !line.contains("\\u001b"), "{what}: {line}");
                println!("{what}: {line}");
            }
            *count += usize::from(!told.is_empty());
        }
    }
    (named[0], named[1])
}

#[test]
fn frames_that_are_no_messages_are_blamed_by_all() {
    let noise =
        |facts: &Facts| (0..200u32).map(|i| (i * i + u32::from(facts.me.0)) as u8 | 0x80).collect::<Vec<_>>();
    let cases: Vec<(&str, Script)> = vec![
        ("random bytes", only(move |facts| vec![raw(Channel::Control, &noise(facts), b"")])),
        ("random bytes in bulk", only(|_| vec![raw(Channel::Bulk, &[0xee; 100], &[7; 5000])])),
        ("nothing", only(|_| vec![raw(Channel::Control, b"", b"")])),
        (
            "a truncated hello",
            only(|facts| {
                let (channel, frame) = framed(&hello(facts));
                vec![raw(channel, &frame.header[..frame.header.len() / 2], b"")]
            }),
        ),
        (
            "a hello with bytes left over",
            only(|facts| {
                let (channel, frame) = framed(&hello(facts));
                vec![raw(channel, &[&frame.header[..], b"x"].concat(), b"")]
            }),
        ),
        (
            "a hello with a payload",
            only(|facts| {
                let (channel, frame) = framed(&hello(facts));
                vec![raw(channel, &frame.header, b"payload")]
            }),
        ),
        ("a hello on the bulk channel", only(|facts| vec![(Channel::Bulk, framed(&hello(facts)).1)])),
        // Variant 1, `Fields`: a list whose length says 2^60 entries.
        ("a list of 2^60", only(|_| vec![raw(Channel::Control, &[1, 253, 0, 0, 0, 0, 0, 0, 0, 16], b"")])),
        ("a frame of 3 MiB", only(|_| vec![raw(Channel::Control, &[1; 100], &vec![0; 3 << 20])])),
    ];
    for (what, script) in cases {
        assert_eq!(run(what, script).0, 4, "{what}");
    }
}

#[test]
fn messages_out_of_order_or_replayed_are_blamed_by_all() {
    let cases: Vec<(&str, Script)> = vec![
        ("a message before hello", only(|_| vec![framed(&Message::Status { committed: 0, in_view: false })])),
        ("hello twice", greeted(|facts| vec![hello(facts)])),
        (
            "a prepare for another",
            greeted(|facts| {
                vec![Message::Prepare(Ballot { counter: 1, proposer: Peer((facts.me.0 + 1) % 5) })]
            }),
        ),
        (
            "a view without its leader",
            greeted(|facts| {
                let ballot = Ballot { counter: 1, proposer: facts.me };
                let begun = Begun { ballot, promises: Vec::new() };
                vec![Message::Begin(forged(Peer((facts.me.0 + 1) % 5), &begun))]
            }),
        ),
        (
            "a failure of nobody",
            greeted(|_| {
                let ballot = Ballot { counter: 1, proposer: Peer(0) };
                let failure = Failure { ballot, slot: 0, reason: Reason::Fault, suspect: Some(Peer(77)) };
                vec![Message::Failed(forged(Peer(0), &failure))]
            }),
        ),
        (
            "a fetch of slot 200",
            greeted(|_| vec![Message::Transfer(transfer::Message::Fetch(200, transfer::Want::Committed))]),
        ),
        (
            "more committed than there is",
            greeted(|_| vec![Message::Status { committed: 255, in_view: false }]),
        ),
        (
            "the highest ballot",
            greeted(|facts| vec![Message::Prepare(Ballot { counter: u64::MAX, proposer: facts.me })]),
        ),
        (
            "a refusal with the highest ballot",
            greeted(|facts| {
                let high = Ballot { counter: u64::MAX, proposer: facts.me };
                vec![Message::Refuse(high, high)]
            }),
        ),
        (
            "a promise of more than there is",
            greeted(|facts| {
                let ballot = Ballot { counter: 1, proposer: facts.me };
                let promise = Promise { committed: 200, accepted: None, released: false };
                let promised =
                    Promised { ballot, promise, decision: Vec::new(), reached: vec![0], marks: Vec::new() };
                vec![Message::Promise(forged(facts.me, &promised))]
            }),
        ),
    ];
    for (what, script) in cases {
        assert_eq!(run(what, script).0, 4, "{what}");
    }
}

#[test]
fn what_a_member_replays_or_makes_up_within_a_view_ends_the_view_and_not_the_session() {
    let echo = Script {
        first: Box::new(|facts| vec![framed(&hello(facts))]),
        // Sends every frame back twice, except for hellos.
        answer: Box::new(|frame, channel| {
            let again = || raw(channel, &frame.header, &frame.payload);
            if frame.header.first() == Some(&0) { Vec::new() } else { vec![again(), again()] }
        }),
    };
    assert!(run("everything sent back", echo).0 >= 1);
    let order = Script {
        first: Box::new(|facts| vec![framed(&hello(facts))]),
        answer: Box::new(|frame, channel| {
            let way = if channel == Channel::Bulk { Way::Bulk } else { Way::Control };
            match wire::decode(way, &frame.header, frame.payload.clone()) {
                Ok(Message::Begin(begun)) => {
                    let ballot = begun.item.ballot;
                    vec![framed(&Message::View(view::Message::Down(ballot, Order::Open(3, Vec::new()))))]
                }
                _ => Vec::new(),
            }
        }),
    };
    assert!(run("an order from below", order).0 >= 1);
    // The member sends nothing at all. The view gets stuck, and the next views do not include it.
    assert_eq!(run("silence", greeted(|_| Vec::new())), (0, 0));
}

#[test]
fn another_session_is_refused_by_name_and_cannot_write_on_the_terminal() {
    let other = only(|_| {
        let hello = Message::Hello { version: VERSION, session: [7; 32], committed: 0, trace: None };
        let names = (0..500).map(|i| (format!("\u{1b}[2J made up {i}"), [0; 8])).collect();
        let fields = Message::Fields(names);
        vec![
            framed(&hello),
            framed(&fields),
            framed(&fields),
            framed(&fields),
            framed(&fields),
            framed(&fields),
        ]
    });
    assert_eq!(run("another session", other).1, 4);
    let version = only(|facts| {
        vec![
            framed(&Message::Hello {
                version: VERSION + 1,
                session: facts.session,
                committed: 0,
                trace: None,
            }),
            framed(&Message::Fields(Vec::new())),
        ]
    });
    assert_eq!(run("another version", version).1, 4);
}
