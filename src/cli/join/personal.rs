//! `join --personalise`: makes the session's network personal with this peer's rows, after the network has
//! been written.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::data::DataArguments;
use super::super::personalise::made_of;
use super::super::progress::Progress;
use super::{Failure, Files};
use crate::data::LabelColumn;
use crate::session::Session;

/// Settings that are used when the session has ended.
pub(super) struct Personal {
    pub(super) out: PathBuf,
    pub(super) data: Option<DataArguments>,
    label: LabelColumn,
}

impl Personal {
    /// Makes the settings for a session whose network is written to `network`.
    pub(super) fn new(session: &Session, network: &Path, label: LabelColumn) -> Result<Self, Failure> {
        if !session.task.is::<crate::tasks::FedavgSpec>() {
            return Err(Failure::Input(format!("--personalise: not with the task {}", session.task)));
        }
        if session.task.get::<crate::tasks::FedavgSpec>().is_some_and(crate::tasks::FedavgSpec::is_own) {
            let text = "--personalise: fedavg.network is \"own\", a model that this program cannot compute";
            return Err(Failure::Input(text.into()));
        }
        let out = network.with_extension("personal");
        if out == network {
            let text = format!("--out {}: the personal model is written there", network.display());
            return Err(Failure::Input(text));
        }
        Ok(Self { out, data: None, label })
    }

    /// Makes the personal model, prints its figures, and writes the report of the session again with these
    /// figures.
    pub(super) fn make(self, files: &Files, force: bool, progress: &Progress) -> Result<(), Failure> {
        let (Some(network), Some(data)) = (&files.out, self.data) else { return Ok(()) };
        let told = made_of(network, data, self.label, &self.out, force)?;
        let mut event = json!({"event": "personal"});
        if let (Some(event), Some(value)) = (event.as_object_mut(), told.value.as_object()) {
            event.extend(value.clone());
        }
        progress.tell(&event, &told.text);
        let receipt = files.told.lock().ok().and_then(|mut receipt| receipt.take());
        let Some(receipt) = receipt else { return Ok(()) };
        let value = told.value;
        let accuracy = |name: &'static str| {
            Some((name, format!("{:.1} % right", 100.0 * value["accuracy"][name].as_f64()?)))
        };
        let methods = ["global", "fine-tuned", "neighbours", "kNN-Per"];
        let mut lines: Vec<_> = methods.into_iter().filter_map(accuracy).collect();
        let better = value["better"].as_str().unwrap_or_default().to_owned();
        lines.extend([("better", better), ("file", self.out.display().to_string())]);
        // The report may be replaced, because this node has just written it.
        files.write_report(&receipt, lines, true)
    }
}
