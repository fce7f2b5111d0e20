//! What an attacker can compute: plain dense algebra and the attacks, which know nothing of who saw what.
//!
//! Where an attack has a setting (a ridge, a bandwidth), the caller takes the best of several *by the truth*,
//! which no attacker knows: figures are above what a real one reaches.

pub(super) type Row = Vec<f64>;

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Of length 1.
pub(super) fn unit(row: &[f64]) -> Row {
    let length = dot(row, row).sqrt().max(1e-12);
    row.iter().map(|x| x / length).collect()
}

pub(super) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(&unit(a), &unit(b))
}

pub(super) fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    if count > 0.0 { sum / count } else { f64::NAN }
}

pub(super) fn mean(rows: &[Row]) -> Row {
    (0..rows[0].len()).map(|at| average(rows.iter().map(|row| row[at]))).collect()
}

/// The solutions of A X = B for a symmetric positive definite A (Cholesky); B and X row by row.
pub(super) fn solve(mut a: Vec<Row>, mut b: Vec<Row>) -> Vec<Row> {
    let n = a.len();
    for i in 0..n {
        for j in 0..=i {
            let sum = a[i][j] - dot(&a[i][..j], &a[j][..j]);
            a[i][j] = if i == j { sum.max(1e-12).sqrt() } else { sum / a[j][j] };
        }
    }
    for column in 0..b[0].len() {
        for i in 0..n {
            let known: f64 = (0..i).map(|j| a[i][j] * b[j][column]).sum();
            b[i][column] = (b[i][column] - known) / a[i][i];
        }
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|j| a[j][i] * b[j][column]).sum();
            b[i][column] = (b[i][column] - known) / a[i][i];
        }
    }
    b
}

/// The chance that of two points the one for which something is true has the larger score, ties a half; 0.5
/// where there is nothing to tell apart.
pub(super) fn auc(scored: &[(f64, bool)]) -> f64 {
    let mut scored = scored.to_vec();
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let positive = scored.iter().filter(|(_, truth)| *truth).count() as f64;
    let negative = scored.len() as f64 - positive;
    let ranks: f64 = scored
        .chunk_by(|a, b| a.0 == b.0)
        .scan(0.0, |first, ties| {
            let rank = *first + (ties.len() as f64 + 1.0) / 2.0;
            *first += ties.len() as f64;
            Some(rank * ties.iter().filter(|(_, truth)| *truth).count() as f64)
        })
        .sum();
    if positive * negative > 0.0 {
        (ranks - positive * (positive + 1.0) / 2.0) / (positive * negative)
    } else {
        0.5
    }
}

/// What somebody believes of rows that it does not know, from rows that it does.
pub(super) struct Prior {
    pub(super) mean: Row,
    covariance: Vec<Row>,
}

impl Prior {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mean = mean(rows);
        let features = mean.len();
        let apart: Vec<Row> =
            rows.iter().map(|row| row.iter().zip(&mean).map(|(x, m)| x - m).collect()).collect();
        let mut covariance = vec![vec![0.0; features]; features];
        for row in &apart {
            for (i, x) in row.iter().enumerate() {
                covariance[i].iter_mut().zip(row).for_each(|(c, y)| *c += x * y / rows.len() as f64);
            }
        }
        // A little of everything, so that directions that its own rows lack are not excluded.
        let little = 0.02 * (0..features).map(|i| covariance[i][i]).sum::<f64>() / features as f64;
        (0..features).for_each(|i| covariance[i][i] += little);
        Self { mean, covariance }
    }

    /// The same spread around something that is known better than the mean.
    pub(super) fn around(&self, mean: Row) -> Self {
        Self { mean, covariance: self.covariance.clone() }
    }

    /// Regularised least squares: the likeliest rows (targets x features) from their cosines with known rows
    /// (anchors x targets), when a cosine is wrong by about `noise`.
    pub(super) fn likeliest(&self, anchors: &[Row], cosines: &[Row], noise: f64) -> Vec<Row> {
        let image: Vec<Row> = anchors
            .iter()
            .map(|anchor| self.covariance.iter().map(|row| dot(row, anchor)).collect())
            .collect();
        let mut gram: Vec<Row> =
            image.iter().map(|row| anchors.iter().map(|anchor| dot(row, anchor)).collect()).collect();
        (0..gram.len()).for_each(|i| gram[i][i] += noise * noise);
        let surprise = anchors.iter().zip(cosines).map(|(anchor, cosines)| {
            let expected = dot(anchor, &self.mean);
            cosines.iter().map(|cosine| cosine - expected).collect()
        });
        let weights = solve(gram, surprise.collect());
        (0..cosines[0].len())
            .map(|target| {
                let mut row = self.mean.clone();
                for (weight, image) in weights.iter().zip(&image) {
                    row.iter_mut().zip(image).for_each(|(x, y)| *x += weight[target] * y);
                }
                row
            })
            .collect()
    }
}

