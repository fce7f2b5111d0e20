//! The rules of a session that apply to all tasks. An error has the field, the value and the limit on one
//! line.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::crypto::identity::PublicKey;
use crate::data::MAX_FEATURES;
use flyswarm_data::scaling::MAX_BINS;

use super::fields::{self, Row, fields};
use super::{DataSpec, Entry, Scaling, Session, TaskSpec, Timing};

/// Largest session file, in bytes. A file with 1,024 peers and 16 addresses of ordinary length for each is
/// smaller.
pub(crate) const FILE_LIMIT: usize = 1 << 20;
/// Largest vector of counts, in bytes; a peer holds several such vectors in memory.
pub(crate) const COUNTS_LIMIT: u64 = 1 << 30;
/// Longest name, in characters.
const NAME_LIMIT: usize = 64;
/// Longest address, in bytes.
const ADDRESS_LIMIT: usize = 256;
/// Maximum number of addresses of a peer.
const ADDRESSES_LIMIT: usize = 16;

/// Maximum number of relays of a session.
const RELAYS_LIMIT: usize = 8;

/// Reasons why a session file or a session is refused. Nothing has been changed in this case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file could not be opened or read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The file could not be written.
    #[error("cannot be written: {0}")]
    Write(#[source] io::Error),
    /// The system provides no random bytes for a new session.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// The file is too large to be a session file. It was not parsed.
    #[error("has more than {limit} bytes, the limit of a session file")]
    TooLarge {
        /// Limit in bytes.
        limit: usize,
    },
    /// The file is not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// The file is not TOML, has an unknown or a missing field, or a value of another type.
    #[error("line {line}: {message}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        /// Message of the parser, on one line.
        message: String,
    },
    /// The same errors as `Syntax`, for fields that are not in a file yet.
    #[error("{field}: {message}")]
    Field {
        /// Dotted name of the field.
        field: String,
        /// Message of the parser, on one line.
        message: String,
    },
    /// A value breaks a rule.
    #[error("{field} is {value}, must be {limit}")]
    Value {
        /// Dotted name of the field.
        field: String,
        /// Its value, or the length of a list.
        value: String,
        /// The rule, as a text that follows "must be".
        limit: String,
    },
    /// One of the other errors, which occurred in this file.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the session file.
        path: PathBuf,
        /// Error in the file.
        source: Box<Self>,
    },
}

impl SessionError {
    /// Makes an error for a field whose value breaks a limit.
    #[must_use]
    pub fn value(field: impl Into<String>, value: impl Display, limit: impl Into<String>) -> Self {
        let value = value.to_string();
        // Only the beginning of a long value is shown, because the value may come from a hostile file.
        let value = if value.chars().count() > 100 {
            value.chars().take(97).chain("...".chars()).collect()
        } else {
            value
        };
        Self::Value { field: field.into(), value, limit: limit.into() }
    }
}

/// Range of an integer field, both ends allowed.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub(crate) field: &'static str,
    pub(crate) lo: u64,
    pub(crate) hi: u64,
    /// Explanation of the upper end, which may be empty.
    what: &'static str,
}

impl Limit {
    pub(crate) const fn new(field: &'static str, lo: u64, hi: u64) -> Self {
        Self { field, lo, hi, what: "" }
    }

