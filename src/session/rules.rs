//! What a session must keep to, and how a breach is told: field, value, limit, on one line.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use crate::data::MAX_FEATURES;
use crate::sketch::scaling::MAX_BINS;

use super::{DataSpec, Entry, Scaling, Session, Setting, TaskKind, Timing};

/// The largest session file, in bytes. 1,024 peers with 16 addresses of ordinary length fit.
pub(super) const FILE_LIMIT: usize = 1 << 20;
/// The largest vector of counts, in bytes: what a peer must hold a few times in memory.
const COUNTS_LIMIT: u64 = 1 << 30;
/// Entries of the lifting matrix, m x s: 4 GiB.
const ENTRIES_LIMIT: u64 = 1 << 30;
/// The longest name, in characters.
const NAME_LIMIT: usize = 64;
/// The longest address, in bytes, and how many a peer may have.
const ADDRESS_LIMIT: usize = 256;
const ADDRESSES_LIMIT: usize = 16;

/// Why there is no session. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file could not be opened or read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The file is too large to be a session file; it was not parsed.
    #[error("has more than {limit} bytes, the limit of a session file")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// Not TOML, an unknown or a missing field, or a value of another type.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser says, on one line.
        message: String,
    },
    /// A value breaks a rule.
    #[error("{field} is {value}, must be {limit}")]
    Value {
        /// The dotted name of the field.
        field: String,
        /// What it is, or for a list how long it is.
        value: String,
        /// What it may be.
        limit: String,
    },
    /// Any of the others, in this file.
    #[error("{}: {source}", path.display())]
    File {
        /// The session file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Self>,
    },
}

impl SessionError {
    pub(super) fn value(field: impl Into<String>, value: impl Display, limit: impl Into<String>) -> Self {
        let value = value.to_string();
        // A value may come from a hostile file: show the beginning.
        let value = if value.chars().count() > 100 {
            value.chars().take(97).chain("...".chars()).collect()
        } else {
            value
        };
        Self::Value { field: field.into(), value, limit: limit.into() }
    }
}

/// The range of an integer field, both ends allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) field: &'static str,
    pub(super) lo: u64,
    pub(super) hi: u64,
    /// What the upper end is, when the number alone does not say.
    what: &'static str,
}

impl Limit {
    pub(super) const fn new(field: &'static str, lo: u64, hi: u64) -> Self {
        Self { field, lo, hi, what: "" }
    }

