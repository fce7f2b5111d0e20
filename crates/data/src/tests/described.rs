//! Described columns in every format with types give the same rows as their CSV.

use super::write::{Cell, Style, Table, csv, json_lines, npz, parquet, xlsx};
use super::*;
use crate::prepare::draft::draft;
use crate::prepare::problems::Trouble;
use crate::prepare::publish::Rule;
use crate::prepare::read::check;
use crate::prepare::{ColumnSpec, DateOrder, Fill, Kind};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "formats", name].iter().collect()
}

fn texts(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

fn with(fill: Fill, name: &str, kind: Kind) -> ColumnSpec {
    ColumnSpec { fill, ..ColumnSpec::new(name, kind) }
}

/// The table that `scripts/make-formats.py` writes.
fn patients() -> TableSchema {
    let columns = vec![
        ColumnSpec { indicator: true, ..with(Fill::Number(50.0), "age", Kind::Number) },
        with(Fill::NoLevel, "sex", Kind::Category(texts("f m"))),
        ColumnSpec::new("stage", Kind::Ordinal(texts("I II III"))),
        // Dates need an order of day, month and year only if they are texts.
        with(Fill::Number(7.0), "seen", Kind::Date(DateOrder::DayMonthYear)),
        ColumnSpec::new("left", Kind::Date(DateOrder::YearMonthDay)),
        with(Fill::NoLevel, "smoker", Kind::Category(texts("True False"))),
        with(Fill::Pooled, "visits", Kind::Number),
    ];
    TableSchema { label: Some("kind".into()), columns, ..TableSchema::default() }
}

fn expected<'a>(preparation: &'a TableSchema, classes: &'a [String]) -> Expected<'a> {
    Expected { preparation: Some(preparation), classes: Some(classes), ..Expected::default() }
}

#[test]
fn a_parquet_table_is_read_as_its_columns_are_described() {
    let (preparation, classes) = (patients(), texts("sick well"));
    let loaded = load_named(&fixture("patients.parquet"), &expected(&preparation, &classes)).unwrap();
    #[rustfmt::skip]
    let rows = [
        61.0, 0.0, 1.0, 0.0, 1.0, 10.0, 11.0, 1.0, 0.0, 3.0,
        50.0, 1.0, 0.0, 0.0, 0.0, 11_016.0, 11_017.0, 0.0, 0.0, 1.0,
        48.5, 0.0, 0.0, 1.0, 2.0, 7.0, 10_956.0, 0.0, 1.0, 0.0,
        70.0, 0.0, 1.0, 0.0, 0.0, -1.0, -1.0, 1.0, 0.0, 2.0,
    ];
    assert_eq!(loaded.data.values(), rows);
    assert_eq!(loaded.data.labels(), [0, 1, 0, 1]);
    assert_eq!(loaded.left_out, ["notes.list.element"], "a list that nobody has described does not matter");
    assert_eq!(loaded.gaps, [prepare::MissingCell { row: 2, column: 6 }]);
    // pandas writes the same table as CSV, with dates as texts.
    let mut written = preparation.clone();
    written.columns[3].kind = Kind::Date(DateOrder::YearMonthDay);
    let csv = load_named(&fixture("patients.csv"), &expected(&written, &classes)).unwrap();
    assert_eq!((csv.data, csv.gaps, csv.columns), (loaded.data, loaded.gaps, loaded.columns));
    let sex = column_texts(
        &fixture("patients.parquet"),
        &Column::Name("sex".into()),
        4,
        &expected(&preparation, &classes),
    );
    assert_eq!(sex.unwrap(), ["f", "", "m", "f"]);
}

#[test]
fn what_is_wrong_with_a_parquet_table_is_listed_with_its_rows() {
    let (mut preparation, classes) = (patients(), texts("sick well"));
    preparation.columns[0].fill = Fill::Refuse;
    preparation.columns[0].indicator = false;
    preparation.columns[2].kind = Kind::Ordinal(texts("I II"));
    let (loaded, problems) = check(&fixture("patients.parquet"), &expected(&preparation, &classes)).unwrap();
    assert_eq!(loaded, None);
    let found: Vec<_> =
        problems.list.iter().map(|problem| (problem.line, &*problem.column, &problem.trouble)).collect();
    assert_eq!(found, [(2, "age", &Trouble::Missing), (3, "stage", &Trouble::Level)]);
    assert!(problems.list[1].to_string().starts_with("row 3, column \"stage\": found \"III\""));
    preparation.columns[2].name = "stages".into();
    let (_, problems) = check(&fixture("patients.parquet"), &expected(&preparation, &classes)).unwrap();
    assert_eq!(
        problems.list[0].to_string(),
        "the schema: no column is called \"stages\"; \"stage\" is: call it \"stages\" in the header"
    );
    let mut preparation = patients();
    preparation.columns.push(ColumnSpec::new("notes.list.element", Kind::Number));
    let error = load(&fixture("patients.parquet"), &expected(&preparation, &classes)).unwrap_err();
    assert!(
        error.to_string().contains("column \"notes.list.element\" is of type nested, which cannot be read"),
        "{error}"
    );
}

#[test]
fn a_parquet_table_is_drafted_with_its_types() {
    let described = Expected { label: LabelColumn::Name("kind".into()), ..Expected::default() };
    let drafted = draft(&fixture("patients.parquet"), &described, &Rule::LOCAL).unwrap().unwrap();
    assert_eq!(drafted.classes, texts("sick well"));
    let kinds: Vec<&Kind> = drafted.preparation.columns.iter().map(|column| &column.kind).collect();
    let date = Kind::Date(DateOrder::YearMonthDay);
    let [category, stages, smoker] =
        ["f m", "I II III", "False True"].map(|levels| Kind::Category(texts(levels)));
    assert_eq!(
        kinds,
        [&Kind::Number, &category, &stages, &date, &date, &smoker, &Kind::Number, &Kind::Ignored]
    );
    assert!(drafted.notes[7].ends_with("which cannot be read"), "{:?}", drafted.notes);
    let read = Expected { preparation: Some(&drafted.preparation), ..described };
    assert_eq!(load(&fixture("patients.parquet"), &read).unwrap().rows(), 4);
    assert_eq!(
        draft(&fixture("rows.npy"), &Expected::default(), &Rule::LOCAL).unwrap(),
        None,
        "an array has no columns"
    );
}

#[test]
fn arrays_are_refused_where_columns_are_described() {
    let (preparation, classes) = (patients(), texts("sick well"));
    let error = load(&fixture("rows.npy"), &expected(&preparation, &classes)).unwrap_err().to_string();
    assert!(error.contains("found by their names, and this file is npy: save it as"), "{error}");
}

#[test]
fn a_damaged_parquet_table_is_refused_in_one_line() {
    let (preparation, classes) = (patients(), texts("sick well"));
    let whole = std::fs::read(fixture("patients.parquet")).unwrap();
    let files = Files::new();
    for at in 0..whole.len() {
        for change in [0x01, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= change;
            let file = files.write("rows.parquet", &damaged);
            if let Err(error) = load(&file, &expected(&preparation, &classes)) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

#[test]
fn described_columns_need_a_header_and_a_column_of_texts_has_one_for_each_row() {
    let (preparation, classes) = (patients(), texts("sick well"));
    let described = expected(&preparation, &classes);
    let csv = fixture("patients.csv");
    let error = load(&csv, &Expected { header: Some(false), ..described.clone() }).unwrap_err().to_string();
    assert!(error.ends_with("described columns are found by their names: a header is needed"), "{error}");
    let error = column_texts(&csv, &Column::Name("sex".into()), 5, &described).unwrap_err().to_string();
    assert!(error.ends_with("4 rows, expected 5"), "{error}");
}

#[test]
fn a_row_longer_than_64_mib_is_refused_before_it_fills_memory() {
    let (preparation, classes) = (patients(), texts("sick well"));
    let mut text = std::fs::read(fixture("patients.csv")).unwrap();
    text.resize(text.len() + (1 << 26) + 1, b'x');
    let file = Files::new();
    let path = file.write("rows.csv", &text);
    let error = load(&path, &expected(&preparation, &classes)).unwrap_err().to_string();
    assert!(error.contains("bytes in one row (a quote that is not closed?)"), "{error}");
}

#[test]
fn a_table_is_drafted_alike_from_every_format() {
    let cells = |cell: fn(i64) -> Cell| (0..60).map(cell).collect::<Vec<_>>();
    let table: Table = vec![
        ("dose".into(), cells(|row| Cell::Number((row % 7) as f64 + 0.5))),
        ("male".into(), cells(|row| Cell::Truth(row % 2 == 0))),
        ("seen".into(), cells(|row| Cell::Day(20_000 + (row * 7 % 50) as i32))),
        ("ward".into(), cells(|row| Cell::Text(["north", "south"][(row % 2) as usize].into()))),
        ("pseudonym".into(), cells(|row| Cell::Text(format!("MRN{}", row / 2)))),
        ("kind".into(), cells(|row| Cell::Text(["ill", "well"][(row % 2) as usize].into()))),
    ];
    let files = Files::new();
    let style = Style { delimiter: ',', comma: false, truth: ["False", "True"] };
    let of = |name: &str, bytes: Vec<u8>| {
        let label = LabelColumn::Name("kind".into());
        let rule = Rule { min_rows: 10, classes: None };
        let expected = Expected { label, ..Expected::default() };
        let draft = draft(&files.write(name, &bytes), &expected, &rule).unwrap().unwrap();
        let mut columns = draft.preparation.columns;
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        (columns, draft.classes)
    };
    let first = of("a.csv", csv(&table, style));
    assert_eq!(first.0.iter().filter(|column| column.kind == Kind::Ignored).count(), 1, "{first:?}");
    for (name, bytes) in [
        ("a.jsonl", json_lines(&table)),
        ("a.parquet", parquet(&table)),
        ("a.npz", npz(&table)),
        ("a.xlsx", xlsx(&[("Visits", &table)])),
    ] {
        assert_eq!(of(name, bytes), first, "{name}");
    }
}
