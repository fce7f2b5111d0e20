//! Compares the task over several peers with the same computation over their rows in one place.

use proptest::prelude::*;

use super::*;
use crate::data::digits::digits;
use crate::protocol::view::Rng;
use crate::sketch::distribution::Family;

const COIN: [u8; 32] = [7; 32];

fn session(peers: usize, fields: &str) -> Session {
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"sketch\"\n[data]\nfeatures = 64\ncheck_columns = false\n{fields}\n"
    );
    for i in 0..peers {
        let key = crate::crypto::identity::Identity::from_seed([i as u8; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

fn spec(session: &Session) -> SketchSpec {
    *session.task.part::<SketchSpec>().unwrap()
}

fn plan(session: Session) -> Plan {
    let spec = spec(&session);
    Plan::new(session, spec)
}

fn tasks(session: &Session, parts: &[Dataset]) -> Vec<SketchTask> {
    let peers = (0u16..).map(Peer).zip(parts);
    peers
        .map(|(peer, rows)| {
            SketchTask::new(session.clone(), spec(session), peer, Arc::new(rows.clone()), &[peer.0 as u8; 32])
                .unwrap()
        })
        .collect()
}

/// Opens one slot after another, each with the sum of all peers' contributions, and returns these sums.
fn federated(tasks: &[SketchTask]) -> Vec<Bytes> {
    let plan = tasks[0].plan();
    let mut opened = vec![Bytes::copy_from_slice(&COIN)];
    for (slot, aggregate) in plan.iter().enumerate().skip(1) {
        let mut total = vec![0; aggregate.len()];
        for task in tasks {
            let vector = task.contribution(slot as u32, &History::of_vectors(&opened)).unwrap();
            assert_eq!(vector.len(), aggregate.len(), "{}", aggregate.name);
            crate::crypto::mask::add(aggregate.word(), &mut total, &vector);
        }
        opened.push(total.into());
        tasks[0].check(slot as u32, &History::of_vectors(&opened)).unwrap();
    }
    opened
}

/// Gives rows 0 to `cuts[0]` to the first peer, and so on.
fn parts(cuts: &[usize]) -> Vec<Dataset> {
    let mut first = 0;
    let part = |&n: &usize| {
        let rows: Vec<usize> = (first..first + n).collect();
        first += n;
        digits().subset(&rows)
    };
    cuts.iter().map(part).collect()
}

const ALL: &str = "scaling = \"standard\"\n[sketch]\nrows = 12\nrange = 8\nopen_distances = true\npairwise = true\nchosen = 2";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn peers_open_the_sketch_of_their_rows_in_one_place_and_their_distances_to_it(
        cuts in prop::collection::vec(0usize..60, 3..7), family in 0usize..3,
    ) {
        prop_assume!(cuts.iter().filter(|&&n| n > 0).count() >= 3);
        let fields = [
            ALL,
            "scaling = \"center\"\n[sketch]\nrows = 9\nrange = 32\nopen_distances = true",
            "[sketch]\nhash = \"minhash\"\nrows = 10\nrange = 11\nopen_distances = true\npairwise = true",
        ][family];
        let session = session(cuts.len(), fields);
        let parts = parts(&cuts);
        let tasks = tasks(&session, &parts);
        let opened = federated(&tasks);
        let plan = tasks[0].session_plan();
        let outcome = plan.outcome(&opened).unwrap();
        let all: Vec<usize> = (0..cuts.iter().sum()).collect();
        let plain = Global::Exact(plan.sketch(&digits().subset(&all), &opened).unwrap());
        prop_assert_eq!(plain, outcome.global.clone());
        for ((task, part), published) in tasks.iter().zip(&parts).zip(&outcome.published) {
            let own = task.distance(&opened).unwrap();
            prop_assert_eq!(own.is_some(), part.rows() > 0);
            match (own, published) {
                (Some(own), Some(published)) => prop_assert!((own.row_mean - published).abs() < 1e-9),
                (None, None) => {}
                other => prop_assert!(false, "{other:?}"),
            }
        }
        let matrix = outcome.matrix;
        for (i, row) in matrix.iter().enumerate() {
            for (j, found) in row.iter().enumerate() {
                let sketch = |peer: usize| plan.sketch(&parts[peer], &opened).unwrap();
                let exact = sketch(i).distance(&sketch(j)).unwrap().row_mean;
                let both = cuts[i] > 0 && cuts[j] > 0;
                prop_assert!(found.map_or(!both, |found| both && (found - exact).abs() < 1e-8), "{i} {j} {found:?}");
            }
        }
    }
}

#[test]
fn the_plan_has_only_what_the_session_asks_for() {
    let names = |fields: &str| {
        let plan = plan(session(3, fields)).aggregates();
        plan.into_iter().map(|aggregate| aggregate.name).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["coin", "holders", "sketch"]);
    assert_eq!(names("scaling = \"center\""), ["coin", "holders", "moments", "sketch"]);
    assert_eq!(names("[sketch]\nopen_distances = true"), ["coin", "holders", "sketch", "scores"]);
    assert_eq!(names("[sketch]\npairwise = true"), ["coin", "holders", "sketch", "pairwise"]);
    assert_eq!(names(ALL), ["coin", "holders", "moments", "sketch", "scores", "pairwise", "draw"]);
}

#[test]
fn the_draw_is_the_same_for_all_and_depends_on_every_members_part_of_the_coin() {
    let session = session(5, ALL);
    let parts = parts(&[30, 20, 0, 40, 50]);
    let of = |secret: u8| {
        let mut tasks = tasks(&session, &parts);
        tasks[2] = SketchTask::new(
            session.clone(),
            spec(&session),
            Peer(2),
            Arc::new(parts[2].clone()),
            &[secret; 32],
        )
        .unwrap();
        let opened = federated(&tasks);
        let draws: Vec<_> =
            tasks.iter().map(|task| task.session_plan().outcome(&opened).unwrap().draw).collect();
        assert!(draws.iter().all(|draw| *draw == draws[0]));
        let (draw, coin) = draws[0].clone().unwrap();
        assert_eq!(
            (draw.active, draw.chosen.len()),
            (vec![0, 1, 3, 4], 2),
            "peer 2 has no rows, so it has no score"
        );
        coin
    };
    // A peer without rows also has a part in the coin.
    assert_ne!(of(1), of(2));
}

#[test]
fn what_no_records_can_give_ends_the_session_and_names_the_peer() {
    let session = session(3, ALL);
    let parts = parts(&[30, 20, 25]);
    let tasks = tasks(&session, &parts);
    let opened = federated(&tasks);
    let slot = |name: &str| tasks[0].plan().iter().position(|aggregate| aggregate.name == name).unwrap();
    let with = |name: &str, word: usize, value: u32| {
        let mut opened = opened.clone();
        let mut bytes = opened[slot(name)].to_vec();
        bytes[word * 4..][..4].copy_from_slice(&value.to_le_bytes());
        opened[slot(name)] = bytes.into();
        tasks[0].check(slot(name) as u32, &History::of_vectors(&opened))
    };
    assert_eq!(with("scores", 1, 3 << 30), Err("peer 1 published an invalid distance".into()));
    assert_eq!(with("pairwise", 2 * 96 + 5, 1 << 31), Err("peer 2 published an invalid sketch".into()));
    assert_eq!(
        with("sketch", 9, 1_000_000),
        Err("the sketch: row 1 of the sketch does not count every record once".into())
    );
    assert_eq!(
        with("holders", 0, 2),
        Err("only 2 peers have rows; the session requires 3 \
                                           (privacy.min_contributors)"
            .into())
    );
    assert!(slot("draw") == 6 && with("draw", 0, 77) == Ok(()));
}

/// With the least noise a release nearly equals the sketch. Everything that is opened is computed from the
/// releases.
#[test]
fn a_private_session_opens_releases_and_nothing_exact_but_how_many_records_there_are() {
    use chacha20::rand_core::SeedableRng;
    let sketch = "[sketch]\nrows = 12\nrange = 8\nopen_distances = true\npairwise = true\nchosen = 2";
    let of = |epsilon: &str| {
        session(
            4,
            &format!(
                "scaling = \"unit-norm\"\n{sketch}\n[privacy]\nepsilon = {epsilon}\nmode = \"parallel\""
            ),
        )
    };
    let names: Vec<_> = plan(of("1")).aggregates().into_iter().map(|aggregate| aggregate.name).collect();
    assert_eq!(names, ["coin", "sketch", "scores", "pairwise", "draw"]);
    let parts = parts(&[200, 300, 0, 250]);
    // Returns the vectors that all peers open. Each peer draws its release with this seed.
    let opened_of = |tasks: &[SketchTask], seed: u8| {
        let plan = tasks[0].plan();
        let mut opened = vec![Bytes::copy_from_slice(&COIN)];
        for (slot, aggregate) in (0u32..).zip(&plan).skip(1) {
            let mut total = vec![0; aggregate.len()];
            for (task, peer) in tasks.iter().zip(0u8..) {
                let vector = if aggregate.is_noised() {
                    let vector = task
                        .noisy_contribution(
                            slot,
                            &History::of_vectors(&opened),
                            &mut Rng::from_seed([seed ^ peer; 32]),
                        )
                        .unwrap();
                    task.restore_noisy(slot, &vector);
                    vector
                } else {
                    task.contribution(slot, &History::of_vectors(&opened)).unwrap()
                };
                assert_eq!(vector.len(), aggregate.len(), "{}", aggregate.name);
                crate::crypto::mask::add(aggregate.word(), &mut total, &vector);
            }
            opened.push(total.into());
            assert_eq!(tasks[0].check(slot, &History::of_vectors(&opened)), Ok(()));
        }
        opened
    };
    let tasks_of = |epsilon: &str| tasks(&of(epsilon), &parts);
    let exact = |i: usize, plan: &Plan, opened: &[Bytes]| plan.sketch(&parts[i], opened).unwrap();
    let with_much = tasks_of("100");
    let opened = opened_of(&with_much, 8);
    let plan = with_much[0].session_plan();
    let outcome = plan.outcome(&opened).unwrap();
    assert_eq!((outcome.global.records(), outcome.draw.clone().unwrap().0.chosen.len()), (750, 2));
    let mut whole = exact(0, plan, &opened);
    [1, 3].iter().for_each(|&i| whole.merge(&exact(i, plan, &opened)).unwrap());
    for i in [0, 1, 3] {
        let plain = exact(i, plan, &opened).distance(&whole).unwrap();
        let expected = plain.plain / 12f64.sqrt();
        let found = outcome.published[i].unwrap();
        assert!((found - expected).abs() < 0.03, "peer {i}: {found}, without noise {expected}");
        let own = with_much[i].distance(&opened).unwrap().unwrap().row_mean;
        assert!((found - own).abs() < 1e-9);
        assert!(outcome.matrix[i][i] == Some(0.0) && outcome.matrix[i][2].is_none());
    }
    assert_eq!(outcome.published[2], None);
    // With a small budget the noise is larger than the counts. Another draw of the noise opens other values.
    let with_little = tasks_of("0.1");
    let [one, other] = [16, 32].map(|seed| opened_of(&with_little, seed));
    assert_ne!(one[1], other[1]);
    let Global::Private(global) = with_little[0].session_plan().global(&one).unwrap() else {
        panic!("there is noise")
    };
    assert_eq!((global.releases(), global.records()), (4, 750));
    assert!(global.counters().iter().any(|&counter| counter < 0));
    // A peer that came after the sketch was opened has no release, and publishes nothing.
    let late =
        SketchTask::new(of("0.1"), spec(&of("0.1")), Peer(0), Arc::new(parts[0].clone()), &[0; 32]).unwrap();
    assert!(late.distance(&one).unwrap().is_none());
    for slot in [2u32, 3] {
        assert!(late.contribution(slot, &History::of_vectors(&one)).unwrap().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn rows_of_other_features_are_refused_and_labels_are_not_looked_at() {
    let session = session(3, "[sketch]\nrows = 4\nrange = 4");
    let narrow = Dataset::new(2, vec![1.0, 2.0], Vec::new(), Vec::new()).unwrap();
    let error = SketchTask::new(session.clone(), spec(&session), Peer(0), Arc::new(narrow), &[0; 32])
        .unwrap_err()
        .to_string();
    assert_eq!(error, "rows have 2 features, the session has 64");
    let labelled = parts(&[20])[0].clone();
    let bare = Dataset::new(64, labelled.values().to_vec(), Vec::new(), Vec::new()).unwrap();
    let opened = [Bytes::copy_from_slice(&COIN)];
    let plan = plan(session);
    assert_eq!(plan.sketch(&labelled, &opened).unwrap(), plan.sketch(&bare, &opened).unwrap());
    assert_eq!(plan.hashes(&opened).unwrap().rows(), 4);
    assert_eq!(
        Family::Srp.hashes(&COIN, 4, 4, 64).unwrap().buckets(bare.row(3)),
        plan.hashes(&opened).unwrap().buckets(bare.row(3))
    );
}
