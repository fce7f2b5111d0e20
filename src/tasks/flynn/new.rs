//! Settings of FlyNN for a new session file: defaults that are good for most data, the settings of the paper,
//! the settings in a file of `tune`, or the best of a short search on some rows.

use std::path::Path;
use std::time::{Duration, Instant};

use flyswarm_data::scaling::Scaling as OfRows;
use flyswarm_learn::tuning::candidate::{
    Candidate, PRESET_BINS, PRESET_M, PRESET_READOUT, PRESET_RHO, PRESET_S, Ranges, readouts,
};
use flyswarm_learn::tuning::search::search;
use flyswarm_learn::tuning::{Metric, Trial, best};
use serde::Deserialize;
use toml::{Table, Value};

use crate::data::Dataset;
use crate::data::split::{folds, stratified_sample};
use crate::model::readout::Readout;
use crate::session::file::{read, syntax};
use crate::session::{DataSpec, Scaling, Score, Session, SessionError};
use crate::tasks::new::{NewFile, Sets, TaskOption};
use crate::tasks::{ModelSpec, Setting, Size, Sizes};

/// Number of rows that the search uses: a sample that keeps the share of each class.
const ROWS: usize = 2000;
/// Number of folds of the search.
const FOLDS: usize = 3;
/// Maximum number of candidate settings. The default settings and known good settings come first.
const CANDIDATES: usize = 24;

pub(crate) const PAPER: TaskOption =
    TaskOption::own("paper-settings", "", "Use the settings of the paper as defaults");
pub(crate) const SETTINGS: TaskOption = TaskOption::own(
    "settings",
    "FILE",
    "File of settings, as written by `tune --out` or by a session of the task tune",
);
pub(crate) const TUNING: TaskOption = TaskOption {
    name: "tuning",
    value: "SECONDS",
    help: "Try settings on the rows of --from for SECONDS, and use the best ones",
    sets: Sets::FromRows,
    alias: "",
};

/// Sizes and readout of a model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    m: Size,
    s: Size,
    rho: Size,
    gamma: f64,
    score: Score,
}

/// Settings of a model, as `tune` writes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    scaling: Scaling,
    densify: bool,
    flynn: Model,
}

/// Returns the best single setting over many data sets (docs/quality.md).
fn usual() -> Settings {
    let [m, s, rho] = [PRESET_M, PRESET_S, PRESET_RHO].map(|size| Size::Absolute(size as i64));
    Settings::new(Scaling::SoftBins { bins: PRESET_BINS }, false, Sizes { m, s, rho }, PRESET_READOUT)
}

/// Returns the paper's method, with sizes inside its search ranges (m 2d to 2048d, s 2 to 0.5d, rho 8 to
/// 256, gamma 0 to 0.8).
fn of_paper() -> Settings {
    let [m, s] = ["256d", "0.3d"].map(|size| Size::Multiple(size.into()));
    let readout = Readout { score: Score::Decay, gamma: 0.5 };
    Settings::new(Scaling::UnitNorm, false, Sizes { m, s, rho: Size::Absolute(64) }, readout)
}

/// Returns the paper's method with noise (appendix D.8): it has few bits, each set by many rows, and does not
/// need exact means.
fn private() -> Settings {
    let [m, s, rho] = ["20d", "0.1d", "0.05m"].map(|size| Size::Multiple(size.into()));
    let readout = Readout { score: Score::Decay, gamma: 0.9 };
    Settings::new(Scaling::UnitNorm, false, Sizes { m, s, rho }, readout)
}

/// If at least this percentage of the rows is in one class, the other classes are rare.
const RARE: u64 = 75;
/// With fewer rows than this, no other task is suggested.
const FEWEST: u64 = 50;

