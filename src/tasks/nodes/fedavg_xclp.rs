//! Runs whole nodes that train on propagated labels. A plain program does the same in one place, and the
//! weights must be equal bit for bit, even if a node is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyswarm_data::scaling::Scaler;
use flyswarm_learn::learner::{Classifier, PseudoLabels, Settings, Tape, shares, train};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::{self, reference::Reference};

use super::network::{Fault, Network};
use super::{histories, session, timing};
use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::data::Dataset;
use crate::data::digits::digits;
use crate::data::split::{self, train_test};
use crate::node::Event;
use crate::protocol::message::Message;
use crate::session::{ColumnChecks, DataSpec, Peer, Scaling, Session, TaskSpec, Timing};
use crate::tasks::xclp::planes;
use crate::tasks::xclp::talk::{self, Body, What};
use crate::tasks::{FedavgSpec, FedavgXclpSpec, XclpSpec};
use crate::tasks::{History, Rows, Task, built_in};

struct Lab {
    net: Network,
    session: Session,
    spec: FedavgXclpSpec,
    /// Rows and labels of each peer.
    parts: Vec<(Dataset, Vec<Option<u16>>)>,
    tasks: Vec<Arc<dyn Task>>,
}

fn spec() -> FedavgXclpSpec {
    let fedavg = FedavgSpec {
        network: flyswarm_learn::learner::Architecture::Perceptron { hidden: vec![6] },
        rounds: 5,
        batch: 8,
        ..FedavgSpec::default()
    };
    let xclp = XclpSpec { bits: 64, k: 3, ..FedavgXclpSpec::usual() }.with_alpha(0.6);
    FedavgXclpSpec { after: 1, refresh: 3, xclp, ..FedavgXclpSpec::new(fedavg) }
}

/// Makes peers with these numbers of rows of the digits. Every third row of a peer has a label. The last peer
/// has no labels.
fn lab(rows: &[usize], seed: u64) -> Lab {
    lab_with(rows, seed, false, spec())
}

