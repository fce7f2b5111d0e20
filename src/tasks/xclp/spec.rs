//! The task `xclp` in a session file.

use std::any::Any;
use std::fmt::{self, Write};

use serde_json::Value;

use crate::session::encoding::Field;
use crate::session::fields::{self, Row, Word};
use crate::session::rules::{self, Limit};
use crate::session::{DataSpec, Session, SessionError};
use crate::session::{Sections, Spec};
use crate::tasks::{BuiltIn, Protection, Protections, TaskKind};
use flyswarm_mpc::propagation::integer::{CODE_BITS, MOST_STEPS, Plan, Settings, enough_steps};

/// At least three peers, because three members compute. At most 64, because every two peers exchange
/// messages.
const ROSTER: Limit = Limit::new("the length of roster", 3, 64)
    .saying(" with the task xclp: three members compute, and each peer exchanges messages with all others");

/// Default limit on the rows of an owner. An owner that adds k + 1 = 11 copies of a known person's features
/// can read this person's label. So with 500 rows it can read the labels of at most 45 persons in a session;
/// the measured attack read 100. The limit counts all rows, because no peer sees which rows have a label, and
/// an owner can invent labels.
pub(crate) const MOST_ROWS: u32 = 500;

/// Method for making shares of distances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hamming {
    /// Owners share the bits of their codes, and the computing members compute distances. Two computing
    /// members that collude can see codes.
    #[default]
    Replicated,
    /// Every two owners make shares of their distances by oblivious transfer, and share these with the
    /// computing members. Two computing members that collude can see distances, but not codes.
    Ot,
    /// The same as `Ot`, but with homomorphic encryption.
    Phe,
}

impl Hamming {
    /// All methods, the default first.
    pub const ALL: [Self; 3] = [Self::Replicated, Self::Ot, Self::Phe];

    /// Returns the name in session files and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// Returns the number of bytes that an owner of `one` rows and an owner of `other` rows send each other
    /// to make shares of distances between codes of `bits` bits.
    #[must_use]
    pub fn bytes(self, one: u64, other: u64, bits: u64) -> u64 {
        let (few, many) = (one.min(other), one.max(other));
        match self {
            Self::Replicated => 0,
            // The bytes of the points, and strings and columns for each bit of the owner with fewer rows.
            Self::Ot => 129 * 32 + few * bits * (2 * many + 16),
            // The bytes of a key and of ciphertexts for groups of 512 rows. For each group, there is also an
            // answer for each row of the other owner.
            Self::Phe => {
                let (groups, stride) = (few.div_ceil(512), few.next_power_of_two().min(512));
                let wanted = (groups - 1) * 3200 + (50 * (few - 512 * (groups - 1))).div_ceil(8);
                let ciphertexts = groups * (bits * stride).div_ceil(4096) * 51_200;
                51_232 + ciphertexts + many * (groups * 25_600 + wanted)
            }
        }
    }

    /// Returns whether every two owners make shares of their distances.
    #[must_use]
    pub fn is_pairwise(self) -> bool {
        self != Self::Replicated
    }
}

impl fmt::Display for Hamming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Hamming {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| "expected replicated, ot or phe".into())
    }
}

/// Protection against computing members that deviate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cheaters {
    /// Each computing member proves each of its messages to the other two before anything is opened.
    Caught,
    /// Nothing is proved.
    #[default]
    Trusted,
}

impl Word for Cheaters {
    const WORDS: &'static [(&'static str, Self)] = &[("caught", Self::Caught), ("trusted", Self::Trusted)];
}

/// Warning to every owner about possible attacks of the others.
const COPIES: &str = "a peer that knows a person's features and brings eleven copies of them can read that person's \
                      label (in a test for 87 of 100 persons); xclp.most_rows limits the rows of an owner (docs/labels.md)";
/// Warning if the computing members do not prove their messages.
const TRUSTED: &str = "xclp.cheaters is \"trusted\": a computing member that deviates can read whose rows are near a \
                       chosen row, or change answers, and no peer notices";
/// Warning if owners make shares of distances, which are not checked.
const UNCHECKED: &str = "distances in pairs are not checked: an owner that deviates can read the label of one \
                         foreign row for each made-up row of its own (docs/labels.md)";

