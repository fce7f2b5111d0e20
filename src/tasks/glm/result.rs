//! The file of the result, and its table for people.

use flyswarm_glm::{Coefficient, Fit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::design::Design;
use super::spec::GlmSpec;
use crate::session::Session;
use crate::tasks::common::tables::{self, Table};

/// First field of the result's file.
pub(super) const FORMAT: &str = "flyswarm glm";

/// File of the result.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    format: String,
    session: String,
    family: String,
    /// Name of the outcome; for a logistic model, with the event.
    outcome: String,
    /// True for robust standard errors (HC1).
    robust: bool,
    level: f64,
    rows: u64,
    freedom: u64,
    deviance: f64,
    null_deviance: Option<f64>,
    aic: f64,
    dispersion: f64,
    rounds: usize,
    coefficients: Vec<Line>,
}

/// A coefficient.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    estimate: f64,
    /// Standard error. It is robust if `robust` is true.
    se: f64,
    /// Standard error that the model implies, which is not robust.
    model_se: f64,
    statistic: f64,
    p: f64,
    low: f64,
    high: f64,
    /// Odds ratio or rate ratio, and the two ends of its interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ratio: Option<[f64; 3]>,
}

/// Returns the digest of a file.
pub(super) fn digest(file: &[u8]) -> [u8; 32] {
    Sha256::digest(file).into()
}

/// Formats a number with four decimals, or with a power of ten.
fn shown(x: f64) -> String {
    match x.abs() {
        a if a == 0.0 || (1e-3..1e6).contains(&a) => format!("{x:.4}"),
        _ => format!("{x:.3e}"),
    }
}

impl File {
    /// Makes the file of a fit.
    pub(super) fn new(session: &Session, spec: &GlmSpec, design: &Design, fit: &Fit) -> Self {
        let line = |each: &Coefficient| Line {
            name: each.name.clone(),
            estimate: each.estimate,
            se: each.robust_error.unwrap_or(each.model_error),
            model_se: each.model_error,
            statistic: each.statistic,
            p: each.p,
            low: each.interval.0,
            high: each.interval.1,
            ratio: each.ratio,
        };
        Self {
            format: FORMAT.to_owned(),
            session: session.id().to_string(),
            family: spec.family.clone(),
            outcome: design.outcome_name(),
            robust: spec.robust,
            level: spec.level,
            rows: fit.rows,
            freedom: fit.freedom,
            deviance: fit.deviance,
            null_deviance: fit.null_deviance,
            aic: fit.aic,
            dispersion: fit.dispersion,
            rounds: fit.rounds,
            coefficients: fit.coefficients.iter().map(line).collect(),
        }
    }

