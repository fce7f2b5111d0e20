//! Tests the whole computation of three computing members, and the machines that run it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::super::Party;
use super::super::party::{Frame, PAYLOAD};
use super::{opened, words};
use crate::crypto::stream::Stream;
use crate::protocol::{Action, Fault, Input, Machine, Time};
use crate::session::Peer;
use crate::sketch::lsh::Codes;
use crate::tasks::xclp::computation::round_limit;
use flyswarm_mpc::propagation::integer::reference::Reference;
use flyswarm_mpc::propagation::integer::{Plan, Settings};
use flyswarm_mpc::shares::chebyshev::propagate;
use flyswarm_mpc::shares::input::{
    Announced, Inputs, integers, parcels, parcels_of_distances, unpack, unpack_distances,
};
use flyswarm_mpc::shares::memory::{Run, in_memory, with_keys};
use flyswarm_mpc::shares::nearest::nearest;
use flyswarm_mpc::shares::newton::reciprocals;
use flyswarm_mpc::shares::output::{Sealed, seal, unseal};
use flyswarm_mpc::shares::program::{Outcome, bits_of_distances, boxed, dense, edges, run, weights};
use flyswarm_mpc::shares::round::{Part, Side};
use flyswarm_mpc::shares::{Context, Keys, Shared, Stage};

/// Points of several owners.
struct Case {
    plan: Plan,
    rows: Vec<usize>,
    codes: Codes,
    labels: Vec<Option<u16>>,
}

/// Makes clusters of codes. The codes of a cluster differ in few bits. Some points are copies, and some are
/// opposite to all others.
fn case(rows: &[usize], classes: usize, settings: Settings, seed: u8) -> Case {
    let n: usize = rows.iter().sum();
    let width = settings.bits as usize / 64;
    let centres = words(classes * width, 64, seed);
    let mut stream = Stream::new(&[seed; 32], "test", &[]);
    let mut all = Vec::new();
    for point in 0..n {
        let mut code = centres[point % classes * width..][..width].to_vec();
        for _ in 0..settings.bits / 8 {
            let bit = stream.below(settings.bits) as usize;
            code[bit / 64] ^= 1 << (bit % 64);
        }
        match point % 11 {
            3 => all.extend(centres[..width].to_vec()),
            7 => all.extend(code.iter().map(|word| !word)),
            _ => all.extend(code),
        }
    }
    let mut labels: Vec<_> =
        (0..n).map(|point| (point % 5 == 0).then_some((point % classes) as u16)).collect();
    if settings.balance && classes > 2 {
        // The classes are uneven: the second class has one label, the first class has all others.
        labels.iter_mut().flatten().enumerate().for_each(|(at, label)| *label = u16::from(at == 1));
    }
    let plan = Plan::new(n, classes, settings).expect("fits");
    Case {
        plan,
        rows: rows.to_vec(),
        codes: Codes::from_words(settings.bits as usize, all).expect("words"),
        labels,
    }
}

impl Case {
    /// Returns each computing member's shares of the inputs of all owners.
    fn inputs(&self) -> [Vec<Inputs>; 3] {
        let bits = self.plan.settings().bits as usize;
        let (mut held, mut start) = ([vec![], vec![], vec![]], 0);
        for (place, &rows) in self.rows.iter().enumerate() {
            let words = (start..start + rows).flat_map(|row| self.codes.row(row).to_vec()).collect();
            let codes = Codes::from_words(bits, words).expect("words");
            let seeds = [0, 100, 200].map(|seed| Zeroizing::new([seed + place as u8; 32]));
            let labels = &self.labels[start..start + rows];
            let parcels = parcels(&codes, labels, self.plan.classes(), place, &seeds);
            let said = Announced::of([place as u8; 32], &parcels);
            for (number, (held, parcel)) in held.iter_mut().zip(&parcels).enumerate() {
                held.push(unpack(parcel, number, &said, rows, bits, self.plan.classes()).expect("a parcel"));
            }
            start += rows;
        }
        held
    }

