//! The tables of a session: their cells, the equations between cells, and which cells stay closed.
//!
//! A table is a set of *cells*. Each cell is a number of rows: of all rows, of the rows with one level of a
//! column, or of the rows with one level of each of two columns. If a column allows missing values, they are
//! one more level. A *measure* is the sum and the sum of squares of a column of numbers, over all rows or
//! over the rows of one group. If two cells are always equal, they are stored as one. If two columns group
//! the rows, the combinations of their levels are the levels of an additional column, which comes last.

use std::collections::BTreeMap;

use flyswarm_glm::MOST_STEPS;
use flyswarm_mpc::shares::cells::{BUCKETS, Opened, Rule};
use flyswarm_mpc::shares::quantiles::{QUANTILES, Scale};

use super::columns::{Variable, variables};
use super::spec::SummarySpec;
use super::suppress::{Equation, open};
use crate::session::DataSpec;
use crate::tasks::common::variables::{Refusal, bucket};

/// Largest number of cells of a session.
pub(super) const MOST_CELLS: usize = 10_000;
/// Largest number of values of a column with quantiles.
pub(super) const MOST_VALUES: i64 = 1 << 14;
/// Largest number of words of all histograms of an owner.
pub(super) const MOST_HISTOGRAMS: usize = 1 << 19;
/// Name of the level of missing values.
pub(super) const MISSING: &str = "missing";

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
    /// Cell that counts the rows of the sum.
    cell: usize,
}

/// Number of rows with each value of a column, among all rows or those of one group. Values outside the range
/// count as the nearest end of the range.
#[derive(Clone, Copy, Debug)]
struct Histogram {
    variable: usize,
    group: Option<usize>,
    low: i64,
    values: usize,
}

/// Quantiles of a measure.
#[derive(Clone, Debug)]
struct Quantiles {
    measure: usize,
    low: i64,
    /// Number of bits of a value minus `low`.
    bits: u32,
    /// Histograms that together count the rows of the measure.
    histograms: Vec<usize>,
}

/// All tables of a session.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) variables: Vec<Variable>,
    /// The column whose levels are the groups: the grouping column, or the additional column for two grouping
    /// columns.
    pub(super) by: Option<usize>,
    /// The grouping columns.
    pub(super) grouping: Vec<usize>,
    /// Tables with the groups first, then those of `[[summary.table]]`.
    pub(super) tables: Vec<Table>,
    /// First cell of each column with more than one level.
    firsts: Vec<usize>,
    /// For each cell, whether it counts missing values.
    missing: Vec<bool>,
    measures: Vec<Measure>,
    histograms: Vec<Histogram>,
    /// Quantiles, sorted by their number of bits and then in the order of the measures.
    quantiles: Vec<Quantiles>,
}

/// A column of numbers.
struct Number {
    variable: usize,
    /// Measures of this column: over all rows, then over each group.
    measures: Vec<usize>,
    /// Histograms of this column, each with its first word. There is one for each group, or one for all rows
    /// if there are no groups.
    histograms: Vec<(usize, Histogram)>,
}

