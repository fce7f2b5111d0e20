//! Missing values that are filled with the mean or the most frequent level over all peers.
//!
//! A peer reads its rows with *gaps* at these values. All peers add up the words below. Each peer then
//! resolves the preparation with the sum, which gives a constant for each gap. Each column with a pooled fill
//! has these words, in the order of the columns, over the values that are not missing:
//!
//! | kind | words | content |
//! | --- | --- | --- |
//! | number, date | 2 | the number of values, and their sum ([`moments()`]) |
//! | category, ordinal | one for each level | the number of values with this level |
//!
//! The words are added mod 2^512. With at most [`MAX_ROWS`] rows over all peers no word overflows.

use std::collections::BTreeSet;

use flyswarm_sealed_sum::crypto::mask::Wide;

use super::{ColumnSpec, Fill, Kind, PrepareError, TableSchema};
use crate::scaling::{Moments, moments};
use crate::{Borrowed, DataError, Dataset, MAX_ROWS};

/// Number of words for a column of numbers.
const NUMBER_WORDS: usize = Moments::words(1, false);

/// A missing value that is filled later from the sum of all peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingCell {
    /// The row, from 0.
    pub row: u32,
    /// The index of the column in [`TableSchema::columns`].
    pub column: u16,
}

impl ColumnSpec {
    fn pooled_words(&self) -> usize {
        match &self.kind {
            _ if self.fill != Fill::Pooled => 0,
            Kind::Ignored => 0,
            Kind::Number | Kind::Date(_) => NUMBER_WORDS,
            Kind::Category(levels) | Kind::Ordinal(levels) => levels.len(),
        }
    }

    /// Returns the words for values that are not missing. Each value is given by its numbers in a row.
    fn words<'a>(&self, values: impl Iterator<Item = &'a [f32]>) -> Vec<Wide> {
        let mut counts = vec![0u64; self.pooled_words()];
        let firsts = values.map(|value| match &self.kind {
            Kind::Category(_) => value.iter().position(|&number| number == 1.0).unwrap_or(usize::MAX) as f32,
            _ => value.first().copied().unwrap_or_default(),
        });
        if matches!(self.kind, Kind::Number | Kind::Date(_)) {
            return match Dataset::new(1, firsts.collect(), Vec::new(), Vec::new()) {
                Ok(data) => moments(&data, false),
                // The column has no values.
                Err(_) => vec![Wide::default(); NUMBER_WORDS],
            };
        }
        for level in firsts {
            if let Some(count) = counts.get_mut(level as usize) {
                *count += 1;
            }
        }
        counts.into_iter().map(Wide::from).collect()
    }

    /// Returns the replacement for missing values, computed from the sum of all peers' words.
    fn resolved(&self, words: &[Wide]) -> Result<Fill, PrepareError> {
        let refuse = |found: String, expected: &str| {
            PrepareError::new(format!("the sum over column {:?}", self.name), found, expected)
        };
        if matches!(self.kind, Kind::Number | Kind::Date(_)) {
            let found = Moments::from_words(words, 1);
            let found = found.map_err(|error| refuse(error.to_string(), "the sum of 1 value or more"))?;
            let mean = f64::from(found.means.first().copied().unwrap_or_default() as f32);
            return Ok(Fill::Number(if self.kind == Kind::Number { mean } else { mean.round() } + 0.0));
        }
        let words: Vec<_> = words.iter().map(|&word| u64::try_from(word).unwrap_or(u64::MAX)).collect();
        let rows = words.iter().try_fold(0u64, |sum, &word| sum.checked_add(word)).unwrap_or(u64::MAX);
        if !(1..=MAX_ROWS as u64).contains(&rows) {
            return Err(refuse(
                format!("the sum of {rows} values"),
                "1 value or more, and at most one for each row",
            ));
        }
        let most = words.iter().max();
        let level = self.levels().iter().zip(&words).find(|&(_, word)| Some(word) == most);
        level
            .map(|(level, _)| Fill::Level(level.clone()))
            .ok_or_else(|| refuse("of no level".into(), "levels"))
    }
}

