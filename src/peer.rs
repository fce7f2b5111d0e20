//! A peer of a session.
//!
//! [`Peer::builder`] takes a session and an identity. [`Builder::join`] starts the node on its own threads,
//! and returns when the network of the node is up. [`Peer::events`] streams the events, [`Peer::result`]
//! waits for the end, and [`Peer::leave`] ends the node early. The futures work with any async runtime.

mod budget;
mod builder;
mod event;
mod journal;
mod node;
mod own_rows;
mod receipt;
mod same_rows;
mod signals;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::Stream;
use futures::channel::oneshot;
use tokio::sync::watch;

use crate::crypto::identity::{Identity, PublicKey};
use crate::data::DataError;
use crate::ledger::LedgerError;
use crate::net::driver::{self, DriverError};
use crate::session::{Session, SessionError};
use crate::tasks::Outcome;

pub use crate::net::{Multiaddr, NetworkKey};
pub use crate::node::Ending;
pub use budget::Budget;
pub use builder::{Builder, MakeInterpose};
#[cfg(feature = "cli")]
pub(crate) use builder::{mark_file, not_built_in, state_folder};
pub use event::{Event, Timed};
#[cfg(test)]
pub(crate) use node::told;
pub use own_rows::{LeftOut, OwnRows};
pub use receipt::{Committee, DataDigest, Disagreement, Named, Opened, Receipt, Spent};
pub use signals::leave_on_signals;
#[cfg(feature = "cli")]
pub(crate) use signals::wait_for_signal;
pub(crate) use status::{Status, Watched};

/// A running node of a session. The node leaves when this value is dropped.
#[derive(Debug)]
pub struct Peer {
    id: PublicKey,
    handle: Handle,
    reader: journal::Reader,
    status: Option<watch::Receiver<Status>>,
    result: oneshot::Receiver<Result<Finished, Error>>,
}

/// Outcome of a session at one peer.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Result, or `None` for a peer without rows.
    pub outcome: Option<Outcome>,
    /// Record of the session that the peer can show later.
    pub receipt: Receipt,
}

/// Reasons why a peer has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session breaks a rule.
    #[error(transparent)]
    Session(Arc<SessionError>),
    /// The roster of the session does not contain the identity.
    #[error("{peer} is not in the roster of {session}")]
    NotInRoster {
        /// Public key of the identity.
        peer: PublicKey,
        /// Name of the session.
        session: String,
    },
    /// The rows do not fit the session.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The ledger does not allow the session, or cannot be used.
    #[error(transparent)]
    Ledger(Arc<LedgerError>),
    /// Another input does not fit the session.
    #[error("{0}")]
    Input(String),
    /// The session could not be finished.
    #[error("{ending}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Ended {
        /// Reason of the end.
        ending: Ending,
        /// Advice, which may be empty.
        hint: &'static str,
    },
    /// The disk, the network or the memory of this machine is not sufficient.
    #[error("{0}")]
    Environment(String),
    /// The peer left on request before it had a result. Its state is kept, so it can join again.
    #[error("{0}")]
    Left(String),
}

/// Reasons why a peer cannot join with its rows.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The rows have a wrong number of features.
    #[error("{found} features, the session has {expected}")]
    Features {
        /// Number of features of the rows.
        found: usize,
        /// Number of features in the session.
        expected: u32,
    },
    /// The number of labels differs from the number of rows.
    #[error("{labels} labels for {rows} rows")]
    Labels {
        /// Number of labels.
        labels: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A row has no label.
    #[error("row {row} has no label, and the task needs one")]
    Unlabelled {
        /// Number of the row, from 0.
        row: usize,
    },
    /// A label is not the index of a class.
    #[error("row {row} has label {label}, the session has {classes} classes")]
    Class {
        /// Number of the row, from 0.
        row: usize,
        /// Label of the row.
        label: u16,
        /// Number of classes.
        classes: usize,
    },
    /// The values cannot be used.
    #[error(transparent)]
    Data(Arc<DataError>),
}

impl From<DataError> for RowsError {
    fn from(error: DataError) -> Self {
        Self::Data(Arc::new(error))
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match error {
            DriverError::Address(..) => Self::Input(text),
            DriverError::Store(error) if error.is_input() => Self::Input(text),
            DriverError::Store(_) | DriverError::Net(_) | DriverError::Restore(_) => Self::Environment(text),
            DriverError::Ended(ending) => Self::Ended { ending, hint: "" },
            DriverError::Stopped => Self::Left(text),
        }
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        Self::Session(Arc::new(error))
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(Arc::new(error))
    }
}

impl Peer {
    /// Builds a peer of `session` that owns `identity`.
    pub fn builder(session: Session, identity: Identity) -> Builder {
        Builder::new(session, identity)
    }

    /// Streams all events of this peer from the start. It may be called again. The stream ends when the node
    /// ends.
    pub fn events(&self) -> impl Stream<Item = Timed> + Send + Unpin + use<> {
        self.reader.stream()
    }

    /// Returns the status of this peer, updated twice a second, or `None` if [`Builder::watched`] did not
    /// enable it.
    pub(crate) fn status(&self) -> Option<watch::Receiver<Status>> {
        self.status.clone()
    }

    /// Waits until this peer has its result and the other peers no longer need this peer. After the result,
    /// this takes at most the session's `linger_ms`.
    ///
    /// # Errors
    /// [`Error`]. The stored state is kept, and the peer can join again.
    pub async fn result(mut self) -> Result<Finished, Error> {
        (&mut self.result).await.unwrap_or_else(|_| Err(node::panicked()))
    }

    /// Leaves now and waits for the end. Returns the result if the peer already has one.
    ///
    /// # Errors
    /// The errors of [`Peer::result`]; [`Error::Left`] if there is no result yet.
    pub async fn leave(self) -> Result<Finished, Error> {
        self.handle.leave();
        self.result().await
    }

    /// Returns the public key of this peer's identity.
    #[must_use]
    pub fn id(&self) -> PublicKey {
        self.id
    }

    /// Returns a handle for other tasks and threads.
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

/// A handle that controls a running peer from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    driver: driver::Handle,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Makes a handle for a driver that watches `stop`.
    pub(crate) fn new(driver: driver::Handle, stop: Arc<AtomicBool>) -> Self {
        Self { driver, stop }
    }

    /// Adds an address at which a peer of the roster can be reached.
    pub fn add_address(&self, peer: &PublicKey, address: Multiaddr) {
        self.driver.add_address(driver::peer_id(peer), address);
    }

    /// Requests leaving. Returns true if it was already requested.
    pub fn leave(&self) -> bool {
        let before = self.stop.swap(true, Ordering::AcqRel);
        self.driver.wake();
        before
    }
}

/// Returns the seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "events and receipts say when")]
pub(crate) fn unix() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
