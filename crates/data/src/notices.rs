//! What one machine alone can know about its rows: numbers that count or name rows, columns that tell the
//! answer, codes for missing values, constants, identical rows.
//!
//! All is judged by behaviour, not by names. The thresholds are guesses, which `lab/scripts/false-alarms`
//! measures:
//!
//! - **id**: whole numbers that are all different though their range is small or very wide, that rise or fall
//!   in the file's order, or that all come back in several rows ([`ids`]);
//! - **coarse**: most values are whole numbers of 2^24 or more, which binary32 cannot tell apart;
//! - **answer**: one column alone separates the classes, with an AUC above [`SEPARATES`];
//! - **code**: a smallest or largest value such as -999 or 9999, far from all others;
//! - **constant**: one value in all rows;
//! - **twins**: rows that equal another row, where chance gives none.

mod separates;

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;

use crate::Dataset;
use crate::prepare::{ColumnSpec, Kind, TableSchema};

pub use separates::{MIN_CLASS_ROWS, SEPARATES};

/// Rows below which nothing is said of ids and constants.
const FEWEST: usize = 10;
/// Rows of which ids are judged.
const JUDGED: usize = 10_000;
/// Columns of one kind that a line names.
const NAMED: usize = 8;

/// What stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Notice {
    /// The numbers of a column count or name rows.
    Id(Ids),
    /// So many values of a column are whole numbers that binary32 cannot tell apart.
    Coarse(usize),
    /// A column separates the classes, with this AUC.
    Answer(f64),
    /// A value that looks like a code for missing, and the rows that have it.
    Code(f32, usize),
    /// The one value of a column.
    Constant(f32),
    /// Rows that equal an earlier one.
    Twins(usize),
}

/// How numbers show that they are ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// All are different.
    Distinct,
    /// They rise or fall in the file's order.
    Ordered,
    /// All come back in several rows, as the visits of a patient do.
    Repeated,
}

/// A notice on the column of this name; on rows as a whole without one.
pub type Finding = (Option<String>, Notice);

impl Notice {
    /// One word for machines.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Id(_) => "id",
            Self::Coarse(_) => "coarse",
            Self::Answer(_) => "answer",
            Self::Code(..) => "code",
            Self::Constant(_) => "constant",
            Self::Twins(_) => "twins",
        }
    }

    /// Whether the rows are worth nothing, or the model is, if it is true.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        !matches!(self, Self::Constant(_) | Self::Twins(_))
    }

    /// What it is, before the names of the columns.
    fn title(&self) -> &'static str {
        match self {
            Self::Id(_) => {
                "whole numbers that count or name rows; they tell nothing about new rows, leave them out (kind = \"ignored\")"
            }
            Self::Coarse(_) => {
                "whole numbers above 2^24, which are rounded until rows look alike; are they ids?"
            }
            Self::Answer(_) => {
                "one column alone tells the class; if it is known only afterwards, or defines the class, leave it out"
            }
            Self::Code(..) => "values that look like codes for missing",
            Self::Constant(_) => "the same value in all rows",
            Self::Twins(_) => "identical rows",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(ids) => write!(f, "({ids})"),
            Self::Coarse(rows) => write!(f, "({rows} rows)"),
            Self::Answer(auc) => write!(f, "(AUC {auc:.3})"),
            Self::Code(value, rows) => write!(f, "({value} in {rows} rows)"),
            Self::Constant(value) => write!(f, "({value})"),
            Self::Twins(rows) => write!(
                f,
                "{rows} rows equal an earlier one; was the file joined twice, or do patients come back?"
            ),
        }
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Distinct => "all different",
            Self::Ordered => "in the order of the file",
            Self::Repeated => "each in several rows",
        })
    }
}

/// One line for each kind of notice, after its one word.
#[must_use]
pub fn lines(findings: &[Finding]) -> Vec<(&'static str, String)> {
    let kinds: BTreeSet<&str> = findings.iter().map(|(_, notice)| notice.kind()).collect();
    let line = |kind: &'static str| {
        let of_kind: Vec<_> = findings.iter().filter(|(_, notice)| notice.kind() == kind).collect();
        let title = of_kind.first().map_or("", |(_, notice)| notice.title());
        let shown = of_kind.iter().map(|(name, notice)| match name {
            Some(name) => format!("{name:?} {notice}"),
            None => notice.to_string(),
        });
        (kind, listed(title, shown))
    };
    kinds.into_iter().map(line).collect()
}

