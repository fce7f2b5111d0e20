//! Answer of a node to a peer of its roster (spec, section 6.1). It is enough to explain why a session
//! would not start.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::message::VERSION;
use super::{Fault, wire};
use crate::session::Settings;

/// Purpose of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The node takes part in the session.
    Join,
    /// The node checks whether a session could start, and leaves.
    Doctor,
}

/// Description of a node. Canonically encoded as bincode (spec, section 2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`VERSION`] of the messages that the node understands.
    pub version: u16,
    /// Id of the node's session file.
    pub session: [u8; 32],
    /// Purpose of the node.
    pub role: Role,
    /// Fields of the session, as in [`super::message::Message::Fields`].
    pub fields: Vec<(String, [u8; 8])>,
}

impl About {
    /// Makes the description of a node with this session file.
    #[must_use]
    pub fn new(session: &Settings, role: Role) -> Self {
        Self { version: VERSION, session: session.id.0, role, fields: session.fields.clone() }
    }

    /// Returns the encoding.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        wire::canonical(self).into()
    }

    /// Decodes a description.
    ///
    /// # Errors
    /// [`Fault`] if the bytes are not exactly one description.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        wire::decode_item(bytes)
    }

    /// Returns the fields that differ between the sender's session file and this one. Empty if the
    /// sessions are the same.
    #[must_use]
    pub fn differs_from(&self, session: &Settings) -> Vec<String> {
        if self.session == session.id.0 { Vec::new() } else { session.differing_fields(&self.fields) }
    }
}
