//! Sizes in a session file: absolute, or multiples of the dimension as in the paper ("m in [2d,
//! 2048d]").
//!
//! Multiples are rounded down as in the authors' code (github.com/rithram/flynn): m = int(f d), s = max(2,
//! int(f d)), rho = max(2, int(f m)), with products in binary64. "0.025d" with d = 784 is s = 19.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::model::readout::Readout;
use crate::session::rules::{COUNTS_LIMIT, Limit};
use crate::session::{DataSpec, SessionError};
use crate::tasks::ModelSpec;

pub(crate) fn m(classes: usize) -> Limit {
    Limit::new("flynn.m", 1, COUNTS_LIMIT / 4 / classes.max(1) as u64)
        .saying(" (m x classes x 4 bytes is at most 1 GiB)")
}

pub(crate) fn s(d: u32) -> Limit {
    Limit::new("flynn.s", 2, d.into()).saying(" (the dimension d)")
}

pub(crate) fn rho(m: u32) -> Limit {
    Limit::new("flynn.rho", 1, m.into()).saying(" (m)")
}

/// A size as written in a file or on the command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    /// A number.
    Absolute(i64),
    /// A factor and the letter of the size that it multiplies: `256d`, `0.01m`.
    Multiple(String),
}

/// The sizes of FlyNN before they are resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Absolute, or a multiple of d.
    pub m: Size,
    /// Absolute, or a multiple of d.
    pub s: Size,
    /// Absolute, or a multiple of m.
    pub rho: Size,
}

impl Sizes {
    /// Resolves the sizes for rows and classes as in `data`.
    ///
    /// # Errors
    /// [`SessionError::Value`] if a size is out of range or malformed.
    pub fn resolve(&self, data: &DataSpec, readout: impl Into<Readout>) -> Result<ModelSpec, SessionError> {
        let d = data.dimension();
        let m = m(data.classes.len()).check(self.m.times("flynn.m", 'd', d, 0)?)?;
        let s = s(d).check(self.s.times("flynn.s", 'd', d, 2)?)?;
        let rho = rho(m).check(self.rho.times("flynn.rho", 'm', m, 2)?)?;
        let Readout { score, gamma } = readout.into();
        Ok(ModelSpec { m, s, rho, gamma, score })
    }
}

impl Size {
    /// Returns the number. A multiple becomes factor x `base`, rounded down, but at least `least`.
    fn times(&self, field: &'static str, unit: char, base: u32, least: i128) -> Result<i128, SessionError> {
        let text = match self {
            Self::Absolute(number) => return Ok(i128::from(*number)),
            Self::Multiple(text) => text,
        };
        let factor = text.strip_suffix(unit).filter(|digits| {
            digits.len() <= 32 && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
        });
        let factor = factor.and_then(|digits| digits.parse::<f64>().ok()).filter(|factor| *factor > 0.0);
        let factor = factor.ok_or_else(|| {
            SessionError::value(
                field,
                format!("{text:?}"),
                format!("an integer or a multiple such as \"0.5{unit}\""),
            )
        })?;
        // A factor has at most 32 digits and `base` is at most 2^28. So the product is finite and fits in an
        // i128.
        #[expect(clippy::cast_possible_truncation, reason = "truncation is the rule")]
        let product = (factor * f64::from(base)) as i128;
        Ok(product.max(least))
    }
}

impl FromStr for Size {
    type Err = std::convert::Infallible;

    /// Reads an integer if the text is one. Any other text is taken as a multiple, which `resolve` checks.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Multiple(text.into()), Self::Absolute))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(number) => write!(f, "{number}"),
            Self::Multiple(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a multiple such as \"256d\"")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Size, E> {
                Ok(Size::Absolute(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Size, E> {
                Ok(Size::Multiple(text.into()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
