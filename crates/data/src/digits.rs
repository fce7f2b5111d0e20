//! The built-in digits: 1,797 images of 8 x 8 pixels, for demonstrations and tests. `data/README.md` names
//! the source.

use super::{Dataset, Expected, Source, csv};

const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");

/// Returns 1,797 rows of 64 features (pixels 0..16) with classes `0` to `9`.
#[must_use]
pub fn digits() -> Dataset {
    Source::from_bytes("digits (built in)", FILE)
        .and_then(|source| csv::read(source, &Expected::default()))
        .map(|loaded| loaded.data)
        .unwrap_or_else(|error| unreachable!("BUG: the built-in data is good: {error}"))
}
