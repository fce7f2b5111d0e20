//! The design of a model: its columns, and the cells that are checked before any number is opened.
//!
//! A *factor* is a column whose rows are counted by level: a category, an ordinal, a binary outcome. A
//! *number* is any other column. A round opens a sum for every two terms of the model, and for each
//! combination of levels of the factors in them. So the factors of every two terms form a *table*, and each
//! combination of levels is a *cell* of it, which is checked. In each cell, every number of the two terms is
//! checked too, and the product of all these numbers.

mod determined;

use std::collections::BTreeMap;

use flyswarm_glm::{Column, Family, MOST_COUNT, MOST_OFFSET, MOST_STEPS, MOST_WEIGHT, Rows, first_weight};
use flyswarm_mpc::shares::cells::{BUCKETS, Opened, Rule};

use self::determined::Entry;
use super::spec::GlmSpec;
use crate::session::DataSpec;
use crate::tasks::common::variables::{
    Refusal, Source, SourceKind, Value, Variable, bucket, refusal, sources, split,
};

/// Most columns of a design, with the intercept.
const MOST_COLUMNS: usize = 100;
/// Largest number of cells, and of measures, in a check.
const MOST_CELLS: usize = 10_000;
const MOST_MEASURES: usize = 4_000;
/// Largest number of cells that an error text names.
const NAMED: usize = 5;
/// Name of the first column of the design.
const INTERCEPT: &str = "intercept";

/// A part of a column of the design. The value of the column is the product of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// 1 for the rows with this level, otherwise 0.
    Is(usize, usize),
    /// The position of the level.
    Score(usize),
    /// The number of steps of the grid.
    Number(usize),
}

/// A set of factors. Each of its cells is the number of rows with one level of each factor.
#[derive(Clone, Debug)]
struct Table {
    factors: Vec<usize>,
    first: usize,
}

/// A product of numbers, summed over the rows of a cell.
#[derive(Clone, Debug)]
struct Measure {
    variables: Vec<usize>,
    table: usize,
    cell: usize,
}

/// A row of the design.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DesignRow {
    pub(super) columns: Vec<i32>,
    pub(super) outcome: f64,
    pub(super) offset: f64,
    pub(super) weight: f64,
}

/// The design of a model.
#[derive(Clone, Debug)]
pub(super) struct Design {
    family: Family,
    variables: Vec<Variable>,
    outcome: usize,
    /// Level of the outcome that is the event.
    event: usize,
    offset: Option<usize>,
    weights: Option<usize>,
    columns: Vec<(Column, Vec<Part>)>,
    tables: Vec<Table>,
    cells: usize,
    measures: Vec<Measure>,
    /// Entries of the first round that the check determines.
    pub(super) entries: Vec<Entry>,
}

