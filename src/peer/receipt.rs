//! What a peer can show later: what was decided, over whom, and which rows it used.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::own_rows::OwnRows;
use crate::net::driver::Usage;
use crate::protocol::context::Context;
use crate::protocol::view::Stage;
use crate::session::{Faults, Series, Session};

/// What a peer can show of a session it took part in.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The session's id, in hexadecimal digits.
    pub session: String,
    /// The session's name.
    pub name: String,
    /// The session's own random number, in hexadecimal digits.
    pub run_id: String,
    /// When the session was made, as its file says it.
    pub created: String,
    /// The session's place in a series, and the id of the one before it.
    pub series: Option<Series>,
    /// This peer's name.
    pub peer: String,
    /// This peer's libp2p name.
    pub peer_id: String,
    /// Which of the opened sums hold this peer's rows.
    pub own_rows: OwnRows,
    /// What was summed and opened, in order.
    pub aggregates: Vec<Opened>,
    /// When this peer had each of them, in seconds since 1970; `None` where that was before it was started
    /// again.
    pub opened_unix: Vec<Option<f64>>,
    /// What the committee bears: `crash` or `byzantine`, and what that does not prevent.
    pub committee: Committee,
    /// Peers by role, where the session had an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<BTreeMap<String, Vec<String>>>,
    /// Views that this peer was in.
    pub views: u64,
    /// Pairs of peers that a view was ended for: one of the two said so of the other.
    pub disagreements: Vec<Disagreement>,
    /// A digest of this peer's rows.
    pub data: DataDigest,
    /// Seconds and bytes by stage.
    pub stages: Vec<Spent>,
    /// Bytes sent to all peers.
    pub bytes_sent: u64,
    /// Bytes received from all peers.
    pub bytes_received: u64,
    /// When this peer joined, in seconds since 1970.
    pub started_unix: f64,
    /// Seconds from joining to leaving.
    pub seconds: f64,
    /// What the result is called; `None` for a peer without rows.
    #[serde(skip)]
    pub result: Option<String>,
    /// How many warnings this peer was given, by what they are about.
    pub(crate) warnings: Warnings,
    /// What the task adds, and the result's digest under the result's name.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// Warnings of a peer: in the receipt how many, on its own page their texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Warnings(BTreeMap<&'static str, Vec<String>>);

impl Warnings {
    pub(super) fn add(&mut self, about: &'static str, text: String) {
        self.0.entry(about).or_default().push(text);
    }

    /// The texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.values().flatten().cloned().collect()
    }
}

impl Serialize for Warnings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(about, texts)| (about, texts.len())))
    }
}

/// Two peers that do not agree, so that views ended. It is no verdict: one of them may lie, or their
/// connection is bad, and nobody else can tell which.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Disagreement {
    /// Their names.
    pub peers: [String; 2],
    /// How many views ended.
    pub views: u64,
    /// The same in words.
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

/// What the committee of a session bears.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Committee {
    /// The kind of faults, as in the session file.
    pub faults: String,
    /// How many members voted.
    pub members: usize,
    /// How many of them may break the rules without opening an aggregate twice.
    pub may_deviate: usize,
    /// What is not prevented.
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
    /// Its name.
    pub name: String,
    /// What it is.
    pub is: &'static str,
    /// What it tells every member.
    pub reveals: String,
    /// The view in which it was summed.
    pub view: String,
    /// The peers whose vectors it sums.
    pub members: Vec<String>,
    /// SHA-256 of the sealed total, in hexadecimal digits.
    pub sealed_total: String,
}

/// A salted digest of rows: the peer can show later which rows it used, and nobody can guess them from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataDigest {
    /// How many rows.
    pub rows: usize,
    /// 32 random bytes, in hexadecimal digits.
    pub salt: String,
    /// [`Rows::digest`](crate::tasks::Rows::digest) with this salt, in hexadecimal digits.
    pub digest: String,
    /// Which rows the digest covers.
    pub digest_covers: &'static str,
}

/// What a stage took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spent {
    /// The stage: an aggregate's name, or "train", "sum", "open" of the last one.
    pub name: String,
    /// Seconds in it.
    pub seconds: f64,
    /// Bytes sent meanwhile.
    pub bytes: u64,
}

/// Seconds and bytes by stage: each side aggregate as one, the last split in train, sum and open.
pub(super) fn stages(ctx: &Context, task: &crate::session::TaskSpec, usage: &Usage) -> Vec<Spent> {
    let mut out: Vec<Spent> = Vec::new();
    let sketches = task.is::<crate::tasks::SketchSpec>();
    for (stage, spent) in &usage.stages {
        let name = match stage {
            None => "connect and linger".to_owned(),
            Some((_, Stage::Keys)) => "keys".to_owned(),
            // Of a sketch the last aggregate is no more than the others.
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
