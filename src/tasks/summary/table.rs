//! The tables of a session: their cells, the equations between cells, and which cells stay closed.
//!
//! Every table is a set of *cells*, counts of rows. A cell is the number of all rows, the rows with one level
//! of a column, or the rows with one level of each of two columns. Missing values are a level of their own if
//! the column allows them. A *measure* is the sum and the sum of squares of a column of numbers, over all
//! rows or over the rows of one group. Cells that must be equal are one cell.

use std::collections::BTreeMap;

use flyswarm_data::prepare::{ColumnSpec, Fill, Kind};
use flyswarm_mpc::shares::cells::{BUCKETS, Opened, Rule};

use super::spec::SummarySpec;
use crate::session::DataSpec;

/// Most cells of a session.
pub(super) const MOST_CELLS: usize = 10_000;
/// Largest number of steps of the grid in a number, in absolute terms.
pub(super) const MOST_STEPS: f64 = 1_048_576.0;
/// Most rows of all peers: a sum of squares is below 2^63.
pub(super) const MOST_ROWS: usize = 1 << 23;
/// Name of the level of missing values.
pub(super) const MISSING: &str = "missing";

/// A field of the session file that is refused: its name, its value and the limit.
pub(super) type Refusal = (String, String, String);

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    /// Numbers in steps of a grid.
    Number { grid: f64 },
    /// A place among levels.
    Ordinal(Vec<String>),
    /// One of levels, a number of 0 or 1 each.
    Category(Vec<String>),
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
            Values::Ordinal(levels) | Values::Category(levels) => levels.iter().map(String::as_str).collect(),
        };
        levels.into_iter().chain(self.may_miss.then_some(MISSING)).collect()
    }

    pub(super) fn count(&self) -> usize {
        let own = match &self.values {
            Values::Number { .. } => 1,
            Values::Ordinal(levels) | Values::Category(levels) => levels.len(),
        };
        own + usize::from(self.may_miss)
    }

    fn is_missing(&self, level: usize) -> bool {
        self.may_miss && level + 1 == self.count()
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.values, Values::Number { .. })
    }

    /// Returns the level of a row.
    fn level(&self, row: &[f32]) -> Result<usize, String> {
        let at = |place: usize| row.get(place).copied().unwrap_or_default();
        let found = match &self.values {
            _ if self.indicator.is_some_and(|place| at(place) > 0.5) => None,
            Values::Number { .. } => Some(0),
            Values::Ordinal(levels) => {
                let level = at(self.place);
                (level >= 0.0 && (level as usize) < levels.len()).then_some(level as usize)
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
    fn steps(&self, row: &[f32]) -> Result<i64, String> {
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

/// Returns the bucket of a number of steps.
pub(super) fn bucket(steps: i64) -> usize {
    ((steps as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
}

/// A table of two columns.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) rows: usize,
    pub(super) columns: usize,
    first: usize,
}

/// Sum and sum of squares of a column.
#[derive(Clone, Copy, Debug)]
struct Measure {
    variable: usize,
    group: Option<usize>,
    /// Cell of its rows.
    cell: usize,
}

/// A number that is the sum of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Equation {
    pub(super) total: usize,
    pub(super) parts: Vec<usize>,
}

/// All tables of a session.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) variables: Vec<Variable>,
    /// The grouping column.
    pub(super) by: Option<usize>,
    /// Tables with the groups first, then those of `[[summary.table]]`.
    pub(super) tables: Vec<Table>,
    /// First cell of each column with more than one level.
    firsts: Vec<usize>,
    /// For each cell, whether it counts missing values.
    missing: Vec<bool>,
    measures: Vec<Measure>,
}

impl Layout {
    /// Returns the tables of a session.
    ///
    /// # Errors
    /// The field that does not fit.
    pub(super) fn new(spec: &SummarySpec, data: &DataSpec) -> Result<Self, Refusal> {
        let variables = variables(spec, data)?;
        let place = |variables: &[Variable], field: &str, name: &str| {
            let found = variables.iter().position(|variable| variable.name == name);
            found.ok_or_else(|| {
                (field.to_owned(), format!("{name:?}"), "a column of summary.columns".to_owned())
            })
        };
        let by = spec.by.as_ref().map(|name| place(&variables, "summary.by", name)).transpose()?;
        if let Some(by) = by
            && variables[by].is_number()
        {
            let limit = "a category or an ordinal".to_owned();
            return Err(("summary.by".to_owned(), format!("{:?}", variables[by].name), limit));
        }
        for name in spec.grids.keys() {
            let at = place(&variables, "summary.grids", name)?;
            if !variables[at].is_number() {
                return Err((
                    "summary.grids".to_owned(),
                    format!("{name:?}"),
                    "a column of numbers".to_owned(),
                ));
            }
        }
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        if let Some(by) = by {
            pairs.extend((0..variables.len()).filter(|&at| at != by).map(|at| (at, by)));
        }
        for table in &spec.table {
            let [rows, columns] =
                [&table.rows, &table.columns].map(|name| place(&variables, "summary.table", name));
            let (rows, columns) = (rows?, columns?);
            let twice = pairs.iter().any(|&pair| pair == (rows, columns) || pair == (columns, rows));
            if rows == columns || twice || variables[rows].is_number() || variables[columns].is_number() {
                let limit = "two different categories or ordinals, each pair once (also with summary.by)";
                let value = format!("{:?} and {:?}", table.rows, table.columns);
                return Err(("summary.table".to_owned(), value, limit.to_owned()));
            }
            pairs.push((rows, columns));
        }
        let mut missing = vec![false];
        let firsts = variables.iter().map(|variable| {
            let first = missing.len();
            if variable.count() > 1 {
                missing.extend((0..variable.count()).map(|level| variable.is_missing(level)));
            }
            first
        });
        let firsts: Vec<usize> = firsts.collect();
        let mut tables = Vec::new();
        for (rows, columns) in pairs {
            tables.push(Table { rows, columns, first: missing.len() });
            let [one, two] = [rows, columns].map(|at| &variables[at]);
            if one.count() > 1 && two.count() > 1 {
                let levels = (0..one.count()).flat_map(|i| (0..two.count()).map(move |j| (i, j)));
                missing.extend(levels.map(|(i, j)| one.is_missing(i) || two.is_missing(j)));
            }
            if missing.len() > MOST_CELLS {
                let limit = format!("at most {MOST_CELLS}");
                return Err(("the number of cells".to_owned(), missing.len().to_string(), limit));
            }
        }
        let mut layout = Self { variables, by, tables, firsts, missing, measures: Vec::new() };
        layout.measures = layout.all_measures();
        Ok(layout)
    }

    fn all_measures(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for variable in (0..self.variables.len()).filter(|&at| self.variables[at].is_number()) {
            measures.push(Measure { variable, group: None, cell: self.one(variable, 0) });
            let table =
                self.tables.iter().find(|table| table.rows == variable && Some(table.columns) == self.by);
            let Some(table) = table.filter(|table| self.variables[table.columns].count() > 1) else {
                continue;
            };
            measures.extend((0..self.variables[table.columns].count()).map(|group| Measure {
                variable,
                group: Some(group),
                cell: self.two(table, 0, group),
            }));
        }
        measures
    }

    /// Returns the cell of one level of a column.
    pub(super) fn one(&self, variable: usize, level: usize) -> usize {
        if self.variables[variable].count() > 1 { self.firsts[variable] + level } else { 0 }
    }

    /// Returns the cell of two levels in a table.
    pub(super) fn two(&self, table: &Table, row: usize, column: usize) -> usize {
        match (self.variables[table.rows].count(), self.variables[table.columns].count()) {
            (1, _) => self.one(table.columns, column),
            (_, 1) => self.one(table.rows, row),
            (_, columns) => table.first + row * columns + column,
        }
    }

    /// Returns the number of cells.
    pub(super) fn cells(&self) -> usize {
        self.missing.len()
    }

    /// Returns the number of a measure.
    pub(super) fn measure(&self, variable: usize, group: Option<usize>) -> Option<usize> {
        self.measures.iter().position(|measure| measure.variable == variable && measure.group == group)
    }

    /// Returns the conditions for cells and measures to pass.
    pub(super) fn rule(&self, spec: &SummarySpec, contributors: u16) -> Rule {
        Rule {
            threshold: spec.threshold,
            contributors: contributors.max(1).into(),
            rest: spec.rest,
            empty_passes: self.missing.clone(),
            measures: self.measures.iter().map(|measure| measure.cell).collect(),
        }
    }

    /// Returns the words of rows: cells, buckets of measures, sums and sums of squares.
    ///
    /// # Errors
    /// A line about a value that does not fit.
    pub(super) fn words<'a>(&self, rows: impl Iterator<Item = &'a [f32]>) -> Result<Vec<u64>, String> {
        let (cells, measures) = (self.cells(), self.measures.len());
        let mut words = vec![0u64; cells + (BUCKETS + 2) * measures];
        let sums = cells + BUCKETS * measures;
        for row in rows {
            let levels =
                self.variables.iter().map(|variable| variable.level(row)).collect::<Result<Vec<_>, _>>()?;
            words[0] += 1;
            for (at, variable) in self.variables.iter().enumerate() {
                if variable.count() > 1 {
                    words[self.one(at, levels[at])] += 1;
                }
            }
            for table in &self.tables {
                let [rows, columns] = [table.rows, table.columns].map(|at| self.variables[at].count());
                if rows > 1 && columns > 1 {
                    words[self.two(table, levels[table.rows], levels[table.columns])] += 1;
                }
            }
            for (number, measure) in self.measures.iter().enumerate() {
                let variable = &self.variables[measure.variable];
                let inside = measure.group.is_none_or(|group| self.by.is_some_and(|by| levels[by] == group));
                if levels[measure.variable] != 0 || !inside {
                    continue;
                }
                let steps = variable.steps(row)?;
                words[cells + BUCKETS * number + bucket(steps)] += 1;
                let (sum, squares) = (sums + 2 * number, sums + 2 * number + 1);
                words[sum] = words[sum].wrapping_add(steps as u64);
                words[squares] += (steps * steps) as u64;
            }
        }
        Ok(words)
    }

    /// Returns the equations between cells.
    pub(super) fn equations(&self) -> Vec<Equation> {
        let mut equations = Vec::new();
        for (at, variable) in self.variables.iter().enumerate().filter(|(_, variable)| variable.count() > 1) {
            let parts = (0..variable.count()).map(|level| self.one(at, level)).collect();
            equations.push(Equation { total: 0, parts });
        }
        for table in &self.tables {
            let [rows, columns] = [table.rows, table.columns].map(|at| self.variables[at].count());
            if rows == 1 || columns == 1 {
                continue;
            }
            equations.extend((0..rows).map(|i| Equation {
                total: self.one(table.rows, i),
                parts: (0..columns).map(|j| self.two(table, i, j)).collect(),
            }));
            equations.extend((0..columns).map(|j| Equation {
                total: self.one(table.columns, j),
                parts: (0..rows).map(|i| self.two(table, i, j)).collect(),
            }));
        }
        equations
    }

    /// Returns the equations between measures.
    pub(super) fn measure_equations(&self) -> Vec<Equation> {
        let mut equations: BTreeMap<usize, Equation> = BTreeMap::new();
        for (number, measure) in self.measures.iter().enumerate() {
            let equation = || Equation { total: number, parts: Vec::new() };
            let equation = equations.entry(measure.variable).or_insert_with(equation);
            if measure.group.is_some() {
                equation.parts.push(number);
            }
        }
        equations.into_values().filter(|equation| !equation.parts.is_empty()).collect()
    }

    /// Returns the cells and measures that open. The pattern alone decides it, so every peer finds the same.
    pub(super) fn open(&self, pattern: &Opened) -> Opened {
        let strong = |passes: bool, missing: bool| passes && !missing;
        let cells: Vec<bool> = pattern
            .cells
            .iter()
            .zip(&self.missing)
            .map(|(&passes, &missing)| strong(passes, missing))
            .collect();
        let cells = open(&pattern.cells, &cells, &self.equations());
        let passing = self.measures.iter().zip(&pattern.measures);
        let passing: Vec<bool> = passing.map(|(measure, &passes)| passes && cells[measure.cell]).collect();
        let strong: Vec<bool> = self
            .measures
            .iter()
            .zip(&pattern.measures)
            .map(|(measure, &passes)| strong(passes, self.missing[measure.cell]))
            .collect();
        let measures = open(&passing, &strong, &self.measure_equations());
        Opened { cells, measures }
    }
}

/// Returns the columns of the tables.
fn variables(spec: &SummarySpec, data: &DataSpec) -> Result<Vec<Variable>, Refusal> {
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

/// Returns the numbers that open.
///
/// Numbers that do not pass stay closed. Others stay closed so that no closed number follows from open ones:
/// if the total of an equation is open, none of its parts is closed, or all of them are (their sum is the
/// total, which passes), or at least two, one of them `strong`. Then the sum of the closed parts passes, too.
/// If the total is closed, at least one part is. At the end no closed number is a linear combination of open
/// ones.
pub(super) fn open(passes: &[bool], strong: &[bool], equations: &[Equation]) -> Vec<bool> {
    let mut open = passes.to_vec();
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); passes.len()];
    for (at, equation) in equations.iter().enumerate() {
        equation.parts.iter().chain([&equation.total]).for_each(|&number| of[number].push(at));
    }
    let spoiled = |open: &[bool], at: usize| {
        let Equation { total, parts } = &equations[at];
        let closed = || parts.iter().filter(|&&part| !open[part]);
        match open[*total] {
            _ if parts.is_empty() => false,
            false => closed().count() == 0,
            true => match closed().count() {
                0 => false,
                1 => true,
                some => some < parts.len() && !closed().any(|&part| strong[part]),
            },
        }
    };
    // Closes the part that is in most other equations with closed numbers, or the total.
    let close = |open: &mut Vec<bool>, at: usize| {
        let Equation { total, parts } = &equations[at];
        let crossing = |part: usize| {
            let closed = |&&other: &&usize| {
                let Equation { total, parts } = &equations[other];
                other != at && (parts.iter().chain([total]).any(|&number| !open[number]))
            };
            of[part].iter().filter(closed).count()
        };
        let candidates = parts.iter().copied().filter(|&part| open[part] && strong[part]);
        let best = candidates.max_by_key(|&part| (crossing(part), std::cmp::Reverse(part)));
        let any = || parts.iter().copied().find(|&part| open[part]);
        let chosen = best.or(open[*total].then_some(*total)).or_else(any);
        chosen.inspect(|&number| open[number] = false).is_some()
    };
    loop {
        let mut changed = false;
        for at in 0..equations.len() {
            while spoiled(&open, at) && close(&mut open, at) {
                changed = true;
            }
        }
        if changed {
            continue;
        }
        let Some(found) = determined(&open, equations) else { return open };
        if !of[found].iter().any(|&at| close(&mut open, at)) {
            open.fill(false);
        }
    }
}

/// Prime for elimination, 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;

/// Returns a closed number that follows from open ones by linear equations.
pub(super) fn determined(open: &[bool], equations: &[Equation]) -> Option<usize> {
    type Row = BTreeMap<usize, u64>;
    let product = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64;
    let inverse = |x: u64| {
        let (mut result, mut base, mut power) = (1, x, PRIME - 2);
        while power > 0 {
            if power & 1 == 1 {
                result = product(result, base);
            }
            base = product(base, base);
            power >>= 1;
        }
        result
    };
    // Subtracts the multiple of `other` that removes the entry at its first column.
    let subtract = |row: &mut Row, other: &Row, column: usize| {
        let Some(factor) = row.get(&column).copied() else { return };
        for (&at, &value) in other {
            let entry = row.entry(at).or_default();
            *entry = (*entry + PRIME - product(factor, value)) % PRIME;
            if *entry == 0 {
                row.remove(&at);
            }
        }
    };
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for Equation { total, parts } in equations {
        let parts = parts.iter().map(|&part| (part, 1)).chain([(*total, PRIME - 1)]);
        let mut row: Row = parts.filter(|&(number, _)| !open[number]).collect();
        let mut from = 0;
        while let Some((&column, _)) = row.range(from..).next() {
            if let Some(other) = rows.get(&column) {
                subtract(&mut row, other, column);
            }
            from = column + 1;
        }
        if let Some((&first, &value)) = row.first_key_value() {
            let scale = inverse(value);
            row.values_mut().for_each(|value| *value = product(*value, scale));
            rows.insert(first, row);
        }
    }
    let mut reduced: BTreeMap<usize, Row> = BTreeMap::new();
    while let Some((first, mut row)) = rows.pop_last() {
        let later: Vec<usize> = row.keys().copied().filter(|column| reduced.contains_key(column)).collect();
        for column in later {
            subtract(&mut row, &reduced[&column], column);
        }
        reduced.insert(first, row);
    }
    reduced.into_iter().find(|(_, row)| row.len() == 1).map(|(first, _)| first)
}
