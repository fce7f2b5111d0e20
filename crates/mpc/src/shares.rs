//! XCLP on replicated shares among three computing parties (spec, section 15e): nobody, not even those who
//! compute, sees a distance, the graph or a label of others.
//!
//! A value x is the sum of three *shares*, x = x_0 + x_1 + x_2 (Araki, Furukawa, Lindell, Nof & Ohara,
//! *High-Throughput Semi-Honest Secure Three-Party Computation with an Honest Majority*, CCS 2016). Party i
//! holds shares i and i + 1 (mod 3), so that any two parties hold all of x and one alone holds nothing of it.
//! Keys go the same way: key i is held by parties i and i - 1. Additions are local; a product is local up to
//! one *reshare*, in which each party sends one word, masked by a sum of zero that the three keys make.
//!
//! What is computed equals [`crate::propagation::integer`] bit for bit:
//!
//! 1. [`input`]: bits of codes and labels become integers, once the holders of a share have compared copies;
//! 2. [`distances`], Hamming, and their bits;
//! 3. [`nearest`]: the exact k nearest by radix selection, ties by index;
//! 4. [`shuffle`]: the edges, found under secret permutations of each row, get weights by [`lookup`];
//! 5. [`newton`]: reciprocals of the degrees; [`balance`]: weights of classes, where they are balanced;
//! 6. [`chebyshev`]: propagation, one exact truncation a step;
//! 7. [`output`]: labels, and scores to 2^-6 of their row's sum.
//!
//! **The program is written once, as straight lines.** Every stage is an `async fn` over a [`Context`], and
//! the only thing it can wait for is the end of a round ([`round`]): no runtime, no clock, no socket. What
//! the compiler makes of it is a state machine; `tasks::xclp::shares::Party` of the package `flyswarm` drives
//! it: a round's messages go out as one sequence of frames to each of the other two, the program goes on when
//! both of theirs are there. Parts that run side by side ([`round::together`]) share rounds.

pub mod balance;
pub mod bits;
pub mod chebyshev;
pub mod context;
pub mod distances;
pub mod input;
pub mod lookup;
pub mod memory;
pub mod nearest;
pub mod newton;
pub mod output;
pub mod permutation;
pub mod primitives;
pub mod program;
pub mod ring;
pub mod round;
pub mod shuffle;
pub mod truncate;

pub use context::{Context, Keys, Stage};
pub use memory::in_memory;
pub use ring::{Bits, Ring, Shared, Xor};

#[cfg(test)]
mod tests;
