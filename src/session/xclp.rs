//! The parameters of the task `xclp` in a session file.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SessionError;
use super::rules::{Limit, check_number};
use crate::model::propagation::Propagation;
use crate::sketch::lsh::{MAX_BITS, WORD};

/// Most peers of a session of the task `xclp`: every two of them talk.
pub(super) const MAX_PEERS: usize = 64;

/// How two owners get additive shares of the distances between their codes: the same distances, with others
/// who must not collude and other costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hamming {
    /// A matrix triple that the block's custodian deals: the fastest, and no public-key work; whoever deals
    /// must not collude with one of the two.
    Dealer,
    /// Oblivious transfer between the two (SHADE, Bringer, Chabanne & Patey, 2013): nobody deals anything; 2
    /// bytes for each bit and pair of rows.
    Ot,
    /// Packed homomorphic encryption between the two: nobody deals anything; 12.5 bytes for each bit of the
    /// one and 26 kB for each row of the other.
    Phe,
}

impl Hamming {
    /// The name in session files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dealer => "dealer",
            Self::Ot => "ot",
            Self::Phe => "phe",
        }
    }
}

impl fmt::Display for Hamming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Hamming {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<Self, SessionError> {
        let all = [Self::Dealer, Self::Ot, Self::Phe];
        let found = all.into_iter().find(|each| each.name() == text);
        found.ok_or_else(|| SessionError::value("xclp.hamming", text, "dealer, ot or phe"))
    }
}

/// The parameters of XCLP (Scott, Yeo & Lampert, TMLR 2023, Algorithm 1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct XclpSpec {
    /// Bits of a code, the paper's L: a multiple of 64, 64 to 16,384. Default 4,096, as in the paper.
    pub bits: u32,
    /// Neighbours of a point, the paper's k: 1 to 1,000, and at most a quarter of the features unless
    /// `many_neighbours`. Default 10, or a quarter of the features.
    pub k: u32,
    /// Whether k may be more than a quarter of the features: an owner learns the k smallest distances of each
    /// of its points to others, not whose, and with as many as it has features it could place them.
    pub many_neighbours: bool,
    /// How far labels spread: 0.01 to 0.999. Default 0.99, as in the authors' code.
    pub alpha: f64,
    /// Similarities are cosines to this power: 1 (the paper) or 3 (the authors' code). Default 1.
    pub power: u8,
    /// Whether each class weighs the same however many labels it has, as in the authors' code. Default true.
    pub balance: bool,
    /// Scores are right to this, and smaller ones count as 0: 1e-9 to 0.01. Default 1e-5.
    pub tolerance: f64,
    /// How two owners get shares of their distances. Default [`Hamming::Dealer`].
    pub hamming: Hamming,
}

/// The section of the file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawXclp {
    bits: Option<i64>,
    k: Option<i64>,
    many_neighbours: Option<bool>,
    alpha: Option<f64>,
    power: Option<i64>,
    balance: Option<bool>,
    tolerance: Option<f64>,
    hamming: Option<String>,
}

const BITS: Limit = Limit::new("xclp.bits", WORD as u64, MAX_BITS as u64);
const K: Limit = Limit::new("xclp.k", 1, 1000);
const POWER: Limit = Limit::new("xclp.power", 1, 3);

impl XclpSpec {
    /// The defaults for rows of so many features.
    #[must_use]
    pub fn new(features: u32) -> Self {
        Self {
            bits: 4096,
            k: 10.min(features / 4).max(1),
            many_neighbours: false,
            alpha: 0.99,
            power: 1,
            balance: true,
            tolerance: 1e-5,
            hamming: Hamming::Dealer,
        }
    }

    /// The same for propagation.
    #[must_use]
    pub fn rule(&self) -> Propagation {
        let Self { k, alpha, power, balance, tolerance, .. } = *self;
        Propagation { k: k as usize, alpha, power, balance, tolerance }
    }