    /// With a word on what the upper end is.
    pub(super) const fn saying(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    /// The value in its type, if it is inside.
    ///
    /// # Panics
    /// If the range does not fit the type: a bug in the table of limits.
    pub(super) fn check<T: TryFrom<i128>>(self, value: impl Into<i128>) -> Result<T, SessionError> {
        let value = value.into();
        if (i128::from(self.lo)..=i128::from(self.hi)).contains(&value) {
            return Ok(T::try_from(value)
                .unwrap_or_else(|_| unreachable!("BUG: the limit of {} exceeds its type", self.field)));
        }
        Err(SessionError::value(self.field, value, format!("{} to {}{}", self.lo, self.hi, self.what)))
    }
}

pub(super) const FEATURES: Limit = Limit::new("data.features", 1, 65_536);
const CLASSES: Limit = Limit::new("the length of data.classes", 2, 1_000);
pub(super) const ROSTER: Limit = Limit::new("the length of roster", 3, 1_024);
pub(super) const FOLDS: Limit = Limit::new("tune.folds", 2, 20);
const SETTINGS: Limit = Limit::new("the length of tune.setting", 1, 64);
/// The smallest roster of the task `xclp`.
const XCLP_PEERS: usize = 6;
const ADDRESSES: Limit = Limit::new("the length of addresses", 0, ADDRESSES_LIMIT as u64);

pub(super) fn m(classes: usize) -> Limit {
    let what = " (m x classes x 4 bytes is at most 1 GiB)";
    Limit { what, ..Limit::new("flynn.m", 1, COUNTS_LIMIT / 4 / classes.max(1) as u64) }
}

pub(super) fn s(d: u32) -> Limit {
    Limit { what: " (the dimension d)", ..Limit::new("flynn.s", 2, d.into()) }
}

/// At most 64, and with the features at most 2^20 numbers in a row.
fn soft_bins(features: u32) -> Limit {
    let most = u64::from(MAX_BINS).min(MAX_FEATURES as u64 / u64::from(features.max(1)));
    Limit { what: " (features x bins is at most 2^20)", ..Limit::new("data.scaling.soft-bins.bins", 2, most) }
}

pub(super) fn rho(m: u32) -> Limit {
    Limit { what: " (m)", ..Limit::new("flynn.rho", 1, m.into()) }
}

/// At least a majority, for two views of one session must have a peer in common; and as many as the task
/// needs.
pub(super) fn min_peers(task: TaskKind, roster: usize) -> Limit {
    let what = match task {
        TaskKind::Xclp => " (a majority of the roster, and the 5 that labels need: 3 with rows, 2 witnesses)",
        _ => " (a majority of the roster, and the 3 members that a sum needs)",
    };
    Limit { what, ..Limit::new("min_peers", task.smallest_view(roster) as u64, roster as u64) }
}

pub(super) fn min_holders(roster: usize) -> Limit {
    Limit { what: " (the roster)", ..Limit::new("privacy.min_holders", 1, roster as u64) }
}

/// How many peers there may be. With the task `xclp` two witnesses spread the labels and four others hold the
/// blocks of distances, or somebody would keep both sides of one.
pub(super) fn check_roster(task: TaskKind, roster: usize) -> Result<(), SessionError> {
    if task == TaskKind::Xclp && roster < XCLP_PEERS {
        let limit = format!("{XCLP_PEERS} to 64 with the task xclp: 3 with rows, 3 witnesses, or 4 and 2");
        return Err(SessionError::value(ROSTER.field, roster, limit));
    }
    ROSTER.check::<u16>(roster as i128).map(drop)
}

/// A time or number of `[timing]`: its limits, what it does, and how to reach it.
pub(super) struct TimingField {
    /// Its range; the name is dotted.
    pub(super) limit: Limit,
    /// One line for the comment in a session file.
    pub(super) about: &'static str,
    pub(super) get: fn(&Timing) -> u64,
    pub(super) set: fn(&mut Timing, u64),
}

impl TimingField {
    /// The name inside `[timing]`.
    pub(super) fn name(&self) -> &'static str {
        self.limit.field.trim_start_matches("timing.")
    }
}

const HOUR_MS: u64 = 3_600_000;

macro_rules! timing {
    ($($field:ident: $lo:expr, $hi:expr, $about:expr;)*) => {
        [$(TimingField {
            limit: Limit::new(concat!("timing.", stringify!($field)), $lo, $hi),
            about: $about,
            get: |timing| timing.$field,
            set: |timing, value| timing.$field = value,
        }),*]
    };
}

/// Every field of `[timing]`, in the order of the canonical encoding.
pub(super) const TIMING: [TimingField; 7] = timing! {
    gather_ms: 0, HOUR_MS, "how long to wait for the whole roster before going on with those present";
    propose_ms: 1, HOUR_MS, "the peer of rank r proposes after r times this without progress";
    stall_ms: 3_000, HOUR_MS, "a view without progress for this long has failed";
    quorum_ms: 1, 24 * HOUR_MS, "when too few peers are reachable for this long, give up";
    compute_ms: 1, 24 * HOUR_MS, "the longest computation that still counts as progress";
    linger_ms: 0, 24 * HOUR_MS, "how long a finished peer stays to serve the others";
    max_views: 1, 1_000, "after so many failed views the session ends with an error (a number, not a time)";
};

