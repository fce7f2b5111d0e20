//! Forecast of a private session's quality, before any budget is spent. It uses the session's own sizes,
//! budget and noise, but synthetic rows instead of the peers' rows.
//!
//! The rows are made by [`clusters`]: their classes are well separated, which is easy for nearest neighbours.
//! Real rows are often harder to classify, so a bad estimate is more reliable than a good one.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;

use crate::crypto::stream::derive;
use crate::session::{Scaling, Session};
use crate::sketch::Parameters;
use crate::tasks::{FlynnSpec, Forecast};
use flyswarm_data::scaling::Scaling as OfRows;
use flyswarm_learn::synthetic::{Clusters, SyntheticError, clusters};
use flyswarm_learn::tuning::noisy::Noisy;
use flyswarm_learn::tuning::search::TrialError;
use serde_json::json;

/// Number of rows to score on.
const TEST_ROWS: usize = 1000;
/// Most rows to learn from. If a session has more rows, the forecast ignores the rest. This makes the
/// estimate too low rather than too high.
const MOST_ROWS: usize = 20_000;
/// Largest number of dimensions, because the time to draw a row grows with its square.
const MOST_FEATURES: usize = 30;
/// Clusters of each class.
const CLUSTERS: usize = 3;
/// Repetitions, each with new data, matrix and noise.
const REPETITIONS: u64 = 9;

/// Reason why a forecast cannot be made.
#[derive(Debug, thiserror::Error)]
enum ForecastError {
    /// Sizes that allow no data.
    #[error(transparent)]
    Data(#[from] SyntheticError),
    /// Sizes that allow no model.
    #[error(transparent)]
    Model(#[from] TrialError),
}

/// Balanced accuracy on synthetic rows, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    /// Training rows of all peers.
    rows: usize,
    /// Mean of the repetitions with the session's noise.
    private: f64,
    /// Smallest accuracy of the repetitions with noise.
    least: f64,
    /// Largest accuracy of the repetitions with noise.
    most: f64,
    /// Mean without noise.
    plain: f64,
    /// Balanced accuracy of guessing.
    chance: f64,
}

impl Estimate {
    /// Returns whether the noisy model keeps at least half of the plain model's advantage over guessing.
    fn is_useful(&self) -> bool {
        self.private >= self.chance + (self.plain - self.chance) / 2.0
    }
}

/// Forecasts a private session whose peers have this number of rows each. Returns `None` for sessions that
/// are not private.
pub(super) fn forecast(session: &Session, rows_each: usize) -> Result<Option<Forecast>, String> {
    let found = estimate(session, rows_each, 0).map_err(|error| format!("forecast: {error}"))?;
    let (Some(found), Some(spec), Some(noise)) =
        (found, session.task.get::<FlynnSpec>(), session.privacy.noise)
    else {
        return Ok(None);
    };
    let Estimate { rows, private, least, most, plain, chance } = found;
    let verdict = if found.is_useful() { "" } else { ": of little use" };
    let text = format!(
        "forecast: balanced accuracy about {private:.2} ({least:.2} to {most:.2}){verdict}; {plain:.2} without noise, \
         {chance:.2} by guessing; made-up rows, {} peers of {rows_each}, {} classes, m {}, T {}, epsilon {}",
        session.roster.len(),
        session.data.classes.len(),
        spec.model.m,
        noise.top,
        noise.epsilon,
    );
    let json = json!({
        "rows_each": rows_each, "rows": rows, "balanced_accuracy": private, "least": least, "most": most,
        "without_noise": plain, "by_guessing": chance,
    });
    Ok(Some(Forecast { text, json, useful: found.is_useful() }))
}

/// Makes the estimate. The same seed gives the same estimate.
fn estimate(session: &Session, rows_each: usize, seed: u64) -> Result<Option<Estimate>, ForecastError> {
    let (Some(spec), Some(noise)) = (session.task.get::<FlynnSpec>(), &session.privacy.noise) else {
        return Ok(None);
    };
    let (model, classes) = (spec.model, session.data.classes.len());
    let parties = session.roster.len();
    let rows = rows_each.saturating_mul(parties).clamp(parties.max(classes), MOST_ROWS);
    // The number of dimensions at which each cluster can have its own corner of a cube.
    let needed = (classes * CLUSTERS).next_power_of_two().ilog2() as usize;
    let d = (session.data.features as usize).clamp(2, MOST_FEATURES).max(needed);
    let scaling = if session.data.scaling == Scaling::UnitNorm { OfRows::UnitNorm } else { OfRows::None };
    let (mut private, mut plain) = (Vec::new(), Vec::new());
    for repetition in 0..REPETITIONS {
        let place = [seed.to_le_bytes(), repetition.to_le_bytes()].concat();
        let shape = Clusters {
            rows: rows + TEST_ROWS,
            features: d,
            classes,
            clusters: CLUSTERS,
            class_sep: 1.2,
            flip_y: 0.0,
        };
        let all = clusters(&shape, &place)?;
        let train = all.subset(&(0..rows).collect::<Vec<_>>());
        let test = all.subset(&(rows..all.rows()).collect::<Vec<_>>());
        let parameters = Parameters {
            d,
            m: model.m as usize,
            s: (model.s as usize).clamp(2, d),
            rho: model.rho as usize,
            seed: *derive(&place, "study/matrix", &[]),
            densify: false,
            scaling: scaling.clone(),
        };
        let round = Noisy::new(&train, &test, parties, parameters, model.readout())?;
        plain.push(round.plain()?);
        let mut rng = ChaCha20Rng::from_seed(*derive(&place, "study/noise", &[]));
        private.push(round.private(&noise.mechanism(session, model.rho), &mut rng)?);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    Ok(Some(Estimate {
        rows,
        private: mean(&private),
        least: private.iter().copied().fold(1.0, f64::min),
        most: private.iter().copied().fold(0.0, f64::max),
        plain: mean(&plain),
        chance: 1.0 / classes.max(1) as f64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::identity::Identity;

    fn session(privacy: &str) -> Session {
        let mut text = format!(
            "name = \"p\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
             task = \"flynn\"\n[data]\nfeatures = 10\nclasses = [\"a\", \"b\"]\nscaling = \"unit-norm\"\n[flynn]\n\
             m = 200\ns = 3\nrho = 10\ngamma = 0.9\n[privacy]\n{privacy}\n"
        );
        for i in 0..3 {
            let id = Identity::from_seed([i; 32]).public();
            text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{id}\"\n");
        }
        Session::parse(&text).unwrap()
    }

    #[test]
    fn much_budget_and_many_rows_are_useful_and_little_of_them_is_not() {
        let of = |privacy: &str, rows| estimate(&session(privacy), rows, 1).unwrap().unwrap();
        let rich = of("epsilon = 100.0\ntop = 100", 1000);
        assert!(rich.is_useful() && rich.private > 0.7 && rich.plain > 0.8, "{rich:?}");
        assert_eq!((rich.rows, rich.chance), (3000, 0.5));
        let poor = of("epsilon = 0.01\ntop = 100", 30);
        assert!(!poor.is_useful() && poor.private < 0.62, "{poor:?}");
        assert!(poor.least <= poor.private && poor.private <= poor.most);
        assert_eq!(poor, of("epsilon = 0.01\ntop = 100", 30));
        assert_eq!(estimate(&session(""), 30, 1).unwrap(), None);
    }
}
