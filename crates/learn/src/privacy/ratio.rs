//! Exact positive parameters.

use std::fmt;
use std::str::FromStr;

/// A positive ratio of integers, in lowest terms, such as a privacy budget, the scale of a distribution or a
/// share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

/// Number of decimal places that a budget may have.
const DECIMALS: usize = 6;

impl Ratio {
    /// Returns `numerator` / `denominator`; `None` if either is 0.
    #[must_use]
    pub const fn new(numerator: u64, denominator: u64) -> Option<Self> {
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let (mut a, mut b) = (numerator, denominator);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Some(Self { numerator: numerator / a, denominator: denominator / a })
    }

    /// Returns `number` millionths; `None` for 0.
    #[must_use]
    pub const fn millionths(number: u64) -> Option<Self> {
        Self::new(number, 1_000_000)
    }

    /// Returns `number` parts in 10^12; `None` for 0.
    #[must_use]
    pub const fn trillionths(number: u64) -> Option<Self> {
        Self::new(number, 1_000_000_000_000)
    }

    /// Returns the numerator in lowest terms.
    #[must_use]
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// Returns the denominator in lowest terms.
    #[must_use]
    pub const fn denominator(self) -> u64 {
        self.denominator
    }

    /// Multiplies by an integer. Returns `None` if the factor is 0 or if numerator or denominator exceeds 64
    /// bits.
    #[must_use]
    pub const fn times(self, factor: u64) -> Option<Self> {
        let Some(reduced) = Self::new(factor, self.denominator) else { return None };
        match self.numerator.checked_mul(reduced.numerator) {
            Some(numerator) => Self::new(numerator, reduced.denominator),
            None => None,
        }
    }

    /// Returns 1 / self.
    #[must_use]
    pub const fn inverse(self) -> Self {
        Self { numerator: self.denominator, denominator: self.numerator }
    }

    /// Divides by an integer. Returns `None` if the divisor is 0 or if numerator or denominator exceeds 64
    /// bits.
    #[must_use]
    pub const fn over(self, divisor: u64) -> Option<Self> {
        match self.inverse().times(divisor) {
            Some(inverse) => Some(inverse.inverse()),
            None => None,
        }
    }

    /// Returns the decimal number between 0.000001 and 1000 with at most six places whose binary64 is
    /// `number`, or `None` if `number` is not such a decimal.
    #[must_use]
    pub fn from_decimal(number: f64) -> Option<Self> {
        let millionths = (number * 1e6).round();
        let fits = (1.0..=1e9).contains(&millionths) && (millionths / 1e6).to_bits() == number.to_bits();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 1e9")]
        fits.then(|| Self::millionths(millionths as u64)).flatten()
    }

    /// Returns the nearest binary64, for tests and for output that people read. No mechanism may depend on
    /// it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rounding is the point")]
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// The text is not a positive decimal number with at most six decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a positive number with at most {DECIMALS} decimal places")]
pub struct NotDecimal;

impl FromStr for Ratio {
    type Err = NotDecimal;

    /// Parses a decimal number such as `0.25`, exactly.
    fn from_str(text: &str) -> Result<Self, NotDecimal> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS || whole.len() > 12 {
            return Err(NotDecimal);
        }
        let number = format!("{whole}{decimals:0<DECIMALS$}");
        number.parse().ok().and_then(Self::millionths).ok_or(NotDecimal)
    }
}

impl<'de> serde::Deserialize<'de> for Ratio {
    /// Reads a decimal number, as text or as a TOML number.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(f64),
            Text(String),
        }
        let read = match serde::Deserialize::deserialize(deserializer)? {
            Raw::Number(number) => Self::from_decimal(number).ok_or(NotDecimal),
            Raw::Text(text) => text.parse(),
        };
        read.map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for Ratio {
    /// Writes text, because a number would be rounded.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Ratio {
    /// Prints a decimal number if it has at most six places, otherwise a fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { numerator, denominator } = *self;
        if 1_000_000 % denominator != 0 {
            return write!(f, "{numerator}/{denominator}");
        }
        let millionths = u128::from(numerator) * u128::from(1_000_000 / denominator);
        let decimals = format!("{:06}", millionths % 1_000_000);
        let decimals = decimals.trim_end_matches('0');
        write!(f, "{}", millionths / 1_000_000)?;
        if decimals.is_empty() { Ok(()) } else { write!(f, ".{decimals}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_and_printed_as_they_were() {
        for (text, numerator, denominator) in
            [("0.25", 1, 4), ("1", 1, 1), ("2.000001", 2_000_001, 1_000_000), ("0.1", 1, 10), ("12.5", 25, 2)]
        {
            let ratio: Ratio = text.parse().unwrap();
            assert_eq!((ratio.numerator(), ratio.denominator()), (numerator, denominator), "{text}");
            assert_eq!(ratio.to_string(), text);
        }
        assert_eq!(Ratio::from_decimal(0.1), "0.1".parse().ok());
        assert_eq!(Ratio::from_decimal(2.000001), "2.000001".parse().ok());
        for number in [0.0, -1.0, 0.1 + 0.2, 1e-7, 2000.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Ratio::from_decimal(number), None, "{number}");
        }
        for text in ["", "0", "0.0", ".5", "1.", "-1", "1e3", "0.0000001", "1,5", "nan", "1234567890123"] {
            assert_eq!(text.parse::<Ratio>(), Err(NotDecimal), "{text:?}");
        }
    }

    #[test]
    fn products_stay_in_lowest_terms_and_never_wrap() {
        let third = Ratio::new(2, 6).unwrap();
        assert_eq!(third.times(3), Ratio::new(1, 1));
        assert_eq!(third.over(4), Ratio::new(1, 12));
        assert_eq!(third.to_string(), "1/3");
        assert_eq!(Ratio::new(u64::MAX, 2).unwrap().times(4), None);
        assert_eq!(Ratio::new(1, u64::MAX).unwrap().over(2), None);
        assert_eq!(
            (Ratio::new(0, 1), Ratio::new(1, 0), third.times(0), third.over(0)),
            (None, None, None, None)
        );
    }
}
