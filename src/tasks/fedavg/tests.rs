//! Compares the rounds with a plain program that does the same in one place. The results are equal bit for
//! bit, even if members are lost or come late. The plain program uses the same learner, but no words, slots
//! or carried numbers.

mod early;
mod evaluate;
mod grouped;
mod own_model;
mod own_trainer;
mod private;

use flyswarm_data::prepare::{ColumnSpec, Kind, TableSchema};
use flyswarm_learn::learner::{Classifier, Settings, Trained, clip_update, train};
use proptest::prelude::*;

use super::words::{Carried, LIMIT, Layout, mean};
use super::*;
use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::data::deal::shuffle;
use crate::data::digits::digits;
use crate::data::split::Rows as SplitRows;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value as Committed;
use crate::protocol::sum_id::SumId;
use crate::sim::participants::Participants;
use crate::sim::run::play;
use crate::sim::scenario::File;
use crate::sim::swarm::Swarm;
use crate::tasks::Weighting;
use flyswarm_data::scaling::Scaler;

const COIN: [u8; 32] = [5; 32];

fn identities(peers: u16) -> Vec<Identity> {
    let mut identities: Vec<_> = (0..peers).map(|i| Identity::from_seed([i as u8 + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    identities
}

/// Makes a session of this number of peers over the digits, with these lines for `[fedavg]`.
fn session(peers: u16, lines: &str) -> Session {
    Session::parse(&text(peers, lines)).unwrap()
}

fn text(peers: u16, lines: &str) -> String {
    let classes: Vec<String> = digits().classes().iter().map(|class| format!("{class:?}")).collect();
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"fedavg\"\n[data]\nfeatures = 64\ncheck_columns = false\nclasses = [{}]\n\
         scaling = {{ range = {{ lo = 0.0, hi = 16.0 }} }}\n[fedavg]\n{lines}\n\
         [privacy]\nmin_contributors = 1\n[timing]\nregroup_interval_ms = 0\n",
        classes.join(", ")
    );
    for (i, identity) in identities(peers).iter().enumerate() {
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", identity.public());
    }
    text
}

fn spec(session: &Session) -> &FedavgSpec {
    let Some(spec) = session.task.get::<crate::tasks::FedavgSpec>() else { panic!("{:?}", session.task) };
    spec
}

/// Returns every peer's rows of the digits. Peer i has 15 + 5 i rows.
fn parts(peers: u16) -> Vec<Arc<Dataset>> {
    let mut next = 0;
    let part = |peer: u16| {
        let rows: Vec<usize> = (next..next + 15 + 5 * usize::from(peer)).collect();
        next += rows.len();
        Arc::new(digits().subset(&rows))
    };
    (0..peers).map(part).collect()
}

fn tasks(session: &Session, parts: &[Arc<Dataset>]) -> Vec<Fedavg> {
    let peers = (0u16..).map(Peer).zip(parts);
    let task = |(peer, rows): (Peer, &Arc<Dataset>)| {
        Fedavg::new(session.clone(), spec(session).clone(), peer, rows.clone()).unwrap()
    };
    peers.map(task).collect()
}

fn committed(slot: u32, members: &[Peer]) -> Committed {
    let sum = SumId { ballot: Ballot::default(), slot };
    Committed { sum, members: members.to_vec(), total: [0; 32], deals: [0; 32] }
}

/// Sums slot after slot over the members that `members` returns. Drops each vector that later slots do not
/// need.
fn federated(tasks: &[Fedavg], members: impl Fn(u32) -> Vec<Peer>) -> Result<History, String> {
    federated_to(u32::MAX, tasks, members)
}

/// Does the same as `federated`, up to this slot.
fn federated_to(end: u32, tasks: &[Fedavg], members: impl Fn(u32) -> Vec<Peer>) -> Result<History, String> {
    let everybody: Vec<_> = (0u16..).map(Peer).take(tasks.len()).collect();
    let mut slots = vec![(committed(0, &everybody), Bytes::copy_from_slice(&COIN))];
    for (slot, aggregate) in (0..end).zip(tasks[0].plan()).skip(1) {
        let history = History::of(slots.clone());
        let members = members(slot);
        tasks[0].allows(slot, &history, &members)?;
        let mut total = vec![0; aggregate.len()];
        for peer in &members {
            let vector = tasks[peer.index()].contribution(slot, &history)?;
            assert_eq!(vector.len(), aggregate.len(), "{}", aggregate.name);
            crate::crypto::mask::add(aggregate.word(), &mut total, &vector);
        }
        slots.push((committed(slot, &members), total.into()));
        let history = History::of(slots.clone());
        tasks.iter().try_for_each(|task| task.check(slot, &history))?;
        for (before, (_, vector)) in (0u32..).zip(&mut slots) {
            if !tasks[0].still_needed(before, &history) {
                *vector = Bytes::new();
            }
        }
        if tasks[0].ends(&History::of(slots.clone())) {
            break;
        }
    }
    Ok(History::of(slots))
}

/// Trains one member on the weights, in one place.
fn trained(
    session: &Session,
    seed: &[u8; 32],
    part: &Dataset,
    peer: u16,
    slot: u32,
    start: &[f32],
) -> Trained {
    let spec = spec(session);
    let network = spec.build(&session.data).unwrap();
    let data = Scaler::fit(&session.data.scaling.of_rows(), part).unwrap().transform(part);
    let data = match spec.held_out {
        0 => data,
        percent => data.subset(&train_test(SplitRows::new(&vec![0; data.rows()], None), percent, seed).train),
    };
    let first = if session.privacy.noise.is_some() { 2 } else { 3 };
    let rate = spec.schedule.rate(spec.rate, slot - first, spec.rounds);
    let settings = Settings {
        epochs: spec.epochs,
        steps: spec.steps,
        batch: spec.batch as usize,
        rate: rate as f32,
        momentum: spec.momentum as f32,
        decay: spec.weight_decay as f32,
        proximal: spec.proximal as f32,
        augment: spec.augment(),
    };
    let place = [&peer.to_le_bytes()[..], &slot.to_le_bytes()].concat();
    let mut stream = Stream::new(seed, "fedavg/batches", &place);
    let mut trained =
        train(&network, start.to_vec(), data.view(), data.labels(), None, &settings, &mut stream);
    if spec.clip > 0.0 {
        clip_update(start, &mut trained.weights, spec.clip);
    }
    trained
}

/// Returns the loss on a peer's held-out rows.
fn held_loss(session: &Session, seed: &[u8; 32], part: &Dataset, weights: &[f32]) -> f64 {
    let spec = spec(session);
    let data = Scaler::fit(&session.data.scaling.of_rows(), part).unwrap().transform(part);
    let all = vec![0; data.rows()];
    let held = data.subset(&train_test(SplitRows::new(&all, None), spec.held_out, seed).test);
    let network = spec.build(&session.data).unwrap();
    let tested = network.evaluate(weights, held.view(), held.labels(), &mut Tape::default());
    (tested.loss / held.rows() as f64).min(15.0)
}

/// Computes the weights of the result in one place, with exact sums in fixed point. If `float` is true,
/// computes FedAvg in floating point instead.
fn plain(
    session: &Session,
    seed: &[u8; 32],
    parts: &[Arc<Dataset>],
    members: impl Fn(u32) -> Vec<Peer>,
    float: bool,
) -> Vec<f32> {
    plain_rounds(session, seed, parts, members, float).0
}

/// Does the same as `plain`. Also returns the round that made the weights, and the number of rounds.
fn plain_rounds(
    session: &Session,
    seed: &[u8; 32],
    parts: &[Arc<Dataset>],
    members: impl Fn(u32) -> Vec<Peer>,
    float: bool,
) -> (Vec<f32>, u32, u32) {
    let spec = spec(session);
    let mut weights = spec.build(&session.data).unwrap().initial(seed);
    let mut best = (u32::MAX, weights.clone(), 0);
    let rows = |peer: &Peer| match spec.weighting {
        Weighting::Rows => parts[peer.index()].rows() as u64,
        Weighting::Equal => 1,
    };
    // The shares use the rows of the largest set of members so far; in a tie, of the last such set.
    let mut counted = members(2);
    for slot in 3..=3 + spec.rounds {
        let (made, end) = (slot - 3, slot == 3 + spec.rounds);
        let all: u64 = counted.iter().map(rows).sum();
        let mut trains = counted.clone();
        if spec.members < 1.0 && !end {
            shuffle(&mut trains, &mut Stream::new(seed, "fedavg/members", &slot.to_le_bytes()));
            let drawn = (spec.members * trains.len() as f64).ceil() as usize;
            trains.truncate(drawn.max(4));
        }
        let present = members(slot);
        trains.retain(|peer| present.contains(peer));
        if spec.patience > 0 {
            let (mut sum, mut shares) = (0, 0);
            for peer in &trains {
                let share = rows(peer) * (1 << 27) / all;
                let loss = held_loss(session, seed, &parts[peer.index()], &weights);
                (sum, shares) = (sum + (loss * share as f64).round() as i64, shares + share);
            }
            let loss = (sum as f64 / shares as f64 * 1e3).round() as u32;
            if loss < best.0 {
                best = (loss, weights.clone(), made);
            }
        }
        // If training ends early with a round, the weights of this round are not judged and not used. The
        // weights of the last round are judged by `scores`.
        if end || spec.patience > 0 && made - best.2 >= spec.patience && made + 1 < spec.rounds {
            let rounds = if end { made } else { made + 1 };
            return if spec.patience > 0 { (best.1, best.2, rounds) } else { (weights, made, rounds) };
        }
        let (mut sums, mut floats) = (vec![0i64; weights.len()], vec![0f64; weights.len()]);
        let (mut shares, mut parts_of_all) = (0, 0.0);
        for peer in &trains {
            let made = trained(session, seed, &parts[peer.index()], peer.0, slot, &weights).weights;
            let share = rows(peer) * (1 << 27) / all;
            shares += share;
            parts_of_all += rows(peer) as f64;
            for ((sum, float), weight) in sums.iter_mut().zip(&mut floats).zip(made) {
                *sum += (f64::from(weight) * share as f64).round() as i64;
                *float += f64::from(weight) * rows(peer) as f64;
            }
        }
        weights = match float {
            false => sums.iter().map(|&sum| (sum as f64 / shares as f64) as f32).collect(),
            true => floats.iter().map(|sum| (sum / parts_of_all) as f32).collect(),
        };
        if present.len() >= counted.len() {
            counted = present;
        }
    }
    unreachable!("the loop returns")
}

fn bits(weights: &[f32]) -> Vec<u32> {
    weights.iter().map(|weight| weight.to_bits()).collect()
}

/// Returns the members of a slot: all but those that `lost` and `late` exclude.
fn members(peers: u16, lost: (u16, u32), late: (u16, u32)) -> impl Fn(u32) -> Vec<Peer> {
    move |slot| {
        let away = |peer: u16| (peer == lost.0 && slot == lost.1) || (peer == late.0 && slot < late.1);
        (0..peers).filter(|&peer| !away(peer)).map(Peer).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn rounds_are_those_of_a_plain_program_bit_for_bit_with_a_lost_member_and_a_late_one(
        options in prop_oneof![
            Just("held_out = 20"),
            Just("network = \"mlp\"\nhidden = [6]\nclip = 0.5\nproximal = 0.1"),
            Just("weighting = \"equal\"\nsteps = 3\nschedule = \"constant\""),
            Just("members = 0.5\nepochs = 2\nmomentum = 0.0"),
            Just("held_out = 20\npatience = 2"),
            Just("held_out = 20\npatience = 1\nepochs = 20\nrate = 0.7\nschedule = \"constant\""),
            Just("image = [1, 8, 8]\nflip = true\nshift = 1\nnetwork = \"cnn\"\nfilters = [2, 2, 2]\nhidden = [4]"),
        ],
        lost in (0u16..6, 3u32..8),
        late in (0u16..6, 3u32..7),
    ) {
        let session = session(6, &format!("rounds = 5\n{options}"));
        let parts = parts(6);
        let tasks = tasks(&session, &parts);
        let members = members(6, lost, late);
        match federated(&tasks, &members) {
            Ok(history) => {
                let (plain, best, rounds) = plain_rounds(&session, &COIN, &parts, &members, false);
                let outcome = tasks[2].outcome(&history, 0).unwrap();
                prop_assert_eq!(bits(Classifier::decode(&outcome.file).unwrap().weights()), bits(&plain));
                prop_assert_eq!(outcome.details["rounds"].as_array().unwrap().len() as u32, rounds);
                if spec(&session).patience > 0 {
                    prop_assert_eq!(&outcome.details["best_round"], &json!(best));
                } else {
                    prop_assert_eq!(bits(&tasks[1].plan.weights(8, &history).unwrap()), bits(&plain));
                }
            }
            // The session may fail if two of four drawn members are away, or if after an early end a member
            // is away that holds out rows of a class.
            Err(error) => {
                let away = spec(&session).patience > 0 && error.contains("peers hold out rows");
                prop_assert!(options.starts_with("members") || away, "{error}");
            }
        }
    }
}

/// Runs five peers in the simulator: one crashes at this stage of the second round, and is away for `away_s`
/// seconds.
fn crashed(session: &Session, parts: &[Arc<Dataset>], stage: &str, away_s: u32) -> Swarm {
    let at = format!("{{ slot = \"round-2\", stage = \"{stage}\" }}");
    let fault = format!("kind = \"crash\", peers = 2, at = {at}, for_s = {away_s}");
    let text = format!("peers = 5\nfault = [{{ {fault} }}]\n[network]\nlatency_ms = 20\n");
    let file = File::parse(&text, "fedavg".into(), "".into(), false).unwrap();
    let task = |peer: Peer| -> Result<Arc<dyn Task>, String> {
        let task = Fedavg::new(session.clone(), spec(session).clone(), peer, parts[peer.index()].clone());
        Ok(Arc::new(task.map_err(|error| error.to_string())?))
    };
    let participants = Participants::with_tasks(session.clone(), identities(5), task).unwrap();
    play(&file.runs[0].1, participants).unwrap()
}

#[test]
fn in_the_simulator_where_a_peer_crashes_and_returns_all_have_the_weights_of_the_plain_program() {
    let session = session(5, "rounds = 4\nheld_out = 20");
    let parts = parts(5);
    let swarm = crashed(&session, &parts, "compute", 4);
    assert_eq!(swarm.checks.violations, []);
    assert_eq!(swarm.finished.len(), 5);
    let history = &swarm.finished[&Peer(0)].history;
    assert!((3..7).any(|slot| history.members(slot).len() == 4), "somebody was away");
    let members = |slot: u32| history.members(slot).to_vec();
    let plain = plain(&session, &history.seed().unwrap(), &parts, members, false);
    let mut reports = std::collections::BTreeSet::new();
    for &peer in swarm.finished.keys() {
        let outcome = swarm.outcome(peer).unwrap().unwrap();
        assert_eq!(bits(Classifier::decode(&outcome.file).unwrap().weights()), bits(&plain), "{peer}");
        reports.insert((outcome.digest, serde_json::to_string(&outcome.details).unwrap()));
    }
    assert_eq!(reports.len(), 1, "the peer that was away also has the figures of every round");
}

#[test]
fn fixed_point_is_within_a_tenth_of_a_point_of_plain_averaging() {
    let session = session(5, "rounds = 10");
    let parts: Vec<_> = (0..5)
        .map(|peer| Arc::new(digits().subset(&(0..900).filter(|row| row % 5 == peer).collect::<Vec<_>>())))
        .collect();
    let everybody = |_: u32| (0..5).map(Peer).collect::<Vec<_>>();
    let history = federated(&tasks(&session, &parts), everybody).unwrap();
    let fixed = Plan::new(session.clone(), spec(&session).clone()).unwrap().classifier(&history).unwrap();
    let float = Classifier::new(
        fixed.network().architecture(),
        fixed.scaler().clone(),
        fixed.classes().to_vec(),
        Vec::new(),
        plain(&session, &COIN, &parts, everybody, true),
        ("plain".into(), [0; 32]),
    )
    .unwrap();
    let test = digits().subset(&(900..1797).collect::<Vec<_>>());
    let accuracy = |model: &Classifier| {
        let said = model.predict(test.view()).unwrap();
        said.iter().zip(test.labels()).filter(|(said, label)| said == label).count() as f64 / 897.0
    };
    let (fixed, float) = (accuracy(&fixed), accuracy(&float));
    assert!(fixed > 0.8 && (fixed - float).abs() <= 0.001, "{fixed} {float}");
}

#[test]
fn weights_out_of_range_and_nan_are_refused_by_name_before_anything_is_sent() {
    let lines = "rounds = 3\nrate = 10.0\nmomentum = 0.999\nepochs = 30\nnetwork = \"mlp\"";
    let wild = session(5, lines);
    let everybody = |_: u32| (0..5).map(Peer).collect::<Vec<_>>();
    let error = federated(&tasks(&wild, &parts(5)), everybody).unwrap_err();
    assert!(error.starts_with("training failed: dense") && error.contains("after round "), "{error}");
    assert!(error.contains("beyond +-16; training diverges (loss of the last rounds: "), "{error}");
    assert!(error.ends_with("); try fedavg.rate = 1 in a new session"), "{error}");
    let layout = Layout { weights: 2, figures: words::FIGURES, rounds: 1, predictions: 0 };
    let write =
        |weight: f32| layout.write(Some((&[0.0, weight], Figures::default())), ONE, 1, &Carried::default());
    for weight in [f32::NAN, f32::INFINITY, 16.0, -16.0] {
        let error = write(weight).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("weight 1 after training is {weight}, must be between -16 and 16 to be summed")
        );
    }
    assert!(write(15.999).is_ok() && write(-15.999).is_ok());
}

#[test]
fn the_largest_numbers_of_the_most_members_do_not_leave_the_ring() {
    // The worst case: a session has the most peers, their shares add up to 1, and all their weights are at
    // the limit.
    for sign in [1.0, -1.0] {
        let share = ONE / 1024;
        let word = mean_word(sign * LIMIT, share, String::new).unwrap();
        let total = (0..1024).fold(0u32, |total, _| total.wrapping_add(word));
        assert!((mean(total, ONE) - sign * LIMIT).abs() < 1e-5, "{}", mean(total, ONE));
    }
}

#[test]
fn a_sum_of_members_that_carry_different_histories_is_refused_by_everybody() {
    let session = session(4, "rounds = 3");
    let parts = parts(4);
    let tasks = tasks(&session, &parts);
    let everybody: Vec<_> = (0..4).map(Peer).collect();
    let history = federated(&tasks, |_| everybody.clone()).unwrap();
    let layout = tasks[0].plan.layout();
    // Opens the last round again, after one word of one member was changed.
    let last = tasks[0].plan.last() - 1;
    let refused = |at: usize, change: u32| {
        let mut vector = history.vector(last).unwrap().to_vec();
        let word = u32::from_le_bytes(vector[4 * at..][..4].try_into().unwrap()).wrapping_add(change);
        vector[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        let slot =
            |slot| (history.value(slot).unwrap().clone(), history.vector(slot).cloned().unwrap_or_default());
        let mut slots: Vec<_> = (0..=last).map(slot).collect();
        slots[last as usize].1 = vector.into();
        tasks[1].check(last, &History::of(slots)).unwrap_err()
    };
    let words = layout.words();
    assert!(refused(layout.weights + words::FIGURES, u32::MAX / 2).contains("share"));
    assert!(refused(layout.weights + words::FIGURES + 2, 1).contains("number of rows"));
    // The sum is as if each of the four had reported one more row.
    assert!(refused(layout.weights + words::FIGURES + 2, 4).contains("history"));
    assert!(refused(words - 2 * words::FIGURES, 3).contains("figure of a round"));
}

#[test]
fn a_peer_without_rows_is_refused_and_so_is_a_round_of_too_few_that_train() {
    let session = session(6, "rounds = 3\nmembers = 0.5");
    let empty = Arc::new(digits().subset(&[]));
    let error = Fedavg::new(session.clone(), spec(&session).clone(), Peer(0), empty).unwrap_err();
    assert_eq!(error.to_string(), "the task fedavg needs rows of every peer");
    let parts = parts(6);
    let tasks = tasks(&session, &parts);
    let slots = (0..3).map(|slot| {
        let vector = if slot == 0 { Bytes::copy_from_slice(&COIN) } else { Bytes::from(vec![9; 44]) };
        (committed(slot, &(0..6).map(Peer).collect::<Vec<_>>()), vector)
    });
    let history = History::of(slots);
    let trains = tasks[0].plan.trains(3, &history);
    assert_eq!(trains.len(), 4, "three members, and one in reserve");
    let others: Vec<_> = (0..6).map(Peer).filter(|peer| !trains[..2].contains(peer)).collect();
    let error = tasks[0].allows(3, &history, &others).unwrap_err();
    assert_eq!(error, "only 2 of the members that train are present, 3 are needed");
    let rounds: std::collections::BTreeSet<_> =
        (3..6).map(|slot| tasks[0].plan.trains(slot, &history)).collect();
    assert!(rounds.len() > 1, "each round draws other members");
}

/// Makes a network file that fits the session, and a session that starts from this file.
fn started(peers: u16, lines: &str, weights: impl Fn(&Plan) -> Vec<f32>) -> (Classifier, Session) {
    let drawn = session(peers, lines);
    let plan = Plan::new(drawn.clone(), spec(&drawn).clone()).unwrap();
    let scaler = Scaler::fit(&drawn.data.scaling.of_rows(), &digits()).unwrap();
    let file = plan.with_weights(scaler, weights(&plan)).unwrap();
    let named = session(peers, &format!("{lines}\ninitial = \"{}\"", hex::encode(file.digest())));
    assert_ne!(drawn.id(), named.id());
    (file, named)
}

#[test]
fn rounds_start_from_the_weights_of_the_file_that_the_session_names() {
    let (parts, lines, everybody) = (parts(4), "rounds = 3\nrate = 0.5", |_: u32| (0..4).map(Peer).collect());
    let plain = session(4, lines);
    let drawn = federated(&tasks(&plain, &parts), everybody).unwrap();
    let weights = |session: &Session, history: &History| {
        Plan::new(session.clone(), spec(session).clone()).unwrap().weights(6, history).unwrap()
    };
    let from = |file: &Classifier, named: &Session| {
        let mut tasks = tasks(named, &parts);
        let error = federated(&tasks, everybody).unwrap_err();
        assert_eq!(error, initial::MISSING);
        let start = initial::weights(named, spec(named), file).unwrap();
        tasks.iter_mut().for_each(|task| task.plan.initial = Some(start.clone()));
        federated(&tasks, everybody).unwrap()
    };
    // The file has the weights that the coin would have drawn, so the result is the same as without a file.
    let (file, named) = started(4, lines, |plan| plan.network.initial(&COIN));
    assert_eq!(bits(&weights(&named, &from(&file, &named))), bits(&weights(&plain, &drawn)));
    // Starts from the final weights of another session, so the first round continues where that session
    // ended.
    let (file, named) = started(4, lines, |_| weights(&plain, &drawn));
    let history = from(&file, &named);
    let loss = |session: &Session, history: &History| {
        let plan = Plan::new(session.clone(), spec(session).clone()).unwrap();
        plan.judged(history).unwrap().curve.iter().map(|figures| figures.loss).collect::<Vec<_>>()
    };
    let (before, after) = (loss(&plain, &drawn), loss(&named, &history));
    let rows = Rows::new(parts[0].clone());
    let error = (built_in(&named, spec(&named).clone()).build)(named.clone(), Peer(0), rows, &[0; 32]);
    assert_eq!(
        error.err().as_deref(),
        Some(initial::MISSING),
        "the peer is refused before it sends anything"
    );
    assert!(after[0] < before[2] && before[2] < before[0], "{before:?}, then {after:?}");
}

#[test]
fn a_network_file_that_is_not_the_sessions_is_refused_by_field() {
    let lines = "rounds = 3\nnetwork = \"mlp\"\nhidden = [6]";
    let (file, named) = started(4, lines, |plan| plan.network.initial(&COIN));
    let refused = |change: &dyn Fn(&mut Session), spec_of: &dyn Fn(&mut FedavgSpec)| {
        let (mut session, mut spec) = (named.clone(), spec(&named).clone());
        change(&mut session);
        spec_of(&mut spec);
        initial::weights(&session, &spec, &file).err().unwrap_or_default()
    };
    let (same, as_it_is) = (|_: &mut Session| {}, |_: &mut FedavgSpec| {});
    assert_eq!(refused(&same, &as_it_is), "");
    let told = refused(&same, &|spec| spec.initial = None);
    assert!(told.starts_with("the session file has no fedavg.initial"), "{told}");
    let told = refused(&same, &|spec| spec.initial = Some([7; 32]));
    assert!(told.starts_with("fedavg.initial is 0707") && told.contains("file has "), "{told}");
    let told = refused(&same, &|spec| spec.network = flyswarm_learn::learner::Architecture::Logistic);
    assert_eq!(told, "fedavg.network is logistic, the network file has mlp");
    let hidden = flyswarm_learn::learner::Architecture::Perceptron { hidden: vec![7, 2] };
    let told = refused(&same, &|spec| spec.network = hidden.clone());
    assert_eq!(told, "fedavg.hidden is [7, 2], the network file has [6]");
    let told = refused(&|session| session.data.features = 63, &as_it_is);
    assert_eq!(told, "data.features is 63, the network file has 64");
    let told = refused(&|session| session.data.scaling = crate::session::Scaling::Standard, &as_it_is);
    assert!(told.starts_with("data.scaling is Standard, the network file has Range"), "{told}");
    let bounds = crate::session::Scaling::Range { lo: 0.0, hi: 15.0 };
    let told = refused(&|session| session.data.scaling = bounds, &as_it_is);
    assert!(told.starts_with("data.scaling is Range"), "{told}");
    let told = refused(&|session| session.data.classes.swap(0, 1), &as_it_is);
    assert_eq!(told, "data.classes is \"1\", the network file has \"0\" in that place");
    let told = refused(&|session| session.data.columns = vec!["a".into()], &as_it_is);
    assert_eq!(told, "data.columns is 1 names, the network file has 0");
}

#[test]
fn a_network_of_another_table_is_refused_by_column() {
    let described = |levels: &[&str]| {
        let number = |at: usize| ColumnSpec::new(format!("x{at}"), Kind::Number);
        let mut columns: Vec<_> = (0..64).map(number).collect();
        columns[7].kind = Kind::Ordinal(levels.iter().map(|&level| level.into()).collect());
        Arc::new(TableSchema { columns, ..TableSchema::default() })
    };
    let (file, named) = started(4, "rounds = 3", |plan| plan.network.initial(&COIN));
    let table = described(&["I", "II"]);
    let (shape, weights) = (file.network().architecture(), file.weights().to_vec());
    let (scaler, classes) = (file.scaler().clone(), file.classes().to_vec());
    let file = Classifier::new(shape, scaler, classes, table.features(), weights, ("t".into(), [0; 32]));
    let file = file.unwrap().with_preparation(table.clone()).unwrap();
    let told = |preparation: Option<Arc<TableSchema>>| {
        let (mut session, mut spec) = (named.clone(), spec(&named).clone());
        (session.data.columns, session.data.preparation) = (table.features(), preparation);
        spec.initial = Some(file.digest());
        initial::weights(&session, &spec, &file).err().unwrap_or_default()
    };
    assert_eq!(told(Some(table.clone())), "");
    assert_eq!(told(None), "[table] is absent, the network file has given");
    let other = told(Some(described(&["II", "I"])));
    assert!(other.starts_with("table.column \"x7\" is Ordinal([\"II\", \"I\"]), the network"), "{other}");
}