/// The parameters of XCLP (Scott, Yeo & Lampert, TMLR 2023, Algorithm 1).
#[derive(Debug, Clone, PartialEq)]
pub struct XclpSpec {
    /// Bits of a code, the paper's L: a power of two, 64 to 16,384. Default 4,096, as in the paper.
    pub bits: u32,
    /// Neighbours of a point, the paper's k: 1 to 1,000. Default 10.
    pub k: u32,
    /// Reach of the labels: 0.01 to 0.999. Default 0.99, as in the authors' code.
    pub alpha: f64,
    /// Number of terms of the label propagation series. By default the terms that are left out are at most
    /// 2e-4 of the series: 60 terms for alpha = 0.99.
    pub steps: u32,
    /// Similarities are cosines to this power: 1 (the paper) or 3 (the authors' code). Default 1.
    pub power: u8,
    /// True if each label of a class counts as one over the number of labels of the class. Default false, as
    /// in the paper.
    pub balance: bool,
    /// Method for making shares of distances. Default: from shares of codes.
    pub hamming: Hamming,
    /// Protection against computing members that deviate. Default: they prove each message.
    pub cheaters: Cheaters,
    /// Names of the three members that compute, and perhaps of a fourth, which replaces one that is lost. If
    /// empty, the default, the coin draws them.
    pub compute: Vec<String>,
    /// True if all owners together may have fewer than 5 (k + 1) rows. Default false.
    pub few_rows: bool,
    /// True if an owner may have more than half of the rows. Default false.
    pub large_owner: bool,
    /// Largest number of rows of an owner; 0 means no limit of this kind. Each row is a query about the
    /// labels of others. Default 500; 0 with the task fedavg-xclp.
    pub most_rows: u32,
    /// Largest number of sessions of a series, because each session answers the queries once more. 0, the
    /// default, means no limit.
    pub most_sessions: u32,
    /// Megabytes of memory that a computing member may use: 128 to 65,536. A session whose rows need more is
    /// refused. Default 1,024.
    pub memory_mb: u32,
}

impl Word for Hamming {
    const WORDS: &'static [(&'static str, Self)] =
        &[("replicated", Self::Replicated), ("ot", Self::Ot), ("phe", Self::Phe)];
}

/// The section `[xclp]`.
static FIELDS: &[Row<XclpSpec>] = fields::fields! { "xclp";
    bits at bits: whole(*CODE_BITS.start() as u64, *CODE_BITS.end() as u64),
        "Bits of a code: a power of two, 64 to 16384. More bits estimate angles better.";
    k at k: whole(1, 1000), "Neighbours of a point: 1 to 1000. If there are fewer other points, all of them.";
    alpha at alpha: number(0.01, 0.999, "0.01 to 0.999"),
        "Reach of labels (the paper's alpha): 0.01 to 0.999; and the number of steps, 60 for 0.99.";
    steps at steps: whole(1, MOST_STEPS as u64), "";
    power at power: whole(1, 3),
        "Similarities are cosines to this power: 1 in the paper, 3 in its authors' code.";
    balance at balance: flag,
        "true if each label counts as one over the number of labels of its class. Confidences then show the part of \
         each class in all labels.";
    hamming at hamming: word(Hamming),
        "Method for distances. \"replicated\": owners share their codes. \"ot\" or \"phe\": every two owners make \
         shares of their distances by oblivious transfer or homomorphic encryption. Two computing members \
         together then see distances, but no codes. This is slower, and owners are not checked.";
    cheaters at cheaters: word(Cheaters),
        "\"caught\": the computing members prove each message to each other, so one that deviates is found before \
         anything is opened. \"trusted\": they prove nothing, which saves most of the processor time. One that \
         deviates can then read whose rows are near a chosen row, or change answers, unnoticed.";
    compute at compute: names,
        "Names of the three members that compute, and of a fourth in reserve. One of them alone sees no rows, \
         distances or labels. Any two together see all. If the list is empty, the members are drawn at random.";
    few_rows at few_rows: flag,
        "true if there may be fewer than 5 (k + 1) rows together; and true if one owner may have more than half of \
         them. In both cases the answers show more about single rows.";
    large_owner at large_owner: flag, "";
    most_rows at most_rows: whole(0, 10_000),
        "Largest number of rows of an owner, and of sessions of the series; 0 for no limit. Each row of each \
         session is a question about the labels of others. With 500 rows an owner can read the labels of 45 \
         persons whose features it knows.";
    most_sessions at most_sessions: whole(0, 1_000_000), "";
    memory_mb at memory_mb: whole(128, 65_536),
        "Megabytes of memory that a computing member may use: 128 to 65536. If the rows need more, the session \
         ends. A machine with less free memory does not take part.";
};

impl Default for XclpSpec {
    fn default() -> Self {
        let alpha = 0.99;
        Self {
            bits: 4096,
            k: 10,
            alpha,
            steps: default_steps(alpha),
            power: 1,
            balance: false,
            hamming: Hamming::Replicated,
            cheaters: Cheaters::Caught,
            compute: Vec::new(),
            few_rows: false,
            large_owner: false,
            most_rows: MOST_ROWS,
            most_sessions: 0,
            memory_mb: 1024,
        }
    }
}

/// Returns a number of steps that is enough for this alpha.
fn default_steps(alpha: f64) -> u32 {
    u32::try_from(enough_steps(alpha)).unwrap_or(u32::MAX)
}

impl XclpSpec {
    /// Returns the same parameters with another alpha and the number of steps for it.
    #[must_use]
    pub fn with_alpha(self, alpha: f64) -> Self {
        Self { alpha, steps: default_steps(alpha), ..self }
    }

