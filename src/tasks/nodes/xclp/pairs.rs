//! Runs whole sessions in which every two owners make shares of their distances.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::tasks::Hamming;

fn pairwise(hamming: Hamming) -> XclpSpec {
    XclpSpec { hamming, ..spec() }
}

#[test]
fn sessions_whose_distances_are_made_by_pairs_give_what_the_rows_in_one_place_give_bit_for_bit() {
    for hamming in [Hamming::Ot, Hamming::Phe] {
        let cases: [(&[usize], Scaling); 3] = [
            (&[25, 25, 0], Scaling::None),
            (&[1, 14, 12, 2, 0], Scaling::None),
            (&[9, 5, 9, 9, 9, 0], Scaling::Standard),
        ];
        for (seed, (rows, scaling)) in (0..).zip(cases) {
            let mut lab = lab(rows, scaling, seed, pairwise(hamming));
            let pairs = Arc::new(Mutex::new(BTreeSet::new()));
            let met = pairs.clone();
            lab.net.hold = Some(Box::new(move |from, to, message| {
                if let Message::Exchange { content, .. } = message
                    && let Ok((Body::Part { what: What::Pair(_), .. }, _)) = talk::read(content.clone())
                {
                    met.lock().unwrap().insert((from.min(to), from.max(to)));
                }
                false
            }));
            lab.net.run(120_000);
            let owners = rows.iter().filter(|rows| **rows > 0).count();
            assert_eq!(lab.holds().len(), owners, "{hamming}, {rows:?}: {:?}", lab.net.events);
            assert_eq!(pairs.lock().unwrap().len(), owners * (owners - 1) / 2, "every two owners met");
        }
    }
}

#[test]
fn a_peer_killed_between_pairs_is_left_out_or_comes_back_and_the_others_have_their_labels() {
    let places: [Place; 3] = [
        ("first word", |body| matches!(body, Body::Part { what: What::Pair(0), .. })),
        ("ciphertexts or answers", |body| matches!(body, Body::Part { what: What::Pair(1), .. })),
        ("input", |body| part(body, What::Input)),
    ];
    for (seed, (what, sends)) in (20..).zip(places) {
        for hamming in [Hamming::Ot, Hamming::Phe] {
            for back in [false, true] {
                let mut lab = lab(&[12, 12, 12, 12, 12, 0], Scaling::None, seed, pairwise(hamming));
                let victim = if back { lab.kill_for_a_while(sends) } else { lab.kill_for_good(sends) };
                let told = lab.holds();
                let mut others = (0..5).map(Peer).filter(|peer| *peer != victim);
                let case = format!("{hamming}, {what}, {victim}, back: {back}");
                assert!(others.all(|peer| told.contains(&peer)), "{case}: {:?}", lab.net.events);
                let (trio, members) = lab.computed(&histories(&lab.net)[&told[0]]);
                assert!(back || !trio.contains(&victim) && !members.contains(&victim), "{case}");
            }
        }
    }
}
