//! Makes fewer keys: prototypes that k-means finds. They replace the paper's ProtoNN (appendix B, "Adding
//! compression techniques").

use ndarray::{Array2, ArrayView2, Axis};

use super::{Datastore, PersonalError};
use flyswarm_data::deal::shuffle;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Largest number of passes of k-means.
const PASSES: usize = 25;

impl Datastore {
    /// Returns a datastore of about `count` prototypes, ordered by class. The number of prototypes of a class
    /// is in proportion to its keys, at least 1 if the class has keys, and at most the number of its keys.
    /// The prototypes are the means that k-means finds among these keys, starting from keys drawn from
    /// `seed`.
    ///
    /// # Errors
    /// [`PersonalError`] if a mean is not finite.
    pub fn prototypes(&self, count: usize, seed: &[u8]) -> Result<Self, PersonalError> {
        let mut by_class = vec![Vec::new(); self.classes()];
        for (row, &label) in self.labels().iter().enumerate() {
            by_class[usize::from(label)].push(row);
        }
        let mut stream = Stream::new(seed, "personal/prototypes", &(count as u64).to_le_bytes());
        let (mut keys, mut labels) = (Vec::new(), Vec::new());
        for (class, rows) in (0u16..).zip(by_class).filter(|(_, rows)| !rows.is_empty()) {
            // The share is rounded half up.
            let share = (2 * count * rows.len() + self.len()) / (2 * self.len());
            let means = k_means(self.keys(), rows, share, &mut stream);
            labels.resize(labels.len() + means.nrows(), class);
            keys.extend(means);
        }
        let keys = Array2::from_shape_vec((labels.len(), self.width()), keys)
            .map_err(|error| PersonalError::Shape(error.to_string()))?;
        Self::new(keys, labels, self.classes())
    }
}

/// Runs Lloyd's algorithm over some rows of `keys`. The number of means is `count`, but at least 1 and at
/// most the number of rows. A mean without rows does not move.
fn k_means(
    keys: ArrayView2<'_, f32>,
    mut rows: Vec<usize>,
    count: usize,
    stream: &mut Stream,
) -> Array2<f32> {
    shuffle(&mut rows, stream);
    let count = count.clamp(1, rows.len());
    let own = keys.select(Axis(0), &rows);
    let mut means = own.slice(ndarray::s![..count, ..]).to_owned();
    let mut nearest = vec![usize::MAX; rows.len()];
    for _ in 0..PASSES {
        let before = nearest.clone();
        for (place, row) in nearest.iter_mut().zip(own.rows()) {
            let distance = |mean: ndarray::ArrayView1<'_, f32>| -> f64 {
                row.iter().zip(mean).map(|(a, b)| f64::from(a - b) * f64::from(a - b)).sum()
            };
            let distances = means.rows().into_iter().map(distance).enumerate();
            *place = distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at);
        }
        if nearest == before {
            break;
        }
        let mut sums = Array2::<f64>::zeros(means.dim());
        let mut members = vec![0u32; count];
        for (&mean, row) in nearest.iter().zip(own.rows()) {
            members[mean] += 1;
            sums.row_mut(mean).iter_mut().zip(row).for_each(|(sum, &number)| *sum += f64::from(number));
        }
        for ((mut mean, sum), &members) in means.rows_mut().into_iter().zip(sums.rows()).zip(&members) {
            if members > 0 {
                #[expect(clippy::cast_possible_truncation, reason = "a mean of binary32")]
                mean.zip_mut_with(&sum, |mean, &sum| *mean = (sum / f64::from(members)) as f32);
            }
        }
    }
    means
}
