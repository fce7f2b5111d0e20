//! Whoever says what it may not is blamed, by name.

use super::*;

#[test]
fn wrong_shapes_ranges_and_commitments_are_blamed_by_name() {
    type Alter = fn(&Roles, Peer, Body) -> Body;
    let cases: [(&str, Hamming, Alter, &str); 17] = [
        (
            "a part that was not committed to",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Reveal(_) if from == Peer(1) => Body::Reveal([3; 32]),
                other => other,
            },
            "does not match its commitment",
        ),
        (
            "strings of another length",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Strings(piece), length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Strings(piece), length: length - 2, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "choices that are no points",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Choices, length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Choices, length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "no points of the group",
        ),
        (
            "a base that is no point",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Base, length, .. } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Base, length, data: vec![0; 32].into() }
                }
                other => other,
            },
            "no points of the group",
        ),
        (
            "columns of a piece that there is not",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Columns(_), length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Columns(20), length, data }
                }
                other => other,
            },
            "parcel",
        ),
        (
            "a key with coefficients out of range",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Key, length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Key, length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "a key with coefficients out of range",
        ),
        (
            "a ciphertext with coefficients out of range",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Ciphertext(0), length, data } if from == Peer(1) => {
                    Body::Part {
                        what: ParcelKind::Ciphertext(0),
                        length,
                        data: vec![0xff; data.len()].into(),
                    }
                }
                other => other,
            },
            "a ciphertext with coefficients out of range",
        ),
        (
            "an answer with coefficients out of range",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Answer(3), length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Answer(3), length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "an answer with coefficients out of range",
        ),
        (
            "an answer of another length",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Answer(3), length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Answer(3), length: length + 1, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "hidden codes of another length",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Hidden, length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Hidden, length: length + 2, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "smallest distances that are not sorted",
            Hamming::Dealer,
            |roles, from, message| match message {
                Body::Part { what: ParcelKind::Smallest, length, data }
                    if from == roles.custodian(Peer(0), Peer(1)) =>
                {
                    let mut data = data.to_vec();
                    data[..2].copy_from_slice(&300u16.to_le_bytes());
                    Body::Part { what: ParcelKind::Smallest, length, data: data.into() }
                }
                other => other,
            },
            "smallest distances",
        ),
        (
            "a limit of more than half the bits",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Limits, length, data } if from == Peer(1) => {
                    let mut data = data.to_vec();
                    data[..2].copy_from_slice(&300u16.to_le_bytes());
                    Body::Part { what: ParcelKind::Limits, length, data: data.into() }
                }
                other => other,
            },
            "half the bits",
        ),
        (
            "an edge out of range",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Short(owner), length, data }
                    if from == owner && owner == Peer(1) =>
                {
                    let mut data = data.to_vec();
                    data[2..6].copy_from_slice(&5000u32.to_le_bytes());
                    Body::Part { what: ParcelKind::Short(owner), length, data: data.into() }
                }
                other => other,
            },
            "out of range",
        ),
        (
            "labels that are too large",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Labels, length, data } if from == Peer(1) => {
                    let mut data = data.to_vec();
                    data[15] = 0x7f;
                    Body::Part { what: ParcelKind::Labels, length, data: data.into() }
                }
                other => other,
            },
            "too large",
        ),
        (
            "a share of another length",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Share(owner, other), length, data } if from == Peer(1) => {
                    Body::Part { what: ParcelKind::Share(owner, other), length: length + 2, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "edges that are not in order",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: ParcelKind::Short(owner), length, data }
                    if from == owner && owner == Peer(1) =>
                {
                    let data = [&data[12..24], &data[..12], &data[24..]].concat();
                    Body::Part { what: ParcelKind::Short(owner), length, data: data.into() }
                }
                other => other,
            },
            "not in order",
        ),
        (
            "scores of another length",
            Hamming::Dealer,
            |roles, from, message| match message {
                Body::Part { what: ParcelKind::Scores, length, data } if from == roles.propagators[0] => {
                    Body::Part { what: ParcelKind::Scores, length: length - 16, data }
                }
                other => other,
            },
            "expected",
        ),
    ];
    for (what, hamming, alter, text) in cases {
        let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, hamming);
        let roles = net.roles.clone();
        net.run(&mut |from, _, message| Some(alter(&roles, from, message)));
        let culprit = match what {
            "smallest distances that are not sorted" => roles.custodian(Peer(0), Peer(1)),
            "scores of another length" => roles.propagators[0],
            _ => Peer(1),
        };
        assert!(!net.blamed.is_empty(), "{what}");
        for (by, who, fault) in &net.blamed {
            assert!(
                *who == culprit && fault.to_string().contains(text),
                "{what}: {by} blames {who}: {fault}"
            );
        }
        assert!(net.failed.iter().all(|(_, reason, _)| *reason == Reason::Fault), "{what}: {:?}", net.failed);
    }
}

