//! Tests the statements of computing members: which peers are named, and with which evidence. Peers 3, 1 and
//! 0 compute.

use super::*;
use crate::crypto::identity::Identity;
use crate::protocol::context::Context;
use crate::protocol::signed::Signed;
use crate::protocol::wire;
use crate::session::{SessionId, Timing};
use crate::tasks::xclp::accounts::{Statement, Topic, contradiction, named};
use flyswarm_mpc::shares::accounts::{Account, Place, Progress};
use flyswarm_sealed_sum::session::{Member, Settings};

const PARTIES: [Peer; 3] = [Peer(3), Peer(1), Peer(0)];

/// Returns the constants of a node of five peers.
pub(super) fn context(me: u16) -> Arc<Context> {
    let mut identities: Vec<Identity> = (0..5).map(|seed| Identity::from_seed([seed; 32])).collect();
    identities.sort_by_key(Identity::public);
    let member = |(peer, identity): (usize, &Identity)| Member {
        key: identity.public(),
        name: format!("peer-{peer}"),
    };
    let settings = Settings {
        id: SessionId([9; 32]),
        roster: identities.iter().enumerate().map(member).collect(),
        committee: (0..5).map(Peer).collect(),
        quorum: 3,
        min_peers: 3,
        collusion_threshold: 0.0,
        timing: Timing::default(),
        fields: Vec::new(),
    };
    Arc::new(Context::new(settings, Peer(me), identities.swap_remove(usize::from(me)), Vec::new()))
}

/// Checks that honest peers name only the cheater, or a pair that contains it, with evidence that everyone
/// can check. All honest peers must name the same peers, and none may suspect another honest peer. Returns
/// the named peers.
fn only_the_cheater(net: &Net, cheater: Peer, what: &str) -> BTreeSet<Vec<Peer>> {
    let honest = net.named.iter().filter(|(by, ..)| *by != cheater);
    let all: BTreeSet<Vec<Peer>> = honest
        .map(|(by, peers, evidence)| {
            let evidence: Vec<Signed<Statement>> = wire::decode_item(evidence).expect("evidence");
            assert_eq!(named(&context(by.0), &evidence).as_ref(), Some(peers), "{what}: evidence of {by}");
            peers.clone()
        })
        .collect();
    assert!(all.iter().all(|peers| peers.contains(&cheater)), "{what}: {all:?}");
    let suspects = net.suspects.iter().filter(|(by, _)| *by != cheater);
    assert!(suspects.clone().all(|(_, peer)| *peer == cheater), "{what}: {:?}", net.suspects);
    assert!(
        net.blamed.iter().all(|(by, peer, _)| *by == cheater || *peer == cheater),
        "{what}: {:?}",
        net.blamed
    );
    all
}

/// Drops all messages of the peer `silent`, and lets heartbeats pass until the honest peers have given up.
fn wait(net: &mut Net, silent: Peer) {
    for second in 1..=20 {
        net.now = Time(1).plus_ms(1000 * second);
        for peer in PARTIES.into_iter().filter(|peer| *peer != silent) {
            net.give(peer, Input::Timer(0));
        }
        net.deliver(|from, _, _, _| from != silent);
    }
}

#[test]
fn a_wrong_bit_of_a_party_is_named_by_every_peer_with_evidence() {
    let mut rounds = 0;
    Net::computing().run(|_, _, body, _| {
        if let Body::Part { what: What::Round(round), .. } = body {
            rounds = rounds.max(*round);
        }
    });
    for (at, cheater) in PARTIES.into_iter().cycle().take(9).enumerate() {
        let changed = 1 + (at as u32 * 7919) % (rounds - 2);
        let (mut net, mut done) = (Net::computing(), false);
        net.run(|from, _, body, data| {
            let later = matches!(body, Body::Part { what: What::Round(round), .. } if *round >= changed);
            if from == cheater && later && !done && !data.is_empty() {
                data[0] ^= 1;
                done = true;
            }
        });
        let what = format!("round {changed} of {cheater}");
        let all = only_the_cheater(&net, cheater, &what);
        assert_eq!((all.len(), computed(&net).len()), (1, 0), "{what}: all name the same peers");
        let by: BTreeSet<Peer> = net.named.iter().map(|(by, ..)| *by).collect();
        assert_eq!(by, (0..5).map(Peer).collect(), "{what}: peers that do not compute name them too");
        let honest =
            *all.first().and_then(|pair| pair.iter().find(|peer| **peer != cheater)).expect("a pair");
        assert!(net.suspects.contains(&(honest, cheater)), "{what}: {:?}", net.suspects);
    }
}

