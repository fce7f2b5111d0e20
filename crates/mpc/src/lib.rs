//! Computation on secret data: label propagation on shares among three computing members (here called
//! *parties* 0, 1 and 2), and distances between pairs of owners by oblivious transfer or homomorphic
//! encryption. This is an internal package: programs use `flyswarm`, and nothing here is a stable
//! interface.
//!
//! Assumptions: AES under a public key, in [`ot`], is a random permutation; Ring-LWE is hard for the
//! parameters of [`phe`]. [`propagation`] is the same computation in the clear.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod lanes;
pub mod ot;
pub mod phe;
pub mod product;
pub mod propagation;
pub mod shares;
