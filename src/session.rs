//! The session file: what every peer must agree on before it talks to another (spec, section "Session").
//!
//! A session file is TOML. Unknown fields are refused; sizes may be given as multiples (`m = "256d"`) and are
//! resolved when the file is read, so that a [`Session`] holds plain numbers only. Peers are numbered in the
//! order of their public keys, whatever their order in the file.
//!
//! # The session id, byte by byte
//!
//! Two files mean the same session exactly if they give the same id:
//!
//! ```text
//! id    = SHA-256("flyswarm/4 session" || 0x00 || entry of every field, in the order below)
//! entry = LE u64 length of name || name || LE u64 length of value || value
//! ```
//!
//! | names, in this order | value |
//! | --- | --- |
//! | `name` | text |
//! | `task` | text: `flynn`, `tune`, `xclp`, `sketch` |
//! | `select` | text: `sketch`; only where the file has it |
//! | `min_peers` | integer |
//! | `data.features` | integer |
//! | `data.classes` | list, in the order of the file |
//! | `data.columns` | list, in the order of the file; only where the file names columns |
//! | `data.scaling` | text: `none`, `unit-norm`, `center`, `standard`; or `range` followed by lo and hi, two numbers; or `soft-bins` followed by the bins, an integer |
//! | `data.densify` | one byte, 0 or 1 |
//! | `flynn.m`, `flynn.s`, `flynn.rho` | integer, multiples resolved; this and the two below not with the tasks `xclp` and `sketch` |
//! | `flynn.gamma` | number |
//! | `flynn.score` | text: `decay`, `balanced-decay`, `log`, `balanced-log` |
//! | `tune.folds` | integer; only with the task `tune` |
//! | `tune.settings` | list, in the order of the file; an item is LE u64 length of scaling, scaling as above, densify as above, m, s and rho as integers; only with the task `tune` |
//! | `xclp.bits`, `xclp.k` | integer; this and the fields below only with the task `xclp` |
//! | `xclp.many_neighbours` | one byte, 0 or 1 |
//! | `xclp.alpha` | number |
//! | `xclp.power` | integer |
//! | `xclp.balance` | one byte, 0 or 1 |
//! | `xclp.tolerance` | number |
//! | `xclp.hamming` | text: `dealer`, `ot`, `phe` |
//! | `sketch.hash` | text: `srp`, `minhash`; this and the fields below only with the task `sketch` or a `select` |
//! | `sketch.rows`, `sketch.range` | integer |
//! | `sketch.publish`, `sketch.pairwise` | one byte, 0 or 1 |
//! | `sketch.active`, `sketch.chosen` | integer |
//! | `sketch.temperature` | number |
//! | `privacy.min_holders` | integer |
//! | `privacy.colluding` | number |
//! | `privacy.epsilon`, `privacy.top` | integer, epsilon in millionths; this and the two below only where there is an epsilon; the second not with the task `sketch` |
//! | `privacy.mode` | text: `per-party`, `parallel`, `central` |
//! | `privacy.colluders` | integer; only with the mode `central` |
//! | `timing.gather_ms`, `timing.propose_ms`, `timing.stall_ms`, `timing.quorum_ms`, `timing.compute_ms`, `timing.linger_ms`, `timing.max_views` | integer |
//! | `roster.peer_id` | list of the public keys (32 bytes each), ascending |
//! | `roster.name` | list, in the order of the public keys |
//!
//! An integer is a LE u64; a number the LE bytes of its IEEE 754 binary64, -0 as 0 (lo and hi are first
//! rounded to binary32); a text its UTF-8 bytes; a list a LE u64 count, then for each item a LE u64 length
//! and the item. Fields left out in the file enter with their defaults. Addresses, comments and layout do not
//! enter.
//!
//! So that two peers with different files can say where they differ, each field also has a hash of its own:
//! the first 8 bytes of `SHA-256("flyswarm/4 session field" || 0x00 || entry)`, see [`Session::fields`].
//!
//! # The council
//!
//! The first 15 peers in the order of `SHA-256("flyswarm/4 council" || 0x00 || id || public key)`; all where
//! there are fewer.

