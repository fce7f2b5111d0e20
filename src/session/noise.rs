//! Differential privacy in a session file: `privacy.epsilon`, `.top`, `.mode`, `.colluders`, `.unit` and
//! `.group_rows`.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::encoding::{Field, integer};
use super::fields::field;
use super::rules::Limit;
use super::task::Release;
use super::{DataSpec, Scaling, Session, SessionError, TaskSpec};
use crate::crypto::mask::{self, Word};
use crate::privacy::Ratio;
use crate::privacy::mechanism::Mechanism;

/// Differential privacy of a session of the task `flynn`, `sketch` or `fedavg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NoiseSpec {
    /// Budget: a decimal number from 0.001 to 100 with at most six decimal places. It is stored exactly.
    pub epsilon: Ratio,
    /// With the mode `member`, the probability that the bound epsilon does not hold: a decimal number from
    /// 10^-12 to 0.01 with at most twelve decimal places, stored exactly. With the other modes `None`,
    /// because the bound always holds.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_number")]
    pub delta: Option<Ratio>,
    /// Number of counts in the release of a peer, the paper's T. With the mode `central`, the number of
    /// counts of the total that are kept. 1 to m x classes; 0 with the task `sketch`, which releases every
    /// counter.
    pub top: u32,
    /// Definition of neighbouring data sets.
    pub mode: NoiseMode,
    /// With the modes `central` and `member`, the number of peers that may collude without learning more: 1
    /// to `min_peers` - 1, and fewer than a majority of the committee. Default 1. With the other modes 0,
    /// because they need no such limit.
    pub colluders: u16,
    /// Unit of privacy: one row, or all rows of a group.
    #[serde(flatten)]
    pub unit: PrivacyUnit,
}

/// The rows in which two neighbouring data sets may differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "unit", rename_all = "kebab-case")]
pub enum PrivacyUnit {
    /// One row.
    #[default]
    Row,
    /// All rows of one group, such as those of one patient. A peer uses at most `group_rows` rows of a group,
    /// and each mechanism gets the budget epsilon / `group_rows`. This is enough, because a mechanism that is
    /// epsilon-private for one row is g epsilon-private for g rows (Dwork & Roth, "The Algorithmic
    /// Foundations of Differential Privacy", 2014, theorem 2.2).
    Group {
        /// Maximum number of rows of a group: 1 to 1,000.
        group_rows: u16,
    },
}

impl PrivacyUnit {
    /// Returns the maximum number of rows that a unit has.
    #[must_use]
    pub fn rows(self) -> u16 {
        match self {
            Self::Row => 1,
            Self::Group { group_rows } => group_rows,
        }
    }
}

/// `privacy.unit` as it is written in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawUnit {
    Row,
    Group,
}

/// Definitions of neighbouring data sets (docs/privacy.md).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseMode {
    /// One row is replaced at every peer at the same time, so each peer may spend an equal part of epsilon
    /// (the paper's Algorithm 2).
    #[default]
    PerParty,
    /// One row is replaced at one peer, so each peer may spend all of epsilon.
    Parallel,
    /// One row is replaced at one peer, and only the total is opened. The members add shares of the noise to
    /// a sealed sum.
    Central,
    /// All rows of one peer are replaced, and only the totals of all rounds are opened. The members add
    /// shares of the noise to each sealed sum (task `fedavg`).
    Member,
}

impl fmt::Display for NoiseMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PerParty => "per-party",
            Self::Parallel => "parallel",
            Self::Central => "central",
            Self::Member => "member",
        })
    }
}

/// Fields as they are written in the file.
pub(super) struct RawNoise {
    pub(super) epsilon: Option<f64>,
    pub(super) delta: Option<f64>,
    pub(super) top: Option<i64>,
    pub(super) mode: Option<NoiseMode>,
    pub(super) colluders: Option<i64>,
    pub(super) unit: Option<RawUnit>,
    pub(super) group_rows: Option<i64>,
}

