//! Computing on what nobody sees: label propagation on shares among three parties, and distances in pairs by
//! oblivious transfer or homomorphic encryption.
//! An internal package: programs use `flyswarm`, and nothing here is kept stable.
//!
//! Assumptions: AES under a public key, in [`ot`], as a random permutation; Ring-LWE with the parameters of
//! [`phe`]. [`propagation`] is what the parties compute, in the clear.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod lanes;
pub mod ot;
pub mod phe;
pub mod product;
pub mod propagation;
pub mod shares;
