//! Compares the opened figures of held-out rows by class with figures that are computed from the same rows in
//! one place.

use flyswarm_learn::model::figures::{Figures, Sums};

use super::*;

/// Makes a session over the digits with two classes: `zero` and `other`. The learning rate is high enough to
/// change the weights.
fn two_classes(peers: u16, contributors: u16, lines: &str) -> Session {
    let text = text(peers, &format!("rounds = 4\nrate = 0.2\n{lines}"));
    let classes = text.lines().find(|line| line.starts_with("classes")).unwrap();
    let text = text.replace(classes, "classes = [\"other\", \"zero\"]");
    Session::parse(&text.replace("min_contributors = 1", &format!("min_contributors = {contributors}")))
        .unwrap()
}

/// Returns rows of the digits from `first` on, with the zeros as class 1.
fn zeros(first: usize, rows: usize) -> Arc<Dataset> {
    let part = digits().subset(&(first..first + rows).collect::<Vec<_>>());
    let labels = part.labels().iter().map(|&label| u16::from(label == 0)).collect();
    Arc::new(part.with_labels(labels, vec!["other".into(), "zero".into()]).unwrap())
}

/// Computes the sums for a network over those held-out rows of a peer that belong to scored classes.
fn in_one_place(session: &Session, part: &Dataset, network: &Classifier, scored: [bool; 2]) -> Sums {
    let all = vec![0; part.rows()];
    let test = train_test(SplitRows::new(&all, None), spec(session).held_out, &COIN).test;
    let is_scored = |row: &usize| scored[usize::from(part.labels()[*row])];
    let held = part.subset(&test.into_iter().filter(is_scored).collect::<Vec<_>>());
    let logits = network.scores(held.view()).unwrap();
    Sums::of_scores(2, held.labels(), &flyswarm_learn::learner::surprise(&logits)).shown()
}

fn everybody(peers: u16) -> impl Fn(u32) -> Vec<Peer> {
    move |_| (0..peers).map(Peer).collect()
}

#[test]
fn predictions_are_those_of_the_result_on_all_held_out_rows() {
    for lines in ["held_out = 40", "held_out = 40\npatience = 4"] {
        let session = two_classes(4, 3, lines);
        let parts: Vec<_> = (0..4).map(|peer| zeros(300 * peer, 300)).collect();
        let tasks = tasks(&session, &parts);
        let history = federated(&tasks, everybody(4)).unwrap();
        let outcome = tasks[1].outcome(&history, 0).unwrap();
        let network = Classifier::decode(&outcome.file).unwrap();
        let mut sums = Sums::empty(2, true);
        parts.iter().for_each(|part| sums.add(&in_one_place(&session, part, &network, [true; 2])));
        let expected = Figures::new(&session.data.classes, &sums, Some(1)).unwrap();
        assert!(expected.rows == 480 && expected.auc.is_some_and(|auc| auc.value > 0.9), "{expected}");
        let found = &outcome.details["evaluation"];
        assert_eq!(found["pooled"]["swarm"], json!(expected));
        assert_eq!(found["headline"], json!(expected.headline("held-out rows")));
        assert!(outcome.summary.starts_with(&expected.headline("held-out rows")), "{}", outcome.summary);
        // All peers use as positive class the one that is rarer over all peers.
        assert_eq!((expected.positive.unwrap().class.as_str(), network.positive()), ("zero", Some(1)));
        let own: Figures = serde_json::from_value(outcome.own.unwrap()["swarm"].clone()).unwrap();
        let alone = in_one_place(&session, &parts[1], &network, [true; 2]);
        assert_eq!(own.confusion, Figures::new(&session.data.classes, &alone, None).unwrap().confusion);
    }
}

