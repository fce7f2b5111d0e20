//! Sessions that cannot continue because two of the candidates no longer compute together.

use std::sync::Mutex;

use super::super::{ended, marks};
use super::*;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::failure::Failure;
use crate::protocol::promise::{Begun, Promised};

/// Returns a session of five peers. The first three may compute, and the last has no rows.
fn three_candidates(seed: u64) -> Lab {
    let spec = XclpSpec { compute: ["peer-0", "peer-1", "peer-2"].map(String::from).into(), ..spec() };
    lab(&[12, 12, 12, 12, 0], Scaling::None, seed, spec)
}

/// Change of a message. Returns whether it changes this one.
type Way = fn(&mut Body, &mut Vec<u8>) -> bool;

const WAYS: [(&str, Way); 3] = [
    ("other hashes of its shares", |body, _| {
        let Body::Copies(hashes) = body else { return false };
        hashes.swap(0, 1);
        true
    }),
    ("a wrong bit", |body, data| {
        let late = matches!(body, Body::Part { what: What::Round(30..), .. }) && !data.is_empty();
        data.iter_mut().take(usize::from(late)).for_each(|byte| *byte ^= 1);
        late
    }),
    ("a byte short", |body, data| {
        let late = matches!(body, Body::Part { what: What::Round(30..), .. }) && data.len() > 1;
        data.truncate(data.len() - usize::from(late));
        late
    }),
];

/// Changes the first message of a liar to a peer that `way` changes. Returns whether it has changed one.
fn change_once(lab: &mut Lab, liar: Peer, victim: Peer, way: Way) -> Arc<Mutex<bool>> {
    let changed = Arc::new(Mutex::new(false));
    let done = changed.clone();
    lab.net.liars.insert(liar);
    lab.net.rewrite = Some(Box::new(move |from, to, message| {
        let Message::Exchange { sum, content } = message else { return None };
        let (mut body, data) = talk::read(content.clone()).ok()?;
        let (mut data, mut done) = (data.to_vec(), done.lock().unwrap());
        if (from, to) != (liar, victim) || *done || !way(&mut body, &mut data) {
            return None;
        }
        *done = true;
        Some(Message::Exchange { sum: *sum, content: talk::content(&body, data.into()) })
    }));
    changed
}

#[test]
fn three_candidates_of_whom_one_deviates_end_every_honest_peer_at_once_because_of_it() {
    let (liar, victim) = (Peer(1), Peer(2));
    for (seed, (what, way)) in (0..).zip(WAYS) {
        let mut lab = three_candidates(seed);
        let changed = change_once(&mut lab, liar, victim, way);
        lab.net.run_unchecked(120_000, |_| false);
        assert!(*changed.lock().unwrap(), "{what}");
        let events = &lab.net.events;
        let failed = events.iter().find(|(.., event)| matches!(event, Event::ViewFailed(..))).unwrap().0;
        for peer in (0..5).map(Peer).filter(|peer| *peer != liar) {
            let (at, text) = ended(&lab.net, peer).unwrap_or_else(|| panic!("{what}: {peer} runs on"));
            let start = "three candidates must compute together, and of peer-0, peer-1, peer-2 no three can";
            assert!(text.starts_with(start) && text.contains("breaks the rules"), "{what}: {text}");
            assert!(text.contains("peer-1 or peer-2") || text.contains("peer-0 or peer-1"), "{what}: {text}");
            assert!(at <= failed.plus_ms(1000), "{what}: {peer} ends at {at:?}, the view at {failed:?}");
        }
        let marks = marks(&lab.net);
        assert!(marks.iter().all(|pair| pair.contains(&liar)), "{what}: {marks:?}");
    }
}

