//! Tests the comparison of the two copies of each share of an output.

use std::sync::Mutex;

use super::*;
use crate::tasks::xclp::Plan;
use crate::tasks::xclp::deliver::Delivered;
use flyswarm_mpc::propagation::integer::reference::Output;

#[test]
fn an_owner_that_got_different_copies_uses_nothing_and_says_whose_they_are() {
    let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, 1, spec());
    let changed = Arc::new(Mutex::new(None));
    let seen = changed.clone();
    lab.net.liars.extend((0..5).map(Peer));
    lab.net.rewrite = Some(Box::new(move |from, to, message| {
        let Message::Exchange { sum, content } = message else { return None };
        let (body, data) = talk::read(content.clone()).ok()?;
        let mut changed = seen.lock().unwrap();
        if !part(&body, What::Output) || changed.is_some() {
            return None;
        }
        *changed = Some((from, to));
        let mut data = data.to_vec();
        data[0] ^= 1;
        Some(Message::Exchange { sum: *sum, content: talk::content(&body, data.into()) })
    }));
    lab.net.run_unchecked(120_000, |_| false);
    let (liar, victim) = changed.lock().unwrap().expect("a share is sent");
    let histories = histories(&lab.net);
    assert_eq!((histories.len(), lab.net.blames.len()), (5, 0), "{:?}", lab.net.events);
    for peer in (0..4).map(Peer) {
        let outcome = lab.tasks[peer.index()].outcome(&histories[&peer], 0);
        if peer != victim {
            assert!(outcome.unwrap().warnings.is_empty());
            continue;
        }
        // The sentence names two peers. One of them is the liar.
        let text = outcome.unwrap_err();
        let (names, rest) = text.split_at(text.find(" sent different copies").expect(&text));
        assert!(names.split(" and ").any(|name| name == format!("peer-{}", liar.0)), "{text}");
        assert!(rest.ends_with("follow the protocol, and neither copy was used"), "{text}");
    }
    // The opened number of rows that got an answer.
    let answered = histories[&Peer(0)].vector(3).unwrap().to_vec();
    assert_eq!(answered, 36u32.to_le_bytes());
}

#[test]
fn labels_that_came_from_two_parties_alone_are_used_and_say_so() {
    let mut lab = lab(&[12, 12, 12, 12, 12, 0], Scaling::None, 15, spec());
    let victim = lab.kill_for_good(|body| part(body, What::Output));
    let told = lab.holds();
    assert!(told.len() >= 4 && !told.contains(&victim));
    for peer in told {
        let warnings = lab.tasks[peer.index()].outcome(&histories(&lab.net)[&peer], 0).unwrap().warnings;
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("one of the three computing peers was gone"),
            "{warnings:?}"
        );
    }
}

#[test]
fn rows_of_an_owner_with_different_copies_are_not_counted_as_answered() {
    let mut session = lab(&[10; 5], Scaling::None, 7, spec()).session;
    session.data.classes.truncate(3);
    let plan = Plan::new(session, spec());
    let counted = |delivered: Delivered| {
        let bytes = plan.contribution_from_exchange(Peer(0), 3, &delivered.to_bytes(3)).unwrap();
        u32::from_le_bytes(bytes[..].try_into().unwrap())
    };
    let output = Output { labels: vec![Some(2), None], coarse: vec![1, 2, 61, 0, 0, 0] };
    assert_eq!(counted(Delivered::Output(output.clone(), true)), 2);
    assert_eq!(counted(Delivered::Output(output, false)), 2);
    assert_eq!(counted(Delivered::Differing([Peer(1), Peer(2)])), 0);
}
