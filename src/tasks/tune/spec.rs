//! The task `tune` in a session file: the settings that it compares.

use std::any::Any;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::readout::Readout;
use crate::session::encoding::{Field, flag, integer, list, put, scaling};
use crate::session::fields::{comment, field};
use crate::session::rules::{self, COUNTS_LIMIT, Limit};
use crate::session::{DataSpec, Scaling, Score, Session, SessionError};
use crate::session::{Sections, Spec};
use crate::tasks::flynn::size;
use crate::tasks::{BuiltIn, TaskKind};
use crate::tasks::{ModelSpec, Size, Sizes};

/// Parameters of the task `tune`.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneSpec {
    /// The model of the session, with which the other settings are compared.
    pub model: ModelSpec,
    /// Number of folds of each peer's rows. Each fold is scored once with the counts of all other folds. 2 to
    /// 20. Default 3.
    pub folds: u16,
    /// Settings in addition to that of `[data]` and `[flynn]`, 1 to 64. The counts of all settings in all
    /// folds take at most 1 GiB.
    pub settings: Vec<Setting>,
}

/// Parameters of a FlyHash, except the features and the seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setting {
    /// Scaling of the features.
    pub scaling: Scaling,
    /// See [`DataSpec::densify`].
    pub densify: bool,
    /// See [`ModelSpec::m`].
    pub m: u32,
    /// See [`ModelSpec::s`].
    pub s: u32,
    /// See [`ModelSpec::rho`].
    pub rho: u32,
}

/// Section `[tune]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    folds: Option<i64>,
    setting: Vec<RawSetting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSetting {
    #[serde(default)]
    scaling: Scaling,
    #[serde(default)]
    densify: bool,
    m: Size,
    s: Size,
    rho: Size,
}

/// Largest number of entries of the lifting matrix, m x s. They take 4 GiB.
const ENTRIES_LIMIT: u64 = 1 << 30;
const FOLDS: Limit = Limit::new("tune.folds", 2, 20);
const SETTINGS: Limit = Limit::new("the length of tune.setting", 1, 64);

impl TuneSpec {
    /// Default of `folds`.
    pub const FOLDS: u16 = 3;

    /// Returns every setting that is compared, that of `[data]` and `[flynn]` first.
    #[must_use]
    pub fn settings(&self, data: &DataSpec) -> Vec<Setting> {
        std::iter::once(self.model.setting(data)).chain(self.settings.iter().copied()).collect()
    }

    /// Returns the number of counts of all settings in all folds: the words of the slot `counts`.
    #[must_use]
    pub fn counts(&self, data: &DataSpec) -> u64 {
        let bits: u64 = self.settings(data).iter().map(|setting| u64::from(setting.m)).sum();
        u64::from(self.folds) * data.classes.len() as u64 * bits
    }
}

impl RawSetting {
    fn resolve(self, data: &DataSpec) -> Result<Setting, SessionError> {
        let Self { scaling, densify, m, s, rho } = self;
        let rows = DataSpec { scaling, densify, ..data.clone() };
        rows.check()?;
        let readout = Readout { score: Score::Decay, gamma: 0.0 };
        Ok(Sizes { m, s, rho }.resolve(&rows, readout)?.setting(&rows))
    }
}

/// Adds the setting's number, from 1, to an error.
fn of_setting(error: SessionError, number: usize) -> SessionError {
    match error {
        SessionError::Value { field, value, limit } => {
            SessionError::Value { field: format!("{field} of tune.setting {number}"), value, limit }
        }
        other => other,
    }
}

impl Setting {
    pub(crate) fn check(&self, features: u32, classes: usize) -> Result<(), SessionError> {
        let (scaling, densify) = (self.scaling, self.densify);
        let data = DataSpec { features, scaling, densify, ..DataSpec::default() };
        data.check_scaling()?;
        size::m(classes).check::<u32>(self.m)?;
        size::s(data.dimension()).check::<u32>(self.s)?;
        size::rho(self.m).check::<u32>(self.rho)?;
        if u64::from(self.m) * u64::from(self.s) > ENTRIES_LIMIT {
            let limit = format!("at most {} with m = {}", ENTRIES_LIMIT / u64::from(self.m), self.m);
            return Err(SessionError::value("flynn.s", self.s, limit));
        }
        Ok(())
    }

    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, &scaling(self.scaling));
        out.extend(flag(self.densify));
        [self.m, self.s, self.rho].into_iter().for_each(|size| out.extend(integer(size)));
        out
    }
}