/// Values at evenly spread ranks, and the mean.
pub(super) fn quantiles(values: &[f64], count: usize) -> Row {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |q: usize| {
        let place = q as f64 / (count - 1) as f64 * (sorted.len() - 1) as f64;
        let (low, part) = (place.floor() as usize, place.fract());
        sorted[low] * (1.0 - part) + sorted[(low + 1).min(sorted.len() - 1)] * part
    };
    (0..count).map(at).chain([average(values.iter().copied())]).collect()
}

/// Each column with mean 0 and deviation 1 over `by`.
fn standardised(rows: &[Row], by: &[Row]) -> Vec<Row> {
    let mean = mean(by);
    let spread: Row = (0..mean.len())
        .map(|at| average(by.iter().map(|row| (row[at] - mean[at]).powi(2))).sqrt().max(1e-9))
        .collect();
    rows.iter()
        .map(|row| row.iter().zip(&mean).zip(&spread).map(|((x, m), s)| (x - m) / s).collect())
        .collect()
}

/// How a regression looks at its inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regression {
    /// None: linear; otherwise a Gaussian kernel of this width, in deviations.
    pub(super) width: Option<f64>,
    pub(super) ridge: f64,
    /// The targets' inputs are brought to the mean and deviation of the known ones.
    pub(super) apart: bool,
}

impl Regression {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let widths = [None, Some(2.0), Some(5.0)].into_iter();
        let both = widths.flat_map(move |width| [0.1, 1.0, 10.0].map(move |ridge| (width, ridge)));
        both.flat_map(move |(width, ridge)| [false, true].map(move |apart| Self { width, ridge, apart }))
    }

    /// Learnt on known (inputs, rows), the rows for other inputs (kernel ridge regression around the mean).
    pub(super) fn learn(self, inputs: &[Row], rows: &[Row], targets: &[Row]) -> Vec<Row> {
        let known = standardised(inputs, inputs);
        let asked = standardised(targets, if self.apart { targets } else { inputs });
        let size = inputs[0].len() as f64;
        let kernel = |a: &Row, b: &Row| match self.width {
            None => dot(a, b) / size,
            Some(width) => {
                let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
                (-distance / size / (2.0 * width * width) * 4.0).exp()
            }
        };
        let mean = mean(rows);
        let mut gram: Vec<Row> = known.iter().map(|a| known.iter().map(|b| kernel(a, b)).collect()).collect();
        (0..gram.len()).for_each(|i| gram[i][i] += self.ridge);
        let apart = rows.iter().map(|row| row.iter().zip(&mean).map(|(x, m)| x - m).collect()).collect();
        let weights = solve(gram, apart);
        asked
            .iter()
            .map(|asked| {
                let mut row = mean.clone();
                for (known, weights) in known.iter().zip(&weights) {
                    let k = kernel(asked, known);
                    row.iter_mut().zip(weights).for_each(|(x, w)| *x += k * w);
                }
                row
            })
            .collect()
    }
}

