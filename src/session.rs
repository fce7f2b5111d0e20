//! The session file: settings that peers must agree on before they connect (spec, section "Session").
//!
//! A session file is TOML. Unknown fields are refused. Sizes may be multiples (`m = "256d"`); they become
//! plain numbers when the file is read, so a [`Session`] has only plain numbers. Peers are numbered in the
//! order of their public keys, not in the order of the file.
//!
//! Two files mean the same session if and only if they have the same [`SessionId`], the hash of a canonical
//! encoding of all fields (spec, section 4.1, byte by byte). Absent fields are encoded with their defaults.
//! Addresses, comments and layout are not encoded. Each field also has its own hash, so that two peers with
//! different files can find the fields that differ ([`Session::fields`]).

mod builder;
mod columns;
mod committee;
pub(crate) mod encoding;
pub(crate) mod fields;
pub(crate) mod file;
mod noise;
pub(crate) mod rules;
pub(crate) mod run;
#[cfg(feature = "cli")]
pub(crate) mod show;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod words;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::crypto::identity::PublicKey;
pub use crate::model::readout::Score;

pub use builder::SessionBuilder;
pub use columns::{Bounds, ColumnChecks};
pub use committee::CommitteeSpec;
pub use encoding::Field;
pub use flyswarm_data::prepare::TableSchema;
pub use flyswarm_learn::learner::{Architecture, Schedule};
pub(crate) use flyswarm_sealed_sum::session::COMMITTEE;
pub use flyswarm_sealed_sum::session::{Faults, MOST_SLOTS, Peer, SessionId, Timing};
pub use noise::{NoiseMode, NoiseSpec, PrivacyUnit};
pub use rules::{Limit, SessionError};
pub(crate) use rules::{check_name, one_line, printable};
pub use run::{Run, Series};
pub(crate) use table::Description;
pub use task::{AnySpec, Release, Section, Sections, Spec, TaskSpec};

/// A session. [`Session::parse`] returns only sessions that meet all rules. If a program builds or changes a
/// session, it must call [`Session::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Name: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, not starting with a point. Names of files
    /// contain it.
    pub name: String,
    /// Number, time and series, which make the session unique.
    pub run: Run,
    /// Task with its parameters.
    pub task: TaskSpec,
    /// Minimum number of members of a view: [`TaskSpec::smallest_view`], which is the default, to the size of
    /// the roster.
    pub min_peers: u16,
    /// Description of the rows.
    pub data: DataSpec,
    /// Limits that protect the peers' rows.
    pub privacy: Privacy,
    /// Committee, and the faults that it tolerates.
    pub voting: CommitteeSpec,
    /// Time-outs.
    pub timing: Timing,
    /// Multiaddresses of relays as text, each with the relay's peer id, at most 8. Not part of the
    /// session id.
    pub relays: Vec<String>,
    /// Peers, 3 to 1,024, in the order of their public keys: `roster[p]` is [`Peer`] p.
    pub roster: Vec<Entry>,
}

/// Description of the rows, the same for every peer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataSpec {
    /// Number of features of a row: 1 to 65,536.
    pub features: u32,
    /// Names of the features in their order, one different name for each, of 1 to 64 printable characters.
    /// Empty if the file has no names. A data file with column names must use these names.
    pub columns: Vec<String>,
    /// Classes, 2 to 1,000, all different, each 1 to 64 printable characters. Empty with the task `sketch`,
    /// and possibly with the task `custom`. Counts are in this order. If two classes have equal scores, the
    /// first in this order is predicted.
    pub classes: Vec<String>,
    /// Scaling of the features.
    pub scaling: Scaling,
    /// True if scaled rows get random signs, are padded with zeros to a power of two, and are transformed
    /// (Walsh-Hadamard).
    pub densify: bool,
    /// Checks of the columns.
    pub checks: ColumnChecks,
    /// Rules that make features from the columns of a table, if the file describes them. In this case,
    /// `features` and `columns` follow from these rules.
    pub preparation: Option<Arc<TableSchema>>,
}

impl DataSpec {
    /// Returns the length of a scaled row: the number of features, times the number of soft bins if
    /// there are any.
    #[must_use]
    pub fn width(&self) -> u32 {
        match self.scaling {
            Scaling::SoftBins { bins } => self.features * u32::from(bins),
            Scaling::None
            | Scaling::UnitNorm
            | Scaling::Range { .. }
            | Scaling::Center
            | Scaling::Standard => self.features,
        }
    }

    /// Returns the length d of a row when it is hashed. This is the width; with `densify`, the next power of
    /// two.
    #[must_use]
    pub fn dimension(&self) -> u32 {
        let width = self.width();
        if self.densify { width.next_power_of_two() } else { width }
    }
}

