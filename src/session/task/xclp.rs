//! The task `xclp` in a session file.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::encoding::{Field, flag, integer, number, text};
use super::super::rules::{self, Limit, check_number};
use super::super::{DataSpec, Session, SessionError};
use super::{Section, Sections, Spec};
use crate::model::propagation::Propagation;
use crate::sketch::lsh::{MAX_BITS, WORD};

/// Two witnesses spread the labels and four others hold the blocks of distances, or somebody would keep both
/// sides of one. Every two peers talk, so there are not too many.
const ROSTER: Limit = Limit::new("the length of roster", 6, 64)
    .saying(" with the task xclp: 3 with rows and 3 witnesses, or 4 and 2; and every two peers talk");

/// How two owners get additive shares of the distances between their codes. All give the same distances; they
/// differ in who must not collude, and in cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hamming {
    /// A matrix triple that the block's custodian deals: the fastest, without public-key work. The custodian
    /// must not collude with one of the two.
    Dealer,
    /// Oblivious transfer between the two (SHADE, Bringer, Chabanne & Patey, 2013), without a dealer: 2 bytes
    /// for each bit and pair of rows.
    Ot,
    /// Packed homomorphic encryption between the two, without a dealer: 12.5 bytes for each bit of the one
    /// and 26 kB for each row of the other.
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
    /// Whether k may be more than a quarter of the features. An owner learns the k smallest distances of each
    /// of its points to other points, not whose they are; with as many distances as features it could locate
    /// those points.
    pub many_neighbours: bool,
    /// How far labels spread: 0.01 to 0.999. Default 0.99, as in the authors' code.
    pub alpha: f64,
    /// Similarities are cosines to this power: 1 (the paper) or 3 (the authors' code). Default 1.
    pub power: u8,
    /// Whether each class weighs the same however many labels it has, as in the authors' code. Default true.
    pub balance: bool,
    /// The error of scores; smaller scores count as 0. 1e-9 to 0.01. Default 1e-5.
    pub tolerance: f64,
    /// How two owners get shares of their distances. Default [`Hamming::Dealer`].
    pub hamming: Hamming,
}

/// The section `[xclp]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
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

    /// The parameters of the propagation.
    #[must_use]
    pub fn rule(&self) -> Propagation {
        let Self { k, alpha, power, balance, tolerance, .. } = *self;
        Propagation { k: k as usize, alpha, power, balance, tolerance }
    }
}

impl Spec for XclpSpec {
    fn sections() -> &'static [Section] {
        &[Section { name: "xclp", tasks: "xclp where there is an [xclp]" }]
    }

    fn read(sections: &mut Sections<'_>, data: &DataSpec, _peers: usize) -> Result<Self, SessionError> {
        sections.take::<Raw>("xclp")?.unwrap_or_default().resolve(data.features)
    }

    fn about(&self) -> &'static str {
        "labels for every peer's own rows, propagated over the rows of all peers"
    }

    fn roster(&self) -> Limit {
        ROSTER
    }

    fn members(&self) -> (usize, &'static str) {
        (5, " (a majority of the roster, and the 5 that labels need: 3 with rows, 2 witnesses)")
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        rules::check_classes(&session.data)?;
        let features = session.data.features;
        BITS.check::<u32>(self.bits)?;
        if !(self.bits as usize).is_multiple_of(WORD) {
            return Err(SessionError::value("xclp.bits", self.bits, format!("a multiple of {WORD}")));
        }
        K.check::<u32>(self.k)?;
        if !self.many_neighbours && self.k > (features / 4).max(1) {
            let limit = format!(
                "at most {}, a quarter of the features: with more, distances tell where points lie \
                 (many_neighbours = true allows it)",
                (features / 4).max(1)
            );
            return Err(SessionError::value("xclp.k", self.k, limit));
        }
        check_number("xclp.alpha", self.alpha, (0.01..=0.999).contains(&self.alpha), "0.01 to 0.999")?;
        POWER.check::<u8>(self.power)?;
        let tolerance = self.tolerance;
        check_number("xclp.tolerance", tolerance, (1e-9..=0.01).contains(&tolerance), "1e-9 to 0.01")
    }

    fn entries(&self) -> Vec<Field> {
        vec![
            ("xclp.bits", integer(self.bits)),
            ("xclp.k", integer(self.k)),
            ("xclp.many_neighbours", flag(self.many_neighbours)),
            ("xclp.alpha", number(self.alpha)),
            ("xclp.power", integer(self.power)),
            ("xclp.balance", flag(self.balance)),
            ("xclp.tolerance", number(self.tolerance)),
            ("xclp.hamming", text(self.hamming.name())),
        ]
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
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
        writeln!(out, "# The error of scores; smaller scores count as none: 1e-9 to 0.01.")?;
        writeln!(out, "tolerance = {tolerance:?}")?;
        writeln!(
            out,
            "# How two owners get shares of their distances: \"dealer\" (a third member deals a triple),"
        )?;
        writeln!(
            out,
            "# \"ot\" (oblivious transfer between the two, far more bytes) or \"phe\" (homomorphic"
        )?;
        writeln!(out, "# encryption, more work).")?;
        writeln!(out, "hamming = \"{hamming}\"\n")
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("xclp", json!(self))]
    }

    fn lines(&self, _data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { bits, k, alpha, power, balance, tolerance, hamming, .. } = self;
        let balanced = if *balance { ", classes balanced" } else { "" };
        let text = format!(
            "{bits} bits, k = {k}, alpha = {alpha}, power {power}, tolerance {tolerance}{balanced}, \
             distances by {hamming}"
        );
        vec![("xclp", text)]
    }
}

impl Raw {
    fn resolve(self, features: u32) -> Result<XclpSpec, SessionError> {
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
