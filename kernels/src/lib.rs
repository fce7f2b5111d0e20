//! What flyswarm computes with: rows of data, cryptography, privacy, sketches, models, networks and programs
//! on shares. The package `flyswarm` shows these modules as its own; use them from there.
//!
//! Imports go one way: `data, crypto, privacy < sketch < model < shares, learner`; `files` stands
//! below all.

pub mod crypto;
pub mod data;
#[doc(hidden)]
pub mod files;
pub mod learner;
pub mod model;
pub mod privacy;
pub mod shares;
pub mod sketch;
