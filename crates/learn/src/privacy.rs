//! Differential privacy for integer counts: exact samplers, and the mechanisms built on them.
//!
//! Every draw here has exactly the distribution that its proof assumes. Floating-point noise does not: the
//! set of possible floats depends on the true count and reveals it (Mironov, "On significance of the least
//! significant bits for differential privacy", CCS 2012). So parameters are [ratios](ratio::Ratio) of
//! integers, and uniform integers are the only source of randomness. Events with a probability such as
//! exp(-a/b) are drawn by rejection sampling, which never computes the probability in binary64.
//!
//! The source of randomness is an argument. It must be a generator seeded by the operating system, because an
//! attacker who can guess the random numbers can remove the noise. Nothing here runs in constant time: the
//! duration of a draw depends on the drawn value, and that of the selection also on the counts. A peer
//! computes on its own machine and sends one release. So others could only measure the time of the whole
//! computation of a vector. A session in which that matters needs another implementation.
//!
//! The crate `opendp` (0.16) has exact samplers as well, but does not fit, for four reasons. First, it draws
//! its randomness itself, from OpenSSL (a vendored build in C) or from the thread's generator. So neither a
//! simulation nor a test with a stated false-alarm rate could be repeated. Second, it has no Polya
//! distribution, which noise in shares needs. Third, its top-k selection is permute-and-flip, not the
//! exponential mechanism of the paper. Fourth, it brings a second library of large integers. The modules
//! below replace the parts that are needed.

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
