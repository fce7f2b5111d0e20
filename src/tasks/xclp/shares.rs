//! XCLP on replicated shares among three computing parties (spec, section 15e): nobody, not even those who
//! compute, sees a distance, the graph or a label of others.
//!
//! What each party computes is the package `flyswarm-mpc`, [`Party`] is the
//! machine that carries it: a round's messages as frames to the other two parties.

pub(crate) mod party;

pub(crate) use flyswarm_mpc::shares::{Keys, input, output, program, round};

pub(crate) use party::{Party, Turn};

#[cfg(test)]
mod tests;
