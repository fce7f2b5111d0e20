//! Tests of this machine alone, in whole trees. Messages on different channels arrive in any order.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::crypto::mask::Sign;
use crate::crypto::stream::Stream;
use crate::protocol::ballot::Ballot;
use crate::protocol::pairwise::Mask;
use crate::protocol::tree::Tree;

const SUM: SumId = SumId { ballot: Ballot { counter: 3, proposer: Peer(0) }, slot: 2 };
const SESSION: [u8; 32] = [9; 32];

/// Returns `bytes` bytes that depend on `seed` and `what`.
fn random(seed: u64, what: u16, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    Stream::new(&seed.to_le_bytes(), "test", &what.to_le_bytes()).fill(&mut out);
    out
}

/// Returns the streams that `me` shares with each other peer.
fn masks(seed: u64, peers: u16, me: u16) -> Arc<Masks> {
    let mask = |other: u16| {
        let (low, high) = (me.min(other), me.max(other));
        let key: [u8; 32] = random(seed, 1000 + low * 100 + high, 32).try_into().unwrap();
        Mask::new(Arc::new(key.into()), "mask", SUM, if me < other { Sign::Add } else { Sign::Subtract })
    };
    Arc::new(Masks { word: Word::W64, masks: (0..peers).filter(|&other| other != me).map(mask).collect() })
}

/// Channel of an edge: receiver, sender, true for the bulk channel.
type Way = (Peer, Peer, bool);

/// Chunks and credits on their way, jobs in progress, and results.
struct Run {
    machines: Vec<AllReduce>,
    ways: BTreeMap<Way, VecDeque<Message>>,
    jobs: Vec<(Peer, Job)>,
    totals: BTreeMap<Peer, Total>,
    /// Bytes that each peer was asked to write early, and their digest.
    early: BTreeMap<Peer, (Vec<u8>, [u8; 32])>,
    /// Number of messages sent on each way.
    sent: BTreeMap<Way, u32>,
    /// Largest number of chunks that were on one way at once.
    most: usize,
}

impl Run {
    fn carry_out(&mut self, from: Peer, step: Step<AllReduce>) {
        for action in step.0 {
            match action {
                Action::Send { to, message } => {
                    let way = (to, from, matches!(message, Message::Chunk { .. }));
                    *self.sent.entry(way).or_default() += 1;
                    let queue = self.ways.entry(way).or_default();
                    queue.push_back(message);
                    if way.2 {
                        self.most = self.most.max(queue.len());
                    }
                }
                Action::Compute(job) => self.jobs.push((from, job)),
                Action::WriteEarly(EarlyWrite::Chunk(sum, start, data)) => {
                    assert_eq!(sum, SUM);
                    let early = &mut self.early.entry(from).or_default().0;
                    assert_eq!(start, early.len());
                    early.extend_from_slice(&data);
                }
                Action::WriteEarly(EarlyWrite::End(_, digest)) => {
                    self.early.entry(from).or_default().1 = digest
                }
                Action::Output(total) => {
                    assert!(self.totals.insert(from, total).is_none(), "{from:?}: a second total")
                }
                other => panic!("{from:?}: {other:?}"),
            }
        }
    }

    /// Delivers one message or finishes one job, selected by `pick`. Returns `false` if nothing is left.
    fn one(&mut self, pick: usize) -> bool {
        let waiting: Vec<Way> =
            self.ways.iter().filter(|(_, queue)| !queue.is_empty()).map(|(way, _)| *way).collect();
        let all = waiting.len() + self.jobs.len();
        if all == 0 {
            return false;
        }
        let (to, input) = match waiting.get(pick % all) {
            Some(way) => {
                let message = self.ways.get_mut(way).and_then(VecDeque::pop_front).unwrap();
                (way.0, Input::Message { from: way.1, message })
            }
            None => {
                let (peer, job) = self.jobs.swap_remove(pick % all - waiting.len());
                (peer, Input::Done(job.run()))
            }
        };
        let step = self.machines[to.index()].handle(Time(0), input);
        self.carry_out(to, step);
        true
    }
}

