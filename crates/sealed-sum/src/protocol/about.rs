//! The text of a node for a peer of its roster that asks (spec, section 6.1): enough to say why a session
//! would not start.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::message::VERSION;
use super::{Fault, wire};
use crate::session::Settings;

/// The purpose of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It takes part in the session.
    Join,
    /// It looks whether a session could start, and leaves.
    Doctor,
}

/// A node about itself. Canonically encoded as bincode (spec, section 2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`VERSION`] of the messages it understands.
    pub version: u16,
    /// Id of its session file.
    pub session: [u8; 32],
    /// The purpose of the node.
    pub role: Role,
    /// The fields of the session, as in [`super::message::Message::Fields`].
    pub fields: Vec<(String, [u8; 8])>,
}

impl About {
    /// The text of a node with this session file.
    #[must_use]
    pub fn new(session: &Settings, role: Role) -> Self {
        Self { version: VERSION, session: session.id.0, role, fields: session.fields.clone() }
    }

    /// The encoding.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        wire::canonical(self).into()
    }

    /// The reverse.
    ///
    /// # Errors
    /// [`Fault`] where the bytes are not exactly one such item.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        wire::decode_item(bytes)
    }

    /// The fields in which the sender's session file differs from this one; empty where the sessions are the
    /// same.
    #[must_use]
    pub fn differs_from(&self, session: &Settings) -> Vec<String> {
        if self.session == session.id.0 { Vec::new() } else { session.differing_fields(&self.fields) }
    }
}
