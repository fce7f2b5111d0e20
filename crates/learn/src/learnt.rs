//! Records which of a peer's own rows a result was trained on, so that figures on them are not mistaken
//! for figures on new rows.
//!
//! A file next to the result has 8 bytes of a keyed hash of each row. A reader of the file can hash guessed
//! rows and compare the hashes, and rows with few possible values are soon guessed. So the file is private,
//! like the rows, and no part of it is ever sent. It has no rows of other peers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flyswarm_data::{Borrowed, Dataset};
use flyswarm_sealed_sum::crypto::tagged_hash;
use serde::{Deserialize, Serialize};
use sha2::Digest;

/// First entry of the file.
const FORMAT: &str = "flyswarm learnt rows 1";
/// First bytes of each such file.
pub const BEGINNING: &str = "{\n  \"format\": \"flyswarm learnt rows ";
/// Label that is stored for a row without a label.
const UNKNOWN: u16 = u16::MAX;

/// Hashes of a peer's own rows: of the training rows of a result, and of the held-out rows.
#[derive(Clone, PartialEq, Eq)]
pub struct LearntRows {
    result: [u8; 32],
    key: [u8; 32],
    learnt: BTreeSet<[u8; 8]>,
    held_out: BTreeSet<[u8; 8]>,
    partial: bool,
}

/// Comparison of rows with the rows of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Number of rows compared.
    pub rows: usize,
    /// Number of rows that equal training rows of the result.
    pub learnt: usize,
    /// Number of other rows that equal held-out rows.
    pub held_out: usize,
    /// True if the result has other training rows, which are not known ([`LearntRows::with_unknown`]).
    pub partial: bool,
}

/// Contents of the file.
#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    result: String,
    key: String,
    learnt: String,
    held_out: String,
    partial: bool,
}

impl std::fmt::Debug for LearntRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LearntRows({} learnt, {} held out, <redacted>)", self.learnt.len(), self.held_out.len())
    }
}

impl LearntRows {
    /// Makes an empty record for the result with this digest. `key` must stay secret.
    #[must_use]
    pub fn new(result: [u8; 32], key: [u8; 32]) -> Self {
        Self { result, key, learnt: BTreeSet::new(), held_out: BTreeSet::new(), partial: false }
    }

    /// Returns the path of the file that belongs to a result's file.
    #[must_use]
    pub fn beside(result: &Path) -> PathBuf {
        let mut name = result.as_os_str().to_owned();
        name.push(".learnt-rows");
        name.into()
    }

    /// Returns the digest of the result.
    #[must_use]
    pub fn result(&self) -> [u8; 32] {
        self.result
    }

    /// Returns the same rows for another result, which was made from this one.
    #[must_use]
    pub fn with_result(self, result: [u8; 32]) -> Self {
        Self { result, ..self }
    }

    /// Returns the same rows for a result that also has training rows which are not known, for example those
    /// of a network whose own record is missing.
    #[must_use]
    pub fn with_unknown(self) -> Self {
        Self { partial: true, ..self }
    }

    /// Adds rows. The rows at the indices `learnt` were used for training, the others were held out.
    /// `label` returns the label of a row, `None` if it is not known.
    pub fn add(&mut self, data: &Dataset, label: impl Fn(usize) -> Option<u16>, learnt: &[usize]) {
        let learnt: BTreeSet<usize> = learnt.iter().copied().collect();
        for row in 0..data.rows() {
            let hash = self.hash(data.row(row), label(row).unwrap_or(UNKNOWN));
            if learnt.contains(&row) {
                self.learnt.insert(hash)
            } else {
                self.held_out.insert(hash)
            };
        }
    }

    /// Counts how many of these labelled rows were used for training. A row that was recorded without a
    /// label equals rows with any label.
    #[must_use]
    pub fn overlap(&self, data: &Dataset) -> Overlap {
        self.overlap_of(data.into(), data.labels())
    }

    /// Counts as [`LearntRows::overlap`] does, for borrowed rows. Rows without a label are left out.
    #[must_use]
    pub fn overlap_of(&self, rows: Borrowed<'_>, labels: &[u16]) -> Overlap {
        let mut found = Overlap { rows: rows.rows(), partial: self.partial, ..Overlap::default() };
        for (row, &label) in (0..rows.rows()).zip(labels) {
            let hashes = [label, UNKNOWN].map(|label| self.hash(rows.row(row), label));
            let is_in = |rows: &BTreeSet<[u8; 8]>| hashes.iter().any(|hash| rows.contains(hash));
            match (is_in(&self.learnt), is_in(&self.held_out)) {
                (true, _) => found.learnt += 1,
                (false, held_out) => found.held_out += usize::from(held_out),
            }
        }
        found
    }