/// Runs until this round. Then the cheater sends statements to the other peers.
fn with_statements(cheater: Peer, round: u32, statements: impl Fn(Peer) -> Vec<Signed<Statement>>) -> Net {
    let (mut net, mut said) = (Net::computing(), false);
    for peer in (0..5).map(Peer) {
        net.give(peer, Input::Start);
    }
    while let Some((from, to, message)) = net.queue.pop_front() {
        let (body, _) = read(message.clone()).expect("said by machines");
        if !said && matches!(body, Body::Part { what: What::Round(at), .. } if at == round) {
            said = true;
            for peer in (0..5).map(Peer).filter(|peer| *peer != cheater) {
                let statements = statements(peer);
                if !statements.is_empty() {
                    let message = content(&Body::Statements(statements), Bytes::new());
                    net.queue.push_front((cheater, peer, message));
                }
            }
        }
        // The cheater gets no statements, so it answers none.
        if to != cheater || !matches!(body, Body::Statements(_)) {
            net.give(to, Input::Message { from, message });
        }
    }
    assert!(said);
    net
}

fn statement(author: Peer, begins: bool, topic: Topic) -> Signed<Statement> {
    let sum = setup(author.0, 1, Marks::default()).sum;
    Signed::new(&context(author.0), Statement { sum, parties: PARTIES, begins, topic })
}

fn account(place: Place, accepts: bool, told: u8) -> Topic {
    Topic::Check(place, Account { accepts, ..Account::new([[told; 32]; 2]) })
}

/// The cheater sends the two honest parties a beginning about rounds, when `now` holds for a message.
fn with_rounds(
    cheater: Peer,
    mut change: impl FnMut(Peer, Peer, &Body, &mut Vec<u8>),
    now: impl Fn(Peer, &Body) -> bool,
) -> Net {
    let (mut net, mut said) = (Net::computing(), false);
    for peer in (0..5).map(Peer) {
        net.give(peer, Input::Start);
    }
    while let Some((from, to, message)) = net.queue.pop_front() {
        let (body, data) = read(message).expect("said by machines");
        let mut data = data.to_vec();
        change(from, to, &body, &mut data);
        if !said && now(from, &body) {
            said = true;
            let rounds = Topic::Rounds(Progress { sent: 1000, missing: [true, true] });
            let told = content(&Body::Statements(vec![statement(cheater, true, rounds)]), Bytes::new());
            for peer in PARTIES.into_iter().filter(|peer| *peer != cheater) {
                net.give(peer, Input::Message { from: cheater, message: told.clone() });
            }
        }
        // The cheater answers no statements.
        if to != cheater || !matches!(body, Body::Statements(_)) {
            net.give(to, Input::Message { from, message: content(&body, data.into()) });
        }
    }
    assert!(said);
    // The first honest peer that fails ends the view for all.
    if net.suspects.iter().all(|(by, _)| *by == cheater) {
        wait(&mut net, cheater);
    }
    net
}

