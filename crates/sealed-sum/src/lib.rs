//! The sealed sum: identities, key agreement, secret sharing, envelopes, streams and masks.
//! An internal package: programs use `flyswarm`, and nothing here is kept stable.

pub mod crypto;
#[doc(hidden)]
pub mod files;
