//! What flyswarm computes with: rows of data, cryptography, privacy, sketches and models. The package
//! `flyswarm` shows these modules as its own; use them from there.
//!
//! Imports go one way: `data, crypto, privacy < sketch < model`.

pub mod crypto;
pub mod data;
pub mod model;
pub mod privacy;
pub mod sketch;
