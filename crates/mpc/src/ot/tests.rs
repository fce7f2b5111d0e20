//! Compares transfers with the plain product.

use proptest::prelude::*;

use super::base::{Sender as Base, choose};
use super::extension::{Receiver, Sender};
use super::{BASE, WORD};
use flyswarm_sealed_sum::crypto::stream::Stream;

const CONTEXT: [u8; 32] = [5; 32];
const CHOICES: u128 = 0x0123_4567_89ab_cdef_1122_3344_5566_7788;

fn pair(salt: u8) -> (Receiver, Sender) {
    let base = Base::new(&CONTEXT, &[salt; 32]);
    let (reply, chosen) = choose(&CONTEXT, &base.message(), CHOICES, &[salt + 1; 32]).unwrap();
    (Receiver::new(&CONTEXT, &base.keys(&reply).unwrap()), Sender::new(&CONTEXT, CHOICES, &chosen))
}

fn bytes(n: usize, salt: u8) -> Vec<u8> {
    let mut out = vec![0; n];
    Stream::new(&[salt; 32], "test", &[]).fill(&mut out);
    out
}

#[test]
fn the_receiver_has_of_each_pair_of_base_keys_the_one_that_it_chose() {
    let base = Base::new(&CONTEXT, &[1; 32]);
    let (reply, chosen) = choose(&CONTEXT, &base.message(), CHOICES, &[2; 32]).unwrap();
    let pairs = base.keys(&reply).unwrap();
    for (i, (pair, chosen)) in pairs.iter().zip(chosen.iter()).enumerate() {
        let choice = (CHOICES >> i & 1) as usize;
        assert_eq!(pair[choice], *chosen);
        assert_ne!(pair[1 - choice], *chosen);
    }
    let other = Base::new(&[6; 32], &[1; 32]).keys(&reply).unwrap();
    assert_ne!(other[0], pairs[0], "another context");
}

#[test]
fn what_is_no_point_is_refused() {
    let base = Base::new(&CONTEXT, &[1; 32]);
    let (mut reply, _) = choose(&CONTEXT, &base.message(), CHOICES, &[2; 32]).unwrap();
    assert!(base.keys(&reply[1..]).is_none());
    reply[32 * 77..][..32].fill(0xff);
    assert!(base.keys(&reply).is_none());
    for message in [[0xff; 32], [0; 32]] {
        assert!(choose(&CONTEXT, &message, CHOICES, &[2; 32]).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn shares_add_up_to_the_products(
        first in 0u64..1000, count in 1usize..5, width in 0usize..40, salt in 0u8..100,
    ) {
        let (receiver, sender) = pair(salt);
        let choices: Vec<u64> = bytes(8 * count, salt)
            .as_chunks().0.iter().map(|&w| u64::from_le_bytes(w)).collect();
        let vectors: Vec<u16> =
            bytes(2 * WORD * count * width, salt + 1)
                .as_chunks().0.iter().map(|&w| u16::from_le_bytes(w)).collect();
        let columns = receiver.columns(first, &choices);
        prop_assert_eq!(columns.len(), 8 * BASE * count);
        let (strings, mine) = sender.send(first, &columns, &vectors, width);
        let theirs = receiver.receive(first, &choices, &strings, width);
        let mut plain = vec![0u16; width];
        for transfer in (0..WORD * count).filter(|t| choices[t / WORD] >> (t % WORD) & 1 == 1) {
            let vector = &vectors[transfer * width..][..width];
            plain.iter_mut().zip(vector).for_each(|(sum, d)| *sum = sum.wrapping_add(*d));
        }
        let found: Vec<u16> = theirs.iter().zip(&mine).map(|(a, b)| a.wrapping_sub(*b)).collect();
        prop_assert_eq!(found, plain);
    }
}

/// The receiver's columns and the strings sent to it must not depend on the hidden data: with other keys
/// they are other uniform strings.
#[test]
fn columns_and_strings_are_balanced_whatever_they_hide() {
    let (receiver, sender) = pair(9);
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    for choices in [[0; 16], [u64::MAX; 16]] {
        let columns = receiver.columns(3, &choices);
        let (strings, _) = sender.send(3, &columns, &vec![0; WORD * 16 * 8], 8);
        // Both have 131,072 bits, so the standard deviation is 181.
        assert_eq!((columns.len(), strings.len()), (16_384, 16_384));
        assert!(ones(&columns).abs_diff(65_536) < 1_000 && ones(&strings).abs_diff(65_536) < 1_000);
    }
}
