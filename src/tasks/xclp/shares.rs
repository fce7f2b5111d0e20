//! XCLP on replicated shares among three computing parties (spec, section 15e). No peer sees a distance, the
//! graph or a label of others, not even the computing parties.
//!
//! The computation of each party is in the package `flyswarm-mpc`. [`Party`] is the machine that runs it: it
//! sends a round's messages as frames to the other two parties.

pub(crate) mod party;

pub(crate) use flyswarm_mpc::shares::{Keys, input, output, program, round};

pub(crate) use party::{Party, Turn};

#[cfg(test)]
mod tests;
