//! Tests the exchanges of owners in pairs: the partners, the results, and attacks of one owner on the other.

use std::collections::{BTreeMap, BTreeSet};

use super::super::computation::Labels;
use super::super::compute::Setup;
use super::super::deliver;
use super::super::talk::{Body, PART, What, content, read};
use super::super::tests::{CLASSES, Net, computed, expected, labels, owners, plan, rows, setup};
use super::*;
use crate::protocol::Input;
use crate::tasks::xclp::shares::input::{Announced, unpack_distances};
use crate::tasks::xclp::shares::output::unseal;

const WAYS: [Hamming; 2] = [Hamming::Ot, Hamming::Phe];

fn pairing(me: u16, counter: u64, hamming: Hamming) -> Setup {
    let mut setup = setup(me, counter, Default::default());
    labels(&mut setup).hamming = hamming;
    setup
}

fn net(counter: u64, hamming: Hamming) -> Net {
    Net::of((0u16..5).map(|me| pairing(me, counter, hamming)))
}

#[test]
fn every_two_owners_meet_once_and_nobody_has_two_partners_in_a_round() {
    for owners in 2..=64 {
        let mut met = BTreeSet::new();
        for round in 0..rounds(owners) {
            for place in 0..owners {
                let Some(other) = partner(owners, round, place) else { continue };
                assert_eq!(partner(owners, round, other), Some(place), "{owners} owners, round {round}");
                assert!(place != other);
                if place < other {
                    assert!(met.insert((place, other)), "{place} and {other} meet twice");
                }
            }
        }
        assert_eq!(met.len(), owners * (owners - 1) / 2, "{owners} owners");
    }
}

#[test]
fn distances_made_by_pairs_give_the_same_answers_and_as_many_bytes_pass_as_is_said() {
    for hamming in WAYS {
        let (mut net, mut passed) = (net(1, hamming), BTreeMap::<(Peer, Peer), u64>::new());
        net.run(|from, to, body, data| {
            if matches!(body, Body::Part { what: What::Pair(_), .. }) {
                *passed.entry((from.min(to), from.max(to))).or_default() += data.len() as u64;
            }
        });
        assert_eq!((net.results.len(), &net.blamed, net.failed.len()), (5, &vec![], 0), "{hamming}");
        let said: BTreeMap<_, _> = [(0, 2, 7, 6), (0, 3, 7, 9), (2, 3, 6, 9)]
            .map(|(one, two, n, m)| ((Peer(one), Peer(two)), hamming.bytes(n, m, 64)))
            .into();
        assert_eq!(passed, said, "{hamming}");
        let (parties, expected, mut start) = (computed(&net), expected(), 0);
        for (owner, rows) in owners() {
            let part = |party: u8| parties[&party].1.for_owner(party.into(), start..start + rows);
            let answer = unseal(rows, CLASSES, &part(0), &part(1)).expect("an answer");
            assert_eq!(answer.labels, expected.labels[start..start + rows], "{hamming}, {owner}");
            assert_eq!(answer.coarse, expected.coarse[start * CLASSES..(start + rows) * CLASSES]);
            let kept = deliver::to_bytes(&answer, true, CLASSES);
            assert!(deliver::Delivered::from_bytes(&kept, CLASSES).is_some());
            start += rows;
        }
    }
}

/// Puts the shares of each owner's parts together, which two computing members hold. Returns the matrix of
/// each owner.
fn parts(counter: u64, hamming: Hamming) -> BTreeMap<Peer, Vec<u16>> {
    let (mut net, mut parcels) = (net(counter, hamming), BTreeMap::new());
    net.run(|from, to, body, data| {
        if matches!(body, Body::Part { what: What::Input, .. }) {
            parcels.insert((to, from), data.clone());
        }
    });
    let trio: Vec<Peer> = computed(&net).values().map(|(peer, _)| *peer).collect();
    let points = plan().points();
    let mut found = BTreeMap::new();
    for (owner, rows) in owners() {
        // An owner that computes does not send its own parcel. The other two computing members together have
        // all its shares.
        let held = |number: usize| {
            let parcel = parcels.get(&(trio[number], owner))?;
            let said = Announced::default();
            let inputs = unpack_distances(parcel, number, &said, rows, points, CLASSES);
            Some(inputs.expect("a parcel").distances)
        };
        let sum = |one: Shared<u16>, two: &[u16]| -> Vec<u16> {
            let both = one.own.iter().zip(&one.next).zip(two);
            both.map(|((a, b), c)| a.wrapping_add(*b).wrapping_add(*c)).collect()
        };
        let whole = (0..3).find_map(|number| Some(sum(held(number)?, &held((number + 1) % 3)?.next)));
        found.insert(owner, whole.expect("two have all"));
    }
    found
}

