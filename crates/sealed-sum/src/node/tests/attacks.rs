//! Attacks by one deviating peer that were successful in the past. They must not harm the other peers,
//! and the culprit must be named if it has left proof.

mod alone;
pub(super) mod bounds;
pub(super) mod boxes;
mod checks;
mod elections;
mod ends;
mod graph;
mod hostile;
mod hostile2;
mod items;
mod leaders;
mod loads;
mod marks;
mod messages;
mod proofs;
mod rounds;
mod slots;
mod trees;

use super::network::Network;
use crate::protocol::ballot::Ballot;
use crate::session::Peer;

/// Checks that the honest peers have finished.
fn honest_finish(net: &Network, what: &str) {
    let finished = net.finished();
    for peer in net.peers().filter(|peer| !net.liars.contains(peer)) {
        let told = || format!("{what}: {peer} does not finish: {:?} {:?}", net.endings(), net.blames);
        assert!(finished.contains_key(&peer), "{}", told());
    }
}

/// Returns the peers of a view in tree order: the leader, its two children, their children.
fn tree_of(net: &Network, ballot: Ballot) -> Vec<Peer> {
    net.tree_of(ballot).order().to_vec()
}

/// Returns the leader of the first view.
fn leader(net: &Network) -> Peer {
    net.committee()[0]
}

/// Returns all peers except these.
fn without(net: &Network, not: &[Peer]) -> Vec<Peer> {
    net.peers().filter(|peer| !not.contains(peer)).collect()
}