#[test]
fn three_candidates_of_whom_one_deviates_and_makes_no_statement_end_together_too() {
    let (liar, victim) = (Peer(1), Peer(2));
    let mut lab = three_candidates(5);
    let changed = change_once(&mut lab, liar, victim, WAYS[1].1);
    lab.net.hold = Some(Box::new(move |from, _, message| match message {
        Message::Exchange { content, .. } if from == liar => {
            talk::read(content.clone()).is_ok_and(|(body, _)| matches!(body, Body::Statements(_)))
        }
        _ => false,
    }));
    lab.net.run_unchecked(120_000, |_| false);
    assert!(*changed.lock().unwrap());
    let ends: Vec<_> = [0, 2, 3, 4].map(Peer).iter().filter_map(|&peer| ended(&lab.net, peer)).collect();
    assert_eq!(ends.len(), 4, "{:?}", lab.net.events);
    let (first, last) = (ends.iter().map(|(at, _)| *at).min(), ends.iter().map(|(at, _)| *at).max());
    assert!(last <= first.map(|at| at.plus_ms(1000)), "{ends:?}");
    assert!(ends.iter().all(|(_, text)| text.starts_with("three candidates must")), "{ends:?}");
    let marks = marks(&lab.net);
    assert!(!marks.is_empty() && marks.iter().all(|pair| pair.contains(&liar)), "{marks:?}");
}

/// The liar first gets itself marked: it claims in the first view that it has lost the victim. This mark must
/// not keep the other peers from believing the victim's accusation.
#[test]
fn three_candidates_of_whom_one_was_marked_before_it_deviates_end_together_too() {
    let (liar, victim) = (Peer(1), Peer(2));
    for seed in 0..3 {
        let mut lab = three_candidates(seed);
        let (context, mut left) = (lab.net.context(liar), true);
        lab.net.liars.insert(liar);
        lab.net.rewrite = Some(Box::new(move |from, to, message| match message {
            Message::View(view) if from == liar && left => {
                left = false;
                let failure =
                    Failure { ballot: view.ballot(), slot: 0, reason: Reason::Lost, suspect: Some(victim) };
                Some(Message::Failed(Signed::new(&context, failure)))
            }
            Message::Exchange { sum, content } if (from, to) == (liar, victim) => {
                let (mut body, data) = talk::read(content.clone()).ok()?;
                let mut data = data.to_vec();
                let changed = WAYS[1].1(&mut body, &mut data);
                changed.then(|| Message::Exchange { sum: *sum, content: talk::content(&body, data.into()) })
            }
            _ => None,
        }));
        lab.net.run_unchecked(120_000, |_| false);
        let ends: Vec<_> = [0, 2, 3, 4].map(Peer).iter().filter_map(|&peer| ended(&lab.net, peer)).collect();
        assert_eq!(ends.len(), 4, "seed {seed}: {:?}", lab.net.events);
        let (first, last) = (ends.iter().map(|(at, _)| *at).min(), ends.iter().map(|(at, _)| *at).max());
        assert!(last <= first.map(|at| at.plus_ms(1000)), "seed {seed}: {ends:?}");
        assert!(
            ends.iter().all(|(_, text)| text.starts_with("three candidates must")),
            "seed {seed}: {ends:?}"
        );
        let marks = marks(&lab.net);
        assert!(marks.len() > 1 || marks == [[liar, victim]], "seed {seed}: {marks:?}");
        assert!(marks.iter().all(|pair| pair.contains(&liar)), "seed {seed}: {marks:?}");
    }
}

#[test]
fn a_fourth_candidate_replaces_one_of_two_that_no_longer_compute_together() {
    let names = ["peer-0", "peer-1", "peer-2", "peer-3"].map(String::from);
    let liar = Peer(1);
    let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, 3, XclpSpec { compute: names.into(), ..spec() });
    change_once(&mut lab, liar, Peer(2), WAYS[1].1);
    lab.net.run(120_000);
    assert_eq!(lab.holds().len(), 4, "{:?}", lab.net.events);
    let marks = marks(&lab.net);
    assert!(!marks.is_empty() && marks.iter().all(|mark| mark.contains(&liar)), "{marks:?}");
    let (trio, _) = lab.computed(&histories(&lab.net)[&Peer(0)]);
    assert!(!marks[0].iter().all(|peer| trio.contains(peer)), "{marks:?} in {trio:?}");
}