impl Session {
    /// Sorts the roster by public key and checks every rule. [`Session::parse`] has done it; call it after
    /// building or changing a session by hand.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub fn check(mut self) -> Result<Self, SessionError> {
        self.roster.sort_by_key(|entry| entry.key);
        // -0 and 0 compare equal, but would give two session ids.
        self.flynn.gamma += 0.0;
        let settings = self.tune.iter_mut().flat_map(|tune| &mut tune.settings);
        for scaling in settings.map(|setting| &mut setting.scaling).chain([&mut self.data.scaling]) {
            if let Scaling::Range { lo, hi } = scaling {
                *lo += 0.0;
                *hi += 0.0;
            }
        }
        let roster = self.roster.len();
        check_plain_name("name", &self.name)?;
        check_roster(self.task, roster)?;
        min_peers(self.task, roster).check::<u16>(self.min_peers)?;
        self.data.check()?;
        self.check_settings()?;
        check_number(
            "flynn.gamma",
            self.flynn.gamma,
            (0.0..1.0).contains(&self.flynn.gamma),
            "from 0 to below 1",
        )?;
        min_holders(roster).check::<u16>(self.privacy.min_holders)?;
        let colluding = self.privacy.colluding;
        check_number("privacy.colluding", colluding, (0.01..=0.99).contains(&colluding), "0.01 to 0.99")?;
        if let Some(noise) = &self.privacy.noise {
            noise.check(&self)?;
        }
        for field in &TIMING {
            field.limit.check::<u64>((field.get)(&self.timing))?;
        }
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

impl Session {
    /// Every setting by itself, and all of them together.
    fn check_settings(&self) -> Result<(), SessionError> {
        let classes = self.data.classes.len();
        if self.tune.is_some() != (self.task == TaskKind::Tune) {
            let limit =
                if self.tune.is_some() { "tune where there is a [tune]" } else { "flynn without a [tune]" };
            return Err(SessionError::value("task", self.task, limit));
        }
        match (&self.xclp, &self.sketch, self.task) {
            (None, Some(sketch), TaskKind::Sketch) => return sketch.check(self),
            (Some(xclp), None, TaskKind::Xclp) => {
                CLASSES.check::<u32>(classes as i128)?;
                return xclp.check(self.data.features, self.roster.len());
            }
            (None, None, TaskKind::Flynn | TaskKind::Tune) => {
                CLASSES.check::<u32>(classes as i128).map(drop)?
            }
            (None, Some(sketch), TaskKind::Flynn) => {
                CLASSES.check::<u32>(classes as i128)?;
                sketch.check(self)?;
            }
            (Some(_), _, task) => {
                return Err(SessionError::value("task", task, "xclp where there is an [xclp]"));
            }
            (_, Some(_), task) => {
                return Err(SessionError::value("task", task, "sketch where there is a [sketch]"));
            }
            (None, None, task) => {
                return Err(SessionError::value("task", task, format!("flynn or tune without an [{task}]")));
            }
        }
        for (index, setting) in self.settings().iter().enumerate() {
            let named = |error| if index == 0 { error } else { of_setting(error, index) };
            setting.check(self.data.features, classes).map_err(named)?;
        }
        let Some(tune) = &self.tune else { return Ok(()) };
        FOLDS.check::<u16>(tune.folds)?;
        SETTINGS.check::<u32>(tune.settings.len() as i128)?;
        let counts: u64 =
            self.settings().iter().map(|setting| u64::from(setting.m) * classes as u64 * 4).sum();
        let bytes = counts * u64::from(tune.folds);
        if bytes > COUNTS_LIMIT {
            let limit = format!("at most {COUNTS_LIMIT} (1 GiB)");
            return Err(SessionError::value(
                "the sum of folds x m x classes x 4 bytes over all settings",
                bytes,
                limit,
            ));
        }
        Ok(())
    }
}

/// The same error with the setting's number, from 1.
pub(super) fn of_setting(error: SessionError, index: usize) -> SessionError {
    match error {
        SessionError::Value { field, value, limit } => {
            SessionError::Value { field: format!("{field} of tune.setting {index}"), value, limit }
        }
        other => other,
    }
}

impl Setting {
    fn check(&self, features: u32, classes: usize) -> Result<(), SessionError> {
        let data = DataSpec {
            features,
            columns: Vec::new(),
            classes: Vec::new(),
            scaling: self.scaling,
            densify: self.densify,
        };
        data.check_scaling()?;
        m(classes).check::<u32>(self.m)?;
        s(data.dimension()).check::<u32>(self.s)?;
        rho(self.m).check::<u32>(self.rho)?;
        if u64::from(self.m) * u64::from(self.s) > ENTRIES_LIMIT {
            let limit = format!("at most {} with m = {}", ENTRIES_LIMIT / u64::from(self.m), self.m);
            return Err(SessionError::value("flynn.s", self.s, limit));
        }
        Ok(())
    }
}

impl DataSpec {
    /// Checks features, their names, classes and scaling.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub fn check(&self) -> Result<(), SessionError> {
        FEATURES.check::<u32>(self.features)?;
        if !self.columns.is_empty() && self.columns.len() != self.features as usize {
            let limit = format!("{}, one name for each of data.features, or none", self.features);
            return Err(SessionError::value("the length of data.columns", self.columns.len(), limit));
        }
        let mut seen = BTreeSet::new();
        for column in &self.columns {
            check_name("a column of data.columns", column)?;
            if !seen.insert(column) {
                return Err(SessionError::value(
                    "data.columns",
                    format!("{column:?} twice"),
                    "all different",
                ));
            }
        }
        // How many there must be depends on the task.
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

