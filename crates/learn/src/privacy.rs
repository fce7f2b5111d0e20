//! Differential privacy for integer counts: exact samplers, and the mechanisms that are made of them.
//!
//! Every draw here has exactly the distribution that its proof is about. Noise made with floating-point
//! numbers has not: which floats can come out depends on the true count, and tells it (Mironov, "On
//! significance of the least significant bits for differential privacy", CCS 2012). So parameters are
//! [ratios](ratio::Ratio) of integers, uniform integers the only source of randomness, and probabilities such
//! as exp(-a/b) are met by accepting and rejecting, never by computing them in binary64.
//!
//! Randomness is an argument. It must come from a generator that was seeded by the operating system: whoever
//! can guess it takes the noise off. Nothing here runs in constant time: how long a draw takes depends on
//! what is drawn, and for the selection on the counts. A peer computes on its own machine and sends one
//! release, so what others could time is the whole computation of a vector; sessions in which that matters
//! need another implementation.
//!
//! The crate `opendp` (0.16) has exact samplers as well. It draws its randomness itself, from OpenSSL (a
//! vendored build in C) or from the thread's generator, so that neither a simulation nor a test with a stated
//! false-alarm rate could be repeated; it has no Polya distribution, which shared noise needs; its top-k
//! selection is permute-and-flip, not the exponential mechanism of the paper; and it brings a second library
//! of large integers. What is needed of it are the few pages below.

#[cfg(test)]
mod audit;
mod exponential;
pub mod gaussian;
pub mod mechanism;
mod polya;
pub mod ratio;
pub mod sampler;
pub mod selection;
#[cfg(test)]
mod tests;

pub use gaussian::discrete_gaussian;
pub use polya::{polya, share};
pub use ratio::Ratio;
pub use sampler::discrete_laplace;
pub use selection::select;
