//! libsvm (svmlight): `label index:value index:value ...`, one row a line, indices ascending from 1, what is
//! not there is 0; `#` begins a comment. There is a label in every line, also where it is not asked for.
//! Indices are the numbers of columns. Format: <https://www.csie.ntu.edu.tw/~cjlin/libsvm/faq.html>, and
//! svmlight's page.

use super::columns::{Column, Found, Role};
use super::{
    DataError, Expected, LabelColumn, Labels, Lines, Loaded, MAX_FEATURES, MAX_ROWS, Source, magnitude_ok,
    quoted, whole,
};

/// Most numbers, rows x features, that a sparse file may unfold to: 2^28, that is 1 GiB. A small file can
/// name a great many zeros.
pub(super) const MAX_UNFOLDED: usize = 1 << 28;

/// The entries of all rows, with the columns from 0.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    entries: Vec<(u32, f32)>,
    /// Where each row ends.
    ends: Vec<usize>,
}

impl Sparse {
    pub(super) fn push(&mut self, column: usize, x: f32) {
        // At most MAX_FEATURES.
        self.entries.push((column as u32, x));
    }

    pub(super) fn end_row(&mut self, source: &Source) -> Result<(), DataError> {
        self.ends.push(self.entries.len());
        let (found, limit) = (self.ends.len() as u64, MAX_ROWS as u64);
        if found > limit {
            return Err(DataError::Limit { file: source.file.clone(), what: "too many rows", found, limit });
        }
        Ok(())
    }

    /// All numbers, row after row.
    pub(super) fn unfold(
        &self,
        source: &Source,
        features: usize,
        roles: &[Role],
    ) -> Result<Vec<f32>, DataError> {
        let found = self.ends.len().saturating_mul(features);
        if found > MAX_UNFOLDED {
            let (what, limit) = ("too many numbers in a sparse file, zeros included", MAX_UNFOLDED as u64);
            return Err(DataError::Limit { file: source.file.clone(), what, found: found as u64, limit });
        }
        let (mut values, mut start) = (vec![0.0; found], 0);
        for (&end, row) in self.ends.iter().zip(values.chunks_exact_mut(features)) {
            for &(column, x) in &self.entries[start..end] {
                if let Some(&Role::Feature(place)) = roles.get(column as usize) {
                    row[place] = x;
                }
            }
            start = end;
        }
        Ok(values)
    }
}

pub(super) fn read(mut source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let layout = |problem: &str| DataError::Layout { file: source.file.clone(), problem: problem.into() };
    if matches!(expected.label, LabelColumn::Name(_) | LabelColumn::Number(_)) {
        return Err(layout(
            "the label of libsvm begins every line, expected no label column by name or number",
        ));
    }
    if expected.drop.iter().any(|column| matches!(column, Column::Name(_))) {
        return Err(layout("libsvm has no names of columns, expected the number of the one to be left out"));
    }
    let (mut lines, mut rows, mut labels) = (Lines::default(), Sparse::default(), Labels::new(expected));
    let most =
        expected.features.map_or(MAX_FEATURES, |features| (features + expected.drop.len()).min(MAX_FEATURES));
    let (file, mut highest) = (source.file.clone(), 0);
    while let Some((line, text)) = lines.next(&mut source)? {
        let end = text.iter().position(|&b| b == b'#').unwrap_or(text.len());
        let mut words =
            text[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).enumerate();
        let refuse = |(at, word): (usize, &[u8]), expected: String| DataError::Field {
            file: file.clone(),
            line,
            column: at + 1,
            found: quoted(word),
            expected,
        };
        let Some(first) = words.next() else { continue };
        if expected.label != LabelColumn::None {
            let text = label(first.1).and_then(|text| labels.push(&text));
            text.map_err(|expected| refuse(first, expected))?;
        }
        let mut last = 0;
        for word in words {
            let (index, x) = pair(word.1).map_err(|expected| refuse(word, expected))?;
            if index == 0 || index > most {
                let why =
                    if index == 0 { " (scikit-learn: dump_svmlight_file with zero_based=False)" } else { "" };
                return Err(refuse(word, format!("an index of 1 to {most}{why}")));
            }
            if index <= last {
                return Err(refuse(word, format!("an index above {last}: they ascend")));
            }
            last = index;
            rows.push(index - 1, x);
        }
        highest = highest.max(last);
        rows.end_row(&source)?;
    }
    if rows.ends.is_empty() {
        return Err(DataError::NoRows { file, header: false });
    }
    let dropped = expected.drop.iter().filter_map(|column| match column {
        Column::Number(number) => Some(*number),
        Column::Name(_) => None,
    });
    let count = if expected.features.is_some() { most } else { dropped.fold(highest, usize::max).max(1) };
    let found = Found { file: &file, place: "libsvm", line: 1, count, names: None };
    let aside = found.aside(&LabelColumn::None, expected.drop)?;
    let columns = found.columns(&aside, expected)?;
    let values = rows.unfold(&source, columns.features, &columns.roles)?;
    Ok(labels.finish(columns.features, values))
}

/// A label as the name of a class: a whole number in its shortest form, or text.
fn label(word: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(word).map_err(|_| "UTF-8 text".to_owned())?;
    if text.contains(',') {
        return Err("one label a row".into());
    }
    match text.parse::<f64>() {
        Ok(x) => whole(x),
        Err(_) if text.contains(':') => Err("a label before the first index".into()),
        Err(_) => Ok(text.into()),
    }
}

fn pair(word: &[u8]) -> Result<(usize, f32), String> {
    let text = std::str::from_utf8(word).map_err(|_| "UTF-8 text".to_owned())?;
    let (index, value) = text.split_once(':').ok_or("index:value")?;
    let index = if index.bytes().all(|b| b.is_ascii_digit()) { index.parse().ok() } else { None };
    let index = index.ok_or("index:value with a whole number before the colon")?;
    match value.parse::<f32>() {
        Ok(x) if magnitude_ok(x) => Ok((index, x)),
        Ok(_) => Err("a finite number below 2^80 behind the colon".into()),
        Err(_) => Err("index:value with a number behind the colon".into()),
    }
}
