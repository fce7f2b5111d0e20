//! Columns as the tables count them: their levels, and the values of a row.

use flyswarm_data::prepare::{ColumnSpec, Fill, Kind};

use super::spec::SummarySpec;
use super::table::{MISSING, MOST_STEPS, Refusal};
use crate::session::DataSpec;

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    /// Numbers in steps of a grid.
    Number { grid: f64 },
    /// A place among levels.
    Ordinal(Vec<String>),
    /// One of levels, a number of 0 or 1 each.
    Category(Vec<String>),
    /// Levels of two other columns together, those of the second within those of the first.
    Both { levels: Vec<String>, of: [usize; 2], second: usize, missing: Vec<bool> },
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) values: Values,
    /// Index in a row of its first number, and of the number that marks missing values.
    place: usize,
    indicator: Option<usize>,
    /// True if a value may be missing.
    pub(super) may_miss: bool,
}

impl Variable {
    /// Returns the levels that rows are counted by; numbers have one.
    pub(super) fn levels(&self) -> Vec<&str> {
        let levels = match &self.values {
            Values::Number { .. } => vec!["present"],
            Values::Ordinal(levels) | Values::Category(levels) | Values::Both { levels, .. } => {
                levels.iter().map(String::as_str).collect()
            }
        };
        levels.into_iter().chain(self.may_miss.then_some(MISSING)).collect()
    }

    pub(super) fn count(&self) -> usize {
        let own = match &self.values {
            Values::Number { .. } => 1,
            Values::Ordinal(levels) | Values::Category(levels) | Values::Both { levels, .. } => levels.len(),
        };
        own + usize::from(self.may_miss)
    }

    pub(super) fn is_missing(&self, level: usize) -> bool {
        match &self.values {
            Values::Both { missing, .. } => missing.get(level).copied().unwrap_or_default(),
            _ => self.may_miss && level + 1 == self.count(),
        }
    }

    /// Returns the column of two columns together.
    pub(super) fn both(variables: &[Self], of: [usize; 2]) -> Self {
        let [one, two] = of.map(|at| &variables[at]);
        let pairs = || (0..one.count()).flat_map(|i| (0..two.count()).map(move |j| (i, j)));
        let levels = pairs().map(|(i, j)| format!("{}, {}", one.levels()[i], two.levels()[j])).collect();
        let missing = pairs().map(|(i, j)| one.is_missing(i) || two.is_missing(j)).collect();
        let name = format!("{}, {}", one.name, two.name);
        Self {
            name,
            values: Values::Both { levels, of, second: two.count(), missing },
            place: 0,
            indicator: None,
            may_miss: false,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.values, Values::Number { .. })
    }

    /// Returns the level of a row, if `before` are those of earlier columns.
    pub(super) fn level(&self, row: &[f32], before: &[usize]) -> Result<usize, String> {
        let at = |place: usize| row.get(place).copied().unwrap_or_default();
        let found = match &self.values {
            _ if self.indicator.is_some_and(|place| at(place) > 0.5) => None,
            Values::Number { .. } => Some(0),
            Values::Ordinal(levels) => {
                let level = at(self.place);
                (level >= 0.0 && (level as usize) < levels.len()).then_some(level as usize)
            }
            Values::Both { of, second, .. } => {
                let [one, two] = of.map(|at| before.get(at).copied().unwrap_or_default());
                Some(one * second + two)
            }
            Values::Category(levels) => (0..levels.len()).find(|level| at(self.place + level) > 0.5),
        };
        match found {
            Some(level) => Ok(level),
            None if self.may_miss => Ok(self.count() - 1),
            None => Err(format!(
                "column {:?}: a row has no level, and the session allows no missing values",
                self.name
            )),
        }
    }

    /// Returns the number of steps of a row's number.
    pub(super) fn steps(&self, row: &[f32]) -> Result<i64, String> {
        let Values::Number { grid } = self.values else { return Ok(0) };
        let value = f64::from(row.get(self.place).copied().unwrap_or_default());
        let steps = (value / grid).round_ties_even();
        if steps.abs() > MOST_STEPS {
            return Err(format!(
                "column {:?}: a value is more than {MOST_STEPS} steps of its grid, {grid}; a larger grid in \
                 [summary.grids] allows larger values",
                self.name
            ));
        }
        Ok(steps as i64)
    }
}

/// Returns the columns of the tables.
pub(super) fn variables(spec: &SummarySpec, data: &DataSpec) -> Result<Vec<Variable>, Refusal> {
    let mut all = Vec::new();
    let grid = |name: &str| spec.grids.get(name).copied().unwrap_or(spec.grid);
    match &data.preparation {
        Some(table) => {
            let mut place = 0;
            for column in &table.columns {
                if let Some(variable) = described(column, place, grid(&column.name)) {
                    all.push((
                        variable,
                        column.fill != Fill::Refuse && !column.indicator && !no_level(column),
                    ));
                }
                place += column.width();
            }
        }
        None => {
            let number = |(place, name): (usize, &String)| {
                let values = Values::Number { grid: grid(name) };
                (Variable { name: name.clone(), values, place, indicator: None, may_miss: false }, false)
            };
            all.extend(data.columns.iter().enumerate().map(number));
        }
    }
    if all.is_empty() {
        let limit = "given: the task summary needs names of columns, [table] or data.columns".to_owned();
        return Err(("data.columns".to_owned(), "empty".to_owned(), limit));
    }
    let mut chosen = Vec::new();
    for name in &spec.columns {
        let found = all.iter().find(|(variable, _)| variable.name == *name);
        let unknown = || {
            ("summary.columns".to_owned(), format!("{name:?}"), "columns of the session, each once".into())
        };
        let (variable, fills) = found
            .filter(|_| !chosen.iter().any(|(each, _): &(Variable, bool)| each.name == *name))
            .ok_or_else(unknown)?;
        chosen.push((variable.clone(), *fills));
    }
    let chosen = if spec.columns.is_empty() { all } else { chosen };
    if let Some((variable, _)) = chosen.iter().find(|(_, fills)| *fills) {
        let limit = "none, or a fill with indicator = true, or fill = \"\" of a category: a summary counts missing values and does \
                     not fill them";
        return Err((format!("fill of column {:?}", variable.name), "given".to_owned(), limit.to_owned()));
    }
    Ok(chosen.into_iter().map(|(variable, _)| variable).collect())
}

fn no_level(column: &ColumnSpec) -> bool {
    column.fill == Fill::NoLevel
}

fn described(column: &ColumnSpec, place: usize, grid: f64) -> Option<Variable> {
    let values = match &column.kind {
        Kind::Ignored => return None,
        Kind::Number => Values::Number { grid },
        Kind::Date(_) => Values::Number { grid: grid.max(1.0) },
        Kind::Ordinal(levels) => Values::Ordinal(levels.clone()),
        Kind::Category(levels) => Values::Category(levels.clone()),
    };
    let indicator = column.indicator.then(|| place + column.width() - 1);
    let may_miss = indicator.is_some() || no_level(column);
    Some(Variable { name: column.name.clone(), values, place, indicator, may_miss })
}