impl TuneSpec {
    /// Reads the parameters from their sections of the session file. `data` describes the rows.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        let Some(raw) = sections.take::<Raw>("tune")? else {
            return Err(SessionError::value("task", "tune", "flynn without a [tune]"));
        };
        let model = ModelSpec::read(sections, "tune", data)?;
        let folds = raw.folds.map_or(Ok(Self::FOLDS), |folds| FOLDS.check(folds))?;
        let settings = raw
            .setting
            .into_iter()
            .zip(1..)
            .map(|(raw, number)| raw.resolve(data).map_err(|error| of_setting(error, number)));
        Ok(Self { model, folds, settings: settings.collect::<Result<_, _>>()? })
    }
}

impl Spec for TuneSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(session, self.clone()))
    }

    fn about(&self) -> &'static str {
        "which of several settings of FlyNN suits the rows of all peers best"
    }

    fn normalise(&mut self) {
        self.model.gamma += 0.0;
        self.settings.iter_mut().for_each(|setting| setting.scaling.normalise());
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        let data = &session.data;
        rules::check_classes(data)?;
        for (number, setting) in self.settings(data).iter().enumerate() {
            let named = |error| if number == 0 { error } else { of_setting(error, number) };
            setting.check(data.features, data.classes.len()).map_err(named)?;
        }
        FOLDS.check::<u16>(self.folds)?;
        SETTINGS.check::<u32>(self.settings.len() as i128)?;
        let bytes = 4 * self.counts(data);
        if bytes > COUNTS_LIMIT {
            let limit = format!("at most {COUNTS_LIMIT} (1 GiB)");
            return Err(SessionError::value(
                "the sum of folds x m x classes x 4 bytes over all settings",
                bytes,
                limit,
            ));
        }
        self.model.check_gamma()
    }

    fn parts(&self) -> Vec<&dyn Any> {
        vec![&self.model]
    }

    fn entries(&self) -> Vec<Field> {
        let settings: Vec<_> = self.settings.iter().map(Setting::encoded).collect();
        let mut entries = self.model.entries();
        entries.push(("tune.folds", integer(self.folds)));
        entries.push(("tune.settings", list(settings.iter().map(Vec::as_slice))));
        entries
    }

    fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        self.model.write_toml(data, out)?;
        writeln!(out, "[tune]")?;
        let about = "Number of folds of each peer's rows: 2 to 20. Each fold is scored once with the counts of the others.";
        field(about, "folds", format_args!("{}\n", self.folds), out)?;
        let about = "Settings to compare in addition to the one above: 1 to 64. m and s are numbers or multiples of \
                     their own d. The counts of all settings in all folds take at most 1 GiB.";
        comment(about, out)?;
        for Setting { scaling, densify, m, s, rho } in &self.settings {
            writeln!(out, "[[tune.setting]]\nscaling = {}", scaling.to_toml())?;
            writeln!(out, "densify = {densify}\nm = {m}\ns = {s}\nrho = {rho}\n")?;
        }
        Ok(())
    }

    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let Self { model, folds, settings } = self;
        let mut sections = model.json(data);
        sections.push(("tune", json!({"folds": folds, "settings": settings})));
        sections
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { model, folds, settings } = self;
        let mut lines = model.lines(data);
        lines.push(("tune", format!("this setting and {} others, {folds} folds", settings.len())));
        for Setting { scaling, densify, m, s, rho } in settings {
            let densify = if *densify { ", densify" } else { "" };
            lines.push(("", format!("m = {m}, s = {s}, rho = {rho}, scaling {scaling}{densify}")));
        }
        lines
    }
}