/// Scaling of the features, the same at all peers.
#[derive(Default, Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scaling {
    /// Rows are used as they are.
    #[default]
    None,
    /// Each row is divided by its L2 norm.
    UnitNorm,
    /// Features are mapped linearly from `lo..hi` to 0..1. Both are finite, and `lo` is below `hi`.
    Range {
        /// Value that becomes 0.
        lo: f32,
        /// Value that becomes 1.
        hi: f32,
    },
    /// The mean of each feature over all peers is subtracted (a sealed sum).
    Center,
    /// As with `Center`; then each feature is divided by its standard deviation over all peers (a second
    /// sealed sum).
    Standard,
    /// As with `Standard`; then each feature is spread over overlapping bins (an extension, see
    /// [`flyswarm_data::scaling`]).
    SoftBins {
        /// Number of bins of a feature: 2 to 64; features x bins at most 2^20.
        bins: u16,
    },
}

impl Scaling {
    /// Replaces -0.0 by 0.0, because the two are equal but have different encodings.
    pub(crate) fn normalise(&mut self) {
        if let Self::Range { lo, hi } = self {
            *lo += 0.0;
            *hi += 0.0;
        }
    }

    /// Returns the scaling in the type that [`crate::sketch`] applies to rows.
    #[must_use]
    pub fn of_rows(self) -> flyswarm_data::scaling::Scaling {
        use flyswarm_data::scaling::Scaling as OfRows;
        match self {
            Self::None => OfRows::None,
            Self::UnitNorm => OfRows::UnitNorm,
            Self::Range { lo, hi } => OfRows::Range { lo: vec![lo], hi: vec![hi] },
            Self::Center => OfRows::Center,
            Self::Standard => OfRows::Standard,
            Self::SoftBins { bins } => OfRows::SoftBins(bins),
        }
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::UnitNorm => f.write_str("unit-norm"),
            Self::Range { lo, hi } => write!(f, "range {lo} to {hi}"),
            Self::Center => f.write_str("center"),
            Self::Standard => f.write_str("standard"),
            Self::SoftBins { bins } => write!(f, "soft-bins {bins}"),
        }
    }
}

/// The limits that protect the peers' rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Privacy {
    /// Minimum number of peers that must have rows of a class, and of members with rows in a sum. If there
    /// are fewer, the session ends. In the task xclp, a class for which fewer peers have labels counts as
    /// having no labels. 1 to the size of the roster. Default 3.
    pub min_contributors: u16,
    /// Share of the roster that may collude without learning the part of a single peer: 0.01 to 0.99. With
    /// more than 64 peers, it determines the degree of the mask graph. Default 1/3 (degree 32 at 1,000
    /// peers).
    pub collusion_threshold: f64,
    /// Differential privacy, or `None` if the file has no `privacy.epsilon`.
    pub noise: Option<NoiseSpec>,
}

impl Default for Privacy {
    fn default() -> Self {
        Self { min_contributors: 3, collusion_threshold: 1.0 / 3.0, noise: None }
    }
}

/// A peer of the roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Public key of the peer, different from all others.
    pub key: PublicKey,
    /// Name, unique in the roster, with the same characters as a session's name.
    pub name: String,
    /// Multiaddresses as text, at most 16. They are not part of the session id. The list may be empty if mDNS
    /// finds the peer.
    pub addresses: Vec<String>,
}

impl Session {
    /// Returns all peers, in order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Peer> + use<> {
        // The rules allow at most 1,024 peers. If an unchecked roster has more than 65,535, the others are
        // left out.
        (0..u16::try_from(self.roster.len()).unwrap_or(u16::MAX)).map(Peer)
    }

    /// Returns the peer with this key, if it is in the roster.
    #[must_use]
    pub fn peer(&self, key: &PublicKey) -> Option<Peer> {
        let index = self.roster.binary_search_by(|entry| entry.key.cmp(key)).ok()?;
        u16::try_from(index).ok().map(Peer)
    }

    /// Returns whether the roster has this peer. Use this to check every peer number that comes from outside.
    #[must_use]
    pub fn contains(&self, peer: Peer) -> bool {
        peer.index() < self.roster.len()
    }

    /// Returns the public key of a peer.
    ///
    /// # Panics
    /// If there is no such peer ([`Session::contains`]).
    #[must_use]
    pub fn key(&self, peer: Peer) -> PublicKey {
        self.roster[peer.index()].key
    }

    /// Returns the name of a peer.
    ///
    /// # Panics
    /// If there is no such peer ([`Session::contains`]).
    #[must_use]
    pub fn name(&self, peer: Peer) -> &str {
        &self.roster[peer.index()].name
    }

    /// Returns whether the training peers are drawn by their sketches (`select`).
    #[must_use]
    pub fn selects(&self) -> bool {
        self.task.selects()
    }
}

#[cfg(test)]
mod tests;
