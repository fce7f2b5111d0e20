//! Layers, with their forward and backward pass.
//!
//! Vectors are stored row by row. Images are stored channel by channel. A channel has the images of the batch
//! one after another, each pixel by pixel. So a convolution is one matrix product for several rows at once.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, s};

/// Number of values in a line of the cache.
const LINE: usize = 16;
/// Number of values of unfolded patches that are made at a time: 512 KiB, which fits a second-level
/// cache.
const UNFOLDED: usize = 1 << 17;
/// Number of values of a gradient that are made at a time: 4 MiB, or one line of a matrix if that is
/// longer.
pub(super) const PIECE: usize = 1 << 20;
/// Number of weights of a 3 x 3 patch of one channel.
const PATCH: usize = 9;

/// Buffers of a layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// Patches of some rows, one patch in each column.
    columns: Padded,
    /// Output of a convolution for some rows, or its gradient. Each line belongs to one filter.
    piece: Padded,
    /// Part of a gradient.
    gradient: Vec<f32>,
}

/// Function that gets one part of a layer's gradient. Its arguments are the index of the part's first value,
/// the weights, which it may change, and the part.
pub(super) type Take<'a> = &'a mut dyn FnMut(usize, &mut [f32], &[f32]);

/// A matrix whose lines start an odd number of cache lines apart. With powers of two, which are common
/// for images, all lines of a matrix would share the same few places of the cache.
#[derive(Clone, Debug, Default)]
struct Padded {
    numbers: Vec<f32>,
    width: usize,
    stride: usize,
}

impl Padded {
    /// Sets the size. Old values remain.
    fn resize(&mut self, lines: usize, width: usize) {
        (self.width, self.stride) = (width, LINE * (width.div_ceil(LINE) | 1));
        self.numbers.resize(lines * self.stride, 0.0);
    }

    fn lines(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let width = self.width;
        self.numbers.chunks_exact_mut(self.stride).map(move |line| &mut line[..width])
    }

    fn view(&self) -> ArrayView2<'_, f32> {
        view(&self.numbers, self.numbers.len() / self.stride).slice_move(s![.., ..self.width])
    }

    fn view_mut(&mut self) -> ArrayViewMut2<'_, f32> {
        let lines = self.numbers.len() / self.stride;
        view_mut(&mut self.numbers, lines).slice_move(s![.., ..self.width])
    }
}

/// Operation on the values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// Changes the order of the values from row by row to channel by channel if `to_channels` is true, or
    /// back.
    Transpose { channels: usize, area: usize, to_channels: bool },
    /// Convolution 3 x 3, stride 1, zeros around the image, followed by ReLU.
    Convolution { channels: usize, filters: usize, height: usize, width: usize },
    /// Maximum of 2 x 2, stride 2. An odd last line or column is left out.
    Pool { channels: usize, height: usize, width: usize },
    /// Product with a matrix, plus a bias, followed by ReLU if `relu` is true.
    Dense { inputs: usize, outputs: usize, relu: bool },
}

fn view(values: &[f32], rows: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, values.len() / rows.max(1)), values)
        .unwrap_or_else(|error| unreachable!("BUG: a buffer of {rows} rows: {error}"))
}

fn view_mut(values: &mut [f32], rows: usize) -> ArrayViewMut2<'_, f32> {
    let columns = values.len() / rows.max(1);
    ArrayViewMut2::from_shape((rows, columns), values)
        .unwrap_or_else(|error| unreachable!("BUG: a buffer of {rows} rows: {error}"))
}

impl Layer {
    /// Returns the number of output values of a row.
    pub(super) fn outputs(self) -> usize {
        match self {
            Self::Transpose { channels, area, .. } => channels * area,
            Self::Convolution { filters, height, width, .. } => filters * height * width,
            Self::Pool { channels, height, width } => channels * (height / 2) * (width / 2),
            Self::Dense { outputs, .. } => outputs,
        }
    }

