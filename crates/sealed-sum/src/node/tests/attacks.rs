//! Attacks by one deviating peer, each of which once worked: the rest must not be harmed by them, and where
//! the culprit has left proof it is named.

mod alone;
mod bounds;
mod checks;
mod elections;
mod graph;
mod hostile;
mod hostile2;
mod items;
mod leaders;
mod loads;
mod messages;
mod proofs;
mod rounds;
mod slots;
mod trees;

use super::network::Network;
use crate::protocol::ballot::Ballot;
use crate::session::Peer;

/// The honest peers have finished, with the same result.
fn honest_finish(net: &Network, what: &str) {
    let finished = net.finished();
    for peer in net.peers().filter(|peer| !net.liars.contains(peer)) {
        let told = || format!("{what}: {peer} does not finish: {:?} {:?}", net.endings(), net.blames);
        assert!(finished.contains_key(&peer), "{}", told());
    }
}

/// The peers of a view in tree order: the leader, its two children, their children.
fn tree_of(net: &Network, ballot: Ballot) -> Vec<Peer> {
    net.tree_of(ballot).order().to_vec()
}

/// Who leads the first view.
fn leader(net: &Network) -> Peer {
    net.committee()[0]
}

/// The peers but these.
fn without(net: &Network, not: &[Peer]) -> Vec<Peer> {
    net.peers().filter(|peer| !not.contains(peer)).collect()
}