mod encoding;
mod file;
mod noise;
mod rules;
mod size;
mod sketch;
pub(crate) mod words;
mod xclp;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::crypto::identity::PublicKey;
pub use crate::model::readout::Score;

pub use noise::{NoiseMode, NoiseSpec};
pub(crate) use rules::printable;
pub use rules::{SessionError, check_name, check_plain_name};
pub use size::{Size, Sizes};
pub use sketch::{Select, SketchSpec};
pub use xclp::{Hamming, XclpSpec};

/// How many peers vote, hold shares and make the coin (design, section 3). The shares of a decision are at
/// most 15 x 15.
pub const COUNCIL: usize = 15;

/// A peer, by its place in the roster (which is in the order of the public keys), from 0.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer(pub u16);

impl Peer {
    /// The place as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// SHA-256 of a session's canonical encoding; see the module documentation. Printed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 32]);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// A session as agreed on. [`Session::parse`] gives only sessions that keep all the rules; after changing one
/// by hand, pass it through [`Session::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// What people call it: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, the first no point.
    pub name: String,
    /// What is computed.
    pub task: TaskKind,
    /// A view has at least so many members: from [`TaskKind::smallest_view`], the default, to the whole roster.
    pub min_peers: u16,
    /// What the rows look like.
    pub data: DataSpec,
    /// The parameters of the task `flynn`; with the task `tune` the setting that the others are compared
    /// with; [`FlynnSpec::NONE`] with `xclp` and `sketch`.
    pub flynn: FlynnSpec,
    /// What the task `tune` compares; none with another task.
    pub tune: Option<TuneSpec>,
    /// The parameters of the task `xclp`; none with another task.
    pub xclp: Option<XclpSpec>,
    /// The parameters of the task `sketch`; with the task `flynn` those by which its peers are drawn
    /// (`select`), none where all take part; none with another task.
    pub sketch: Option<SketchSpec>,
    /// What is refused for the sake of privacy.
    pub privacy: Privacy,
    /// How long to wait for what.
    pub timing: Timing,
    /// The peers, 3 to 1,024, in the order of their public keys: `roster[p]` is [`Peer`] p.
    pub roster: Vec<Entry>,
}

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// FlyNNFL (Ram and Sinha, "Federated Nearest Neighbor Classification with a Colony of Fruit-Flies", AAAI
    /// 2022).
    Flynn,
    /// Cross-validation of settings of FlyNN over the rows of all peers.
    Tune,
    /// Label propagation over the points of all peers (Scott, Yeo & Lampert, "Cross-client Label
    /// Propagation", TMLR 2023).
    Xclp,
    /// How far each peer's data lie from those of all (Liu, Xu, Coleman & Shrivastava, "One-Pass Distribution
    /// Sketch for Measuring Data Heterogeneity in Federated Learning", NeurIPS 2023).
    Sketch,
}

impl TaskKind {
    /// Whether there is a `[flynn]`.
    #[must_use]
    pub fn trains(self) -> bool {
        matches!(self, Self::Flynn | Self::Tune)
    }

    /// The members of the smallest view that can come to something: a majority of a roster of so many, and at
    /// least the 3 members of a sum; with the task `xclp` 3 owners of rows and 2 witnesses.
    #[must_use]
    pub fn smallest_view(self, roster: usize) -> usize {
        (roster / 2 + 1).max(if self == Self::Xclp { 5 } else { 3 })
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flynn => "flynn",
            Self::Tune => "tune",
            Self::Xclp => "xclp",
            Self::Sketch => "sketch",
        })
    }
}

/// What the rows of every peer look like.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSpec {
    /// Features of a row: 1 to 65,536.
    pub features: u32,
    /// Names of the features in their order, one for each and all different, each 1 to 64 printable
    /// characters; empty where the file has none. Rows that have names of their own must have these.
    pub columns: Vec<String>,
    /// The classes, 2 to 1,000, all different, each 1 to 64 printable characters; none with the task
    /// `sketch`. Their order is that of the counts and decides ties.
    pub classes: Vec<String>,
    /// How features are brought to one scale.
    pub scaling: Scaling,
    /// Whether rows get random signs, are padded with zeros to a power of two and Walsh-Hadamard transformed,
    /// after scaling.
    pub densify: bool,
}