type Shared<T> = flyswarm_mpc::shares::Shared<T>;

#[test]
fn two_computing_parties_see_distances_and_uniform_parts_of_them_and_nothing_of_single_codes() {
    for hamming in WAYS {
        let code = |peer: u16| {
            let rows = rows(peer);
            Codes::of(&rows.data, &rows.planes, 64).expect("codes")
        };
        let views: Vec<_> = (1..=16).map(|counter| parts(counter, hamming)).collect();
        // Owners 0 and 3 have the places 0 and 13 of 22.
        let (one, two) = (code(0), code(3));
        let distances = one.distances(&two);
        let mut odd = vec![0; distances.len()];
        for view in &views {
            for (at, distance) in distances.iter().enumerate() {
                let (row, column) = (at / two.rows(), at % two.rows());
                let (mine, theirs) =
                    (view[&Peer(0)][row * 22 + 13 + column], view[&Peer(3)][column * 22 + row]);
                assert_eq!(mine.wrapping_add(theirs), *distance, "{hamming}");
                odd[at] += mine & 1;
            }
            let own = view[&Peer(0)].chunks(22).flat_map(|row| &row[..7]).copied();
            assert!(
                own.eq(one.distances(&one)),
                "{hamming}: the distances within an owner's rows are not shared"
            );
        }
        // Without the mask, a share made by encryption would have the parity of its code in every view.
        assert!(odd.iter().all(|odd| (1..16).contains(odd)), "{hamming}: {odd:?}");
        // Shares are fresh in every view: no row of one view is a row of another.
        let row = |view: &BTreeMap<Peer, Vec<u16>>| view[&Peer(0)][13..22].to_vec();
        assert_eq!(views.iter().map(row).collect::<BTreeSet<_>>().len(), views.len());
    }
}

#[test]
fn no_vector_of_a_view_between_two_owners_is_one_of_another_view() {
    for hamming in WAYS {
        let vectors = |counter| {
            let mut all = BTreeSet::new();
            net(counter, hamming).run(|_, _, body, data| {
                if matches!(body, Body::Part { what: What::Pair(_), .. }) && data.len() >= 32 {
                    all.extend(data.chunks_exact(32).map(<[u8]>::to_vec));
                }
            });
            all
        };
        let (one, two) = (vectors(1), vectors(2));
        assert!(
            one.len() > 50 && one.is_disjoint(&two),
            "{hamming}: shares are fresh also with the same seed"
        );
    }
}

#[test]
fn an_owner_that_deviates_from_its_part_of_a_pair_is_blamed_by_the_other_and_nobody_computes() {
    type Change = fn(&mut Body, &mut Vec<u8>);
    let number = |body: &Body| match body {
        Body::Part { what: What::Pair(number), .. } => Some(*number),
        _ => None,
    };
    let longer: Change = |_, data| data.push(0);
    let nonsense: Change = |_, data| data.fill(0xff);
    let later: Change = |body, _| {
        if let Body::Part { what: What::Pair(number), .. } = body {
            *number += 1;
        }
    };
    let shorter: Change = |_, data| data.truncate(data.len() - 1);
    // Each case has the number and the smallest length of the vector that is changed. Vector 0 comes from the
    // owner that sends first.
    let cases: [(Hamming, &str, u32, usize, Change); 13] = [
        (Hamming::Ot, "no point", 0, 32, nonsense),
        (Hamming::Ot, "no points of choices", 0, 4096, nonsense),
        (Hamming::Ot, "a long first word", 0, 32, longer),
        (Hamming::Ot, "short choices", 0, 4096, shorter),
        (Hamming::Ot, "short columns or strings", 1, 1, shorter),
        (Hamming::Ot, "another number", 1, 1, later),
        (Hamming::Ot, "the first word's number", 0, 32, later),
        (Hamming::Phe, "no key", 0, 1000, nonsense),
        (Hamming::Phe, "no ciphertext", 1, 51_200, nonsense),
        (Hamming::Phe, "no answer", 1, 100_000, nonsense),
        (Hamming::Phe, "a first word that is not empty", 0, 0, longer),
        (Hamming::Phe, "short ciphertexts", 1, 51_200, shorter),
        (Hamming::Phe, "another number", 1, 1, later),
    ];
    for (hamming, name, which, least, change) in cases {
        let (mut net, mut by) = (net(1, hamming), None);
        for peer in (0..5).map(Peer) {
            net.give(peer, Input::Start);
        }
        while let Some((from, to, message)) = net.queue.pop_front() {
            let (mut body, data) = read(message).expect("said by machines");
            let mut data = data.to_vec();
            if by.is_none() && number(&body) == Some(which) && data.len() >= least {
                change(&mut body, &mut data);
                by = Some(from);
            }
            net.give(to, Input::Message { from, message: content(&body, data.into()) });
        }
        let blamed: BTreeSet<Peer> = net.blamed.iter().map(|(_, peer, _)| *peer).collect();
        assert_eq!(blamed, by.into_iter().collect(), "{hamming}, {name}: {:?}", net.blamed);
        assert!(computed(&net).is_empty(), "{hamming}, {name}");
    }
}

