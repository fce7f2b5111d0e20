//! Sums of a round as whole numbers, and their words.

/// Number of scalars of a round. They belong to no column.
pub const SCALARS: usize = 5;
/// Number of words of a number. The words are digits to the base 2^40, and the last has the rest.
const DIGITS: usize = 3;
const BASE: u32 = 40;

/// Sums over rows: whole numbers, so that they are the same for every split of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Upper triangle of the matrix, row after row.
    pub matrix: Vec<i128>,
    /// A number for each column.
    pub vector: Vec<i128>,
    /// Numbers without a column; their meaning depends on the round.
    pub scalars: [i128; SCALARS],
}

impl Totals {
    /// Makes empty sums for this number of columns.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        let matrix = vec![0; columns * (columns + 1) / 2];
        Self { matrix, vector: vec![0; columns], scalars: [0; SCALARS] }
    }

    /// Returns the number of words of these sums for this number of columns.
    #[must_use]
    pub const fn words(columns: usize) -> usize {
        DIGITS * (columns * (columns + 1) / 2 + columns + SCALARS)
    }

    /// Returns all numbers: the matrix, the vector, the scalars.
    pub fn numbers(&self) -> impl Iterator<Item = i128> {
        self.matrix.iter().chain(&self.vector).chain(&self.scalars).copied()
    }

    /// Returns the words: centred digits of each number, lowest first.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the digits are small")]
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = Vec::new();
        for mut number in self.numbers() {
            for _ in 1..DIGITS {
                let half = 1i128 << (BASE - 1);
                let above = number.saturating_add(half) >> BASE;
                words.push((number - (above << BASE)) as i64 as u64);
                number = above;
            }
            words.push(number as i64 as u64);
        }
        words
    }

    /// Reads the sum of all peers' words. Returns `None` if the words cannot be such a sum.
    #[must_use]
    pub fn from_words(columns: usize, words: &[u64]) -> Option<Self> {
        if words.len() != Self::words(columns) {
            return None;
        }
        let number = |digits: &[u64]| {
            let mut number = 0i128;
            for &digit in digits.iter().rev() {
                number = number.checked_mul(1 << BASE)?.checked_add((digit as i64).into())?;
            }
            Some(number)
        };
        let mut numbers = words.chunks(DIGITS).map(number).collect::<Option<Vec<_>>>()?;
        let scalars = numbers.split_off(numbers.len() - SCALARS);
        let vector = numbers.split_off(numbers.len() - columns);
        Some(Self { matrix: numbers, vector, scalars: scalars.try_into().ok()? })
    }

    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        let own = self.matrix.iter_mut().chain(&mut self.vector).chain(&mut self.scalars);
        own.zip(other.numbers()).for_each(|(own, other)| *own = own.saturating_add(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_of_many_peers_add_up_to_the_words_of_the_sum(
            peers in prop::collection::vec(prop::collection::vec(-(1i128 << 118)..1i128 << 118, 10), 1..64),
        ) {
            let totals = |numbers: &[i128]| Totals {
                matrix: numbers[..3].to_vec(),
                vector: numbers[3..5].to_vec(),
                scalars: numbers[5..].try_into().expect("five"),
            };
            let mut words = vec![0u64; Totals::words(2)];
            let mut sum = Totals::new(2);
            for peer in &peers {
                let own = totals(peer);
                sum.add(&own);
                words.iter_mut().zip(own.to_words()).for_each(|(word, own)| *word = word.wrapping_add(own));
            }
            prop_assert_eq!(Totals::from_words(2, &words), Some(sum));
        }
    }

    #[test]
    fn words_of_no_sum_are_refused() {
        assert_eq!(Totals::from_words(1, &[0; 5]), None, "too few");
        let mut words = vec![0; Totals::words(1)];
        words[2] = 1 << 62;
        assert_eq!(Totals::from_words(1, &words), None, "beyond 2^127");
    }
}