/// The `count` leading eigenvectors of a symmetric matrix with eigenvalues of at least -1 (orthogonal
/// iteration), largest first.
pub(super) fn leading(matrix: &[Row], count: usize) -> Vec<Row> {
    let n = matrix.len();
    let mut vectors: Vec<Row> = (0..count)
        .map(|v| (0..n).map(|i| ((i * (v + 3) * 7919 + v * v) % 1009) as f64 / 1009.0 - 0.5).collect())
        .collect();
    for _ in 0..200 {
        for v in 0..count {
            let mut image: Row =
                matrix.iter().zip(&vectors[v]).map(|(row, x)| dot(row, &vectors[v]) + x).collect();
            for before in &vectors[..v] {
                let part = dot(before, &image);
                image.iter_mut().zip(before).for_each(|(x, b)| *x -= part * b);
            }
            vectors[v] = unit(&image);
        }
    }
    vectors
}

/// The rows of a graph's points when some are known: each other one is the weighted mean of its neighbours
/// and, a little, of `mean` (harmonic extension).
pub(super) fn harmonic(graph: &[Row], known: &[Option<Row>], mean: &[f64], little: f64) -> Vec<Row> {
    let unknown: Vec<usize> = (0..graph.len()).filter(|&i| known[i].is_none()).collect();
    let matrix = unknown.iter().map(|&i| {
        let degree: f64 = graph[i].iter().sum();
        unknown.iter().map(|&j| if i == j { degree + little } else { -graph[i][j] }).collect()
    });
    let anchored = unknown.iter().map(|&i| {
        let mut row: Row = mean.iter().map(|x| little * x).collect();
        for (weight, known) in graph[i].iter().zip(known) {
            if let Some(known) = known {
                row.iter_mut().zip(known).for_each(|(x, k)| *x += weight * k);
            }
        }
        row
    });
    let mut found = solve(matrix.collect(), anchored.collect()).into_iter();
    known.iter().map(|known| known.clone().or_else(|| found.next()).unwrap_or_default()).collect()
}

/// Regularised least squares for y (columns of the matrix x outputs) with `matrix` y = `values`, the shortest
/// where there are many.
pub(super) fn invert(matrix: &[Row], values: &[Row], little: f64) -> Vec<Row> {
    let mut gram: Vec<Row> = matrix.iter().map(|a| matrix.iter().map(|b| dot(a, b)).collect()).collect();
    (0..gram.len()).for_each(|i| gram[i][i] += little);
    let weights = solve(gram, values.to_vec());
    let mut out = vec![vec![0.0; values[0].len()]; matrix[0].len()];
    for (row, weights) in matrix.iter().zip(&weights) {
        for (out, x) in out.iter_mut().zip(row) {
            out.iter_mut().zip(weights).for_each(|(out, w)| *out += x * w);
        }
    }
    out
}

/// (I - alpha N)^-1.
pub(super) fn propagation(graph: &[Row], alpha: f64) -> Vec<Row> {
    let unit = |i: usize, j: usize| f64::from(u8::from(i == j));
    let n = graph.len();
    let matrix = (0..n).map(|i| (0..n).map(|j| unit(i, j) - alpha * graph[i][j]).collect()).collect();
    solve(matrix, (0..n).map(|i| (0..n).map(|j| unit(i, j)).collect()).collect())
}

/// The rows of a graph's points from its geometry alone and rows of others (public ones): each leading
/// eigenvector is taken for a principal axis of those, in order, turned so that both are skewed to the same
/// side.
///
/// Places count `weight` of what they would if it were so: less is safer.
pub(super) fn aligned(graph: &[Row], public: &[Row], axes: usize, weight: f64) -> Vec<Row> {
    let prior = Prior::of(public);
    let skew = |values: &[f64]| average(values.iter().map(|x| x.powi(3)));
    let mut rows = vec![prior.mean.clone(); graph.len()];
    let first = leading(graph, axes + 1);
    // The first eigenvector of N is the roots of the degrees.
    for (axis, vector) in leading(&prior.covariance, axes).iter().zip(&first[1..]) {
        let along: Row = public.iter().map(|row| dot(axis, row) - dot(axis, &prior.mean)).collect();
        let spread = average(along.iter().map(|x| x * x)).sqrt();
        let turned = (skew(&along) * skew(vector)).signum() * weight * spread * (graph.len() as f64).sqrt();
        for (row, place) in rows.iter_mut().zip(vector) {
            row.iter_mut().zip(axis).for_each(|(x, a)| *x += turned * place * a);
        }
    }
    rows
}