/// `what: "age" (...), "sex" (...), and 3 columns more`.
#[must_use]
pub fn listed(what: &str, found: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = found.collect();
    let more = shown.len().saturating_sub(NAMED);
    shown.truncate(NAMED);
    let more = if more == 0 { String::new() } else { format!(", and {more} columns more") };
    format!("{what}: {}{more}", shown.join(", "))
}

/// What is judged together.
enum Unit<'a> {
    /// Numbers in the feature of this place.
    Numbers(usize),
    /// Places, days, or whether a value was missing.
    Others(usize),
    /// So many levels, from this feature on.
    Levels(usize, &'a ColumnSpec),
}

/// All that stands out in these rows; `names` are those of the features, and may be empty.
#[must_use]
pub fn of(data: &Dataset, names: &[String], schema: Option<&TableSchema>) -> Vec<Finding> {
    let mut units = Vec::new();
    match schema.filter(|schema| schema.width() == data.features()) {
        None => units.extend((0..data.features()).map(Unit::Numbers)),
        Some(schema) => {
            let mut place = 0;
            for column in schema.columns.iter().filter(|column| column.kind != Kind::Ignored) {
                units.push(match column.kind {
                    Kind::Number => Unit::Numbers(place),
                    Kind::Category(_) => Unit::Levels(place, column),
                    _ => Unit::Others(place),
                });
                place += column.width();
                units.extend(column.indicator.then(|| Unit::Others(place - 1)));
            }
        }
    }
    let sample = separates::Sample::new(data);
    let named = |at: usize| names.get(at).map_or_else(|| format!("feature {}", at + 1), Clone::clone);
    let judged = units.into_par_iter().flat_map_iter(|unit| {
        let feature = |at: usize| data.values().iter().skip(at).step_by(data.features()).copied();
        let mut found = Vec::new();
        let (name, values, coded) = match unit {
            Unit::Numbers(at) | Unit::Others(at) => (named(at), feature(at).collect::<Vec<_>>(), false),
            Unit::Levels(at, column) => {
                let levels = column.levels().len();
                let level = |row: usize| data.row(row)[at..at + levels].iter().position(|&x| x == 1.0);
                let values = (0..data.rows()).map(|row| level(row).unwrap_or(levels) as f32);
                (column.name.clone(), values.collect(), true)
            }
        };
        let auc = sample.as_ref().and_then(|sample| sample.auc(&values, coded));
        found.extend(auc.filter(|&auc| auc > SEPARATES).map(Notice::Answer));
        if let Unit::Numbers(_) = unit {
            found.extend(code(&values).map(|(value, rows)| Notice::Code(value, rows)));
            found.extend(whole(&values).and_then(|values| ids(&values)).map(Notice::Id));
            found.extend(coarse(&values).map(Notice::Coarse));
            found.extend(constant(&values).map(Notice::Constant));
        }
        found.into_iter().map(move |notice| (Some(name.clone()), notice))
    });
    let mut found: Vec<Finding> = judged.collect();
    found.extend(twins(data).map(|rows| (None, Notice::Twins(rows))));
    found
}

/// The first values as integers, if all are whole.
fn whole(values: &[f32]) -> Option<Vec<i64>> {
    let values = values.iter().take(JUDGED);
    values.map(|&value| (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)).collect()
}