impl DataSpec {
    /// Numbers of a scaled row: the features, with soft bins times the bins.
    #[must_use]
    pub fn width(&self) -> u32 {
        match self.scaling {
            Scaling::SoftBins { bins } => self.features * u32::from(bins),
            _ => self.features,
        }
    }

    /// Length d of a row as the hash sees it: the width, with `densify` padded to the next power of two.
    #[must_use]
    pub fn dimension(&self) -> u32 {
        let width = self.width();
        if self.densify { width.next_power_of_two() } else { width }
    }
}

/// How features are brought to one scale everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scaling {
    /// Taken as they are.
    None,
    /// Each row divided by its L2 norm.
    UnitNorm,
    /// Mapped linearly from `lo..hi` to 0..1; both finite, `lo` below `hi`.
    Range {
        /// The value that becomes 0.
        lo: f32,
        /// The value that becomes 1.
        hi: f32,
    },
    /// The mean of each feature over all peers is subtracted (a sealed sum).
    Center,
    /// As `Center`, then divided by the standard deviation over all peers (a second sealed sum).
    Standard,
    /// As `Standard`, then each feature spread over overlapping bins (an extension, see
    /// [`crate::sketch::scaling`]).
    SoftBins {
        /// How many: 2 to 64; features x bins at most 2^20.
        bins: u16,
    },
}

impl Scaling {
    /// The same for rows.
    #[must_use]
    pub fn of_rows(self) -> crate::sketch::scaling::Scaling {
        use crate::sketch::scaling::Scaling as OfRows;
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

/// The parameters of FlyNN (paper, Algorithm 1). d is [`DataSpec::dimension`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FlynnSpec {
    /// Rows of the lifting matrix = bits of a hash. At least 1; m x classes counts of 4 bytes make at most 1
    /// GiB.
    pub m: u32,
    /// Ones in a row of the matrix: 2 to d.
    pub s: u32,
    /// Ones in a hash: 1 to m.
    pub rho: u32,
    /// Decay: a bit set c times by a class weighs gamma^c. 0 <= gamma < 1.
    pub gamma: f64,
    /// What counts mean at prediction: the paper's score, or an extension of it.
    pub score: Score,
}

impl FlynnSpec {
    /// Stands in sessions that train no FlyNN.
    pub const NONE: Self = Self { m: 1, s: 2, rho: 1, gamma: 0.0, score: Score::Decay };
}

/// What the task `tune` compares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneSpec {
    /// Parts of every peer's rows, each scored once by what was learnt from the others: 2 to 20. Default 3.
    pub folds: u16,
    /// 1 to 64 settings beside that of `[data]` and `[flynn]`. The counts of all of them, in every fold, make
    /// at most 1 GiB.
    pub settings: Vec<Setting>,
}

impl TuneSpec {
    /// The default of `folds`.
    pub const FOLDS: u16 = 3;
}

/// What decides a sketch, but for the features and the seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setting {
    /// How features are brought to one scale.
    pub scaling: Scaling,
    /// See [`DataSpec::densify`].
    pub densify: bool,
    /// See [`FlynnSpec::m`].
    pub m: u32,
    /// See [`FlynnSpec::s`].
    pub s: u32,
    /// See [`FlynnSpec::rho`].
    pub rho: u32,
}

/// What is refused for the sake of privacy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Privacy {
    /// A class held by fewer peers is refused, and so is a sum with fewer members that hold rows: 1 to the
    /// size of the roster. Default 3.
    pub min_holders: u16,
    /// The share of the roster that may collude without learning a single peer's part: 0.01 to 0.99. Above 64
    /// peers it sets the degree of the mask graph. Default 1/3 (degree 32 at 1,000 peers).
    pub colluding: f64,
    /// Differential privacy; none where `privacy.epsilon` is left out.
    pub noise: Option<NoiseSpec>,
}

impl Default for Privacy {
    fn default() -> Self {
        Self { min_holders: 3, colluding: 1.0 / 3.0, noise: None }
    }
}