    /// Reads the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match file.format == FORMAT {
            true => Ok(file),
            false => Err("not a regression".into()),
        }
    }

    /// Returns the result as JSON.
    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    /// Returns one line for people.
    pub(super) fn line(&self) -> String {
        let Self { family, outcome, rows, coefficients, rounds, .. } = self;
        format!(
            "{family} regression of {outcome}: {rows} rows, {} coefficients, {rounds} rounds",
            coefficients.len()
        )
    }

    /// Returns the first sentences of the report page. They name the terms whose interval excludes the value
    /// for no association.
    pub(super) fn headline(&self) -> String {
        let Self { coefficients, level, rows, .. } = self;
        let terms = coefficients.get(1..).unwrap_or_default();
        let excludes = |line: &&Line| line.low > 0.0 || line.high < 0.0;
        let found: Vec<&str> = terms.iter().filter(excludes).map(|line| &*line.name).collect();
        let none = self.ratio_name().map_or_else(|| "0".to_owned(), |name| format!("{name} 1"));
        let names = match found.len() {
            0 => String::new(),
            1..=8 => format!(": {}", found.join(", ")),
            _ => format!(": {} and others", found[..8].join(", ")),
        };
        format!(
            "{} over {rows} rows of all peers. The {} % interval excludes {none} for {} of {} terms{names}.",
            self.title(),
            100.0 * level,
            found.len(),
            terms.len()
        )
    }

    /// Returns the name of the model, such as `Logistic regression of death=yes`.
    fn title(&self) -> String {
        let mut family = self.family.clone();
        if let Some(first) = family.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        format!("{family} regression of {}", self.outcome)
    }

    fn ratio_name(&self) -> Option<&'static str> {
        match self.family.as_str() {
            "logistic" => Some("odds ratio"),
            "poisson" => Some("rate ratio"),
            _ => None,
        }
    }

    /// Returns the coefficients as a table of texts. The first row is the header.
    fn lines(&self) -> Vec<Vec<String>> {
        let percent = 100.0 * self.level;
        let (se, interval) = (if self.robust { "robust SE" } else { "SE" }, format!("{percent} % CI"));
        let mut head: Vec<String> =
            ["", "estimate", se, &interval, if self.family == "linear" { "t" } else { "z" }, "p"]
                .map(str::to_owned)
                .to_vec();
        if let Some(ratio) = self.ratio_name() {
            head.extend([ratio.to_owned(), format!("{percent} % CI of the {ratio}")]);
        }
        let line = |each: &Line| {
            let p = if each.p < 1e-4 { "< 0.0001".to_owned() } else { format!("{:.4}", each.p) };
            let interval = format!("{} to {}", shown(each.low), shown(each.high));
            let mut line = vec![
                each.name.clone(),
                shown(each.estimate),
                shown(each.se),
                interval,
                format!("{:.3}", each.statistic),
                p,
            ];
            if let Some([ratio, low, high]) = each.ratio {
                line.extend([shown(ratio), format!("{} to {}", shown(low), shown(high))]);
            }
            line
        };
        std::iter::once(head).chain(self.coefficients.iter().map(line)).collect()
    }

    fn quality(&self) -> Vec<Vec<String>> {
        let freedom = self.rows.saturating_sub(1);
        let null = self.null_deviance.map(|null| format!("{} on {freedom} degrees of freedom", shown(null)));
        let dispersion = (self.family == "linear").then(|| shown(self.dispersion));
        [
            ("", Some("value".to_owned())),
            ("rows", Some(self.rows.to_string())),
            ("null deviance", null),
            (
                "residual deviance",
                Some(format!("{} on {} degrees of freedom", shown(self.deviance), self.freedom)),
            ),
            ("residual variance", dispersion),
            ("AIC", Some(shown(self.aic))),
            ("rounds", Some(self.rounds.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(vec![name.to_owned(), value?]))
        .collect()
    }

    /// Returns the tables for the report page.
    pub(super) fn pages(&self) -> Value {
        let captions = [
            "SE: standard error. CI: confidence interval. A level is compared with the first level of its column, \
             or with the reference that the session file names.",
            "Deviance and AIC measure the fit: of two models of the same rows, the one with the lower AIC fits better.",
        ];
        tables::pages(&self.printed(), captions)
    }

    /// Returns the tables: the coefficients, and the quality of the fit.
    pub(super) fn printed(&self) -> [Table; 2] {
        [(self.title(), self.lines()), ("Fit".to_owned(), self.quality())]
    }

    /// Returns the estimates and intervals for a forest plot, without the intercept.
    pub(super) fn forest(&self) -> Value {
        let line = |each: &Line| {
            let [at, low, high] = each.ratio.unwrap_or([each.estimate, each.low, each.high]);
            json!({"name": each.name, "at": at, "low": low, "high": high})
        };
        let lines: Vec<Value> = self.coefficients.iter().skip(1).map(line).collect();
        json!({"title": self.ratio_name().unwrap_or("estimate"), "log": self.ratio_name().is_some(), "lines": lines})
    }

    /// Returns the tables as Markdown.
    pub(super) fn text(&self) -> String {
        format!("regression of session {}\n", self.session) + &tables::markdown(&self.printed())
    }
}
