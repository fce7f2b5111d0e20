//! Compares tuning over several peers with the same computation over their rows in one place.

use proptest::prelude::*;

use super::*;
use crate::data::digits::digits;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;

const COIN: [u8; 32] = [7; 32];

fn session(peers: usize, folds: u16) -> Session {
    let classes: Vec<_> = (0..10).map(|class| format!("\"{class}\"")).collect();
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"tune\"\n[data]\nfeatures = 64\nclasses = [{}]\n[flynn]\nm = 200\ns = 6\nrho = 8\ngamma = 0.5\n\
         [tune]\nfolds = {folds}\n",
        classes.join(", ")
    );
    for (scaling, densify, m) in [
        ("\"center\"", true, "150"),
        ("{ soft-bins = { bins = 3 } }", false, "300"),
        ("\"unit-norm\"", false, "\"4d\""),
    ] {
        text +=
            &format!("[[tune.setting]]\nscaling = {scaling}\ndensify = {densify}\nm = {m}\ns = 5\nrho = 7\n");
    }
    for i in 0..peers {
        let key = crate::crypto::identity::Identity::from_seed([i as u8; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

fn spec(session: &Session) -> &TuneSpec {
    let Some(spec) = session.task.get::<crate::tasks::TuneSpec>() else { panic!("{:?}", session.task) };
    spec
}

/// Opens one slot after another, each with the sum of all peers' contributions, and returns these sums.
fn federated(session: &Session, parts: &[Dataset]) -> Vec<Bytes> {
    let peers: Vec<_> = parts
        .iter()
        .map(|rows| Tune::new(session.clone(), spec(session), Arc::new(rows.clone())).unwrap())
        .collect();
    let plan = peers[0].plan();
    let mut opened = vec![Bytes::copy_from_slice(&COIN)];
    for (slot, aggregate) in plan.iter().enumerate().skip(1) {
        let mut total = vec![0; aggregate.len()];
        for peer in &peers {
            let vector = peer.contribution(slot as u32, &History::of_vectors(&opened)).unwrap();
            assert_eq!(vector.len(), aggregate.len(), "{}", aggregate.name);
            crate::crypto::mask::add(aggregate.word(), &mut total, &vector);
        }
        opened.push(total.into());
        peers[0].check(slot as u32, &History::of_vectors(&opened)).unwrap();
    }
    opened
}

/// Computes the scores of every setting and readout from the rows in one place. The folds are those of the
/// peers.
fn pooled(session: &Session, parts: &[Dataset]) -> Vec<Vec<Tally>> {
    let rules = Plan::new(session.clone(), spec(session));
    let all = |pick: &dyn Fn(&Split) -> Vec<usize>, fold: usize| {
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for part in parts {
            let split = &folds(part, rules.folds, &COIN)[fold];
            let rows = part.subset(&pick(split));
            values.extend_from_slice(rows.values());
            labels.extend_from_slice(rows.labels());
        }
        Dataset::new(64, values, labels, session.data.classes.clone()).unwrap()
    };
    let everything = {
        let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
        let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
        Dataset::new(64, values, labels, session.data.classes.clone()).unwrap()
    };
    let mut out = Vec::new();
    for (c, candidate) in rules.candidates.iter().enumerate() {
        let trials = (0..rules.folds).map(|fold| {
            let (train, test) =
                (all(&|split| split.train.clone(), fold), all(&|split| split.test.clone(), fold));
            let seed = derive(
                &COIN,
                "tune/matrix",
                &[(c as u32).to_le_bytes(), (fold as u32).to_le_bytes()].concat(),
            );
            let sketch = candidate.parameters(64, *seed).check(10).unwrap();
            let scaler = Scaler::fit(&candidate.scaling, &everything).unwrap();
            let hash = FlyHash::new(&sketch);
            let counts = bloom::fit(&hash, &scaler, &train, 10).unwrap();
            let predicted = read(&hash, &scaler, &counts, &rules.readouts, &test).unwrap();
            predicted.iter().map(|predicted| Tally::new(&test, predicted)).collect::<Vec<_>>()
        });
        out.push(summed(trials.collect()));
    }
    out
}

/// Deals rows of the digits to `peers` peers.
fn parts(peers: usize, rows: usize, seed: u64) -> Vec<Dataset> {
    let data = digits();
    let mut picked = crate::data::split::stratified_sample(data.labels(), rows, &seed.to_le_bytes());
    // The rows are sorted by class before they are dealt, so that all peers get rows of every class.
    picked.sort_by_key(|&row| data.labels()[row]);
    let part = |peer| picked.iter().skip(peer).step_by(peers).copied().collect::<Vec<_>>();
    (0..peers).map(|peer| data.subset(&part(peer))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn scores_over_peers_are_those_of_the_pooled_rows(peers in 3usize..6, folds in 2u16..5, seed: u64) {
        let session = session(peers, folds);
        let parts = parts(peers, 240, seed);
        let plan = Plan::new(session.clone(), spec(&session));
        let outcome = plan.outcome(&federated(&session, &parts)).unwrap();
        let rules = Plan::new(session.clone(), spec(&session));
        let expected = pooled(&session, &parts);
        prop_assert_eq!(outcome.ranked.len(), 4);
        for (candidate, readout, tally) in &outcome.ranked {
            let c = rules.candidates.iter().position(|each| each == candidate).unwrap();
            let r = rules.readouts.iter().position(|each| each == readout).unwrap();
            prop_assert_eq!(tally, &expected[c][r]);
            let best = expected[c].iter().map(|tally| tally.score(Metric::Balanced)).fold(0.0, f64::max);
            prop_assert_eq!(tally.score(Metric::Balanced), best);
            prop_assert_eq!(tally.classes().iter().map(|(_, rows)| rows).sum::<u32>(), 240);
        }
        let scores = outcome.ranked.iter().map(|(.., tally)| tally.score(Metric::Balanced));
        prop_assert!(scores.is_sorted_by(|a, b| a >= b));
    }
}

#[test]
fn a_peer_without_rows_takes_part() {
    let session = session(4, 2);
    let mut parts = parts(3, 120, 1);
    parts.push(parts[0].subset(&[]));
    let outcome = Plan::new(session.clone(), spec(&session)).outcome(&federated(&session, &parts)).unwrap();
    assert_eq!(outcome.ranked[0].2.classes().iter().map(|(_, rows)| rows).sum::<u32>(), 120);
}

#[test]
fn more_rows_right_than_there_are_ends_the_session_for_everybody() {
    let session = session(3, 2);
    let parts = parts(3, 90, 2);
    let mut opened = federated(&session, &parts);
    let mut scores = opened.pop().unwrap().to_vec();
    let last = scores.len() - 4;
    scores[last..].copy_from_slice(&1000u32.to_le_bytes());
    opened.push(scores.into());
    let task = Tune::new(session.clone(), spec(&session), Arc::new(parts[0].clone())).unwrap();
    let slot = task.plan().len() as u32 - 1;
    assert_eq!(
        task.check(slot, &History::of_vectors(&opened)),
        Err("the opened scores cannot come from rows".into())
    );
}

#[test]
fn a_class_that_too_few_hold_is_refused_before_anything_is_counted() {
    let session = session(3, 2);
    let parts = parts(3, 90, 3);
    let task = Tune::new(session.clone(), spec(&session), Arc::new(parts[0].clone())).unwrap();
    let mut words = [3u32; 11];
    words[4] = 1;
    let holders: Bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let opened = [Bytes::copy_from_slice(&COIN), holders];
    let error = task.check(HOLDERS, &History::of_vectors(&opened)).unwrap_err();
    assert!(error.starts_with("class 3: only 1 peer has rows"), "{error}");
    let sum = SumId { ballot: Ballot::default(), slot: HOLDERS };
    let value = Value { sum, members: vec![Peer(0), Peer(1), Peer(2)], total: [0; 32], deals: [0; 32] };
    let values = vec![value.clone(), value];
    assert!(task.allows(3, &History::over(&values, &opened), &[Peer(0), Peer(1)]).is_err());
}
