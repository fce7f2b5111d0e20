//! Reads rows that are all in one file, for a single peer that compares settings, or for a simulation.

use std::path::Path;

use super::draft::{Draft, draft};
use super::publish::Rule;
use crate::{DataError, Expected, Loaded, load_named};

/// Reads a file with `expected`. The file is treated as the rows of all peers: pooled fills are the mean or
/// the most frequent level of its own rows.
///
/// # Errors
/// [`DataError`] as for [`load_named`], and if a column to be filled in this way has no values at all.
pub fn load_whole(path: &Path, expected: &Expected) -> Result<Loaded, DataError> {
    let mut loaded = load_named(path, expected)?;
    if let Some(preparation) = expected.preparation
        && !loaded.gaps.is_empty()
    {
        let words = preparation.pooled_values(&loaded.data, &loaded.gaps);
        let resolved = preparation
            .resolved(&words)
            .map_err(|error| DataError::Layout { file: path.into(), problem: error.to_string() })?;
        loaded.data = resolved.filled(&loaded.data, &std::mem::take(&mut loaded.gaps))?;
    }
    Ok(loaded)
}

/// Reads a file without a description of its columns. It is read as numbers if possible, otherwise with a
/// draft. The draft is returned too; `rule` decides which texts it may contain.
///
/// # Errors
/// [`DataError`] as for [`load_named`] if the file cannot be read in either way.
pub fn load_drafted(
    path: &Path,
    expected: &Expected,
    rule: &Rule,
) -> Result<(Loaded, Option<Draft>), DataError> {
    let refused = match load_named(path, expected) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(refused) => refused,
    };
    let Ok(Some(draft)) = draft(path, expected, rule) else { return Err(refused) };
    let classes = Some(expected.classes.unwrap_or(&draft.classes));
    let described = Expected { preparation: Some(&draft.preparation), classes, ..expected.clone() };
    match load_named(path, &described) {
        Ok(loaded) => Ok((loaded, Some(draft))),
        Err(_) => Err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelColumn;
    use crate::prepare::{ColumnSpec, Fill, Kind, TableSchema};

    #[test]
    fn missing_values_take_the_mean_and_the_most_frequent_level_of_the_files_own_rows() {
        let levels = ["f", "m"].map(String::from).to_vec();
        let pooled = |name: &str, kind| ColumnSpec { fill: Fill::Pooled, ..ColumnSpec::new(name, kind) };
        let columns = vec![pooled("age", Kind::Number), pooled("sex", Kind::Category(levels))];
        let preparation = TableSchema { columns, ..TableSchema::default() };
        let expected =
            Expected { preparation: Some(&preparation), label: LabelColumn::None, ..Expected::default() };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.csv");
        std::fs::write(&file, "age,sex\n1,f\n,m\n4,\n4,m\n").unwrap();
        let loaded = load_whole(&file, &expected).unwrap();
        assert_eq!(loaded.data.values(), [1.0, 1.0, 0.0, 3.0, 0.0, 1.0, 4.0, 0.0, 1.0, 4.0, 0.0, 1.0]);
        assert_eq!(loaded.gaps, []);
        std::fs::write(&file, "age,sex\n,f\n,m\n").unwrap();
        let error = load_whole(&file, &expected).unwrap_err().to_string();
        assert!(error.contains("rows.csv: the sum over column \"age\""), "{error}");
    }
}
