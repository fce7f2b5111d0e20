//! Peer ids and addresses of a session's peers and relays, in the types of the network.

use libp2p::identity::ed25519;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};

use super::DriverError;
use crate::crypto::identity::PublicKey;
use crate::session::{Entry, Session};

/// Returns the peer ids and addresses of a session's peers, in the order of the roster.
///
/// # Errors
/// If an address of the session file is invalid.
pub(crate) fn roster(session: &Session) -> Result<Vec<(PeerId, Vec<Multiaddr>)>, DriverError> {
    let parsed = |entry: &Entry| {
        let parse = |text: &String| {
            text.parse().map_err(|error: libp2p::multiaddr::Error| {
                DriverError::Address(text.clone(), entry.name.clone(), error.to_string())
            })
        };
        Ok((peer_id(&entry.key), entry.addresses.iter().map(parse).collect::<Result<_, _>>()?))
    };
    session.roster.iter().map(parsed).collect()
}

/// Returns the relays of a session: peer id and address.
///
/// # Errors
/// If an address is invalid.
pub(crate) fn relays(session: &Session) -> Result<Vec<(PeerId, Multiaddr)>, DriverError> {
    let parsed = |text: &String| {
        let wrong = |why: String| DriverError::Address(text.clone(), "a relay".to_owned(), why);
        let mut address: Multiaddr = text.parse().map_err(|error| wrong(format!("{error}")))?;
        match address.pop() {
            Some(Protocol::P2p(relay)) => Ok((relay, address)),
            _ => Err(wrong("it does not end with the relay's peer id".to_owned())),
        }
    };
    session.relays.iter().map(parsed).collect()
}

/// Returns the libp2p peer id of an identity.
#[must_use]
pub fn peer_id(key: &PublicKey) -> PeerId {
    let key = ed25519::PublicKey::try_from_bytes(key.as_bytes())
        .unwrap_or_else(|_| unreachable!("BUG: a PublicKey is a valid point"));
    libp2p::identity::PublicKey::from(key).to_peer_id()
}
