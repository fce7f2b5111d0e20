//! Tests of private rounds: updates are bounded, the noise has the stated size, and no other value is opened.

use chacha20::rand_core::SeedableRng;

use super::super::private::bounded;
use super::super::tensors::Values;
use super::*;
use crate::protocol::context::Kind;
use crate::protocol::view::Rng;

const LINES: &str = "rounds = 2\nweighting = \"equal\"\nclip = 1.0";
const BUDGET: &str = "epsilon = 100.0\ndelta = 0.01\n";

fn private_text(peers: u16) -> String {
    text(peers, LINES).replacen("min_contributors = 1\n", BUDGET, 1)
}

fn private_session(peers: u16) -> Session {
    Session::parse(&private_text(peers)).unwrap()
}

fn rng(peer: Peer, slot: u32) -> Rng {
    Rng::from_seed([peer.0 as u8 + 16 * slot as u8; 32])
}

fn signed(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<4>().0.iter().map(|&word| i64::from(i32::from_le_bytes(word))).collect()
}

/// Sums the first `slots` slots (the coin, `rows` and rounds) over these members. Also returns the vectors of
/// the last slot.
fn summed(tasks: &[Fedavg], slots: u32, members: impl Fn(u32) -> Vec<Peer>) -> (History, Vec<Bytes>) {
    let mut opened = vec![(committed(0, &members(0)), Bytes::copy_from_slice(&COIN))];
    let mut vectors = Vec::new();
    for (slot, aggregate) in (0u32..slots).zip(tasks[0].plan()).skip(1) {
        let history = History::of(opened.clone());
        let vector = |peer: &Peer| match aggregate.kind {
            Kind::Noised => tasks[peer.index()].noisy_contribution(slot, &history, &mut rng(*peer, slot)),
            _ => tasks[peer.index()].contribution(slot, &history),
        };
        tasks[0].allows(slot, &history, &members(slot)).unwrap();
        vectors = members(slot).iter().map(|peer| vector(peer).unwrap()).collect();
        let mut total = vec![0; aggregate.len()];
        vectors.iter().for_each(|vector| crate::crypto::mask::add(aggregate.word(), &mut total, vector));
        opened.push((committed(slot, &members(slot)), total.into()));
        tasks[0].check(slot, &History::of(opened.clone())).unwrap();
    }
    (History::of(opened), vectors)
}

#[test]
fn a_private_session_opens_noised_rounds_and_how_many_take_part_and_nothing_else() {
    let session = private_session(5);
    let tasks = tasks(&session, &parts(5));
    let plan = tasks[0].plan();
    let names: Vec<_> = plan.iter().map(|aggregate| (&*aggregate.name, aggregate.is_noised())).collect();
    assert_eq!(names, [("coin", false), ("rows", false), ("round-1", true), ("round-2", true)]);
    let everybody = |_: u32| (0..5).map(Peer).collect::<Vec<_>>();
    let (history, vectors) = summed(&tasks, 4, everybody);
    assert_eq!(signed(history.vector(1).unwrap()), [5], "each peer counts as one, regardless of its rows");
    // After the weights, every member has the same words, which follow from the list of members.
    let weights = tasks[0].plan.network.weights();
    let share = (1 << 27) / 5;
    for vector in vectors {
        assert_eq!(signed(&vector)[weights..], [share, 1, 5, 0]);
    }
    assert!(tasks[0].metrics(2, &history).is_empty());
    let outcome = tasks[1].outcome(&history, 0).unwrap();
    assert_eq!(outcome.summary, "epsilon 100, delta 0.01: no accuracy is reported");
    assert_eq!(outcome.details.keys().collect::<Vec<_>>(), ["privacy"]);
}

#[test]
fn a_round_is_the_bounded_updates_and_noise_of_the_variance_that_is_stated() {
    let session = private_session(5);
    let (parts, everybody) = (parts(5), |_: u32| (0..5).map(Peer).collect::<Vec<_>>());
    let tasks = tasks(&session, &parts);
    let (history, _) = summed(&tasks, 3, everybody);
    let network = spec(&session).build(&session.data).unwrap();
    let start = network.initial(&COIN);
    let share = f64::from((1u32 << 27) / 5);
    let mut plain = vec![0.0; start.len()];
    for (peer, part) in (0u16..).zip(&parts) {
        // The rounds of a private session begin a slot earlier.
        let mut made = trained(&session, &COIN, part, peer, 2, &start).weights;
        clip_update(&start, &mut made, 1.0);
        let length: f64 = start.iter().zip(&made).map(|(from, to)| f64::from(to - from).powi(2)).sum();
        assert!(length.sqrt() <= 1.0 + 1e-5);
        plain.iter_mut().zip(made).for_each(|(sum, weight)| *sum += f64::from(weight) * share);
    }
    let opened = signed(history.vector(2).unwrap());
    let squares = opened.iter().zip(&plain).map(|(&word, plain)| (word as f64 - plain).powi(2));
    let found = squares.sum::<f64>() / plain.len() as f64;
    // By hand: rho is 65.31388... over two rounds. A sum has at least three members. One of them may be
    // curious, so the noise of the two others must be enough. Here five members add noise.
    let (rho, longest) = (65.313_889, (1u32 << 27) / 5);
    let stated = 5.0 * (2.0 * f64::from(longest)).powi(2) * 2.0 / (2.0 * rho * 2.0);
    // Over 650 weights, the standard deviation of the mean of squares is 0.055.
    assert!((found / stated - 1.0).abs() < 0.28, "{}", found / stated);
}