    /// Returns the shape (outputs, inputs) of the layer's matrix, or (0, 0) if the layer has no matrix. The
    /// weights have the matrix first, then one bias for each output.
    pub(super) fn matrix(self) -> (usize, usize) {
        match self {
            Self::Convolution { channels, filters, .. } => (filters, channels * PATCH),
            Self::Dense { inputs, outputs, .. } => (outputs, inputs),
            Self::Transpose { .. } | Self::Pool { .. } => (0, 0),
        }
    }

    /// Returns the number of weights and biases.
    pub(super) fn weights(self) -> usize {
        let (outputs, inputs) = self.matrix();
        outputs * (inputs + 1)
    }

    /// Returns the number of multiplications and additions of the forward pass of one row.
    pub(super) fn work(self) -> usize {
        let (outputs, inputs) = self.matrix();
        match self {
            Self::Convolution { height, width, .. } => outputs * inputs * height * width,
            _ => outputs * inputs,
        }
    }

    /// Computes `output` from `input`, for `batch` rows.
    pub(super) fn forward(
        self,
        weights: &[f32],
        batch: usize,
        input: &[f32],
        output: &mut [f32],
        scratch: &mut Scratch,
    ) {
        match self {
            Self::Transpose { channels, area, to_channels } => {
                transpose(channels, area, batch, to_channels, input, output);
            }
            Self::Dense { outputs, relu, .. } => {
                let (matrix, bias) = weights.split_at(weights.len() - outputs);
                output.chunks_exact_mut(outputs).for_each(|row| row.copy_from_slice(bias));
                let matrix = view(matrix, outputs);
                general_mat_mul(1.0, &view(input, batch), &matrix.t(), 1.0, &mut view_mut(output, batch));
                if relu {
                    rectify(output);
                }
            }
            Self::Convolution { filters, height, width, .. } => {
                let (matrix, bias) = weights.split_at(weights.len() - filters);
                let matrix = view(matrix, filters);
                let Scratch { columns, piece, .. } = scratch;
                self.pieces(batch, |first, last| {
                    self.unfold(batch, first..last, input, columns);
                    let range = first * height * width..last * height * width;
                    piece.resize(filters, range.len());
                    piece.lines().zip(bias).for_each(|(line, &bias)| line.fill(bias));
                    general_mat_mul(1.0, &matrix, &columns.view(), 1.0, &mut piece.view_mut());
                    for (line, plane) in piece.lines().zip(output.chunks_exact_mut(batch * height * width)) {
                        plane[range.clone()].copy_from_slice(line);
                    }
                });
                rectify(output);
            }
            Self::Pool { height, width, .. } => {
                let (low, narrow) = (height / 2, width / 2);
                let planes = input.chunks_exact(height * width);
                for (from, to) in planes.zip(output.chunks_exact_mut(low * narrow)) {
                    for (y, line) in to.chunks_exact_mut(narrow).enumerate() {
                        let (above, below) = pair(from, y, width);
                        let above = above.as_chunks::<2>().0;
                        let below = below.as_chunks::<2>().0;
                        for (value, ([a, b], [c, d])) in line.iter_mut().zip(above.iter().zip(below)) {
                            *value = a.max(*b).max(c.max(*d));
                        }
                    }
                }
            }
        }
    }

