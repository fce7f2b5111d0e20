//! One table gives the same rows in every format.

use super::write::{Cell, Style, Table, Zone, csv, json_lines, npz, npz_features, parquet, xlsx};
use super::*;
use crate::prepare::{ColumnSpec, DateOrder, Fill, Kind, TableSchema};

/// Time zones; the table has a column for each.
const ZONES: [Zone; 5] =
    [("Asia/Tokyo", 540), ("America/Phoenix", -420), ("+05:30", 330), ("-03:30", -210), ("UTC", 0)];

/// Every kind of column; some fields are missing.
fn table() -> impl Strategy<Value = Table> {
    let number = prop_oneof![
        any::<i16>().prop_map(|x| Cell::Number(f64::from(x) / 8.0)),
        any::<f32>()
            .prop_filter("finite", |x| x.abs() < 1e9 && x.abs() > 1e-9)
            .prop_map(|x| Cell::Number(x.into())),
    ];
    let text = |words: &'static [&'static str]| {
        proptest::sample::select(words).prop_map(|word| Cell::Text(word.into())).boxed()
    };
    let mut columns: Vec<(&str, BoxedStrategy<Cell>)> = vec![
        ("dose", number.boxed()),
        ("count", any::<i32>().prop_map(|x| Cell::Whole(x.into())).boxed()),
        ("smokes", any::<bool>().prop_map(Cell::Truth).boxed()),
        ("male", any::<bool>().prop_map(Cell::Truth).boxed()),
        // Levels that mean a missing value in other columns, with signs that need quotes.
        ("stage", text(&["none", "I, early", "II \"late\"", "3"])),
        ("grade", (1..4i64).prop_map(Cell::Whole).boxed()),
        ("seen", (-20_000..40_000).prop_map(Cell::Day).boxed()),
        ("patient", (0..4i64).prop_map(Cell::Whole).boxed()),
        ("spelt", text(&["1", "2.5", "-3", "NA"])),
        ("empty", Just(Cell::Null).boxed()),
        ("outcome", text(&["none", "ill", "TRUE"])),
    ];
    for zone in ZONES {
        // Nanoseconds end in 2262.
        let moment = (1..40_000, 0..86_400).prop_map(move |(day, second)| Cell::Moment(day, second, zone));
        columns.insert(7, (zone.0, moment.boxed()));
    }
    (2..12usize).prop_flat_map(move |rows| {
        let cells: Vec<_> = columns
            .clone()
            .into_iter()
            .map(|(name, cell)| {
                let some = proptest::option::weighted(0.7, cell.clone());
                let some = some.prop_map(|cell| cell.unwrap_or(Cell::Null)).boxed();
                let cell = if ["outcome", "patient"].contains(&name) { cell } else { some };
                (Just(name.to_owned()), proptest::collection::vec(cell, rows))
            })
            .collect();
        cells
    })
}

fn schema(comma: bool) -> TableSchema {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let number = |name: &str| ColumnSpec {
        fill: Fill::Number(7.0),
        indicator: true,
        ..ColumnSpec::new(name, Kind::Number)
    };
    let category = |name: &str, levels: &[&str]| ColumnSpec {
        fill: Fill::NoLevel,
        ..ColumnSpec::new(name, Kind::Category(texts(levels)))
    };
    let date = |name: &str| ColumnSpec {
        fill: Fill::Number(0.0),
        ..ColumnSpec::new(name, Kind::Date(DateOrder::DayMonthYear))
    };
    let mut columns = vec![
        number("dose"),
        number("count"),
        category("smokes", &["TRUE", "FALSE"]),
        number("male"),
        category("stage", &["none", "I, early", "II \"late\"", "3"]),
        // pandas writes the whole numbers of a column with missing values in this way.
        category("grade", &["1.0", "2.0", "3.0"]),
        date("seen"),
        number("spelt"),
        number("empty"),
    ];
    columns.extend(ZONES.map(|zone| date(zone.0)));
    let missing = texts(&["NA", "none"]);
    TableSchema {
        decimal_comma: comma,
        missing,
        label: Some("outcome".into()),
        group: Some("patient".into()),
        columns,
        ..TableSchema::default()
    }
}

/// Computes the numbers of a row from the description, without a file.
fn plain(table: &Table, row: usize) -> Vec<f32> {
    let cell = |name: &str| &table.iter().find(|(other, _)| other == name).unwrap().1[row];
    let number = |name: &str| match cell(name) {
        Cell::Number(x) => [*x as f32, 0.0],
        Cell::Whole(x) => [*x as f32, 0.0],
        Cell::Truth(x) => [f32::from(u8::from(*x)), 0.0],
        Cell::Text(text) if text != "NA" => [text.parse().unwrap(), 0.0],
        _ => [7.0, 1.0],
    };
    let one_of = |name: &str, levels: &[Cell]| {
        levels.iter().map(|level| f32::from(u8::from(level == cell(name)))).collect::<Vec<_>>()
    };
    let mut out = [number("dose"), number("count")].concat();
    out.extend(one_of("smokes", &[Cell::Truth(true), Cell::Truth(false)]));
    out.extend(number("male"));
    out.extend(one_of(
        "stage",
        &["none", "I, early", "II \"late\"", "3"].map(|text| Cell::Text(text.into())),
    ));
    out.extend(one_of("grade", &[1, 2, 3].map(Cell::Whole)));
    let day = |name: &str| match cell(name) {
        Cell::Day(day) | Cell::Moment(day, ..) => *day as f32,
        _ => 0.0,
    };
    out.push(day("seen"));
    out.extend([number("spelt"), number("empty")].concat());
    out.extend(ZONES.map(|zone| day(zone.0)));
    out
}