impl Design {
    /// Makes the design of a session.
    ///
    /// # Errors
    /// The field of the session file that does not fit.
    pub(super) fn new(spec: &GlmSpec, data: &DataSpec) -> Result<Self, Refusal> {
        let sources = sources("glm", data)?;
        let family = spec.family().ok_or_else(|| {
            refusal("glm.family", format!("{:?}", spec.family), "\"linear\", \"logistic\" or \"poisson\"")
        })?;
        let mut build = Builder { spec, sources: &sources, variables: Vec::new() };
        let outcome = build.outcome(family)?;
        let event = build.event(family, outcome)?;
        let number = |build: &mut Builder<'_>, field: &str, name: &Option<String>| {
            let Some(name) = name else { return Ok(None) };
            let at = build.variable(field, name)?;
            match build.variables[at].is_factor() {
                true => Err(refusal(field, format!("{name:?}"), "a column of numbers")),
                false => Ok(Some(at)),
            }
        };
        let offset = number(&mut build, "glm.offset", &spec.offset)?;
        let weights = number(&mut build, "glm.weights", &spec.weights)?;
        let taken: Vec<String> = build.variables.iter().map(|each| each.source.name.clone()).collect();
        let terms = match spec.terms.is_empty() {
            false => spec.terms.clone(),
            true => {
                sources.iter().map(|each| each.name.clone()).filter(|name| !taken.contains(name)).collect()
            }
        };
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for (at, term) in terms.iter().enumerate() {
            let names = split(term, &sources);
            let limit = "columns of the session, or two different ones with a colon between them, each term once; not \
                         the outcome, the offset or the weights";
            let fits = (1..=2).contains(&names.len())
                && !terms[..at].contains(term)
                && !names.iter().any(|name| taken.iter().any(|taken| taken == name))
                && (names.len() == 1 || names[0] != names[1]);
            if !fits {
                return Err(refusal("glm.terms", format!("{term:?}"), limit));
            }
            let found =
                names.iter().map(|name| build.variable("glm.terms", name)).collect::<Result<Vec<_>, _>>()?;
            sets.push(found);
        }
        build.check_names()?;
        let variables = build.variables;
        let mut columns = vec![(Column { name: INTERCEPT.to_owned(), step: 1.0 }, Vec::new())];
        for set in &sets[1..] {
            columns.extend(expand(set, &variables, &spec.reference)?);
        }
        if columns.len() > MOST_COLUMNS {
            let limit = format!("at most {MOST_COLUMNS}, with the intercept");
            return Err(refusal("the number of columns of the model", columns.len(), &limit));
        }
        let mut design = Self {
            family,
            variables,
            outcome,
            event,
            offset,
            weights,
            columns,
            tables: Vec::new(),
            cells: 0,
            measures: Vec::new(),
            entries: Vec::new(),
        };
        design.lay_out(&sets)?;
        design.entries = design.determined();
        Ok(design)
    }

    /// Lists the tables and measures for every two terms, and for every term with the outcome or the offset.
    fn lay_out(&mut self, terms: &[Vec<usize>]) -> Result<(), Refusal> {
        let mut pairs: Vec<Vec<usize>> = Vec::new();
        for (at, one) in terms.iter().enumerate() {
            pairs.extend(terms[at..].iter().map(|two| [&one[..], two].concat()));
            let others = [Some(self.outcome), self.offset].into_iter().flatten();
            pairs.extend(others.map(|other| [&one[..], &[other]].concat()));
        }
        let mut wanted: Vec<(Vec<usize>, Vec<Vec<usize>>)> = Vec::new();
        for pair in pairs {
            let (mut factors, mut product): (Vec<_>, Vec<_>) =
                pair.into_iter().partition(|&at| self.variables[at].is_factor());
            for list in [&mut factors, &mut product] {
                list.sort_unstable();
                list.dedup();
            }
            let mut numbers: Vec<Vec<usize>> =
                product.iter().copied().chain(self.weights).map(|at| vec![at]).collect();
            if product.len() > 1 {
                numbers.push(product);
            }
            match wanted.iter_mut().find(|(known, _)| *known == factors) {
                Some((_, known)) => known.extend(numbers),
                None => wanted.push((factors, numbers)),
            }
        }
        for (factors, mut numbers) in wanted {
            let size: usize =
                factors.iter().map(|&at| self.variables[at].levels().len()).fold(1, usize::saturating_mul);
            let (table, first) = (self.tables.len(), self.cells);
            self.cells = self.cells.saturating_add(size);
            self.tables.push(Table { factors, first });
            numbers.sort_unstable();
            numbers.dedup();
            if self.cells > MOST_CELLS || self.measures.len() + numbers.len() * size > MOST_MEASURES {
                let limit = format!(
                    "at most {MOST_CELLS} cells of every two terms, and {MOST_MEASURES} numbers in them; use fewer \
                     terms or levels"
                );
                return Err(refusal("the number of cells of the model", "larger", &limit));
            }
            for variables in numbers {
                let measure = |cell| Measure { variables: variables.clone(), table, cell };
                self.measures.extend((first..self.cells).map(measure));
            }
        }
        Ok(())
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        self.columns.iter().map(|(column, _)| column.clone()).collect()
    }

    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Returns the step of the outcome.
    pub(super) fn outcome_step(&self) -> f64 {
        if self.family == Family::Linear { self.variables[self.outcome].grid } else { 1.0 }
    }

    /// Returns the name of the outcome, with the event.
    pub(super) fn outcome_name(&self) -> String {
        let outcome = &self.variables[self.outcome];
        match outcome.levels().get(self.event) {
            Some(event) => format!("{}={event}", outcome.source.name),
            None => outcome.source.name.clone(),
        }
    }

    pub(super) fn has_weights(&self) -> bool {
        self.weights.is_some()
    }

    pub(super) fn has_offset(&self) -> bool {
        self.offset.is_some()
    }

    /// Returns the smallest number of rows that the model needs.
    pub(super) fn least_rows(&self) -> u32 {
        (10 * self.width()).max(self.width() + 10) as u32
    }

    /// Returns the conditions that cells and numbers must meet.
    pub(super) fn rule(&self, spec: &GlmSpec, contributors: u16) -> Rule {
        Rule {
            threshold: spec.threshold,
            first: self.least_rows(),
            contributors: contributors.max(1).into(),
            rest: spec.rest,
            empty_passes: vec![false; self.cells],
            measures: self.measures.iter().map(|measure| measure.cell).collect(),
            ..Rule::default()
        }
    }

    /// Returns the values of a row, or `None` if one of them is missing.
    pub(super) fn values(&self, row: &[f32]) -> Result<Option<Vec<Value>>, String> {
        self.variables.iter().map(|variable| variable.value(row)).collect()
    }

    fn cell(&self, table: &Table, values: &[Value]) -> usize {
        let place = table.factors.iter().fold(0, |place, &at| match values[at] {
            Value::Level(level) => place * self.variables[at].levels().len() + level,
            Value::Steps(_) => place,
        });
        table.first + place
    }

    /// Returns a row of the design.
    ///
    /// # Errors
    /// A line that names a value that does not fit.
    pub(super) fn row_of(&self, values: &[Value]) -> Result<DesignRow, String> {
        let number = |at: usize| match values[at] {
            Value::Steps(steps) => steps as f64 * self.variables[at].grid,
            Value::Level(level) => f64::from(u8::from(level == self.event)),
        };
        let mut columns = Vec::with_capacity(self.width());
        for (column, parts) in &self.columns {
            let mut product = 1i64;
            for part in parts {
                let factor = match (*part, values[part.variable()]) {
                    (Part::Is(_, wanted), Value::Level(level)) => i64::from(level == wanted),
                    (_, Value::Level(level)) => level as i64,
                    (_, Value::Steps(steps)) => steps,
                };
                product *= factor;
            }
            if product.abs() > MOST_STEPS {
                return Err(format!(
                    "term {:?}: a product is more than {MOST_STEPS} steps; a larger grid in [glm.grids] allows larger \
                     values",
                    column.name
                ));
            }
            columns.push(product as i32);
        }
        let name = |at: usize| &self.variables[at].source.name;
        let weight = self.weights.map_or(1.0, number);
        if let Some(at) = self.weights
            && !(weight > 0.0 && weight <= MOST_WEIGHT)
        {
            return Err(format!(
                "column {:?}: the weight of a row is {weight}, must be above 0 and at most {MOST_WEIGHT}",
                name(at)
            ));
        }
        let outcome = match (self.family, values[self.outcome]) {
            (Family::Linear, Value::Steps(steps)) => steps as f64,
            _ => number(self.outcome),
        };
        let whole = outcome >= 0.0 && outcome * weight <= MOST_COUNT && outcome.fract() == 0.0;
        if self.family == Family::Poisson && !whole {
            return Err(format!(
                "column {:?}: the outcome of a row is {outcome}, must be a whole number from 0 to {MOST_COUNT}, also \
                 when its weight multiplies it",
                name(self.outcome)
            ));
        }
        let offset = self.offset.map_or(0.0, number) / self.outcome_step();
        let most = if self.family == Family::Linear { MOST_STEPS as f64 } else { MOST_OFFSET };
        if let Some(at) = self.offset
            && offset.abs() > most
        {
            return Err(format!(
                "column {:?}: the offset of a row is more than {}",
                name(at),
                most * self.outcome_step()
            ));
        }
        Ok(DesignRow { columns, outcome, offset, weight })
    }

    /// Returns the words of these rows for the check, and the rows that the model uses. Each row gives its
    /// words and its row of the design from the same values.
    ///
    /// # Errors
    /// A line that names a value that does not fit.
    pub(super) fn words<'a>(
        &self,
        rows: impl Iterator<Item = &'a [f32]>,
    ) -> Result<(Vec<u64>, Rows), String> {
        let mut words = vec![0u64; self.cells + (BUCKETS + 2) * self.measures.len()];
        // A product of numbers has one measure for each cell of its table, and these measures follow one
        // another.
        let first = |(_, measure): &(usize, &Measure)| measure.cell == self.tables[measure.table].first;
        let firsts: Vec<(usize, &Measure)> = self.measures.iter().enumerate().filter(first).collect();
        let sums = self.cells + BUCKETS * self.measures.len();
        let mut used = Rows::new(self.width());
        for row in rows {
            let Some(values) = self.values(row)? else { continue };
            let own = self.row_of(&values)?;
            used.push(&own.columns, [own.outcome, own.offset, own.weight]);
            let cells: Vec<usize> = self.tables.iter().map(|table| self.cell(table, &values)).collect();
            cells.iter().for_each(|&cell| words[cell] += 1);
            let weight = self.weights.map_or(1, |_| first_weight(own.weight));
            let steps = |value: &Value| if let Value::Steps(steps) = value { *steps } else { 1 };
            let steps: Vec<i64> = values.iter().map(steps).collect();
            for &(number, Measure { variables, table, cell }) in &firsts {
                let steps = variables.iter().fold(1i64, |product, &at| product.wrapping_mul(steps[at]));
                let measure = number + cells[*table] - cell;
                words[self.cells + BUCKETS * measure + bucket(steps)] += 1;
                // The measure of the weights alone sums the weights as the first matrix has them.
                let steps = if self.weights == Some(variables[0]) { 1 } else { steps as u64 };
                let mut sum = weight;
                for word in &mut words[sums + 2 * measure..][..2] {
                    sum = sum.wrapping_mul(steps);
                    *word = word.wrapping_add(sum);
                }
            }
        }
        Ok((words, used))
    }

    /// Returns the name of a cell, such as `sex=f and died=1`.
    fn cell_name(&self, cell: usize) -> String {
        let table = self.tables.iter().rev().find(|table| table.first <= cell);
        let Some(table) = table.filter(|table| !table.factors.is_empty()) else {
            return "all rows".to_owned();
        };
        let (mut place, mut names) = (cell - table.first, Vec::new());
        for &at in table.factors.iter().rev() {
            let levels = self.variables[at].levels();
            names.push(format!("{}={}", self.variables[at].source.name, levels[place % levels.len()]));
            place /= levels.len();
        }
        names.reverse();
        names.join(" and ")
    }

    /// Returns the names of the cells and numbers that are not allowed, or `None` if all are allowed.
    pub(super) fn refused(&self, pattern: &Opened) -> Option<String> {
        let cells = (0..self.cells).filter(|&cell| pattern.cells.get(cell) != Some(&true));
        let small: Vec<usize> = cells.collect();
        // A number in a small cell is not named separately.
        let measures = self.measures.iter().enumerate().filter(|(at, measure)| {
            pattern.measures.get(*at) != Some(&true) && !small.contains(&measure.cell)
        });
        let numbers = measures.map(|(_, measure)| {
            let names: Vec<_> =
                measure.variables.iter().map(|&at| &*self.variables[at].source.name).collect();
            let name = names.join(" times ");
            format!("{name} off its commonest value in {}", self.cell_name(measure.cell))
        });
        let named = |&cell: &usize| match cell {
            0 => format!("all rows (at least {} for {} columns)", self.least_rows(), self.width()),
            _ => self.cell_name(cell),
        };
        let all: Vec<String> = small.iter().map(named).chain(numbers).collect();
        let more = all.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("{}{more}", all[..all.len().min(NAMED)].join("; ")))
    }

    /// Returns the number of cells, for `session show`.
    pub(super) fn cells(&self) -> usize {
        self.cells
    }
}