#[test]
fn a_beginning_about_rounds_hides_no_wrong_announcement_and_no_failed_check() {
    for (cheater, victim) in [(0, 1), (1, 3), (3, 0)].map(|(one, other)| (Peer(one), Peer(other))) {
        // The victim gets another announcement hash than the third party. It waits for the cheater, and the
        // third party misses the victim's next message.
        let announcement = |from, to, body: &Body, data: &mut Vec<u8>| {
            let first = matches!(body, Body::Part { what: What::Round(0), .. });
            if (from, to) == (cheater, victim) && first {
                data[0] ^= 1;
            }
        };
        let second = |_, body: &Body| matches!(body, Body::Part { what: What::Round(1), .. });
        let net = with_rounds(cheater, announcement, second);
        only_the_cheater(&net, cheater, "announcement");
        assert!(net.suspects.contains(&(victim, cheater)), "{:?}", net.suspects);
        // The check of the victim fails, and it stops.
        let mut done = false;
        let bit = |from, to, body: &Body, data: &mut Vec<u8>| {
            let round = matches!(body, Body::Part { what: What::Round(30..), .. });
            if !done && (from, to) == (cheater, victim) && round && !data.is_empty() {
                data[0] ^= 1;
                done = true;
            }
        };
        let begun = |from, body: &Body| from != cheater && matches!(body, Body::Statements(_));
        let net = with_rounds(cheater, bit, begun);
        only_the_cheater(&net, cheater, "failed check");
        assert!(net.suspects.iter().any(|(_, peer)| *peer == cheater), "{:?}", net.suspects);
    }
}

/// Returns the place of a check, and a round after the check.
fn checked() -> (Place, u32) {
    let (mut net, mut last) = (Net::computing(), 0);
    net.run(|from, _, body, data| {
        if let Body::Part { what: What::Round(round), .. } = body {
            last = last.max(*round);
            if from == Peer(0) && *round == 30 && !data.is_empty() {
                data[0] ^= 1;
            }
        }
    });
    let evidence: Vec<Signed<Statement>> = wire::decode_item(&net.named[0].2).expect("evidence");
    (evidence[0].item.place().expect("a check"), last + 3)
}

#[test]
fn a_party_that_says_two_things_is_named_alone_and_one_that_is_silent_or_lies_in_a_pair() {
    let (cheater, (place, round)) = (Peer(0), checked());
    let says =
        |statements: &dyn Fn(Peer) -> Vec<Signed<Statement>>| with_statements(cheater, round, statements);
    let other = Place { chunk: place.chunk + 1, ..place };
    // The cheater falsely claims that its coins differ. Nothing else is wrong.
    let net = says(&|_| vec![statement(cheater, true, account(place, false, 1))]);
    assert_eq!(only_the_cheater(&net, cheater, "a false account").len(), 1);
    // Each of the other two gets a different account, and passes it on.
    let net = says(&|to| vec![statement(cheater, true, account(place, false, to.0 as u8))]);
    let all = only_the_cheater(&net, cheater, "two accounts");
    assert!(all.contains(&vec![cheater]), "{all:?}");
    assert!(net.blamed.iter().any(|(_, peer, _)| *peer == cheater));
    // The cheater speaks first twice.
    let net =
        says(&|_| [place, other].map(|place| statement(cheater, true, account(place, false, 1))).to_vec());
    assert!(only_the_cheater(&net, cheater, "two beginnings").contains(&vec![cheater]));
    // The cheater speaks first, but its account shows no failure.
    let net = says(&|_| vec![statement(cheater, true, account(place, true, 1))]);
    assert_eq!(only_the_cheater(&net, cheater, "no failure"), [vec![cheater]].into());
    // The cheater makes a statement about a place that was not reached.
    let net = says(&|_| vec![statement(cheater, true, account(Place { chunk: 9999, ..place }, false, 1))]);
    assert!(only_the_cheater(&net, cheater, "no place").is_empty() && !net.suspects.is_empty());
    // The cheater sends its statement to only one computing member, or only to an owner.
    for only in [Peer(1), Peer(3), Peer(2)] {
        let net = says(&|to| match to == only {
            true => vec![statement(cheater, true, account(place, false, 1))],
            false => Vec::new(),
        });
        only_the_cheater(&net, cheater, "told to one");
    }
    // The cheater answers, although no other member has made a statement.
    let net = says(&|_| vec![statement(cheater, false, account(place, false, 1))]);
    assert!(only_the_cheater(&net, cheater, "an answer to nothing").is_empty() && !net.blamed.is_empty());
    // The signature, the view or the author of the statement is wrong.
    let mut forged = statement(cheater, true, account(place, false, 1));
    forged.author = Peer(1);
    let net = says(&|_| vec![forged.clone()]);
    assert!(only_the_cheater(&net, cheater, "a forged account").is_empty() && !net.blamed.is_empty());
    let mut later = statement(cheater, true, account(place, false, 1));
    later.item.sum.slot += 1;
    let net = says(&|_| vec![later.clone()]);
    assert!(only_the_cheater(&net, cheater, "another view").is_empty() && !net.blamed.is_empty());
    let net = says(&|_| vec![statement(cheater, true, account(place, false, 1)); 11]);
    assert!(only_the_cheater(&net, cheater, "too many").is_empty() && !net.blamed.is_empty());
}

