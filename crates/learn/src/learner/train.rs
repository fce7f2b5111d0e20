//! Stochastic gradient descent with momentum.

use ndarray::ArrayView2;

use super::{Augment, Batch, Network, Tape};
use flyswarm_data::deal::shuffle;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Schedule of the learning rate over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The rate does not change.
    Constant,
    /// In round r of R, counted from 0, the rate is multiplied by (1 + cos(pi r / R)) / 2.
    #[default]
    Cosine,
}

impl Schedule {
    /// Returns the rate in round `round` of `rounds`, counted from 0.
    #[must_use]
    pub fn rate(self, rate: f64, round: u32, rounds: u32) -> f64 {
        match self {
            Self::Constant => rate,
            Self::Cosine => {
                let part = f64::from(round) / f64::from(rounds.max(1));
                rate * (1.0 + libm::cos(std::f64::consts::PI * part)) / 2.0
            }
        }
    }
}

/// Settings of one member's training in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Number of passes over the rows. Ignored if `steps` is not 0.
    pub epochs: u32,
    /// Number of batches, in as many passes as needed. If it is 0, `epochs` decides.
    pub steps: u32,
    /// Number of rows of a batch. The last batch of a pass may have fewer.
    pub batch: usize,
    /// Learning rate.
    pub rate: f32,
    /// Momentum: share of the last step that is added to the next.
    pub momentum: f32,
    /// Weight decay: the weights times this number are added to the gradient.
    pub decay: f32,
    /// FedProx's mu: the difference from the initial weights times this number is added to the gradient (Li
    /// et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020).
    pub proximal: f32,
    /// Random changes to images.
    pub augment: Option<Augment>,
}

/// Result of a member's training.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// New weights.
    pub weights: Vec<f32>,
    /// Sums over all batches. Each batch is evaluated before its step.
    pub seen: Batch,
}

/// Trains from `start` on rows with labels. In each pass the rows are shuffled by `stream`, then cut into
/// batches. Images are changed by the same stream, in the order of their use. Without rows the weights do
/// not change.
///
/// A step is that of PyTorch's `SGD`: g = gradient + decay w + proximal (w - start); v = momentum v + g, from
/// v = 0; w = w - rate v. `start` becomes the new weights. The velocity v needs as much memory as the
/// weights, and so does a copy of `start` if `proximal` is not 0. The gradient is computed in pieces
/// ([`Network::gradient`]).
#[must_use]
pub fn train(
    network: &Network,
    start: Vec<f32>,
    rows: ArrayView2<'_, f32>,
    labels: &[u16],
    row_weights: Option<&[f32]>,
    settings: &Settings,
    stream: &mut Stream,
) -> Trained {
    let mut pass = Pass::new((0..rows.nrows()).collect());
    let next = |count, stream: &mut Stream, batch: &mut Vec<usize>| pass.next(count, stream, batch);
    descend(network, start, (rows, labels, row_weights), settings, stream, next)
}

/// Trains on two kinds of rows, given by their indices. Half of each batch (the smaller half if the batch
/// size is odd) is of the first kind, the rest of the second. Each kind is shuffled in passes of its own.
/// If one kind has no rows, batches have only the other. A pass of [`Settings::epochs`] has as many
/// batches as all rows would fill.
#[must_use]
#[expect(clippy::too_many_arguments, reason = "rows of two kinds, in addition to the arguments of `train`")]
pub fn train_halves(
    network: &Network,
    start: Vec<f32>,
    rows: ArrayView2<'_, f32>,
    labels: &[u16],
    row_weights: Option<&[f32]>,
    kinds: [&[usize]; 2],
    settings: &Settings,
    stream: &mut Stream,
) -> Trained {
    let [mut first, mut second] = kinds.map(|places| Pass::new(places.to_vec()));
    let next = |count, stream: &mut Stream, batch: &mut Vec<usize>| {
        let own = match (first.order.is_empty(), second.order.is_empty()) {
            (true, _) => 0,
            (_, true) => count,
            _ => count / 2,
        };
        first.next(own, stream, batch);
        second.next(count - own, stream, batch);
    };
    let count = kinds[0].len() + kinds[1].len();
    let rows = if count == 0 { rows.slice_move(ndarray::s![..0, ..]) } else { rows };
    let steps = match settings.steps {
        0 => settings.epochs * u32::try_from(count.div_ceil(settings.batch.max(1))).unwrap_or(u32::MAX),
        steps => steps,
    };
    let settings = Settings { steps, ..*settings };
    descend(network, start, (rows, labels, row_weights), &settings, stream, next)
}

