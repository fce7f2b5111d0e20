//! The file of the result, and its tables for people.

use flyswarm_data::prepare::value::date;
use flyswarm_mpc::shares::cells::Opened;
use flyswarm_mpc::shares::quantiles::QUANTILES;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::columns::Variable;
use super::difference::{Difference, of_counts, of_means};
use super::spec::SummarySpec;
use super::table::{Layout, MISSING, Table};
use crate::html::day;
use crate::session::Session;
use crate::tasks::common::tables;

/// First field of the result's file.
pub(super) const FORMAT: &str = "flyswarm summary";
/// Mark of a number that stays closed.
const CLOSED: &str = "closed";
/// Name of the column over all rows.
const ALL: &str = "all";

/// File of the result.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    format: String,
    session: String,
    threshold: u32,
    min_contributors: u16,
    rest: u32,
    /// Grouping columns, at most two.
    by: Vec<String>,
    /// "all", then the levels of the grouping column; of two grouping columns, each level of the first with
    /// each level of the second.
    groups: Vec<String>,
    /// Rows of each group, or `None` if the number stays closed.
    rows: Vec<Option<u64>>,
    columns: Vec<Column>,
    tables: Vec<Cross>,
}

/// Statistics of a column, for each group.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    name: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<f64>,
    /// Levels that are counted. Columns of numbers have the level "present", and perhaps "missing".
    levels: Vec<String>,
    /// For each level, the rows of each group.
    counts: Vec<Vec<Option<u64>>>,
    /// For columns of numbers, the moments of each group.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    moments: Vec<Option<Moments>>,
    /// For columns of numbers with a range, for each group: the 5th percentile, the lower quartile, the
    /// median, the upper quartile and the 95th percentile, in steps of the grid.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    quantiles: Vec<[Option<i64>; QUANTILES.len()]>,
}

/// Sum and sum of squares in steps of the grid, mean and standard deviation.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moments {
    n: u64,
    sum: i64,
    squares: u64,
    mean: f64,
    /// Standard deviation with n - 1, or `None` if there is only one row.
    sd: Option<f64>,
}

/// A cross table.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cross {
    rows: String,
    columns: String,
    row_levels: Vec<String>,
    column_levels: Vec<String>,
    counts: Vec<Vec<Option<u64>>>,
}

impl Moments {
    fn new(n: u64, sum: i64, squares: u64, grid: f64) -> Self {
        let mean = sum as f64 / n as f64 * grid;
        // The computation uses whole numbers up to the last division, so that the result does not depend on
        // how the rows are split over the peers. They saturate only if a peer has shared wrong counts.
        let product = |a: i128, b: i128| a.saturating_mul(b);
        let spread = product(n.into(), squares.into()).saturating_sub(product(sum.into(), sum.into()));
        let freedom = product(n.into(), i128::from(n) - 1);
        let sd = (n > 1).then(|| (spread.max(0) as f64 / freedom as f64).sqrt() * grid);
        Self { n, sum, squares, mean, sd }
    }
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| CLOSED.to_owned(), |count| count.to_string())
}