/// How long to wait for what, in milliseconds. The defaults are guesses for a LAN; ranges are in the session
/// file's comments and in the messages that refuse other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// How long to wait for the whole roster before going on with those present. 0 to 3,600,000, default
    /// 10,000.
    pub gather_ms: u64,
    /// The peer of rank r proposes a view after r times this without progress. 1 to 3,600,000, default 2,000.
    pub propose_ms: u64,
    /// A view without progress for this long has failed. 3,000 to 3,600,000, default 10,000.
    pub stall_ms: u64,
    /// When too few peers are reachable for this long, give up. 1 to 86,400,000, default 60,000.
    pub quorum_ms: u64,
    /// The longest computation that still counts as progress. 1 to 86,400,000, default 600,000.
    pub compute_ms: u64,
    /// How long a finished peer stays to serve the others. 0 to 86,400,000, default 30,000.
    pub linger_ms: u64,
    /// After so many failed views the session ends with an error (a number, not a time). 1 to 1,000, default
    /// 16.
    pub max_views: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            gather_ms: 10_000,
            propose_ms: 2_000,
            stall_ms: 10_000,
            quorum_ms: 60_000,
            compute_ms: 600_000,
            linger_ms: 30_000,
            max_views: 16,
        }
    }
}

/// A peer of the roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its identity, different from all others.
    pub key: PublicKey,
    /// What people call it: as the session's name, different from all others.
    pub name: String,
    /// Where it can be reached, multiaddresses as text, at most 16. Not part of the session id; may be empty
    /// (mDNS).
    pub addresses: Vec<String>,
}

impl Session {
    /// The council, in its order: the first [`COUNCIL`] peers by SHA-256 over session id and public key
    /// (module documentation).
    #[must_use]
    pub fn council(&self) -> Vec<Peer> {
        let id = self.id();
        let mut ranked: Vec<([u8; 32], Peer)> =
            self.peers().map(|peer| (encoding::council_rank(id, self.key(peer)), peer)).collect();
        ranked.sort_unstable();
        ranked.into_iter().take(COUNCIL).map(|(_, peer)| peer).collect()
    }

    /// How many members of the council are a majority of it: 8 of 15.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.roster.len().min(COUNCIL) / 2 + 1
    }

    /// All peers, in order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Peer> + use<> {
        // At most 1,024 (rules); a hand-made roster beyond 65,536 ends there.
        (0..u16::try_from(self.roster.len()).unwrap_or(u16::MAX)).map(Peer)
    }

    /// The peer with this key, if it is in the roster.
    #[must_use]
    pub fn peer(&self, key: &PublicKey) -> Option<Peer> {
        let index = self.roster.binary_search_by(|entry| entry.key.cmp(key)).ok()?;
        u16::try_from(index).ok().map(Peer)
    }

    /// Whether there is such a peer: to be asked of every number that comes from outside.
    #[must_use]
    pub fn contains(&self, peer: Peer) -> bool {
        peer.index() < self.roster.len()
    }

    /// The public key of a peer.
    ///
    /// # Panics
    /// If there is no such peer ([`Session::contains`]).
    #[must_use]
    pub fn key(&self, peer: Peer) -> PublicKey {
        self.roster[peer.index()].key
    }

    /// The name of a peer.
    ///
    /// # Panics
    /// If there is no such peer ([`Session::contains`]).
    #[must_use]
    pub fn name(&self, peer: Peer) -> &str {
        &self.roster[peer.index()].name
    }

    /// Every setting that the task `tune` compares, that of `[data]` and `[flynn]` first.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let FlynnSpec { m, s, rho, .. } = self.flynn;
        let own = Setting { scaling: self.data.scaling, densify: self.data.densify, m, s, rho };
        std::iter::once(own).chain(self.tune.iter().flat_map(|tune| tune.settings.iter().copied())).collect()
    }

    /// Whether peers are drawn by their sketches, and only their rows are learnt from (`select`).
    #[must_use]
    pub fn selects(&self) -> bool {
        self.task == TaskKind::Flynn && self.sketch.is_some()
    }

    /// Number of counts in the model: m x classes. At most 2^28.
    #[must_use]
    pub fn counts(&self) -> usize {
        self.flynn.m as usize * self.data.classes.len()
    }
}

#[cfg(test)]
mod tests;
