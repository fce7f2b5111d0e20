use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::crypto::mask::Sign;
use crate::crypto::stream::Stream;
use crate::protocol::ballot::Ballot;
use crate::protocol::pairwise::{Mask, Masks};

const SUM: SumId = SumId { ballot: Ballot { counter: 3, proposer: Peer(1) }, slot: 1 };

/// A key that `a` and `b` share under `seed`; a peer's pad where they are the same.
fn key(seed: u64, a: Peer, b: Peer) -> Arc<[u8; 32]> {
    let mut key = [0; 32];
    let pair = [a.min(b).0.to_le_bytes(), a.max(b).0.to_le_bytes()].concat();
    Stream::new(&seed.to_le_bytes(), "key", &pair).fill(&mut key);
    Arc::new(key)
}

/// The first three members deal pads.
fn pads(seed: u64, members: &[Peer], sign: Sign) -> Vec<Mask> {
    members.iter().take(3).map(|&dealer| Mask::new(key(seed, dealer, dealer), "pad", SUM, sign)).collect()
}

/// All streams of one member: pairwise and, if it is a dealer, its pad.
fn streams(seed: u64, members: &[Peer], me: Peer) -> Vec<Mask> {
    let sign = |other: Peer| if me < other { Sign::Add } else { Sign::Subtract };
    let others = members.iter().filter(|&&other| other != me);
    let mut out: Vec<_> =
        others.map(|&other| Mask::new(key(seed, me, other), "mask", SUM, sign(other))).collect();
    let dealer = members.iter().take(3).position(|&dealer| dealer == me);
    out.extend(dealer.map(|at| pads(seed, members, Sign::Add).swap_remove(at)));
    out
}

fn vector(seed: u64, peer: Peer, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    Stream::new(&seed.to_le_bytes(), "vector", &peer.0.to_le_bytes()).fill(&mut out);
    out
}

/// What every member opens, and what each of them keeps back, chunk by chunk.
fn sum(
    quantity: &Quantity,
    members: &[Peer],
    vectors: &[Vec<u8>],
    seed: u64,
    chunk: usize,
) -> (Vec<u8>, Vec<Option<Kept>>) {
    let word = quantity.word();
    let mut total = vec![0; quantity.len()];
    let kept = members.iter().zip(vectors).map(|(&me, own)| {
        let cut = Cut::new(quantity, me, members);
        let masks = Masks { word, masks: streams(seed, members, me) };
        let mut keeping = Keeping::new(cut.kept());
        // In any order: here from the last.
        for start in (0..own.len()).step_by(chunk).rev() {
            let end = (start + chunk).min(own.len());
            let mut words = own[start..end].to_vec();
            cut.blank(&mut words, start);
            masks.apply(&mut words, start as u64);
            keeping.put(&cut.take(&mut words, start));
            mask::add(word, &mut total[start..end], &words);
        }
        keeping.finish(SUM)
    });
    let kept = kept.collect();
    Masks { word, masks: pads(seed, members, Sign::Subtract) }.apply(&mut total, 0);
    (total, kept)
}

proptest! {
    #[test]
    fn every_member_opens_its_own_block_of_the_plain_sum_and_the_others_hold_something_else(
        blocks in proptest::collection::vec(0u64..9, 3..8),
        out: Vec<bool>,
        wide: bool,
        chunk in 1usize..12,
        seed: u64,
    ) {
        let quantity = Quantity::rows("rows", if wide { 8 } else { 4 }, blocks);
        let word = quantity.word();
        let is_out = |peer: &Peer| out.get(peer.index()).copied().unwrap_or(false);
        let members: Vec<_> = quantity.owners().filter(|peer| !is_out(peer)).collect();
        let vectors: Vec<_> = members.iter().map(|&peer| vector(seed, peer, quantity.len())).collect();
        let mut plain = vec![0; quantity.len()];
        vectors.iter().for_each(|vector| mask::add(word, &mut plain, vector));
        let (opened, kept) = sum(&quantity, &members, &vectors, seed, chunk * word.bytes());
        let mut covered = 0;
        for owner in quantity.owners() {
            let block = quantity.block(owner);
            covered += block.len();
            let Some(at) = members.iter().position(|&peer| peer == owner) else {
                prop_assert!(opened[block].iter().all(|byte| *byte == 0), "a block that nobody owns is open");
                prop_assert_eq!(part(&quantity, owner, &members, None, &opened), Err(Missing::Absent));
                continue;
            };
            let found = part(&quantity, owner, &members, kept[at].as_ref(), &opened).unwrap();
            prop_assert_eq!(&found.bytes()[..], &plain[block.clone()]);
            // What all hold is the plain block under exactly the owner's streams and without its vector.
            let mut own = vectors[at].clone();
            Masks { word, masks: streams(seed, &members, owner) }.apply(&mut own, 0);
            let mut held = opened[block.clone()].to_vec();
            mask::add(word, &mut held, &own[block.clone()]);
            prop_assert_eq!(&held[..], &plain[block.clone()]);
            if !block.is_empty() {
                prop_assert_eq!(part(&quantity, owner, &members, None, &opened), Err(Missing::Lost));
                let another = kept.iter().flatten().find(|kept| kept.block.len() != block.len());
                let made = |kept| part(&quantity, owner, &members, Some(kept), &opened);
                prop_assert!(another.is_none_or(|kept| made(kept) == Err(Missing::Lost)));
            }
        }
        prop_assert_eq!(covered, quantity.len());
    }
}

/// Two worlds that differ only in what others put in block 0: whoever lacks one of the owner's keys sees the
/// same distribution.
#[test]
fn what_the_others_hold_of_a_block_is_uniform_whatever_is_in_it() {
    const RUNS: u64 = 4096;
    let quantity = Quantity::rows("rows", 4, vec![1, 1, 1]);
    let members: Vec<_> = quantity.owners().collect();
    for content in [0u32, 1_000_000] {
        let vectors: Vec<_> = members.iter().map(|_| content.to_le_bytes().repeat(3)).collect();
        let mut counts = [[0u32; 16]; 2];
        for seed in 0..RUNS {
            let (opened, _) = sum(&quantity, &members, &vectors, seed, 12);
            // Its highest and its lowest four bits.
            counts[0][usize::from(opened[3] >> 4)] += 1;
            counts[1][usize::from(opened[0] & 15)] += 1;
        }
        for counts in counts {
            let expected = RUNS as f64 / 16.0;
            let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
            // 15 degrees of freedom: above 37.7 in one of a thousand.
            assert!(chi < 37.7, "{content}: {counts:?}");
        }
    }
}

#[test]
fn what_is_kept_is_not_printed_and_a_changed_byte_of_it_is_noticed() {
    let kept = Kept::new(SUM, Zeroizing::new(b"secrets!".to_vec()));
    assert_eq!(
        format!("{kept:?}"),
        "Kept(SumId { ballot: Ballot { counter: 3, proposer: Peer(1) }, slot: 1 }, <redacted>)"
    );
    assert!(kept.sound(8) && !kept.sound(4));
    let read = |bytes: &'static [u8]| kept.clone().with_block(Bytes::from_static(bytes));
    assert!(read(b"secrets!").sound(8) && !read(b"secretz!").sound(8) && !read(b"").sound(8));
    assert_eq!(format!("{:?}", Part(Bytes::from_static(b"mine"))), "Part(4 bytes, <redacted>)");
}