impl File {
    /// Makes the file from the opened numbers. These are the cells, then two sums for each measure.
    pub(super) fn new(
        session: &Session,
        spec: &SummarySpec,
        layout: &Layout,
        open: &Opened,
        numbers: &[u64],
    ) -> Self {
        let open_measures = open.measures.len();
        let cell = |at: usize| numbers.get(at).copied().filter(|_| open.cells.get(at) == Some(&true));
        let names = |levels: Vec<&str>| levels.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let by = layout.by.map(|by| (by, &layout.variables[by]));
        let groups = by.map(|(_, by)| names(by.levels())).unwrap_or_default();
        let rows = (0..groups.len()).filter_map(|group| Some(cell(layout.one(by?.0, group))));
        let rows = std::iter::once(cell(0)).chain(rows).collect();
        let column = |(at, variable): (usize, &Variable)| {
            let table =
                layout.tables.iter().find(|table| table.rows == at && Some(table.columns) == layout.by);
            let counts = |level: usize| {
                let group = |group: usize| Some(cell(layout.two(table?, level, group)));
                let groups = (0..groups.len()).filter_map(group);
                std::iter::once(cell(layout.one(at, level))).chain(groups).collect()
            };
            let counts: Vec<Vec<Option<u64>>> = (0..variable.count()).map(counts).collect();
            let kind = match (variable.is_number(), variable.is_ordinal()) {
                (true, _) => "number",
                (_, true) => "ordinal",
                _ => "category",
            };
            let grid = variable.grid();
            // If there is only one group, its measure is the measure over all rows.
            let measure =
                |group: usize| layout.measure(at, group.checked_sub(1)).or_else(|| layout.measure(at, None));
            let quantiles = |group: usize| -> Option<[Option<i64>; QUANTILES.len()]> {
                let (first, low) = layout.first_quantile(measure(group)?)?;
                let value = |at: usize| {
                    let open = open.quantiles.get(first + at) == Some(&true);
                    let found = numbers.get(layout.cells() + 2 * open_measures + first + at)?;
                    open.then(|| found.cast_signed().saturating_add(low))
                };
                Some(std::array::from_fn(value))
            };
            let moments = |(group, &n): (usize, &Option<u64>)| {
                let measure = measure(group)?;
                let sums = layout.cells() + 2 * measure;
                let (sum, squares) = (numbers.get(sums)?, numbers.get(sums + 1)?);
                let open = open.measures.get(measure) == Some(&true);
                n.filter(|&n| open && n > 0)
                    .map(|n| Moments::new(n, sum.cast_signed(), *squares, grid.unwrap_or(1.0)))
            };
            Column {
                name: variable.name.clone(),
                kind: kind.to_owned(),
                grid,
                levels: names(variable.levels()),
                moments: if grid.is_some() {
                    counts[0].iter().enumerate().map(moments).collect()
                } else {
                    Vec::new()
                },
                quantiles: (0..=groups.len()).filter_map(quantiles).collect(),
                counts,
            }
        };
        let cross = |table: &Table| {
            let [rows, columns] = [table.rows, table.columns].map(|at| &layout.variables[at]);
            let line = |row| (0..columns.count()).map(|at| cell(layout.two(table, row, at))).collect();
            Cross {
                rows: rows.name.clone(),
                columns: columns.name.clone(),
                row_levels: names(rows.levels()),
                column_levels: names(columns.levels()),
                counts: (0..rows.count()).map(line).collect(),
            }
        };
        let extra =
            layout.tables.iter().filter(|table| Some(table.columns) != layout.by || layout.by.is_none());
        let extra: Vec<Cross> = extra.map(cross).collect();
        let not_by = layout.variables.iter().enumerate();
        let not_by = not_by.filter(|(at, _)| Some(*at) != layout.by && !layout.grouping.contains(at));
        Self {
            format: FORMAT.to_owned(),
            session: session.id().to_string(),
            threshold: spec.threshold,
            min_contributors: session.privacy.min_contributors,
            rest: spec.rest,
            by: spec.by.clone(),
            rows,
            columns: not_by.map(column).collect(),
            groups: std::iter::once(ALL.to_owned()).chain(groups.clone()).collect(),
            tables: extra,
        }
    }

