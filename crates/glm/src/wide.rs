//! Numbers of about 106 bits, as the sum of two binary64 numbers. Every operation gives the same bits on
//! every machine: it uses only additions, products, quotients and roots that IEEE 754 rounds exactly.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number: `hi` is the sum rounded to binary64, `lo` the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wide {
    hi: f64,
    lo: f64,
}

/// Returns a + b and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Splits a number into halves of 26 bits.
fn split(a: f64) -> (f64, f64) {
    let c = 134_217_729.0 * a;
    let high = c - (c - a);
    (high, a - high)
}

/// Returns a b and its rounding error.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((a1, a2), (b1, b2)) = (split(a), split(b));
    (product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)
}

impl Wide {
    fn of_sum(a: f64, b: f64) -> Self {
        let (hi, lo) = two_sum(a, b);
        Self { hi, lo }
    }

    /// Returns the number rounded to binary64.
    pub(super) fn value(self) -> f64 {
        self.hi
    }

    /// Returns the square root; 0 for a number below 0.
    pub(super) fn sqrt(self) -> Self {
        if self.hi <= 0.0 {
            return Self::default();
        }
        let root = Self::from(self.hi.sqrt());
        root + (self - root * root) / (root + root)
    }

    /// Returns this number rounded to 40 significant bits, halves to even.
    pub(super) fn rounded(self) -> f64 {
        if self.hi == 0.0 || !self.hi.is_finite() {
            return self.hi;
        }
        let (_, exponent) = libm::frexp(self.hi);
        let unit = libm::scalbn(1.0, exponent - 40);
        let whole = (self.hi / unit).round_ties_even();
        // If `hi` is halfway between two whole numbers, `lo` decides.
        let rest = self - Self::from(whole * unit);
        let beyond = |half: f64| (rest - Self::from(half * unit)).hi;
        let whole = match () {
            () if beyond(0.5) > 0.0 => whole + 1.0,
            () if beyond(-0.5) < 0.0 => whole - 1.0,
            () => whole,
        };
        whole * unit
    }
}

impl From<f64> for Wide {
    fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }
}

impl From<i128> for Wide {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the rest is the second number"
    )]
    fn from(whole: i128) -> Self {
        let hi = whole as f64;
        // `hi` may be 2^127, which an i128 cannot hold.
        let lo = whole.checked_sub(hi as i128).map_or(0.0, |rest| rest as f64);
        Self::of_sum(hi, lo)
    }
}

impl Add for Wide {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (hi, lo) = two_sum(self.hi, other.hi);
        let (more, rest) = two_sum(self.lo, other.lo);
        let Self { hi, lo } = Self::of_sum(hi, lo + more);
        Self::of_sum(hi, lo + rest)
    }
}

