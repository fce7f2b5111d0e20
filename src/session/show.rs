//! Shows the contents of a session file, with all defaults filled in.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::data::prepare::TableSchema;
use crate::session::fields;
use crate::session::rules::TIMING;
use crate::session::{
    Bounds, Faults, NoiseSpec, Peer, Privacy, PrivacyUnit, Scaling, Series, Session, Timing, table,
};

/// A session, shown as text for people and as JSON for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    id: String,
    name: String,
    run_id: String,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Series>,
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    select: Option<&'static str>,
    min_peers: u16,
    data: ShownData,
    /// Parameters of the task, by section.
    #[serde(flatten)]
    sections: Map<String, Value>,
    /// The parameters as lines for people.
    #[serde(skip)]
    lines: Vec<(&'static str, String)>,
    /// Protections of the peers' rows, with a reason if one is off.
    protections: BTreeMap<&'static str, String>,
    privacy: Privacy,
    timing: Timing,
    /// Faults of the committee that are tolerated, number of members that must agree, and number that may be
    /// absent.
    faults: Faults,
    quorum_of_committee: usize,
    may_be_away: usize,
    may_deviate: usize,
    /// Names in the order of the committee.
    committee: Vec<String>,
    roster: Vec<ShownPeer>,
}

#[derive(Debug, Serialize)]
struct ShownData {
    features: u32,
    dimension: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    /// Section `[table]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Value>,
    /// The section `[table]` as lines for people.
    #[serde(skip)]
    described: Vec<String>,
    classes: Vec<String>,
    scaling: Scaling,
    densify: bool,
    check_columns: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, Bounds>,
}

#[derive(Debug, Serialize)]
struct ShownPeer {
    index: u16,
    name: String,
    peer_id: String,
    addresses: Vec<String>,
}

/// Describes `[table]` in lines. The first line has the settings for all columns; then each column has a
/// line.
fn described(preparation: &TableSchema) -> Vec<String> {
    let TableSchema { delimiter, decimal_comma, missing, label, group, columns } = preparation;
    let mut first = format!("{} columns as {} features", columns.len(), preparation.width());
    if let Some(label) = label {
        first += &format!("; label {label:?}");
    }
    if let Some(group) = group {
        first += &format!("; rows with the same {group:?} are never split");
    }
    if let Some(byte) = delimiter {
        first += &format!("; delimiter {:?}", char::from(*byte));
    }
    if *decimal_comma {
        first += "; decimal comma";
    }
    if !missing.is_empty() {
        let texts: Vec<_> = missing.iter().map(|text| format!("{text:?}")).collect();
        first += &format!("; missing is empty or {}", texts.join(", "));
    }
    std::iter::once(first).chain(columns.iter().map(table::line)).collect()
}