    /// Reads the section `[xclp]`. `usual` has the defaults.
    pub(crate) fn read_with(sections: &mut Sections<'_>, usual: Self) -> Result<Self, SessionError> {
        let mut spec = usual;
        let given = fields::read(FIELDS, sections, &mut spec)?;
        if given.contains(&"steps") { Ok(spec) } else { Ok(spec.clone().with_alpha(spec.alpha)) }
    }

    /// Returns the settings that the computation needs.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let &Self { bits, k, alpha, steps, power, balance, .. } = self;
        Settings { k: k as usize, bits, alpha, steps: steps as usize, power, balance }
    }

    /// Returns the smallest number of rows of all owners together that a session accepts, unless
    /// [`XclpSpec::few_rows`] is set.
    #[must_use]
    pub fn fewest_rows(&self) -> u64 {
        5 * (u64::from(self.k) + 1)
    }
}

impl XclpSpec {
    /// Reads the parameters from their sections. The rows and the number of peers do not matter.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        Self::read_with(sections, Self::default())
    }
}

impl Spec for XclpSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(session, self.clone()))
    }

    fn about(&self) -> &'static str {
        "labels for every peer's own rows, propagated over the rows of all peers"
    }

    fn roster(&self) -> Limit {
        ROSTER
    }

    fn protections(&self) -> Protections {
        Protections {
            contributors: Protection::ByTask(
                "needs rows at privacy.min_contributors members (at least 2), and treats a class with labels of fewer \
                 members as having no labels. It opens the number of rows of each member, and for each class \
                 the number of members with labels",
            ),
            columns: Protection::ByTask("compares columns if its scaling needs their means"),
            ..Protections::ALL
        }
    }

    fn parts(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        rules::check_classes(&session.data)?;
        fields::check(FIELDS, self)?;
        if !self.bits.is_power_of_two() {
            return Err(SessionError::value("xclp.bits", self.bits, "a power of two".to_owned()));
        }
        let place = session.run.place();
        if self.most_sessions > 0 && place > self.most_sessions {
            let limit = format!("at most xclp.most_sessions, {}", self.most_sessions);
            return Err(SessionError::value("series.number", place, limit));
        }
        // The plan is checked with few points. If they are refused, more points are refused too.
        Plan::new(self.fewest_rows() as usize, session.data.classes.len(), self.settings())
            .map_err(|refusal| SessionError::value("xclp.steps", self.steps, format!("enough: {refusal}")))?;
        let named = || format!("[{}]", self.compute.join(", "));
        let known = |name: &String| session.roster.iter().any(|entry| entry.name == *name);
        if let Some(stranger) = self.compute.iter().find(|name| !known(name)) {
            return Err(SessionError::value("xclp.compute", stranger, "names of the roster".to_owned()));
        }
        let twice = (1..self.compute.len()).any(|at| self.compute[..at].contains(&self.compute[at]));
        if twice || !matches!(self.compute.len(), 0 | 3 | 4) {
            let limit = "three different names, or four (the fourth in reserve), or none".to_owned();
            return Err(SessionError::value("xclp.compute", named(), limit));
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Field> {
        fields::entries(FIELDS, self)
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(out, "[xclp]")?;
        fields::write(FIELDS, self, out)?;
        writeln!(out)
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("xclp", fields::json(FIELDS, self).into())]
    }

    fn lines(&self, _data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { bits, k, alpha, steps, power, compute, few_rows, large_owner, memory_mb, .. } = self;
        let who = if compute.is_empty() { "drawn".to_owned() } else { compute.join(", ") };
        let balance = if self.balance { ", balanced classes" } else { "" };
        let megabytes = self.hamming.bytes(500, 500, (*bits).into()).div_ceil(1_000_000);
        let between =
            |way: &str| format!(", distances by {way} ({megabytes} MB between two owners of 500 rows)");
        let hamming = match self.hamming {
            Hamming::Replicated => String::new(),
            Hamming::Ot => between("oblivious transfer"),
            Hamming::Phe => between("homomorphic encryption"),
        };
        let few = if *few_rows { ", few rows allowed" } else { "" };
        let large = if *large_owner { ", a large owner allowed" } else { "" };
        let limit =
            |most: u32, what: &str| if most > 0 { format!(", at most {most} {what}") } else { String::new() };
        let rows = limit(self.most_rows, "rows of an owner");
        let sessions = limit(self.most_sessions, "sessions of the series");
        let text = format!(
            "{bits} bits, k = {k}, alpha = {alpha}, {steps} steps, power {power}{balance}{hamming}, \
             computing: {who}{few}{large}{rows}{sessions}, at most {memory_mb} MB"
        );
        let unchecked = self.hamming.is_pairwise().then_some(UNCHECKED);
        let trusted = (self.cheaters == Cheaters::Trusted).then_some(TRUSTED);
        let cautions = [Some(COPIES), unchecked, trusted].into_iter().flatten();
        let cautions = cautions.map(|text| ("caution", text.to_owned()));
        [("xclp", text)].into_iter().chain(cautions).collect()
    }

    fn caution(&self) -> Option<&'static str> {
        Some(if self.hamming.is_pairwise() { UNCHECKED } else { COPIES })
    }
}
