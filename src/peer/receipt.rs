//! The receipt of a peer. It records the decisions, the members of each sum, and a digest of the rows that
//! the peer used. The peer can show it later.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::own_rows::OwnRows;
use crate::net::driver::Usage;
use crate::protocol::context::Context;
use crate::protocol::view::Stage;
use crate::session::{Faults, Series, Session};

/// A receipt: the record of a session, which a peer can show later.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Receipt {
    /// Session id, in hexadecimal digits.
    pub session: String,
    /// Name of the session.
    pub name: String,
    /// Random number of the session, in hexadecimal digits.
    pub run_id: String,
    /// Time at which the session was made, as in its file.
    pub created: String,
    /// Place in a series, and the id of the previous session.
    pub series: Option<Series>,
    /// Name of this peer.
    pub peer: String,
    /// Peer id of this peer.
    pub peer_id: String,
    /// Opened sums that include this peer's rows.
    pub own_rows: OwnRows,
    /// Opened aggregates, in order.
    pub aggregates: Vec<Opened>,
    /// Time at which this peer had each opened aggregate, in seconds since 1970, or `None` if this was before
    /// a restart.
    pub opened_unix: Vec<Option<f64>>,
    /// Faults that the committee tolerates (`crash` or `byzantine`), and an attack that it does not prevent.
    pub committee: Committee,
    /// Peers by role, if the session had an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<BTreeMap<String, Vec<String>>>,
    /// Number of views with this peer as a member.
    pub views: u64,
    /// Pairs of peers that ended a view because one of the two suspected the other.
    pub disagreements: Vec<Disagreement>,
    /// Peers that are named by signed statements: a peer that deviates, or a pair that contains it.
    pub named: Vec<Named>,
    /// Digest of this peer's rows.
    pub data: DataDigest,
    /// Seconds and bytes by stage.
    pub stages: Vec<Spent>,
    /// Bytes sent to all peers.
    pub bytes_sent: u64,
    /// Bytes received from all peers.
    pub bytes_received: u64,
    /// Time at which this peer joined, in seconds since 1970.
    pub started_unix: f64,
    /// Seconds from joining to leaving.
    pub seconds: f64,
    /// Name of the result, or `None` for a peer without rows.
    #[serde(skip)]
    pub result: Option<String>,
    /// Warnings to this peer by subject. Only their numbers are in the JSON.
    pub(crate) warnings: Warnings,
    /// Fields that the task adds, and the digest of the result in a field that is named like the result.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// Warnings of a peer. The receipt has their numbers, and the peer's own page has their texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Warnings(BTreeMap<&'static str, Vec<String>>);

impl Warnings {
    pub(super) fn add(&mut self, about: &'static str, text: String) {
        self.0.entry(about).or_default().push(text);
    }

    /// Returns the texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.values().flatten().cloned().collect()
    }
}

impl Serialize for Warnings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(about, texts)| (about, texts.len())))
    }
}

/// Two peers that disagree, so that views ended. Perhaps one of them lies, or perhaps their connection is
/// bad. No other peer can find out which of these is true.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Disagreement {
    /// Names of the two peers.
    pub peers: [String; 2],
    /// Number of views that ended.
    pub views: u64,
    /// A sentence about the disagreement.
    pub text: String,
}

impl Disagreement {
    pub(super) fn new(peers: &[String; 2], lost: bool, views: u64) -> Self {
        let [one, other] = peers;
        let ended = if views == 1 { "1 view was".into() } else { format!("{views} views were") };
        let text = if lost {
            format!("the connection between {one} and {other} was lost: {ended} ended")
        } else {
            format!("{one} and {other} say different things about each other: {ended} ended")
        };
        Self { peers: peers.clone(), views, text }
    }
}

/// Peers that are named by signed statements of computing members.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Named {
    /// Names of one or two peers.
    pub peers: Vec<String>,
    /// A sentence about these peers.
    pub text: String,
    /// The statements, in hexadecimal digits (specification, section 15e.2). Everyone can check them.
    pub evidence: String,
}

