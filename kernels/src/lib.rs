//! What flyswarm computes with: rows of data, cryptography, privacy, sketches, models, networks and programs
//! on shares. An internal package: programs use `flyswarm`, and nothing here is kept stable.
//!
//! Imports go one way: `data, crypto, privacy < sketch < synthetic, model < shares, learner < personal`;
//! `files` stands below all.

pub mod crypto;
pub mod data;
#[doc(hidden)]
pub mod files;
pub mod learner;
pub mod model;
pub mod personal;
pub mod privacy;
pub mod shares;
pub mod sketch;
pub mod synthetic;
