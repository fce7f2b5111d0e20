//! Oblivious transfer, secure against peers that follow the protocol (spec, section "Oblivious transfer").
//!
//! A *receiver* has choice bits r_0, r_1, .., and a *sender* has vectors d_j of `width` words mod 2^16.
//! They get additive shares of r_j d_j: the sender gets a uniform vector p_j, and the receiver gets
//! p_j + r_j d_j. Neither learns anything about the other's input.
//!
//! 1. 128 [`base`] transfers, with the roles swapped: the extension's receiver gets 128 pairs of keys,
//!    and its sender gets one key of each pair.
//! 2. The [`extension`] makes any number of transfers from these keys, with symmetric cryptography
//!    only.
//!
//! Every key is bound to a *context* of 32 bytes, which must never be used twice.

pub mod base;
pub mod extension;

/// Number of base transfers: the security parameter of the extension.
pub const BASE: usize = 128;
/// Number of transfers in one word of the bit matrices.
pub const WORD: usize = 64;

#[cfg(test)]
mod tests;
