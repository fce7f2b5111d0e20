//! Sessions of the task `glm` that lose candidates.

use std::sync::{Arc, Mutex};

use super::network::{Fault, Network};
use super::{ended, marks, timing};
use crate::crypto::identity::Identity;
use crate::data::Dataset;
use crate::protocol::message::Message;
use crate::session::{Peer, Session};
use crate::tasks::xclp::talk::{self, Body, What};
use crate::tasks::{Rows, Task, built_in};

/// Returns five peers with rows. These may compute.
fn lab(compute: &str) -> Network {
    let mut identities: Vec<_> = (1..=5).map(|seed| Identity::from_seed([seed; 32])).collect();
    identities.sort_by_key(Identity::public);
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"glm\"\n[data]\nfeatures = 2\ncolumns = [\"x\", \"y\"]\n[glm]\noutcome = \"y\"\n\
         compute = [{compute}]\n[privacy]\nmin_contributors = 2\n"
    );
    for (peer, identity) in identities.iter().enumerate() {
        text += &format!("[[roster]]\nname = \"peer-{peer}\"\npeer_id = \"{}\"\n", identity.public());
    }
    let session = Session { timing: timing(), ..Session::parse(&text).unwrap() };
    let task = |peer: u16| {
        let values = (0..20).flat_map(|row| [f32::from(row), f32::from(row * 7 % 11 + peer)]).collect();
        let rows = Rows::new(Arc::new(Dataset::new(2, values, vec![], vec![]).unwrap()));
        let made = built_in(&session).unwrap().make(session.clone(), Peer(peer), rows, &[peer as u8; 32]);
        Arc::new(made.unwrap()) as Arc<dyn Task>
    };
    let tasks = (0..5).map(task).collect();
    Network::with_tasks(identities, session.settings(), tasks, 1)
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
