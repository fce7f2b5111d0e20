//! flyswarm: federated learning with no central aggregator.
//!
//! data -> sketch -> protocol -> model -> prediction. Imports go one way:
//! `data, crypto, privacy < sketch < model < evaluate, session < protocol < node < net, sim < cli`.

mod buffers;
pub mod cli;
pub mod crypto;
pub mod data;
pub mod evaluate;
mod files;
pub mod ledger;
pub mod model;
#[cfg(feature = "net")]
pub mod net;
pub mod node;
pub mod privacy;
pub mod protocol;
pub mod session;
pub mod sim;
pub mod sketch;
pub mod store;
pub mod task;