/// Range of epsilon, in millionths.
const EPSILON: (u64, u64) = (1_000, 100_000_000);
const EPSILON_LIMIT: &str = "0.001 to 100, with at most six decimal places";
/// Range of delta, in parts of 10^12.
const DELTA: (u64, u64) = (1, 10_000_000_000);
const DELTA_LIMIT: &str = "1e-12 to 0.01, with at most twelve decimal places";
/// Maximum number of rows of a group.
const MOST_GROUP_ROWS: u64 = 1_000;
/// Maximum of peers x `top` x `group_rows`. It ensures that the ratios of the mechanisms fit in 64 bits.
const MOST_PARTS: u64 = 1 << 41;

fn as_number<S: serde::Serializer>(delta: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&delta.map(Ratio::to_f64))
}

impl NoiseSpec {
    /// Makes a specification with the default number of colluders and the unit of one row.
    #[must_use]
    pub fn new(epsilon: Ratio, top: u32, mode: NoiseMode) -> Self {
        let (colluders, unit) = (u16::from(mode.in_shares()), PrivacyUnit::Row);
        Self { epsilon, delta: None, top, mode, colluders, unit }
    }

    /// Returns the decimal delta that a reader converts to this binary64, or `None` if it is out of range.
    #[must_use]
    pub fn exact_delta(number: f64) -> Option<Ratio> {
        read_delta(number)
    }

    /// Returns delta in parts of 10^12, if that is a whole number.
    fn trillionths(&self) -> Option<u64> {
        let exact = self.delta?.times(1_000_000_000_000)?;
        (exact.denominator() == 1).then_some(exact.numerator())
    }

    /// Returns the number of members whose noise must be enough for a total. Every view has at least this
    /// number of members that do not collude.
    #[must_use]
    pub fn parties(&self, session: &Session) -> u32 {
        u32::from(session.min_peers.saturating_sub(self.colluders).max(1))
    }

    /// Returns epsilon in millionths, if that is a whole number.
    fn millionths(&self) -> Option<u64> {
        let exact = self.epsilon.times(1_000_000)?;
        (exact.denominator() == 1).then_some(exact.numerator())
    }

    /// Returns the budget of one row in the release of a peer. With the modes `central` and `member`, this is
    /// the budget in the total.
    ///
    /// # Panics
    /// If the session was not checked.
    #[must_use]
    pub fn each(&self, session: &Session) -> Ratio {
        let peers = if self.mode == NoiseMode::PerParty { session.roster.len() as u64 } else { 1 };
        let parts = peers * u64::from(self.unit.rows());
        self.epsilon.over(parts).unwrap_or_else(|| panic!("{self:?} was not checked"))
    }

    /// Returns the mechanism that each peer of the task `flynn` applies to its counts. Each row changes
    /// `weight` counts.
    ///
    /// # Panics
    /// If the session was not checked.
    #[must_use]
    pub fn mechanism(&self, session: &Session, weight: u32) -> Mechanism {
        let (top, epsilon) = (self.top, self.each(session));
        let most = mask::capacity(Word::W32, session.roster.len() as u64);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        match self.mode {
            NoiseMode::PerParty | NoiseMode::Parallel => Mechanism::Release { epsilon, top, most },
            NoiseMode::Central | NoiseMode::Member => {
                Mechanism::Shares { epsilon, top, weight, parties: self.parties(session) }
            }
        }
    }

