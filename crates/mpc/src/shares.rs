//! XCLP on replicated shares among three computing members, here called *parties* 0, 1 and 2 (spec,
//! section 15e). No peer sees a distance, the graph or another owner's label, not even a party.
//!
//! A value x is the sum of three *shares*, x = x_0 + x_1 + x_2 (Araki, Furukawa, Lindell, Nof & Ohara,
//! *High-Throughput Semi-Honest Secure Three-Party Computation with an Honest Majority*, CCS 2016). Party
//! i holds shares i and i + 1 (mod 3). So any two parties together hold all of x, and one party alone
//! learns nothing about it. Keys are distributed in the same way: parties i and i - 1 hold key i.
//! Additions are local. A product is local except for one *reshare*: each party sends one word, masked
//! with a sum of zero that the three keys generate.
//!
//! The result equals [`crate::propagation::integer`] bit for bit:
//!
//! 1. [`input`]: bits of codes and labels become integers, after the holders of a share have compared
//!    copies;
//! 2. [`distances`]: Hamming distances and their bits;
//! 3. [`nearest`]: the exact k nearest by radix selection, ties by index;
//! 4. [`shuffle`]: the edges, found under secret permutations of each row, get weights by [`lookup`];
//! 5. [`newton`]: reciprocals of the degrees; [`balance`]: weights of classes, if the classes are
//!    balanced;
//! 6. [`chebyshev`]: propagation, with one exact truncation per step;
//! 7. [`output`]: labels, and scores in steps of 2^-6 of the sum of their row.
//!
//! **The program is written once, as straight-line code.** Every stage is an `async fn` over a
//! [`Context`]. It can only wait for the end of a round ([`round`]): it uses no runtime, no clock and
//! no socket. The compiler turns it into a state machine, which `tasks::xclp::shares::Party` of the
//! package `flyswarm` drives. The messages of a round are sent as one sequence of frames to each of the
//! other two parties. The program continues when the messages of both have arrived. Parts that run in
//! parallel ([`round::together`]) share rounds.

pub mod accounts;
pub mod balance;
pub mod bits;
pub mod cells;
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
pub mod proofs;
pub mod quantiles;
pub mod ring;
pub mod round;
pub mod shuffle;
pub mod truncate;

pub use context::{Context, Keys, Stage};
pub use memory::in_memory;
pub use ring::{Bits, Ring, Shared, Xor};

#[cfg(test)]
mod tests;
