//! Keys with one class each, and the search for the nearest keys.
//!
//! The result is exactly that of the plain computation: squared distances in binary64, with the squares of
//! the differences added from the first number to the last. Of equally near keys, the first counts as nearer.
//! A product of matrices in binary32 only shows which keys can be skipped. With this product, |q|^2 + |x|^2 -
//! 2 q.x is wrong by at most 2 (D + 2) 2^-24 |q| |x|, in any order of its D additions. A key is skipped if k
//! other keys are nearer even with that error.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::PersonalError;
use flyswarm_data::split::stratified_sample;
use flyswarm_data::{MAX_FEATURES, MAX_ROWS, MAX_VALUES};

/// Number of rows that are searched at a time.
const QUERIES: usize = 128;
/// Number of keys that are compared at a time. With [`QUERIES`], a block of products takes 1 MiB.
const KEYS: usize = 2048;

/// Treatment of a datastore when new rows arrive (appendix B, "Robustness to distribution shift").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The oldest keys are removed, one for each new key, so that the size stays the same. If there are
    /// more new rows than keys, only the last new rows are kept.
    Fifo,
    /// The new keys are added.
    Concatenate,
    /// Nothing changes.
    Fixed,
}

/// A near key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Index of the key in the datastore, from 0.
    pub key: usize,
    /// Euclidean distance.
    pub distance: f64,
}

/// Keys with one class each, oldest first.
#[derive(Clone, PartialEq)]
pub struct Datastore {
    keys: Array2<f32>,
    /// Length (Euclidean norm) of each key.
    lengths: Vec<f64>,
    labels: Vec<u16>,
    classes: usize,
}

/// Prints only the sizes, because keys are representations of private rows.
impl std::fmt::Debug for Datastore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Datastore {{ keys: {}, width: {}, <redacted> }}", self.len(), self.width())
    }
}

