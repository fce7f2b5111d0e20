//! flyswarm: federated learning with no central aggregator.
//!
//! data -> sketch -> protocol -> model -> prediction. Imports go one way:
//! `data, crypto < sketch < model < session < protocol < node < net, sim < cli`.

pub mod cli;
pub mod crypto;
#[cfg(feature = "net")]
pub mod net;
