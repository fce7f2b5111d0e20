//! XCLP on replicated shares among three computing parties (spec, section 15e): nobody, not even those who
//! compute, sees a distance, the graph or a label of others.
//!
//! What each party computes is the package `flyswarm-kernels`, whose modules stand here too. [`Party`] is the
//! machine that carries it: a round's messages as frames to the other two parties.

pub mod party;

#[doc(inline)]
pub use flyswarm_kernels::shares::{
    Bits, Context, Keys, Ring, Shared, Stage, Xor, bits, chebyshev, context, distances, in_memory, input,
    lookup, memory, nearest, newton, output, permutation, primitives, program, ring, round, shuffle,
    truncate,
};

pub use party::{Party, Turn};

#[cfg(test)]
mod tests;