#[test]
fn shares_that_make_no_distances_and_different_graphs_end_the_view_and_name_nobody() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    net.run(&mut |from, _, message| {
        Some(match message {
            Body::Part { what, length, data }
                if what == ParcelKind::Share(Peer(0), Peer(1)) && from == Peer(0) =>
            {
                let mut data = data.to_vec();
                data[1] ^= 0x40;
                Body::Part { what, length, data: data.into() }
            }
            other => other,
        })
    });
    assert!(
        net.blamed.is_empty() && net.failed.iter().any(|failed| failed.1 == Reason::Disagreement),
        "{:?}",
        net.failed
    );
    // One propagator is told another distance than the other.
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    let one = net.roles.propagators[0];
    net.run(&mut |_, to, message| {
        Some(match message {
            Body::Part { what: ParcelKind::Short(owner), length, data } if to == one => {
                let mut data = data.to_vec();
                data[10] ^= 1;
                Body::Part { what: ParcelKind::Short(owner), length, data: data.into() }
            }
            other => other,
        })
    });
    assert!(
        net.blamed.is_empty()
            && net.failed.iter().all(|failed| failed.1 == Reason::Disagreement && failed.2.is_none())
    );
    assert_eq!(net.failed.len(), 2);
}

#[test]
fn nonsense_from_any_role_is_blamed_and_not_believed() {
    let whats = [
        ParcelKind::Triple(Peer(0)),
        ParcelKind::Triple(Peer(99)),
        ParcelKind::Dealt(Peer(0)),
        ParcelKind::Hidden,
        ParcelKind::Base,
        ParcelKind::Choices,
        ParcelKind::Columns(0),
        ParcelKind::Columns(u32::MAX),
        ParcelKind::Strings(0),
        ParcelKind::Key,
        ParcelKind::Ciphertext(0),
        ParcelKind::Ciphertext(u32::MAX),
        ParcelKind::Answer(0),
        ParcelKind::Share(Peer(0), Peer(1)),
        ParcelKind::Smallest,
        ParcelKind::Limits,
        ParcelKind::Short(Peer(0)),
        ParcelKind::Edges,
        ParcelKind::Labels,
        ParcelKind::Scores,
    ];
    let messages = whats.map(|what| Body::Part { what, length: u32::MAX, data: Bytes::new() });
    let messages = messages.into_iter().chain([
        Body::Keys(Vec::new()),
        Body::Mask([0; 32]),
        Body::Graph([0; 32]),
        Body::Credit,
        Body::Working,
        Body::Commit([0; 32]),
        Body::Reveal([0; 32]),
        Body::Part { what: ParcelKind::Short(Peer(99)), length: 0, data: Bytes::new() },
    ]);
    for (message, hamming) in messages.flat_map(|message| BACKENDS.map(|hamming| (message.clone(), hamming)))
    {
        for (second, to) in
            [false, true].into_iter().flat_map(|second| (0..6).map(move |peer| (second, Peer(peer))))
        {
            // Every backend makes the same graph.
            if second && hamming != Hamming::Dealer {
                continue;
            }
            for from in (0..6).map(Peer).filter(|&from| from != to) {
                let mut net = Net::new(&[8, 8, 8, 8, 0, 0], RULE, 4, hamming);
                if second {
                    net.stage(&mut pass);
                    net.second(net.sum.ballot, &(0..6).map(Peer).collect::<Vec<_>>());
                }
                net.input(to, Time::default(), Input::Start);
                let under_way = net.queue.iter().any(|(by, at, message)| {
                    (*by, *at) == (to, from) && matches!(message, Body::Part { .. })
                });
                net.say(from, to, message.clone());
                let owners = |peer: Peer| net.roles.rows.contains_key(&peer);
                let fine = match &message {
                    // What its role may say at the start.
                    Body::Commit(_) => !second && owners(from) && owners(to),
                    Body::Mask(_) => second && to == net.roles.propagators[1] && owners(from),
                    Body::Graph(_) => {
                        !second
                            && net.roles.propagators.contains(&to)
                            && net.roles.propagators.contains(&from)
                    }
                    Body::Credit => under_way,
                    Body::Working => true,
                    _ => false,
                };
                let blamed: Vec<_> = net.blamed.iter().map(|(by, who, _)| (*by, *who)).collect();
                let expected = if fine { vec![] } else { vec![(to, from)] };
                assert_eq!(blamed, expected, "{message:?} from {from} to {to}, second stage: {second}");
            }
        }
    }
}

#[test]
fn a_parcel_whose_length_changes_on_the_way_is_blamed() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    let (to, from) = (net.roles.propagators[0], Peer(0));
    net.input(to, Time::default(), Input::Start);
    let part = |length: u32, data: usize| Body::Part {
        what: ParcelKind::Short(from),
        length,
        data: vec![0; data].into(),
    };
    // The longest that it may be has one part here; two need a longer one.
    let most = 12 * 20 * 80;
    assert!(most < PART);
    net.say(from, to, part(most as u32, 12));
    let blamed: Vec<_> = net.blamed.iter().map(|(by, who, _)| (*by, *who)).collect();
    assert_eq!(blamed, [(to, from)], "a first part that is neither whole nor full");
    let mut parcels = super::parcels::Parcels::new(net.sum);
    let mut step = crate::protocol::Step::none();
    let mut take = |length: usize, data: usize| {
        let part = (ParcelKind::Short(from), length as u32, Bytes::from(vec![0; data]));
        parcels.part(from, part, Some(0..=3 * PART), &mut step).map(|whole| whole.map(|data| data.len()))
    };
    assert_eq!(take(2 * PART, PART), Ok(None));
    assert!(take(5, 5).is_err(), "a shorter length than has come already");
    assert!(take(3 * PART, PART).is_err(), "another length");
    assert_eq!(take(2 * PART, PART), Ok(Some(2 * PART)));
    assert!(take(2 * PART, PART).is_err(), "twice");
}