#[test]
fn a_class_that_too_few_hold_out_is_scored_by_nobody() {
    let session = two_classes(4, 3, "held_out = 40");
    let mut parts: Vec<_> = (0..4).map(|peer| zeros(100 * peer, 100)).collect();
    // The last two peers have few zeros, and hold out none of them.
    for part in &mut parts[2..] {
        let held = train_test(SplitRows::new(&[0; 100], None), 40, &COIN).test;
        let labels = part.labels().iter().enumerate();
        let labels = labels.map(|(row, &label)| label * u16::from(!held.contains(&row))).collect();
        *part = Arc::new((**part).clone().with_labels(labels, part.classes().to_vec()).unwrap());
        assert!(part.class_counts(2)[1] > 0);
    }
    let tasks = tasks(&session, &parts);
    let history = federated(&tasks, everybody(4)).unwrap();
    assert_eq!(holders::holding_out(&session, HOLDERS, history.vectors()), [4, 2]);
    let outcome = tasks[0].outcome(&history, 0).unwrap();
    let found = &outcome.details["evaluation"];
    assert_eq!(found["classes_not_scored"], json!(["zero"]));
    assert_eq!(found["pooled"]["swarm"]["per_class"][1]["rows"], 0);
    assert!(outcome.summary.starts_with("too few events to say how good"), "{}", outcome.summary);
    assert!(outcome.warnings.len() == 1 && outcome.warnings[0].starts_with("Too few events"));
}

#[test]
fn predictions_need_enough_members_that_hold_each_class_out() {
    let session = two_classes(5, 3, "held_out = 40");
    let mut parts: Vec<_> = (0..5).map(|peer| zeros(100 * peer, 100)).collect();
    for part in &mut parts[3..] {
        let other = part.labels().iter().position(|&label| label == 1).unwrap();
        let rows: Vec<_> = (0..100).filter(|&row| row == other || part.labels()[row] == 0).collect();
        let train = train_test(SplitRows::new(&vec![0; rows.len()], None), 40, &COIN).train;
        // Each of these two peers has only one zero, which is used for training.
        let mut rows = rows.into_iter().filter(|&row| row != other).collect::<Vec<_>>();
        rows.insert(train[0], other);
        *part = Arc::new(part.subset(&rows));
    }
    let tasks = tasks(&session, &parts);
    let history = federated(&tasks, everybody(5)).unwrap();
    assert_eq!(holders::holding_out(&session, HOLDERS, history.vectors()), [5, 3]);
    let slot = tasks[0].plan.predictions();
    let members: Vec<_> = (1..5).map(Peer).collect();
    tasks[0].allows(slot - 1, &history, &members).unwrap();
    let told = "class zero: only 3 peers hold out rows, and 1 of them are gone; the session requires 3 \
                (privacy.min_contributors)";
    assert_eq!(tasks[0].allows(slot, &history, &members).unwrap_err(), told);
    assert_eq!(tasks[0].row_use(slot, &history), RowUse::Included);
    // If the peer is lost before that slot, the figures of this class are missing, but the session has a
    // result.
    let history = federated(&tasks, |at| (u16::from(at + 2 > slot)..5).map(Peer).collect()).unwrap();
    let outcome = tasks[1].outcome(&history, 0).unwrap();
    assert!(Classifier::decode(&outcome.file).is_ok());
    let found = &outcome.details["evaluation"];
    assert_eq!(found["classes_not_scored"], json!(["zero"]));
    assert_eq!(found["pooled"]["swarm"]["per_class"][1]["rows"], 0);
    assert!(found["pooled"]["swarm"]["per_class"][0]["rows"].as_u64() > Some(0));
}

#[test]
fn figures_that_no_rows_have_are_not_shown() {
    let session = two_classes(4, 3, "held_out = 40");
    let parts: Vec<_> = (0..4).map(|peer| zeros(300 * peer, 300)).collect();
    let tasks = tasks(&session, &parts);
    let history = federated(&tasks, everybody(4)).unwrap();
    let last = tasks[0].plan.predictions();
    let slots = (0..=last).map(|slot| {
        let mut vector = history.vector(slot).cloned().unwrap_or_default().to_vec();
        if slot == last {
            // Changes the sum so that a bin has only one row.
            vector[4 * 8] = 1;
        }
        (history.value(slot).unwrap().clone(), vector.into())
    });
    let outcome = tasks[0].outcome(&History::of(slots), 0).unwrap();
    assert_eq!(outcome.details["evaluation"]["contradictory"], true);
    assert_eq!(outcome.details["evaluation"]["pooled"], Value::Null);
    assert!(outcome.summary.starts_with("accuracy ") && outcome.own.is_none(), "{}", outcome.summary);
    assert_eq!(Classifier::decode(&outcome.file).unwrap().positive(), None);
}

#[test]
fn a_session_without_held_out_rows_has_no_such_sum() {
    let session = session(4, "rounds = 2");
    let plan = tasks(&session, &parts(4))[0].plan();
    assert!(plan.iter().all(|aggregate| aggregate.name != "predictions"));
    assert_eq!(plan[1].words, 11);
}
