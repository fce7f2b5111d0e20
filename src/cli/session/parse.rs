//! Parses arguments of `session new`.

use std::str::FromStr;

use crate::crypto::identity::PublicKey;
use crate::session::Entry;

/// Returns the integers from FIRST to LAST, both included, if the text is FIRST..LAST and has 2 to 10,000
/// integers; otherwise `None`.
pub(super) fn class_range(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
    // The rules of a session have a lower limit for the number of classes.
    let some = (1..=9_999).contains(&last.checked_sub(first)?);
    some.then(|| (first..=last).map(|class| class.to_string()).collect())
}

/// The argument `NAME=PEERID[@MULTIADDR]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PeerArgument(pub(super) Entry);

impl FromStr for PeerArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or("must be NAME=PEERID[@MULTIADDR]")?;
        let (id, address) = rest.split_once('@').map_or((rest, None), |(id, address)| (id, Some(address)));
        let key: PublicKey =
            id.parse().map_err(|error: crate::crypto::identity::KeyError| error.to_string())?;
        Ok(Self(Entry { key, name: name.into(), addresses: address.into_iter().map(Into::into).collect() }))
    }
}
