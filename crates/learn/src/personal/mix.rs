//! Mixes the votes of neighbours with the network's probabilities, and chooses lambda.

use ndarray::{Array2, ArrayView1, ArrayView2};

use super::{Datastore, MAX_NEIGHBOURS, PersonalError};

/// Values of lambda that are tried (section 5, Benchmarks). 0 uses the network alone, 1 the neighbours alone.
pub const LAMBDAS: [f64; 7] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0];

/// Weights of the neighbours and of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    /// Number of neighbours: 1 to [`MAX_NEIGHBOURS`]. The paper uses 10.
    pub k: usize,
    /// Divisor of the distances, sigma in equation 40: above 0, at most 1e9. The paper uses 1.
    pub scale: f64,
    /// Share of the neighbours: 0 to 1.
    pub lambda: f64,
}

impl Mixture {
    /// Returns the paper's mixture with this lambda.
    #[must_use]
    pub fn new(lambda: f64) -> Self {
        Self { k: 10, scale: 1.0, lambda }
    }

    /// # Errors
    /// [`PersonalError::Setting`].
    pub fn check(&self) -> Result<(), PersonalError> {
        if !(1..=MAX_NEIGHBOURS).contains(&self.k) {
            return Err(PersonalError::Setting("k", self.k as f64, "1 to 1024"));
        }
        if !(self.scale > 0.0 && self.scale <= 1e9) {
            return Err(PersonalError::Setting("scale", self.scale, "above 0, at most 1e9"));
        }
        if !(0.0..=1.0).contains(&self.lambda) {
            return Err(PersonalError::Setting("lambda", self.lambda, "0 to 1"));
        }
        Ok(())
    }

    /// Returns the votes of the neighbours (equation 6): rows x classes, each row adding up to 1.
    ///
    /// The weight of a neighbour at distance d is exp(-(d - d1) / scale), where d1 is the distance of the
    /// nearest neighbour. After the weights of a row are divided by their sum, they equal the paper's
    /// weights. They are never all 0.
    ///
    /// # Errors
    /// As [`Datastore::nearest`] and [`Mixture::check`].
    pub fn neighbours(
        &self,
        datastore: &Datastore,
        rows: ArrayView2<'_, f32>,
    ) -> Result<Array2<f64>, PersonalError> {
        self.check()?;
        let mut said = Array2::zeros((rows.nrows(), datastore.classes()));
        for (near, mut said) in datastore.nearest(rows, self.k)?.iter().zip(said.rows_mut()) {
            let first = near.first().map_or(0.0, |near| near.distance);
            for near in near {
                let class = datastore.labels()[near.key];
                said[usize::from(class)] += libm::exp((first - near.distance) / self.scale);
            }
            let all: f64 = said.sum();
            said /= all;
        }
        Ok(said)
    }

    /// Returns lambda x neighbours + (1 - lambda) x network (equation 7).
    #[must_use]
    pub fn mix(&self, neighbours: ArrayView2<'_, f64>, network: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut mixed = neighbours.to_owned();
        mixed.zip_mut_with(&network, |near, &network| {
            *near = self.lambda * *near + (1.0 - self.lambda) * network;
        });
        mixed
    }
}

/// Returns the softmax of scores (logits): the probabilities, rows x classes.
#[must_use]
pub fn probabilities(scores: ArrayView2<'_, f32>) -> Array2<f64> {
    let mut all = scores.mapv(f64::from);
    for mut row in all.rows_mut() {
        let most = row.fold(f64::NEG_INFINITY, |most, &score| most.max(score));
        row.mapv_inplace(|score| libm::exp(score - most));
        let sum = row.sum();
        row /= sum;
    }
    all
}

/// Returns the index of the highest value, the first in a tie.
pub(super) fn highest(said: ArrayView1<'_, f64>) -> u16 {
    let (mut best, mut most) = (0, f64::NEG_INFINITY);
    for (class, &probability) in (0u16..).zip(said) {
        if probability > most {
            (best, most) = (class, probability);
        }
    }
    best
}

/// Results of each of [`LAMBDAS`] on some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of rows.
    pub rows: usize,
    /// Number of rows whose class each lambda predicted correctly.
    pub right: [usize; LAMBDAS.len()],
    /// Sum of the Brier scores under each lambda. The score is the squared distance between the probabilities
    /// and the class.
    pub brier: [f64; LAMBDAS.len()],
}

impl Tally {
    /// Counts the result of each lambda for a row of this class.
    pub fn count(&mut self, neighbours: ArrayView1<'_, f64>, network: ArrayView1<'_, f64>, label: u16) {
        self.rows += 1;
        for (at, lambda) in LAMBDAS.into_iter().enumerate() {
            let mixed = Mixture::new(lambda)
                .mix(neighbours.insert_axis(ndarray::Axis(0)), network.insert_axis(ndarray::Axis(0)));
            let mixed = mixed.row(0);
            self.right[at] += usize::from(highest(mixed) == label);
            let off = (0u16..).zip(mixed).map(|(class, p)| p - f64::from(u8::from(class == label)));
            self.brier[at] += off.map(|off| off * off).sum::<f64>();
        }
    }

    /// Adds two tallies.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.rows += other.rows;
        for at in 0..LAMBDAS.len() {
            self.right[at] += other.right[at];
            self.brier[at] += other.brier[at];
        }
        self
    }

    /// Returns the index in [`LAMBDAS`] of the best lambda: the one with the most correct rows. In a tie the
    /// lowest Brier score decides, then the smallest lambda.
    #[must_use]
    pub fn best(&self) -> usize {
        let mut best = 0;
        for at in 1..LAMBDAS.len() {
            let (right, brier) = (self.right[at], self.brier[at]);
            if right > self.right[best] || (right == self.right[best] && brier < self.brier[best]) {
                best = at;
            }
        }
        best
    }
}
