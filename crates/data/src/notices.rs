//! Problems that one machine can find in its own rows: ids, columns that reveal the class, codes for
//! missing values, constants, identical rows.
//!
//! All checks look at the values, not at the names. The thresholds are estimates, which
//! `lab/scripts/false-alarms` measures:
//!
//! - **id**: whole numbers that are all different although their range is small or very wide, that rise or
//!   fall in the file's order, or that all occur in several rows ([`ids`]);
//! - **coarse**: most values are whole numbers of 2^24 or more, which binary32 cannot distinguish;
//! - **answer**: one column alone separates the classes, with an AUC above [`SEPARATES`];
//! - **code**: a smallest or largest value such as -999 or 9999, far from all others, or 98 and 99 next to
//!   each other; days that cannot belong to a patient, such as 1900-01-01 and 9999-12-31;
//! - **constant**: one value or level in all rows;
//! - **twins**: rows that equal another row although chance would give no equal rows.

mod separates;

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;

use crate::Dataset;
use crate::prepare::value::date;
use crate::prepare::{ColumnSpec, Kind, TableSchema};

pub use separates::{MIN_CLASS_ROWS, SEPARATES};

/// Fewest rows for notices about ids and constants.
const FEWEST: usize = 10;
/// Number of rows that are checked for ids.
const JUDGED: usize = 10_000;
/// Number of columns that one line names.
const NAMED: usize = 8;

/// A finding about a column or the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Notice {
    /// The numbers of a column are ids.
    Id(Ids),
    /// Number of values of a column that are whole numbers which binary32 cannot distinguish.
    Coarse(usize),
    /// A column separates the classes with this AUC.
    Answer(f64),
    /// A value that looks like a code for missing, and the number of rows with it.
    Code(f32, usize),
    /// A day that looks like a code for missing, and the number of rows with it.
    Day(f32, usize),
    /// The only value of a column; `None` for a category.
    Constant(Option<f32>),
    /// Number of rows that equal an earlier row.
    Twins(usize),
}

/// Sign that numbers are ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// All numbers are different.
    Distinct,
    /// The numbers rise or fall in the file's order.
    Ordered,
    /// All numbers occur in several rows, like the visits of a patient.
    Repeated,
}

/// A notice with the name of its column; without a name it is about the rows as a whole.
pub type Finding = (Option<String>, Notice);