impl Datastore {
    /// Makes a datastore from keys, one in each row, and the class of each key, below `classes`.
    ///
    /// # Errors
    /// [`PersonalError`] if `keys` is empty, if there is not one label for each key, if a label is not a
    /// class, or if a number is not finite.
    pub fn new(keys: Array2<f32>, labels: Vec<u16>, classes: usize) -> Result<Self, PersonalError> {
        let refuse = |text| Err(PersonalError::Shape(text));
        let (rows, width) = keys.dim();
        if labels.len() != rows {
            return refuse(format!("{rows} keys with {} labels", labels.len()));
        }
        if rows == 0 || width == 0 {
            return refuse("a datastore without keys".into());
        }
        if rows > MAX_ROWS || width > MAX_FEATURES || rows.saturating_mul(width) > MAX_VALUES {
            return refuse(format!("{rows} keys of {width} numbers, more than a datastore may have"));
        }
        if let Some(label) = labels.iter().find(|&&label| usize::from(label) >= classes) {
            return refuse(format!("label {label} with {classes} classes"));
        }
        finite(keys.view())?;
        let keys = keys.as_standard_layout().into_owned();
        let lengths = lengths(keys.view());
        Ok(Self { keys, lengths, labels, classes })
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Always false: a datastore has at least one key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the number of values in a key.
    #[must_use]
    pub fn width(&self) -> usize {
        self.keys.ncols()
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the keys, one in each row, oldest first.
    #[must_use]
    pub fn keys(&self) -> ArrayView2<'_, f32> {
        self.keys.view()
    }

    /// Returns the class of each key.
    #[must_use]
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// Adds new keys according to `drift`.
    ///
    /// # Errors
    /// As [`Datastore::new`]. After an error the datastore is unchanged.
    pub fn take_in(
        &mut self,
        keys: ArrayView2<'_, f32>,
        labels: &[u16],
        drift: Drift,
    ) -> Result<(), PersonalError> {
        if keys.ncols() != self.width() {
            let text =
                format!("keys of {} numbers, expected {} as in the datastore", keys.ncols(), self.width());
            return Err(PersonalError::Shape(text));
        }
        let first = match drift {
            Drift::Fixed => return Ok(()),
            Drift::Concatenate => 0,
            Drift::Fifo => keys.nrows(),
        };
        let joined = ndarray::concatenate(Axis(0), &[self.keys.view(), keys])
            .map_err(|error| PersonalError::Shape(error.to_string()))?;
        let all = [&self.labels[..], labels].concat();
        // If there are too few labels, `Self::new` rejects their number below.
        let labels = all.get(first..).unwrap_or_default().to_vec();
        *self = Self::new(joined.slice(s![first.., ..]).to_owned(), labels, self.classes)?;
        Ok(())
    }

    /// Returns a datastore with `count` of the keys (at least one), drawn from `seed`. The classes keep their
    /// proportions. The new datastore needs less memory (figure 1).
    #[must_use]
    pub fn sample(&self, count: usize, seed: &[u8]) -> Self {
        let rows = stratified_sample(&self.labels, count.clamp(1, self.len()), seed);
        self.subset(&rows)
    }

    /// Returns a datastore with the keys at these indices.
    ///
    /// # Panics
    /// If `rows` is empty, or an index is not below [`Datastore::len`].
    #[must_use]
    pub fn subset(&self, rows: &[usize]) -> Self {
        assert!(!rows.is_empty(), "a datastore without keys");
        Self {
            keys: self.keys.select(Axis(0), rows),
            lengths: rows.iter().map(|&row| self.lengths[row]).collect(),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            classes: self.classes,
        }
    }

    /// Returns the `k` nearest keys of each row (all keys, if there are fewer), the nearest first.
    ///
    /// # Errors
    /// [`PersonalError`] if the rows have a different width, a number is not finite, or `k` is 0.
    pub fn nearest(&self, rows: ArrayView2<'_, f32>, k: usize) -> Result<Vec<Vec<Neighbour>>, PersonalError> {
        if rows.ncols() != self.width() {
            let text =
                format!("rows of {} numbers, expected {} as in the datastore", rows.ncols(), self.width());
            return Err(PersonalError::Shape(text));
        }
        if k == 0 {
            return Err(PersonalError::Setting("k", 0.0, "1 or more"));
        }
        finite(rows)?;
        let rows = rows.as_standard_layout();
        let pieces: Vec<_> = rows.axis_chunks_iter(Axis(0), QUERIES).collect();
        let found = pieces.into_par_iter().map(|piece| self.nearest_block(piece, k));
        Ok(found.collect::<Vec<_>>().concat())
    }

    fn nearest_block(&self, rows: ArrayView2<'_, f32>, k: usize) -> Vec<Vec<Neighbour>> {
        let width = self.width() as f64;
        let lengths = lengths(rows);
        let mut near: Vec<Candidates> = vec![Candidates::default(); rows.nrows()];
        let mut products = Array2::<f32>::zeros((rows.nrows(), KEYS.min(self.len())));
        for first in (0..self.len()).step_by(KEYS) {
            let last = (first + KEYS).min(self.len());
            let keys = self.keys.slice(s![first..last, ..]);
            let mut products = products.slice_mut(s![.., ..last - first]);
            general_mat_mul(1.0, &rows, &keys.t(), 0.0, &mut products);
            for ((near, products), &own) in near.iter_mut().zip(products.rows()).zip(&lengths) {
                for (key, (&product, &length)) in (first..).zip(products.iter().zip(&self.lengths[first..])) {
                    let squares = own * own + length * length;
                    // The first term is the error of the product. The second is that of all other operations,
                    // here and where the distance is computed. The last is that of products too small for
                    // binary32.
                    let error = 2.0 * (width + 2.0) * 2f64.powi(-24) * own * length
                        + 2.0 * (width + 8.0) * 2f64.powi(-52) * squares
                        + width * 2f64.powi(-120);
                    near.offer(key, squares - 2.0 * f64::from(product), error);
                }
                near.thin(k);
            }
        }
        let exact = |(row, near): (ndarray::ArrayView1<'_, f32>, Candidates)| {
            let row = row.to_slice().unwrap_or_default();
            let distance = |&(key, ..): &(usize, f64, f64)| {
                let squares = row.iter().zip(self.keys.row(key)).map(|(&a, &b)| {
                    let way = f64::from(a) - f64::from(b);
                    way * way
                });
                (squares.sum::<f64>(), key)
            };
            let mut found: Vec<_> = near.kept.iter().map(distance).collect();
            found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            found.truncate(k);
            found.into_iter().map(|(square, key)| Neighbour { key, distance: square.sqrt() }).collect()
        };
        rows.rows().into_iter().zip(near).map(exact).collect()
    }
}

/// Keys that may be among the nearest keys of one row.
#[derive(Clone, Debug)]
struct Candidates {
    /// Key index, and the smallest and the largest value that its squared distance can have.
    kept: Vec<(usize, f64, f64)>,
    /// Upper bound on the squared distance of the k-th nearest key.
    limit: f64,
}

impl Default for Candidates {
    fn default() -> Self {
        Self { kept: Vec::new(), limit: f64::INFINITY }
    }
}

impl Candidates {
    fn offer(&mut self, key: usize, square: f64, error: f64) {
        // Products of large numbers overflow binary32. Then nothing is known about the distance.
        let (least, most) = if square.is_finite() {
            (square - error, square + error)
        } else {
            (f64::NEG_INFINITY, f64::INFINITY)
        };
        if least <= self.limit {
            self.kept.push((key, least, most));
        }
    }

    fn thin(&mut self, k: usize) {
        if self.kept.len() > k {
            let (_, &mut (.., limit), _) =
                self.kept.select_nth_unstable_by(k - 1, |a, b| a.2.total_cmp(&b.2));
            self.limit = limit;
            self.kept.retain(|&(_, least, _)| least <= limit);
        }
    }
}

fn lengths(rows: ArrayView2<'_, f32>) -> Vec<f64> {
    let length = |row: ndarray::ArrayView1<'_, f32>| {
        row.iter().map(|&number| f64::from(number) * f64::from(number)).sum::<f64>().sqrt()
    };
    rows.rows().into_iter().map(length).collect()
}

fn finite(rows: ArrayView2<'_, f32>) -> Result<(), PersonalError> {
    match rows.indexed_iter().find(|(_, number)| !number.is_finite()) {
        Some(((row, at), &number)) => Err(PersonalError::Representation(row, at, number)),
        None => Ok(()),
    }
}
