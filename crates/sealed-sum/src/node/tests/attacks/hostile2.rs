//! Attacks from a review: dealers that collude, and a leader with two lists of members.

use std::sync::Arc;

use bytes::Bytes;

use super::super::network::{Fault, Network};
use super::super::numbers::{Numbers, timing};
use super::alone::One;
use crate::crypto::stream::Stream;
use crate::node::Node;
use crate::protocol::all_reduce::Direction;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Bug;
use crate::protocol::message::{Content, Message};
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{self, Order, Stage};
use crate::protocol::{Input, Machine};
use crate::session::{Faults, Peer};

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Returns the sealed total of a sum without the pads of these dealers, if the sum has no other pads.
fn bare(net: &Network, sum: SumId, dealers: &[Peer]) -> Option<Vec<u32>> {
    let sealed = |(_, _, other, direction, _): &&(Peer, Peer, SumId, Direction, Bytes)| {
        *other == sum && *direction == Direction::Down
    };
    let mut total = words(&net.travelled.iter().find(sealed)?.4);
    let mut pads = 0;
    for &dealer in dealers {
        for mask in net.streams_of(dealer, sum).iter().filter(|mask| mask.label == "pad") {
            pads += 1;
            let mut bytes = vec![0; 4 * total.len()];
            Stream::new(&mask.key[..], "pad", &mask.params).fill(&mut bytes);
            total.iter_mut().zip(words(&bytes)).for_each(|(word, pad)| *word = word.wrapping_sub(pad));
        }
    }
    (pads == dealers.len()).then_some(total)
}

/// Returns the first view after `first` that summed slot 1 and whose sealed total went to eight members.
fn second_view(net: &Network, first: Ballot) -> Option<Ballot> {
    let second = |sum: SumId, direction: Direction| {
        let later = sum.slot == 1 && sum.ballot > first && direction == Direction::Down;
        later && net.members_of(sum.ballot).len() == 8
    };
    net.travelled
        .iter()
        .find(|(_, _, sum, direction, _)| second(*sum, *direction))
        .map(|(_, _, sum, ..)| sum.ballot)
}

/// Nine peers: three dealers want to read one vector, and one of them leads. They are fewer than a
/// quorum, and fewer than `min_peers` - 1.
#[test]
fn three_dealers_below_a_quorum_read_no_vector() {
    for (faults, min_peers) in [(Faults::Crash, 5), (Faults::Crash, 8), (Faults::Byzantine, 8)] {
        for seed in 0..3 {
            let mut net = Network::altered(9, &[3], timing(), seed, |session| {
                session.voting.faults = faults;
                session.min_peers = min_peers;
            });
            net.delay_us = (100, 2_000);
            let committee = net.committee();
            let (dealers, victim) = ([committee[0], committee[1], committee[2]], committee[8]);
            let [leads, second, _] = dealers;
            net.liars.extend(dealers);
            // The second dealer leaves the victim out in any view that it leads.
            let bits = net.peers().filter(|peer| *peer != victim).map(|peer| 1u16 << peer.0).sum();
            net.bugs.insert(second, Bug::Picks(bits));
            net.at_ms(0, Fault::Crash(second));
            net.at_ms(0, Fault::Restart(second));
            // The first view has all peers. Its leader holds the record of slot 1 back ...
            net.hold = Some(Box::new(move |from, _, message| {
                let Message::View(view::Message::Down(_, Order::Accept(record))) = message else {
                    return false;
                };
                from == leads && record.value.sum.slot == 1
            }));
            net.run_unchecked(20_000, |net| net.reached(leads, 1, Stage::Accept));
            let first = net.current().unwrap();
            // ... and forgets the view. No other peer has acknowledged anything for slot 1 there.
            let now = net.now_ms();
            net.at_ms(now, Fault::Wipe(leads));
            net.at_ms(now, Fault::Restart(leads));
            net.run_unchecked(now + 100_000, |net| second_view(net, first).is_some());
            let Some(later) = second_view(&net, first) else { continue };
            let open = |ballot| bare(&net, SumId { ballot, slot: 1 }, &dealers);
            let difference = open(first)
                .zip(open(later))
                .map(|(one, two)| one.iter().zip(&two).map(|(x, y)| x.wrapping_sub(*y)).collect::<Vec<_>>());
            let read = difference == Some(Numbers::vector(victim, 1, 3));
            assert!(!read, "{faults:?}, min_peers {min_peers}, seed {seed}: views {first} and {later}");
        }
    }
}

#[test]
fn two_member_lists_do_not_get_an_honest_peer_named() {
    let mut one = One::altered(Vec::new(), |ctx| ctx.plan[1].exchange = true);
    one.peers().into_iter().for_each(|peer| one.greet(peer));
    let honest = one.others[0];
    // The liar shows this node a view without `honest`. The node has already seen such a view once before.
    let all = one.all();
    let fewer: Vec<_> = all.iter().copied().filter(|&peer| peer != honest).collect();
    let first = one.below(0, &fewer);
    one.hear(first.proposer, one.begin(first, &fewer, 0));
    // With this ballot, `fewer` places this node directly below the leader, and `all` places `honest` there.
    let second_of = |ballot, members: &[Peer]| super::messages::order(&one.net, ballot, members)[1];
    let fits = |ballot: &Ballot| second_of(*ballot, &fewer) == one.me && second_of(*ballot, &all) == honest;
    let ballot = (first.counter + 1..).map(|counter| one.ballot(counter)).find(fits).unwrap();
    one.hear(ballot.proposer, one.begin(ballot, &fewer, 0));
    // The liar shows the honest peer a view of all peers.
    let task = Arc::new(Numbers { me: honest, words: vec![3] });
    let mut other = Node::new(Arc::new(one.net.context(honest)), task, [2; 32], Vec::new()).unwrap();
    drop(other.handle(one.now, Input::Start));
    for peer in one.net.peers().filter(|&peer| peer != honest) {
        drop(other.handle(one.now, Input::PeerUp(peer)));
        drop(other.handle(one.now, Input::Message { from: peer, message: one.hello(0, None) }));
    }
    let shown = Input::Message { from: ballot.proposer, message: one.begin(ballot, &all, 0) };
    drop(other.handle(one.now, shown));
    assert_eq!(other.membership.ballot(), Some(ballot));
    // A message of an exchange of the honest peer's view.
    let message = Message::Exchange { sum: SumId { ballot, slot: 1 }, content: Content::Short(Bytes::new()) };
    assert!(!one.blames(honest, message), "{:?}", one.blamed);
}
