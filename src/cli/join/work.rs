//! What a session's task gives a peer: a model, which setting is best, labels for its own rows, or how far
//! these lie from all.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::tune::session_lines;
use super::super::{Failure, output};
use crate::data::Dataset;
use crate::evaluate::Metric;
use crate::model::origin::Origin;
use crate::model::propagation::Prediction;
use crate::model::selection::Draw;
use crate::protocol::record::Value as Decision;
use crate::protocol::xclp;
use crate::session::{Peer, Session, TaskKind};
use crate::sketch::distribution::Distance;
use crate::task::Task;
use crate::task::flynn::{self, Flynn};
use crate::task::sketch::{self, SketchTask, TaskError};
use crate::task::tune::{self, Tune};
use crate::task::xclp::Xclp;

/// What is known of the task before the session begins.
pub(super) enum Work {
    Flynn(Box<flynn::Plan>),
    Tune(Box<tune::Plan>),
    /// The task itself, once there are rows: it knows their order.
    Xclp(Option<Arc<Xclp>>),
    /// Likewise: it has this peer's own sketch.
    Sketch(Option<Arc<SketchTask>>),
}

/// What a peer brings along.
pub(super) struct Rows {
    pub(super) data: Arc<Dataset>,
    /// With the task `xclp`, of each row its class where that is known.
    pub(super) labels: Vec<Option<u16>>,
}

impl Work {
    pub(super) fn new(session: &Session) -> Self {
        match session.task {
            TaskKind::Flynn => Self::Flynn(Box::new(flynn::Plan::new(session.clone()))),
            TaskKind::Tune => Self::Tune(Box::new(tune::Plan::new(session.clone()))),
            TaskKind::Xclp => Self::Xclp(None),
            TaskKind::Sketch => Self::Sketch(None),
        }
    }

    /// This peer's part of it; `secret` is known to nobody else.
    pub(super) fn task(
        &mut self,
        session: &Session,
        me: Peer,
        rows: &Rows,
        secret: &[u8; 32],
    ) -> Result<Arc<dyn Task>, Failure> {
        let (session, data) = (session.clone(), rows.data.clone());
        Ok(match self {
            Self::Flynn(_) => {
                let made = Flynn::new(session, me, data, secret);
                Arc::new(made.map_err(|error| Failure::Input(error.to_string()))?)
            }
            Self::Tune(_) => {
                Arc::new(Tune::new(session, data).map_err(|error| Failure::Input(error.to_string()))?)
            }
            Self::Xclp(task) => {
                let made =
                    Xclp::new(session, me, data, rows.labels.clone(), secret).map_err(Failure::Input)?;
                task.insert(Arc::new(made)).clone()
            }
            Self::Sketch(task) => {
                let made = SketchTask::new(session, me, data, secret);
                task.insert(Arc::new(made.map_err(|error| Failure::Input(error.to_string()))?)).clone()
            }
        })
    }

    /// Who was drawn, where somebody was.
    pub(super) fn drawn(&self, opened: &[Bytes]) -> Result<Option<Draw>, Failure> {
        let found = match self {
            Self::Flynn(rules) => rules.drawn(opened).map_err(|error| error.to_string()),
            Self::Sketch(Some(task)) => {
                task.session_plan().draw(0, opened).map_err(|error| error.to_string())
            }
            _ => Ok(None),
        };
        found.map_err(Failure::Session)
    }

