//! Networks: their layers, initial weights, loss and gradient.

use ndarray::{Array2, ArrayView2};

use super::MAX_WEIGHTS;
use super::layer::{Layer, Scratch};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Number of rows that are classified at a time.
const ROWS: usize = 256;

/// Shape of a network between its features and its classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// One matrix: multinomial logistic regression.
    Logistic,
    /// Hidden layers, each with ReLU.
    Perceptron {
        /// Number of units of each hidden layer, first to last.
        hidden: Vec<u32>,
    },
    /// Three blocks, each a 3 x 3 convolution with ReLU and a maximum over 2 x 2 pixels. A hidden layer with
    /// ReLU follows.
    Convolutional {
        /// Channels, height and width. A row has one channel after another, and each channel line by line.
        image: [u32; 3],
        /// Number of filters of each of the three convolutions.
        filters: [u32; 3],
        /// Number of units of the hidden layer.
        hidden: u32,
    },
    /// A model that the users train with their own code. The program has no layers for it.
    Own,
}

/// Reason why the network cannot exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The number of values of the image is not the number of features of a row.
    #[error("an image has {0} x {1} x {2} numbers, but a row has {3}")]
    Image(u32, u32, u32, usize),
    /// Three poolings leave no pixel of the image.
    #[error("an image has {0} x {1} pixels, but three poolings need at least 8 x 8")]
    Small(u32, u32),
    /// A layer has no units.
    #[error("a layer of 0 units")]
    Empty,
    /// The network is too large.
    #[error("more than {MAX_WEIGHTS} weights")]
    Large,
}

/// A network without its weights, which are stored elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    architecture: Architecture,
    features: usize,
    classes: usize,
    layers: Vec<Layer>,
    weights: usize,
}

/// One tensor of a network's weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Name, such as `convolution1.weight`.
    pub name: String,
    /// Shape in PyTorch's order: outputs first.
    pub shape: Vec<usize>,
    /// Index of its first value among the weights.
    pub start: usize,
}

impl Tensor {
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the tensor has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Predictions for some rows, compared with their labels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Sum of the rows' cross-entropies, multiplied by their weights, in nats.
    pub loss: f64,
    /// Number of rows whose own class has the highest score. If scores are equal, the first one wins.
    pub right: usize,
    /// Number of rows.
    pub rows: usize,
}

/// Buffers of a pass. They can be used again.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The batch, then the output of every layer.
    values: Vec<Vec<f32>>,
    upper: Vec<f32>,
    lower: Vec<f32>,
    scratch: Scratch,
}

impl Architecture {
    /// Returns the name in session files and model files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Logistic => "logistic",
            Self::Perceptron { .. } => "mlp",
            Self::Convolutional { .. } => "cnn",
            Self::Own => "own",
        }
    }

    fn layers(&self, features: usize, classes: usize) -> Result<Vec<Layer>, NetworkError> {
        let dense = |inputs, outputs, relu| Layer::Dense { inputs, outputs, relu };
        Ok(match self {
            Self::Own => Vec::new(),
            Self::Logistic => vec![dense(features, classes, false)],
            Self::Perceptron { hidden } => {
                let widths: Vec<usize> =
                    std::iter::once(features).chain(hidden.iter().map(|&units| units as usize)).collect();
                let last = widths.last().copied().unwrap_or(features);
                let hidden = widths.windows(2).map(|pair| dense(pair[0], pair[1], true));
                hidden.chain([dense(last, classes, false)]).collect()
            }
            &Self::Convolutional { image, filters, hidden } => {
                let [channels, height, width] = image.map(|size| size as usize);
                let pixels = channels.checked_mul(height).and_then(|lines| lines.checked_mul(width));
                if pixels != Some(features) {
                    return Err(NetworkError::Image(image[0], image[1], image[2], features));
                }
                if height < 8 || width < 8 {
                    return Err(NetworkError::Small(image[1], image[2]));
                }
                let mut layers = vec![Layer::Transpose { channels, area: height * width, to_channels: true }];
                let (mut channels, mut height, mut width) = (channels, height, width);
                for filters in filters.map(|filters| filters as usize) {
                    layers.push(Layer::Convolution { channels, filters, height, width });
                    layers.push(Layer::Pool { channels: filters, height, width });
                    (channels, height, width) = (filters, height / 2, width / 2);
                }
                let area = height * width;
                let hidden = hidden as usize;
                layers.push(Layer::Transpose { channels, area, to_channels: false });
                layers.push(dense(channels.saturating_mul(area), hidden, true));
                layers.push(dense(hidden, classes, false));
                layers
            }
        })
    }
}

