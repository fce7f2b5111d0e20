//! The user's own trainer instead of the built-in learner: its orders, and weights as a file in the
//! format safetensors (`docs/networks.md`).

use flyswarm_learn::learner::{Batch, Network, Settings, Tape, Tensor, Trained};
use serde_json::{Map, Value, json};

use crate::data::Dataset;

/// Longest header of a file with weights, in bytes: enough for about ten tensors.
const MAX_HEADER: usize = 1 << 16;

/// A program that trains a network.
pub(crate) trait Trainer: std::fmt::Debug + Send + Sync {
    /// Trains as ordered.
    ///
    /// # Errors
    /// Returns one line for the user; this peer then leaves the session, and the others continue without
    /// it.
    fn train(&self, order: &Order<'_>) -> Result<Trained, String>;
}

/// One round of one member.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) network: &'a Network,
    /// Number of the round, from 0.
    pub(crate) round: u32,
    pub(crate) rounds: u32,
    /// Weights to start from.
    pub(crate) start: &'a [f32],
    /// Scaled rows without the held-out ones; the same in every round.
    pub(crate) rows: &'a Dataset,
    /// Training settings of the session.
    pub(crate) settings: Settings,
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

    /// Returns the training result: the weights, the mean loss (nats) and the accuracy on the rows. If
    /// the trainer gave no figures, they are computed with the new weights.
    ///
    /// # Errors
    /// Returns one line if the figures are impossible.
    pub(crate) fn answered(&self, weights: Vec<f32>, figures: Option<(f64, f64)>) -> Result<Trained, String> {
        let Some((loss, accuracy)) = figures else {
            let (rows, labels) = (self.rows.view(), self.rows.labels());
            let seen = self.network.evaluate(&weights, rows, labels, &mut Tape::default());
            return Ok(Trained { weights, seen });
        };
        if !(loss.is_finite() && loss >= 0.0 && (0.0..=1.0).contains(&accuracy)) {
            return Err(format!("loss {loss} and accuracy {accuracy} are impossible"));
        }
        let rows = self.rows.rows();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the rows")]
        let right = (accuracy * rows as f64).round() as usize;
        Ok(Trained { weights, seen: Batch { loss: loss * rows as f64, right, rows } })
    }
}

/// Writes a file of these tensors: name, type, shape and little-endian numbers.
pub(crate) fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut at) = (Map::new(), 0);
    for (name, dtype, shape, numbers) in tensors {
        let place = json!({"dtype": dtype, "shape": shape, "data_offsets": [at, at + numbers.len()]});
        header.insert((*name).into(), place);
        at += numbers.len();
    }
    let mut text = Value::Object(header).to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    tensors.iter().for_each(|(.., numbers)| bytes.extend(numbers));
    bytes
}

/// Writes the file with the weights of a network.
pub(crate) fn write_weights(network: &Network, weights: &[f32]) -> Vec<u8> {
    let tensors = network.tensors();
    let numbers = |tensor: &Tensor| {
        weights[tensor.start..tensor.start + tensor.len()].iter().flat_map(|weight| weight.to_le_bytes())
    };
    let each = tensors.iter().map(|each| (&*each.name, "F32", &each.shape[..], numbers(each).collect()));
    safetensors(&each.collect::<Vec<_>>())
}

/// Writes the file with the rows (`x`, F32) and the class of each (`y`, I64).
pub(crate) fn write_rows(rows: &Dataset) -> Vec<u8> {
    let x = rows.values().iter().flat_map(|value| value.to_le_bytes()).collect();
    let y = rows.labels().iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
    let (count, features) = (rows.rows(), rows.features());
    safetensors(&[("x", "F32", &[count, features], x), ("y", "I64", &[count], y)])
}

/// Reads the weights of a network from a file of another program, which may have its tensors in any
/// order.
///
/// # Errors
/// Returns one line that names the first tensor that is missing, superfluous or of another type or
/// shape, or the first number that is not finite.
pub(crate) fn read_weights(network: &Network, bytes: &[u8]) -> Result<Vec<f32>, String> {
    let none = || "is not a file in the format safetensors".to_owned();
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(none)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (text, data) =
        rest.split_at_checked(length).filter(|(text, _)| text.len() <= MAX_HEADER).ok_or_else(none)?;
    let mut header: Map<String, Value> = serde_json::from_slice(text).map_err(|_| none())?;
    header.remove("__metadata__");
    let mut weights = Vec::with_capacity(network.weights());
    for tensor in network.tensors() {
        let Some(found) = header.remove(&tensor.name) else {
            return Err(format!("has no tensor {}", tensor.name));
        };
        if found["dtype"] != "F32" || found["shape"] != json!(tensor.shape) {
            return Err(format!(
                "has {} as {} {}, expected \"F32\" {:?}",
                tensor.name, found["dtype"], found["shape"], tensor.shape
            ));
        }
        let offset = |at: usize| found["data_offsets"][at].as_u64().and_then(|at| usize::try_from(at).ok());
        let range = offset(0).zip(offset(1)).and_then(|(from, to)| data.get(from..to));
        let numbers = range.filter(|numbers| numbers.len() == 4 * tensor.len());
        let numbers = numbers.ok_or_else(|| format!("is cut off in {}", tensor.name))?;
        for (at, &word) in numbers.as_chunks::<4>().0.iter().enumerate() {
            let weight = f32::from_le_bytes(word);
            if !weight.is_finite() {
                return Err(format!("has {weight} as number {at} of {}", tensor.name));
            }
            weights.push(weight);
        }
    }
    match header.keys().next() {
        Some(name) => Err(format!("has a tensor {name:?}, which the network has not")),
        None => Ok(weights),
    }
}