/// Puts values in their places in a matrix when each row's are known, in any order, and each column's:
/// whatever has only one place, or a place that only one value fits, again and again.
pub(super) fn placed(rows: &[Vec<u16>], columns: &[Vec<u16>]) -> Vec<Vec<Option<u16>>> {
    let (mut left, mut below) = (rows.to_vec(), columns.to_vec());
    let mut out = vec![vec![None; columns.len()]; rows.len()];
    let take = |values: &mut Vec<u16>, value: u16| {
        values.iter().position(|&v| v == value).map(|at| values.remove(at))
    };
    loop {
        let mut found = None;
        let open = |out: &[Vec<Option<u16>>], i: usize, j: usize| out[i][j].is_none();
        'search: for i in 0..rows.len() {
            for j in (0..columns.len()).filter(|&j| open(&out, i, j)) {
                let mut fits: Vec<u16> =
                    left[i].iter().copied().filter(|value| below[j].contains(value)).collect();
                fits.sort_unstable();
                fits.dedup();
                let alone = |value: &u16| {
                    let in_row =
                        (0..columns.len()).filter(|&c| open(&out, i, c) && below[c].contains(value)).count();
                    let in_column =
                        (0..rows.len()).filter(|&r| open(&out, r, j) && left[r].contains(value)).count();
                    in_row == 1 || in_column == 1
                };
                if let Some(value) = if fits.len() == 1 { fits.pop() } else { fits.into_iter().find(alone) } {
                    found = Some((i, j, value));
                    break 'search;
                }
            }
        }
        let Some((i, j, value)) = found else { return out };
        out[i][j] = Some(value);
        take(&mut left[i], value);
        take(&mut below[j], value);
    }
}

/// A matrix from its rows' values and its columns', each in any order and only nearly the same (to about
/// `noise`): what may stand in a place by its row is held against what may by its column, each value having
/// one place, again and again (message passing).
pub(super) fn fitted(rows: &[Row], columns: &[Row], noise: f64) -> Vec<Row> {
    let like = |x: f64, y: f64| (-((x - y) / noise).powi(2) / 2.0).exp() + 1e-12;
    // [line][crossing line][value]: how likely it stands there; from the same of the crossing lines.
    let weighed = |lines: &[Row], crossing: &[Row], known: &[Vec<Row>]| -> Vec<Vec<Row>> {
        let of = |(i, values): (usize, &Row)| {
            let place = |(j, others): (usize, &Row)| -> Row {
                values
                    .iter()
                    .map(|&x| others.iter().zip(&known[j][i]).map(|(&y, p)| p * like(x, y)).sum())
                    .collect()
            };
            let mut places: Vec<Row> = crossing.iter().enumerate().map(place).collect();
            for _ in 0..10 {
                for at in 0..values.len() {
                    let sum: f64 = places.iter().map(|place| place[at]).sum();
                    places.iter_mut().for_each(|place| place[at] /= sum);
                }
                for place in &mut places {
                    let sum: f64 = place.iter().sum();
                    place.iter_mut().for_each(|x| *x /= sum);
                }
            }
            places
        };
        lines.iter().enumerate().map(of).collect()
    };
    let mut by_column = vec![vec![vec![1.0 / rows.len() as f64; rows.len()]; rows.len()]; columns.len()];
    let mut by_row = Vec::new();
    for _ in 0..20 {
        by_row = weighed(rows, columns, &by_column);
        by_column = weighed(columns, rows, &by_row);
    }
    by_row
        .iter()
        .zip(rows)
        .map(|(places, values)| places.iter().map(|place| dot(place, values)).collect())
        .collect()
}