    /// Does the same for owners that share parts of distances. In each pair, the earlier owner's part is
    /// random.
    fn parts(&self) -> [Vec<Inputs>; 3] {
        let (n, distances) = (self.plan.points(), self.codes.distances(&self.codes));
        let drawn = words(n * n, 16, 9);
        let start = |place: usize| self.rows[..place].iter().sum::<usize>();
        let ranges: Vec<_> = (0..self.rows.len()).map(|place| start(place)..start(place + 1)).collect();
        let mut held = [vec![], vec![], vec![]];
        for (place, own) in ranges.iter().enumerate() {
            let part = |x: usize, y: usize| match () {
                () if own.contains(&y) => distances[x * n + y],
                () if x < y => drawn[x * n + y] as u16,
                () => distances[x * n + y].wrapping_sub(drawn[y * n + x] as u16),
            };
            let pairs = own.clone().flat_map(|x| (0..n).map(move |y| (x, y)));
            let parts: Vec<u16> = pairs.map(|(x, y)| part(x, y)).collect();
            let seeds = [0, 100, 200].map(|seed| Zeroizing::new([seed + place as u8; 32]));
            let labels = &self.labels[own.clone()];
            let parcels = parcels_of_distances(&parts, labels, self.plan.classes(), place, &seeds);
            let said = Announced::of([place as u8; 32], &parcels);
            for (number, (held, parcel)) in held.iter_mut().zip(&parcels).enumerate() {
                let inputs = unpack_distances(parcel, number, &said, own.len(), n, self.plan.classes());
                held.push(inputs.expect("a parcel"));
            }
        }
        held
    }

    fn reference(&self) -> Reference {
        Reference::new(&self.plan, &self.codes, &self.labels)
    }

    fn run(&self, seed: u8) -> Run<Outcome> {
        self.run_on(self.inputs(), seed)
    }

    fn run_on(&self, inputs: [Vec<Inputs>; 3], seed: u8) -> Run<Outcome> {
        in_memory(seed, |context: Context| {
            let inputs = inputs[context.role()].clone();
            Box::pin(run(context, self.plan, inputs))
        })
    }

    /// Puts the owners' outputs together.
    fn output(&self, sealed: &[Sealed; 3]) -> flyswarm_mpc::propagation::integer::reference::Output {
        let mut whole = flyswarm_mpc::propagation::integer::reference::Output::default();
        let mut start = 0;
        for &rows in &self.rows {
            let part = |party: usize| sealed[party].for_owner(party, start..start + rows);
            let output = unseal(rows, self.plan.classes(), &part(0), &part(1)).expect("an output");
            whole.labels.extend(output.labels);
            whole.coarse.extend(output.coarse);
            start += rows;
        }
        whole
    }
}

fn settings() -> Settings {
    Settings { k: 4, bits: 64, alpha: 0.95, steps: 30, power: 1, balance: false }
}

fn sealed(outcomes: [Outcome; 3]) -> [Sealed; 3] {
    outcomes.map(|outcome| match outcome {
        Outcome::Sealed(sealed) => sealed,
        other => panic!("all are honest: {other:?}"),
    })
}

