//! What a session's task gives a peer: a model, or which setting is best.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::super::Failure;
use super::super::tune::session_lines;
use crate::data::Dataset;
use crate::evaluate::Metric;
use crate::model::file::write_whole;
use crate::node::Task;
use crate::node::flynn::{self, Flynn};
use crate::node::tune::{self, Outcome, Tune};
use crate::session::{Session, TaskKind};

/// What is known of the task before the session begins.
pub(super) enum Work {
    Flynn(flynn::Rules),
    Tune(tune::Rules),
}

impl Work {
    pub(super) fn new(session: &Session) -> Self {
        match session.task {
            TaskKind::Flynn => Self::Flynn(flynn::Rules::new(session.clone())),
            TaskKind::Tune => Self::Tune(tune::Rules::new(session.clone())),
        }
    }

    /// This peer's part of it.
    pub(super) fn task(&self, session: &Session, data: &Arc<Dataset>) -> Result<Arc<dyn Task>, Failure> {
        let (session, data) = (session.clone(), data.clone());
        Ok(match self {
            Self::Flynn(_) => Arc::new(Flynn::new(session, data).map_err(|error| Failure::Input(error.to_string()))?),
            Self::Tune(_) => Arc::new(Tune::new(session, data).map_err(|error| Failure::Input(error.to_string()))?),
        })
    }

    /// How receipts and events call what is written.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Flynn(_) => "model",
            Self::Tune(_) => "settings",
        }
    }

    /// Of the file where nothing is said.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::Flynn(_) => "model",
            Self::Tune(_) => "settings.toml",
        }
    }

    /// Writes what was opened to `file`; gives its digest, the same at every peer, and what there is to say of it.
    pub(super) fn save(&self, opened: &[Bytes], file: &Path) -> Result<([u8; 32], String), Failure> {
        match self {
            Self::Flynn(rules) => {
                let model = rules.model(opened).map_err(|error| Failure::Session(error.to_string()))?;
                model.save(file)?;
                Ok((model.digest(), String::new()))
            }
            Self::Tune(rules) => {
                let outcome = rules.outcome(opened).map_err(|error| Failure::Session(error.to_string()))?;
                write_whole(file, settings_text(&outcome).as_bytes())
                    .map_err(|error| Failure::Machine(format!("{}: {error}", file.display())))?;
                let best = outcome.ranked.first().map_or(String::new(), |(candidate, readout, tally)| {
                    let score = tally.score(Metric::Balanced);
                    format!("; balanced accuracy {score:.4} with {candidate}, {} {}", readout.score, readout.gamma)
                });
                Ok((outcome.digest, best))
            }
        }
    }
}

/// Every setting with its scores as comments, then the lines of the best for a session file.
fn settings_text(outcome: &Outcome) -> String {
    let mut text = "# Cross-validated over the rows of all peers; of each setting the best readout.\n".to_owned();
    text += "# balanced accuracy  setting\n";
    for (candidate, readout, tally) in &outcome.ranked {
        let [balanced, accuracy] = Metric::ALL.map(|metric| tally.score(metric));
        text +=
            &format!("#   {balanced:.4}   {accuracy:.4}  {candidate}; {}, gamma {}\n", readout.score, readout.gamma);
    }
    if let Some((candidate, readout, _)) = outcome.ranked.first() {
        text += &format!("\n{}", session_lines(candidate, *readout));
    }
    text
}