impl Notice {
    /// Returns the keyword for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Id(_) => "id",
            Self::Coarse(_) => "coarse",
            Self::Answer(_) => "answer",
            Self::Code(..) | Self::Day(..) => "code",
            Self::Constant(_) => "constant",
            Self::Twins(_) => "twins",
        }
    }

    /// Returns whether this notice stops a strict peer, because the numbers do not mean what they seem to
    /// mean. Classes that are easy to separate, a constant and equal rows may be correct.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        matches!(self, Self::Id(_) | Self::Coarse(_) | Self::Code(..) | Self::Day(..))
    }

    /// Description of the finding, to be printed before the names of the columns.
    fn title(&self) -> &'static str {
        match self {
            Self::Id(_) => {
                "whole numbers that count or name rows; they do not help with new rows: leave them out \
                 (kind = \"ignored\")"
            }
            Self::Coarse(_) => {
                "whole numbers above 2^24, which are rounded until rows look alike; are they ids?"
            }
            Self::Answer(_) => {
                "one column alone determines the class; if it is known only afterwards, or defines the \
                 class, leave it out"
            }
            Self::Code(..) | Self::Day(..) => "values that look like codes for missing",
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
            Self::Day(day, rows) => {
                write!(f, "({} in {rows} rows)", date(f64::from(*day)).unwrap_or_else(|| day.to_string()))
            }
            Self::Constant(Some(value)) => write!(f, "({value})"),
            Self::Constant(None) => f.write_str("(one level, or none)"),
            Self::Twins(rows) => write!(
                f,
                "{rows} rows equal an earlier one; was the file joined twice, or do patients have \
                 several rows (then --group)?"
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

/// Returns advice for a column whose ids occur in several rows.
#[must_use]
pub fn group_advice(name: &str) -> String {
    format!(
        "its ids occur in several rows; if these are of one patient, `--group {name}` keeps them \
         together, because otherwise held-out rows are not new patients and results look too good"
    )
}

/// Returns one line for each kind of notice, with its keyword.
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

/// Formats a list such as `what: "age" (...), "sex" (...), and 3 columns more`.
#[must_use]
pub fn listed(what: &str, found: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = found.collect();
    let more = shown.len().saturating_sub(NAMED);
    shown.truncate(NAMED);
    let more = if more == 0 { String::new() } else { format!(", and {more} more columns") };
    format!("{what}: {}{more}", shown.join(", "))
}

/// Features that are checked together.
enum Unit<'a> {
    /// Numbers, in the feature at this place.
    Numbers(usize),
    /// Days since 1970, in the feature at this place.
    Days(usize),
    /// An ordinal's level or a missing-value indicator, in the feature at this place.
    Others(usize),
    /// Levels of a category: the number of features, the place of the first, and the column.
    Levels(usize, &'a ColumnSpec),
}

/// Returns all notices on these rows. `names` are the names of the features, and may be empty.
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
                    Kind::Date(_) => Unit::Days(place),
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
            Unit::Numbers(at) | Unit::Days(at) | Unit::Others(at) => {
                (named(at), feature(at).collect::<Vec<_>>(), false)
            }
            Unit::Levels(at, column) => {
                let levels = column.levels().len();
                let level = |row: usize| data.row(row)[at..at + levels].iter().position(|&x| x == 1.0);
                let values = (0..data.rows()).map(|row| level(row).unwrap_or(levels) as f32);
                (column.name.clone(), values.collect(), true)
            }
        };
        let auc = sample.as_ref().and_then(|sample| sample.auc(&values, coded));
        found.extend(auc.filter(|&auc| auc > SEPARATES).map(Notice::Answer));
        match unit {
            Unit::Numbers(_) => {
                found.extend(code(&values).map(|(value, rows)| Notice::Code(value, rows)));
                found.extend(whole(&values).and_then(|values| ids(&values)).map(Notice::Id));
                found.extend(coarse(&values).map(Notice::Coarse));
                found.extend(constant(&values).map(|value| Notice::Constant(Some(value))));
            }
            Unit::Days(_) => found.extend(no_day(&values).map(|(day, rows)| Notice::Day(day, rows))),
            Unit::Levels(..) => found.extend(constant(&values).map(|_| Notice::Constant(None))),
            Unit::Others(_) => {}
        }
        found.into_iter().map(move |notice| (Some(name.clone()), notice))
    });
    let mut found: Vec<Finding> = judged.collect();
    found.extend(twins(data).map(|rows| (None, Notice::Twins(rows))));
    found
}

/// Returns the first values as integers, if all of them are whole.
fn whole(values: &[f32]) -> Option<Vec<i64>> {
    let values = values.iter().take(JUDGED);
    values.map(|&value| (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)).collect()
}

/// Returns the kind of ids that these whole numbers are, in the file's order, or `None` if they are not
/// ids.
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
        // Expected number of pairs of equal values if all values of the range were equally likely.
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
    // Some ids repeat although most values are far apart. Other ids all occur about equally often.
    let again = groups.iter().filter(|group| group.len() > 1).count();
    let mut gaps = gaps;
    let middle = gaps.len() / 2;
    let gap = *gaps.select_nth_unstable(middle).1 / step;
    let most = groups.iter().map(|group| group.len()).max().unwrap_or(0);
    let scattered = again * 2 >= distinct && gap >= 5 && most * 5 <= n;
    let even = groups.iter().all(|group| group.len() == most);
    // If the values were drawn at random, the variance of their row counts would equal the mean.
    let mean = n as f64 / distinct as f64;
    let variance =
        groups.iter().map(|group| (group.len() as f64 - mean).powi(2)).sum::<f64>() / distinct as f64;
    let single = groups.iter().filter(|group| group.len() == 1).count();
    let calm = distinct >= 30 && variance * 3.0 <= mean && single * 50 <= distinct;
    // Small numbers that occur in many rows may be codes.
    let many =
        distinct * 10 >= n || (distinct >= 20 && distinct * 20 >= n && sorted[0].unsigned_abs() >= 1_000);
    (distinct >= 10 && many && (scattered || even || calm)).then_some(Ids::Repeated)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the number of values that are whole only because they are so large, if most values are.
fn coarse(values: &[f32]) -> Option<usize> {
    let rows = values.iter().filter(|value| value.abs() >= 16_777_216.0).count();
    (rows * 2 > values.len() && whole(values).is_some()).then_some(rows)
}

fn constant(values: &[f32]) -> Option<f32> {
    let first = *values.first()?;
    (values.len() >= FEWEST && values.iter().all(|&value| value == first)).then_some(first)
}

