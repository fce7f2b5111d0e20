//! The interface to the user's own trainer: the orders that it gets and the answers that it gives
//! (`docs/networks.md`).

use flyswarm_learn::learner::{Architecture, Batch, Network, Settings, Tape};
use serde_json::{Value, json};

use super::tensors::{self, TensorSpec, Values};
use crate::data::Dataset;

/// A program that trains a model.
pub(crate) trait Trainer: std::fmt::Debug + Send + Sync {
    /// Trains for one round.
    ///
    /// # Errors
    /// Returns one line for the user; this peer then leaves the session, and the others continue without
    /// it.
    fn train(&self, order: &Order<'_>) -> Result<Answer, String>;
}

/// The order to train in one round.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) network: &'a Network,
    pub(crate) tensors: &'a [TensorSpec],
    /// Number of the round, from 0.
    pub(crate) round: u32,
    pub(crate) rounds: u32,
    /// Weights to start from.
    pub(crate) start: &'a Values,
    /// Scaled training rows. They are the same in every round.
    pub(crate) rows: &'a Dataset,
    /// Training settings of the session.
    pub(crate) settings: Settings,
}

/// Result of a member's training by its trainer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) values: Values,
    /// Loss and accuracy, as sums over the rows.
    pub(crate) seen: Batch,
}

impl Order<'_> {
    /// Returns the description of the round for a trainer.
    pub(crate) fn told(&self) -> Value {
        let settings = self.settings;
        json!({
            "round": self.round + 1, "rounds": self.rounds,
            "rate": settings.rate, "epochs": settings.epochs, "steps": settings.steps,
            "batch": settings.batch, "momentum": settings.momentum, "weight_decay": settings.decay,
            "proximal": settings.proximal,
        })
    }

    /// Returns the file with the weights to start from.
    pub(crate) fn weights(&self) -> Vec<u8> {
        tensors::write(self.tensors, self.start, None)
    }

    /// Reads the answer from a file of weights. `figures` has the mean loss (nats) and the accuracy on the
    /// rows. If the trainer gave no figures, this function computes them with the new weights; this works
    /// only for a network of this program.
    ///
    /// # Errors
    /// Returns one line, without the name of the file, if the tensors or the figures are impossible.
    pub(crate) fn answered(&self, file: &[u8], figures: Option<(f64, f64)>) -> Result<Answer, String> {
        let values = tensors::open(file).and_then(|file| file.values(self.tensors))?;
        let rows = self.rows.rows();
        let Some((loss, accuracy)) = figures else {
            if *self.network.architecture() == Architecture::Own {
                return Err(
                    "gave no loss and accuracy, which only a trainer can compute for this model".into()
                );
            }
            let (rows, labels) = (self.rows.view(), self.rows.labels());
            let seen = self.network.evaluate(&values.averaged, rows, labels, &mut Tape::default());
            return Ok(Answer { values, seen });
        };
        if loss.is_nan() || loss == f64::INFINITY {
            return Err(format!("gave the loss {loss}: the training diverges; {}", self.advice()));
        }
        if !(loss >= 0.0 && (0.0..=1.0).contains(&accuracy)) {
            return Err(format!("gave loss {loss} and accuracy {accuracy}, expected at least 0, and 0 to 1"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the rows")]
        let right = (accuracy * rows as f64).round() as usize;
        Ok(Answer { values, seen: Batch { loss: loss * rows as f64, right, rows } })
    }

    /// Returns advice for training that diverges.
    pub(crate) fn advice(&self) -> String {
        lower_rate(f64::from(self.settings.rate))
    }
}

/// Returns the advice to train with a lower rate than this one.
pub(crate) fn lower_rate(rate: f64) -> String {
    // A tenth of the rate, rounded to one digit, so that it is easy to type.
    let tenth = format!("{:.0e}", rate / 10.0).parse::<f64>().unwrap_or(rate);
    format!("try fedavg.rate = {tenth} in a new session")
}

/// Returns the file with the rows (`x`, F32) and the class of each (`y`, I64).
pub(crate) fn write_rows(rows: &Dataset) -> Vec<u8> {
    let (x, y): (Vec<u8>, Vec<u8>) = (
        rows.values().iter().flat_map(|value| value.to_le_bytes()).collect(),
        rows.labels().iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect(),
    );
    let header = json!({
        "x": {"dtype": "F32", "shape": [rows.rows(), rows.features()], "data_offsets": [0, x.len()]},
        "y": {"dtype": "I64", "shape": [rows.rows()], "data_offsets": [x.len(), x.len() + y.len()]},
    });
    let mut text = header.to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &x, &y].concat()
}