impl Neg for Wide {
    type Output = Self;

    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for Wide {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (hi, lo) = two_product(self.hi, other.hi);
        Self::of_sum(hi, lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Div for Wide {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        let rest = self - other * Self::from(first);
        let second = rest.hi / other.hi;
        let rest = rest - other * Self::from(second);
        Self::of_sum(first, second) + Self::from(rest.hi / other.hi)
    }
}

/// Upper triangle of a symmetric matrix, row after row.
pub(super) type Triangle = Vec<Wide>;

/// Returns the place of an entry in a triangle.
pub(super) fn place(size: usize, row: usize, column: usize) -> usize {
    let (row, column) = (row.min(column), row.max(column));
    row * size - row * (row + 1) / 2 + column
}

/// Least share of a column's sum of squares that must be left after the columns before it are taken out. If a
/// column is a linear combination of others, rounding leaves less than 1e-28.
const LEAST: f64 = 1e-22;

/// Factor L of a symmetric matrix A = L L'.
#[derive(Debug)]
pub(super) struct Factor {
    size: usize,
    rows: Vec<Wide>,
}

impl Factor {
    /// Factors a matrix. The error is the first column that depends on the columns before it.
    pub(super) fn of(size: usize, matrix: &[Wide]) -> Result<Self, usize> {
        let mut rows = vec![Wide::default(); size * size];
        for i in 0..size {
            for j in 0..=i {
                let mut rest = matrix[place(size, i, j)];
                for k in 0..j {
                    rest = rest - rows[i * size + k] * rows[j * size + k];
                }
                if i == j {
                    let whole = matrix[place(size, i, i)].value();
                    let enough = rest.value() > LEAST * whole;
                    // NaN fails, too.
                    if !enough {
                        return Err(i);
                    }
                    rows[i * size + i] = rest.sqrt();
                } else {
                    rows[i * size + j] = rest / rows[j * size + j];
                }
            }
        }
        Ok(Self { size, rows })
    }

    /// Returns L^-1 b.
    pub(super) fn forward(&self, vector: &[Wide]) -> Vec<Wide> {
        let mut out: Vec<Wide> = Vec::with_capacity(self.size);
        for (i, &own) in vector.iter().enumerate().take(self.size) {
            let mut rest = own;
            for (k, &known) in out.iter().enumerate() {
                rest = rest - self.rows[i * self.size + k] * known;
            }
            out.push(rest / self.rows[i * self.size + i]);
        }
        out
    }

    /// Returns A^-1 b, given L^-1 b.
    pub(super) fn backward(&self, mut vector: Vec<Wide>) -> Vec<Wide> {
        for i in (0..self.size).rev() {
            vector[i] = vector[i] / self.rows[i * self.size + i];
            for k in 0..i {
                vector[k] = vector[k] - self.rows[i * self.size + k] * vector[i];
            }
        }
        vector
    }

    /// Returns column `column` of A^-1.
    pub(super) fn inverse_column(&self, column: usize) -> Vec<Wide> {
        let unit: Vec<Wide> =
            (0..self.size).map(|at| Wide::from(f64::from(u8::from(at == column)))).collect();
        self.backward(self.forward(&unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn operations_are_exact_to_a_hundred_bits(a in -(1i128 << 100)..1i128 << 100, b in 1i128..1 << 50) {
            // (a b) / b - a vanishes to within 2^-100 of a.
            let (wide, other) = (Wide::from(a), Wide::from(b));
            let rest = (wide * other / other - wide).value().abs();
            prop_assert!(rest <= (a as f64).abs() * 2f64.powi(-98), "{rest}");
            let sum = wide + other - wide - other;
            prop_assert!(sum.value().abs() <= (a as f64).abs() * 2f64.powi(-100));
        }

        #[test]
        fn a_number_rounds_to_40_bits_as_the_whole_number_does(a in 1i128 << 60..1i128 << 104) {
            let bits = 128 - a.leading_zeros();
            let unit = 1i128 << (bits - 40);
            let (whole, rest) = (a / unit, a % unit);
            let up = rest * 2 > unit || rest * 2 == unit && whole % 2 == 1;
            prop_assert_eq!(Wide::from(a).rounded(), ((whole + i128::from(up)) * unit) as f64);
        }
    }

    #[test]
    fn dependent_columns_of_large_numbers_are_found_although_rounding_leaves_a_rest() {
        for seed in 1..40i128 {
            let row = |at: i128| {
                let (x, z) = (at * at * seed * 7919 % 1_048_573, at * seed * 104_729 % 1_000_003);
                [1, x, z, 7 * x - 3 * z + 11]
            };
            let rows: Vec<[i128; 4]> = (1..300).map(row).collect();
            let mut matrix = vec![Wide::default(); 10];
            for (i, j) in (0..4).flat_map(|i| (i..4).map(move |j| (i, j))) {
                let sum: i128 = rows.iter().map(|row| row[i] * row[j] * (17_592_186_044_417 + seed)).sum();
                matrix[place(4, i, j)] = Wide::from(sum);
            }
            assert_eq!(Factor::of(4, &matrix).unwrap_err(), 3, "{seed}");
        }
    }

    #[test]
    fn a_dependent_column_is_found_and_a_nearly_dependent_one_is_not() {
        // Columns 1, x, 3 + 2 x (+ one step in one row).
        let matrix = |step: i128| {
            let rows: Vec<[i128; 3]> =
                (0..1000).map(|x| [1, x, 3 + 2 * x + step * i128::from(x == 7)]).collect();
            let mut out = vec![Wide::default(); 6];
            for (i, j) in (0..3).flat_map(|i| (i..3).map(move |j| (i, j))) {
                out[place(3, i, j)] = Wide::from(rows.iter().map(|row| row[i] * row[j]).sum::<i128>());
            }
            out
        };
        assert_eq!(Factor::of(3, &matrix(0)).unwrap_err(), 2);
        assert!(Factor::of(3, &matrix(1)).is_ok());
        let inverse = Factor::of(3, &matrix(1)).unwrap().inverse_column(2);
        let product: Wide =
            (0..3).fold(Wide::default(), |sum, k| sum + matrix(1)[place(3, 2, k)] * inverse[k]);
        assert!((product.value() - 1.0).abs() < 1e-20 + f64::EPSILON);
    }
}
