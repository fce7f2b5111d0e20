//! flyswarm: federated learning with no central aggregator.
//!
//! data -> sketch -> protocol -> model -> prediction. Imports go one way:
//! `data, crypto, privacy < sketch < model < evaluate, session < protocol < node < net, sim < cli`.
//! The modules up to `model` are the package `flyswarm-kernels`.

// What only the command needs.
#![cfg_attr(not(all(feature = "cli", feature = "net")), allow(dead_code, unused_imports))]

mod buffers;
#[cfg(feature = "cli")]
pub mod cli;
pub mod evaluate;
pub mod ledger;
#[cfg(feature = "net")]
pub mod net;
pub mod node;
#[cfg(feature = "net")]
pub mod peer;
pub mod protocol;
pub mod session;
pub mod sim;
pub mod store;
pub mod task;

#[doc(inline)]
pub use flyswarm_kernels::{crypto, data, model, privacy, sketch};

use flyswarm_kernels::files;