#[test]
fn a_vector_of_a_pair_from_a_peer_that_has_none_is_blamed_on_it() {
    let say = |hamming, from: u16, to: u16, number| {
        let mut net = match hamming {
            Hamming::Replicated => Net::computing(),
            _ => net(1, hamming),
        };
        let body = Body::Part { what: What::Pair(number), last: true };
        net.give(Peer(to), Input::Start);
        net.give(Peer(to), Input::Message { from: Peer(from), message: content(&body, Default::default()) });
        net.blamed.iter().map(|(by, peer, _)| (by.0, peer.0)).collect::<Vec<_>>()
    };
    assert_eq!(say(Hamming::Replicated, 2, 0, 0), [(0, 2)], "no pairs in this session");
    assert_eq!(say(Hamming::Phe, 4, 0, 0), [(0, 4)], "a peer without rows");
    assert_eq!(say(Hamming::Phe, 2, 1, 0), [(1, 2)], "to a peer without rows");
    // Peer 2 has six rows and holds the key, peer 0 has seven rows and is the evaluator. Peer 0 sends first,
    // and only this vector may come early.
    assert_eq!(say(Hamming::Phe, 0, 2, 0), []);
    assert_eq!(say(Hamming::Phe, 0, 2, 1), [(2, 0)]);
    assert_eq!(say(Hamming::Phe, 2, 0, 0), [(0, 2)], "the evaluator's empty vector has not come");
    // The first vector of peer 0 comes twice, before this owner's codes are ready.
    let mut pairs = Pairs::new(&pairing(2, 1, Hamming::Phe)).expect("an owner");
    assert_eq!(pairs.part(Peer(0), 0, &[], true), Ok(()));
    assert_eq!(pairs.part(Peer(0), 0, &[], true), Err(EARLY));
}

#[test]
fn who_floods_a_partner_with_vectors_that_it_has_not_answered_is_refused() {
    let owners = vec![(Peer(0), 20), (Peer(1), 30)];
    let data = crate::data::Dataset::new(5, vec![1.0; 30 * 5], Vec::new(), Vec::new()).expect("rows");
    let with_rows = super::super::compute::Rows { data: Arc::new(data), ..rows(0) };
    let mut setup = Setup { owners, ..pairing(1, 1, Hamming::Ot) };
    labels(&mut setup).rows = Some(with_rows);
    let mut pairs = Pairs::new(&setup).expect("an owner");
    pairs.begin(Arc::new(Codes::from_words(64, vec![7; 30]).expect("codes"))).expect("nothing came");
    let base = flyswarm_mpc::ot::base::Sender::new(&[1; 32], &[2; 32]).message();
    pairs.part(Peer(0), 0, &base, true).expect("the first word");
    let (_, step) = pairs.step().expect("choices are made");
    let sent = pairs.stepped(step()).expect("a point").expect("choices");
    assert_eq!((sent.0, sent.1, sent.2.len()), (Peer(0), 0, 4096));
    let columns = |pairs: &mut Pairs, number| pairs.part(Peer(0), number, &[0; 1024], true);
    for number in 1..=MOST as u32 {
        columns(&mut pairs, number).expect("they wait");
    }
    assert!(columns(&mut pairs, 1 + MOST as u32).is_err());
    // While two vectors wait, the partner gets no credits.
    assert_eq!(pairs.credits(), None);
}

#[test]
fn no_pair_begins_before_all_owners_have_committed() {
    for hamming in WAYS {
        let (mut net, mut kept) = (net(1, hamming), 0);
        for peer in (0..5).map(Peer) {
            net.give(peer, Input::Start);
        }
        // Owner 2 does not send its commitment.
        while let Some((from, to, message)) = net.queue.pop_front() {
            let (body, _) = super::super::talk::read(message.clone()).expect("said by machines");
            match body {
                Body::Commitment(_) if from == Peer(2) => kept += 1,
                Body::Part { .. } if from != Peer(2) => panic!("{from} sends {to} {body:?}"),
                _ => net.give(to, Input::Message { from, message }),
            }
        }
        assert_eq!(kept, 4, "{hamming}");
    }
}