    /// Writes the gradient of the input if `lower` is given, then passes the gradient of the weights to
    /// `take`, in pieces if the matrix is large. `upper` is the gradient of the output, and is changed.
    #[expect(clippy::too_many_arguments, reason = "the values and gradients of a layer, and scratch")]
    pub(super) fn backward(
        self,
        weights: &mut [f32],
        batch: usize,
        input: &[f32],
        output: &[f32],
        upper: &mut [f32],
        lower: Option<&mut [f32]>,
        scratch: &mut Scratch,
        take: Take<'_>,
    ) {
        match self {
            Self::Transpose { channels, area, to_channels } => {
                if let Some(lower) = lower {
                    transpose(channels, area, batch, !to_channels, upper, lower);
                }
            }
            Self::Dense { inputs, outputs, relu } => {
                if relu {
                    mask(output, upper);
                }
                let (matrix, bias) = weights.split_at_mut(inputs * outputs);
                let (rows, input) = (view(upper, batch), view(input, batch));
                if let Some(lower) = lower {
                    general_mat_mul(1.0, &rows, &view(matrix, outputs), 0.0, &mut view_mut(lower, batch));
                }
                let gradient = &mut scratch.gradient;
                let lines = (PIECE / inputs).max(1);
                for (at, matrix) in matrix.chunks_mut(lines * inputs).enumerate() {
                    let (first, lines) = (at * lines, matrix.len() / inputs);
                    gradient.resize(matrix.len(), 0.0);
                    let rows = rows.slice(s![.., first..first + lines]);
                    general_mat_mul(1.0, &rows.t(), &input, 0.0, &mut view_mut(gradient, lines));
                    take(first * inputs, matrix, gradient);
                }
                gradient.clear();
                gradient.resize(outputs, 0.0);
                for row in upper.chunks_exact(outputs) {
                    gradient.iter_mut().zip(row).for_each(|(bias, value)| *bias += value);
                }
                take(inputs * outputs, bias, gradient);
            }
            Self::Convolution { filters, height, width, .. } => {
                mask(output, upper);
                let Scratch { columns, piece, gradient } = scratch;
                gradient.clear();
                gradient.resize(weights.len(), 0.0);
                let (matrix, bias) = gradient.split_at_mut(weights.len() - filters);
                for (bias, plane) in bias.iter_mut().zip(upper.chunks_exact(batch * height * width)) {
                    *bias = plane.iter().sum();
                }
                let mut matrix = view_mut(matrix, filters);
                let mut lower = lower;
                if let Some(lower) = &mut lower {
                    lower.fill(0.0);
                }
                let shaped = view(&weights[..weights.len() - filters], filters);
                self.pieces(batch, |first, last| {
                    let range = first * height * width..last * height * width;
                    piece.resize(filters, range.len());
                    for (line, plane) in piece.lines().zip(upper.chunks_exact(batch * height * width)) {
                        line.copy_from_slice(&plane[range.clone()]);
                    }
                    self.unfold(batch, first..last, input, columns);
                    general_mat_mul(1.0, &piece.view(), &columns.view().t(), 1.0, &mut matrix);
                    if let Some(lower) = &mut lower {
                        general_mat_mul(1.0, &shaped.t(), &piece.view(), 0.0, &mut columns.view_mut());
                        self.fold(batch, first..last, columns, lower);
                    }
                });
                take(0, weights, gradient);
            }
            Self::Pool { height, width, .. } => {
                let Some(lower) = lower else { return };
                lower.fill(0.0);
                let (low, narrow) = (height / 2, width / 2);
                let planes = lower.chunks_exact_mut(height * width).zip(input.chunks_exact(height * width));
                for ((to, from), upper) in planes.zip(upper.chunks_exact(low * narrow)) {
                    for (at, &value) in upper.iter().enumerate() {
                        let corner = at / narrow * 2 * width + at % narrow * 2;
                        // If values are equal, the first gets the gradient.
                        let mut best = corner;
                        for place in [corner + 1, corner + width, corner + width + 1] {
                            if from[place] > from[best] {
                                best = place;
                            }
                        }
                        to[best] = value;
                    }
                }
            }
        }
    }

    /// Calls `each` with the first row and the end of each piece of the batch.
    fn pieces(self, batch: usize, mut each: impl FnMut(usize, usize)) {
        let Self::Convolution { channels, height, width, .. } = self else { return };
        let rows = (UNFOLDED / (channels * PATCH * height * width)).max(1);
        for first in (0..batch).step_by(rows) {
            each(first, (first + rows).min(batch));
        }
    }

