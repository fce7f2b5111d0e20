//! Keys with a class each, and the nearest of them.
//!
//! The nearest keys are exactly those of the plain computation: squared distances in binary64, the squares
//! of the differences added from the first number to the last; of equally near keys the first is nearer. A
//! product of matrices in binary32 only says which keys need not be looked at: |q|^2 + |x|^2 - 2 q.x is off
//! by at most 2 (D + 2) 2^-24 |q| |x|, whatever the order of its D additions, and a key is left out where
//! even with that error k others are nearer.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::PersonalError;
use flyswarm_data::split::stratified_sample;
use flyswarm_data::{MAX_FEATURES, MAX_ROWS, MAX_VALUES};

/// Rows that look for their neighbours at a time.
const QUERIES: usize = 128;
/// Keys that are looked at at a time: with [`QUERIES`] a block of products takes 1 MiB.
const KEYS: usize = 2048;

/// What becomes of a datastore when new rows arrive (appendix B, "Robustness to distribution shift").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// As many of the oldest keys go as new ones come: the size stays. Of more new rows than there are keys
    /// the last stay.
    Fifo,
    /// The new ones are added.
    Concatenate,
    /// Nothing.
    Fixed,
}

/// A key that is near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Its place in the datastore, from 0.
    pub key: usize,
    /// The Euclidean distance.
    pub distance: f64,
}

/// Keys with a class each, oldest first.
#[derive(Clone, PartialEq)]
pub struct Datastore {
    keys: Array2<f32>,
    /// Of each key its length.
    lengths: Vec<f64>,
    labels: Vec<u16>,
    classes: usize,
}

/// Sizes only: keys are representations of private rows.
impl std::fmt::Debug for Datastore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Datastore {{ keys: {}, width: {}, <redacted> }}", self.len(), self.width())
    }
}

impl Datastore {
    /// Keys, one a row, and the class of each, below `classes`.
    ///
    /// # Errors
    /// [`PersonalError`] where there are none, or as many labels, where a label is no class, or a number is
    /// not finite.
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

    /// Keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Never: a datastore has a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Numbers of a key.
    #[must_use]
    pub fn width(&self) -> usize {
        self.keys.ncols()
    }

    /// Classes there are.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The keys, one a row, oldest first.
    #[must_use]
    pub fn keys(&self) -> ArrayView2<'_, f32> {
        self.keys.view()
    }

    /// The class of each key.
    #[must_use]
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// Takes new keys, as `drift` says.
    ///
    /// # Errors
    /// As [`Datastore::new`]; the datastore is then as before.
    pub fn take_in(
        &mut self,
        keys: ArrayView2<'_, f32>,
        labels: &[u16],
        drift: Drift,
    ) -> Result<(), PersonalError> {
        if keys.ncols() != self.width() {
            let text = format!("keys of {} numbers, the datastore has {}", keys.ncols(), self.width());
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
        // Of too few labels the count is refused below.
        let labels = all.get(first..).unwrap_or_default().to_vec();
        *self = Self::new(joined.slice(s![first.., ..]).to_owned(), labels, self.classes)?;
        Ok(())
    }

    /// The same with `count` of the keys (at least one), every class in proportion, drawn from `seed`: less
    /// memory (figure 1).
    #[must_use]
    pub fn sample(&self, count: usize, seed: &[u8]) -> Self {
        let rows = stratified_sample(&self.labels, count.clamp(1, self.len()), seed);
        self.subset(&rows)
    }

    /// The keys at these places.
    ///
    /// # Panics
    /// If there are none, or one is not below [`Datastore::len`].
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

    /// For each row the `k` nearest keys (all, if there are fewer), the nearest first.
    ///
    /// # Errors
    /// [`PersonalError`] where the rows have another width or a number is not finite, or `k` is 0.
    pub fn nearest(&self, rows: ArrayView2<'_, f32>, k: usize) -> Result<Vec<Vec<Neighbour>>, PersonalError> {
        if rows.ncols() != self.width() {
            let text = format!("rows of {} numbers, the datastore has {}", rows.ncols(), self.width());
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
                    // The first part is the product's error, the second that of all else, here and where
                    // the distance is computed; the last is that of products too small for binary32.
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

/// Keys that may be among the nearest of one row.
#[derive(Clone, Debug)]
struct Candidates {
    /// Key, and the least and the largest that its squared distance can be.
    kept: Vec<(usize, f64, f64)>,
    /// So near are k keys.
    limit: f64,
}

impl Default for Candidates {
    fn default() -> Self {
        Self { kept: Vec::new(), limit: f64::INFINITY }
    }
}

impl Candidates {
    fn offer(&mut self, key: usize, square: f64, error: f64) {
        // Products of large numbers leave binary32: nothing is known then.
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
