//! Proofs that each message of the computation is right, so that a single deviating party is found
//! before anything is opened.
//!
//! 1. [`statements`], [`hops`]: each operation adds to a [`log`] what its senders must prove: the inner
//!    product of two vectors. The prover and the party before it know one vector; the prover and the
//!    party after it know the other.
//! 2. [`gates`]: the words of a batch become vectors over an [`extension`], with random coefficients.
//! 3. [`mod@prove`]: each party proves one inner product to the other two, in a few rounds, with messages of
//!    up to 700 kilobytes in all.

mod carryless;
pub mod cube;
pub mod extension;
pub mod galois;
pub mod gates;
pub mod hops;
pub mod log;
pub mod prove;
pub mod statements;

#[cfg(test)]
mod tests;