/// Whether these whole numbers, in the file's order, are ids.
#[must_use]
pub fn ids(values: &[i64]) -> Option<Ids> {
    let n = values.len();
    if n < FEWEST {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let groups: Vec<&[i64]> = sorted.chunk_by(|a, b| a == b).collect();
    let gaps: Vec<u64> = groups.windows(2).map(|pair| pair[0][0].abs_diff(pair[1][0])).collect();
    let step = gaps.iter().fold(0, |a, &b| gcd(a, b)).max(1);
    let distinct = groups.len();
    let ordered = values.is_sorted() || values.iter().rev().is_sorted();
    if distinct == n {
        // Pairs of equal values that chance would give if all values of the range were as likely.
        let range = sorted[0].abs_diff(sorted[n - 1]) / step + 1;
        let expected = n as f64 * (n as f64 - 1.0) / 2.0 / range as f64;
        let wide = range >= 1_000.max(10 * n as u64);
        return if ordered { Some(Ids::Ordered) } else { (expected >= 3.0 || wide).then_some(Ids::Distinct) };
    }
    if distinct < 5 {
        return None;
    }
    if ordered && distinct * 5 >= n {
        return Some(Ids::Ordered);
    }
    // Values that lie far from each other and still come back, or all come back as often.
    let again = groups.iter().filter(|group| group.len() > 1).count();
    let mut gaps = gaps;
    let middle = gaps.len() / 2;
    let gap = *gaps.select_nth_unstable(middle).1 / step;
    let most = groups.iter().map(|group| group.len()).max().unwrap_or(0);
    let scattered = again * 2 >= distinct && gap >= 5 && most * 5 <= n;
    let even = groups.iter().all(|group| group.len() == most);
    (distinct >= 10 && distinct * 10 >= n && (scattered || even)).then_some(Ids::Repeated)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Values that are whole only because they are so large, if most are.
fn coarse(values: &[f32]) -> Option<usize> {
    let rows = values.iter().filter(|value| value.abs() >= 16_777_216.0).count();
    (rows * 2 > values.len() && whole(values).is_some()).then_some(rows)
}

fn constant(values: &[f32]) -> Option<f32> {
    let first = *values.first()?;
    (values.len() >= FEWEST && values.iter().all(|&value| value == first)).then_some(first)
}

/// A smallest or largest value that looks like a code for missing, and the rows that have it.
fn code(values: &[f32]) -> Option<(f32, usize)> {
    [1.0f32, -1.0].into_iter().find_map(|sign| {
        let (mut first, mut second, mut end) = (f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY);
        let mut rows = 0;
        for value in values.iter().map(|value| sign * value) {
            end = end.max(value);
            if value < first {
                (second, first, rows) = (first, value, 1);
            } else if value == first {
                rows += 1;
            } else if value < second {
                second = value;
            }
        }
        let alone = rows == 1;
        let apart = stands_apart(sign * first, sign * second, sign * end, alone);
        let enough = !alone || values.len() >= FEWEST;
        (enough && is_code(sign * first) && apart).then_some((sign * first, rows))
    })
}

/// -9, -99, -999 ... and 999, 9999 ..., or of eights or sevens.
fn is_code(value: f32) -> bool {
    let digits = (1..=9).map(|count| (10f64.powi(count) - 1.0) / 9.0);
    let alike = digits.flat_map(|ones| [7.0, 8.0, 9.0].map(|digit| (digit * ones) as f32));
    !(-8.0..=100.0).contains(&value) && alike.into_iter().any(|code| value.abs() == code)
}

/// Whether a value lies farther from its nearest neighbour than all others lie from each other, or is the
/// only negative one; a value that is there once must lie twice as far.
fn stands_apart(value: f32, next: f32, other_end: f32, alone: bool) -> bool {
    let (gap, range) =
        ((f64::from(next) - f64::from(value)).abs(), (f64::from(other_end) - f64::from(next)).abs());
    let factor = if alone { 2.0 } else { 1.0 };
    next.is_finite() && (gap > factor * range || (!alone && value < 0.0 && next >= 0.0))
}

/// Rows that equal an earlier one with its class, if they are more than one in a hundred and chance gives
/// hardly any.
fn twins(data: &Dataset) -> Option<usize> {
    let rows = data.rows();
    let digest = |row: usize| {
        let mut hasher = DefaultHasher::new();
        data.row(row).iter().for_each(|value| value.to_bits().hash(&mut hasher));
        data.labels().get(row).hash(&mut hasher);
        hasher.finish()
    };
    let mut digests: Vec<u64> = (0..rows).map(digest).collect();
    digests.sort_unstable();
    digests.dedup();
    let twins = rows - digests.len();
    if twins < 2 || twins * 100 < rows {
        return None;
    }
    // The chance that two rows agree in all columns, if columns had nothing to do with each other.
    let agree: f64 = (0..data.features()).map(|at| agreement(data, at).ln()).sum();
    let expected = rows as f64 * rows as f64 / 2.0 * agree.exp();
    (expected * 10.0 < twins as f64).then_some(twins)
}

/// The chance that two different rows have the same value in a column; of at most 2,000 rows.
fn agreement(data: &Dataset, at: usize) -> f64 {
    let step = data.rows().div_ceil(2_000);
    let mut values: Vec<f32> = (0..data.rows()).step_by(step).map(|row| data.row(row)[at]).collect();
    values.sort_unstable_by(f32::total_cmp);
    let n = values.len() as f64;
    values.chunk_by(|a, b| a == b).map(|group| (group.len() as f64 / n).powi(2)).sum()
}

#[cfg(test)]
mod tests;