impl Shown {
    pub(crate) fn new(session: &Session) -> Self {
        let peer = |peer: Peer| {
            let entry = &session.roster[peer.index()];
            let addresses = entry.addresses.clone();
            ShownPeer { index: peer.0, name: entry.name.clone(), peer_id: entry.key.to_string(), addresses }
        };
        let sections = session.task.json(&session.data).into_iter();
        Self {
            id: session.id().to_string(),
            name: session.name.clone(),
            run_id: hex::encode(session.run.id),
            created: session.run.created_text(),
            series: session.run.series,
            task: session.task.to_string(),
            select: session.selects().then_some("sketch"),
            min_peers: session.min_peers,
            data: ShownData {
                features: session.data.features,
                dimension: session.data.dimension(),
                columns: session.data.columns.clone(),
                table: session.data.preparation.as_deref().map(table::json),
                described: session.data.preparation.as_deref().map(described).unwrap_or_default(),
                classes: session.data.classes.clone(),
                scaling: session.data.scaling,
                densify: session.data.densify,
                check_columns: session.data.checks.compare,
                limits: session.data.checks.limits.clone(),
            },
            sections: sections.map(|(name, value)| (name.to_owned(), value)).collect(),
            lines: session.task.lines(&session.data),
            protections: session.task.protections().told(session).into_iter().collect(),
            privacy: session.privacy,
            timing: session.timing,
            faults: session.faults(),
            quorum_of_committee: session.quorum(),
            may_be_away: session.committee().len() - session.quorum(),
            may_deviate: session.faults().deviating(session.committee().len()),
            committee: session.committee().into_iter().map(|peer| session.name(peer).to_owned()).collect(),
            roster: session.peers().map(peer).collect(),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, privacy, timing, roster, .. } = self;
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<12} {value}");
        line("session", &self.id)?;
        line("name", &self.name)?;
        line("run id", &format!("{}, made {}", self.run_id, self.created))?;
        if let Some(Series { number, parent }) = &self.series {
            line("series", &format!("number {number} of its series, after {parent}"))?;
        }
        line("task", &self.task)?;
        if let Some(select) = self.select {
            line("select", &format!("{select}: only drawn peers train"))?;
        }
        let padded = if data.densify { " (padded)" } else { "" };
        line(
            "data",
            &format!("{} features, d = {}{padded}, scaling {}", data.features, data.dimension, data.scaling),
        )?;
        if !data.described.is_empty() {
            let mut headings = std::iter::once("table").chain(std::iter::repeat(""));
            data.described.iter().zip(&mut headings).try_for_each(|(text, heading)| line(heading, text))?;
        } else if !data.columns.is_empty() {
            line("columns", &data.columns.join(", "))?;
        }
        for (name, bounds) in &data.limits {
            line("limits", &format!("{name}: {bounds}"))?;
        }
        if data.check_columns {
            line("checks", &"each peer compares its columns with the sum over all")?;
        }
        if !data.classes.is_empty() {
            line("classes", &format!("{}: {}", data.classes.len(), data.classes.join(", ")))?;
        }
        for (heading, text) in &self.lines {
            line(heading, text)?;
        }
        let mut about = format!("{:.3} of the peers may collude", privacy.collusion_threshold);
        // A private session does not count the peers that have rows of a class, so it cannot check this
        // minimum.
        if privacy.noise.is_none() {
            about = format!("a class needs rows at {} peers, {about}", privacy.min_contributors);
        }
        line("privacy", &about)?;
        let mut headings = std::iter::once("protections").chain(std::iter::repeat(""));
        for (name, told) in &self.protections {
            line(headings.next().unwrap_or_default(), &format!("{name}: {told}"))?;
        }
        if let Some(noise) = &privacy.noise {
            let NoiseSpec { epsilon, delta, top, mode, colluders, unit } = noise;
            let colluders = if *colluders > 0 { format!(", {colluders} may collude") } else { String::new() };
            let kept = if *top > 0 { format!("the top {top} counts") } else { "every counter".into() };
            let Some(delta) = delta else {
                let unit = match unit {
                    PrivacyUnit::Row => String::new(),
                    PrivacyUnit::Group { group_rows } => {
                        format!(", for all rows of a group, of which at most {group_rows} are used")
                    }
                };
                return line("", &format!("epsilon = {epsilon}, {mode}, {kept}{colluders}{unit}"));
            };
            let delta = delta.to_f64();
            line("", &format!("epsilon = {epsilon}, delta = {delta:?}, {mode}, every round{colluders}"))?;
            line("", &"this budget protects all rows of one peer together")?;
        }
        for (section, rows) in &TIMING {
            let fields = fields::values(rows, timing).into_iter();
            let fields: Vec<_> = fields.map(|(name, value)| format!("{name} {value}")).collect();
            for (i, some) in fields.chunks(3).enumerate() {
                line(if i == 0 { section } else { "" }, &some.join(", "))?;
            }
        }
        line("peers", &format!("{}, at least {} to continue", roster.len(), self.min_peers))?;
        line(
            "committee",
            &format!(
                "{}, {} decide: {}",
                self.committee.len(),
                self.quorum_of_committee,
                self.committee.join(", ")
            ),
        )?;
        let bears = match self.faults {
            Faults::Crash => format!(
                "crash: {} of them may be absent; a member that breaks the protocol may open an aggregate twice",
                self.may_be_away
            ),
            Faults::Byzantine => format!(
                "byzantine: {} of them may be absent or break the protocol",
                self.may_be_away.min(self.may_deviate)
            ),
        };
        line("bears", &bears)?;
        for ShownPeer { index, name, peer_id, addresses } in roster {
            writeln!(f, "{index:>4}  {peer_id}  {name}  {}", addresses.join(" "))?;
        }
        Ok(())
    }
}