fn start(peers: u16, len: usize) -> Run {
    let order: Vec<_> = (0..peers).map(Peer).collect();
    let tree = Tree::grow(Peer(0), (1..peers).map(Peer), |_, _| true);
    let aggregate = Aggregate::exact("numbers", 8, len as u64 / 8, "numbers", "their sum");
    let machine = |me: &Peer| AllReduce::new(&SESSION, SUM, &aggregate, tree.place(*me).unwrap());
    let mut run = Run {
        machines: order.iter().map(machine).collect(),
        ways: BTreeMap::new(),
        jobs: Vec::new(),
        totals: BTreeMap::new(),
        early: BTreeMap::new(),
        sent: BTreeMap::new(),
        most: 0,
    };
    for &peer in &order {
        let step = run.machines[peer.index()].handle(Time(0), Input::Start);
        run.carry_out(peer, step);
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_order_of_delivery_over_many_windows_gives_everybody_the_plain_sum(
        peers in 3u16..8,
        chunks in 1usize..3 * WINDOW,
        short in 0usize..CHUNK / 8,
        seed: u64,
        // In half of the runs, machines contribute late; 0 means at the start.
        late in prop_oneof![Just(0usize), 1usize..200],
    ) {
        let len = chunks * CHUNK - 8 * short;
        let mut run = start(peers, len);
        let vectors: Vec<Bytes> = (0..peers).map(|peer| random(seed, peer, len).into()).collect();
        let mut picks = Picks(Stream::new(&seed.to_le_bytes(), "picks", b""));
        let mut waiting: VecDeque<u16> = (0..peers).collect();
        let mut steps = 0usize;
        loop {
            let due = late == 0 || steps % late == late - 1;
            let moved = run.one(picks.next());
            if (due || !moved) && let Some(peer) = waiting.pop_front() {
                let step = run.machines[usize::from(peer)]
                    .contribute(vectors[usize::from(peer)].clone(), masks(seed, peers, peer));
                run.carry_out(Peer(peer), step);
            } else if !moved {
                break;
            }
            steps += 1;
        }
        let mut plain = vec![0; len];
        vectors.iter().for_each(|vector| mask::add(Word::W64, &mut plain, vector));
        let digest = total_digest(&SESSION, SUM, &plain);
        prop_assert_eq!(run.totals.len(), usize::from(peers));
        for (peer, total) in &run.totals {
            prop_assert!(total.bytes[..] == plain[..], "{:?}: not the plain sum", peer);
            prop_assert_eq!(total.digest, digest);
            let (written, of) = &run.early[peer];
            prop_assert!(written[..] == plain[..] && *of == digest, "{:?}: not the plain sum, written ahead", peer);
        }
        prop_assert!(run.most <= WINDOW, "{} chunks on one edge at once", run.most);
        for (&(to, from, bulk), &sent) in &run.sent {
            // A credit is only sent for several chunks.
            let chunks = u32::try_from(chunks).unwrap();
            prop_assert!(if bulk { sent == chunks } else { sent <= chunks / CREDIT }, "{from:?} to {to:?}: {sent}");
        }
    }
}

/// Endless source of choices.
struct Picks(Stream);

impl Picks {
    fn next(&mut self) -> usize {
        let mut bytes = [0; 2];
        self.0.fill(&mut bytes);
        u16::from_le_bytes(bytes).into()
    }
}

/// Makes the root of a sum of two members. The child has contributed `sent` chunks, and the root has sent
/// only the necessary acknowledgements.
fn root_with(chunks: usize, sent: u32) -> AllReduce {
    let mut run = start(2, chunks * CHUNK);
    let mut root = run.machines.swap_remove(0);
    for index in 0..sent {
        let message =
            Message::Chunk { sum: SUM, direction: Direction::Up, index, data: vec![1; CHUNK].into() };
        let step = root.handle(Time(0), Input::Message { from: Peer(1), message });
        assert!(
            !step.0.iter().any(|action| matches!(action, Action::Blame { .. })),
            "chunk {index}: {step:?}"
        );
    }
    root
}

fn blamed(machine: &mut AllReduce, message: Message) -> Option<Fault> {
    let step = machine.handle(Time(0), Input::Message { from: Peer(1), message });
    step.0.into_iter().find_map(|action| match action {
        Action::Blame { fault, .. } => Some(fault),
        _ => None,
    })
}

#[test]
fn a_child_that_runs_past_what_was_acknowledged_is_blamed() {
    // The root has not contributed: it acknowledges only LOOKAHEAD chunks, and one window may follow them.
    let most = LOOKAHEAD + WINDOW as u32;
    let mut root = root_with(40, most);
    let message =
        Message::Chunk { sum: SUM, direction: Direction::Up, index: most, data: vec![1; CHUNK].into() };
    assert_eq!(blamed(&mut root, message), Some(Fault::OutOfOrder("chunk")));
}

#[test]
fn credits_for_what_was_not_sent_or_was_acknowledged_before_are_blamed() {
    let credit = |index| Message::Credit { sum: SUM, direction: Direction::Down, index };
    let contributed = || {
        let mut root = root_with(10, 10);
        let step =
            root.contribute(vec![0; 10 * CHUNK].into(), Arc::new(Masks { word: Word::W64, masks: vec![] }));
        let mut jobs: VecDeque<Job> = computed(step).collect();
        while let Some(job) = jobs.pop_front() {
            let step = root.handle(Time(0), Input::Done(job.run()));
            jobs.extend(computed(step));
        }
        root
    };
    // A window of chunks is on its way down.
    assert_eq!(blamed(&mut contributed(), credit(WINDOW as u32)), Some(Fault::OutOfOrder("credit")));
    let mut root = contributed();
    assert_eq!(blamed(&mut root, credit(4)), None);
    assert_eq!(blamed(&mut root, credit(4)), Some(Fault::OutOfOrder("credit")));
    assert_eq!(blamed(&mut root, credit(9)), None);
    assert_eq!(blamed(&mut root, credit(10)), Some(Fault::OutOfOrder("credit")));
}

fn computed(step: Step<AllReduce>) -> impl Iterator<Item = Job> {
    step.0.into_iter().filter_map(|action| match action {
        Action::Compute(job) => Some(job),
        _ => None,
    })
}

#[test]
fn chunks_out_of_turn_of_another_length_or_from_elsewhere_are_blamed() {
    let chunk = |direction, index, length: usize| Message::Chunk {
        sum: SUM,
        direction,
        index,
        data: vec![1; length].into(),
    };
    use Direction::{Down, Up};
    let order = Some(Fault::OutOfOrder("chunk"));
    assert_eq!(blamed(&mut root_with(3, 1), chunk(Up, 1, CHUNK)), None);
    assert_eq!(blamed(&mut root_with(3, 1), chunk(Up, 0, CHUNK)), order, "again");
    assert_eq!(blamed(&mut root_with(3, 1), chunk(Up, 2, CHUNK)), order, "before the chunk before it");
    assert_eq!(blamed(&mut root_with(3, 3), chunk(Up, 3, CHUNK)), order, "after the last");
    assert_eq!(blamed(&mut root_with(3, 1), chunk(Down, 0, CHUNK)), order, "a total, from a child");
    let short = blamed(&mut root_with(3, 1), chunk(Up, 1, CHUNK - 8));
    assert!(matches!(short, Some(Fault::Inconsistent(_))), "{short:?}");
    let credit = Message::Credit { sum: SUM, direction: Up, index: 0 };
    assert_eq!(blamed(&mut root_with(3, 1), credit), Some(Fault::OutOfOrder("credit")), "nothing went up");
    // The child of the root blames a total that comes before its own part has left, and chunks of a peer
    // that is not a neighbour.
    let mut child = start(2, 3 * CHUNK).machines.swap_remove(1);
    let mut from = |from: Peer, message: Message| {
        let step = child.handle(Time(0), Input::Message { from, message });
        step.0.into_iter().find_map(|action| match action {
            Action::Blame { fault, .. } => Some(fault),
            _ => None,
        })
    };
    assert_eq!(from(Peer(0), chunk(Down, 0, CHUNK)), Some(Fault::OutOfOrder("total")));
    assert_eq!(from(Peer(7), chunk(Down, 0, CHUNK)), Some(Fault::OutOfOrder("chunk")));
    assert_eq!(from(Peer(7), chunk(Up, 0, CHUNK)), Some(Fault::OutOfOrder("chunk")));
    // A credit for a chunk that went up must come from the peer that it went to.
    let mut child = start(2, CHUNK).machines.swap_remove(1);
    let masks = Arc::new(Masks { word: Word::W64, masks: vec![] });
    let step = child.contribute(vec![0; CHUNK].into(), masks);
    for job in computed(step) {
        drop(child.handle(Time(0), Input::Done(job.run())));
    }
    for (from, blamed) in [(Peer(7), true), (Peer(0), false)] {
        let message = Message::Credit { sum: SUM, direction: Up, index: 0 };
        let step = child.handle(Time(0), Input::Message { from, message });
        assert_eq!(step.0.iter().any(|action| matches!(action, Action::Blame { .. })), blamed, "{from}");
    }
}
