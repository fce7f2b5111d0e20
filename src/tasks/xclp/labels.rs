//! The labels of a peer's own rows, the file with them, and the labels that a correct session must give.

use super::Xclp;
use crate::data::Dataset;
use crate::sketch::lsh::Codes;
use flyswarm_data::scaling::Scaler;
use flyswarm_mpc::propagation::integer::reference::{self, Reference};
use flyswarm_mpc::propagation::integer::{self, COARSE_BITS};

/// The label of a row after propagation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowLabel {
    /// Label of the row. This is the given label or, if there is none, the class with the largest score.
    /// `None` if no label reaches the row.
    pub label: Option<u16>,
    /// Share of this class in the sum of the row's scores, a multiple of 2^-6.
    pub confidence: f64,
    /// True if the row has a given label and another class has the largest score.
    pub disputed: bool,
}

impl Xclp {
    /// Returns the label of each row, in the order of the file. Given labels are not changed.
    #[must_use]
    pub fn said(&self, output: &reference::Output) -> Vec<RowLabel> {
        let classes = self.plan.classes();
        let rows = output.labels.iter().zip(output.coarse.chunks(classes)).zip(&*self.labels);
        rows.map(|((&found, coarse), &given)| {
            let label = given.or(found);
            let part = label.and_then(|label| coarse.get(usize::from(label))).copied().unwrap_or(0);
            let confidence = f64::from(part) / f64::from(1u32 << COARSE_BITS);
            RowLabel { label, confidence, disputed: given.is_some() && found.is_some() && given != found }
        })
        .collect()
    }

    /// Computes the labels of some peers' rows (peers in ascending order) in one place. The session must
    /// arrive at the same labels, bit for bit. `moments` are those that the session opened; they may come
    /// from more rows than these. If there are none, the moments of these rows are used. Labels of the
    /// classes `without` are ignored ([`Self::without_labels`]). Also returns the number of edges of the
    /// graph.
    pub fn pooled(
        tasks: &[&Self],
        planes: &[u8; 32],
        moments: Option<&[u8]>,
        without: &[u16],
    ) -> Result<(Vec<Vec<RowLabel>>, usize), String> {
        let Some(first) = tasks.first() else { return Ok((Vec::new(), 0)) };
        let (plan, features) = (&first.plan, first.data.features());
        let values = tasks.iter().flat_map(|task| task.data.values().iter().copied()).collect();
        let all =
            Dataset::new(features, values, Vec::new(), Vec::new()).map_err(|error| error.to_string())?;
        let scaler = match (plan.scaling.needs_moments(), moments) {
            (Some(_), Some(moments)) => plan.scaler(Some(moments))?,
            _ => Scaler::fit(&plan.scaling, &all).map_err(|error| error.to_string())?,
        };
        let labels = tasks.iter().flat_map(|task| task.labels.iter().copied());
        let labels: Vec<_> = labels.map(|label| label.filter(|label| !without.contains(label))).collect();
        let codes =
            Codes::of(&scaler.transform(&all), planes, plan.spec.bits as usize).ok_or("bits of a code")?;
        let numbers = integer::Plan::new(all.rows(), plan.classes(), plan.spec.settings());
        let numbers = numbers.map_err(|refusal| refusal.to_string())?;
        let reference = Reference::new(&numbers, &codes, &labels);
        let mut start = 0;
        let said = tasks.iter().map(|task| {
            let rows = start..start + task.data.rows();
            start = rows.end;
            let coarse = rows.start * plan.classes()..rows.end * plan.classes();
            task.said(&reference::Output {
                labels: reference.output.labels[rows].to_vec(),
                coarse: reference.output.coarse[coarse].to_vec(),
            })
        });
        let said = said.collect();
        Ok((said, reference.graph.iter().filter(|weight| **weight > 0).count() / 2))
    }
}

/// Writes a line for each row, in the order of the file. It has the label, the confidence, the position in
/// the data file (from 1), the source of the label (`given`, `inferred`, or `none` if no label reached the
/// row), and whether a given label is disputed.
pub(super) fn labels_text(said: &[RowLabel], known: &[Option<u16>], classes: &[String]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and names of classes are valid text.
    let _ = out.write_record(["label", "confidence", "row", "source", "disputed"]);
    for (row, RowLabel { label, confidence, disputed }) in said.iter().enumerate() {
        let source = match (known.get(row), label) {
            (Some(Some(_)), _) => "given",
            (_, Some(_)) => "inferred",
            (_, None) => "none",
        };
        let label = label.and_then(|label| classes.get(usize::from(label))).map_or("", String::as_str);
        let (confidence, row) = (format!("{confidence:.6}"), (row + 1).to_string());
        let disputed = if *disputed { "yes" } else { "" };
        let _ = out.write_record([label, &confidence, &row, source, disputed]);
    }
    out.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_place_and_where_its_label_comes_from() {
        let said = |label, confidence, disputed| RowLabel { label, confidence, disputed };
        let rows = [said(Some(1), 0.5, false), said(Some(0), 0.25, true), said(None, 0.0, false)];
        let text = labels_text(&rows, &[None, Some(0), None], &["sick".into(), "we,ll".into()]);
        let expected = "label,confidence,row,source,disputed\n\"we,ll\",0.500000,1,inferred,\n\
                        sick,0.250000,2,given,yes\n,0.000000,3,none,\n";
        assert_eq!(text, expected);
    }
}
