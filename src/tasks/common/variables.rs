//! Columns of the session as the tasks `summary` and `glm` use them: factors with levels, and numbers that
//! are rounded to the steps of a grid.

use flyswarm_data::prepare::{ColumnSpec, Fill, Kind};
use flyswarm_glm::MOST_STEPS;
use flyswarm_mpc::shares::cells::BUCKETS;

use crate::session::DataSpec;

/// A field of the session file that is refused: its name, its value, and what is allowed.
pub(crate) type Refusal = (String, String, String);

pub(crate) fn refusal(field: &str, value: impl std::fmt::Display, limit: &str) -> Refusal {
    (field.to_owned(), value.to_string(), limit.to_owned())
}

/// A column of the session's rows.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    /// Index of the column's first number in a row.
    pub(crate) place: usize,
    pub(crate) indicator: Option<usize>,
    /// True if a row has no level when its value is missing.
    pub(crate) no_level: bool,
    /// True if missing values are replaced, and no number of the row marks them.
    pub(crate) fills: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SourceKind {
    Number,
    Date,
    Ordinal(Vec<String>),
    Category(Vec<String>),
    /// An outcome with the numbers 0 and 1.
    Binary,
}

/// A value of a row: the level of a factor, or a number of steps of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Level(usize),
    Steps(i64),
}

/// A column that the model uses.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) source: Source,
    /// Size of a step of a number.
    pub(crate) grid: f64,
}

impl Source {
    /// Returns whether a row may have no value.
    pub(crate) fn may_miss(&self) -> bool {
        self.indicator.is_some() || self.no_level
    }
}

impl Variable {
    /// Makes a variable. The step of a date is at least one day.
    pub(crate) fn new(source: Source, grid: f64) -> Self {
        let grid = if source.kind == SourceKind::Date { grid.max(1.0) } else { grid };
        Self { source, grid }
    }

    pub(crate) fn levels(&self) -> Vec<&str> {
        match &self.source.kind {
            SourceKind::Number | SourceKind::Date => Vec::new(),
            SourceKind::Binary => vec!["0", "1"],
            SourceKind::Ordinal(levels) | SourceKind::Category(levels) => {
                levels.iter().map(String::as_str).collect()
            }
        }
    }

    /// Returns the number of levels.
    pub(crate) fn count(&self) -> usize {
        match &self.source.kind {
            SourceKind::Number | SourceKind::Date => 0,
            SourceKind::Binary => 2,
            SourceKind::Ordinal(levels) | SourceKind::Category(levels) => levels.len(),
        }
    }

    pub(crate) fn is_factor(&self) -> bool {
        !matches!(self.source.kind, SourceKind::Number | SourceKind::Date)
    }

    /// Returns the value of a row, or `None` if it is missing.
    pub(crate) fn value(&self, row: &[f32]) -> Result<Option<Value>, String> {
        let Source { name, kind, place, indicator, no_level, .. } = &self.source;
        let at = |place: usize| row.get(place).copied().unwrap_or_default();
        if indicator.is_some_and(|place| at(place) > 0.5) {
            return Ok(None);
        }
        let number = at(*place);
        match kind {
            SourceKind::Category(levels) => match (0..levels.len()).find(|level| at(place + level) > 0.5) {
                Some(level) => Ok(Some(Value::Level(level))),
                None if *no_level => Ok(None),
                None => Err(format!(
                    "column {name:?}: a row has no level, and the session allows no missing values"
                )),
            },
            SourceKind::Ordinal(levels) if number >= 0.0 && (number as usize) < levels.len() => {
                Ok(Some(Value::Level(number as usize)))
            }
            SourceKind::Ordinal(_) => Err(format!("column {name:?}: a row has no level")),
            SourceKind::Binary if number == 0.0 || number == 1.0 => Ok(Some(Value::Level(number as usize))),
            SourceKind::Binary => {
                Err(format!("column {name:?}: the outcome of a row is {number}, must be 0 or 1"))
            }
            SourceKind::Number | SourceKind::Date => {
                let steps = (f64::from(number) / self.grid).round_ties_even();
                if steps.abs() > MOST_STEPS as f64 {
                    return Err(format!(
                        "column {name:?}: a value is more than {MOST_STEPS} steps of its grid, {}; a larger step in `grids` \
                         allows larger values",
                        self.grid
                    ));
                }
                Ok(Some(Value::Steps(steps as i64)))
            }
        }
    }
}

/// Returns the bucket of a number of steps. If a column has few values, each of them has its own bucket.
pub(crate) fn bucket(steps: i64) -> usize {
    const { assert!(BUCKETS == 16) };
    ((steps as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
}

/// Splits a term into names of columns at its colon. The name of a column may itself have a colon.
pub(crate) fn split<'a>(term: &'a str, sources: &[Source]) -> Vec<&'a str> {
    let known = |name: &str| sources.iter().any(|source| source.name == name);
    if known(term) {
        return vec![term];
    }
    let halves = term.match_indices(':').map(|(at, _)| (&term[..at], &term[at + 1..]));
    halves
        .filter(|(one, two)| known(one) && known(two))
        .map(|(one, two)| vec![one, two])
        .next()
        .unwrap_or_default()
}

/// Returns the columns of the session as this task uses them.
pub(crate) fn sources(task: &str, data: &DataSpec) -> Result<Vec<Source>, Refusal> {
    let mut all = Vec::new();
    match &data.preparation {
        Some(table) => {
            let mut place = 0;
            for column in &table.columns {
                all.extend(described(column, place));
                place += column.width();
            }
        }
        None => all.extend(data.columns.iter().enumerate().map(|(place, name)| Source {
            name: name.clone(),
            kind: SourceKind::Number,
            place,
            indicator: None,
            no_level: false,
            fills: false,
        })),
    }
    match all.is_empty() {
        true => Err(refusal(
            "data.columns",
            "empty",
            &format!("given: the task {task} needs names of columns, [table] or data.columns"),
        )),
        false => Ok(all),
    }
}

fn described(column: &ColumnSpec, place: usize) -> Option<Source> {
    let kind = match &column.kind {
        Kind::Ignored => return None,
        Kind::Number => SourceKind::Number,
        Kind::Date(_) => SourceKind::Date,
        Kind::Ordinal(levels) => SourceKind::Ordinal(levels.clone()),
        Kind::Category(levels) => SourceKind::Category(levels.clone()),
    };
    let no_level = column.fill == Fill::NoLevel;
    let indicator = column.indicator.then(|| place + column.width() - 1);
    let fills = column.fill != Fill::Refuse && !column.indicator && !no_level;
    Some(Source { name: column.name.clone(), kind, place, indicator, no_level, fills })
}