#[test]
fn no_view_begins_over_candidates_of_whom_no_three_compute_together() {
    let names = ["peer-0", "peer-1", "peer-2", "peer-3"].map(String::from);
    let (liar, lost) = (Peer(1), Peer(3));
    let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, 4, XclpSpec { compute: names.into(), ..spec() });
    change_once(&mut lab, liar, Peer(2), WAYS[1].1);
    // One candidate is counted, and crashes when it begins. It might come back.
    let begun = Arc::new(Mutex::new(false));
    let seen = begun.clone();
    lab.net.hold = Some(Box::new(move |from, _, message| {
        *seen.lock().unwrap() |= from == lost && matches!(message, Message::Exchange { .. });
        false
    }));
    lab.net.run_unchecked(60_000, |_| *begun.lock().unwrap());
    lab.net.hold = None;
    let now = lab.net.now_ms();
    lab.net.at_ms(now, Fault::Crash(lost));
    lab.net.run_unchecked(now + 120_000, |_| false);
    let of_the_pair = |event: &Event| matches!(event, Event::ViewFailed(_, _, Reason::Disagreement, Some(_)));
    let (failed, ..) = lab.net.events.iter().find(|(.., event)| of_the_pair(event)).expect("named");
    let later = |(at, _, event): &&(_, Peer, Event)| at > failed && matches!(event, Event::ViewBegan(..));
    assert_eq!(lab.net.events.iter().filter(later).count(), 0, "{:?}", lab.net.events);
    let mut ends: Vec<_> = [0, 1, 2, 4].map(Peer).iter().filter_map(|&peer| ended(&lab.net, peer)).collect();
    ends.sort_by_key(|(at, _)| *at);
    assert_eq!(ends.len(), 4, "{ends:?}");
    let (first, text) = &ends[0];
    assert!(text.contains("three candidates must compute together"), "{text}");
    assert!(*first >= failed.plus_ms(19_000), "they wait for the fourth candidate");
}

/// Adds to the liar's promise an accusation of `suspect` in an earlier view, and signs both again.
fn with_accusation(begun: &Signed<Begun>, liar: &Context, suspect: Peer) -> Signed<Begun> {
    let mut item = begun.item.clone();
    let ballot = Ballot { counter: 0, proposer: liar.me };
    let failure = Failure { ballot, slot: 2, reason: Reason::Disagreement, suspect: Some(suspect) };
    for promise in item.promises.iter_mut().filter(|promise| promise.author == liar.me) {
        let marks = [vec![Signed::new(liar, failure.clone())], promise.item.marks.clone()].concat();
        *promise = Signed::new(liar, Promised { marks, ..promise.item.clone() });
    }
    Signed::new(liar, item)
}

#[test]
fn a_leader_that_shows_one_member_other_marks_ends_its_view_and_no_honest_peer_is_blamed() {
    let names = ["peer-0", "peer-1", "peer-2", "peer-3"].map(String::from);
    let mut ended = 0;
    for seed in 0..6 {
        let spec = XclpSpec { compute: names.clone().into(), ..spec() };
        let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, seed, spec);
        let liar = lab.net.committee()[0];
        let victim = (0..4).map(Peer).filter(|peer| *peer != liar).nth(seed as usize % 3).unwrap();
        let suspect = (0..4).map(Peer).find(|peer| ![liar, victim].contains(peer)).unwrap();
        let (context, lied) = (lab.net.context(liar), Arc::new(Mutex::new(false)));
        let done = lied.clone();
        lab.net.liars.insert(liar);
        lab.net.rewrite = Some(Box::new(move |from, to, message| {
            let Message::Begin(begun) = message else { return None };
            if (from, to) != (liar, victim) || begun.author != liar {
                return None;
            }
            *done.lock().unwrap() = true;
            Some(Message::Begin(with_accusation(begun, &context, suspect)))
        }));
        lab.net.run_unchecked(240_000, |_| false);
        assert!(*lied.lock().unwrap(), "seed {seed}");
        let marks = marks(&lab.net);
        ended += usize::from(!marks.is_empty());
        assert!(marks.iter().all(|pair| pair.contains(&liar)), "seed {seed}: {marks:?}");
        assert!(lab.net.named().iter().all(|peer| *peer == liar), "seed {seed}: {:?}", lab.net.named());
        let told = lab.holds();
        let honest = (0..4).map(Peer).filter(|peer| *peer != liar);
        assert!(honest.clone().all(|peer| told.contains(&peer)), "seed {seed}: {:?}", lab.net.events);
    }
    assert!(ended > 1, "{ended} of the victims are children of the leader");
}
