//! Secrecy of the messages between peers: every stream masks one vector, and no receiver can read a
//! vector that is sent to it.

use std::collections::{BTreeMap, BTreeSet};

use super::network::{Fault, Name, Network};
use super::numbers::{Numbers, timing};
use crate::crypto::mask::Sign;
use crate::protocol::all_reduce::Direction;
use crate::protocol::tree::Tree;
use crate::session::Peer;

/// Returns `top` and all peers below it.
fn subtree(tree: &Tree, top: Peer) -> Vec<Peer> {
    let mut out = vec![top];
    let mut next = 0;
    while next < out.len() {
        out.extend(tree.place(out[next]).unwrap().children);
        next += 1;
    }
    out
}

/// Checks every chunk that was sent. Returns the number of chunks that went up and down.
fn look(net: &Network) -> (usize, usize) {
    let (mut up, mut down) = (0, 0);
    for (from, to, sum, direction, data) in &net.travelled {
        let tree = net.tree_of(sum.ballot);
        let members = tree.members().to_vec();
        let summed = match direction {
            Direction::Up => {
                up += 1;
                assert_eq!(tree.parent(*from), Some(*to));
                subtree(&tree, *from)
            }
            Direction::Down => {
                down += 1;
                members.clone()
            }
        };
        // Streams that are left on the chunk, and how often each was added.
        let mut left: BTreeMap<Name, i32> = BTreeMap::new();
        for &peer in &summed {
            for mask in net.streams_of(peer, *sum) {
                let sign = if mask.sign == Sign::Add { 1 } else { -1 };
                *left.entry((**mask.key, mask.label, mask.params)).or_default() += sign;
            }
        }
        left.retain(|_, times| *times != 0);
        let own: BTreeSet<Name> =
            net.streams_of(*to, *sum).iter().map(|mask| (**mask.key, mask.label, mask.params)).collect();
        let unknown = left.keys().filter(|name| !own.contains(*name)).count();
        assert!(unknown > 0, "{to} can read what {from} sends it {direction:?} in {sum:?} over {summed:?}");
        if *direction == Direction::Down {
            assert!(
                left.keys().all(|(_, label, _)| *label == "pad"),
                "the pairwise masks cancel in the total"
            );
        }
        // The chunk is also different from every sum of plain vectors of any members.
        for set in 1u32..1 << members.len() {
            let mut plain = vec![0u32; data.len() / 4];
            for (_, &member) in (0..).zip(&members).filter(|(i, _)| set & 1 << i != 0) {
                let vector = Numbers::vector(member, sum.slot, plain.len() as u64);
                plain.iter_mut().zip(vector).for_each(|(sum, x)| *sum = sum.wrapping_add(x));
            }
            let plain: Vec<u8> = plain.into_iter().flat_map(u32::to_le_bytes).collect();
            assert!(*data != plain, "a plain sum travels from {from} to {to}");
        }
    }
    (up, down)
}

#[test]
fn every_vector_before_the_opening_carries_a_stream_that_its_receiver_lacks() {
    for peers in 3..=7 {
        for seed in 0..6 {
            let mut net = Network::new(peers, &[4, 3], timing(), seed);
            net.run(120_000);
            assert_eq!(net.finished().len(), usize::from(peers));
            let edges = 2 * (usize::from(peers) - 1);
            assert_eq!(look(&net), (edges, edges), "one chunk up and down each edge for two vectors");
        }
    }
}

/// This also holds in views with fewer members and in repeated views: a slot of a failed view may be
/// summed again.
#[test]
fn vectors_of_failed_and_repeated_views_carry_one_too() {
    let mut views = 0;
    for seed in 0..75 {
        let mut net = Network::new(5, &[4], timing(), seed);
        let (a, b) = (Peer(seed as u16 % 5), Peer((seed / 5) as u16 % 5));
        net.after_frames.push((70 + seed, Fault::Crash(a)));
        net.after_frames.push((75 + seed, Fault::Restart(a)));
        if a != b {
            net.after_frames.push((110 + seed, Fault::Cut(a, b)));
        }
        net.at_ms(8_000, Fault::HealAll);
        net.run(60_000);
        look(&net);
        views += net.travelled.iter().map(|(_, _, sum, ..)| sum.ballot).collect::<BTreeSet<_>>().len();
    }
    assert!(views > 80, "only {views} views in 75 sessions had sums: the faults came at the wrong time");
}

/// `check` tests this in every run. These runs are the likeliest to break it, because peers crash and
/// then sum the same slot again.
#[test]
fn every_stream_masks_one_vector_only_across_failed_views_and_restarts() {
    let mut repeated = 0;
    for seed in 0..60u64 {
        let mut net = Network::new(4, &[4], timing(), seed);
        let peer = Peer(seed as u16 % 4);
        for at in [50, 110, 170] {
            net.after_frames.push((at + seed % 50, Fault::Crash(peer)));
            net.after_frames.push((at + seed % 50 + 5, Fault::Restart(peer)));
        }
        net.at_ms(8_000, Fault::HealAll);
        net.run(60_000);
        let sums: BTreeSet<_> =
            net.peers().flat_map(|peer| net.sums_of(peer)).filter(|sum| sum.slot == 1).collect();
        repeated += usize::from(sums.len() > 1);
    }
    assert!(repeated > 10, "only {repeated} of 60 sessions summed a slot twice");
}