#[test]
fn every_stage_is_the_references_bit_for_bit() {
    let balance = Settings { balance: true, ..settings() };
    let shapes: [(&[usize], usize, Settings); 7] = [
        // With balanced classes: five classes (three of them without a label), one class, and few points.
        (&[40, 35], 5, balance),
        (&[30, 21], 1, Settings { k: 20, ..balance }),
        (&[1, 1], 2, balance),
        (&[20, 0, 31], 3, settings()),
        (&[1, 69], 5, Settings { k: 9, bits: 128, power: 3, ..settings() }),
        (&[2, 1], 1, Settings { k: 10, ..settings() }),
        (&[33, 33, 33], 2, Settings { k: 1, alpha: 0.5, steps: 14, ..settings() }),
    ];
    for (number, (rows, classes, settings)) in shapes.into_iter().enumerate() {
        let case = case(rows, classes, settings, number as u8);
        let (plan, inputs, n) = (case.plan, case.inputs(), case.plan.points());
        let run = in_memory(7, |mut context: Context| {
            let inputs = inputs[context.role()].clone();
            Box::pin(async move {
                let context = &mut context;
                let codes = Shared::concat(inputs.iter().map(|input| &input.codes));
                let labels = Shared::concat(inputs.iter().map(|input| &input.labels));
                let (codes, labels) = integers(context, codes, &labels, plan.classes()).await;
                let keys = bits_of_distances(context, &plan, codes).await;
                context.enter(Stage::Nearest);
                let chosen = nearest(context, &keys, n, plan.k()).await;
                let edges = edges(context, &plan, keys, chosen).await.expect("equal copies");
                let opened: Vec<_> = edges.iter().flat_map(|edges| edges.opened.clone()).collect();
                let weights = weights(context, &plan, &edges).await;
                let (graph, degrees) = dense(context, &plan, edges, &weights).await;
                context.enter(Stage::Degrees);
                let found = reciprocals(context, &plan, &degrees, &labels).await;
                context.enter(Stage::Propagation);
                let scores = propagate(context, &plan, &Arc::new(graph), &found, &labels).await;
                context.enter(Stage::Output);
                let sealed = seal(context, &plan, &scores).await;
                (opened, weights, [degrees, found.inverses, found.roots, scores], sealed)
            })
        });
        let reference = case.reference();
        let ones: u32 = run.results[0].0.iter().map(|word| word.0.count_ones()).sum();
        assert_eq!(ones as usize, n * plan.k(), "each row has k marks");
        let mut weights = opened(&run.results.each_ref().map(|run| run.1.clone()));
        let mut expected = reference.weights.clone();
        for (found, expected) in weights.chunks_mut(plan.k()).zip(expected.chunks_mut(plan.k())) {
            // The edges are sorted first, because they come in the order of a secret permutation.
            found.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(weights, expected, "case {number}");
        let value = |at: usize| opened(&run.results.each_ref().map(|run| run.2[at].clone()));
        assert_eq!(value(0), reference.degrees, "case {number}");
        assert_eq!((value(1), value(2)), (reference.inverses.clone(), reference.roots.clone()));
        let scores: Vec<i64> = value(3).into_iter().map(|score| score as i64).collect();
        assert_eq!(scores, reference.scores, "case {number}");
        assert_eq!(case.output(&run.results.map(|run| run.3)), reference.output, "case {number}");
    }
}

#[test]
fn rounds_follow_from_public_numbers() {
    // The number of rounds or bytes must not depend on the codes and labels.
    let one = case(&[30, 40], 3, settings(), 1).run(1);
    let two = case(&[70, 0], 3, settings(), 2).run(2);
    assert_eq!((one.rounds, one.sent), (two.rounds, two.sent));
    assert_eq!(one.stages(), two.stages());
    let rounds: Vec<u32> = one.stages().into_iter().map(|(_, rounds, _)| rounds).collect();
    assert_eq!(rounds, [5, 1, 8, 141, 4, 7, 3, 117, 340, 114], "{:?}", one.stages());
    // A step takes two reshares, and a truncation of 9 rounds. The labels take one reshare, and the
    // truncation of the sum 9 rounds.
    assert_eq!(rounds[8], 1 + 30 * (2 + 9) + 9);
    // Balanced classes take one more product and truncation. The numbers of labels use the same rounds as the
    // reciprocals.
    let balance = Settings { balance: true, ..settings() };
    let (one, mut two) = (case(&[30, 40], 3, balance, 1), case(&[70, 0], 3, balance, 2));
    two.labels.fill(None);
    let (one, two) = (one.run(1), two.run(2));
    assert_eq!((one.rounds, one.sent, one.stages()), (two.rounds, two.sent, two.stages()));
    let balanced: Vec<u32> = one.stages().into_iter().map(|(_, rounds, _)| rounds).collect();
    assert_eq!(balanced[..8], rounds[..8]);
    assert_eq!(balanced[8], rounds[8] + 10);
}

#[test]
fn from_parts_of_distances_comes_the_references_output_with_one_round_less_and_fewer_bytes() {
    for (rows, bits) in [(&[33, 30, 1][..], 64), (&[1, 69], 1024), (&[2, 1], 64)] {
        let case = case(rows, 3, Settings { bits, ..settings() }, 4);
        let (codes, parts) = (case.run(1), case.run_on(case.parts(), 1));
        assert_eq!(case.output(&sealed(parts.results)), case.reference().output, "{rows:?}");
        assert_eq!(parts.rounds + 1, codes.rounds);
        assert!(parts.sent.iter().zip(&codes.sent).all(|(parts, codes)| parts < codes));
    }
}

#[test]
fn distances_that_no_codes_have_and_any_words_of_labels_end_with_an_output() {
    let case = case(&[9, 9, 9], 2, settings(), 3);
    // An owner may share any word. It is reduced mod 2 L, so that nothing overflows.
    let spoiled = |at: usize, by: u16| {
        let mut inputs = case.parts();
        inputs[0][1].distances.next[at] = inputs[0][1].distances.next[at].wrapping_add(by);
        inputs[1][1].distances.own[at] = inputs[1][1].distances.own[at].wrapping_add(by);
        inputs
    };
    let plain = sealed(case.run_on(case.parts(), 4).results);
    for by in [128, 1 << 15, u16::MAX - 127] {
        let same = sealed(case.run_on(spoiled(5, by), 4).results);
        assert_eq!(case.output(&same), case.output(&plain), "{by}: a multiple of 2 L");
    }
    let ended = case.run_on(spoiled(5, 1000), 4);
    assert!(ended.results.iter().all(|outcome| matches!(outcome, Outcome::Sealed(_))));
    let mut inputs = case.parts();
    inputs[0][1].labels.next[4].0 ^= u64::MAX;
    inputs[1][1].labels.own[4].0 ^= u64::MAX;
    let ended = case.run_on(inputs, 4);
    assert!(ended.results.iter().all(|outcome| matches!(outcome, Outcome::Sealed(_))));
}

#[test]
fn bytes_and_rounds_are_those_of_the_design() {
    let (n, k, classes, log, steps) = (192, 10, 10, 9, 20);
    let settings = Settings { k, bits: 1 << log, alpha: 0.9, steps, power: 1, balance: false };
    let run = case(&[100, 92], classes, settings, 1).run(1);
    // Numbers of pairs, ordered pairs, edges and scores, from which the bytes of each stage follow.
    let (pairs, square, edges, scores) = (n * (n - 1) / 2, n * n, n * k, n * classes);
    let index = (n - 1usize).ilog2() as usize + 1;
    let design = [
        // To make a word of a bit, the bit is reshared, and one of the three members deals.
        ((2 * n) << log) * 4 / 3 + 8 * scores * 4 / 3,
        2 * pairs,
        pairs * 4 * (log + 1) / 24,
        // The counting tree of the tie-break takes 3.2 products for each candidate, the path and the last
        // product take two.
        square * (4 + 8 * (log - 1) + 11) / 16 + (log + index) * 4 * (index + 1) * n / 8,
        // Each hop of a shuffle takes two messages. Then the marks are opened.
        square * (2 * (log + 1) + 1) / 8,
        ((1 << (log - 1)) + 448) / 8 * edges,
        square * 16,
        790 * n,
        // This is for two reshares, 65 dealt planes, the carry, two bits made into words, and a reshare.
        445 * scores * steps / 10,
    ];
    // Labels and coarse scores take 330 bytes for each score. At 2,500 points this is about 3 % of the rest.
    let output = 330 * scores;
    let design: usize = design.iter().sum::<usize>() + output;
    let most = run.sent.iter().copied().max().expect("three") as f64;
    assert!(most <= 1.05 * design as f64, "{most} bytes, {design} by the design: {:?}", run.stages());
    let least = run.sent.iter().copied().min().expect("three") as f64;
    assert!(most <= 1.02 * least, "all three members have the same load: {:?}", run.sent);
    // Choosing neighbours takes 396 rounds at 2,500 points and codes of 4,096 bits. A step takes 11 rounds
    // for any number of points.
    let rounds: Vec<u32> = run.stages().into_iter().map(|(_, rounds, _)| rounds).collect();
    assert!(rounds[3] == 214 && rounds[7] <= 140 && rounds[9] <= 170, "{rounds:?}");
    assert_eq!(rounds[8], 1 + 11 * steps as u32 + 9);
    // Balanced classes take one more product, one more truncation by 20 bits, and a lookup for each class.
    let balanced = case(&[100, 92], classes, Settings { balance: true, ..settings }, 1).run(1);
    let more = balanced.sent.iter().copied().max().expect("three") as f64 - most;
    assert!(more <= (32 * scores + 400 * classes) as f64, "{more} bytes more for {scores} scores");
    assert_eq!(balanced.rounds, run.rounds + 10);
}

#[test]
fn an_owner_that_sends_another_share_than_it_announced_ends_the_computation_with_its_place() {
    let case = case(&[9, 9, 9], 2, settings(), 3);
    let mut inputs = case.inputs();
    inputs[0][1].view = [0; 32];
    let ended = case.run_on(inputs, 4);
    let alone = Outcome::Alone;
    assert_eq!(ended.results, [Outcome::Cheats(vec![1]), alone(Side::Before), alone(Side::After)]);
    assert_eq!(ended.rounds, 1, "no other round has begun");
}

#[test]
fn every_bit_that_a_party_gets_depends_on_the_key_that_it_has_not() {
    // There are 64 points, so that the opened marks fill their words completely.
    let case = case(&[32, 32], 1, Settings { k: 3, alpha: 0.1, steps: 3, ..settings() }, 8);
    let inputs = case.inputs();
    for me in 0..3 {
        let (mut all, mut any) = (Vec::new(), Vec::new());
        for attempt in 0..36 {
            // The two keys of this member stay the same. The third key differs each time.
            let mut keys = [[1; 32], [2; 32], [3; 32]];
            keys[(me + 2) % 3] = [10 + attempt; 32];
            let program = |context: Context| {
                let inputs = inputs[context.role()].clone();
                Box::pin(run(context, case.plan, inputs)) as Part<'_, Outcome>
            };
            let mut messages = Vec::new();
            let run = with_keys(keys, program, |party, side, bytes| {
                if party == me {
                    messages.push((side, bytes.to_vec()));
                }
            });
            // The opened marks are not random, because three of the 64 marks of each row are set. They come
            // from the previous member with the last round of the compaction.
            let last: u32 = run.stages().iter().take(5).map(|(_, rounds, _)| rounds).sum();
            let marks = &mut messages[2 * (last as usize - 1)];
            assert_eq!((marks.0, marks.1.len()), (Side::Before, 64 * 8));
            marks.1.clear();
            // The first round has hashes of the owners' announcements, which are the same each time.
            messages[..2].iter_mut().for_each(|(_, hashes)| hashes.clear());
            let view: Vec<u8> = messages.into_iter().flat_map(|(_, bytes)| bytes).collect();
            if attempt == 0 {
                (all, any) = (view.clone(), view);
                continue;
            }
            assert_eq!(all.len(), view.len());
            all.iter_mut().zip(&view).for_each(|(all, byte)| *all &= byte);
            any.iter_mut().zip(&view).for_each(|(any, byte)| *any |= byte);
        }
        let constant: u32 = all.iter().zip(&any).map(|(all, any)| (all | !any).count_ones()).sum();
        assert_eq!(constant, 0, "of {} bits that party {me} gets", 8 * all.len());
        assert!(all.len() > 10_000);
    }
}

/// Three machines and the messages between them. They are delivered in a random order that `stream` draws.
struct Net {
    parties: [Party; 3],
    queue: VecDeque<(usize, usize, Frame)>,
    outcomes: [Option<Outcome>; 3],
    blamed: Vec<(usize, Peer, Fault)>,
}

impl Net {
    fn new(case: &Case, proves: bool) -> Self {
        let peers = [Peer(4), Peer(1), Peer(7)];
        let key = |number: usize| [number as u8 % 3; 32];
        let mut inputs = case.inputs().into_iter();
        let parties = std::array::from_fn(|number| {
            let keys = Keys::new(key(number), key(number + 1), b"session, view, attempt");
            let (plan, inputs) = (case.plan, inputs.next().expect("three"));
            let program = |context| boxed(context, plan, inputs, proves);
            Party::new(number, peers, keys, round_limit(&plan), proves, program)
        });
        Self { parties, queue: VecDeque::new(), outcomes: [None, None, None], blamed: Vec::new() }
    }

    fn give(&mut self, to: usize, input: Input<Party>) {
        let place = |peer: Peer| [4, 1, 7].iter().position(|&place| place == peer.0).expect("a party");
        let step = self.parties[to].handle(Time(0), input);
        for action in step.0 {
            match action {
                Action::Send { to: peer, message } => self.queue.push_back((to, place(peer), message)),
                Action::Compute(turn) => self.give(to, Input::Done(turn.run())),
                Action::Output(outcome) => self.outcomes[to] = Some(outcome),
                Action::Blame { peer, fault } => self.blamed.push((to, peer, fault)),
                _ => panic!("a party only sends, computes, blames and ends"),
            }
        }
    }

    /// Delivers all messages in a random order that keeps the order between each two machines. `change` may
    /// alter or drop a message.
    fn run(&mut self, stream: &mut Stream, mut change: impl FnMut(usize, usize, Frame) -> Option<Frame>) {
        (0..3).for_each(|party| self.give(party, Input::Start));
        while !self.queue.is_empty() {
            let drawn = stream.below(self.queue.len() as u32) as usize;
            let (from, to) = (self.queue[drawn].0, self.queue[drawn].1);
            let first =
                self.queue.iter().position(|message| (message.0, message.1) == (from, to)).expect("drawn");
            let (_, _, message) = self.queue.remove(first).expect("drawn");
            if let Some(message) = change(from, to, message) {
                let from = [Peer(4), Peer(1), Peer(7)][from];
                self.give(to, Input::Message { from, message });
            }
        }
    }
}

#[test]
fn machines_end_with_the_references_output_in_whatever_order_messages_come() {
    let case = case(&[25, 25], 3, settings(), 5);
    for seed in 0..3 {
        let mut net = Net::new(&case, seed < 2);
        net.run(&mut Stream::new(&[seed; 32], "order", &[]), |_, _, message| Some(message));
        assert_eq!(net.blamed, []);
        let outcomes = net.outcomes.map(|outcome| outcome.expect("all end"));
        assert_eq!(case.output(&sealed(outcomes)), case.reference().output);
        let (rounds, sent) = net.parties[0].traffic();
        assert!(rounds > 500 && sent.iter().all(|&bytes| bytes > 10_000), "{rounds} rounds, {sent:?}");
    }
}

#[test]
fn one_bit_of_any_message_that_is_not_the_programs_spoils_no_output() {
    let case = case(&[5, 5], 2, Settings { steps: 2, alpha: 0.1, ..settings() }, 5);
    let run = |cheat: usize, place: usize, bit: usize| {
        let (mut net, mut count) = (Net::new(&case, true), 0);
        net.run(&mut Stream::new(b"order", "order", &[]), |from, _, mut frame| {
            if from == cheat && !frame.data.is_empty() {
                count += 1;
                if count == place {
                    let mut data = frame.data.to_vec();
                    let at = bit % (8 * data.len());
                    data[at / 8] ^= 1 << (at % 8);
                    frame.data = data.into();
                }
            }
            Some(frame)
        });
        (net.outcomes, net.blamed, count)
    };
    let (honest, _, frames) = run(0, 0, 0);
    let honest = honest.map(|outcome| outcome.expect("all end"));
    assert_eq!(case.output(&sealed(honest.clone())), case.reference().output);
    let drawn = words(60, 64, 3);
    let (mut refused, mut early) = (0, 0);
    for (at, word) in drawn.into_iter().enumerate() {
        let cheat = at % 3;
        let (found, blamed, _) = run(cheat, 1 + word as usize % frames, (word >> 32) as usize);
        assert!(blamed.iter().all(|(_, peer, _)| *peer == [4, 1, 7].map(Peer)[cheat]), "{blamed:?}");
        // If a member ends with shares of the output, they are the right ones.
        for (found, honest) in found.iter().zip(&honest) {
            assert!(found.as_ref().is_none_or(|f| !matches!(f, Outcome::Sealed(_)) || f == honest), "{at}");
        }
        refused += usize::from(found.iter().any(|found| matches!(found, Some(Outcome::Fails(_)))));
        early += usize::from(found.iter().all(|found| !matches!(found, Some(Outcome::Sealed(_)))));
    }
    // Not every change matters, because packed words may end with bits that are not read.
    assert!(refused >= 40 && early >= 50, "{refused} refused, {early} before any output");
}

#[test]
fn a_frame_that_is_too_long_short_or_of_another_round_is_blamed_on_its_sender() {
    let case = case(&[10, 10], 2, settings(), 6);
    let ways: [fn(&mut Frame); 5] = [
        |frame| frame.data = [&frame.data[..], &[0]].concat().into(),
        |frame| frame.data.truncate(frame.data.len() - 1),
        |frame| frame.data.clear(),
        |frame| frame.round ^= 4,
        |frame| frame.data = vec![0; PAYLOAD + 1].into(),
    ];
    for way in ways {
        let (mut net, mut left) = (Net::new(&case, true), 40);
        net.run(&mut Stream::new(b"order", "order", &[]), |from, to, message| {
            if (from, to) == (1, 2) && !message.data.is_empty() {
                left -= 1;
                if left == 0 {
                    let mut frame = message;
                    way(&mut frame);
                    return Some(frame);
                }
            }
            Some(message)
        });
        assert!(net.outcomes.iter().all(Option::is_none), "nobody ends with a result");
        assert_eq!(net.blamed.len(), 1);
        assert_eq!((net.blamed[0].0, net.blamed[0].1), (2, Peer(1)), "{:?}", net.blamed);
    }
}

#[test]
fn who_does_not_compute_is_blamed_for_a_frame_and_a_party_bears_it() {
    let case = case(&[10, 10], 2, settings(), 6);
    let mut net = Net::new(&case, true);
    net.give(
        0,
        Input::Message {
            from: Peer(9),
            message: Frame { round: 0, last: true, data: Bytes::from_static(&[0; 9]) },
        },
    );
    assert!(matches!(net.blamed[..], [(0, Peer(9), Fault::OutOfOrder(_))]));
    net.run(&mut Stream::new(b"order", "order", &[]), |_, _, message| Some(message));
    assert!(net.outcomes.iter().all(Option::is_some));
}
