//! Sessions that end before their plan does.

use super::*;

/// A session that ends early: it learns its few rows by heart.
const BY_HEART: &str =
    "rounds = 30\nheld_out = 20\npatience = 2\nepochs = 20\nrate = 0.7\nschedule = \"constant\"";

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
    assert_eq!(history.committed(), 3 + rounds, "nothing was summed after the round that ended it");
    let mut reports = std::collections::BTreeSet::new();
    for &peer in swarm.finished.keys() {
        let outcome = swarm.outcome(peer).unwrap().unwrap();
        assert_eq!(bits(Classifier::decode(&outcome.file).unwrap().weights()), bits(&plain), "{peer}");
        let said = format!("weights of round {best}; {rounds} of 30 rounds were made");
        assert!(outcome.summary.contains(&said), "{}", outcome.summary);
        reports.insert(serde_json::to_string(&outcome.details).unwrap());
    }
    assert_eq!(reports.len(), 1, "{reports:?}");
    let figures = |slot| {
        let vectors = (0..=slot).map(|slot| history.vector(slot).cloned().unwrap_or_default());
        let values = (0..=slot).map(|slot| history.value(slot).unwrap().clone());
        let task = Fedavg::new(session.clone(), spec(&session).clone(), Peer(1), parts[1].clone()).unwrap();
        task.metrics(slot, &History::of(values.zip(vectors)))
    };
    assert_eq!(figures(2 + rounds)["best_round"], json!(best), "the event of the last round names it");
}
