//! Messages to bytes and back (spec, section "Frames").
//!
//! A frame is a header and a payload. The header is the message in bincode 2's `standard` configuration,
//! without its bulk bytes; the payload is those bytes, raw. Decoding is strict: bounded before it allocates,
//! no bytes left over, no payload where none belongs, and only on the message's own channel. bincode accepts
//! integers that are longer than needed, so a header is not canonical: what is signed or hashed is encoded
//! anew with [`canonical`].

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Fault;
use super::message::{Channel, Message};

/// Largest frame, header and payload together, in bytes. Yamux in Rust refuses larger pieces (facts.md).
pub const MAX_FRAME: usize = 1024 * 1024;

/// A message as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// On which stream.
    pub channel: Channel,
    /// The encoded message.
    pub header: Bytes,
    /// Its bulk bytes, empty for most.
    pub payload: Bytes,
}

/// What a decoded frame may take in memory: a list's items are up to a few times longer there than on the
/// wire, and every frame within [`MAX_FRAME`] must decode.
const MAX_DECODED: usize = 4 * MAX_FRAME;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_DECODED>()
}

/// The one encoding of `item` that signatures and hashes are made over.
#[must_use]
pub fn canonical<T: Serialize>(item: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(item, bincode::config::standard())
        .unwrap_or_else(|error| unreachable!("BUG: protocol items always encode: {error}"))
}

/// Encodes a message.
#[must_use]
pub fn encode(message: &Message) -> Frame {
    Frame { channel: message.channel(), header: canonical(message).into(), payload: message.payload() }
}

/// Decodes any protocol item that must fill `bytes` exactly.
pub fn decode_item<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    if bytes.len() > MAX_FRAME {
        return Err(Fault::Malformed(format!("{} bytes, the limit is {MAX_FRAME}", bytes.len())));
    }
    let (item, used) = bincode::serde::decode_from_slice(bytes, config())
        .map_err(|error| Fault::Malformed(error.to_string().replace('\n', " ")))?;
    if used != bytes.len() {
        return Err(Fault::Malformed(format!("{} bytes left over", bytes.len() - used)));
    }
    Ok(item)
}

/// Decodes a frame that came on `channel`.
pub fn decode(channel: Channel, header: &[u8], payload: Bytes) -> Result<Message, Fault> {
    let mut message: Message = decode_item(header)?;
    if message.channel() != channel {
        return Err(Fault::Malformed(format!("message of the other channel on {channel:?}")));
    }
    match message.payload_mut() {
        Some(data) => *data = payload,
        None if payload.is_empty() => {}
        None => return Err(Fault::Malformed(format!("{} payload bytes where none belong", payload.len()))),
    }
    Ok(message)
}