/// Suggests another task if that task is better for tables like these rows, on average over the data sets of
/// docs/quality.md ("Which task for which table").
pub(crate) fn other_task(rows: &Dataset) -> Option<String> {
    let counts = rows.class_counts(rows.classes().len());
    let (all, largest) = (counts.iter().sum::<u64>(), counts.iter().max().copied()?);
    // Few rows, or rows of only one class, say too little about the rows of all peers.
    if all < FEWEST || counts.iter().filter(|&&rows| rows > 0).count() < 2 {
        return None;
    }
    let network = "`session new fedavg --network mlp --set fedavg.epochs=10`";
    if largest * 100 >= all * RARE {
        let percent = largest * 100 / all.max(1);
        return Some(format!(
            "{percent} % of the rows are in one class: flynn has a higher recall for the other classes \
             and a lower accuracy, often lower than always predicting the largest class; if accuracy \
             matters: {network} (docs/quality.md)"
        ));
    }
    (counts.len() > 2).then(|| {
        format!(
            "for tables with {} classes a network is often better: {network} (docs/quality.md)",
            counts.len()
        )
    })
}

/// Proposes the settings of a model.
pub(crate) fn fill(file: &mut NewFile) -> Result<(), SessionError> {
    let (settings, tuning) = (file.option("settings"), file.option("tuning"));
    let settings = match (settings, tuning, &file.rows) {
        (Some(_), Some(_), _) => {
            return Err(SessionError::value("--tuning", "given", "left out with --settings"));
        }
        (Some(path), ..) => Settings::read(Path::new(path))?,
        (None, Some(seconds), Some(rows)) => {
            if file.is_private() {
                let limit = "left out with --epsilon: settings found on rows reveal something about \
                             them, outside the budget";
                return Err(SessionError::value("--tuning", "given", limit));
            }
            let refused = || SessionError::value("--tuning", seconds, "1 to 86400 seconds");
            let time = seconds.parse().ok().filter(|time| (1..=86_400).contains(time)).ok_or_else(refused)?;
            let (settings, said) = Settings::search(rows, Duration::from_secs(time))?;
            file.said.push(said);
            settings
        }
        _ if file.option("paper-settings").is_some() => of_paper(),
        _ if file.is_private() => private(),
        _ => usual(),
    };
    let Settings { scaling, densify, flynn: Model { m, s, rho, gamma, score } } = settings;
    file.propose("data.scaling", toml_of(scaling));
    file.propose("data.densify", densify);
    for (name, size) in [("flynn.m", m), ("flynn.s", s), ("flynn.rho", rho)] {
        let size = match size {
            Size::Absolute(number) => Value::Integer(number),
            Size::Multiple(text) => Value::String(text),
        };
        file.propose(name, size);
    }
    file.propose("flynn.gamma", gamma);
    file.propose("flynn.score", score.name());
    Ok(())
}

fn toml_of(scaling: Scaling) -> Value {
    crate::tasks::new::value(&scaling.to_toml())
}

/// Gives a session the settings of a file, and returns the model.
pub(crate) fn give(session: &mut Session, file: &Path) -> Result<ModelSpec, SessionError> {
    let Settings { scaling, densify, flynn: Model { m, s, rho, gamma, score } } = Settings::read(file)?;
    (session.data.scaling, session.data.densify) = (scaling, densify);
    session.data.check()?;
    Sizes { m, s, rho }.resolve(&session.data, Readout { score, gamma })
}

/// Returns the settings that `tune` compares, without the session's own setting. They have at most as many
/// bits as that setting.
pub(crate) fn to_compare(file: &NewFile, count: usize) -> Result<Vec<Value>, SessionError> {
    let mut fields = file.fields.clone();
    fields.remove("tune");
    fields.remove("select");
    fields.insert("task".into(), "flynn".into());
    let session = NewFile { fields, ..NewFile::default() }.session()?;
    let DataSpec { features, classes, .. } = &session.data;
    let Some(model) = session.task.part::<ModelSpec>() else { return Ok(Vec::new()) };
    let ranges = Ranges { d: *features as usize, classes: classes.len(), max_m: model.m as usize };
    let own = model.setting(&session.data);
    let paper = file.option("paper-settings").is_some();
    let drawn = ranges.draw(3 * count, classes.join(",").as_bytes());
    let drawn = drawn.into_iter().filter(|candidate| !paper || candidate.is_published());
    let table = |Setting { scaling, densify, m, s, rho }: Setting| {
        let mut table = Table::new();
        table.insert("scaling".into(), toml_of(scaling));
        table.insert("densify".into(), densify.into());
        for (name, size) in [("m", m), ("s", s), ("rho", rho)] {
            table.insert(name.into(), i64::from(size).into());
        }
        Value::Table(table)
    };
    let settings = drawn.filter_map(|candidate| setting(&candidate)).filter(|setting| *setting != own);
    Ok(settings.take(count).map(table).collect())
}

