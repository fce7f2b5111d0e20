//! Oblivious transfer, against peers that follow the protocol (spec, section "Oblivious transfer").
//!
//! A *receiver* with choice bits r_0, r_1, .. and a *sender* with vectors d_j of words mod 2^16, both of
//! `width` words, get additive shares of r_j d_j: the sender a uniform p_j, the receiver p_j + r_j d_j.
//! Neither learns anything of what the other has put in.
//!
//! 1. 128 [`base`] transfers, in which the roles are turned round: the extension's receiver gets 128 pairs of
//!    keys, the sender one of each pair.
//! 2. The [`extension`] makes as many transfers of them as are needed, with symmetric cryptography alone.
//!
//! Every key is bound to a *context* of 32 bytes, which must never serve twice.

pub mod base;
pub mod extension;

/// Base transfers: the security parameter of the extension.
pub const BASE: usize = 128;
/// Transfers in a row of the bit matrices, at a time.
pub const WORD: usize = 64;

#[cfg(test)]
mod tests;