impl Network {
    /// Makes the network for these numbers of features and classes.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn new(architecture: &Architecture, features: usize, classes: usize) -> Result<Self, NetworkError> {
        // Checked before any product is computed.
        let units: Vec<u32> = match architecture {
            Architecture::Logistic | Architecture::Own => Vec::new(),
            Architecture::Perceptron { hidden } => hidden.clone(),
            Architecture::Convolutional { image, filters, hidden } => {
                image.iter().chain(filters).chain([hidden]).copied().collect()
            }
        };
        if units.contains(&0) || features == 0 || classes == 0 {
            return Err(NetworkError::Empty);
        }
        let most = units.iter().map(|&units| units as usize).chain([features, classes]).max();
        if most > Some(MAX_WEIGHTS) || units.len() > 64 {
            return Err(NetworkError::Large);
        }
        let layers = architecture.layers(features, classes)?;
        let weights = layers.iter().map(|layer| layer.weights()).sum();
        if weights > MAX_WEIGHTS {
            return Err(NetworkError::Large);
        }
        Ok(Self { architecture: architecture.clone(), features, classes, layers, weights })
    }

    /// Returns the shape of the network.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Returns the number of values of a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of weights and biases.
    #[must_use]
    pub fn weights(&self) -> usize {
        self.weights
    }

    /// Returns the number of multiplications and additions of the forward pass of one row.
    #[must_use]
    pub fn work(&self) -> usize {
        self.layers.iter().map(|layer| layer.work()).sum()
    }

    /// Returns the tensors of the weights, one after another.
    #[must_use]
    pub fn tensors(&self) -> Vec<Tensor> {
        let (mut tensors, mut start) = (Vec::new(), 0);
        let (mut convolutions, mut dense) = (0, 0);
        for layer in &self.layers {
            let (outputs, inputs) = layer.matrix();
            let (name, shape) = match *layer {
                Layer::Convolution { channels, filters, .. } => {
                    convolutions += 1;
                    (format!("convolution{convolutions}"), vec![filters, channels, 3, 3])
                }
                Layer::Dense { .. } => {
                    dense += 1;
                    (format!("dense{dense}"), vec![outputs, inputs])
                }
                Layer::Transpose { .. } | Layer::Pool { .. } => continue,
            };
            tensors.push(Tensor { name: format!("{name}.weight"), shape, start });
            let bias = start + outputs * inputs;
            tensors.push(Tensor { name: format!("{name}.bias"), shape: vec![outputs], start: bias });
            start = bias + outputs;
        }
        tensors
    }

    /// Returns the initial weights for a seed. The matrix and the biases of a layer whose units have k inputs
    /// are uniform in +-1/sqrt(k), as in PyTorch. Each number is (2 v / 2^32 - 1) / sqrt(k) in binary64,
    /// rounded to binary32, where v is the next word of Stream(seed, "fedavg/weights", "").
    #[must_use]
    pub fn initial(&self, seed: &[u8; 32]) -> Vec<f32> {
        let mut stream = Stream::new(seed, "fedavg/weights", &[]);
        let mut weights = Vec::with_capacity(self.weights);
        for layer in &self.layers {
            let bound = 1.0 / (layer.matrix().1.max(1) as f64).sqrt();
            let mut bytes = vec![0; 4 * layer.weights()];
            stream.fill(&mut bytes);
            let words = bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word));
            #[expect(clippy::cast_possible_truncation, reason = "rounding to binary32 is the rule")]
            weights.extend(words.map(|word| ((f64::from(word) / 2f64.powi(31) - 1.0) * bound) as f32));
        }
        weights
    }

    /// Computes every layer for the `batch` rows in the tape.
    fn pass(&self, weights: &[f32], batch: usize, tape: &mut Tape) {
        tape.values.resize(self.layers.len() + 1, Vec::new());
        let mut start = 0;
        for (at, layer) in self.layers.iter().enumerate() {
            let (before, after) = tape.values.split_at_mut(at + 1);
            let (input, output) = (&before[at], &mut after[0]);
            output.resize(batch * layer.outputs(), 0.0);
            let own = &weights[start..start + layer.weights()];
            layer.forward(own, batch, input, output, &mut tape.scratch);
            start += layer.weights();
        }
    }

    /// Returns the scores (logits) of rows: rows x classes. `rows` has as many columns as the network has
    /// features.
    #[must_use]
    pub fn scores(&self, weights: &[f32], rows: ArrayView2<'_, f32>, tape: &mut Tape) -> Array2<f32> {
        self.represent(weights, rows, tape).1
    }

    /// Returns the number of values of a row's representation: the values before the last layer. For logistic
    /// regression the representation is the row itself.
    #[must_use]
    pub fn representation(&self) -> usize {
        self.layers.last().map_or(self.features, |layer| layer.matrix().1)
    }

    /// Returns the representation of rows, rows x [`Network::representation`], and their scores (logits),
    /// rows x classes. `rows` has as many columns as the network has features.
    #[must_use]
    pub fn represent(
        &self,
        weights: &[f32],
        rows: ArrayView2<'_, f32>,
        tape: &mut Tape,
    ) -> (Array2<f32>, Array2<f32>) {
        let width = self.representation();
        let mut scores = Vec::with_capacity(rows.nrows() * self.classes);
        let mut before = Vec::with_capacity(rows.nrows() * width);
        for piece in rows.axis_chunks_iter(ndarray::Axis(0), ROWS) {
            tape.load(piece.rows().into_iter().flatten().copied());
            self.pass(weights, piece.nrows(), tape);
            if let [.., last, output] = &tape.values[..] {
                before.extend_from_slice(last);
                scores.extend_from_slice(output);
            }
        }
        let shaped = |columns, values| {
            Array2::from_shape_vec((rows.nrows(), columns), values)
                .unwrap_or_else(|error| unreachable!("BUG: a pass of {} rows: {error}", rows.nrows()))
        };
        (shaped(width, before), shaped(self.classes, scores))
    }

    /// Computes loss and accuracy of rows with these labels.
    #[must_use]
    pub fn evaluate(
        &self,
        weights: &[f32],
        rows: ArrayView2<'_, f32>,
        labels: &[u16],
        tape: &mut Tape,
    ) -> Batch {
        let mut scores = self.scores(weights, rows, tape);
        let scores = scores.as_slice_mut().unwrap_or_default();
        softmax_loss(scores, self.classes, labels, None, 1.0)
    }

    /// Computes the loss of the rows in the tape ([`Tape::load`]), and the gradient of the mean loss with
    /// respect to the weights. With `row_weights`, the loss of a row is multiplied by its weight. The
    /// mean is then the sum divided by the number of rows or by the sum of the weights, whichever is
    /// larger. So a batch of heavy rows does not take a longer step than a batch of rows with weight 1.
    ///
    /// The whole gradient is never in memory. `step` is called once for each part. Its arguments are the
    /// index of the part's first value, the weights that belong to the part, and the part. `step` may change
    /// these weights, because they are not read again.
    pub fn gradient(
        &self,
        weights: &mut [f32],
        labels: &[u16],
        row_weights: Option<&[f32]>,
        tape: &mut Tape,
        mut step: impl FnMut(usize, &mut [f32], &[f32]),
    ) -> Batch {
        let batch = labels.len();
        self.pass(weights, batch, tape);
        tape.upper.clone_from(&tape.values[self.layers.len()]);
        let heavy = row_weights.map_or(0.0, |weights| weights.iter().sum::<f32>());
        let scale = 1.0 / heavy.max(batch.max(1) as f32);
        let loss = softmax_loss(&mut tape.upper, self.classes, labels, row_weights, scale);
        let mut end = weights.len();
        for (at, layer) in self.layers.iter().enumerate().rev() {
            let start = end - layer.weights();
            let Tape { values, upper, lower, scratch } = &mut *tape;
            let (input, output) = (&values[at], &values[at + 1]);
            // The gradient with respect to the input of the network is not needed.
            let below = (start > 0).then(|| {
                lower.resize(input.len(), 0.0);
                &mut lower[..]
            });
            let mut take =
                |at: usize, weights: &mut [f32], gradient: &[f32]| step(start + at, weights, gradient);
            let own = &mut weights[start..end];
            layer.backward(own, batch, input, output, upper, below, scratch, &mut take);
            std::mem::swap(upper, lower);
            end = start;
        }
        loss
    }
}