    /// How receipts and events call what is written.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Flynn(_) => "model",
            Self::Tune(_) => "settings",
            Self::Xclp(_) => "labels",
            Self::Sketch(_) => "sketch",
        }
    }

    /// Of the file where nothing is said.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::Flynn(_) => "model",
            Self::Tune(_) => "settings.toml",
            Self::Xclp(_) => "labels.csv",
            Self::Sketch(_) => "sketch.json",
        }
    }

    /// Writes what was opened, or what an exchange gave this peer, to `file`, which is replaced only by `force`; gives its digest, the same at
    /// every peer but for labels, and what there is to say of it.
    pub(super) fn save(
        &self,
        opened: &[Bytes],
        outcome: Option<&xclp::Outcome>,
        decisions: &[Decision],
        (file, force): (&Path, bool),
    ) -> Result<([u8; 32], String), Failure> {
        match self {
            Self::Flynn(rules) => {
                let model = rules.model(opened).map_err(|error| Failure::Session(error.to_string()))?;
                let digest = model.digest();
                let session = rules.session();
                let draw = self.drawn(opened)?;
                let members = match &draw {
                    // Whoever was not drawn was a member with zeros.
                    Some(draw) if session.selects() => names(session, &draw.chosen),
                    _ => decisions.last().map_or_else(Vec::new, |last| {
                        last.members.iter().map(|&peer| session.name(peer)).collect()
                    }),
                };
                let members = members.into_iter().map(ToOwned::to_owned).collect();
                let (id, noised) = (session.id().0, session.privacy.noise.is_some());
                let origin = Origin::now(&session.name, id, members, session.roster.len(), noised);
                output::write(file, &model.with_origin(origin).encode(), force)?;
                let drawn = match draw {
                    Some(draw) => {
                        format!("; learnt from {}", names(rules.session(), &draw.chosen).join(", "))
                    }
                    None => String::new(),
                };
                Ok((digest, drawn))
            }
            Self::Tune(rules) => {
                let outcome = rules.outcome(opened).map_err(|error| Failure::Session(error.to_string()))?;
                output::write(file, settings_text(&outcome).as_bytes(), force)?;
                let best = outcome.ranked.first().map_or(String::new(), |(candidate, readout, tally)| {
                    let score = tally.score(Metric::Balanced);
                    format!(
                        "; balanced accuracy {score:.4} with {candidate}, {} {}",
                        readout.score, readout.gamma
                    )
                });
                Ok((outcome.digest, best))
            }
            Self::Xclp(task) => {
                // Who came after the rows were counted had no part in the exchange, and was given no scores.
                let outcome = outcome.filter(|outcome| !outcome.counts.is_empty());
                let (Some(task), Some(outcome)) = (task, outcome) else {
                    let text = "the session was finished without this peer: there are no labels for its rows";
                    return Err(Failure::Session(text.into()));
                };
                let said = task.said(outcome);
                let text = labels_text(&said, task.classes());
                output::write(file, text.as_bytes(), force)?;
                let unknown = said.iter().filter(|said| said.label.is_none()).count();
                let reached = if unknown > 0 {
                    format!("; no label reaches {unknown} of the rows")
                } else {
                    String::new()
                };
                Ok((Sha256::digest(&text).into(), reached))
            }
            Self::Sketch(task) => {
                let task = task.as_ref().ok_or_else(|| Failure::Session("there is no task".into()))?;
                let failed = |error: TaskError| Failure::Session(error.to_string());
                let outcome = task.session_plan().outcome(opened).map_err(failed)?;
                let distance = task.distance(opened).map_err(failed)?;
                let text = format!("{:#}\n", sketch_json(task.session(), &outcome, distance, opened));
                output::write(file, text.as_bytes(), force)?;
                let own = distance.map_or(String::new(), |distance| {
                    format!(
                        "; distance {:.4} (mean over rows), {:.4} (plain)",
                        distance.row_mean, distance.plain
                    )
                });
                Ok((outcome.digest, own))
            }
        }
    }
}

/// The names of these places of the roster.
pub(super) fn names<'a>(session: &'a Session, peers: &[usize]) -> Vec<&'a str> {
    peers.iter().filter_map(|&peer| session.roster.get(peer)).map(|entry| &*entry.name).collect()
}

/// Label and confidence of each row, in the order of the data file; nothing where no label reaches a row.
fn labels_text(said: &[Prediction], classes: &[String]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and names of classes are text.
    let _ = out.write_record(["label", "confidence"]);
    for Prediction { label, confidence } in said {
        let label = label.and_then(|label| classes.get(usize::from(label))).map_or("", String::as_str);
        let _ = out.write_record([label, &format!("{confidence:.6}")]);
    }
    out.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// The global sketch, this peer's distance to it, and what else the session opened. Counters go row after
/// row.
fn sketch_json(
    session: &Session,
    outcome: &sketch::Outcome,
    distance: Option<Distance>,
    opened: &[Bytes],
) -> Value {
    let name = |peer: usize| session.roster.get(peer).map_or("", |entry| &entry.name);
    let names = |peers: &[usize]| names(session, peers);
    let (rows, range) = outcome.global.shape();
    let published = outcome
        .published
        .iter()
        .enumerate()
        .map(|(peer, &distance)| (name(peer).to_owned(), json!(distance)));
    let matrix = &outcome.matrix;
    let everybody: Vec<usize> = (0..session.roster.len()).collect();
    json!({
        "hash": session.sketch.map(|sketch| sketch.hash),
        "rows": rows,
        "range": range,
        "seed": opened.first().map(hex::encode),
        "records": outcome.global.records(),
        "distance": distance,
        "published": (!outcome.published.is_empty()).then(|| published.collect::<serde_json::Map<_, _>>()),
        "selection": outcome.draw.as_ref().map(|(draw, coin)| json!({
            "round": 0, "coin": hex::encode(coin), "active": names(&draw.active), "chosen": names(&draw.chosen),
        })),
        "heterogeneity": (!matrix.is_empty()).then(|| json!({"peers": names(&everybody), "distances": matrix})),
        "counters": outcome.global.counters(),
    })
}

/// Every setting with its scores as comments, then the lines of the best for a session file.
fn settings_text(outcome: &tune::Outcome) -> String {
    let mut text =
        "# Cross-validated over the rows of all peers; of each setting the best readout.\n".to_owned();
    text += "# balanced accuracy  setting\n";
    for (candidate, readout, tally) in &outcome.ranked {
        let [balanced, accuracy] = Metric::ALL.map(|metric| tally.score(metric));
        text += &format!(
            "#   {balanced:.4}   {accuracy:.4}  {candidate}; {}, gamma {}\n",
            readout.score, readout.gamma
        );
    }
    if let Some((candidate, readout, _)) = outcome.ranked.first() {
        text += &format!("\n{}", session_lines(candidate, *readout));
    }
    text
}
