//! The file of labels that a peer is given for its own rows.

/// The label of a row after propagation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowLabel {
    /// The label: the one that was given, or else the class of the largest score; none where no label reaches
    /// the row.
    pub label: Option<u16>,
    /// That class's part of all scores of the row, a multiple of 2^-6.
    pub confidence: f64,
    /// Whether the row was given another label than its largest score says.
    pub disputed: bool,
}

/// Label and confidence of each row, its place in the data file from 1, whether its label was `given` with
/// it, `inferred`, or `none` reached it, and whether a given label is disputed; in the order of the file.
pub(super) fn labels_text(said: &[RowLabel], known: &[Option<u16>], classes: &[String]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and names of classes are text.
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
