//! Row sums between whole nodes: every peer has its own block of the sum of those in the view, and nobody
//! else has it, whoever crashes when.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::network::{Fault, Network};
use super::numbers::{Numbers, session, timing};
use crate::crypto::identity::Identity;
use crate::crypto::mask::{self, Word};
use crate::node::Event;
use crate::protocol::context::Quantity;
use crate::protocol::pairwise::Masks;
use crate::protocol::record::Value;
use crate::protocol::rows::Missing;
use crate::protocol::view::Stage;
use crate::session::Peer;
use crate::tasks::{History, Outcome, Task, Work};

/// Slot 1 is a row sum; in slot 2 every peer puts in what the words of its own block add up to.
#[derive(Debug)]
struct Grades {
    me: Peer,
    blocks: Vec<u64>,
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word))
}

fn folded(bytes: &[u8]) -> u32 {
    words(bytes).fold(0, u32::wrapping_add)
}

impl Task for Grades {
    fn plan(&self) -> Vec<Quantity> {
        let rows = Quantity::rows("grades", 4, self.blocks.clone());
        vec![Quantity::coin(), rows, Quantity::exact("folded", 4, 1)]
    }
    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        if slot == 2 {
            return Ok(Bytes::copy_from_slice(&folded(&history.own_block(1)).to_le_bytes()));
        }
        let own = Numbers::vector(self.me, 1, self.blocks.iter().sum());
        Ok(own.into_iter().flat_map(u32::to_le_bytes).collect())
    }
    fn outcome(&self, _: &History, _unix: u64) -> Result<Outcome, String> {
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }
    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
    fn allows(&self, _: u32, _: &History, _: &[Peer]) -> Result<(), String> {
        Ok(())
    }
    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        // Whoever judges for all is given what all hold.
        assert!(slot < 1 || history.vectors()[1].len() as u64 == 4 * self.blocks.iter().sum::<u64>());
        Ok(())
    }
}

fn network(blocks: &[u64], seed: u64) -> Network {
    lying(blocks, None, seed)
}