    pub(super) fn check(&self, features: u32, peers: usize) -> Result<(), SessionError> {
        BITS.check::<u32>(self.bits)?;
        if !(self.bits as usize).is_multiple_of(WORD) {
            return Err(SessionError::value("xclp.bits", self.bits, format!("a multiple of {WORD}")));
        }
        K.check::<u32>(self.k)?;
        if !self.many_neighbours && self.k > (features / 4).max(1) {
            let limit = format!(
                "at most {}, a quarter of the features: with more, distances tell where points lie (many_neighbours = true allows it)",
                (features / 4).max(1)
            );
            return Err(SessionError::value("xclp.k", self.k, limit));
        }
        check_number("xclp.alpha", self.alpha, (0.01..=0.999).contains(&self.alpha), "0.01 to 0.999")?;
        POWER.check::<u8>(self.power)?;
        check_number(
            "xclp.tolerance",
            self.tolerance,
            (1e-9..=0.01).contains(&self.tolerance),
            "1e-9 to 0.01",
        )?;
        if peers > MAX_PEERS {
            return Err(SessionError::value(
                "the length of roster",
                peers,
                format!("at most {MAX_PEERS} with the task xclp, where every two peers talk"),
            ));
        }
        Ok(())
    }

    pub(super) fn entries(&self) -> [(&'static str, Vec<u8>); 8] {
        let integer = |value: u64| value.to_le_bytes().to_vec();
        [
            ("xclp.bits", integer(self.bits.into())),
            ("xclp.k", integer(self.k.into())),
            ("xclp.many_neighbours", vec![u8::from(self.many_neighbours)]),
            ("xclp.alpha", self.alpha.to_le_bytes().to_vec()),
            ("xclp.power", integer(self.power.into())),
            ("xclp.balance", vec![u8::from(self.balance)]),
            ("xclp.tolerance", self.tolerance.to_le_bytes().to_vec()),
            ("xclp.hamming", self.hamming.name().into()),
        ]
    }

    pub(super) fn write_toml(&self, out: &mut String) -> std::fmt::Result {
        let Self { bits, k, many_neighbours, alpha, power, balance, tolerance, hamming } = self;
        writeln!(out, "[xclp]")?;
        writeln!(
            out,
            "# Bits of a code: a multiple of {WORD}, at most {MAX_BITS}. More estimate angles better."
        )?;
        writeln!(out, "bits = {bits}")?;
        writeln!(
            out,
            "# Neighbours of a point: 1 to 1000, at most a quarter of the features unless many_neighbours;"
        )?;
        writeln!(
            out,
            "# each owner learns as many distances from each of its points to others, but not whose."
        )?;
        writeln!(out, "k = {k}\nmany_neighbours = {many_neighbours}")?;
        writeln!(out, "# How far labels spread: 0.01 to 0.999.")?;
        writeln!(out, "alpha = {alpha:?}")?;
        writeln!(out, "# Similarities are cosines to this power: 1 in the paper, 3 in its authors' code.")?;
        writeln!(out, "power = {power}")?;
        writeln!(out, "# Whether each class weighs the same however many labels it has.")?;
        writeln!(out, "balance = {balance}")?;
        writeln!(out, "# Scores are right to this, and smaller ones count as none: 1e-9 to 0.01.")?;
        writeln!(out, "tolerance = {tolerance:?}")?;
        writeln!(
            out,
            "# How two owners get shares of their distances: \"dealer\" (a third member deals them a triple), \"ot\""
        )?;
        writeln!(
            out,
            "# (oblivious transfer between the two, far more bytes) or \"phe\" (homomorphic encryption, more work)."
        )?;
        writeln!(out, "hamming = \"{hamming}\"\n")
    }
}

impl RawXclp {
    pub(super) fn resolve(self, features: u32) -> Result<XclpSpec, SessionError> {
        let defaults = XclpSpec::new(features);
        Ok(XclpSpec {
            bits: self.bits.map_or(Ok(defaults.bits), |bits| BITS.check(bits))?,
            k: self.k.map_or(Ok(defaults.k), |k| K.check(k))?,
            many_neighbours: self.many_neighbours.unwrap_or(defaults.many_neighbours),
            alpha: self.alpha.unwrap_or(defaults.alpha),
            power: self.power.map_or(Ok(defaults.power), |power| POWER.check(power))?,
            balance: self.balance.unwrap_or(defaults.balance),
            tolerance: self.tolerance.unwrap_or(defaults.tolerance),
            hamming: self.hamming.map_or(Ok(defaults.hamming), |name| name.parse())?,
        })
    }
}