    /// Reads the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        // Means and deviations are computed again from the whole numbers, because a JSON reader may round the
        // last digit.
        for column in &mut file.columns {
            let grid = column.grid.unwrap_or(1.0);
            for moments in column.moments.iter_mut().flatten().filter(|moments| moments.n > 0) {
                *moments = Moments::new(moments.n, moments.sum, moments.squares, grid);
            }
        }
        let groups = file.groups.len();
        let fits = |column: &Column| {
            column.counts.len() == column.levels.len()
                && column.counts.iter().all(|counts| counts.len() == groups)
                && (column.moments.is_empty() || column.moments.len() == groups)
                && (column.quantiles.is_empty() || column.quantiles.len() == groups)
        };
        let square = |cross: &Cross| {
            cross.counts.len() == cross.row_levels.len()
                && cross.counts.iter().all(|counts| counts.len() == cross.column_levels.len())
        };
        let whole =
            file.rows.len() == groups && file.columns.iter().all(fits) && file.tables.iter().all(square);
        match whole && file.format == FORMAT {
            true => Ok(file),
            false => Err("not a summary of these groups and levels".into()),
        }
    }

    /// Returns the SHA-256 of the JSON in one line.
    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.json().to_string()).into()
    }

    /// Returns the result as JSON.
    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    /// Returns the positions of the groups that a test compares: the groups whose rows have a level of the
    /// grouping column.
    fn compared(&self) -> Vec<usize> {
        let known = |name: &&String| !name.split(", ").any(|level| level == MISSING);
        let groups = self.groups.iter().enumerate().skip(1);
        groups.filter(|(_, name)| known(name)).map(|(at, _)| at).collect()
    }

    /// Returns the standardised mean difference and the p value of a column, as texts. The texts are empty if
    /// the column has none.
    fn difference(&self, column: &Column) -> [String; 2] {
        let groups = self.compared();
        let (found, closed) = if column.grid.is_some() {
            // Welch's t-test compares exactly two means.
            if groups.len() != 2 {
                return Default::default();
            }
            let group = |&at: &usize| {
                let moments = column.moments.get(at)?.as_ref()?;
                Some((moments.n, moments.mean, moments.sd?))
            };
            let groups: Vec<_> = groups.iter().map(group).collect();
            (of_means(&groups), groups.iter().any(Option::is_none))
        } else {
            let levels = column.levels.iter().zip(&column.counts).filter(|(level, _)| *level != MISSING);
            let level = |(_, counts): (&String, &Vec<Option<u64>>)| -> Vec<Option<u64>> {
                groups.iter().map(|&at| counts[at]).collect()
            };
            let levels: Vec<Vec<Option<u64>>> = levels.map(level).collect();
            (of_counts(&levels), levels.iter().flatten().any(Option::is_none))
        };
        let Difference { smd, p } = found;
        let none = || if closed { CLOSED } else { "-" }.to_owned();
        let p = match p {
            None => none(),
            Some(p) if p < 0.001 => "<0.001".to_owned(),
            Some(p) => format!("{p:.3}"),
        };
        let smd = match smd {
            Some(smd) => format!("{smd:.3}"),
            None if groups.len() == 2 => none(),
            None => String::new(),
        };
        [smd, p]
    }

    /// Returns the lines of a column of Table 1. `dated` shows days since 1970-01-01 as dates.
    fn lines_of(&self, column: &Column, dated: bool) -> Vec<Vec<String>> {
        let mut lines: Vec<Vec<String>> = Vec::new();
        let mut line = |name: String, cells: Vec<String>| lines.push([vec![name], cells].concat());
        let grid = column.grid.unwrap_or(1.0);
        let places = column.grid.map_or(0, |grid| (1.0 - grid.log10()).ceil().clamp(0.0, 6.0) as usize);
        let number = |value: f64| match date(value.round()).filter(|_| dated).and_then(|text| day(&text)) {
            Some(day) => day,
            None => format!("{value:.places$}"),
        };
        let spread = |sd: f64| if dated { format!("{sd:.0} days") } else { format!("{sd:.places$}") };
        if !column.moments.is_empty() {
            let moments = column.moments.iter().map(|moments| match moments {
                None => CLOSED.to_owned(),
                Some(Moments { mean, sd, .. }) => {
                    format!("{} ({})", number(*mean), sd.map_or_else(|| "-".to_owned(), spread))
                }
            });
            line(format!("{}, mean (SD)", column.name), moments.collect());
        }
        if !column.quantiles.is_empty() {
            let value = |steps: &Option<i64>| {
                steps.map_or_else(|| CLOSED.to_owned(), |steps| number(steps as f64 * grid))
            };
            let values: Vec<[String; QUANTILES.len()]> =
                column.quantiles.iter().map(|quantiles| quantiles.each_ref().map(value)).collect();
            let quartiles =
                values.iter().map(|[_, lower, median, upper, _]| format!("{median} [{lower}, {upper}]"));
            line(format!("{}, median [quartiles]", column.name), quartiles.collect());
            let ends = values.iter().map(|[low, .., high]| format!("{low} to {high}"));
            line(format!("{}, 5th to 95th percentile", column.name), ends.collect());
        }
        for (level, counts) in column.levels.iter().zip(&column.counts) {
            let percent = |(&own, &all): (&Option<u64>, &Option<u64>)| match (own, all) {
                (Some(own), Some(all)) if all > 0 => {
                    format!("{own} ({:.1} %)", 100.0 * own as f64 / all as f64)
                }
                (own, _) => count(own),
            };
            let name = match (column.grid, level.as_str()) {
                (Some(_), "present") => format!("{}, n", column.name),
                _ => format!("{}: {level}", column.name),
            };
            line(name, counts.iter().zip(&self.rows).map(percent).collect());
        }
        // The test of a column is shown in the column's first line.
        if self.compared().len() > 1 {
            let difference = self.difference(column);
            for (at, line) in lines.iter_mut().enumerate() {
                line.extend(if at == 0 { difference.clone() } else { Default::default() });
            }
        }
        lines
    }

    /// Returns the tables as lists of texts: first Table 1, then the cross tables. The numbers of the columns
    /// `dates` are shown as dates.
    pub(super) fn printed(&self, dates: &[&str]) -> Vec<tables::Table> {
        let rows = std::iter::once("n".to_owned()).chain(self.rows.iter().map(|&rows| count(rows)));
        let mut head: Vec<String> =
            std::iter::once(String::new()).chain(self.groups.iter().cloned()).collect();
        let mut rows: Vec<String> = rows.collect();
        if self.compared().len() > 1 {
            head.extend(["SMD".to_owned(), "p".to_owned()]);
            rows.extend([String::new(), String::new()]);
        }
        let lines = self.columns.iter();
        let lines = lines.flat_map(|column| self.lines_of(column, dates.contains(&&*column.name)));
        let lines = [head, rows].into_iter().chain(lines).collect();
        let title = if self.by.is_empty() {
            "All rows".to_owned()
        } else {
            format!("All rows, and by {}", self.by.join(" and "))
        };
        let mut tables = vec![(title, lines)];
        for cross in &self.tables {
            let head = std::iter::once(String::new()).chain(cross.column_levels.iter().cloned()).collect();
            let line = |(level, counts): (&String, &Vec<Option<u64>>)| {
                std::iter::once(level.clone()).chain(counts.iter().map(|&rows| count(rows))).collect()
            };
            let lines = cross.row_levels.iter().zip(&cross.counts).map(line);
            let title = format!("{} (rows) by {} (columns)", cross.rows, cross.columns);
            tables.push((title, std::iter::once(head).chain(lines).collect()));
        }
        tables
    }

    /// Returns the tables for the report page. The numbers of the columns `dates` are shown as dates.
    pub(super) fn pages(&self, dates: &[&str]) -> Value {
        let caption = format!(
            "\"{CLOSED}\": fewer than {} rows or {} peers, or needed to protect such a number",
            self.threshold, self.min_contributors
        );
        tables::pages(&self.printed(dates), std::iter::repeat(&*caption))
    }

    /// Returns the first sentences of the report page. They say that `closed` of `cells` counts stay closed.
    pub(super) fn headline(&self, closed: usize, cells: usize) -> String {
        let rows = self.rows.first().copied().flatten().map_or_else(String::new, |rows| format!("{rows} "));
        let by = if self.by.is_empty() { String::new() } else { format!(", by {}", self.by.join(" and ")) };
        format!(
            "Statistics of {} columns over the {rows}rows of all peers{by}. {closed} of {cells} counts stay closed: \
             they are small, or they protect a small one.",
            self.columns.len()
        )
    }

    /// Returns the tables as Markdown.
    pub(super) fn text(&self) -> String {
        let head = format!(
            "summary of session {}\n\"{CLOSED}\": fewer than {} rows or {} peers, or needed to protect such a cell\n\
             A median, quartile or percentile is the value of one patient. SMD and p are those of the open \
             numbers: Welch's t-test, Pearson's chi-square test without missing values; \"{CLOSED}\" if they need a closed one\n",
            self.session, self.threshold, self.min_contributors
        );
        head + &tables::markdown(&self.printed(&[]))
    }
}