/// One peer may have other blocks in mind.
fn lying(blocks: &[u64], liar: Option<(Peer, &[u64])>, seed: u64) -> Network {
    let mut identities: Vec<_> = (0..blocks.len()).map(|i| Identity::from_seed([i as u8 + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let session = session(&identities, timing());
    let task = |me: Peer| {
        let blocks = liar.filter(|(peer, _)| *peer == me).map_or(blocks, |(_, blocks)| blocks);
        Arc::new(Grades { me, blocks: blocks.to_vec() }) as Arc<dyn Task>
    };
    let tasks = (0..blocks.len() as u16).map(|peer| task(Peer(peer))).collect();
    let mut net = Network::with_tasks(identities, session, tasks, seed);
    net.liars.extend(liar.map(|(peer, _)| peer));
    net
}

/// What each finished peer was told last: its own block, or why it has none; and what all hold and whose
/// vectors are in it.
struct Found {
    own: BTreeMap<Peer, Result<Bytes, Missing>>,
    held: Vec<Bytes>,
    values: Vec<Value>,
}

/// Holds every block against the plain sum of the members of the decided view.
fn found(net: &Network, blocks: &[u64], what: &str) -> Found {
    let quantity = Quantity::rows("grades", 4, blocks.to_vec());
    let mut own: BTreeMap<Peer, Result<Bytes, Missing>> = BTreeMap::new();
    let mut result: Option<(Vec<Bytes>, Vec<Value>)> = None;
    for (_, peer, event) in &net.events {
        if let Event::Finished(history) = event {
            let part = history.parts()[&1].clone().map(|part| part.bytes().clone());
            let before = own.insert(*peer, part.clone());
            assert!(
                before.is_none_or(|before| before == part || part == Err(Missing::Lost)),
                "{what}: {peer}"
            );
            let held = (history.vectors().to_vec(), history.values().to_vec());
            let first = result.get_or_insert_with(|| held.clone());
            assert!(*first == held, "{what}: {peer} holds something else");
        }
    }
    let (held, values) = result.unwrap_or_else(|| panic!("{what}: nobody has finished: {:?}", net.endings()));
    let members = &values[1].members;
    let plain = plain(members, &quantity);
    for owner in quantity.owners() {
        let block = quantity.block(owner);
        match own.get(&owner) {
            Some(Ok(part)) => {
                assert!(
                    members.contains(&owner) && part[..] == plain[block.clone()],
                    "{what}: {owner}'s block"
                );
            }
            Some(Err(Missing::Absent)) => assert!(!members.contains(&owner), "{what}: {owner}"),
            Some(Err(Missing::Lost)) => {
                assert!(net.forgets.contains(&owner), "{what}: {owner} has lost its block")
            }
            None => {}
        }
        if members.contains(&owner) {
            assert!(
                block.is_empty() || held[1][block.clone()] != plain[block],
                "{what}: {owner}'s block is open"
            );
        } else {
            assert!(
                held[1][block].iter().all(|byte| *byte == 0),
                "{what}: the block of {owner}, which is not in it"
            );
        }
    }
    Found { own, held, values }
}

fn plain(members: &[Peer], quantity: &Quantity) -> Vec<u8> {
    let mut sum = vec![0; quantity.len()];
    for &member in members {
        let vector: Vec<u8> =
            Numbers::vector(member, 1, quantity.words).into_iter().flat_map(u32::to_le_bytes).collect();
        mask::add(Word::W32, &mut sum, &vector);
    }
    sum
}

#[test]
fn every_peer_has_its_own_block_and_its_next_vector_is_made_of_it() {
    for (seed, blocks) in (0..).zip([
        vec![1, 1, 1],
        vec![3, 0, 2, 5],
        vec![0, 0, 7, 0, 1],
        vec![70_000, 1, 0, 200_000, 65_536, 3, 9],
    ]) {
        let mut net = network(&blocks, seed);
        net.run(120_000);
        let found = found(&net, &blocks, "nobody crashes");
        assert_eq!(found.own.len(), blocks.len(), "{:?}", net.endings());
        assert!(found.own.values().all(Result::is_ok));
        let parts = found.own.values().flatten().map(|part| folded(part));
        assert_eq!(
            words(&found.held[2]).next(),
            Some(parts.fold(0, u32::wrapping_add)),
            "the task is given its block"
        );
    }
}

#[test]
fn of_a_block_others_lack_the_keys_that_its_owner_shares_with_each_of_them() {
    let blocks = [2, 3, 0, 1, 4];
    let quantity = Quantity::rows("grades", 4, blocks.to_vec());
    let mut before: Option<Bytes> = None;
    for seed in 0..5 {
        let mut net = network(&blocks, seed);
        net.run(120_000);
        let found = found(&net, &blocks, "nobody crashes");
        let sum = found.values[1].sum;
        let plain = plain(&found.values[1].members, &quantity);
        for owner in quantity.owners() {
            // What lies on the block that all hold: the owner's streams and the lack of its vector, nothing
            // less.
            let masks = Masks { word: Word::W32, masks: net.streams_of(owner, sum).to_vec() };
            let mut own: Vec<u8> =
                Numbers::vector(owner, 1, quantity.words).into_iter().flat_map(u32::to_le_bytes).collect();
            masks.apply(&mut own, 0);
            let block = quantity.block(owner);
            let mut held = found.held[1][block.clone()].to_vec();
            mask::add(Word::W32, &mut held, &own[block.clone()]);
            assert_eq!(held, plain[block], "{owner}");
            // One of them with each other member, which no third one has: all others together know it, any
            // fewer do not.
            let pairwise: Vec<_> =
                masks.masks.iter().filter(|mask| mask.label == "mask").map(|mask| *mask.key).collect();
            assert_eq!(pairwise.len(), blocks.len() - 1);
            for key in pairwise {
                let has = |other: &Peer| net.streams_of(*other, sum).iter().any(|mask| *mask.key == key);
                assert_eq!(quantity.owners().filter(|other| *other != owner && has(other)).count(), 1);
            }
        }
        // The same vectors under other masks: what all hold says nothing of them.
        let held = found.held[1].clone();
        assert!(
            before
                .replace(held.clone())
                .is_none_or(|before| words(&before).zip(words(&held)).all(|(a, b)| a != b))
        );
    }
}

#[test]
fn a_peer_killed_at_any_action_has_its_block_when_it_returns_and_the_others_have_theirs() {
    let blocks = [2, 1, 0, 3, 2];
    let mut base = network(&blocks, 7);
    base.run(120_000);
    let (mut without, mut with) = (0, 0);
    for (peer, count) in base.actions.clone() {
        for at in (1..count).step_by(2) {
            for returns in [true, false] {
                let mut net = network(&blocks, 7);
                net.kill_after = Some((peer, at));
                if returns {
                    net.at_ms(4_000, Fault::Restart(peer));
                }
                net.run(300_000);
                let what = format!("{peer} killed at {at}, returns: {returns}");
                let found = found(&net, &blocks, &what);
                assert!(
                    found.own.len() >= blocks.len() - usize::from(!returns),
                    "{what}: {:?}",
                    net.endings()
                );
                if returns {
                    match found.own[&peer] {
                        Ok(_) => with += 1,
                        Err(_) => without += 1,
                    }
                }
            }
        }
    }
    assert!(without > 20 && with > 20, "lost before the total {without} times, after it {with} times");
}

#[test]
fn a_peer_that_dies_at_a_stage_after_the_total_still_opens_its_block() {
    let blocks = [2, 1, 1, 3, 2];
    for peer in (0..5).map(Peer) {
        for stage in [Stage::Accept, Stage::Release, Stage::Open] {
            let mut net = network(&blocks, u64::from(peer.0));
            net.kill_at = Some((peer, 1, stage));
            net.at_ms(9_000, Fault::Restart(peer));
            net.run(300_000);
            let what = format!("{peer} killed at {stage:?}");
            let found = found(&net, &blocks, &what);
            assert_eq!(found.own.len(), 5, "{what}: {:?}", net.endings());
            // A leader that dies before anybody has acknowledged leaves nothing to finish: the sum is made
            // anew without it.
            assert!(found.own[&peer].is_ok() || stage == Stage::Accept, "{what}: {:?}", found.own[&peer]);
        }
    }
}

#[test]
fn a_peer_that_returns_when_all_is_over_has_its_block_again() {
    let blocks = [2, 1, 1, 3];
    let mut net = network(&blocks, 1);
    net.run_unchecked(120_000, |net| net.finished_count() == 4);
    let now = net.now_ms();
    net.at_ms(now, Fault::Crash(Peer(2)));
    net.at_ms(now + 500, Fault::Restart(Peer(2)));
    net.run(now + 100_000);
    let told = net.events.iter().filter(|(_, peer, event)| {
        *peer == Peer(2) && matches!(event, Event::Finished(history) if history.parts()[&1].is_ok())
    });
    assert_eq!(told.count(), 2);
    found(&net, &blocks, "crashed at the end");
}

/// A value may be opened in a later view than the one in which it was summed, and a peer has kept something
/// back in each.
#[test]
fn whatever_is_cut_or_killed_every_member_of_the_decided_view_has_its_block() {
    let blocks = [2, 1, 0, 3];
    let (mut absent, mut late, mut several) = (0, 0, 0);
    for seed in 0..400u64 {
        let mut net = network(&blocks, seed);
        for _ in 0..3 {
            let (a, b) = (Peer(net.below(4) as u16), Peer(net.below(4) as u16));
            let at = u64::from(net.below(250));
            if a == b || at % 2 == 0 {
                let back = at + 1 + u64::from(net.below(60));
                net.after_frames.extend([(at, Fault::Crash(a)), (back, Fault::Restart(a))]);
            } else {
                net.after_frames.push((at, Fault::Cut(a, b)));
            }
        }
        net.at_ms(8_000, Fault::HealAll);
        net.run(100_000);
        let what = format!("seed {seed}");
        let found = found(&net, &blocks, &what);
        assert_eq!(found.own.len(), 4, "{what}: {:?}", net.endings());
        absent += found.own.values().filter(|part| part.is_err()).count();
        let sum = found.values[1].sum;
        let before = net
            .events
            .iter()
            .take_while(|(.., event)| !matches!(event, Event::Opened(value) if value.sum == sum));
        let later = |event: &Event| matches!(event, Event::ViewBegan(ballot, _) if *ballot > sum.ballot);
        late += usize::from(before.into_iter().any(|(.., event)| later(event)));
        several += usize::from(net.peers().any(|peer| net.kept(peer, 1) > 1));
    }
    let what = format!(
        "{absent} were not in the view decided on, {late} were opened in a later one, {several} kept several"
    );
    assert!(absent > 10 && late > 5 && several > 5, "{what}");
}

#[test]
fn whoever_loses_what_it_kept_says_so_and_harms_nobody() {
    let blocks = [2, 1, 1, 3];
    let mut net = network(&blocks, 3);
    net.run_unchecked(120_000, |net| net.finished_count() == 4);
    let now = net.now_ms();
    net.forgets.insert(Peer(1));
    net.at_ms(now, Fault::Crash(Peer(1)));
    net.at_ms(now + 500, Fault::Restart(Peer(1)));
    net.run(now + 100_000);
    let found = found(&net, &blocks, "its state is gone");
    assert_eq!(found.own[&Peer(1)], Err(Missing::Lost));
    let text = Missing::Lost.to_string();
    assert!(text.contains("not in its state any more") && !text.contains('\n'));
    assert_eq!(found.own.values().filter(|part| part.is_ok()).count(), 3);
}

#[test]
fn a_peer_with_blocks_of_another_length_is_blamed_and_left_out() {
    let blocks = [2, 1, 1, 3, 1];
    let mut blamed = Vec::new();
    for liar in (0..5).map(Peer) {
        let mut net = lying(&blocks, Some((liar, &[2, 1, 1, 4, 1])), 5);
        net.run(200_000);
        let finished: Vec<_> = net.finished().into_keys().filter(|peer| *peer != liar).collect();
        assert_eq!(finished.len(), 4, "{liar}: {:?}", net.endings());
        assert!(!net.finished().contains_key(&liar));
        blamed.extend(net.blames.iter().filter(|(by, who, _)| *by != liar && *who == liar).cloned());
    }
    // One that has children blames them before it has sent anything itself.
    let says = |text: &str| blamed.iter().any(|(.., said)| said.contains(text));
    assert!(says("chunk 0 has 36 bytes, expected 32"), "{blamed:?}");
}
