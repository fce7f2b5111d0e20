//! Words of the command line of `session new`.

use std::str::FromStr;

use crate::crypto::identity::PublicKey;
use crate::session::{Entry, Scaling};

/// Integers from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClassRange(i64, i64);

impl ClassRange {
    pub(super) fn names(self) -> Vec<String> {
        (self.0..=self.1).map(|class| class.to_string()).collect()
    }
}

impl FromStr for ClassRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").ok_or("must be FIRST..LAST, such as 0..9")?;
        let integer = |text: &str| text.parse::<i64>().map_err(|_| format!("{text:?} is not an integer"));
        let (first, last) = (integer(first)?, integer(last)?);
        // The number of classes is limited again by the session's own rules; this keeps the list small until
        // then.
        match last.checked_sub(first) {
            Some(difference @ 1..=9_999) => Ok(Self(first, first + difference)),
            _ => Err("must hold 2 to 1000 integers".into()),
        }
    }
}

/// `NAME=PEERID[@MULTIADDR]`
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

pub(super) fn parse_scaling(text: &str) -> Result<Scaling, String> {
    Ok(match text {
        "none" => Scaling::None,
        "unit-norm" => Scaling::UnitNorm,
        "center" => Scaling::Center,
        "standard" => Scaling::Standard,
        _ if text.starts_with("soft-bins:") => {
            let bins = text.trim_start_matches("soft-bins:");
            Scaling::SoftBins {
                bins: bins.parse().map_err(|_| format!("{bins:?} is not a number of bins, 2 to 64"))?,
            }
        }
        _ => {
            let ends = text.strip_prefix("range:").and_then(|ends| ends.split_once(':'));
            let (lo, hi) =
                ends.ok_or("must be none, unit-norm, center, standard, range:LO:HI or soft-bins:BINS")?;
            let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
            Scaling::Range { lo: number(lo)?, hi: number(hi)? }
        }
    })
}

pub(super) fn parse_timing(text: &str) -> Result<(String, i64), String> {
    let (field, value) = text.split_once('=').ok_or("must be FIELD=MILLISECONDS")?;
    let value = value.parse().map_err(|_| format!("{value:?} is not an integer"))?;
    Ok((field.into(), value))
}
