//! Tests of sessions whose training ends early.

use flyswarm_learn::model::figures::{self, Sums};

use super::*;

/// Lines of a session that ends early because the network memorises the few rows.
const BY_HEART: &str =
    "rounds = 30\nheld_out = 20\npatience = 2\nepochs = 30\nrate = 0.7\nschedule = \"constant\"";

#[test]
fn a_session_that_gets_no_better_ends_and_a_peer_that_was_away_then_has_the_best_weights_too() {
    let session = session(5, BY_HEART);
    let parts = parts(5);
    let swarm = crashed(&session, &parts, "compute", 15);
    assert_eq!(swarm.checks.violations, []);
    assert_eq!(swarm.finished.len(), 5);
    let history = &swarm.finished[&Peer(0)].history;
    let members = |slot: u32| history.members(slot).to_vec();
    let (plain, best, rounds) = plain_rounds(&session, &history.seed().unwrap(), &parts, members, false);
    assert!(best > 0 && rounds < 30, "round {best} of {rounds}");
    assert_eq!(history.committed(), 4 + rounds, "only predictions were summed after the round that ended it");
    let mut reports = std::collections::BTreeSet::new();
    for &peer in swarm.finished.keys() {
        let outcome = swarm.outcome(peer).unwrap().unwrap();
        assert_eq!(bits(Classifier::decode(&outcome.file).unwrap().weights()), bits(&plain), "{peer}");
        let said = format!("weights of round {best}; {rounds} of 30 rounds were made");
        assert!(outcome.summary.contains(&said), "{}", outcome.summary);
        assert!(outcome.details["evaluation"]["pooled"]["swarm"]["rows"].as_u64() > Some(0));
        reports.insert(serde_json::to_string(&outcome.details).unwrap());
    }
    assert_eq!(reports.len(), 1, "{reports:?}");
    let figures = |slot| {
        let vectors = (0..=slot).map(|slot| history.vector(slot).cloned().unwrap_or_default());
        let values = (0..=slot).map(|slot| history.value(slot).unwrap().clone());
        let task = Fedavg::new(session.clone(), spec(&session).clone(), Peer(1), parts[1].clone()).unwrap();
        task.metrics(slot, &History::of(values.zip(vectors)))
    };
    assert_eq!(figures(3 + rounds), Map::from_iter([("best_round".to_owned(), json!(best))]));
}

/// Returns the rows of a peer that has all classes.
fn hundred(peer: usize) -> Arc<Dataset> {
    Arc::new(digits().subset(&(100 * peer..100 * peer + 100).collect::<Vec<_>>()))
}

/// Runs a session of four peers whose network memorises their rows. The last peer is away when predictions
/// are summed.
fn ended() -> (Session, Vec<Arc<Dataset>>, Vec<Fedavg>, History) {
    let session = session(4, BY_HEART);
    let parts: Vec<_> = (0..4).map(hundred).collect();
    let tasks = tasks(&session, &parts);
    let everybody = |_| (0..4).map(Peer).collect();
    let closing = federated(&tasks, everybody).unwrap().committed() - 1;
    let history = federated(&tasks, super::members(4, (3, closing), (4, 0))).unwrap();
    assert_eq!(history.committed(), closing + 1);
    (session, parts, tasks, history)
}

#[test]
fn a_session_that_ends_early_sums_the_predictions_of_its_result() {
    let (session, parts, tasks, history) = ended();
    let outcome = tasks[1].outcome(&history, 0).unwrap();
    let network = Classifier::decode(&outcome.file).unwrap();
    let mut sums = Sums::empty(10, true);
    for part in &parts[..3] {
        let test = train_test(SplitRows::new(&vec![0; part.rows()], None), 20, &COIN).test;
        let held = part.subset(&test);
        let logits = network.scores(held.view()).unwrap();
        let surprise = flyswarm_learn::learner::surprise(&logits);
        sums.add(&Sums::of_scores(10, held.labels(), &surprise).shown());
    }
    let expected = figures::Figures::new(&session.data.classes, &sums, None).unwrap();
    assert_eq!(outcome.details["evaluation"]["pooled"]["swarm"], json!(expected));
    assert!(outcome.summary.starts_with(&expected.headline("held-out rows")), "{}", outcome.summary);
    let closing = history.committed() - 1;
    let before = federated_to(closing, &tasks, |_| (0..4).map(Peer).collect()).unwrap();
    assert!(tasks[0].ends(&history) && !tasks[0].ends(&before));
    let told = tasks[0].metrics(closing - 1, &before);
    assert_eq!(
        told["best_round"], outcome.details["best_round"],
        "the event of the last round names the best round"
    );
    assert!(told["held_out_loss"].as_f64() > Some(0.0));
    assert_eq!(tasks[0].row_use(closing, &history), RowUse::Included);
    assert_eq!(tasks[0].learnt_rows(&history).unwrap().len(), 80);
}

#[test]
fn a_peer_that_is_in_the_predictions_alone_has_learnt_no_rows() {
    let (_, _, tasks, history) = ended();
    let closing = history.committed() - 1;
    // Makes a history in which the peer was away in all rounds.
    let slots = (0..=closing).map(|slot| {
        let mut value = history.value(slot).unwrap().clone();
        value.members.retain(|&peer| peer != Peer(2) || slot < 3 || slot == closing);
        (value, history.vector(slot).cloned().unwrap_or_default())
    });
    assert_eq!(tasks[2].learnt_rows(&History::of(slots)), Some(Vec::new()));
}

#[test]
fn weights_in_place_of_predictions_are_refused() {
    let (session, _, tasks, history) = ended();
    let closing = history.committed() - 1;
    let words = tasks[0].plan()[closing as usize].words as usize;
    let share = words - 4 * spec(&session).rounds as usize - 4;
    let slots = (0..=closing).map(|slot| {
        let mut vector = history.vector(slot).cloned().unwrap_or_default().to_vec();
        if slot == closing {
            assert_eq!(vector[4 * share..][..4], [0; 4]);
            vector[4 * share] = 1;
        }
        (history.value(slot).unwrap().clone(), vector.into())
    });
    let told = tasks[0].check(closing, &History::of(slots)).unwrap_err();
    assert!(told.starts_with("the opened share"), "{told}");
}

#[test]
fn predictions_after_an_early_end_need_enough_members_that_hold_each_class_out_and_no_drawn_ones() {
    let parts: Vec<_> = (0..5).map(hundred).collect();
    for (contributors, enough) in [(1, true), (3, false)] {
        let text = text(5, &format!("{BY_HEART}\nmembers = 0.6"));
        let few = format!("min_contributors = {contributors}");
        let session = Session::parse(&text.replace("min_contributors = 1", &few)).unwrap();
        let tasks = tasks(&session, &parts);
        let everybody = |_| (0..5).map(Peer).collect();
        let closing = federated(&tasks, everybody).unwrap().committed() - 1;
        let before = federated_to(closing, &tasks, everybody).unwrap();
        for away in [(0, 1), (0, 2), (1, 3), (2, 4), (3, 4)] {
            let three: Vec<_> = (0..5).filter(|peer| ![away.0, away.1].contains(peer)).map(Peer).collect();
            let told = tasks[0].allows(before.committed(), &before, &three);
            assert_eq!(told.is_ok(), enough, "{told:?}");
            assert!(told.err().is_none_or(|text| text.contains("peers hold out rows")));
        }
    }
}