impl TableSchema {
    /// Returns the columns with a pooled fill: the index of each column, the column, and the place of its
    /// first number in a row.
    fn waiting(&self) -> impl Iterator<Item = (usize, &ColumnSpec, usize)> {
        let places = self.columns.iter().scan(0, |next, column| {
            let place = *next;
            *next += column.width();
            Some(place)
        });
        let columns = self.columns.iter().enumerate().zip(places);
        columns
            .filter(|((_, column), _)| column.pooled_words() > 0)
            .map(|((at, column), place)| (at, column, place))
    }

    /// Returns the columns whose missing values are filled from the sum of all peers.
    pub fn pooled(&self) -> impl Iterator<Item = &ColumnSpec> {
        self.waiting().map(|(_, column, _)| column)
    }

    /// Returns the number of words that [`TableSchema::pooled_values`] gives.
    #[must_use]
    pub fn pooled_words(&self) -> usize {
        self.pooled().map(ColumnSpec::pooled_words).sum()
    }

    /// Returns the words that a peer with these rows adds to the sum; see the [module](self).
    #[must_use]
    pub fn pooled_values(&self, data: &Dataset, gaps: &[MissingCell]) -> Vec<Wide> {
        let words = self.waiting().map(|(at, column, place)| {
            let missing = rows_of(gaps, at);
            let there = (0..data.rows()).filter(|&row| !missing.contains(&row));
            column.words(there.filter_map(|row| data.row(row).get(place..place + column.width())))
        });
        words.flatten().collect()
    }

    /// Returns for each column with a pooled fill whether these rows have a value in it.
    #[must_use]
    pub fn pooled_held(&self, data: &Dataset, gaps: &[MissingCell]) -> Vec<bool> {
        self.waiting().map(|(at, ..)| rows_of(gaps, at).len() < data.rows()).collect()
    }

    /// Returns the preparation with a constant for each pooled fill, computed from the sum of all peers'
    /// words.
    ///
    /// # Errors
    /// [`PrepareError`] if the words are not such a sum, or if a column has no values at all.
    pub fn resolved(&self, words: &[Wide]) -> Result<Self, PrepareError> {
        let (found, expected) = (words.len(), self.pooled_words());
        if found != expected {
            let expected = expected.to_string();
            return Err(PrepareError::new("the number of words", found.to_string(), expected));
        }
        let mut rest = words;
        let mut out = self.clone();
        for column in &mut out.columns {
            let (own, others) = rest.split_at_checked(column.pooled_words()).unwrap_or_default();
            if !own.is_empty() {
                column.fill = column.resolved(own)?;
            }
            rest = others;
        }
        Ok(out)
    }

    /// Fills the gaps of the rows with the constants of this resolved preparation.
    ///
    /// # Errors
    /// [`DataError`] if a gap is outside the rows, or if its column has no constant.
    pub fn filled(&self, data: &Dataset, gaps: &[MissingCell]) -> Result<Dataset, DataError> {
        if gaps.is_empty() {
            return Ok(data.clone());
        }
        let places: Vec<usize> = self.columns.iter().fold(vec![0], |mut places, column| {
            places.push(places.last().copied().unwrap_or(0) + column.width());
            places
        });
        let mut out = data.clone();
        for &MissingCell { row, column } in gaps {
            let found = self.columns.get(usize::from(column)).zip(places.get(usize::from(column)));
            let fill = found.and_then(|(column, &place)| {
                let level = |text: &String| column.levels().iter().position(|level| level == text);
                let (offset, number) = match (&column.fill, &column.kind) {
                    (Fill::Number(number), _) => (0, *number as f32),
                    (Fill::Level(text), Kind::Ordinal(_)) => (0, level(text)? as f32),
                    (Fill::Level(text), _) => (level(text)?, 1.0),
                    (Fill::Refuse | Fill::NoLevel | Fill::Pooled, _) => return None,
                };
                let at = row as usize * data.features() + place + offset;
                out.values.get_mut(at).map(|value| *value = number)
            });
            fill.ok_or_else(|| DataError::Shape(format!("row {row} has no value for column {column}")))?;
        }
        Borrowed::new(out.features, &out.values)?;
        Ok(out)
    }
}

/// Returns the rows that have a gap in this column.
fn rows_of(gaps: &[MissingCell], column: usize) -> BTreeSet<usize> {
    gaps.iter().filter(|gap| usize::from(gap.column) == column).map(|gap| gap.row as usize).collect()
}