impl Part {
    fn variable(self) -> usize {
        match self {
            Self::Is(at, _) | Self::Score(at) | Self::Number(at) => at,
        }
    }
}

/// Returns the columns of the design that a term has.
fn expand(
    set: &[usize],
    variables: &[Variable],
    reference: &BTreeMap<String, String>,
) -> Result<Vec<(Column, Vec<Part>)>, Refusal> {
    let mut columns = vec![(Column { name: String::new(), step: 1.0 }, Vec::new())];
    for &at in set {
        let Variable { source, grid } = &variables[at];
        let own: Vec<(String, f64, Part)> = match &source.kind {
            SourceKind::Category(levels) => {
                let reference = reference.get(&source.name).or(levels.first());
                let others = levels.iter().enumerate().filter(|(_, level)| Some(*level) != reference);
                others
                    .map(|(level, name)| (format!("{}={name}", source.name), 1.0, Part::Is(at, level)))
                    .collect()
            }
            SourceKind::Binary | SourceKind::Ordinal(_) => vec![(source.name.clone(), 1.0, Part::Score(at))],
            SourceKind::Number | SourceKind::Date => vec![(source.name.clone(), *grid, Part::Number(at))],
        };
        if own.is_empty() {
            let limit = "a category with at least two levels";
            return Err(refusal("glm.terms", format!("{:?}", source.name), limit));
        }
        let product = |(column, parts): &(Column, Vec<Part>), (name, step, part): &(String, f64, Part)| {
            let joined =
                if column.name.is_empty() { name.clone() } else { format!("{}:{name}", column.name) };
            let parts = parts.iter().copied().chain([*part]).collect();
            (Column { name: joined, step: column.step * step }, parts)
        };
        columns = columns.iter().flat_map(|column| own.iter().map(move |own| product(column, own))).collect();
    }
    Ok(columns)
}

