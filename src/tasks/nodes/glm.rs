//! Sessions of the task `glm` that lose candidates, or a peer at each stage.

use std::sync::{Arc, Mutex};

use super::network::{Fault, Network};
use super::{ended, histories, marks, timing};
use crate::crypto::identity::Identity;
use crate::data::Dataset;
use crate::node::Event;
use crate::protocol::message::Message;
use crate::session::{Peer, Session};
use crate::tasks::xclp::talk::{self, Body, What};
use crate::tasks::{Rows, Task, built_in};

/// Number of rows of a peer.
const ROWS: u16 = 20;
/// Slots of a session.
const PATTERN: u32 = 3;
const FIT: u32 = 4;

/// Returns five peers with rows. These may compute.
fn lab(compute: &str) -> Network {
    lab_of(&format!("compute = [{compute}]"), |row, peer| row * 7 % 11 + peer).0
}

/// Returns five peers with rows that have this outcome, and their tasks. `fields` are fields of `[glm]`.
fn lab_of(fields: &str, outcome: fn(u16, u16) -> u16) -> (Network, Vec<Arc<dyn Task>>) {
    let mut identities: Vec<_> = (1..=5).map(|seed| Identity::from_seed([seed; 32])).collect();
    identities.sort_by_key(Identity::public);
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"glm\"\n[data]\nfeatures = 2\ncolumns = [\"x\", \"y\"]\n[glm]\noutcome = \"y\"\n\
         {fields}\n[privacy]\nmin_contributors = 2\n"
    );
    for (peer, identity) in identities.iter().enumerate() {
        text += &format!("[[roster]]\nname = \"peer-{peer}\"\npeer_id = \"{}\"\n", identity.public());
    }
    let session = Session { timing: timing(), ..Session::parse(&text).unwrap() };
    let task = |peer: u16| {
        let values = (0..ROWS).flat_map(|row| [row, outcome(row, peer)].map(f32::from)).collect();
        let rows = Rows::new(Arc::new(Dataset::new(2, values, vec![], vec![]).unwrap()));
        let made = built_in(&session).unwrap().make(session.clone(), Peer(peer), rows, &[peer as u8; 32]);
        Arc::new(made.unwrap()) as Arc<dyn Task>
    };
    let tasks: Vec<_> = (0..5).map(task).collect();
    (Network::with_tasks(identities, session.settings(), tasks.clone(), 1), tasks)
}

/// Returns a session of a logistic regression whose fourth candidate is in reserve.
fn logistic() -> (Network, Vec<Arc<dyn Task>>) {
    let fields = "family = \"logistic\"\ncheaters = \"trusted\"\n\
                  compute = [\"peer-0\", \"peer-1\", \"peer-2\", \"peer-3\"]";
    lab_of(fields, |row, peer| u16::from((row * 7 + peer * 3) % 11 < 5))
}

/// Runs until any peer has opened this slot.
fn run_to(net: &mut Network, slot: u32) {
    let at = |event: &Event| matches!(event, Event::Opened(value) if value.sum.slot == slot);
    net.run_unchecked(60_000, |net| net.events.iter().any(|(.., event)| at(event)));
}

/// Crashes a peer now and runs to the end.
fn lose(net: &mut Network, lost: Peer) {
    let now = net.now_ms();
    net.at_ms(now, Fault::Crash(lost));
    net.run_unchecked(now + 240_000, |_| false);
}

/// Returns whether a message is of this round of the computation or a later one, and has data.
fn is_of_round(message: &Message, least: u32) -> bool {
    let Message::Exchange { content, .. } = message else { return false };
    talk::read(content.clone()).is_ok_and(|(body, data)| {
        matches!(body, Body::Part { what: What::Round(round), .. } if round >= least) && !data.is_empty()
    })
}

#[test]
fn three_candidates_of_whom_one_deviates_end_every_honest_peer_at_once_because_of_it() {
    let (mut net, liar, mut done) = (lab("\"peer-0\", \"peer-1\", \"peer-2\""), Peer(1), false);
    net.liars.insert(liar);
    net.rewrite = Some(Box::new(move |from, _, message| {
        let Message::Exchange { sum, content } = message else { return None };
        if from != liar || done || !is_of_round(message, 20) {
            return None;
        }
        let (body, data) = talk::read(content.clone()).ok()?;
        let mut data = data.to_vec();
        data[0] ^= 1;
        done = true;
        Some(Message::Exchange { sum: *sum, content: talk::content(&body, data.into()) })
    }));
    net.run_unchecked(120_000, |_| false);
    for peer in (0..5).map(Peer).filter(|peer| *peer != liar) {
        let (_, text) = ended(&net, peer).unwrap_or_else(|| panic!("{peer} runs on: {:?}", net.events));
        assert!(text.starts_with("three candidates must compute together"), "{text}");
        assert!(text.contains("peer-1") && text.contains("breaks the rules"), "{text}");
    }
    let marks = marks(&net);
    assert!(!marks.is_empty() && marks.iter().all(|pair| pair.contains(&liar)), "{marks:?}");
}

