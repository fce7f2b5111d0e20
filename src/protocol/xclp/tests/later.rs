//! Whoever is lost after the graph is made costs no distances again.

use super::*;

/// The scores of owners in the second stage against the exact solution over the points of all, labels of
/// those who are there.
fn holds_without(net: &Net, gone: &[Peer]) {
    assert!(net.failed.is_empty() && net.blamed.is_empty(), "{:?} {:?}", net.failed, net.blamed);
    let (_, codes) = net.pooled();
    let known = |(peer, rows): (&Peer, &Rows)| {
        rows.labels.iter().map(|&label| label.filter(|_| !gone.contains(peer))).collect::<Vec<_>>()
    };
    let labels: Vec<_> = net.rows.iter().flat_map(known).collect();
    let (exact, counts) = (centralised(&codes, &labels, 10, &RULE), label_counts(&labels, 10));
    let mut first = 0;
    for (peer, rows) in &net.rows {
        let expected = &exact[first * 10..][..rows.data.rows() * 10];
        first += rows.data.rows();
        assert_eq!(net.outcomes.contains_key(peer), !gone.contains(peer));
        let Some(outcome) = net.outcomes.get(peer) else { continue };
        let worst = outcome.scores.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst <= RULE.tolerance && outcome.counts == counts, "{peer}: {worst:e}");
    }
}

#[test]
fn owners_lost_after_the_graph_count_as_unlabelled_and_their_points_stay() {
    let mut net = Net::new(&[30, 50, 20, 40, 60, 0, 0], RULE, 5, Hamming::Dealer);
    net.stage(&mut pass);
    for (counter, gone) in [(2, vec![Peer(1)]), (3, vec![Peer(1), Peer(4)]), (4, vec![])] {
        let here: Vec<_> = (0..7).map(Peer).filter(|peer| !gone.contains(peer)).collect();
        net.second(Ballot { counter, proposer: Peer(0) }, &here);
        net.stage(&mut pass);
        holds_without(&net, &gone);
    }
}

#[test]
fn a_lost_propagator_is_replaced_by_a_witness_that_gets_the_graph_from_the_other() {
    for lost in 0..2 {
        let mut net = Net::new(&[30, 50, 20, 40, 60, 0, 0, 0], RULE, 6, Hamming::Dealer);
        net.stage(&mut pass);
        let gone = net.roles.propagators[lost];
        let spare = net.members().find(|peer| !net.outcomes.contains_key(peer)).unwrap();
        let here: Vec<_> = net.members().filter(|&peer| peer != gone).collect();
        net.second(Ballot { counter: 2, proposer: Peer(0) }, &here);
        net.stage(&mut pass);
        assert!(net.peers[&spare].graph().is_some() && !net.peers.contains_key(&gone));
        holds_without(&net, &[]);
        // Another graph than the one that was decided is blamed on who gives it.
        net.second(Ballot { counter: 3, proposer: Peer(0) }, &here);
        net.stage(&mut |_, _, message| {
            Some(match message {
                Body::Part { what: ParcelKind::Edges, length, data } => {
                    let mut data = data.to_vec();
                    data[40] ^= 1;
                    Body::Part { what: ParcelKind::Edges, length, data: data.into() }
                }
                other => other,
            })
        });
        let [(by, who, fault)] = &net.blamed[..] else { panic!("{:?}", net.blamed) };
        assert_eq!((*by, *who), (spare, net.roles.propagators[1 - lost]));
        assert!(fault.to_string().contains("not the one that was decided"), "{fault}");
    }
}
