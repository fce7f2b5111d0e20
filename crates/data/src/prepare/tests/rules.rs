//! Each rule of a preparation alone: a preparation that breaks only this rule is refused.

use super::super::draft::draft;
use super::*;
use flyswarm_sealed_sum::crypto::mask::Wide;

fn refused(change: impl Fn(&mut TableSchema)) -> String {
    let mut preparation = patients();
    change(&mut preparation);
    preparation.check().unwrap_err().to_string()
}

#[test]
fn names_levels_and_texts_for_missing_values_are_plain_and_few() {
    assert!(refused(|p| p.columns[1].kind = Kind::Category(vec![" f".into()])).starts_with("a level of"));
    assert!(refused(|p| p.missing.push("x ".into())).starts_with("a text for missing values"));
    assert!(refused(|p| p.missing.push("NA".into())).starts_with("a text for missing values"));
    let many = |p: &mut TableSchema| p.missing = (0..=MAX_TOKENS).map(|i| format!("no {i}")).collect();
    assert!(refused(many).starts_with("the number of texts for missing values is 101"));
    assert!(refused(|p| p.columns[4].name = String::new()).starts_with("a column's name"));
    let long = |p: &mut TableSchema| {
        p.columns[1].name = "n".repeat(200);
        p.columns[1].kind = Kind::Category(vec!["l".repeat(100)]);
    };
    assert!(refused(long).contains("at most 256 bytes: shorten"));
}

#[test]
fn what_fills_a_column_is_of_its_kind() {
    let fill = |at: usize, fill: Fill| refused(|p| p.columns[at].fill = fill.clone());
    for (column, wrong) in [
        (0, Fill::NoLevel),
        (0, Fill::Number(f64::NAN)),
        (0, Fill::Number(1e30)),
        (1, Fill::Number(1.0)),
        (1, Fill::Level("x".into())),
        (2, Fill::NoLevel),
        (4, Fill::Pooled),
    ] {
        let text = fill(column, wrong.clone());
        assert!(text.starts_with(&format!("fill of column {:?}", patients().columns[column].name)), "{text}");
    }
    assert!(refused(|p| p.columns[0].clip = true).contains("false without min and max"));
}

#[test]
fn a_preparation_whose_fills_are_not_known_yet_is_no_models_and_fills_nothing() {
    let column = ColumnSpec { fill: Fill::Pooled, ..ColumnSpec::new("sex", Kind::Category(texts("f m"))) };
    let waiting = TableSchema { columns: vec![column], ..TableSchema::default() };
    waiting.check().unwrap();
    assert!(waiting.check_resolved().unwrap_err().to_string().contains("fill of column \"sex\""));
    let known = waiting.resolved(&[1, 2].map(Wide::from)).unwrap();
    known.check_resolved().unwrap();
    assert_eq!(known.columns[0].fill, Fill::Level("m".into()));
    for words in [&[0, 0][..], &[1, u64::MAX], &[1], &[1, 2, 3]] {
        let words: Vec<_> = words.iter().copied().map(Wide::from).collect();
        assert!(waiting.resolved(&words).is_err(), "{words:?}");
    }
    let rows = Dataset::new(2, vec![0.0; 4], Vec::new(), Vec::new()).unwrap();
    let gaps = [MissingCell { row: 1, column: 0 }];
    assert_eq!(known.filled(&rows, &gaps).unwrap().values(), [0.0, 0.0, 0.0, 1.0]);
    for (preparation, gap) in [(&waiting, gaps[0]), (&known, MissingCell { row: 2, column: 0 })] {
        assert!(preparation.filled(&rows, &[gap]).is_err());
    }
}

#[test]
fn a_label_that_cannot_be_read_is_named_before_anything_is_drafted() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats/patients.parquet");
    let label = LabelColumn::Name("notes.list.element".into());
    let error = draft(file.as_ref(), &Expected { label, ..Expected::default() }, &Rule::LOCAL)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is the label, and of type nested, which cannot be read"), "{error}");
}
