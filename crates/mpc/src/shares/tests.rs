//! Tests that computations on shares equal those on plain numbers, bit for bit.

pub(super) mod audit;
mod cells;
mod hostile;
mod hostile_copies;
mod primitives;
mod stages;

use super::{Ring, Shared};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Returns shares of plain values for the three parties.
fn share<T: Ring>(values: &[T], seed: u8) -> [Shared<T>; 3] {
    let mut stream = Stream::new(&[seed; 32], "test shares", &[]);
    let mut draw = || {
        let mut share = vec![T::default(); values.len()];
        super::context::blend(&mut stream, &mut share, |_, mask| mask);
        share
    };
    let (one, two) = (draw(), draw());
    let rest = values.iter().zip(one.iter().zip(&two)).map(|(&x, (&a, &b))| x.sub(a).sub(b)).collect();
    let shares = [one, two, rest];
    std::array::from_fn(|party| Shared { own: shares[party].clone(), next: shares[(party + 1) % 3].clone() })
}

/// Checks that the two holders of each share have the same words, and returns the sum of the shares.
fn opened<T: Ring>(held: &[Shared<T>; 3]) -> Vec<T> {
    for party in 0..3 {
        assert!(held[party].next == held[(party + 1) % 3].own, "share {} at both", (party + 1) % 3);
    }
    let pairs = held[0].own.iter().zip(&held[1].own).zip(&held[2].own);
    pairs.map(|((&a, &b), &c)| a.add(b).add(c)).collect()
}

/// Returns uniform words of `bits` bits.
fn words(count: usize, bits: u32, seed: u8) -> Vec<u64> {
    let mut stream = Stream::new(&[seed; 32], "test words", &[]);
    let mut values = vec![0u64; count];
    super::context::blend(&mut stream, &mut values, |_, word| word >> (64 - bits));
    values
}