    /// Returns the same limit with an explanation of the upper end.
    pub(crate) const fn saying(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    /// Converts the value to its type, if it is in the range.
    ///
    /// # Panics
    /// If the range is wider than the type, which is a bug in the table of limits.
    pub(crate) fn check<T: TryFrom<i128>>(self, value: impl Into<i128>) -> Result<T, SessionError> {
        let value = value.into();
        if (i128::from(self.lo)..=i128::from(self.hi)).contains(&value) {
            return Ok(T::try_from(value)
                .unwrap_or_else(|_| unreachable!("BUG: the limit of {} exceeds its type", self.field)));
        }
        Err(SessionError::value(self.field, value, format!("{} to {}{}", self.lo, self.hi, self.what)))
    }
}

pub(crate) const FEATURES: Limit = Limit::new("data.features", 1, 65_536);
const CLASSES: Limit = Limit::new("the length of data.classes", 2, 1_000);
pub(crate) const ROSTER: Limit = Limit::new("the length of roster", 3, 1_024);
const ADDRESSES: Limit = Limit::new("the length of addresses", 0, ADDRESSES_LIMIT as u64);

/// Returns the limit of the number of bins: at most 64, and at most 2^20 numbers in a row.
fn soft_bins(features: u32) -> Limit {
    let most = u64::from(MAX_BINS).min(MAX_FEATURES as u64 / u64::from(features.max(1)));
    Limit { what: " (features x bins is at most 2^20)", ..Limit::new("data.scaling.soft-bins.bins", 2, most) }
}

/// Returns the limit of `min_peers`. It is at least a majority, so that any two views of a session have a
/// peer in common, and at least the number of peers that the task needs.
pub(crate) fn min_peers(task: &TaskSpec, roster: usize) -> Limit {
    Limit::new("min_peers", task.smallest_view(roster) as u64, roster as u64).saying(task.members().1)
}

pub(crate) fn min_contributors(roster: usize) -> Limit {
    Limit { what: " (the roster)", ..Limit::new("privacy.min_contributors", 1, roster as u64) }
}

const HOUR_MS: u64 = 3_600_000;

/// Sections `[timing]` and `[limits]`, in the order of the canonical encoding.
pub(crate) static TIMING: [(&str, &[Row<Timing>]); 2] = [
    (
        "timing",
        fields! { "timing";
            start_wait_ms at start_wait_ms: whole(0, HOUR_MS),
                "Time to wait for the whole roster before continuing with the peers present: 0 to 3600000.";
            proposal_backoff_ms at proposal_backoff_ms: whole(1, HOUR_MS),
                "The peer of rank r proposes a view after r times this time without progress: 1 to 3600000.";
            view_timeout_ms at view_timeout_ms: whole(3_000, HOUR_MS),
                "A view without progress for this long has failed: 3000 to 3600000.";
            no_quorum_timeout_ms at no_quorum_timeout_ms: whole(1, 24 * HOUR_MS),
                "If too few peers are reachable for this long, the session ends: 1 to 86400000.";
            compute_ms at compute_ms: whole(1, 24 * HOUR_MS),
                "The longest computation that still counts as progress: 1 to 86400000.";
            linger_ms at linger_ms: whole(0, 24 * HOUR_MS),
                "Time that a finished peer stays to serve the others: 0 to 86400000.";
            regroup_interval_ms at regroup_interval_ms: whole(0, 24 * HOUR_MS),
                "Waiting peers enlarge a view at most once per this time, when a slot ends: 0 to 86400000.";
        },
    ),
    (
        "limits",
        fields! { "limits";
            max_views at max_views: whole(24, 1_000),
                "Number of failed views in a row after which the session ends with an error: 24 to 1000.";
        },
    ),
];

impl Session {
    /// Sorts the roster by public key and checks every rule. [`Session::parse`] calls this. A program that
    /// builds or changes a session must call it too.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub fn check(mut self) -> Result<Self, SessionError> {
        self.roster.sort_by_key(|entry| entry.key);
        // -0.0 and 0.0 are equal, but would give two session ids.
        self.data.scaling.normalise();
        self.task.normalise();
        self.data.checks.normalise();
        self.data.preparation.iter_mut().for_each(|preparation| Arc::make_mut(preparation).normalise());
        let roster = self.roster.len();
        check_plain_name("name", &self.name)?;
        self.run.check()?;
        self.task.roster().check::<u16>(roster as i128)?;
        min_peers(&self.task, roster).check::<u16>(self.min_peers)?;
        self.data.check()?;
        check_relays(&self.relays)?;
        self.data.checks.check(&self.data, &self.task, self.privacy.noise.is_some())?;
        if let Some(preparation) = &self.data.preparation {
            super::table::check_fills(preparation, &self.task, self.privacy.noise.is_some())?;
        }
        self.task.check(&self)?;
        min_contributors(roster).check::<u16>(self.privacy.min_contributors)?;
        let collusion_threshold = self.privacy.collusion_threshold;
        check_number(
            "privacy.collusion_threshold",
            collusion_threshold,
            (0.01..=0.99).contains(&collusion_threshold),
            "0.01 to 0.99",
        )?;
        if let Some(noise) = &self.privacy.noise {
            noise.check(&self)?;
        }
        self.voting.check(&self)?;
        TIMING.iter().try_for_each(|(_, rows)| fields::check(rows, &self.timing))?;
        let mut names = BTreeSet::new();
        for (index, entry) in self.roster.iter().enumerate() {
            entry.check()?;
            if !names.insert(&entry.name) {
                return Err(SessionError::value(
                    "roster.name",
                    format!("{:?} twice", entry.name),
                    "different for each peer",
                ));
            }
            if index > 0 && self.roster[index - 1].key == entry.key {
                return Err(SessionError::value(
                    "roster.peer_id",
                    format!("{} twice", entry.key),
                    "different for each peer",
                ));
            }
        }
        Ok(self)
    }
}

