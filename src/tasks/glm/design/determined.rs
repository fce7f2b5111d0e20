//! Entries of the first round that follow from the counts and sums of the check.
//!
//! The check has its counts and sums on shares, and a round has its sums in a sealed sum. The first round
//! opens some entries twice: from the sealed sum, and from the shares of the check. If they differ, a peer
//! used other rows in the round than in the check. The difference depends on the rows of such peers alone.

use flyswarm_glm::{Family, Round, Rows, Totals};
#[cfg(any(test, feature = "internals"))]
use flyswarm_mpc::shares::cells::BUCKETS;

use super::{Design, Part};

/// An entry of the first round that the check determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Entry {
    /// Index among the numbers of the round.
    at: usize,
    /// The entry is this number times the sum over `parts`.
    factor: i128,
    /// Words of the check that are added up, each multiplied by a number mod 2^64.
    parts: Vec<(usize, u64)>,
}

impl Entry {
    /// Returns the entry without its factor, mod 2^64, from the words of the check or from a share of them.
    pub(in super::super) fn value(&self, words: impl Fn(usize) -> u64) -> u64 {
        let parts = self.parts.iter().map(|&(at, factor)| words(at).wrapping_mul(factor));
        parts.fold(0, u64::wrapping_add)
    }
}

impl Design {
    /// Returns all entries that the check determines. The first is the number of rows.
    pub(super) fn determined(&self) -> Vec<Entry> {
        let mut row = Rows::new(1);
        row.push(&[1], [1.0, 0.0, 1.0]);
        let unit = row.sums(self.family, &Round::First);
        let (width, weighted) = (self.width(), self.weights.is_some());
        let factor = if weighted { 1 } else { unit.matrix[0] };
        let outcome = [Part::Number(self.outcome)];
        let vector = width * (width + 1) / 2;
        let scalar = |at: usize| vector + width + at;
        let parts = |column: usize| &self.columns[column].1[..];
        let mut entries = vec![Entry { at: scalar(0), factor: unit.scalars[0], parts: vec![(0, 1)] }];
        let pairs = (0..width).flat_map(|one| (one..width).map(move |two| (one, two)));
        entries.extend(pairs.enumerate().filter_map(|(at, (one, two))| {
            self.entry(at, factor, &[parts(one), parts(two)].concat(), false)
        }));
        if weighted {
            return entries;
        }
        match (self.family, self.offset) {
            (Family::Linear, None) => {
                let each =
                    |at| self.entry(vector + at, unit.vector[0], &[parts(at), &outcome[..]].concat(), false);
                entries.extend((0..width).filter_map(each));
                let squares = [outcome[0], outcome[0]];
                entries.extend(self.entry(scalar(3), unit.scalars[3], &squares, false));
            }
            (Family::Logistic, None) => {
                let each = |at| self.entry(vector + at, unit.vector[0], parts(at), true);
                entries.extend((0..width).filter_map(each));
            }
            (Family::Poisson, _) => entries.extend(self.entry(scalar(2), unit.scalars[2], &outcome, false)),
            _ => {}
        }
        entries
    }

    /// Returns the entry that sums the product of `parts` over all rows. If it is `signed`, rows without the
    /// event count negatively. The check has no such sum if a number is a factor once and another twice.
    fn entry(&self, at: usize, factor: i128, parts: &[Part], signed: bool) -> Option<Entry> {
        let (mut numbers, mut factors) = (Vec::new(), Vec::new());
        for part in parts {
            let list = if let Part::Number(_) = part { &mut numbers } else { &mut factors };
            list.push(part.variable());
        }
        factors.extend(signed.then_some(self.outcome));
        let all = numbers.len();
        for list in [&mut numbers, &mut factors] {
            list.sort_unstable();
            list.dedup();
        }
        let power = all.checked_div(numbers.len()).unwrap_or(1);
        let same = numbers
            .iter()
            .all(|&number| parts.iter().filter(|&&part| part == Part::Number(number)).count() == power);
        if !same {
            return None;
        }
        let numbers = if numbers.is_empty() { Vec::from_iter(self.weights) } else { numbers };
        let (place, table) = self.tables.iter().enumerate().find(|(_, table)| table.factors == factors)?;
        let first = match &numbers[..] {
            [] => None,
            _ => Some(self.measures.iter().position(|measure| {
                (measure.table, measure.cell) == (place, table.first) && measure.variables == numbers
            })?),
        };
        let sizes: Vec<usize> = factors.iter().map(|&at| self.variables[at].count()).collect();
        let part = |cell: usize| {
            let mut rest = cell;
            let mut levels = vec![0; sizes.len()];
            for (level, size) in levels.iter_mut().zip(&sizes).rev() {
                (*level, rest) = (rest % size, rest / size);
            }
            let level =
                |at: usize| factors.iter().position(|&factor| factor == at).map_or(0, |at| levels[at]);
            let value = |part: &Part| match *part {
                Part::Is(at, wanted) => u64::from(level(at) == wanted),
                Part::Score(at) => level(at) as u64,
                Part::Number(_) => 1,
            };
            let sign = if signed && level(self.outcome) != self.event { u64::MAX } else { 1 };
            let word = first.map_or(table.first + cell, |first| self.cells + 2 * (first + cell) + power - 1);
            (word, parts.iter().map(value).fold(sign, u64::wrapping_mul))
        };
        let parts =
            (0..sizes.iter().product::<usize>()).map(part).filter(|(_, factor)| *factor != 0).collect();
        Some(Entry { at, factor, parts })
    }

    /// Returns the entries without their factors, mod 2^64, from the words of the check.
    #[cfg(any(test, feature = "internals"))]
    pub(in super::super) fn checked(&self, words: &[u64]) -> Vec<u64> {
        let buckets = BUCKETS * self.measures.len();
        let word = |at: usize| words[if at < self.cells { at } else { at + buckets }];
        self.entries.iter().map(|entry| entry.value(word)).collect()
    }

    /// Compares the opened first round with the entries that were opened from the shares of the check.
    ///
    /// # Errors
    /// A line that names the first entry that differs.
    pub(in super::super) fn agree(&self, checked: &[u64], first: &Totals) -> Result<(), String> {
        let numbers: Vec<i128> = first.numbers().collect();
        let differs = self.entries.iter().zip(checked).find(|(entry, checked)| {
            let number = numbers[entry.at];
            number % entry.factor != 0 || (number / entry.factor) as u64 != **checked
        });
        match differs {
            None => Ok(()),
            Some((entry, _)) => Err(format!(
                "the first round and the check before it have different rows ({}), so a peer does not follow \
                 the protocol",
                self.number_name(entry.at)
            )),
        }
    }

    /// Names a number of the first round.
    fn number_name(&self, at: usize) -> String {
        let width = self.width();
        let name = |column: usize| format!("{:?}", self.columns[column].0.name);
        let mut place = at;
        for one in 0..width {
            if place < width - one {
                return format!("the sum of {} times {}", name(one), name(one + place));
            }
            place -= width - one;
        }
        match place.checked_sub(width) {
            None => format!("the sum of {} times the outcome", name(place)),
            Some(0) => "the number of rows".to_owned(),
            Some(_) => "a sum of outcomes".to_owned(),
        }
    }
}
