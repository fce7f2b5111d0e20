//! A peer may keep some of its labels back, to see how well the session finds them.
//!
//! For the session, such a row has no label. Only this peer gets the result. If tables of right and wrong
//! labels were summed over two owners, each of them could compute the other's table.

use flyswarm_learn::model::comparison::Whose;
use flyswarm_learn::model::figures::Sums;
use serde_json::{Value, json};

use super::{RowLabel, Xclp, planes};
use crate::data::Dataset;
use crate::data::split::held_out;
use crate::model::neighbours::Neighbours;
use crate::tasks::common::evaluation::Evaluation;
use crate::tasks::common::evaluation::NEIGHBOURS;
use crate::tasks::{History, Rows};
use flyswarm_data::scaling::Scaler;

/// Largest number of rows of a peer that keeps labels back: the peer also propagates labels over its own rows
/// alone, which takes 10 bytes for each pair of rows.
const MOST: usize = 4000;

/// Removes `percent` of the labels from `rows`, but never all labels of a class. A hash with `key` selects
/// them. Returns all labels as they were before.
///
/// # Errors
/// If no label can be removed, or if there are more rows than can be compared.
pub(crate) fn hold_out(
    rows: &mut Rows,
    classes: &[String],
    percent: u8,
    key: &[u8; 32],
) -> Result<Vec<Option<u16>>, String> {
    let (known, count) = (rows.labels.clone(), rows.data.rows());
    if count > MOST {
        return Err(format!(
            "{count} rows, at most {MOST} can be compared with the answer from own rows alone"
        ));
    }
    let places: Vec<usize> = (0..known.len()).filter(|&row| known[row].is_some()).collect();
    let split = match places[..] {
        [] => None,
        _ => {
            Some(held_out(&labelled(&rows.data, &places, &known, classes)?, percent.into(), usize::MAX, key))
        }
    };
    let Some(split) = split.filter(|split| !split.test.is_empty()) else {
        return Err("no class has two rows (or groups) with a label, so no label can be kept back".into());
    };
    split.test.iter().for_each(|&row| rows.labels[places[row]] = None);
    Ok(known)
}

/// Returns these rows with their labels.
fn labelled(
    data: &Dataset,
    rows: &[usize],
    labels: &[Option<u16>],
    classes: &[String],
) -> Result<Dataset, String> {
    let labels = rows.iter().filter_map(|&row| labels[row]).collect();
    data.subset(rows).with_labels(labels, classes.to_vec()).map_err(|error| error.to_string())
}

impl Xclp {
    /// Returns this task for a peer that knows the labels `known`, but gives the session only some of them.
    pub(crate) fn knowing(self, known: Vec<Option<u16>>) -> Self {
        Self { known, ..self }
    }

    /// Returns the label that this peer knows for a row, even if the session did not get it.
    fn known(&self, row: usize) -> Option<u16> {
        self.labels[row].or(self.known.get(row).copied().flatten())
    }

    /// Returns the labels of all rows, in which the labels that were kept back replace the found ones. Also
    /// returns all labels that the peer knows.
    pub(super) fn with_known(&self, said: &[RowLabel]) -> (Vec<RowLabel>, Vec<Option<u16>>) {
        let known: Vec<_> = (0..said.len()).map(|row| self.known(row)).collect();
        let rows = said.iter().zip(&known).zip(self.labels.iter());
        let said = rows.map(|((said, known), given)| match (known, given) {
            (Some(_), None) => {
                RowLabel { label: *known, disputed: said.label.is_some() && said.label != *known, ..*said }
            }
            _ => *said,
        });
        (said.collect(), known)
    }

    /// Compares three ways to find the labels that were kept back: the session, propagation over this peer's
    /// rows alone, and the nearest of the rows whose labels it gave. If no label reaches a row by
    /// propagation, the nearest rows decide.
    pub(super) fn compared(
        &self,
        said: &[RowLabel],
        history: &History,
    ) -> Result<Option<Evaluation>, String> {
        let kept: Vec<_> = (0..said.len()).filter(|&row| self.labels[row].is_some()).collect();
        let held: Vec<_> =
            (0..said.len()).filter(|&row| self.labels[row].is_none() && self.known(row).is_some()).collect();
        if held.is_empty() {
            return Ok(None);
        }
        let classes = self.classes();
        let all: Vec<_> = (0..said.len()).map(|row| self.known(row)).collect();
        let part = |rows: &[usize]| labelled(&self.data, rows, &all, classes);
        let (kept, rows) = (part(&kept)?, part(&held)?);
        let scaler = Scaler::fit(&self.plan.scaling, &self.data).map_err(|error| error.to_string())?;
        let (kept, scaled) = (scaler.transform(&kept), scaler.transform(&rows));
        let near = Neighbours::new(&kept).ok_or("no label was given")?.predict(NEIGHBOURS, &scaled);
        let seed = planes(&self.plan.session, history).ok_or("the coin is not open")?;
        let (alone, _) = Self::pooled(&[self], &seed, None, &[])?;
        let told = |said: &[RowLabel]| -> Vec<u16> {
            held.iter().zip(&near).map(|(&row, &near)| said[row].label.unwrap_or(near)).collect()
        };
        let (by_swarm, by_alone) = (told(said), told(&alone.concat()));
        let sums = Sums::of_classes(classes.len(), rows.labels(), &by_swarm);
        Ok(Some(Evaluation::of(rows.labels(), sums, [&by_swarm, &by_alone, &near])))
    }

    /// Returns the figures for the report, a line for the user, and notes for both.
    pub(super) fn told(&self, found: &Evaluation) -> Option<(Value, String, Vec<String>)> {
        let own = found.compared(self.classes(), None)?;
        let line = own.headline(&format!("{} labels kept back", own.swarm.rows));
        Some((json!(own), line, own.warnings(Whose::Peer)))
    }
}

#[cfg(test)]
mod tests;