    pub(super) fn check(&self, session: &Session) -> Result<(), SessionError> {
        if !self.millionths().is_some_and(|number| (EPSILON.0..=EPSILON.1).contains(&number)) {
            return Err(SessionError::value("privacy.epsilon", self.epsilon, EPSILON_LIMIT));
        }
        let release = session.task.release(&session.data);
        if release == Release::Nothing {
            return Err(no_release(&session.task));
        }
        if let scaling @ (Scaling::Center | Scaling::Standard | Scaling::SoftBins { .. }) =
            session.data.scaling
        {
            let limit = "none, unit-norm or range with privacy.epsilon: others need exact means over \
                         all peers";
            return Err(SessionError::value("data.scaling", scaling, limit));
        }
        match release {
            Release::Top(counts) => drop(top(counts).check::<u32>(self.top)?),
            _ if self.top > 0 => return Err(top_of_every(&session.task, self.top)),
            _ => {}
        }
        if release == Release::Every && self.mode == NoiseMode::Central {
            let limit = format!(
                "per-party or parallel with the task {}: each peer's score is made of its own release",
                session.task
            );
            return Err(SessionError::value("privacy.mode", self.mode, limit));
        }
        if (release == Release::Rounds) != (self.mode == NoiseMode::Member) {
            return Err(mode_of_rounds(&session.task, self.mode, release));
        }
        match (release, self.delta) {
            (Release::Rounds, None) => return Err(no_delta()),
            (Release::Rounds, Some(delta)) => {
                if !self.trillionths().is_some_and(|number| (DELTA.0..=DELTA.1).contains(&number)) {
                    return Err(SessionError::value("privacy.delta", delta.to_f64(), DELTA_LIMIT));
                }
            }
            (_, Some(delta)) => return Err(delta_of(&session.task, delta.to_f64())),
            (_, None) => {}
        }
        self.check_unit(session)?;
        match self.mode {
            NoiseMode::Central | NoiseMode::Member => {
                colluders(session.min_peers, session.quorum()).check::<u16>(self.colluders).map(drop)
            }
            _ if self.colluders == 0 => Ok(()),
            mode => {
                let limit =
                    format!("left out with the mode {mode}: only central and member limit the colluders");
                Err(SessionError::value("privacy.colluders", self.colluders, limit))
            }
        }
    }

    fn check_unit(&self, session: &Session) -> Result<(), SessionError> {
        let PrivacyUnit::Group { group_rows } = self.unit else { return Ok(()) };
        let refuse = |limit: &str| Err(SessionError::value("privacy.unit", "group", limit));
        if self.mode == NoiseMode::Member {
            return refuse("row with the mode member, which covers all rows of a peer already");
        }
        if session.data.preparation.as_ref().is_none_or(|table| table.group.is_none()) {
            return refuse("row, unless table.group names the column with the group of each row");
        }
        let most = MOST_PARTS / (session.roster.len() as u64 * u64::from(self.top.max(1)));
        let what = if most < MOST_GROUP_ROWS { " (peers x top x group_rows is at most 2^41)" } else { "" };
        let limit = Limit::new("privacy.group_rows", 1, most.min(MOST_GROUP_ROWS)).saying(what);
        limit.check::<u16>(group_rows).map(drop)
    }

    /// Returns the fields that are part of the session id; fields that the session does not have are left
    /// out.
    pub(super) fn entries(&self) -> Vec<Field> {
        let mut entries = vec![("privacy.epsilon", integer(self.millionths().unwrap_or(0)))];
        entries.extend(self.trillionths().map(|number| ("privacy.delta", integer(number))));
        if self.top > 0 {
            entries.push(("privacy.top", integer(self.top)));
        }
        entries.push(("privacy.mode", self.mode.to_string().into_bytes()));
        if self.mode.in_shares() {
            entries.push(("privacy.colluders", integer(self.colluders)));
        }
        if let PrivacyUnit::Group { group_rows } = self.unit {
            entries.push(("privacy.group_rows", integer(group_rows)));
        }
        entries
    }

    pub(super) fn write_toml(&self, out: &mut String) -> fmt::Result {
        let Self { epsilon, delta, top, mode, colluders, unit } = self;
        field(&format!("Differential privacy: the budget, {EPSILON_LIMIT}."), "epsilon", epsilon, out)?;
        if let Some(delta) = delta {
            let about = format!("Probability that this bound does not hold, {DELTA_LIMIT}.");
            field(&about, "delta", format_args!("{:?}", delta.to_f64()), out)?;
        }
        if *top > 0 {
            let about =
                "Counts of a release (with the mode central: of the total) that are kept: 1 to m x classes.";
            field(about, "top", top, out)?;
        }
        let about = "The budget protects one row at every peer (\"per-party\"), or one row at one peer, \
                     by noise of each peer alone (\"parallel\") or only in the total (\"central\"); or \
                     all rows of one peer in the totals of all rounds (\"member\", with the task fedavg).";
        field(about, "mode", format_args!("\"{mode}\""), out)?;
        if mode.in_shares() {
            let about = "Peers that may pool their knowledge: 1 or 2, fewer than min_peers and than a committee \
                         majority.";
            field(about, "colluders", colluders, out)?;
        }
        if let PrivacyUnit::Group { group_rows } = unit {
            let about = format!(
                "The budget protects all rows of one group (table.group) instead of one row. A peer uses \
                 at most group_rows rows of each group, 1 to {MOST_GROUP_ROWS}; the noise is group_rows \
                 times as large."
            );
            field(&about, "unit", "\"group\"", out)?;
            writeln!(out, "group_rows = {group_rows}")?;
        }
        Ok(())
    }
}

