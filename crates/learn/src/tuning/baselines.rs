//! Nearest neighbours with k and the scaling tuned, on the same trials as FlyNN.

use std::fmt::{Display, Formatter};

use super::search::TrialError;
use super::{Tally, Trial};
use crate::model::ModelError;
use crate::model::neighbours::{Neighbours, TRIED};
use flyswarm_data::Dataset;
use flyswarm_data::scaling::{Scaler, Scaling};

/// Scaling of the rows for a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// Rows as they are.
    Raw,
    /// Rows of length 1.
    UnitNorm,
    /// Mean removed, then rows of length 1.
    Center,
    /// Mean removed, deviation 1, then rows of length 1.
    Standard,
    /// Each feature scaled to 0..1 by its smallest and largest value among the training rows.
    Range,
}

impl Prepared {
    /// All scalings.
    pub const ALL: [Self; 5] = [Self::Range, Self::Raw, Self::UnitNorm, Self::Center, Self::Standard];

    /// Scales both parts of the trial. The scaling is fitted on the training rows.
    ///
    /// # Errors
    /// [`TrialError`] if a feature has no exact mean.
    pub fn apply(self, trial: &Trial) -> Result<Trial, TrialError> {
        let Trial { train, test } = trial;
        let scaling = match self {
            Self::Raw => return Ok(trial.clone()),
            Self::UnitNorm => Scaling::UnitNorm,
            Self::Center => Scaling::Center,
            Self::Standard => Scaling::Standard,
            Self::Range => range(train),
        };
        let scaler = Scaler::fit(&scaling, train)?;
        Ok(Trial { train: scaler.transform(train), test: scaler.transform(test) })
    }
}

/// Returns the bounds of each feature. A constant feature gets two different bounds.
fn range(data: &Dataset) -> Scaling {
    let first = data.row(0).to_vec();
    let (mut lo, mut hi) = (first.clone(), first);
    for row in 0..data.rows() {
        for ((lo, hi), &x) in lo.iter_mut().zip(&mut hi).zip(data.row(row)) {
            (*lo, *hi) = (lo.min(x), hi.max(x));
        }
    }
    for (lo, hi) in lo.iter().zip(&mut hi) {
        if lo == hi {
            *hi = (lo.abs() * 2.0).max(1.0);
        }
    }
    Scaling::Range { lo, hi }
}

/// A setting of nearest neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourSetting {
    /// Number of neighbours that vote.
    pub k: usize,
    /// Scaling of the rows.
    pub how: Prepared,
}

impl Display for NeighbourSetting {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", format!("k {}, {:?}", self.k, self.how).to_lowercase())
    }
}

/// Returns the settings of [`neighbours`], in its order.
#[must_use]
pub fn neighbour_settings() -> Vec<NeighbourSetting> {
    Prepared::ALL.into_iter().flat_map(|how| TRIED.map(|k| NeighbourSetting { k, how })).collect()
}

/// Returns (outer, inner) tallies of kNN for every scaling and k. Outer tallies are those of the test
/// rows; inner tallies leave out each training row in turn.
///
/// # Errors
/// [`TrialError`].
pub fn neighbours(trial: &Trial) -> Result<(Vec<Tally>, Vec<Tally>), TrialError> {
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    for how in Prepared::ALL {
        let Trial { train, test } = how.apply(trial)?;
        let near = Neighbours::new(&train).ok_or(ModelError::Unlabelled)?;
        for (rows, predicted, tallies) in
            [(&test, near.predict_tried(&test), &mut outer), (&train, near.leave_one_out(), &mut inner)]
        {
            for k in 0..TRIED.len() {
                let predicted: Vec<u16> = predicted.iter().map(|each| each[k]).collect();
                tallies.push(Tally::new(rows, &predicted));
            }
        }
    }
    Ok((outer, inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm_data::digits::digits;
    use flyswarm_data::split::{Rows, train_test};

    #[test]
    fn settings_and_tallies_go_together() {
        let data = digits();
        let trial = &Trial::of(
            &data.subset(&(0..300).collect::<Vec<_>>()),
            &[train_test(Rows::new(&data.labels()[..300], None), 30, b"s")],
        )[0];
        let (outer, inner) = neighbours(trial).unwrap();
        let settings = neighbour_settings();
        assert_eq!([outer.len(), inner.len()], [settings.len(); 2]);
        // k = 1 on raw rows, the second scaling.
        assert_eq!(settings[TRIED.len()].to_string(), "k 1, raw");
        let one = Neighbours::new(&trial.train).unwrap().predict(1, &trial.test);
        assert_eq!(outer[TRIED.len()], Tally::new(&trial.test, &one));
    }

    #[test]
    fn a_constant_feature_has_a_range() {
        let data = Dataset::new(2, vec![5.0, -7.0, 5.0, 3.0], Vec::new(), Vec::new()).unwrap();
        assert_eq!(range(&data), Scaling::Range { lo: vec![5.0, -7.0], hi: vec![10.0, 3.0] });
    }
}
