//! Tests the whole computation, and the machines that run it.

mod whole;

use flyswarm_mpc::shares::{Ring, Shared, context};

use crate::crypto::stream::Stream;

/// Puts the shares of three computing members together, and checks that both members that hold a share have
/// the same one.
fn opened<T: Ring>(held: &[Shared<T>; 3]) -> Vec<T> {
    for party in 0..3 {
        assert!(
            held[party].next == held[(party + 1) % 3].own,
            "share {} is the same at both",
            (party + 1) % 3
        );
    }
    let pairs = held[0].own.iter().zip(&held[1].own).zip(&held[2].own);
    pairs.map(|((&a, &b), &c)| a.add(b).add(c)).collect()
}

/// Returns uniform words of `bits` bits.
fn words(count: usize, bits: u32, seed: u8) -> Vec<u64> {
    let mut stream = Stream::new(&[seed; 32], "test words", &[]);
    let mut values = vec![0u64; count];
    context::blend(&mut stream, &mut values, |_, word| word >> (64 - bits));
    values
}
