//! Makes a session file from typed values, for programs of other languages. No text is taken for an option.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::{Table, Value};

use super::new::{Common, Names, NewArguments};
use super::parse::PeerArgument;
use crate::cli::Failure;
use crate::cli::data::{Map, Reading};
use crate::data::LabelColumn;
use crate::data::prepare::publish;
use crate::session::Entry;
use crate::tasks::kinds;

/// Values of a new session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct NewSession {
    task: String,
    name: String,
    /// Name, peer id and addresses of each peer.
    peers: Vec<(String, String, Vec<String>)>,
    features: Option<i64>,
    columns: Vec<String>,
    classes: Vec<String>,
    from: Vec<PathBuf>,
    label: Option<Label>,
    group: Option<String>,
    map: Option<String>,
    min_rows: Option<u64>,
    /// Options of the task that are given, by name.
    options: BTreeMap<String, Value>,
    /// Fields of the session file, by section.
    fields: Table,
}

/// A label column. Here, a text of digits is a name, not a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(in crate::cli) enum Label {
    Number(usize),
    Name(String),
}

impl From<Label> for LabelColumn {
    fn from(label: Label) -> Self {
        match label {
            Label::Number(number) => Self::Number(number),
            Label::Name(name) => Self::named(name),
        }
    }
}

impl NewSession {
    /// Returns the text of the session file.
    pub(in crate::cli) fn text(self) -> Result<String, Failure> {
        let refused = |text: String| Err(Failure::Input(text));
        let Some(kind) = kinds().find(|kind| kind.name == self.task) else {
            let names: Vec<_> = kinds().map(|kind| kind.name).collect();
            return refused(format!("task is {:?}, expected one of {}", self.task, names.join(", ")));
        };
        let described = [
            ("label", self.label.is_some()),
            ("group", self.group.is_some()),
            ("map", self.map.is_some()),
            ("min_rows", self.min_rows.is_some()),
        ];
        if let Some((name, _)) = described.iter().find(|(_, given)| *given && self.from.is_empty()) {
            return refused(format!("{name} needs --from, a file of rows that describes the columns"));
        }
        if !self.from.is_empty() && (self.features.is_some() || !self.columns.is_empty()) {
            return refused("--features is given, but --from describes the columns".into());
        }
        let mut given = Vec::with_capacity(self.options.len());
        for (name, value) in self.options {
            let Some(option) = kind.options.iter().find(|option| option.name == name) else {
                let names: Vec<_> = kind.options.iter().map(|option| format!("--{}", option.name)).collect();
                let text =
                    format!("--{name}: not with the task {}, which has {}", kind.name, names.join(", "));
                return refused(text);
            };
            let list = option.value.contains(',') && !value.is_array();
            given.push((option, if list { Value::Array(vec![value]) } else { value }));
        }
        let mut peers = Vec::with_capacity(self.peers.len());
        for (name, id, addresses) in self.peers {
            let key = id.parse().map_err(|error| Failure::Input(format!("peers: {name}: {id}: {error}")))?;
            peers.push(PeerArgument(Entry { key, name, addresses }));
        }
        let map = self
            .map
            .map(|path| Map::load(&path).map_err(|problem| Failure::Input(format!("{path}: {problem}"))));
        let names = Names { features: self.features, columns: self.columns, classes: self.classes };
        let common = Common {
            name: self.name,
            peers,
            from: self.from,
            label: self.label.map(Into::into).unwrap_or_default(),
            group: self.group,
            reading: map.transpose()?.map(Reading::from).unwrap_or_default(),
            min_rows: self.min_rows.unwrap_or(publish::MIN_ROWS),
            fields: vec![self.fields],
            names,
            ..Common::default()
        };
        let mut new = NewArguments { kind, common, given };
        let (session, text) = new.file()?;
        new.warn(&session);
        Ok(text)
    }
}