impl Layout {
    /// Returns the tables of a session.
    ///
    /// # Errors
    /// The field of the session file that does not fit.
    pub(super) fn new(spec: &SummarySpec, data: &DataSpec) -> Result<Self, Refusal> {
        let mut variables = variables(spec, data)?;
        let place = |variables: &[Variable], field: &str, name: &str| {
            let found = variables.iter().position(|variable| variable.name == name);
            found.ok_or_else(|| {
                (field.to_owned(), format!("{name:?}"), "a column of summary.columns".to_owned())
            })
        };
        let mut grouping = Vec::new();
        for name in &spec.by {
            let at = place(&variables, "summary.by", name)?;
            if variables[at].is_number() || grouping.contains(&at) {
                let limit = "one or two different categories or ordinals".to_owned();
                return Err(("summary.by".to_owned(), format!("{name:?}"), limit));
            }
            grouping.push(at);
        }
        if grouping.len() > 2 {
            return Err(("the length of summary.by".into(), grouping.len().to_string(), "at most 2".into()));
        }
        let numbers = spec.grids.keys().map(|name| ("summary.grids", name));
        for (field, name) in numbers.chain(spec.ranges.keys().map(|name| ("summary.ranges", name))) {
            if !variables[place(&variables, field, name)?].is_number() {
                return Err((field.to_owned(), format!("{name:?}"), "a column of numbers".to_owned()));
            }
        }
        let columns = variables.len();
        let by = match grouping[..] {
            [one, two] => {
                variables.push(Variable::both(&variables, [one, two]));
                Some(columns)
            }
            _ => grouping.first().copied(),
        };
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        if let Some(by) = by {
            pairs.extend((0..columns).filter(|at| !grouping.contains(at)).map(|at| (at, by)));
        }
        for table in &spec.table {
            let [rows, columns] =
                [&table.rows, &table.columns].map(|name| place(&variables, "summary.table", name));
            let (rows, columns) = (rows?, columns?);
            let twice = pairs.iter().any(|&pair| pair == (rows, columns) || pair == (columns, rows))
                || grouping.len() == 2 && grouping.contains(&rows) && grouping.contains(&columns);
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
        let (measures, histograms, quantiles) = Default::default();
        let mut layout =
            Self { variables, by, grouping, tables, firsts, missing, measures, histograms, quantiles };
        layout.measures = layout.all_measures();
        layout.add_quantiles(spec)?;
        Ok(layout)
    }

    /// Adds the histograms and quantiles of `summary.ranges`.
    fn add_quantiles(&mut self, spec: &SummarySpec) -> Result<(), Refusal> {
        for variable in 0..self.variables.len() {
            let Variable { name, .. } = &self.variables[variable];
            let (Some(&[low, high]), Some(grid)) = (spec.ranges.get(name), self.variables[variable].grid())
            else {
                continue;
            };
            let [low, high] = [low, high].map(|end| (end / grid).round_ties_even() as i64);
            let values = high.saturating_sub(low).saturating_add(1);
            if !(2..=MOST_VALUES).contains(&values) || low.abs().max(high.abs()) > MOST_STEPS {
                let limit = format!(
                    "2 to {MOST_VALUES} multiples of the grid ({grid}), each at most {MOST_STEPS} times the grid away \
                     from 0; a larger grid in summary.grids allows a wider range"
                );
                return Err((format!("summary.ranges, {name:?}"), values.to_string(), limit));
            }
            let bits = (values as u64).next_power_of_two().trailing_zeros();
            let values = values as usize;
            let first = self.histograms.len();
            let measures =
                self.measures.iter().enumerate().filter(|(_, measure)| measure.variable == variable);
            let measures: Vec<(usize, Option<usize>)> = measures.map(|(at, each)| (at, each.group)).collect();
            let groups = measures.iter().filter(|(_, group)| measures.len() == 1 || group.is_some());
            self.histograms.extend(groups.map(|&(_, group)| Histogram { variable, group, low, values }));
            let all: Vec<usize> = (first..self.histograms.len()).collect();
            for (measure, group) in measures {
                let histograms = group.map_or_else(|| all.clone(), |group| vec![first + group]);
                self.quantiles.push(Quantiles { measure, low, bits, histograms });
            }
        }
        self.quantiles.sort_by_key(|quantiles| quantiles.bits);
        let words: usize = self.histograms.iter().map(|histogram| histogram.values).sum();
        if words > MOST_HISTOGRAMS {
            let limit = format!(
                "at most {MOST_HISTOGRAMS}; fewer columns in summary.ranges, or larger grids, need fewer values"
            );
            return Err(("the number of values of all quantiles".to_owned(), words.to_string(), limit));
        }
        Ok(())
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

    /// Returns the number of columns of the session.
    pub(super) fn columns(&self) -> usize {
        self.variables.len() - usize::from(self.grouping.len() == 2)
    }

    /// Returns the number of cells.
    pub(super) fn cells(&self) -> usize {
        self.missing.len()
    }

    /// Returns the index of a measure.
    pub(super) fn measure(&self, variable: usize, group: Option<usize>) -> Option<usize> {
        self.measures.iter().position(|measure| measure.variable == variable && measure.group == group)
    }

    /// Returns the conditions that cells and measures must meet.
    pub(super) fn rule(&self, spec: &SummarySpec, contributors: u16) -> Rule {
        Rule {
            threshold: spec.threshold,
            first: 0,
            contributors: contributors.max(1).into(),
            rest: spec.rest,
            empty_passes: self.missing.clone(),
            measures: self.measures.iter().map(|measure| measure.cell).collect(),
            histograms: self.histograms.iter().map(|histogram| histogram.values).collect(),
            scales: self.scales(),
        }
    }

    fn scales(&self) -> Vec<Scale> {
        let scale = |same: &[Quantiles]| Scale {
            bits: same[0].bits,
            measures: same.iter().map(|quantiles| quantiles.histograms.clone()).collect(),
        };
        self.quantiles.chunk_by(|one, two| one.bits == two.bits).map(scale).collect()
    }

    /// Returns the position of a measure's first quantile among all quantiles, and the smallest value of the
    /// range.
    pub(super) fn first_quantile(&self, measure: usize) -> Option<(usize, i64)> {
        let at = self.quantiles.iter().position(|quantiles| quantiles.measure == measure)?;
        Some((QUANTILES.len() * at, self.quantiles[at].low))
    }

    /// Returns the words of these rows: cells, buckets of measures, sums and sums of squares, histograms.
    ///
    /// # Errors
    /// A line that names a value that does not fit.
    pub(super) fn words<'a>(&self, rows: impl Iterator<Item = &'a [f32]>) -> Result<Vec<u64>, String> {
        let (cells, measures) = (self.cells(), self.measures.len());
        let sums = cells + BUCKETS * measures;
        let values: usize = self.histograms.iter().map(|histogram| histogram.values).sum();
        let mut words = vec![0u64; sums + 2 * measures + values];
        let mut numbers: Vec<Number> = Vec::new();
        for (at, measure) in self.measures.iter().enumerate() {
            let variable = measure.variable;
            match numbers.last_mut().filter(|number| number.variable == variable) {
                Some(number) => number.measures.push(at),
                None => numbers.push(Number { variable, measures: vec![at], histograms: Vec::new() }),
            }
        }
        let mut first = sums + 2 * measures;
        for &histogram in &self.histograms {
            let own = numbers.iter_mut().find(|number| number.variable == histogram.variable);
            own.into_iter().for_each(|number| number.histograms.push((first, histogram)));
            first += histogram.values;
        }
        let counts: Vec<usize> = self.variables.iter().map(Variable::count).collect();
        let tables = self.tables.iter().filter(|table| counts[table.rows] > 1 && counts[table.columns] > 1);
        let tables: Vec<&Table> = tables.collect();
        let mut levels: Vec<(usize, i64)> = Vec::with_capacity(self.variables.len());
        for row in rows {
            levels.clear();
            for variable in &self.variables {
                levels.push(variable.value(row, &levels)?);
            }
            words[0] += 1;
            for ((&first, &count), (level, _)) in self.firsts.iter().zip(&counts).zip(&levels) {
                if count > 1 {
                    words[first + level] += 1;
                }
            }
            for table in &tables {
                words
                    [table.first + levels[table.rows].0 * counts[table.columns] + levels[table.columns].0] +=
                    1;
            }
            let group = self.by.map_or(0, |by| levels[by].0);
            for Number { variable, measures, histograms } in &numbers {
                let (level, steps) = levels[*variable];
                if level > 0 {
                    continue;
                }
                for &number in measures.first().into_iter().chain(measures.get(1 + group)) {
                    words[cells + BUCKETS * number + bucket(steps)] += 1;
                    let sum = sums + 2 * number;
                    words[sum] = words[sum].wrapping_add(steps as u64);
                    words[sum + 1] += (steps * steps) as u64;
                }
                let grouped = histograms.first().is_some_and(|(_, histogram)| histogram.group.is_some());
                if let Some((first, Histogram { low, values, .. })) =
                    histograms.get(if grouped { group } else { 0 })
                {
                    words[first + (steps - low).clamp(0, *values as i64 - 1) as usize] += 1;
                }
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
        // The cells of the combined levels add up to the cells of each of the two grouping columns. This is
        // true over all rows, and in each table of one of these columns.
        if let ([one, two], Some(both)) = (&self.grouping[..], self.by) {
            for (column, others) in [(*one, *two), (*two, *one)] {
                let others = self.variables[others].count();
                let seconds = self.variables[*two].count();
                let group = |level: usize, other: usize| match column == *one {
                    true => level * seconds + other,
                    false => other * seconds + level,
                };
                let levels = self.variables[column].count();
                equations.extend((0..levels).filter(|_| levels > 1).map(|level| Equation {
                    total: self.one(column, level),
                    parts: (0..others).map(|other| self.one(both, group(level, other))).collect(),
                }));
                for table in
                    self.tables.iter().filter(|table| table.columns == column || table.rows == column)
                {
                    let turned = table.rows == column;
                    let other = if turned { table.columns } else { table.rows };
                    let of_both = self.tables.iter().find(|each| (each.rows, each.columns) == (other, both));
                    let rows = self.variables[other].count();
                    let Some(of_both) = of_both.filter(|_| rows > 1 && levels > 1) else { continue };
                    let all = (0..rows).flat_map(|row| (0..levels).map(move |level| (row, level)));
                    equations.extend(all.map(|(row, level)| Equation {
                        total: if turned { self.two(table, level, row) } else { self.two(table, row, level) },
                        parts: (0..others).map(|other| self.two(of_both, row, group(level, other))).collect(),
                    }));
                }
            }
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

    /// Returns which cells and measures are opened. This follows from the pattern alone, so all peers get the
    /// same answer.
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
        let of_measure = |at: usize| &self.quantiles[at / QUANTILES.len()];
        let quantiles = pattern.quantiles.iter().enumerate();
        let quantiles =
            quantiles.map(|(at, passes)| *passes && cells[self.measures[of_measure(at).measure].cell]);
        Opened { quantiles: quantiles.collect(), cells, measures }
    }
}