    /// Writes the 3 x 3 patches of some rows as columns. Line (channel, dy, dx) of `columns` is the image
    /// of the channel shifted by (1 - dy, 1 - dx), row after row.
    fn unfold(self, batch: usize, rows: std::ops::Range<usize>, input: &[f32], columns: &mut Padded) {
        let Self::Convolution { channels, height, width, .. } = self else { return };
        let area = height * width;
        columns.resize(channels * PATCH, rows.len() * area);
        let mut lines = columns.lines();
        for plane in input.chunks_exact(batch * area) {
            for (dy, dx) in (0..PATCH).map(|at| (at / 3, at % 3)) {
                let Some(line) = lines.next() else { return };
                let images = plane[rows.start * area..rows.end * area].chunks_exact(area);
                for (image, moved) in images.zip(line.chunks_exact_mut(area)) {
                    let (from, to) = overlap(dy, dx, width, area);
                    moved[..to.start].fill(0.0);
                    moved[to.end..].fill(0.0);
                    moved[to].copy_from_slice(&image[from]);
                    clear_side(dx, width, moved);
                }
            }
        }
    }

    /// Adds columns of patches to the images that [`Layer::unfold`] took them from. Values of the columns
    /// outside the images become 0.
    fn fold(self, batch: usize, rows: std::ops::Range<usize>, columns: &mut Padded, lower: &mut [f32]) {
        let Self::Convolution { height, width, .. } = self else { return };
        let area = height * width;
        let mut lines = columns.lines();
        for plane in lower.chunks_exact_mut(batch * area) {
            for (dy, dx) in (0..PATCH).map(|at| (at / 3, at % 3)) {
                let Some(line) = lines.next() else { return };
                let images = plane[rows.start * area..rows.end * area].chunks_exact_mut(area);
                for (image, moved) in images.zip(line.chunks_exact_mut(area)) {
                    clear_side(dx, width, moved);
                    let (from, to) = overlap(dy, dx, width, area);
                    image[from].iter_mut().zip(&moved[to]).for_each(|(sum, value)| *sum += value);
                }
            }
        }
    }
}

/// Returns the overlap of an image and the image shifted by (1 - dy, 1 - dx), as one run of pixels of
/// each. In addition to the overlap, the run has one pixel of the next or of the previous line at each
/// line's end.
fn overlap(
    dy: usize,
    dx: usize,
    width: usize,
    area: usize,
) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let (ahead, behind) = (dy * width + dx, width + 1);
    if ahead >= behind {
        (ahead - behind..area, 0..area - (ahead - behind))
    } else {
        (0..area - (behind - ahead), behind - ahead..area)
    }
}

/// Clears the column of pixels that came from another line.
fn clear_side(dx: usize, width: usize, moved: &mut [f32]) {
    let column = match dx {
        0 => 0,
        1 => return,
        _ => width - 1,
    };
    moved.iter_mut().skip(column).step_by(width).for_each(|pixel| *pixel = 0.0);
}

/// Returns lines 2 y and 2 y + 1 of an image.
fn pair(image: &[f32], y: usize, width: usize) -> (&[f32], &[f32]) {
    image[2 * y * width..][..2 * width].split_at(width)
}

fn transpose(channels: usize, area: usize, batch: usize, to_channels: bool, from: &[f32], to: &mut [f32]) {
    for channel in 0..channels {
        for row in 0..batch {
            let (by_row, by_channel) = ((row * channels + channel) * area, (channel * batch + row) * area);
            let (at, into) = if to_channels { (by_row, by_channel) } else { (by_channel, by_row) };
            to[into..into + area].copy_from_slice(&from[at..at + area]);
        }
    }
}

fn rectify(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = value.max(0.0));
}

/// Sets the gradient to 0 if ReLU has set the output to 0.
fn mask(output: &[f32], upper: &mut [f32]) {
    for (value, output) in upper.iter_mut().zip(output) {
        *value = if *output > 0.0 { *value } else { 0.0 };
    }
}