/// Does the same as [`lab`]. If `gaps` is true, some values are missing and are filled with the mean over all
/// peers. If rows are held out, the last peer has labels too.
fn lab_with(rows: &[usize], seed: u64, gaps: bool, spec: FedavgXclpSpec) -> Lab {
    let mut identities: Vec<_> = (0..rows.len()).map(|i| Identity::from_seed([i as u8 + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let data = digits();
    let task = TaskSpec::from(spec.clone());
    let preparation = gaps.then(super::missing::preparation);
    let session = Session {
        min_peers: Session::default_min_peers(&task, identities.len()),
        task,
        data: DataSpec {
            features: 64,
            columns: preparation.iter().flat_map(|preparation| preparation.features()).collect(),
            classes: data.classes().to_vec(),
            scaling: Scaling::Range { lo: 0.0, hi: 16.0 },
            densify: false,
            checks: ColumnChecks::default(),
            preparation: preparation.map(Arc::new),
        },
        ..session(&identities, Timing { regroup_interval_ms: 0, ..timing() })
    }
    .check()
    .unwrap();
    let (mut first, mut parts, mut tasks) = (0, Vec::new(), Vec::new());
    for (peer, &n) in (0u16..).map(Peer).zip(rows) {
        let part = data.subset(&(first..first + n).collect::<Vec<_>>());
        first += n;
        let all = spec.fedavg.held_out > 0;
        let known = |i: usize| i.is_multiple_of(3) && (all || peer.index() + 1 < rows.len());
        let labels: Vec<_> =
            part.labels().iter().enumerate().map(|(i, &label)| known(i).then_some(label)).collect();
        let bare = Dataset::new(64, part.values().to_vec(), Vec::new(), Vec::new()).unwrap();
        let (bare, gaps) = if gaps { super::missing::gaps(&bare) } else { (bare, Vec::new()) };
        let rows = Rows { labels: labels.clone(), gaps, ..Rows::new(Arc::new(bare.clone())) };
        let made = built_in(&session).unwrap().make(session.clone(), peer, rows.clone(), &[peer.0 as u8; 32]);
        tasks.push(Arc::new(made.unwrap()) as Arc<dyn Task>);
        parts.push((rows, labels));
    }
    let parts = super::missing::filled(parts);
    let net = Network::with_tasks(identities, session.settings(), tasks.clone(), seed);
    Lab { net, session, spec, parts, tasks }
}

/// Rows and labels.
type Labelled = (Dataset, Vec<Option<u16>>);

/// Returns a peer's rows as its network uses them: first the training rows (labelled rows before the others),
/// then the held-out rows.
fn prepared(lab: &Lab, peer: Peer, seed: &[u8; 32]) -> [Labelled; 2] {
    let (rows, labels) = &lab.parts[peer.index()];
    let (known, unknown): (Vec<_>, Vec<_>) = (0..labels.len()).partition(|&row| labels[row].is_some());
    let percent = lab.spec.fedavg.held_out;
    let (mut order, mut held) = (known.clone(), Vec::new());
    if percent > 0 {
        let split = train_test(split::Rows::new(&vec![0; known.len()], None), percent, seed);
        [order, held] = [split.train, split.test].map(|part| part.iter().map(|&at| known[at]).collect());
    }
    order.extend(unknown);
    let scaler = Scaler::fit(&lab.session.data.scaling.of_rows(), rows).unwrap();
    [order, held].map(|places| {
        let data = scaler.transform(&rows.subset(&places));
        (data, places.iter().map(|&row| labels[row]).collect())
    })
}

impl Lab {
    /// Returns the slot of an aggregate in the whole session.
    fn slot(&self, name: &str) -> u32 {
        let place = self.tasks[0].plan().iter().position(|aggregate| aggregate.name == name);
        u32::try_from(place.unwrap_or_else(|| panic!("no {name}"))).unwrap()
    }

    /// Returns the mean loss of these weights, in thousandths, over the held-out rows of the peers in
    /// `there`. A peer's share is its part of all rows of the peers in `counted`.
    fn judged(&self, weights: &[f32], seed: &[u8; 32], there: &[Peer], counted: &[Peer]) -> u32 {
        let network = self.spec.fedavg.build(&self.session.data).unwrap();
        let rows = |peer: &Peer| self.parts[peer.index()].0.rows();
        let all: usize = counted.iter().map(rows).sum();
        let (mut sum, mut shares) = (0, 0);
        for peer in there.iter().filter(|peer| counted.contains(peer)) {
            let [_, (held, labels)] = prepared(self, *peer, seed);
            let labels: Vec<u16> = labels.into_iter().flatten().collect();
            let found = network.evaluate(weights, held.view(), &labels, &mut Tape::default());
            let share = rows(peer) * (1 << 27) / all;
            let loss = (found.loss / held.rows() as f64).min(15.0);
            (sum, shares) = (sum + (loss * share as f64).round() as i64, shares + share);
        }
        (sum as f64 / shares as f64 * 1e3).round() as u32
    }

    /// Computes the weights of the result with a plain program. The program has all rows and knows the
    /// members of each sum. Also returns the number of labels that the last propagation found, the number of
    /// rounds, and the round that made the weights.
    fn plain(&self, history: &History) -> (Vec<f32>, usize, [u32; 2]) {
        let (seed, classes) = (history.seed().unwrap(), 10);
        let spec = &self.spec.fedavg;
        let network = spec.build(&self.session.data).unwrap();
        let peers = (0u16..).map(Peer).take(self.parts.len());
        let rows: Vec<Labelled> = peers.map(|peer| prepared(self, peer, &seed)).map(|[own, _]| own).collect();
        let members = |name: &str| history.members(self.slot(name)).to_vec();
        let name = |round: u32| format!("round-{}", round + 1);
        let mut weights = network.initial(&seed);
        let mut labels: BTreeMap<Peer, PseudoLabels> = BTreeMap::new();
        let (mut class_weights, mut propagations, mut counted) = (Vec::new(), 0, members("rows"));
        let (mut best, mut rounds) = ((u32::MAX, 0, Vec::new()), spec.rounds);
        for round in 0..=spec.rounds {
            if spec.patience > 0 {
                let there = members(&if round == spec.rounds { "scores".into() } else { name(round) });
                let loss = self.judged(&weights, &seed, &there, &counted);
                if loss < best.0 {
                    best = (loss, round, weights.clone());
                }
                if round + 1 < spec.rounds && round - self.spec.after.max(best.1).min(round) >= spec.patience
                {
                    rounds = round + 1;
                    break;
                }
            }
            if round == spec.rounds {
                break;
            }
            if round >= self.spec.after && (round - self.spec.after).is_multiple_of(self.spec.refresh) {
                propagations += 1;
                let there = members(&format!("points-{propagations}"));
                let computed = members(&format!("computed-{propagations}"));
                let owners: Vec<Peer> =
                    there.iter().copied().filter(|peer| computed.contains(peer)).collect();
                let (mut keys, mut given) = (Vec::new(), Vec::new());
                for peer in &owners {
                    let (data, known) = &rows[peer.index()];
                    let (points, _) = network.represent(&weights, data.view(), &mut Tape::default());
                    for point in points.rows() {
                        let dead = point.iter().all(|&value| value == 0.0);
                        keys.extend(point.iter().map(|&value| if dead { 1.0 } else { value }));
                    }
                    given.extend_from_slice(known);
                }
                let keys = Dataset::new(network.representation(), keys, Vec::new(), Vec::new()).unwrap();
                let plan = integer::Plan::new(keys.rows(), classes, self.spec.xclp.settings()).unwrap();
                let planes = planes(&self.session, history).unwrap();
                let codes = Codes::of(&keys, &planes, self.spec.xclp.bits as usize).unwrap();
                let scores = Reference::new(&plan, &codes, &given).output.coarse;
                let mut of_class = vec![0; classes];
                for peer in &there {
                    rows[peer.index()].1.iter().flatten().for_each(|&l| of_class[usize::from(l)] += 1);
                }
                let mut told = scores.chunks(classes);
                let answered = members(&format!("labelled-{propagations}"));
                for (peer, (_, known)) in (0u16..).map(Peer).zip(&rows) {
                    let own: Vec<f64> = match owners.contains(&peer) {
                        true => {
                            told.by_ref().take(known.len()).flatten().map(|&score| score.into()).collect()
                        }
                        false => vec![0.0; known.len() * classes],
                    };
                    let own = if answered.contains(&peer) { own } else { vec![0.0; own.len()] };
                    labels.insert(
                        peer,
                        PseudoLabels::new(known, &shares(&own, classes, Some(&of_class)), classes),
                    );
                }
                let mut counts = vec![0u64; classes];
                for peer in members(&format!("counts-{propagations}")) {
                    let own = labels[&peer].counts(classes);
                    counts.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
                }
                let found: Vec<u64> =
                    counts.iter().zip(&of_class).map(|(all, given)| all.saturating_sub(*given)).collect();
                let [all_given, all_found] = [&of_class, &found].map(|each| each.iter().sum::<u64>() as f64);
                assert!(all_given > 0.0 && all_found > 0.0);
                let in_batch = |class: usize| {
                    (of_class[class] as f64 / all_given + found[class] as f64 / all_found) / 2.0
                };
                class_weights =
                    (0..classes).map(|y| (1.0 / (classes as f64 * in_batch(y).max(1e-6))) as f32).collect();
            }
            let there = members(&name(round));
            let all: usize = counted.iter().map(|peer| self.parts[peer.index()].1.len()).sum();
            let (mut sums, mut of_all) = (vec![0i64; weights.len()], 0);
            for peer in there.iter().filter(|peer| counted.contains(peer)) {
                let (data, known) = &rows[peer.index()];
                let settings = Settings {
                    epochs: spec.epochs,
                    steps: 0,
                    batch: spec.batch as usize,
                    rate: spec.schedule.rate(spec.rate, round, spec.rounds) as f32,
                    momentum: spec.momentum as f32,
                    decay: spec.weight_decay as f32,
                    proximal: 0.0,
                    augment: None,
                };
                // Batches are drawn with the slot number that the round has in the task fedavg. There, 3
                // slots come before the first round.
                let place = [&peer.0.to_le_bytes()[..], &(3 + round).to_le_bytes()].concat();
                let mut stream = Stream::new(&seed, "fedavg/batches", &place);
                let trained = match labels.get(peer) {
                    Some(labels) => labels.train(
                        &network,
                        weights.clone(),
                        data.view(),
                        &class_weights,
                        &settings,
                        &mut stream,
                    ),
                    None => {
                        let known: Vec<u16> = known.iter().flatten().copied().collect();
                        let rows = data.subset(&(0..known.len()).collect::<Vec<_>>());
                        if known.is_empty() {
                            continue;
                        }
                        train(&network, weights.clone(), rows.view(), &known, None, &settings, &mut stream)
                    }
                };
                let share = self.parts[peer.index()].1.len() * (1 << 27) / all;
                of_all += share;
                for (sum, weight) in sums.iter_mut().zip(trained.weights) {
                    *sum += (f64::from(weight) * share as f64).round() as i64;
                }
            }
            weights = sums.iter().map(|&sum| (sum as f64 / of_all as f64) as f32).collect();
            if there.len() >= counted.len() {
                counted = there;
            }
        }
        let found = labels.values().map(|labels| labels.found().count()).sum();
        if spec.patience > 0 { (best.2, found, [rounds, best.1]) } else { (weights, found, [rounds; 2]) }
    }

    /// Returns the mean accuracy on labelled rows, weighted by the rows of each peer that has any.
    fn accuracy(&self, weights: &[f32], seed: &[u8; 32]) -> f64 {
        let network = self.spec.fedavg.build(&self.session.data).unwrap();
        let (mut right, mut all) = (0.0, 0.0);
        for peer in (0u16..).map(Peer).take(self.parts.len()) {
            let [(data, known), _] = prepared(self, peer, seed);
            let known: Vec<u16> = known.into_iter().flatten().collect();
            if !known.is_empty() {
                let rows = data.subset(&(0..known.len()).collect::<Vec<_>>());
                let found = network.evaluate(weights, rows.view(), &known, &mut Tape::default());
                right += data.rows() as f64 * found.right as f64 / known.len() as f64;
                all += data.rows() as f64;
            }
        }
        right / all
    }

    /// Compares every peer's network with that of the plain program.
    fn holds(&self) -> usize {
        let histories = histories(&self.net);
        let first = histories.values().next().unwrap_or_else(|| panic!("nobody: {:?}", self.net.events));
        let (weights, found, [rounds, best]) = self.plain(first);
        assert!(found > 0, "labels are found");
        let spec = &self.spec.fedavg;
        let last = if rounds < spec.rounds {
            // The slot of the next round sums the predictions instead.
            self.slot(&format!("round-{}", rounds + 1))
        } else {
            u32::try_from(self.tasks[0].plan().len()).unwrap() - 1
        };
        let bits = |weights: &[f32]| weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>();
        for (peer, history) in &histories {
            let outcome = self.tasks[peer.index()].outcome(history, 0).unwrap();
            let network = Classifier::decode(&outcome.file).unwrap();
            assert_eq!(bits(network.weights()), bits(&weights), "{peer}");
            assert_eq!(history.committed(), last + 1, "{peer}");
            if spec.patience > 0 {
                assert_eq!(outcome.details["best_round"], best, "{peer}");
                let figures = &outcome.details["evaluation"]["pooled"]["swarm"];
                assert!(figures["rows"].as_u64() > Some(0), "{peer}: {}", outcome.summary);
                continue;
            }
            let found = outcome.details["scores"]["accuracy"].as_f64().unwrap();
            assert!((found - self.accuracy(&weights, &first.seed().unwrap())).abs() < 1e-3, "{found}");
        }
        histories.len()
    }
}

#[test]
fn the_network_is_that_of_all_rows_in_one_place_bit_for_bit() {
    let mut lab = lab(&[14, 11, 12, 9], 1);
    lab.net.run(300_000);
    assert_eq!(lab.holds(), 4);
}

#[test]
fn the_network_is_that_of_all_rows_filled_with_the_plain_mean_in_one_place() {
    let mut lab = lab_with(&[14, 11, 12, 9], 5, true, spec());
    lab.net.run(300_000);
    assert_eq!(lab.holds(), 4);
}

/// Name of a kind of message, and a function that recognises it.
type Place = (&'static str, fn(&Message) -> bool);

fn exchanged(message: &Message, holds: fn(&Body) -> bool) -> bool {
    let Message::Exchange { content, .. } = message else { return false };
    talk::read(content.clone()).is_ok_and(|(body, _)| holds(&body))
}

/// Kinds of messages. A peer is killed when it sends the first message of such a kind.
const PLACES: [Place; 3] = [
    ("propagation", |m| exchanged(m, |body| matches!(body, Body::Part { what: What::Round(100), .. }))),
    ("output", |m| exchanged(m, |body| matches!(body, Body::Part { what: What::Output, .. }))),
    ("input", |m| exchanged(m, |body| matches!(body, Body::Part { what: What::Input, .. }))),
];

#[test]
fn a_node_killed_in_a_propagation_costs_neither_labels_nor_rounds_and_comes_back_to_the_same_network() {
    for (seed, (what, sends)) in (2..).zip(PLACES) {
        let mut lab = lab(&[10, 11, 12, 9, 10], seed);
        let killed = Arc::new(std::sync::Mutex::new(None));
        let seen = killed.clone();
        lab.net.hold = Some(Box::new(move |from, _, message| {
            sends(message) && *seen.lock().unwrap().get_or_insert(from) == from
        }));
        lab.net.run_unchecked(100_000, |_| killed.lock().unwrap().is_some());
        let victim = killed.lock().unwrap().unwrap_or_else(|| panic!("{what} is sent"));
        let now = lab.net.now_ms();
        lab.net.at_ms(now, Fault::Crash(victim));
        lab.net.at_ms(now + 4_000, Fault::HealAll);
        lab.net.run(now + 600_000);
        assert_eq!(lab.holds(), 5, "{what}, {victim}: {:?}", lab.net.events);
    }
}

/// Returns parameters with a high rate, so that the loss on held-out rows soon rises.
fn patient(patience: u32) -> FedavgXclpSpec {
    let fedavg = FedavgSpec {
        held_out: 30,
        patience,
        rounds: 12,
        rate: 0.6,
        schedule: flyswarm_learn::learner::Schedule::Constant,
        ..spec().fedavg
    };
    FedavgXclpSpec { fedavg, after: 3, refresh: 2, ..spec() }
}

/// Returns the number of rounds that were made, and the best round.
fn rounds(lab: &Lab) -> (usize, usize) {
    let histories = histories(&lab.net);
    let (peer, history) = histories.first_key_value().unwrap();
    let told = lab.tasks[peer.index()].outcome(history, 0).unwrap().details;
    (told["rounds"].as_array().unwrap().len(), told["best_round"].as_u64().unwrap() as usize)
}

#[test]
fn training_ends_early_with_the_best_rounds_weights_and_not_before_labels_were_found() {
    let mut ended = Vec::new();
    for seed in 1..4 {
        let mut lab = lab_with(&[14, 11, 12, 9], seed, false, patient(2));
        lab.net.run(600_000);
        assert_eq!(lab.holds(), 4);
        let (made, best) = rounds(&lab);
        // No peer keeps vectors of the last propagation.
        let points = lab.slot(&format!("points-{}", (made - 4) / 2 + 1));
        for (peer, history) in histories(&lab.net).iter().filter(|_| made < 12) {
            assert!(history.committed() > points && history.vector(points).is_none(), "{peer}");
        }
        ended.push((made, best));
    }
    // There are at least three rounds on given labels, two on found labels, and the round that judges the
    // last of these.
    assert!(ended.iter().all(|&(rounds, _)| rounds >= 6), "{ended:?}");
    // If rounds on given labels counted for the patience, training would have ended earlier.
    assert!(ended.iter().any(|&(rounds, best)| rounds < 12 && rounds > best + 3), "{ended:?}");
}

#[test]
fn a_node_that_returns_after_an_early_end_has_the_same_network() {
    // There are enough rows: if one peer is gone, others still hold out rows of every class.
    let spec = FedavgXclpSpec { fedavg: FedavgSpec { held_out: 50, ..patient(1).fedavg }, ..patient(1) };
    let mut lab = lab_with(&[120, 110, 115, 100, 105], 1, false, spec);
    let slot = lab.slot("round-4");
    let opened = |event: &Event| matches!(event, Event::Opened(value) if value.sum.slot == slot);
    lab.net.run_unchecked(600_000, |net| net.events.iter().any(|(_, _, event)| opened(event)));
    let now = lab.net.now_ms();
    lab.net.at_ms(now, Fault::Crash(Peer(2)));
    // A peer may have to wait for a propagation before the last sum.
    lab.net.at_ms(now + 60_000, Fault::HealAll);
    lab.net.run_unchecked(now + 59_000, |_| false);
    assert_eq!((lab.holds(), rounds(&lab).0 < 12), (4, true), "{:?}", lab.net.events);
    lab.net.run(now + 600_000);
    assert_eq!(lab.holds(), 5, "{:?}", lab.net.events);
}
