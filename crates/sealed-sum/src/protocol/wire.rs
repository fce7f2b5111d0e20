//! Messages to bytes and back (spec, section "Frames").
//!
//! A frame is a header and a payload. The header is the message in bincode 2's `standard` configuration,
//! without its bulk bytes. The payload is those raw bytes. Decoding is strict: allocation is bounded, no
//! bytes may be left over, only messages with bulk bytes may have a payload, and a message must come on
//! its own channel. bincode accepts integers that are longer than needed, so a header is not canonical:
//! signed or hashed data is encoded again with [`canonical`].

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Fault;
use super::message::{Channel, Message};

/// Largest frame, header and payload together, in bytes. Yamux in Rust refuses larger pieces.
pub const MAX_FRAME: usize = 1024 * 1024;

/// Message in its wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Stream.
    pub channel: Channel,
    /// Encoded message.
    pub header: Bytes,
    /// Bulk bytes, empty for most messages.
    pub payload: Bytes,
}

/// Returns the configuration for decoding. Integers count against the same limit as bytes, with their
/// size in memory (spec, section 2). No message comes near the limit.
fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_FRAME>()
}

/// Returns the unique encoding of `item` for signatures and hashes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_more_than_a_mebibyte_decoded_is_refused_however_short_it_is_encoded() {
        let numbers = |count: usize| decode_item::<Vec<u64>>(&canonical(&vec![0u64; count]));
        assert_eq!(numbers(130_000).map(|numbers| numbers.len()), Ok(130_000));
        assert!(matches!(numbers(132_000), Err(Fault::Malformed(_))));
        assert!(matches!(decode_item::<Vec<u8>>(&vec![0; MAX_FRAME + 1]), Err(Fault::Malformed(_))));
    }
}