    /// Returns the first 8 bytes of SHA-256(tag "learnt-row" || key || values as f32 LE || label as u16
    /// LE). -0 is hashed as 0.
    fn hash(&self, row: &[f32], label: u16) -> [u8; 8] {
        let mut hash = tagged_hash("learnt-row").chain_update(self.key);
        row.iter().for_each(|value| hash.update((value + 0.0).to_le_bytes()));
        let hash: [u8; 32] = hash.chain_update(label.to_le_bytes()).finalize().into();
        let mut short = [0; 8];
        short.copy_from_slice(&hash[..8]);
        short
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let joined = |rows: &BTreeSet<[u8; 8]>| rows.iter().map(hex::encode).collect::<String>();
        let file = File {
            format: FORMAT.to_owned(),
            result: hex::encode(self.result),
            key: hex::encode(self.key),
            learnt: joined(&self.learnt),
            held_out: joined(&self.held_out),
            partial: self.partial,
        };
        let text = serde_json::to_string_pretty(&file);
        text.unwrap_or_else(|_| unreachable!("BUG: five strings and a boolean are JSON")) + "\n"
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// A clause that describes the problem.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let file: File =
            serde_json::from_slice(text).map_err(|error| format!("not a file of learnt rows: {error}"))?;
        if file.format != FORMAT {
            return Err(format!("format {:?}, expected {FORMAT:?}", file.format));
        }
        let bytes = |name, text: &str| hex::decode(text).map_err(|error| format!("{name}: {error}"));
        let whole = |name, text| {
            <[u8; 32]>::try_from(bytes(name, text)?).map_err(|_| format!("{name}: expected 32 bytes"))
        };
        let rows = |name, text| match bytes(name, text)?.as_chunks::<8>() {
            (hashes, []) => Ok(hashes.iter().copied().collect()),
            _ => Err(format!("{name}: expected 8 bytes a row")),
        };
        Ok(Self {
            result: whole("result", &file.result)?,
            key: whole("key", &file.key)?,
            learnt: rows("learnt", &file.learnt)?,
            held_out: rows("held_out", &file.held_out)?,
            partial: file.partial,
        })
    }
}

impl Overlap {
    /// Returns a warning to print before figures on these rows.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self { rows, learnt, held_out, partial } = *self;
        let held = if held_out == 0 { String::new() } else { format!(" ({held_out} others were held out)") };
        let text = format!(
            "{learnt} of these {rows} rows equal rows that this model has learnt from{held}: the figures on them \
             say nothing about new rows"
        );
        let unknown = "it is unknown whether this model has learnt from these rows, because the rows of the \
                       original network are not known";
        (learnt > 0).then_some(text).or(partial.then(|| unknown.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f32], labels: &[u16]) -> Dataset {
        let classes = ["a", "b"].map(String::from).to_vec();
        Dataset::new(1, values.to_vec(), labels.to_vec(), classes).unwrap()
    }

    fn learnt() -> LearntRows {
        let data = rows(&[1.0, 2.0, 3.0, 0.0], &[0, 1, 0, 1]);
        let mut made = LearntRows::new([1; 32], [2; 32]);
        made.add(&data, |row| (row < 3).then(|| data.labels()[row]), &[0, 1, 3]);
        made
    }

    #[test]
    fn rows_are_known_again_by_values_and_label() {
        let found = learnt().overlap(&rows(&[1.0, 2.0, 2.0, 3.0, -0.0, 9.0], &[0, 1, 0, 0, 0, 1]));
        // The value 2 with the other label is a different row. The value 0 was recorded without a label. -0
        // is hashed as 0.
        assert_eq!(found, Overlap { rows: 6, learnt: 3, held_out: 1, partial: false });
        assert_eq!(learnt().overlap(&rows(&[4.0], &[0])), Overlap { rows: 1, ..Overlap::default() });
    }

    #[test]
    fn the_file_comes_back_and_is_useless_under_another_key() {
        let made = learnt();
        let read = LearntRows::parse(made.to_text().as_bytes()).unwrap();
        assert_eq!(read, made);
        assert!(made.to_text().starts_with(BEGINNING));
        let partial = made.with_unknown();
        assert_eq!(LearntRows::parse(partial.to_text().as_bytes()).unwrap(), partial);
        let other = LearntRows { key: [3; 32], ..read };
        assert_eq!(other.overlap(&rows(&[1.0], &[0])).learnt, 0);
    }

    #[test]
    fn a_file_that_is_cut_or_something_else_is_refused_by_name() {
        let text = learnt().to_text();
        let refused = |text: &str| LearntRows::parse(text.as_bytes()).unwrap_err();
        assert!(refused("{}").starts_with("not a file of learnt rows: missing field"), "{}", refused("{}"));
        assert!(refused(&text.replace("rows 1", "rows 9")).starts_with("format \"flyswarm learnt rows 9\""));
        let cut = text.replacen("\"learnt\": \"", "\"learnt\": \"00", 1);
        assert_eq!(refused(&cut), "learnt: expected 8 bytes a row");
        let odd = text.replacen("\"key\": \"", "\"key\": \"zz", 1);
        assert!(refused(&odd).starts_with("key: "), "{}", refused(&odd));
    }

    #[test]
    fn a_warning_says_how_many_rows_are_equal_and_only_if_any_are() {
        let warning = |rows, learnt, held_out| Overlap { rows, learnt, held_out, partial: false }.warning();
        assert_eq!(warning(200, 0, 40), None);
        let text = "137 of these 200 rows equal rows that this model has learnt from (40 others were held out): \
                    the figures on them say nothing about new rows";
        assert_eq!(warning(200, 137, 40).as_deref(), Some(text));
    }
}
