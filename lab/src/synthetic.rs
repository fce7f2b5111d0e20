//! Made-up sets of the paper (Ram & Sinha, section 4, "Synthetic data", and Appendix D.2): points in
//! clusters, and vectors of zeros and ones. FlyHash makes these vectors of d bits from points in d / 10
//! dimensions.

use flyswarm_data::Dataset;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::sketch::Parameters;
use flyswarm_learn::sketch::flyhash::FlyHash;
use flyswarm_learn::synthetic::{Clusters, SyntheticError, clusters};
use flyswarm_learn::tuning::search::TrialError;
use flyswarm_sealed_sum::crypto::stream::derive;

/// Returns the paper's parameters: 5 classes, 3 clusters each, and from its authors' code `class_sep` 1.2
/// and `flip_y` 0.01.
#[must_use]
pub fn paper(rows: usize, features: usize) -> Clusters {
    Clusters { rows, features, classes: 5, clusters: 3, class_sep: 1.2, flip_y: 0.01 }
}

/// Reason why a study of made-up rows has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The sizes do not give rows.
    #[error(transparent)]
    Rows(#[from] SyntheticError),
    /// The sizes do not give a model.
    #[error(transparent)]
    Model(#[from] TrialError),
}

/// Makes rows of `features` zeros and ones, with `ones` ones each. A row is the FlyHash of [`clusters`] in
/// a tenth of the dimensions, with 2 ones in each row of M, as the authors' rule gives for such small
/// dimensions.
///
/// # Errors
/// [`StudyError`] if the sizes do not give a data set.
pub fn binary(rows: usize, features: usize, ones: usize, seed: &[u8]) -> Result<Dataset, StudyError> {
    let real = clusters(&paper(rows, features / 10), seed)?;
    let parameters = Parameters {
        d: real.features(),
        m: features,
        s: 2,
        rho: ones,
        seed: *derive(seed, "synthetic/lift", &[]),
        densify: false,
        scaling: Scaling::None,
    };
    let hash = FlyHash::new(&parameters.check(real.classes().len()).map_err(TrialError::from)?);
    let scaler = Scaler::new(&Scaling::None, real.features(), None)
        .unwrap_or_else(|_| unreachable!("BUG: no scaling needs no moments"));
    let winners =
        hash.winners(&scaler, &real, 0..real.rows()).unwrap_or_else(|_| unreachable!("BUG: one d for both"));
    let mut values = vec![0.0; rows * features];
    for (row, winners) in winners.chunks_exact(ones).enumerate() {
        winners.iter().for_each(|&i| values[row * features + i as usize] = 1.0);
    }
    let made = Dataset::new(features, values, real.labels().to_vec(), real.classes().to_vec());
    Ok(made.map_err(SyntheticError::from)?)
}
