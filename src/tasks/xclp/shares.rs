//! XCLP on replicated shares among three computing members (spec, section 15e). No peer, not even a computing
//! member, sees a distance, the graph or a label of another peer.
//!
//! The computation itself is in the package `flyswarm-mpc`, which calls the computing members *parties* 0, 1
//! and 2. [`Party`] is the machine that runs the computation of one party. It sends the messages of each
//! round as frames to the other two.

pub(crate) mod party;

pub(crate) use flyswarm_mpc::shares::{Keys, input, output, program, round};

pub(crate) use party::{Party, Turn};

#[cfg(test)]
mod tests;