impl Settings {
    fn new(scaling: Scaling, densify: bool, Sizes { m, s, rho }: Sizes, readout: Readout) -> Self {
        let Readout { score, gamma } = readout;
        Self { scaling, densify, flynn: Model { m, s, rho, gamma, score } }
    }

    /// Reads a file that `tune --out` or a session of the task tune has written.
    fn read(path: &Path) -> Result<Self, SessionError> {
        read(path)
            .and_then(|text| toml::from_str(&text).map_err(|error| syntax(&text, &error)))
            .map_err(|source| SessionError::File { path: path.into(), source: Box::new(source) })
    }

    /// Tries candidates on `data` until `time` is over. Returns the best of them, and a line about the
    /// search.
    #[allow(clippy::disallowed_methods, reason = "the user bounds the time")]
    fn search(data: &Dataset, time: Duration) -> Result<(Self, String), SessionError> {
        let start = Instant::now();
        let seed = [0; 8];
        let sample = data.subset(&stratified_sample(data.labels(), ROWS, &seed));
        let trials = Trial::of(&sample, &folds(&sample, FOLDS, &seed));
        let ranges = Ranges { d: data.features(), classes: data.classes().len(), max_m: PRESET_M };
        let (candidates, readouts) = (ranges.draw(CANDIDATES, &seed), readouts());
        let mut found: Option<(f64, Candidate, Readout)> = None;
        let (mut tried, mut longest) = (0, Duration::ZERO);
        let refused = |text: String| SessionError::value("--tuning", text, "on rows that a candidate suits");
        for candidate in &candidates {
            let begun = start.elapsed();
            if tried > 0 && begun + longest > time {
                break;
            }
            let tallies = search(std::slice::from_ref(candidate), &readouts, &trials, &seed, &|| ());
            let tallies = tallies.map_err(|error| refused(error.to_string()))?;
            if let Some(at) = best(tallies.iter().enumerate(), Metric::Balanced) {
                let score = tallies[at].score(Metric::Balanced);
                if found.as_ref().is_none_or(|(known, ..)| score > *known) {
                    found = Some((score, candidate.clone(), readouts[at]));
                }
            }
            tried += 1;
            longest = longest.max(start.elapsed().saturating_sub(begun));
        }
        let nothing = || refused("of no use".into());
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
        let [m, s, rho] = [setting.m, setting.s, setting.rho].map(|size| Size::Absolute(size.into()));
        Ok((Self::new(setting.scaling, setting.densify, Sizes { m, s, rho }, readout), said))
    }
}

/// Converts a candidate to a setting of a session file. Candidates of the search never have explicit bounds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_task_is_named_where_a_class_is_rare_or_there_are_many() {
        let of = |counts: &[u16]| {
            let labels: Vec<u16> =
                (0..).zip(counts).flat_map(|(class, &rows)| (0..rows).map(move |_| class)).collect();
            let classes = (0..counts.len()).map(|class| format!("class {class}")).collect();
            other_task(&Dataset::new(1, vec![0.5; labels.len()], labels, classes).unwrap())
        };
        assert!(of(&[75, 25]).is_some_and(|line| line.starts_with("75 % of the rows are in one class")));
        assert!(of(&[30, 30, 40]).is_some_and(|line| line.starts_with("for tables with 3 classes")));
        assert_eq!(of(&[74, 26]), None);
        assert_eq!((of(&[60, 0]), of(&[40, 9])), (None, None), "too few rows or classes");
    }
}
