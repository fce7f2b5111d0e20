//! Uses the main entry point of the library as a program does: nodes over libp2p in one process.

use flyswarm::Identity;
use flyswarm::Model;
use flyswarm::peer::{Builder, Error, Event, Finished, Peer, Timed};
use flyswarm::session::Session;
use flyswarm::tasks::flynn::Plan;
use flyswarm_data::digits::digits;
use futures::StreamExt;
use futures::executor::{block_on, block_on_stream};
use futures::future::join_all;
use ndarray::{Array2, Axis, s};
use tempfile::TempDir;

use super::processes::swarm::{part, random, session};

const PEERS: usize = 4;

/// Makes a session, the identities of its peers, and a folder for them.
fn swarm() -> (Session, Vec<Identity>, TempDir) {
    let identities: Vec<_> = (0..PEERS).map(|_| Identity::from_seed(random())).collect();
    let mut session = session(&identities);
    // The tests require that all peers are counted, so a peer must not be excluded because the machine is
    // busy.
    (session.timing.view_timeout_ms, session.timing.start_wait_ms) = (30_000, 60_000);
    let session = session.check().expect("a session");
    (session, identities, tempfile::tempdir().expect("a folder"))
}

/// Returns those rows of the digits that peer `i` has.
fn rows(i: usize) -> (Array2<f32>, Vec<Option<u16>>) {
    let (data, part) = (digits(), part(i, PEERS));
    let labels = part.iter().map(|&row| Some(data.labels()[row])).collect();
    (data.view().select(Axis(0), &part), labels)
}

/// Starts every peer with its arrays, and gives each the addresses of the others.
fn start(session: &Session, identities: Vec<Identity>, folder: &TempDir) -> Vec<Peer> {
    join(identities.into_iter().enumerate().map(|(i, identity)| {
        let (features, labels) = rows(i);
        let state = folder.path().join(i.to_string());
        Peer::builder(session.clone(), identity).data(features, labels).state_dir(state)
    }))
}

/// Joins with every peer on this machine, and gives each the addresses of the others.
pub(super) fn join(builders: impl Iterator<Item = Builder>) -> Vec<Peer> {
    let local = |builder: Builder| builder.listen("/ip4/127.0.0.1/tcp/0".parse().unwrap()).mdns(false);
    let peers: Vec<_> = builders.map(|builder| block_on(local(builder).join()).expect("it joins")).collect();
    for peer in &peers {
        let listening = |timed: Timed| match timed.event {
            Event::Listening { address } => Some(address),
            _ => None,
        };
        let address = block_on_stream(peer.events()).find_map(listening).expect("it listens");
        peers.iter().for_each(|other| other.handle().add_address(&peer.id(), address.clone()));
    }
    peers
}

/// Waits for the results of all peers.
pub(super) fn finish(peers: Vec<Peer>) -> Vec<Finished> {
    let results = block_on(join_all(peers.into_iter().map(Peer::result)));
    results.into_iter().map(|result| result.expect("a result")).collect()
}

