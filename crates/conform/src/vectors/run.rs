//! A whole session of three peers, with every frame in the order of sending.
//!
//! Time is virtual: a frame takes 1 ms, a job 1 ms. So the run follows from the nodes' seeds alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::flynn::Flynn;
use flyswarm_sealed_sum::crypto::agreement::EphemeralSecret;
use flyswarm_sealed_sum::node::{Done, Event, Node, Timer};
use flyswarm_sealed_sum::protocol::message::Channel;
use flyswarm_sealed_sum::protocol::view::{self, Report};
use flyswarm_sealed_sum::protocol::wire::{self, Frame};
use flyswarm_sealed_sum::protocol::{Action, Fault, Input, Machine, Step, Time, message::Message};
use serde_json::{Value, json};

use super::messages::channel;
use super::primitives::shown;
use super::sessions::{context, flynn_spec, number_of, small, small_text};
use super::{Given, bytes, hex, identity};

enum Happening {
    Up(Peer, Peer),
    Frame(Peer, Peer, Frame),
    Timer(Peer, Timer),
    Done(Peer, Done),
}

pub(crate) struct Run {
    nodes: Vec<Node>,
    now: Time,
    queue: BTreeMap<(Time, u64), Happening>,
    sequence: u64,
    log: Vec<Value>,
    opened: BTreeMap<Peer, Vec<Bytes>>,
    keys: BTreeMap<Peer, [u8; 32]>,
    stopped: BTreeSet<Peer>,
}

/// Returns three rows for each peer; each peer has both classes.
pub(crate) fn rows(session: &Session, peer: Peer) -> Dataset {
    let i = number_of(session, peer) as f32;
    let values = vec![i + 0.5, -1.25, 3.0, 2.0 * i, 0.125, -i, 1.0, i - 1.0, 0.75];
    Dataset::new(3, values, vec![0, 1, 1], session.data.classes.clone()).unwrap()
}

impl Run {
    fn push(&mut self, at: Time, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    fn input(&mut self, peer: Peer, input: Input<Node>) {
        if self.stopped.contains(&peer) {
            return;
        }
        let step = self.nodes[peer.index()].handle(self.now, input);
        self.carry_out(peer, step);
    }

    fn carry_out(&mut self, peer: Peer, step: Step<Node>) {
        let later = self.now.plus_ms(1);
        for action in step.0 {
            match action {
                Action::Send { to, message } => {
                    let frame = wire::encode(&message);
                    if let Message::View(view::Message::Up(_, Report::Keys(keys))) = &message {
                        self.keys.extend(keys.iter().map(|key| (key.author, key.item.public)));
                    }
                    self.log.push(json!({
                        "us": self.now.0, "from": peer, "to": to, "channel": channel(frame.channel),
                        "header": hex(&frame.header), "payload": hex(&frame.payload),
                    }));
                    self.push(later, Happening::Frame(peer, to, frame));
                }
                Action::SetTimer { at, timer } => self.push(at, Happening::Timer(peer, timer)),
                Action::Compute(job) => self.push(later, Happening::Done(peer, job.run())),
                Action::Persist(record) => {
                    self.log.push(json!({ "us": self.now.0, "from": peer, "persist": record.name() }));
                }
                Action::Output(Event::Finished(history)) => {
                    self.opened.insert(peer, history.vectors().to_vec());
                }
                Action::Output(Event::Done) => {
                    self.stopped.insert(peer);
                }
                Action::Output(Event::Ended(ending)) => panic!("{peer} ended: {ending}"),
                Action::Output(_) | Action::WriteEarly(_) => {}
                Action::Blame { peer: blamed, fault } => panic!("{peer} blames {blamed}: {fault}"),
            }
        }
    }
}

impl Run {
    pub(crate) fn new() -> Self {
        Self::with(rows)
    }

    /// Returns a session of peers with these rows.
    pub(crate) fn with(rows: impl Fn(&Session, Peer) -> Dataset) -> Self {
        let session = small(3);
        let nodes = session
            .peers()
            .map(|peer| {
                let task = Flynn::new(
                    session.clone(),
                    flynn_spec(&session),
                    peer,
                    Arc::new(rows(&session, peer)),
                    &[0; 32],
                )
                .unwrap();
                Node::new(context(&session, peer), Arc::new(task), seed(peer), Vec::new()).unwrap()
            })
            .collect();
        let mut run = Self {
            nodes,
            now: Time(0),
            queue: BTreeMap::new(),
            sequence: 0,
            log: Vec::new(),
            opened: BTreeMap::new(),
            keys: BTreeMap::new(),
            stopped: BTreeSet::new(),
        };
        for peer in session.peers() {
            run.input(peer, Input::Start);
            for other in session.peers().filter(|&other| other != peer) {
                run.push(Time(1000), Happening::Up(peer, other));
            }
        }
        run
    }