/// Indices of rows, shuffled again for each pass.
struct Pass {
    order: Vec<usize>,
    place: usize,
}

impl Pass {
    fn new(order: Vec<usize>) -> Self {
        Self { place: order.len(), order }
    }

    /// Appends the next `count` indices, or fewer at the end of a pass.
    fn next(&mut self, count: usize, stream: &mut Stream, batch: &mut Vec<usize>) {
        if count == 0 {
            return;
        }
        if self.place == self.order.len() {
            self.order.sort_unstable();
            shuffle(&mut self.order, stream);
            self.place = 0;
        }
        let end = (self.place + count).min(self.order.len());
        batch.extend_from_slice(&self.order[self.place..end]);
        self.place = end;
    }
}

/// Takes the steps. `next` appends the indices of a batch with the given number of rows.
fn descend(
    network: &Network,
    start: Vec<f32>,
    (rows, labels, row_weights): (ArrayView2<'_, f32>, &[u16], Option<&[f32]>),
    settings: &Settings,
    stream: &mut Stream,
    mut next: impl FnMut(usize, &mut Stream, &mut Vec<usize>),
) -> Trained {
    let anchor = if settings.proximal == 0.0 { Vec::new() } else { start.clone() };
    let mut trained = Trained { weights: start, seen: Batch::default() };
    let count = rows.nrows();
    if count == 0 {
        return trained;
    }
    let each = settings.batch.max(1);
    let steps = match settings.steps {
        0 => settings.epochs as usize * count.div_ceil(each),
        steps => steps as usize,
    };
    let mut tape = Tape::default();
    let mut velocity = vec![0.0; trained.weights.len()];
    let (mut batch, mut chosen_labels, mut chosen_weights) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..steps {
        batch.clear();
        next(each, stream, &mut batch);
        let values = tape.batch();
        values.clear();
        for &row in &batch {
            let row = rows.row(row);
            match (&settings.augment, row.as_slice()) {
                (Some(augment), Some(row)) => augment.append(row, stream, values),
                (Some(augment), None) => augment.append(&row.to_vec(), stream, values),
                (None, _) => values.extend(row.iter()),
            }
        }
        chosen_labels.clear();
        chosen_labels.extend(batch.iter().map(|&row| labels[row]));
        chosen_weights.clear();
        chosen_weights.extend(row_weights.iter().flat_map(|weights| batch.iter().map(|&row| weights[row])));
        let chosen_weights = row_weights.map(|_| &chosen_weights[..]);
        let step = |start: usize, weights: &mut [f32], gradient: &[f32]| {
            let part = start..start + weights.len();
            let anchor = anchor.get(part.clone()).unwrap_or_default();
            step(settings, anchor, gradient, &mut velocity[part], weights);
        };
        let weights = &mut trained.weights;
        let seen = network.gradient(weights, &chosen_labels, chosen_weights, &mut tape, step);
        trained.seen.loss += seen.loss;
        trained.seen.right += seen.right;
        trained.seen.rows += seen.rows;
    }
    trained
}

/// Takes one step. `anchor` has the initial weights, or is empty if `proximal` is 0.
fn step(settings: &Settings, anchor: &[f32], gradient: &[f32], velocity: &mut [f32], weights: &mut [f32]) {
    let Settings { rate, momentum, decay, proximal, .. } = *settings;
    let numbers = weights.iter_mut().zip(velocity).zip(gradient);
    let step = |((weight, velocity), gradient): ((&mut f32, &mut f32), &f32), pull: f32| {
        *velocity = momentum * *velocity + (gradient + decay * *weight + pull);
        *weight -= rate * *velocity;
    };
    if anchor.is_empty() {
        return numbers.for_each(|number| step(number, 0.0));
    }
    for (number, first) in numbers.zip(anchor) {
        let pull = proximal * (*number.0.0 - first);
        step(number, pull);
    }
}

/// Shortens the difference between `weights` and `start` to the length `norm` if the difference is longer.
/// Returns the length before the change.
pub fn clip_update(start: &[f32], weights: &mut [f32], norm: f64) -> f64 {
    let way = |(weight, start): (&f32, &f32)| f64::from(*weight) - f64::from(*start);
    let length = weights.iter().zip(start).map(way).map(|way| way * way).sum::<f64>().sqrt();
    if length > norm {
        for (weight, start) in weights.iter_mut().zip(start) {
            let way = f64::from(*weight) - f64::from(*start);
            #[expect(clippy::cast_possible_truncation, reason = "weights are binary32")]
            let clipped = (f64::from(*start) + way * (norm / length)) as f32;
            *weight = clipped;
        }
    }
    length
}