impl RawNoise {
    pub(super) fn resolve(
        self,
        task: &TaskSpec,
        data: &DataSpec,
        (min_peers, majority): (u16, usize),
    ) -> Result<Option<NoiseSpec>, SessionError> {
        let Some(number) = self.epsilon else {
            let given = [
                ("delta", self.delta.is_some()),
                ("top", self.top.is_some()),
                ("mode", self.mode.is_some()),
                ("colluders", self.colluders.is_some()),
                ("unit", self.unit.is_some()),
                ("group_rows", self.group_rows.is_some()),
            ];
            return match given.into_iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((name, _)) => Err(SessionError::value(
                    format!("privacy.{name}"),
                    "given",
                    "left out without privacy.epsilon",
                )),
            };
        };
        let wrong = || SessionError::value("privacy.epsilon", format!("{number:?}"), EPSILON_LIMIT);
        // The decimal number in the file is restored exactly, so that nothing depends on the rounding of the
        // float.
        let epsilon = Ratio::from_decimal(number).ok_or_else(wrong)?;
        let release = task.release(data);
        let kept = match (release, self.top) {
            (Release::Nothing, _) => return Err(no_release(task)),
            (Release::Every | Release::Rounds, None) => 0,
            (Release::Every | Release::Rounds, Some(asked)) => return Err(top_of_every(task, asked)),
            (Release::Top(_), None) => {
                return Err(SessionError::value("privacy.top", "missing", "given with privacy.epsilon"));
            }
            (Release::Top(counts), Some(asked)) => top(counts).check(asked)?,
        };
        let usual = if release == Release::Rounds { NoiseMode::Member } else { NoiseMode::default() };
        let mut spec = NoiseSpec::new(epsilon, kept, self.mode.unwrap_or(usual));
        if let Some(number) = self.delta {
            let wrong = || SessionError::value("privacy.delta", format!("{number:?}"), DELTA_LIMIT);
            spec.delta = Some(read_delta(number).ok_or_else(wrong)?);
        }
        spec.unit = match (self.unit, self.group_rows) {
            (None | Some(RawUnit::Row), None) => PrivacyUnit::Row,
            (Some(RawUnit::Group), Some(rows)) => {
                let group_rows = Limit::new("privacy.group_rows", 1, MOST_GROUP_ROWS).check(rows)?;
                PrivacyUnit::Group { group_rows }
            }
            (Some(RawUnit::Group), None) => {
                let limit = "given with privacy.unit = \"group\": 1 to 1000";
                return Err(SessionError::value("privacy.group_rows", "missing", limit));
            }
            (_, Some(_)) => {
                let limit = "left out without privacy.unit = \"group\"";
                return Err(SessionError::value("privacy.group_rows", "given", limit));
            }
        };
        if let Some(number) = self.colluders {
            spec.colluders = colluders(min_peers, majority).check(number)?;
        }
        Ok(Some(spec))
    }
}

fn no_release(task: &TaskSpec) -> SessionError {
    let limit = "flynn, sketch or fedavg with privacy.epsilon: other tasks open exact sums";
    SessionError::value("task", task, limit)
}

fn top_of_every(task: &TaskSpec, top: impl fmt::Display) -> SessionError {
    let limit = format!("left out with the task {task}, which releases every number");
    SessionError::value("privacy.top", top, limit)
}

fn mode_of_rounds(task: &TaskSpec, mode: NoiseMode, release: Release) -> SessionError {
    let limit = match release {
        Release::Rounds => {
            format!("member with the task {task}: every round reveals something about all rows of a peer")
        }
        Release::Top(_) => format!("per-party, parallel or central with the task {task}"),
        _ => format!("per-party or parallel with the task {task}"),
    };
    SessionError::value("privacy.mode", mode, limit)
}