    /// Continues up to that time, or until every peer has stopped.
    pub(crate) fn until(&mut self, us: u64) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0.0 <= us) {
            let ((at, _), happening) = entry.remove_entry();
            self.now = at;
            match happening {
                Happening::Up(peer, other) => self.input(peer, Input::PeerUp(other)),
                Happening::Timer(peer, timer) => self.input(peer, Input::Timer(timer)),
                Happening::Done(peer, done) => self.input(peer, Input::Done(done)),
                Happening::Frame(from, to, frame) => {
                    let message = wire::decode(frame.channel, &frame.header, frame.payload).unwrap();
                    self.input(to, Input::Message { from, message });
                }
            }
            if self.stopped.len() == 3 {
                break;
            }
        }
    }

    /// Returns the first sent message between the two peers that fits.
    pub(crate) fn sent(&self, from: Peer, to: Peer, fits: impl Fn(&Message) -> bool) -> Message {
        let of_both = |entry: &&Value| entry["from"] == json!(from) && entry["to"] == json!(to);
        let mut messages = self.log.iter().filter(of_both).map(|entry| {
            let part = |name: &str| hex::decode(entry[name].as_str().unwrap_or_default()).unwrap();
            let bulk = entry["channel"] == channel(Channel::Bulk);
            let way = if bulk { Channel::Bulk } else { Channel::Control };
            wire::decode(way, &part("header"), part("payload").into()).unwrap()
        });
        messages.find(|message| fits(message)).expect("it was sent")
    }

    /// Gives one more input to a node at this time. Returns what it sends and stores, and whether it
    /// ends, sorted. No peer gets the messages.
    pub(crate) fn answer(&mut self, to: Peer, us: u64, input: Input<Node>) -> Vec<Value> {
        self.now = Time(us);
        let mut out = Vec::new();
        for action in self.nodes[to.index()].handle(self.now, input).0 {
            match action {
                Action::Send { to, message } => {
                    let frame = wire::encode(&message);
                    out.push(json!({
                        "to": to, "channel": channel(frame.channel), "header": hex(&frame.header),
                        "payload": hex(&frame.payload),
                    }));
                }
                Action::Persist(record) => out.push(json!({ "persist": record.name() })),
                Action::Blame { peer, fault } => panic!("{peer} is blamed: {fault}"),
                Action::Output(Event::Ended(_)) => out.push(json!({ "ends": 3 })),
                _ => {}
            }
        }
        out.sort_by_key(Value::to_string);
        out
    }

    /// Returns the effect of one more message at its receiver: the blamed peers with their faults, and
    /// whether it does anything except set timers.
    pub(crate) fn inject(&mut self, from: Peer, to: Peer, message: Message) -> (Vec<(Peer, Fault)>, bool) {
        let (mut blames, mut other) = (Vec::new(), false);
        for action in self.nodes[to.index()].handle(self.now, Input::Message { from, message }).0 {
            match action {
                Action::Blame { peer, fault } => blames.push((peer, fault)),
                Action::SetTimer { .. } => {}
                _ => other = true,
            }
        }
        (blames, other)
    }
}

fn seed(peer: Peer) -> [u8; 32] {
    bytes(&format!("node seed of {}", peer.0))
}

/// Returns the random values of a dealer for the pad of a slot, in a committee of three: two scalars of
/// 64 bytes.
fn deal(dealer: Peer, slot: usize, random: &mut impl Rng) -> Value {
    let mut scalar = || {
        let mut drawn = [0; 64];
        random.fill_bytes(&mut drawn);
        hex(curve25519_dalek::Scalar::from_bytes_mod_order_wide(&drawn).to_bytes())
    };
    let coefficients = [scalar(), scalar()];
    json!({ "slot": slot, "dealer": dealer, "coefficients": coefficients })
}

pub(crate) fn sum() -> Value {
    let session = small(3);
    let mut run = Run::new();
    run.until(u64::MAX);
    assert_eq!(run.opened.len(), 3);
    let opened = &run.opened[&Peer(0)];
    assert!(run.opened.values().all(|other| other == opened));
    assert!(run.log.iter().any(|entry| entry["channel"] == channel(Channel::Bulk)));

    // Show the random values of each node, in the order in which it draws them, so that all bytes can
    // be recomputed.
    let mut deals = Vec::new();
    let view_secrets: Vec<_> = session
        .peers()
        .map(|peer| {
            let mut view_seed = [0; 32];
            ChaCha20Rng::from_seed(seed(peer)).fill_bytes(&mut view_seed);
            let mut view = ChaCha20Rng::from_seed(view_seed);
            let mut secret = [0; 32];
            view.fill_bytes(&mut secret);
            deals.extend((0..opened.len()).map(|slot| deal(peer, slot, &mut view)));
            let public = EphemeralSecret::generate(&mut Given::new(&secret)).public();
            if let Some(sent) = run.keys.get(&peer) {
                assert_eq!(*sent, public);
            }
            json!({ "secret": hex(secret), "public": hex(public) })
        })
        .collect();
    let data: Vec<_> = session
        .peers()
        .map(|peer| {
            let data = rows(&session, peer);
            let rows: Vec<_> = (0..data.rows()).map(|row| shown(&data.row(row))).collect();
            json!({ "rows": rows, "labels": data.labels() })
        })
        .collect();
    json!({
        "about": "a session of three peers, every frame and every write to disk in order (spec, section 18)",
        "toml": small_text(3),
        "seeds": session.peers().map(|peer| hex(*identity(number_of(&session, peer)).seed())).collect::<Vec<_>>(),
        "view_secrets": view_secrets,
        "deals": deals,
        "node_seeds": session.peers().map(|peer| hex(seed(peer))).collect::<Vec<_>>(),
        "data": data,
        "log": run.log,
        "opened": opened.iter().map(hex).collect::<Vec<_>>(),
    })
}