/// Checks the classes of a session whose task needs classes.
pub(crate) fn check_classes(data: &DataSpec) -> Result<(), SessionError> {
    CLASSES.check::<u32>(data.classes.len() as i128).map(drop)
}

impl DataSpec {
    /// Checks the features, their names, the classes and the scaling.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub fn check(&self) -> Result<(), SessionError> {
        FEATURES.check::<u32>(self.features)?;
        if !self.columns.is_empty() && self.columns.len() != self.features as usize {
            let limit = format!("{}, one name for each of data.features, or none", self.features);
            return Err(SessionError::value("the length of data.columns", self.columns.len(), limit));
        }
        if let Some(preparation) = &self.preparation {
            super::table::check(preparation)?;
            if preparation.width() != self.features as usize || preparation.features() != self.columns {
                let expected = "those that follow from [table]";
                return Err(SessionError::value("data.columns", "another list", expected));
            }
        }
        let mut seen = BTreeSet::new();
        for column in &self.columns {
            // Names that follow from a table are made of checked names. They may be longer than 64
            // characters.
            if self.preparation.is_none() {
                check_name("a column of data.columns", column)?;
            }
            if !seen.insert(column) {
                return Err(SessionError::value(
                    "data.columns",
                    format!("{column:?} twice"),
                    "all different",
                ));
            }
        }
        // The task decides whether classes are required.
        if !self.classes.is_empty() {
            CLASSES.check::<u32>(self.classes.len() as i128)?;
        }
        let mut seen = BTreeSet::new();
        for class in &self.classes {
            check_name("a class of data.classes", class)?;
            if !seen.insert(class) {
                return Err(SessionError::value("data.classes", format!("{class:?} twice"), "all different"));
            }
        }
        self.check_scaling()
    }

    pub(crate) fn check_scaling(&self) -> Result<(), SessionError> {
        if let Scaling::Range { lo, hi } = self.scaling {
            check_number("data.scaling.range.lo", lo.into(), lo.is_finite(), "finite as a 32-bit float")?;
            check_number("data.scaling.range.hi", hi.into(), hi.is_finite(), "finite as a 32-bit float")?;
            check_number("data.scaling.range.hi", hi.into(), lo < hi, &format!("above lo, {lo}"))?;
        }
        if let Scaling::SoftBins { bins } = self.scaling {
            soft_bins(self.features).check::<u16>(bins)?;
        }
        Ok(())
    }
}

