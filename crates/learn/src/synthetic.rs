//! Synthetic data on which nearest neighbours do well: several separate clusters for each class (Ram &
//! Sinha, section 4, "Synthetic data", and Appendix D.2).
//!
//! [`clusters`] is our own version of scikit-learn's `make_classification` with only informative features
//! (Guyon 2003). The centre of each cluster is a different vertex of a hypercube of side 2 x `class_sep`. The
//! points of a cluster are normal points multiplied by a random matrix with entries uniform in -1..1. Cluster
//! k belongs to class k mod `classes`, and a share of the labels is replaced by random ones. The numbers
//! differ from scikit-learn's; `lab/scripts/check-synthetic.py` compares statistics of the two.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;

use flyswarm_data::deal::shuffle;
use flyswarm_data::{DataError, Dataset};
use flyswarm_sealed_sum::crypto::stream::derive;

/// Parameters of [`clusters`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clusters {
    /// Number of rows, shared evenly among the clusters.
    pub rows: usize,
    /// Number of features, all of them informative.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
    /// Number of clusters of each class; classes x clusters is at most 2^features.
    pub clusters: usize,
    /// Half the side of the hypercube.
    pub class_sep: f64,
    /// Share of rows whose label is redrawn from all classes.
    pub flip_y: f64,
}

/// Reason why no data was made.
#[derive(Debug, thiserror::Error)]
pub enum SyntheticError {
    /// The sizes do not form a data set.
    #[error(transparent)]
    Data(#[from] DataError),
    /// There are more clusters than corners of the hypercube.
    #[error("{clusters} clusters in {features} dimensions, expected at most 2^{features}")]
    Corners {
        /// Number of clusters of all classes.
        clusters: usize,
        /// Number of dimensions.
        features: usize,
    },
}

/// Draws points in clusters, in random order of rows. The same seed gives the same points.
///
/// # Errors
/// [`SyntheticError`] if the sizes do not form a data set.
pub fn clusters(shape: &Clusters, seed: &[u8]) -> Result<Dataset, SyntheticError> {
    let &Clusters { rows, features, classes, clusters, class_sep, flip_y } = shape;
    let all = classes * clusters;
    if features < 64 && all as u128 > 1 << features {
        return Err(SyntheticError::Corners { clusters: all, features });
    }
    let rng = &mut generator(seed, "clusters");
    let centres = corners(all, features, rng);
    let mut points = Vec::with_capacity(rows);
    for (cluster, centre) in centres.iter().enumerate() {
        let matrix: Vec<f64> = (0..features * features).map(|_| rng.random_range(-1.0..1.0)).collect();
        for _ in 0..rows / all + usize::from(cluster < rows % all) {
            let mut point: Vec<f64> =
                centre.iter().map(|&up| if up { class_sep } else { -class_sep }).collect();
            for row in matrix.chunks_exact(features) {
                let x: f64 = rng.sample(StandardNormal);
                point.iter_mut().zip(row).for_each(|(p, a)| *p += x * a);
            }
            let flipped = rng.random::<f64>() < flip_y;
            let class = if flipped { rng.random_range(0..classes) } else { cluster % classes };
            points.push((point, class));
        }
    }
    shuffle(&mut points, &mut flyswarm_sealed_sum::crypto::stream::Stream::new(seed, "synthetic/order", &[]));
    let labels = points.iter().map(|(_, class)| *class as u16).collect();
    let values = points.iter().flat_map(|(point, _)| point.iter().map(|&x| x as f32)).collect();
    Ok(Dataset::new(features, values, labels, (0..classes).map(|class| class.to_string()).collect())?)
}

/// Returns a random generator for one purpose.
pub fn generator(seed: &[u8], purpose: &str) -> impl Rng + use<> {
    chacha20::ChaCha8Rng::from_seed(*derive(seed, "evaluate", purpose.as_bytes()))
}

/// Draws `count` different corners of the unit hypercube.
fn corners(count: usize, dimensions: usize, rng: &mut impl Rng) -> Vec<Vec<bool>> {
    let mut corners: Vec<Vec<bool>> = Vec::with_capacity(count);
    while corners.len() < count {
        let corner = (0..dimensions).map(|_| rng.random()).collect();
        if !corners.contains(&corner) {
            corners.push(corner);
        }
    }
    corners
}