const SPELT: [[&str; 2]; 3] = [["False", "True"], ["FALSE", "TRUE"], ["false", "true"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_described_table_gives_the_same_rows_in_every_format(
        table in table(), comma in any::<bool>(), truth in proptest::sample::select(&SPELT[..]),
    ) {
        let schema = schema(comma);
        let classes = ["ill", "none", "true"].map(String::from);
        let (preparation, of_file) = (Some(&schema), Some(&classes[..]));
        let expected = Expected { preparation, classes: of_file, ..Expected::default() };
        let (files, rows) = (Files::new(), table[0].1.len());
        let values: Vec<f32> = (0..rows).flat_map(|row| plain(&table, row)).collect();
        let class = |cell: &Cell| match cell {
            Cell::Text(text) => {
                classes.iter().position(|class| class.eq_ignore_ascii_case(text)).unwrap() as u16
            }
            _ => unreachable!(),
        };
        let labels: Vec<u16> = table.last().unwrap().1.iter().map(class).collect();
        let (_, patients) = table.iter().find(|(name, _)| name == "patient").unwrap();
        let group = |cell: &Cell| match cell {
            Cell::Whole(number) => Group::of(&number.to_string()),
            _ => unreachable!(),
        };
        let groups: Vec<Group> = patients.iter().map(group).collect();
        let style = |delimiter| Style { delimiter, comma, truth };
        // With a decimal comma, people would write numbers as texts with a comma too. So tables with such
        // texts are skipped.
        let spelt = !comma || table.iter().all(|(_, cells)| !cells.contains(&Cell::Text("2.5".into())));
        prop_assume!(spelt);
        for (name, bytes) in [
            ("a.csv", csv(&table, style(if comma { ';' } else { ',' }))),
            ("a.tsv", csv(&table, style('\t'))),
            ("a.jsonl", json_lines(&table)),
            ("a.parquet", parquet(&table)),
            ("a.npz", npz(&table)),
            ("a.xlsx", xlsx(&[("Visits", &table)])),
        ] {
            let loaded = load_named(&files.write(name, &bytes), &expected);
            let data = loaded.unwrap_or_else(|error| panic!("{name}: {error}")).data;
            prop_assert_eq!(data.values(), &values[..], "{}", name);
            prop_assert_eq!(data.labels(), &labels[..], "{}", name);
            prop_assert_eq!(data.groups(), Some(&groups[..]), "{}", name);
        }
    }

    #[test]
    fn a_table_of_numbers_gives_the_same_rows_in_every_format(
        table in table(), truth in proptest::sample::select(&SPELT[..]),
    ) {
        // Without a description, missing values are refused.
        let names = ["dose", "count", "male", "outcome"];
        let named = |(name, _): &(String, Vec<Cell>)| names.contains(&name.as_str());
        let mut table: Table = table.into_iter().filter(named).collect();
        let fills = [Cell::Number(0.5), Cell::Whole(3), Cell::Truth(true)];
        for ((_, cells), filled) in table.iter_mut().zip(fills) {
            cells.iter_mut().filter(|cell| **cell == Cell::Null).for_each(|cell| *cell = filled.clone());
        }
        let files = Files::new();
        let tabs = prepare::read::Dialect { delimiter: Some(b'\t'), decimal_comma: None };
        let style = |delimiter| Style { delimiter, comma: false, truth };
        let mut first: Option<Loaded> = None;
        for (name, bytes) in [
            ("a.csv", csv(&table, style(','))),
            ("a.tsv", csv(&table, style('\t'))),
            ("a.parquet", parquet(&table)),
            ("a.npz", npz_features(&table)),
            ("a.xlsx", xlsx(&[("Visits", &table)])),
        ] {
            let dialect = if name == "a.tsv" { tabs } else { prepare::read::Dialect::default() };
            let expected = Expected { dialect, ..Expected::default() };
            let loaded = load_named(&files.write(name, &bytes), &expected);
            let loaded = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
            let first = first.get_or_insert_with(|| loaded.clone());
            prop_assert_eq!(&loaded, &*first, "{}", name);
        }
        let whole = first.unwrap().data;
        let number = |cell: &Cell| match cell {
            Cell::Number(x) => *x as f32,
            Cell::Whole(x) => *x as f32,
            Cell::Truth(x) => f32::from(u8::from(*x)),
            _ => unreachable!(),
        };
        let row = |row| table[..3].iter().map(move |(_, cells)| number(&cells[row]));
        let values: Vec<f32> = (0..whole.rows()).flat_map(row).collect();
        prop_assert_eq!(whole.values(), &values[..]);
    }
}