#[test]
fn a_member_that_does_not_train_adds_its_share_of_the_noise_all_the_same() {
    let session = private_session(5);
    let parts = parts(5);
    let tasks = tasks(&session, &parts);
    let late = |slot: u32| (0..if slot < 2 { 4 } else { 5 }).map(Peer).collect::<Vec<_>>();
    let (_, vectors) = summed(&tasks, 3, late);
    let words = signed(&vectors[4]);
    let weights = tasks[0].plan.network.weights();
    assert_eq!(words[weights..], [0, 1, 4, 0], "this member has no share in the mean");
    let noise = tasks[0].plan.noise.unwrap().variance((1 << 27) / 4).unwrap() as f64;
    let found = words[..weights].iter().map(|&word| (word as f64).powi(2)).sum::<f64>() / weights as f64;
    assert!((found / noise - 1.0).abs() < 0.28, "{}", found / noise);
}

#[test]
fn an_update_is_never_longer_than_the_bound_and_one_that_is_not_finite_is_none() {
    let square = |units: &[i64]| units.iter().map(|&unit| i128::from(unit).pow(2)).sum::<i128>();
    for (trained, longest) in
        [(vec![0.5f32; 9], 100), (vec![1e30; 9], 7), (vec![0.9, -3.0, 0.0, 1e-9], 1), (vec![1.0; 3], 0)]
    {
        let units = bounded(&vec![0.0; trained.len()], &trained, 1 << 20, longest);
        assert!(square(&units) <= i128::from(longest).pow(2), "{units:?} is longer than {longest}");
    }
    // An update that is short enough is not changed.
    assert_eq!(bounded(&[1.0, 1.0], &[1.25, 0.5], 8, 5), [2, -4]);
    for wild in [f32::NAN, f32::INFINITY] {
        assert_eq!(bounded(&[0.0, 0.0], &[wild, 1.0], 8, 5), [0, 0]);
    }
}

#[test]
fn weights_that_leave_no_room_for_the_noise_end_a_private_session_by_name() {
    let session = private_session(5);
    let mut tasks = tasks(&session, &parts(5));
    let (history, _) = summed(&tasks, 2, |_| (0..5).map(Peer).collect());
    let mut first = vec![0.0; tasks[0].plan.network.weights()];
    first[7] = 8.5;
    tasks[0].plan.initial = Some(Arc::new(Values { averaged: first, others: Vec::new() }));
    let error = tasks[0].noisy_contribution(2, &history, &mut rng(Peer(0), 2)).unwrap_err();
    let expected = "weight 7 at the start of round 1 is 8.5, must be between -8 and 8 in a private session";
    assert_eq!(error, expected);
}

#[test]
fn what_makes_no_sense_beside_the_noise_of_rounds_is_refused_by_field() {
    let text = private_text(5);
    for (from, to, reason) in [
        ("weighting = \"equal\"", "weighting = \"rows\"", "fedavg.weighting is rows, must be equal with"),
        ("clip = 1.0", "clip = 0.0", "fedavg.clip is 0, must be 0.001 to 4 with privacy.epsilon"),
        ("clip = 1.0", "clip = 4.5", "fedavg.clip is 4.5"),
        ("clip = 1.0", "clip = 1.0\nheld_out = 20", "fedavg.held_out is 20, must be 0 with"),
        ("delta = 0.01\n", "", "privacy.delta is missing, must be given with the task fedavg"),
        ("delta = 0.01", "delta = 0.5", "privacy.delta is 0.5, must be 1e-12 to 0.01"),
        ("delta = 0.01", "delta = 0.01\ntop = 3", "privacy.top is 3, must be left out with the task fedavg"),
        ("delta = 0.01", "delta = 0.01\nmode = \"central\"", "privacy.mode is central, must be member with"),
        ("delta = 0.01", "delta = 0.01\ncolluders = 3", "privacy.colluders is 3"),
        ("epsilon = 100.0", "epsilon = 0.1", "on each weight does not fit the words of a round"),
        ("{ range = { lo = 0.0, hi = 16.0 } }", "\"standard\"", "data.scaling is standard"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Session::parse(&text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(reason), "{error:?} does not say {reason:?}");
    }
}

#[test]
fn a_member_that_is_killed_in_a_private_round_draws_nothing_again_and_all_have_the_same_network() {
    let session = private_session(5);
    let parts = parts(5);
    let swarm = crashed(&session, &parts, "sum", 4);
    // A peer that draws its noise twice would be reported as a violation.
    assert_eq!(swarm.checks.violations, []);
    assert_eq!(swarm.finished.len(), 5);
    let digests: std::collections::BTreeSet<_> =
        swarm.finished.keys().map(|&peer| swarm.outcome(peer).unwrap().unwrap().digest).collect();
    assert_eq!(digests.len(), 1);
}
