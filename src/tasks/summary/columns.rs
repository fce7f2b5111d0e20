//! Columns as the tables count them: their levels, and the values of a row.

use super::spec::SummarySpec;
use super::table::MISSING;
use crate::session::DataSpec;
use crate::tasks::common::variables::{self, Refusal, SourceKind, Value, refusal, sources};

/// Values of a column.
#[derive(Clone, Debug)]
pub(super) enum Values {
    /// The values of a column of the session.
    Of(variables::Variable),
    /// The combinations of the levels of two other columns. For each level of the first column, all levels of
    /// the second follow.
    Both { levels: Vec<String>, of: [usize; 2], second: usize, missing: Vec<bool> },
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) values: Values,
    /// True if a value may be missing.
    pub(super) may_miss: bool,
}

impl Variable {
    /// Returns the levels that are counted. A column of numbers has one level.
    pub(super) fn levels(&self) -> Vec<&str> {
        let levels = match &self.values {
            Values::Of(variable) if variable.is_factor() => variable.levels(),
            Values::Of(_) => vec!["present"],
            Values::Both { levels, .. } => levels.iter().map(String::as_str).collect(),
        };
        levels.into_iter().chain(self.may_miss.then_some(MISSING)).collect()
    }

    pub(super) fn count(&self) -> usize {
        let own = match &self.values {
            Values::Of(variable) => variable.count().max(1),
            Values::Both { levels, .. } => levels.len(),
        };
        own + usize::from(self.may_miss)
    }

    pub(super) fn is_missing(&self, level: usize) -> bool {
        match &self.values {
            Values::Both { missing, .. } => missing.get(level).copied().unwrap_or_default(),
            Values::Of(_) => self.may_miss && level + 1 == self.count(),
        }
    }

    /// Makes a column from the combinations of the levels of two columns.
    pub(super) fn both(variables: &[Self], of: [usize; 2]) -> Self {
        let [one, two] = of.map(|at| &variables[at]);
        let pairs = || (0..one.count()).flat_map(|i| (0..two.count()).map(move |j| (i, j)));
        let levels = pairs().map(|(i, j)| format!("{}, {}", one.levels()[i], two.levels()[j])).collect();
        let missing = pairs().map(|(i, j)| one.is_missing(i) || two.is_missing(j)).collect();
        let name = format!("{}, {}", one.name, two.name);
        Self { name, values: Values::Both { levels, of, second: two.count(), missing }, may_miss: false }
    }

    /// Returns the step of a column of numbers.
    pub(super) fn grid(&self) -> Option<f64> {
        match &self.values {
            Values::Of(variable) if !variable.is_factor() => Some(variable.grid),
            _ => None,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        self.grid().is_some()
    }

    pub(super) fn is_ordinal(&self) -> bool {
        matches!(&self.values, Values::Of(variable) if matches!(variable.source.kind, SourceKind::Ordinal(_)))
    }

    /// Returns the level of a row, and its number of steps (0 if the column has no numbers). `before` has the
    /// values of the earlier columns for the same row.
    pub(super) fn value(&self, row: &[f32], before: &[(usize, i64)]) -> Result<(usize, i64), String> {
        match &self.values {
            Values::Both { of, second, .. } => {
                let [one, two] = of.map(|at| before.get(at).map_or(0, |(level, _)| *level));
                Ok((one * second + two, 0))
            }
            Values::Of(variable) => Ok(match variable.value(row)? {
                Some(Value::Level(level)) => (level, 0),
                Some(Value::Steps(steps)) => (0, steps),
                None => (self.count() - 1, 0),
            }),
        }
    }
}

/// Returns the columns of the tables.
pub(super) fn variables(spec: &SummarySpec, data: &DataSpec) -> Result<Vec<Variable>, Refusal> {
    let all = sources("summary", data)?;
    let mut chosen = Vec::new();
    for name in &spec.columns {
        let found = all.iter().find(|source| source.name == *name);
        let source = found.filter(|_| !chosen.iter().any(|each: &variables::Source| each.name == *name));
        let limit = "columns of the session, each once";
        let source = source.ok_or_else(|| refusal("summary.columns", format!("{name:?}"), limit))?;
        chosen.push(source.clone());
    }
    let chosen = if spec.columns.is_empty() { all } else { chosen };
    if let Some(source) = chosen.iter().find(|source| source.fills) {
        let limit = "none, or a fill with indicator = true, or fill = \"\" of a category: a summary counts missing values and does \
                     not fill them";
        return Err(refusal(&format!("fill of column {:?}", source.name), "given", limit));
    }
    let variable = |source: variables::Source| {
        let grid = spec.grids.get(&source.name).copied().unwrap_or(spec.grid);
        let (name, may_miss) = (source.name.clone(), source.may_miss());
        Variable { name, values: Values::Of(variables::Variable::new(source, grid)), may_miss }
    };
    Ok(chosen.into_iter().map(variable).collect())
}
