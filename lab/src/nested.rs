//! Nested evaluation of one data set. In each outer fold, the setting that is best on inner folds of the
//! training rows is scored on the test rows. The test rows are not used for any choice.
//!
//! Every setting of a method is tallied on the inner trials and on the test rows of every outer fold, so one
//! run gives two figures. The *nested* figure is described above. The *optimistic* figure is that of the
//! paper: the best of all settings over the outer folds together, chosen on the same rows that score the
//! setting. Tallies are added up over the folds before a score is computed.
//!
//! Inner trials are stratified folds. For nearest neighbours they are leave-one-out, which is exact and
//! favours nearest neighbours.

use std::collections::BTreeMap;

use flyswarm_data::Dataset;
use flyswarm_data::split::{folds, stratified_sample};
use flyswarm_learn::tuning::baselines::{self, Prepared, neighbour_settings};
use flyswarm_learn::tuning::candidate::{Ranges, preset, readouts};
use flyswarm_learn::tuning::search::{self, TrialError};
use flyswarm_learn::tuning::{Metric, Tally, Trial, best, summed};
use serde::{Deserialize, Serialize};

use crate::sbfc::{sbfc, sbfc_settings};

/// Parameters of the evaluation. Results with equal plans can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Most rows that are used. A larger set is reduced to a stratified sample.
    pub rows: usize,
    /// Outer folds.
    pub outer: usize,
    /// Inner folds.
    pub inner: usize,
    /// Number of random candidates, in addition to the default.
    pub budget: usize,
    /// Most rows of M, and most SimHash bits.
    pub max_m: usize,
    /// Seed of folds, candidates and matrices.
    pub seed: u64,
}

impl Plan {
    /// Returns the number of ticks for one set.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        (self.outer * (self.inner + 1) * (self.budget + 1)) as u64
    }
}

/// The methods, in the order of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// FlyNN with our extensions, tuned.
    Flynn,
    /// FlyNN as published, tuned over the same number of readouts and a third of the candidates.
    FlynnPublished,
    /// FlyNN with the default setting of `session new`, not tuned.
    FlynnDefault,
    /// Nearest neighbours, k and scaling tuned.
    Knn,
    /// Nearest neighbours on unscaled rows, k tuned: the paper's baseline.
    KnnRaw,
    /// One nearest neighbour, scaling tuned.
    OneNn,
    /// SimHash Bloom filters, bits and scaling tuned.
    Sbfc,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 7] = [
        Self::Flynn,
        Self::FlynnPublished,
        Self::FlynnDefault,
        Self::Knn,
        Self::KnnRaw,
        Self::OneNn,
        Self::Sbfc,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flynn => "FlyNN",
            Self::FlynnPublished => "FlyNN as published",
            Self::FlynnDefault => "FlyNN, default",
            Self::Knn => "kNN",
            Self::KnnRaw => "kNN, raw",
            Self::OneNn => "1NN",
            Self::Sbfc => "SBFC",
        }
    }
}

/// Figures of one method on one set with one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Score on rows that were not used for any choice.
    pub nested: f64,
    /// Best score on the rows that also chose the setting, as in the paper.
    pub optimistic: f64,
    /// The setting of the optimistic figure.
    pub setting: String,
}

/// Results of one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetResult {
    /// Name of the set.
    pub name: String,
    /// Number of rows used.
    pub rows: usize,
    /// Number of features.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
    /// Parameters of the evaluation.
    pub plan: Plan,
    /// Figures by metric and method.
    pub figures: BTreeMap<Metric, BTreeMap<Method, Figures>>,
    /// Every setting of FlyNN over all outer folds, in the order of drawing. A default can be chosen from
    /// these.
    pub tried: Vec<Tried>,
}

/// One setting over all outer folds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The candidate and its readout.
    pub setting: String,
    /// Balanced accuracy.
    pub balanced: f64,
    /// Accuracy.
    pub accuracy: f64,
}