#[test]
fn statements_of_another_view_author_or_trio_and_none_at_all_are_blamed() {
    let (cheater, victim, (place, round)) = (Peer(0), Peer(1), checked());
    let item = statement(cheater, true, account(place, false, 1)).item;
    let given = |author: Peer, item: Statement| {
        let signed = Signed::new(&context(author.0), item);
        with_statements(cheater, round, |to| if to == victim { vec![signed.clone()] } else { Vec::new() })
    };
    let blames = |net: &Net| net.blamed.iter().any(|(by, peer, _)| (*by, *peer) == (victim, cheater));
    let net = given(cheater, Statement { sum: SumId { slot: 9, ..item.sum }, ..item.clone() });
    assert!(only_the_cheater(&net, cheater, "another view").is_empty() && blames(&net));
    let net = given(Peer(2), item.clone());
    assert!(only_the_cheater(&net, cheater, "an author that does not compute").is_empty() && blames(&net));
    let net = given(cheater, Statement { parties: [3, 1, 4].map(Peer), ..item });
    assert!(only_the_cheater(&net, cheater, "other parties").is_empty() && blames(&net));
    let mut net = Net::computing();
    net.run(|from, to, body, data| {
        if (from, to) == (cheater, victim) && matches!(body, Body::Part { what: What::Round(30), .. }) {
            *body = Body::Statements(Vec::new());
            data.clear();
        }
    });
    assert!(blames(&net), "no statement");
}

#[test]
fn what_a_party_tells_one_other_alone_reaches_every_peer() {
    let (cheater, victim, (place, round)) = (Peer(0), Peer(1), checked());
    let by = |net: &Net| net.named.iter().map(|(by, ..)| *by).collect::<BTreeSet<Peer>>();
    // It answers one party alone.
    let (mut net, mut done) = (Net::computing(), false);
    for peer in (0..5).map(Peer) {
        net.give(peer, Input::Start);
    }
    let mut stated = BTreeSet::new();
    net.deliver(|from, to, body, data| {
        match body {
            Body::Statements(_) => drop(stated.insert(from)),
            Body::Part { .. } => assert!(!stated.contains(&from), "{from} computes on after its statement"),
            _ => {}
        }
        let late = matches!(body, Body::Part { what: What::Round(30..), .. }) && !data.is_empty();
        if from == cheater && late && !std::mem::replace(&mut done, true) {
            data[0] ^= 1;
        }
        from != cheater || to == victim || !matches!(body, Body::Statements(_))
    });
    assert!((1..5).map(Peer).all(|peer| by(&net).contains(&peer)), "an answer: {:?}", by(&net));
    // It contradicts itself to one party alone.
    let both = || [1, 2].map(|told| statement(cheater, true, account(place, false, told))).to_vec();
    let net = with_statements(cheater, round, |to| if to == victim { both() } else { Vec::new() });
    assert!((1..5).map(Peer).all(|peer| by(&net).contains(&peer)), "a contradiction: {:?}", by(&net));
}

