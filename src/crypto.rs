//! Cryptography: identities, key agreement, secret sharing, sealed envelopes, streams and masks.
//!
//! Rules of this module: secrets print `<redacted>` and are wiped on drop; every hash and stream has a domain tag;
//! randomness is always an argument; nothing here knows of sockets, clocks or sessions.

pub mod stream;