fn no_delta() -> SessionError {
    let limit = format!("given with the task fedavg: {DELTA_LIMIT}");
    SessionError::value("privacy.delta", "missing", limit)
}

fn delta_of(task: &TaskSpec, delta: f64) -> SessionError {
    let limit = format!("left out with the task {task}, whose epsilon holds always");
    SessionError::value("privacy.delta", format!("{delta:?}"), limit)
}

/// Returns the decimal number with at most twelve decimal places that a reader converts to this binary64, if
/// it is in the range.
fn read_delta(number: f64) -> Option<Ratio> {
    let parts = (number * 1e12).round();
    let within = (DELTA.0 as f64..=DELTA.1 as f64).contains(&parts);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10^10")]
    let exact = (within && (parts / 1e12).to_bits() == number.to_bits()).then_some(parts as u64);
    exact.and_then(Ratio::trillionths)
}

impl NoiseMode {
    /// Returns whether the noise of a total is the sum of noise from all members.
    #[must_use]
    pub fn in_shares(self) -> bool {
        matches!(self, Self::Central | Self::Member)
    }
}

fn top(counts: usize) -> Limit {
    Limit::new("privacy.top", 1, counts as u64).saying(" (m x classes)")
}

/// Returns the limit of the number of colluders. It is below a majority of the committee, because a majority
/// could remove the pads of a failed view and would see two totals with the same noise.
fn colluders(min_peers: u16, majority: usize) -> Limit {
    let most = (u64::from(min_peers) - 1).min(majority as u64 - 1);
    let what = " (fewer than min_peers and than a majority of the committee)";
    Limit::new("privacy.colluders", 1, most).saying(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::identity::Identity;

    /// Returns a file of five peers, m = 16 and two classes, with these lines in `[privacy]`.
    fn file(privacy: &str) -> String {
        let mut text = format!(
            "name = \"p\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"flynn\"\n[data]\nfeatures = 4\nclasses = [\"a\", \"b\"]\nscaling = \"unit-norm\"\n\
             [flynn]\nm = 16\ns = 2\nrho = 3\ngamma = 0.9\n[privacy]\n{privacy}\n"
        );
        for i in 0..5 {
            let id = Identity::from_seed([i; 32]).public();
            text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{id}\"\n");
        }
        text
    }

    fn parse(privacy: &str) -> Result<Session, SessionError> {
        Session::parse(&file(privacy))
    }

    fn ratio(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    #[test]
    fn a_private_file_is_written_as_it_was_read_and_its_fields_enter_the_id() {
        let plain = parse("").unwrap();
        assert_eq!(plain.privacy.noise, None);
        let mut ids = vec![plain.id()];
        for (lines, top, mode, colluders) in [
            ("epsilon = 0.7\ntop = 5", 5, NoiseMode::PerParty, 0),
            ("epsilon = 0.7\ntop = 6", 6, NoiseMode::PerParty, 0),
            ("epsilon = 0.7\ntop = 5\nmode = \"parallel\"", 5, NoiseMode::Parallel, 0),
            ("epsilon = 0.7\ntop = 5\nmode = \"central\"", 5, NoiseMode::Central, 1),
            ("epsilon = 0.7\ntop = 5\nmode = \"central\"\ncolluders = 2", 5, NoiseMode::Central, 2),
        ] {
            let session = parse(lines).unwrap();
            let unit = PrivacyUnit::Row;
            let expected = NoiseSpec { epsilon: ratio("0.7"), delta: None, top, mode, colluders, unit };
            assert_eq!(session.privacy.noise, Some(expected));
            assert_eq!(Session::parse(&session.to_toml()).unwrap(), session);
            assert!(!ids.contains(&session.id()), "{lines}");
            ids.push(session.id());
        }
        let fields =
            |session: &Session| session.fields().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(
            !fields(&plain).iter().any(|name| name == "privacy.epsilon"),
            "absent fields are not part of the id"
        );
        assert!(fields(&parse("epsilon = 2\ntop = 1").unwrap()).iter().any(|name| name == "privacy.mode"));
    }

    #[test]
    fn whatever_does_not_go_together_with_a_budget_is_refused_with_the_reason() {
        let budget = "epsilon = 1.5\ntop = 5\n";
        let with = |from: &str, to: &str| {
            let text = file(budget);
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        };
        for (text, reason) in
            [
                (file("epsilon = 0\ntop = 1"), "privacy.epsilon is 0.0, must be 0.001 to 100"),
                (file("epsilon = 0.0001\ntop = 1"), "privacy.epsilon is 0.0001, must be"),
                (file("epsilon = 100.5\ntop = 1"), "privacy.epsilon is 100.5, must be"),
                (file("epsilon = 0.1234567\ntop = 1"), "at most six decimal places"),
                (file("epsilon = nan\ntop = 1"), "privacy.epsilon is NaN"),
                (file("epsilon = 1"), "privacy.top is missing"),
                (file("top = 1"), "privacy.top is given, must be left out without privacy.epsilon"),
                (file("delta = 1e-5"), "privacy.delta is given, must be left out without privacy.epsilon"),
                (
                    file("epsilon = 1\ntop = 3\ndelta = 1e-5"),
                    "privacy.delta is 1e-5, must be left out with the task flynn",
                ),
                (
                    file("epsilon = 1\ntop = 3\nmode = \"member\""),
                    "privacy.mode is member, must be per-party, parallel or central with the task flynn",
                ),
                (file("epsilon = 1\ntop = 0"), "privacy.top is 0, must be 1 to 32 (m x classes)"),
                (file("epsilon = 1\ntop = 33"), "privacy.top is 33"),
                (file("epsilon = 1\ntop = 3\ncolluders = 1"), "only central and member limit the colluders"),
                (
                    file("epsilon = 1\ntop = 3\nmode = \"central\"\ncolluders = 3"),
                    "must be 1 to 2 (fewer than min_peers",
                ),
                (file("epsilon = 1\ntop = 3\nmode = \"local\""), "unknown variant"),
                (with("unit-norm", "center"), "data.scaling is center, must be none, unit-norm or range"),
                (with("\"unit-norm\"", "{ soft-bins = { bins = 3 } }"), "exact means"),
                (
                    with("[privacy]", "[tune]\n[[tune.setting]]\nm = 16\ns = 2\nrho = 2\n[privacy]")
                        .replacen("\"flynn\"", "\"tune\"", 1),
                    "task is tune, must be flynn, sketch or fedavg with privacy.epsilon",
                ),
            ]
        {
            let error = Session::parse(&text).expect_err(&text).to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        }
    }

    #[test]
    fn the_mode_says_what_each_peer_spends_and_adds() {
        let mechanism = |lines: &str| {
            let session = parse(lines).unwrap();
            session.privacy.noise.unwrap().mechanism(&session, 3)
        };
        let most = u32::MAX / 5;
        assert_eq!(
            mechanism("epsilon = 1\ntop = 7"),
            Mechanism::Release { epsilon: ratio("0.2"), top: 7, most }
        );
        let whole = Mechanism::Release { epsilon: ratio("1"), top: 7, most };
        assert_eq!(mechanism("epsilon = 1\ntop = 7\nmode = \"parallel\""), whole);
        let shares = Mechanism::Shares { epsilon: ratio("1"), top: 7, weight: 3, parties: 2 };
        // A view needs three of five peers. One of them may collude, so two make the noise.
        assert_eq!(mechanism("epsilon = 1\ntop = 7\nmode = \"central\""), shares);
    }

    #[test]
    fn no_session_that_is_allowed_is_out_of_range_of_its_mechanism() {
        use chacha20::rand_core::SeedableRng;
        let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
        for epsilon in ["0.001", "0.001001", "99.999999", "100"].map(ratio) {
            for peers in [3u64, 1021, 1024] {
                for top in [1, 999_983, 1 << 28] {
                    let each = epsilon.over(peers).unwrap();
                    Mechanism::Release { epsilon: each, top, most: 1 }.draw(&[3, 4], &mut rng);
                    Mechanism::Shares { epsilon, top, weight: top, parties: 1 }.draw(&[3, 4], &mut rng);
                }
            }
        }
    }
}