    fn check_scaling(&self) -> Result<(), SessionError> {
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
            // The last component may name the peer; then it must be this one.
            let target = address.rsplit_once("/p2p/").map(|(_, id)| id).filter(|id| !id.contains('/'));
            if target.is_some_and(|id| id != self.key.to_string()) {
                let limit = format!("one of that peer, {}", self.key);
                return Err(SessionError::value(of("an address"), format!("{address:?}"), limit));
            }
        }
        Ok(())
    }
}

pub(super) fn check_number(field: &str, value: f64, holds: bool, limit: &str) -> Result<(), SessionError> {
    // `holds` is false for NaN in every use: ranges contain none, and it is not finite.
    if holds { Ok(()) } else { Err(SessionError::value(field, value, limit)) }
}

/// 1 to 64 ASCII letters, digits, `-`, `_` and `.`, the first no point: names of sessions and peers become names
/// of files, and come from others.
///
/// # Errors
/// [`SessionError::Value`], with `field` for what the name is of.
pub fn check_plain_name(field: &str, name: &str) -> Result<(), SessionError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=NAME_LIMIT).contains(&name.len()) || name.starts_with('.') || !name.bytes().all(plain) {
        let limit = format!("1 to {NAME_LIMIT} ASCII letters, digits, '-', '_' and '.', the first no '.'");
        return Err(SessionError::value(field, format!("{name:?}"), limit));
    }
    Ok(())
}

/// 1 to 64 printable characters, no space at the ends: names of classes and columns go into logs, tables and
/// error lines.
///
/// # Errors
/// [`SessionError::Value`], with `field` for what the name is of.
pub fn check_name(field: &str, name: &str) -> Result<(), SessionError> {
    let length = name.chars().count();
    if !(1..=NAME_LIMIT).contains(&length) || name.trim() != name || !name.chars().all(printable) {
        let limit = format!("1 to {NAME_LIMIT} printable characters, no space at the ends");
        return Err(SessionError::value(field, format!("{name:?}"), limit));
    }
    Ok(())
}

/// Neither a control character, nor white space other than a blank, nor one that is invisible or turns the
/// direction of writing (with which one name could be made to look like another).
pub(crate) fn printable(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || invisible)
}
