//! Settings of FlyNN from a file of `tune`, or from a short search on some rows.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::cli::{Failure, kind, output};
use crate::data::Dataset;
use crate::data::split::{folds, stratified_sample};
use crate::model::readout::Readout;
use crate::session::{DataSpec, Scaling, Score, Session, Size, Sizes, words};
use crate::tasks::{EvaluateSpec, FlynnSpec, ModelSpec, Setting, TuneSpec};
use flyswarm_data::scaling::Scaling as OfRows;
use flyswarm_learn::tuning::candidate::{Candidate, PRESET_M, Ranges, readouts};
use flyswarm_learn::tuning::search::search;
use flyswarm_learn::tuning::{Metric, Trial, best};

/// The largest file of settings: those of 64 candidates with their scores are a few kilobytes.
const LIMIT: u64 = 1 << 20;
/// Rows that are searched on, a stratified sample, in so many folds.
const ROWS: usize = 2000;
const FOLDS: usize = 3;
/// Candidates at most, the default and known good ones first.
const CANDIDATES: usize = 24;

/// What a model is made of.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) scaling: Scaling,
    pub(super) densify: bool,
    pub(super) sizes: Sizes,
    pub(super) readout: Readout,
}

/// The lines that `tune` writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSettings {
    scaling: Scaling,
    densify: bool,
    flynn: RawFlynn,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFlynn {
    m: Size,
    s: Size,
    rho: Size,
    gamma: f64,
    score: Score,
}

impl Settings {
    /// Reads what `tune --out`, or a session of the task tune, has written.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let size =
            std::fs::metadata(path).map_err(|error| output::for_io(&error, format!("{name}: {error}")))?;
        if size.len() > LIMIT {
            return Err(Failure::Input(format!("{name}: too large for a file of settings")));
        }
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| output::for_io(&error, format!("{name}: {error}")))?;
        let raw: RawSettings = toml::from_str(&text).map_err(|error| {
            let advice = kind::advice(path, "settings as `tune --out` writes them are expected");
            let message = words::plain(&error.message().split_whitespace().collect::<Vec<_>>().join(" "));
            Failure::Input(advice.unwrap_or_else(|| format!("{name}: no settings: {message}")))
        })?;
        let RawFlynn { m, s, rho, gamma, score } = raw.flynn;
        let readout = Readout { score, gamma };
        Ok(Self { scaling: raw.scaling, densify: raw.densify, sizes: Sizes { m, s, rho }, readout })
    }

    /// Gives a session these settings; one of the task tune becomes one of the task flynn.
    pub(super) fn give(&self, session: &mut Session) -> Result<(), Failure> {
        session.data.scaling = self.scaling;
        session.data.densify = self.densify;
        session.data.check()?;
        let model = self.sizes.resolve(&session.data, self.readout)?;
        if let Some(spec) = session.task.get_mut::<FlynnSpec>() {
            spec.model = model;
        } else if session.task.is::<TuneSpec>() {
            let evaluate = Some(EvaluateSpec::default());
            session.task = FlynnSpec { model, select: None, evaluate }.into();
        } else {
            return Err(Failure::Input(format!("--settings: not with the task {}", session.task)));
        }
        Ok(())
    }

    /// The best of the candidates that can be tried on `data` within `time`, and a line on the search.
    #[allow(clippy::disallowed_methods, reason = "the user bounds the time")]
    pub(super) fn propose(data: &Dataset, time: Duration) -> Result<(Self, String), Failure> {
        let start = Instant::now();
        let seed = [0; 8];
        let sample = data.subset(&stratified_sample(data.labels(), ROWS, &seed));
        let trials = Trial::of(&sample, &folds(sample.labels(), FOLDS, &seed));
        let ranges = Ranges { d: data.features(), classes: data.classes().len(), max_m: PRESET_M };
        let (candidates, readouts) = (ranges.draw(CANDIDATES, &seed), readouts());
        let mut found: Option<(f64, Candidate, Readout)> = None;
        let (mut tried, mut longest) = (0, Duration::ZERO);
        for candidate in &candidates {
            let begun = start.elapsed();
            if tried > 0 && begun + longest > time {
                break;
            }
            let tallies = search(std::slice::from_ref(candidate), &readouts, &trials, &seed, &|| ());
            let tallies = tallies.map_err(|error| Failure::Input(error.to_string()))?;
            if let Some(at) = best(tallies.iter().enumerate(), Metric::Balanced) {
                let score = tallies[at].score(Metric::Balanced);
                if found.as_ref().is_none_or(|(known, ..)| score > *known) {
                    found = Some((score, candidate.clone(), readouts[at]));
                }
            }
            tried += 1;
            longest = longest.max(start.elapsed().saturating_sub(begun));
        }
        let nothing = || Failure::Input("--data: no candidate suits these rows".into());
        let (score, candidate, readout) = found.ok_or_else(nothing)?;
        let setting = setting(&candidate).ok_or_else(nothing)?;
        let said = format!(
            "{tried} of {} settings tried on {} rows in {:.0} s: {candidate}; {}, gamma {} (balanced accuracy {score:.3} \
             in {FOLDS} folds of this file, the best of many)",
            candidates.len(),
            sample.rows(),
            start.elapsed().as_secs_f64(),
            readout.score,
            readout.gamma
        );
        let size = |number: u32| Size::Absolute(number.into());
        let sizes = Sizes { m: size(setting.m), s: size(setting.s), rho: size(setting.rho) };
        Ok((Self { scaling: setting.scaling, densify: setting.densify, sizes, readout }, said))
    }
}

/// Settings to compare, as `tune` tries them, with at most as many bits as the session's own; that one is not
/// among them.
pub(super) fn to_compare(data: &DataSpec, model: ModelSpec, count: usize, published: bool) -> Vec<Setting> {
    let ranges = Ranges { d: data.features as usize, classes: data.classes.len(), max_m: model.m as usize };
    let own =
        Setting { scaling: data.scaling, densify: data.densify, m: model.m, s: model.s, rho: model.rho };
    let drawn = ranges.draw(3 * count, data.classes.join(",").as_bytes());
    let drawn = drawn.into_iter().filter(|candidate| !published || candidate.is_published());
    drawn.filter_map(|candidate| setting(&candidate)).filter(|setting| *setting != own).take(count).collect()
}

/// A candidate as a session file says it; those that are tried have no bounds of their own.
fn setting(candidate: &Candidate) -> Option<Setting> {
    let scaling = match candidate.scaling {
        OfRows::None => Scaling::None,
        OfRows::UnitNorm => Scaling::UnitNorm,
        OfRows::Center => Scaling::Center,
        OfRows::Standard => Scaling::Standard,
        OfRows::SoftBins(bins) => Scaling::SoftBins { bins },
        OfRows::Range { .. } => return None,
    };
    let size = |value: usize| u32::try_from(value).ok();
    let (m, s, rho) = (size(candidate.m)?, size(candidate.s)?, size(candidate.rho)?);
    Some(Setting { scaling, densify: candidate.densify, m, s, rho })
}
