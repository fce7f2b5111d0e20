//! Counts of the values in a column of a file, and the decision on its kind.

use std::collections::BTreeMap;

use super::problems::{Problem, Trouble};
use super::publish::{Publishable, Rule};
use super::rows::Rows;
use super::texts::{Likeness, NUMBERED, admitted, advice, are_numbered, of_few_rows};
use super::value::{NoNumber, days, looks_missing, number};
use super::{DateOrder, MAX_LEVELS, MAX_TOKENS};
use crate::notices::{Ids, ids};

/// Number of values of a column that are kept, to compute the median and to detect ids.
const KEPT: usize = 10_000;
/// Number of texts of a column that are kept: levels, or classes.
const TEXTS: usize = MAX_LEVELS + 1;

/// Kind that a column gets, and the reason.
pub(super) enum Decision {
    /// The column does not become a feature.
    Ignored(String),
    Number(&'static str),
    Date(DateOrder, &'static str),
    /// These levels, and the number of rows with other texts, which stay on this machine.
    Category(Vec<Publishable>, u64),
}

/// Counts of the values in a column.
#[derive(Debug, Default)]
pub(super) struct ColumnTally {
    pub(super) empty: u64,
    /// Texts such as `n/a`.
    pub(super) missing: BTreeMap<String, u64>,
    /// Number of values, without missing values and values that look missing.
    pub(super) values: u64,
    /// Number of values that are numbers with a decimal point, and with a decimal comma.
    pub(super) numbers: [u64; 2],
    /// Number of dates in each order.
    pub(super) dates: [u64; 3],
    /// Number of values that contain a number, such as `<0.5` or `72 kg`, with a point and with a comma,
    /// and the kind of the first one.
    pub(super) measured: [(u64, Option<NoNumber>); 2],
    /// True if a number is not whole.
    pub(super) fractions: bool,
    pub(super) kept: [Vec<f32>; 2],
    pub(super) days: [Vec<f32>; 3],
    /// Whole numbers, exact, in the file's order.
    pub(super) whole: Vec<i64>,
    /// All texts, each with its rows; up to [`TEXTS`] different ones.
    pub(super) texts: BTreeMap<String, u64>,
    /// Reason why the column cannot be read.
    pub(super) unread: Option<String>,
}

impl ColumnTally {
    pub(super) fn new(rows: &Rows, at: usize) -> Self {
        Self { unread: rows.unread(at).map(str::to_owned), ..Self::default() }
    }

    pub(super) fn add(&mut self, text: &str) {
        if text.is_empty() {
            self.empty += 1;
            return;
        }
        if self.texts.len() < TEXTS || self.texts.contains_key(text) {
            *self.texts.entry(text.to_owned()).or_default() += 1;
        }
        if looks_missing(text) {
            if self.missing.len() < MAX_TOKENS {
                *self.missing.entry(text.to_owned()).or_default() += 1;
            }
            return;
        }
        self.values += 1;
        for (at, comma) in [false, true].into_iter().enumerate() {
            match number(text, comma) {
                Ok(value) => {
                    self.numbers[at] += 1;
                    self.fractions |= value.fract() != 0.0;
                    keep(&mut self.kept[at], value);
                    if at == 0 && value.fract() == 0.0 {
                        keep(&mut self.whole, text.parse().unwrap_or(value as i64));
                    }
                }
                Err(NoNumber::Text | NoNumber::Date | NoNumber::Missing) => {}
                Err(other) => {
                    self.measured[at].0 += 1;
                    self.measured[at].1.get_or_insert(other);
                }
            }
        }
        // A column with numbers is not read as dates, although 20260131 could be both.
        if self.numbers == [0, 0] {
            for (at, order) in DateOrder::ALL.into_iter().enumerate() {
                if let Some(days) = days(text, order) {
                    self.dates[at] += 1;
                    keep(&mut self.days[at], days as f32);
                }
            }
        }
    }

    /// Returns the kind of ids if the values are ids: whole numbers, or texts that each occur in few rows.
    pub(super) fn ids(&self) -> Option<Ids> {
        if self.values > 0 && self.numbers[0] == self.values {
            return if self.fractions { None } else { ids(&self.whole) };
        }
        // Numbers and dates that are not read as features may occur several times without being ids.
        let measured = self.measured.iter().map(|(rows, _)| *rows);
        if self.numbers.into_iter().chain(self.dates).chain(measured).any(|rows| rows * 2 > self.values)
            || advice(&self.texts).is_some()
        {
            return None;
        }
        let distinct = self.texts.len();
        let again = self.texts.values().filter(|&&rows| rows > 1).count();
        let (rows, most) =
            (self.texts.values().sum::<u64>(), self.texts.values().max().copied().unwrap_or(0));
        let few = distinct >= 10 && distinct as u64 * 20 >= rows && most * 10 <= rows;
        (few && again * 2 >= distinct).then_some(Ids::Repeated)
    }

    /// Returns whether the values are ids and some of them occur in several rows.
    pub(super) fn ids_come_back(&self) -> bool {
        matches!(self.ids(), Some(Ids::Repeated | Ids::Ordered)) && self.texts.values().any(|&rows| rows > 1)
    }

    /// Returns whether the column's name looks like one of its values.
    pub(super) fn has(&self, name: &str) -> Likeness {
        let most = |rows: u64| rows * 2 > self.values;
        match Likeness::of(name, self.numbers.into_iter().any(most), self.dates.into_iter().any(most)) {
            Likeness::Other if self.texts.contains_key(name) => Likeness::Same,
            likeness => likeness,
        }
    }

    /// Returns how many whole numbers binary32 would round.
    pub(super) fn coarse(&self) -> usize {
        self.whole.iter().filter(|&&value| value as f32 as i64 != value).count()
    }

    /// Returns the kind that the column gets. `comma` is 1 for a decimal comma, otherwise 0.
    pub(super) fn decide(&self, name: &str, comma: usize, rule: &Rule) -> Decision {
        let ignored = |reason: &str| Decision::Ignored(reason.to_owned());
        let (values, numbers) = (self.values, self.numbers[comma]);
        if let Some(found) = &self.unread {
            return Decision::Ignored(format!("it is {found}, which cannot be read"));
        }
        if values == 0 {
            return ignored("it is empty");
        }
        let distinct = self.texts.len();
        if numbers * 5 >= values * 4 {
            if numbers == values
                && let Some(ids) = self.ids()
            {
                return Decision::Ignored(format!("its numbers look like ids: whole, {ids}"));
            }
            if self.empty + self.missing_words() > 0 && numbers < rule.min_rows {
                return Decision::Ignored(format!("fewer than {} rows have a number", rule.min_rows));
            }
            return Decision::Number(match distinct {
                _ if numbers < values => "most values are numbers",
                ..=10 if !self.fractions && values > 20 => {
                    "numbers, few and whole; if they are codes: kind = \"category\" with levels"
                }
                _ => "all values are numbers",
            });
        }
        if let Some(at) = (0..3).find(|&at| self.dates[at] == values) {
            if self.empty + self.missing_words() > 0 && values < rule.min_rows {
                return Decision::Ignored(format!("fewer than {} rows have a value", rule.min_rows));
            }
            let order = DateOrder::ALL.get(at).copied().unwrap_or_default();
            let twofold = at == 1 && self.dates[2] == values;
            return Decision::Date(
                order,
                if twofold {
                    "dates, days since 1970; could also be month-day-year"
                } else {
                    "dates, days since 1970"
                },
            );
        }
        let (measured, first) = self.measured[comma];
        if let Some(why) = first
            && (numbers + measured) * 5 >= values * 4
        {
            let problem = Problem::of_column(name, Trouble::Number(why));
            return Decision::Ignored(format!(
                "found texts with numbers in them, expected {}",
                problem.advice()
            ));
        }
        let all = values + self.missing_words();
        if rule.min_rows > 1 && self.ids().is_some() && are_numbered(self.texts.keys()) {
            return ignored(NUMBERED);
        }
        let (levels, kept) = admitted(&self.texts, rule);
        let rare = all - kept.min(all);
        let many = distinct > MAX_LEVELS || (distinct > 50 && distinct as u64 * 2 > values);
        if many || rare * 2 > all || levels.is_empty() {
            return Decision::Ignored(of_few_rows(&self.texts, all, rule.min_rows.max(2)));
        }
        if levels.len() == 1 && rare + self.empty == 0 {
            return ignored("the same text is in all rows");
        }
        Decision::Category(levels, rare)
    }

    pub(super) fn missing_words(&self) -> u64 {
        self.missing.values().sum()
    }
}

fn keep<T>(kept: &mut Vec<T>, value: T) {
    if kept.len() < KEPT {
        kept.push(value);
    }
}
