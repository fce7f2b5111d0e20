//! SBFC, the paper's ablation: SimHash instead of FlyHash, with the number of bits and the scaling tuned.

use flyswarm_learn::tuning::baselines::Prepared;
use flyswarm_learn::tuning::search::TrialError;
use flyswarm_learn::tuning::{Tally, Trial, summed};

use crate::simhash;

/// Returns the numbers of SimHash bits to try, up to `most`: below d, as usual for SimHash, and above, as
/// for FlyHash (Appendix D.5).
#[must_use]
pub fn sizes(d: usize, most: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> =
        [d / 4, d / 2, d, 4 * d, 16 * d, 64 * d].map(|size| size.clamp(1, most)).to_vec();
    sizes.dedup();
    sizes
}

/// Scalings that are tried for SBFC.
const SBFC: [Prepared; 3] = [Prepared::UnitNorm, Prepared::Center, Prepared::Standard];

/// Returns the names of the settings of [`sbfc`], in the same order.
#[must_use]
pub fn sbfc_settings(d: usize, most: usize) -> Vec<String> {
    SBFC.into_iter()
        .flat_map(|how| sizes(d, most).into_iter().map(move |m| format!("m {m}, {how:?}").to_lowercase()))
        .collect()
}

/// Returns the tallies of SBFC for every scaling and number of bits, summed over the trials.
///
/// # Errors
/// [`TrialError`].
pub fn sbfc(trials: &[Trial], most: usize, seed: &[u8]) -> Result<Vec<Tally>, TrialError> {
    let mut all = Vec::new();
    for (number, trial) in (0u64..).zip(trials) {
        let mut tallies = Vec::new();
        for how in SBFC {
            let Trial { train, test } = how.apply(trial)?;
            let seed = [seed, &number.to_le_bytes()].concat();
            let predicted = simhash::predict(&train, &test, &sizes(train.features(), most), &seed)?;
            tallies.extend(predicted.iter().map(|predicted| Tally::new(&test, predicted)));
        }
        all.push(tallies);
    }
    Ok(summed(all))
}

#[cfg(test)]
mod tests {
    use flyswarm_data::digits::digits;
    use flyswarm_data::split::train_test;
    use flyswarm_learn::tuning::Metric;

    use super::*;

    #[test]
    fn settings_and_tallies_go_together() {
        let data = digits().subset(&(0..300).collect::<Vec<_>>());
        let trials = Trial::of(&data, &[train_test(&data, 30, b"s")]);
        let found = sbfc(&trials, 1000, b"s").unwrap();
        assert_eq!(found.len(), sbfc_settings(64, 1000).len());
        assert!(found.iter().any(|tally| tally.score(Metric::Accuracy) > 0.3), "better than chance");
    }
}
