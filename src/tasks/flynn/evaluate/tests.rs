//! Tests that the opened figures equal those of a computation on the rows in one place, for any distribution
//! of the rows over the peers.

use std::sync::Arc;

use flyswarm_learn::model::columns::Beside;
use proptest::prelude::*;

use super::*;
use crate::data::digits::digits;
use crate::session::{Session, TaskSpec};
use crate::tasks::flynn::tests::{federated, parts, tasks, together, value};
use crate::tasks::{CustomSpec, EvaluateSpec, FlynnSpec};
use crate::tasks::{Labels, OwnSlots, Protected, Rows, Task};
use flyswarm_data::scaling::{self, Moments};

fn protected(task: Arc<dyn Task>, session: &Session, me: Peer, rows: &Arc<Dataset>) -> Protected {
    let own = OwnSlots::of(&task.plan(), "holders");
    let guards = (session.task.protections(), own, Labels::All);
    Protected::new(task, session, (me, Rows::new(rows.clone())), guards).unwrap()
}

fn session(peers: usize, min_contributors: u16, scaling: &str, evaluate: &str) -> Session {
    let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
    session_of(&classes, peers, min_contributors, scaling, evaluate)
}

fn session_of(
    classes: &[String],
    peers: usize,
    min_contributors: u16,
    scaling: &str,
    evaluate: &str,
) -> Session {
    let classes: Vec<String> = classes.iter().map(|class| format!("\"{class}\"")).collect();
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"flynn\"\n[data]\nfeatures = 64\nclasses = [{}]\nscaling = {scaling}\n[flynn]\nm = 64\ns = 6\n\
         rho = 5\ngamma = 0.9\nscore = \"balanced-log\"\n[evaluate]\n{evaluate}\n[privacy]\nmin_contributors = \
         {min_contributors}\n",
        classes.join(", ")
    );
    for i in 0..peers {
        let key = crate::crypto::identity::Identity::from_seed([i as u8; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

/// Adds up the results of all peers. `predict` predicts the held-out rows of a peer from the peer's kept
/// rows.
fn each(parts: &[(Dataset, Dataset)], predict: impl Fn(&Dataset, &Dataset) -> Vec<u16>) -> Sums {
    let mut sum = Sums::empty(10, false);
    for (kept, held) in parts.iter().filter(|(_, held)| held.rows() > 0) {
        sum.add(&Sums::of_classes(10, held.labels(), &predict(kept, held)));
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn pooled_figures_are_those_of_the_rows_in_one_place(
        cuts in prop::collection::vec(0usize..60, 3..6), which in 0usize..3, percent in 1u8..=50,
        learn_all: bool, most in 1usize..40,
    ) {
        prop_assume!(cuts.iter().any(|&rows| rows > 20));
        let scaling = ["\"none\"", "\"center\"", "{ soft-bins = { bins = 2 } }"][which];
        let spec = format!("held_out = {percent}\nmost = {most}\nlearn_all = {learn_all}");
        let session = session(cuts.len(), 1, scaling, &spec);
        let parts = parts(&cuts);
        let tasks = tasks(&session, &parts);
        let opened = federated(&tasks).unwrap();
        let plan = &tasks[0].plan;

        // Computes in one place the model of all kept rows, and its scores on all held-out rows.
        let split: Vec<_> = tasks.iter().map(|task| task.parts(&opened).unwrap()).collect();
        for ((kept, held), all) in split.iter().zip(&parts) {
            prop_assert_eq!(kept.rows() + held.rows(), all.rows());
        }
        let all: Vec<&Dataset> = parts.iter().map(|part| &**part).collect();
        let (all, kept) = (together(&all), together(&split.iter().map(|part| &part.0).collect::<Vec<_>>()));
        let held = together(&split.iter().map(|part| &part.1).collect::<Vec<_>>());
        let scaler = Scaler::fit(&plan.scaling, &all).unwrap();
        let seed = Plan::seed_of_scores(&opened).unwrap();
        let model = plan.scaled(&kept, seed, scaler.clone()).unwrap();
        prop_assert_eq!(&model.counts().to_le_bytes()[..], &plan.opened(LEARNT, &opened).unwrap()[..]);
        let scores = model.predictor().scores(&held).unwrap();
        let found = Evaluation::from_bytes(10, plan.opened(SCORES, &opened).unwrap()).unwrap();
        // One peer with ten held-out rows is enough, because `min_contributors` is 1.
        let many = split.iter().filter(|(_, held)| held.rows() >= 10).count();
        let losses = match many {
            0 => Losses::empty(),
            _ => Losses::of(&model.frequencies(), held.labels(), &scores),
        };
        prop_assert_eq!(&plan.opened_losses(&opened), &losses);
        let rows = losses.rows();
        prop_assert!(rows == 0 || rows >= FEWEST_ROWS);
        let model = model.with_calibration(losses.fit());
        let parts: Vec<&Dataset> = parts.iter().map(|part| &**part).collect();
        let coin = super::seed(&opened[0]).unwrap();
        prop_assert_eq!(plan.pooled_calibration(&parts, coin, scaler.clone()).unwrap(), losses.fit());
        let of_rows = |held: &Dataset| {
            let scores = model.predictor().scores(held).unwrap();
            Sums::of_stated(10, held.labels(), &scores, &model.confidences(&scores))
        };
        prop_assert_eq!(&found.swarm.words()[..100], &of_rows(&held).words()[..100]);
        // Each peer adds only the bins in which it has enough rows.
        let mut shown = Sums::empty(10, true);
        for (_, held) in split.iter().filter(|(_, held)| held.rows() > 0) {
            shown.add(&of_rows(held).shown());
        }
        prop_assert_eq!(&found.swarm, &shown);
        let alone = each(&split, |kept, held| {
            let scaler = Scaler::fit(&plan.scaling, kept).unwrap();
            plan.scaled(kept, seed, scaler).unwrap().predictor().predict(held).unwrap()
        });
        prop_assert_eq!(&found.alone, &alone);
        let near = each(&split, |kept, held| {
            let scaler = Scaler::fit(&plan.scaling, kept).unwrap();
            Neighbours::new(&scaler.transform(kept)).unwrap().predict(5, &scaler.transform(held))
        });
        prop_assert_eq!(&found.neighbours, &near);

        // The final model has another matrix. It learns from all rows unless the file sets `learn_all` to
        // false.
        let last = plan.model(&opened).unwrap();
        let learnt = if learn_all { &all } else { &kept };
        let expected = plan.scaled(learnt, coin, scaler).unwrap().with_calibration(losses.fit());
        prop_assert_eq!(last.digest(), expected.digest());
        prop_assert_ne!(last.sketch().parameters().seed, seed);

        // The receipt has the figures of all peers. The figures of one peer are only in the peer's own
        // outcome.
        let outcome = tasks[0].outcome(&History::of_vectors(&opened), 0).unwrap();
        let pooled = &outcome.details["evaluation"]["pooled"];
        prop_assert_eq!(pooled["swarm"]["rows"].as_u64().unwrap_or(0), held.rows() as u64);
        let own = outcome.own.map_or(0, |own| own["swarm"]["rows"].as_u64().unwrap());
        prop_assert_eq!(own, split[0].1.rows() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn a_peers_columns_are_told_beside_those_of_all_rows_in_one_place(
        cuts in prop::collection::vec(1usize..30, 3..5), which in 0usize..3, compare: bool,
    ) {
        let scaling = ["\"none\"", "\"center\"", "\"standard\""][which];
        let checked = format!("{scaling}\ncheck_columns = {compare}");
        let session = session(cuts.len(), 1, &checked, "");
        let parts = parts(&cuts);
        let opened = federated(&tasks(&session, &parts)).unwrap();
        let all = together(&parts.iter().map(|part| &**part).collect::<Vec<_>>());
        let pool = Moments::from_words(&scaling::moments(&all, true), 64).unwrap();
        for (task, (me, rows)) in tasks(&session, &parts).into_iter().zip((0u16..).map(Peer).zip(&parts)) {
            let own = protected(Arc::new(task), &session, me, rows)
                .outcome(&History::of_vectors(&opened), 0).unwrap().own;
            let told = own.as_ref().map_or(Value::Null, |own| own["columns"].clone());
            // If the session opens no deviations, the comparison has none.
            let known = compare || which == 2;
            let expected = known.then(|| Beside::moments(rows, &[], &pool).unwrap());
            prop_assert_eq!(told, json!(expected));
        }
    }
}

#[test]
fn columns_are_told_of_without_being_judged_where_the_file_says_so_and_never_of_a_custom_task() {
    for compare in [true, false] {
        let session = session(3, 1, &format!("\"standard\"\ncheck_columns = {compare}"), "");
        let mut parts = parts(&[60, 60, 60]);
        let thousandfold = parts[0].values().iter().map(|value| 1000.0 * value).collect();
        let (labels, classes) = (parts[0].labels().to_vec(), parts[0].classes().to_vec());
        parts[0] = Arc::new(Dataset::new(64, thousandfold, labels, classes).unwrap());
        let opened = federated(&tasks(&session, &parts)).unwrap();
        let members: Vec<_> = (0..3).map(|slot| value(slot, &[0, 1, 2])).collect();
        let history = History::over(&members, &opened[..3]);
        let compared = |session: &Session| {
            let task = Arc::new(tasks(session, &parts).remove(0));
            let other = Session {
                task: TaskSpec::from(CustomSpec { name: "mine".into(), bytes: Vec::new() }),
                ..session.clone()
            };
            [session.clone(), other].map(|s| protected(task.clone(), &s, Peer(0), &parts[0]))
        };
        let [known, custom] = compared(&session);
        for task in [&known, &custom] {
            task.contribution(3, &history).unwrap();
        }
        assert_eq!(known.take_findings().iter().any(|line| line.contains("other units")), compare);
        assert_eq!(custom.take_findings(), Vec::<String>::new());
        let own = |task: &Protected| task.outcome(&History::of_vectors(&opened), 0).unwrap().own.unwrap();
        assert!(own(&known)["columns"].is_object() && own(&custom)["columns"].is_null());
    }
}

/// Makes two classes from the digits: `events` rows of the digit 0, and `others` rows of the other digits.
/// The rows are dealt to the peers in turn.
fn two_classes(peers: usize, events: usize, others: usize) -> (Vec<String>, Vec<Arc<Dataset>>) {
    let (data, classes) = (crate::data::digits::digits(), ["event", "none"].map(String::from).to_vec());
    let labels = data.labels();
    let of = |event: bool| (0..labels.len()).filter(move |&row| (labels[row] == 0) == event);
    let rows: Vec<usize> = of(true).take(events).chain(of(false).take(others)).collect();
    let part = |peer: usize| {
        let rows: Vec<usize> = rows.iter().copied().skip(peer).step_by(peers).collect();
        let labels = rows.iter().map(|&row| u16::from(labels[row] != 0)).collect();
        Arc::new(Dataset::new(64, data.subset(&rows).values().to_vec(), labels, classes.clone()).unwrap())
    };
    let parts = (0..peers).map(part).collect();
    (classes, parts)
}

/// Issue 36: the report showed "+48.6 points" in green, although a model that always predicts "none" is right
/// for 98 of 100 rows.
#[test]
fn eleven_events_in_seven_hundred_rows_are_too_few_to_say() {
    let (classes, parts) = two_classes(3, 11, 689);
    let session = session_of(&classes, 3, 3, "\"center\"", "");
    let tasks = tasks(&session, &parts);
    let opened = federated(&tasks).unwrap();
    let outcome = tasks[0].outcome(&History::of_vectors(&opened), 0).unwrap();
    assert!(
        outcome
            .summary
            .starts_with("too few events to say how good it is on held-out rows; always \"none\": 9")
    );
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.starts_with("Too few events to say how good the swarm is: "), "{warning}");
    let evaluation = &outcome.details["evaluation"];
    assert_eq!(
        (&evaluation["headline"], &evaluation["warnings"]),
        (&json!(outcome.summary), &json!([warning]))
    );
    assert_eq!(evaluation["pooled"]["swarm"]["positive"]["class"], "event");
    // No peer holds out ten events, so the ranks of the predictions are not opened.
    assert_eq!(evaluation["pooled"]["swarm"]["auc"], Value::Null);
}

#[test]
fn two_classes_have_the_area_within_the_peers_and_a_positive_class() {
    let (classes, parts) = two_classes(3, 170, 400);
    let session = session_of(&classes, 3, 3, "\"center\"", "held_out = 50\npositive = \"none\"");
    let tasks = tasks(&session, &parts);
    let opened = federated(&tasks).unwrap();
    let outcome = tasks[0].outcome(&History::of_vectors(&opened), 0).unwrap();
    let pooled = &outcome.details["evaluation"]["pooled"]["swarm"];
    assert_eq!(pooled["positive"]["class"], "none");
    assert_eq!(outcome.own.as_ref().unwrap()["swarm"]["positive"]["class"], "none");
    assert!(outcome.summary.contains("; always \"none\": 0.50, "), "{}", outcome.summary);
    // Computes the AUC from all pairs of rows of one peer.
    let plan = &tasks[0].plan;
    let counts = Counts::from_le_bytes(plan.opened(LEARNT, &opened).unwrap(), 2, 64).unwrap();
    let sketch = plan.sketch(Plan::seed_of_scores(&opened).unwrap()).unwrap();
    let scaler = plan.opened_scaler(&opened).unwrap();
    let model = Model::new(sketch, plan.readout(), classes, scaler, counts).unwrap();
    let (mut pairs, mut won) = (0u32, 0.0);
    for task in &tasks {
        let held = task.parts(&opened).unwrap().1;
        let scores = model.predictor().scores(&held).unwrap();
        let margins = |class: u16| -> Vec<f64> {
            let rows = held.labels().iter().zip(scores.as_chunks::<2>().0);
            rows.filter(|(label, _)| **label == class).map(|(_, [a, b])| a - b).collect()
        };
        for (a, b) in margins(0).iter().flat_map(|a| margins(1).into_iter().map(move |b| (a, b))) {
            pairs += 1;
            won += if b > *a {
                1.0
            } else if b == *a {
                0.5
            } else {
                0.0
            };
        }
    }
    assert!(pairs > 3 * 100);
    assert_eq!(pooled["auc"]["value"], won / f64::from(pairs));
}

#[test]
fn a_class_that_too_few_hold_out_is_scored_by_nobody() {
    // The third peer has one row of each class and holds out none.
    let session = session(3, 3, "\"none\"", "");
    let mut parts = parts(&[200, 200, 300]);
    let first = |class| (0..300).find(|&row| parts[2].labels()[row] == class).unwrap();
    let single: Vec<_> = (0..5).map(first).collect();
    let many = (0..300).filter(|&row| parts[2].labels()[row] >= 5);
    parts[2] = Arc::new(parts[2].subset(&single.into_iter().chain(many).collect::<Vec<_>>()));
    let tasks = tasks(&session, &parts);
    let opened = federated(&tasks).unwrap();
    let plan = &tasks[0].plan;
    assert_eq!(plan.scored(&opened), [false, false, false, false, false, true, true, true, true, true]);
    let found = Evaluation::from_bytes(10, plan.opened(SCORES, &opened).unwrap()).unwrap();
    let rows = found.swarm.class_rows();
    assert!(rows[..5].iter().all(|&rows| rows == 0) && rows[5..].iter().all(|&rows| rows > 0), "{rows:?}");
    let history = History::over(&[value(0, &[0, 1, 2]), value(1, &[0, 1, 2])], &opened);
    let slot = plan.aggregates().iter().position(|aggregate| aggregate.name == SCORES).unwrap() as u32;
    let members = [Peer(0), Peer(1), Peer(2)];
    assert_eq!(tasks[0].allows(slot, &history, &members), Ok(()));
    // All three peers hold out rows of classes 5 to 9, and three are required. So all of them must be
    // present.
    assert!(plan.allows_held_out(slot, &history, &members[..2]).is_err_and(|text| text.contains("class 5")));
    assert_eq!(plan.allows_held_out(slot + 1, &history, &members[..2]), Ok(()));
}

#[test]
fn scores_are_not_summed_where_too_few_are_left_that_hold_rows_of_a_class_out() {
    // All four peers have rows of every class. The fourth peer has only one row of class 0, which it does not
    // hold out.
    let session = session(4, 3, "\"none\"", "");
    let mut parts = parts(&[200, 200, 200, 300]);
    let first = (0..300).find(|&row| parts[3].labels()[row] == 0).unwrap();
    let rows: Vec<_> = (0..300).filter(|&row| row == first || parts[3].labels()[row] != 0).collect();
    parts[3] = Arc::new(parts[3].subset(&rows));
    let tasks = tasks(&session, &parts);
    let opened = federated(&tasks).unwrap();
    let all = [0, 1, 2, 3];
    let history = History::over(&[value(0, &all), value(1, &all)], &opened);
    let plan = &tasks[0].plan;
    assert_eq!(holders::holding_out(&session, plan.holders(), &opened), [3, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
    let slot = plan.aggregates().iter().position(|aggregate| aggregate.name == SCORES).unwrap() as u32;
    // Without the first peer, three peers with rows of every class are left. This is enough for every other
    // sum.
    let members = [Peer(1), Peer(2), Peer(3)];
    let refused = tasks[0].allows(slot, &history, &members).unwrap_err();
    let told = "class 0: only 3 peers hold out rows, and 1 of them are gone; the session requires 3 \
                (privacy.min_contributors)";
    assert_eq!(refused, told);
    // The fourth peer holds out as many rows as the others, so the other sums work without the first peer.
    for other in [slot - 2, slot - 1, slot + 1] {
        assert_eq!(tasks[0].allows(other, &history, &members), Ok(()), "slot {other}");
    }
    assert_eq!(tasks[0].allows(slot, &history, &all.map(Peer)), Ok(()));
}

#[test]
fn no_calibration_is_fitted_where_too_few_peers_hold_rows_out() {
    // Three peers must hold out 4 rows each to have 10 together. With 1 %, each peer holds out one row of
    // each class and few more.
    let session = session(3, 3, "\"none\"", "held_out = 1");
    let opened_by = |parts: &[Arc<Dataset>]| {
        let tasks = tasks(&session, parts);
        let opened = federated(&tasks).unwrap();
        (opened.clone(), tasks[0].plan.calibration(&opened), tasks)
    };
    let (opened, calibration, tasks) = opened_by(&parts(&[200, 200, 200]));
    let plan = &tasks[0].plan;
    assert_eq!((plan.many(), plan.holding_many_out(&opened)), (4, 3));
    assert!(calibration.is_some() && plan.opened_losses(&opened).rows() >= 30);
    // All three peers must be members of the sum.
    let slot = plan.aggregates().iter().position(|aggregate| aggregate.name == CALIBRATION).unwrap() as u32;
    let history = History::over(&[value(0, &[0, 1, 2]), value(1, &[0, 1, 2])], &opened);
    let told = "only 3 peers hold out 4 rows, and 1 of them are gone; the session requires 3 \
         (privacy.min_contributors)";
    assert_eq!(plan.allows_held_out(slot, &history, &[Peer(0), Peer(2)]), Err(told.to_owned()));
    assert_eq!(plan.allows_held_out(slot, &history, &[0, 1, 2].map(Peer)), Ok(()));

    let two: Vec<_> = (0..150).filter(|&row| digits().labels()[row] < 2).collect();
    let parts: Vec<_> = two.chunks(two.len() / 3 + 1).map(|rows| Arc::new(digits().subset(rows))).collect();
    let (opened, calibration, tasks) = opened_by(&parts);
    assert_eq!((tasks[0].plan.holding_many_out(&opened), calibration), (0, None));
    assert_eq!(tasks[0].plan.opened_losses(&opened), Losses::empty());
}

#[test]
fn figures_that_contradict_each_other_are_not_shown_and_the_session_goes_on() {
    let session = session(3, 1, "\"none\"", "");
    let tasks = tasks(&session, &parts(&[60, 60, 60]));
    let mut opened = federated(&tasks).unwrap();
    let slot = tasks[0].plan().iter().position(|aggregate| aggregate.name == SCORES).unwrap();
    let good = tasks[0].outcome(&History::of_vectors(&opened), 0).unwrap();
    assert_eq!(good.details["evaluation"]["contradictory"], false);
    // If a member adds rows to only one table, the sums contradict each other. The same is true if it claims
    // more correct rows than there are.
    for word in [0, 100, 130, 240, 330, 331, 333] {
        let mut bytes = opened[slot].to_vec();
        bytes[8 * word] = bytes[8 * word].wrapping_add(100);
        let honest = std::mem::replace(&mut opened[slot], bytes.into());
        let history = History::of_vectors(&opened);
        assert_eq!(tasks[0].check(slot as u32, &history), Ok(()));
        let told = tasks[0].outcome(&history, 0).unwrap();
        assert_eq!(told.details["evaluation"]["contradictory"], true, "word {word}");
        assert_eq!((told.file, &told.details["evaluation"]["pooled"]), (good.file.clone(), &Value::Null));
        opened[slot] = honest;
    }
    // For both predictors, more rows are claimed to be predicted correctly by this predictor alone than by
    // this predictor in total.
    let mut bytes = opened[slot].to_vec();
    for word in [330, 331] {
        bytes[8 * word + 5] = 1;
    }
    assert_eq!(Evaluation::from_bytes(10, &bytes), None);
    assert!(Evaluation::from_bytes(10, &opened[slot]).is_some());
}

#[test]
fn evaluation_is_refused_where_peers_are_drawn_or_noise_is_added() {
    let session = session(3, 1, "\"none\"", "");
    let Some(spec) = session.task.get::<FlynnSpec>().copied() else { panic!("{:?}", session.task) };
    let sketch = crate::tasks::SketchSpec { open_distances: true, chosen: 3, ..Default::default() };
    let drawn =
        Session { task: TaskSpec::from(FlynnSpec { select: Some(sketch), ..spec }), ..session.clone() };
    assert!(drawn.check().unwrap_err().to_string().contains("[evaluate]"));
    let private = session.to_toml().replace("[privacy]", "[privacy]\nepsilon = 1\ntop = 5");
    let private = private.replace("check_columns = true", "check_columns = false");
    assert!(Session::parse(&private).unwrap_err().to_string().contains("[evaluate]"));
    assert_eq!(Session::parse(&session.to_toml()).unwrap(), session);
    // The positive class must be one of the two classes.
    let two = ["a", "b"].map(String::from);
    let of_two = session_of(&two, 3, 1, "\"none\"", "positive = \"b\"");
    assert_eq!(Session::parse(&of_two.to_toml()).unwrap(), of_two);
    assert_ne!(of_two.id(), session_of(&two, 3, 1, "\"none\"", "positive = \"a\"").id());
    let told = "evaluate.positive is \"c\", must be one of the two data.classes";
    let error =
        Session::parse(&of_two.to_toml().replace("positive = \"b\"", "positive = \"c\"")).unwrap_err();
    assert!(error.to_string().contains(told), "{error}");
    let error =
        Session::parse(&session.to_toml().replace("learn_all", "positive = \"1\"\nlearn_all")).unwrap_err();
    assert!(error.to_string().contains("evaluate.positive"), "{error}");
    // The limits also apply to a session that was not read from a file.
    let usual = EvaluateSpec::default();
    for (evaluate, told) in [
        (EvaluateSpec { held_out: 51, ..usual }, "evaluate.held_out is 51, must be 1 to 50"),
        (EvaluateSpec { most: 0, ..usual }, "evaluate.most is 0, must be 1 to 1000000"),
        (
            EvaluateSpec { positive: Some(1), ..usual },
            "evaluate.positive is class 1, must be one of the two data.classes",
        ),
    ] {
        let task = TaskSpec::from(FlynnSpec { evaluate: Some(evaluate), ..spec });
        assert_eq!(Session { task, ..session.clone() }.check().unwrap_err().to_string(), told);
    }
}
