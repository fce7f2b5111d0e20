//! A peer of a session: the front door of this crate.
//!
//! [`Peer::builder`] takes a session and an identity. [`Builder::join`] starts the node on threads of its own
//! and returns when its network is up. [`Peer::events`] tells what happens, [`Peer::result`] waits for the
//! end, [`Peer::leave`] ends it early. The futures need no particular runtime.

mod budget;
mod builder;
mod event;
mod journal;
mod node;
mod receipt;
mod signals;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::Stream;
use futures::channel::oneshot;
use tokio::sync::watch;

use crate::crypto::identity::{Identity, PublicKey};
use crate::net::Multiaddr;
use crate::net::driver::{self, DriverError};
use crate::session::Session;
use crate::tasks::Outcome;

pub use budget::Budget;
pub use builder::{Builder, MakeInterpose};
#[cfg(feature = "cli")]
pub(crate) use builder::{mark_file, not_built_in, state_folder};
pub use event::{Event, Timed};
pub use receipt::{Council, DataDigest, Opened, Place, Receipt, Spent};
pub use signals::leave_on_signals;
#[cfg(feature = "cli")]
pub(crate) use signals::wait_for_signal;
pub(crate) use status::{Status, Watched};

/// A running node of a session. Dropped, it leaves.
#[derive(Debug)]
pub struct Peer {
    id: PublicKey,
    handle: Handle,
    reader: journal::Reader,
    status: Option<watch::Receiver<Status>>,
    result: oneshot::Receiver<Result<Finished, Error>>,
}

/// What a session came to at one peer.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The result; `None` for a peer without rows.
    pub outcome: Option<Outcome>,
    /// What the peer can show of the session.
    pub receipt: Receipt,
}

/// Why a peer has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that was given is wrong, or does not fit the session.
    #[error("{0}")]
    Input(String),
    /// The session could not be finished: too few peers, too many failed views, refused by its rules.
    #[error("{0}")]
    Session(String),
    /// The disk or the network of this machine failed.
    #[error("{0}")]
    Machine(String),
    /// The peer was told to leave before it had a result. Its state is kept: it can join again.
    #[error("{0}")]
    Left(String),
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match error {
            DriverError::Address(..) | DriverError::Ended(crate::node::Ending::Own(_)) => Self::Input(text),
            DriverError::Store(error) if error.is_input() => Self::Input(text),
            DriverError::Store(_) | DriverError::Net(_) | DriverError::Restore(_) => Self::Machine(text),
            DriverError::Ended(_) => Self::Session(text),
            DriverError::Stopped => Self::Left(text),
        }
    }
}

impl Peer {
    /// A peer of `session` that owns `identity`.
    pub fn builder(session: Session, identity: Identity) -> Builder {
        Builder::new(session, identity)
    }

    /// Everything that happens to this peer, from the start on; may be called again. The stream ends with the
    /// node.
    pub fn events(&self) -> impl Stream<Item = Timed> + Send + Unpin + use<> {
        self.reader.stream()
    }

    /// What this peer is at, twice a second; `None` unless [`Builder::watched`] said so.
    pub(crate) fn status(&self) -> Option<watch::Receiver<Status>> {
        self.status.clone()
    }

    /// Waits until this peer has its result and the others do not need it any more, at most the session's
    /// `linger_ms` longer.
    ///
    /// # Errors
    /// [`Error`]; what was stored is kept, and the peer can join again.
    pub async fn result(mut self) -> Result<Finished, Error> {
        (&mut self.result).await.unwrap_or_else(|_| Err(node::panicked()))
    }

    /// Leaves now and waits for the end. A result that is there already is given.
    ///
    /// # Errors
    /// As [`Peer::result`]; [`Error::Left`] where there is no result yet.
    pub async fn leave(self) -> Result<Finished, Error> {
        self.handle.leave();
        self.result().await
    }

    /// The public half of this peer's identity.
    #[must_use]
    pub fn id(&self) -> PublicKey {
        self.id
    }

    /// A handle for other tasks and threads.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.handle.leave();
    }
}

/// Steers a running peer from anywhere.
#[derive(Clone, Debug)]
pub struct Handle {
    driver: driver::Handle,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Of a driver that looks at `stop`.
    pub(crate) fn new(driver: driver::Handle, stop: Arc<AtomicBool>) -> Self {
        Self { driver, stop }
    }

    /// Tells where a peer of the roster can be reached.
    pub fn add_address(&self, peer: &PublicKey, address: Multiaddr) {
        self.driver.add_address(driver::peer_id(peer), address);
    }

    /// Makes the peer leave; whether it had been told so before.
    pub fn leave(&self) -> bool {
        let before = self.stop.swap(true, Ordering::AcqRel);
        self.driver.wake();
        before
    }
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "events and receipts say when")]
pub(crate) fn unix() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
