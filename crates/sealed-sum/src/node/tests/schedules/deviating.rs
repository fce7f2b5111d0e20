//! Random schedules with one deviating peer. This peer is a leader that changes its orders and ignores
//! promises, a peer that loses its disk, or a server that sends false answers. No slot is opened twice,
//! and no honest peer is blamed. Once all faults are healed, every honest peer finishes.

use super::super::network::{Fault, Network, Rewrite};
use super::{PARTS, all, bound_ms, patient, random_fault};
use crate::crypto::stream::Stream;
use crate::harness::numbers::Session;
use crate::protocol::context::Bug;
use crate::protocol::message::Message;
use crate::protocol::record::Record;
use crate::protocol::transfer::{self, Held};
use crate::protocol::view::{self, Order};
use crate::session::{Faults, Peer};

/// Default number of schedules of each kind.
const SCHEDULES: u64 = 24;

/// Changes one in four orders of the liar.
fn orders(liar: Peer, mut random: Stream) -> Rewrite {
    Box::new(move |from, _, message| {
        let Message::View(view::Message::Down(ballot, order)) = message else { return None };
        if from != liar || random.below(4) > 0 {
            return None;
        }
        let order = match order.clone() {
            Order::Keys(mut keys) => {
                keys.pop();
                Order::Keys(keys)
            }
            Order::Sum(slot) => Order::Sum(slot ^ random.below(2)),
            Order::Accept(Record { mut value, deals }) => {
                if random.below(2) == 0 {
                    value.total[0] ^= 1;
                } else {
                    value.members.pop();
                }
                Order::Accept(Record { value, deals })
            }
            Order::Decide(slot, mut items) => {
                items.truncate(random.below(3) as usize);
                Order::Decide(slot, items)
            }
            Order::Open(slot, mut items) => {
                items.truncate(random.below(4) as usize);
                Order::Open(slot, items)
            }
            Order::Reveal(_) => return None,
        };
        Some(Message::View(view::Message::Down(*ballot, order)))
    })
}

/// Changes one in two answers of the liar, which also claims to have everything.
fn answers(liar: Peer, slots: u32, mut random: Stream) -> Rewrite {
    Box::new(move |from, _, message| {
        if from != liar || random.below(2) > 0 {
            return None;
        }
        let answer = match message.clone() {
            Message::Status { in_view, .. } => return Some(Message::Status { committed: slots, in_view }),
            Message::Transfer(transfer::Message::Piece { slot, index, data }) => {
                let mut data = data.to_vec();
                *data.first_mut()? ^= 1;
                transfer::Message::Piece { slot, index, data: data.into() }
            }
            Message::Transfer(transfer::Message::Head(slot, held)) => {
                let Held::Committed(mut committed) = *held else { return None };
                match random.below(3) {
                    0 => committed.pads[0] = [0; 32],
                    1 => committed.record.value.total[0] ^= 1,
                    _ => committed.acknowledgements.truncate(1),
                }
                transfer::Message::Head(slot, Box::new(Held::Committed(committed)))
            }
            _ => return None,
        };
        Some(Message::Transfer(answer))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Leader,
    Disk,
    Server,
}

fn run(kind: Kind, seed: u64) -> u64 {
    let timing = patient();
    let peers = [4, 5, 4, 6][usize::try_from(seed / PARTS % 4).unwrap()];
    let faults = if kind == Kind::Leader { Faults::Byzantine } else { Faults::Crash };
    let alter = |session: &mut Session| session.voting.faults = faults;
    let mut net = Network::altered(peers, &[3], timing, seed, alter);
    let random = Stream::new(&seed.to_le_bytes(), "deviating", &[kind as u8]);
    let one = net.committee()[usize::from(kind != Kind::Leader) * (seed % u64::from(peers)) as usize];
    let at = |net: &mut Network| u64::from(net.below(900));
    match kind {
        Kind::Leader => {
            net.liars.insert(one);
            net.bugs.insert(one, Bug::IgnoresPromises);
            net.rewrite = Some(orders(one, random));
            // This starts the leader with its deviation, and later once more with an empty disk.
            let again = at(&mut net);
            for (ms, fault) in [(0, Fault::Crash(one)), (again, Fault::Wipe(one))] {
                net.at_ms(ms, fault);
                net.at_ms(ms, Fault::Restart(one));
            }
        }
        Kind::Disk => {
            net.marked = true;
            let ms = at(&mut net);
            net.at_ms(ms, Fault::Wipe(one));
            net.at_ms(ms + 50, Fault::Restart(one));
        }
        Kind::Server => {
            net.liars.insert(one);
            net.rewrite = Some(answers(one, 2, random));
        }
    }
    for _ in 0..net.below(4) {
        for fault in random_fault(&mut net, peers) {
            let ms = at(&mut net);
            net.at_ms(ms, fault);
        }
    }
    let heal = 1_000 + u64::from(net.below(10_000));
    net.at_ms(heal, Fault::HealAll);
    let limit = heal + 2 * bound_ms(peers, &timing);
    let done = |net: &Network| {
        let finished = net.finished();
        net.peers().filter(|peer| !net.liars.contains(peer)).all(|peer| finished.contains_key(&peer))
    };
    net.run_unchecked(limit, |net| net.now_ms() > heal && done(net));
    net.check();
    assert!(done(&net), "{kind:?} {one}: {:?} {:?}", net.finished().keys(), net.endings());
    net.when_finished().unwrap().0.saturating_sub(heal * 1000) / 1000
}

#[test]
fn deviating_schedules_with_a_leader_are_safe_and_end() {
    (0..PARTS).for_each(|part| all(part, SCHEDULES, "deviating_schedules", |seed| run(Kind::Leader, seed)));
}

#[test]
fn deviating_schedules_with_a_lost_disk_are_safe_and_end() {
    (0..PARTS).for_each(|part| all(part, SCHEDULES, "deviating_schedules", |seed| run(Kind::Disk, seed)));
}

/// In the past, marks left out a voting peer, because a peer that had lost its disk was counted as
/// voting. Also, proposers that some peers refused kept the others from leading.
#[test]
fn a_lost_disk_does_not_stop_those_who_vote() {
    for seed in [910_216, 910_504, 910_536, 910_592, 910_656, 910_923, 2_001_312, 2_004_088] {
        run(Kind::Disk, seed);
    }
}

/// The liar finishes, loses its disk, and promises again. Marks bar an honest peer, because its connections
/// were cut. The others do not reach the liar, so its promise does not replace that of the barred peer.
#[test]
fn a_promise_of_a_peer_that_others_do_not_reach_gets_nobody_left_out() {
    run(Kind::Leader, 7_088_832);
}

#[test]
fn deviating_schedules_with_a_server_are_safe_and_end() {
    (0..PARTS).for_each(|part| all(part, SCHEDULES, "deviating_schedules", |seed| run(Kind::Server, seed)));
}