/// Checks that each relay has an address and a peer id, so that no other node can impersonate it.
fn check_relays(relays: &[String]) -> Result<(), SessionError> {
    if relays.len() > RELAYS_LIMIT {
        let limit = format!("0 to {RELAYS_LIMIT}");
        return Err(SessionError::value("the length of relays", relays.len(), limit));
    }
    for relay in relays {
        let plain = relay.starts_with('/') && relay.bytes().all(|byte| byte.is_ascii_graphic());
        let id = relay.rsplit_once("/p2p/").and_then(|(_, id)| id.parse::<PublicKey>().ok());
        if !plain || relay.len() > ADDRESS_LIMIT || id.is_none() || relay.contains("/p2p-circuit") {
            let limit = format!(
                "a multiaddress with a peer id, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3KooW..., at most \
                 {ADDRESS_LIMIT} characters"
            );
            return Err(SessionError::value("a relay", format!("{relay:?}"), limit));
        }
    }
    Ok(())
}

impl Entry {
    fn check(&self) -> Result<(), SessionError> {
        check_plain_name("roster.name", &self.name)?;
        let of = |what: &str| format!("{what} of {:?}", self.name);
        if self.addresses.len() > ADDRESSES_LIMIT {
            let limit = format!("{} to {}", ADDRESSES.lo, ADDRESSES.hi);
            return Err(SessionError::value(of(ADDRESSES.field), self.addresses.len(), limit));
        }
        for address in &self.addresses {
            let plain = address.starts_with('/') && address.bytes().all(|byte| byte.is_ascii_graphic());
            if !plain || address.len() > ADDRESS_LIMIT {
                let limit = format!(
                    "a multiaddress such as /ip4/192.0.2.1/tcp/4001, at most {ADDRESS_LIMIT} characters"
                );
                return Err(SessionError::value(of("an address"), format!("{address:?}"), limit));
            }
            // The last component may be a peer id. It must be the id of this peer.
            let target = address.rsplit_once("/p2p/").map(|(_, id)| id).filter(|id| !id.contains('/'));
            if target.is_some_and(|id| id != self.key.to_string()) {
                let limit = format!("one of that peer, {}", self.key);
                return Err(SessionError::value(of("an address"), format!("{address:?}"), limit));
            }
        }
        Ok(())
    }
}

pub(crate) fn check_number(field: &str, value: f64, holds: bool, limit: &str) -> Result<(), SessionError> {
    // For NaN `holds` is always false, because no range contains NaN and NaN is not finite.
    if holds { Ok(()) } else { Err(SessionError::value(field, value, limit)) }
}

/// Checks the name of a session or a peer: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, not starting with
/// a point. Such names come from other people and are used in names of files.
///
/// # Errors
/// [`SessionError::Value`]. It names `field`.
pub(crate) fn check_plain_name(field: &str, name: &str) -> Result<(), SessionError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=NAME_LIMIT).contains(&name.len()) || name.starts_with('.') || !name.bytes().all(plain) {
        let limit = format!("1 to {NAME_LIMIT} ASCII letters, digits, '-', '_' and '.', the first no '.'");
        return Err(SessionError::value(field, format!("{name:?}"), limit));
    }
    Ok(())
}

/// Checks the name of a class or a column: 1 to 64 printable characters, without a space at either end. Such
/// names appear in logs, tables and error texts.
///
/// # Errors
/// [`SessionError::Value`]. It names `field`.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), SessionError> {
    let length = name.chars().count();
    if !(1..=NAME_LIMIT).contains(&length) || name.trim() != name || !name.chars().all(printable) {
        let limit = format!("1 to {NAME_LIMIT} printable characters, no space at the ends");
        return Err(SessionError::value(field, format!("{name:?}"), limit));
    }
    Ok(())
}

/// Puts the text on one line. It may contain names and values from other people's files, so characters
/// that act on a terminal are escaped.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push(' '),
            _ if c.is_control() || !printable(c) => out.extend(c.escape_default()),
            _ => out.push(c),
        }
    }
    out
}

/// Returns whether a name may contain this character. Control characters and all white space except the space
/// are refused. Characters that are invisible or change the direction of writing are refused too, because
/// they could make one name look like another.
pub(crate) fn printable(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || invisible)
}