#[test]
fn a_party_that_does_not_answer_is_given_up_and_nobody_else_is() {
    for cheater in PARTIES {
        let (mut net, mut done) = (Net::computing(), false);
        for peer in (0..5).map(Peer) {
            net.give(peer, Input::Start);
        }
        net.deliver(|from, _, body, data| {
            if from == cheater && matches!(body, Body::Part { what: What::Round(40), .. }) && !data.is_empty()
            {
                data[0] ^= 1;
                done = true;
            }
            from != cheater || !matches!(body, Body::Statements(_))
        });
        assert!(done);
        wait(&mut net, cheater);
        let all = only_the_cheater(&net, cheater, "silent");
        let honest: Vec<Peer> = PARTIES.into_iter().filter(|peer| *peer != cheater).collect();
        assert!(all.is_empty() && honest.iter().all(|&peer| net.suspects.contains(&(peer, cheater))));
    }
}

#[test]
fn signs_of_life_do_not_replace_an_answer() {
    let (cheater, mut net, mut done) = (Peer(0), Net::computing(), false);
    let honest = || PARTIES.into_iter().filter(|peer| *peer != cheater);
    for peer in (0..5).map(Peer) {
        net.give(peer, Input::Start);
    }
    net.deliver(|from, _, body, data| {
        let late = matches!(body, Body::Part { what: What::Round(40..), .. }) && !data.is_empty();
        if from == cheater && late && !std::mem::replace(&mut done, true) {
            data[0] ^= 1;
        }
        from != cheater || !matches!(body, Body::Statements(_))
    });
    for second in 1..=20 {
        net.now = Time(1).plus_ms(1000 * second);
        for peer in honest() {
            net.queue.push_back((cheater, peer, content(&Body::KeepAlive, Bytes::new())));
        }
        honest().for_each(|peer| net.give(peer, Input::Timer(0)));
        net.deliver(|from, _, body, _| from != cheater || matches!(body, Body::KeepAlive));
    }
    assert!(only_the_cheater(&net, cheater, "alive").is_empty());
    assert!(honest().any(|peer| net.suspects.contains(&(peer, cheater))), "{:?}", net.suspects);
}

#[test]
fn a_computation_that_takes_too_long_names_nobody() {
    let mut net = Net::computing();
    for peer in (0..5).map(Peer) {
        net.give(peer, Input::Start);
    }
    // Two members' messages of one round arrive only one second before the time limit.
    let late =
        |from: Peer, body: &Body| from != Peer(0) && matches!(body, Body::Part { what: What::Round(30), .. });
    let mut kept = Vec::new();
    while let Some((from, to, message)) = net.queue.pop_front() {
        let (body, _) = read(message.clone()).expect("said by machines");
        match late(from, &body) {
            true => kept.push((from, to, message)),
            false => net.give(to, Input::Message { from, message }),
        }
    }
    net.now = Time(1).plus_ms(59_000);
    // One of these messages is still in transit when the time is over.
    let (from, to, message) = kept.pop().expect("a message of the round");
    kept.into_iter().for_each(|(from, to, message)| net.give(to, Input::Message { from, message }));
    net.now = Time(1).plus_ms(60_000);
    PARTIES.iter().for_each(|&peer| net.give(peer, Input::Timer(0)));
    net.give(to, Input::Message { from, message });
    net.deliver(|_, _, _, _| true);
    assert!(net.named.is_empty(), "{:?}", net.named);
    assert!(!net.suspects.is_empty());
}

