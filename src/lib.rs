//! Federated learning with no central aggregator.
//!
//! Several peers, for example hospitals, have private rows. A *session file* names the peers and the
//! computation. The peers find each other and agree on a seed that no peer can choose. They sum their vectors
//! in such a way that only the sum is opened. The result of a session is a classifier
//! ([FlyNN](tasks::FlynnSpec)), its best settings ([`tasks::TuneSpec`]), labels for the rows of all peers
//! ([`tasks::XclpSpec`]), a sketch of the distribution ([`tasks::SketchSpec`]), a network that is trained in
//! rounds ([`tasks::FedavgSpec`]), statistics ([`tasks::SummarySpec`]) or a regression ([`tasks::GlmSpec`]).
//! The specification, `protocol-spec.md`, lists the data that each peer can see.
//!
//! # Take part in a session
//!
//! ```no_run
//! use flyswarm::{Identity, Model, Peer, Session};
//! use futures::StreamExt;
//! use ndarray::Array2;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::load("wards.toml")?;
//! let identity = Identity::load("wards.key")?;
//! // One row per patient, and the index of its class in the list of the session.
//! let features = Array2::<f32>::zeros((200, 30));
//! let labels = vec![Some(0); 200];
//! let peer =
//!     Peer::builder(session, identity).key_file("wards.key").data(features, labels).join().await?;
//!
//! let mut events = peer.events();
//! let result = tokio::spawn(peer.result());
//! while let Some(event) = events.next().await {
//!     println!("{:.3} {}", event.time, event.event);
//! }
//!
//! let finished = result.await??;
//! println!("{}", finished.receipt.own_rows);
//! if let Some(outcome) = finished.outcome {
//!     Model::decode(&outcome.file)?.save("wards.model".as_ref())?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Make a session
//!
//! [`Session::builder`] checks the same rules as a file, and [`Session::save`] writes the file:
//!
//! ```
//! use flyswarm::session::Score;
//! use flyswarm::tasks::ModelSpec;
//! use flyswarm::{Identity, Session};
//!
//! let model = ModelSpec { m: 1024, s: 2, rho: 16, gamma: 0.9, score: Score::BalancedLog };
//! let mut wards = Session::builder("wards", model).features(30).classes(["well", "ill"]);
//! for (seed, name) in (0..).zip(["north", "south", "east"]) {
//!     wards = wards.peer(name, Identity::from_seed([seed; 32]).public());
//! }
//! let session = wards.build()?;
//! # Ok::<(), flyswarm::session::SessionError>(())
//! ```
//!
//! # Examples
//!
//! Each example is one page long, and a test runs it: `examples/join.rs` takes part in a session,
//! `examples/make_session.rs` makes a session, and `examples/own_task.rs` defines its own task
//! ([`tasks::Task`]).
//!
//! # Use the model
//!
//! ```no_run
//! use flyswarm::Model;
//! use ndarray::Array2;
//!
//! # fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::load("wards.model".as_ref())?;
//! let rows = Array2::<f32>::zeros((3, 30));
//! for class in model.predict(rows.view())? {
//!     println!("{}", model.classes()[usize::from(class)]);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | module | for |
//! |---|---|
//! | [`peer`] | taking part in a session: events, result, receipt, leaving |
//! | [`session`] | session files: peers, task, limits |
//! | [`data`] | rows of data from files and arrays |
//! | [`model`] | the classifier and its file |
//! | [`tasks`] | computations of sessions; the trait [`tasks::Task`] for your own task |
//! | [`ledger`] | budget that private sessions have spent |
//!
//! # Features
//!
//! `net` (on by default) is the libp2p node; without it the crate has no module `peer`. `cli` (on by default)
//! is the `flyswarm` command; turn it off to use only the library. `internals` (part of `cli`) makes the
//! protocol, the node and the simulator available to the tests and tools of this repository. These are not a
//! stable API.

// `println!` and `eprintln!` panic if their output cannot be written; `cli/console.rs` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]
// A module imports only from modules before it in this order: `data, model < session < protocol < node < net,
// sim < peer < cli`. The crates in `crates/` come before all of these, in the order `sealed-sum < data <
// learn < mpc`; `data` and `model` re-export parts of them. Items that no other program needs are
// `pub(crate)`.

// Docs of public items may link to internal items, whose pages `cargo doc --document-private-items` makes.
#![allow(rustdoc::private_intra_doc_links)]
// Without the command, the items that only it uses are dead code.
#![cfg_attr(not(all(feature = "cli", feature = "net")), allow(dead_code, unreachable_pub, unused_imports))]

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod data;
#[cfg(all(feature = "cli", feature = "net"))]
mod doctor;
mod html;
#[cfg(feature = "net")]
mod http;
pub mod ledger;
mod memory;
pub mod model;
#[cfg(all(feature = "internals", feature = "net"))]
#[doc(hidden)]
pub mod net;
#[cfg(all(not(feature = "internals"), feature = "net"))]
mod net;
#[cfg(feature = "net")]
pub mod peer;
mod report;
pub mod session;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod sim;
#[cfg(not(feature = "internals"))]
mod sim;
mod store;
pub mod tasks;

#[doc(no_inline)]
pub use crypto::identity::Identity;
#[doc(no_inline)]
pub use model::Model;
#[cfg(feature = "net")]
#[doc(no_inline)]
pub use peer::Peer;
#[doc(no_inline)]
pub use session::Session;

use flyswarm_learn::{privacy, sketch};
use flyswarm_sealed_sum::{buffers, crypto, files};
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use flyswarm_sealed_sum::{node, protocol};
#[cfg(not(feature = "internals"))]
use flyswarm_sealed_sum::{node, protocol};