#[test]
fn who_takes_nothing_and_asks_for_more_is_refused_so_that_little_is_held_for_it() {
    let owners = vec![(Peer(0), 20), (Peer(1), 100)];
    let values = (0..500).map(|i| (i * 7919 % 211) as f32 - 105.0).collect();
    let data = crate::data::Dataset::new(5, values, Vec::new(), Vec::new()).expect("rows");
    let unknown = Arc::new(vec![None; 100]);
    let with_rows = super::super::compute::Rows { data: Arc::new(data), labels: unknown, ..rows(0) };
    let settings = flyswarm_mpc::propagation::integer::Settings { bits: 4096, ..*plan().settings() };
    let plan = flyswarm_mpc::propagation::integer::Plan::new(120, CLASSES, settings).expect("fits");
    let mut setup = Setup { owners, ..pairing(1, 1, Hamming::Ot) };
    let rows = Some(with_rows);
    *labels(&mut setup) = Labels { plan, rows, ..labels(&mut setup).clone() };
    let mut net = Net::of([setup]);
    let say = |net: &mut Net, from: u16, body: &Body, data: Vec<u8>| {
        net.give(Peer(1), Input::Message { from: Peer(from), message: content(body, data.into()) });
    };
    net.give(Peer(1), Input::Start);
    say(&mut net, 0, &Body::Commitment([1; 32]), Vec::new());
    let part = |number| Body::Part { what: What::Pair(number), last: true };
    let base = flyswarm_mpc::ot::base::Sender::new(&[1; 32], &[2; 32]).message();
    say(&mut net, 0, &part(0), base.to_vec());
    // Owner 2 gives no credits. The strings of a piece have four parts. The last two parts of the third piece
    // are not sent.
    let mut pieces = 0;
    while net.blamed.is_empty() && pieces < 20 {
        pieces += 1;
        say(&mut net, 0, &part(pieces), vec![0; 65_536]);
    }
    assert_eq!(pieces, 3 + MOST as u32 + 1, "three pieces are answered, the others wait: {:?}", net.blamed);
    assert_eq!(net.blamed[0].1, Peer(0));
}

#[test]
fn an_answer_to_what_was_not_sent_is_blamed() {
    let smaller = |hamming| {
        let owners = vec![(Peer(0), 20), (Peer(1), 30)];
        let mut pairs = Pairs::new(&Setup { owners, ..pairing(0, 1, hamming) }).expect("an owner");
        pairs.begin(Arc::new(Codes::from_words(64, vec![7; 20]).expect("codes"))).expect("nothing came");
        pairs
    };
    let step = |pairs: &mut Pairs| {
        let (_, step) = pairs.step().expect("a step");
        pairs.stepped(step())
    };
    // Strings come for columns that were not sent.
    let mut pairs = smaller(Hamming::Ot);
    let (.., base) = step(&mut pairs).expect("a vector").expect("the first word");
    let base = base.try_into().expect("32 bytes");
    let context = hamming::ot::context(&[9; 32], pairs.sum.ballot, Peer(0), Peer(1));
    let (choices, _) = flyswarm_mpc::ot::base::choose(&context, &base, 5, &[2; 32]).expect("a point");
    pairs.part(Peer(1), 0, &choices, true).expect("choices");
    assert_eq!(step(&mut pairs), Ok(None));
    pairs.part(Peer(1), 1, &[0; 3840], true).expect("as long as strings");
    assert!(matches!(step(&mut pairs), Err((Peer(1), Fault::OutOfOrder(_)))));
    // Answers come to ciphertexts that were not sent.
    let mut pairs = smaller(Hamming::Phe);
    pairs.part(Peer(1), 0, &[], true).expect("the first word");
    assert_eq!(step(&mut pairs), Ok(None));
    assert_eq!(step(&mut pairs).expect("a vector").expect("the key").2.len(), 51_232);
    for (bytes, last) in [(PART, false), (PART, false), (30 * (25_600 + 125) - 2 * PART, true)] {
        pairs.part(Peer(1), 1, &vec![0; bytes], last).expect("as long as answers");
    }
    assert!(matches!(step(&mut pairs), Err((Peer(1), Fault::OutOfOrder(_)))));
}