#[test]
fn a_party_that_keeps_its_rounds_from_one_other_is_in_the_named_pair() {
    for cheater in PARTIES {
        for victim in PARTIES.into_iter().filter(|peer| *peer != cheater) {
            let mut net = Net::computing();
            for peer in (0..5).map(Peer) {
                net.give(peer, Input::Start);
            }
            let keeps = |from: Peer, to: Peer, body: &Body| {
                (from, to) == (cheater, victim) && matches!(body, Body::Part { what: What::Round(30..), .. })
            };
            net.deliver(|from, to, body, _| !keeps(from, to, body));
            // The cheater sends the victim only signs of life. To the others it follows the rules.
            for second in 1..=20 {
                net.now = Time(1).plus_ms(1000 * second);
                net.queue.push_back((cheater, victim, content(&Body::KeepAlive, Bytes::new())));
                PARTIES.iter().for_each(|&peer| net.give(peer, Input::Timer(0)));
                net.deliver(|from, to, body, _| !keeps(from, to, body));
            }
            let all = only_the_cheater(&net, cheater, &format!("{cheater} keeps from {victim}"));
            let pair = all.first().expect("a pair").clone();
            assert_eq!(BTreeSet::from_iter(pair), [cheater, victim].into());
            assert!(net.suspects.contains(&(victim, cheater)), "{:?}", net.suspects);
        }
    }
}

#[test]
fn evidence_that_is_not_complete_or_not_of_one_view_names_nobody() {
    let at = |author: u16, begins: bool, accepts: bool| {
        statement(Peer(author), begins, account(Place { chunk: 7, number: 0 }, accepts, 1))
    };
    let (ctx, all) = (context(2), [at(3, true, false), at(1, false, true), at(0, false, true)]);
    // Computing member 0 (peer 3) refuses the check, although all accounts agree on the messages that it got.
    // So peer 3 or peer 0 deviates.
    assert_eq!(named(&ctx, &all), Some(vec![Peer(3), Peer(0)]));
    assert_eq!(named(&ctx, &all[..2]), None, "one party has not spoken");
    assert_eq!(named(&ctx, &[]), None);
    let none = [at(3, false, false), all[1].clone(), all[2].clone()];
    assert_eq!(named(&ctx, &none), None, "no party has begun");
    let fine = [at(3, true, true), all[1].clone(), all[2].clone()];
    assert_eq!(named(&ctx, &fine), Some(vec![Peer(3)]), "nothing fails there");
    let mut forged = all.clone();
    forged[1].author = Peer(0);
    assert_eq!(named(&ctx, &forged), None, "a wrong signature");
    let mut view = all.clone();
    let item = Statement { sum: SumId { slot: 9, ..view[1].item.sum }, ..view[1].item.clone() };
    view[1] = Signed::new(&context(1), item);
    assert_eq!(named(&ctx, &view), None, "two views");
    let stranger = [
        all[0].clone(),
        all[1].clone(),
        statement(Peer(2), false, account(Place { chunk: 7, number: 0 }, true, 1)),
    ];
    assert_eq!(named(&ctx, &stranger), None, "an author that does not compute");
    let place = [
        all[0].clone(),
        all[1].clone(),
        statement(Peer(0), false, account(Place { chunk: 8, number: 0 }, true, 1)),
    ];
    assert_eq!(named(&ctx, &place), None, "two places");
    assert_eq!(named(&ctx, &[all[0].clone(), at(3, true, true)]), Some(vec![Peer(3)]));
    let mut changed = all.clone();
    changed[1].item.topic = account(Place { chunk: 7, number: 0 }, true, 2);
    assert_eq!(named(&ctx, &changed), None, "not what its author has signed");
    let many: Vec<_> = all.iter().cycle().take(12).cloned().collect();
    assert_eq!(named(&ctx, &many), None, "too many");
    let strange = |accepts| statement(Peer(2), false, account(Place { chunk: 7, number: 0 }, accepts, 1));
    assert_eq!(named(&ctx, &[strange(true), strange(false)]), None, "another peer that contradicts itself");
    assert_eq!(contradiction(&all[0], &at(3, true, true)), Some(Peer(3)));
    assert_eq!(contradiction(&all[0], &view[1]), None);
    let mut later = at(3, false, true);
    later.item.sum.slot += 1;
    assert_eq!(contradiction(&at(3, false, false), &later), None, "statements of two views");
}