/// Faults that the committee of a session tolerates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Committee {
    /// Kind of faults, as in the session file.
    pub faults: String,
    /// Number of members that voted.
    pub members: usize,
    /// Number of members that may break the rules. With more, an aggregate may be opened twice.
    pub may_deviate: usize,
    /// Attack that is not prevented.
    pub not_prevented: &'static str,
}

impl Committee {
    pub(super) fn of(session: &Session) -> Self {
        let (faults, members) = (session.faults(), session.committee().len());
        let not_prevented = match faults {
            Faults::Crash => "a member that breaks the rules and leads may open an aggregate twice",
            Faults::Byzantine => {
                "more members than may_deviate that break the rules may open an aggregate twice"
            }
        };
        Self { faults: faults.to_string(), members, may_deviate: faults.deviating(members), not_prevented }
    }
}

/// An aggregate that was opened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Opened {
    /// Name of the aggregate.
    pub name: String,
    /// Description of the aggregate.
    pub is: &'static str,
    /// Information that every member learns from the aggregate.
    pub reveals: String,
    /// View in which the aggregate was summed.
    pub view: String,
    /// Peers whose vectors it sums.
    pub members: Vec<String>,
    /// SHA-256 of the sealed total, in hexadecimal digits.
    pub sealed_total: String,
}

/// A salted digest of rows. With it, the peer can prove later which rows it used. No other peer can find out
/// the rows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataDigest {
    /// Number of rows.
    pub rows: usize,
    /// Random salt of 32 bytes, in hexadecimal digits.
    pub salt: String,
    /// [`Rows::digest`](crate::tasks::Rows::digest) with this salt, in hexadecimal digits.
    pub digest: String,
    /// Rows that the digest covers.
    pub digest_covers: &'static str,
}

/// Time and bytes of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spent {
    /// Name of the stage: an aggregate, or "train", "sum", "open" for the last aggregate.
    pub name: String,
    /// Seconds in the stage.
    pub seconds: f64,
    /// Bytes sent in the stage.
    pub bytes: u64,
}

/// Returns the seconds and bytes of each stage. Each aggregate is one stage, except the last, which has the
/// stages train, sum and open.
pub(super) fn stages(ctx: &Context, task: &crate::session::TaskSpec, usage: &Usage) -> Vec<Spent> {
    let mut out: Vec<Spent> = Vec::new();
    let sketches = task.is::<crate::tasks::SketchSpec>();
    for (stage, spent) in &usage.stages {
        let name = match stage {
            None => "connect and linger".to_owned(),
            Some((_, Stage::Keys)) => "keys".to_owned(),
            // In a session with sketches, the last aggregate is one stage like the others.
            Some((slot, stage)) if *slot as usize + 1 == ctx.plan.len() && !sketches => match stage {
                Stage::Keys | Stage::Compute if task.is::<crate::tasks::XclpSpec>() => "labels".to_owned(),
                Stage::Keys | Stage::Compute => "train".to_owned(),
                Stage::Sum => "sum".to_owned(),
                Stage::Accept | Stage::Release | Stage::Open => "open".to_owned(),
            },
            Some((slot, _)) => ctx.plan[*slot as usize].name.clone(),
        };
        match out.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.seconds += spent.seconds;
                known.bytes += spent.bytes;
            }
            None => out.push(Spent { name, seconds: spent.seconds, bytes: spent.bytes }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_counts_warnings_and_keeps_their_texts_back() {
        let mut warnings = Warnings::default();
        for text in ["\"age\" is constant here only", "other units?"] {
            warnings.add("columns", text.into());
        }
        warnings.add("quality", "worse than alone".into());
        assert_eq!(serde_json::json!(warnings), serde_json::json!({"columns": 2, "quality": 1}));
        assert_eq!(warnings.texts()[1..], ["other units?", "worse than alone"]);
    }

    #[test]
    fn two_that_do_not_agree_are_both_named_and_neither_is_accused() {
        let pair = ["south", "west"].map(str::to_owned);
        let text = |lost, views| Disagreement::new(&pair, lost, views).text;
        assert_eq!(
            text(false, 2),
            "south and west say different things about each other: 2 views were ended"
        );
        assert_eq!(text(true, 1), "the connection between south and west was lost: 1 view was ended");
    }
}