#[test]
fn peers_of_one_program_get_the_pooled_model_and_receipts_from_arrays() {
    let (session, identities, folder) = swarm();
    let peers = start(&session, identities, &folder);
    let events = peers[0].events();
    let finished = finish(peers);

    let outcome = |finished: &Finished| finished.outcome.clone().expect("a model");
    let model = Model::decode(&outcome(&finished[0]).file).expect("a model file");
    let Some(spec) = session.task.get::<flyswarm::tasks::FlynnSpec>().cloned() else {
        panic!("{}", session.task)
    };
    let all: Vec<usize> = (0..PEERS).flat_map(|i| part(i, PEERS)).collect();
    let seed = model.sketch().parameters().seed;
    let pooled = Plan::new(session.clone(), spec).pooled(&digits().subset(&all), seed).expect("a model");
    for (i, each) in finished.iter().enumerate() {
        assert_eq!(outcome(each).digest, pooled.digest());
        assert_eq!(each.receipt.own_rows.left_out, []);
        assert_eq!(
            (each.receipt.committee.faults.as_str(), each.receipt.committee.members),
            ("byzantine", PEERS)
        );
        assert_eq!(each.receipt.session, session.id().to_string());
        assert_eq!(each.receipt.data.rows, part(i, PEERS).len());
        assert_eq!(each.receipt.aggregates.last().expect("an aggregate").members.len(), PEERS);
    }

    let events: Vec<Timed> = block_on(events.collect());
    assert!(events.is_sorted_by(|a, b| a.time <= b.time), "events carry their times");
    let digest = hex::encode(pooled.digest());
    let told =
        |timed: &Timed| matches!(&timed.event, Event::Finished { digest: Some(d), .. } if *d == digest);
    assert!(events.iter().any(told));

    let (features, labels) = rows(0);
    let predicted = model.predict(features.view()).expect("the model's features");
    let scores = model.scores(features.view()).expect("the model's features");
    assert_eq!(scores.dim(), (features.nrows(), model.classes().len()));
    let lowest = |row: usize, class: u16| {
        scores.row(row).iter().all(|&score| score >= scores[(row, usize::from(class))])
    };
    assert!(predicted.iter().enumerate().all(|(row, &class)| lowest(row, class)));
    let right = predicted.iter().zip(&labels).filter(|(found, label)| Some(**found) == **label).count();
    assert!(right * 10 > labels.len() * 9, "{right} of {} rows that were learnt", labels.len());
    let lines: Vec<_> = events.iter().map(|timed| serde_json::to_value(timed).expect("JSON")).collect();
    assert_eq!(lines[0]["event"], "waiting");
    let last = lines.iter().rev().take(2).map(|line| &line["event"]).collect::<Vec<_>>();
    assert_eq!(last, ["own-rows", "receipt"]);
}

#[test]
fn a_peer_that_leaves_without_a_result_says_so_and_one_that_is_dropped_leaves() {
    let (session, mut identities, folder) = swarm();
    identities.truncate(2);
    let mut peers = start(&session, identities, &folder);
    let mut events = block_on_stream(peers[0].events());
    assert!(events.any(|timed| matches!(timed.event, Event::Joined { .. })), "they meet");
    drop(peers.pop());
    assert!(
        events.any(|timed| matches!(timed.event, Event::Disconnected { .. })),
        "the dropped peer is lost"
    );
    let left = block_on(peers.pop().expect("a peer").leave());
    assert!(matches!(left, Err(Error::Left(_))), "{left:?}");
}

#[test]
fn what_does_not_fit_the_session_is_refused_before_anything_is_sent() {
    let (session, identities, folder) = swarm();
    let identity = || Identity::from_seed(*identities[0].seed());
    let (features, labels) = rows(0);
    let builder = || Peer::builder(session.clone(), identity()).state_dir(folder.path());
    let refused = |builder: Builder| match block_on(builder.join()) {
        Err(error @ (Error::Input(_) | Error::Rows(_) | Error::NotInRoster { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let narrow = features.slice(s![.., 1..]).to_owned();
    assert_eq!(refused(builder().data(narrow, labels.clone())), "63 features, the session has 64");
    let count = labels.len();
    let text = refused(builder().data(features.clone(), labels[1..].to_vec()));
    assert_eq!(text, format!("{} labels for {count} rows", count - 1));
    let mut wrong = labels.clone();
    wrong[3] = None;
    assert_eq!(
        refused(builder().data(features.clone(), wrong.clone())),
        "row 3 has no label, and the task needs one"
    );
    wrong[3] = Some(10);
    assert_eq!(
        refused(builder().data(features.clone(), wrong)),
        "row 3 has label 10, the session has 10 classes"
    );
    let stranger = Peer::builder(session.clone(), Identity::from_seed(random())).state_dir(folder.path());
    assert!(refused(stranger.data(features.clone(), labels.clone())).contains("is not in the roster"));
    let homeless = Peer::builder(session.clone(), identity()).data(features, labels);
    assert_eq!(refused(homeless), "no folder for the state: name a state folder or a key file");
    assert_eq!(refused(builder()), "the task flynn has no peers without rows");
}
