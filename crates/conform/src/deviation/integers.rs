//! Encodes a message so that every integer has the longest encoding of its type (spec, section 2).

use crate::fields::fields;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::wire::canonical;

/// Returns the header of a message in its longest form.
pub(super) fn longest(message: &Message) -> Vec<u8> {
    let bytes = canonical(message);
    let mut out = Vec::new();
    for field in fields(message) {
        let short = &bytes[field.at];
        match field.width {
            Some(width) => {
                let value = if short.len() == 1 { short } else { &short[1..] };
                // The bytes 251, 252 and 253 announce 2, 4 and 8 bytes.
                out.push(match width {
                    2 => 251,
                    4 => 252,
                    _ => 253,
                });
                out.extend_from_slice(value);
                out.resize(out.len() + width - value.len(), 0);
            }
            None => out.extend_from_slice(short),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::traces::tests::all;
    use flyswarm::protocol::wire::decode;

    #[test]
    fn the_longest_form_of_every_message_is_longer_and_says_the_same() {
        for (what, message) in all() {
            let long = longest(&message);
            assert!(long.len() > canonical(&message).len(), "{what}");
            let read = decode(message.channel(), &long, message.payload());
            assert_eq!(read.as_ref(), Ok(&message), "{what}");
            let cut = decode(message.channel(), &long[..long.len() - 1], Bytes::new());
            assert!(cut.is_err(), "{what}");
        }
    }
}