/// Returns a smallest or largest value that looks like a code for missing, and the number of rows with it.
fn code(values: &[f32]) -> Option<(f32, usize)> {
    [1.0f32, -1.0].into_iter().find_map(|sign| {
        let (few, end) = smallest(values.iter().map(|value| sign * value));
        let (&(first, rows), rest) = few.split_first()?;
        let alone = rows == 1;
        let enough = !alone || (values.len() >= FEWEST && first.abs() >= 100.0);
        let apart = |value: f32, next: f32| stands_apart(sign * value, sign * next, sign * end, alone);
        let found = match rest {
            // -1 and 1, and -1, 0 and 1, are not codes.
            [(next, _), more @ ..] if first == -1.0 => sign > 0.0 && *next >= 1.0 && !more.is_empty(),
            [(next, _)] => apart(first, *next),
            // For example, 98 for unknown and 99 for refused.
            [(second, _), (next, _), ..] => {
                apart(first, *second) || (*second - first == 1.0 && apart(*second, *next))
            }
            [] => false,
        };
        (found && enough && is_code(sign * first)).then_some((sign * first, rows))
    })
}

/// Returns the smallest different values, at most three, each with its number of rows, and the largest
/// value.
fn smallest(values: impl Iterator<Item = f32>) -> (Vec<(f32, usize)>, f32) {
    let (mut few, mut end): (Vec<(f32, usize)>, _) = (Vec::with_capacity(4), f32::NEG_INFINITY);
    for value in values {
        end = end.max(value);
        if few.len() == 3 && few.last().is_some_and(|(last, _)| value > *last) {
            continue;
        }
        match few.iter_mut().find(|(known, _)| *known == value) {
            Some((_, rows)) => *rows += 1,
            None => {
                let at = few.iter().take_while(|(known, _)| *known < value).count();
                few.insert(at, (value, 1));
                few.truncate(3);
            }
        }
    }
    (few, end)
}

/// Returns whether the value is -1, -9, -99, -999 ... or 99, 999, 9999 ..., or has only eights or sevens,
/// with up to as many digits as binary32 holds.
fn is_code(value: f32) -> bool {
    let digits = (1..=7).map(|count| (10f64.powi(count) - 1.0) / 9.0);
    let alike = digits.flat_map(|ones| [7.0, 8.0, 9.0].map(|digit| (digit * ones) as f32));
    value == -1.0 || !(-8.0..=10.0).contains(&value) && alike.into_iter().any(|code| value.abs() == code)
}

/// The last day that programs write for a missing day: 1901-01-01.
const LONG_AGO: f32 = -25_202.0;
/// The first such day in the future: 2099-12-31.
const FAR_OFF: f32 = 47_481.0;

/// Returns a day that means "no day", and the number of rows with it.
fn no_day(days: &[f32]) -> Option<(f32, usize)> {
    let day = days.iter().copied().find(|day| !(LONG_AGO..FAR_OFF).contains(day) || *day == LONG_AGO)?;
    Some((day, days.iter().filter(|other| **other == day).count()))
}

/// Returns whether a value is farther from its nearest neighbour than the others are from each other, or
/// is the only negative one. A value that occurs once must be twice as far.
fn stands_apart(value: f32, next: f32, other_end: f32, alone: bool) -> bool {
    let (gap, range) =
        ((f64::from(next) - f64::from(value)).abs(), (f64::from(other_end) - f64::from(next)).abs());
    let factor = if alone { 2.0 } else { 1.0 };
    next.is_finite() && (gap > factor * range || (!alone && value < 0.0 && next >= 0.0))
}

/// Returns the number of rows that equal an earlier row and have its class. Returns `None` unless they are
/// more than one in a hundred and chance would give hardly any such rows.
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
    // The chance that two rows agree in all columns, if the columns were independent.
    let agree: f64 = (0..data.features()).map(|at| agreement(data, at).ln()).sum();
    let expected = rows as f64 * rows as f64 / 2.0 * agree.exp();
    (expected * 10.0 < twins as f64).then_some(twins)
}

/// Returns the chance that two different rows have the same value in a column, from at most 2,000 rows.
fn agreement(data: &Dataset, at: usize) -> f64 {
    let step = data.rows().div_ceil(2_000);
    let mut values: Vec<f32> = (0..data.rows()).step_by(step).map(|row| data.row(row)[at]).collect();
    values.sort_unstable_by(f32::total_cmp);
    let n = values.len() as f64;
    values.chunk_by(|a, b| a == b).map(|group| (group.len() as f64 / n).powi(2)).sum()
}

#[cfg(test)]
mod tests;