/// Tallies of all settings of one kind, in each outer fold.
#[derive(Debug, Default)]
struct Sheet {
    names: Vec<String>,
    /// Tallies over the inner trials of the fold.
    inner: Vec<Vec<Tally>>,
    /// Tallies on the fold's test rows.
    outer: Vec<Vec<Tally>>,
}

impl Sheet {
    /// Returns the figures over the settings that `included` accepts; `None` if it accepts none.
    fn figures(&self, metric: Metric, included: impl Fn(usize) -> bool) -> Option<Figures> {
        let among =
            |tallies: &[Tally]| best(tallies.iter().enumerate().filter(|(i, _)| included(*i)), metric);
        let chosen =
            self.inner.iter().zip(&self.outer).map(|(inner, outer)| Some(vec![outer[among(inner)?].clone()]));
        let nested = summed(chosen.collect::<Option<Vec<_>>>()?).first()?.score(metric);
        let all = summed(self.outer.clone());
        let at = among(&all)?;
        Some(Figures { nested, optimistic: all[at].score(metric), setting: self.names[at].clone() })
    }
}

/// Evaluates every method on one set. `tick` is called [`Plan::ticks`] times (less often if a candidate
/// cannot be used).
///
/// # Errors
/// [`TrialError`] if the data cannot be used at all.
pub fn evaluate(
    name: &str,
    data: &Dataset,
    plan: &Plan,
    tick: &(dyn Fn() + Sync),
) -> Result<SetResult, TrialError> {
    let seed = plan.seed.to_le_bytes();
    let data = data.subset(&stratified_sample(data.labels(), plan.rows, &seed));
    let (features, classes) = (data.features(), data.classes().len());
    let candidates = Ranges { d: features, classes, max_m: plan.max_m }.draw(plan.budget, &seed);
    let readouts = readouts();
    let (mut flynn, mut knn, mut simhash) = (Sheet::default(), Sheet::default(), Sheet::default());
    flynn.names = candidates
        .iter()
        .flat_map(|candidate| readouts.iter().map(move |r| format!("{candidate}, {} {}", r.score, r.gamma)))
        .collect();
    let neighbours = neighbour_settings();
    knn.names = neighbours.iter().map(ToString::to_string).collect();
    simhash.names = sbfc_settings(features, plan.max_m);

    for (number, trial) in (0u64..).zip(Trial::of(&data, &folds(&data, plan.outer, &seed))) {
        let inner_seed = [&seed[..], b"inner", &number.to_le_bytes()].concat();
        let outer_seed = [&seed[..], b"outer", &number.to_le_bytes()].concat();
        let inner = Trial::of(&trial.train, &folds(&trial.train, plan.inner, &inner_seed));
        let (outer_tallies, inner_tallies) = baselines::neighbours(&trial)?;
        knn.outer.push(outer_tallies);
        knn.inner.push(inner_tallies);
        let outer = std::slice::from_ref(&trial);
        simhash.inner.push(sbfc(&inner, plan.max_m, &inner_seed)?);
        simhash.outer.push(sbfc(outer, plan.max_m, &outer_seed)?);
        flynn.inner.push(search::search(&candidates, &readouts, &inner, &inner_seed, tick)?);
        flynn.outer.push(search::search(&candidates, &readouts, outer, &outer_seed, tick)?);
    }

    let published = |at: usize| {
        candidates[at / readouts.len()].is_published() && readouts[at % readouts.len()].is_published()
    };
    let has_preset = preset(features, plan.max_m).is_some();
    let figures = |metric| {
        let of = |method| match method {
            Method::Flynn => flynn.figures(metric, |_| true),
            Method::FlynnPublished => flynn.figures(metric, published),
            Method::FlynnDefault => flynn.figures(metric, |at| has_preset && at == 0),
            Method::Knn => knn.figures(metric, |_| true),
            Method::KnnRaw => knn.figures(metric, |at| neighbours[at].how == Prepared::Raw),
            Method::OneNn => knn.figures(metric, |at| neighbours[at].k == 1),
            Method::Sbfc => simhash.figures(metric, |_| true),
        };
        Method::ALL.into_iter().filter_map(|method| Some((method, of(method)?))).collect()
    };
    let tried = flynn.names.iter().zip(summed(flynn.outer.clone())).map(|(name, tally)| Tried {
        setting: name.clone(),
        balanced: tally.score(Metric::Balanced),
        accuracy: tally.score(Metric::Accuracy),
    });
    Ok(SetResult {
        tried: tried.collect(),
        name: name.to_owned(),
        rows: data.rows(),
        features,
        classes,
        plan: plan.clone(),
        figures: Metric::ALL.into_iter().map(|metric| (metric, figures(metric))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::paper;
    use flyswarm_learn::synthetic::{Clusters, clusters};
    use flyswarm_sealed_sum::crypto::stream::Stream;

    fn plan() -> Plan {
        Plan { rows: 200, outer: 3, inner: 2, budget: 6, max_m: 512, seed: 1 }
    }

    #[test]
    fn on_separate_clusters_every_method_is_far_above_chance_and_sbfc_is_not_best() {
        let shape = Clusters { class_sep: 3.0, ..paper(400, 20) };
        let data = clusters(&shape, b"seed").unwrap();
        let ticks = std::sync::atomic::AtomicU64::new(0);
        let count = || {
            ticks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let result = evaluate("made up", &data, &plan(), &count).unwrap();
        assert_eq!(ticks.into_inner(), plan().ticks());
        let of = |method| &result.figures[&Metric::Balanced][&method];
        assert!(of(Method::Flynn).nested > 0.6 && of(Method::Knn).nested > 0.6, "{result:#?}");
        assert!(of(Method::Sbfc).nested < of(Method::Flynn).nested, "{result:#?}");
        assert_eq!(
            result,
            evaluate("made up", &data, &plan(), &|| ()).unwrap(),
            "the same seed gives the same result"
        );
    }

    /// The labels are unrelated to the rows. So the gain of a selection on its own rows disappears on
    /// other rows.
    #[test]
    fn nested_figures_of_noise_are_chance_and_optimistic_ones_are_above() {
        let (mut nested, mut optimistic) = (0.0, 0.0);
        for seed in 0..5 {
            let mut stream = Stream::new(b"noise", "test", &[seed]);
            let values = (0..200 * 5).map(|_| stream.below(1000) as f32).collect();
            let labels = (0..200).map(|_| stream.below(2) as u16).collect();
            let data = Dataset::new(5, values, labels, vec!["a".into(), "b".into()]).unwrap();
            let result = evaluate("noise", &data, &plan(), &|| ()).unwrap();
            let figures = &result.figures[&Metric::Accuracy][&Method::Flynn];
            (nested, optimistic) = (nested + figures.nested / 5.0, optimistic + figures.optimistic / 5.0);
        }
        // One mean over 1,000 rows: chance gives 0.5 plus or minus 0.016.
        assert!((0.45..0.55).contains(&nested) && optimistic > 0.53, "{nested}, {optimistic}");
    }

    #[test]
    fn the_setting_is_chosen_by_inner_tallies_only() {
        let classes = vec!["a".to_owned(), "b".to_owned()];
        let rows = Dataset::new(1, vec![0.0; 2], vec![0, 1], classes).unwrap();
        let [right, wrong] = [[0, 1], [1, 0]].map(|predicted| Tally::new(&rows, &predicted));
        let sheet = Sheet {
            names: vec!["first".into(), "second".into()],
            inner: vec![vec![right.clone(), wrong.clone()], vec![wrong.clone(), right.clone()]],
            outer: vec![vec![wrong.clone(), right.clone()], vec![wrong.clone(), right.clone()]],
        };
        let figures = sheet.figures(Metric::Accuracy, |_| true).unwrap();
        assert_eq!(figures, Figures { nested: 0.5, optimistic: 1.0, setting: "second".into() });
        assert_eq!(sheet.figures(Metric::Accuracy, |at| at == 0).unwrap().nested, 0.0);
        assert_eq!(sheet.figures(Metric::Accuracy, |_| false), None);
    }
}