#[test]
fn two_lost_candidates_of_four_leave_no_mark_between_the_others_and_each_says_the_reason() {
    let mut net = lab("\"peer-0\", \"peer-1\", \"peer-2\", \"peer-3\"");
    let (begun, lost) = (Arc::new(Mutex::new(false)), [Peer(2), Peer(3)]);
    let seen = begun.clone();
    net.hold = Some(Box::new(move |_, _, message| {
        *seen.lock().unwrap() |= is_of_round(message, 20);
        false
    }));
    net.run_unchecked(60_000, |_| *begun.lock().unwrap());
    net.hold = None;
    let now = net.now_ms();
    lost.iter().for_each(|peer| net.at_ms(now, Fault::Crash(*peer)));
    net.run_unchecked(now + 120_000, |_| false);
    for peer in [0, 1, 4].map(Peer) {
        let (_, text) = ended(&net, peer).unwrap_or_else(|| panic!("{peer} runs on: {:?}", net.events));
        let told = ["three computing parties are needed", "only 3 of 5 peers are reachable"];
        assert!(told.iter().any(|told| text.contains(told)), "{peer}: {text}");
    }
    let marks = marks(&net);
    assert!(marks.iter().all(|[_, suspect]| lost.contains(suspect)), "{marks:?}");
}

#[test]
fn a_peer_lost_at_any_stage_before_the_first_matrix_costs_the_others_nothing() {
    for lost in [Peer(4), Peer(1)] {
        for stage in 0..6 {
            let (mut net, tasks) = logistic();
            match stage {
                // After the coin, after the number of peers with rows, after the exchange, after the pattern.
                0..=PATTERN => run_to(&mut net, stage),
                4 => {
                    let begun = Arc::new(Mutex::new(false));
                    let seen = begun.clone();
                    net.hold = Some(Box::new(move |_, _, message| {
                        *seen.lock().unwrap() |= is_of_round(message, 20);
                        false
                    }));
                    net.run_unchecked(60_000, |_| *begun.lock().unwrap());
                    net.hold = None;
                }
                _ => {
                    let first = |event: &Event| matches!(event, Event::Stage(FIT, _));
                    net.run_unchecked(60_000, |net| net.events.iter().any(|(.., event)| first(event)));
                }
            }
            lose(&mut net, lost);
            let finished = histories(&net);
            for peer in (0..5).map(Peer).filter(|peer| *peer != lost) {
                let history = finished.get(&peer);
                let history =
                    history.unwrap_or_else(|| panic!("{lost} in {stage}: {peer}: {:?}", net.events));
                let outcome = tasks[peer.index()].outcome(history, 0).expect("an outcome");
                let file = String::from_utf8(outcome.file).expect("text");
                assert!(file.contains(&format!("\"rows\": {}", 4 * ROWS)), "{lost} in {stage}: {file}");
            }
        }
    }
}

#[test]
fn a_peer_lost_after_the_first_matrix_ends_the_fit_with_its_name_unless_it_comes_back() {
    for slot in [FIT, FIT + 1] {
        let (mut net, _) = logistic();
        run_to(&mut net, slot);
        lose(&mut net, Peer(4));
        let end =
            |peer: Peer| ended(&net, peer).unwrap_or_else(|| panic!("{peer} runs on: {:?}", net.events));
        let ends: Vec<_> = (0..4).map(Peer).map(end).collect();
        // After the first end, the others may be too few.
        let (_, text) = ends.iter().min_by_key(|(at, _)| *at).expect("four ends");
        assert!(text.contains("the fit cannot go on without peer-4: its cells were checked"), "{text}");
        let (mut net, tasks) = logistic();
        run_to(&mut net, slot);
        let now = net.now_ms();
        net.at_ms(now, Fault::Crash(Peer(4)));
        net.at_ms(now + 500, Fault::Restart(Peer(4)));
        net.run_unchecked(now + 240_000, |_| false);
        let finished = histories(&net);
        assert_eq!(finished.len(), 5, "{:?}", net.events);
        let outcome = tasks[0].outcome(&finished[&Peer(0)], 0).expect("an outcome");
        let file = String::from_utf8(outcome.file).expect("text");
        assert!(file.contains(&format!("\"rows\": {}", 5 * ROWS)), "{file}");
    }
}