/// Returns -ln of the probability of each class of each row, rows x classes, from the scores (logits) of
/// rows. The lowest value is the prediction.
#[must_use]
pub fn surprise(scores: &Array2<f32>) -> Vec<f64> {
    let of_row = |row: ndarray::ArrayView1<'_, f32>| {
        let logits: Vec<f64> = row.iter().copied().map(f64::from).collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
        logits.into_iter().map(move |logit| sum.ln() + (most - logit))
    };
    scores.rows().into_iter().flat_map(of_row).collect()
}

impl Tape {
    /// Loads the values of a batch, row by row.
    pub fn load(&mut self, values: impl Iterator<Item = f32>) {
        if self.values.is_empty() {
            self.values.push(Vec::new());
        }
        self.values[0].clear();
        self.values[0].extend(values);
    }

    /// Returns the batch, to be filled.
    pub(super) fn batch(&mut self) -> &mut Vec<f32> {
        if self.values.is_empty() {
            self.values.push(Vec::new());
        }
        &mut self.values[0]
    }
}

/// Computes softmax and cross-entropy. The scores are replaced by the gradient of `scale` times the sum
/// of the losses.
fn softmax_loss(
    scores: &mut [f32],
    classes: usize,
    labels: &[u16],
    row_weights: Option<&[f32]>,
    scale: f32,
) -> Batch {
    let mut batch = Batch { rows: labels.len(), ..Batch::default() };
    for (row, (scores, &label)) in scores.chunks_exact_mut(classes).zip(labels).enumerate() {
        let label = usize::from(label);
        let weight = row_weights.map_or(1.0, |weights| weights[row]);
        let (mut best, mut most) = (0, f32::NEG_INFINITY);
        for (class, &score) in scores.iter().enumerate() {
            if score > most {
                (best, most) = (class, score);
            }
        }
        let own = scores[label] - most;
        let mut sum = 0.0;
        for score in &mut *scores {
            *score = libm::expf(*score - most);
            sum += *score;
        }
        batch.loss += f64::from(weight) * f64::from(libm::logf(sum) - own);
        batch.right += usize::from(best == label);
        for score in &mut *scores {
            *score *= weight * scale / sum;
        }
        scores[label] -= weight * scale;
    }
    batch
}