struct Builder<'a> {
    spec: &'a GlmSpec,
    sources: &'a [Source],
    variables: Vec<Variable>,
}

impl Builder<'_> {
    /// Returns the index of a column's variable. Adds the variable if it is new.
    fn variable(&mut self, field: &str, name: &str) -> Result<usize, Refusal> {
        if let Some(at) = self.variables.iter().position(|variable| variable.source.name == name) {
            return Ok(at);
        }
        let source = self.sources.iter().find(|source| source.name == name);
        let source =
            source.ok_or_else(|| refusal(field, format!("{name:?}"), "a column of the session"))?.clone();
        if source.fills {
            let limit = "none, or a fill with indicator = true, or fill = \"\" of a category: a regression leaves rows with \
                         missing values out and does not fill them";
            return Err(refusal(&format!("fill of column {name:?}"), "given", limit));
        }
        let grid = self.spec.grids.get(name).copied().unwrap_or(self.spec.grid);
        self.variables.push(Variable::new(source, grid));
        Ok(self.variables.len() - 1)
    }

    fn outcome(&mut self, family: Family) -> Result<usize, Refusal> {
        let name = &self.spec.outcome;
        let at = self.variable("glm.outcome", name)?;
        let Variable { source, grid } = &mut self.variables[at];
        let levels = match &source.kind {
            SourceKind::Category(levels) | SourceKind::Ordinal(levels) => Some(levels.len()),
            _ => None,
        };
        match (family, levels) {
            (Family::Logistic, Some(2)) | (Family::Linear, None) => {}
            (Family::Logistic, None) if source.kind == SourceKind::Number => source.kind = SourceKind::Binary,
            (Family::Poisson, None) => *grid = 1.0,
            (Family::Logistic, _) => {
                return Err(refusal(
                    "glm.outcome",
                    format!("{name:?}"),
                    "a category of two levels, or numbers 0 and 1",
                ));
            }
            _ => return Err(refusal("glm.outcome", format!("{name:?}"), "a column of numbers")),
        }
        Ok(at)
    }

    fn event(&self, family: Family, outcome: usize) -> Result<usize, Refusal> {
        let levels = self.variables[outcome].levels();
        let Some(event) = &self.spec.event else { return Ok(1) };
        let found = levels.iter().position(|level| level == event).filter(|_| family == Family::Logistic);
        let limit = match family {
            Family::Logistic => format!("a level of the outcome: {}", levels.join(", ")),
            _ => "absent unless glm.family is \"logistic\"".to_owned(),
        };
        found.ok_or_else(|| refusal("glm.event", format!("{event:?}"), &limit))
    }

    /// Checks that the columns in `grids` and `reference` are used and are of the right kind.
    fn check_names(&self) -> Result<(), Refusal> {
        let find = |name: &String| self.variables.iter().find(|variable| variable.source.name == *name);
        for name in self.spec.grids.keys() {
            if find(name).is_none_or(Variable::is_factor) {
                return Err(refusal("glm.grids", format!("{name:?}"), "a column of numbers in the model"));
            }
        }
        for (name, level) in &self.spec.reference {
            let fits = find(name).is_some_and(|variable| {
                matches!(&variable.source.kind, SourceKind::Category(levels) if levels.contains(level))
            });
            if !fits {
                let limit = "a level of a category in the model";
                return Err(refusal("glm.reference", format!("{name:?} = {level:?}"), limit));
            }
        }
        Ok(())
    }
}
